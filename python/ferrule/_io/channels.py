"""What a blocking stream reads from and writes to: a socket, TLS over one, or a child's two pipes.

Channels do not wait: `recv_into` and `send` raise BlockingIOError instead. (The one exception is `naps`.) They know no
deadlines, threads or receivers.
"""

from __future__ import annotations

import contextlib
import os
import socket
from _thread import allocate_lock

from .wakers import POLLIN, new_poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from typing import Any

    from .processes import Pipe


def look_at(fd: int) -> Callable[[float], list[tuple[int, int]]]:
    """A poll that watches `fd` for something to read; end of stream and errors count. Takes milliseconds."""
    poll = new_poll()
    poll.register(fd, POLLIN)
    look: Callable[[float], list[tuple[int, int]]] = poll.poll
    return look


def readable_now(fd: int) -> bool:
    """Is there something to read at once?"""
    return bool(look_at(fd)(0))


NAP = 1
"""Seconds that a read from a napping channel waits at most."""


class SocketChannel:
    """A connected socket."""

    __slots__ = ("flags", "look", "naps", "pending", "read_fd", "recv_into", "send", "sock", "write_fd")

    commits = False
    """Once `send` was tried, must the same bytes be tried again before any others?"""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.read_fd = self.write_fd = sock.fileno()
        self.look = look_at(self.read_fd)
        self.recv_into: Callable[[Any], int] = sock.recv_into
        self.send: Callable[[Any, int], int] = sock.send
        self.flags = 0
        """What `send` is to be given as its second argument."""
        self.naps = False
        """Does `recv_into` wait for up to `NAP` seconds? `shutdown` wakes it. It saves the poll before each read."""
        self.pending: Callable[[], int] | None = None
        """Bytes that were read from the descriptor and not handed out; None where that cannot be."""

    def nap(self) -> None:
        """Let reads wait by themselves, where the platform can keep writes from waiting."""
        flag = getattr(socket, "MSG_DONTWAIT", None)
        if flag is None:
            return
        from array import array

        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, array("l", (NAP, 0)).tobytes())
            self.sock.setblocking(True)
        except OSError:
            return  # closed by another thread: whoever reads next finds that out
        self.flags = flag
        self.naps = True

    def wake_up(self) -> None:
        """Let no operation wait any more: what TLS needs of its socket."""
        self.sock.setblocking(False)
        self.flags = 0
        self.naps = False

    def stale(self) -> bool:
        """See `interface.Stream.stale`."""
        return bool(self.look(0))

    def finish_writing(self) -> None:
        """Half-close."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def shutdown(self) -> None:
        """Wake whoever polls the socket, in whatever thread, and tell the peer."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def dispose(self) -> None:
        """Close the descriptor; nobody uses it any more."""
        self.sock.close()

    def abandon(self) -> None:
        """Close this process's copy of the descriptor; the parent's connection does not notice."""
        fd = self.sock.detach()
        if fd >= 0:
            os.close(fd)


class TlsChannel(SocketChannel):
    """TLS over a connected, non-blocking socket. One lock: OpenSSL allows one thread at a time."""

    __slots__ = ("_lock",)

    commits = True
    sock: ssl.SSLSocket

    def __init__(self, sock: ssl.SSLSocket) -> None:
        import ssl

        super().__init__(sock)
        self._lock = allocate_lock()
        self.pending = sock.pending
        wants = (ssl.SSLWantReadError, ssl.SSLWantWriteError)

        def guarded(operation: Callable[[Any], int]) -> Callable[..., int]:
            def guard(buffer: Any, _flags: int = 0, /) -> int:
                try:
                    with self._lock:
                        return operation(buffer)
                except wants:
                    raise BlockingIOError from None

            return guard

        self.recv_into = guarded(sock.recv_into)
        self.send = guarded(sock.send)

    def stale(self) -> bool:
        """Look with a read of one byte: session tickets decrypt to nothing, the rest was not asked for."""
        if not self.sock.pending() and not self.look(0):
            return False
        try:
            self.recv_into(bytearray(1))
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def shutdown(self) -> None:
        """Wake pollers. Not `SSLSocket.shutdown`: that would let a reader see the ciphertext as data."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_RDWR)

    def finish_writing(self) -> None:
        """Half-close below TLS."""
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self.sock, socket.SHUT_WR)


class PipeChannel:
    """The stdin and stdout of a child (POSIX; elsewhere a bridge turns them into a socket)."""

    __slots__ = ("_stdin", "_stdout", "read_fd", "write_fd")

    commits = False
    flags = 0
    naps = False
    pending: Callable[[], int] | None = None

    def __init__(self, stdin: Pipe, stdout: Pipe) -> None:
        self._stdin = stdin
        self._stdout = stdout
        self.read_fd = stdout.fileno()
        self.write_fd = stdin.fileno()
        os.set_blocking(self.read_fd, False)
        os.set_blocking(self.write_fd, False)

    def recv_into(self, buffer: Any) -> int:
        """Read once."""
        return os.readv(self.read_fd, (buffer,))

    def send(self, data: Any, _flags: int = 0, /) -> int:
        """Write what fits."""
        return os.write(self.write_fd, data)

    def stale(self) -> bool:
        """See `interface.Stream.stale`."""
        return readable_now(self.read_fd)

    def finish_writing(self) -> None:
        """Close the child's stdin."""
        self._stdin.close()

    def shutdown(self) -> None:
        """Do nothing: pipes cannot be shut down, readers are woken by their waker."""

    def dispose(self) -> None:
        """Close both pipes."""
        self._stdin.close()
        self._stdout.close()

    abandon = dispose
