"""A tool call that first needs the user to visit a page: asked about, waited for, and made once more.

Specification: 2025-11-25, client/elicitation, URL Elicitation Required Error. The server refused the call before it did
anything, and the caller allowed the second one.
"""

from __future__ import annotations

import math

from .. import _log
from .._io import Closing, Expired
from ..errors import ConfigError, URLElicitationRequired
from .asking import elicit
from .reception import circumstances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from .._transports.call import Link
    from ..types import CallToolResult
    from .arguments import OnProgress, Timeout
    from .session import Session

_COMPLETE = "notifications/elicitation/complete"


async def call_tool(
    inner: Callable[..., Awaitable[CallToolResult]],
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
    """As `inner`, once more after the user has done what the server wants."""
    if session.settings.handlers.on_elicitation is None:
        raise ConfigError("retry_after_elicitation: needs on_elicitation, which asks the user")
    deadline = session.enter_until(timeout)
    last = math.inf if max_total is None else session.deadline(max_total)
    completed = _Completions(session)
    try:
        try:
            return await inner(
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
            )
        except URLElicitationRequired as error:
            if not (await _agreed(session, error, deadline) and await completed.all_of(error, min(deadline, last))):
                raise
        return await inner(
            session,
            name,
            arguments,
            _left(session, deadline),
            on_progress,
            reset_on_progress,
            _left(session, last),
            meta,
            idempotent,
            raise_on_error,
        )
    finally:
        completed.close()


def _left(session: Session, deadline: float) -> float | None:
    """Seconds until then, as a timeout: at least a moment, None for no end."""
    return None if deadline == math.inf else max(deadline - session.io.now(), 1e-6)


async def _agreed(session: Session, error: URLElicitationRequired, deadline: float) -> bool:
    """Does the user agree to visit each page? Asked one by one, as if the server had asked by request."""
    from ..types.elicitation import ElicitRequest

    link = session.link
    if link is None:
        return False
    for wire in error.elicitations:
        request = ElicitRequest.from_wire(wire, "elicitation/create")
        context = circumstances(session, link, "elicitation/create")
        context.deadline = None if deadline == math.inf else deadline
        try:
            answer = await elicit(session.io, session.settings.handlers.on_elicitation, request, context)
        except Exception as failure:
            _log.warning("%s from %s: the handler raised %s", context.method, session.label, type(failure).__name__)
            return False
        if answer["action"] != "accept":
            return False
    return True


class _Completions:
    """Listens for elicitations that the server says are complete; ids that nobody asked about are ignored."""

    __slots__ = ("_io", "_most", "_seen", "_session", "_slot", "_wanted")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._io = session.io
        self._most = session.settings.limits.max_queue
        self._slot = self._io.slot()
        # What is completed before the server's error was read counts, too.
        self._seen: set[str] = set()
        self._wanted: set[str] | None = None
        inbound = session.inbound
        with self._io.mutex():
            inbound.listeners = [*inbound.listeners, self]

    def __call__(self, method: str, params: dict[str, Any] | None, link: Link) -> None:
        elicitation_id = params.get("elicitationId") if method == _COMPLETE and params is not None else None
        if type(elicitation_id) is not str:
            return
        with self._io.mutex():
            if self._wanted is not None:
                self._wanted.discard(elicitation_id)
            elif len(self._seen) < self._most:
                self._seen.add(elicitation_id)
            over = self._wanted is not None and not self._wanted
        if over:
            self._slot.set(None)

    async def all_of(self, error: URLElicitationRequired, deadline: float) -> bool:
        """Wait until all that the error lists are complete; False when they are not in time."""
        ids = {wire["elicitationId"] for wire in error.elicitations}
        with self._io.mutex():
            wanted = self._wanted = ids - self._seen
        if not wanted:
            return True
        try:
            await self._io.wait(self._slot, deadline)
        except (Expired, Closing):
            return False
        return True

    def close(self) -> None:
        """Stop listening."""
        inbound = self._session.inbound
        with self._io.mutex():
            inbound.listeners = [listener for listener in inbound.listeners if listener is not self]
