"""DPoP (RFC 9449): tokens that are of use only to who holds a key, as a layer over whatever gets the tokens.

Knows what goes with each request to the MCP server, and what a challenge for a nonce means. The proofs themselves are
made by `proofs`; the token request's are sent by `token_endpoint`.
"""

from __future__ import annotations

from ..errors import AuthTokenError, ConfigError
from .interface import Auth
from .keys import ALGORITHMS, as_key, require_crypto
from .proofs import Proofs, nonce_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable
    from typing import NoReturn, TypeVar

    from .interface import AuthContext, AuthRequest, Challenge, Headers
    from .keys import PrivateKey, SigningKey

    T = TypeVar("T")


class DPoP(Auth):
    """Binds the tokens of another `Auth` to a key, so that a stolen one is worth nothing.

    Each request carries a fresh proof, made with the key, for this request and this token. Works over `OAuth`,
    `ClientCredentials`, `JWTBearer` and `EnterpriseManaged`; over anything else that gives `Authorization: DPoP ...`
    when `private_key` is the key that its tokens are bound to. Needs the extra `ferrule[crypto]`.

    A token that the authorization server did not bind is refused with `AuthTokenError`.

    Args:
        inner: What gets the tokens. It must be this layer's alone.
        private_key: The key; None: a new one, which lives as long as this object. Give one where tokens are kept in a
            store for longer than that.
        algorithm: "ES256", "RS256" or "EdDSA"; None: what the key can do, or for a new one the first of these that
            the authorization server takes.

    Raises:
        ConfigError: The extra is not installed, or the arguments contradict each other.
    """

    __slots__ = ("_inner", "_proofs")

    def __init__(
        self,
        inner: Auth,
        *,
        private_key: str | bytes | PrivateKey | SigningKey | None = None,
        algorithm: str | None = None,
    ) -> None:
        require_crypto()
        if algorithm is not None and algorithm not in ALGORITHMS:
            raise ConfigError(f"algorithm: expected one of {', '.join(ALGORITHMS)}")
        key = None if private_key is None else as_key(private_key, algorithm)
        self._inner = inner
        self._proofs = Proofs(key, algorithm)
        if hasattr(inner, "proofs"):
            if inner.proofs is not None:
                raise ConfigError("DPoP: the inner Auth belongs to another DPoP already")
            inner.proofs = self._proofs
        elif key is None:
            raise ConfigError("DPoP: over this kind of Auth it needs private_key, the key that its tokens are bound to")

    @property
    def patience(self) -> float:  # type: ignore[override]  # of each, not of all
        """See `Auth.patience`."""
        return self._inner.patience

    def bind(self, context: AuthContext) -> BoundDPoP:
        """The layer as one view of a client uses it."""
        return BoundDPoP(self._inner.bind(context), self._proofs, context)

    def __repr__(self) -> str:
        return f"<DPoP over {self._inner!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a DPoP holds a key and is not pickled")


class BoundDPoP(Auth):
    """The layer and one view of a client."""

    __slots__ = ("_context", "_inner", "_proofs")

    def __init__(self, inner: Auth, proofs: Proofs, context: AuthContext) -> None:
        self._inner = inner
        self._proofs = proofs
        self._context = context

    @property
    def patience(self) -> float:  # type: ignore[override]  # of each, not of all
        """See `Auth.patience`."""
        return self._inner.patience

    def headers(self, request: AuthRequest) -> Headers | None:
        """See `Auth.headers`: what the inner one gives, and the proof for it."""
        return self._proven(request, self._inner.headers(request))

    async def prepare(self, request: AuthRequest, deadline: float) -> Headers | None:
        """See `Auth.prepare`."""
        return self._proven(request, await _settled(self._inner.prepare(request, deadline)))

    async def react(self, request: AuthRequest, response: Challenge, deadline: float) -> bool:
        """See `Auth.react`. Another nonce than the refused proof held is reason enough to send the request again."""
        origin = self._context.server.origin
        self._proofs.note(origin, response.dpop_nonce)
        if response.wants_nonce:
            # Not whether it is new: of requests that are refused at once, only the first brings news.
            return self._proofs.nonce(origin) != nonce_in(dict(request.sent).get("DPoP", ""))
        offered = response.param("algs")
        if offered is not None:
            self._proofs.offer(offered.split())
        return await _settled(self._inner.react(request, response, deadline))

    def partition(self) -> bytes | None:
        """See `Auth.partition`."""
        return self._inner.partition()

    def _proven(self, request: AuthRequest, given: Headers | None) -> Headers | None:
        """The headers with a proof, where there is a token among them."""
        if not given:
            return given
        for name, value in given:
            if name.lower() == "authorization":
                return [*given, ("DPoP", self._proof(request, value))]
        return given

    def _proof(self, request: AuthRequest, authorization: str) -> str:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "dpop":
            raise AuthTokenError("the token is not bound to a key", step="token", url=self._context.server.label)
        context = self._context
        return self._proofs.make(request.method, context.server.origin, request.url, context.io.wall(), token)

    def __repr__(self) -> str:
        return f"<DPoP over {self._inner!r}>"


async def _settled(value: Awaitable[T] | T) -> T:
    """What a method said: a plain one's answer is there already, a coroutine function's is awaited."""
    return await value if hasattr(value, "__await__") else value
