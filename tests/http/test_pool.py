"""Who gets which connection, in which order, and until when. The clock stands still; nothing is real."""

from __future__ import annotations

import pytest

from ferrule._http.connection import Connection
from ferrule._http.exchange import Exchange
from ferrule._http.pool import Pool
from ferrule.errors import ConfigError, ConnectionClosed
from tests.http.fakes import (
    FOREVER,
    FakeIO,
    FakeStream,
    finish,
    idle_connections,
    open_exchange,
    pool_on,
    taken_stream,
    waiting,
)
from tests.http.wire import STREAM_HEAD, Recorder, drive, event

# --- which one -----------------------------------------------------------------------------------


@pytest.mark.req("W16")
def test_the_connection_used_last_is_used_first() -> None:
    io = FakeIO()
    pool = pool_on(io)
    a, b, c = idle_connections(io, pool, 3)

    assert [taken_stream(pool) for _ in range(4)] == [c, b, a, None]


@pytest.mark.req("W16")
def test_a_connection_is_not_looked_at_within_a_millisecond() -> None:
    io = FakeIO()
    pool = pool_on(io)
    (stream,) = idle_connections(io, pool, 1)
    stream.is_stale = True

    io.time += 0.0009

    assert taken_stream(pool) is stream
    assert stream.looked == 0


@pytest.mark.req("W16")
def test_after_a_millisecond_a_stale_connection_is_passed_over_unseen() -> None:
    io = FakeIO()
    pool = pool_on(io)
    a, b, c = idle_connections(io, pool, 3)
    b.is_stale = c.is_stale = True

    io.time += 0.0011
    exchange, _, stream = open_exchange(io, pool)

    assert stream is a
    assert (a.looked, b.closed, c.closed) == (1, True, True)
    assert len(io.streams) == 3
    assert stream.written == [b"request"] * 2
    assert exchange.log == []


@pytest.mark.req("W16")
def test_when_all_are_stale_a_new_connection_is_opened_for_any_request() -> None:
    io = FakeIO()
    pool = pool_on(io)
    for old in idle_connections(io, pool, 2):
        old.is_stale = True
    io.time += 1

    for bypass in (False, True):
        _, _, stream = open_exchange(io, pool, bypass=bypass)
        assert stream is io.streams[-1]
        assert not stream.closed
        assert stream.written == [b"request"]


@pytest.mark.req("W16")
def test_a_connection_that_closes_after_it_was_taken_is_passed_over_before_the_write() -> None:
    io = FakeIO()
    pool = pool_on(io)
    _, connection, stream = open_exchange(io, pool)
    finish(stream)

    def late() -> float:
        """The clock, which is looked at between taking and writing."""
        pool._now = io.now
        stream.end()
        return io.now()

    pool._now = late
    exchange, second, _ = open_exchange(io, pool)

    assert second is not connection
    assert exchange.sent
    assert stream.written == [b"request"]


@pytest.mark.req("W17")
def test_idle_connections_expire() -> None:
    io = FakeIO()
    pool = pool_on(io)
    a, b = idle_connections(io, pool, 2)

    io.time += 4.0

    assert pool.take() is None
    assert (a.closed, b.closed) == (True, True)
    assert (a.looked, b.looked) == (0, 0)
    assert not pool.connections


@pytest.mark.req("W17")
def test_giving_back_closes_those_that_have_been_idle_for_too_long() -> None:
    io = FakeIO()
    pool = pool_on(io)
    streams = idle_connections(io, pool, 5)
    io.time += 3.0
    _, _, busy = open_exchange(io, pool)
    io.time += 1.5

    finish(busy)

    assert busy is streams[4]
    assert [stream.closed for stream in streams] == [True, True, True, True, False]
    assert taken_stream(pool) is busy


@pytest.mark.req("W17", "W25")
def test_no_more_than_max_connections_stay_idle() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=2)
    streams = [open_exchange(io, pool, bypass=True)[2] for _ in range(5)]

    for stream in streams:
        finish(stream)

    assert [stream.closed for stream in streams] == [True, True, True, False, False]


@pytest.mark.req("W17")
def test_with_an_idle_timeout_of_zero_nothing_is_kept() -> None:
    io = FakeIO()
    pool = pool_on(io, idle_timeout=0)
    exchange, _, stream = open_exchange(io, pool)

    finish(stream)

    assert exchange.slot.result() == "end"
    assert stream.closed


# --- draining ------------------------------------------------------------------------------------


def draining(io: FakeIO, pool: Pool) -> FakeStream:
    exchange, connection, stream = open_exchange(io, pool, on_first_event=True, bypass=True)
    stream.arrive(STREAM_HEAD + event("result"))
    connection.leave(exchange)
    return stream


@pytest.mark.req("W18")
def test_asyncio_one_task_closes_what_does_not_end_in_time() -> None:
    io = FakeIO()
    pool = pool_on(io, drain_timeout=0.25)
    a = draining(io, pool)
    io.time += 0.1
    b = draining(io, pool)
    (task,) = io.tasks
    assert task.at.until == pytest.approx(1000.25)

    io.time = task.at.until
    task.go()
    assert (a.closed, b.closed) == (True, False)
    assert task.at.until == pytest.approx(1000.35)

    b.arrive(event("more") + b"0\r\n\r\n")
    io.time = task.at.until
    assert task.go().is_over
    assert not b.closed

    draining(io, pool)
    assert len(io.tasks) == 2, "the next one starts it again"


@pytest.mark.req("W18")
def test_blocking_the_next_taker_sees_what_has_arrived_meanwhile() -> None:
    io = FakeIO(blocking=True)
    pool = pool_on(io)
    stream = draining(io, pool)
    stream.polled = [b"", b"0\r\n\r\n"]

    assert pool.take() is None
    io.time += 0.2
    assert taken_stream(pool) is stream
    assert io.tasks == []


@pytest.mark.req("W18")
def test_blocking_the_next_taker_closes_what_is_late() -> None:
    io = FakeIO(blocking=True)
    pool = pool_on(io)
    late, ended = draining(io, pool), draining(io, pool)
    ended.polled = [b"0\r\n\r\n"]

    io.time += 0.3
    _, _, stream = open_exchange(io, pool)

    assert stream is ended, "what ended in time is used, whenever somebody looked"
    assert late.closed


@pytest.mark.req("W18", "W25")
def test_no_more_than_max_connections_drain_at_once() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=2)

    streams = [draining(io, pool) for _ in range(4)]

    assert [stream.closed for stream in streams] == [False, False, True, True]


# --- the end -------------------------------------------------------------------------------------


@pytest.mark.req("T7")
def test_closing_closes_everything_and_fails_who_waits() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=2)
    (idle,) = idle_connections(io, pool, 1)
    drained = draining(io, pool)
    _, _, _ = open_exchange(io, pool)
    busy, _, busy_stream = open_exchange(io, pool)
    caller, unsent = waiting(io, pool)

    drive(pool.close())
    drive(pool.close())

    assert all(stream.closed for stream in (idle, drained, busy_stream, *io.streams))
    with pytest.raises(ConnectionClosed) as caught:
        busy.slot.result()
    assert caught.value.request_sent
    error = caller.go().error
    assert isinstance(error, ConnectionClosed)
    assert not error.request_sent
    assert not unsent.sent
    assert not pool.connections


@pytest.mark.req("T7")
@pytest.mark.parametrize("bypass", [False, True])
def test_after_closing_nothing_is_opened(bypass: bool) -> None:
    io = FakeIO()
    pool = pool_on(io)
    drive(pool.close())

    with pytest.raises(ConnectionClosed) as caught:
        drive(pool.send(Recorder(io), b"request", FOREVER, bypass=bypass))

    assert not caught.value.request_sent
    assert io.connects == []


@pytest.mark.req("T7")
def test_a_connection_that_is_opened_while_the_pool_closes_is_closed() -> None:
    io = FakeIO()
    pool = pool_on(io)
    io.on_connect = lambda stream: drive(pool.close())

    with pytest.raises(ConnectionClosed):
        drive(pool.send(Recorder(io), b"request", FOREVER))

    assert io.streams[0].closed


def test_after_a_fork_connections_are_forgotten_without_a_word() -> None:
    io = FakeIO()
    pool = pool_on(io)
    _, _, busy = open_exchange(io, pool)
    (idle,) = idle_connections(io, pool, 1)

    pool.abandon()

    assert (busy.abandoned, idle.abandoned) == (True, True)
    assert not pool.connections
    with pytest.raises(ConnectionClosed):
        drive(pool.acquire(FOREVER))


# --- connecting ----------------------------------------------------------------------------------


@pytest.mark.req("W23", "W20")
def test_who_connects_is_told_host_and_port_and_nothing_else() -> None:
    io = FakeIO()
    drive(pool_on(io, "http://me:hunter2@h:81/mcp?x").acquire(55.0))

    assert io.connects == [
        {"host": "h", "port": 81, "path": None, "addresses": [], "tls": None, "server_hostname": None, "deadline": 55.0}
    ]


@pytest.mark.req("W23")
def test_a_tls_argument_that_is_none_is_found_out_at_once() -> None:
    io = FakeIO()
    with pytest.raises(ConfigError):
        Pool(io, pool_on(io).origin, limits=pool_on(io).limits, tls=False)  # type: ignore[arg-type]


# --- what only threads can bring about -----------------------------------------------------------


@pytest.mark.req("T7")
def test_a_response_that_ends_while_its_connection_is_closed_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    io = FakeIO()
    pool = pool_on(io)
    exchange, connection, _ = open_exchange(io, pool)
    give = Pool.give

    def close_and_give(owner: Pool, returned: Connection, told: Exchange) -> None:
        """Another thread closes the connection between its last frame and its return to the pool."""
        returned.close()
        give(owner, returned, told)

    monkeypatch.setattr(Pool, "give", close_and_give)
    finish(connection.stream)  # type: ignore[arg-type]

    assert exchange.log == [("head", 200), ("body", b'{"ok":1}'), ("failed", "ConnectionClosed")]
    assert not pool.connections


@pytest.mark.req("W18")
def test_an_exchange_that_ends_while_it_is_left_has_nothing_to_drain() -> None:
    io = FakeIO()
    pool = pool_on(io)
    exchange, connection, stream = open_exchange(io, pool)
    finish(stream)

    assert pool.drain(connection, exchange)
    assert taken_stream(pool) is stream
    assert io.tasks == []


@pytest.mark.req("T7")
def test_a_new_connection_that_is_closed_before_the_write_is_not_replaced() -> None:
    io = FakeIO()
    pool = pool_on(io)

    class Closed(Pool):
        """The pool is closed while a connection is on its way to who asked for it."""

        __slots__ = ()

        async def acquire(self, deadline: float, *, bypass: bool = False) -> Connection:
            connection = await super().acquire(deadline, bypass=bypass)
            await self.close()
            return connection

    pool.__class__ = Closed
    exchange = Recorder(io)
    with pytest.raises(ConnectionClosed) as caught:
        drive(pool.send(exchange, b"request", FOREVER))

    assert not caught.value.request_sent
    assert not exchange.sent
    assert len(io.streams) == 1


@pytest.mark.req("T7")
def test_a_connection_that_fails_because_the_pool_was_closed_meanwhile_says_that() -> None:
    io = FakeIO()
    pool = pool_on(io)

    def closed(stream: FakeStream) -> None:
        pool.shut()
        raise OSError(9, "bad file descriptor")

    io.on_connect = closed
    with pytest.raises(ConnectionClosed) as caught:
        drive(pool.send(Recorder(io), b"request", FOREVER))

    assert not caught.value.request_sent
    assert len(io.connects) == 1


@pytest.mark.req("W18")
def test_a_connection_that_is_to_end_with_its_response_is_not_kept_whatever_the_server_offers() -> None:
    io = FakeIO()
    pool = pool_on(io)
    _, connection, stream = open_exchange(io, pool)
    connection.end_with_response()
    stream.arrive(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nKeep-Alive: timeout=60\r\nContent-Length: 2\r\n\r\n{}"
    )

    assert connection.state == "closed"
    assert not pool.connections
