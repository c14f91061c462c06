"""The one thing that changes at the demo server, and who is told; neither eras nor wire."""

from __future__ import annotations

import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

NOTE = "demo://note"
KEEP_ALIVE = 15.0
"""Seconds without a change after which a stream shows that it is still there."""
_FAREWELL = 1.0
"""Seconds that those who are told have to say goodbye in."""


class Watch:
    """What one subscription, or one session, wants to hear of and has not been told yet.

    A resource that changes twice before it is told of is told of once, so what waits here is bounded.

    Attributes:
        uris: The resources it is about; may change at any time.
    """

    def __init__(self) -> None:
        self.uris: set[str] = set()
        self._turn = threading.Condition()
        self._changed: dict[str, None] = {}
        self._is_over = False
        self._follower: threading.Thread | None = None

    def tell(self, uri: str) -> None:
        """A resource changed."""
        with self._turn:
            if uri in self.uris and not self._is_over:
                self._changed[uri] = None
                self._turn.notify_all()

    def end(self) -> None:
        """Nothing more is told."""
        with self._turn:
            self._is_over = True
            self._turn.notify_all()

    def claim(self) -> None:
        """This thread is going to follow; the one that did leaves. Called before the client is told that it begins."""
        with self._turn:
            self._follower = threading.current_thread()
            self._turn.notify_all()

    def follow(self, announce: Callable[[str], None], keep_alive: Callable[[], None]) -> None:
        """Announce changes until the end, or until another thread claims it."""
        while (changed := self._next()) is not None:
            for uri in changed:
                announce(uri)
            if not changed:
                keep_alive()

    def _next(self) -> Iterable[str] | None:
        """What has changed, nothing when it is time to show a sign of life, None when it is over."""
        with self._turn:
            self._turn.wait_for(lambda: self._changed or self._is_over or self._is_replaced(), KEEP_ALIVE)
            if self._is_replaced() or (self._is_over and not self._changed):
                return None
            changed, self._changed = self._changed, {}
            return changed

    def _is_replaced(self) -> bool:
        return self._follower is not threading.current_thread()

    def join(self, timeout: float) -> None:
        """Wait until the thread that follows has ended."""
        if self._follower is not None:
            self._follower.join(timeout)


class Changes:
    """The note, and everybody who wants to hear of changes."""

    def __init__(self) -> None:
        self.note = "Nothing is written here yet."
        self._lock = threading.Lock()
        self._watches: list[Watch] = []

    def write(self, text: str) -> None:
        """Replace the note, and tell."""
        with self._lock:
            self.note = text
            for watch in self._watches:
                watch.tell(NOTE)

    def add(self, watch: Watch) -> None:
        """Tell it from now on."""
        with self._lock:
            self._watches.append(watch)

    def remove(self, watch: Watch) -> None:
        """Tell it nothing more."""
        with self._lock:
            self._watches.remove(watch)
        watch.end()

    def end(self) -> None:
        """The server ends: have those who are told say goodbye."""
        with self._lock:
            watches = list(self._watches)
        for watch in watches:
            watch.end()
        until = time.monotonic() + _FAREWELL
        for watch in watches:
            watch.join(max(0.0, until - time.monotonic()))
