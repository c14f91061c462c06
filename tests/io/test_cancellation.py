"""Rule 6: cancellation takes effect at once, at every await, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from ferrule._io import Expired
from tests.io.drivers import Driver, Receiver, SteppingLoop, ask, dial, echo

CHILD = [sys.executable, "-c", "import sys\nfor line in sys.stdin:\n    sys.stdout.write(line)\n    sys.stdout.flush()"]


def cancel_after(steps: int, task: asyncio.Task[Any]) -> None:
    """Cancel `task` after so many turns of the loop."""
    loop = asyncio.get_running_loop()
    left = steps

    def step() -> None:
        nonlocal left
        left -= 1
        if left <= 0 and not task.done():
            task.cancel()
        elif not task.done() and not hasattr(loop, "on_step"):
            loop.call_soon(step)  # uvloop cannot be watched: this makes it turn, so that time counts as well

    if isinstance(loop, SteppingLoop):
        loop.on_step = step
        task.add_done_callback(lambda _: setattr(loop, "on_step", None))
    else:
        loop.call_soon(step)


def at_every_step(driver: Driver, scenario: Callable[[Any], Any], least: int) -> None:
    """Run the scenario again and again, cancelled after the 1st, 2nd, ... turn, until it runs through."""

    async def attempt(io: Any, steps: int) -> bool:
        task = asyncio.create_task(scenario(io))
        cancel_after(steps, task)
        try:
            await task
        except asyncio.CancelledError:
            return False
        return True

    steps = attempts = 1
    # Every attempt has its own loop and IO; the driver looks for what is left after each.
    while not driver.run(lambda io: attempt(io, steps), thorough=attempts % 10 == 0):  # noqa: B023 - run at once
        attempts += 1
        # Turns that uvloop only makes for us are many and alike: from the 20th on not each of them.
        steps += 1 if driver.name == "asyncio" or steps < 20 else steps // 2
    gc.collect()
    assert attempts >= least, "the scenario was too short to prove anything"


@pytest.mark.req("T4")
def test_connecting_and_calling_can_be_cancelled_at_every_step(loop_driver: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        assert await ask(io, stream, receiver, b"one\n") == b"one\n"
        assert await ask(io, stream, receiver, b"two\n") == b"two\n"
        await io.sleep(0.001)
        stream.close()

    at_every_step(loop_driver, scenario, least=5)


@pytest.mark.req("T4", "W23")
def test_connecting_with_tls_can_be_cancelled_at_every_step(loop_driver: Driver, peer: Any, certificates: Any) -> None:
    port = peer(echo, tls=certificates.server).port
    context = certificates.client()

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver, tls=context, server_hostname="localhost")
        assert await ask(io, stream, receiver, b"one\n") == b"one\n"

    at_every_step(loop_driver, scenario, least=5)


@pytest.mark.req("T4")
def test_looking_up_a_name_and_racing_addresses_can_be_cancelled_at_every_step(
    loop_driver: Driver, peer: Any, black_hole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ferrule._io import asyncio as module
    from ferrule._io import asyncio_connect

    port = peer(echo).port

    async def look_up(loop: Any, host: str, wanted: int) -> Any:
        import socket

        await asyncio.sleep(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, ("127.0.0.1", at)) for at in (black_hole, 1, port)]

    monkeypatch.setattr(module, "look_up", look_up)
    monkeypatch.setattr(asyncio_connect, "ATTEMPT_DELAY", 0.001)

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, 1, receiver, host="name.test")
        assert await ask(io, stream, receiver, b"one\n") == b"one\n"

    at_every_step(loop_driver, scenario, least=8)


@pytest.mark.req("T4", "N10")
def test_single_flight_can_be_cancelled_at_every_step_and_the_other_caller_gets_its_value(
    loop_driver: Driver,
) -> None:
    async def scenario(io: Any) -> None:
        async def body(deadline: float) -> int:
            await io.sleep(0)
            await io.fan_out(io.sleep(0), io.sleep(0))
            return 7

        other = asyncio.create_task(io.once("key", body, io.now() + 10))
        try:
            assert await io.once("key", body, io.now() + 10) == 7
        finally:
            # Whatever became of this caller: the other is served.
            other.add_done_callback(lambda task: outcomes.append(task.exception() or task.result()))
            flights.append(other)

    outcomes: list[Any] = []
    flights: list[Any] = []

    async def whole(io: Any) -> None:
        try:
            await scenario(io)
        finally:
            if flights:
                io.background(_settled(flights.pop()))

    at_every_step(loop_driver, whole, least=3)
    assert set(outcomes) == {7}


async def _settled(task: asyncio.Task[Any]) -> None:
    await asyncio.wait([task])


@pytest.mark.req("T4", "D6")
def test_a_child_can_be_cancelled_at_every_step_and_no_zombie_stays(loop_driver: Driver) -> None:
    pids = []

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        process = await io.spawn(CHILD, env={}, cwd=None, stderr="discard", receiver=receiver)
        pids.append(process.pid)
        try:
            assert await ask(io, process.stream, receiver, b"one\n") == b"one\n"
            process.stream.finish_writing()
            assert await process.wait_exit(io.now() + 10) == 0
        finally:
            process.kill()

    async def cancelled_late(io: Any) -> bool:
        task = asyncio.create_task(scenario(io))
        await loop_driver.until(lambda: pids or task.done())
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert loop_driver.run(cancelled_late)
    import os

    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.req("T4", "D5")
def test_a_write_to_a_full_pipe_that_is_cancelled_is_finished_before_the_next_one(loop_driver: Driver) -> None:
    program = (
        "import sys, os\n"
        "sys.stdin.readline()\n"  # the go-ahead comes as a signal file would: by the parent's second line
    )
    reader = [
        sys.executable,
        "-c",
        program + "data = sys.stdin.read()\nprint(len(data), data[-7:].strip(), flush=True)",
    ]

    async def scenario(io: Any) -> bytes:
        receiver = Receiver()
        process = await io.spawn(reader, env={}, cwd=None, stderr="inherit", receiver=receiver)
        size = 3_000_000
        task = asyncio.create_task(process.stream.write(b"\n" + b"x" * size + b"\n", io.now() + 10))
        await loop_driver.until(lambda: process.stream._rest is not None or task.done())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await process.stream.write(b"second\n", io.now() + 10)
        slot = receiver.expect(io.slot())
        process.stream.finish_writing()
        await process.stream.wait(slot, io.now() + 10)
        await process.wait_exit(io.now() + 10)
        return bytes(slot.result())

    assert loop_driver.run(scenario) == b"3000008 second\n"


@pytest.mark.req("T4")
def test_a_cancelled_wait_leaves_the_waiting_table_empty_and_others_alone(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        first, second = io.slot(), io.slot()
        tasks = [asyncio.create_task(io.wait(slot, io.now() + 20)) for slot in (first, second)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[0]
        assert len(io._waiting) == 1
        first.set(1)
        second.set(2)
        await tasks[1]
        assert io._waiting == {}
        assert second.result() == 2

    loop_driver.run(scenario)


@pytest.mark.req("T4", "T1")
def test_cancelling_and_expiring_in_the_same_turn_ends_as_cancelled_or_expired_once(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        for wait in range(20):
            task = asyncio.create_task(io.wait(io.slot(), io.now() + wait / 1000))
            await asyncio.sleep(wait / 1000)
            task.cancel()
            with pytest.raises((asyncio.CancelledError, Expired)):
                await task
        assert io._waiting == {}

    loop_driver.run(scenario)
