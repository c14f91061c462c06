"""Requests to authorization servers, and for documents about them: small, bounded, to judged addresses only.

Knows HTTP as far as OAuth needs it: JSON comes back, forms and JSON go out, redirects are never followed, nothing is
sent again. What a document means is its reader's business.
"""

from __future__ import annotations

import weakref
from functools import partial

from .._http.endpoints import Unix
from .._http.exchange import Exchange
from .._http.pool import Pool
from .._http.proxy import absolute_target, proxy_for, proxy_headers
from .._io import Closing, Expired
from .._json import dumps, loads
from .._value import Frozen
from .._wire import RequestTemplate
from ..errors import ConfigError, FerruleError, InvalidMessage, LimitExceeded
from .guard import Forbidden, Guard
from .steps import auth_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, NoReturn

    from .._core import ResponseHead
    from .._http.endpoints import Tcp
    from .._http.tls import Tls
    from .._http.url import Url
    from .._io.interface import IO, Address, Slot
    from ..errors import AuthError
    from ..limits import Limits

_MOST_ORIGINS = 8
"""Origins that are talked to at once: a protected resource, its authorization server, an identity provider."""
_MOST_CONNECTIONS = 4


class Way(Frozen):
    """How the client reaches its server, as far as it counts for others too.

    Attributes:
        tls: The user's `tls=`.
        proxy: The user's `proxy=`.
        endpoint: The address of its own that the server is reached at, or None. Others are not.
    """

    __slots__ = ("endpoint", "proxy", "tls")

    tls: Tls
    proxy: str | None
    endpoint: Tcp | Unix | None

    def __init__(self, tls: Tls = None, proxy: str | None = None, endpoint: Tcp | Unix | None = None) -> None:
        self._set("tls", tls)
        self._set("proxy", proxy)
        self._set("endpoint", endpoint)

    def __repr__(self) -> str:
        return "<Way>"  # a proxy's URL may hold a password

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Way may hold a password and is not pickled")


class Answer(Frozen):
    """What came back.

    Attributes:
        status: The HTTP status.
        json: The body, if it is a JSON object; else None.
        headers: Has `get(name)`, which gives a header's first value or None.
    """

    __slots__ = ("headers", "json", "status")

    status: int
    json: dict[str, Any] | None
    headers: ResponseHead

    def __init__(self, status: int, json: dict[str, Any] | None, headers: ResponseHead) -> None:
        self._set("status", status)
        self._set("json", json)
        self._set("headers", headers)

    def __repr__(self) -> str:
        return f"<Answer {self.status}, {'no object' if self.json is None else f'{len(self.json)} members'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Answer may hold tokens and is not pickled")


class Fetcher:
    """Asks on behalf of one client's view.

    Its connections are closed with `close`, when it is collected, or with the client, whichever is first: whoever goes
    through a flow closes it afterwards, so that none idles.

    Args:
        io: Does everything that waits.
        limits: `auth_timeout` and `max_auth_bytes` count here.
        server: The server, as the user named it: see `guard`.
        way: How the client reaches it.
        allow_hosts: Hosts that may be at private addresses: see `guard`.
        reached: What the server's host stood for when it was last connected to: see `Pool.reached`.

    Raises:
        ConfigError: `allow_hosts` is one text.
    """

    __slots__ = ("__weakref__", "_guard", "_io", "_limits", "_pool_limits", "_pools", "_server", "_way")

    def __init__(
        self,
        io: IO,
        limits: Limits,
        server: Url,
        *,
        way: Way | None = None,
        allow_hosts: Iterable[str] = (),
        reached: Callable[[], list[Address] | None] | None = None,
    ) -> None:
        self._io = io
        self._limits = limits
        self._pool_limits = limits.replace(max_message_bytes=limits.max_auth_bytes, max_connections=_MOST_CONNECTIONS)
        self._server = server
        self._way = way or Way()
        self._guard = Guard(io, server, _place(self._way.endpoint), allow_hosts, reached)
        self._pools: dict[str, Pool] = {}
        weakref.finalize(self, io.let_go, partial(_shut, self._pools))

    def __repr__(self) -> str:
        return f"<Fetcher for {self._server.label}: {len(self._pools)} origins>"

    @property
    def io(self) -> IO:
        """What everything waits with."""
        return self._io

    def check(self, url: str, step: str) -> Url:
        """Judge a URL that a peer named, also one that is not asked but handed to a browser.

        Raises:
            AuthError: It must not be used: the step's own subclass.
        """
        try:
            return self._guard.check(url)
        except Forbidden as reason:
            raise auth_error(step, f"not asked, since the URL {reason}", url=url) from None

    async def get_json(
        self, url: str, step: str, deadline: float, headers: Iterable[tuple[str, str]] = ()
    ) -> tuple[int, dict[str, Any] | None]:
        """GET a document.

        Returns:
            The status, and the body if it is a JSON object. A redirect is an answer like any other.

        Raises:
            AuthError: There was no answer, or it must not be asked: the step's own subclass.
            Expired: At the deadline.
        """
        answer = await self._ask("GET", url, None, list(headers), step, deadline)
        return answer.status, answer.json

    async def post_form(
        self, url: str, fields: Mapping[str, str], headers: Iterable[tuple[str, str]], step: str, deadline: float
    ) -> Answer:
        """POST fields as a form (RFC 6749, appendix B). Raises as `get_json` does."""
        from urllib.parse import urlencode

        headers = [("Content-Type", "application/x-www-form-urlencoded"), *headers]
        return await self._ask("POST", url, urlencode(fields).encode(), headers, step, deadline)

    async def post_json(
        self, url: str, body: Mapping[str, Any], headers: Iterable[tuple[str, str]], step: str, deadline: float
    ) -> Answer:
        """POST a JSON object. Raises as `get_json` does."""
        headers = [("Content-Type", "application/json"), *headers]
        return await self._ask("POST", url, dumps(dict(body)), headers, step, deadline)

    async def _ask(
        self, verb: str, url: str, body: bytes | None, headers: list[tuple[str, str]], step: str, deadline: float
    ) -> Answer:
        target = self.check(url, step)
        until = min(deadline, self._io.now() + self._limits.auth_timeout)
        try:
            pool = self._pool(target)
            return await self._exchange(pool, _request(verb, target, body, headers, pool.proxy), until)
        except Expired:
            if until == deadline:
                raise
            message = f"no answer within {self._limits.auth_timeout:g} seconds (limits.auth_timeout)"
            raise auth_error(step, message, url=url) from None
        except Forbidden as reason:
            raise auth_error(step, f"not asked, since the URL {reason}", url=url) from None
        except Closing:
            raise auth_error(step, "the client was closed", url=url) from None
        except FerruleError as error:
            raise _failed(step, url, error) from error

    async def _exchange(self, pool: Pool, data: bytes, deadline: float) -> Answer:
        exchange = _Whole(self._io.slot())
        connection = await pool.send(exchange, data, deadline)
        try:
            await connection.wait(exchange.slot, deadline)
        finally:
            connection.leave(exchange)
        head: ResponseHead = exchange.slot.result()
        return Answer(head.status, _object(exchange.body, exchange.flags), head)

    def _pool(self, url: Url) -> Pool:
        """The connections to an origin; the oldest make room."""
        oldest = None
        with self._io.mutex():
            pool = self._pools.get(url.origin)
            if pool is not None:
                return pool
            if len(self._pools) >= _MOST_ORIGINS:
                oldest = self._pools.pop(next(iter(self._pools)))
        if oldest is not None:
            oldest.shut()
        # Where it is reached is the server's own affair, and so is the proxy that is not used for that.
        own = self._way.endpoint if url.origin == self._server.origin else None
        proxy = None if own is not None else proxy_for(url, self._way.proxy)
        made = GuardedPool(
            self._io, url, limits=self._pool_limits, tls=self._way.tls, endpoint=own, proxy=proxy, guard=self._guard
        )
        with self._io.mutex():
            return self._pools.setdefault(url.origin, made)

    def close(self) -> None:
        """Close its connections. It can be used again."""
        _shut(self._pools)


class GuardedPool(Pool):
    """Connects to addresses that were judged, and to no other. Through a proxy, or at a place of the user's, as any."""

    __slots__ = ("_guard",)

    def __init__(self, *args: Any, guard: Guard, **options: Any) -> None:
        super().__init__(*args, **options)
        self._guard = guard

    async def _addresses(self, deadline: float) -> list[Address]:
        return await self._guard.addresses(self.origin, deadline)


class _Whole(Exchange):
    """Waits for a whole response; its slot gets the head."""

    __slots__ = ("_head", "body", "flags")

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot)
        self._head: ResponseHead | None = None
        self.body = b""
        self.flags = 0

    def on_head(self, head: ResponseHead) -> None:
        self._head = head

    def on_body(self, data: bytes, flags: int) -> None:
        self.body = data
        self.flags = flags

    def on_end(self) -> None:
        self.slot.set(self._head)

    def on_failed(self, error: FerruleError) -> None:
        self.slot.fail(error)


def _request(verb: str, url: Url, body: bytes | None, headers: list[tuple[str, str]], proxy: Url | None) -> bytes:
    """The whole request.

    Raises:
        ConfigError: A header cannot be sent.
    """
    fixed = [("Host", url.host_header), ("User-Agent", "ferrule"), ("Accept", "application/json")]
    target = url.target
    if proxy is not None and not url.is_https:
        target = absolute_target(url)
        fixed += proxy_headers(proxy)
    try:
        template = RequestTemplate(verb, target, fixed)
        return template.bare(headers) if body is None else template.body(body, headers)
    except ValueError:
        raise ConfigError("a header holds a character no header may carry") from None


def _object(body: bytes, flags: int) -> dict[str, Any] | None:
    """A body as a JSON object; None when it is none."""
    try:
        value = loads(body, flags) if body else None
    except InvalidMessage:
        return None
    return value if isinstance(value, dict) else None


def _failed(step: str, url: str, error: FerruleError) -> AuthError:
    """A step's error for one of a connection's."""
    if isinstance(error, LimitExceeded):
        return auth_error(step, f"the answer is larger than allowed (limits.{_own_limit(error.limit)})", url=url)
    return auth_error(step, str(error), url=url, status=getattr(error, "status", None))


def _own_limit(limit: str) -> str:
    return "max_auth_bytes" if limit == "max_message_bytes" else limit


def _place(endpoint: Tcp | Unix | None) -> str | None:
    """Where the server is, for `Guard`."""
    if endpoint is None:
        return None
    return "" if isinstance(endpoint, Unix) else endpoint.host


def _shut(pools: dict[str, Pool]) -> None:
    while pools:
        try:
            _, pool = pools.popitem()
        except KeyError:  # another thread was faster
            return
        pool.shut()
