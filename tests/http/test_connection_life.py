"""When a connection may be used again, and what a broken one tells its exchange."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.errors import ConnectionClosed
from tests.http.fakes import FakeIO, open_exchange, pool_on
from tests.http.wire import Recorder, answer, drive

SECRET = b"hunter2"


@pytest.mark.req("W11", "W16")
@pytest.mark.parametrize("data", [b"HTTP/1.1 408 Timeout\r\n\r\n", b"x"])
def test_bytes_on_an_idle_connection_close_it(data: bytes) -> None:
    io = FakeIO()
    pool = pool_on(io)
    exchange, connection, stream = open_exchange(io, pool)
    stream.arrive(answer())

    stream.arrive(data)

    assert connection.state == "closed"
    assert stream.closed
    assert pool.take() is None
    assert not pool.connections
    assert exchange.log[-1] == ("end",)


@pytest.mark.req("W16")
@pytest.mark.parametrize("error", [None, ConnectionResetError()])
def test_the_end_of_an_idle_connection_takes_it_out_of_the_pool(error: Exception | None) -> None:
    io = FakeIO()
    pool = pool_on(io)
    _, connection, stream = open_exchange(io, pool)
    stream.arrive(answer())

    stream.end(error)

    assert connection.state == "closed"
    assert pool.take() is None
    assert not pool.connections


@pytest.mark.req("W11")
def test_bytes_behind_a_response_spoil_the_connection_but_not_the_response() -> None:
    io = FakeIO()
    pool = pool_on(io)
    exchange, connection, stream = open_exchange(io, pool)

    stream.arrive(answer() + answer(b'{"late":1}'))

    assert exchange.slot.result() == "end"
    assert exchange.body == b'{"ok":1}'
    assert connection.state == "closed"
    assert stream.closed


@pytest.mark.req("W18")
def test_when_the_end_is_told_the_connection_already_serves_others() -> None:
    io = FakeIO()
    pool = pool_on(io)
    states: list[Any] = []

    class Nosy(Recorder):
        __slots__ = ()

        def on_body(self, data: bytes, flags: int) -> None:
            states.append(connection.state)

        def on_end(self) -> None:
            states.append(connection.state)
            assert pool.take() is connection

    exchange = Nosy(io)
    connection = drive(pool.send(exchange, b"request", 1e9))
    connection.stream.arrive(answer())

    assert states == ["busy", "idle"]


@pytest.mark.req("W17")
@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, 4.0),
        ("Keep-Alive: timeout=60", 4.0),
        ("Keep-Alive: timeout=5, max=100", 4.0),
        ("Keep-Alive: timeout=4", 3.0),
        ("Keep-Alive: timeout=2", 1.0),
        ("Keep-Alive: timeout=1", 0.5),
    ],
)
def test_an_idle_connection_is_used_until_shortly_before_the_server_ends_it(header: str | None, seconds: float) -> None:
    io = FakeIO()
    pool = pool_on(io)
    data = answer(b"[]", *([header] if header else []))
    _, connection, stream = open_exchange(io, pool)
    stream.arrive(data)

    io.time += seconds - 0.01
    assert pool.take() is connection
    assert stream.looked == 1
    connection.close()

    _, connection, stream = open_exchange(io, pool)
    stream.arrive(data)
    io.time += seconds + 0.01
    assert pool.take() is None
    assert stream.closed


@pytest.mark.req("W17")
@pytest.mark.parametrize("header", ["Keep-Alive: timeout=0", "Connection: close"])
def test_a_connection_that_may_not_be_idle_is_closed(header: str) -> None:
    io = FakeIO()
    exchange, connection, stream = open_exchange(io, pool_on(io))

    stream.arrive(answer(b"[]", header))

    assert exchange.slot.result() == "end"
    assert (connection.state, stream.closed) == ("closed", True)


@pytest.mark.req("W16")
@pytest.mark.parametrize("reusable", [True, False])
def test_a_write_error_does_not_hide_an_answer_that_came_first(reusable: bool) -> None:
    io = FakeIO()
    pool = pool_on(io)
    io.on_connect = lambda stream: setattr(stream, "write_error", BrokenPipeError())
    exchange, connection, stream = open_exchange(io, pool)
    assert exchange.sent

    headers = [] if reusable else ["Connection: close"]
    stream.arrive(answer(b"{}", *headers, status="413 Content Too Large"))

    assert exchange.log == [("head", 413), ("body", b"{}"), ("end",)]
    assert connection.state == "closed", "half a request cannot be followed by another"


@pytest.mark.req("W16")
def test_an_answer_that_is_complete_while_the_request_is_written_ends_the_connection() -> None:
    io = FakeIO()
    pool = pool_on(io)
    io.on_connect = lambda stream: setattr(stream, "answer_while_writing", answer(b"{}", status="401 Unauthorized"))

    exchange, connection, stream = open_exchange(io, pool)

    assert exchange.log == [("head", 401), ("body", b"{}"), ("end",)]
    assert exchange.sent
    assert (connection.state, stream.closed) == ("closed", True)
    connection.leave(exchange)


@pytest.mark.req("W16", "R4")
def test_a_write_error_without_an_answer_says_that_the_request_may_have_been_seen() -> None:
    io = FakeIO()
    pool = pool_on(io)
    io.on_connect = lambda stream: setattr(stream, "write_error", BrokenPipeError())
    exchange, _connection, stream = open_exchange(io, pool)

    stream.end(ConnectionResetError())

    with pytest.raises(ConnectionClosed) as caught:
        exchange.slot.result()
    assert caught.value.request_sent


@pytest.mark.req("W16", "R4")
def test_a_connection_closed_before_the_write_says_that_nothing_was_sent() -> None:
    io = FakeIO()
    pool = pool_on(io)
    connection = drive(pool.acquire(1e9))
    connection.stream.end()
    exchange = Recorder(io)

    with pytest.raises(ConnectionClosed) as caught:
        connection.send(exchange, b"request", 1e9)

    assert not caught.value.request_sent
    assert not exchange.sent
    assert connection.stream.written == []
    connection.leave(exchange)
    assert exchange.log == []


@pytest.mark.req("W16", "R4")
def test_a_request_counts_as_sent_before_the_first_write() -> None:
    io = FakeIO()
    pool = pool_on(io)
    connection = drive(pool.acquire(1e9))
    exchange = Recorder(io)
    seen: list[bool] = []

    class Watching:
        closed = False
        wait = close = ask = None

        def one_waiter(self) -> None:
            pass

        def write_now(self, data: bytes, deadline: float) -> None:
            seen.append(exchange.sent)

    connection.attach(Watching())
    connection.send(exchange, b"request", 1e9)

    assert seen == [True]
