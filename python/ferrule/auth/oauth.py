"""OAuth for a user: log in with the browser once, then stay logged in (2026-07-28, basic/authorization).

Knows when a token is had, renewed, asked for anew, and given up. How it is had is in `code_flow`, whom from in
`discovery`, as whom in `registration`, and where it is kept in `kept`.
"""

from __future__ import annotations

from ..errors import ConfigError
from .guard import allowed_names
from .home import Home
from .interface import Auth
from .kept import Memory
from .registration import ClientSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, NoReturn

    from .interface import AuthContext
    from .keys import PrivateKey, SigningKey
    from .logged_in import BoundOAuth
    from .proofs import Proofs
    from .stores import TokenStore

REDIRECT_URI = "http://127.0.0.1/callback"
_LONGEST_LOGIN = 86400.0
_AROUND = 60.0
"""Seconds that the requests around a log-in may take, besides the user's time."""


class OAuth(Auth):
    """Lets the user log in with a browser when the server asks for it, and renews tokens from then on.

    `Client(url, auth=OAuth())` is all that a program on the user's machine needs: the browser opens, and the answer
    comes back to a port of 127.0.0.1. Without a screen the address is printed to stderr. With `store=FileStore(folder)`
    the user stays logged in between runs. A service gives `redirect` and `callback` instead, and one `OAuth` for each
    of its users. The time that the user takes does not count against the timeout of the call.

    Args:
        client_id: The client's id, if it was registered with the authorization server beforehand.
        client_secret: Its secret, if it has one.
        private_key: What it signs with instead (`private_key_jwt`): PEM, a key of `cryptography` or a `SigningKey`.
            Needs the extra `ferrule[crypto]`.
        token_endpoint_auth_method: "none", "client_secret_basic", "client_secret_post" or "private_key_jwt"; None: the
            one that fits what was given and what the authorization server lists.
        issuer: The authorization server that `client_id` belongs to, exactly as it identifies itself. None: the first
            one that is found, for all servers; give it where there is a secret, so that none has it sent elsewhere.
        client_metadata_url: The https URL of the client's metadata document, used as its id where the authorization
            server reads such documents.
        client_name: What users see when they are asked to consent, for dynamic registration.
        client_metadata: More members for dynamic registration (RFC 7591, section 2).
        scopes: What to ask for besides what the server asks for; a list, or one text with spaces.
        store: Where tokens and registrations are kept; None: in memory, in this object.
        redirect_uri: Where the browser comes back to. The default is any port of 127.0.0.1; name one where the
            client is registered with it, such as "http://127.0.0.1:8765/callback".
        redirect: `redirect(url)` sends the user there, in place of the browser.
        callback: `callback()` waits for the user to come back and returns the URL that the browser was sent to, or its
            parameters as a mapping. It needs `redirect` and `redirect_uri`, and no port is listened on.
        login_timeout: Seconds that the user has to log in; 300 by default.
        allow_hosts: Hosts of the organisation that may have private addresses though the server has not.

    Raises:
        ConfigError: The arguments contradict each other, or signing lacks the extra.
    """

    __slots__ = (
        "_memories",
        "allow_hosts",
        "callback",
        "client",
        "home",
        "login_timeout",
        "proofs",
        "redirect",
        "redirect_uri",
        "scopes",
        "store",
    )

    proofs: Proofs | None
    """What binds the tokens to a key: set by `DPoP`."""

    def __init__(
        self,
        client_id: str | None = None,
        client_secret: str | None = None,
        *,
        private_key: str | bytes | PrivateKey | SigningKey | None = None,
        token_endpoint_auth_method: str | None = None,
        issuer: str | None = None,
        client_metadata_url: str | None = None,
        client_name: str = "ferrule",
        client_metadata: Mapping[str, Any] | None = None,
        scopes: str | Iterable[str] | None = None,
        store: TokenStore | None = None,
        redirect_uri: str | None = None,
        redirect: Callable[[str], Any] | None = None,
        callback: Callable[[], Any] | None = None,
        login_timeout: float = 300.0,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        self.client = ClientSettings(
            client_id=client_id,
            client_secret=client_secret,
            key=_signing_key(private_key),
            method=token_endpoint_auth_method,
            issuer=issuer,
            document_url=client_metadata_url,
            name=client_name,
            extra=client_metadata,
        )
        self.home = Home(issuer)
        _check_user_side(redirect_uri, redirect, callback, login_timeout)
        self.scopes = tuple(scopes.split() if isinstance(scopes, str) else scopes or ())
        self.store = store if store is not None else _memory_store()
        self.redirect_uri = redirect_uri or REDIRECT_URI
        self.redirect = redirect
        self.callback = callback
        self.login_timeout = login_timeout
        self.allow_hosts = allowed_names(allow_hosts)
        self.proofs = None
        self._memories: dict[str, Memory] = {}

    @property
    def patience(self) -> float:  # type: ignore[override]  # of each, not of all
        """See `Auth.patience`."""
        return self.login_timeout + _AROUND

    def bind(self, context: AuthContext) -> BoundOAuth:
        """See `Auth.bind`. What is known about a server is shared by all clients that talk to it with this object."""
        from .discovery import canonical
        from .kept import server_key
        from .logged_in import BoundOAuth

        key = server_key(context.server, canonical(context.server))
        return BoundOAuth(self, context, self._memories.setdefault(key, Memory()), key)

    def __repr__(self) -> str:
        return f"<OAuth: {len(self._memories)} servers, {self.store!r}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an OAuth holds tokens and is not pickled; give each process one with the same FileStore")


def _memory_store() -> TokenStore:
    from .stores import MemoryStore

    return MemoryStore()


def _signing_key(key: Any) -> SigningKey | None:
    if key is None:
        return None
    from .keys import SigningKey

    return key if isinstance(key, SigningKey) else SigningKey(key)


def _check_user_side(redirect_uri: str | None, redirect: Any, callback: Any, login_timeout: float) -> None:
    from .users import check_redirect_uri

    for name, function in (("redirect", redirect), ("callback", callback)):
        if function is not None and not callable(function):
            raise ConfigError(f"{name} must be a function")
    if callback is not None and (redirect is None or redirect_uri is None):
        raise ConfigError("callback needs redirect and redirect_uri: both are the program's own then")
    if redirect_uri is not None:
        check_redirect_uri(redirect_uri, received=callback is None)
    if isinstance(login_timeout, bool) or not isinstance(login_timeout, int | float):
        raise ConfigError("login_timeout must be a number of seconds")
    if not 0 < login_timeout <= _LONGEST_LOGIN:
        raise ConfigError("login_timeout must be positive, and a day at most")
