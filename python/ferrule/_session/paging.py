"""Walk through a list page by page, within limits.

Specification: server/utilities/pagination. Cursors are the server's: never compared, parsed or judged.
"""

from __future__ import annotations

from ..errors import LimitExceeded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .session import Session

    FetchPage = Callable[[str | None], Awaitable[Any]]


class Pages:
    """The items of a list, fetched when they are asked for.

    Args:
        session: Whose limits count.
        method: The list's method, for error texts.
        fetch: Gives the page at a cursor, None for the first.

    Attributes:
        cursor: That of the page that comes next, or failed last.
    """

    __slots__ = ("_fetch", "_items", "_limits", "_method", "_more", "_pages", "_seen", "cursor")

    def __init__(self, session: Session, method: str, fetch: FetchPage) -> None:
        self._limits = session.settings.limits
        self._method = method
        self._fetch = fetch
        self._items: list[Any] = []
        self.cursor: str | None = None
        self._more = True
        self._pages = 0
        self._seen = 0

    async def next(self) -> Any:
        """The next item.

        Raises:
            StopAsyncIteration: There is none.
            LimitExceeded: There are more pages or items than `Limits` allows.
        """
        while not self._items:
            if not self._more:
                raise StopAsyncIteration
            self._items = (await self._next_page())[::-1]
        return self._items.pop()

    async def all(self) -> list[Any]:
        """All items, from here on."""
        gathered = self._items[::-1]
        self._items = []
        while self._more:
            gathered += await self._next_page()
        return gathered

    async def _next_page(self) -> list[Any]:
        self._pages += 1
        if self._pages > self._limits.max_pages:
            raise self._too_long("max_pages", self._limits.max_pages)
        page = await self._fetch(self.cursor)
        self.cursor = page.next_cursor
        self._more = self.cursor is not None
        items = list(page.items)
        self._seen += len(items)
        if self._seen > self._limits.max_items:
            raise self._too_long("max_items", self._limits.max_items)
        return items

    def _too_long(self, limit: str, value: int) -> LimitExceeded:
        return LimitExceeded(
            f"{self._method}: the list goes beyond {limit} ({value}); fetch it page by page, or raise the limit",
            limit=limit,
            request_sent=True,
        )
