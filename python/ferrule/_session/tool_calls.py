"""Tool calls that are not plain: whose results are checked by a schema, that run as tasks, or whose caller wants more.

Knows which way such a call goes, and what becomes of its result; its requests are `calling`'s business.
"""

from __future__ import annotations

from .._json import dumps
from .._protocol import methods
from ..errors import ToolError
from .arguments import check_text, hoist_meta, progress_for
from .calling import ToolCall
from .definitions import Definition, definition_of
from .output_schemas import check_output, refuse_unchecked
from .results import called_tool
from .special import Special

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..types import CallToolResult, Resume
    from .arguments import OnProgress, Timeout
    from .session import Session

    Wishes = tuple[OnProgress | None, bool, Timeout, float | None]
    """Progress handler, whether progress moves the deadline, timeout, `max_total`: as the caller gave them."""


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
    *,
    tasks: bool = False,
    resume: Resume | None = None,
) -> CallToolResult:
    """As `features.call_tool`; follows a call that becomes a task to its end, goes on with one that ended earlier."""
    deadline = session.enter_until(timeout)
    check_text(name, "name")
    arguments, meta = hoist_meta(arguments, meta)
    wishes = (on_progress, reset_on_progress, timeout, max_total)
    definition = definition_of(session, name)
    return await call_special(
        session, definition, name, arguments, deadline, wishes, meta, idempotent, raise_on_error, tasks, resume
    )


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
    tasks: bool = False,
    resume: Resume | None = None,
) -> CallToolResult:
    """Call a tool whose definition, or caller, asks for something."""
    refuse_unchecked(session, definition)
    as_task = definition.task_support == "required" and resume is None
    if as_task or (tasks and await _may_be_task(session, name, deadline)):
        from .tasks import call_as_task

        return await call_as_task(session, name, arguments, deadline, wishes, meta, idempotent, raise_on_error, resume)
    params = dumps({"name": name, "arguments": arguments}, "params")
    handler, reset, timeout, max_total = wishes
    progress = None
    if handler is not None or reset:
        progress = progress_for(session, handler, reset, timeout, max_total)
    if max_total is not None:
        deadline = min(deadline, session.deadline(max_total))
    call = ToolCall(session, name, params, deadline, meta, progress, idempotent, definition)
    return finished(session, call, await call.result(resume), raise_on_error)


async def _may_be_task(session: Session, name: str, deadline: float) -> bool:
    """Can this call become a task: at the server's wish (stateless era), or as its tool was listed (handshake era)?"""
    link = await session.link_by(deadline, methods.TOOLS_CALL.name)
    if not link.era.handshake:
        return True
    from .tasks import task_support

    return task_support(session, name) in ("optional", "required")


def finished(session: Session, call: ToolCall, result: dict[str, Any], raise_on_error: bool) -> CallToolResult:
    """The result of a call as a value, checked by the definition the call went out under."""
    called = called_tool(session, result)
    check_output(session, call.definition, called)
    if raise_on_error and getattr(called, "is_error", False):
        raise ToolError(called, name=call.name, server=session.label)
    return called


def special_request(special: Mapping[str, Definition], params: Mapping[str, Any]) -> Special | None:
    """What sets a `tools/call` apart whose parameters the caller wrote; None for nothing."""
    name, arguments = params.get("name"), params.get("arguments")
    definition = special.get(name) if isinstance(name, str) else None
    if definition is None or definition.param_headers is None or not isinstance(arguments, dict):
        return None
    headers = definition.param_headers.headers(arguments)
    return Special(headers=headers) if headers else None
