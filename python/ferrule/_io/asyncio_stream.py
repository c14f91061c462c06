"""Streams on an event loop: sockets by a transport, a child's pipes by readiness callbacks.

Knows transports, readers and writers of a loop. How a slot is waited for is the IO object's `wait`, which each
stream carries as its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from contextvars import Context
from time import monotonic

from . import Expired, Unsent
from .channels import look_at, readable_now

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Coroutine
    from typing import Any

    from .asyncio import AsyncIO
    from .asyncio_slot import Slot
    from .interface import Receiver
    from .processes import Pipe

    Wait = Callable[[Any, float], Coroutine[Any, Any, None]]

FOREVER = 86400.0
"""Seconds that stand for no limit where asyncio wants one; the deadline is kept elsewhere."""


class SocketStream(asyncio.BufferedProtocol):
    """See `interface.Stream`. A socket, or TLS over one; the transport's protocol as well.

    `get_buffer` and `buffer_updated` are the receiver's own bound methods: no frame of ours lies between.
    """

    __slots__ = (
        "__weakref__",
        "_io",
        "_look",
        "_made",
        "_paused",
        "_receiver",
        "_room",
        "_sock",
        "_spoke_first",
        "_told",
        "_transport",
        "buffer_updated",
        "closed",
        "get_buffer",
        "wait",
    )

    _transport: asyncio.Transport

    def __init__(self, io: AsyncIO, sock: socket.socket, receiver: Receiver, *, guarded: bool = False) -> None:
        """`guarded`: nothing may come before the TLS handshake; it would be taken for what TLS protects."""
        self.closed = False
        self._spoke_first = False
        if guarded:
            self.get_buffer = lambda sizehint: memoryview(bytearray(1))  # type: ignore[method-assign]
            self.buffer_updated = self._breach  # type: ignore[method-assign]
        else:
            self._open(receiver)
        self.wait: Wait = io.wait
        self._io = io
        self._sock = sock
        self._look = look_at(sock.fileno())
        self._receiver = receiver
        self._made = False
        self._told = False
        self._paused = False
        self._room: deque[Slot] = deque()

    def _open(self, receiver: Receiver) -> None:
        self.get_buffer = receiver.get_buffer  # type: ignore[method-assign, assignment]
        self.buffer_updated = receiver.buffer_updated  # type: ignore[method-assign, assignment]

    def _breach(self, nbytes: int) -> None:
        self._spoke_first = True
        self._transport.abort()

    # -- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport; behind TLS that is the one above it."""
        self._transport = transport  # type: ignore[assignment]  # uvloop's is no asyncio.Transport
        self._made = True

    def eof_received(self) -> None:
        """Nothing more will come, whatever is still being written."""
        self._lost(None)
        self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand the news on, once."""
        self._lost(exc)

    def pause_writing(self) -> None:
        """The transport's buffer is full."""
        self._paused = True

    def resume_writing(self) -> None:
        """There is room again."""
        self._paused = False
        for slot in self._room:
            slot.set(None)

    def _lost(self, error: Exception | None) -> None:
        self.closed = True
        self.resume_writing()
        if not self._told:
            self._told = True
            self._receiver.connection_lost(error)

    # -- what callers call

    def write_now(self, data: bytes, deadline: float, /) -> None:
        """See `interface.SocketStream.write_now`: the transport buffers what the kernel does not take."""
        if self.closed or self._transport.is_closing():
            raise ConnectionResetError("the stream is closed")
        self._transport.write(data)

    def ask(self, data: bytes, buffer: memoryview, deadline: float, /) -> int:
        """See `interface.SocketStream.ask`: the loop reads, not who waits."""
        self.write_now(data, deadline)
        return 0

    def one_waiter(self) -> None:
        """Nothing is gained by it here: the loop reads."""

    def unsent(self) -> int:
        """See `interface.SocketStream.unsent`."""
        return self._transport.get_write_buffer_size()

    async def write(self, data: bytes, deadline: float, /) -> None:
        """See `interface.Stream.write`."""
        self.write_now(data, deadline)

    def stale(self) -> bool:
        """See `interface.Stream.stale`. The transport has read TLS tickets when they came."""
        return self.closed or self._transport.is_closing() or bool(self._look(0))

    def poll(self) -> None:
        """Do nothing: the loop reads."""

    async def start_tls(self, context: ssl.SSLContext, hostname: str, deadline: float, /) -> None:
        """See `interface.Stream.start_tls`."""
        loop = asyncio.get_running_loop()
        try:
            await self._io.bounded(self.shake_hands(loop, context, hostname, deadline), deadline, None)
        except BaseException:
            self._transport.abort()
            self._lost(None)
            raise

    async def shake_hands(
        self, loop: asyncio.AbstractEventLoop, context: ssl.SSLContext, hostname: str, deadline: float
    ) -> None:
        """Put TLS between the transport and the receiver; on failure the stream is of no more use."""
        if self._spoke_first:
            raise _no_tls()
        if self.closed or self._transport.is_closing():
            raise ConnectionResetError("the stream is closed")
        self._open(self._receiver)
        limit = max(1.0, min(deadline - monotonic() + 1.0, FOREVER))  # the deadline always comes first
        transport = await loop.start_tls(
            self._transport, self, context, server_hostname=hostname, ssl_handshake_timeout=limit
        )
        if transport is None:
            raise ConnectionResetError("the connection was lost during the TLS handshake")
        self._transport = transport

    def finish_writing(self) -> None:
        """See `interface.Stream.finish_writing`."""
        if not self.closed and self._transport.can_write_eof():
            with contextlib.suppress(OSError):
                self._transport.write_eof()

    def close(self) -> None:
        """See `interface.Stream.close`."""
        if self.closed:
            return
        self.closed = True
        try:
            self._transport.abort()  # calls connection_lost in the loop's next turn
        except RuntimeError:  # the loop was closed before the stream
            _finish(self._transport)
            self._sock.close()
            self._lost(None)

    def discard(self) -> None:
        """Close without a word to the receiver: the stream was never handed out."""
        self.closed = self._told = True
        if self._made:
            self._transport.abort()

    def abandon(self) -> None:
        """See `interface.Stream.abandon`. The loop, like its epoll, is the parent's: leave it alone."""
        self.closed = self._told = True
        fd = self._sock.detach()
        if fd >= 0:
            os.close(fd)


def _finish(transport: Any) -> None:
    """Do for a transport what its closed loop will not do any more, as far as the transport lets us."""
    below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    for one in (transport, below):
        goodbye = getattr(one, "_call_connection_lost", None)
        if goodbye is not None:
            with contextlib.suppress(Exception):
                goodbye(None)


class BridgeStream(SocketStream):
    """A socket that stands for a child's pipes (Windows): `write` waits for room."""

    __slots__ = ()

    async def write(self, data: bytes, deadline: float, /) -> None:
        """Write when there is room."""
        while self._paused and not self.closed:
            slot = self._io.slot()
            self._room.append(slot)
            try:
                await self.wait(slot, deadline)
            finally:
                self._room.remove(slot)
        await super().write(data, deadline)


def _no_tls() -> ssl.SSLError:
    """What a blocking socket says of plain text where the TLS handshake should be."""
    import ssl

    error = ssl.SSLError(ssl.SSL_ERROR_SSL, "plain text came before the TLS handshake")
    error.reason = "WRONG_VERSION_NUMBER"
    return error


class PipeStream:
    """See `interface.Stream`. The stdin and stdout of a child, without transport, thread or task (POSIX).

    `write` returns when the kernel has the data. A message whose writer gave up half-way is finished by
    the loop; the next writer waits for that, so at most one message is kept here.
    """

    __slots__ = (
        "__weakref__",
        "_finish",
        "_io",
        "_loop",
        "_queue",
        "_read_fd",
        "_receiver",
        "_rest",
        "_stdin",
        "_stdout",
        "_told",
        "_write_fd",
        "closed",
        "wait",
    )

    def __init__(self, io: AsyncIO, stdin: Pipe, stdout: Pipe, receiver: Receiver) -> None:
        self.closed = False
        self.wait: Wait = io.wait
        self._io = io
        self._loop = asyncio.get_running_loop()
        self._stdin = stdin
        self._stdout = stdout
        self._write_fd = stdin.fileno()
        self._read_fd = stdout.fileno()
        os.set_blocking(self._write_fd, False)
        os.set_blocking(self._read_fd, False)
        self._receiver = receiver
        self._told = False
        self._rest: memoryview | None = None
        """What the kernel has not taken yet of the message that is being written."""
        self._queue: deque[Slot] = deque()
        """Writers, in order; the first one's turn comes when `_rest` is gone."""
        self._finish = False
        # A context of its own: the loop would keep the caller's for as long as the pipe is open.
        Context().run(self._loop.add_reader, self._read_fd, self._readable)

    def _readable(self) -> None:
        try:
            count = os.readv(self._read_fd, (self._receiver.get_buffer(-1),))
        except BlockingIOError:
            return
        except OSError as error:
            self._shut()
            self._tell(error)
            return
        if count:
            self._receiver.buffer_updated(count)
        else:
            self._shut()
            self._tell(None)

    def _tell(self, error: Exception | None) -> None:
        if not self._told:
            self._told = True
            self._receiver.connection_lost(error)

    # -- writing

    async def write(self, data: bytes, deadline: float, /) -> None:
        """See `interface.Stream.write`."""
        if self._rest is not None or self._queue:
            try:
                await self._await_turn(deadline)
            except Expired:
                raise Unsent from None
        if self.closed or self._finish:
            raise ConnectionResetError("the stream is closed")
        view = memoryview(data)
        view = view[self._send(view) :]
        if not view:
            self._next()
            return
        self._rest = view
        Context().run(self._loop.add_writer, self._write_fd, self._writable)
        await self._await_turn(deadline, first=True)
        if self._rest is not None:
            raise ConnectionResetError("the stream is closed")
        self._next()

    async def _await_turn(self, deadline: float, *, first: bool = False) -> None:
        slot = self._io.slot()
        if first:
            self._queue.appendleft(slot)
        else:
            self._queue.append(slot)
        try:
            await self.wait(slot, deadline)
        except BaseException:
            self._queue.remove(slot)
            if slot.done:
                self._next()
            raise
        self._queue.remove(slot)

    def _next(self) -> None:
        """Give the turn to the first writer in the queue, unless bytes are still under way."""
        if self.closed:
            for slot in self._queue:
                slot.set(None)
        elif self._rest is None:
            if self._queue:
                self._queue[0].set(None)
            elif self._finish:
                self._stdin.close()

    def _send(self, view: memoryview) -> int:
        try:
            return os.write(self._write_fd, view)
        except BlockingIOError:
            return 0

    def _writable(self) -> None:
        assert self._rest is not None
        try:
            rest = self._rest[self._send(self._rest) :]
        except OSError:
            # The child closed its stdin; what it wrote before may still be there to read.
            self._loop.remove_writer(self._write_fd)
            self._finish = True
            for slot in self._queue:
                slot.fail(BrokenPipeError("the child closed its standard input"))
            return
        self._rest = rest or None
        if self._rest is None:
            self._loop.remove_writer(self._write_fd)
            self._next()

    # -- the rest

    def stale(self) -> bool:
        """See `interface.Stream.stale`."""
        return self.closed or readable_now(self._read_fd)

    def poll(self) -> None:
        """Do nothing: the loop reads."""

    async def start_tls(self, context: ssl.SSLContext, hostname: str, deadline: float, /) -> None:
        """Refuse: there is no TLS over pipes."""
        raise OSError("TLS needs a socket")

    def finish_writing(self) -> None:
        """See `interface.Stream.finish_writing`. A write that is under way ends first."""
        if not self.closed and not self._finish:
            self._finish = True
            self._next()

    def close(self) -> None:
        """See `interface.Stream.close`."""
        if self.closed:
            return
        self._shut()
        try:
            self._loop.call_soon(self._tell, None)
        except RuntimeError:  # the loop was closed before the stream
            self._tell(None)

    def _shut(self) -> None:
        """Let go of the pipes and of everybody who waits to write."""
        self.closed = True
        with contextlib.suppress(RuntimeError):
            self._loop.remove_reader(self._read_fd)
            if not self._stdin.closed:
                self._loop.remove_writer(self._write_fd)
        self._stdin.close()
        self._stdout.close()
        self._next()

    def abandon(self) -> None:
        """See `interface.Stream.abandon`."""
        self.closed = self._told = True
        self._stdin.close()
        self._stdout.close()
