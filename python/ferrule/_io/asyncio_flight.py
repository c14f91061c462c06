"""Tasks of the IO's own on an event loop: background work, and bodies of single flights that outlive their waiters.

Knows tasks and contexts. Who enters, leaves and takes over is in `asyncio`.
"""

from __future__ import annotations

import asyncio
from contextvars import Context

from . import INSIDE, Closing, log_failure
from .asyncio_connect import drop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
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


class Work:
    """A background task."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[Any] | None) -> None:
        self._task = task

    def cancel(self) -> None:
        """End it at its next await."""
        if self._task is not None:
            self._task.cancel()


def give_up(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Have them end; nobody waits for that."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(drop)


def log_end(task: asyncio.Task[Any]) -> None:
    """Say what background work failed with."""
    if not task.cancelled():
        error = task.exception()
        if error is not None and not isinstance(error, Closing):
            log_failure("background work", error)
