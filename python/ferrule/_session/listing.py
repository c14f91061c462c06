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
from .cacheable import Question, answer, check_mode
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


async def list_page(
    session: Session, listing: Listing, cursor: str | None = None, timeout: Timeout = UNSET, cache: str = "use"
) -> Any:
    """One page of a list: the first, or the one at a cursor."""
    session.enter()
    check_mode(cache)
    return await _page(session, listing, cursor, session.deadline(timeout), cache)


async def list_all(session: Session, listing: Listing, timeout: Timeout = UNSET, cache: str = "use") -> list[Any]:
    """All items of a list; the timeout is for all of its pages together.

    A cursor that is refused may have come from a page of another time: then the list is begun once more.
    """
    session.enter()
    check_mode(cache)
    deadline = session.deadline(timeout)
    pages = _walk(session, listing, deadline, cache)
    try:
        return await pages.all()
    except InvalidParams:
        if pages.cursor is None:
            raise
    return await _walk(session, listing, deadline, cache).all()


def _walk(session: Session, listing: Listing, deadline: float, cache: str) -> Pages:
    return Pages(session, listing.method.name, lambda cursor: _page(session, listing, cursor, deadline, cache))


def iterate(session: Session, listing: Listing, timeout: Timeout = UNSET, cache: str = "use") -> Pages:
    """The items of a list, page by page as they are asked for; the timeout is for each page."""
    check_mode(cache)
    return Pages(session, listing.method.name, lambda cursor: list_page(session, listing, cursor, timeout, cache))


async def _page(session: Session, listing: Listing, cursor: str | None, deadline: float, cache: str) -> Any:
    try:
        page = await _find_page(session, listing, cursor, deadline, cache)
    except InvalidParams:
        if cursor is not None:
            _drop(session, listing)
        raise
    if listing is TOOLS:
        from .definitions import learn

        page, _ = learn(session, page)
    return page


def _drop(session: Session, listing: Listing) -> None:
    """The server does not know a cursor any more: whatever is kept of the list is from another time."""
    methods = (listing.method.name,)
    if session.peer.caching is not None:
        session.peer.caching.drop(session, methods)
    if session.standing is not None and session.standing.kept is not None:
        session.standing.kept.drop(methods)


async def _find_page(session: Session, listing: Listing, cursor: str | None, deadline: float, cache: str) -> Any:
    # An empty cursor is a cursor like any other (server/utilities/pagination).
    params = None if cursor is None else dumps({"cursor": cursor}, "params")
    question = Question(listing.method, params, lambda result: _read(listing, result))
    if listing is TASKS or cache == "bypass":
        return await question.ask(session, deadline)
    kept = session.standing.kept if session.standing is not None else None
    if kept is None:
        return await answer(session, question, deadline, cache)
    link = await session.link_by(deadline, listing.method.name)
    if not link.era.handshake:
        return await answer(session, question, deadline, cache)
    # That a list changed may have arrived already, and nobody has read it.
    session.transport.poll()
    page = kept.get((listing.method.name, cursor), link) if cache == "use" else None
    if page is None:
        page = await _fetch_kept(session, question, cursor, deadline, kept, alone=cache == "refresh")
    return question.read(page.result())


async def _fetch_kept(
    session: Session, question: Question, cursor: str | None, deadline: float, kept: KeptLists, alone: bool
) -> Page:
    """A page that is not kept yet, fetched once for all who miss it at the same time; `alone`: for this caller."""
    from .kept import Page

    key = (question.method.name, cursor)

    async def fetch(by: float) -> Page:
        version = kept.version(key[0])
        result = await session.perform(question.method, question.params, by)
        question.read(result)  # what has the wrong shape is not worth keeping
        link = await session.link_by(by, key[0])
        page = Page(link, result)
        kept.put(key, page, version)
        return page

    if alone:
        return await fetch(deadline)
    try:
        page: Page = await session.io.once((kept, key), fetch, deadline)
        return page
    except Expired:
        raise RequestTimeout(f"{key[0]} at {session.label}: no answer within the timeout", request_sent=True) from None
    except Closing:
        raise ConnectionClosed(f"{key[0]} at {session.label}: the client was closed", request_sent=True) from None


async def page_anew(session: Session, listing: Listing, cursor: str | None, deadline: float) -> Any:
    """A page as the server gives it now, whatever was kept; nothing is learned from it yet."""
    return await _find_page(session, listing, cursor, deadline, "refresh")


def _read(listing: Listing, result: dict[str, Any]) -> Any:
    page = getattr(types, listing.page).from_wire(result, method=listing.method.name)
    if page.next_cursor is not None and not is_text(page.next_cursor):
        raise InvalidResult(listing.method.name, "nextCursor: holds a lone surrogate")
    return page
