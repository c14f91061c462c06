"""A child process, its group, and what it says on stderr: what both drivers do alike.

Knows `subprocess`, signals and process groups. Knows nothing of how the drivers wait or read.
"""

from __future__ import annotations

import contextlib
import os
import signal
import weakref

from . import log_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

TAIL_SIZE = 8192
LONGEST_LINE = 65536
"""A stderr line beyond this is handed over in pieces."""
LAST_WAIT = 1.0
"""Seconds that a child which was killed because nobody closed it may take to die."""


class Tail:
    """The last 8 KiB of stderr, and its lines for a callable."""

    def __init__(self, on_line: Callable[[bytes], object] | None) -> None:
        self._on_line = on_line
        self._kept = bytearray()
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what was read; b"" is the end."""
        self._kept += data
        del self._kept[:-TAIL_SIZE]
        if self._on_line is None:
            return
        *lines, rest = (self._line + data).split(b"\n")
        for line in lines:
            self._give(bytes(line.removesuffix(b"\r")))
        if rest and (not data or len(rest) >= LONGEST_LINE):
            self._give(bytes(rest))
            rest = bytearray()
        self._line = bytearray(rest)

    def _give(self, line: bytes) -> None:
        assert self._on_line is not None
        try:
            self._on_line(line)
        except Exception as error:
            log_failure("a stderr handler", error)

    def value(self) -> bytes:
        """Return what is kept."""
        return bytes(self._kept)


class Group:
    """The child and its process group, as far as signals go. Outlives whoever holds the child."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self.popen = popen
        self.owner = os.getpid()
        self.empty = False
        """No process of the group is left, so the number may belong to somebody else."""

    def exit_code(self) -> int | None:
        """Reap the child if it has ended."""
        if self.popen.returncode is None and self.popen.poll() is not None and os.name != "nt":
            self.send(0)  # finds out whether anybody is left
        return self.popen.returncode

    def send(self, number: int) -> None:
        """Signal every process of the group; those of a child that has ended too."""
        if self.empty or os.getpid() != self.owner:
            return
        try:
            os.killpg(self.popen.pid, number)
        except ProcessLookupError:
            self.empty = True
        except OSError:
            pass  # not ours to signal (a child that changed its user), or a zombie on macOS

    def terminate(self) -> None:
        """Ask the group to end."""
        if os.name == "nt":
            self._on_windows(self.popen.terminate)
        else:
            self.send(signal.SIGTERM)

    def kill(self) -> None:
        """End the group."""
        if os.name == "nt":
            self._on_windows(self.popen.kill)
        else:
            self.send(signal.SIGKILL)

    def _on_windows(self, end: Callable[[], None]) -> None:
        if self.popen.poll() is None:
            with contextlib.suppress(OSError):
                end()

    def bury(self) -> None:
        """Leave neither survivors nor a zombie, when nobody has closed the child."""
        if os.getpid() != self.owner:
            self.popen.returncode = 0  # or Popen warns, in a fork, about a child that is not this process's
            return
        self.kill()
        import subprocess

        with contextlib.suppress(subprocess.TimeoutExpired, OSError):
            self.popen.wait(LAST_WAIT)


class Pipe:
    """One end of a pipe to a child. Unlike a file object it closes without a warning when it is forgotten."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.closed = False

    def fileno(self) -> int:
        """Return the descriptor."""
        return self.fd

    def read(self, size: int) -> bytes:
        """Read once."""
        return os.read(self.fd, size)

    def write(self, data: bytes | memoryview) -> int:
        """Write once."""
        return os.write(self.fd, data)

    def close(self) -> None:
        """Close. Idempotent."""
        if not self.closed:
            self.closed = True
            os.close(self.fd)

    __del__ = close


class Child:
    """A started child, its group and its pipes; a driver puts a stream and waiting around it."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        stderr: str | Callable[[bytes], object],
    ) -> None:
        pipes = _Pipes(piped=stderr != "inherit")
        try:
            popen = _start(argv, env, cwd, pipes)
        finally:
            pipes.close_theirs()
        self.pid = popen.pid
        self.group = Group(popen)
        self.stdin, self.stdout, self.stderr = pipes.ours
        self.tail = Tail(None if isinstance(stderr, str) else stderr)
        self._finalizer = weakref.finalize(self, self.group.bury)

    def forget(self) -> None:
        """After fork: the child is the parent's."""
        self._finalizer.detach()
        # Popen's own finalizer would warn about a child that it believes is running.
        self.group.popen.returncode = 0
        self.group.empty = True
        if self.stderr is not None:
            self.stderr.close()


class _Pipes:
    """Both ends of stdin, stdout and perhaps stderr."""

    def __init__(self, *, piped: bool) -> None:
        theirs_in, ours_in = map(Pipe, os.pipe())
        ours_out, theirs_out = map(Pipe, os.pipe())
        ours_err, theirs_err = map(Pipe, os.pipe()) if piped else (None, None)
        self.ours = (ours_in, ours_out, ours_err)
        self.theirs = (theirs_in, theirs_out, theirs_err)

    def close_theirs(self) -> None:
        for pipe in self.theirs:
            if pipe is not None:
                pipe.close()


def _start(argv: Sequence[str], env: Mapping[str, str], cwd: str | None, pipes: _Pipes) -> subprocess.Popen[bytes]:
    import errno
    import subprocess

    stdin, stdout, stderr = (None if pipe is None else pipe.fd for pipe in pipes.theirs)
    apart: dict[str, Any] = {"start_new_session": True}
    if os.name == "nt":
        apart = {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    try:
        popen: subprocess.Popen[bytes] = subprocess.Popen(
            list(argv), stdin=stdin, stdout=stdout, stderr=stderr, env=dict(env), cwd=cwd, **apart
        )
    except ValueError:  # a NUL in an argument, "=" in a variable's name
        raise OSError(errno.EINVAL, "the command cannot be passed to the system") from None
    return popen


def bridge(stdin: Pipe, stdout: Pipe) -> socket.socket:
    """Turn a child's pipes into a socket, where pipes cannot be polled (Windows): two daemon threads copy."""
    import socket
    import threading

    ours, theirs = socket.socketpair()
    left = [None, None]

    def leave() -> None:
        left.pop()
        if not left:
            theirs.close()

    def copy_out() -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := stdout.read(65536):
                theirs.sendall(data)
        with contextlib.suppress(OSError):
            theirs.shutdown(socket.SHUT_WR)
        stdout.close()
        leave()

    def copy_in() -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := theirs.recv(65536):
                view = memoryview(data)
                while view:
                    view = view[stdin.write(view) :]
        stdin.close()
        leave()

    for copy in (copy_out, copy_in):
        threading.Thread(target=copy, name="ferrule-pipe", daemon=True).start()
    return ours
