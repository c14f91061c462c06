"""Hand a call's progress notifications to the caller's handler.

Specification: basic/patterns/progress. Runs in the caller's own task or thread, between reads; knows no stream.
"""

from __future__ import annotations

import math

from .. import _log
from .._http.bypass import IN_HANDLER

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
        reached: Where it was moved to last; 0 before that.
    """

    __slots__ = ("extend", "handler", "latest", "reached")

    def __init__(self, handler: Handler | None, extend: float | None, latest: float) -> None:
        self.handler = handler
        self.extend = extend
        self.latest = latest
        self.reached = 0.0

    def for_call(self, call: Call, io: IO) -> Callable[[list[Any]], Awaitable[None]]:
        """The function that delivers one attempt's notifications, in order."""
        highest = -math.inf
        went_back = False
        handler = self.handler

        async def deliver(notifications: list[Any]) -> None:
            nonlocal highest, went_back
            calls = []
            for params in notifications:
                progress = params.get("progress")
                # Exact types: JSON gives no others, and a bool is no number.
                if type(progress) not in _NUMBERS:
                    continue
                if progress > highest:
                    highest = progress
                elif progress < highest and not went_back:
                    went_back = True
                    _log.warning("%s: progress went backwards", call.method.name)
                total = params.get("total")
                message = params.get("message")
                calls.append(
                    (
                        progress,
                        total if type(total) in _NUMBERS else None,
                        message if type(message) is str else None,
                    )
                )
            if calls and self.extend is not None:
                call.deadline = self.reached = min(self.latest, max(call.deadline, io.now() + self.extend))
            if handler is not None:
                token = IN_HANDLER.set(True)
                try:
                    await io.call_each(handler, calls, _report)
                finally:
                    IN_HANDLER.reset(token)

        return deliver


_NUMBERS = (int, float)


def _report(error: Exception) -> None:
    """The user's handler is the user's: what it raises must not fail the call (T6)."""
    _log.warning("the progress handler raised %s", type(error).__name__)
