"""Changes as a server of the handshake era announces them: notifications, and requests to watch a resource.

Specification: 2025-11-25, server/resources (Subscriptions), server/tools, server/prompts. Knows which resources are
watched for how many subscriptions; the events' way to their reader is `subscriptions`' business.
"""

from __future__ import annotations

from .. import _log
from .._io import Closing, Expired
from .._json import dumps
from .._protocol import methods
from .._protocol.declared import declares
from .._transports.call import LinkLost
from ..errors import CapabilityError, ConnectionClosed, FerruleError, InvalidResult, RequestTimeout
from ..types.events import (
    LISTS,
    UPDATED,
    Honored,
    Missed,
    ResourceUpdated,
    TaskChanged,
)
from ..types.tasks import TaskInfo
from .retry import passes
from .standing import standing_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._io.interface import Slot
    from .._transports.call import Link
    from ..types.events import Event
    from .session import Session
    from .standing import Standing
    from .subscriptions import Subscription, Wanted

TASK_STATUS = "notifications/tasks/status"


def changes_of(session: Session) -> Changes:
    """The one source of a session's subscriptions."""
    standing = standing_of(session)
    with session.io.mutex():
        if standing.changes is None:
            standing.changes = Changes(standing)
        return standing.changes


def honored(capabilities: dict[str, Any] | None, wanted: Wanted) -> Honored:
    """What of the wishes the server declared that it can do."""
    return Honored(
        tools=wanted.tools and declares(capabilities, "tools.listChanged"),
        prompts=wanted.prompts and declares(capabilities, "prompts.listChanged"),
        resources=wanted.resources and declares(capabilities, "resources.listChanged"),
        uris=wanted.uris if declares(capabilities, "resources.subscribe") else (),
        task_ids=wanted.task_ids if declares(capabilities, "tasks") else (),
    )


_GOOD_LIFE = 10.0
"""Seconds after which the loss of a link is taken for one of its own, and the next is opened at once."""


class Changes:
    """The subscriptions of one session, and the resources it watches for them. See `subscriptions.Source`."""

    __slots__ = ("_agreed", "_counts", "_standing", "_subscriptions")

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        self._subscriptions: tuple[Subscription, ...] = ()
        self._counts: dict[str, int] = {}
        """How many subscriptions want each resource."""
        self._agreed: set[str] = set()
        """The resources that the server was asked to watch."""

    @property
    def _session(self) -> Session:
        return self._standing.session

    # The life of one subscription

    async def open(self, subscription: Subscription, deadline: float) -> None:
        """See `subscriptions.Source`."""
        session = self._session
        link = await session.link_by(deadline, "subscribe")
        agreed = honored(link.capabilities, subscription.wanted)
        if not agreed:
            raise CapabilityError(
                f"subscribe: {session.label} did not declare that it announces any of this; nothing was sent"
            )
        subscription.honored = agreed
        self._standing.attend()
        with session.io.mutex():
            self._subscriptions = (*self._subscriptions, subscription)
            for uri in agreed.uris:
                self._counts[uri] = self._counts.get(uri, 0) + 1
        try:
            await session.listen(deadline)
            for uri in agreed.uris:
                await self._settle(uri, deadline)
        except BaseException as failure:
            session.io.background(self.close(subscription, session.io.now() + session.settings.limits.cancel_timeout))
            if isinstance(failure, (Expired, Closing)):
                raise self._interrupted(failure) from None
            raise

    def _interrupted(self, signal: Exception) -> FerruleError:
        where = f"subscribe at {self._session.label}"
        if isinstance(signal, Closing):
            return ConnectionClosed(f"{where}: the client was closed", request_sent=True)
        return RequestTimeout(f"{where}: not agreed within the timeout", request_sent=True)

    async def close(self, subscription: Subscription, deadline: float) -> None:
        """See `subscriptions.Source`."""
        session = self._session
        with session.io.mutex():
            known = subscription in self._subscriptions
            if known:
                self._subscriptions = tuple(one for one in self._subscriptions if one is not subscription)
                for uri in subscription.honored.uris:
                    self._counts[uri] -= 1
                    if not self._counts[uri]:
                        del self._counts[uri]
        if not known:
            return
        self._standing.leave()
        for uri in subscription.honored.uris:
            if session.peer.closed or session.link is None or session.standing is not self._standing:
                return
            try:
                await self._settle(uri, deadline)
            except (FerruleError, Expired, Closing) as error:
                _log.debug("resources/unsubscribe failed: %s", type(error).__name__)

    async def _settle(self, uri: str, deadline: float) -> None:
        """Bring what the server watches in line with what is wanted; one request at a time for each resource."""
        while (uri in self._counts) != (uri in self._agreed):
            await self._session.io.once((self, uri), lambda by: self._ask(uri, by), deadline)

    async def _ask(self, uri: str, deadline: float) -> None:
        params = dumps({"uri": uri}, "params")
        if uri in self._counts:
            await self._session.perform(methods.RESOURCES_SUBSCRIBE, params, deadline)
            self._note(uri, True)
        else:
            # Forgotten first: whether or not the server agrees, nobody wants it any more.
            self._note(uri, False)
            await self._session.perform(methods.RESOURCES_UNSUBSCRIBE, params, deadline)

    def _note(self, uri: str, agreed: bool) -> None:
        with self._session.io.mutex():
            if agreed:
                self._agreed.add(uri)
            else:
                self._agreed.discard(uri)

    # What comes from the server

    def heard(self, method: str, params: dict[str, Any] | None) -> None:
        """Give a notification to the subscriptions that asked for it."""
        subscriptions = self._subscriptions
        if not subscriptions:
            return
        try:
            if method in LISTS:
                member, kind = LISTS[method]
                event: Event = kind.from_wire(params or {})
                takers = [one for one in subscriptions if getattr(one.honored, member)]
            elif method == UPDATED:
                event = ResourceUpdated.from_wire(params)
                takers = [one for one in subscriptions if _is_about(event.uri, one.honored.uris)]
            elif method == TASK_STATUS:
                event = TaskChanged(task=TaskInfo.from_wire(params))
                takers = [one for one in subscriptions if event.task.task_id in one.honored.task_ids]
            else:
                return
        except InvalidResult:
            _log.warning("%s from %s: not in the schema's shape, dropped", method, self._session.label)
            return
        for subscription in takers:
            subscription.offer(event)

    def lost(self) -> None:
        """The link is gone: readers that wait for it look after it."""
        for subscription in self._subscriptions:
            if subscription.reconnect:
                subscription.wake()
            else:
                subscription.fail(_gone(self._session))

    def end(self, session: Session) -> None:
        """A view is closed, or with the client's own view everything."""
        for subscription in self._subscriptions:
            if session.root is None or subscription.belongs_to(session):
                subscription.end()

    # Waiting

    async def wait(self, slot: Slot, deadline: float) -> bool:
        """See `subscriptions.Source`. A link that was lost is opened anew, as patiently as it takes."""
        session = self._session
        attempt = losses = 0
        while not (slot.done or slot.mail):
            if session.peer.closed or session.standing is not self._standing:
                return False  # the latter: after a fork the session is the parent's
            try:
                link = session.link or await session.ready(min(deadline, session.deadline()))
                attempt, began = 0, session.io.now()
                await session.transport.wait(slot, link, deadline)
            except LinkLost:
                session.drop(link)
                losses = 1 if session.io.now() - began > _GOOD_LIFE else losses + 1
                if losses > 1:
                    await self._pause(_lost(session), losses, slot, deadline)
            except Closing:
                return False
            except Expired:
                if session.io.now() >= deadline:
                    raise
            except FerruleError as error:
                if not passes(error):
                    raise
                attempt += 1
                await self._pause(error, attempt, slot, deadline)
        return True

    async def _pause(self, error: FerruleError, attempt: int, slot: Slot, deadline: float) -> None:
        import random

        session = self._session
        if attempt == 1 and not session.peer.closed:
            _log.warning("subscription: %s cannot be reached (%s); trying again", session.label, type(error).__name__)
        seconds = session.settings.retry.delay(attempt, random.random())
        seconds = max(seconds, getattr(error, "retry_after", None) or 0.0)
        try:
            await session.io.wait(slot, min(deadline, session.io.now() + seconds))
        except (Expired, Closing):
            if session.io.now() >= deadline:
                raise Expired from None

    # A session that replaces another

    async def renew(self, link: Link, deadline: float) -> None:
        """Have the new session watch what the old one did, and say that something may have been missed."""
        with self._session.io.mutex():
            self._agreed = set()
            wanted = list(self._counts)
        for uri in wanted:
            if await self._standing.try_to_ask(methods.RESOURCES_SUBSCRIBE, {"uri": uri}, link, deadline):
                self._note(uri, True)
        for subscription in self._subscriptions:
            subscription.offer(Missed())


def _is_about(updated: str, watched: tuple[str, ...]) -> bool:
    """Is the resource one that is watched, or a part of one?"""
    return any(updated == uri or (updated.startswith(uri) and _goes_on(updated, uri)) for uri in watched)


def _goes_on(updated: str, uri: str) -> bool:
    return uri.endswith("/") or updated[len(uri)] in "/?#"


def _gone(session: Session) -> ConnectionClosed:
    return ConnectionClosed(f"subscription at {session.label}: the session or the child was lost", request_sent=True)


def _lost(session: Session) -> ConnectionClosed:
    return ConnectionClosed(f"{session.label}: lost again as soon as it was there", request_sent=False)
