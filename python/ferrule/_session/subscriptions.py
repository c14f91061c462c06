"""A subscription, whatever brings its events: what was asked for, and a bounded queue for one reader.

Knows events and their order. Where they come from is the source's business: `changes` in the handshake era, `listens`
in the stateless one.
"""

from __future__ import annotations

from collections import deque

from .. import _log
from .._io import Expired
from ..errors import ConfigError, ConnectionClosed, RequestTimeout
from ..types.events import Honored, Missed, PromptsChanged, ResourcesChanged, ToolsChanged
from .arguments import check_text
from .settings import check_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from .._io.interface import Slot
    from ..types.events import Event
    from .arguments import Timeout
    from .session import Session

    class Source(Protocol):
        """What brings the events of a session's subscriptions."""

        async def open(self, subscription: Subscription, deadline: float, /) -> None:
            """Have the events come, or leave nothing behind; sets `honored` before the first."""

        async def close(self, subscription: Subscription, deadline: float, /) -> None:
            """Have them stop. Never raises."""

        async def wait(self, slot: Slot, deadline: float, /) -> bool:
            """Wait until the slot has mail or is done; False when the client was closed. Raises Expired."""


_ONCE_IS_ENOUGH = (ToolsChanged, PromptsChanged, ResourcesChanged)
"""Events that, while one of them waits, another adds nothing to."""


class Wanted:
    """What a caller wants to hear of, checked."""

    __slots__ = ("prompts", "resources", "task_ids", "tools", "uris")

    def __init__(
        self, tools: bool, prompts: bool, resources: bool, uris: Iterable[str], task_ids: Iterable[str]
    ) -> None:
        self.tools = bool(tools)
        self.prompts = bool(prompts)
        self.resources = bool(resources)
        self.uris = _texts(uris, "uris")
        self.task_ids = _texts(task_ids, "task_ids")
        if not (self.tools or self.prompts or self.resources or self.uris or self.task_ids):
            raise ConfigError("subscribe: nothing was asked for; give tools, prompts, resources, uris or task_ids")


def _texts(given: Iterable[str], where: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ConfigError(f"subscribe: {where} takes several, such as a list")
    texts = tuple(dict.fromkeys(given))
    for text in texts:
        check_text(text, where)
    return texts


class Subscription:
    """The events of one subscription, for one reader at a time.

    Attributes:
        wanted: What was asked for.
        honored: What the server agreed to.
        lost: How many events were dropped because the reader was too slow.
        reconnect: Does it go on after what brought its events was lost?
        session: The view of the client that it was made by.
    """

    __slots__ = (
        "__weakref__",
        "_events",
        "_failure",
        "_gap",
        "_most",
        "_over",
        "_reading",
        "_slot",
        "_source",
        "_timeout",
        "honored",
        "lost",
        "reconnect",
        "session",
        "wanted",
    )

    def __init__(self, session: Session, wanted: Wanted, timeout: Timeout, reconnect: bool) -> None:
        self.session = session
        self.reconnect = bool(reconnect)
        self._failure: Exception | None = None
        self._timeout = timeout
        self._source: Source | None = None
        self._slot: Slot = session.io.slot()
        self._events: deque[Event] = deque()
        self._most = session.settings.limits.max_queue
        self._gap = 0
        self._over = False
        self._reading = False
        self.lost = 0
        self.wanted = wanted
        self.honored = Honored()

    async def open(self) -> None:
        """Begin.

        Raises:
            CapabilityError: The server announces nothing of what was asked for.
            FerruleError: It could not be asked.
        """
        session = self.session
        session.enter()
        if self._source is not None or self._over:
            raise ConfigError("a subscription is used once; make another")
        deadline = session.deadline(self._timeout)
        link = await session.link_by(deadline, "subscribe")
        source: Source
        if link.era.handshake:
            from .changes import changes_of

            source = changes_of(session)
        else:
            from .listens import Listen

            source = Listen(self)
        await source.open(self, deadline)
        self._source = source

    # What sources call: none of these waits

    def offer(self, event: Event) -> None:
        """Queue an event; beyond `Limits.max_queue` it is counted as lost, and the reader told so at that place."""
        with self.session.io.mutex():
            if self._over or self._is_repeated(event):
                return
            fits = len(self._events) < self._most
            if fits:
                self._events.append(event)
            else:
                self._gap += 1
                self.lost += 1
            first = self._gap == 1 and not fits
        if first:
            _log.warning("subscription: the reader is %d events behind: some are dropped", self._most)
        self.wake()

    def _is_repeated(self, event: Event) -> bool:
        kind = type(event)
        if kind in _ONCE_IS_ENOUGH:
            return any(type(waiting) is kind for waiting in self._events)
        return kind is Missed and event in self._events

    def wake(self) -> None:
        """Have the reader look again."""
        if not self._slot.mail:
            self._slot.post(None)

    def belongs_to(self, session: Session) -> bool:
        """Was it made by this view of the client?"""
        return self.session is session

    def fail(self, failure: Exception) -> None:
        """As `end`; the reader is told why, after what waits."""
        self._failure = failure
        self.end()

    def end(self) -> None:
        """No further event; what waits is still read."""
        self._over = True
        self._slot.set(None)

    # What the reader calls

    async def next(self, deadline: float) -> Event:
        """The next event.

        Raises:
            StopAsyncIteration: There is none any more.
            FerruleError: Nor will there be, because of this; said once.
            Expired: There was none until the deadline.
        """
        session = self.session
        session.enter()
        source = self._source
        if source is None and not self._over:
            raise ConfigError("a subscription begins in a with block; enter it first")
        self._begin_reading()
        try:
            while True:
                self._slot.take_mail()
                event = self._take()
                if event is not None:
                    return event
                if self._over or source is None or not await source.wait(self._slot, deadline):
                    failure, self._failure = self._failure, None
                    raise failure or StopAsyncIteration
        finally:
            self._reading = False

    def _begin_reading(self) -> None:
        with self.session.io.mutex():
            busy = self._reading
            self._reading = True
        if busy:
            raise ConfigError("subscription: another task or thread waits for its next event already")

    def _take(self) -> Event | None:
        with self.session.io.mutex():
            if not self._events:
                return None
            event = self._events.popleft()
            if self._gap:
                self._events.append(Missed(count=self._gap))
                self._gap = 0
        return event

    async def next_within(self, timeout: float | None) -> Event:
        """As `next`, with errors for people."""
        seconds = check_timeout(timeout)
        io = self.session.io
        try:
            return await self.next(float("inf") if seconds is None else io.now() + seconds)
        except Expired:
            where = f"subscription at {self.session.label}"
            raise RequestTimeout(f"{where}: nothing changed within the timeout", request_sent=False) from None
        except StopAsyncIteration:
            raise ConnectionClosed("the subscription is over", request_sent=False) from None

    async def close(self) -> None:
        """End it and tell the server, within `Limits.cancel_timeout`. Idempotent; what was not read is lost."""
        self.session.enter()
        source = self._finish()
        if source is not None:
            await source.close(self, self.session.io.now() + self.session.settings.limits.cancel_timeout)

    def abandon(self) -> None:
        """End it for somebody in a hurry: the server is told in the background."""
        source = self._finish()
        if source is not None:
            io = self.session.io
            io.background(source.close(self, io.now() + self.session.settings.limits.cancel_timeout))

    def _finish(self) -> Source | None:
        source, self._source = self._source, None
        self._events.clear()
        self.end()
        return source
