"""A listener on the loopback interface that takes the heads of HTTP requests, for the blocking driver.

Knows sockets and polls. Browsers open connections that they never use, so all of them are watched at once. Does not
know what is asked for.
"""

from __future__ import annotations

import contextlib
import socket

from .blocking_connect import ready
from .wakers import POLLIN, new_poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .wakers import WakerPool

HOST = "127.0.0.1"
HEAD_END = b"\r\n\r\n"
MAX_HEAD = 16 * 1024
"""Bytes of a request's head: a browser's is below 4 KiB, the code and state included."""
MAX_OPEN = 16
"""Connections that have not asked yet; the oldest makes room."""


class Asked:
    """One request: its head, and the connection that waits for an answer."""

    __slots__ = ("_sock", "head")

    def __init__(self, sock: socket.socket, head: bytes) -> None:
        self._sock = sock
        self.head = head

    def reply(self, data: bytes) -> None:
        """Answer, and end the connection. A browser that has gone is no error."""
        with contextlib.suppress(OSError):
            self._sock.settimeout(1.0)  # a page of a few KiB: the kernel takes it at once
            self._sock.sendall(data)
            self._sock.shutdown(socket.SHUT_WR)
        self._sock.close()


class BlockingListener:
    """See `interface.Listener`."""

    def __init__(self, wakers: WakerPool, port: int) -> None:
        self._wakers = wakers
        self._socket = socket.create_server((HOST, port))
        self._socket.setblocking(False)
        self.port: int = self._socket.getsockname()[1]
        self._heads: dict[int, tuple[socket.socket, bytearray]] = {}

    async def request(self, deadline: float, /) -> Asked:
        """See `interface.Listener.request`."""
        waker = self._wakers.take()
        try:
            poll = new_poll()
            poll.register(waker.fd, POLLIN)
            poll.register(self._socket.fileno(), POLLIN)
            for fd in self._heads:
                poll.register(fd, POLLIN)
            while True:
                for fd in ready(poll, deadline, deadline, waker):
                    if fd == self._socket.fileno():
                        self._accept(poll)
                    elif (asked := self._read(poll, fd)) is not None:
                        return asked
        finally:
            self._wakers.give(waker)

    def _accept(self, poll: Any) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._socket.accept()
            sock.setblocking(False)
            if len(self._heads) >= MAX_OPEN:
                self._drop(poll, next(iter(self._heads)))
            self._heads[sock.fileno()] = (sock, bytearray())
            poll.register(sock.fileno(), POLLIN)

    def _read(self, poll: Any, fd: int) -> Asked | None:
        """Take what came; the request once its head is whole."""
        if fd not in self._heads:
            return None  # made room for another in this very turn
        sock, head = self._heads[fd]
        try:
            data = sock.recv(MAX_HEAD)
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        head += data
        if HEAD_END in head:
            del self._heads[fd]
            return Asked(sock, bytes(head))
        if not data or len(head) > MAX_HEAD:
            self._drop(poll, fd)
        return None

    def _drop(self, poll: Any, fd: int) -> None:
        sock, _ = self._heads.pop(fd)
        poll.unregister(fd)
        sock.close()

    def close(self) -> None:
        """See `interface.Listener.close`."""
        self._socket.close()
        while self._heads:
            self._heads.popitem()[1][0].close()
