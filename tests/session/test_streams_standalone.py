"""The stream a session keeps open for what the server sends unasked: when it is opened, kept, and given up."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import pytest

from ferrule import Limits, Retry
from tests.support.steps import (
    LAST_CHUNK,
    answer,
    event,
    hang,
    initialized,
    more,
    raw,
    reset,
    status,
    stream,
    text,
    turns,
    wait,
)
from tests.support.texts import logged

FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)
KEPT = [stream(end=False), hang()]
PING = event({"jsonrpc": "2.0", "id": "p", "method": "ping"})


def handler(*_: Any) -> None:
    """Something that could use what the server sends unasked."""


def inbound(client: Any) -> Any:
    """The session's inbound side: features of the client listen there."""
    return client._session.inbound


@pytest.mark.req("S4")
@pytest.mark.parametrize(
    ("options", "opened"),
    [
        ({}, False),
        ({"on_notification": handler}, True),
        ({"on_log": handler}, True),
        ({"roots": ["file:///a"]}, True),
        ({"listen": True}, True),
        ({"listen": False, "on_notification": handler}, False),
    ],
    ids=["nothing", "a handler", "a log handler", "roots", "forced on", "forced off"],
)
def test_the_stream_is_opened_when_something_could_use_it(flavour: Any, serve: Any, options: Any, opened: bool) -> None:
    server = serve({"GET": KEPT}, era="handshake", session="s-1")
    client = flavour.connect(server.url, headers={"X-Tenant": "a"}, **options)
    client.call_tool("echo", {})
    assert server.count("GET") == opened
    if opened:
        assert server.methods[1:4] == ["initialize", "notifications/initialized", "GET"]
        [get] = server.calls("GET")
        assert get.header("Accept") == "text/event-stream"
        assert get.header("Mcp-Session-Id") == "s-1"
        assert get.header("MCP-Protocol-Version") == "2025-11-25"
        assert get.header("X-Tenant") == "a"
        assert get.header("Last-Event-ID") is None


@pytest.mark.req("S4")
def test_the_stateless_era_has_no_such_stream(flavour: Any, serve: Any) -> None:
    server = serve(era="stateless")
    client = flavour.connect(server.url, listen=True)
    client.call_tool("echo", {})
    assert server.count("GET") == 0


@pytest.mark.req("S4")
def test_the_first_call_waits_for_the_headers_of_the_stream(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    server = serve({"GET": [wait(go), stream(end=False), hang()]}, era="handshake")
    client = flavour.client(server.url, listen=True, limits=Limits(listen_wait=30.0))
    call = flavour.start(client.call_tool, "echo", {})
    server.wait_until(lambda: server.count("GET") == 1)
    assert server.count("tools/call") == 0
    go.set()
    call.result()
    assert server.methods[-2:] == ["GET", "tools/call"]


@pytest.mark.req("S4")
@pytest.mark.parametrize("wait_for", [0, 0.1])
def test_the_wait_for_the_headers_is_bounded(flavour: Any, serve: Any, wait_for: float) -> None:
    server = serve({"GET": hang()}, era="handshake")
    client = flavour.client(server.url, listen=True, limits=Limits(listen_wait=wait_for))
    assert client.call_tool("echo", {}, timeout=10).content
    assert client.call_tool("echo", {}, timeout=10).content
    assert server.count("initialize") == 1


@pytest.mark.req("S4")
def test_what_comes_on_the_stream_is_taken_and_answered_without_any_call(flavour: Any, serve: Any) -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    go = threading.Event()
    server = serve(
        {"GET": [stream(end=False), wait(go), more(PING, event(note)), hang()]}, era="handshake", session="s-1"
    )
    client = flavour.connect(server.url, listen=True)
    seen: list[Any] = []
    inbound(client).listeners.append(lambda method, params, link: seen.append((method, params)))
    go.set()
    server.wait_until(lambda: server.count("reply") == 1)
    [reply] = server.calls("reply")
    assert reply.message == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert reply.header("Mcp-Session-Id") == "s-1"
    assert client.call_tool("echo", {}).content
    assert seen == [("notifications/tools/list_changed", None)]


@pytest.mark.req("S4")
@pytest.mark.parametrize(
    ("said", "session"),
    [(405, "s"), (400, "s"), (406, "s"), (501, "s"), (200, "s"), (204, "s"), (404, None), (405, None)],
)
def test_a_refusal_means_that_none_is_offered(flavour: Any, serve: Any, said: int, session: str | None) -> None:
    server = serve({"GET": status(said)}, era="handshake", session=session)
    with logged() as lines:
        client = flavour.connect(server.url, listen=True, retry=FAST)
        for _ in range(3):
            client.call_tool("echo", {})
        time.sleep(0.3)  # three times the shortest pause between two attempts
    assert server.count("GET") == 1
    assert not [line for line in lines if line.startswith("WARNING")]


@pytest.mark.req("S4")
@pytest.mark.parametrize("said", [404, 409, 429, 500, 503])
def test_other_refusals_are_no_verdict_and_it_is_tried_again(flavour: Any, serve: Any, said: int) -> None:
    server = serve({"GET": turns(status(said), status(said), KEPT)}, era="handshake", session="s-1")
    client = flavour.connect(server.url, listen=True, retry=FAST)
    assert client.call_tool("echo", {}).content
    server.wait_until(lambda: server.count("GET") == 3)
    assert server.count("initialize") == 1


@pytest.mark.req("S4")
def test_it_reconnects_with_its_own_last_event_after_the_retry_it_was_given(flavour: Any, serve: Any) -> None:
    times: list[float] = []

    def mark(turn: Any) -> None:
        times.append(time.monotonic())

    server = serve(
        {
            "GET": turns(
                [stream(event(b"", id="g-1", retry=400), end=False), mark, raw(LAST_CHUNK)],
                [mark, stream(event(b"", id="g-2", retry=10), end=False), reset()],
                KEPT,
            ),
            "tools/call": stream(event(b"", id="call-1", retry=10), {"result": text("ok")}),
        },
        era="handshake",
    )
    client = flavour.connect(server.url, listen=True)
    client.call_tool("echo", {})
    server.wait_until(lambda: server.count("GET") == 3)
    assert [get.header("Last-Event-ID") for get in server.calls("GET")] == [None, "g-1", "g-2"]
    closed, again = times
    assert again - closed + 0.002 >= 0.4


@pytest.mark.req("S4")
def test_a_stream_that_cannot_be_kept_is_said_once_and_tried_on(flavour: Any, serve: Any) -> None:
    server = serve({"GET": stream()}, era="handshake")
    with logged() as lines:
        client = flavour.connect(server.url, listen=True, retry=FAST)
        server.wait_until(lambda: server.count("GET") >= 6)
        assert client.call_tool("echo", {}).content
    assert len([line for line in lines if line.startswith("WARNING") and "times in a row" in line]) == 1


@pytest.mark.req("S4")
def test_a_token_that_cannot_be_had_for_a_moment_does_not_end_the_stream(flavour: Any, serve: Any) -> None:
    server = serve({"GET": turns(stream(event(b"", id="1", retry=10)), KEPT)}, era="handshake")
    asked = iter(range(100))

    def token() -> str:
        # 4: for the second stream, after the probe, initialize, initialized and the first one.
        if next(asked) == 4:
            raise OSError("no token just now")
        return "token"

    flavour.connect(server.url, listen=True, retry=FAST, auth=token)
    server.wait_until(lambda: server.count("GET") == 2)


@pytest.mark.req("S4", "T7")
def test_closing_ends_the_stream_at_once_and_before_the_session(flavour: Any, serve: Any) -> None:
    server = serve({"GET": KEPT}, era="handshake")
    client = flavour.connect(server.url, listen=True)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 2.5
    server.wait_until(lambda: server.open == 0)
    assert server.methods[-1] == "DELETE"
    assert server.count("GET") == 1


@pytest.mark.req("S4", "T7")
@pytest.mark.parametrize("rule", [hang(), status(503)], ids=["no headers yet", "between two attempts"])
def test_closing_does_not_wait_for_a_stream_that_is_being_opened(flavour: Any, serve: Any, rule: Any) -> None:
    server = serve({"GET": rule}, era="handshake", session=None)
    slow = Retry(backoff=60.0, max_backoff=60.0)
    client = flavour.connect(server.url, listen=True, retry=slow, limits=Limits(listen_wait=0.05))
    server.wait_until(lambda: server.count("GET") == 1)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 2.5
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("S4", "N14")
def test_each_view_has_a_stream_of_its_own_and_closing_it_ends_that_one(flavour: Any, serve: Any) -> None:
    count = iter(range(100))

    def begin(turn: Any) -> None:
        answer(initialized(), headers=[("Mcp-Session-Id", f"s-{next(count)}")])(turn)

    server = serve({"initialize": begin, "GET": KEPT}, era="handshake")
    client = flavour.connect(server.url, listen=True)
    view = client.with_options(headers={"X-User": "b"})
    view.call_tool("echo", {})
    streams = {get.header("Mcp-Session-Id"): get.header("X-User") for get in server.calls("GET")}
    assert streams == {"s-0": None, "s-1": "b"}
    before = server.open
    view.close()
    server.wait_until(lambda: server.open < before)
    client.call_tool("echo", {})
    assert server.count("GET") == 2


@pytest.mark.req("S4", "W25")
def test_the_stream_takes_no_place_of_the_calls(flavour: Any, serve: Any) -> None:
    server = serve({"GET": KEPT}, era="handshake")
    client = flavour.connect(server.url, listen=True, limits=Limits(max_connections=1))
    for _ in range(3):
        assert client.call_tool("echo", {}, timeout=5).content
    assert server.count("GET") == 1


@pytest.mark.req("S4", "T7")
def test_a_client_that_is_dropped_unclosed_takes_its_stream_with_it(flavour: Any, serve: Any) -> None:
    server = serve({"GET": KEPT}, era="handshake")
    client = flavour.connect(server.url, listen=True)
    client.call_tool("echo", {})
    flavour._open.clear()
    del client
    gc.collect()
    server.wait_until(lambda: server.open == 0)
    assert server.count("DELETE") == 0


@pytest.mark.req("S4", "W19")
def test_a_redirect_of_the_stream_is_followed_within_the_origin_only(flavour: Any, serve: Any) -> None:
    elsewhere = serve(era="handshake")
    server = serve({"GET": turns(status(307, headers=[("Location", "/mcp/")]), KEPT)}, era="handshake")
    client = flavour.connect(server.url, listen=True)
    server.wait_until(lambda: server.count("GET") == 2)
    assert [get.target for get in server.calls("GET")] == ["/mcp", "/mcp/"]
    client.close()
    server = serve({"GET": status(307, headers=[("Location", elsewhere.url)])}, era="handshake")
    client = flavour.connect(server.url, listen=True)
    assert client.call_tool("echo", {}).content
    assert elsewhere.requests == []


@pytest.mark.req("S4", "W13")
def test_batches_on_the_stream_are_taken_apart_at_the_revision_that_has_them(flavour: Any, serve: Any) -> None:
    batch = (
        b'[{"jsonrpc":"2.0","id":"a","method":"ping"},7,'
        b'{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":"b","method":"ping"}]'
    )
    rules = {"GET": [stream(event(batch), event(b"{}"), PING, end=False), hang()]}
    server = serve(rules, era="handshake")
    flavour.connect(server.url, listen=True, protocol="2025-03-26")
    server.wait_until(lambda: server.count("reply") == 3)
    assert sorted(reply.message["id"] for reply in server.calls("reply")) == ["a", "b", "p"]
    newer = serve(rules, era="handshake")
    flavour.connect(newer.url, listen=True)
    newer.wait_until(lambda: newer.count("reply") == 1)
    assert [reply.message["id"] for reply in newer.calls("reply")] == ["p"]


@pytest.mark.req("S4", "G1")
def test_nothing_of_what_the_stream_carries_or_its_headers_is_logged(flavour: Any, serve: Any) -> None:
    secret = event(b'{"secret-data": 1', id="secret-id", retry=10)
    server = serve(
        {
            "GET": turns(
                [
                    stream(secret),
                ],
                KEPT,
            )
        },
        era="handshake",
        session="secret-session",
    )
    with logged() as lines:
        client = flavour.connect(server.url, listen=True, auth="secret-token")
        server.wait_until(lambda: server.count("GET") == 2)
        client.close()
    assert "secret" not in "\n".join(lines)


@pytest.mark.req("S4")
def test_a_listener_that_comes_later_can_have_the_stream_opened(flavour: Any, serve: Any) -> None:
    server = serve({"GET": KEPT}, era="handshake")
    client = flavour.connect(server.url)
    client.call_tool("echo", {})
    assert server.count("GET") == 0
    session: Any = client._session
    run = session.listen
    drive: Any = client
    for _ in range(3):
        deadline = time.monotonic() + 5
        drive._call(run, deadline) if flavour.is_async else drive._run(run(deadline))
    assert server.count("GET") == 1
