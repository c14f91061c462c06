"""One `subscriptions/listen` request under way: how it goes out, how it is waited on, how it is given up.

Specification: 2026-07-28, basic/patterns/subscriptions. Knows one request on one transport; what its events mean, and
when another takes its place, is `_session/listens.py`'s business.

Nothing here holds the transport or the session: who waits on a stream for hours must not keep an unclosed client alive.
"""

from __future__ import annotations

import weakref

from .. import _log
from .._io import Expired, Unsent
from .._json import dumps, loads
from .._wire import encode_message
from ..errors import InvalidMessage
from .streamable_http import PostExchange
from .streams import Forward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._core import ResponseHead
    from .._http.connection import Connection
    from .._http.redirects import Trail
    from .._io.interface import IO, Process, Slot
    from .call import Call, Link
    from .child import Child
    from .interface import Way
    from .stdio import StdioTransport
    from .streamable_http import StreamableHTTP


SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
"""The key in `_meta` under which a message names the listen request that it belongs to."""


class Moved(Exception):
    """The endpoint is elsewhere, or got other credentials: the request is to be sent again. Internal.

    The call's deadline has moved by what a person took meanwhile.
    """


def subscription_id(params: dict[str, Any] | None) -> object:
    """The id of the listen request that a notification belongs to, None if it names none."""
    meta = params.get("_meta") if params is not None else None
    return meta.get(SUBSCRIPTION_ID) if type(meta) is dict else None


async def listen(
    transport: Any, call: Call, link: Link, slot: Slot, owner: weakref.ref[Any], on_comment: Callable[[], None]
) -> Way:
    """Send a listen request.

    Args:
        transport: On which transport, Streamable HTTP or one of lines.
        call: The request.
        link: What it goes under.
        slot: Set or failed when the request is over. Its mail is the caller's own.
        owner: Whose inbound side is told of what comes. It is not kept alive.
        on_comment: Called at each comment in the stream (HTTP). It neither raises nor waits.

    Raises:
        Expired: At `call.deadline`.
        LinkLost: The link is gone and nothing was sent.
        FerruleError: It could not be sent.
    """
    if transport.http:
        exchange = ListenExchange(slot, call, link, owner, transport.inbound.max_queue, on_comment)
        connection, exchange.fresh = await transport.open_post(exchange)
        return PostedListen(exchange, connection)
    child, process = await transport.join(call, link, slot)
    way = WrittenListen(transport, child, process, call, slot)
    await way.send(transport, link)
    return way


# --- Streamable HTTP ------------------------------------------------------------------------------


class _Behind:
    """What an exchange needs of its owner's transport."""

    __slots__ = ("_owner", "inbound")

    def __init__(self, owner: weakref.ref[Any], max_queue: int) -> None:
        self._owner = owner
        self.inbound = Forward(owner, max_queue)

    def keep_cookies(self, head: ResponseHead) -> None:
        """See `HttpTransport.keep_cookies`."""
        owner = self._owner()
        if owner is not None:
            owner.transport.keep_cookies(head)


class ListenExchange(PostExchange):
    """The POST of a listen request. What comes on its stream belongs to it, whether or not the server says so."""

    __slots__ = ("_on_comment", "fresh")

    fresh: list[tuple[str, str]] | None
    """The headers that this request alone carried, once it went out."""

    def __init__(
        self,
        slot: Slot,
        call: Call,
        link: Link,
        owner: weakref.ref[Any],
        max_queue: int,
        on_comment: Callable[[], None],
    ) -> None:
        super().__init__(slot, call, link, _Behind(owner, max_queue))  # type: ignore[arg-type]
        self._on_comment = on_comment

    def on_comment(self) -> None:
        self._on_comment()

    def _take_other(self, message: Any, data: bytes, flags: int) -> None:
        try:
            self._take(loads(data, flags) if message is None else message)
        except InvalidMessage:
            _log.warning("an event of %d bytes that is no JSON-RPC message was dropped", len(data))

    def _take_unasked(self, message: dict[str, Any]) -> None:
        if "id" not in message:
            params = message.get("params")
            if type(params) is not dict:
                params = message["params"] = {}
            meta = params.get("_meta")
            if type(meta) is not dict:
                meta = params["_meta"] = {}
            meta.setdefault(SUBSCRIPTION_ID, self.call.id)
        super()._take_unasked(message)


class PostedListen:
    """See `interface.Way`: a POST whose answer stays open. To close it is all that the server is told."""

    __slots__ = ("_connection", "_exchange")

    def __init__(self, exchange: ListenExchange, connection: Connection) -> None:
        self._exchange = exchange
        self._connection = connection

    async def wait(self, slot: Slot, deadline: float) -> None:
        """See `interface.Way`."""
        await self._connection.wait(slot, deadline)

    async def answer(self, transport: StreamableHTTP, trail: Trail) -> dict[str, Any]:
        """See `interface.Way`."""
        exchange = self._exchange
        head = exchange.call.head = exchange.head
        message = exchange.slot.result()
        if message is not None:
            return message  # type: ignore[no-any-return]
        if head is not None and trail.leads_on(head.status):
            transport.follow(trail, head, exchange.link)
            raise Moved
        if head is not None and await transport.reauthorize(exchange.call, head, exchange.fresh, trail):
            raise Moved
        return transport.read_answer(exchange)

    def leave(self) -> None:
        """See `interface.Way`."""
        self._connection.leave(self._exchange)

    async def close(self, deadline: float) -> None:
        """See `interface.Way`."""
        self.leave()


# --- stdio ----------------------------------------------------------------------------------------

_LOOK = 0.5
"""Seconds between two looks whether the child still runs: see `stdio`."""


class WrittenListen:
    """See `interface.Way`: a line to the child, whose notifications come among all others."""

    __slots__ = ("_call", "_child", "_io", "_is_left", "_process", "_slot", "_transport")

    def __init__(self, transport: StdioTransport, child: Child, process: Process, call: Call, slot: Slot) -> None:
        self._io: IO = transport.io
        self._transport = weakref.ref(transport)
        self._child = child
        self._process = process
        self._call = call
        self._slot = slot
        self._is_left = False

    async def send(self, transport: StdioTransport, link: Link) -> None:
        """Write the request."""
        call = self._call
        line = encode_message(call.id, call.method.name, call.params, call.envelope or link.era.meta, call.meta, True)
        call.sent = True
        try:
            await self._process.stream.write(line, call.deadline)
        except OSError:
            transport.retire(self._child)
        except Unsent:
            call.sent = False
            self._leave()
            raise
        except BaseException:
            self.leave()
            raise

    async def wait(self, slot: Slot, deadline: float) -> None:
        """See `interface.Way`."""
        while not (slot.done or slot.mail):
            look_at = self._io.now() + _LOOK
            try:
                await self._process.stream.wait(slot, min(look_at, deadline))
            except Expired:
                if deadline <= look_at:
                    raise
                self._look()

    def _look(self) -> None:
        """Notice that the child ended, if it did: something that it started may hold its output open."""
        transport = self._transport()
        if transport is not None and self._process.exit_code() is not None:
            transport.retire(self._child)

    async def answer(self, transport: StdioTransport, trail: Trail) -> dict[str, Any]:
        """See `interface.Way`."""
        return self._slot.result()  # type: ignore[no-any-return]

    def _leave(self) -> bool:
        """No answer is awaited any more. Is there somebody who wants to know?"""
        with self._io.mutex():
            first, self._is_left = not self._is_left, True
            self._child.pending.pop(self._call.id, None)
        return first and not self._slot.done and not self._child.over

    def leave(self) -> None:
        """See `interface.Way`."""
        transport = self._transport()
        if self._leave() and transport is not None:
            self._io.background(self._tell(self._io.now() + transport.limits.cancel_timeout))

    async def close(self, deadline: float) -> None:
        """See `interface.Way`."""
        if self._leave():
            await self._tell(deadline)

    async def _tell(self, deadline: float) -> None:
        params = dumps({"requestId": self._call.id, "reason": "the subscription is over"})
        try:
            await self._process.stream.write(
                encode_message(None, "notifications/cancelled", params, None, None, True), deadline
            )
        except (OSError, Expired) as error:
            _log.debug("the end of a subscription could not be told: %s", type(error).__name__)
