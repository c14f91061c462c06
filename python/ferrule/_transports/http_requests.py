"""What both HTTP transports share: how requests look, how what needs no answer is sent, how calls are cancelled.

Knows headers, redirects and statuses; nothing of where answers come from.
"""

from __future__ import annotations

from .. import _log
from .._http.exchange import Exchange
from .._http.pool import Pool
from .._io import Closing, Expired, Unsent
from .._json import dumps
from .._protocol import refusals
from .._wire import RequestTemplate
from ..errors import ConfigError, ConnectionClosed, FerruleError, SessionExpired
from .call import UNREADY, LinkLost

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._core import ResponseHead
    from .._http.connection import Connection
    from .._http.redirects import Trail
    from .._http.url import Url
    from .._io.interface import IO, Slot
    from .._protocol.era import Era
    from ..limits import Limits
    from .call import Call, Inbound, Link
    from .fresh import Fresh
    from .streams import StreamExchange

    Auth = Any  # a str, a function, or an `auth.Auth`
    Headers = list[tuple[str, str]]

_ACCEPT_POST = "application/json, text/event-stream"
_ACCEPT_GET = "text/event-stream"
_ACCEPT_ENCODING = "gzip, deflate"


class PlainExchange(Exchange):
    """Any other request: only its status matters."""

    __slots__ = ()

    def on_head(self, head: ResponseHead) -> None:
        # Not at the end: an answer that was not asked for may go on for ever.
        self.slot.set(head)

    def on_failed(self, error: FerruleError) -> None:
        self.slot.fail(error)


class HttpTransport:
    """One way to an endpoint, under one set of headers.

    Attributes:
        label: The endpoint without credentials and query.
        process: Which stream the messages go with, counted from 1; 0 where each request has its own.
        inbound: Whom to tell of messages that answer no call.
    """

    __slots__ = (
        "_auth",
        "_fresh",
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
        self._auth = auth
        # The user's own cookies go with the server's, in one header.
        given = "; ".join([value for name, value in headers if name.lower() == "cookie"])
        self._headers = tuple(field for field in headers if field[0].lower() != "cookie") if given else headers
        self._fresh: Fresh | None = None
        if given or (auth is not None and not isinstance(auth, str)):
            self._fresh = self._new_fresh(given)
        self.inbound: Inbound
        self.process = 0
        self.label = url.label
        self.sends_credential = auth is not None or url.userinfo is not None or _names_authorization(headers)

    def _new_fresh(self, cookies: str) -> Fresh:
        auth, url = self._auth, self._place.url
        if is_auth(auth) or (auth is not None and not self._io.blocking and _is_async(auth)):
            from ..auth.interface import AuthContext
            from .authorized import Authorized

            if not is_auth(auth):
                from ..auth.static import AsyncTokens

                auth = AsyncTokens(auth)  # type: ignore[arg-type]  # it is an async function
            pool = self._pool
            context = AuthContext(self._io, self._limits, self._place.named, self._place.way, lambda: pool.reached)
            return Authorized(self._io, self._limits, url.label, auth, context, cookies)
        from .fresh import Fresh

        return Fresh(self._io, self._limits, url.label, auth if callable(auth) else None, cookies)

    # Requests as bytes

    def template(
        self, verb: str, url: Url, era: Era | None, session_id: str | None, *, stays_open: bool = False
    ) -> RequestTemplate:
        """The unchanging part of requests to `url` under this era and session.

        `stays_open`: the answer is a stream without an end.
        """
        headers = [("Host", url.host_header)]
        if not any(name.lower() == "user-agent" for name, _ in self._headers):
            headers.append(("User-Agent", "ferrule"))
        headers.append(("Accept", _ACCEPT_GET if verb == "GET" else _ACCEPT_POST))
        # A stream that stays open would hold a decoder of 40 KB, and events would wait in the server's encoder.
        headers.append(("Accept-Encoding", "identity" if stays_open or verb == "GET" else _ACCEPT_ENCODING))
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
        target = url.target
        proxy = self._pool.proxy
        if proxy is not None and not url.is_https:
            from .._http.proxy import absolute_target, proxy_headers

            target = absolute_target(url)
            headers.extend(proxy_headers(proxy))
        try:
            return RequestTemplate(verb, target, headers, mirror=era is not None and era.mirrors)
        except ValueError:
            raise ConfigError(f"{self.label}: auth or a header holds a character no header may carry") from None

    async def fresh_headers(self, url: Url, verb: str, deadline: float, own: Headers | None = None) -> Headers | None:
        """Headers that only one request carries, `own` to it first; waits for what is missing."""
        if self._fresh is None:
            return own
        headers = self._fresh.headers(url, own, verb)
        return headers if headers is not UNREADY else await self._fresh.prepared(url, own, verb, deadline)

    async def authorize(
        self,
        head: ResponseHead,
        sent: Headers | None,
        trail: Trail,
        deadline: float,
        verb: str = "POST",
        url: Url | None = None,
        own: Headers | None = None,
    ) -> bool:
        """After a refusal: is the request to be sent once more, with other credentials?

        Args:
            head: The refusal's, or any other answer's.
            sent: The headers that only this request carried.
            trail: Why it was written again so far.
            deadline: When to give up.
            verb: Its method.
            url: Where it went, None for the endpoint.
            own: What of `sent` came from the caller.

        Raises:
            AuthError: They cannot be had.
        """
        if head.status not in refusals.AUTHORIZATION or self._fresh is None:
            return False
        return await self._fresh.react(url or self._place.url, sent or [], own, verb, head, trail, deadline)

    def share_fresh(self, other: HttpTransport) -> None:
        """Have the same cookies as another transport of the same view."""
        self._fresh = other._fresh

    def partition(self) -> bytes | None:
        """Which authorization the answers are for, in a cache: b"" for none; None: unknown, so shared with nobody."""
        if self._fresh is not None and self._auth is not None and not isinstance(self._auth, str):
            return self._fresh.partition()
        if self._auth is None:
            return b""
        from hashlib import sha256

        return sha256(f"Bearer {self._auth}".encode()).digest()

    def keep_cookies(self, head: ResponseHead) -> None:
        """Take the cookies of a head that is `notable`, if it has any."""
        if head.get("set-cookie") is None:
            return
        if self._fresh is None:
            from .fresh import Fresh

            fresh = Fresh(self._io, self._limits, self.label)
            with self._io.mutex():
                if self._fresh is None:
                    self._fresh = fresh
        self._fresh.take(head, self._place.url)

    # Who asks whom

    def endpoint(self) -> bytes | None:
        """See `interface.Transport.endpoint`."""
        url = self._place.url
        return repr((url.scheme, url.host, url.port, url.target, self._pool.address)).encode("utf-8", "replace")

    def caller(self) -> tuple[bytes, bool] | None:
        """See `interface.Transport.caller`."""
        context = self.partition()
        if context is None:
            return None
        proxy = self._pool.proxy
        shown = (
            self._place.url.userinfo,
            context,
            self._headers,
            self._fresh.cookies(self._place.url) if self._fresh is not None else None,
            proxy.userinfo if proxy is not None else None,
        )
        return repr(shown).encode("utf-8", "backslashreplace"), not self._pool.may_hold_certificate

    # Beside requests

    def attend(self, link: Link) -> None:
        """See `interface.Transport.attend`: what the server sends unasked comes on streams that are read anyway."""

    async def wait(self, slot: Slot, link: Link, deadline: float) -> None:
        """See `interface.Transport.wait`."""
        await self._io.wait(slot, deadline)

    def poll(self) -> None:
        """See `interface.Transport.poll`."""

    async def notify(self, method: str, params: bytes | None, link: Link, deadline: float) -> None:
        """Send a notification and see it accepted with any 2xx. Raises `Unsent` if no byte went out in time."""

        def data(wire: RequestTemplate, fresh: Headers | None) -> bytes:
            return wire.request(None, method, None, params, None, None, fresh)

        await self._deliver(data, method, link, deadline)

    async def reply(self, message: dict[str, Any], link: Link, deadline: float) -> None:
        """Post the answer to a request of the server's."""
        body = dumps(message)
        await self._deliver(lambda wire, fresh: wire.body(body, fresh), "a reply", link, deadline)

    async def _deliver(
        self, make: Callable[[RequestTemplate, Headers | None], bytes], what: str, link: Link, deadline: float
    ) -> None:
        """Post what is not answered, and see it accepted; redirects are followed as for a request."""
        trail: Trail | None = None
        sent = False
        while True:
            url = self.place_of(link)
            try:
                fresh = await self.fresh_headers(url, "POST", deadline)
            except Expired:
                raise (Expired if sent else Unsent) from None
            wire = link.wire
            assert wire is not None
            head = await self._send(make(wire, fresh), deadline)
            sent = True
            if head.status < 300:
                break
            trail = trail or self.trail()
            if trail.leads_on(head.status):
                self.follow(trail, head, link)
            elif not await self.authorize(head, fresh, trail, deadline, "POST", url):
                break
        self._check_accepted(head, what, link)

    async def _send(self, data: bytes, deadline: float) -> ResponseHead:
        exchange = PlainExchange(self._io.slot())
        try:
            connection = await self._pool.send(exchange, data, deadline, bypass=True)
        except (Expired, Closing) as signal:
            if exchange.sent:
                raise
            if isinstance(signal, Expired):
                raise Unsent from None
            raise ConnectionClosed(f"{self.label}: the client was closed", request_sent=False) from None
        try:
            await connection.wait(exchange.slot, deadline)
        finally:
            connection.leave(exchange)
        head: ResponseHead = exchange.slot.result()
        if head.notable:
            self.keep_cookies(head)
        return head

    async def open_stream(self, exchange: StreamExchange, link: Link, deadline: float) -> Connection:
        """Ask for an event stream by GET, after the last event that the exchange's cursor knows.

        The caller waits for `exchange.slot` on the connection, then leaves it. Not counted against
        `Limits.max_connections`.
        """
        headers = await self.fresh_headers(self._place.url, "GET", deadline)
        exchange.credentials = headers
        headers = list(headers or ())
        last = exchange.cursor.id
        if last is not None:
            headers.append(("Last-Event-ID", last))
        template = self.template("GET", self._place.url, link.era, link.session_id)
        return await self._pool.send(exchange, template.bare(headers), deadline, bypass=True)

    def trail(self) -> Trail:
        """What a request needs once it may have to be written again."""
        from .._http.redirects import Trail

        return Trail(self._limits.max_redirects)

    def place_of(self, link: Link) -> Url:
        """Where messages under this link are posted."""
        return self._place.url

    if TYPE_CHECKING:  # each transport has its own

        def follow(self, trail: Trail, head: ResponseHead, link: Link) -> None:
            """Go where a redirect within the origin leads, now and from now on."""

    # What answers say by their status

    def _where(self, call: Call) -> str:
        """Method and server, for texts."""
        return f"{call.method.name} at {self.label}"

    def check_status(self, head: ResponseHead, link: Link, where: str) -> None:
        """Raise for the statuses whose meaning no body changes."""
        if head.status in refusals.AUTHORIZATION:
            from .authorized import refusal as refusal_of

            refused = refusal_of(head, where)
            if refused is not None:
                raise refused
        if head.status == 404 and link.session_id is not None:
            raise SessionExpired(f"{where}: the server does not know the session any more")

    def _check_accepted(self, head: ResponseHead, what: str, link: Link) -> None:
        if 200 <= head.status < 300:
            return
        where = f"{what} at {self.label}"
        self.check_status(head, link, where)
        from .._http.content import refusal

        raise refusal(head, where)

    # Giving up

    def cancel_in_background(self, call: Call, link: Link, then: Callable[[], object]) -> None:
        """Tell the server that nobody waits for the answer any more, then do what has to come after that."""
        told = self._io.slot()
        with self._io.mutex():
            self._place.farewells += (told,)
        self._io.background(self._cancel(call, link, told, then))

    async def _cancel(self, call: Call, link: Link, told: Slot, then: Callable[[], object]) -> None:
        try:
            deadline = self._io.now() + self._limits.cancel_timeout
            params = dumps({"requestId": call.id, "reason": "the caller gave up"})
            await self.notify("notifications/cancelled", params, link, deadline)
        except (FerruleError, Expired, LinkLost) as error:
            _log.debug("a cancellation could not be told: %s", type(error).__name__)
        finally:
            then()
            with self._io.mutex():
                self._place.farewells = tuple(one for one in self._place.farewells if one is not told)
            told.set(None)

    # The end

    async def close(self, deadline: float) -> None:
        """Close all connections; exchanges under way fail with ConnectionClosed.

        Cancellations that are being told are finished first: a server without sessions learns by no other means.
        """
        with self._io.mutex():
            farewells = self._place.farewells
        try:
            for told in farewells:
                await self._io.wait(told, deadline)
        except Expired:
            _log.debug("not every cancellation could be told before closing")
        finally:
            await self._pool.close()

    def abandon(self) -> None:
        """After fork: drop what was inherited without a word on the wire."""
        self._pool.abandon()


class Place:
    """Where the endpoint is now, and what is still to be said there: shared by all views.

    Attributes:
        named: What the user named.
        url: What requests are made for; redirects within the origin are remembered.
        way: How it is reached, as far as that counts for others.
        farewells: Of each cancellation that is being told, the slot that is set when it is over.
    """

    __slots__ = ("__weakref__", "farewells", "named", "url", "way")

    def __init__(self, url: Url, way: tuple[Any, Any, Any] = (None, None, None)) -> None:
        self.named = self.url = url
        self.way = way
        self.farewells: tuple[Slot, ...] = ()


def is_auth(auth: object) -> bool:
    """Is it more than a token, or a function that returns one? Without loading `auth`."""
    return hasattr(auth, "react")


def _is_async(function: object) -> bool:
    from inspect import iscoroutinefunction  # asyncio has loaded it

    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _names_authorization(headers: tuple[tuple[str, str], ...]) -> bool:
    return any(name.lower() == "authorization" for name, _ in headers)
