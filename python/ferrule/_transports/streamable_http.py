"""Streamable HTTP: each message is a POST, each answer a JSON body or an event stream.

Specification: basic/transports/streamable-http (2026-07-28) and basic/transports (earlier). Knows how one request
travels and is given up; connections are `_http`'s business, sessions and retries `_session`'s.
"""

from __future__ import annotations

from .. import _log
from .._http.exchange import Exchange
from .._json import loads, parse
from .._wire import KIND_JSON, KIND_SSE, RequestTemplate
from ..errors import ConnectionClosed, FerruleError, InvalidMessage, SessionExpired
from .call import UNREADY, Call
from .http_requests import HttpTransport
from .messages import PROGRESS, is_answer, is_error_without_id, post_progress, progress_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._core import ResponseHead
    from .._http.connection import Connection, Frame
    from .._http.redirects import Trail
    from .._io.interface import Slot
    from .._protocol.era import Era
    from .call import Link
    from .http_requests import Auth, Headers
    from .http_sse import HttpSse
    from .streams import Cursor


class PostExchange(Exchange):
    """A POST that carries a call: takes its answer out of whatever form it comes in."""

    __slots__ = ("__weakref__", "body", "call", "cursor", "flags", "head", "link", "transport")

    quiet = True
    head: ResponseHead | None
    cursor: Cursor
    """How far the stream was read; not there until an event says something of its place in it."""

    def __init__(self, slot: Slot, call: Call, link: Link, transport: StreamableHTTP) -> None:
        self.slot = slot
        self.sent = call.sent
        if type(call) is not Call and call.deliver is not None:
            call.slot = slot  # type: ignore[attr-defined]  # a `SpecialCall`: its progress may come elsewhere
        self.call = call
        self.link = link
        self.transport = transport
        self.head = None
        self.body: bytes | None = None
        self.flags = 0

    def on_head(self, head: ResponseHead) -> None:
        self.head = head

    def on_notable(self, head: ResponseHead) -> None:
        self.transport.keep_cookies(head)

    def on_body(self, data: bytes, flags: int) -> None:
        self.body = data
        self.flags = flags
        self.slot.set(None)

    def on_event(self, data: bytes, flags: int, id: str | None, retry: int | None) -> None:
        slot = self.slot
        if (id is not None or retry is not None) and not slot.done:
            self._note(id, retry)
        if not data or slot.done:
            return
        # Most events are the answer: no function of its own for any step (benches/calls.py).
        try:
            message = parse(data) if not flags else None
        except ValueError:
            message = None
        given = message.get("id") if type(message) is dict and "method" not in message else None
        if type(given) is int and given == self.call.id:
            slot.set(message)
        else:
            self._take_other(message, data, flags)

    def _take_other(self, message: Any, data: bytes, flags: int) -> None:
        """Take an event that is not simply the answer; None: it has to be parsed with care."""
        try:
            self._take(loads(data, flags) if message is None else message)
        except InvalidMessage as error:
            self.slot.fail(InvalidMessage(f"{self.call.method.name}: {error}"))

    def on_end(self) -> None:
        if not self.slot.done:
            self.slot.set(None)

    def on_failed(self, error: FerruleError) -> None:
        if isinstance(error, ConnectionClosed) and getattr(self, "cursor", None) is not None:
            self.cursor.lost = error
            self.slot.set(None)
        else:
            self.slot.fail(error)

    def _note(self, id: str | None, retry: int | None) -> None:
        """The stream can be resumed, if this session's can: its answer may come elsewhere from now on."""
        awaited = self.link.awaited
        if awaited is None:
            return
        if getattr(self, "cursor", None) is None:
            from .streams import Cursor

            self.cursor = Cursor()
            awaited.enter(self)
        self.cursor.note(id, retry)

    def _take(self, message: Any) -> None:
        if type(message) is dict:
            if "method" in message:
                self._take_unasked(message)
            elif is_answer(message, self.call.id):
                self.slot.set(message)
            elif self.link.awaited is None or not self.link.awaited.answer(message):
                _log.debug("%s: an answer with another id was dropped", self.call.method.name)
        elif type(message) is list and self.link.era.batches:
            self.take_batch(message)
        else:
            raise InvalidMessage("an event is no JSON-RPC message")

    def take_batch(self, messages: list[Any]) -> None:
        """Take the messages of a batch; what in it is none is skipped, a batch within it too."""
        for message in messages:
            if type(message) is dict:
                self._take(message)

    def _take_unasked(self, message: dict[str, Any]) -> None:
        if "id" in message:
            self.transport.inbound.request(message, self.link, self, self.call.deadline)
        elif message["method"] != PROGRESS:
            self.transport.inbound.notification(message, self.link, self)
        else:
            params = message.get("params")
            if progress_token(params) != self.call.id:
                self._take_progress_of_others(params)
            elif self.call.deliver is not None:
                post_progress(self.call, self.slot, params, self.transport.inbound.max_queue)

    def _take_progress_of_others(self, params: Any) -> None:
        awaited = self.link.awaited
        if awaited is None or not awaited.progress(params, self.transport.inbound.max_queue):
            self.transport.inbound.late_progress(params, self.link)


class StreamableHTTP(HttpTransport):
    """The way to one MCP endpoint, under one set of headers."""

    __slots__ = ()

    listens = True

    def view(self, headers: tuple[tuple[str, str], ...], auth: Auth | None) -> StreamableHTTP:
        """The same endpoint and connections under other headers."""
        return StreamableHTTP(self._io, self._pool, self._place, self._limits, headers, auth)

    def as_http_sse(self) -> HttpSse:
        """The transport of 2024-11-05 to the same place, over the same connections and under the same headers."""
        from .http_sse import HttpSse

        transport = HttpSse(self._io, self._pool, self._place, self._limits, self._headers, self._auth)
        transport.share_fresh(self)
        return transport

    # Requests as bytes

    def wire(self, era: Era | None, session_id: str | None) -> RequestTemplate:
        """The unchanging part of each POST under this era and session."""
        return self.template("POST", self._place.url, era, session_id)

    # Requests

    async def start(self, deadline: float) -> None:
        """Nothing has to run before the first request."""

    async def request(self, call: Call, link: Link, trail: Trail | None = None) -> dict[str, Any]:
        """Carry one request to its answer: see `interface.Transport`. `trail`: the redirects that led here."""
        wire: RequestTemplate = link.wire  # type: ignore[assignment]
        plain = type(call) is Call  # and has nothing of its own
        fresh = None if plain else call.headers
        if self._fresh is not None and (fresh := self._fresh.headers(self._place.url, fresh)) is UNREADY:
            fresh = await self._prepared(call)
        envelope = link.era.meta if plain else call.envelope or link.era.meta
        data = wire.request(call.id, call.method.name, call.name, call.params, envelope, call.meta, fresh)
        # Not where somebody wants progress: that may come elsewhere, and needs a slot to be left in meanwhile.
        direct = self._pool.asks and (plain or call.deliver is None) and not call.bypass
        asked = self._ask(call, data, link) if direct else None
        if type(asked) is dict:
            return asked
        exchange = self._new_exchange(call, link, asked)  # type: ignore[arg-type]  # not a dict, that was the answer
        slot = exchange.slot
        connection: Connection | None = None
        try:
            # The warm path: an idle connection, no coroutine for the write.
            if asked is not None:
                connection = asked[0]  # type: ignore[index]  # not a dict, that was the answer
                connection.join(exchange, asked[1], call.deadline)  # type: ignore[index]
            elif not call.bypass:
                connection = self._pool.take(exchange, data, call.deadline)
            if connection is None:
                connection = await self._pool.send(exchange, data, call.deadline, bypass=call.bypass)
        finally:
            call.sent = exchange.sent
        try:
            await connection.wait(slot, call.deadline)
            if slot.mail or not slot.done:
                await self._answer(call, slot, connection)
        except BaseException:
            self._give_up(call, link, exchange, connection)
            raise
        head = call.head = exchange.head
        if connection.exchange is exchange:
            connection.leave(exchange)
        message = slot.value if slot.error is None else slot.result()
        if message is None and (exchange.body is None or (head is not None and head.status >= 300)):
            message = await self._go_on(exchange, head, trail, fresh)
        return message if message is not None else self._read(exchange, head, call, link)

    async def _prepared(self, call: Call) -> Headers | None:
        """The headers that this request alone carries, after waiting for what is missing."""
        fresh = await self.fresh_headers(self._place.url, "POST", call.deadline, call.headers)
        if call.special is not None:
            call.special.moved()
        return fresh

    async def _go_on(
        self, exchange: PostExchange, head: ResponseHead | None, trail: Trail | None, fresh: Headers | None
    ) -> dict[str, Any]:
        """Where the answer is when it was neither in the body nor among the events."""
        call, link = exchange.call, exchange.link
        if head is not None and head.status >= 300:
            trail = trail or self.trail()
            if trail.leads_on(head.status):
                self.follow(trail, head, link)
                return await self._again(call, link, trail)
            if await self.reauthorize(call, head, fresh, trail):
                return await self._again(call, link, trail)
        if exchange.body is None and getattr(exchange, "cursor", None) is not None:
            return await self._resume(exchange)
        return self._read(exchange, head, call, link)

    async def reauthorize(self, call: Call, head: ResponseHead, fresh: Headers | None, trail: Trail) -> bool:
        """See `authorize`, for a call: what a person took does not count against its deadline."""
        began = self._io.now()
        again = await self.authorize(head, fresh, trail, call.deadline, own=call.headers)
        if again:
            call.deadline = self._fresh.put_off(call.deadline, began)  # type: ignore[union-attr]  # it authorized
        return again

    async def _again(self, call: Call, link: Link, trail: Trail) -> dict[str, Any]:
        """Write a request again that was refused unexecuted: elsewhere, or as another caller."""
        if call.special is not None:
            call.special.moved()  # elsewhere, or as another caller
        return await self.request(call, link, trail)

    def _ask(self, call: Call, data: bytes, link: Link) -> dict[str, Any] | tuple[Connection, list[Frame]] | None:
        """Write the request before there is an exchange (benches/calls.py, the x1 rows).

        blocking: the caller itself reads, and most answers come whole and need none. asyncio: the server works while
        the exchange is made, and if it is quick has answered when the loop looks: a sleep costs more than all of this.

        Returns:
            The answer; or the connection it is awaited on, with what was read; None when nothing was sent.
        """
        while (connection := self._pool.take()) is not None:
            call.sent = True
            try:
                answer = connection.ask(data, call.deadline)
            except BaseException:
                self._end_asking(call, link, connection)
                raise
            if type(answer) is tuple:
                call.head, body, flags, _ = answer
                try:
                    message = parse(body) if not flags else None
                except ValueError:
                    message = None
                given = message.get("id") if type(message) is dict and "method" not in message else None
                if type(given) is int and given == call.id:
                    return message
                return self._read_whole(call, link, body, flags)
            if isinstance(answer, list):
                return connection, answer
            call.sent = False
        return None

    def _new_exchange(self, call: Call, link: Link, asked: tuple[Connection, list[Frame]] | None) -> PostExchange:
        try:
            return PostExchange(self._io.slot(), call, link, self)
        except BaseException:
            if asked is not None:  # it is written already
                self._end_asking(call, link, asked[0])
            raise

    def _end_asking(self, call: Call, link: Link, connection: Connection) -> None:
        """As `_give_up`, where there is no exchange yet: the caller was interrupted."""
        if link.era.cancels_by_closing or not call.method.cancellable:
            connection.close()
        else:
            connection.end_with_response()
            self.cancel_in_background(call, link, connection.close)

    def _read_whole(self, call: Call, link: Link, body: bytes, flags: int) -> dict[str, Any]:
        exchange = PostExchange(self._io.slot(), call, link, self)
        exchange.body, exchange.flags = body, flags
        return self._read(exchange, call.head, call, link)

    async def _answer(self, call: Call, slot: Slot, connection: Connection) -> None:
        """Wait until the call has its answer; hand progress to the caller meanwhile."""
        while True:
            if slot.mail and call.deliver is not None:
                await call.deliver(slot.take_mail())
            if slot.done:
                return
            await connection.wait(slot, call.deadline)

    def _give_up(self, call: Call, link: Link, exchange: PostExchange, connection: Connection) -> None:
        """Nobody waits for the answer any more: tell the server as its era wants it (basic/patterns/cancellation)."""
        if link.era.cancels_by_closing or exchange.slot.done or not call.method.cancellable:
            connection.leave(exchange)
            return
        # The stream stays open until the server was told: closing it is no cancellation in this era. Not `close`:
        # if the answer came after all, the connection serves somebody else by now.
        self.cancel_in_background(call, link, lambda: connection.leave(exchange))

    def follow(self, trail: Trail, head: ResponseHead, link: Link) -> None:
        """Go where a redirect within the origin leads, now and from now on."""
        self._place.url = trail.follow(self._place.url, head.status, head.get("location"))
        link.wire = self.wire(link.era, link.session_id)

    async def _resume(self, exchange: PostExchange) -> dict[str, Any]:
        """The answer to a call whose stream ended without it, after the server had named an event to go on from."""
        from .resumption import Resumption

        return await Resumption(self, exchange, self._io, self._limits).answer()

    def _read(self, exchange: PostExchange, head: ResponseHead | None, call: Call, link: Link) -> dict[str, Any]:
        """The answer in a body that was no event stream, or an error that says what came instead."""
        body = exchange.body
        if not body or head is None or head.status != 200 or head.kind != KIND_JSON:
            return self._read_rare(exchange, head, link)
        try:
            message = loads(body, exchange.flags)
        except InvalidMessage as error:
            raise InvalidMessage(f"{self._where(call)}: {error}") from None
        if is_answer(message, call.id):
            return message
        return self._pick(message, exchange, head)

    def _read_rare(self, exchange: PostExchange, head: ResponseHead | None, link: Link) -> dict[str, Any]:
        """The answer under another status or type, or an error that says what came instead."""
        call = exchange.call
        where = self._where(call)
        if head is None:
            raise ConnectionClosed(f"{where}: ended before the answer", request_sent=call.sent)
        if head.kind == KIND_SSE and head.status == 200:
            raise ConnectionClosed(f"{where}: the event stream ended before the answer", request_sent=True)
        self.check_status(head, link, where)
        from .._http.content import may_be_message

        body = exchange.body
        if not body or not may_be_message(head, body):
            raise self._refusal(exchange, head, where)
        try:
            message = loads(body, exchange.flags)
        except InvalidMessage as error:
            if head.kind == KIND_JSON and head.status < 400:
                raise InvalidMessage(f"{where}: {error}") from None
            raise self._refusal(exchange, head, where) from None
        if is_answer(message, call.id):
            return message
        return self._pick(message, exchange, head)

    def _pick(self, message: Any, exchange: PostExchange, head: ResponseHead) -> dict[str, Any]:
        """The answer in a body that is not simply the answer."""
        where = self._where(exchange.call)
        if head.status >= 400:
            error = self._refusal(exchange, head, where)
            if is_error_without_id(message) and not isinstance(error, SessionExpired):
                # It is an answer to what was posted: there was nothing else it could answer (W12).
                return message  # type: ignore[no-any-return]
            raise error
        if type(message) is dict:
            raise InvalidMessage(f"{where}: the answer has another id")
        if type(message) is not list or not exchange.link.era.batches:
            raise InvalidMessage(f"{where}: the body is no JSON-RPC message")
        exchange.slot = self._io.slot()
        exchange.take_batch(message)
        if not exchange.slot.done:
            raise InvalidMessage(f"{where}: the batch does not hold the answer")
        return exchange.slot.result()  # type: ignore[no-any-return]

    def _refusal(self, exchange: PostExchange, head: ResponseHead, where: str) -> FerruleError:
        """What a status without an answer means; 400 may mean what 404 does, if the body says so."""
        body = exchange.body
        if head.status == 400 and body and exchange.link.session_id is not None:
            from .messages import says_session_is_gone

            if says_session_is_gone(body):
                return SessionExpired(f"{where}: the server does not know the session any more")
        from .._http.content import refusal

        return refusal(head, where)

    # What stays open

    async def open_post(self, exchange: PostExchange) -> tuple[Connection, Headers | None]:
        """Post a call whose answer is a stream that stays open; waiting for it, and leaving, is the caller's business.

        Not counted against `Limits.max_connections`.

        Returns:
            The connection, and the headers that this request alone carried.
        """
        call, link = exchange.call, exchange.link
        template = self.template("POST", self._place.url, link.era, link.session_id, stays_open=True)
        envelope = call.envelope or link.era.meta
        fresh = await self.fresh_headers(self._place.url, "POST", call.deadline, call.headers)
        data = template.request(call.id, call.method.name, call.name, call.params, envelope, call.meta, fresh)
        try:
            return await self._pool.send(exchange, data, call.deadline, bypass=True), fresh
        finally:
            call.sent = exchange.sent

    def read_answer(self, exchange: PostExchange) -> dict[str, Any]:
        """The answer where none of the events was it."""
        return self._read(exchange, exchange.head, exchange.call, exchange.link)

    # The end

    async def end_session(self, link: Link, deadline: float) -> None:
        """DELETE the session (2025-11-25, Session Management); 404 and 405 are as good as 200."""
        if link.session_id is None:
            return
        fresh = None
        if self._fresh is not None:
            fresh = self._fresh.headers(self._place.url, None, "DELETE")
            if fresh is UNREADY:
                return  # nobody is sent to log in for a farewell
        template = self.template("DELETE", self._place.url, link.era, link.session_id)
        await self._send(template.bare(fresh), deadline)
