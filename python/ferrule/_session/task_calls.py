"""Tool calls that may become tasks where the server wants that: `call_tool(..., tasks=True)`.

Knows which way such a call goes; the ways are `features`' and `tasks`'.
"""

from __future__ import annotations

from .._protocol.declared import declares
from . import features
from .arguments import hoist_meta
from .tasks import call_as_task, may_be_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..types import CallToolResult, Resume
    from .arguments import OnProgress, Timeout
    from .session import Session


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
    resume: Resume | None,
) -> CallToolResult:
    """As `features.call_tool`; a call that becomes a task is followed to its end."""
    deadline = session.enter_until(timeout)
    arguments, meta = hoist_meta(arguments, meta)
    link = await session.link_by(deadline, "tools/call")
    by_extension = not link.era.handshake
    if by_extension or (declares(link.capabilities, "tasks.requests.tools.call") and may_be_task(session, name)):
        wishes = (on_progress, reset_on_progress, timeout, max_total)
        return await call_as_task(session, name, arguments, deadline, wishes, meta, idempotent, raise_on_error, resume)
    return await features.call_tool(
        session,
        name,
        arguments,
        timeout,
        on_progress,
        reset_on_progress,
        max_total,
        meta,
        idempotent,
        raise_on_error,
        resume,
    )
