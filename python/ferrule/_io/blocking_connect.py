"""Opening a connection from a thread: names looked up within a deadline, addresses tried side by side.

Knows resolvers and sockets that are not yet connected. Knows no streams and no TLS.
"""

from __future__ import annotations

import errno
import os
import socket
from _thread import allocate_lock
from math import inf
from time import monotonic

from . import Closing, Expired
from .addresses import ATTEMPT_DELAY, open_socket, resolve
from .wakers import LONGEST, POLLIN, POLLOUT, Slot, new_poll

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .addresses import Address
    from .wakers import Waker

UNDER_WAY = {0, errno.EINPROGRESS, errno.EINTR, errno.EWOULDBLOCK, errno.EALREADY}


class Lookups:
    """Names being looked up, each once and on a daemon thread: a resolver cannot be interrupted."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._waiting: dict[tuple[str, int], list[Slot]] = {}

    def begin(self, host: str, port: int) -> Slot:
        """Return a slot that gets the addresses."""
        slot = Slot()
        key = (host, port)
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is not None:
                waiting.append(slot)
                return slot
            self._waiting[key] = [slot]
        from threading import Thread

        thread = Thread(target=self._look_up, args=key, name="ferrule-dns", daemon=True)
        try:
            thread.start()
        except BaseException:
            with self._lock:
                del self._waiting[key]
            raise
        return slot

    def _look_up(self, host: str, port: int) -> None:
        found: list[Address] = []
        failure: OSError | None = None
        try:
            found = resolve(host, port)
        except OSError as error:
            failure = error
        finally:
            with self._lock:
                waiting = self._waiting.pop((host, port))
        for slot in waiting:
            if failure is not None:
                slot.fail(failure)
            else:
                slot.set(found)


def race(addresses: list[Address], deadline: float, waker: Waker) -> socket.socket:
    """Connect to the first address that answers; the next one starts when one fails or is slow."""
    waiting = list(addresses)
    racing: dict[int, socket.socket] = {}
    failure: OSError = OSError("the name has no address")
    poll = new_poll()
    poll.register(waker.fd, POLLIN)
    next_at = 0.0
    try:
        while waiting or racing:
            if waiting and (not racing or monotonic() >= next_at):
                next_at = monotonic() + ATTEMPT_DELAY
                try:
                    sock = _begin(waiting.pop(0))
                except OSError as error:
                    failure = error
                    next_at = 0.0
                    continue
                racing[sock.fileno()] = sock
                poll.register(sock.fileno(), POLLOUT)
            for fd in ready(poll, min(deadline, next_at if waiting else inf), deadline, waker):
                poll.unregister(fd)
                sock = racing.pop(fd)
                code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0:
                    return sock
                sock.close()
                failure = OSError(code, os.strerror(code))
                next_at = 0.0
        raise failure
    finally:
        for sock in racing.values():
            sock.close()


def _begin(address: Address) -> socket.socket:
    sock = open_socket(address)
    try:
        code = sock.connect_ex(address[3])
        # A Unix socket whose backlog is full says EAGAIN and goes on with nothing.
        if code not in UNDER_WAY or (code and sock.family not in (socket.AF_INET, socket.AF_INET6)):
            raise OSError(code, os.strerror(code))
    except BaseException:
        sock.close()
        raise
    return sock


def ready(poll: Any, until: float, deadline: float, waker: Waker) -> list[int]:
    """Sleep until a socket is decided or the time is over; return the decided ones."""
    waker.pending = False
    if waker.scope.over:
        raise Closing
    now = monotonic()
    if now >= deadline:
        raise Expired
    waker.asleep = True
    seconds = min(until - now, LONGEST)
    ready = () if waker.pending else poll.poll(seconds * 1000 if seconds > 0 else 0)
    waker.asleep = False
    decided = [fd for fd, _ in ready]
    if waker.fd in decided:
        waker.clear()
        decided.remove(waker.fd)
    return decided
