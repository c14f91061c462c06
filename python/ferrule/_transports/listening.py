"""The standalone stream: a GET on which the server sends what answers no request.

Specification: 2025-11-25, basic/transports, Listening for Messages from the Server.
"""

from __future__ import annotations

from .. import _log
from .._http.exchange import Exchange
from .._io import Closing, Expired
from .._json import loads
from .._wire import KIND_SSE
from ..errors import FerruleError, InvalidMessage
from .messages import PROGRESS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._core import ResponseHead
    from .._io.interface import IO, Slot
    from .call import Inbound, Link
    from .streamable_http import StreamableHTTP


class GetExchange(Exchange):
    """A GET whose events are handed to the inbound side."""

    __slots__ = ("headers", "inbound", "link")

    def __init__(self, io: IO, link: Link, inbound: Inbound) -> None:
        self.slot: Slot = io.slot()
        self.headers: Slot = io.slot()
        self.sent = False
        self.link = link
        self.inbound = inbound

    def on_head(self, head: ResponseHead) -> None:
        self.headers.set(head.status)
        if head.status != 200 or head.kind != KIND_SSE:
            self.slot.set(None)

    def on_event(self, data: bytes, flags: int, id: str | None, retry: int | None) -> None:
        try:
            message = loads(data, flags) if data else None
        except InvalidMessage:
            return
        if type(message) is not dict or "method" not in message:
            return
        if "id" in message:
            self.inbound.request(message, self.link)
        elif message["method"] == PROGRESS:
            self.inbound.late_progress(message.get("params"), self.link)
        else:
            self.inbound.notification(message, self.link)

    def on_end(self) -> None:
        self.slot.set(None)

    def on_failed(self, error: FerruleError) -> None:
        self.headers.set(0)
        self.slot.set(None)


async def hear(transport: StreamableHTTP, exchange: GetExchange, data: bytes, deadline: float) -> None:
    """Keep the stream until it ends."""
    connection = None
    try:
        connection = await transport._pool.send(exchange, data, deadline, bypass=True)
        await connection.wait(exchange.slot, float("inf"))
    except (FerruleError, Expired, Closing) as error:
        _log.debug("the standalone stream ended: %s", type(error).__name__)
    finally:
        exchange.headers.set(0)
        if connection is not None:
            connection.leave(exchange)
