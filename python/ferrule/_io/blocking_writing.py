"""The writing side of a stream that threads share: messages in order, none begun and left half done.

Knows the writer's role and what a full buffer means; the reading side is in `blocking_stream`.
"""

from __future__ import annotations

from time import monotonic

from . import Closing, Expired, Unsent
from .wakers import LONGEST, POLLIN, POLLOUT, Waker, new_poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable
    from typing import Any

    from .channels import PipeChannel, SocketChannel
    from .wakers import WakerPool

LOOK_AGAIN = 1.0
"""A writer looks this often whether its turn has come, should an interrupt come between leaving and waking the next."""
VACANT_LEAD = 0.05
"""A blocked writer beside a reader looks this often whether that reader has left."""
WRITE_CHUNK = 262144

NOT_BEGUN, BEGUN, ENDED = object(), object(), object()
"""How far the peer has seen a message."""


class WritingSide:
    """What `BlockingStream` does when somebody writes. The stream holds all state."""

    __slots__ = (
        "_channel",
        "_finish",
        "_flags",
        "_leader",
        "_lock",
        "_owed",
        "_pending",
        "_send",
        "_wakers",
        "_writer",
        "_writers",
        "closed",
    )
    if TYPE_CHECKING:
        closed: bool
        _channel: SocketChannel | PipeChannel
        _finish: bool
        _leader: object | None
        _lock: Any
        _owed: memoryview | None
        _pending: Callable[[], int] | None
        _send: Callable[[Any, int], int]
        _flags: int
        _wakers: WakerPool
        _writer: Waker | None
        _writers: deque[Waker]

        def close(self) -> None: ...
        def _pass_on(self) -> None: ...
        def _read(self) -> None: ...

    async def write(self, data: bytes, deadline: float, /) -> None:
        """See `interface.Stream.write`."""
        self.write_now(data, deadline)

    def unsent(self) -> int:
        """See `interface.SocketStream.unsent`."""
        return 0

    def write_now(self, data: bytes, deadline: float, /) -> None:
        """See `interface.SocketStream.write_now`.

        A message that was begun when its deadline passed is finished before the next one, so that the
        peer never sees half of one.
        """
        state = NOT_BEGUN
        try:
            # Under the lock, since a send that does not wait is as short as taking a role.
            with self._lock:
                if self.closed or self._finish:
                    raise ConnectionResetError("the stream is closed")
                if self._writer is None and self._owed is None:
                    state = self._begin(data)
            if state is not ENDED:
                self._queue(data, state is BEGUN, deadline)
        except Exception:
            raise
        except BaseException:
            self.close()  # interrupted between sending and counting: the rest is unknown
            raise

    def _begin(self, data: bytes) -> object:
        """Send what goes at once, and owe the rest if the message is begun by that."""
        try:
            count = self._send(data if len(data) <= WRITE_CHUNK else memoryview(data)[:WRITE_CHUNK], self._flags)
        except BlockingIOError:
            if not self._channel.commits:
                return NOT_BEGUN
            count = 0
        if count == len(data):
            return ENDED
        self._owed = memoryview(data)[count:]
        return BEGUN

    def _queue(self, data: bytes, begun: bool, deadline: float) -> None:
        """Wait for the writer's role, and write what is owed and, unless it is begun, the data."""
        waker = self._wakers.take()
        try:
            with self._lock:
                if self._writer is None and not self._writers:
                    self._writer = waker
                else:
                    self._writers.append(waker)
            try:
                while self._writer is not waker:
                    self._await_turn(waker, deadline)
                if self._owed is not None:
                    self._drain(self._owed, waker, deadline, begun=True)
            except Expired:
                if begun:
                    raise
                raise Unsent from None
            if not begun:
                self._drain(memoryview(data), waker, deadline, begun=False)
        finally:
            if self._leader is waker:
                self._leader = None
            if self._writer is waker:
                self._writer = None
            with self._lock:
                if waker in self._writers:
                    self._writers.remove(waker)
            self._pass_on()
            self._wakers.give(waker)

    def _await_turn(self, waker: Waker, deadline: float) -> None:
        with self._lock:
            if self._writer is None and self._writers[0] is waker:
                self._writers.popleft()
                self._writer = waker
                return
        if self.closed:
            raise ConnectionResetError("the stream is closed")
        waker.doze(deadline, LOOK_AGAIN)

    def _drain(self, view: memoryview, waker: Waker, deadline: float, *, begun: bool) -> None:
        """Write all of `view`, reading meanwhile if nobody else does. `begun`: the peer has seen some."""
        poll = new_poll()
        poll.register(waker.fd, POLLIN)
        while True:
            waker.pending = False
            if self.closed or self._finish:
                raise ConnectionResetError("the stream is closed")
            if waker.scope.over:
                raise Closing
            try:
                count = self._send(view[:WRITE_CHUNK], self._flags)
            except BlockingIOError:
                count = 0
                begun = begun or self._channel.commits
            if count:
                view = view[count:]
                begun = True
            if begun:
                self._owed = view or None
            if not view:
                return
            if not count:
                if not begun and monotonic() >= deadline:
                    raise Unsent
                self._await_room(poll, waker, deadline)

    def _await_room(self, poll: Any, waker: Waker, deadline: float) -> None:
        """Sleep until there is room to write; read what comes meanwhile, so that the peer can go on."""
        seconds = min(deadline - monotonic(), LONGEST)
        if seconds <= 0:
            raise Expired
        with self._lock:
            if self._leader is None and not self.closed:
                self._leader = waker
        channel = self._channel
        leading = self._leader is waker
        if not leading:
            seconds = min(seconds, VACANT_LEAD)
        elif self._pending is not None and self._pending():
            self._read()
            return
        poll.register(channel.write_fd, POLLOUT)
        if leading:
            poll.register(channel.read_fd, POLLIN | POLLOUT if channel.read_fd == channel.write_fd else POLLIN)
        waker.asleep = True
        ready = () if waker.pending else poll.poll(seconds * 1000)
        waker.asleep = False
        for fd, events in ready:
            if fd == waker.fd:
                waker.clear()
            elif leading and fd == channel.read_fd and events & ~POLLOUT:
                self._read()
