"""Rule 4: the user's code, and work beside the caller."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
import time
import weakref
from typing import Any

import pytest

from ferrule._io import Closing, Expired
from tests.io.drivers import Driver, until

MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


@pytest.mark.req("T5")
def test_a_plain_handler_is_called_with_its_arguments_in_the_callers_context(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        MARK.set("the caller's")
        return await io.call(lambda a, b: (a, b, MARK.get(), threading.get_ident()), 1, 2)

    assert driver.run(scenario) == (1, 2, "the caller's", threading.get_ident())


@pytest.mark.req("T5")
def test_an_exception_of_a_handler_comes_out_as_it_is(driver: Driver) -> None:
    def handler() -> None:
        raise ZeroDivisionError

    async def scenario(io: Any) -> None:
        with pytest.raises(ZeroDivisionError):
            await io.call(handler)

    driver.run(scenario)


@pytest.mark.req("T5")
def test_on_asyncio_a_coroutine_handler_is_awaited(loop_driver: Driver) -> None:
    async def handler(number: int) -> int:
        await asyncio.sleep(0)
        return number + 1

    async def scenario(io: Any) -> Any:
        return await io.call(handler, 1)

    assert loop_driver.run(scenario) == 2


@pytest.mark.req("T5")
def test_gather_returns_the_values_in_order_and_runs_one_after_another_only_when_blocking(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        trace: list[str] = []

        async def one(name: str) -> str:
            trace.append(name + " begins")
            await io.sleep(0.001)
            trace.append(name + " ends")
            return name

        assert await io.gather() == []
        assert await io.gather(one("a"), one("b")) == ["a", "b"]
        return trace

    trace = driver.run(scenario)
    if driver.blocking:
        assert trace == ["a begins", "a ends", "b begins", "b ends"]
    else:
        assert trace[:2] == ["a begins", "b begins"]


@pytest.mark.req("T5", "T4")
def test_the_first_error_of_gather_comes_out_and_the_others_are_ended(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        ended: list[str] = []

        async def fails() -> None:
            await io.sleep(0)
            raise ZeroDivisionError

        async def waits() -> None:
            try:
                await io.wait(io.slot(), io.now() + 10)
            finally:
                ended.append("waits")

        began = time.monotonic()
        with pytest.raises(ZeroDivisionError):
            await io.gather(fails(), waits())
        if not driver.blocking:
            await driver.until(lambda: ended)
        assert time.monotonic() - began < 5

    driver.run(scenario)


@pytest.mark.req("T4")
def test_cancelling_gather_cancels_what_it_runs(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        ended: list[int] = []

        async def waits(number: int) -> None:
            try:
                await io.wait(io.slot(), io.now() + 10)
            finally:
                ended.append(number)

        task = asyncio.create_task(io.gather(waits(1), waits(2)))
        await loop_driver.until(lambda: len(io._waiting) == 3)  # gather waits, too
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await loop_driver.until(lambda: sorted(ended) == [1, 2])

    loop_driver.run(scenario)


@pytest.mark.req("T1", "T5")
def test_gather_ends_at_its_deadline_and_cancels_what_it_runs(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        ended: list[int] = []

        async def waits(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(number)

        with pytest.raises(Expired):
            await io.gather(waits(1), waits(2), deadline=io.now() + 0.05)
        await loop_driver.until(lambda: sorted(ended) == [1, 2])
        assert await io.gather(asyncio.sleep(0, "in time"), deadline=io.now() + 10) == ["in time"]

    loop_driver.run(scenario)


@pytest.mark.req("T5", "T7")
def test_closing_ends_gather_and_what_it_runs(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        ended: list[str] = []

        async def waits() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("waits")

        task = asyncio.create_task(io.gather(waits()))
        await loop_driver.until(lambda: len(io._waiting) == 1)
        await io.close(io.now() + 1)
        with pytest.raises(Closing):
            await task
        await loop_driver.until(lambda: ended)

    loop_driver.run(scenario)


@pytest.mark.req("T1")
def test_fan_out_runs_three_at_the_same_time_in_both_drivers(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        slots = [io.slot() for _ in range(3)]

        async def meet(number: int) -> int:
            slots[number].set(None)
            for slot in slots:
                await io.wait(slot, io.now() + 10)
            return number

        return await io.fan_out(*map(meet, range(3)))

    assert driver.run(scenario) == [0, 1, 2]


@pytest.mark.req("T5")
def test_an_error_in_fan_out_comes_out(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        async def fails(number: int) -> int:
            if number == 1:
                raise ZeroDivisionError
            return number

        with pytest.raises(ZeroDivisionError):
            await io.fan_out(*map(fails, range(3)))

    driver.run(scenario)


@pytest.mark.req("V3")
def test_background_work_runs_with_an_empty_context(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        MARK.set("a trace")
        seen = []

        async def work() -> None:
            seen.append(MARK.get())

        io.background(work())
        await driver.until(lambda: seen)
        return seen

    assert driver.run(scenario) == ["none"]


@pytest.mark.req("G1")
def test_a_failure_in_the_background_is_logged_by_its_type_alone(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(io: Any) -> None:
        async def work() -> None:
            raise ValueError("secret-7f3a")

        with caplog.at_level(logging.DEBUG):
            io.background(work())
            await driver.until(lambda: caplog.records)

    driver.run(scenario)
    assert [record.name for record in caplog.records] == ["ferrule"]
    assert "ValueError" in caplog.text
    assert "secret-7f3a" not in caplog.text


@pytest.mark.req("T7")
def test_cancelling_background_work_ends_its_wait(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        trace = []

        async def work() -> None:
            trace.append("begun")
            try:
                await io.sleep(60)
            except BaseException as error:
                trace.append(type(error).__name__)
                raise

        handle = io.background(work())
        await driver.until(lambda: trace)
        handle.cancel()
        await driver.until(lambda: len(trace) == 2)
        return trace

    assert driver.run(scenario) in (["begun", "Closing"], ["begun", "CancelledError"])


@pytest.mark.req("T7")
def test_a_cancelled_piece_of_background_work_takes_no_other_waits_with_it(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        begun = []
        ended = []

        async def work(number: int, slot: Any) -> None:
            begun.append(number)
            try:
                await io.wait(slot, io.now() + 10)
            finally:
                ended.append(number)

        slots = [io.slot() for _ in range(3)]
        handles = [io.background(work(*item)) for item in enumerate(slots)]
        await driver.until(lambda: len(begun) == 3)
        handles[1].cancel()
        await driver.until(lambda: ended)
        assert ended == [1]
        slots[0].set(None)
        slots[2].set(None)
        await driver.until(lambda: len(ended) == 3)

    driver.run(scenario)


@pytest.mark.req("T7")
def test_closing_waits_for_background_work_that_is_about_to_end(driver: Driver) -> None:
    ended = []

    async def scenario(io: Any) -> None:
        async def work() -> None:
            await io.sleep(0.05)
            ended.append(True)

        io.background(work())

    driver.run(scenario)
    assert ended == [True]


@pytest.mark.req("T7")
def test_closing_ends_background_work_at_its_deadline_and_refuses_more(driver: Driver) -> None:
    async def scenario(io: Any) -> float:
        ended = []

        async def work() -> None:
            try:
                await io.wait(io.slot(), io.now() + 3600)
            finally:
                ended.append(True)

        io.background(work())
        began = time.monotonic()
        await io.close(io.now() + 0.1)
        took = time.monotonic() - began
        assert ended == [True]
        await io.close(io.now() + 0.1)
        with pytest.raises(Closing):
            await io.wait(io.slot(), io.now() + 1)
        io.background(work()).cancel()  # taken, and not begun: clean-up code need not look first
        return took

    assert 0.05 < driver.run(scenario) < 2


@pytest.mark.req("T7")
def test_closing_from_inside_background_work_does_not_wait_for_itself(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        took = []

        async def work() -> None:
            began = time.monotonic()
            await io.close(io.now() + 3)
            took.append(time.monotonic() - began)

        io.background(work())
        await driver.until(lambda: took)
        assert took[0] < 1

    driver.run(scenario)


@pytest.mark.req("T7")
def test_a_blocking_io_with_background_threads_is_collected_when_forgotten_and_its_threads_end() -> None:
    io = Driver("blocking").make()
    reference = weakref.ref(io)
    wakers = io._wakers
    slot = io.slot()

    async def work() -> None:  # holds no IO: what a coroutine holds is its author's affair
        waker = wakers.take()
        try:
            while True:
                waker.doze(float("inf"), 3600)
        finally:
            wakers.give(waker)
            slot.set(None)

    thread = io.background(work()).thread
    until(lambda: wakers._busy)
    del io
    gc.collect()
    assert reference() is None
    until(lambda: not thread.is_alive(), "the end of the thread")
    assert slot.done


@pytest.mark.req("T7")
def test_a_blocking_io_in_a_reference_cycle_is_collected() -> None:
    io = Driver("blocking").make()
    io.cycle = io
    reference = weakref.ref(io)
    del io
    gc.collect()
    assert reference() is None
