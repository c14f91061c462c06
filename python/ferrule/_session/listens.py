"""Changes as a server of the stateless era announces them: one `subscriptions/listen` request for each subscription.

Specification: 2026-07-28, basic/patterns/subscriptions. Knows when a subscription is agreed to, what ends it, and when
a lost one is opened again. How the request travels is `_transports/listens`' business, the events' way to their reader
`subscriptions`'.

Only while something is being sent does the background work here hold the session or the subscription: one that its
owner forgot goes, and the client with it.
"""

from __future__ import annotations

import weakref

from .. import _log
from .._http.redirects import Trail
from .._io import Closing, Expired
from .._json import dumps
from .._protocol import methods
from .._transports.call import LinkLost
from .._transports.listens import Moved, listen, subscription_id
from ..errors import CapabilityError, ConnectionClosed, FerruleError, InvalidResult
from ..types.events import Missed
from .filters import declaring, event_of, filter_for, honored
from .pulse import Pulse
from .retry import Tries, passes
from .standing import standing_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._io.interface import Handle, Slot
    from .._transports.call import Call, Link
    from .._transports.interface import Way
    from .session import Session
    from .subscriptions import Subscription

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_CANCELLED = "notifications/cancelled"

_GOOD_LIFE = 10.0
"""Seconds after which the loss of a stream is taken for one of its own: the pauses begin anew."""
_PATIENCE = 30.0
"""Seconds that one attempt to open a lost subscription again may take."""
_GRACEFUL: dict[str, Any] = {"result": {}}
"""What a subscription ends with that its server cancelled: as if it had answered."""


class Listens:
    """The subscriptions of one session, and the listen requests that are under way for them, by id."""

    __slots__ = ("_mutex", "_under_way", "members")

    def __init__(self, mutex: Any) -> None:
        self._mutex = mutex
        self._under_way: dict[int, Listen] = {}
        self.members: tuple[Listen, ...] = ()

    def join(self, member: Listen) -> None:
        """A subscription begins."""
        with self._mutex:
            self.members = (*self.members, member)

    def part(self, member: Listen) -> bool:
        """A subscription is over. False: it was before."""
        with self._mutex:
            known = member in self.members
            self.members = tuple(one for one in self.members if one is not member)
        return known

    def enter(self, call_id: int, member: Listen) -> None:
        """What is tagged with this id is for this subscription."""
        with self._mutex:
            self._under_way[call_id] = member

    def forget(self, call_id: int) -> None:
        """Nothing is any more."""
        with self._mutex:
            self._under_way.pop(call_id, None)

    def heard(self, method: str, params: dict[str, Any] | None) -> None:
        """Give a notification to the subscription it belongs to. Neither raises nor waits."""
        if method == _CANCELLED:
            named = params.get("requestId") if params is not None else None
        else:
            named = subscription_id(params)
        if type(named) is str and named.isdecimal() and named.isascii() and len(named) < 20:
            named = int(named)  # some servers give the integer back as a string
        found = self._under_way.get(named) if type(named) is int else None
        if found is not None:
            found.heard(method, params or {})

    def end(self, session: Session) -> None:
        """A view is closed, or with the client's own view everything."""
        for member in self.members:
            member.end(session)


def listens_of(session: Session) -> Listens:
    """The subscriptions of a session of the stateless era."""
    standing = standing_of(session)
    with session.io.mutex():
        if standing.listens is None:
            standing.listens = Listens(session.io.mutex())
        return standing.listens


class Listen:
    """One subscription, kept open by one listen request after another. See `subscriptions.Source`."""

    __slots__ = (
        "__weakref__",
        "_agreed",
        "_began",
        "_handle",
        "_honors",
        "_io",
        "_is_over",
        "_label",
        "_listens",
        "_losses",
        "_pulse",
        "_session",
        "_slot",
        "_subscription",
        "_under_way",
        "_wanted",
    )

    def __init__(self, subscription: Subscription) -> None:
        session = subscription.session
        self._io = session.io
        self._label = session.label
        self._session = weakref.ref(session)
        self._subscription = weakref.ref(subscription, self._let_go)
        self._wanted = subscription.wanted
        self._listens = listens_of(session)
        self._pulse = Pulse()
        self._agreed = False
        """Was the request that is under way acknowledged?"""
        self._honors = False
        """And did the server agree to anything?"""
        self._slot: Slot = self._io.slot()
        self._under_way: tuple[Way, Call, Link] | None = None
        self._handle: Handle | None = None
        self._is_over = False
        self._began = 0.0
        self._losses = 0

    # Beginning and end, as the subscription's owner sees them

    async def open(self, subscription: Subscription, deadline: float) -> None:
        """See `subscriptions.Source`."""
        standing_of(subscription.session).attend()
        self._listens.join(self)
        try:
            await self._establish(subscription, deadline)
            self._keep_on()
        except BaseException:
            self._give_up()
            raise

    def _keep_on(self) -> None:
        try:
            self._handle = self._io.background(self._keep())
        except (Closing, RuntimeError) as error:
            problem = "the client was closed" if isinstance(error, Closing) else "no thread can be had for it"
            raise ConnectionClosed(f"subscribe at {self._label}: {problem}", request_sent=True) from None
        if self._is_over:
            self._handle.cancel()

    async def close(self, subscription: Subscription, deadline: float) -> None:
        """See `subscriptions.Source`."""
        if self._is_ours(subscription.session):
            way = self._finish()
            if way is not None:
                await way.close(deadline)

    async def wait(self, slot: Slot, deadline: float) -> bool:
        """See `subscriptions.Source`. What brings the events is read in the background."""
        subscription = self._subscription()
        if subscription is None or not self._is_ours(subscription.session):
            return False
        try:
            await subscription.session.io.wait(slot, deadline)
        except Closing:
            return False
        return not subscription.session.peer.closed or slot.mail

    def _is_ours(self, session: Session) -> bool:
        """False after a fork: the streams are the parent's."""
        standing = session.standing
        return standing is not None and standing.listens is self._listens

    def end(self, session: Session) -> None:
        """A view is closed, or with the client's own view everything."""
        subscription = self._subscription()
        if subscription is None or not (session.root is None or subscription.belongs_to(session)):
            return
        subscription.end()
        self._give_up()

    def _let_go(self, _: object) -> None:
        self._io.let_go(self._give_up)

    def _give_up(self) -> None:
        """End it without waiting: the server is told in the background."""
        way = self._finish()
        if way is not None:
            way.leave()

    def _finish(self) -> Way | None:
        """Nothing more is read or sent. Gives what is still to be left."""
        with self._io.mutex():
            self._is_over = True
            under_way, self._under_way = self._under_way, None
        if self._handle is not None:
            self._handle.cancel()
        self._retire()
        return None if under_way is None else under_way[0]

    def _retire(self) -> None:
        self._is_over = True
        session = self._session()
        standing = session.standing if session is not None else None
        # After a fork the session has another, or none.
        if self._listens.part(self) and standing is not None and standing.listens is self._listens:
            standing.leave()

    # One request

    async def _establish(self, subscription: Subscription, deadline: float) -> None:
        """Send listen requests until one is acknowledged."""
        session = subscription.session
        params = dumps({"notifications": filter_for(subscription.wanted)}, "params")
        trail = Trail(session.settings.limits.max_redirects)
        tries = Tries()
        is_second = False
        while True:
            call: Call | None = None
            link: Link = session.link  # type: ignore[assignment]
            try:
                link = link or await session.link_by(deadline, "subscriptions/listen")
                call = session._call(
                    methods.SUBSCRIPTIONS_LISTEN, None, params, None, deadline, None, link, declaring(self._wanted)
                )
                call.bypass = True
                return await self._send(session, call, link, trail)
            except Moved:
                assert call is not None  # it went out
                deadline = max(deadline, call.deadline)
                continue
            except LinkLost:
                session.drop(link)
                if not is_second:
                    is_second = True
                    continue
                problem: Exception = session._lost_again("subscriptions/listen")
            except (Expired, Closing, FerruleError) as failure:
                problem = failure
            await session._weigh(problem, methods.SUBSCRIPTIONS_LISTEN, call, link, True, deadline, tries)

    async def _send(self, session: Session, call: Call, link: Link, trail: Trail) -> None:
        """Send one listen request and wait until it is acknowledged."""
        slot = self._slot = self._io.slot()
        self._agreed = False
        self._pulse = Pulse()
        self._listens.enter(call.id, self)
        way: Way | None = None
        try:
            way = await listen(session.transport, call, link, slot, self._session, self._on_comment)
            while not (self._agreed or slot.done):
                await way.wait(slot, call.deadline)
                slot.take_mail()
            if not self._agreed:
                session._result(await way.answer(session.transport, trail), call, link)
                raise ConnectionClosed(f"{call.method.name} at {self._label}: over before it began", request_sent=True)
            if not self._honors:
                raise CapabilityError(f"subscribe: {self._label} agreed to announce none of this", request_sent=True)
            with self._io.mutex():
                if not self._is_over:
                    self._under_way = way, call, link
            if self._under_way is None:
                raise Closing
        except BaseException:
            self._let_be(way, call)
            raise
        self._began = self._io.now()

    # What the server says: neither raises nor waits

    def heard(self, method: str, params: dict[str, Any]) -> None:
        """Take a notification that belongs to this subscription."""
        subscription = self._subscription()
        if subscription is None:
            return
        self._pulse.beat(self._io.now())
        try:
            if method == _ACKNOWLEDGED:
                self._acknowledged(subscription, params)
            elif method == _CANCELLED:
                self._slot.set(_GRACEFUL)
            elif (event := event_of(method, params, self._wanted)) is not None:
                subscription.offer(event)
        except InvalidResult as error:
            if method == _ACKNOWLEDGED:
                self._slot.fail(error)
            else:
                _log.warning("%s from %s: not in the schema's shape, dropped", method, self._label)

    def _acknowledged(self, subscription: Subscription, params: dict[str, Any]) -> None:
        if self._agreed:
            return
        agreed = honored(params.get("notifications"), self._wanted)
        if self._losses:
            standing = subscription.session.standing
            if standing is not None:
                standing.missed(agreed)
        subscription.honored = agreed
        self._honors = bool(agreed)
        if self._losses:
            subscription.offer(Missed())
        self._agreed = True
        self._slot.post(None)

    def _on_comment(self) -> None:
        was = self._pulse.due
        self._pulse.comment(self._io.now())
        if self._pulse.due < was:
            self._slot.post(None)  # whoever waits has to wait less long

    # Keeping it open

    async def _keep(self) -> None:
        try:
            pause = await self._read_on()
            while pause is not None:
                # Nothing is held meanwhile, not even the error that says why.
                await self._io.sleep(pause)
                pause = await self._open_again()
        except Closing:
            raise
        except Exception as error:  # the user's function for a token, or for `_meta`, may fail in any way
            self._fail(error)

    async def _read_on(self) -> float | None:
        """Read what comes until it is over. Gives the seconds until it is opened again, None when it is not to be."""
        under_way = self._under_way
        if under_way is None:
            return None
        way, call, link = under_way
        slot = self._slot
        try:
            while not slot.done:
                await self._listen(way, slot)
            session = self._session()
            if session is not None:
                session._result(await way.answer(session.transport, Trail(0)), call, link)
                self._end_gracefully()
            return None
        except FerruleError as failure:
            return self._lost(failure)
        finally:
            self._let_be(way, call)

    def _let_be(self, way: Way | None, call: Call) -> None:
        """A request is over: nothing more is heard of it, and nothing of it held, such as the error it ended with."""
        self._listens.forget(call.id)
        self._slot = self._io.slot()
        with self._io.mutex():
            self._under_way = None
        if way is not None:
            way.leave()

    async def _listen(self, way: Way, slot: Slot) -> None:
        try:
            await way.wait(slot, self._pulse.due)
        except Expired:
            if self._io.now() >= self._pulse.due:
                text = f"subscription at {self._label}: nothing came for three of its keep-alive intervals"
                raise ConnectionClosed(text, request_sent=True) from None
        slot.take_mail()

    def _lost(self, failure: FerruleError) -> float | None:
        """It ended without a word of farewell."""
        session, subscription = self._session(), self._subscription()
        if self._is_over or session is None or subscription is None or session.peer.closed:
            return None
        if not subscription.reconnect:
            self._fail(failure)
            return None
        self._losses = 1 if self._io.now() - self._began > _GOOD_LIFE else self._losses + 1
        if self._losses == 1:
            _log.warning("subscription: %s was lost (%s); it is opened again", self._label, type(failure).__name__)
        return self._pause(session, failure)

    def _pause(self, session: Session, failure: FerruleError) -> float:
        import random

        settings = session.settings
        seconds: float = settings.retry.delay(self._losses, random.random())
        asked: float = min(getattr(failure, "retry_after", None) or 0.0, settings.limits.max_retry_after)
        return max(seconds, asked)

    async def _open_again(self) -> float | None:
        """Have it open again, and read on. Returns as `_read_on`."""
        subscription = self._subscription()
        if subscription is None or self._is_over:
            return None
        try:
            await self._establish(subscription, self._io.now() + _PATIENCE)
        except FerruleError as failure:
            if self._is_over or subscription.session.peer.closed:
                return None
            if not passes(failure):
                self._fail(failure)
                return None
            self._losses += 1
            return self._pause(subscription.session, failure)
        finally:
            del subscription
        return await self._read_on()

    def _end_gracefully(self) -> None:
        subscription = self._subscription()
        if subscription is not None:
            subscription.end()
        self._retire()

    def _fail(self, error: Exception) -> None:
        subscription = self._subscription()
        if subscription is not None:
            subscription.fail(error)
        self._retire()
