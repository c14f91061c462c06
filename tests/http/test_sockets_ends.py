"""What a caller sees of connections that end, or do not end, over real sockets on each driver."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from ferrule._io import Expired
from ferrule.errors import ConnectionClosed
from tests.http.wire import (
    CLOSE,
    GONE,
    LAST_CHUNK,
    READ,
    RESET,
    STREAM_HEAD,
    Driver,
    Peer,
    Recorder,
    WireServer,
    answer,
    call,
    event,
    pool_to,
    post,
    wait,
)

Serve = Callable[..., WireServer]


@pytest.mark.req("W16")
@pytest.mark.parametrize("how", [CLOSE, RESET])
def test_a_connection_that_the_server_closed_while_idle_is_not_used_again(
    driver: Driver, wire: Serve, how: Any
) -> None:
    go = threading.Event()
    server = wire([READ, answer(), wait(go), how], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server) as pool:
            await call(io, pool)
            go.set()
            server.wait_until(lambda: server.ended == [0])
            await io.sleep(0.002)  # over the millisecond after which a connection is looked at
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    assert [number for number, _ in server.requests] == [0, 1]


@pytest.mark.req("W16", "W11")
def test_a_connection_with_unasked_bytes_is_not_used_again(driver: Driver, wire: Serve) -> None:
    go, sent = threading.Event(), threading.Event()
    late = [wait(go), answer(b'{"late":1}'), lambda peer: sent.set(), GONE]
    server = wire([READ, answer(), *late], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server) as pool:
            await call(io, pool)
            go.set()
            assert sent.wait(10)
            await io.sleep(0.002)
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    server.wait_until(lambda: 0 in server.gone)


@pytest.mark.req("W16", "R2")
@pytest.mark.parametrize("how", [CLOSE, RESET])
@pytest.mark.parametrize("partial", [b"", answer()[:20], answer()[:-1], STREAM_HEAD + event("a")])
def test_a_connection_that_dies_before_the_answer_says_that_the_request_was_sent(
    driver: Driver, wire: Serve, how: Any, partial: bytes
) -> None:
    server = wire([READ, answer(), READ, partial, how], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server) as pool:
            await call(io, pool)
            with pytest.raises(ConnectionClosed) as caught:
                await call(io, pool)
            assert caught.value.request_sent
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    assert len(server.requests) == 3, "nothing is sent again down here"


@pytest.mark.req("W16")
@pytest.mark.parametrize("status", ["413 Content Too Large", "401 Unauthorized"])
def test_an_early_answer_is_read_although_the_server_stopped_reading(driver: Driver, wire: Serve, status: str) -> None:
    def hang_up(peer: Any) -> None:
        peer.socket.shutdown(1)  # it has said all; what it has not read makes no difference
        GONE(peer)

    early = answer(b"{}", "Connection: close", status=status)
    server = wire([Peer.read_some, early, hang_up])

    async def body(io: Any) -> Recorder:
        async with pool_to(io, server) as pool:
            return await call(io, pool, post(b"x" * (4 << 20)))

    assert driver(body).log == [("head", int(status[:3])), ("body", b"{}"), ("end",)]


@pytest.mark.req("W16", "T1")
def test_a_server_that_reads_nothing_and_answers_nothing_meets_the_deadline(driver: Driver, wire: Serve) -> None:
    go = threading.Event()
    server = wire([wait(go)])

    async def body(io: Any) -> None:
        async with pool_to(io, server) as pool:
            exchange = Recorder(io)
            large = post(b"x" * (32 << 20))
            with pytest.raises(Expired):
                deadline = io.now() + 0.5
                connection = await pool.send(exchange, large, deadline)
                try:
                    await connection.wait(exchange.slot, deadline)
                finally:
                    connection.leave(exchange)
            assert exchange.sent
            assert not pool.connections

    try:
        driver(body)
    finally:
        go.set()


@pytest.mark.req("W17")
def test_an_idle_connection_expires(driver: Driver, wire: Serve) -> None:
    server = wire([READ, answer(b"[1]"), GONE], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server, idle_timeout=0.02) as pool:
            await call(io, pool)
            await io.sleep(0.03)
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    server.wait_until(lambda: 0 in server.gone)


@pytest.mark.req("T2", "W18")
def test_giving_up_closes_the_connection_and_tells_the_server_nothing_else(driver: Driver, wire: Serve) -> None:
    server = wire([READ, STREAM_HEAD + event("progress"), GONE], [READ, answer(), GONE])

    async def body(io: Any) -> None:
        async with pool_to(io, server) as pool:
            with pytest.raises(Expired):
                await call(io, pool, seconds=0.05)
            await driver.until(lambda: server.gone == [0])
            await call(io, pool)

    driver(body)
    assert len(server.requests) == 2


# --- draining ------------------------------------------------------------------------------------


@pytest.mark.req("W18")
def test_the_caller_goes_at_the_result_and_the_connection_is_used_again(driver: Driver, wire: Serve) -> None:
    go, sent = threading.Event(), threading.Event()
    rest = [wait(go), event("late") + LAST_CHUNK, lambda peer: sent.set()]
    server = wire([READ, STREAM_HEAD + event("result"), *rest, READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server, drain_timeout=10) as pool:
            exchange = await call(io, pool, on_first_event=True)
            (connection,) = pool.connections
            assert connection.state == "draining"
            go.set()
            assert sent.wait(10)
            if not driver.is_blocking:
                await driver.until(lambda: connection.state == "idle")
            second = await call(io, pool)
            assert exchange.events == [b"result"]
            return second.body

    assert driver(body) == b"[2]"
    assert server.accepted == [0]


@pytest.mark.req("W18")
def test_a_stream_that_the_server_keeps_open_is_closed_after_a_short_wait(driver: Driver, wire: Serve) -> None:
    server = wire([READ, STREAM_HEAD + event("result"), GONE], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server, drain_timeout=0.03) as pool:
            started = io.now()
            await call(io, pool, on_first_event=True)
            assert io.now() - started < 0.03 or server.accepted == [0], "the caller does not wait"
            (connection,) = pool.connections
            if driver.is_blocking:
                await io.sleep(0.04)
            else:
                await driver.until(lambda: connection.state == "closed")
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"
    server.wait_until(lambda: 0 in server.gone)


@pytest.mark.req("W18")
def test_while_one_drains_another_is_opened(driver: Driver, wire: Serve) -> None:
    server = wire([READ, STREAM_HEAD + event("result"), GONE], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> bytes:
        async with pool_to(io, server, drain_timeout=10, max_connections=1) as pool:
            await call(io, pool, on_first_event=True)
            return (await call(io, pool)).body

    assert driver(body) == b"[2]"


@pytest.mark.req("W18", "T7")
def test_closing_does_not_wait_for_what_drains(driver: Driver, wire: Serve) -> None:
    server = wire([READ, STREAM_HEAD + event("result"), GONE])

    async def body(io: Any) -> float:
        async with pool_to(io, server, drain_timeout=10) as pool:
            await call(io, pool, on_first_event=True)
        started: float = io.now()
        await io.close(started + 5)
        return io.now() - started  # type: ignore[no-any-return]

    assert driver(body) < 1
    server.wait_until(lambda: server.gone == [0])
