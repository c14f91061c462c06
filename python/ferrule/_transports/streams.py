"""Event streams that a GET opens: what is taken from them, how far they were read, whose answers they bring.

Specification: 2025-11-25, basic/transports, Listening for Messages from the Server, and Resumability and
Redelivery. Knows one stream at a time; when one is opened again is decided by who opens it.
"""

from __future__ import annotations

from .. import _log
from .._http.exchange import Exchange
from .._json import loads
from .._wire import KIND_SSE
from ..errors import InvalidMessage
from .messages import PROGRESS, post_progress, progress_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable
    from typing import Any
    from weakref import WeakValueDictionary, ref

    from .._core import ResponseHead
    from .._io.interface import Slot
    from ..errors import FerruleError
    from .call import Inbound, Link
    from .streamable_http import PostExchange

_LONGEST_ID = 1024
"""Characters of an event id that is sent back."""
_LONGEST_NUMBER = 20


class Cursor:
    """How far one stream was read.

    Attributes:
        id: The last event id that may be sent back, None while there is none.
        retry: The milliseconds the server asks to wait before the stream is opened again, None if it does not.
        found: The answer, where it came on another stream of the session than the call's own.
        lost: Why the stream broke, None for one that ended.
    """

    __slots__ = ("found", "id", "lost", "retry")

    def __init__(self) -> None:
        self.id: str | None = None
        self.retry: int | None = None
        self.found: dict[str, Any] | None = None
        self.lost: FerruleError | None = None

    def note(self, id: str | None, retry: int | None) -> None:
        """Take what an event says of its place in the stream.

        An id that is too long or that no header carries unchanged is passed over: the place before it is still good.
        """
        if retry is not None:
            self.retry = retry
        if id is None:
            return
        if not id:
            self.id = None
        elif len(id) <= _LONGEST_ID and id.isascii() and id.isprintable() and id == id.strip(" "):
            self.id = id
        else:
            _log.warning("an event id of %d characters cannot be sent back: not used", len(id))


class Awaited:
    """The calls of one session whose answer may come on any of its streams.

    A call enters when its own stream first names an event: from then on the server may go on elsewhere. It leaves by
    being forgotten, so that no call has to see to that.
    """

    __slots__ = ("_exchanges", "_mutex")

    def __init__(self, mutex: Any) -> None:
        self._mutex = mutex
        self._exchanges: WeakValueDictionary[int, PostExchange] | None = None

    def enter(self, exchange: PostExchange) -> None:
        """From now on this call's answer may come on any stream."""
        with self._mutex:
            if self._exchanges is None:
                from weakref import WeakValueDictionary

                self._exchanges = WeakValueDictionary()
            self._exchanges[exchange.call.id] = exchange

    def _find(self, id: object) -> PostExchange | None:
        if type(id) is str and len(id) <= _LONGEST_NUMBER and id.isascii() and id.isdigit():
            id = int(id)  # some servers give the integer back as a string
        if type(id) is not int:
            return None
        with self._mutex:
            return self._exchanges.get(id) if self._exchanges is not None else None

    def answer(self, message: dict[str, Any]) -> bool:
        """Hand an answer to whoever waits for it; False when nobody does."""
        exchange = self._find(message.get("id"))
        if exchange is None:
            return False
        # In this order: who changes the slot looks for the message afterwards.
        exchange.cursor.found = message
        exchange.slot.set(message)
        return True

    def progress(self, params: Any, max_queue: int) -> bool:
        """Leave progress for the call it belongs to; False when that is not here."""
        exchange = self._find(progress_token(params))
        if exchange is None:
            return False
        if exchange.call.deliver is not None:
            post_progress(exchange.call, exchange.slot, params, max_queue)
        return True


class StreamExchange(Exchange):
    """A GET whose answer is an event stream: hands on every message.

    Attributes:
        slot: Set to None when the stream is over, or was none. Who waits for one answer is told of it by this slot too.
        head: The head of the response, once there is one.
        lost: Why the stream broke, None for one that ended.
        cursor: How far the stream was read; outlives it.
        credentials: The headers that only this request carried.
        inbound: Whom to tell of what answers no call.
        opened: Set to None with the head, if somebody waits for that.
        used: Did an event come?
    """

    __slots__ = ("_deadline", "_lane", "credentials", "cursor", "head", "inbound", "link", "lost", "opened", "used")

    def __init__(
        self,
        slot: Slot,
        link: Link,
        inbound: Inbound,
        cursor: Cursor,
        lane: Hashable = None,
        deadline: float | None = None,
    ) -> None:
        """`lane` and `deadline` are those of the call whose stream this goes on with, None for a stream of its own."""
        self.slot = slot
        self.sent = False
        self.link = link
        self.cursor = cursor
        self.head: ResponseHead | None = None
        self.lost: FerruleError | None = None
        self.opened: Slot | None = None
        self.credentials: list[tuple[str, str]] | None = None
        self.used = False
        self.inbound = inbound
        self._lane = lane
        self._deadline = deadline

    @property
    def is_stream(self) -> bool:
        """Did the server answer with an event stream?"""
        head = self.head
        return head is not None and head.status == 200 and head.kind == KIND_SSE

    def on_head(self, head: ResponseHead) -> None:
        self.head = head
        if self.opened is not None:
            self.opened.set(None)
        if not self.is_stream:
            self.slot.set(None)

    def on_event(self, data: bytes, flags: int, id: str | None, retry: int | None) -> None:
        self.used = True
        if id is not None or retry is not None:
            self.cursor.note(id, retry)
        if not data:
            return
        try:
            message = loads(data, flags)
        except InvalidMessage:
            _log.warning("an event of %d bytes that is no JSON was dropped", len(data))
            return
        self.take(message)

    def on_end(self) -> None:
        self.slot.set(None)

    def on_failed(self, error: FerruleError) -> None:
        self.lost = error
        self.slot.set(None)

    def take(self, message: Any) -> None:
        """Hand on one decoded message, or each one of a batch where there are batches."""
        if type(message) is dict:
            if "method" not in message:
                self._take_answer(message)
            elif "id" in message:
                self.inbound.request(message, self.link, self._lane, self._deadline)
            elif message["method"] != PROGRESS:
                self.inbound.notification(message, self.link, self._lane)
            else:
                self._take_progress(message.get("params"))
        elif type(message) is list and self.link.era.batches:
            for one in message:
                if type(one) is dict:
                    self.take(one)
        else:
            _log.warning("an event that is no JSON-RPC message was dropped")

    def _take_answer(self, message: dict[str, Any]) -> None:
        awaited = self.link.awaited
        if awaited is None or not awaited.answer(message):
            _log.debug("an answer that nobody waits for was dropped")

    def _take_progress(self, params: Any) -> None:
        awaited = self.link.awaited
        if awaited is None or not awaited.progress(params, self.inbound.max_queue):
            self.inbound.late_progress(params, self.link)


class Forward:
    """The inbound side of an owner that is not kept alive by its streams.

    Attributes:
        max_queue: As of the owner's.
    """

    __slots__ = ("_owner", "max_queue")

    def __init__(self, owner: ref[Any], max_queue: int) -> None:
        self._owner = owner
        self.max_queue = max_queue

    def notification(self, message: dict[str, Any], link: Link, lane: Hashable = None) -> None:
        """See `Inbound.notification`."""
        owner = self._owner()
        if owner is not None:
            owner.inbound.notification(message, link, lane)

    def request(
        self, message: dict[str, Any], link: Link, lane: Hashable = None, deadline: float | None = None
    ) -> None:
        """See `Inbound.request`."""
        owner = self._owner()
        if owner is not None:
            owner.inbound.request(message, link, lane, deadline)

    def late_progress(self, params: Any, link: Link) -> None:
        """See `Inbound.late_progress`."""
        owner = self._owner()
        if owner is not None:
            owner.inbound.late_progress(params, link)

    def drop(self, link: Link) -> None:
        """See `Inbound.drop`."""
        owner = self._owner()
        if owner is not None:
            owner.inbound.drop(link)
