"""What a task needs of its era: who asks for it, and what arrives for it while nobody asks.

Knows no messages.
"""

from __future__ import annotations

from .progress import Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, Protocol

    from .._io.interface import IO, Slot
    from .._transports.call import Call, SpecialCall
    from ..types.tasks import TaskInfo

    class Source(Protocol):
        """The wire of one era's tasks.

        Attributes:
            method: What gives the result of a call, for texts.
        """

        method: str

        async def get(self, task_id: str, deadline: float, /) -> TaskInfo: ...
        async def payload(self, info: TaskInfo, deadline: float, /) -> dict[str, Any]:
            """What the call gave: of a task that is over, or for whose input the server asks by itself."""

        async def answer(self, info: TaskInfo, deadline: float, /) -> float | None:
            """Answer what the task asks; the deadline from now on. None where the server asks by itself."""

        async def update(self, task_id: str, responses: Mapping[str, Any], deadline: float, /) -> None: ...
        async def cancel(self, task_id: str, deadline: float, /) -> TaskInfo | None: ...
        async def wait(self, slot: Slot, deadline: float, /) -> None: ...
        def ends(self, info: TaskInfo, /) -> float:
            """When the server may have forgotten the task."""


class Mail:
    """What arrives for one task while nobody asks: progress of its call as it came, and `TaskInfo`s."""

    __slots__ = ("__weakref__", "_most", "slot")

    def __init__(self, io: IO, most: int) -> None:
        self.slot: Slot = io.slot()
        self._most = most

    def post(self, info: TaskInfo) -> None:
        """Leave a status; beyond `Limits.max_queue` it is dropped, as the next look brings a newer one."""
        if self.slot.backlog() < self._most:
            self.slot.post(info)


class TaskProgress(Progress):
    """Progress that goes on after the call it belongs to (Task Progress Notifications)."""

    __slots__ = ("call", "deliver")

    call: SpecialCall
    """Known to the session's inbound side for as long as this is held."""
    deliver: Callable[[list[Any]], Awaitable[None]]

    def for_call(self, call: Call, io: IO) -> Callable[[list[Any]], Awaitable[None]]:
        """As for any call."""
        self.call = call  # type: ignore[assignment]
        self.deliver = super().for_call(call, io)
        return self.deliver
