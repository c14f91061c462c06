"""The least severe log message: asked of a handshake server, written into the envelope for a stateless one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ferrule.errors import CapabilityError, ConfigError, RPCError
from tests.support import child as on_stdio
from tests.support.pushes import Sessions, opened, opening
from tests.support.steps import answer, error

KEY = "io.modelcontextprotocol/logLevel"


@pytest.mark.req("S8")
def test_a_handshake_server_is_asked_and_a_session_that_replaces_the_first_as_well(flavour: Any, serve: Any) -> None:
    sessions = Sessions()
    server = serve(
        {
            "initialize": opening(sessions=sessions),
            "logging/setLevel": answer({}),
            "tools/list": sessions.guard(answer({"tools": []})),
        },
        era="handshake",
    )
    client = flavour.connect(server.url)
    client.set_log_level("info")
    client.set_log_level("warning")
    sessions.end()
    client.list_tools()
    asked = [(call.header("mcp-session-id"), call.params) for call in server.calls("logging/setLevel")]
    assert asked == [
        ("session-1", {"level": "info"}),
        ("session-1", {"level": "warning"}),
        ("session-2", {"level": "warning"}),
    ]
    # Before any call goes on in the new session.
    assert server.methods[-2:] == ["logging/setLevel", "tools/list"]


@pytest.mark.req("S8")
def test_a_child_that_was_started_again_is_asked_again(flavour: Any, child: Any, tmp_path: Path) -> None:
    server = child(
        {
            "initialize": [opened()],
            "logging/setLevel": [[on_stdio.answer({})]],
            "tools/call": [[on_stdio.die()], [on_stdio.echo()]],
        },
        era="handshake",
    )
    client = flavour.connect(server.stdio())
    client.set_log_level("error")
    with pytest.raises(Exception, match="exited"):
        client.call_tool("echo", {})
    client.call_tool("echo", {})
    assert [call["params"]["level"] for call in server.calls("logging/setLevel")] == ["error", "error"]


@pytest.mark.req("E1")
def test_a_stateless_server_is_told_in_each_later_request(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url, log_level="debug")
    other = client.with_options(headers={"X-User": "a"})
    client.call_tool("echo", {})
    client.set_log_level("error")
    client.call_tool("echo", {})
    other.call_tool("echo", {})
    assert [call.meta.get(KEY) for call in server.calls()] == ["debug", "error", "debug"]
    assert server.count("logging/setLevel") == 0


@pytest.mark.req("N12")
def test_a_server_that_does_not_log_is_not_asked(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    with pytest.raises(CapabilityError, match="logging"):
        flavour.connect(server.url).set_log_level("info")
    assert server.count("logging/setLevel") == 0


def test_a_level_that_does_not_exist_is_refused_here_and_a_refusal_there_is_an_rpc_error(
    flavour: Any, serve: Any
) -> None:
    sessions = Sessions()
    rules = {"initialize": opening(sessions=sessions), "logging/setLevel": error(-32602)}
    server = serve({**rules, "tools/list": sessions.guard(answer({"tools": []}))}, era="handshake")
    client = flavour.connect(server.url)
    for level in ("loud", "", 7, None, "INFO"):
        with pytest.raises(ConfigError, match="log level"):
            client.set_log_level(level)
    assert server.count("logging/setLevel") == 0
    with pytest.raises(RPCError):
        client.set_log_level("info")
    sessions.end()
    client.list_tools()
    assert server.count("logging/setLevel") == 1  # what was refused is not asked again
