"""What servers of the tests share that give each connection a thread: how they begin, accept and end.

Knows sockets and threads; what is said on a connection is the subclass's business.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

PATIENCE = 10.0


class ThreadedServer:
    """A context manager: listens from the start, accepts within, and has ended with all of its threads after it."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.accepted = 0

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for sock in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the server did not end"
        for sock in [self._listener, *self._sockets]:
            sock.close()

    def _start(self, target: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.accepted += 1
            self._sockets.append(sock)
            self._start(self._serve, sock)

    def _serve(self, sock: socket.socket) -> None:
        raise AssertionError("each server has its own")
