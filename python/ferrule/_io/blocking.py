"""The blocking driver: sockets, children and threads. Its coroutines never suspend.

Knows threads, background work and single flight among threads. Streams are in `blocking_stream`.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from _thread import TIMEOUT_MAX, allocate_lock, get_ident
from contextvars import Context, copy_context
from time import monotonic, time

from . import INSIDE, Closing, Expired, log_failure
from .addresses import literal, unix
from .blocking_connect import Lookups, race
from .blocking_stream import LOOK_AGAIN, BlockingStream
from .channels import SocketChannel
from .single_flight import hands_over, refuse_reentry, twin
from .wakers import Scope, Slot, WakerPool

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from threading import Thread
    from typing import Any, TypeVar

    from .blocking_process import BlockingProcess
    from .interface import Address, Receiver
    from .listening import BlockingListener

    T = TypeVar("T")

LAST_JOIN = 1.0
"""Seconds that background threads get to notice the end."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, in the calling thread, and return its value.

    Raises:
        RuntimeError: it suspended, which nothing below the blocking driver may do.
    """
    try:
        awaitable = coroutine.send(None)
    except StopIteration as stop:
        value: T = stop.value
        return value
    where = _innermost(coroutine)
    coroutine.close()
    raise RuntimeError(
        f"internal error: {where} suspended under the blocking driver, awaiting {type(awaitable).__qualname__}"
    )


def _innermost(coroutine: Any) -> str:
    """Name the coroutine at the bottom of a suspended one."""
    name = "a coroutine"
    while hasattr(coroutine, "__qualname__"):
        name = coroutine.__qualname__
        coroutine = getattr(coroutine, "cr_await", None)
    return name


class BlockingIO:
    """See `interface.IO`."""

    blocking = True
    wall = staticmethod(time)

    def __init__(self) -> None:
        # No method around either: both are called several times in every request.
        self.now: Callable[[], float] = monotonic
        self.slot: Callable[[], Slot] = Slot
        self._pid = os.getpid()
        self._mutex = allocate_lock()
        self._lock = allocate_lock()
        self._wakers = WakerPool()
        self._flights: dict[object, Flight] = {}
        self._lookups = Lookups()
        self._streams: weakref.WeakSet[BlockingStream] = weakref.WeakSet()
        self._processes: weakref.WeakSet[BlockingProcess] = weakref.WeakSet()
        self._works: set[Work] = set()
        self._finalizer: weakref.finalize[..., BlockingIO] | None = None

    def check(self) -> bool:
        """See `interface.IO.check`. Threads may share this object."""
        return os.getpid() != self._pid

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

    # -- opening

    async def look_up(self, host: str, port: int, deadline: float, /) -> list[Address]:
        """See `interface.IO.look_up`."""
        found = literal(host, port)
        if found is not None:
            return found
        lookup = self._lookups.begin(host, port)
        await self.wait(lookup, deadline)
        return lookup.result()  # type: ignore[no-any-return]

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
    ) -> BlockingStream:
        """See `interface.IO.connect`."""
        if addresses is None:
            addresses = unix(path) if path is not None else await self.look_up(host, port, deadline)
        waker = self._wakers.take()
        try:
            sock = race(addresses, deadline, waker)
        finally:
            self._wakers.give(waker)
        stream = BlockingStream(self._wakers, SocketChannel(sock), receiver)
        self._streams.add(stream)
        if tls is not None:
            try:
                stream.shake_hands(tls, server_hostname or host, deadline)
            except BaseException:
                stream.discard()
                raise
        return stream

    async def adopt(self, reader: Any, writer: Any, *, receiver: Receiver) -> BlockingStream:
        """See `interface.IO.adopt`."""
        from .adopting import as_socket
        from .channels import PipeChannel

        channel: SocketChannel | PipeChannel
        if (sock := as_socket(reader, writer)) is not None:
            channel = SocketChannel(sock)
        else:
            channel = PipeChannel(writer, reader)
        stream = BlockingStream(self._wakers, channel, receiver)
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
    ) -> BlockingProcess:
        """See `interface.IO.spawn`."""
        from .blocking_process import BlockingProcess

        if self._wakers.over:
            raise Closing
        process = BlockingProcess(self._wakers, argv, env=env, cwd=cwd, stderr=stderr, receiver=receiver)
        self._streams.add(process.stream)
        self._processes.add(process)
        return process

    async def listen(self, port: int) -> BlockingListener:
        """See `interface.IO.listen`."""
        from .listening import BlockingListener

        return BlockingListener(self._wakers, port)

    # -- waiting

    async def wait(self, slot: Any, deadline: float, /) -> None:
        """See `interface.IO.wait`."""
        if slot.done or slot.mail:
            return
        waker = self._wakers.take()
        slot.waker = waker
        try:
            while not (slot.done or slot.mail):
                waker.doze(deadline, LOOK_AGAIN)
        finally:
            slot.waker = None
            self._wakers.give(waker)

    async def sleep(self, seconds: float, /) -> None:
        """See `interface.IO.sleep`."""
        try:
            await self.wait(Slot(), monotonic() + seconds)
        except Expired:
            return

    # -- other people's code

    async def call(self, handler: Callable[..., Any], /, *args: Any) -> Any:
        """See `interface.IO.call`."""
        return handler(*args)

    async def aside(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """See `interface.IO.aside`."""
        return function(*args)

    async def call_each(
        self, handler: Callable[..., Any], calls: list[tuple[Any, ...]], failed: Callable[[Exception], None], /
    ) -> None:
        """See `interface.IO.call_each`."""
        for args in calls:
            try:
                handler(*args)
            except Exception as error:
                failed(error)

    async def gather(self, *coroutines: Coroutine[Any, Any, Any], deadline: float = float("inf")) -> list[Any]:
        """See `interface.IO.gather`: one after another, whatever the deadline."""
        try:
            return [await coroutine for coroutine in coroutines]
        finally:
            for coroutine in coroutines:
                coroutine.close()

    async def fan_out(self, *coroutines: Coroutine[Any, Any, Any]) -> list[Any]:
        """See `interface.IO.fan_out`: the first here, each other one in a thread."""
        if len(coroutines) < 2:
            return [await coroutine for coroutine in coroutines]
        slots = [Slot() for _ in coroutines]
        try:
            for coroutine, slot in zip(coroutines[1:], slots[1:], strict=True):
                new_thread(
                    target=copy_context().run,
                    args=(_into, slot, coroutine),
                    name="ferrule-io",
                    daemon=True,
                ).start()
            _into(slots[0], coroutines[0])
            for slot in slots:
                await self.wait(slot, float("inf"))
        finally:
            for coroutine in coroutines:
                with contextlib.suppress(ValueError):  # interrupted while its thread still runs it
                    coroutine.close()
        return [slot.result() for slot in slots]

    def background(self, coroutine: Coroutine[Any, Any, Any], /) -> Work:
        """See `interface.IO.background`."""
        work = Work(coroutine, self._wakers, self._works)
        if self._finalizer is None:
            self._finalizer = weakref.finalize(self, _end, self._wakers, self._works, os.getpid())
        work.start()
        return work

    # -- single flight

    async def once(self, key: object, body: Callable[[float], Awaitable[Any]], deadline: float, /) -> Any:
        """See `interface.IO.once`."""
        while True:
            flight = Flight()
            try:
                with self._lock:
                    found = self._flights.setdefault(key, flight)
                    if found is not flight:
                        slot = Slot()
                        found.followers.append(slot)
                if found is flight:
                    return await self._lead(flight, body, deadline)
            finally:
                # By identity: whatever interrupted this, a flight of ours never stays in the table.
                if self._flights.get(key) is flight:
                    self._land(key, flight)
            refuse_reentry(found)
            await self.wait(slot, deadline)
            if slot.result() is not HANDED_OVER:
                if found.error is not None:
                    raise twin(found.error)
                return found.value

    async def _lead(self, flight: Flight, body: Callable[[float], Awaitable[Any]], deadline: float) -> Any:
        token = INSIDE.set((*INSIDE.get(), flight))
        try:
            flight.value = await body(deadline)
            flight.verdict = True
            return flight.value
        except BaseException as error:
            if not hands_over(error):
                flight.error = error
                flight.verdict = True
            raise
        finally:
            INSIDE.reset(token)

    def _land(self, key: object, flight: Flight) -> None:
        with self._lock:
            del self._flights[key]
        for slot in flight.followers:
            slot.set(None if flight.verdict else HANDED_OVER)

    # -- the end

    def let_go(self, end: Callable[[], object], /) -> None:
        """See `interface.IO.let_go`."""
        if self.forked():
            return
        # Memory may be collected while somebody holds the mutex, this very thread perhaps: then another one waits.
        if self._mutex.acquire(False):
            self._mutex.release()
            end()
        else:
            new_thread(target=end, name="ferrule-io", daemon=True).start()

    async def close(self, deadline: float, /) -> None:
        """See `interface.IO.close`."""
        if self._wakers.over:
            return
        _join(self._works, deadline)
        self._wakers.close()
        for stream in list(self._streams):
            stream.close()
        for process in list(self._processes):
            process.bury(deadline)
        _join(self._works, monotonic() + LAST_JOIN)
        if self._finalizer is not None:
            self._finalizer.detach()

    def abandon(self) -> None:
        """After fork: drop every stream and child without a word, and touch no lock."""
        for process in list(self._processes):
            process.abandon()
        for stream in list(self._streams):
            stream.abandon()
        if self._finalizer is not None:
            self._finalizer.detach()


HANDED_OVER = object()


class Flight:
    """One run of a single-flight body, and who waits for its verdict."""

    __slots__ = ("error", "followers", "value", "verdict")

    def __init__(self) -> None:
        self.followers: list[Slot] = []
        self.verdict = False
        self.value: Any = None
        self.error: BaseException | None = None


def _into(slot: Slot, coroutine: Coroutine[Any, Any, Any]) -> None:
    try:
        slot.set(run(coroutine))
    except BaseException as error:
        slot.fail(error)
        if not isinstance(error, Exception):
            raise


class Work(Scope):
    """A coroutine on a daemon thread of its own. Knows the wakers, not the IO."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], wakers: WakerPool, works: set[Work]) -> None:
        self._coroutine = coroutine
        self._wakers = wakers
        self._works = works
        self.thread = new_thread(target=Context().run, args=(self._work,), name="ferrule-work", daemon=True)

    def start(self) -> None:
        """Begin; a thread that cannot be had is the caller's error."""
        self._works.add(self)
        try:
            self.thread.start()
        except BaseException:
            self._works.discard(self)
            self._coroutine.close()
            raise

    def cancel(self) -> None:
        """End its waits with `Closing`, the one it is in and those to come."""
        self.over = True
        self._wakers.wake_all()

    def _work(self) -> None:
        scopes = self._wakers.scopes
        ident = get_ident()
        scopes[ident] = self
        try:
            if self.over or self._wakers.over:
                self._coroutine.close()
            else:
                run(self._coroutine)
        except Closing:
            pass
        except BaseException as error:
            log_failure("background work", error)
        finally:
            del scopes[ident]
            self._works.discard(self)


def new_thread(**options: Any) -> Thread:
    """A thread that was not started. Most programs never need one: `threading` is loaded when one does."""
    from threading import Thread

    return Thread(**options)


def _join(works: set[Work], deadline: float) -> None:
    for work in list(works):
        seconds = deadline - monotonic()
        if work.thread.ident != get_ident() and seconds > 0:
            with contextlib.suppress(RuntimeError):  # added, and not started yet
                work.thread.join(min(seconds, TIMEOUT_MAX))


def _end(wakers: WakerPool, works: set[Work], owner: int) -> None:
    """At exit, or when the IO was collected unclosed: let the threads notice, and wait a little."""
    if os.getpid() == owner:
        wakers.close()
        _join(works, monotonic() + LAST_JOIN)
