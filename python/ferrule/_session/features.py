"""The methods of the protocol with their parameters and results: one function each, over a session.

Knows what a method asks for and what its result is; not how it is sent.
"""

from __future__ import annotations

from .. import types
from .._json import dumps
from .._protocol import methods
from ..errors import ConfigError, InvalidResult, ToolError
from ..types.tools import CallToolResult
from .negotiate import take_discovered
from .paging import Pages
from .progress import Progress
from .settings import UNSET, Unset, check_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..types import DiscoverResult, GetPromptResult, Implementation, ReadResourceResult, ServerCapabilities
    from .session import Session

    Timeout = float | Unset | None
    OnProgress = Callable[[float, float | None, str | None], Any]


async def connect(session: Session, timeout: Timeout = UNSET) -> None:
    """Find out what the server speaks and open a link to it, unless that was done."""
    session.enter()
    await session.link_by(session.deadline(timeout), "connect")


async def discover(session: Session, timeout: Timeout = UNSET) -> DiscoverResult:
    """Ask a stateless server about itself; of a handshake server, say what `initialize` told."""
    session.enter()
    deadline = session.deadline(timeout)
    link = await session.link_by(deadline, "server/discover")
    if link.era.handshake:
        return types.DiscoverResult.from_wire(_as_discovered(link), method="initialize")
    result = await session.perform(methods.DISCOVER, None, deadline=deadline)
    discovered = types.DiscoverResult.from_wire(result, method="server/discover")
    take_discovered(link, result)
    return discovered


def _as_discovered(link: Any) -> dict[str, Any]:
    discovered: dict[str, Any] = {
        "supportedVersions": [link.era.revision],
        "capabilities": link.capabilities or {},
    }
    if link.server_info is not None:
        discovered["serverInfo"] = link.server_info
    if link.instructions is not None:
        discovered["instructions"] = link.instructions
    return discovered


async def ping(session: Session, timeout: Timeout = UNSET) -> None:
    """See that the server answers: `ping`, or `server/discover` where there is no ping any more."""
    session.enter()
    deadline = session.deadline(timeout)
    link = await session.link_by(deadline, "ping")
    method = methods.PING if link.era.handshake else methods.DISCOVER
    await session.perform(method, None, deadline=deadline)


async def call_tool(
    session: Session,
    name: str,
    arguments: Mapping[str, Any] | None,
    timeout: Timeout,
    on_progress: OnProgress | None,
    reset_on_progress: bool,
    max_total: float | None,
    meta: Mapping[str, Any] | None,
    idempotent: bool,
    raise_on_error: bool,
) -> CallToolResult:
    """Call a tool: see `Client.call_tool`.

    The warm path: arguments go by position and what few calls need is left aside (benches/calls.py).
    """
    deadline = session.enter_until(timeout)
    if type(name) is not str or not name.isascii():
        _check_text(name, "name")
    if type(arguments) is not dict or "_meta" in arguments:
        arguments, meta = _hoist_meta(arguments, meta)
    params = dumps({"name": name, "arguments": arguments}, "params")
    progress = None
    if on_progress is not None or reset_on_progress:
        progress = _progress(session, on_progress, reset_on_progress, timeout, max_total)
    if max_total is not None:
        deadline = min(deadline, session.deadline(max_total))
    result = await session.perform(methods.TOOLS_CALL, params, deadline, name, meta, progress, idempotent)
    # In the handshake era it has to be an object; most results have none, and need not ask which era this is.
    object_only = "structuredContent" in result and session.handshake
    called = CallToolResult.from_wire(result, "tools/call", structured_object=object_only)
    if raise_on_error and called.is_error:
        raise ToolError(called, name=name, server=session.label)
    return called


def _check_text(value: object, where: str) -> None:
    """Raise TypeError for what is no text, or text that UTF-8 cannot hold."""
    if not isinstance(value, str):
        raise TypeError(f"{where}: expected str")
    if not _is_text(value):
        raise TypeError(f"{where}: holds a lone surrogate")


def _is_text(value: str) -> bool:
    """Can UTF-8 hold it? JSON escapes can bring what it cannot."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def _hoist_meta(
    arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """`_meta` among the arguments belongs beside them (R6); the caller's mapping stays as it is."""
    if arguments is None:
        return {}, meta
    if not hasattr(arguments, "items"):
        raise TypeError("arguments: expected a mapping")
    if "_meta" not in arguments:
        return arguments, meta
    hoisted = arguments["_meta"]
    if not hasattr(hoisted, "items"):
        raise TypeError("arguments._meta: expected a mapping")
    rest = {key: value for key, value in arguments.items() if key != "_meta"}
    return rest, {**hoisted, **(meta or {})}


def _progress(
    session: Session,
    handler: OnProgress | None,
    reset: bool,
    timeout: Timeout,
    max_total: float | None,
) -> Progress:
    seconds = session.view.timeout if isinstance(timeout, Unset) else check_timeout(timeout)
    if not reset or seconds is None:
        return Progress(handler, None, 0.0)
    total = check_timeout(max_total)
    if total is None:
        raise ConfigError("reset_on_progress needs max_total: the most seconds the call may take")
    return Progress(handler, seconds, session.io.now() + total)


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


async def list_page(session: Session, listing: Listing, cursor: str | None = None, timeout: Timeout = UNSET) -> Any:
    """One page of a list: the first, or the one at a cursor."""
    session.enter()
    return await _page(session, listing, cursor, session.deadline(timeout))


async def list_all(session: Session, listing: Listing, timeout: Timeout = UNSET) -> list[Any]:
    """All items of a list; the timeout is for all of its pages together."""
    session.enter()
    deadline = session.deadline(timeout)
    pages = Pages(session, listing.method.name, lambda cursor: _page(session, listing, cursor, deadline))
    return await pages.all()


def iterate(session: Session, listing: Listing, timeout: Timeout = UNSET) -> Pages:
    """The items of a list, page by page as they are asked for; the timeout is for each page."""
    return Pages(session, listing.method.name, lambda cursor: list_page(session, listing, cursor, timeout))


async def _page(session: Session, listing: Listing, cursor: str | None, deadline: float) -> Any:
    # An empty cursor is a cursor like any other (server/utilities/pagination).
    params = None if cursor is None else dumps({"cursor": cursor}, "params")
    result = await session.perform(listing.method, params, deadline=deadline)
    page = getattr(types, listing.page).from_wire(result, method=listing.method.name)
    if page.next_cursor is not None and not _is_text(page.next_cursor):
        raise InvalidResult(listing.method.name, "nextCursor: holds a lone surrogate")
    return page


async def read_resource(
    session: Session,
    uri: str,
    *,
    timeout: Timeout = UNSET,
    meta: Mapping[str, Any] | None = None,
) -> ReadResourceResult:
    """Read a resource."""
    session.enter()
    _check_text(uri, "uri")
    result = await session.perform(
        methods.RESOURCES_READ,
        dumps({"uri": uri}, "params"),
        name=uri,
        meta=meta,
        deadline=session.deadline(timeout),
    )
    return types.ReadResourceResult.from_wire(result, method="resources/read")


async def get_prompt(
    session: Session,
    name: str,
    arguments: Mapping[str, str] | None = None,
    *,
    timeout: Timeout = UNSET,
    meta: Mapping[str, Any] | None = None,
) -> GetPromptResult:
    """Get a prompt."""
    session.enter()
    _check_text(name, "name")
    given, meta = _hoist_meta(arguments, meta)
    params: dict[str, Any] = {"name": name}
    if given:
        params["arguments"] = given
    result = await session.perform(
        methods.PROMPTS_GET,
        dumps(params, "params"),
        name=name,
        meta=meta,
        deadline=session.deadline(timeout),
    )
    return types.GetPromptResult.from_wire(result, method="prompts/get")


async def request(
    session: Session,
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    timeout: Timeout = UNSET,
    on_progress: OnProgress | None = None,
    idempotent: bool | None = None,
) -> dict[str, Any]:
    """Send any request and return its result as it came."""
    session.enter()
    _check_text(method, "method")
    row = methods.lookup(method)
    rest, meta = _split_meta(params)
    name = rest.get(row.name_param) if row.name_param is not None else None
    progress = _progress(session, on_progress, False, timeout, None) if on_progress is not None else None
    return await session.perform(
        row,
        dumps(rest, "params") if rest else None,
        name=name if isinstance(name, str) else None,
        meta=meta,
        deadline=session.deadline(timeout),
        progress=progress,
        idempotent=idempotent,
    )


async def notify(
    session: Session,
    method: str,
    params: Mapping[str, Any] | None = None,
    *,
    timeout: Timeout = UNSET,
) -> None:
    """Send a notification."""
    session.enter()
    _check_text(method, "method")
    deadline = session.deadline(timeout)
    link = await session.link_by(deadline, method)
    if link.era.mirrors and session.transport.http:
        raise ConfigError(f"{method}: revision {link.era.revision} knows no notifications over HTTP from a client")
    await session.notify(method, dumps(dict(params), "params") if params else None, deadline)


async def notify_roots_changed(session: Session, timeout: Timeout = UNSET) -> None:
    """Tell a server of the handshake era that the roots changed; in the stateless era there is nothing to tell."""
    session.enter()
    settings = session.settings
    if "roots" not in settings.handlers.capabilities(True, settings.capabilities):
        raise ConfigError("notify_roots_changed: the client was given no roots=")
    deadline = session.deadline(timeout)
    link = await session.link_by(deadline, "notifications/roots/list_changed")
    if link.era.handshake:
        await session.notify("notifications/roots/list_changed", None, deadline)


def _split_meta(
    params: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    if not params:
        return {}, None
    meta = params.get("_meta")
    if meta is not None and not hasattr(meta, "items"):
        raise TypeError("params._meta: expected a mapping")
    return {key: value for key, value in params.items() if key != "_meta"}, meta


# What is known of the server


def era(session: Session) -> str | None:
    """The name of the era, None while unknown."""
    link = session.link
    return link.era.name if link is not None else None


def protocol_version(session: Session) -> str | None:
    """The revision spoken, None while unknown."""
    link = session.link
    return link.era.revision if link is not None else None


def server_info(session: Session) -> Implementation | None:
    """Who the server says it is, None if it does not say, or not in the schema's shape."""
    link = session.link
    if link is None or link.server_info is None:
        return None
    try:
        return types.Implementation.from_wire(link.server_info, method="serverInfo")
    except InvalidResult:
        return None


def server_capabilities(session: Session) -> ServerCapabilities | None:
    """What the server declared, None if it was not asked."""
    link = session.link
    if link is None or link.capabilities is None:
        return None
    return types.ServerCapabilities.from_wire(link.capabilities, method="capabilities")


def instructions(session: Session) -> str | None:
    """The server's advice for language models."""
    link = session.link
    return link.instructions if link is not None else None


def session_id(session: Session) -> str | None:
    """The session's id at the server."""
    link = session.link
    return link.session_id if link is not None else None
