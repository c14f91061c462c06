"""Tokens for programs: no browser, no user at hand.

`ClientCredentials` is a service that acts for itself (RFC 6749, section 4.4), `JWTBearer` a workload that somebody else
vouches for (RFC 7523, section 2.1), `EnterpriseManaged` a user's log-in at the company's identity provider, exchanged
for access to a server (RFC 8693, then RFC 7523). Each says here what it asks for and who it is; when it is asked, and
what becomes of the token, is said in `flow`.
"""

from __future__ import annotations

from .._http.url import parse_url
from ..errors import ConfigError
from .flow import Flow
from .steps import TOKEN, refused
from .token_endpoint import POST, ClientIdentity, authenticate, check_method, choose_method, request_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Awaitable, Callable, Iterable
    from typing import Any, NoReturn

    from .discovery import Metadata
    from .fetch import Fetcher
    from .flow import Wanted
    from .interface import AuthContext
    from .keys import PrivateKey, SigningKey
    from .tokens import Token

    Assertion = str | os.PathLike[str] | Callable[[str], str | Awaitable[str]]

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
_SUBJECTS = {
    "id_token": "urn:ietf:params:oauth:token-type:id_token",
    "saml2": "urn:ietf:params:oauth:token-type:saml2",
}
_LONGEST_ASSERTION = 64 * 1024
"""Bytes: SAML assertions have some thousand, JWTs hundreds."""


class Credentials:
    """How a client proves to an authorization server who it is: what the constructors below take, checked.

    Its `repr` shows the method alone.
    """

    __slots__ = ("_client_id", "_key", "_method", "_secret")

    def __init__(
        self,
        client_id: str | None,
        secret: str | None,
        private_key: str | bytes | PrivateKey | SigningKey | None,
        algorithm: str | None,
        key_id: str | None,
        method: str | None,
    ) -> None:
        if secret is not None and private_key is not None:
            raise ConfigError("give client_secret or private_key, not both")
        if client_id is None and (secret is not None or private_key is not None):
            raise ConfigError("client_secret and private_key need client_id")
        check_method(method, secret=secret is not None, key=private_key is not None)
        self._client_id = client_id
        self._secret = secret
        self._key = _signing_key(private_key, algorithm, key_id)
        self._method = method

    def identity(self, metadata: Metadata | None) -> ClientIdentity:
        """Who the client is to the authorization server with this metadata; None: one whose metadata is not known."""
        if self._client_id is None:
            return ClientIdentity("")
        offered = None if metadata is None else metadata.auth_methods
        has = {"secret": self._secret is not None, "key": self._key is not None}
        return ClientIdentity(
            self._client_id, self._secret, self._method or choose_method(offered, **has), key=self._key
        )

    def __repr__(self) -> str:
        return f"<Credentials {self._method or 'as the server takes them'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Credentials hold a secret and are not pickled")


class Granted(Flow):
    """What the flows below have in common: one request to the token endpoint, under one identity."""

    __slots__ = ("_credentials",)

    _credentials: Credentials

    async def _request(self, fetcher: Fetcher, wanted: Wanted, grant: dict[str, str], deadline: float) -> Token:
        identity = self._credentials.identity(wanted.metadata)
        fields = {**grant, **wanted.fields()}
        return await request_token(fetcher, wanted.metadata, identity, fields, deadline, proofs=self.proofs)


class ClientCredentials(Granted):
    """A service that acts for itself, under an identity it was given beforehand.

    Specification: extensions/oauth-client-credentials.

    Args:
        client_id: Its name at the authorization server.
        client_secret: Its password there.
        private_key: In place of a password, what it signs with (`private_key_jwt`, recommended): PEM, a private key of
            `cryptography`, or a `SigningKey`. Needs the extra `ferrule[crypto]`.
        algorithm: "ES256", "RS256" or "EdDSA"; None: what the key can do.
        key_id: The `kid` that the authorization server knows the key by.
        token_endpoint_auth_method: "client_secret_basic", "client_secret_post" or "private_key_jwt"; None: the one
            that fits what was given and what the authorization server lists.
        scopes: What to ask for besides what a challenge of the server's names; None: what the server says it needs.
        issuer: The authorization server that the credentials are for, exactly as it identifies itself. They are shown
            to no other. None: the first one that a server names; say it where you know it.
        allow_hosts: Hosts of the organisation that may have private addresses.

    Raises:
        ConfigError: The arguments contradict each other, or signing lacks the extra.
    """

    __slots__ = ()

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        *,
        private_key: str | bytes | PrivateKey | SigningKey | None = None,
        algorithm: str | None = None,
        key_id: str | None = None,
        token_endpoint_auth_method: str | None = None,
        scopes: str | Iterable[str] | None = None,
        issuer: str | None = None,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        super().__init__(scopes, issuer, allow_hosts)
        if client_secret is None and private_key is None:
            raise ConfigError("ClientCredentials: client_secret or private_key is needed")
        self._credentials = Credentials(
            client_id, client_secret, private_key, algorithm, key_id, token_endpoint_auth_method
        )

    async def ask(self, context: AuthContext, fetcher: Fetcher, wanted: Wanted, deadline: float) -> Token:
        """See `Flow.ask`."""
        return await self._request(fetcher, wanted, {"grant_type": "client_credentials"}, deadline)


class JWTBearer(Granted):
    """A workload that proves who it is with a JWT that its platform signed: workload identity federation.

    Args:
        assertion: The JWT; or a `pathlib.Path` of the file that holds it, read anew for each token (as for Kubernetes'
            projected tokens); or a function that is called for each token with the issuer that the JWT is to be made
            out to, and returns it. With `AsyncClient` the function may be a coroutine function.
        client_id: The client's name at the authorization server, if it has one.
        client_secret: Its password there, if it has one.
        private_key: In place of a password, what it signs with; see `ClientCredentials`.
        algorithm: See `ClientCredentials`.
        key_id: See `ClientCredentials`.
        token_endpoint_auth_method: See `ClientCredentials`.
        scopes: See `ClientCredentials`.
        issuer: See `ClientCredentials`.
        allow_hosts: See `ClientCredentials`.

    A refused assertion is not sent again, and no other grant is tried: the call fails with `AuthTokenError`.

    Raises:
        ConfigError: The arguments contradict each other, or signing lacks the extra.
    """

    __slots__ = ("_assertion",)

    def __init__(
        self,
        assertion: Assertion,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        private_key: str | bytes | PrivateKey | SigningKey | None = None,
        algorithm: str | None = None,
        key_id: str | None = None,
        token_endpoint_auth_method: str | None = None,
        scopes: str | Iterable[str] | None = None,
        issuer: str | None = None,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        super().__init__(scopes, issuer, allow_hosts)
        self._assertion = _checked(assertion, "assertion")
        self._credentials = Credentials(
            client_id, client_secret, private_key, algorithm, key_id, token_endpoint_auth_method
        )

    async def ask(self, context: AuthContext, fetcher: Fetcher, wanted: Wanted, deadline: float) -> Token:
        """See `Flow.ask`: once, whatever comes of it (RFC 7523, section 2.1)."""
        assertion = await _obtain(context, self._assertion, wanted.metadata.issuer, "assertion")
        return await self._request(fetcher, wanted, {"grant_type": JWT_BEARER, "assertion": assertion}, deadline)


class EnterpriseManaged(Granted):
    """A user who has logged in at the company's identity provider, and needs no further log-in for the server.

    The identity provider exchanges the user's ID token for a grant (an ID-JAG) that is good for this server alone; the
    server's authorization server gives an access token for it. Specification:
    extensions/enterprise-managed-authorization.

    Args:
        subject_token: The ID token (or SAML assertion) of the log-in; a `pathlib.Path` of a file that holds it; or a
            function that is called with the identity provider's token endpoint whenever one is needed, and returns it.
            With `AsyncClient` the function may be a coroutine function.
        idp_token_endpoint: The URL at which the identity provider exchanges tokens. You name it, so it may have a
            private address.
        idp_client_id: The client's name at the identity provider.
        idp_client_secret: Its password there, if it has one.
        client_id: The client's name at the server's authorization server.
        client_secret: Its password there, if it has one.
        private_key: In place of a password there, what it signs with; see `ClientCredentials`.
        algorithm: See `ClientCredentials`.
        key_id: See `ClientCredentials`.
        token_endpoint_auth_method: See `ClientCredentials`.
        idp_token_endpoint_auth_method: "client_secret_post" (the default where there is a secret),
            "client_secret_basic" or "none".
        subject_token_type: "id_token" or "saml2".
        scopes: See `ClientCredentials`.
        issuer: See `ClientCredentials`.
        allow_hosts: See `ClientCredentials`.

    Raises:
        ConfigError: The arguments contradict each other, or signing lacks the extra.
    """

    __slots__ = ("_idp", "_idp_url", "_subject", "_subject_type")

    def __init__(
        self,
        subject_token: Assertion,
        *,
        idp_token_endpoint: str,
        idp_client_id: str,
        idp_client_secret: str | None = None,
        client_id: str,
        client_secret: str | None = None,
        private_key: str | bytes | PrivateKey | SigningKey | None = None,
        algorithm: str | None = None,
        key_id: str | None = None,
        token_endpoint_auth_method: str | None = None,
        idp_token_endpoint_auth_method: str | None = None,
        subject_token_type: str = "id_token",
        scopes: str | Iterable[str] | None = None,
        issuer: str | None = None,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        super().__init__(scopes, issuer, allow_hosts)
        if subject_token_type not in _SUBJECTS:
            raise ConfigError(f"subject_token_type: expected one of {', '.join(_SUBJECTS)}")
        self._subject = _checked(subject_token, "subject_token")
        self._subject_type = _SUBJECTS[subject_token_type]
        self._idp_url = idp_token_endpoint
        idp_method = idp_token_endpoint_auth_method or (None if idp_client_secret is None else POST)
        self._idp = Credentials(idp_client_id, idp_client_secret, None, None, None, idp_method)
        self._credentials = Credentials(
            client_id, client_secret, private_key, algorithm, key_id, token_endpoint_auth_method
        )

    async def ask(self, context: AuthContext, fetcher: Fetcher, wanted: Wanted, deadline: float) -> Token:
        """See `Flow.ask`: both legs, since a grant is good for one token and for minutes."""
        grant = await self._exchange(context, wanted, deadline)
        return await self._request(fetcher, wanted, {"grant_type": JWT_BEARER, "assertion": grant}, deadline)

    async def _exchange(self, context: AuthContext, wanted: Wanted, deadline: float) -> str:
        """The user's identity for a grant that is good at one authorization server for one resource (RFC 8693)."""
        url = self._idp_url
        subject = await _obtain(context, self._subject, url, "subject_token")
        headers, own = authenticate(self._idp.identity(None), url, context.io.wall())
        fields = {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": wanted.metadata.issuer,
            **wanted.fields(),
            "subject_token": subject,
            "subject_token_type": self._subject_type,
            **own,
        }
        fetcher = context.fetcher(trusted=parse_url(url))  # the user named it, no peer
        try:
            answer = await fetcher.post_form(url, fields, headers, TOKEN, deadline)
        finally:
            fetcher.close()
        said = answer.json or {}
        if answer.status != 200:
            raise refused(TOKEN, "the identity provider exchanged no token", url, answer.status, said)
        grant = said.get("access_token")
        if said.get("issued_token_type") != ID_JAG or not isinstance(grant, str) or not grant:
            raise refused(TOKEN, "the identity provider gave something else than a grant (issued_token_type)", url)
        return grant


def _signing_key(given: Any, algorithm: str | None, key_id: str | None) -> SigningKey | None:
    if given is None:
        return None
    from .keys import as_key

    return as_key(given, algorithm, key_id)


def _checked(assertion: Assertion, name: str) -> Assertion:
    if isinstance(assertion, str) or hasattr(assertion, "__fspath__") or callable(assertion):
        return assertion
    raise ConfigError(f"{name}: expected a str, a pathlib.Path or a function that returns a str")


async def _obtain(context: AuthContext, assertion: Assertion, audience: str, name: str) -> str:
    """The assertion as it is now; spaces around it are not part of it (files end with a line feed)."""
    if isinstance(assertion, str):
        text = assertion
    elif callable(assertion):
        from .users import call

        text = await call(context.io, name, assertion, audience)
    else:
        text = await context.io.aside(_read, assertion, name)
    if not isinstance(text, str):
        raise ConfigError(f"{name}: the function must return a str, not {type(text).__name__}")
    text = text.strip()
    if not text or len(text) > _LONGEST_ASSERTION:
        raise ConfigError(f"{name}: expected 1 to {_LONGEST_ASSERTION} characters, not {len(text)}")
    return text


def _read(path: Any, name: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_LONGEST_ASSERTION + 1)
    except (OSError, ValueError) as error:
        problem = type(error).__name__
    raise ConfigError(f"{name}: the file cannot be read ({problem})")
