"""Asking an authorization server's token endpoint, and saying who asks (RFC 6749, section 2.3 and 5; RFC 7523).

Knows the ways a client proves its identity and what an answer may look like. Which grant is asked for, and what becomes
of the token, is the flow's business.
"""

from __future__ import annotations

from .._http.url import parse_url
from .._value import Frozen
from ..errors import AuthTokenError, ConfigError
from .steps import TOKEN, refused
from .tokens import Token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import NoReturn

    from .discovery import Metadata
    from .fetch import Answer, Fetcher
    from .keys import SigningKey
    from .proofs import Proofs

NONE = "none"
BASIC = "client_secret_basic"
POST = "client_secret_post"
PRIVATE_KEY = "private_key_jwt"
METHODS = (NONE, BASIC, POST, PRIVATE_KEY)


class ClientIdentity(Frozen):
    """Who the client is to one authorization server.

    Attributes:
        client_id: Its name there; "" where an assertion alone says who asks.
        client_secret: Its password there, if it has one.
        method: How it proves who it is at the token endpoint: one of `METHODS`.
        key: What it signs with, for `private_key_jwt`.
        redirect_uri: The one it was registered with, None when that is not known.
        scope: What it may ask for, as the registration said; None when that is not known.
        secret_expires_at: Wall clock seconds; 0 for never (RFC 7591, section 3.2.1).
    """

    __slots__ = ("client_id", "client_secret", "key", "method", "redirect_uri", "scope", "secret_expires_at")

    client_id: str
    client_secret: str | None
    method: str
    key: SigningKey | None
    redirect_uri: str | None
    scope: str | None
    secret_expires_at: float

    def __init__(
        self,
        client_id: str,
        client_secret: str | None = None,
        method: str = NONE,
        key: SigningKey | None = None,
        redirect_uri: str | None = None,
        scope: str | None = None,
        secret_expires_at: float = 0,
    ) -> None:
        self._set("client_id", client_id)
        self._set("client_secret", client_secret)
        self._set("method", method)
        self._set("key", key)
        self._set("redirect_uri", redirect_uri)
        self._set("scope", scope)
        self._set("secret_expires_at", secret_expires_at)

    def expired(self, wall: float) -> bool:
        """Is its secret worth nothing any more?"""
        return self.client_secret is not None and 0 < self.secret_expires_at <= wall

    def __repr__(self) -> str:
        return f"<ClientIdentity: {self.method}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ClientIdentity holds a secret and is not pickled")


def choose_method(offered: Sequence[str] | None, *, secret: bool, key: bool) -> str:
    """How to prove an identity that was given, by what the authorization server lists.

    Args:
        offered: `token_endpoint_auth_methods_supported`; None: not said, which means Basic (RFC 8414, section 2).
        secret: Is there a secret?
        key: Is there a key to sign with?
    """
    if key:
        return PRIVATE_KEY
    if not secret:
        return NONE
    return POST if offered is not None and POST in offered and BASIC not in offered else BASIC


def check_method(method: str | None, *, secret: bool, key: bool) -> None:
    """See that a method the user named has what it needs.

    Raises:
        ConfigError: It is unknown, or lacks the secret or key.
    """
    if method is None:
        return
    if method not in METHODS:
        raise ConfigError(f"token_endpoint_auth_method must be one of {', '.join(METHODS)}")
    if method in (BASIC, POST) and not secret:
        raise ConfigError(f"{method} needs client_secret")
    if method == PRIVATE_KEY and not key:
        raise ConfigError(f"{method} needs private_key")


def authenticate(identity: ClientIdentity, audience: str, wall: float) -> tuple[list[tuple[str, str]], dict[str, str]]:
    """What a request to the token endpoint carries to say who asks: headers and fields.

    Args:
        identity: Who asks.
        audience: The issuer, whom an assertion is made out to.
        wall: Seconds since the epoch.
    """
    if identity.method == BASIC:
        return [("Authorization", _basic(identity.client_id, identity.client_secret or ""))], {}
    if not identity.client_id:
        return [], {}
    fields = {"client_id": identity.client_id}
    if identity.method == POST:
        fields["client_secret"] = identity.client_secret or ""
    elif identity.method == PRIVATE_KEY:
        from .assertions import ASSERTION_TYPE, client_assertion

        if identity.key is None:
            raise ConfigError(f"{PRIVATE_KEY} needs private_key")
        # Without client_id: the assertion says it (extensions/oauth-client-credentials).
        assertion = client_assertion(identity.key, identity.client_id, audience, wall)
        return [], {"client_assertion_type": ASSERTION_TYPE, "client_assertion": assertion}
    return [], fields


def _basic(client_id: str, secret: str) -> str:
    """RFC 6749, section 2.3.1: both are form-encoded first."""
    from binascii import b2a_base64
    from urllib.parse import quote_plus

    pair = f"{quote_plus(client_id)}:{quote_plus(secret)}"
    return "Basic " + b2a_base64(pair.encode(), newline=False).decode()


async def request_token(
    fetcher: Fetcher,
    metadata: Metadata,
    identity: ClientIdentity,
    fields: Mapping[str, str],
    deadline: float,
    *,
    asked: str | None = None,
    earlier: Token | None = None,
    proofs: Proofs | None = None,
) -> Token:
    """Ask for a token once; with DPoP a second time when the server wants a nonce (RFC 9449, section 8).

    Args:
        fetcher: Who sends.
        metadata: The authorization server.
        identity: Who asks.
        fields: The grant and what belongs to it.
        deadline: Until when.
        asked: The scopes that were asked for, where the fields do not say.
        earlier: What is being refreshed.
        proofs: What binds the token to a key, or None.

    Raises:
        AuthTokenError: It was refused (`.error` is the OAuth error code), or the answer is no token.
    """
    wall = fetcher.io.wall()
    answer = await _ask(fetcher, metadata, identity, fields, deadline, proofs)
    if proofs is not None and _wants_nonce(answer):
        answer = await _ask(fetcher, metadata, identity, fields, deadline, proofs)
    url = metadata.token_endpoint
    # Some say what went wrong with a 200.
    if answer.status != 200 or answer.json is None or ("error" in answer.json and "access_token" not in answer.json):
        raise refused(TOKEN, "the authorization server gave no token", url, answer.status, answer.json)
    token = Token.from_response(
        answer.json,
        now=wall,
        url=url,
        issuer=metadata.issuer,
        resource=fields.get("resource"),
        asked=fields.get("scope", asked),
        earlier=earlier,
    )
    if (token.token_type == "dpop") != (proofs is not None):
        message = (
            "the token is not bound to the key of DPoP" if proofs else "the token needs DPoP(...) around this Auth"
        )
        raise refused(TOKEN, message, url)
    return token


async def _ask(
    fetcher: Fetcher,
    metadata: Metadata,
    identity: ClientIdentity,
    fields: Mapping[str, str],
    deadline: float,
    proofs: Proofs | None,
) -> Answer:
    url = metadata.token_endpoint
    wall = fetcher.io.wall()
    headers, own = authenticate(identity, metadata.issuer, wall)
    if proofs is None:
        return await fetcher.post_form(url, {**fields, **own}, headers, TOKEN, deadline)
    proofs.offer(metadata.document.get("dpop_signing_alg_values_supported"))
    origin = parse_url(url).origin
    headers.append(("DPoP", proofs.make("POST", origin, url, wall)))
    answer = await fetcher.post_form(url, {**fields, **own}, headers, TOKEN, deadline)
    proofs.note(origin, answer.headers.get("dpop-nonce"))
    return answer


def _wants_nonce(answer: Answer) -> bool:
    return answer.status in (400, 401) and (answer.json or {}).get("error") == "use_dpop_nonce"


def means_lost(error: BaseException) -> bool:
    """Does this answer to a refresh say that the user has to log in again (RFC 6749, section 5.2)?"""
    return isinstance(error, AuthTokenError) and error.error == "invalid_grant"


def means_unknown(error: BaseException) -> bool:
    """Does it say that the authorization server no longer knows the client?"""
    return isinstance(error, AuthTokenError) and error.error in ("invalid_client", "unauthorized_client")
