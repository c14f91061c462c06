"""A tool call is written once, whatever becomes of it; counted at the server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from ferrule import Client, Limits, Retry
from ferrule._protocol import refusals
from ferrule.errors import (
    AuthError,
    AuthStepUpError,
    ConnectError,
    ConnectionClosed,
    FerruleError,
    HTTPStatusError,
    InvalidMessage,
    LimitExceeded,
    RequestTimeout,
    RPCError,
    ServerExited,
    SessionExpired,
)
from tests.support import child as children
from tests.support.child import ScriptedChild
from tests.support.clients import Flavour
from tests.support.scripted import ScriptedServer
from tests.support.steps import (
    Script,
    answer,
    close,
    error,
    event,
    hang,
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
SMALL = Limits(max_message_bytes=10_000)
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
HALF_AN_EVENT = stream(event({"jsonrpc": "2.0", "id": 1})[:-9], end=False)

ENDS: dict[str, tuple[Script, type[FerruleError]]] = {
    "HTTP 500": (status(500, b"oops", content_type="text/plain"), HTTPStatusError),
    "HTTP 502": (status(502), HTTPStatusError),
    "HTTP 503 with Retry-After": (status(503, headers=[("Retry-After", "0")]), HTTPStatusError),
    "HTTP 429 with Retry-After": (status(429, headers=[("Retry-After", "0")]), HTTPStatusError),
    "a JSON-RPC error in a 503": (error(-32603, status=503), RPCError),
    "a reset": (reset(), ConnectionClosed),
    "a reset in the head": ([raw(JSON_HEAD), reset()], ConnectionClosed),
    "a reset after the head": ([raw(JSON_HEAD + b"Content-Length: 50\r\n\r\n"), reset()], ConnectionClosed),
    "a reset in the body": ([raw(JSON_HEAD + b"Content-Length: 50\r\n\r\n{"), reset()], ConnectionClosed),
    "a close": (close(), ConnectionClosed),
    "a stream without answer": (stream(), ConnectionClosed),
    "a stream that is cut": ([HALF_AN_EVENT, close()], ConnectionClosed),
    "a stream that is reset": ([HALF_AN_EVENT, reset()], ConnectionClosed),
    "half a body": ([raw(http(200, b"", [("Content-Length", "50")], length=False) + b"{"), close()], ConnectionClosed),
    "a body that is no JSON": (status(200, b"{", content_type="application/json"), InvalidMessage),
    "another id": (raw(http(200, b'{"jsonrpc":"2.0","id":-9,"result":{}}')), InvalidMessage),
    "no message": (status(200, b"[]", content_type="application/json"), InvalidMessage),
    "nothing": (status(202), InvalidMessage),
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


# --- what is never written again, for any method -------------------------------------------------

ANSWERS: dict[str, tuple[Script, type[FerruleError]]] = {
    "an oversized answer": (answer(text("x" * 20_000)), LimitExceeded),
    "no answer in time": (hang(), RequestTimeout),
    "a JSON-RPC error": (error(-32603), RPCError),
    "a JSON-RPC error in a 500": (error(-32603, status=500), RPCError),
    "HTTP 400": (status(400), HTTPStatusError),
    "HTTP 408": (status(408), HTTPStatusError),
    "HTTP 409": (status(409), HTTPStatusError),
    "HTTP 413": (status(413), HTTPStatusError),
    "HTTP 501": (status(501), HTTPStatusError),
    "HTTP 301": (status(301, headers=[("Location", "/mcp")]), HTTPStatusError),
    "HTTP 307 to another origin": (status(307, headers=[("Location", "http://127.0.0.1:1/mcp")]), HTTPStatusError),
    "HTTP 401": (status(401), AuthError),
    "HTTP 403": (status(403), HTTPStatusError),
    "a small scope": (
        status(403, headers=[("WWW-Authenticate", 'Bearer error="insufficient_scope"')]),
        AuthStepUpError,
    ),
    "refused headers": (error(-32020, status=400), RPCError),
    "a refused version that names none": (error(-32022, status=400), RPCError),
}


@both_eras
@pytest.mark.parametrize(("script", "kind"), ANSWERS.values(), ids=list(ANSWERS))
@pytest.mark.parametrize("method", ["tools/call", "tools/list"])
@pytest.mark.req("R1", "R2", "R4")
def test_an_answer_that_is_none_to_try_again_for_is_raised_at_once(
    flavour: Flavour, serve: Serve, script: Script, kind: type[FerruleError], era: str, method: str
) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url, timeout=20, retry=QUICKLY, limits=SMALL)
    client.list_tools()  # it has proved to be of this era
    server.rules[method] = turns(script, answer(text("again")))
    params = {"name": "echo", "arguments": {}} if method == "tools/call" else {}
    with pytest.raises(kind) as caught:
        client.request(method, params, idempotent=True, timeout=0.2 if kind is RequestTimeout else 20)
    assert caught.value.request_sent
    assert server.count(method) == (1 if method == "tools/call" else 2)
    assert client.call_tool("echo", {})


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.req("R2", "R3", "R4")
def test_when_the_session_expired_a_tool_call_is_written_again_only_if_it_may_run_twice(
    flavour: Flavour, serve: Serve, idempotent: bool
) -> None:
    server = serve({"tools/call": turns(status(404), answer(text("again")))}, era="handshake")
    client = flavour.connect(server.url, timeout=20, retry=QUICKLY)
    if idempotent:
        assert client.call_tool("echo", {}, idempotent=True).text == "again"
    else:
        with pytest.raises(SessionExpired) as caught:
            client.call_tool("echo", {})
        assert caught.value.request_sent
        assert server.count("tools/call") == 1
        assert client.call_tool("echo", {}).text == "again"
    assert (server.count("tools/call"), server.count("initialize")) == (2, 2)


@both_eras
@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.req("R2", "R3", "R4", "D4")
def test_when_the_child_exits_a_tool_call_is_written_again_only_if_it_may_run_twice(
    flavour: Flavour, child: Callable[..., ScriptedChild], era: str, idempotent: bool
) -> None:
    server = child({"tools/call": [[children.die(3)], [children.echo()]]}, era=era)
    client = flavour.connect(server.stdio(), timeout=20, retry=QUICKLY)
    if idempotent:
        assert client.call_tool("echo", {}, idempotent=True).text == "{}"
    else:
        with pytest.raises(ServerExited) as caught:
            client.call_tool("echo", {})
        assert caught.value.request_sent
        assert server.count("tools/call") == 1
        assert client.call_tool("echo", {}).text == "{}"
    assert server.count("tools/call") == 2


@both_eras
@every_end
@pytest.mark.parametrize("attempts", [1, 2, 3])
@pytest.mark.req("R1", "R3", "R4")
def test_a_tool_call_that_may_run_twice_arrives_as_often_as_attempts_says_at_most(
    flavour: Flavour, serve: Serve, script: Script, kind: type[FerruleError], era: str, attempts: int
) -> None:
    server = serve({"tools/call": script}, era=era)
    client = flavour.connect(server.url, timeout=20, retry=Retry(attempts, 0, 0))
    with pytest.raises(kind) as caught:
        client.call_tool("echo", {}, idempotent=True)
    assert server.count("tools/call") == (1 if kind is RPCError else attempts)
    ids = [request.message["id"] for request in server.calls()]
    assert len(set(ids)) == len(ids)
    assert len(chain(caught.value)) == len(ids)


def chain(error: BaseException | None) -> list[FerruleError]:
    """The errors of all attempts, the last first."""
    found: list[FerruleError] = []
    while error is not None:
        if isinstance(error, FerruleError):
            found.append(error)
        error = error.__cause__
    return found


# --- what proves that nothing was executed -------------------------------------------------------


@both_eras
@pytest.mark.parametrize("code", sorted(refusals.STATUSES))
@pytest.mark.req("R2", "W19")
def test_a_tool_call_goes_where_a_redirect_within_the_origin_leads(
    flavour: Flavour, serve: Serve, era: str, code: int
) -> None:
    server = serve({"tools/call": turns(status(code, headers=[("Location", "/mcp/")]), answer(text("done")))}, era=era)
    client = flavour.connect(server.url, timeout=20, retry=Retry(1))
    assert client.call_tool("echo", {}).text == "done"
    assert [request.target for request in server.calls()] == ["/mcp", "/mcp/"]


@pytest.mark.parametrize("code", sorted(refusals.STATUSES))
@pytest.mark.req("R2", "W19")
def test_redirects_without_end_are_not_followed_without_end(flavour: Flavour, serve: Serve, code: int) -> None:
    server = serve({"tools/call": status(code, headers=[("Location", "/mcp")])})
    client = flavour.connect(server.url, timeout=20, retry=QUICKLY)
    with pytest.raises(LimitExceeded):
        client.call_tool("echo", {}, idempotent=True)
    assert server.count("tools/call") == 1 + Limits().max_redirects


@pytest.mark.parametrize("protocol", ["auto", "2026-07-28"])
@pytest.mark.req("R2", "N2")
def test_a_tool_call_whose_version_was_refused_is_written_once_more_and_no_oftener(
    flavour: Flavour, serve: Serve, protocol: str
) -> None:
    refused = error(-32022, data={"supported": ["2026-07-28"], "requested": "2026-07-28"}, status=400)
    server = serve({"tools/call": turns(refused, answer(text("done")), refused)})
    client = flavour.connect(server.url, timeout=20, retry=Retry(1), protocol=protocol)
    assert client.call_tool("echo", {}).text == "done"
    assert server.count("tools/call") == 2
    with pytest.raises(RPCError) as caught:
        client.call_tool("echo", {})
    assert caught.value.code in refusals.CODES
    assert server.count("tools/call") == 4


@pytest.mark.parametrize("protocol", ["auto", "2026-07-28"])
@pytest.mark.req("R2", "E6")
def test_a_tool_call_whose_headers_were_refused_is_written_once_more_and_no_oftener(
    flavour: Flavour, serve: Serve, protocol: str
) -> None:
    refused = error(-32020, status=400)
    server = serve({"tools/call": turns(refused, answer(text("done")), refused)})
    client = flavour.connect(server.url, timeout=20, retry=Retry(1), protocol=protocol)
    assert client.call_tool("echo", {}).text == "done"
    assert server.count("tools/call") == 2
    with pytest.raises(RPCError) as caught:
        client.call_tool("echo", {}, idempotent=True)
    assert caught.value.code == refusals.HEADERS
    assert server.count("tools/call") == 4


@pytest.mark.req("R2", "E6", "N2")
def test_each_cause_lets_a_tool_call_be_written_once_more(flavour: Flavour, serve: Serve) -> None:
    headers = error(-32020, status=400)
    version = error(-32022, data={"supported": ["2026-07-28"], "requested": "2026-07-28"}, status=400)
    server = serve({"tools/call": turns(version, headers, answer(text("done")))})
    client = flavour.connect(server.url, timeout=20, retry=Retry(1))
    assert client.call_tool("echo", {}).text == "done"
    assert server.count("tools/call") == 3


@pytest.mark.req("R2", "E6", "N5")
def test_refused_headers_leave_a_verdict_that_came_from_elsewhere_as_it_is(flavour: Flavour, serve: Serve) -> None:
    server = serve({"tools/call": turns(error(-32020, status=400), answer(text("done")))})
    prior = {"era": "stateless", "revision": "2026-07-28"}
    client = flavour.connect(server.url, timeout=20, retry=Retry(1), prior=prior)
    assert client.call_tool("echo", {}).text == "done"
    assert [server.count(method) for method in ("tools/call", "server/discover")] == [2, 0]


@pytest.mark.req("R2")
def test_there_are_these_proofs_and_no_others() -> None:
    assert sorted(refusals.STATUSES) == [307, 308]
    assert sorted(refusals.CODES) == [-32022, -32020]


# --- how long it waits ---------------------------------------------------------------------------


def naps_of(client: Any) -> list[float]:
    """From now on the client's pauses are noted and take no time."""
    naps: list[float] = []

    async def sleep(seconds: float) -> None:
        naps.append(seconds)

    client._session.peer.io.sleep = sleep
    return naps


@pytest.mark.req("R1")
def test_waits_double_and_are_spread(flavour: Flavour, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve({"tools/list": status(503)})
    client = flavour.connect(server.url, timeout=None, retry=Retry(6, 0.5, 4.0))
    naps = naps_of(client)
    chances = iter([0.0, 1.0, 0.5, 0.0, 1.0])
    monkeypatch.setattr("random.random", lambda: next(chances))
    with pytest.raises(HTTPStatusError):
        client.list_tools()
    assert naps == [0.25, 1.0, 1.5, 2.0, 4.0]
    assert server.count("tools/list") == 6


@pytest.mark.parametrize(
    ("code", "header", "expected"),
    [(503, "7", 7.0), (429, "7", 7.0), (503, "100000", 60.0), (503, "0", 0.25), (503, "soon", 0.25)],
)
@pytest.mark.req("R1")
def test_a_server_that_names_the_wait_gets_it_up_to_a_cap(
    flavour: Flavour, serve: Serve, monkeypatch: pytest.MonkeyPatch, code: int, header: str, expected: float
) -> None:
    server = serve({"tools/list": status(code, headers=[("Retry-After", header)])})
    client = flavour.connect(server.url, timeout=None, retry=Retry(2, 0.5, 4.0))
    naps = naps_of(client)
    monkeypatch.setattr("random.random", lambda: 0.0)
    with pytest.raises(HTTPStatusError):
        client.list_tools()
    assert naps == [expected]


@pytest.mark.parametrize("header", [None, "30"])
@pytest.mark.req("R1", "T1")
def test_a_wait_that_would_pass_the_deadline_is_not_begun(flavour: Flavour, serve: Serve, header: str | None) -> None:
    server = serve({"tools/list": status(503, headers=[("Retry-After", header)] if header else [])})
    client = flavour.connect(server.url, retry=Retry(3, 0.0 if header else 60.0, 60.0))
    naps = naps_of(client)
    with pytest.raises(HTTPStatusError):
        client.list_tools(timeout=20)
    assert naps == []
    assert server.count("tools/list") == 1


# --- connecting ----------------------------------------------------------------------------------


@pytest.mark.req("R1", "R4")
def test_the_errors_of_a_negotiation_that_was_tried_again_are_chained(flavour: Flavour, serve: Serve) -> None:
    server = serve({"server/discover": turns(reset(), status(502), status(503))})
    client = flavour.client(server.url, timeout=20, retry=QUICKLY)
    with pytest.raises(HTTPStatusError) as caught:
        client.connect()
    last, middle, first = chain(caught.value)
    assert isinstance(last, HTTPStatusError) and last.status == 503
    assert isinstance(middle, HTTPStatusError) and middle.status == 502
    assert isinstance(first, ConnectionClosed)
    ids = [request.message["id"] for request in server.calls("server/discover")]
    assert len(set(ids)) == 3


@pytest.mark.req("R1", "R4")
def test_a_negotiation_that_runs_out_of_time_says_what_had_gone_wrong_before(serve: Serve) -> None:
    # With asyncio it is the caller's own wait that ends; what goes on in the negotiation is not known there.
    server = serve({"server/discover": turns(status(502), hang())})
    client = Client(server.url, timeout=0.5, retry=QUICKLY)
    with closing(client), pytest.raises(RequestTimeout) as caught:
        client.connect()
    assert [type(one) for one in chain(caught.value)] == [RequestTimeout, HTTPStatusError]
    assert server.count("server/discover") == 2
