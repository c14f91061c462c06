"""Lists of the handshake era that are kept until the server says that they changed (C12).

Knows pages as JSON bytes, so that nothing a caller does to a list reaches them. Fetching is `listing`'s business.
"""

from __future__ import annotations

from .cache import STALE, pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .._io.interface import IO
    from .._transports.call import Link

    Key = tuple[str, str | None]
    """Method and cursor."""


class Page:
    """One page as it was received.

    Attributes:
        link: The session it is from: in another one it says nothing.
    """

    __slots__ = ("_data", "link")

    def __init__(self, link: Link, result: dict[str, Any]) -> None:
        self.link = link
        self._data = pack(result)

    def __len__(self) -> int:
        return len(self._data)

    def result(self) -> dict[str, Any]:
        """The result, made anew for each who asks."""
        return unpack(self._data)


class KeptLists:
    """The pages of one session, within a number of bytes; the oldest make room.

    Attributes:
        hits: How often a page was served.
        misses: How often there was none.
    """

    __slots__ = ("_io", "_most", "_pages", "_size", "_versions", "hits", "misses")

    def __init__(self, io: IO, most: int) -> None:
        self._io = io
        self._most = most
        self._size = self.hits = self.misses = 0
        self._pages: dict[Key, Page] = {}
        self._versions: dict[str, int] = {}

    @property
    def size(self) -> int:
        """Bytes that the pages take."""
        return self._size

    def __len__(self) -> int:
        return len(self._pages)

    def version(self, method: str) -> int:
        """Counts how often the lists of a method were dropped. What was asked for earlier must not be kept."""
        return self._versions.get(method, 0)

    def get(self, key: Key, link: Link) -> Page | None:
        """A page of this session, if it is kept."""
        with self._io.mutex():
            page = self._pages.get(key)
            if page is None or page.link is not link:
                self.misses += 1
                return None
            self.hits += 1
            return page

    def put(self, key: Key, page: Page, version: int) -> None:
        """Keep a page, unless its list was dropped since `version`, or it is too big."""
        with self._io.mutex():
            if version != self.version(key[0]) or len(page) > self._most:
                return
            self._forget(key)
            self._pages[key] = page
            self._size += len(page)
            while self._size > self._most:
                self._forget(next(iter(self._pages)))

    def heard(self, method: str) -> None:
        """Drop what a notification says has changed."""
        stale = STALE.get(method)
        if stale is not None:
            self.drop(stale)

    def drop(self, methods: Iterable[str]) -> None:
        """Drop the lists of these methods, also those that are being fetched now."""
        with self._io.mutex():
            for method in methods:
                self._versions[method] = self.version(method) + 1
            for key in [key for key in self._pages if key[0] in methods]:
                self._forget(key)

    def clear(self) -> None:
        """Drop everything."""
        self.drop([method for stale in STALE.values() for method in stale])

    def _forget(self, key: Key) -> None:
        page = self._pages.pop(key, None)
        if page is not None:
            self._size -= len(page)
