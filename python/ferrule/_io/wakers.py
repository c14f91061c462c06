"""How a blocked thread is woken: slots, wakers, and `poll` where the platform lacks it.

Knows file descriptors and the moment between looking and sleeping. Knows no streams.
"""

from __future__ import annotations

import os
import select
import socket
import weakref
from _thread import allocate_lock, get_ident
from time import monotonic

from . import Closing, Expired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

POLLIN = 1
POLLOUT = 4
LONGEST = 86400.0
"""Seconds of one sleep; `poll` counts milliseconds in an int. Whoever sleeps looks again anyway."""


class SelectPoll:
    """The part of `select.poll` that is used here, for platforms without it (Windows)."""

    def __init__(self) -> None:
        self._wanted: dict[int, int] = {}

    def register(self, fd: int, events: int, /) -> None:
        """Watch `fd`, replacing what was watched before."""
        self._wanted[fd] = events

    def unregister(self, fd: int, /) -> None:
        """Stop watching `fd`."""
        del self._wanted[fd]

    def poll(self, timeout: float | None = None, /) -> list[tuple[int, int]]:
        """Wait up to `timeout` milliseconds; a failed connection counts as writable."""
        readers = [fd for fd, events in self._wanted.items() if events & POLLIN]
        writers = [fd for fd, events in self._wanted.items() if events & POLLOUT]
        seconds = None if timeout is None else timeout / 1000
        readable, writable, failed = select.select(readers, writers, writers, seconds)
        ready = dict.fromkeys(readable, POLLIN)
        for fd in {*writable, *failed}:
            ready[fd] = ready.get(fd, 0) | POLLOUT
        return list(ready.items())


def new_poll() -> Any:
    """Return a `select.poll` or its stand-in."""
    return select.poll() if hasattr(select, "poll") else SelectPoll()


class Scope:
    """What a wait belongs to: the IO, or one piece of background work."""

    over = False


class Waker:
    """Wakes the one thread that holds it, out of `sleep` or any poll that watches `fd`.

    Rule: the waking side makes its condition true, then calls `wake`; the sleeping side clears `pending`,
    looks at the conditions, says `asleep`, and polls only while `pending` is false. Either the waking
    side sees `asleep` and signals the descriptor, or the sleeping side sees `pending`.
    """

    __slots__ = ("__weakref__", "_poll", "_signal", "asleep", "fd", "pending", "scope")

    def __init__(self) -> None:
        self.asleep = False
        self.pending = False
        self.scope = Scope()
        """Whose end ends every wait with `Closing`."""
        if hasattr(os, "eventfd"):
            self.fd: int = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            self._signal: Any = None
        else:
            receiver, self._signal = socket.socketpair()
            receiver.setblocking(False)
            self._signal.setblocking(False)
            self.fd = receiver.detach()
        self._poll = new_poll()
        self._poll.register(self.fd, POLLIN)

    def wake(self) -> None:
        """Wake the holder, now or when it next wants to sleep. From any thread."""
        self.pending = True
        if self.asleep:
            self.signal()

    def signal(self) -> None:
        """Make the descriptor readable."""
        try:
            if self._signal is None:
                os.eventfd_write(self.fd, 1)
            else:
                self._signal.send(b"\0")
        except OSError:
            pass  # full: it is awake already

    def clear(self) -> None:
        """Take the signal off the descriptor."""
        try:
            if self._signal is None:
                os.eventfd_read(self.fd)
            else:
                sock = socket.socket(fileno=self.fd)
                try:
                    sock.recv(64)
                finally:
                    sock.detach()
        except OSError:
            pass

    def sleep(self, seconds: float) -> None:
        """Sleep until woken or until the time is over. Look at the conditions before and after."""
        self.asleep = True
        try:
            if not self.pending and self._poll.poll(min(seconds, LONGEST) * 1000):
                self.clear()
        finally:
            self.asleep = False
            self.pending = False

    def doze(self, deadline: float, longest: float) -> None:
        """Sleep once, not past the deadline; raise what ends a wait."""
        if self.scope.over:
            raise Closing
        seconds = deadline - monotonic()
        if seconds <= 0:
            raise Expired
        self.sleep(min(seconds, longest))

    # Only here: while anybody can still call `wake`, the number must not become somebody else's.
    def __del__(self) -> None:
        fd = getattr(self, "fd", None)
        if fd is None:
            return
        if self._signal is None:
            os.close(fd)
        else:
            self._signal.close()
            socket.socket(fileno=fd).close()


class WakerPool(Scope):
    """Hands wakers to waiting threads, most recently used first; closing it ends every wait."""

    def __init__(self) -> None:
        self._free: list[Waker] = []
        self._busy: set[Waker] = set()
        self._residents: weakref.WeakSet[Waker] = weakref.WeakSet()
        self.scopes: dict[int, Scope] = {}
        """Threads whose waits belong to something smaller than the IO, by identity."""

    def scope(self) -> Scope:
        """Return what a wait of the calling thread belongs to."""
        return self.scopes.get(get_ident(), self) if self.scopes else self

    def resident(self) -> Waker:
        """Return a waker to keep, which `wake_all` wakes as well."""
        waker = Waker()
        self._residents.add(waker)
        return waker

    # List and set operations are atomic, so neither method needs a lock; an interrupted caller loses
    # nothing but its waker, which closes itself.

    def take(self) -> Waker:
        """Return a waker for the calling thread's one wait."""
        try:
            waker = self._free.pop()
        except IndexError:
            waker = Waker()
        waker.scope = scope = self.scope()
        self._busy.add(waker)
        if scope.over:
            self.give(waker)
            raise Closing
        return waker

    def give(self, waker: Waker) -> None:
        """Take a waker back."""
        self._busy.discard(waker)
        waker.asleep = False
        if not self.over:
            self._free.append(waker)

    def wake_all(self) -> None:
        """Let every waiting thread look whether its scope is over."""
        for waker in (*list(self._busy), *list(self._residents)):
            waker.wake()

    def close(self) -> None:
        """End every wait, now and from now on, and give the descriptors back."""
        self.over = True
        for scope in list(self.scopes.values()):
            scope.over = True
        self.wake_all()
        self._free.clear()


class Slot:
    """One value for one waiting thread, with mail before it. See `interface.Slot`."""

    __slots__ = ("_items", "_taken", "done", "error", "mail", "value", "waker")

    def __init__(self) -> None:
        self.done = False
        self.mail = False
        self.waker: Waker | None = None
        """Whom to wake while somebody waits. Set before the last look at `done`."""
        self._taken = allocate_lock()
        self.value: Any = None
        self.error: BaseException | None = None
        self._items: list[Any] = []

    def set(self, value: Any, /) -> None:
        """Give the value; the first of `set` and `fail` wins."""
        if self._taken.acquire(False):
            self.value = value
            self.done = True
            waker = self.waker
            if waker is not None:
                waker.pending = True
                if waker.asleep:
                    waker.signal()

    def fail(self, error: BaseException, /) -> None:
        """Give the error; the first of `set` and `fail` wins."""
        if self._taken.acquire(False):
            self.error = error
            self.done = True
            waker = self.waker
            if waker is not None:
                waker.wake()

    def post(self, item: Any, /) -> None:
        """Leave mail; dropped once `done`."""
        if self.done:
            return
        self._items.append(item)
        self.mail = True
        waker = self.waker
        if waker is not None:
            waker.wake()

    def backlog(self) -> int:
        """See `interface.Slot.backlog`."""
        return len(self._items)

    def take_mail(self) -> list[Any]:
        """Return what was posted since the last call, in order."""
        # The flag goes down first: what is posted from here on raises it again.
        self.mail = False
        taken: list[Any] = []
        while self._items:
            taken.append(self._items.pop(0))
        return taken

    def result(self) -> Any:
        """Return the value or raise the error; only once `done`."""
        if self.error is not None:
            raise self.error
        return self.value
