"""A tool call is written once, whatever becomes of it; counted at the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import (
    ConnectError,
    ConnectionClosed,
    FerruleError,
    HTTPStatusError,
    InvalidMessage,
    RPCError,
)
from tests.support.clients import Flavour
from tests.support.scripted import ScriptedServer
from tests.support.steps import (
    Script,
    answer,
    close,
    error,
    http,
    raw,
    reset,
    status,
    stream,
    text,
    turns,
)

Serve = Callable[..., ScriptedServer]
QUICKLY = Retry(attempts=3, backoff=0.01, max_backoff=0.02)

ENDS: dict[str, tuple[Script, type[FerruleError]]] = {
    "HTTP 500": (status(500, b"oops", content_type="text/plain"), HTTPStatusError),
    "HTTP 502": (status(502), HTTPStatusError),
    "HTTP 503 with Retry-After": (status(503, headers=[("Retry-After", "0")]), HTTPStatusError),
    "HTTP 429 with Retry-After": (status(429, headers=[("Retry-After", "0")]), HTTPStatusError),
    "a JSON-RPC error in a 503": (error(-32603, status=503), RPCError),
    "a reset": (reset(), ConnectionClosed),
    "a close": (close(), ConnectionClosed),
    "a stream without answer": (stream(), ConnectionClosed),
    "half a body": ([raw(http(200, b"", [("Content-Length", "50")], length=False) + b"{"), close()], ConnectionClosed),
    "a body that is no JSON": (status(200, b"{", content_type="application/json"), InvalidMessage),
    "another id": (raw(http(200, b'{"jsonrpc":"2.0","id":-9,"result":{}}')), InvalidMessage),
    "a bad chunk": (raw(http(200, b"zz\r\n", [("Transfer-Encoding", "chunked")], length=False)), InvalidMessage),
}
every_end = pytest.mark.parametrize(("script", "kind"), ENDS.values(), ids=list(ENDS))
both_eras = pytest.mark.parametrize("era", ["stateless", "handshake"])


def ways_to_call(client: Any) -> dict[str, Callable[[], object]]:
    return {
        "call_tool": lambda: client.call_tool("echo", {}),
        "request": lambda: client.request("tools/call", {"name": "echo", "arguments": {}}),
    }


@both_eras
@every_end
@pytest.mark.parametrize("way", ["call_tool", "request"])
@pytest.mark.req("R2", "R4", "W16")
def test_a_tool_call_that_may_have_run_is_not_written_again(
    flavour: Flavour, serve: Serve, script: Script, kind: type[FerruleError], era: str, way: str
) -> None:
    server = serve({"tools/call": turns(script, answer(text("again")))}, era=era)
    client = flavour.connect(server.url, timeout=20, retry=QUICKLY)
    with pytest.raises(kind) as caught:
        ways_to_call(client)[way]()
    assert caught.value.request_sent
    assert server.count("tools/call") == 1
    client.list_tools()  # and the next call works


@pytest.mark.parametrize("name", ["HTTP 503 with Retry-After", "a reset", "a stream without answer", "another id"])
@pytest.mark.req("R1", "R2")
def test_a_tool_call_that_may_run_twice_is_written_again(flavour: Flavour, serve: Serve, name: str) -> None:
    server = serve({"tools/call": turns(ENDS[name][0], answer(text("again")))})
    client = flavour.connect(server.url, timeout=20, retry=QUICKLY)
    assert client.call_tool("echo", {}, idempotent=True).text == "again"
    assert server.count("tools/call") == 2


@every_end
@pytest.mark.req("R1")
def test_a_list_is_asked_for_again_unless_the_server_said_no(
    flavour: Flavour, serve: Serve, script: Script, kind: type[FerruleError]
) -> None:
    ordinary = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
    server = serve({"tools/list": turns(script, answer(ordinary))})
    client = flavour.connect(server.url, timeout=20, retry=QUICKLY)
    if kind is RPCError:
        with pytest.raises(RPCError):
            client.list_tools()
    else:
        assert client.list_tools() == []
    ids = [request.message["id"] for request in server.calls("tools/list")]
    assert len(ids) == (1 if kind is RPCError else 2)
    assert len(set(ids)) == len(ids)


@pytest.mark.req("R1", "R4")
def test_the_last_error_is_raised_and_knows_that_an_earlier_attempt_was_sent(flavour: Flavour, serve: Serve) -> None:
    server = serve()
    client = flavour.connect(server.url, timeout=20, retry=QUICKLY)

    def close_for_good(turn: Any) -> None:
        server.stop_listening()
        turn.reset()

    server.rules["tools/list"] = close_for_good
    with pytest.raises(ConnectError) as caught:
        client.list_tools()
    assert caught.value.request_sent
    assert server.count("tools/list") == 1


@pytest.mark.req("R4")
def test_a_server_that_cannot_be_reached_was_sent_nothing(flavour: Flavour) -> None:
    with ScriptedServer() as server:
        url = server.url
    client = flavour.client(url, timeout=20, retry=QUICKLY)
    with pytest.raises(ConnectError) as caught:
        client.call_tool("echo", {})
    assert not caught.value.request_sent


@pytest.mark.req("R1")
def test_retries_stop_at_the_number_of_attempts(flavour: Flavour, serve: Serve) -> None:
    server = serve({"tools/list": status(503)})
    client = flavour.connect(server.url, timeout=20, retry=QUICKLY)
    with pytest.raises(HTTPStatusError):
        client.list_tools()
    assert server.count("tools/list") == 3
