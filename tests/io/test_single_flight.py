"""Rule 3: of all who want the same thing at once, one does it."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from typing import Any

import pytest

from ferrule._io import Expired
from ferrule.errors import ConnectError, RequestTimeout
from tests.io.drivers import Driver

MARK: contextvars.ContextVar[str] = contextvars.ContextVar("mark", default="none")


class Body:
    """A body that waits until it is let go, then gives its outcomes in turn; it counts its runs."""

    def __init__(self, io: Any, *outcomes: Any) -> None:
        self._io = io
        self._outcomes = list(outcomes)
        self.deadlines: list[float] = []
        self.gate = io.slot()
        self.running = 0

    async def __call__(self, deadline: float) -> Any:
        self.deadlines.append(deadline)
        self.running += 1
        assert self.running == 1, "two bodies run at once"
        try:
            await self._io.wait(self.gate, deadline)
        finally:
            self.running -= 1
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def joined(io: Any, key: object = "key") -> int:
    """How many wait for the flight of `key` besides a leader of the blocking driver."""
    flight = io._flights.get(key)
    if flight is None:
        return 0
    return len(flight.followers) + 1 if io.blocking else len(flight.waiters)


async def enter(driver: Driver, io: Any, body: Body, deadlines: list[float]) -> list[Any]:
    """Let one after another enter, then let the body go."""

    async def one(place: int, deadline: float) -> Any:
        await driver.until(lambda: joined(io) >= place)
        return await io.once("key", body, deadline)

    async def release() -> None:
        await driver.until(lambda: joined(io) >= len(deadlines))
        body.gate.set(None)

    return (await driver.together(*(one(*item) for item in enumerate(deadlines)), release()))[:-1]


@pytest.mark.req("N10")
def test_five_callers_at_once_cause_one_run_and_all_get_its_value_7(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        body = Body(io, 7)
        assert await enter(driver, io, body, [io.now() + 10] * 5) == [7] * 5
        assert len(body.deadlines) == 1

    driver.run(scenario)


@pytest.mark.req("N10")
def test_callers_one_after_another_each_run_the_body(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        body = Body(io, 1, 2)
        body.gate.set(None)
        assert [await io.once("key", body, io.now() + 10) for _ in range(2)] == [1, 2]
        assert io._flights == {}

    driver.run(scenario)


@pytest.mark.req("N10")
def test_different_keys_run_at_the_same_time(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        one, two = Body(io, 1), Body(io, 2)

        async def release() -> None:
            await driver.until(lambda: one.running and two.running)
            one.gate.set(None)
            two.gate.set(None)

        outcomes = await driver.together(
            io.once("one", one, io.now() + 10), io.once("two", two, io.now() + 10), release()
        )
        assert outcomes[:2] == [1, 2]

    driver.run(scenario)


@pytest.mark.req("N10", "T5")
def test_a_verdict_about_the_server_is_every_callers_error_and_the_body_ran_once(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        body = Body(io, ConnectError("refused"))
        outcomes = await enter(driver, io, body, [io.now() + 10] * 3)
        assert [type(outcome) for outcome in outcomes] == [ConnectError] * 3
        assert [str(outcome) for outcome in outcomes] == ["refused"] * 3
        assert len({id(outcome) for outcome in outcomes}) == 3, "callers share one exception object"
        assert len(body.deadlines) == 1

    driver.run(scenario)


@pytest.mark.req("N10")
@pytest.mark.parametrize("failure", [Expired(), RequestTimeout("late", request_sent=False)], ids=["expired", "timeout"])
def test_a_leader_that_times_out_hands_over_to_a_follower_with_its_own_deadline(
    driver: Driver, failure: Exception
) -> None:
    async def scenario(io: Any) -> None:
        body = Body(io, failure, "second")
        first, second = io.now() + 10, io.now() + 11
        outcomes = await enter(driver, io, body, [first, second])
        assert type(outcomes[0]) is type(failure)
        assert outcomes[1] == "second"
        assert body.deadlines == [first, second]

    driver.run(scenario)


@pytest.mark.req("N10", "T1")
def test_a_followers_own_deadline_raises_expired_for_it_alone(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        body = Body(io, "value")

        async def hasty() -> Any:
            await driver.until(lambda: body.running)
            try:
                return await io.once("key", body, io.now() + 0.02)
            finally:
                body.gate.set(None)

        outcomes = await driver.together(io.once("key", body, io.now() + 10), hasty())
        assert outcomes[0] == "value"
        assert isinstance(outcomes[1], Expired)
        assert len(body.deadlines) == 1

    driver.run(scenario)


@pytest.mark.req("N10")
def test_entering_again_from_inside_the_body_raises_at_once(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        async def body(deadline: float) -> Any:
            return await io.once("key", body, deadline)

        with pytest.raises(RuntimeError, match="inside its own body"):
            await io.once("key", body, io.now() + 10)
        assert io._flights == {}

    driver.run(scenario)


@pytest.mark.req("N10")
def test_entering_again_through_another_key_or_a_fan_out_raises_too(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        async def outer(deadline: float) -> Any:
            return await io.once("inner", inner, deadline)

        async def inner(deadline: float) -> Any:
            return await io.fan_out(nothing(), io.once("outer", outer, deadline))

        async def nothing() -> None:
            pass

        with pytest.raises(RuntimeError, match="inside its own body"):
            await io.once("outer", outer, io.now() + 10)

    driver.run(scenario)


@pytest.mark.req("N10")
def test_a_body_may_enter_another_key(driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        async def outer(deadline: float) -> Any:
            return await io.once("inner", inner, deadline)

        async def inner(deadline: float) -> int:
            return 3

        return await io.once("outer", outer, io.now() + 10)

    assert driver.run(scenario) == 3


@pytest.mark.req("V3")
def test_on_asyncio_the_body_runs_without_the_context_of_the_caller_that_was_first(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> Any:
        MARK.set("trace of the first caller")

        async def body(deadline: float) -> str:
            return MARK.get()

        return await io.once("key", body, io.now() + 10)

    assert loop_driver.run(scenario) == "none"


@pytest.mark.req("T4", "N10")
def test_a_leader_that_is_cancelled_leaves_the_run_to_its_follower(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        body = Body(io, "value")
        leader = asyncio.create_task(io.once("key", body, io.now() + 10))
        await loop_driver.until(lambda: body.running)
        follower = asyncio.create_task(io.once("key", body, io.now() + 10))
        await loop_driver.until(lambda: joined(io) == 2)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        body.gate.set(None)
        assert await follower == "value"
        assert len(body.deadlines) == 1

    loop_driver.run(scenario)


@pytest.mark.req("T4", "N10")
def test_when_every_waiter_is_gone_the_body_is_cancelled_and_the_key_is_free(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        ended = []

        async def body(deadline: float) -> None:
            try:
                await io.wait(io.slot(), deadline)
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        tasks = [asyncio.create_task(io.once("key", body, io.now() + 10)) for _ in range(2)]
        await loop_driver.until(lambda: joined(io) == 2)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert io._flights == {}
        await loop_driver.until(lambda: ended)
        fresh = Body(io, "fresh")
        fresh.gate.set(None)
        assert await io.once("key", fresh, io.now() + 10) == "fresh"

    loop_driver.run(scenario)


@pytest.mark.req("T1", "N10")
def test_when_the_only_waiter_expires_the_body_is_cancelled(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        ended = []

        async def body(deadline: float) -> None:
            try:
                await io.wait(io.slot(), io.now() + 10)
            finally:
                ended.append(True)

        with pytest.raises(Expired):
            await io.once("key", body, io.now() + 0.02)
        await loop_driver.until(lambda: ended)

    loop_driver.run(scenario)


@pytest.mark.req("T4", "N10")
def test_a_body_that_is_cancelled_from_outside_is_run_again_by_a_follower(loop_driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        body = Body(io, "value")
        leader = asyncio.create_task(io.once("key", body, io.now() + 10))
        await loop_driver.until(lambda: body.running)
        follower = asyncio.create_task(io.once("key", body, io.now() + 10))
        await loop_driver.until(lambda: joined(io) == 2)
        io._flights["key"].task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        body.gate.set(None)
        assert await follower == "value"
        assert len(body.deadlines) == 2

    loop_driver.run(scenario)


@pytest.mark.req("N10", "V5")
def test_a_leading_thread_that_is_interrupted_hands_over_to_another(blocking: Driver) -> None:
    async def scenario(io: Any) -> None:
        body = Body(io, KeyboardInterrupt(), "value")
        outcomes = await enter(blocking, io, body, [io.now() + 10] * 2)
        assert isinstance(outcomes[0], KeyboardInterrupt)
        assert outcomes[1] == "value"
        assert io._flights == {}

    blocking.run(scenario)


@pytest.mark.req("N10", "V5")
def test_8_threads_enter_5000_times_and_never_two_bodies_run_at_once(blocking: Driver, nervous: None) -> None:
    async def scenario(io: Any) -> None:
        inside = []
        runs = [0]

        async def body(deadline: float) -> int:
            inside.append(1)
            assert len(inside) == 1
            runs[0] += 1
            number = runs[0]
            if number % 5 == 0:
                inside.pop()
                raise Expired
            inside.pop()
            return number

        async def many() -> None:
            for _ in range(625):
                with contextlib.suppress(Expired):
                    assert await io.once("key", body, io.now() + 20) % 5

        outcomes = await blocking.together(*(many() for _ in range(8)))
        assert outcomes == [None] * 8
        assert 0 < runs[0] <= 5000
        assert io._flights == {}

    blocking.run(scenario)


@pytest.mark.req("N10", "T4")
def test_a_thread_whose_body_suspends_by_mistake_leaves_the_key_free(blocking: Driver) -> None:
    from ferrule._io.blocking import run

    async def scenario(io: Any) -> None:
        async def suspends(deadline: float) -> None:
            await asyncio.sleep(0)

        with pytest.raises(RuntimeError, match="suspended"):
            run(io.once("key", suspends, io.now() + 10))
        assert io._flights == {}
        assert threading.active_count() >= 1

    blocking.run(scenario)
