"""Rule 7: closing wakes whoever is blocked, in whatever thread or task, and is bounded."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
import threading
import time
import weakref
from typing import Any

import pytest

from ferrule._io import Closing
from ferrule._io.blocking import run
from ferrule.errors import ConfigError
from tests.io.drivers import Driver, Receiver, dial, echo, until

SILENT = [sys.executable, "-c", "import time; time.sleep(600)"]


def blocked(io: Any, stream: Any, slot: Any) -> bool:
    """Is somebody waiting for this slot?"""
    return slot.waker is not None and slot.waker.asleep if io.blocking else slot.future is not None


@pytest.mark.req("T7")
def test_closing_a_stream_wakes_its_reader_with_the_news(driver: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        slot = receiver.expect(io.slot())

        async def close() -> None:
            await driver.until(lambda: blocked(io, stream, slot), "the wait")
            stream.close()
            stream.close()

        assert await driver.together(stream.wait(slot, io.now() + 20), close()) == [None, None]
        with pytest.raises(EOFError):
            slot.result()
        assert stream.closed
        assert receiver.lost == [None]

    driver.run(scenario)


@pytest.mark.req("T7", "V5")
def test_closing_wakes_all_8_threads_that_wait_on_one_stream(blocking: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        slots = [receiver.expect(io.slot()) for _ in range(8)]

        async def close() -> None:
            until(lambda: len(stream._followers) == 7)
            stream.close()

        await blocking.together(*(stream.wait(slot, io.now() + 20) for slot in slots), close())
        assert all(slot.done for slot in slots)

    blocking.run(scenario)


@pytest.mark.req("T7", "D6")
def test_closing_the_stream_of_a_silent_child_wakes_its_reader(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        receiver = Receiver()
        process = await io.spawn(SILENT, env={}, cwd=None, stderr="discard", receiver=receiver)
        slot = receiver.expect(io.slot())

        async def close() -> None:
            await driver.until(lambda: blocked(io, process.stream, slot), "the wait")
            process.stream.close()

        await driver.together(process.stream.wait(slot, io.now() + 20), close())
        assert slot.done
        process.kill()
        assert await process.wait_exit(io.now() + 10) == -9

    driver.run(scenario)


@pytest.mark.req("T7", "D5")
def test_closing_wakes_a_writer_whose_peer_reads_nothing(driver: Driver) -> None:
    if not driver.blocking:
        pytest.skip("on asyncio a socket's write never waits")
    listener = socket.create_server(("127.0.0.1", 0))

    async def scenario(io: Any) -> None:
        stream = await dial(io, listener.getsockname()[1], Receiver())

        async def close() -> None:
            await driver.until(lambda: stream._writer is not None and stream._writer.asleep, "the blocked write")
            stream.close()

        outcomes = await driver.together(stream.write(b"x" * 50_000_000, io.now() + 20), close())
        assert isinstance(outcomes[0], ConnectionResetError)

    try:
        driver.run(scenario)
    finally:
        listener.close()


@pytest.mark.req("T7")
def test_closing_the_io_ends_every_kind_of_wait_with_closing(driver: Driver, peer: Any, black_hole: int) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        stream = await dial(io, port, Receiver())
        slots = [io.slot(), io.slot()]

        async def close() -> None:
            await driver.until(
                lambda: (
                    len(io._wakers._busy) >= 3 and stream._leader is not None if io.blocking else len(io._waiting) >= 4
                ),
                "four waits",
            )
            await io.close(io.now())

        outcomes = await driver.together(
            io.wait(slots[0], io.now() + 20),
            stream.wait(slots[1], io.now() + 20),
            io.sleep(20),
            dial(io, black_hole, Receiver()),
            close(),
        )
        assert [type(outcome) for outcome in outcomes] == [Closing] * 4 + [type(None)]

    driver.run(scenario)


@pytest.mark.req("T7")
def test_closing_tells_every_open_stream_and_lets_go_of_it(driver: Driver, peer: Any) -> None:
    server = peer(echo)

    async def scenario(io: Any) -> None:
        receivers = [Receiver() for _ in range(3)]
        streams = [await dial(io, server.port, receiver) for receiver in receivers]
        await io.close(io.now() + 1)
        assert [receiver.lost for receiver in receivers] == [[None]] * 3
        assert all(stream.closed for stream in streams)
        with pytest.raises(OSError):
            await streams[0].write(b"x", io.now() + 1)
        with pytest.raises(Closing):
            await dial(io, server.port, Receiver())

    driver.run(scenario)
    until(lambda: server.ended == 3)


@pytest.mark.req("T7", "D6")
def test_closing_ends_children_that_nobody_closed(driver: Driver) -> None:
    import os

    async def scenario(io: Any) -> int:
        process = await io.spawn(SILENT, env={}, cwd=None, stderr="discard", receiver=Receiver())
        return int(process.pid)

    pid = driver.run(scenario)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.req("T7")
def test_a_closed_blocking_io_may_be_closed_from_8_threads_at_once(blocking: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        await dial(io, port, Receiver())
        assert await blocking.together(*(io.close(io.now() + 1) for _ in range(8))) == [None] * 8

    blocking.run(scenario)


@pytest.mark.req("T7")
def test_a_forgotten_blocking_stream_is_closed_without_a_warning(blocking: Driver, peer: Any) -> None:
    server = peer(echo)

    async def scenario(io: Any) -> None:
        stream = await dial(io, server.port, Receiver())
        reference = weakref.ref(stream)
        del stream
        gc.collect()
        assert reference() is None
        until(lambda: server.ended == 1)

    blocking.run(scenario)


@pytest.mark.req("T7")
def test_a_forgotten_blocking_io_leaves_neither_a_descriptor_nor_a_warning(blocking: Driver, peer: Any) -> None:
    port = peer(echo).port
    from tests.io.drivers import open_descriptors

    before = open_descriptors()

    async def scenario(io: Any) -> None:
        await dial(io, port, Receiver())
        process = await io.spawn(SILENT, env={}, cwd=None, stderr="discard", receiver=Receiver())
        assert process.exit_code() is None

    blocking.run(scenario, close=False)
    gc.collect()
    until(lambda: not open_descriptors() - before)


@pytest.mark.req("T7", "V3")
def test_a_stream_can_be_closed_after_its_loop_has_ended(loop_driver: Driver, peer: Any) -> None:
    if loop_driver.name == "uvloop":
        pytest.skip("uvloop closes its handles with the loop")
    server = peer(echo)
    streams = []

    async def scenario(io: Any) -> Any:
        receiver = Receiver()
        streams.append((await dial(io, server.port, receiver), receiver))

    loop_driver.run(scenario, close=False)
    stream, receiver = streams.pop()
    stream.close()
    assert receiver.lost == [None]
    until(lambda: server.ended == 1)


@pytest.mark.req("V3", "T7")
def test_a_second_event_loop_gets_a_sentence_that_says_what_is_wrong(loop_driver: Driver) -> None:
    io = loop_driver.make()

    async def use() -> None:
        io.check()
        await io.sleep(0)

    loop_driver.run_loop(use())
    with pytest.raises(ConfigError, match="belongs to another event loop"):
        loop_driver.run_loop(use())


@pytest.mark.req("V3")
def test_outside_a_running_loop_the_asynchronous_driver_says_so(loop_driver: Driver) -> None:
    with pytest.raises(ConfigError, match="inside a running event loop"):
        loop_driver.make().check()


@pytest.mark.req("T7")
def test_the_program_ends_at_once_though_a_background_thread_waits_for_an_hour() -> None:
    import subprocess

    program = (
        "from ferrule._io.blocking import BlockingIO, run\n"
        "import sys, threading\n"
        "io = BlockingIO()\n"
        "begun = threading.Event()\n"
        "async def work():\n"
        "    begun.set()\n"
        "    try:\n"
        "        await io.sleep(3600)\n"
        "    finally:\n"
        "        print('ended', flush=True)\n"
        "io.background(work())\n"
        "begun.wait()\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program], capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")
    assert time.monotonic() - began < 10


@pytest.mark.req("T7")
def test_a_thread_in_the_middle_of_a_call_is_woken_by_a_close_from_another(blocking: Driver, peer: Any) -> None:
    port = peer(_until_closed).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        outcome: list[Any] = []

        async def call() -> None:
            slot = receiver.expect(io.slot())
            await stream.write(b"x\n", io.now() + 20)
            await stream.wait(slot, io.now() + 20)
            outcome.append(slot.done)

        thread = threading.Thread(target=lambda: run(call()), name="test", daemon=True)
        thread.start()
        until(lambda: stream._waker.asleep)
        began = time.monotonic()
        stream.close()
        thread.join(10)
        assert outcome == [True]
        assert time.monotonic() - began < 1

    blocking.run(scenario)


def _until_closed(sock: socket.socket) -> None:
    while sock.recv(1000):
        pass


@pytest.mark.req("T7")
def test_asyncio_streams_closed_by_another_task_wake_the_waiting_one_within_two_turns(
    loop_driver: Driver, peer: Any
) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = Receiver()
        stream = await dial(io, port, receiver)
        slot = receiver.expect(io.slot())
        task = asyncio.create_task(stream.wait(slot, io.now() + 20))
        await asyncio.sleep(0)
        stream.close()
        for _ in range(3):
            await asyncio.sleep(0)
        assert task.done()
        assert slot.done

    loop_driver.run(scenario)
