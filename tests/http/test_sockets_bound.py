"""Many callers, few connections, over real sockets on each driver."""

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
    Recorder,
    WireServer,
    again,
    answer,
    call,
    event,
    pool_to,
    post,
    wait,
)

Serve = Callable[..., WireServer]


@pytest.mark.req("W25")
def test_callers_beyond_the_bound_wait_and_are_all_served(driver: Driver, wire: Serve) -> None:
    server = wire([again(READ, answer(b"[1]"))])

    async def body(io: Any) -> list[bytes]:
        async with pool_to(io, server, max_connections=3) as pool:
            calls = [call(io, pool, post(name=str(n))) for n in range(40)]
            return [one.body for one in await io.fan_out(*calls)]

    assert driver(body) == [b"[1]"] * 40
    assert len(server.accepted) <= 3
    assert len(server.requests) == 40


@pytest.mark.req("W25", "T1")
def test_waiting_for_a_place_counts_against_the_deadline_and_nothing_was_sent(driver: Driver, wire: Serve) -> None:
    go = threading.Event()
    server = wire([READ, wait(go), answer(b"[1]"), READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> None:
        async with pool_to(io, server, max_connections=1) as pool:
            first = driver.start(call(io, pool))
            await driver.until(lambda: len(server.requests) == 1)
            exchange = Recorder(io)
            with pytest.raises(Expired):
                await pool.send(exchange, post(), io.now() + 0.05)
            assert not exchange.sent
            go.set()
            assert (await driver.done(first)).body == b"[1]"
            assert (await call(io, pool)).body == b"[2]"

    driver(body)


@pytest.mark.req("W25")
def test_what_bypasses_the_bound_goes_through_when_all_places_are_taken(driver: Driver, wire: Serve) -> None:
    go = threading.Event()
    server = wire([READ, wait(go), answer(b"[1]"), GONE], [READ, answer(b"[2]"), GONE])

    async def body(io: Any) -> None:
        async with pool_to(io, server, max_connections=1) as pool:
            first = driver.start(call(io, pool))
            await driver.until(lambda: len(server.requests) == 1)
            assert (await call(io, pool, bypass=True)).body == b"[2]"
            go.set()
            assert (await driver.done(first)).body == b"[1]"

    driver(body)


@pytest.mark.req("T7")
def test_closing_wakes_who_waits_for_a_place_and_who_waits_for_an_answer(driver: Driver, wire: Serve) -> None:
    server = wire([READ, GONE])

    async def body(io: Any) -> list[bool]:
        async with pool_to(io, server, max_connections=1) as pool:
            first = driver.start(call(io, pool))
            await driver.until(lambda: len(server.requests) == 1)
            second = driver.start(call(io, pool))
            await driver.until(lambda: "1 waiting" in repr(pool))
            await pool.close()
            sent = []
            for one in (first, second):
                with pytest.raises(ConnectionClosed) as caught:
                    await driver.done(one)
                sent.append(caught.value.request_sent)
            return sent

    assert driver(body) == [True, False]
    server.wait_until(lambda: server.gone == [0])


@pytest.mark.req("W25", "T4")
def test_a_cancelled_task_gives_back_what_it_had(driver: Driver, wire: Serve) -> None:
    if driver.is_blocking:
        return
    server = wire([READ, GONE], [READ, answer(b"[2]"), READ, answer(b"[3]"), GONE])

    async def body(io: Any) -> None:
        import asyncio

        async with pool_to(io, server, max_connections=1) as pool:
            first = asyncio.create_task(call(io, pool))
            await driver.until(lambda: len(server.requests) == 1)
            second = asyncio.create_task(call(io, pool))
            third = asyncio.create_task(call(io, pool))
            await driver.until(lambda: "2 waiting" in repr(pool))
            second.cancel()
            first.cancel()
            assert (await third).body == b"[2]"
            assert (await call(io, pool)).body == b"[3]"
            for task in (first, second):
                with pytest.raises(asyncio.CancelledError):
                    await task

    driver(body)
    assert server.gone[0] == 0


@pytest.mark.req("W25")
def test_threads_share_a_pool(wire: Serve) -> None:
    server = wire([again(READ, answer(b"[1]"))])

    async def body(io: Any) -> None:
        async with pool_to(io, server, max_connections=4) as pool:

            async def many() -> int:
                return sum([len((await call(io, pool)).body) for _ in range(50)])

            assert await io.fan_out(*(many() for _ in range(16))) == [150] * 16
            assert len(pool.connections) <= 4
            assert repr(pool).endswith(" 0 waiting>")

    Driver("blocking")(body)
    assert len(server.requests) == 800
    assert len(server.accepted) <= 4


@pytest.mark.req("W25", "W16")
def test_threads_and_tasks_lose_no_place_when_the_server_keeps_hanging_up(driver: Driver, wire: Serve) -> None:
    good = [READ, answer(b"[1]")]
    events = [READ, STREAM_HEAD + event("result"), LAST_CHUNK]
    server = wire([*good * 3, *events * 2, READ, RESET], [*events, *good, CLOSE], [READ, GONE], [*good * 9, CLOSE])

    async def body(io: Any) -> tuple[int, int]:
        async with pool_to(io, server, max_connections=4) as pool:

            async def many(worker: int) -> int:
                answered = 0
                for number in range(25):
                    seconds = 0.02 if (worker + number) % 7 == 0 else 1.0
                    try:
                        await call(io, pool, seconds=seconds, on_first_event=number % 2 == 0)
                        answered += 1
                    except (ConnectionClosed, Expired):
                        pass
                return answered

            answered = sum(await io.fan_out(*(many(worker) for worker in range(12))))
            assert repr(pool).endswith(" 0 waiting>")
            assert not [one for one in pool.connections if one.state == "busy"]
            # All places are there: so many exchanges can be open at once, and not one more.
            for _ in range(4):
                await pool.acquire(io.now() + 5)
            with pytest.raises(Expired):
                await pool.acquire(io.now() + 0.01)
            return answered, len(server.requests)

    answered, requests = driver(body)
    assert 200 < answered <= 300
    assert requests <= 300
