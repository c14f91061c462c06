"""The methods of both clients that list what a server offers: whole, page by page, or item by item.

Knows no pages and no cursors: that is `_session/listing.py`'s and `_session/paging.py`'s business.
"""

from __future__ import annotations

from ._client import BaseClient
from ._session.settings import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from typing import Any, Self, TypeVar

    from ._session.cacheable import CacheMode
    from ._session.paging import Pages
    from ._session.settings import Unset
    from .types import (
        ListPromptsResult,
        ListResourcesResult,
        ListResourceTemplatesResult,
        ListToolsResult,
        Prompt,
        Resource,
        ResourceTemplate,
        Tool,
    )

    T = TypeVar("T")
    Timeout = float | Unset | None


class Lists(BaseClient):
    """What the sync client lists."""

    _run: Callable[[Coroutine[Any, Any, T]], T]
    """Drives a coroutine that never suspends, because its IO blocks instead."""

    def list_tools(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> list[Tool]:
        """All tools, from all pages (server/tools, Listing Tools).

        What they say of their calls is remembered for `call_tool`. At revision 2026-07-28 over HTTP a tool whose
        `x-mcp-header` marks are invalid is left out, and the log says why.

        Args:
            timeout: Seconds for all pages together; default the client's.
            cache: "use" (default) takes a kept page while the server allows it; "refresh" asks the server and keeps its
                answer; "bypass" neither takes nor keeps one.

        Raises:
            LimitExceeded: More pages or items than `Limits.max_pages`, `Limits.max_items`.
            CapabilityError: The server has no tools; nothing was sent.
            FerruleError: See `call_tool`.
        """
        return self._run(self._listing.list_all(self._session, self._listing.TOOLS, timeout, cache))

    def list_tools_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> ListToolsResult:
        """One page of the tools: the first, or the one at a `next_cursor`."""
        lists = self._listing
        page: ListToolsResult = self._run(lists.list_page(self._session, lists.TOOLS, cursor, timeout, cache))
        return page

    def iter_tools(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> Iterator[Tool]:
        """The tools, each page fetched when it is needed; the timeout is for each page."""
        return Items(self._run, self._listing.iterate(self._session, self._listing.TOOLS, timeout, cache))

    def list_resources(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> list[Resource]:
        """All resources, from all pages (server/resources, Listing Resources). As `list_tools`."""
        return self._run(self._listing.list_all(self._session, self._listing.RESOURCES, timeout, cache))

    def list_resources_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> ListResourcesResult:
        """One page of the resources."""
        page: ListResourcesResult = self._run(
            self._listing.list_page(self._session, self._listing.RESOURCES, cursor, timeout, cache)
        )
        return page

    def iter_resources(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> Iterator[Resource]:
        """The resources, each page fetched when it is needed."""
        return Items(self._run, self._listing.iterate(self._session, self._listing.RESOURCES, timeout, cache))

    def list_resource_templates(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> list[ResourceTemplate]:
        """All resource templates, from all pages (server/resources, Resource Templates). As `list_tools`."""
        return self._run(self._listing.list_all(self._session, self._listing.RESOURCE_TEMPLATES, timeout, cache))

    def list_resource_templates_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> ListResourceTemplatesResult:
        """One page of the resource templates."""
        page: ListResourceTemplatesResult = self._run(
            self._listing.list_page(self._session, self._listing.RESOURCE_TEMPLATES, cursor, timeout, cache)
        )
        return page

    def iter_resource_templates(
        self, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> Iterator[ResourceTemplate]:
        """The resource templates, each page fetched when it is needed."""
        return Items(self._run, self._listing.iterate(self._session, self._listing.RESOURCE_TEMPLATES, timeout, cache))

    def list_prompts(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> list[Prompt]:
        """All prompts, from all pages (server/prompts, Listing Prompts). As `list_tools`."""
        return self._run(self._listing.list_all(self._session, self._listing.PROMPTS, timeout, cache))

    def list_prompts_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> ListPromptsResult:
        """One page of the prompts."""
        page: ListPromptsResult = self._run(
            self._listing.list_page(self._session, self._listing.PROMPTS, cursor, timeout, cache)
        )
        return page

    def iter_prompts(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> Iterator[Prompt]:
        """The prompts, each page fetched when it is needed."""
        return Items(self._run, self._listing.iterate(self._session, self._listing.PROMPTS, timeout, cache))


class AsyncLists(BaseClient):
    """What the asyncio client lists."""

    async def list_tools(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> list[Tool]:
        """All tools, from all pages (server/tools, Listing Tools).

        What they say of their calls is remembered for `call_tool`. At revision 2026-07-28 over HTTP a tool whose
        `x-mcp-header` marks are invalid is left out, and the log says why.

        Args:
            timeout: Seconds for all pages together; default the client's.
            cache: "use" (default) takes a kept page while the server allows it; "refresh" asks the server and keeps its
                answer; "bypass" neither takes nor keeps one.

        Raises:
            LimitExceeded: More pages or items than `Limits.max_pages`, `Limits.max_items`.
            CapabilityError: The server has no tools; nothing was sent.
            FerruleError: See `call_tool`.
        """
        items: list[Tool] = await self._listing.list_all(self._session, self._listing.TOOLS, timeout, cache)
        return items

    async def list_tools_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> ListToolsResult:
        """One page of the tools: the first, or the one at a `next_cursor`."""
        lists = self._listing
        page: ListToolsResult = await lists.list_page(self._session, lists.TOOLS, cursor, timeout, cache)
        return page

    def iter_tools(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> AsyncIterator[Tool]:
        """The tools, each page fetched when it is needed; the timeout is for each page."""
        return AsyncItems(self._listing.iterate(self._session, self._listing.TOOLS, timeout, cache))

    async def list_resources(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> list[Resource]:
        """All resources, from all pages (server/resources, Listing Resources). As `list_tools`."""
        items: list[Resource] = await self._listing.list_all(self._session, self._listing.RESOURCES, timeout, cache)
        return items

    async def list_resources_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> ListResourcesResult:
        """One page of the resources."""
        page: ListResourcesResult = await self._listing.list_page(
            self._session, self._listing.RESOURCES, cursor, timeout, cache
        )
        return page

    def iter_resources(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> AsyncIterator[Resource]:
        """The resources, each page fetched when it is needed."""
        return AsyncItems(self._listing.iterate(self._session, self._listing.RESOURCES, timeout, cache))

    async def list_resource_templates(
        self, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> list[ResourceTemplate]:
        """All resource templates, from all pages (server/resources, Resource Templates). As `list_tools`."""
        items: list[ResourceTemplate] = await self._listing.list_all(
            self._session, self._listing.RESOURCE_TEMPLATES, timeout, cache
        )
        return items

    async def list_resource_templates_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> ListResourceTemplatesResult:
        """One page of the resource templates."""
        page: ListResourceTemplatesResult = await self._listing.list_page(
            self._session, self._listing.RESOURCE_TEMPLATES, cursor, timeout, cache
        )
        return page

    def iter_resource_templates(
        self, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> AsyncIterator[ResourceTemplate]:
        """The resource templates, each page fetched when it is needed."""
        return AsyncItems(self._listing.iterate(self._session, self._listing.RESOURCE_TEMPLATES, timeout, cache))

    async def list_prompts(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> list[Prompt]:
        """All prompts, from all pages (server/prompts, Listing Prompts). As `list_tools`."""
        items: list[Prompt] = await self._listing.list_all(self._session, self._listing.PROMPTS, timeout, cache)
        return items

    async def list_prompts_page(
        self, cursor: str | None = None, *, timeout: Timeout = UNSET, cache: CacheMode = "use"
    ) -> ListPromptsResult:
        """One page of the prompts."""
        lists = self._listing
        page: ListPromptsResult = await lists.list_page(self._session, lists.PROMPTS, cursor, timeout, cache)
        return page

    def iter_prompts(self, *, timeout: Timeout = UNSET, cache: CacheMode = "use") -> AsyncIterator[Prompt]:
        """The prompts, each page fetched when it is needed."""
        return AsyncItems(self._listing.iterate(self._session, self._listing.PROMPTS, timeout, cache))


class Items:
    """Iterates over the items of a list that comes in pages: the sync client's."""

    __slots__ = ("_pages", "_run")

    def __init__(self, run: Callable[[Coroutine[Any, Any, Any]], Any], pages: Pages) -> None:
        self._run = run
        self._pages = pages

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._run(self._pages.next())
        except StopAsyncIteration:
            raise StopIteration from None


class AsyncItems:
    """Iterates over the items of a list that comes in pages: the asyncio client's."""

    __slots__ = ("_pages",)

    def __init__(self, pages: Pages) -> None:
        self._pages = pages

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await self._pages.next()
