"""HTTP+SSE, the transport of 2024-11-05: one event stream for all answers, a POST for each message.

Specification: 2024-11-05, basic/transports, HTTP with SSE. Knows the stream's life: when it is opened, where it says
that messages go, who waits for an answer on it. That this transport is the one to use, `_session` finds out.

A stream is to its messages what a child is on stdio: what was agreed on one is nothing on the next.
"""

from __future__ import annotations

import weakref

from .. import _log
from .._http.content import refusal
from .._http.redirects import Trail, locate
from .._http.url import encode_target
from .._io import Expired
from ..errors import ConfigError, ConnectionClosed, FerruleError, ProtocolError
from .call import Link, LinkLost
from .http_requests import HttpTransport, PlainExchange
from .messages import post_progress, progress_token, wait_for
from .streams import Cursor, Forward, StreamExchange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._core import RequestTemplate, ResponseHead
    from .._http.connection import Connection
    from .._http.url import Url
    from .._io.interface import Handle, Slot
    from .._protocol.era import Era
    from .call import Call
    from .http_requests import Auth

_LONGEST_ENDPOINT = 8192
"""Characters of an endpoint: what common servers take as a request line."""


class Channel(StreamExchange):
    """One event stream: where its messages go, and who waits for an answer on it.

    Holds the transport weakly, so that a client that is dropped unclosed goes, and its stream with it.

    Attributes:
        number: Counted from 1 in its transport.
        url: Where the stream is; what its endpoint is relative to.
        named: Set when it is known where messages go, or that there is no such stream.
        endpoint: Where that is.
        pending: Calls that wait, by id, with the slot for the answer and the exchange of the POST.
        over: Will nothing more come?
    """

    __slots__ = ("_mutex", "endpoint", "named", "number", "over", "pending", "url")

    def __init__(self, transport: HttpSse, slot: Slot, named: Slot, link: Link, url: Url, mutex: Any) -> None:
        inbound = Forward(weakref.ref(transport), transport.inbound.max_queue)
        super().__init__(slot, link, inbound, Cursor())
        self._mutex = mutex
        self.named = named
        self.number = link.process
        self.url = url
        self.endpoint: Url | None = None
        self.pending: dict[int, tuple[Call, Slot, PlainExchange]] = {}
        self.over = False

    # What the connection calls

    def on_head(self, head: ResponseHead) -> None:
        self.head = head
        if not self.is_stream:
            self.named.set(None)

    def on_typed_event(self, data: bytes, flags: int, id: str | None, retry: int | None, type: str) -> None:
        if type == "endpoint" and self.endpoint is None and not self.named.done:
            try:
                self.endpoint = self._locate(data)
            except FerruleError as error:
                self.named.fail(error)
            else:
                self.named.set(None)

    def on_event(self, data: bytes, flags: int, id: str | None, retry: int | None) -> None:
        # Streams of this revision are not resumed: neither id nor retry means anything.
        if data:
            super().on_event(data, flags, None, None)

    def on_end(self) -> None:
        self._end(None)

    def on_failed(self, error: FerruleError) -> None:
        self._end(error)

    # What comes on the stream

    def _locate(self, data: bytes) -> Url:
        """Where messages go: anywhere in the stream's own origin, for they carry its credentials."""
        where = self.url.label
        try:
            text = data.decode().strip(" ")
            if not text or len(text) > _LONGEST_ENDPOINT:
                raise ConfigError("no URL")
            endpoint = locate(self.url, encode_target(text))
        except (ConfigError, UnicodeDecodeError):
            raise ProtocolError(f"{where}: the endpoint that the server names is no URL", request_sent=False) from None
        if endpoint.origin != self.url.origin:
            raise ProtocolError(
                f"{where}: the server names an endpoint of another origin, {endpoint.origin}: nothing is sent there",
                request_sent=False,
            )
        return endpoint

    def _take_answer(self, message: dict[str, Any]) -> None:
        waiting = self._waiting(message.get("id"))
        if waiting is None:
            _log.debug("an answer that nobody waits for was dropped")
            return
        _, slot, posted = waiting
        slot.set(message)
        posted.slot.set(None)  # it counts even where the POST itself has not been answered yet

    def _take_progress(self, params: Any) -> None:
        waiting = self._waiting(progress_token(params))
        if waiting is None:
            self.inbound.late_progress(params, self.link)
            return
        call, slot, posted = waiting
        if call.deliver is not None:
            # Some servers accept the POST only when they have done what it asks.
            post_progress(call, slot if posted.slot.done else posted.slot, params, self.inbound.max_queue)

    def _waiting(self, id: object) -> tuple[Call, Slot, PlainExchange] | None:
        if type(id) is str and len(id) < 20 and id.isascii() and id.isdigit():
            id = int(id)
        return self.pending.get(id) if type(id) is int else None

    # Its life

    def enter(self, call: Call, slot: Slot, posted: PlainExchange) -> bool:
        """From now on the answer to this call is taken; False when none can come."""
        with self._mutex:
            if self.over:
                return False
            self.pending[call.id] = (call, slot, posted)
            return True

    def _end(self, error: FerruleError | None) -> None:
        with self._mutex:
            self.over = True
            waiting = list(self.pending.values())
        where = self.url.label
        self.named.fail(error or ConnectionClosed(f"{where}: the event stream ended at once", request_sent=False))
        for call, slot, posted in waiting:
            slot.fail(
                ConnectionClosed(
                    f"{call.method.name} at {where}: the event stream was lost before the answer",
                    request_sent=posted.sent,
                )
            )
            posted.slot.set(None)
        self.slot.set(None)
        self.inbound.drop(self.link)


class HttpSse(HttpTransport):
    """The way to one server of the old transport, under one set of headers."""

    __slots__ = ("__weakref__", "_channel", "_connection", "_reader")

    listens = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._channel: Channel | None = None
        self._connection: Connection | None = None
        self._reader: Handle | None = None

    def __del__(self) -> None:
        # A view that nobody closed: its reader would hold its stream for ever. That closes it: this may run under
        # the mutex, wherever memory is collected.
        reader = getattr(self, "_reader", None)
        if reader is not None:
            self._io.let_go(reader.cancel)

    def view(self, headers: tuple[tuple[str, str], ...], auth: Auth | None) -> HttpSse:
        """The same server and connections under other headers, with a stream of its own."""
        return HttpSse(self._io, self._pool, self._place, self._limits, headers, auth)

    def wire(self, era: Era | None, session_id: str | None) -> RequestTemplate | None:
        """The unchanging part of each POST of the stream there is; None before the first."""
        channel = self._channel
        if channel is None or channel.endpoint is None:
            return None
        return self.template("POST", channel.endpoint, era, session_id)

    # The stream

    async def start(self, deadline: float) -> None:
        """Have a stream open, and know where messages go.

        Raises:
            HTTPStatusError: There is no such stream.
            ProtocolError: The endpoint is none of this server's.
            ConnectionClosed: It ended before it named an endpoint.
            Expired: At the deadline.
        """
        channel = self._channel
        if channel is None or channel.over:
            await self._io.once(("stream", self), self._start, deadline)

    async def _start(self, deadline: float) -> None:
        channel = self._channel
        if channel is not None and not channel.over:
            return
        trail = self.trail()
        while not await self._open(trail, deadline):
            pass

    async def _open(self, trail: Trail, deadline: float) -> bool:
        """Open the stream; False when that led to a redirect."""
        io, where = self._io, f"the event stream of {self.label}"
        link = self._first_link()
        channel = Channel(self, io.slot(), io.slot(), link, self._place.url, io.mutex())
        fresh = await self.fresh_headers(channel.url, "GET", deadline)
        data = self.template("GET", channel.url, None, None).bare(fresh)
        connection = await self._pool.send(channel, data, deadline, bypass=True)
        try:
            await connection.wait(channel.named, deadline)
            channel.named.result()
            head = channel.head
            if head is not None and head.notable:
                self.keep_cookies(head)
            if head is not None and trail.leads_on(head.status):
                self._place.url = trail.follow(self._place.url, head.status, head.get("location"))
                connection.leave(channel)
                return False
            if head is not None and await self.authorize(head, fresh, trail, deadline, "GET", channel.url):
                connection.leave(channel)
                return False
            if not channel.is_stream or channel.endpoint is None:
                assert head is not None  # else there is no result
                self.check_status(head, link, where)
                raise refusal(head, where)
            # Whoever closes the stream from outside must not find somebody else on the connection.
            connection.end_with_response()
            reader = io.background(_read(channel, connection))
        except BaseException as error:
            connection.leave(channel)
            if isinstance(error, FerruleError):
                error.request_sent = False  # no message was
            raise
        with io.mutex():
            self._channel, self._connection, self._reader = channel, connection, reader
            self.process = channel.number
        link.wire = self.wire(None, None)
        return True

    def _first_link(self) -> Link:
        """What the server's messages come under until something was agreed on: the era's oldest revision."""
        from .._protocol.handshake import HandshakeEra
        from .._protocol.versions import HANDSHAKE

        return Link(HandshakeEra(HANDSHAKE[-1]), process=self.process + 1)

    def _channel_of(self, link: Link) -> Channel:
        """The stream that a message under this link belongs to.

        Raises:
            LinkLost: It is gone; nothing was sent.
        """
        channel = self._channel
        if channel is None or channel.over or link.process != channel.number:
            raise LinkLost
        return channel

    # Messages

    async def request(self, call: Call, link: Link) -> dict[str, Any]:
        """Carry one request to its answer: see `interface.Transport`."""
        channel = self._channel_of(link)
        slot = self._io.slot()
        posted = PlainExchange(self._io.slot())
        if not channel.enter(call, slot, posted):
            raise LinkLost
        channel.link = link
        try:
            await self._post(call, link, slot, posted)
            await wait_for(slot, call, self._io.wait)
            return slot.result()  # type: ignore[no-any-return]
        except FerruleError:
            raise
        except BaseException:
            if call.sent and not slot.done and call.method.cancellable:
                self.cancel_in_background(call, link, lambda: None)
            raise
        finally:
            channel.pending.pop(call.id, None)

    async def _post(self, call: Call, link: Link, slot: Slot, posted: PlainExchange) -> None:
        """Post the request; back when the POST was accepted or the answer has come, whichever is first."""
        trail = self.trail()
        while True:
            url = self.place_of(link)
            fresh = await self.fresh_headers(url, "POST", call.deadline)
            wire = link.wire
            assert wire is not None
            data = wire.request(call.id, call.method.name, None, call.params, link.era.meta, call.meta, fresh)
            try:
                connection = await self._pool.send(posted, data, call.deadline, bypass=call.bypass)
            finally:
                call.sent = posted.sent
            try:
                await wait_for(posted.slot, call, connection.wait)
            finally:
                connection.leave(posted)
            if slot.done:
                return
            head = posted.slot.result()
            if head.notable:
                self.keep_cookies(head)
            if trail.leads_on(head.status):
                self.follow(trail, head, link)
            elif not await self.authorize(head, fresh, trail, call.deadline, "POST", url):
                break
            posted = self._again(call, link, slot)
        call.head = head
        self._check_accepted(head, call.method.name, link)

    def _again(self, call: Call, link: Link, slot: Slot) -> PlainExchange:
        posted = PlainExchange(self._io.slot())
        if not self._channel_of(link).enter(call, slot, posted):
            raise LinkLost
        return posted

    async def notify(self, method: str, params: bytes | None, link: Link, deadline: float) -> None:
        """Send a notification and see it accepted with any 2xx."""
        # From now on requests of the server's are answered as was agreed.
        self._channel_of(link).link = link
        await super().notify(method, params, link, deadline)

    async def reply(self, message: dict[str, Any], link: Link, deadline: float) -> None:
        """Post the answer to a request of the server's: on the stream it came on, or not at all."""
        self._channel_of(link)
        if link.wire is None:
            raise LinkLost
        await super().reply(message, link, deadline)

    def place_of(self, link: Link) -> Url:
        """Where messages of the stream there is are posted."""
        channel = self._channel_of(link)
        return channel.endpoint or channel.url

    def follow(self, trail: Trail, head: ResponseHead, link: Link) -> None:
        """Go where a redirect of the endpoint leads, now and from now on."""
        channel = self._channel_of(link)
        assert channel.endpoint is not None
        channel.endpoint = trail.follow(channel.endpoint, head.status, head.get("location"))
        link.wire = self.wire(link.era, link.session_id)

    # The end

    async def end_session(self, link: Link, deadline: float) -> None:
        """The session ends with its stream."""
        channel, connection = self._channel, self._connection
        ours = channel is not None and channel.number == link.process and not channel.over
        if ours and connection is not None:
            connection.close()  # its reader and those who wait on it are told


async def _read(channel: Channel, connection: Connection) -> None:
    """Read the stream to its end, holding nothing of the client's."""
    try:
        await connection.wait(channel.slot, float("inf"))
    except Expired:  # there is no deadline
        pass
    finally:
        connection.leave(channel)
