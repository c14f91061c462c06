"""Who the client is to an authorization server: registered beforehand, by the URL of a document, or dynamically.

Knows the order of the three (2026-07-28, client-registration) and RFC 7591. An identity belongs to one issuer; where it
is kept is `kept`'s business.
"""

from __future__ import annotations

from .._http.url import parse_url
from .._value import Frozen
from ..errors import ConfigError
from .steps import REGISTRATION, auth_error, refused
from .token_endpoint import BASIC, METHODS, NONE, POST, PRIVATE_KEY, ClientIdentity, check_method, choose_method
from .tokens import is_vschar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    from .discovery import Metadata
    from .fetch import Fetcher
    from .keys import SigningKey

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_NEVER = 1e11


class ClientSettings(Frozen):
    """What the user said about the client, checked.

    Attributes:
        client_id: Registered beforehand, or None.
        client_secret: And its secret.
        key: What it signs with.
        method: The way to prove its identity that the user chose, or None.
        issuer: Whom `client_id` belongs to; None: whoever is found first.
        document_url: Where the client's metadata document is.
        name: What users see when they are asked to consent.
        extra: More members for a dynamic registration.
    """

    __slots__ = ("client_id", "client_secret", "document_url", "extra", "issuer", "key", "method", "name")

    client_id: str | None
    client_secret: str | None
    key: SigningKey | None
    method: str | None
    issuer: str | None
    document_url: str | None
    name: str
    extra: Mapping[str, Any]

    def __init__(
        self,
        *,
        client_id: str | None = None,
        client_secret: str | None = None,
        key: SigningKey | None = None,
        method: str | None = None,
        issuer: str | None = None,
        document_url: str | None = None,
        name: str = "ferrule",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if client_secret is not None and client_id is None:
            raise ConfigError("client_secret belongs to a client_id: give both")
        if key is not None and client_id is None and document_url is None:
            raise ConfigError("private_key belongs to a client_id or a client_metadata_url")
        if issuer is not None and client_id is None:
            raise ConfigError("issuer says whom client_id belongs to: give both")
        check_method(method, secret=client_secret is not None, key=key is not None)
        if document_url is not None:
            check_document_url(document_url)
        if extra is not None and "redirect_uris" in extra:
            raise ConfigError("client_metadata: redirect_uris comes from redirect_uri")
        self._set("client_id", client_id)
        self._set("client_secret", client_secret)
        self._set("key", key)
        self._set("method", method)
        self._set("issuer", issuer)
        self._set("document_url", document_url)
        self._set("name", name)
        self._set("extra", dict(extra or {}))

    def __repr__(self) -> str:
        return "<ClientSettings>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("ClientSettings hold a secret and are not pickled")


def check_document_url(url: str) -> None:
    """See that a URL can be a client id (draft-ietf-oauth-client-id-metadata-document, section 3).

    Raises:
        ConfigError: It cannot.
    """
    parsed = parse_url(url)
    path = parsed.target.partition("?")[0]
    plain = path.lower().replace("%2e", ".")
    if not parsed.is_https or path == "/" or parsed.userinfo is not None or "#" in url:
        raise ConfigError("client_metadata_url must be https, with a path, without user and fragment")
    if any(segment in (".", "..") for segment in plain.split("/")):
        raise ConfigError("client_metadata_url must not have dot segments in its path")


async def identify(
    fetcher: Fetcher,
    metadata: Metadata,
    settings: ClientSettings,
    kept: ClientIdentity | None,
    redirect_uri: str,
    scope: str | None,
    deadline: float,
) -> ClientIdentity:
    """Find out or arrange who the client is to this authorization server.

    Args:
        fetcher: Who asks.
        metadata: The authorization server.
        settings: What the user said.
        kept: An earlier registration with this very issuer.
        redirect_uri: Where the answer will come.
        scope: What will be asked for.
        deadline: Until when.

    Raises:
        AuthRegistrationError: It is unknown there and cannot be registered.
    """
    known = given_identity(metadata, settings)
    if known is not None:
        return known
    if kept is not None and not kept.expired(fetcher.io.wall()) and _fits(kept, redirect_uri, scope):
        return kept
    if metadata.registration_endpoint is not None:
        return await _register(fetcher, metadata, settings, redirect_uri, scope, deadline)
    message = "the authorization server takes no registrations; register the client with it and pass client_id"
    raise auth_error(REGISTRATION, message, url=metadata.issuer)


def given_identity(metadata: Metadata, settings: ClientSettings) -> ClientIdentity | None:
    """The identity that needs no registration: of the user's, or by document.

    Raises:
        AuthRegistrationError: The user's belongs to another authorization server.
    """
    client_id = settings.client_id
    if client_id is not None:
        if settings.issuer not in (None, metadata.issuer):
            message = "the server names another authorization server than the one that client_id belongs to"
            raise auth_error(REGISTRATION, message, url=metadata.issuer)
        secret = settings.client_secret
    elif settings.document_url is not None and metadata.reads_client_documents:
        client_id, secret = settings.document_url, None
    else:
        return None
    chosen = choose_method(metadata.auth_methods, secret=secret is not None, key=settings.key is not None)
    return ClientIdentity(client_id, secret, settings.method or chosen, settings.key)


def _fits(kept: ClientIdentity, redirect_uri: str, scope: str | None) -> bool:
    """Was it registered for this redirect URI, and for these scopes as far as is known?"""
    if kept.redirect_uri != redirect_uri:
        return False
    return kept.scope is None or scope is None or set(scope.split()) <= set(kept.scope.split())


async def _register(
    fetcher: Fetcher,
    metadata: Metadata,
    settings: ClientSettings,
    redirect_uri: str,
    scope: str | None,
    deadline: float,
) -> ClientIdentity:
    url = metadata.registration_endpoint or ""
    request = registration_request(metadata, settings, redirect_uri, scope)
    answer = await fetcher.post_json(url, request, (), REGISTRATION, deadline)
    document = answer.json or {}
    if answer.status not in (200, 201) or not is_vschar(document.get("client_id")):
        message = "the authorization server did not register the client"
        raise refused(REGISTRATION, message, url, answer.status, document)
    return _registered(document, redirect_uri, url)


def registration_request(
    metadata: Metadata, settings: ClientSettings, redirect_uri: str, scope: str | None
) -> dict[str, Any]:
    """The body of a dynamic registration (RFC 7591, section 2)."""
    offered = metadata.auth_methods
    request: dict[str, Any] = {
        "client_name": settings.name,
        "redirect_uris": [redirect_uri],
        "application_type": application_type(redirect_uri),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        # A program on a user's machine keeps no secret: it takes one only where the server insists.
        "token_endpoint_auth_method": next((name for name in (NONE, BASIC, POST) if name in (offered or ())), NONE),
    }
    if scope is not None:
        request["scope"] = scope
    return {**request, **settings.extra}


def application_type(redirect_uri: str) -> str:
    """What OpenID Connect calls the client: native for the loopback interface and for schemes of programs."""
    try:
        url = parse_url(redirect_uri)
    except ConfigError:
        return "native"
    return "native" if url.host in _LOOPBACK else "web"


def _registered(document: Mapping[str, Any], redirect_uri: str, url: str) -> ClientIdentity:
    secret, method = document.get("client_secret"), document.get("token_endpoint_auth_method")
    if not is_vschar(secret):
        secret = None
    if not isinstance(method, str):
        method = choose_method(None, secret=secret is not None, key=False)
    if method not in METHODS or method == PRIVATE_KEY or (method != NONE and secret is None):
        message = "the authorization server registered the client with a way to authenticate that it cannot use"
        raise auth_error(REGISTRATION, message, url=url)
    expires, scope = document.get("client_secret_expires_at"), document.get("scope")
    return ClientIdentity(
        document["client_id"],
        secret,
        method,
        redirect_uri=redirect_uri,
        scope=scope if is_vschar(scope) else None,
        # One that is centuries away is never; and an integer may be too large to be kept.
        secret_expires_at=expires if isinstance(expires, int | float) and 0 < expires < _NEVER else 0,
    )
