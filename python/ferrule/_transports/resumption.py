"""Fetch the answer of a call whose own stream ended early: by GET, from the last event on, never by a second POST.

Specification: 2025-11-25, basic/transports, Resumability and Redelivery. Knows when to ask again and what the
server's answers to that mean.
"""

from __future__ import annotations

from .._http.content import retry_after
from .._http.redirects import Trail
from .._io import Expired
from ..errors import ConnectError, ConnectionClosed, FerruleError, InvalidMessage
from .messages import wait_for
from .streams import StreamExchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._http.connection import Connection
    from .._io.interface import IO, Slot
    from ..limits import Limits
    from .streamable_http import PostExchange, StreamableHTTP

_DEFAULT_WAIT = 1.0
"""Seconds before a stream is opened again whose server asks for no wait; at most half of the time that is left."""
_LEAST_WAIT = 0.01
"""Seconds between two GETs, whatever the server asks for."""
_BACKOFF = 0.5
_LONGEST_BACKOFF = 8.0
"""Seconds between GETs that bring no stream at all, doubled from the first to the second."""

_NOT_NOW = frozenset({408, 409, 425, 429})


class Resumption:
    """One call that waits for its answer after its stream ended.

    It may come on the stream that is opened here, or on any other one of the session: whichever it is sets the
    slot of the call's exchange.
    """

    __slots__ = (
        "_call",
        "_connection",
        "_exchange",
        "_failed",
        "_get",
        "_io",
        "_limits",
        "_link",
        "_trail",
        "_transport",
        "_wanted",
    )

    def __init__(self, transport: StreamableHTTP, exchange: PostExchange, io: IO, limits: Limits) -> None:
        self._io = io
        self._limits = limits
        self._transport = transport
        self._exchange = exchange
        self._call = exchange.call
        self._link = exchange.link
        self._trail = Trail(limits.max_redirects)
        self._failed = 0
        """GETs in a row that brought no stream."""
        self._wanted = 0.0
        """Seconds that the last of them asked to wait."""
        self._get: StreamExchange | None = None
        self._connection: Connection | None = None

    async def answer(self) -> dict[str, Any]:
        """Wait for the answer until the call's deadline.

        Raises:
            ConnectionClosed: There is nothing to resume from, or the server resumes nothing.
            SessionExpired: The session is over.
            Expired: At the deadline; the server is told in the background.
        """
        cursor = self._exchange.cursor
        try:
            while cursor.found is None:
                if cursor.id is None:
                    raise self._closed("the event stream ended before the answer") from cursor.lost
                over = self._io.now()
                slot = self._exchange.slot = self._io.slot()
                # Looked at again: an answer that came before the slot was changed did not find it.
                if cursor.found is None:
                    await self._pause(slot, over + self._delay(over))
                    if not slot.done:
                        await self._fetch(slot)
        except FerruleError:
            self._leave()
            raise
        except BaseException:
            self._give_up()
            raise
        self._leave()
        return cursor.found

    def _delay(self, now: float) -> float:
        retry = self._exchange.cursor.retry
        seconds = min(_DEFAULT_WAIT, (self._call.deadline - now) / 2) if retry is None else retry / 1000
        if self._failed:
            import random

            longest = min(_LONGEST_BACKOFF, _BACKOFF * 2.0 ** min(self._failed - 1, 60))
            seconds = max(seconds, self._wanted, longest * (0.5 + random.random() / 2))
        return max(_LEAST_WAIT, seconds)

    async def _pause(self, slot: Slot, until: float) -> None:
        """Wait for the time to ask again, or for the answer if it comes first."""

        async def wait(slot: Slot, deadline: float) -> None:
            await self._io.wait(slot, min(until, deadline))

        try:
            await wait_for(slot, self._call, wait)
        except Expired:
            if self._call.deadline <= until:
                raise

    async def _fetch(self, slot: Slot) -> None:
        """Open the stream once and read it to its end, or to the answer."""
        transport, call = self._transport, self._call
        exchange = self._exchange
        get = StreamExchange(slot, self._link, transport.inbound, exchange.cursor, exchange, call.deadline)
        self._get = get
        self._connection = None
        try:
            connection = self._connection = await transport.open_stream(get, self._link, call.deadline)
        except (ConnectError, ConnectionClosed):
            self._failed += 1
            return
        await wait_for(slot, call, connection.wait)
        self._leave()
        if self._exchange.cursor.found is None and not await self._authorized(get):
            self._judge(get)

    async def _authorized(self, get: StreamExchange) -> bool:
        """Was the GET refused, and is there something to send it once more with?"""
        head = get.head
        return head is not None and await self._transport.authorize(
            head, get.credentials, self._trail, self._call.deadline, "GET"
        )

    def _judge(self, get: StreamExchange) -> None:
        """What a GET that did not bring the answer means: raise unless there is to be another one."""
        head = get.head
        if head is not None and head.notable:
            self._transport.keep_cookies(head)
        if get.lost is not None and not isinstance(get.lost, (ConnectionClosed, InvalidMessage)):
            raise get.lost
        if get.is_stream:
            self._failed = 0
            return
        if head is None:
            self._failed += 1
            return
        if self._trail.leads_on(head.status):
            self._transport.follow(self._trail, head, self._link)
            return
        where = f"{self._call.method.name} at {self._transport.label}"
        self._transport.check_status(head, self._link, where)
        if head.status not in _NOT_NOW and (head.status < 500 or head.status == 501):
            raise self._closed(f"the event stream ended before the answer and is not resumed: HTTP {head.status}")
        self._failed += 1
        asked = retry_after(head.get("retry-after"), head.get("date")) or 0.0
        self._wanted = min(asked, self._limits.max_retry_after)

    def _closed(self, what: str) -> ConnectionClosed:
        return ConnectionClosed(f"{self._call.method.name} at {self._transport.label}: {what}", request_sent=True)

    def _leave(self) -> None:
        if self._connection is not None and self._get is not None:
            self._connection.leave(self._get)

    def _give_up(self) -> None:
        if self._call.method.cancellable:
            self._transport.cancel_in_background(self._call, self._link, self._leave)
        else:
            self._leave()
