"""The asyncio driver: transports, tasks, and one timer for everything that waits.

Knows the event loop it was first used in, and no other. Streams are in `asyncio_stream`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from _thread import RLock
from asyncio import _get_running_loop  # the C function; `get_running_loop` raises where None will do
from contextvars import Context
from math import inf
from time import monotonic, time

from . import Closing, Expired
from .addresses import literal, unix
from .asyncio_connect import drop, look_up, race
from .asyncio_flight import Flight, Work, give_up, log_end
from .asyncio_slot import Slot as Slot
from .asyncio_stream import SocketStream
from .single_flight import hands_over, refuse_reentry, twin

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from typing import Any

    from .asyncio_listening import AsyncListener
    from .asyncio_process import AsyncProcess
    from .asyncio_stream import PipeStream
    from .interface import Address, Receiver

TICK = 0.01
"""Seconds between two scans of the waiting table, at least."""
LAST_TURN = 0.2
"""Seconds that cancelled background tasks get to unwind."""


class AsyncIO:
    """See `interface.IO`."""

    blocking = False
    wall = staticmethod(time)

    def __init__(self) -> None:
        # No method around either: both are called several times in every request.
        self.now: Callable[[], float] = monotonic
        self.slot: Callable[[], Slot] = Slot
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        # Between two awaits a task is alone, so this excludes nobody; written in C, it costs least (benches/calls.py).
        self._mutex = RLock()
        self._waiting: dict[asyncio.Future[type[Exception] | None], float] = {}
        """Who waits, and until when."""
        self._armed = inf
        """When the timer goes off; inf while there is none."""
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._flights: dict[object, Flight] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._streams: weakref.WeakSet[SocketStream | PipeStream] = weakref.WeakSet()
        self._processes: weakref.WeakSet[AsyncProcess] = weakref.WeakSet()

    def check(self) -> bool:
        """See `interface.IO.check`. The first loop that asks is the one; in a fork none is running."""
        loop = _get_running_loop()
        if loop is None or loop is not self._loop:
            self._adopt(loop)
        return False

    def _adopt(self, loop: asyncio.AbstractEventLoop | None) -> None:
        from ..errors import ConfigError

        if self.forked():
            raise ConfigError("this asynchronous client was made before a fork; make a new one in the child process")
        if loop is None:
            raise ConfigError("an asynchronous client can only be used inside a running event loop")
        if self._loop is not None:
            raise ConfigError(
                "this client belongs to another event loop (or thread); an asynchronous client can only be used in the"
                " loop that it was first used in"
            )
        self._loop = loop

    def forked(self) -> bool:
        """See `interface.IO.forked`."""
        return os.getpid() != self._pid

    def memory_cache(self, max_bytes: int, max_entries: int) -> Any:
        """See `interface.IO.memory_cache`."""
        from .memory_cache import MemoryCache

        return MemoryCache(max_bytes, max_entries)

    def mutex(self) -> Any:
        """See `interface.IO.mutex`."""
        return self._mutex

    def _here(self) -> asyncio.AbstractEventLoop:
        self.check()
        self.refuse_if_closing()
        assert self._loop is not None
        return self._loop

    def refuse_if_closing(self) -> None:
        """Raise `Closing` after `close`."""
        if self._closing:
            raise Closing

    # -- waiting

    async def wait(self, slot: Any, deadline: float, /) -> None:
        """See `interface.IO.wait`; it is the `wait` of every stream, too."""
        if slot.done or slot.mail:
            return
        loop = self._loop
        if loop is None or self._closing:
            loop = self._here()
        future = slot.future = loop.create_future()
        waiting = self._waiting
        waiting[future] = deadline
        if deadline < self._armed:
            self._arm(deadline)
        try:
            end = await future
        finally:
            slot.future = None
            del waiting[future]
        if end is not None and not (slot.done or slot.mail):
            raise end

    def _arm(self, at: float) -> None:
        assert self._loop is not None
        if self._timer is not None:
            self._timer.cancel()
        self._armed = at
        # The IO weakly, and no context of the caller's, for as long as the timer runs.
        self._timer = self._loop.call_later(max(0.0, at - monotonic()), _fire, weakref.ref(self), context=Context())

    def expire(self) -> None:
        """Wake whoever's deadline has passed, and sleep until the next one."""
        now = monotonic()
        next_at = inf
        for future, deadline in self._waiting.items():
            if not future.done():
                if deadline <= now:
                    future.set_result(Expired)
                elif deadline < next_at:
                    next_at = deadline
        self._armed = inf
        self._timer = None
        if next_at < inf:
            self._arm(max(next_at, now + TICK))

    async def sleep(self, seconds: float, /) -> None:
        """See `interface.IO.sleep`."""
        try:
            await self.wait(Slot(), monotonic() + seconds)
        except Expired:
            return

    async def bounded(
        self, work: Coroutine[Any, Any, Any], deadline: float, discard: Callable[[Any], object] | None
    ) -> Any:
        """Run cold work in a task of its own, with an empty context, until the deadline.

        When the deadline passes or the caller is cancelled the task is told to end, and what it brings all the same
        is discarded; nobody waits for that.
        """
        try:
            loop = self._here()
            task = loop.create_task(work, context=Context())
        except BaseException:
            work.close()
            raise
        self._keep(task)
        slot = Slot()
        task.add_done_callback(slot.set)
        try:
            await self.wait(slot, deadline)
        except BaseException:
            task.cancel()
            task.add_done_callback(lambda task: drop(task, discard))
            raise
        if task.cancelled():
            raise Closing  # nobody but `close` cancels it
        return task.result()

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- opening

    async def look_up(self, host: str, port: int, deadline: float, /) -> list[Address]:
        """See `interface.IO.look_up`."""
        found: list[Address] | None = literal(host, port)
        if found is None:
            found = await self.bounded(look_up(self._here(), host, port), deadline, None)
        return found

    async def connect(
        self,
        host: str,
        port: int,
        *,
        path: str | None = None,
        addresses: list[Address] | None = None,
        tls: ssl.SSLContext | None,
        server_hostname: str | None,
        deadline: float,
        receiver: Receiver,
    ) -> SocketStream:
        """See `interface.IO.connect`."""
        if addresses is None:
            addresses = literal(host, port) if path is None else unix(path)
        opening = self._open(host, port, addresses, tls, server_hostname or host, deadline, receiver)
        stream: SocketStream = await self.bounded(opening, deadline, SocketStream.close)
        self._streams.add(stream)
        return stream

    async def _open(
        self,
        host: str,
        port: int,
        addresses: list[Address] | None,
        tls: ssl.SSLContext | None,
        server_hostname: str,
        deadline: float,
        receiver: Receiver,
    ) -> SocketStream:
        loop = self._here()
        if addresses is None:
            addresses = await look_up(loop, host, port)
        sock = await race(loop, addresses)
        stream = SocketStream(self, sock, receiver, guarded=tls is not None)
        try:
            await self._attach(loop, stream, sock)
            if tls is not None:
                await stream.shake_hands(loop, tls, server_hostname, deadline)
        except BaseException:
            stream.discard()
            raise
        return stream

    async def _attach(self, loop: asyncio.AbstractEventLoop, stream: SocketStream, sock: socket.socket) -> None:
        """Give the socket a transport: two turns of the loop, which a cancellation must not come between.

        A transport that is half made would share the descriptor's number with the socket, and both would close it.
        """
        owners: list[SocketStream] = []  # of the socket: none until the task has begun, which `close` may prevent

        def owner() -> SocketStream:
            owners.append(stream)
            return stream

        def end(task: asyncio.Task[Any]) -> None:
            drop(task, lambda _: stream.discard())
            if not owners:
                sock.close()

        task = loop.create_task(loop.create_connection(owner, sock=sock))
        self._keep(task)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(end)
            raise
        except BaseException:
            sock.close()
            raise

    async def adopt(self, reader: Any, writer: Any, *, receiver: Receiver) -> SocketStream | PipeStream:
        """See `interface.IO.adopt`."""
        from .adopting import as_socket
        from .asyncio_stream import PipeStream

        loop = self._here()
        if (sock := as_socket(reader, writer)) is None:
            pipes = PipeStream(self, writer, reader, receiver)
            self._streams.add(pipes)
            return pipes
        stream = SocketStream(self, sock, receiver)
        await self._attach(loop, stream, sock)
        self._streams.add(stream)
        return stream

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        stderr: str | Callable[[bytes], object],
        receiver: Receiver,
    ) -> AsyncProcess:
        """See `interface.IO.spawn`."""
        from .asyncio_process import AsyncProcess

        self._here()
        process = await AsyncProcess.start(self, argv, env=env, cwd=cwd, stderr=stderr, receiver=receiver)
        self._streams.add(process.stream)
        self._processes.add(process)
        return process

    async def listen(self, port: int) -> AsyncListener:
        """See `interface.IO.listen`."""
        from .asyncio_listening import AsyncListener

        return await AsyncListener(self).start(self._here(), port)

    # -- other people's code

    async def call(self, handler: Callable[..., Any], /, *args: Any) -> Any:
        """See `interface.IO.call`."""
        result = handler(*args)
        if hasattr(type(result), "__await__"):
            result = await result
        return result

    async def aside(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """See `interface.IO.aside`."""
        return await self._here().run_in_executor(None, function, *args)

    async def call_each(
        self, handler: Callable[..., Any], calls: list[tuple[Any, ...]], failed: Callable[[Exception], None], /
    ) -> None:
        """See `interface.IO.call_each`."""
        for args in calls:
            try:
                result = handler(*args)
                if result is not None and hasattr(type(result), "__await__"):
                    await result
            except Exception as error:
                failed(error)

    async def gather(self, *coroutines: Coroutine[Any, Any, Any], deadline: float = inf) -> list[Any]:
        """See `interface.IO.gather`."""
        tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
        over, running = Slot(), set(tasks)

        def note(task: asyncio.Future[Any]) -> None:
            running.discard(task)
            if not running or not (task.cancelled() or task.exception() is None):
                over.set(None)

        for task in tasks:
            task.add_done_callback(note)
        try:
            if tasks:
                await self.wait(over, deadline)
            failed = [task for task in tasks if task.done() and not task.cancelled() and task.exception()]
            return [task.result() for task in failed or tasks]
        finally:
            give_up(tasks)

    async def fan_out(self, *coroutines: Coroutine[Any, Any, Any]) -> list[Any]:
        """See `interface.IO.fan_out`."""
        if len(coroutines) < 2:
            return [await coroutine for coroutine in coroutines]
        tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            failed = [task for task in tasks if task in done and not task.cancelled() and task.exception()]
            return [task.result() for task in failed or tasks]
        finally:
            give_up(tasks)

    def background(self, coroutine: Coroutine[Any, Any, Any], /) -> Work:
        """See `interface.IO.background`."""
        if self._closing:
            coroutine.close()
            return Work(None)
        try:
            task = self._here().create_task(coroutine, context=Context())
        except BaseException:
            coroutine.close()
            raise
        self._keep(task)
        task.add_done_callback(log_end)
        return Work(task)

    # -- single flight

    async def once(self, key: object, body: Callable[[float], Awaitable[Any]], deadline: float, /) -> Any:
        """See `interface.IO.once`."""
        while True:
            flight = self._flights.get(key)
            leading = flight is None
            if flight is None:
                flight = self._flights[key] = self._take_off(key, body, deadline)
            else:
                refuse_reentry(flight)
            slot = Slot()
            flight.waiters.add(slot)
            try:
                await self.wait(slot, deadline)
            finally:
                flight.waiters.discard(slot)
                if not flight.waiters and not flight.task.done():
                    flight.task.cancel()
                    self._remove(key, flight)
            error = flight.error
            if error is None:
                return flight.task.result()
            if leading:
                self.refuse_if_closing()
                raise error
            if not hands_over(error):
                raise twin(error)

    def _take_off(self, key: object, body: Callable[[float], Awaitable[Any]], deadline: float) -> Flight:
        flight = Flight(self._here(), body, deadline)
        flight.task.add_done_callback(lambda _: self._remove(key, flight))
        self._keep(flight.task)
        return flight

    def _remove(self, key: object, flight: Flight) -> None:
        if self._flights.get(key) is flight:
            del self._flights[key]

    # -- the end

    def let_go(self, end: Callable[[], object], /) -> None:
        """See `interface.IO.let_go`."""
        loop = self._loop
        if loop is None or self.forked():
            return
        if loop is _get_running_loop() or loop.is_closed():
            end()
        else:
            with contextlib.suppress(RuntimeError):  # closed just now
                loop.call_soon_threadsafe(end)

    async def close(self, deadline: float, /) -> None:
        """See `interface.IO.close`."""
        if self._closing:
            return
        try:
            await self._settle(deadline - monotonic())
            self._cancel_tasks()
            await self._settle(LAST_TURN)
        finally:
            self._shut()
        # One turn for the transports to say goodbye, so that none is left unclosed when the loop ends.
        await asyncio.sleep(0)

    async def _settle(self, seconds: float) -> None:
        tasks = self._tasks - {asyncio.current_task()}
        if tasks and seconds > 0:
            await asyncio.wait(tasks, timeout=None if seconds == inf else seconds)

    def _cancel_tasks(self) -> None:
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    def _shut(self) -> None:
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._armed = inf
        for future in self._waiting:
            if not future.done():
                future.set_result(Closing)
        self._cancel_tasks()
        for stream in list(self._streams):
            stream.close()
        for process in list(self._processes):
            process.bury()

    def abandon(self) -> None:
        """After fork: drop every stream and child without a word."""
        for process in list(self._processes):
            process.abandon()
        for stream in list(self._streams):
            stream.abandon()


def _fire(reference: weakref.ref[AsyncIO]) -> None:
    io = reference()
    if io is not None:
        io.expire()
