"""A child process as threads see it: pipes that are polled, stderr drained by a daemon thread.

Knows `processes` and blocking streams. Knows no IO object: the drain lives as long as stderr or the process object.
"""

from __future__ import annotations

import os
import weakref
from contextvars import Context
from threading import Thread
from time import monotonic

from . import Expired
from .blocking_stream import BlockingStream
from .channels import PipeChannel, SocketChannel
from .processes import Child, bridge
from .wakers import POLLIN, Scope, Waker, new_poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .interface import Receiver
    from .processes import Pipe, Tail
    from .wakers import WakerPool

FIRST_LOOK, LONGEST_LOOK = 0.001, 0.05
"""Seconds between two looks whether a child has ended."""
LAST_WORDS = 0.1
"""Seconds that the tail of an ended child's stderr may take to arrive."""


class BlockingProcess:
    """See `interface.Process`."""

    def __init__(
        self,
        wakers: WakerPool,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        stderr: str | Callable[[bytes], object],
        receiver: Receiver,
    ) -> None:
        self._wakers = wakers
        self._child = child = Child(argv, env=env, cwd=cwd, stderr=stderr)
        self.pid = child.pid
        channel: SocketChannel | PipeChannel
        if os.name == "nt":
            sock = bridge(child.stdin, child.stdout)
            sock.setblocking(False)
            channel = SocketChannel(sock)
        else:
            channel = PipeChannel(child.stdin, child.stdout)
        self.stream = BlockingStream(wakers, channel, receiver)
        self._drain: Drain | None = None
        if child.stderr is not None:
            self._drain = Drain(child.stderr, child.tail)
            weakref.finalize(self, self._drain.stop)

    def exit_code(self) -> int | None:
        """See `interface.Process.exit_code`."""
        return self._child.group.exit_code()

    async def wait_exit(self, deadline: float, /) -> int | None:
        """See `interface.Process.wait_exit`."""
        waker = self._wakers.take()
        try:
            pause = FIRST_LOOK
            while (code := self.exit_code()) is None:
                waker.doze(deadline, pause)
                pause = min(pause * 2, LONGEST_LOOK)
            return code
        except Expired:
            return self.exit_code()
        finally:
            self._wakers.give(waker)

    def terminate(self) -> None:
        """See `interface.Process.terminate`."""
        self._child.group.terminate()

    def kill(self) -> None:
        """See `interface.Process.kill`."""
        self._child.group.kill()

    def stderr_tail(self) -> bytes:
        """See `interface.Process.stderr_tail`."""
        if self._drain is not None and self.exit_code() is not None:
            self._drain.thread.join(LAST_WORDS)
        return self._child.tail.value()

    def bury(self, deadline: float) -> None:
        """Close everything, also what does not want to end."""
        self.stream.close()
        self._child.group.bury()
        if self._drain is not None:
            self._drain.stop()
            self._drain.thread.join(max(0.0, min(deadline - monotonic(), 1.0)))

    def abandon(self) -> None:
        """See `interface.Process.abandon`."""
        self._child.forget()
        self.stream.abandon()


class Drain:
    """Reads stderr so that the child never blocks on it; ends with it, or when told."""

    def __init__(self, pipe: Pipe, tail: Tail) -> None:
        self._waker = Waker()
        self._scope = Scope()
        work = self._plain if os.name == "nt" else self._polled
        self.thread = Thread(target=Context().run, args=(work, pipe, tail), name="ferrule-stderr", daemon=True)
        self.thread.start()

    def stop(self) -> None:
        """End the thread soon."""
        self._scope.over = True
        self._waker.wake()

    def _polled(self, pipe: Pipe, tail: Tail) -> None:
        waker = self._waker
        poll = new_poll()
        poll.register(pipe.fileno(), POLLIN)
        poll.register(waker.fd, POLLIN)
        waker.asleep = True
        try:
            while not self._scope.over:
                for fd, _ in poll.poll():
                    if fd != waker.fd:
                        data = os.read(fd, 65536)
                        tail.feed(data)
                        if not data:
                            return
        finally:
            pipe.close()

    def _plain(self, pipe: Pipe, tail: Tail) -> None:
        # Pipes cannot be polled on Windows; the thread ends with the child.
        try:
            while data := pipe.read(65536):
                tail.feed(data)
        finally:
            tail.feed(b"")
            pipe.close()
