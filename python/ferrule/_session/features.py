"""The methods of the protocol with their parameters and results: one function each, over a session.

Knows what a method asks for and what its result is; not how it is sent.
"""

from __future__ import annotations

from .. import types
from .._json import dumps
from .._protocol import methods
from ..errors import ConfigError, HeaderMismatch, InputRequired, InvalidResult, ToolError
from ..types.tools import plain_result
from .arguments import check_text, hoist_meta, progress_for, split_meta
from .negotiate import take_discovered
from .settings import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._protocol.methods import Method
    from ..types import (
        CallToolResult,
        CompleteResult,
        DiscoverResult,
        GetPromptResult,
        Implementation,
        ReadResourceResult,
        Resume,
        ServerCapabilities,
    )
    from .arguments import OnProgress, Timeout
    from .session import Session


async def connect(session: Session, timeout: Timeout = UNSET) -> None:
    """Find out what the server speaks and open a link to it, unless that was done."""
    session.enter()
    await session.link_by(session.deadline(timeout), "connect")


async def discover(session: Session, timeout: Timeout = UNSET, cache: str = "use") -> DiscoverResult:
    """Ask a stateless server about itself; of a handshake server, say what `initialize` told."""
    from .cacheable import Question, answer, check_mode

    session.enter()
    check_mode(cache)
    deadline = session.deadline(timeout)
    link = await session.link_by(deadline, "server/discover")
    if link.era.handshake:
        return types.DiscoverResult.from_wire(_as_discovered(link), method="initialize")

    def read(result: dict[str, Any]) -> DiscoverResult:
        return types.DiscoverResult.from_wire(result, method="server/discover")

    discovered: DiscoverResult = await answer(session, Question(methods.DISCOVER, None, read), deadline, cache)
    take_discovered(session.link or link, discovered.to_wire())
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
        check_text(name, "name")
    if type(arguments) is not dict or "_meta" in arguments:
        arguments, meta = hoist_meta(arguments, meta)
    standing = session.standing
    if standing is not None and (special := standing.special) is not None and (own := special.get(name)) is not None:
        from .tool_calls import call_special

        wishes = (on_progress, reset_on_progress, timeout, max_total)
        return await call_special(session, own, name, arguments, deadline, wishes, meta, idempotent, raise_on_error)
    params = dumps({"name": name, "arguments": arguments}, "params")
    progress = None
    if on_progress is not None or reset_on_progress:
        progress = progress_for(session, on_progress, reset_on_progress, timeout, max_total)
    if max_total is not None:
        deadline = min(deadline, session.deadline(max_total))
    unfinished = None
    try:
        result = await session.perform(methods.TOOLS_CALL, params, deadline, name, meta, progress, idempotent)
    except (InputRequired, HeaderMismatch) as answer:
        unfinished = answer
    if unfinished is not None:
        from .calling import ToolCall
        from .tool_calls import finished

        call = ToolCall(session, name, params, deadline, meta, progress, idempotent)
        return finished(session, call, await call.finish(unfinished), raise_on_error)
    called = plain_result(result) or _unusual(session, result)
    if raise_on_error and getattr(called, "is_error", False):
        raise ToolError(called, name=name, server=session.label)
    return called


def _unusual(session: Session, result: dict[str, Any]) -> CallToolResult:
    from .results import called_tool

    return called_tool(session, result)


async def read_resource(
    session: Session,
    uri: str,
    *,
    timeout: Timeout = UNSET,
    meta: Mapping[str, Any] | None = None,
    resume: Resume | None = None,
    cache: str = "use",
) -> ReadResourceResult:
    """Read a resource."""
    from .cacheable import Question, answer, check_mode
    from .results import value_of

    session.enter()
    check_text(uri, "uri")
    check_mode(cache)
    params = dumps({"uri": uri}, "params")
    deadline = session.deadline(timeout)

    def read(result: dict[str, Any]) -> ReadResourceResult:
        return value_of(session, types.ReadResourceResult, result, "resources/read")  # type: ignore[no-any-return]

    if resume is not None:
        return read(await _perform_in_rounds(session, methods.RESOURCES_READ, params, deadline, uri, meta, resume))
    try:
        question = Question(methods.RESOURCES_READ, params, read, name=uri, meta=meta)
        return await answer(session, question, deadline, cache)  # type: ignore[no-any-return]
    except InputRequired as asked:
        needed = asked  # see `call_tool`; what comes of rounds is not kept
    return read(await _in_rounds(session, methods.RESOURCES_READ, params, needed, deadline, uri, meta))


async def get_prompt(
    session: Session,
    name: str,
    arguments: Mapping[str, str] | None = None,
    *,
    timeout: Timeout = UNSET,
    meta: Mapping[str, Any] | None = None,
    resume: Resume | None = None,
) -> GetPromptResult:
    """Get a prompt."""
    session.enter()
    check_text(name, "name")
    given, meta = hoist_meta(arguments, meta)
    params: dict[str, Any] = {"name": name}
    if given:
        params["arguments"] = given
    result = await _perform_in_rounds(
        session, methods.PROMPTS_GET, dumps(params, "params"), session.deadline(timeout), name, meta, resume
    )
    from .results import value_of

    return value_of(session, types.GetPromptResult, result, "prompts/get")  # type: ignore[no-any-return]


async def _perform_in_rounds(
    session: Session,
    method: Method,
    params: bytes,
    deadline: float,
    name: str,
    meta: Mapping[str, Any] | None,
    resume: Resume | None,
) -> dict[str, Any]:
    """`Session.perform` for a method whose server may ask before it answers."""
    sent = params
    if resume is not None:
        from .resuming import resumed

        sent = await resumed(session, method.name, params, resume, deadline)
    try:
        return await session.perform(method, sent, deadline, name, meta)
    except InputRequired as question:
        needed = question  # see `call_tool`
    return await _in_rounds(session, method, params, needed, deadline, name, meta)


async def _in_rounds(
    session: Session,
    method: Method,
    params: bytes,
    needed: InputRequired,
    deadline: float,
    name: str,
    meta: Mapping[str, Any] | None,
) -> dict[str, Any]:
    from .rounds import clock_for, go_on

    async def send(again: bytes, by: float) -> dict[str, Any]:
        return await session.perform(method, again, by, name, meta)

    return await go_on(session, method, params, needed, clock_for(session, deadline), send)


async def complete(
    session: Session,
    ref: Any,
    argument: Mapping[str, str] | tuple[str, str],
    context: Mapping[str, str] | None,
    timeout: Timeout,
    meta: Mapping[str, Any] | None,
) -> CompleteResult:
    """Have the server complete an argument of a prompt or a variable of a resource template."""
    deadline = session.enter_until(timeout)
    params = {"ref": _reference(ref), "argument": _argument(argument)}
    if context:
        params["context"] = {"arguments": dict(context)}
    link = await session.link_by(deadline, "completion/complete")
    method = methods.COMPLETE if link.era.declares_completions else methods.COMPLETE_UNDECLARED
    result = await session.perform(method, dumps(params, "params"), deadline, meta=meta)
    from .results import value_of

    return value_of(session, types.CompleteResult, result, "completion/complete")  # type: ignore[no-any-return]


def _reference(ref: Any) -> Any:
    """A reference as JSON: from a value of `types`, or a mapping with the schema's names."""
    if isinstance(ref, (types.PromptReference, types.ResourceTemplateReference)):
        return ref.to_wire()
    if hasattr(ref, "items"):
        return dict(ref)
    raise TypeError("ref: expected a PromptReference, a ResourceTemplateReference or a mapping")


def _argument(argument: Mapping[str, str] | tuple[str, str]) -> dict[str, str]:
    if isinstance(argument, tuple) and len(argument) == 2:
        return {"name": argument[0], "value": argument[1]}
    if hasattr(argument, "items"):
        return dict(argument)
    raise TypeError("argument: expected a pair of name and value, or a mapping of both")


_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


async def set_log_level(session: Session, level: str, timeout: Timeout) -> None:
    """Choose the least severe log message to be sent: see `Client.set_log_level`."""
    deadline = session.enter_until(timeout)
    if level not in _LEVELS:
        raise ConfigError(f"log level: expected one of {', '.join(_LEVELS)}")
    from .standing import standing_of

    standing = standing_of(session)
    link = await session.link_by(deadline, "logging/setLevel")
    if link.era.handshake:
        await session.perform(methods.LOGGING_SET_LEVEL, dumps({"level": level}, "params"), deadline)
        standing.renew_later()
    else:
        link.era = session.peer.stateless_era(link.era.revision, level)
    standing.log_level = level


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
    check_text(method, "method")
    row = methods.lookup(method)
    rest, meta = split_meta(params)
    name = rest.get(row.name_param) if row.name_param is not None else None
    progress = progress_for(session, on_progress, False, timeout, None) if on_progress is not None else None
    special = None
    if row is methods.TOOLS_CALL and session.standing is not None and session.standing.special is not None:
        from .tool_calls import special_request

        special = special_request(session.standing.special, rest)
    return await session.perform(
        row,
        dumps(rest, "params") if rest else None,
        name=name if isinstance(name, str) else None,
        meta=meta,
        deadline=session.deadline(timeout),
        progress=progress,
        idempotent=idempotent,
        special=special,
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
    check_text(method, "method")
    split_meta(params)  # for what it refuses
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
