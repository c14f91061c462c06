"""`OAuth` in use: one view of a client, one server, and what is done when its token is missing, old or refused.

Knows the order of remedies. All of them run in one single flight for each server, so N refused requests make one
refresh, or one log-in; a store's claim keeps other processes and clients from using the same refresh token. No claim is
held while the user is asked, and none while a request to the MCP server is in flight.
"""

from __future__ import annotations

from math import inf

from ..errors import AuthError
from .code_flow import Request
from .discovery import find_metadata, find_resource
from .interface import Auth
from .kept import Grant, Shelf, renewal_time
from .registration import identify
from .scopes import adds_nothing, choose_scopes
from .static import digest
from .steps import REGISTRATION, STEP_UP, auth_error
from .token_endpoint import means_lost, means_unknown, request_token
from .users import meet_user

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .discovery import Metadata, Resource
    from .fetch import Fetcher
    from .interface import AuthContext, AuthRequest, Challenge, Headers
    from .kept import Memory
    from .oauth import OAuth
    from .token_endpoint import ClientIdentity
    from .tokens import Token

TRY_AGAIN = 30.0
"""Seconds until a renewal that failed is tried again, while the token is still good."""
MAX_STEP_UPS = 10
"""How often a server may have the user asked for more scopes, as long as the client's process runs."""


class BoundOAuth(Auth):
    """An `OAuth`, for one view of a client."""

    __slots__ = ("_context", "_memory", "_oauth", "_shelf", "_wall")

    def __init__(self, oauth: OAuth, context: AuthContext, memory: Memory, server: str) -> None:
        self._oauth = oauth
        self._context = context
        self._memory = memory
        self._shelf = Shelf(context.io, oauth.store, server)
        self._wall = context.io.wall

    @property
    def patience(self) -> float:  # type: ignore[override]  # of each, not of all
        """See `Auth.patience`."""
        return self._oauth.patience

    def __repr__(self) -> str:
        return f"<OAuth for {self._context.server.label}: {self._memory.grant or 'no token'}>"

    # --- what the transport asks -----------------------------------------------------------------

    def headers(self, request: AuthRequest) -> Headers | None:
        """See `Auth.headers`. Without a token nothing: the server's challenge says what it wants."""
        grant = self._memory.grant
        if grant is None:
            return [] if self._memory.looked else None
        return grant.headers if self._wall() < grant.renew_at else None

    async def prepare(self, request: AuthRequest, deadline: float) -> None:
        """See `Auth.prepare`: look into the store, or renew a token that is about to end."""
        await self._until(lambda: self.headers(request) is not None, self._make_ready, deadline)

    async def react(self, request: AuthRequest, response: Challenge, deadline: float) -> bool:
        """See `Auth.react`: renew the token, or have the user log in; ask for more scopes (step-up)."""
        sent = dict(request.sent).get("Authorization")
        if response.schemes and response.scheme is None:
            return False  # it wants something that is no token
        needed = (response.param("scope") or "").split()
        if response.status == 401:
            return await self._replace(sent, response, needed)
        if response.wants_scope:
            return await self._step_up(sent, response, needed)
        return False

    def partition(self) -> bytes | None:
        """See `Auth.partition`: another token is another context (2026-07-28, server/utilities/caching, cacheScope)."""
        grant = self._memory.grant
        return None if grant is None else digest(grant.token.access_token)

    # --- one at a time ---------------------------------------------------------------------------

    async def _until(
        self, met: Callable[[], bool], work: Callable[[float], Awaitable[None]], deadline: float | None = None
    ) -> None:
        """Work until the condition holds, or until somebody else's work has made it hold.

        The work makes it hold or raises. Without a deadline the user may be asked, who has a time of their own.
        """
        io = self._context.io
        until = io.now() + self.patience if deadline is None else deadline
        while not met():
            await io.once(self._memory, work, until)

    async def _replace(self, sent: str | None, response: Challenge, needed: list[str]) -> bool:
        """After a 401: another token than the one that was sent."""

        async def work(deadline: float) -> None:
            if not self._is_new(sent):
                await self._with_fetcher(self._answer, sent, response, needed, deadline)

        await self._until(lambda: self._is_new(sent), work)
        return True

    async def _step_up(self, sent: str | None, response: Challenge, needed: list[str]) -> bool:
        """After a 403 with insufficient_scope: a token for more, unless that was asked for already."""

        def met() -> bool:
            return self._is_new(sent) and self._asked_for(needed)

        if not self._is_new(sent) and self._asked_for(needed):
            message = "the server still refuses, though all the scopes it names were asked for"
            raise auth_error(STEP_UP, message, status=403, url=self._context.server.label)

        async def work(deadline: float) -> None:
            if met():
                return
            self._memory.step_ups += 1
            if self._memory.step_ups > MAX_STEP_UPS:
                message = f"the server asked for more scopes more than {MAX_STEP_UPS} times"
                raise auth_error(STEP_UP, message, status=403, url=self._context.server.label)
            await self._with_fetcher(self._log_in_for, response, needed, deadline)

        await self._until(met, work)
        return True

    def _is_new(self, sent: str | None) -> bool:
        grant = self._memory.grant
        return grant is not None and grant.headers[0][1] != sent

    def _asked_for(self, needed: list[str]) -> bool:
        grant = self._memory.grant
        return grant is not None and adds_nothing(grant.asked, needed)

    async def _with_fetcher(self, work: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Do something with connections that are closed afterwards."""
        fetcher = self._context.fetcher(self._oauth.allow_hosts)
        try:
            await work(fetcher, *args)
        finally:
            fetcher.close()

    # --- ahead of time ---------------------------------------------------------------------------

    async def _make_ready(self, deadline: float) -> None:
        memory = self._memory
        if not memory.looked:
            memory.grant = memory.grant or await self._from_store()
            memory.looked = True
        grant = memory.grant
        if grant is None or self._is_fresh(grant):
            return
        if grant.token.refresh_token is None:
            memory.grant = None
            return
        await self._with_fetcher(self._renew_ahead, grant, deadline)

    async def _renew_ahead(self, fetcher: Fetcher, grant: Grant, deadline: float) -> None:
        """Renew; where that fails for a reason that may pass, go on with a token that is still good."""
        try:
            await self._renew(fetcher, grant, None, deadline)
        except AuthError as error:
            if means_lost(error) or means_unknown(error):
                self._memory.grant = None  # without it the server will say what it wants
                return
            wall = self._wall()
            if not grant.token.lasts_until(wall):
                raise
            again = min(wall + TRY_AGAIN, grant.token.expires_at or inf)
            self._memory.grant = grant.replace(renew_at=again)

    def _is_fresh(self, grant: Grant) -> bool:
        return self._wall() < grant.renew_at

    async def _from_store(self) -> Grant | None:
        """What another run, process or client has left for this server."""
        client_id = self._oauth.client.client_id
        issuer = self._memory.issuer or await self._shelf.last_issuer(client_id)
        if issuer is None:
            return None
        if self._is_elsewhere(issuer):
            return None
        self._memory.issuer = issuer
        client, grant = await self._shelf.load(issuer, client_id)
        return None if client is None or grant is None else self._own(grant)

    def _own(self, grant: Grant) -> Grant:
        """A grant from a store, with what only the user's settings know."""
        settings = self._oauth.client
        if grant.client.client_id not in (settings.client_id, settings.document_url):
            return grant
        return grant.replace(client=grant.client.replace(client_secret=settings.client_secret, key=settings.key))

    # --- renewing --------------------------------------------------------------------------------

    async def _answer(
        self, fetcher: Fetcher, sent: str | None, response: Challenge, needed: list[str], deadline: float
    ) -> None:
        """After a 401: what somebody else got meanwhile, else a renewed token, else the user."""
        kept = await self._from_store()
        if kept is not None and kept.headers[0][1] != sent and self._is_fresh(kept):
            self._memory.grant = kept
            return
        # The server may have gone over to another authorization server: what is old must not be used there.
        resource = await self._resource(fetcher, response, deadline)
        grant = self._memory.grant or kept
        if grant is not None and grant.issuer in resource.issuers and self._is_renewable(grant, needed):
            try:
                await self._renew(fetcher, grant, resource, deadline)
                return
            except AuthError as error:
                if not means_lost(error) and not means_unknown(error):
                    raise
                self._memory.grant = None
        await self._log_in(fetcher, resource, needed, grant)

    def _is_renewable(self, grant: Grant, needed: list[str]) -> bool:
        return grant.token.refresh_token is not None and adds_nothing(grant.asked, needed)

    async def _renew(self, fetcher: Fetcher, grant: Grant, resource: Resource | None, deadline: float) -> None:
        """Use the refresh token, unless another process or client has used it already (RFC 6749, section 6).

        Raises:
            AuthTokenError: It was refused. What is of no use any more is forgotten.
        """
        claim = await self._shelf.claim(grant.issuer, deadline)
        try:
            kept = await self._from_store()
            if kept is not None and kept.issuer == grant.issuer and kept.token != grant.token:
                if self._is_fresh(kept):
                    self._memory.grant = kept
                    return
                grant = kept
            await self._use_refresh_token(fetcher, grant, resource, deadline)
        finally:
            await self._shelf.let_go(claim)

    async def _use_refresh_token(
        self, fetcher: Fetcher, grant: Grant, resource: Resource | None, deadline: float
    ) -> None:
        legacy = resource.legacy if resource is not None else grant.issuer == self._context.server.origin
        metadata = await find_metadata(fetcher, grant.issuer, deadline, legacy=legacy)
        fields = {"grant_type": "refresh_token", "refresh_token": grant.token.refresh_token or ""}
        if grant.token.resource is not None:
            fields["resource"] = grant.token.resource
        try:
            token = await request_token(
                fetcher, metadata, grant.client, fields, deadline, earlier=grant.token, proofs=self._oauth.proofs
            )
        except AuthError as error:
            await self._forget(grant, error)
            raise
        await self._keep(grant.issuer, grant.client, token, grant.asked)

    async def _forget(self, grant: Grant, error: AuthError) -> None:
        given = self._oauth.client.client_id
        if means_unknown(error) and given is None:
            await self._shelf.forget(grant.issuer)
        elif means_lost(error):
            await self._shelf.save(grant.issuer, grant.client, None, given)

    async def _keep(self, issuer: str, client: ClientIdentity, token: Token, asked: str | None) -> None:
        grant = Grant(token, issuer, client, asked, renewal_time(token, self._wall()))
        # In use at once: when it cannot be kept, the old one is worth nothing all the same.
        self._memory.grant, self._memory.issuer, self._memory.looked = grant, issuer, True
        given = self._oauth.client.client_id
        await self._shelf.save(issuer, client.replace(client_secret=None) if given else client, grant, given)

    # --- logging in ------------------------------------------------------------------------------

    async def _resource(self, fetcher: Fetcher, response: Challenge, deadline: float) -> Resource:
        return await find_resource(fetcher, self._context.server, response.param("resource_metadata"), deadline)

    async def _log_in_for(self, fetcher: Fetcher, response: Challenge, needed: list[str], deadline: float) -> None:
        await self._log_in(fetcher, await self._resource(fetcher, response, deadline), needed, self._memory.grant)

    async def _log_in(self, fetcher: Fetcher, resource: Resource, needed: list[str], last: Grant | None) -> None:
        """Have the user authorize, for what is needed now and what was granted last, and keep what comes of it."""
        oauth = self._oauth
        issuer = self._issuer(resource)
        metadata = await find_metadata(fetcher, issuer, inf, legacy=resource.legacy)
        if self._is_elsewhere(issuer):
            raise self._not_home(issuer)
        before = last.asked if last is not None and last.issuer == issuer else None
        scope = choose_scopes(
            configured=oauth.scopes,
            challenged=needed,
            before=(before or "").split(),
            resource=resource.scopes,
            server=metadata.scopes,
        )
        registered, _ = await self._shelf.load(issuer, oauth.client.client_id)
        client, token = await self._ask_user(fetcher, resource, metadata, issuer, registered, scope)
        await self._keep(issuer, client, token, scope)

    async def _ask_user(
        self,
        fetcher: Fetcher,
        resource: Resource,
        metadata: Metadata,
        issuer: str,
        registered: ClientIdentity | None,
        scope: str | None,
    ) -> tuple[ClientIdentity, Token]:
        oauth = self._oauth
        user = await meet_user(
            fetcher.io,
            oauth.redirect_uri,
            before=registered.redirect_uri if registered is not None else None,
            timeout=oauth.login_timeout,
            redirect=oauth.redirect,
            callback=oauth.callback,
        )
        try:
            client = await identify(fetcher, metadata, oauth.client, registered, user.redirect_uri, scope, inf)
            if client is not registered and client.redirect_uri is not None:
                await self._shelf.save(issuer, client, None, oauth.client.client_id)
            request = Request(metadata, resource, client, scope, user.redirect_uri, oauth.proofs)
            token = await request.perform(fetcher, user)
        except BaseException as error:
            if means_unknown(error) and oauth.client.client_id is None:
                await self._shelf.forget(issuer)
            user.finish(error)
            raise
        user.finish(None)
        return client, token

    def _issuer(self, resource: Resource) -> str:
        """Which authorization server to go to: the client's own, the last one, or the first that the server names.

        Raises:
            AuthRegistrationError: None of them is the one that the user's client id belongs to.
        """
        home, last = self._oauth.home.issuer, self._memory.issuer
        if home is not None and home not in resource.issuers:
            raise self._not_home(resource.issuers[0])
        return home or (last if last is not None and last in resource.issuers else resource.issuers[0])

    def _is_elsewhere(self, issuer: str) -> bool:
        """Is this not the authorization server that the user's client id belongs to? The first one is."""
        return self._oauth.client.client_id is not None and self._oauth.home.settle(issuer) != issuer

    def _not_home(self, issuer: str) -> AuthError:
        message = "the server names another authorization server than the one that client_id belongs to"
        return auth_error(REGISTRATION, message, url=issuer)
