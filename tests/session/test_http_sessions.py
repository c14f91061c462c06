"""The session of the handshake era over HTTP: its id on every message, and its end."""

import time
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import SessionExpired
from tests.support.steps import (
    answer,
    close,
    hang,
    initialized,
    reset,
    result,
    status,
    stream,
    turns,
)
from tests.support.texts import logged

FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)


@pytest.mark.req("S1")
def test_the_session_id_of_initialize_is_on_every_later_message(flavour: Any, serve: Any) -> None:
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
    server = serve({"tools/call": stream(ping, result())}, era="handshake", session="s-!~0")
    client = flavour.connect(server.url)
    client.call_tool("echo", {})
    server.wait_until(lambda: server.count("reply") == 1)
    client.list_tools()
    assert client.session_id == "s-!~0"
    client.close()
    assert server.methods[-1] == "DELETE"
    ids = {request.method: request.header("Mcp-Session-Id") for request in server.requests}
    assert (ids.pop("server/discover"), ids.pop("initialize")) == (None, None)
    assert set(ids.values()) == {"s-!~0"}
    assert "s-!~0" not in repr(client)


@pytest.mark.req("S1")
@pytest.mark.parametrize("session", ["", "two words", "ümlaut", "x" * 4097, "a\tb", None])
def test_a_session_id_that_is_none_is_not_used_and_the_server_works_without(
    flavour: Any, serve: Any, session: str | None
) -> None:
    headers = [] if session is None else [("Mcp-Session-Id", session)]
    server = serve({"initialize": answer(initialized(), headers=headers)}, era="handshake")
    with logged() as lines:
        client = flavour.connect(server.url)
    assert client.session_id is None
    assert client.call_tool("echo", {}).text == "{}"
    client.close()
    assert {request.header("Mcp-Session-Id") for request in server.requests} == {None}
    assert "DELETE" not in server.methods
    warnings = [line for line in lines if line.startswith("WARNING") and "session id" in line]
    assert len(warnings) == (session is not None)
    assert not session or session not in "\n".join(lines)


@pytest.mark.req("S1")
def test_a_session_id_of_4096_characters_is_used(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake", session="x" * 4096)
    client = flavour.connect(server.url)
    client.ping()
    assert server.requests[-1].header("Mcp-Session-Id") == "x" * 4096


@pytest.mark.req("S3")
@pytest.mark.parametrize("said", [200, 202, 204, 400, 404, 405, 500])
def test_close_deletes_the_session_and_takes_any_answer(flavour: Any, serve: Any, said: int) -> None:
    server = serve({"DELETE": status(said)}, era="handshake", session="s-1")
    client = flavour.connect(server.url, headers={"X-Tenant": "a"})
    client.close()
    client.close()
    assert server.methods.count("DELETE") == 1
    delete = server.requests[-1]
    assert (delete.verb, delete.body) == ("DELETE", b"")
    assert delete.header("Mcp-Session-Id") == "s-1"
    assert delete.header("MCP-Protocol-Version") == "2025-11-25"
    assert delete.header("X-Tenant") == "a"
    assert delete.header("Content-Length") is None
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("S3", "T7")
@pytest.mark.parametrize("step", [hang(), close(), reset(), [stream(end=False), hang()]])
def test_close_is_bounded_when_the_server_never_answers_delete(flavour: Any, serve: Any, step: Any) -> None:
    server = serve({"DELETE": step}, era="handshake")
    client = flavour.connect(server.url, limits=Limits(close_timeout=0.3))
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 2
    assert server.count("DELETE") == 1
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("S3")
def test_every_view_has_a_session_of_its_own_and_each_is_deleted(flavour: Any, serve: Any) -> None:
    count = iter(range(100))

    def begin(turn: Any) -> None:
        answer(initialized(), headers=[("Mcp-Session-Id", f"s-{next(count)}")])(turn)

    server = serve({"initialize": begin}, era="handshake")
    client = flavour.connect(server.url)
    view = client.with_options(headers={"X-User": "b"})
    view.call_tool("echo", {})
    client.call_tool("echo", {})
    assert [call.header("Mcp-Session-Id") for call in server.calls()] == ["s-1", "s-0"]
    client.close()
    deleted = {call.header("Mcp-Session-Id"): call.header("X-User") for call in server.calls("DELETE")}
    assert deleted == {"s-0": None, "s-1": "b"}


@pytest.mark.req("S1", "R4")
def test_a_session_that_is_gone_is_begun_anew_once_and_never_in_a_loop(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": status(404)}, era="handshake")
    client = flavour.connect(server.url, retry=FAST)
    with pytest.raises(SessionExpired) as caught:
        client.list_tools()
    assert caught.value.request_sent is True
    assert server.methods[3:] == ["tools/list", "initialize", "notifications/initialized", "tools/list"]
    server.rules["tools/list"] = answer({"tools": []})
    assert client.list_tools() == []
    assert server.count("initialize") == 3


@pytest.mark.req("S1", "R4")
@pytest.mark.parametrize("first", ["tools/call", "notifications/x"])
def test_the_next_call_after_a_lost_session_works(flavour: Any, serve: Any, first: str) -> None:
    server = serve({first: turns(status(404), answer())}, era="handshake")
    client = flavour.connect(server.url)
    with pytest.raises(SessionExpired) as caught:
        client.call_tool("echo", {}) if first == "tools/call" else client.notify(first)
    assert caught.value.request_sent is True
    assert client.call_tool("echo", {}).content
    assert server.count("initialize") == 2
