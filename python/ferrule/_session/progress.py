"""Hand a call's progress notifications to the caller's handler.

Specification: basic/patterns/progress. Runs in the caller's own task or thread, between reads; knows no stream.
"""

from __future__ import annotations

from .. import _log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .._io.interface import IO
    from .._transports.call import Call

    Handler = Callable[[float, float | None, str | None], Any]


class Progress:
    """What a caller wants done with the progress of one call.

    Attributes:
        handler: Called with progress, total and message; awaited if it returns an awaitable. None: only the
            deadline is of interest.
        extend: Seconds by which each notification moves the deadline, None to leave it alone.
        latest: The deadline never moves beyond this.
    """

    __slots__ = ("extend", "handler", "latest")

    def __init__(self, handler: Handler | None, extend: float | None, latest: float) -> None:
        self.handler = handler
        self.extend = extend
        self.latest = latest

    def for_call(self, call: Call, io: IO) -> Callable[[list[Any]], Awaitable[None]]:
        """The function that delivers one attempt's notifications, in order."""
        highest: float | None = None
        went_back = False

        async def deliver(notifications: list[Any]) -> None:
            nonlocal highest, went_back
            for params in notifications:
                progress = params.get("progress")
                if not _number(progress):
                    continue
                if highest is not None and progress < highest and not went_back:
                    went_back = True
                    _log.warning("%s: progress went backwards", call.method.name)
                highest = progress if highest is None else max(highest, progress)
                if self.extend is not None:
                    call.deadline = min(self.latest, max(call.deadline, io.now() + self.extend))
                await self._tell(params, io)

        return deliver

    async def _tell(self, params: dict[str, Any], io: IO) -> None:
        if self.handler is None:
            return
        total = params.get("total")
        message = params.get("message")
        try:
            await io.call(
                self.handler,
                params["progress"],
                total if _number(total) else None,
                message if isinstance(message, str) else None,
            )
        except Exception as error:
            # The user's handler is the user's: what it raises must not fail the call (T6).
            _log.warning("the progress handler raised %s", type(error).__name__)


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
