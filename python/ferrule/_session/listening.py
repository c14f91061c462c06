"""The stream that a session keeps open for what the server sends unasked, and how it is kept.

Specification: 2025-11-25, basic/transports, Listening for Messages from the Server. Knows when a lost stream is
opened again and when none is offered; what comes on it is the inbound side's business.

Nothing here holds the session: a client that is dropped unclosed goes, and its streams with it.
"""

from __future__ import annotations

import weakref

from .. import _log
from .._http.content import retry_after
from .._http.redirects import STATUSES as REDIRECTS
from .._http.redirects import Trail
from .._io import Closing, Expired
from .._protocol import refusals
from .._transports.streams import Cursor, Forward, StreamExchange
from ..errors import FerruleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._core import ResponseHead
    from .._io.interface import Handle, Slot
    from .._transports.call import Link
    from .._transports.streamable_http import StreamableHTTP
    from .session import Session

_LEAST_PAUSE = 0.1
"""Seconds between two attempts, whatever the server asks for."""
_PATIENCE = 30.0
"""Seconds for one attempt to connect and to send the request. The headers may take longer: some servers send them
with the first event."""
_STRUGGLE = 3
"""Failures in a row after which it is said, once, that the stream cannot be kept."""
_GOOD_LIFE = 10.0
"""Seconds after which a stream that brought nothing counts as kept: proxies cut what is idle."""
_NONE_OFFERED = frozenset({400, 405, 406, 501})


class Listener:
    """The standalone stream of one link, opened again and again until it is stopped or none is offered.

    Attributes:
        link: The link it belongs to.
    """

    __slots__ = (
        "__weakref__",
        "_cursor",
        "_failures",
        "_handle",
        "_heard",
        "_inbound",
        "_io",
        "_label",
        "_session",
        "_stopped",
        "_struggled",
        "_trail",
        "link",
    )

    def __init__(self, session: Session, link: Link) -> None:
        self.link = link
        self._io = session.io
        self._label = session.label
        self._session: weakref.ref[Session] = weakref.ref(session, self._let_go)
        self._inbound = Forward(self._session, session.inbound.max_queue)
        self._cursor = Cursor()
        self._failures = 0
        self._struggled = False
        self._stopped = False
        self._trail: Trail | None = None
        self._heard: Slot = self._io.slot()
        """Set when it is known whether there is a stream."""
        self._handle: Handle | None = None

    # Its life

    def start(self) -> None:
        """Open the stream, in the background."""
        self._handle = self._io.background(self._keep())
        if self._stopped:
            self._handle.cancel()

    def stop(self) -> None:
        """Close the stream and open no other. From any thread that the IO allows; idempotent."""
        self._stopped = True
        handle = self._handle
        if handle is not None:
            handle.cancel()
        self._heard.set(None)

    def _let_go(self, _: object) -> None:
        self._io.let_go(self.stop)

    async def heard(self, deadline: float) -> None:
        """Wait until the server has answered whether there is a stream, but not beyond the deadline."""
        if not self._heard.done:
            try:
                await self._io.once(self, self._wait, deadline)
            except Expired:
                _log.debug("%s: the stream has no headers yet; calls do not wait for them any longer", self._label)

    async def _wait(self, deadline: float) -> None:
        await self._io.wait(self._heard, deadline)

    async def _keep(self) -> None:
        try:
            seconds = await self._attempt()
            while seconds is not None:
                self._heard.set(None)
                await self._io.sleep(seconds)
                seconds = await self._attempt()
        finally:
            self._heard.set(None)

    async def _attempt(self) -> float | None:
        """Open the stream once and read it to its end.

        Returns:
            Seconds until the next attempt, None when there is to be none.
        """
        exchange = StreamExchange(self._io.slot(), self.link, self._inbound, self._cursor)
        exchange.opened = self._heard
        began = self._io.now()
        try:
            connection = await self._open(exchange)
            if connection is None:
                return None
            try:
                # Nothing of the session's is held while this waits.
                await connection.wait(exchange.slot, float("inf"))
            finally:
                connection.leave(exchange)
        except Closing:
            raise
        except Exception as error:  # the user's function for a token may fail in any way
            _log.debug("%s: the stream could not be opened: %s", self._label, type(error).__name__)
        if await self._authorized(exchange):
            return _LEAST_PAUSE
        lasted = exchange.used or self._io.now() - began > _GOOD_LIFE
        return self._judge(exchange, lasted)

    async def _authorized(self, exchange: StreamExchange) -> bool:
        """Was the stream refused, and is there something to ask for it once more with?"""
        session, head = self._session(), exchange.head
        if head is None or head.status not in refusals.AUTHORIZATION or session is None or session.peer.closed:
            return False
        trail = self._redirects(session)
        try:
            until = self._io.now() + _PATIENCE
            return await _http(session).authorize(head, exchange.credentials, trail, until, "GET")
        except Closing:
            raise
        except Exception as error:  # the user's own class may fail in any way
            _log.debug("%s: the stream could not be authorized: %s", self._label, type(error).__name__)
            return False

    async def _open(self, exchange: StreamExchange) -> Any:
        session = self._session()
        if session is None or session.peer.closed:
            return None
        return await _http(session).open_stream(exchange, self.link, self._io.now() + _PATIENCE)

    # What became of an attempt

    def _judge(self, exchange: StreamExchange, lasted: bool) -> float | None:
        session = self._session()
        head = exchange.head
        if session is None or session.peer.closed:
            return None
        if head is not None and head.notable:
            _http(session).keep_cookies(head)
        if exchange.is_stream and lasted:
            self._failures = 0
            self._trail = None
            return self._pause(session, 0.0)
        if head is not None and not exchange.is_stream:
            if head.status in REDIRECTS:
                return self._redirected(session, head)
            if self._is_refused(head):
                _log.debug("%s: no stream is offered: HTTP %d", self._label, head.status)
                return None
        # A 404 in a session is no verdict: if the session is over the next request will find that out.
        self._failures += 1
        if self._failures == _STRUGGLE and not self._struggled:
            self._struggled = True
            _log.warning(
                "%s: the stream for what the server sends unasked was lost or refused %d times in a row; trying on",
                self._label,
                self._failures,
            )
        asked = None if head is None else retry_after(head.get("retry-after"), head.get("date"))
        return self._pause(session, asked or 0.0)

    def _is_refused(self, head: ResponseHead) -> bool:
        if head.status == 404:
            return self.link.session_id is None
        return head.status in _NONE_OFFERED or 200 <= head.status < 300

    def _redirected(self, session: Session, head: ResponseHead) -> float | None:
        try:
            _http(session).follow(self._redirects(session), head, self.link)
        except FerruleError as error:
            _log.warning("%s: the stream cannot be opened: %s", self._label, type(error).__name__)
            return None
        return _LEAST_PAUSE

    def _redirects(self, session: Session) -> Trail:
        if self._trail is None:
            self._trail = Trail(session.settings.limits.max_redirects)
        return self._trail

    def _pause(self, session: Session, asked: float) -> float:
        """Seconds until the next attempt: as the server asks, and longer while attempts fail."""
        import random

        settings = session.settings
        seconds: float = settings.retry.delay(max(1, self._failures), random.random())
        retry = self._cursor.retry
        if retry is not None:
            asked = max(asked, retry / 1000)
            if not self._failures:
                seconds = 0.0
        longest: float = settings.limits.max_retry_after
        return max(_LEAST_PAUSE, seconds, min(asked, longest))


def _http(session: Session) -> StreamableHTTP:
    """The session's transport; there is a listener only where it is this one."""
    return session.transport  # type: ignore[return-value]


async def listen(session: Session, link: Link, deadline: float) -> None:
    """Have the standalone stream of the link running; wait briefly for its headers."""
    with session.io.mutex():
        if session.link is not link:
            return
        former = session.listener
        if former is not None and former.link is link:
            listener, new = former, False
        else:
            listener, new = Listener(session, link), True
            session.listener = listener
            if session.peer.listeners is None:
                session.peer.listeners = weakref.WeakSet()
            session.peer.listeners.add(listener)
    if new:
        if former is not None:
            former.stop()
        try:
            listener.start()
        except (Closing, RuntimeError) as error:
            listener.stop()
            _log.warning("%s: no stream can be kept open: %s", session.label, type(error).__name__)
    await listener.heard(min(deadline, session.io.now() + session.settings.limits.listen_wait))
