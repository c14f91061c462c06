"""A stream that threads share: one of those who wait reads for all, one of those who write writes.

Knows roles, deadlines and wake-ups. What a channel is made of is in `channels`.
"""

from __future__ import annotations

import weakref
from _thread import allocate_lock
from collections import deque
from time import monotonic

from . import Closing, Expired
from .blocking_writing import WritingSide
from .channels import NAP, SocketChannel, TlsChannel, readable_now
from .wakers import LONGEST, POLLIN, Waker, new_poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import Any

    from .channels import PipeChannel
    from .interface import Receiver
    from .wakers import Slot, WakerPool

LOOK_AGAIN = 1.0
"""A follower looks for a vacant lead this often, should an interrupt come between leaving and waking the next."""
SETTLING = object()
"""Leads while a closed stream says goodbye to its receiver."""


class BlockingStream(WritingSide):
    """See `interface.Stream`.

    Two roles: whoever is `_leader` alone reads and calls the receiver, whoever is `_writer` alone writes. A role is
    taken by putting a token of one's own there, so that a `finally` can tell whether it holds the role whatever
    interrupted it (KeyboardInterrupt comes between any two calls). The lock guards roles and queues; the receiver
    is never called under it, and nothing waits under it. The descriptors are closed by the last who uses them.
    """

    __slots__ = (
        "__weakref__",
        "_buffer_updated",
        "_disposed",
        "_error",
        "_finalizer",
        "_finished",
        "_followers",
        "_get_buffer",
        "_naps",
        "_poll",
        "_receiver",
        "_recv_into",
        "_told",
        "_waker",
    )

    def __init__(self, wakers: WakerPool, channel: SocketChannel | PipeChannel, receiver: Receiver) -> None:
        self.closed = False
        self._wakers = wakers
        self._waker = wakers.resident()
        """Wakes the leader."""
        self._receiver = receiver
        self._get_buffer = receiver.get_buffer
        self._buffer_updated = receiver.buffer_updated
        self._lock = allocate_lock()
        self._leader: object | None = None
        self._followers: list[Waker] = []
        self._writer: Waker | None = None
        self._writers: deque[Waker] = deque()
        self._owed: memoryview | None = None
        """The rest of a message that was begun. It goes out before anything else."""
        self._finish = self._finished = False
        self._error: Exception | None = None
        self._told = self._disposed = False
        self._finalizer: Any = None
        self._use(channel)

    def _use(self, channel: SocketChannel | PipeChannel) -> None:
        self._channel = channel
        self._recv_into: Callable[[Any], int] = channel.recv_into
        self._send: Callable[[Any, int], int] = channel.send
        self._flags = channel.flags
        self._pending = channel.pending
        self._naps = channel.naps
        poll = new_poll()
        poll.register(channel.read_fd, POLLIN)
        poll.register(self._waker.fd, POLLIN)
        self._poll: Callable[[float], list[tuple[int, int]]] = poll.poll
        # A stream that nobody closed goes without a warning: the finalizer outlives it, and so does the socket.
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = weakref.finalize(self, channel.dispose)

    def one_waiter(self) -> None:
        """See `interface.SocketStream.one_waiter`: then reads may wait by themselves, without a poll before each."""
        channel = self._channel
        if type(channel) is SocketChannel:
            channel.nap()
            self._flags = channel.flags
            self._naps = channel.naps

    async def wait(self, slot: Any, deadline: float, /) -> None:
        """See `interface.Stream.wait`."""
        if slot.done or slot.mail:
            return
        try:
            with self._lock:
                leading = self._leader is None and not self.closed
                if leading:
                    self._leader = slot
            if leading and self._naps:
                self._nap(slot, deadline)
            if leading and not slot.done:
                self._lead(slot, deadline)
            if not (slot.done or slot.mail):
                self._follow(slot, deadline)
        finally:
            slot.waker = None
            # Here and wherever a role is given up: inline, and before the lock, since a call or the wait for the lock
            # can be interrupted. Only its holder gives a role up, so that no lock is needed for it.
            if self._leader is slot:
                self._leader = None
            with self._lock:
                pass  # whoever saw a leader is among the followers by now
            if self._followers or self.closed:
                self._pass_on()

    def ask(self, data: bytes, buffer: memoryview, deadline: float, /) -> int:
        """See `interface.SocketStream.ask`."""
        count = 0
        try:
            with self._lock:
                if self.closed or self._owed:
                    raise ConnectionResetError("the stream is closed")
                # There may still be a leader: one that polled, and so completed the response before this one.
                if self._leader is None and self._naps:
                    self._leader = data
                    try:
                        count = self._send(data, self._flags)
                    except BlockingIOError:
                        count = 0
                if count < len(data):
                    self._owed = memoryview(data)[count:]
                    return -1
            while deadline - monotonic() > NAP and not self._wakers.scopes:
                try:
                    return self._recv_into(buffer)
                except BlockingIOError:
                    continue
                except OSError as error:
                    self._error = error
                    break
            return 0
        finally:
            # Without the lock: whoever closes says so first and looks for a leader then, and here it is the other way.
            if self._leader is data:
                self._leader = None
            if self._followers or self.closed:
                self._pass_on()

    def _nap(self, slot: Slot, deadline: float) -> None:
        """As `_lead` where there is one waiter. Only who closes the stream has to wake it, and that wakes the read."""
        while not (slot.done or slot.mail or self.closed or self._wakers.scopes):
            if deadline - monotonic() <= NAP:
                return
            self._read()

    def _lead(self, slot: Slot, deadline: float) -> None:
        """Read until the slot has something, or nothing more will come."""
        waker = self._waker
        wakers = self._wakers
        slot.waker = waker
        while True:
            waker.pending = False
            if slot.done or slot.mail:
                return
            if (self.closed or wakers.over or wakers.scopes) and self._is_over():
                return
            if self._pending is not None and self._pending():
                self._read()
                continue
            seconds = deadline - monotonic()
            waker.asleep = True
            if waker.pending:
                continue
            ready = self._poll(seconds * 1000 if 0 < seconds < LONGEST else 0 if seconds <= 0 else LONGEST * 1000)
            waker.asleep = False
            for fd, _ in ready:
                if fd != waker.fd:
                    self._read()
                else:
                    waker.clear()
            if not ready and monotonic() >= deadline:
                raise Expired

    def _is_over(self) -> bool:
        """Is there nothing more to wait for here? Only for the leader."""
        if self.closed:
            self._tell()
            return True
        if self._wakers.scope().over:
            raise Closing
        return False

    def _follow(self, slot: Slot, deadline: float) -> None:
        """Sleep while others read; take the lead when it is vacant."""
        waker = self._wakers.take()
        try:
            slot.waker = waker
            while not (slot.done or slot.mail):
                with self._lock:
                    if self.closed and self._leader is slot:
                        self._leader = None
                    if self._leader is None and not self.closed:
                        self._leader = slot
                    elif waker not in self._followers:
                        self._followers.append(waker)
                if self._leader is slot:
                    self._lead(slot, deadline)
                    slot.waker = waker
                    continue
                if self.closed:
                    self._settle()
                waker.doze(deadline, LOOK_AGAIN)
        finally:
            with self._lock:
                if waker in self._followers:
                    self._followers.remove(waker)
            self._wakers.give(waker)

    def _read(self) -> None:
        """Read once and hand it over. Only for the leader."""
        try:
            count = self._recv_into(self._get_buffer(-1))
            if count:
                self._buffer_updated(count)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error)
        except BaseException:
            # Interrupted with bytes in hand that the receiver may have seen in part: there is no going on.
            self._error = ConnectionAbortedError("reading was interrupted")
            self.closed = True
            raise
        else:
            if not count:
                self._end(None)

    def _end(self, error: Exception | None) -> None:
        """No more bytes will come. Only for the leader."""
        if not self.closed:
            self._error = error or self._error
            self.closed = True
        self._tell()

    def _tell(self) -> None:
        """Tell the receiver, once. Only for the leader."""
        if not self._told:
            self._told = True
            self._receiver.connection_lost(self._error)

    def poll(self) -> None:
        """Read what is there without waiting, unless somebody reads anyway."""
        self._if_vacant(self._read_all)

    def stale(self) -> bool:
        """See `interface.Stream.stale`. False while somebody reads: then it was asked for."""
        return self.closed or self._if_vacant(self._channel.stale)

    def _read_all(self) -> bool:
        while not self.closed and ((self._pending and self._pending()) or readable_now(self._channel.read_fd)):
            self._read()
        return True

    def _if_vacant(self, work: Callable[[], bool]) -> bool:
        """Do something as the leader; False if there is another one."""
        token = object()
        try:
            with self._lock:
                leading = self._leader is None and not self.closed
                if leading:
                    self._leader = token
            return leading and work()
        finally:
            if self._leader is token:
                self._leader = None
            with self._lock:
                pass  # as in `wait`
            if self._followers or self.closed:
                self._pass_on()

    def _pass_on(self) -> None:
        """Wake whoever is next in a role that is vacant now, and finish what was left to the last one."""
        with self._lock:
            heirs = []
            if self._leader is None and self._followers:
                heirs.append(self._followers[0])
            if self._writer is None and self._writers:
                heirs.append(self._writers[0])
            finish = self._finish and self._writer is None and not self._finished
            self._finished = self._finished or finish
        for heir in heirs:
            heir.wake()
        if finish:
            self._channel.finish_writing()
        if self.closed:
            self._settle()

    async def start_tls(self, context: ssl.SSLContext, hostname: str, deadline: float, /) -> None:
        """See `interface.Stream.start_tls`. Nobody else may wait or write meanwhile."""
        try:
            self.shake_hands(context, hostname, deadline)
        except BaseException:
            self.close()
            raise

    def shake_hands(self, context: ssl.SSLContext, hostname: str | None, deadline: float) -> None:
        """Turn the socket into a TLS one; on failure the stream is of no more use."""
        from .blocking_handshake import shake_hands

        channel = self._channel
        if not isinstance(channel, SocketChannel):
            raise OSError("TLS needs a socket")
        waker = self._wakers.take()
        try:
            with self._lock:
                if not self.closed:
                    self._leader = self._writer = waker
            if self.closed:
                raise ConnectionResetError("the stream is closed")
            channel.wake_up()
            sock = context.wrap_socket(channel.sock, server_hostname=hostname, do_handshake_on_connect=False)
            self._use(TlsChannel(sock))
            shake_hands(sock, waker, deadline, lambda: self.closed)
        finally:
            if self._leader is waker:
                self._leader = None
            if self._writer is waker:
                self._writer = None
            self._pass_on()
            self._wakers.give(waker)

    def finish_writing(self) -> None:
        """See `interface.Stream.finish_writing`. A write that is under way fails, or ends first."""
        with self._lock:
            if self.closed or self._finish:
                return
            self._finish = True
            writer = self._writer
            self._finished = writer is None
        if writer is None:
            self._channel.finish_writing()
        else:
            writer.wake()

    def close(self) -> None:
        """See `interface.Stream.close`."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            sleepers = [self._waker, *self._writers]
            if self._writer is not None:
                sleepers.append(self._writer)
        self._channel.shutdown()
        for sleeper in sleepers:
            sleeper.wake()
        self._settle()

    def _settle(self) -> None:
        """Once closed: tell the receiver, and close the descriptors if nobody uses them."""
        with self._lock:
            if self._leader is not None or (self._told and (self._disposed or self._writer is not None)):
                return  # whoever holds a role comes here when it leaves
            self._leader = SETTLING
        try:
            self._tell()
        finally:
            self._leader = None
            with self._lock:
                followers = list(self._followers)
                dispose = self._writer is None and not self._disposed
                self._disposed = self._disposed or dispose
            for follower in followers:
                follower.wake()
            if dispose:
                self._finalizer()

    def discard(self) -> None:
        """Close without a word to the receiver: the stream was never handed out."""
        self._told = True
        self.close()

    def abandon(self) -> None:
        """See `interface.Stream.abandon`."""
        self.closed = self._told = self._disposed = True
        self._finalizer.detach()
        self._channel.abandon()
