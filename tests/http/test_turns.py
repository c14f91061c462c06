"""`max_connections` bounds the exchanges of callers, who are served in order."""

from __future__ import annotations

import pytest

from ferrule._io import Expired
from ferrule.errors import ConnectError
from tests.http.fakes import (
    FOREVER,
    FakeIO,
    finish,
    idle_connections,
    open_exchange,
    pool_on,
    taken_stream,
    waiting,
)
from tests.http.wire import STREAM_HEAD, Recorder, drive, event


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
