"""A child process on an event loop: pipes and stderr by readiness callbacks, no child watcher, no thread.

Knows `processes` and the loop. On Windows, where pipes are not polled, threads bridge them to a socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from contextvars import Context
from time import monotonic

from .asyncio_stream import BridgeStream, PipeStream
from .processes import Child, bridge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .asyncio import AsyncIO
    from .interface import Receiver
    from .processes import Pipe, Tail

FIRST_LOOK, LONGEST_LOOK = 0.001, 0.05
"""Seconds between two looks whether a child has ended."""


class AsyncProcess:
    """See `interface.Process`."""

    stream: PipeStream | BridgeStream

    def __init__(self, io: AsyncIO, child: Child) -> None:
        self._io = io
        self._child = child
        self.pid = child.pid
        self._drain: Drain | None = None

    @classmethod
    async def start(
        cls,
        io: AsyncIO,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        stderr: str | Callable[[bytes], object],
        receiver: Receiver,
    ) -> AsyncProcess:
        """Start a child. `Popen` blocks for the moment of a fork."""
        child = Child(argv, env=env, cwd=cwd, stderr=stderr)
        self = cls(io, child)
        if os.name == "nt":
            sock = bridge(child.stdin, child.stdout)
            sock.setblocking(False)
            stream = self.stream = BridgeStream(io, sock, receiver)
            await asyncio.get_running_loop().create_connection(lambda: stream, sock=sock)
        else:
            self.stream = PipeStream(io, child.stdin, child.stdout, receiver)
        if child.stderr is not None:
            self._drain = Drain(child.stderr, child.tail)
        return self

    def exit_code(self) -> int | None:
        """See `interface.Process.exit_code`."""
        return self._child.group.exit_code()

    async def wait_exit(self, deadline: float, /) -> int | None:
        """See `interface.Process.wait_exit`."""
        pause = FIRST_LOOK
        while (code := self.exit_code()) is None:
            seconds = deadline - monotonic()
            if seconds <= 0:
                return None
            self._io.refuse_if_closing()
            await asyncio.sleep(min(pause, seconds))
            pause = min(pause * 2, LONGEST_LOOK)
        return code

    def terminate(self) -> None:
        """See `interface.Process.terminate`."""
        self._child.group.terminate()

    def kill(self) -> None:
        """See `interface.Process.kill`."""
        self._child.group.kill()

    def stderr_tail(self) -> bytes:
        """See `interface.Process.stderr_tail`."""
        if self._drain is not None and self.exit_code() is not None:
            self._drain.last_words()
        return self._child.tail.value()

    def bury(self) -> None:
        """Close everything, also what does not want to end."""
        self.stream.close()
        self._child.group.bury()
        if self._drain is not None:
            self._drain.stop()

    def abandon(self) -> None:
        """See `interface.Process.abandon`."""
        self._child.forget()
        self.stream.abandon()


class Drain:
    """Reads stderr so that the child never blocks on it."""

    def __init__(self, pipe: Pipe, tail: Tail) -> None:
        self._pipe = pipe
        self._tail = tail
        self._loop = asyncio.get_running_loop()
        if os.name == "nt":
            threading.Thread(target=Context().run, args=(self._plain,), name="ferrule-stderr", daemon=True).start()
        else:
            os.set_blocking(pipe.fileno(), False)
            Context().run(self._loop.add_reader, pipe.fileno(), self._readable)

    def _readable(self) -> bool:
        """Read once; True if there may be more."""
        try:
            data = os.read(self._pipe.fileno(), 65536)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        self._tail.feed(data)
        if not data:
            self.stop()
        return bool(data)

    def last_words(self) -> None:
        """Read what an ended child has left, at most what a pipe holds."""
        if os.name != "nt":
            for _ in range(32):
                if self._pipe.closed or not self._readable():
                    return

    def stop(self) -> None:
        """Stop reading."""
        if os.name != "nt" and not self._pipe.closed:
            with contextlib.suppress(RuntimeError):
                self._loop.remove_reader(self._pipe.fileno())
            self._pipe.close()

    def _plain(self) -> None:
        try:
            while data := self._pipe.read(65536):
                self._tail.feed(data)
        finally:
            self._tail.feed(b"")
            self._pipe.close()
