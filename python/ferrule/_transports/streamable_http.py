"""Streamable HTTP: each message is a POST, each answer a JSON body or an event stream.

Specification: basic/transports/streamable-http (2026-07-28) and basic/transports (earlier). Knows how one request
travels and is given up; connections are `_http`'s business, sessions and retries `_session`'s.
"""

from __future__ import annotations

from .. import _log
from .._http.content import may_be_message, refusal
from .._http.exchange import Exchange
from .._http.pool import Pool
from .._http.redirects import STATUSES as REDIRECTS
from .._http.redirects import Trail
from .._io import Expired
from .._json import dumps, loads
from .._wire import KIND_JSON, KIND_SSE, RequestTemplate
from ..errors import (
    AuthError,
    ConfigError,
    ConnectionClosed,
    FerruleError,
    InvalidMessage,
    SessionExpired,
)
from .messages import PROGRESS, answers, is_error_without_id, progress_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._core import ResponseHead
    from .._http.connection import Connection
    from .._http.url import Url
    from .._io.interface import IO, Slot
    from .._protocol.era import Era
    from ..limits import Limits
    from .call import Call, Inbound, Link

    Auth = str | Callable[[], str]

_ACCEPT_POST = "application/json, text/event-stream"
_ACCEPT_ENCODING = "gzip, deflate"


class PostExchange(Exchange):
    """A POST that carries a call: takes its answer out of whatever form it comes in."""

    __slots__ = ("body", "call", "ended", "flags", "head", "inbound", "link")

    def __init__(self, slot: Slot, call: Call, link: Link, inbound: Inbound) -> None:
        self.slot = slot
        self.sent = False
        self.call = call
        self.link = link
        self.inbound = inbound
        self.head: ResponseHead | None = None
        self.body: bytes | None = None
        self.flags = 0
        self.ended = False

    def on_head(self, head: ResponseHead) -> None:
        self.head = head

    def on_body(self, data: bytes, flags: int) -> None:
        self.body = data
        self.flags = flags
        self.slot.set(None)

    def on_event(self, data: bytes, flags: int, id: str | None, retry: int | None) -> None:
        if not data or self.slot.done:
            return
        try:
            self._take(loads(data, flags))
        except InvalidMessage as error:
            self.slot.fail(InvalidMessage(f"{self.call.method.name}: {error}"))

    def on_end(self) -> None:
        self.ended = True
        self.slot.set(None)

    def on_failed(self, error: FerruleError) -> None:
        self.slot.fail(error)

    def _take(self, message: Any) -> None:
        if type(message) is dict:
            if "method" in message:
                self._take_unasked(message)
            elif answers(message, self.call.id):
                self.slot.set(message)
            else:
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
            self.inbound.request(message, self.link)
        elif message["method"] != PROGRESS:
            self.inbound.notification(message)
        elif self.call.deliver is not None and progress_token(message.get("params")) == self.call.id:
            self.slot.post(message["params"])


class PlainExchange(Exchange):
    """Any other request: only its status matters."""

    __slots__ = ()

    def on_head(self, head: ResponseHead) -> None:
        # Not at the end: an answer that was not asked for may go on for ever.
        self.slot.set(head)

    def on_failed(self, error: FerruleError) -> None:
        self.slot.fail(error)


class StreamableHTTP:
    """The way to one MCP endpoint, under one set of headers.

    Attributes:
        label: The endpoint without credentials and query.
        inbound: Whom to tell of messages that answer no call.
    """

    __slots__ = (
        "_auth",
        "_headers",
        "_io",
        "_limits",
        "_place",
        "_pool",
        "inbound",
        "label",
        "process",
        "sends_credential",
    )

    http = True

    def __init__(
        self,
        io: IO,
        pool: Pool,
        place: Place,
        limits: Limits,
        headers: tuple[tuple[str, str], ...] = (),
        auth: Auth | None = None,
    ) -> None:
        url = place.url
        if url.userinfo is not None and (auth is not None or _names_authorization(headers)):
            raise ConfigError("the URL holds a user, and an Authorization header or auth= was given too: give one")
        self._io = io
        self._pool = pool
        self._place = place
        self._limits = limits
        self._headers = headers
        self._auth = auth
        self.inbound: Inbound
        self.process = 0
        self.label = url.label
        self.sends_credential = auth is not None or url.userinfo is not None or _names_authorization(headers)

    def view(self, headers: tuple[tuple[str, str], ...], auth: Auth | None) -> StreamableHTTP:
        """The same endpoint and connections under other headers."""
        return StreamableHTTP(self._io, self._pool, self._place, self._limits, headers, auth)

    # Requests as bytes

    def wire(self, era: Era | None, session_id: str | None) -> RequestTemplate:
        """The unchanging part of each POST under this era and session."""
        return self._template("POST", era, session_id)

    def _template(self, verb: str, era: Era | None, session_id: str | None) -> RequestTemplate:
        url = self._place.url
        headers = [("Host", url.host_header)]
        if not any(name.lower() == "user-agent" for name, _ in self._headers):
            headers.append(("User-Agent", "ferrule"))
        headers.append(("Accept", _ACCEPT_POST))
        headers.append(("Accept-Encoding", _ACCEPT_ENCODING))
        if verb == "POST":
            headers.append(("Content-Type", "application/json"))
        if era is not None:
            headers.append(("MCP-Protocol-Version", era.revision))
        if session_id is not None:
            headers.append(("Mcp-Session-Id", session_id))
        basic = url.basic_authorization()
        if basic is not None:
            headers.append(("Authorization", basic))
        elif isinstance(self._auth, str):
            headers.append(("Authorization", f"Bearer {self._auth}"))
        headers.extend(self._headers)
        try:
            return RequestTemplate(verb, url.target, headers, mirror=era is not None and era.mirrors)
        except ValueError:
            raise ConfigError(f"{self.label}: auth or a header holds a character no header may carry") from None

    def _fresh_headers(self) -> list[tuple[str, str]] | None:
        """Headers that are asked for anew for each request."""
        if self._auth is None or isinstance(self._auth, str):
            return None
        return [("Authorization", f"Bearer {self._auth()}")]

    # Requests

    async def start(self, deadline: float) -> None:
        """Nothing has to run before the first request."""

    async def request(self, call: Call, link: Link) -> dict[str, Any]:
        """Carry one request to its answer: see `interface.Transport`."""
        trail: Trail | None = None
        while True:
            exchange = await self._post(call, link)
            message = exchange.slot.result()
            if message is not None:
                return message  # type: ignore[no-any-return]
            head = exchange.head
            if head is None or head.status not in REDIRECTS:
                return self._read(exchange, call, link)
            trail = trail or Trail(self._limits.max_redirects)
            self._follow(trail, head, link)

    async def _post(self, call: Call, link: Link) -> PostExchange:
        """One POST, until its answer is known or its exchange is over."""
        era = link.era
        wire = link.wire
        assert wire is not None
        data = wire.request(
            call.id, call.method.name, call.name, call.params, era.meta, call.meta,
            self._fresh_headers(),
        )  # fmt: skip
        exchange = PostExchange(self._io.slot(), call, link, self.inbound)
        try:
            connection = await self._pool.send(exchange, data, call.deadline, bypass=call.bypass)
        finally:
            call.sent = exchange.sent
        try:
            await self._answer(call, exchange, connection)
        except BaseException:
            self._give_up(call, link, exchange, connection)
            raise
        call.head = exchange.head
        connection.leave(exchange)
        return exchange

    async def _answer(self, call: Call, exchange: PostExchange, connection: Connection) -> None:
        """Wait until the exchange has its answer; hand progress to the caller meanwhile."""
        slot = exchange.slot
        while True:
            await connection.wait(slot, call.deadline)
            if slot.mail and call.deliver is not None:
                await call.deliver(slot.take_mail())
            if slot.done:
                return

    def _give_up(self, call: Call, link: Link, exchange: PostExchange, connection: Connection) -> None:
        """Nobody waits for the answer any more: tell the server as its era wants it (basic/patterns/cancellation)."""
        if link.era.cancels_by_closing or exchange.slot.done or not call.method.cancellable:
            connection.leave(exchange)
            return
        # The stream stays open until the server was told: closing it is no cancellation in this era.
        self._io.background(self._cancel(exchange, link, connection))

    async def _cancel(self, exchange: PostExchange, link: Link, connection: Connection) -> None:
        try:
            deadline = self._io.now() + self._limits.cancel_timeout
            params = dumps({"requestId": exchange.call.id, "reason": "the caller gave up"})
            await self.notify("notifications/cancelled", params, link, deadline)
        except (FerruleError, Expired) as error:
            _log.debug("a cancellation could not be told: %s", type(error).__name__)
        finally:
            # Not `close`: if the answer came after all, the connection serves somebody else by now.
            connection.leave(exchange)

    def _follow(self, trail: Trail, head: ResponseHead, link: Link) -> None:
        """Go where a redirect within the origin leads, now and from now on."""
        self._place.url = trail.follow(self._place.url, head.status, head.get("location"))
        link.wire = self.wire(link.era, link.session_id)

    def _read(self, exchange: PostExchange, call: Call, link: Link) -> dict[str, Any]:
        """The answer in a body that was no event stream, or an error that says what came instead."""
        where = f"{call.method.name} at {self.label}"
        head = exchange.head
        if head is None:
            raise ConnectionClosed(f"{where}: ended before the answer", request_sent=call.sent)
        if head.kind == KIND_SSE and head.status == 200:
            raise ConnectionClosed(f"{where}: the event stream ended before the answer", request_sent=True)
        self._check_status(head, link, where)
        body = exchange.body
        if not body or not may_be_message(head, body):
            raise refusal(head, where)
        try:
            message = loads(body, exchange.flags)
        except InvalidMessage as error:
            if head.kind == KIND_JSON and head.status < 400:
                raise InvalidMessage(f"{where}: {error}") from None
            raise refusal(head, where) from None
        return self._pick(message, exchange, head, where)

    def _check_status(self, head: ResponseHead, link: Link, where: str) -> None:
        """Raise for the statuses whose meaning no body changes."""
        if head.status == 401:
            raise AuthError(f"{where}: HTTP 401, the server wants authorization", status=401)
        if head.status == 404 and link.session_id is not None:
            raise SessionExpired(f"{where}: the server does not know the session any more")

    def _pick(self, message: Any, exchange: PostExchange, head: ResponseHead, where: str) -> dict[str, Any]:
        """The answer to the call in what a body holds."""
        if type(message) is dict and "method" not in message and answers(message, exchange.call.id):
            return message
        if head.status >= 400:
            if is_error_without_id(message):
                # It is an answer to what was posted: there was nothing else it could answer (W12).
                return message  # type: ignore[no-any-return]
            raise refusal(head, where)
        if type(message) is dict:
            raise InvalidMessage(f"{where}: the answer has another id")
        if type(message) is not list or not exchange.link.era.batches:
            raise InvalidMessage(f"{where}: the body is no JSON-RPC message")
        exchange.slot = self._io.slot()
        exchange.take_batch(message)
        if not exchange.slot.done:
            raise InvalidMessage(f"{where}: the batch does not hold the answer")
        return exchange.slot.result()  # type: ignore[no-any-return]

    # Beside requests

    async def notify(self, method: str, params: bytes | None, link: Link, deadline: float) -> None:
        """Send a notification and see it accepted with any 2xx."""
        wire = link.wire
        assert wire is not None
        data = wire.request(None, method, None, params, None, None, self._fresh_headers())
        head = await self._send(data, deadline)
        self._check_accepted(head, method, link)

    async def reply(self, message: dict[str, Any], link: Link, deadline: float) -> None:
        """Post the answer to a request of the server's."""
        wire = link.wire
        assert wire is not None
        head = await self._send(wire.body(dumps(message), self._fresh_headers()), deadline)
        self._check_accepted(head, "a reply", link)

    async def end_session(self, link: Link, deadline: float) -> None:
        """DELETE the session (2025-11-25, Session Management); 404 and 405 are as good as 200."""
        if link.session_id is None:
            return
        template = self._template("DELETE", link.era, link.session_id)
        await self._send(template.bare(self._fresh_headers()), deadline)

    async def _send(self, data: bytes, deadline: float) -> ResponseHead:
        exchange = PlainExchange(self._io.slot())
        connection = await self._pool.send(exchange, data, deadline, bypass=True)
        try:
            await connection.wait(exchange.slot, deadline)
        finally:
            connection.leave(exchange)
        return exchange.slot.result()  # type: ignore[no-any-return]

    def _check_accepted(self, head: ResponseHead, what: str, link: Link) -> None:
        if 200 <= head.status < 300:
            return
        where = f"{what} at {self.label}"
        self._check_status(head, link, where)
        raise refusal(head, where)

    # The end

    async def close(self, deadline: float) -> None:
        """Close all connections; exchanges under way fail with ConnectionClosed."""
        await self._pool.close()

    def abandon(self) -> None:
        """After fork: drop what was inherited without a word on the wire."""
        self._pool.abandon()


class Place:
    """Where the endpoint is now: redirects within its origin are remembered for all views.

    Attributes:
        url: What requests are made for.
    """

    __slots__ = ("url",)

    def __init__(self, url: Url) -> None:
        self.url = url


def _names_authorization(headers: tuple[tuple[str, str], ...]) -> bool:
    return any(name.lower() == "authorization" for name, _ in headers)
