"""What the tests of both drivers share: a driver to run a scenario in, receivers, and peers."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from ferrule._io.asyncio import AsyncIO
from ferrule._io.blocking import BlockingIO, run

PATIENCE = 20.0
"""Seconds after which something that should have happened fails the test."""


def until(condition: Callable[[], Any], what: str = "the condition") -> None:
    """Wait, in a thread, until something that is bound to happen has happened."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"{what} never came true"
        time.sleep(0.001)


def open_descriptors() -> set[str]:
    """The descriptors of this process, with what they are."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            found.add(f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}")
    return found


class Receiver:
    """Collects bytes and completes slots: `expect(end)` gets what came up to and with `end`."""

    def __init__(self, size: int = 65536) -> None:
        self._view = memoryview(bytearray(size))
        self.data = bytearray()
        self.lost: list[Exception | None] = []
        self.reads = 0
        self.inside = 0
        """More than one of its methods at once is a fault of the driver."""
        self._waiting: list[tuple[bytes, Any]] = []

    def get_buffer(self, sizehint: int, /) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int, /) -> None:
        self.inside += 1
        assert self.inside == 1
        self.reads += 1
        self.data += self._view[:nbytes]
        self._settle()
        self.inside -= 1

    def connection_lost(self, error: Exception | None, /) -> None:
        self.inside += 1
        assert self.inside == 1
        self.lost.append(error)
        for _, slot in self._waiting:
            slot.fail(error or EOFError("end of stream"))
        self._waiting.clear()
        self.inside -= 1

    def expect(self, slot: Any, end: bytes = b"\n") -> Any:
        self._waiting.append((end, slot))
        self._settle()
        return slot

    def _settle(self) -> None:
        while self._waiting:
            end, slot = self._waiting[0]
            at = self.data.find(end)
            if at < 0:
                return
            self._waiting.pop(0)
            at += len(end)
            value = bytes(self.data[:at])
            del self.data[:at]
            slot.set(value)


class ById:
    """Lines `<id> <rest>`: each completes the slot that waits for its id. One of many threads calls it."""

    def __init__(self, size: int = 65536) -> None:
        self._view = memoryview(bytearray(size))
        self._rest = b""
        self.slots: dict[bytes, Any] = {}
        self.lost: list[Exception | None] = []
        self._alone = threading.Lock()

    def get_buffer(self, sizehint: int, /) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int, /) -> None:
        assert not self._alone.locked(), "two threads are in the receiver at once"
        with self._alone:
            *lines, self._rest = (self._rest + bytes(self._view[:nbytes])).split(b"\n")
            for line in lines:
                slot = self.slots.pop(line.partition(b" ")[0], None)
                if slot is not None:
                    slot.set(line)

    def connection_lost(self, error: Exception | None, /) -> None:
        assert not self._alone.locked(), "two threads are in the receiver at once"
        with self._alone:
            self.lost.append(error)
            for slot in list(self.slots.values()):
                slot.fail(error or EOFError("end of stream"))


class Peer:
    """A listener on a free port; each connection is handled by `handle(sock)` on a thread of its own."""

    def __init__(self, handle: Callable[[socket.socket], None], tls: Any = None, family: int = socket.AF_INET) -> None:
        self._handle = handle
        self._tls = tls
        self._listener = socket.socket(family)
        self._listener.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        self._listener.listen(64)
        self.port: int = self._listener.getsockname()[1]
        self.accepted = 0
        self.ended = 0
        self.errors: list[BaseException] = []
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._open.append(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket) -> None:
        try:
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
                self._open.append(sock)
            self._handle(sock)
        except OSError:
            pass
        except BaseException as error:
            self.errors.append(error)
        finally:
            sock.close()
            self.ended += 1

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(5)
        for sock in self._open:
            with suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for sock in self._open:
            sock.close()
        assert not self.errors, self.errors

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def echo(sock: socket.socket) -> None:
    """Send everything back."""
    while data := sock.recv(65536):
        sock.sendall(data)


class SteppingLoop(asyncio.SelectorEventLoop):
    """Calls `on_step` after each turn."""

    on_step: Callable[[], None] | None = None

    def _run_once(self) -> None:
        super()._run_once()  # type: ignore[misc]
        if self.on_step is not None:
            self.on_step()


class Driver:
    """One of the drivers, as the fixture `driver` hands it to a test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.blocking = name == "blocking"
        if name == "uvloop":
            import uvloop

            uvloop.new_event_loop().close()  # the first loop of a process opens a pipe for good

    def __repr__(self) -> str:
        return self.name

    def make(self) -> Any:
        return BlockingIO() if self.blocking else AsyncIO()

    def run(
        self, scenario: Callable[[Any], Coroutine[Any, Any, Any]], *, close: bool = True, thorough: bool = True
    ) -> Any:
        """Run `scenario(io)` to its end, then see that nothing is left: task, thread, descriptor, exception.

        `thorough`: collect garbage as well, which may bring more to light and takes time.
        """
        before = open_descriptors()
        threads = set(threading.enumerate())

        async def whole() -> Any:
            io = self.make()
            try:
                return await scenario(io)
            finally:
                if close:
                    await io.close(io.now() + 5)

        value = run(whole()) if self.blocking else self.run_loop(whole(), thorough=thorough)
        if close and thorough:
            gc.collect()
            until(lambda: not self._left(threads), "the end of every thread")
            until(lambda: not open_descriptors() - before, "the closing of every descriptor")
        return value

    def _left(self, threads: set[threading.Thread]) -> set[threading.Thread]:
        ours = ("ferrule-",)
        return {thread for thread in set(threading.enumerate()) - threads if thread.name.startswith(ours)}

    def run_loop(self, main: Coroutine[Any, Any, Any], *, thorough: bool = True) -> Any:
        """Run on a fresh loop; a task left over or an exception nobody took fails the test."""
        troubles: list[Any] = []
        factory: Any = SteppingLoop
        if self.name == "uvloop":
            import uvloop

            factory = uvloop.new_event_loop

        async def watched() -> Any:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context))
            try:
                return await main
            finally:
                await asyncio.sleep(0)
                left = asyncio.all_tasks() - {asyncio.current_task()}
                if left:
                    troubles.append(left)

        with asyncio.Runner(loop_factory=factory) as runner:
            value = runner.run(watched())
            if thorough:
                gc.collect()
        assert not troubles, troubles
        return value

    async def together(self, *coroutines: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run each in a task, or a thread; return values, and exceptions as values."""
        if not self.blocking:
            return await asyncio.gather(*coroutines, return_exceptions=True)
        outcomes: list[Any] = [None] * len(coroutines)

        def work(index: int, coroutine: Coroutine[Any, Any, Any]) -> None:
            try:
                outcomes[index] = run(coroutine)
            except BaseException as error:
                outcomes[index] = error

        threads = [
            threading.Thread(target=work, args=item, daemon=True, name="test-together")
            for item in enumerate(coroutines)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread hangs"
        return outcomes

    async def until(self, condition: Callable[[], Any], what: str = "the condition") -> None:
        """Wait until something that is bound to happen has happened, letting others run."""
        if self.blocking:
            until(condition, what)
            return
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what} never came true"
            await asyncio.sleep(0.001)


async def dial(io: Any, port: int, receiver: Any, **options: Any) -> Any:
    """Connect to 127.0.0.1 within the test's patience."""
    options = {"tls": None, "server_hostname": None, "deadline": io.now() + PATIENCE, **options}
    return await io.connect(options.pop("host", "127.0.0.1"), port, receiver=receiver, **options)


async def ask(io: Any, stream: Any, receiver: Receiver, data: bytes, end: bytes = b"\n") -> bytes:
    """Write, and wait for what the receiver expects."""
    deadline = io.now() + PATIENCE
    slot = receiver.expect(io.slot(), end)
    await stream.write(data, deadline)
    await stream.wait(slot, deadline)
    value: bytes = slot.result()
    return value
