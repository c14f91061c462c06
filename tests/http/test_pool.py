"""Who gets which connection, in which order, and until when. The clock stands still; nothing is real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ferrule._http.pool import Pool
from ferrule._io import Expired
from ferrule.errors import ConfigError, ConnectError, ConnectionClosed
from tests.http.fakes import FOREVER, FakeIO, FakeStream, Waiting, open_exchange, pool_on
from tests.http.wire import STREAM_HEAD, Recorder, answer, drive, event


def finish(stream: FakeStream) -> None:
    stream.arrive(answer())


def idle_connections(io: FakeIO, pool: Pool, count: int) -> list[FakeStream]:
    """So many idle connections, the last one given back last."""
    streams = [open_exchange(io, pool)[2] for _ in range(count)]
    for stream in streams:
        finish(stream)
    return streams


def taken_stream(pool: Pool) -> Any:
    connection = pool.take()
    return connection and connection.stream


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
    taken: Iterator[Any] = iter([pool.take()])

    class Late(type(pool)):  # type: ignore[misc]
        """Gives out the connection just before it is found closed."""

        __slots__ = ()

        def take(self) -> Any:
            connection = next(taken, None)
            if connection is not None:
                connection.stream.end()
            return connection

    pool.__class__ = Late
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


# --- whose turn ----------------------------------------------------------------------------------


def waiting(io: FakeIO, pool: Pool, deadline: float = FOREVER) -> tuple[Waiting, Recorder]:
    exchange = Recorder(io)
    return Waiting(pool.send(exchange, b"waited", deadline)), exchange


@pytest.mark.req("W25")
def test_at_the_bound_callers_wait_and_are_served_in_order() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=2)
    _, _, a = open_exchange(io, pool)
    _, _, b = open_exchange(io, pool)
    callers = [waiting(io, pool) for _ in range(3)]
    assert [caller.is_over for caller, _ in callers] == [False] * 3
    assert len(io.streams) == 2

    for number, stream in enumerate([b, a, b]):
        finish(stream)
        for later, _ in callers[number + 1 :]:
            assert not later.go().is_over, "not its turn"
        assert callers[number][0].go().value.stream is stream

    assert len(io.streams) == 2


@pytest.mark.req("W25")
def test_a_newcomer_does_not_overtake_who_has_been_told_that_it_is_his_turn() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    _, _, stream = open_exchange(io, pool)
    first, _ = waiting(io, pool)

    finish(stream)

    assert pool.take() is None
    newcomer, _ = waiting(io, pool)
    assert not newcomer.is_over
    assert first.go().value.stream is stream
    finish(stream)
    assert newcomer.go().is_over


@pytest.mark.req("W25")
@pytest.mark.parametrize("error", [Expired(), KeyboardInterrupt()])
def test_a_cancelled_waiter_gives_up_its_place_in_the_queue(error: BaseException) -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    _, _, stream = open_exchange(io, pool)
    first, exchange = waiting(io, pool)
    second, _ = waiting(io, pool)

    assert first.throw(error).error is error
    finish(stream)

    assert second.go().value.stream is stream
    assert not exchange.sent
    finish(stream)
    assert taken_stream(pool) is stream, "no place was lost"


@pytest.mark.req("W25")
@pytest.mark.parametrize("error", [Expired(), KeyboardInterrupt()])
def test_a_waiter_cancelled_after_it_was_its_turn_passes_it_on(error: BaseException) -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    _, _, stream = open_exchange(io, pool)
    first, exchange = waiting(io, pool)
    second, _ = waiting(io, pool)

    finish(stream)
    first.throw(error)

    assert second.go().value.stream is stream
    assert not exchange.sent
    finish(stream)
    assert taken_stream(pool) is stream, "no place was lost"


@pytest.mark.req("W25")
def test_the_last_waiter_cancelled_after_it_was_its_turn_leaves_the_place_free() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    _, _, stream = open_exchange(io, pool)
    first, _ = waiting(io, pool)
    finish(stream)

    first.throw(Expired())

    assert taken_stream(pool) is stream


@pytest.mark.req("W25")
def test_a_connection_that_closes_hands_its_place_to_the_next_waiter() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    _, _, stream = open_exchange(io, pool)
    caller, exchange = waiting(io, pool)

    stream.end()

    assert caller.go().value.stream is io.streams[1]
    assert exchange.sent


@pytest.mark.req("W25", "W18")
def test_a_draining_connection_holds_no_place() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    exchange, connection, stream = open_exchange(io, pool, on_first_event=True)
    caller, _ = waiting(io, pool)
    stream.arrive(STREAM_HEAD + event("result"))

    connection.leave(exchange)

    assert caller.go().value.stream is io.streams[1]


@pytest.mark.req("W25")
def test_what_bypasses_the_bound_neither_waits_nor_takes_a_place() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    _, _, counted = open_exchange(io, pool)
    caller, _ = waiting(io, pool)

    bypassing = [open_exchange(io, pool, bypass=True)[2] for _ in range(3)]
    for stream in bypassing:
        finish(stream)

    assert not caller.go().is_over, "three ends, and none was of a counted exchange"
    _, _, again = open_exchange(io, pool, bypass=True)
    assert again is bypassing[2], "the pool's connections serve them too"
    finish(counted)
    assert caller.go().is_over


@pytest.mark.req("W25")
@pytest.mark.parametrize("error", [ConnectionRefusedError(), Expired(), KeyboardInterrupt()])
def test_a_failed_connect_gives_its_place_back(error: BaseException) -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    io.connect_error = error  # type: ignore[assignment]
    for _ in range(3):
        with pytest.raises((ConnectError, Expired, KeyboardInterrupt)):
            drive(pool.acquire(FOREVER))
    io.connect_error = None

    assert drive(pool.acquire(FOREVER)).stream is io.streams[0]
    assert len(pool.connections) == 1


@pytest.mark.req("W25")
def test_stale_connections_give_their_places_back() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=2)
    for _ in range(3):
        for stream in idle_connections(io, pool, 2):
            stream.is_stale = True
        io.time += 1

    _, _, a = open_exchange(io, pool)
    _, _, b = open_exchange(io, pool)
    assert not (a.closed or b.closed)
    assert not waiting(io, pool)[0].is_over


@pytest.mark.req("W16")
def test_an_error_while_writing_leaves_the_exchange_and_closes_the_connection() -> None:
    io = FakeIO()
    pool = pool_on(io)
    io.on_connect = lambda stream: setattr(stream, "write_error", Expired())
    exchange = Recorder(io)

    with pytest.raises(Expired):
        drive(pool.send(exchange, b"request", FOREVER))

    assert exchange.sent
    assert io.streams[0].closed
    assert not pool.connections
    assert exchange.log == [], "who gave up is told nothing"


@pytest.mark.req("W16")
def test_a_server_that_hangs_up_on_every_connection_is_not_tried_for_ever() -> None:
    io = FakeIO()
    pool = pool_on(io, max_connections=1)
    io.on_connect = lambda stream: stream.end()

    with pytest.raises(ConnectError, match="http://h closed the connection") as caught:
        drive(pool.send(Recorder(io), b"request", FOREVER))

    assert not caught.value.request_sent
    assert len(io.streams) == 1
    assert not pool.connections


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
        {"host": "h", "port": 81, "path": None, "tls": None, "server_hostname": None, "deadline": 55.0}
    ]


@pytest.mark.req("W23")
def test_a_tls_argument_that_is_none_is_found_out_at_once() -> None:
    io = FakeIO()
    with pytest.raises(ConfigError):
        Pool(io, pool_on(io).origin, limits=pool_on(io).limits, tls=False)  # type: ignore[arg-type]


@pytest.mark.req("W22")
def test_an_opener_may_stand_for_the_way_in() -> None:
    io = FakeIO()
    asked: list[float] = []

    async def opener(connection: Any, deadline: float) -> None:
        asked.append(deadline)
        connection.attach(FakeStream(connection))

    pool = Pool(io, pool_on(io).origin, limits=pool_on(io).limits, opener=opener)  # type: ignore[arg-type]
    _, _, stream = open_exchange(io, pool)
    finish(stream)

    assert asked == [FOREVER]
    assert io.connects == []
    assert taken_stream(pool) is stream
