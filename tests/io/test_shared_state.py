"""Rule 2: what threads share is whole, and a stream that many threads wait on loses no wake-up."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import threading
from typing import Any

import pytest

from ferrule._io import Expired, blocking_stream
from ferrule._io.asyncio import AsyncIO
from ferrule._io.asyncio_slot import Slot as TaskSlot
from ferrule._io.blocking import BlockingIO, run
from ferrule._io.wakers import Slot as ThreadSlot
from tests.io.drivers import ById, Driver, Receiver, dial, echo, until

THREADS = 8


def in_threads(count: int, work: Any) -> None:
    """Run `work(number)` in threads that start together; any exception fails the test."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def body(number: int) -> None:
        try:
            start.wait(10)
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=body, args=(n,), daemon=True, name="test") for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
        assert not thread.is_alive(), "a thread hangs"
    assert not errors, errors


@pytest.mark.req("V5")
def test_the_mutex_makes_a_read_and_a_write_one_step_for_8_threads(nervous: None) -> None:
    io = BlockingIO()
    state = {"count": 0}

    def work(_: int) -> None:
        for _ in range(2_000):
            with io.mutex():
                seen = state["count"]
                state["count"] = seen + 1

    in_threads(THREADS, work)
    assert state["count"] == 16_000


@pytest.mark.req("V5")
def test_on_asyncio_the_mutex_is_one_object_that_excludes_nobody() -> None:
    io = AsyncIO()
    assert io.mutex() is io.mutex()
    with io.mutex(), io.mutex():
        pass


@pytest.mark.req("V5")
def test_of_8_threads_that_complete_a_slot_exactly_one_wins(nervous: None) -> None:
    for _ in range(100):
        slot = ThreadSlot()
        io = BlockingIO()
        start = threading.Barrier(THREADS)

        def work(number: int, slot: ThreadSlot = slot, start: threading.Barrier = start) -> None:
            start.wait(10)
            if number % 2:
                slot.set(number)
            else:
                slot.fail(KeyError(number))

        threads = [threading.Thread(target=work, args=(n,), name="test") for n in range(THREADS)]
        for thread in threads:
            thread.start()
        run(io.wait(slot, io.now() + 10))
        outcomes = set()
        for _ in range(2):
            try:
                outcomes.add(slot.result())
            except KeyError as error:
                outcomes.add(error.args[0])
        for thread in threads:
            thread.join()
        assert len(outcomes) == 1


@pytest.mark.req("V5", "T6")
def test_mail_that_8_threads_post_arrives_complete_and_in_each_threads_order(nervous: None) -> None:
    io = BlockingIO()
    slot = ThreadSlot()
    got: list[tuple[int, int]] = []

    def post(number: int) -> None:
        for step in range(200):
            slot.post((number, step))

    poster = threading.Thread(target=in_threads, args=(THREADS, post), name="test")
    poster.start()
    while len(got) < THREADS * 200:
        run(io.wait(slot, io.now() + 10))
        got += slot.take_mail()
    poster.join()
    assert [step for number, step in got if number == 3] == list(range(200))
    assert len(set(got)) == THREADS * 200


@pytest.mark.req("T3")
@pytest.mark.parametrize("make", [ThreadSlot, TaskSlot], ids=["blocking", "asyncio"])
def test_what_comes_after_the_first_value_is_dropped(make: Any) -> None:
    slot = make()
    slot.post("a")
    slot.set(1)
    slot.set(2)
    slot.fail(KeyError())
    slot.post("b")
    assert (slot.done, slot.mail) == (True, True)
    assert slot.take_mail() == ["a"]
    assert (slot.mail, slot.take_mail(), slot.result()) == (False, [], 1)


@pytest.mark.req("V5", "T3")
def test_8_threads_on_one_stream_get_20000_answers_each_its_own_and_no_wake_up_is_lost(
    peer: Any, nervous: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_stream, "LOOK_AGAIN", 3600.0)  # the safety net must not be what catches
    calls = 2_500

    async def scenario(io: Any) -> None:
        receiver = ById()
        stream = await dial(io, port, receiver)

        async def call(name: bytes) -> None:
            slot = receiver.slots[name] = io.slot()
            await stream.write(name + b" hello\n", io.now() + 20)
            await stream.wait(slot, io.now() + 20)
            assert slot.result() == name + b" hello"

        def work(number: int) -> None:
            for step in range(calls):
                run(call(b"%d-%d" % (number, step)))

        in_threads(THREADS, work)
        assert receiver.slots == {}
        assert stream._followers == []
        assert stream._leader is None

    port = peer(echo).port
    Driver("blocking").run(scenario)


@pytest.mark.req("V5", "T5")
def test_threads_whose_deadlines_pass_hand_the_reading_on_to_those_that_stay(
    peer: Any, nervous: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_stream, "LOOK_AGAIN", 3600.0)
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = ById()
        stream = await dial(io, port, receiver)

        async def impatient() -> None:
            with pytest.raises(Expired):
                await stream.wait(io.slot(), io.now() + random.random() / 500)

        async def call(name: bytes) -> None:
            slot = receiver.slots[name] = io.slot()
            await stream.write(name + b" hello\n", io.now() + 20)
            await stream.wait(slot, io.now() + 20)
            assert slot.result() == name + b" hello"

        def work(number: int) -> None:
            for step in range(300):
                run(impatient() if number < 4 else call(b"%d-%d" % (number, step)))

        in_threads(THREADS, work)

    Driver("blocking").run(scenario)


class Interrupts:
    """Raises KeyboardInterrupt in the main thread, at any moment while `armed`."""

    def __init__(self) -> None:
        self.armed = False
        self._stop = threading.Event()
        self._main = threading.get_ident()
        assert self._main == threading.main_thread().ident, "signals reach the main thread alone"
        self._thread = threading.Thread(target=self._shoot, daemon=True, name="test")

    def _raise(self, *_: object) -> None:
        if self.armed:
            self.armed = False
            raise KeyboardInterrupt

    def _shoot(self) -> None:
        while not self._stop.wait(random.random() / 500):
            signal.pthread_kill(self._main, signal.SIGUSR1)

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGUSR1, self._raise)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        signal.signal(signal.SIGUSR1, self._before)


@pytest.mark.req("D6", "V5")
def test_a_keyboard_interrupt_in_the_reading_thread_leaves_the_reading_to_another(
    peer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking_stream, "LOOK_AGAIN", 3600.0)
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        receiver = ById()
        stream = await dial(io, port, receiver)
        slot = receiver.slots[b"1"] = io.slot()
        outcome = []
        follower = threading.Thread(
            target=lambda: outcome.append(run(stream.wait(slot, io.now() + 20))), name="test", daemon=True
        )

        def interrupt() -> None:
            until(lambda: stream._leader is not None, "a leader")
            follower.start()
            until(lambda: stream._followers, "a follower")
            interrupts.armed = True

        with Interrupts() as interrupts:
            threading.Thread(target=interrupt, name="test").start()
            with pytest.raises(KeyboardInterrupt):
                await stream.wait(io.slot(), io.now() + 20)
        until(lambda: stream._leader is slot, "the follower's lead")
        await stream.write(b"1 hello\n", io.now() + 20)
        follower.join(10)
        assert (slot.result(), outcome) == (b"1 hello", [None])

    Driver("blocking").run(scenario)


@pytest.mark.req("D6", "V5", "T5")
def test_an_interrupt_while_a_lock_is_waited_for_leaves_no_role_behind(peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        stream = await dial(io, port, ById())
        slot = io.slot()

        def hold() -> None:
            until(lambda: slot.waker is not None, "a leader")
            with stream._lock:
                until(lambda: slot.waker is None, "the end of its wait")
                interrupts.armed = True
                until(lambda: not interrupts.armed, "the interrupt")

        holder = threading.Thread(target=hold, name="test")
        with Interrupts() as interrupts:
            holder.start()
            with pytest.raises(KeyboardInterrupt):
                await stream.wait(slot, io.now() + 0.5)
            holder.join()
        assert stream._leader is None

    Driver("blocking").run(scenario)


@pytest.mark.req("D6", "V5", "T5")
def test_keyboard_interrupts_at_any_moment_never_leave_another_thread_hanging(peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> tuple[int, int]:
        receiver = ById()
        stream = await dial(io, port, receiver)
        interrupted = 0
        finished = []

        async def call(name: bytes) -> None:
            slot = receiver.slots[name] = io.slot()
            await stream.write(name + b" hello\n", io.now() + 20)
            await stream.wait(slot, io.now() + 20)
            assert slot.result() == name + b" hello"

        def work(number: int) -> None:
            # An interrupt between reading and handing over has to close the stream: then all know at once.
            with contextlib.suppress(ConnectionError):
                for step in range(200):
                    run(call(b"%d-%d" % (number, step)))
                finished.append(number)

        threads = [threading.Thread(target=work, args=(n,), daemon=True, name="test") for n in range(3)]
        for thread in threads:
            thread.start()
        with Interrupts() as interrupts:
            while any(thread.is_alive() for thread in threads):
                try:
                    interrupts.armed = True
                    await stream.wait(io.slot(), io.now() + 0.005)
                except (Expired, KeyboardInterrupt) as error:
                    interrupts.armed = False
                    interrupted += isinstance(error, KeyboardInterrupt)
        # Told once if it was closed, by nothing but an interrupted read, which may come after the last answer.
        assert len(receiver.lost) == stream.closed
        assert receiver.lost or len(finished) == 3
        assert all(isinstance(error, ConnectionAbortedError) for error in receiver.lost)
        return interrupted, len(finished)

    rounds = [Driver("blocking").run(scenario) for _ in range(12)]
    assert sum(interrupted for interrupted, _ in rounds) > 12


@pytest.mark.req("D5", "V5")
def test_messages_of_8_threads_never_mix_though_each_is_bigger_than_the_sockets_buffers(
    driver: Driver, peer: Any
) -> None:
    heard: list[bytes] = []

    def listen(sock: socket.socket) -> None:
        data = bytearray()
        while piece := sock.recv(1 << 20):
            data += piece
        heard.append(bytes(data))

    port = peer(listen).port
    size = 3_000_000

    async def scenario(io: Any) -> None:
        stream = await dial(io, port, Receiver())

        async def write(number: int) -> None:
            await stream.write(b"%d" % number * size, io.now() + 20)

        outcomes = await driver.together(*(write(number) for number in range(THREADS)))
        assert outcomes == [None] * THREADS
        stream.finish_writing()
        await driver.until(lambda: heard, "the end of what was written")

    driver.run(scenario)
    blocks = [heard[0][at : at + size] for at in range(0, len(heard[0]), size)]
    assert sorted(block[:1] for block in blocks) == [b"%d" % n for n in range(THREADS)]
    assert all(block == block[:1] * size for block in blocks)


@pytest.mark.req("V5")
def test_one_waker_serves_a_thousand_waits_of_one_thread() -> None:
    io = BlockingIO()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(1000):
        with pytest.raises(Expired):
            run(io.wait(io.slot(), io.now()))
    assert len(os.listdir("/proc/self/fd")) - before <= 1


@pytest.mark.req("V5")
def test_a_slot_that_another_thread_completes_wakes_the_thread_that_reads(blocking: Driver, peer: Any) -> None:
    port = peer(echo).port

    async def scenario(io: Any) -> None:
        stream = await dial(io, port, Receiver())
        slot = io.slot()

        def complete() -> None:
            until(lambda: stream._leader is slot)
            slot.set("from elsewhere")

        threading.Thread(target=complete, name="test").start()
        await stream.wait(slot, io.now() + 20)
        assert slot.result() == "from elsewhere"

    blocking.run(scenario)
