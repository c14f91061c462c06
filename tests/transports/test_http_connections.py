"""When connections are used again, replaced, waited for and given up, as seen from the server."""

import socket
import time
from threading import Event, Lock
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import ConnectionClosed, HTTPStatusError, RequestTimeout, RPCError
from tests.support.steps import (
    CHUNKED,
    JSON,
    LAST_CHUNK,
    SSE,
    Step,
    answer,
    chunk,
    close,
    event,
    hang,
    http,
    raw,
    reset,
    result,
    result_for,
    status,
    stream,
    text,
    turns,
    wait,
)

FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)
ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])


def rest() -> None:
    """Be idle for longer than the millisecond after which a connection is looked at before it is used again."""
    time.sleep(0.005)


def pool_of(client: Any) -> Any:
    return getattr(client, "_target", client)._session.transport._pool


# --- a connection that is gone -------------------------------------------------------------------


@pytest.mark.req("W16")
@ERAS
@pytest.mark.parametrize("ending", [close(), reset()], ids=["close", "reset"])
def test_a_call_moves_to_a_new_connection_unseen_when_the_server_closed_the_idle_one(
    flavour: Any, serve: Any, ending: Step, era: str
) -> None:
    server = serve({"tools/call": [answer(text("ok")), ending]}, era=era, session=None)
    client = flavour.connect(server.url, retry=Retry(attempts=1))
    for expected in (1, 2, 3):
        assert client.call_tool("echo", {}).text == "ok"
        server.wait_until(lambda: server.open == 0)
        rest()
        assert server.accepted == expected
    assert server.count("tools/call") == 3


DEATHS = {
    "closed": close(),
    "reset": reset(),
    "closed inside the head": [raw(b"HTTP/1.1 200 OK\r\nContent-Le"), close()],
    "closed inside a body": [
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"),
        close(),
    ],
    "closed inside a chunk": [raw(http(200, b"", [JSON, CHUNKED], length=False) + b"ff\r\n{"), close()],
    "closed inside an event": [raw(http(200, b"", [SSE, CHUNKED], length=False) + chunk(b"data: {")), close()],
    "a stream that ends": stream(end=True),
}
DYING = pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS.keys())


@pytest.mark.req("W16", "R4")
@DYING
def test_an_idempotent_request_goes_again_when_its_reused_connection_dies(flavour: Any, serve: Any, death: Any) -> None:
    server = serve({"tools/list": turns(death, answer({"tools": []}))})
    client = flavour.connect(server.url, retry=FAST)
    assert client.list_tools() == []
    first, second = server.calls("tools/list")
    assert first.connection == server.requests[0].connection  # it was a used one
    assert first.message["id"] != second.message["id"]


@pytest.mark.req("W16", "R4")
@DYING
@pytest.mark.parametrize("is_new", [False, True], ids=["reused", "new"])
def test_a_tool_call_whose_connection_dies_is_reported_and_arrives_exactly_once(
    flavour: Any, serve: Any, death: Any, is_new: bool
) -> None:
    server = serve({"tools/call": turns(death, answer(text("later")))})
    client = flavour.connect(server.url, retry=FAST, protocol="stateless" if is_new else "auto")
    with pytest.raises(ConnectionClosed) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert server.count("tools/call") == 1
    assert client.call_tool("echo", {}).text == "later"
    assert server.count("tools/call") == 2


@pytest.mark.req("W16")
def test_a_tool_call_goes_again_after_a_lost_answer_when_its_caller_said_it_may(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": turns(reset(), answer(text("later")))})
    client = flavour.connect(server.url, retry=FAST)
    assert client.call_tool("echo", {}, idempotent=True).text == "later"
    assert server.count("tools/call") == 2


# --- an answer before the request is over --------------------------------------------------------

BIG = {"data": "x" * (16 << 20)}


def early(data: bytes, *then: Step) -> Step:
    """Answer as soon as the request's head is there."""

    def step(turn: Any) -> None:
        turn.sock.recv(1000)
        turn.send(data)
        for each in then:
            each(turn)

    return step


def early_and_on(data: bytes) -> Step:
    """Answer as soon as the request's head is there, read the rest of it, and serve what comes next."""

    def step(turn: Any) -> None:
        begun = b""
        while b"\r\n\r\n" not in begun:
            begun += turn.sock.recv(1000)
        turn.send(data)
        head, _, body = begun.partition(b"\r\n\r\n")
        left = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]) - len(body)
        while left:
            read = len(turn.sock.recv(min(left, 1 << 16)))
            if not read:  # the client gave the request up
                turn.ended = True
                return
            left -= read

    return step


def hang_up(turn: Any) -> None:
    """Say that nothing more will come, and read on."""
    turn.sock.shutdown(socket.SHUT_WR)


def stay(turn: Any) -> None:
    """Neither read nor close."""
    turn.ended = True
    turn.server._closing.wait(30)


@pytest.mark.req("W16")
@pytest.mark.parametrize("reads_on", [True, False], ids=["reads on", "reads no more"])
def test_an_early_413_is_read_while_a_large_body_is_still_being_sent(flavour: Any, serve: Any, reads_on: bool) -> None:
    refused = http(413, b"<html>too large</html>", [("Content-Type", "text/html")])
    first = early_and_on(refused) if reads_on else early(refused, stay)
    server = serve({"accept": turns(first, lambda turn: None)})
    client = flavour.connect(server.url, protocol="stateless", timeout=4)
    with pytest.raises(HTTPStatusError) as caught:
        client.call_tool("echo", BIG)
    assert (caught.value.status, caught.value.request_sent) == (413, True)
    assert client.call_tool("echo", {"small": 1}).text == '{"small": 1}'


@pytest.mark.req("W16", "W12")
def test_an_early_json_rpc_error_is_the_answer_also_when_the_server_hangs_up_then(flavour: Any, serve: Any) -> None:
    body = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"too large"}}'
    said = early(http(400, body, [JSON, ("Connection", "close")]), hang_up, hang())
    server = serve({"accept": turns(said, lambda turn: None)})
    client = flavour.connect(server.url, protocol="stateless", timeout=4)
    with pytest.raises(RPCError) as caught:
        client.call_tool("echo", BIG)
    assert (caught.value.code, caught.value.http_status) == (-32600, 400)
    assert client.call_tool("echo", {}).text == "{}"


@pytest.mark.req("W16", "T1", "R4")
def test_a_server_that_does_not_take_the_request_costs_no_more_than_the_timeout(flavour: Any, serve: Any) -> None:
    server = serve({"accept": turns(early(b"", stay), lambda turn: None)})
    client = flavour.connect(server.url, protocol="stateless")
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", BIG, timeout=0.2)
    assert caught.value.request_sent is True
    assert client.call_tool("echo", {}).text == "{}"


# --- idleness ------------------------------------------------------------------------------------


@pytest.mark.req("W17")
@pytest.mark.parametrize(
    ("header", "limit", "connections"),
    [(None, 4.0, 1), (None, 0.02, 2), ("timeout=0", 4.0, 2), ("timeout=5, max=99", 4.0, 1), ("timeout=90", 0.02, 2)],
)
def test_a_connection_is_not_used_again_after_it_was_idle_too_long(
    flavour: Any, serve: Any, header: str | None, limit: float, connections: int
) -> None:
    headers = [] if header is None else [("Keep-Alive", header)]
    server = serve({"tools/call": answer(text("ok"), headers=headers)})
    client = flavour.connect(server.url, limits=Limits(idle_timeout=limit), protocol="stateless")
    client.call_tool("echo", {})
    time.sleep(0.03)  # longer than the short limit
    client.call_tool("echo", {})
    assert server.accepted == connections


@pytest.mark.req("W17", "W6")
@pytest.mark.parametrize(
    "make",
    [
        lambda body: http(200, body, [JSON, ("Connection", "close")]),
        lambda body: http(200, body, [JSON]).replace(b"HTTP/1.1", b"HTTP/1.0"),
    ],
    ids=["connection: close", "http/1.0"],
)
def test_a_connection_the_server_will_close_is_not_used_again(flavour: Any, serve: Any, make: Any) -> None:
    def said(request: Any) -> bytes:
        import json

        return make(json.dumps(result_for(request, text("ok"))).encode())  # type: ignore[no-any-return]

    server = serve({"tools/call": raw(said)})
    client = flavour.connect(server.url, protocol="stateless")
    for _ in range(3):
        assert client.call_tool("echo", {}).text == "ok"
    assert server.accepted == 3


# --- after the answer ----------------------------------------------------------------------------


@pytest.mark.req("W18")
@ERAS
def test_json_answers_share_one_connection(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url)
    for _ in range(5):
        client.call_tool("echo", {})
        client.list_tools()
    client.close()
    assert server.accepted == 1


@pytest.mark.req("W18")
@ERAS
def test_a_stream_that_ended_cleanly_leaves_its_connection_to_the_next_call(flavour: Any, serve: Any, era: str) -> None:
    sent = [Event() for _ in range(4)]
    ends = iter(sent)
    # The end comes in a piece of its own, after the answer.
    script = [stream(result(text("ok")), end=False), raw(LAST_CHUNK), lambda turn: next(ends).set()]
    server = serve({"tools/call": script}, era=era, session=None)
    client = flavour.connect(server.url)
    for end in sent:
        assert client.call_tool("echo", {}).text == "ok"
        assert end.wait(10)
    assert server.accepted == 1


@pytest.mark.req("W18")
def test_accepted_notifications_leave_their_connection_to_the_next_call(flavour: Any, serve: Any) -> None:
    server = serve({"notifications/x": status(202)}, era="handshake")
    client = flavour.connect(server.url)
    for _ in range(5):
        client.notify("notifications/x")
        client.ping()
    assert server.accepted == 1


@pytest.mark.req("W18")
@ERAS
def test_a_stream_kept_open_after_the_answer_delays_nobody_and_is_closed_soon(
    flavour: Any, serve: Any, era: str
) -> None:
    open_end = turns([stream(result(text("ok")), end=False), hang()], answer(text("next")))
    server = serve({"tools/call": open_end}, era=era, session=None)
    client = flavour.connect(server.url, timeout=None, limits=Limits(drain_timeout=0.02))
    assert client.call_tool("echo", {}).text == "ok"
    time.sleep(0.03)  # longer than the drain timeout
    assert client.call_tool("echo", {}).text == "next"
    server.wait_until(lambda: server.open == 1)
    assert server.accepted == 2
    assert "notifications/cancelled" not in server.methods


@pytest.mark.req("W18", "T3")
def test_what_comes_after_the_answer_is_dropped_and_the_connection_used_again(flavour: Any, serve: Any) -> None:
    late, sent = Event(), Event()
    noise = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 1}})
    script = [
        stream(result(text("ok")), end=False),
        wait(late),
        raw(chunk(noise + event(b"{")) + LAST_CHUNK),
        lambda turn: sent.set(),
    ]
    server = serve({"tools/call": script})
    client = flavour.connect(server.url, limits=Limits(drain_timeout=10))
    assert client.call_tool("echo", {}).text == "ok"
    late.set()
    assert sent.wait(10)
    rest()
    assert client.list_prompts()[0].name == "greet"
    assert server.accepted == 1


# --- how many ------------------------------------------------------------------------------------


class Crowd:
    """Counts how many requests are being answered at once."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.now = self.most = 0

    def enter(self, turn: Any) -> None:
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def leave(self, turn: Any) -> None:
        with self.lock:
            self.now -= 1


@pytest.mark.req("W25")
def test_no_more_calls_are_under_way_than_there_may_be_connections(flavour: Any, serve: Any) -> None:
    crowd, go = Crowd(), Event()
    server = serve({"tools/call": [crowd.enter, wait(go), crowd.leave, answer()]})
    client = flavour.connect(server.url, limits=Limits(max_connections=3))
    running = [flavour.start(client.call_tool, "echo", {}) for _ in range(12)]
    server.wait_until(lambda: server.count("tools/call") == 3)
    go.set()
    assert [one.result().text for one in running] == ["ok"] * 12
    assert crowd.most == 3
    assert server.accepted == 3


def wait_for_queue(client: Any, length: int) -> None:
    limit = time.monotonic() + 10
    while f" {length} waiting" not in repr(pool_of(client)):
        assert time.monotonic() < limit
        time.sleep(0.001)


@pytest.mark.req("W25")
def test_who_waits_for_a_connection_is_served_in_turn(flavour: Any, serve: Any) -> None:
    go = Event()
    server = serve({"tools/call": [wait(go), answer()]})
    client = flavour.connect(server.url, limits=Limits(max_connections=1))
    running = []
    for number in range(8):
        running.append(flavour.start(client.call_tool, "echo", {"number": number}))
        if number == 0:
            server.wait_until(lambda: server.count("tools/call") == 1)
        else:
            wait_for_queue(client, number)
    go.set()
    for one in running:
        one.result()
    assert [call.params["arguments"]["number"] for call in server.calls()] == list(range(8))


@pytest.mark.req("W25", "T1", "R4")
def test_waiting_for_a_connection_counts_against_the_timeout_and_nothing_was_sent(flavour: Any, serve: Any) -> None:
    go = Event()
    server = serve({"tools/call": [wait(go), answer()]})
    client = flavour.connect(server.url, limits=Limits(max_connections=1))
    first = flavour.start(client.call_tool, "echo", {"number": 1})
    server.wait_until(lambda: server.count("tools/call") == 1)
    second = flavour.start(client.call_tool, "echo", {"number": 2}, timeout=0.15)
    wait_for_queue(client, 1)
    third = flavour.start(client.call_tool, "echo", {"number": 3})
    wait_for_queue(client, 2)
    error = second.outcome()
    assert isinstance(error, RequestTimeout)
    assert error.request_sent is False
    go.set()
    assert first.result().text == third.result().text == "ok"
    assert [call.params["arguments"]["number"] for call in server.calls()] == [1, 3]


@pytest.mark.req("W25", "T2")
def test_a_cancellation_needs_no_free_connection(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": turns(hang(), answer())}, era="handshake", session=None)
    client = flavour.connect(server.url, limits=Limits(max_connections=1))
    with pytest.raises(RequestTimeout):
        client.call_tool("echo", {}, timeout=0.1)
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    assert client.call_tool("echo", {}).text == "ok"
