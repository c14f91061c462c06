"""Which authorization server a server trusts, and what that one offers (RFC 9728, RFC 8414, OpenID Connect Discovery).

Knows the order of the well-known URLs and what makes a document credible. Requests are the fetcher's business, which
also judges every URL before it is asked for.
"""

from __future__ import annotations

from .._http.url import parse_url
from .._value import Frozen
from ..errors import ConfigError
from .steps import DISCOVERY, auth_error
from .tokens import is_vschar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._http.url import Url
    from ..errors import AuthError
    from .fetch import Fetcher

_RESOURCE = "/.well-known/oauth-protected-resource"
_OAUTH = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
MAX_SERVERS = 10
"""Authorization servers of one resource that are looked at; real ones name one or two."""


class Resource(Frozen):
    """What a server says about itself as a protected resource.

    Attributes:
        resource: Its identifier, exactly as it wrote it: what tokens are asked for.
        issuers: The authorization servers it trusts, in its order.
        scopes: What it needs at least, or None when it did not say.
        legacy: Did it say nothing at all, as servers of 2025-03-26 do? Then its origin is the authorization server.
    """

    __slots__ = ("issuers", "legacy", "resource", "scopes")

    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] | None
    legacy: bool

    def __init__(
        self, resource: str, issuers: tuple[str, ...], scopes: tuple[str, ...] | None = None, legacy: bool = False
    ) -> None:
        self._set("resource", resource)
        self._set("issuers", issuers)
        self._set("scopes", scopes)
        self._set("legacy", legacy)

    def __repr__(self) -> str:
        scopes = "no scopes" if self.scopes is None else f"{len(self.scopes)} scopes"
        return f"<Resource: {len(self.issuers)} authorization servers, {scopes}>"


class Metadata(Frozen):
    """What an authorization server says about itself, in the names of RFC 8414, section 2.

    Attributes:
        issuer: Its identifier, compared as a plain string wherever it appears.
        authorization_endpoint: Where the browser goes; None for servers without that flow.
        token_endpoint: Where codes and refresh tokens become tokens.
        registration_endpoint: Where clients register, if they can.
        scopes: What it lists in `scopes_supported`; None when it lists nothing.
        auth_methods: `token_endpoint_auth_methods_supported`; None when it lists nothing.
        pkce_methods: `code_challenge_methods_supported`; None when it lists nothing.
        sends_issuer: Does it promise `iss` in its answers (RFC 9207)?
        reads_client_documents: Does it take the URL of a document as a client id?
        document: The whole document, as received.
    """

    __slots__ = (
        "auth_methods",
        "authorization_endpoint",
        "document",
        "issuer",
        "pkce_methods",
        "reads_client_documents",
        "registration_endpoint",
        "scopes",
        "sends_issuer",
        "token_endpoint",
    )

    issuer: str
    authorization_endpoint: str | None
    token_endpoint: str
    registration_endpoint: str | None
    scopes: tuple[str, ...] | None
    auth_methods: tuple[str, ...] | None
    pkce_methods: tuple[str, ...] | None
    sends_issuer: bool
    reads_client_documents: bool
    document: Mapping[str, Any]

    def __init__(self, issuer: str, token_endpoint: str, document: Mapping[str, Any] | None = None) -> None:
        given = document or {}
        self._set("issuer", issuer)
        self._set("token_endpoint", token_endpoint)
        self._set("authorization_endpoint", _text(given, "authorization_endpoint"))
        self._set("registration_endpoint", _text(given, "registration_endpoint"))
        self._set("scopes", _scopes(given))
        self._set("auth_methods", _texts(given, "token_endpoint_auth_methods_supported"))
        self._set("pkce_methods", _texts(given, "code_challenge_methods_supported"))
        self._set("sends_issuer", given.get("authorization_response_iss_parameter_supported") is True)
        self._set("reads_client_documents", given.get("client_id_metadata_document_supported") is True)
        self._set("document", given)

    def __repr__(self) -> str:
        return f"<Metadata of {self.issuer}: {len(self.document)} members>"


def _text(document: Mapping[str, Any], name: str) -> str | None:
    value = document.get(name)
    return value if isinstance(value, str) and value else None


def _texts(document: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    value = document.get(name)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else None


def _scopes(document: Mapping[str, Any]) -> tuple[str, ...] | None:
    """`scopes_supported`, without what cannot be a scope's name (RFC 6749, section 3.3)."""
    names = _texts(document, "scopes_supported")
    return None if names is None else tuple(name for name in names if is_vschar(name) and " " not in name)


# --- the protected resource ----------------------------------------------------------------------


async def find_resource(fetcher: Fetcher, server: Url, named: str | None, deadline: float) -> Resource:
    """Read what the server says about itself (2026-07-28, authorization-server-discovery).

    Args:
        fetcher: Who asks.
        server: The URL of the MCP server.
        named: The URL that a challenge named, which alone counts then; None: the well-known ones, in order.
        deadline: Until when.

    Raises:
        AuthDiscoveryError: What was found cannot be believed, or the named document cannot be had.
    """
    if named is not None:
        return await _named_resource(fetcher, server, named, deadline)
    path = server.target.partition("?")[0].rstrip("/")
    for suffix in (path, "") if path else ("",):
        url = server.origin + _RESOURCE + suffix
        status, document = await fetcher.get_json(url, DISCOVERY, deadline)
        if status >= 500:
            raise _problem("the server's resource metadata cannot be had now", url, status)
        if status == 200 and document is not None:
            return _resource(document, server, url)
    return Resource(canonical(server), (server.origin,), legacy=True)


async def _named_resource(fetcher: Fetcher, server: Url, named: str, deadline: float) -> Resource:
    if _origin(named) != server.origin:
        raise _problem("the challenge names resource metadata on another origin than the server's", named)
    status, document = await fetcher.get_json(named, DISCOVERY, deadline)
    if status != 200 or document is None:
        raise _problem("the resource metadata that the challenge names cannot be had", named, status)
    return _resource(document, server, named)


def _resource(document: Mapping[str, Any], server: Url, url: str) -> Resource:
    resource = _text(document, "resource")
    if resource is None or not covers(resource, server):
        raise _problem("the resource metadata is about another resource than this server", url)
    issuers = _texts(document, "authorization_servers")
    if not issuers:
        raise _problem("the resource metadata names no authorization server", url)
    return Resource(resource, issuers[:MAX_SERVERS], _scopes(document))


def covers(resource: str, server: Url) -> bool:
    """Is this identifier the server's own, or a prefix of its path on the same origin? Segments count, not characters.

    A query belongs to the identity: where the identifier has one, the server's URL must have the same.
    """
    if "#" in resource:
        return False
    try:
        named = parse_url(resource)
    except ConfigError:
        return False
    if named.origin != server.origin or named.userinfo is not None:
        return False
    path, has_query, query = named.target.partition("?")
    own_path, _, own_query = server.target.partition("?")
    if has_query and query != own_query:
        return False
    return own_path == path or own_path.startswith(path.rstrip("/") + "/")


def canonical(server: Url) -> str:
    """The identifier of a server that did not name one (RFC 8707, section 2): no query, no slash that says nothing."""
    path = server.target.partition("?")[0]
    return server.origin + ("" if path == "/" else path)


def _origin(url: str) -> str | None:
    try:
        return parse_url(url).origin
    except ConfigError:
        return None


# --- the authorization server --------------------------------------------------------------------


def candidates(issuer: str) -> list[str]:
    """Where the metadata of an issuer may be, in the order of the specification; never above the issuer's path.

    Raises:
        AuthDiscoveryError: It is no issuer identifier.
    """
    try:
        url = parse_url(issuer)
    except ConfigError:
        raise _problem("the authorization server's identifier is no http(s) URL", "") from None
    if "?" in issuer or "#" in issuer or url.userinfo is not None:
        raise _problem("the authorization server's identifier has a query, fragment or user", issuer)
    path = url.target.rstrip("/")
    if not path:
        return [url.origin + _OAUTH, url.origin + _OPENID]
    return [url.origin + _OAUTH + path, url.origin + _OPENID + path, url.origin + path + _OPENID]


async def find_metadata(fetcher: Fetcher, issuer: str, deadline: float, *, legacy: bool = False) -> Metadata:
    """Read the metadata of an authorization server.

    It must state the issuer that it was looked up for, character by character (RFC 8414, section 3.3): nothing is
    normalised, neither here nor where an answer names its issuer (RFC 9207).

    Args:
        fetcher: Who asks.
        issuer: Its identifier.
        deadline: Until when.
        legacy: Is it the origin of a server that said nothing (2025-03-26)? That one's may lack its metadata: then
            the default endpoints hold.

    Raises:
        AuthDiscoveryError: There is no document, or only one that speaks of another issuer.
    """
    refusal = None
    status = 404
    for url in candidates(issuer):
        status, document = await fetcher.get_json(url, DISCOVERY, deadline)
        if status == 200 and document is not None:
            stated = document.get("issuer")
            # Nobody wrote a legacy issuer down, it is an origin: with or without a slash behind it.
            if stated == issuer or (legacy and stated == f"{issuer}/"):
                return _metadata(document, url)
            refusal = _problem(_mismatch(stated, issuer), url)
        elif status >= 500:
            refusal = refusal or _problem("the authorization server's metadata cannot be had now", url, status)
    if refusal is not None:
        raise refusal
    if legacy:
        return default_metadata(issuer)
    raise _problem("the authorization server has no metadata", issuer, status)


def _mismatch(stated: object, issuer: str) -> str:
    """What is wrong, with a word for the commonest mistake of those who set servers up."""
    text = "the authorization server's metadata states another issuer"
    differs = isinstance(stated, str) and stated.removesuffix("/") == issuer.removesuffix("/")
    return f"{text} than the server names: they differ in a final slash, which counts" if differs else text


def _metadata(document: Mapping[str, Any], url: str) -> Metadata:
    token_endpoint = _text(document, "token_endpoint")
    if token_endpoint is None:
        raise _problem("the authorization server's metadata names no token endpoint", url)
    return Metadata(document["issuer"], token_endpoint, document)


def default_metadata(origin: str) -> Metadata:
    """The endpoints of a server without metadata (2025-03-26, authorization, section 2.3.3), all under its origin."""
    endpoints = {"authorization_endpoint": f"{origin}/authorize", "registration_endpoint": f"{origin}/register"}
    # PKCE is required of every client and server of that revision; there is no document that could say so.
    return Metadata(origin, f"{origin}/token", {**endpoints, "code_challenge_methods_supported": ["S256"]})


def _problem(message: str, url: str, status: int | None = None) -> AuthError:
    return auth_error(DISCOVERY, message, url=url or None, status=status)
