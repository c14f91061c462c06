"""A call whose stream ends before its answer: fetched by GET, never asked for by a second POST."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import ConnectionClosed, HTTPStatusError, RequestTimeout, SessionExpired
from tests.support.steps import (
    LAST_CHUNK,
    answer,
    close,
    event,
    hang,
    more,
    progress,
    raw,
    reset,
    result,
    status,
    stream,
    text,
    turns,
    wait,
)
from tests.support.texts import logged

FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)


def primed(id: str, retry: int | None = 20) -> bytes:
    """An event that only names its place in the stream."""
    return event(b"", id=id, retry=retry)


class Answers:
    """GET scripts that bring the answer to the last `tools/call`, whatever its id."""

    def __init__(self, serve: Any, method: str = "tools/call", **rules: Any) -> None:
        self.server = serve(rules.pop("rules", {}), era="handshake", **rules)
        self.method = method

    def __call__(self, turn: Any) -> None:
        call = self.server.calls(self.method)[-1]
        stream(event({"jsonrpc": "2.0", "id": call.message["id"], "result": text("found")}, id="z"))(turn)


def last_ids(server: Any) -> list[str | None]:
    return [get.header("Last-Event-ID") for get in server.calls("GET")]


def until_resumable(client: Any, id: int) -> None:
    """Wait until the client knows a place in the stream of that call."""
    limit = time.monotonic() + 10
    while client._session.link.awaited._find(id) is None:
        assert time.monotonic() < limit
        time.sleep(0.002)


@pytest.mark.req("S5")
@pytest.mark.parametrize(
    "ending", [raw(LAST_CHUNK), close(), reset()], ids=["a clean end", "a closed connection", "a reset"]
)
def test_a_stream_that_ends_without_the_answer_is_resumed_and_nothing_is_posted_again(
    flavour: Any, serve: Any, ending: Any
) -> None:
    answers = Answers(serve, session="s-1")
    server = answers.server
    server.rules["tools/call"] = [stream(primed("e-1"), end=False), ending]
    server.rules["GET"] = answers
    client = flavour.connect(server.url, headers={"X-Tenant": "a"}, auth="token")
    assert client.call_tool("echo", {}).text == "found"
    [get] = server.calls("GET")
    assert get.header("Last-Event-ID") == "e-1"
    assert get.header("Accept") == "text/event-stream"
    assert get.header("Mcp-Session-Id") == "s-1"
    assert get.header("MCP-Protocol-Version") == "2025-11-25"
    assert (get.header("X-Tenant"), get.header("Authorization")) == ("a", "Bearer token")
    assert get.header("Content-Type") is None
    assert server.count("tools/call") == 1


@pytest.mark.req("S5")
def test_each_stream_goes_on_from_its_own_last_event_until_the_answer_comes(flavour: Any, serve: Any) -> None:
    answers = Answers(serve)
    server = answers.server
    server.rules["tools/call"] = stream(primed("a-1"), primed("a-2"))
    server.rules["GET"] = turns(stream(primed("a-3")), stream(), reset(), status(503), answers)
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}).text == "found"
    assert last_ids(server) == ["a-2", "a-3", "a-3", "a-3", "a-3"]
    assert server.count("tools/call") == 1


@pytest.mark.req("S5")
@pytest.mark.parametrize("retry", [0, 150, 600])
def test_the_stream_is_resumed_after_its_retry_counted_from_the_close(flavour: Any, serve: Any, retry: int) -> None:
    answers = Answers(serve)
    server = answers.server
    times: list[float] = []

    def ending(turn: Any) -> None:
        times.append(time.monotonic())
        turn.send(LAST_CHUNK)

    def resumed(turn: Any) -> None:
        times.append(time.monotonic())
        answers(turn)

    server.rules["tools/call"] = [stream(primed("e-1", retry), end=False), ending]
    server.rules["GET"] = resumed
    client = flavour.connect(server.url)
    client.call_tool("echo", {})
    closed, again = times
    assert max(0.01, retry / 1000) <= again - closed + 0.002
    assert again - closed <= retry / 1000 + 0.2 + 1.0  # the second is a busy machine's own


@pytest.mark.req("S5")
def test_the_wait_of_one_stream_is_nothing_to_another_call(flavour: Any, serve: Any) -> None:
    answers = Answers(serve)
    server = answers.server
    server.rules["tools/call"] = turns(stream(primed("slow", 60_000)), stream(primed("quick", 10)))
    server.rules["GET"] = answers
    client = flavour.connect(server.url)
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", {}, timeout=0.3)
    assert client.call_tool("echo", {}).text == "found"
    assert last_ids(server) == ["quick"]


@pytest.mark.req("S5", "T2", "T3")
def test_the_deadline_ends_the_wait_and_the_server_is_told_once(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": stream(primed("e-1", 5_000))}, era="handshake")
    client = flavour.connect(server.url)
    began = time.monotonic()
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.2)
    assert time.monotonic() - began < 2
    assert caught.value.request_sent is True
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    [cancelled] = server.calls("notifications/cancelled")
    assert cancelled.params["requestId"] == server.calls()[0].message["id"]
    assert server.count("GET") == 0
    server.rules["tools/call"] = answer()
    assert client.call_tool("echo", {}).text == "ok"


@pytest.mark.req("S5", "T2")
def test_a_resumed_stream_that_stays_silent_is_closed_after_the_server_was_told(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": stream(primed("e-1")), "GET": [stream(end=False), hang()]}, era="handshake")
    client = flavour.connect(server.url)
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", {}, timeout=0.3)
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    client.close()
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("S6")
@pytest.mark.parametrize("bad", ["x" * 1025, "naïve", "a\tb", " edge "], ids=["long", "non-ascii", "control", "edges"])
def test_an_event_id_that_no_header_carries_is_passed_over(flavour: Any, serve: Any, bad: str) -> None:
    answers = Answers(serve)
    server = answers.server
    server.rules["tools/call"] = stream(primed("good"), primed(bad))
    server.rules["GET"] = answers
    client = flavour.connect(server.url)
    with logged() as lines:
        assert client.call_tool("echo", {}).text == "found"
    assert last_ids(server) == ["good"]
    assert bad not in "\n".join(lines)


@pytest.mark.req("S6")
def test_an_event_id_of_1024_printable_characters_is_sent_back(flavour: Any, serve: Any) -> None:
    answers = Answers(serve)
    server = answers.server
    longest = "a ~!" * 255 + "wxyz"
    server.rules["tools/call"] = stream(primed(longest))
    server.rules["GET"] = answers
    client = flavour.connect(server.url)
    client.call_tool("echo", {})
    assert last_ids(server) == [longest]


@pytest.mark.req("S7", "R2")
@pytest.mark.parametrize(
    "events",
    [[], [event(b"", retry=10)], [primed("x" * 2000)], [primed("e-1"), event(b"", id="")]],
    ids=["no event", "a retry alone", "an unusable id", "an id that was taken back"],
)
def test_without_an_event_id_a_tool_call_fails_as_possibly_executed(flavour: Any, serve: Any, events: Any) -> None:
    server = serve({"tools/call": stream(*events)}, era="handshake")
    client = flavour.connect(server.url, retry=FAST)
    with pytest.raises(ConnectionClosed) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert (server.count("tools/call"), server.count("GET")) == (1, 0)


@pytest.mark.req("S7", "R1")
def test_without_an_event_id_an_idempotent_request_is_sent_again(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": turns(stream(), answer({"tools": []}))}, era="handshake")
    client = flavour.connect(server.url, retry=FAST)
    assert client.list_tools() == []
    assert server.count("tools/list") == 2


@pytest.mark.req("S5")
@pytest.mark.parametrize("said", [400, 405, 406, 501])
def test_a_server_that_does_not_resume_leaves_the_call_as_possibly_executed(
    flavour: Any, serve: Any, said: int
) -> None:
    server = serve({"tools/call": stream(primed("e-1")), "GET": status(said)}, era="handshake")
    client = flavour.connect(server.url, retry=FAST)
    with pytest.raises(ConnectionClosed, match=f"HTTP {said}") as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert (server.count("tools/call"), server.count("GET")) == (1, 1)


@pytest.mark.req("S2", "S5")
def test_a_session_that_is_gone_meanwhile_is_said_and_the_next_call_works(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": turns(stream(primed("e-1")), answer()), "GET": status(404)}, era="handshake")
    client = flavour.connect(server.url)
    with pytest.raises(SessionExpired) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert client.call_tool("echo", {}).text == "ok"
    assert server.count("initialize") == 2


@pytest.mark.req("S5")
def test_progress_and_requests_of_the_server_go_on_over_the_resumed_stream(flavour: Any, serve: Any) -> None:
    answers = Answers(serve)
    server = answers.server

    def token(value: float) -> Callable[[Any], Any]:
        def item(request: Any) -> Any:
            params = {"progressToken": server.calls()[-1].meta["progressToken"], "progress": value}
            return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

        return item

    ping = event({"jsonrpc": "2.0", "id": "p", "method": "ping"})

    def finish(turn: Any) -> None:
        server.wait_until(lambda: server.count("reply") == 1)
        found = {"jsonrpc": "2.0", "id": server.calls()[-1].message["id"], "result": text("found")}
        more(token(3), event(found))(turn)
        turn.send(LAST_CHUNK)

    server.rules["tools/call"] = stream(primed("e-1"), progress(1))
    server.rules["GET"] = [stream(token(2), ping, end=False), finish]
    client = flavour.connect(server.url)
    seen: list[float] = []
    assert client.call_tool("echo", {}, on_progress=lambda *step: seen.append(step[0])).text == "found"
    assert seen == [1, 2, 3]
    assert server.calls("reply")[0].message == {"jsonrpc": "2.0", "id": "p", "result": {}}


@pytest.mark.req("S5")
def test_the_answer_may_come_on_the_stream_of_another_call(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    both = threading.Event()

    def other(turn: Any) -> None:
        server.wait_until(lambda: server.count("GET") == 1)
        lost = server.calls()[0].message["id"]
        stream(event({"jsonrpc": "2.0", "id": str(lost), "result": text("elsewhere")}), result(), end=True)(turn)
        both.set()

    server.rules["tools/call"] = turns(stream(primed("e-1", 10)), other)
    server.rules["GET"] = [stream(end=False), hang()]
    client = flavour.connect(server.url)
    first = flavour.start(client.call_tool, "echo", {})
    server.wait_until(lambda: server.count("GET") == 1)
    assert client.call_tool("echo", {}).text == "ok"
    assert first.result().text == "elsewhere"
    assert both.wait(10)


@pytest.mark.req("S5")
def test_the_answer_may_come_elsewhere_while_the_call_waits_to_resume(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")

    def other(turn: Any) -> None:
        lost = server.calls()[0].message["id"]
        stream(event({"jsonrpc": "2.0", "id": lost, "result": text("elsewhere")}), result())(turn)

    server.rules["tools/call"] = turns(stream(primed("e-1", 60_000)), other)
    client = flavour.connect(server.url)
    first = flavour.start(client.call_tool, "echo", {})
    server.wait_until(lambda: server.count("tools/call") == 1)
    until_resumable(client, server.calls()[0].message["id"])
    client.call_tool("echo", {})
    assert first.result(timeout=10).text == "elsewhere"
    assert server.count("GET") == 0


@pytest.mark.req("S5", "T7")
def test_closing_ends_a_call_that_waits_to_resume(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": stream(primed("e-1", 60_000))}, era="handshake")
    client = flavour.connect(server.url)
    call = flavour.start(client.call_tool, "echo", {}, timeout=None)
    server.wait_until(lambda: server.count("tools/call") == 1)
    client.close()
    error = call.outcome()
    assert isinstance(error, ConnectionClosed)
    assert error.request_sent is True


@pytest.mark.req("S5", "W19")
def test_a_redirect_of_the_resumed_stream_is_followed_within_the_origin(flavour: Any, serve: Any) -> None:
    answers = Answers(serve)
    server = answers.server
    server.rules["tools/call"] = stream(primed("e-1"))
    server.rules["GET"] = turns(status(307, headers=[("Location", "/mcp/")]), answers)
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}).text == "found"
    assert [get.target for get in server.calls("GET")] == ["/mcp", "/mcp/"]


@pytest.mark.req("S5", "W19")
def test_a_redirect_of_the_resumed_stream_to_elsewhere_is_refused(flavour: Any, serve: Any) -> None:
    elsewhere = serve(era="handshake")
    server = serve(
        {"tools/call": stream(primed("e-1")), "GET": status(307, headers=[("Location", elsewhere.url)])},
        era="handshake",
    )
    client = flavour.connect(server.url)
    with pytest.raises(HTTPStatusError) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert elsewhere.requests == []


@pytest.mark.req("S5", "W13")
def test_a_batch_on_a_resumed_stream_is_taken_apart_at_the_revision_that_has_them(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")

    def batch(turn: Any) -> None:
        found = {"jsonrpc": "2.0", "id": server.calls()[-1].message["id"], "result": text("found")}
        note = {"jsonrpc": "2.0", "method": "notifications/x"}
        stream(event(json.dumps([note, found]).encode()))(turn)

    server.rules["tools/call"] = stream(primed("e-1"))
    server.rules["GET"] = batch
    client = flavour.connect(server.url, protocol="2025-03-26")
    assert client.call_tool("echo", {}).text == "found"
    newer = flavour.connect(server.url)
    with pytest.raises(RequestTimeout):
        newer.call_tool("echo", {}, timeout=0.3)


@pytest.mark.req("S5", "W4")
def test_damage_on_a_resumed_stream_loses_that_event_alone(flavour: Any, serve: Any) -> None:
    answers = Answers(serve)
    server = answers.server

    def damaged(turn: Any) -> None:
        found = {"jsonrpc": "2.0", "id": server.calls()[-1].message["id"], "result": text("found")}
        stream(event(b"{nonsense"), event(b"3"), event(b"\xff\xfe"), event(found))(turn)

    server.rules["tools/call"] = stream(primed("e-1"))
    server.rules["GET"] = damaged
    client = flavour.connect(server.url)
    with logged() as lines:
        assert client.call_tool("echo", {}).text == "found"
    assert "nonsense" not in "\n".join(lines)


def test_the_stateless_era_resumes_nothing(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": stream(primed("e-1"))})
    client = flavour.connect(server.url)
    with pytest.raises(ConnectionClosed):
        client.call_tool("echo", {})
    assert server.count("GET") == 0


def test_a_wait_can_be_given_up_between_two_attempts(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve(
        {"tools/call": [stream(primed("e-1"), end=False), wait(go), raw(LAST_CHUNK)], "GET": status(503)},
        era="handshake",
    )
    client = flavour.connect(server.url)
    call = flavour.start(client.call_tool, "echo", {}, timeout=1.0)
    go.set()
    assert isinstance(call.outcome(), RequestTimeout)
    assert server.count("GET") >= 1
    assert server.count("tools/call") == 1
