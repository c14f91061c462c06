"""What becomes of a connection whose caller has gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ferrule.errors import ConnectionClosed, FerruleError
from tests.http.fakes import FakeIO, open_exchange, pool_on
from tests.http.wire import LAST_CHUNK, STREAM_HEAD, Recorder, answer, event


def leave_after(data: bytes, *, on_first_event: bool = False, **limits: Any) -> tuple[FakeIO, Any, Recorder, Any, Any]:
    io = FakeIO()
    pool = pool_on(io, **limits)
    exchange, connection, stream = open_exchange(io, pool, on_first_event=on_first_event)
    stream.arrive(data)
    connection.leave(exchange)
    return io, pool, exchange, connection, stream


@pytest.mark.req("W18")
def test_leaving_a_complete_response_leaves_the_connection_in_the_pool() -> None:
    _, pool, exchange, connection, _ = leave_after(STREAM_HEAD + event("a") + LAST_CHUNK)

    assert exchange.slot.result() == "end"
    assert pool.take() is connection


@pytest.mark.req("W18")
def test_leaving_after_the_result_lets_the_rest_arrive() -> None:
    _io, pool, exchange, connection, stream = leave_after(STREAM_HEAD + event("result"), on_first_event=True)
    assert connection.state == "draining"
    assert pool.take() is None

    stream.arrive(event("late") + LAST_CHUNK)

    assert connection.state == "idle"
    assert pool.take() is connection
    assert exchange.events == [b"result"], "who has left is told nothing"


@pytest.mark.req("W18", "T2")
@pytest.mark.parametrize("data", [b"", STREAM_HEAD, STREAM_HEAD + event("progress")])
def test_leaving_without_a_result_closes_the_connection(data: bytes) -> None:
    _, pool, exchange, connection, stream = leave_after(data)

    assert (connection.state, stream.closed) == ("closed", True)
    assert not pool.connections
    assert ("failed", "ConnectionClosed") not in exchange.log


@pytest.mark.req("W18")
def test_leaving_twice_or_somebody_elses_exchange_changes_nothing() -> None:
    io, pool, exchange, connection, stream = leave_after(answer())
    connection.leave(exchange)
    other, connection, stream = open_exchange(io, pool)

    connection.leave(exchange)

    assert connection.state == "busy"
    stream.arrive(answer())
    assert other.slot.result() == "end"


@pytest.mark.req("W18")
def test_with_no_time_to_drain_leaving_closes() -> None:
    _, _, _, connection, stream = leave_after(STREAM_HEAD + event("result"), on_first_event=True, drain_timeout=0)

    assert (connection.state, stream.closed) == ("closed", True)


@pytest.mark.req("W18")
@pytest.mark.parametrize("last", [lambda stream: stream.end(), lambda stream: stream.arrive(b"no chunk\r\n")])
def test_a_draining_connection_that_breaks_is_closed(last: Callable[[Any], None]) -> None:
    _io, pool, exchange, connection, stream = leave_after(STREAM_HEAD + event("result"), on_first_event=True)

    last(stream)

    assert connection.state == "closed"
    assert not pool.connections
    assert exchange.slot.result() == "event"


@pytest.mark.req("T7")
def test_closing_fails_the_exchange_in_flight_once() -> None:
    io = FakeIO()
    exchange, connection, _ = open_exchange(io, pool_on(io))

    connection.close()
    connection.close()

    assert exchange.log == [("failed", "ConnectionClosed")]
    with pytest.raises(ConnectionClosed) as caught:
        exchange.slot.result()
    assert caught.value.request_sent


@pytest.mark.req("T7")
def test_closing_can_say_why() -> None:
    io = FakeIO()
    exchange, connection, _ = open_exchange(io, pool_on(io))

    connection.close(FerruleError("because"))

    with pytest.raises(FerruleError, match=r"^because$"):
        exchange.slot.result()


def test_the_repr_shows_origin_and_state_only() -> None:
    io = FakeIO()
    pool = pool_on(io, "http://me:hunter2@h/mcp?hunter2")
    _, connection, _ = open_exchange(io, pool)

    assert repr(connection) == "<Connection to http://h, busy>"
    assert repr(pool) == "<Pool http://h: 1 connections, 0 idle, 0 waiting>"
