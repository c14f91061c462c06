"""Tool calls that are not plain: arguments repeated in headers, results checked by a schema, tools that run as tasks.

Knows what one call does with the definition it goes out under, which is its own from beginning to end: neither a list
that is read meanwhile nor another call changes it (E7). What definitions hold is `definitions`' business.
"""

from __future__ import annotations

from .. import _log
from .._io import Closing, Expired
from .._json import dumps, loads
from .._protocol import methods
from ..errors import ConnectionClosed, FerruleError, HeaderMismatch, InvalidResult, RequestTimeout, ToolError
from ..types.tools import CallToolResult
from .arguments import progress_for
from .definitions import Definition, learn
from .listing import TOOLS, page_anew
from .paging import Pages
from .retry import account
from .special import Special

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .arguments import OnProgress, Timeout
    from .progress import Progress
    from .session import Session

    Wishes = tuple[OnProgress | None, bool, Timeout, float | None]
    """Progress handler, whether progress moves the deadline, timeout, `max_total`: as the caller gave them."""


class ToolCall:
    """One call of a tool, ready to be sent: what each request of it has in common."""

    __slots__ = ("deadline", "idempotent", "meta", "name", "params", "progress")

    def __init__(
        self,
        name: str,
        params: bytes,
        deadline: float,
        meta: Mapping[str, Any] | None,
        progress: Progress | None,
        idempotent: bool,
    ) -> None:
        self.name = name
        self.params = params
        self.deadline = deadline
        self.meta = meta
        self.progress = progress
        self.idempotent = idempotent


async def call_special(
    session: Session,
    definition: Definition,
    name: str,
    arguments: Mapping[str, Any],
    deadline: float,
    wishes: Wishes,
    meta: Mapping[str, Any] | None,
    idempotent: bool,
    raise_on_error: bool,
) -> CallToolResult:
    """Call a tool whose definition asks for something."""
    refuse_unchecked(session, definition)
    if definition.task_support == "required":
        from .tasks import call_as_task

        called = await call_as_task(session, name, arguments, deadline, wishes, meta, idempotent, raise_on_error)
        check_output(session, definition, called)
        return called
    params = dumps({"name": name, "arguments": arguments}, "params")
    handler, reset, timeout, max_total = wishes
    progress = None
    if handler is not None or reset:
        progress = progress_for(session, handler, reset, timeout, max_total)
    if max_total is not None:
        deadline = min(deadline, session.deadline(max_total))
    call = ToolCall(name, params, deadline, meta, progress, idempotent)
    try:
        result = await _send(session, call, special_for(definition, arguments))
    except HeaderMismatch as refusal:
        return await call_again(session, refusal, call, raise_on_error)
    return _finished(session, definition, call, result, raise_on_error)


async def call_again(session: Session, refusal: HeaderMismatch, call: ToolCall, raise_on_error: bool) -> CallToolResult:
    """After a call that was refused for its headers, and so not executed: once more, by the list as it is now (E6).

    Raises:
        FerruleError: `refusal` itself where there is no such thing as headers made of arguments, or the tool is not
            listed; else what went wrong then, the refusal as its cause.
    """
    if not session.mirrors or refusal.method != methods.TOOLS_CALL.name:
        raise refusal
    try:
        definition = await _definition_anew(session, call.name, call.deadline)
        if definition is None:
            raise refusal
        refuse_unchecked(session, definition)
        # The arguments as they went out: the caller's own may have changed meanwhile.
        special = special_for(definition, loads(call.params)["arguments"])
        result = await _send(session, call, special)
    except FerruleError as error:
        if error is not refusal:
            account(error, None, refusal)
        raise
    return _finished(session, definition, call, result, raise_on_error)


async def _send(session: Session, call: ToolCall, special: Special | None) -> dict[str, Any]:
    """Send it and return the complete result."""
    return await session.perform(
        methods.TOOLS_CALL,
        call.params,
        call.deadline,
        call.name,
        call.meta,
        call.progress,
        call.idempotent,
        special,
    )


def special_for(definition: Definition, arguments: Mapping[str, Any]) -> Special | None:
    """What sets the requests of a call under this definition apart; None for nothing."""
    if definition.param_headers is None:
        return None
    headers = definition.param_headers.headers(arguments)
    return Special(headers=headers) if headers else None


def special_request(special: Mapping[str, Definition], params: Mapping[str, Any]) -> Special | None:
    """The same for the parameters of a `tools/call` that the caller wrote."""
    name, arguments = params.get("name"), params.get("arguments")
    definition = special.get(name) if isinstance(name, str) else None
    return special_for(definition, arguments) if definition is not None and isinstance(arguments, dict) else None


def _finished(
    session: Session, definition: Definition, call: ToolCall, result: dict[str, Any], raise_on_error: bool
) -> CallToolResult:
    called = CallToolResult.from_wire(result, "tools/call", structured_object=session.handshake)
    check_output(session, definition, called)
    if raise_on_error and called.is_error:
        raise ToolError(called, name=call.name, server=session.label)
    return called


# Output schemas


def refuse_unchecked(session: Session, definition: Definition) -> None:
    """Before anything is sent: a strict client runs no tool whose result it could not check.

    Raises:
        InvalidResult: The schema the server listed cannot be used.
    """
    if definition.output_schema is None or session.settings.validate_output != "strict":
        return
    problem = definition.output_schema.checker().problem
    if problem is not None:
        text = f"the tool's outputSchema cannot be used: {problem}; nothing was sent, as validate_output is strict"
        raise InvalidResult("tools/list", text, request_sent=False)


def check_output(session: Session, definition: Definition, called: CallToolResult) -> None:
    """See that a result conforms to its tool's output schema. What a tool says of its own failure is exempt.

    Raises:
        InvalidResult: It does not, and `validate_output` is strict; else the log says so.
    """
    if definition.output_schema is None or called.is_error:
        return
    checker = definition.output_schema.checker()
    problem = checker.problem
    if problem is not None:
        problem = f"structuredContent is not checked, as the tool's outputSchema cannot be used: {problem}"
    else:
        problem = checker.violation(called)
    if problem is None:
        return
    if session.settings.validate_output == "strict":
        raise InvalidResult("tools/call", problem)
    _log.warning("tools/call at %s: %s", session.label, problem)


# The list, read again


async def _definition_anew(session: Session, name: str, deadline: float) -> Definition | None:
    """The definition of a tool as the server lists it now; None when it does not, or with annotations no call may have.

    Read once for all who ask at the same time; who looks for another tool than that reader may have to go further.
    """

    async def read(by: float) -> tuple[dict[str, Definition], bool]:
        return await _read_until(session, name, by)

    found: dict[str, Definition]
    try:
        while True:
            found, whole = await session.io.once(("definitions", session), read, deadline)
            if name in found or whole:
                return found.get(name)
    except Expired:
        text = f"tools/call at {session.label}: refused for its headers, and the tools were not listed again"
        raise RequestTimeout(f"{text} within the timeout", request_sent=True) from None
    except Closing:
        raise ConnectionClosed(f"tools/call at {session.label}: the client was closed", request_sent=True) from None


async def _read_until(session: Session, name: str, deadline: float) -> tuple[dict[str, Definition], bool]:
    """The definitions from the first page to the one with this tool, and whether that was the whole list."""
    found: dict[str, Definition] = {}

    async def fetch(cursor: str | None) -> Any:
        page, read = learn(session, await page_anew(session, TOOLS, cursor, deadline))
        found.update(read)
        return page

    pages = Pages(session, TOOLS.method.name, fetch)
    try:
        while (await pages.next()).name != name:
            pass
    except StopAsyncIteration:
        return found, True
    return found, False
