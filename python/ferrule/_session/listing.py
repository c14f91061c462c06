"""The lists a server offers, page by page or whole, kept where the user asked for that.

Knows the list methods; walking through pages is `paging`'s business, and what is learned of tools `definitions`'.
"""

from __future__ import annotations

from .. import types
from .._io import Closing, Expired
from .._json import dumps
from .._protocol import methods
from ..errors import ConnectionClosed, InvalidParams, InvalidResult, RequestTimeout
from .arguments import is_text
from .paging import Pages
from .settings import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .arguments import Timeout
    from .kept import KeptLists, Page
    from .session import Session


class Listing:
    """A list the server offers in pages: its method, and the name of a page's type (loaded when first needed)."""

    __slots__ = ("method", "page")

    def __init__(self, method: methods.Method, page: str) -> None:
        self.method = method
        self.page = page


TOOLS = Listing(methods.TOOLS_LIST, "ListToolsResult")
RESOURCES = Listing(methods.RESOURCES_LIST, "ListResourcesResult")
RESOURCE_TEMPLATES = Listing(methods.RESOURCES_TEMPLATES_LIST, "ListResourceTemplatesResult")
PROMPTS = Listing(methods.PROMPTS_LIST, "ListPromptsResult")
TASKS = Listing(methods.TASKS_LIST, "ListTasksResult")


async def list_page(session: Session, listing: Listing, cursor: str | None = None, timeout: Timeout = UNSET) -> Any:
    """One page of a list: the first, or the one at a cursor."""
    session.enter()
    return await _page(session, listing, cursor, session.deadline(timeout))


async def list_all(session: Session, listing: Listing, timeout: Timeout = UNSET) -> list[Any]:
    """All items of a list; the timeout is for all of its pages together."""
    session.enter()
    deadline = session.deadline(timeout)
    try:
        return await _walk(session, listing, deadline)
    except InvalidParams:
        kept = _kept(session, listing)
        if kept is None:
            raise
        # The cursor may have come from a page of another time: once more, without what is kept.
        kept.drop((listing.method.name,))
        return await _walk(session, listing, deadline)


async def _walk(session: Session, listing: Listing, deadline: float) -> list[Any]:
    pages = Pages(session, listing.method.name, lambda cursor: _page(session, listing, cursor, deadline))
    return await pages.all()


def iterate(session: Session, listing: Listing, timeout: Timeout = UNSET) -> Pages:
    """The items of a list, page by page as they are asked for; the timeout is for each page."""
    return Pages(session, listing.method.name, lambda cursor: list_page(session, listing, cursor, timeout))


def clear_cache(session: Session) -> None:
    """Drop the lists that are kept."""
    session.enter()
    if session.standing is not None and session.standing.kept is not None:
        session.standing.kept.clear()


def _kept(session: Session, listing: Listing) -> KeptLists | None:
    return session.standing.kept if session.standing is not None and listing is not TASKS else None


async def _page(session: Session, listing: Listing, cursor: str | None, deadline: float) -> Any:
    kept = _kept(session, listing)
    if kept is None:
        return _read(session, listing, await _fetch(session, listing, cursor, deadline))
    link = await session.link_by(deadline, listing.method.name)
    if not link.era.handshake:
        return _read(session, listing, await _fetch(session, listing, cursor, deadline))
    # That a list changed may have arrived already, and nobody has read it.
    session.transport.poll()
    page = kept.get((listing.method.name, cursor), link)
    if page is None:
        page = await _fetch_once(session, listing, cursor, deadline, kept)
    return _read(session, listing, page.result())


async def _fetch_once(session: Session, listing: Listing, cursor: str | None, deadline: float, kept: KeptLists) -> Page:
    """A page that is not kept, fetched once for all who miss it at the same time."""
    from .kept import Page

    key = (listing.method.name, cursor)

    async def fetch(by: float) -> Page:
        version = kept.version(key[0])
        result = await _fetch(session, listing, cursor, by)
        _shaped(listing, result)  # what has the wrong shape is not worth keeping
        link = await session.link_by(by, key[0])
        page = Page(link, result)
        kept.put(key, page, version)
        return page

    try:
        page: Page = await session.io.once((kept, key), fetch, deadline)
        return page
    except Expired:
        raise RequestTimeout(f"{key[0]} at {session.label}: no answer within the timeout", request_sent=True) from None
    except Closing:
        raise ConnectionClosed(f"{key[0]} at {session.label}: the client was closed", request_sent=True) from None


async def _fetch(session: Session, listing: Listing, cursor: str | None, deadline: float) -> dict[str, Any]:
    # An empty cursor is a cursor like any other (server/utilities/pagination).
    params = None if cursor is None else dumps({"cursor": cursor}, "params")
    return await session.perform(listing.method, params, deadline=deadline)


async def page_anew(session: Session, listing: Listing, cursor: str | None, deadline: float) -> Any:
    """A page as the server gives it now, whatever is kept; nothing is learned from it yet."""
    return _shaped(listing, await _fetch(session, listing, cursor, deadline))


def _read(session: Session, listing: Listing, result: dict[str, Any]) -> Any:
    page = _shaped(listing, result)
    if listing is TOOLS:
        from .definitions import learn

        page, _ = learn(session, page)
    return page


def _shaped(listing: Listing, result: dict[str, Any]) -> Any:
    page = getattr(types, listing.page).from_wire(result, method=listing.method.name)
    if page.next_cursor is not None and not is_text(page.next_cursor):
        raise InvalidResult(listing.method.name, "nextCursor: holds a lone surrogate")
    return page
