"""How a token that needs no user is got, kept and renewed.

Knows when to ask (after a challenge, ahead of the end of a token), whom (discovery) and for what (resource and scopes);
each grant of `machine` says what it sends. Knows no browser: that is `oauth`.

A flow belongs to its user and may serve several clients; what it knows about one server is a `Standing`. Those are
shared between event loops and threads, so each of their attributes is replaced as a whole and never changed in place.
"""

from __future__ import annotations

from .._value import Frozen
from .discovery import find_metadata, find_resource
from .guard import allowed_names
from .home import Home
from .interface import Auth
from .static import digest
from .steps import DISCOVERY, auth_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import NoReturn

    from .discovery import Metadata
    from .fetch import Fetcher
    from .interface import AuthContext, AuthRequest, Challenge, Headers
    from .proofs import Proofs
    from .tokens import Token

EARLY = 60.0
"""Seconds before its end at which a token is renewed, at most: clocks differ, and requests travel."""
_SHARE = 0.1
"""The part of its life before its end at which a token is renewed, at most: some live for seconds."""
_LONGEST_SCOPE = 4096
"""Characters that the scopes may grow to as a server asks for ever more; real ones have some hundred."""


class Wanted(Frozen):
    """What a token is asked for.

    Attributes:
        metadata: The authorization server that is asked.
        resource: The server's own identifier, as it wrote it.
        scope: Separated by spaces; "" for what the authorization server thinks right.
    """

    __slots__ = ("metadata", "resource", "scope")

    metadata: Metadata
    resource: str
    scope: str

    def __init__(self, metadata: Metadata, resource: str, scope: str = "") -> None:
        self._set("metadata", metadata)
        self._set("resource", resource)
        self._set("scope", scope)

    def fields(self) -> dict[str, str]:
        """As fields of a request (RFC 8707, section 2.2; RFC 6749, section 3.3)."""
        scope = {"scope": self.scope} if self.scope else {}
        return {"resource": self.resource, **scope}

    def __repr__(self) -> str:
        return f"<Wanted of {self.metadata!r}: {len(self.scope.split())} scopes>"


class Standing:
    """What a flow knows about one server."""

    __slots__ = ("headers", "named", "renew_at", "scope", "token", "wanted")

    def __init__(self) -> None:
        self.token: Token | None = None
        self.headers: Headers = []
        """What goes with each request; the token is in it."""
        self.renew_at = float("inf")
        """When a new token is due, in seconds since 1970."""
        self.wanted: Wanted | None = None
        """What is asked for, as found out; None: that has to be found out (again)."""
        self.named: str | None = None
        """Where the last challenge said that the resource metadata is."""
        self.scope = ""
        """What challenges have asked for so far."""

    def __repr__(self) -> str:
        return f"<Standing: {self.token or 'no token'}>"


class Flow(Auth):
    """The base of flows without a user: see `machine`."""

    __slots__ = ("_home", "_standings", "allow_hosts", "proofs", "scope")

    proofs: Proofs | None
    """What binds the tokens to a key: set by `DPoP`."""

    def __init__(self, scopes: str | Iterable[str] | None, issuer: str | None, allow_hosts: Iterable[str]) -> None:
        self.scope = scopes if isinstance(scopes, str) else " ".join(scopes or ())
        self._home = Home(issuer)
        self.allow_hosts = allowed_names(allow_hosts)
        self._standings: dict[str, Standing] = {}
        self.proofs = None

    def bind(self, context: AuthContext) -> BoundFlow:
        """The flow as one view of a client uses it."""
        key = context.server.origin + context.server.target
        return BoundFlow(self, context, self._standings.setdefault(key, Standing()))

    if TYPE_CHECKING:  # each flow has its own

        async def ask(self, context: AuthContext, fetcher: Fetcher, wanted: Wanted, deadline: float) -> Token:
            """Ask for a token once.

            Raises:
                AuthTokenError: There is none.
            """

    async def find(
        self, fetcher: Fetcher, context: AuthContext, standing: Standing, needed: str, deadline: float
    ) -> Wanted:
        """Find out whom to ask, and for what: `needed`, and what challenges have asked for so far.

        Raises:
            AuthDiscoveryError: That cannot be found out, or it is not whom the credentials are for.
        """
        resource = await find_resource(fetcher, context.server, standing.named, deadline)
        issuer = self._home.issuer or resource.issuers[0]
        # Credentials are never shown to another authorization server than their own (client-registration).
        metadata = None
        if issuer in resource.issuers:
            metadata = await find_metadata(fetcher, issuer, deadline, legacy=resource.legacy)
        if metadata is None or self._home.settle(issuer) != issuer:
            message = "the server trusts another authorization server than the one the credentials are for (issuer)"
            raise auth_error(DISCOVERY, message, url=context.server.label)
        scope = united(self.scope, standing.scope, needed) or " ".join(resource.scopes or ())
        return Wanted(metadata, resource.resource, scope)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self._standings)} servers>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} holds credentials and is not pickled")


class BoundFlow(Auth):
    """A flow and one view of a client."""

    __slots__ = ("_context", "_flow", "_standing")

    def __init__(self, flow: Flow, context: AuthContext, standing: Standing) -> None:
        self._flow = flow
        self._context = context
        self._standing = standing

    def headers(self, request: AuthRequest) -> Headers | None:
        """See `Auth.headers`: without a token nothing, and the server's challenge says where tokens come from."""
        standing = self._standing
        if standing.renew_at <= self._context.io.wall():
            return None
        return standing.headers

    async def prepare(self, request: AuthRequest, deadline: float) -> Headers:
        """See `Auth.prepare`: the token is about to end. The new one is used once, however short it lives."""
        await self._renew(self._standing.token, deadline)
        return self._standing.headers

    async def react(self, request: AuthRequest, response: Challenge, deadline: float) -> bool:
        """See `Auth.react`."""
        standing = self._standing
        if dict(standing.headers).get("Authorization") != dict(request.sent).get("Authorization"):
            return True  # another request was refused before, and there is a new token already
        if response.status == 403:
            return await self._step_up(response, deadline)
        standing.named = response.param("resource_metadata")
        scope = united(standing.scope, response.param("scope") or "")
        if len(scope) <= _LONGEST_SCOPE:
            standing.scope = scope
        standing.wanted = None
        await self._renew(standing.token, deadline)
        return True

    async def _step_up(self, response: Challenge, deadline: float) -> bool:
        """Ask for what was granted and what is lacking (index, Step-Up Authorization Flow).

        Returns:
            False when that is nothing new: the same request would have the same answer.
        """
        standing = self._standing
        token = standing.token
        needed = response.param("scope") or ""
        before = united(self._flow.scope, standing.scope, (token and token.scope) or "")
        after = united(before, needed)
        if not response.wants_scope or after == before or len(after) > _LONGEST_SCOPE:
            return False
        await self._renew(token, deadline, after)
        return True

    async def _renew(self, old: Token | None, deadline: float, needed: str = "") -> None:
        """See that there is another token than `old`, and one that was asked for with what is needed."""
        standing = self._standing

        def lacks() -> bool:
            return standing.token is old or not holds(standing.wanted, needed)

        async def body(deadline: float) -> None:
            if lacks():
                await self._obtain(needed, deadline)

        while lacks():  # somebody else's token may have been asked for without what is needed here
            await self._context.io.once(standing, body, deadline)

    async def _obtain(self, needed: str, deadline: float) -> None:
        context, standing = self._context, self._standing
        fetcher = context.fetcher(self._flow.allow_hosts)
        try:
            wanted = standing.wanted
            if wanted is None or not holds(wanted, needed):
                wanted = await self._flow.find(fetcher, context, standing, needed, deadline)
            asked_at = context.io.wall()
            token = await self._flow.ask(context, fetcher, wanted, deadline)
        finally:
            fetcher.close()
        scheme = "DPoP" if token.token_type == "dpop" else "Bearer"
        # Only now: scopes that were refused are of no concern to the next call.
        standing.scope = united(standing.scope, needed)
        standing.wanted = wanted
        standing.renew_at = _renewal(token, asked_at)
        standing.headers = [("Authorization", f"{scheme} {token.access_token}")]
        standing.token = token

    def partition(self) -> bytes | None:
        """See `Auth.partition`: each token has its own, since what may be seen depends on its scopes."""
        token = self._standing.token
        return None if token is None else digest(token.access_token)

    def __repr__(self) -> str:
        return f"<{type(self._flow).__name__} for {self._context.server.label}: {self._standing.token or 'no token'}>"


def united(*scopes: str) -> str:
    """Scopes in one text, each once, in order."""
    return " ".join(dict.fromkeys(" ".join(scopes).split()))


def holds(wanted: Wanted | None, needed: str) -> bool:
    """Was all of this asked for?"""
    return not needed or (wanted is not None and set(needed.split()) <= set(wanted.scope.split()))


def _renewal(token: Token, asked_at: float) -> float:
    """When a new token is due."""
    if token.expires_at is None:
        return float("inf")
    return token.expires_at - min(EARLY, _SHARE * (token.expires_at - asked_at))
