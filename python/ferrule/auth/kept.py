"""What is remembered of an authorization: in memory, and in a store between runs.

Knows what an entry says and under which key it stands: one for each server and issuer, and one for each server that
says which issuer came last. Knows no endpoint; what is not understood in a store counts as not there.
"""

from __future__ import annotations

from math import inf

from .._io import Closing, Expired
from .._json import dumps, loads
from .._value import Frozen
from ..errors import ConfigError, FerruleError, InvalidMessage
from .token_endpoint import METHODS, ClientIdentity
from .tokens import Token
from .users import call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, NoReturn

    from .._http.url import Url
    from .._io.interface import IO
    from .stores import TokenStore

_VERSION = 1
_SHARE_OF_LIFE = 0.1
_LONGEST_AHEAD = 60.0
_LEAST = 1.0
"""Seconds that any token is used for: one that ends at once is not renewed for ever."""
"""A token is renewed when a tenth of its life is left, a minute at most: in time for a request that is on its way."""
POLL = 0.05
"""Seconds between two looks whether another process has done renewing: a refresh takes about as long."""
_TEXTS = ("client_secret", "redirect_uri", "scope")


class Grant(Frozen):
    """A token, and what is needed to use and renew it.

    Attributes:
        token: The token.
        issuer: The authorization server, as the resource names it.
        client: The client's identity there.
        asked: The scopes that were asked for, None for none.
        renew_at: Wall clock seconds from when on it should not be used without trying to renew it.
        headers: What goes into a request.
    """

    __slots__ = ("asked", "client", "headers", "issuer", "renew_at", "token")

    token: Token
    issuer: str
    client: ClientIdentity
    asked: str | None
    renew_at: float
    headers: list[tuple[str, str]]

    def __init__(
        self,
        token: Token,
        issuer: str,
        client: ClientIdentity,
        asked: str | None,
        renew_at: float,
        headers: list[tuple[str, str]] | None = None,
    ) -> None:
        scheme = "DPoP" if token.token_type == "dpop" else "Bearer"
        self._set("token", token)
        self._set("issuer", issuer)
        self._set("client", client)
        self._set("asked", asked)
        self._set("renew_at", renew_at)
        self._set("headers", headers or [("Authorization", f"{scheme} {token.access_token}")])

    def __repr__(self) -> str:
        return f"<Grant of {self.token!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Grant holds a token and is not pickled")


def renewal_time(token: Token, wall: float) -> float:
    """When to renew a token that was just had; at its end if there is nothing to renew it with."""
    if token.expires_at is None:
        return inf
    ahead = min((token.expires_at - wall) * _SHARE_OF_LIFE, _LONGEST_AHEAD) if token.refresh_token else 0.0
    return max(token.expires_at - ahead, wall + _LEAST)


class Memory:
    """What one `OAuth` knows about one server, shared by all clients that use it.

    Each attribute is replaced, never changed in place: who reads one needs no lock.

    Attributes:
        grant: What is in use, or None.
        looked: Was the store asked?
        issuer: The authorization server that was used last.
        step_ups: How often the user was asked for more scopes.
    """

    __slots__ = ("grant", "issuer", "looked", "step_ups")

    def __init__(self) -> None:
        self.grant: Grant | None = None
        self.looked = False
        self.issuer: str | None = None
        self.step_ups = 0


def server_key(server: Url, resource: str) -> str:
    """What a server is kept under. A query may tell tenants apart, and may hold a secret: its digest will do."""
    query = server.target.partition("?")[2]
    if not query:
        return resource
    from hashlib import sha256

    return f"{resource} {sha256(query.encode()).hexdigest()[:16]}"


class Shelf:
    """One server's entries in a store."""

    __slots__ = ("_io", "_server", "_store")

    def __init__(self, io: IO, store: TokenStore, server: str) -> None:
        self._io = io
        self._store = store
        self._server = server

    async def last_issuer(self, client_id: str | None) -> str | None:
        """The authorization server that was used last with this client id of the user's, or with none."""
        entry = await self._read(self._server)
        issuer = entry.get("issuer")
        return issuer if isinstance(issuer, str) and entry.get("client_id") == client_id else None

    async def load(self, issuer: str, client_id: str | None) -> tuple[ClientIdentity | None, Grant | None]:
        """The registration and the grant that are kept for an issuer.

        Args:
            issuer: The authorization server.
            client_id: The client id that the user gives; what belongs to another one is not used.
        """
        entry = await self._read(self._key(issuer))
        client = _client_of(entry.get("client"))
        if client is None or client_id not in (None, client.client_id):
            return None, None
        return client, _grant_of(entry, issuer, client)

    async def save(self, issuer: str, client: ClientIdentity, grant: Grant | None, given_id: str | None) -> None:
        """Keep a registration, and what was granted to it."""
        entry: dict[str, Any] = {"version": _VERSION, "client": _exported(client)}
        if grant is not None:
            entry |= {"asked": grant.asked, "renew_at": _finite(grant.renew_at)}
            entry["token"] = grant.token.export()
        await self._write(self._key(issuer), entry)
        await self._write(self._server, {"version": _VERSION, "issuer": issuer, "client_id": given_id})

    async def forget(self, issuer: str) -> None:
        """Forget the registration and the grant."""
        await self._call(self._store.delete, self._key(issuer))

    async def claim(self, issuer: str, deadline: float) -> Callable[[], object]:
        """Wait for the right to renew what is kept for an issuer; give it back with `let_go`.

        Raises:
            Expired: Another process or client had it until the deadline.
        """
        while True:
            # Never in a thread: who is cancelled meanwhile would leave a claim that nobody gives back.
            claim: Callable[[], object] | None = await self._here(self._store.try_lock, self._key(issuer))
            if claim is not None:
                return claim
            if self._io.now() >= deadline:
                raise Expired
            await self._io.sleep(POLL)

    async def let_go(self, claim: Callable[[], object]) -> None:
        """Give a claim back."""
        await self._here(claim)

    def _key(self, issuer: str) -> str:
        return f"{self._server} {issuer}"

    async def _read(self, key: str) -> Mapping[str, Any]:
        text = await self._call(self._store.load, key)
        try:
            value = loads(text.encode()) if isinstance(text, str) else None
        except InvalidMessage:
            value = None
        return value if isinstance(value, dict) and value.get("version") == _VERSION else {}

    async def _write(self, key: str, entry: dict[str, Any]) -> None:
        await self._call(self._store.save, key, dumps(entry).decode())

    async def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a method of the store that may take its time."""
        if self._store.blocks:
            return await self._checked(self._io.aside(function, *args))
        return await self._here(function, *args)

    async def _here(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run a method of the store that does not."""
        return await self._checked(call(self._io, "a method of store", function, *args))

    async def _checked(self, work: Awaitable[Any]) -> Any:
        """What a method returns.

        Raises:
            ConfigError: It failed, or is a coroutine and this the blocking client.
        """
        try:
            return await work
        except (FerruleError, Expired, Closing):
            raise
        except Exception as error:
            raise ConfigError(f"the token store failed: {type(error).__name__}") from error


def _finite(seconds: float) -> float | None:
    return None if seconds == inf else seconds


def _exported(client: ClientIdentity) -> dict[str, Any]:
    """An identity without its key, which is the user's."""
    texts = {name: getattr(client, name) for name in ("client_id", "method", *_TEXTS)}
    return {**texts, "secret_expires_at": client.secret_expires_at}


def _client_of(value: object) -> ClientIdentity | None:
    if not isinstance(value, dict):
        return None
    client_id, method, expires = value.get("client_id"), value.get("method"), value.get("secret_expires_at")
    texts = {name: value.get(name) for name in _TEXTS}
    if not isinstance(client_id, str) or method not in METHODS or not isinstance(expires, int | float):
        return None
    if not all(text is None or isinstance(text, str) for text in texts.values()):
        return None
    return ClientIdentity(client_id, method=method, secret_expires_at=expires, **texts)


def _grant_of(entry: Mapping[str, Any], issuer: str, client: ClientIdentity) -> Grant | None:
    kept, asked, renew_at = (entry.get(name) for name in ("token", "asked", "renew_at"))
    token = Token.imported(kept) if isinstance(kept, dict) else None
    if token is None or not isinstance(asked, str | None):
        return None
    when = float(renew_at) if isinstance(renew_at, int | float) else inf
    return Grant(token, issuer, client, asked, when)
