"""How anything authorizes requests: what a transport asks, and what it is asked with.

Knows values and the contract; nothing of OAuth. A subclass of `Auth` with a `headers` method is enough:

    class Signed(Auth):
        def headers(self, request):
            return [("Authorization", "Sig " + sign(request.method, request.url))]
"""

from __future__ import annotations

from .._value import Frozen
from .challenges import COUNTS, choose, parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any, NoReturn

    from .._http.url import Url
    from .._io.interface import IO, Address
    from ..limits import Limits
    from .challenges import Scheme
    from .fetch import Fetcher

    Headers = list[tuple[str, str]]


class AuthRequest(Frozen):
    """A request that is to be authorized, or that was refused.

    Attributes:
        method: The HTTP method.
        url: Where it goes, without user and fragment.
        sent: The headers that this `Auth` gave for it when it was refused; empty before that.
    """

    __slots__ = ("method", "sent", "url")

    method: str
    url: str
    sent: tuple[tuple[str, str], ...]

    def __init__(self, method: str, url: str, sent: tuple[tuple[str, str], ...] = ()) -> None:
        self._set("method", method)
        self._set("url", url)
        self._set("sent", sent)

    def __repr__(self) -> str:
        return f"<AuthRequest {self.method} {self.url.partition('?')[0]}, {len(self.sent)} headers sent>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an AuthRequest holds what authorizes it and is not pickled")


class Challenge(Frozen):
    """A 401, or a 403 that says that the scope is insufficient.

    Attributes:
        status: 401 or 403.
        www_authenticate: Every such header as received.
        dpop_nonce: The `DPoP-Nonce` header, or None (RFC 9449, section 9).
        schemes: The challenges in `www_authenticate`.
        scheme: The one of them that counts: Bearer, or else DPoP; None when there is neither.
    """

    __slots__ = ("dpop_nonce", "schemes", "status", "www_authenticate")

    status: int
    www_authenticate: tuple[str, ...]
    dpop_nonce: str | None
    schemes: tuple[Scheme, ...]

    def __init__(
        self,
        status: int,
        www_authenticate: Iterable[str] = (),
        dpop_nonce: str | None = None,
        schemes: Iterable[Scheme] | None = None,
    ) -> None:
        values = tuple(www_authenticate)
        self._set("status", status)
        self._set("www_authenticate", values)
        self._set("dpop_nonce", dpop_nonce)
        self._set("schemes", tuple(parse(values) if schemes is None else schemes))

    @property
    def scheme(self) -> Scheme | None:
        """The challenge that counts."""
        return choose(list(self.schemes))

    def param(self, name: str) -> str | None:
        """A parameter of the challenges that count, such as "error", "scope" or "resource_metadata"; the first's."""
        ordered = sorted(self._counting(), key=lambda one: COUNTS.index(one.name))
        return next((one.params[name] for one in ordered if name in one.params), None)

    @property
    def wants_scope(self) -> bool:
        """Does it say that the token's scope is insufficient (RFC 6750, section 3.1)?"""
        return any(one.params.get("error") == "insufficient_scope" for one in self._counting())

    @property
    def wants_nonce(self) -> bool:
        """Does it say that the proof needs the nonce that came with it (RFC 9449, section 9)?"""
        return self.dpop_nonce is not None and any(
            one.params.get("error") == "use_dpop_nonce" for one in self._counting()
        )

    def _counting(self) -> list[Scheme]:
        return [one for one in self.schemes if one.name in COUNTS]

    def __repr__(self) -> str:
        return f"<Challenge {self.status}, {len(self.schemes)} schemes>"


class AuthContext:
    """Where an `Auth` is used: one view of a client, and the server it talks to.

    Attributes:
        io: Everything that waits. Nothing may hold it beyond the client.
        limits: The client's bounds.
        server: The server's URL, as the user gave it.
    """

    __slots__ = ("_reached", "_way", "io", "limits", "server")

    def __init__(
        self,
        io: IO,
        limits: Limits,
        server: Url,
        way: tuple[Any, Any, Any] = (None, None, None),
        reached: Callable[[], list[Address] | None] | None = None,
    ) -> None:
        """Say where.

        `way`: the user's `tls=` and `proxy=`, and the endpoint that the server is reached at, if it has one.
        `reached`: what the server's host stood for when it was last connected to.
        """
        self.io = io
        self.limits = limits
        self.server = server
        self._way = way
        self._reached = reached

    def fetcher(self, allow_hosts: Iterable[str] = (), *, trusted: Url | None = None) -> Fetcher:
        """Requests to authorization servers, under the same TLS and proxy settings as the client's own.

        Args:
            allow_hosts: Hosts that may be at private addresses: see `guard`.
            trusted: A URL of the user's that is asked in place of what the server names: see `guard`.
        """
        from .fetch import Fetcher, Way

        tls, proxy, endpoint = self._way
        way = Way(tls, proxy, endpoint if trusted is None else None)  # the endpoint is the server's own
        # What the user names besides is asked alone, and names nobody.
        reached = self._reached if trusted is None else None
        server = trusted or self.server
        return Fetcher(self.io, self.limits, server, way=way, allow_hosts=allow_hosts, reached=reached)

    def __repr__(self) -> str:
        return f"<AuthContext for {self.server.label}>"


class Auth:
    """The base of everything that authorizes requests.

    The transport calls `headers` for each request. If that gives None it calls `prepare` first, before anything is
    sent. After a 401, or a 403 with `insufficient_scope`, it calls `react`, and sends the request once more if that
    returns True: at most once for each cause (401, insufficient scope, a DPoP nonce) in one round of a call.

    `prepare` and `react` may wait: a subclass makes them plain functions, or coroutine functions for `AsyncClient`.
    They must not call the client they authorize.

    Attributes:
        patience: Seconds that a person may take in `prepare` and `react`. They do not count against a call's timeout.
    """

    __slots__ = ("__weakref__",)
    patience: float = 0.0

    def bind(self, context: AuthContext) -> Auth:
        """The object that a view of a client asks from now on: this one, unless it keeps something for each server."""
        return self

    def headers(self, request: AuthRequest) -> Headers | None:
        """The headers for this request, now, without waiting; None: `prepare` has to be called first."""
        return []

    def prepare(self, request: AuthRequest, deadline: float) -> Awaitable[Headers | None] | Headers | None:
        """Get what is missing.

        Args:
            request: What is to be sent.
            deadline: When the caller gives up, on `IO.now`'s clock.

        Returns:
            The headers for this one request; or None, and `headers` is asked again.
        """
        return None

    def react(self, request: AuthRequest, response: Challenge, deadline: float) -> Awaitable[bool] | bool:
        """After the server refused.

        Returns:
            Whether to send the request once more, with what `headers` gives then.
        """
        return False

    def partition(self) -> bytes | None:
        """What tells answers to this authorization apart from answers to others, in a cache; no secret.

        None: that is unknown, and nothing is shared.
        """
        return None

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"
