"""Rule 1: under the blocking driver nothing suspends, and what does is named."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from ferrule._io.blocking import BlockingIO, run
from tests.io.drivers import Driver, Receiver, ask, dial, echo


async def value() -> int:
    return 42


@pytest.mark.req("V3")
def test_running_a_coroutine_that_never_suspends_returns_its_value_42() -> None:
    assert run(value()) == 42


@pytest.mark.req("V3")
def test_an_exception_of_the_coroutine_comes_out_as_it_is() -> None:
    async def failing() -> None:
        raise KeyError("k")

    with pytest.raises(KeyError):
        run(failing())


@pytest.mark.req("V3")
def test_a_coroutine_that_suspends_is_closed_and_the_error_names_what_was_awaited() -> None:
    closed = []

    async def inner() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append("inner")

    async def outer() -> None:
        try:
            await inner()
        finally:
            closed.append("outer")

    with pytest.raises(RuntimeError, match=r"internal error: .*sleep.* suspended under the blocking driver"):
        run(outer())
    assert closed == ["inner", "outer"]


@pytest.mark.req("V3")
def test_the_error_names_the_type_of_a_future_that_was_awaited() -> None:
    async def waits(future: Any) -> None:
        await future

    loop = asyncio.new_event_loop()
    future = loop.create_future()
    loop.close()
    with pytest.raises(RuntimeError, match=r"waits suspended under the blocking driver, awaiting Future"):
        run(waits(future))


@pytest.mark.req("V3")
def test_a_coroutine_that_refuses_to_be_closed_is_an_error_too() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(0)
        except GeneratorExit:
            await asyncio.sleep(0)

    with pytest.raises(RuntimeError):
        run(stubborn())


@pytest.mark.req("V3")
def test_the_blocking_driver_works_inside_a_running_event_loop(peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> bytes:
        receiver = Receiver()
        stream = await dial(io, port, receiver, host="localhost")
        return await ask(io, stream, receiver, b"one\n")

    async def main() -> bytes:
        result: bytes = Driver("blocking").run(scenario)
        return result

    assert asyncio.run(main()) == b"one\n"


@pytest.mark.req("V3")
def test_every_operation_of_the_blocking_driver_ends_without_suspending(peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> list[Any]:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        answers = [await ask(io, stream, receiver, b"one\n")]
        await io.sleep(0.001)
        answers.append(await io.call(lambda: 2))
        answers += await io.gather(value(), value())
        answers += await io.fan_out(value(), value())

        async def body(deadline: float) -> int:
            return 5

        answers.append(await io.once("key", body, io.now() + 1))
        return answers

    assert Driver("blocking").run(scenario) == [b"one\n", 2, 42, 42, 42, 42, 5]


@pytest.mark.req("V2")
def test_the_blocking_driver_loads_no_asyncio_ssl_subprocess_or_typing() -> None:
    program = (
        "import sys, json, socket, threading, select\n"
        "known = set(sys.modules)\n"
        "import ferrule._io.blocking\n"
        "print(json.dumps(sorted(set(sys.modules) - known)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    loaded = set(json.loads(done.stdout))
    assert loaded & {"asyncio", "ssl", "subprocess", "typing", "selectors", "logging", "signal"} == set()


@pytest.mark.req("V2")
def test_a_blocking_io_that_only_connects_starts_no_thread(peer: Any) -> None:
    import threading

    port = peer(echo).port
    seen: list[int] = []

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        before = {thread for thread in threading.enumerate() if thread.name.startswith("ferrule")}
        stream = await dial(io, port, receiver)
        await ask(io, stream, receiver, b"one\n")
        seen.append(len({t for t in threading.enumerate() if t.name.startswith("ferrule")} - before))

    Driver("blocking").run(scenario)
    assert seen == [0]


@pytest.mark.req("V3")
def test_the_blocking_check_passes_in_every_thread() -> None:
    BlockingIO().check()
