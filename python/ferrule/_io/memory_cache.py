"""The store in memory: answers of servers as bytes, within a number of them and of bytes; the least used make room.

Knows keys, bytes and the clock, and what keys of answers begin with; nothing of what they hold. Clients that share one
may live in several threads and loops, so it has a lock of its own.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Sequence

MAX_BYTES = 16 * 1024 * 1024
MAX_ENTRIES = 4096
_OVERHEAD = 200  # bytes of objects and tables around each entry
_ANSWER = b"a"[0]  # see `_session/cache.py`: marks and copies are not counted


class MemoryCache:
    """Keeps answers in this process (server/utilities/caching). Give one to several clients to have them share it.

    Args:
        max_bytes: What keys and values may take together, in bytes. Default 16 MiB.
        max_entries: How many there may be. Default 4096.

    Attributes:
        secret: Keys the hash that keeps callers apart; random, and never shown.
    """

    __slots__ = ("_entries", "_lock", "_pid", "_size", "answers", "max_bytes", "max_entries", "secret")

    never_waits = True

    def __init__(self, max_bytes: int = MAX_BYTES, max_entries: int = MAX_ENTRIES) -> None:
        self.max_bytes = max_bytes
        self.max_entries = max_entries
        self.secret = os.urandom(32)
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = allocate_lock()
        self._entries: dict[bytes, tuple[bytes, float]] = {}
        self._size = 0
        self.answers = 0

    def __repr__(self) -> str:
        return f"<MemoryCache of {self.answers} answers, {self._size} bytes>"

    @property
    def size(self) -> int:
        """Bytes that are taken now."""
        return self._size

    def get(self, keys: Sequence[bytes], /) -> list[bytes | None]:
        """See `ResponseCache.get`."""
        now = monotonic()
        with self._mine():
            return [self._get(key, now) for key in keys]

    def put(self, key: bytes, value: bytes, seconds: float, /) -> None:
        """See `ResponseCache.put`. What is larger than the whole cache is not kept."""
        with self._mine():
            self._forget(key)
            if len(key) + len(value) + _OVERHEAD > self.max_bytes:
                return
            self._entries[key] = (value, monotonic() + seconds)
            self._size += len(key) + len(value) + _OVERHEAD
            self.answers += key[0] == _ANSWER
            while self._size > self.max_bytes or len(self._entries) > self.max_entries:
                self._forget(next(iter(self._entries)))

    def delete(self, keys: Sequence[bytes], /) -> None:
        """See `ResponseCache.delete`."""
        with self._mine():
            for key in keys:
                self._forget(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._mine():
            self._entries.clear()
            self._size = self.answers = 0

    def _mine(self) -> LockType:
        """The lock. In a fork another thread of the parent's may have held it, half way through: there all is new."""
        if os.getpid() != self._pid:
            self._begin()
        return self._lock

    def _get(self, key: bytes, now: float) -> bytes | None:
        found = self._entries.pop(key, None)
        if found is None:
            return None
        # Back at the end: the one that was not used for longest is the first.
        self._entries[key] = found
        value, until = found
        if now < until:
            return value
        self._forget(key)
        return None

    def _forget(self, key: bytes) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            self._size -= len(key) + len(found[0]) + _OVERHEAD
            self.answers -= key[0] == _ANSWER
