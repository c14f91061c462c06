"""One run of a single-flight body on an event loop, in a task of its own that no waiter's end takes along.

Knows tasks and contexts. Who enters, leaves and takes over is in `asyncio`.
"""

from __future__ import annotations

import asyncio
from contextvars import Context

from .single_flight import INSIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .asyncio_slot import Slot


class Flight:
    """A running body, and who waits for it."""

    __slots__ = ("error", "task", "waiters")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, body: Callable[[float], Awaitable[Any]], deadline: float
    ) -> None:
        self.waiters: set[Slot] = set()
        self.error: BaseException | None = None
        # An empty context but for the bodies this one runs inside of.
        context = Context()
        context.run(INSIDE.set, (*INSIDE.get(), self))
        self.task: asyncio.Task[Any] = loop.create_task(_fly(body, deadline), context=context)
        self.task.add_done_callback(self._land)

    def _land(self, task: asyncio.Task[Any]) -> None:
        self.error = asyncio.CancelledError() if task.cancelled() else task.exception()
        for slot in self.waiters:
            slot.set(None)


async def _fly(body: Callable[[float], Awaitable[Any]], deadline: float) -> Any:
    return await body(deadline)
