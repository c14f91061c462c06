"""Notifications on their way to the user's handlers: in order for each stream, and none waits for another stream's.

A lane is the queue of one stream. It exists while something is in it, and one worker at a time takes from it. What a
notification means is `reception`'s business.
"""

from __future__ import annotations

from collections import deque

from .. import _log
from .replies import begin_work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable
    from typing import Any

    from .._io.interface import IO
    from ..limits import Limits


class Lane:
    """What waits of one stream.

    Attributes:
        items: The notifications, the oldest first.
        lost: How many found no room since it was last empty.
    """

    __slots__ = ("items", "key", "lost")

    def __init__(self, key: Hashable) -> None:
        self.key = key
        self.items: deque[Any] = deque()
        self.lost = 0


class Lanes:
    """The lanes of one client.

    Args:
        io: Runs the workers: at most `Limits.max_handlers` of them, made when there is something to do.
        limits: `max_queue` for each lane; there are as many lanes as there can be streams.
        deliver: Has one notification handled; must not raise.
        label: The server, for texts.
    """

    __slots__ = ("_deliver", "_io", "_label", "_lanes", "_limits", "_lost", "_most", "_ready", "_until", "_workers")

    def __init__(self, io: IO, limits: Limits, deliver: Callable[[Any], Awaitable[None]], label: str) -> None:
        self._io = io
        self._limits = limits
        self._deliver = deliver
        self._label = label
        self._most = limits.max_connections + limits.max_handlers
        self._lanes: dict[Hashable, Lane] = {}
        self._ready: deque[Lane] = deque()
        self._workers = 0
        self._lost = 0
        self._until = float("inf")

    def put(self, key: Hashable, item: Any) -> None:
        """Add to the end of a lane. Neither raises nor waits."""
        with self._io.mutex():
            lane = self._lanes.get(key)
            fresh = lane is None and len(self._lanes) < self._most
            if fresh:
                lane = self._lanes[key] = Lane(key)
                self._ready.append(lane)
            room = lane is not None and len(lane.items) < self._limits.max_queue
            first = False
            if lane is not None and room:
                lane.items.append(item)
            elif lane is not None:
                lane.lost += 1
                first = lane.lost == 1
            else:
                self._lost += 1
                first = self._lost == 1
            begin = fresh and self._workers < self._limits.max_handlers
            self._workers += begin
        if first:
            _log.warning(
                "%s: the handlers are too slow: %d notifications wait and further ones are lost",
                self._label,
                self._limits.max_queue,
            )
        if begin:
            self._begin()

    def _begin(self) -> None:
        if begin_work(self._io, self._work()) is None:
            with self._io.mutex():
                self._workers -= 1

    async def _work(self) -> None:
        lane: Lane | None = None
        try:
            while (lane := self._turn(lane)) is not None:
                await self._deliver(lane.items.popleft())
        finally:
            self._leave(lane)

    def _turn(self, lane: Lane | None) -> Lane | None:
        """The lane to take from next: lanes that wait come first, so that a busy one keeps none of them waiting."""
        emptied: list[Lane] = []
        with self._io.mutex():
            if lane is not None:
                self._ready.append(lane)
            found = None
            while found is None and self._ready:
                lane = self._ready.popleft()
                if lane.items and self._io.now() < self._until:
                    found = lane
                else:
                    del self._lanes[lane.key]
                    lane.lost += len(lane.items)
                    emptied.append(lane)
            lost = sum(lane.lost for lane in emptied)
            if not self._lanes:
                lost, self._lost = lost + self._lost, 0
        if lost:
            _log.warning("%s: %d notifications were lost", self._label, lost)
        return found

    def _leave(self, lane: Lane | None) -> None:
        """A worker ends; one that was interrupted leaves its lane to another."""
        with self._io.mutex():
            if lane is not None:
                self._ready.append(lane)
            begin = bool(self._ready)
            self._workers -= not begin
        if begin:
            self._begin()

    def close(self, deadline: float) -> None:
        """Deliver what came, but nothing after the deadline."""
        self._until = deadline
