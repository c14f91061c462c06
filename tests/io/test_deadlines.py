"""Rule 5: deadlines are absolute, and one lazily armed timer serves everything that waits on asyncio."""

from __future__ import annotations

import asyncio
import gc
import math
import time
import weakref
from typing import Any

import pytest

from ferrule._io import Expired
from ferrule._io.asyncio import AsyncIO
from tests.io.drivers import Driver, Receiver, dial, echo


@pytest.mark.req("T1")
@pytest.mark.parametrize("through", ["io", "stream"])
def test_a_wait_expires_at_its_deadline_and_not_before(driver: Driver, peer: Any, through: str) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> float:
        waiter = io if through == "io" else await dial(io, port, Receiver())
        began = io.now()
        with pytest.raises(Expired):
            await waiter.wait(io.slot(), began + 0.05)
        return float(io.now() - began)

    assert 0.05 <= driver.run(scenario) < 1


@pytest.mark.req("T1")
def test_a_deadline_that_has_passed_expires_at_once(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        began = io.now()
        for deadline in (io.now(), io.now() - 5, -math.inf):
            with pytest.raises(Expired):
                await io.wait(io.slot(), deadline)
        assert io.now() - began < 1

    driver.run(scenario)


@pytest.mark.req("T1", "T3")
def test_a_slot_that_has_its_value_is_worth_more_than_a_deadline_that_has_passed(driver: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        stream = await dial(io, port, Receiver())
        for waiter in (io, stream):
            for fill in ("set", "post"):
                slot = io.slot()
                getattr(slot, fill)(1)
                await waiter.wait(slot, io.now() - 5)

    driver.run(scenario)


@pytest.mark.req("T1")
def test_sleeping_takes_its_time_and_not_much_more(driver: Driver) -> None:
    async def scenario(io: Any) -> float:
        began = io.now()
        await io.sleep(0.05)
        await io.sleep(0)
        await io.sleep(-1)
        return float(io.now() - began)

    assert 0.05 <= driver.run(scenario) < 1


@pytest.mark.req("T1")
def test_an_infinite_deadline_waits_and_arms_nothing(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        slot = io.slot()

        async def fill() -> None:
            if not driver.blocking:
                await driver.until(lambda: io._waiting)
                assert io._timer is None
            slot.set(5)

        await driver.together(io.wait(slot, math.inf), fill())
        assert slot.result() == 5

    driver.run(scenario)


@pytest.mark.req("T5")
def test_of_100_waits_one_expires_and_99_get_their_value(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        slots = [io.slot() for _ in range(100)]

        async def one(number: int) -> int:
            await io.wait(slots[number], io.now() + (0.03 if number == 50 else 20))
            return int(slots[number].result())

        async def fill() -> None:
            await io.sleep(0.1)
            for number, slot in enumerate(slots):
                slot.set(number)

        outcomes = (await driver.together(*map(one, range(100)), fill()))[:100]
        assert isinstance(outcomes.pop(50), Expired)
        assert outcomes == [number for number in range(100) if number != 50]

    driver.run(scenario)


class Counting:
    """Counts the timers that are armed on a loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.delays: list[float] = []
        loop = asyncio.get_running_loop()
        arm = loop.call_later

        def call_later(delay: float, *args: Any, **kwargs: Any) -> Any:
            self.delays.append(delay)
            return arm(delay, *args, **kwargs)

        monkeypatch.setattr(loop, "call_later", call_later)


@pytest.mark.req("T1")
def test_a_thousand_calls_one_after_another_arm_one_timer(peer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        await io.sleep(0)
        io._timer = None
        io._armed = math.inf
        counting = Counting(monkeypatch)
        tasks = len(asyncio.all_tasks())
        for _ in range(1000):
            slot = receiver.expect(io.slot())
            deadline = io.now() + 30
            await stream.write(b"x\n", deadline)
            await stream.wait(slot, deadline)
            assert len(asyncio.all_tasks()) == tasks
        assert len(counting.delays) == 1
        assert 29 < counting.delays[0] <= 30
        io._timer.cancel()

    Driver("asyncio").run(scenario)


@pytest.mark.req("T1")
def test_the_timer_is_armed_anew_only_for_an_earlier_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(io: Any) -> None:
        io.check()
        counting = Counting(monkeypatch)
        now = io.now()
        tasks = [asyncio.create_task(io.wait(io.slot(), now + delay)) for delay in (20, 30, 40, 10, 15, math.inf)]
        await asyncio.sleep(0)
        assert [round(delay) for delay in counting.delays] == [20, 10]
        assert io._armed == now + 10
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    Driver("asyncio").run(scenario)


@pytest.mark.req("T1")
def test_one_scan_expires_all_that_are_due_and_the_next_comes_not_sooner_than_10_ms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(io: Any) -> list[float]:
        io.check()
        counting = Counting(monkeypatch)
        now = io.now()
        delays = [0.02 + step / 10_000 for step in range(100)]  # a deadline every 0.1 ms
        tasks = [asyncio.create_task(io.wait(io.slot(), now + delay)) for delay in delays]
        done, _ = await asyncio.wait(tasks)
        assert all(isinstance(task.exception(), Expired) for task in done)
        return counting.delays

    # A delay is taken from a clock that goes on while a busy machine does something else: one undisturbed run will do.
    runs = [Driver("asyncio").run(scenario) for _ in range(3)]
    assert any(1 <= len(run) <= 4 and min(run) >= 0.0099 for run in runs), runs


@pytest.mark.req("T1")
def test_after_the_last_deadline_no_timer_is_armed(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        with pytest.raises(Expired):
            await io.wait(io.slot(), io.now() + 0.01)
        assert (io._timer, io._armed, io._waiting) == (None, math.inf, {})

    loop_driver.run(scenario)


@pytest.mark.req("T7")
def test_an_armed_timer_keeps_neither_the_io_alive_nor_the_loop(loop_driver: Driver) -> None:
    async def main() -> weakref.ref[AsyncIO]:
        io = AsyncIO()
        io.check()
        slot = io.slot()
        asyncio.get_running_loop().call_soon(slot.set, None)
        await io.wait(slot, io.now() + 3600)
        assert io._timer is not None
        reference = weakref.ref(io)
        del io
        gc.collect()
        assert reference() is None
        return reference

    began = time.monotonic()
    loop_driver.run_loop(main())
    assert time.monotonic() - began < 5


@pytest.mark.req("T1", "V3")
def test_the_timer_holds_no_context_of_the_caller_that_armed_it() -> None:
    import contextvars

    class Big:
        pass

    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable", default=None)

    async def main() -> None:
        io = AsyncIO()
        io.check()

        async def call() -> weakref.ref[Any]:
            big = Big()
            variable.set(big)
            slot = io.slot()
            asyncio.get_running_loop().call_soon(slot.set, None, context=contextvars.Context())
            await io.wait(slot, io.now() + 3600)
            return weakref.ref(big)

        reference = await asyncio.create_task(call())
        await asyncio.sleep(0)  # the loop still held the finished task
        gc.collect()
        assert io._timer is not None
        assert reference() is None
        await io.close(io.now() + 1)

    Driver("asyncio").run_loop(main())


@pytest.mark.req("T1")
def test_a_connection_attempt_that_is_never_answered_ends_at_its_deadline(driver: Driver, black_hole: int) -> None:
    async def scenario(io: Any) -> float:
        began = io.now()
        with pytest.raises(Expired):
            await dial(io, black_hole, Receiver(), deadline=io.now() + 0.1)
        return float(io.now() - began)

    assert 0.1 <= driver.run(scenario) < 2


@pytest.mark.req("T1")
def test_a_name_lookup_that_hangs_ends_at_its_deadline(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    import threading

    if driver.name == "uvloop":
        pytest.skip("uvloop asks the system's resolver itself")
    release = threading.Event()
    ask = socket.getaddrinfo

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        if host != b"slow.invalid" or kwargs.get("flags", 0):
            return ask(host, *args, **kwargs)
        release.wait(20)
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)

    async def scenario(io: Any) -> float:
        began = io.now()
        for _ in range(2):
            with pytest.raises(Expired):
                await dial(io, 9, Receiver(), host="slow.invalid", deadline=io.now() + 0.05)
        took = float(io.now() - began)
        if driver.blocking:
            names = [thread.name for thread in threading.enumerate()]
            assert names.count("ferrule-dns") == 1, "the same name is looked up twice at once"
        release.set()
        return took

    assert 0.1 <= driver.run(scenario) < 2
