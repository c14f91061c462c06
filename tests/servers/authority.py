"""An authorization server that does everything by the book, unless a test tells it otherwise.

Judges what it is sent with PyJWT: assertions, DPoP proofs, PKCE. Knows its clients, its codes and its tokens; the MCP
server that takes the tokens is `protected`. `tricks` is where a test makes it an adversary.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus, urlencode

import jwt

from tests.servers.parties import Asked, Party, Reply, redirect, refuse

ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
SAML2 = "urn:ietf:params:oauth:token-type:saml2"
SHARED_KEY = "the key that the parties of the tests sign grants with, among themselves"

Trick = Callable[[Asked], Reply | None]


@dataclass
class Registered:
    """A client that the authorization server knows."""

    secret: str | None = None
    method: str = "none"
    public_key: Any = None
    algorithm: str = ""


@dataclass
class Granted:
    """An access token that was given out."""

    client_id: str
    resource: str
    scope: str = ""
    jkt: str | None = None
    expires_at: float = field(default_factory=lambda: time.time() + 3600)


@dataclass
class Code:
    """An authorization code; `used` once."""

    query: Mapping[str, str]
    used: bool = False


class Refused(Exception):
    """The request is answered with this reply."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply


class Authority:
    """The authorization server; also the identity provider of an enterprise, when `is_idp`.

    Attributes:
        metadata: What its metadata says beside or instead of what is true; None leaves a member out.
        tricks: Path -> function of the request, asked before the honest answer; None: that is given.
        grants: The scopes that it gives out; None: whatever is asked for.
        nonce: The DPoP nonce it insists on, if any.
        token_members: What token answers say beside or instead of what is true; None leaves a member out.
    """

    def __init__(self, *, is_idp: bool = False, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        self.is_idp = is_idp
        self.metadata: dict[str, Any] = {}
        self.tricks: dict[str, Trick] = {}
        self.clients: dict[str, Registered] = {}
        self.codes: dict[str, Code] = {}
        self.tokens: dict[str, Granted] = {}
        self.refresh: dict[str, Granted] = {}
        self.token_members: dict[str, Any] = {}
        self.grants: set[str] | None = None
        self.nonce: str | None = None
        self.proofs: set[str] = set()
        self.assertions: set[str] = set()
        self.party = Party(self._answer, host, tls)
        self.issuer = self.party.origin

    def close(self) -> None:
        self.party.close()

    @property
    def token_url(self) -> str:
        return f"{self.party.origin}/token"

    def token_requests(self) -> list[dict[str, str]]:
        """The forms that came to the token endpoint, in order."""
        return [asked.form for asked in list(self.party.seen) if asked.path == "/token"]

    def described(self) -> dict[str, Any]:
        """Its metadata."""
        origin = self.party.origin
        honest = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials", JWT_BEARER],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [
                *("none", "client_secret_basic", "client_secret_post", "private_key_jwt")
            ],
            "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256", "EdDSA"],
            "authorization_response_iss_parameter_supported": True,
            "dpop_signing_alg_values_supported": ["ES256", "RS256", "EdDSA"],
        }
        return {name: value for name, value in {**honest, **self.metadata}.items() if value is not None}

    def _answer(self, asked: Asked) -> Reply:
        trick = self.tricks.get(asked.path)
        reply = trick(asked) if trick else None
        if reply is not None:
            return reply
        pages: dict[str, Callable[[Asked], Reply]] = {
            "/.well-known/oauth-authorization-server": lambda asked: Reply(body=self.described()),
            "/authorize": self._authorize,
            "/register": self._register,
            "/token": self._token,
        }
        page = pages.get(asked.path)
        if page is None:
            return Reply(404, {"error": "not_found"})
        try:
            return page(asked)
        except Refused as refused:
            return refused.reply

    # The user's side

    def _authorize(self, asked: Asked) -> Reply:
        """A user who consents at once."""
        query = asked.query
        code = secrets.token_urlsafe(16)
        self.codes[code] = Code(query)
        answer = {"code": code, "state": query.get("state", ""), "iss": self.issuer}
        return redirect(f"{query['redirect_uri']}?{urlencode(answer)}")

    def _register(self, asked: Asked) -> Reply:
        client_id = f"client-{len(self.clients)}"
        self.clients[client_id] = Registered()
        return Reply(201, {"client_id": client_id, **asked.message, "token_endpoint_auth_method": "none"})

    # The token endpoint

    def _token(self, asked: Asked) -> Reply:
        form = asked.form
        client_id = self._client(asked, form)
        jkt = self._proof(asked)
        grants: dict[str, Callable[[str, dict[str, str]], Granted]] = {
            "authorization_code": self._redeem,
            "refresh_token": self._refresh,
            "client_credentials": lambda client, form: Granted(client, form.get("resource", "")),
            JWT_BEARER: self._bearer_assertion,
        }
        kind = form.get("grant_type", "")
        if self.is_idp and kind == TOKEN_EXCHANGE:
            return self._exchange(client_id, form)
        if kind not in grants:
            return refuse("unsupported_grant_type")
        granted = grants[kind](client_id, form)
        wished = form.get("scope", granted.scope).split()
        granted.jkt, granted.scope = jkt, " ".join(one for one in wished if self.grants is None or one in self.grants)
        return self._issue(granted)

    def _issue(self, granted: Granted) -> Reply:
        token, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.tokens[token] = granted
        self.refresh[refresh] = granted
        kind = "Bearer" if granted.jkt is None else "DPoP"
        members = {"access_token": token, "token_type": kind, "expires_in": 3600, "scope": granted.scope}
        if granted.resource:
            members["refresh_token"] = refresh
        merged = {**members, **self.token_members}
        return Reply(body={name: value for name, value in merged.items() if value is not None})

    def _redeem(self, client_id: str, form: dict[str, str]) -> Granted:
        code = self.codes.get(form.get("code", ""))
        if code is None or code.used:
            raise Refused(refuse("invalid_grant"))
        code.used = True
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != code.query.get("code_challenge"):
            raise Refused(refuse("invalid_grant"))
        return Granted(client_id, form.get("resource", ""), code.query.get("scope", ""))

    def _refresh(self, client_id: str, form: dict[str, str]) -> Granted:
        granted = self.refresh.pop(form.get("refresh_token", ""), None)
        if granted is None:
            raise Refused(refuse("invalid_grant"))
        return Granted(client_id, granted.resource, granted.scope)

    def _bearer_assertion(self, client_id: str, form: dict[str, str]) -> Granted:
        """A grant that a party of the tests signed, for this server and this client."""
        try:
            claims = jwt.decode(form["assertion"], SHARED_KEY, algorithms=["HS256"], audience=self.issuer)
        except (KeyError, jwt.InvalidTokenError):
            raise Refused(refuse("invalid_grant")) from None
        if claims.get("client_id", client_id) != client_id:
            raise Refused(refuse("invalid_grant"))
        return Granted(client_id, form.get("resource", claims.get("resource", "")), claims.get("scope", ""))

    def _exchange(self, client_id: str, form: dict[str, str]) -> Reply:
        """RFC 8693 as the identity provider: an ID-JAG for the audience."""
        wanted = {"requested_token_type": ID_JAG, "subject_token": "id-token-of-the-user"}
        if any(form.get(name) != value for name, value in wanted.items()):
            return refuse("invalid_request")
        if form.get("subject_token_type") not in (ID_TOKEN, SAML2):
            return refuse("invalid_request")
        claims = {"iss": self.issuer, "aud": form["audience"], "resource": form["resource"], "exp": time.time() + 60}
        claims["scope"] = form.get("scope", "")
        grant = jwt.encode(claims, SHARED_KEY, "HS256", {"typ": "oauth-id-jag+jwt"})
        members = {"issued_token_type": ID_JAG, "access_token": grant, "token_type": "N_A", "expires_in": 60}
        return Reply(body={**members, **self.token_members})

    # Who asks

    def _client(self, asked: Asked, form: dict[str, str]) -> str:
        """The client that asks, by the one way of saying so that was registered for it."""
        found = list(self._credentials(asked, form))
        if len(found) != 1:
            raise Refused(refuse("invalid_request", 400))
        client_id, method, proven = found[0]
        known = self.clients.get(client_id)
        if known is None or known.method != method or not proven(known):
            raise Refused(refuse("invalid_client", 401))
        return client_id

    def _credentials(
        self, asked: Asked, form: dict[str, str]
    ) -> Iterator[tuple[str, str, Callable[[Registered], bool]]]:
        basic = asked.header("authorization")
        if basic is not None:
            user, _, password = base64.b64decode(basic.removeprefix("Basic ")).decode().partition(":")
            name, secret = unquote_plus(user), unquote_plus(password)
            yield name, "client_secret_basic", lambda known: known.secret == secret
        if "client_assertion" in form:
            text = form["client_assertion"]
            claimed = jwt.decode(text, options={"verify_signature": False})
            yield claimed["sub"], "private_key_jwt", lambda known: self._asserted(known, text, form)
        elif "client_secret" in form:
            yield form["client_id"], "client_secret_post", lambda known: known.secret == form["client_secret"]
        elif "client_id" in form and basic is None:
            yield form["client_id"], "none", lambda known: True

    def _asserted(self, known: Registered, text: str, form: dict[str, str]) -> bool:
        try:
            claims = jwt.decode(text, known.public_key, algorithms=[known.algorithm], audience=self.issuer)
        except jwt.InvalidTokenError:
            return False
        fresh = claims["jti"] not in self.assertions
        self.assertions.add(claims["jti"])
        return fresh and claims["iss"] == claims["sub"] and form["client_assertion_type"] == ASSERTION

    def _proof(self, asked: Asked) -> str | None:
        """The thumbprint of the key that a DPoP proof was signed with; None without one."""
        proof = asked.header("dpop")
        if proof is None:
            return None
        claims, jkt = check_proof(proof, "POST", self.token_url, self.proofs)
        if self.nonce is not None and claims.get("nonce") != self.nonce:
            challenge = refuse("use_dpop_nonce")
            challenge.headers.append(("DPoP-Nonce", self.nonce))
            raise Refused(challenge)
        return jkt


def check_proof(
    proof: str, method: str, url: str, seen: set[str], token: str | None = None
) -> tuple[dict[str, Any], str]:
    """The claims of a DPoP proof and its key's thumbprint, checked as RFC 9449, section 4.3 wants it.

    Raises:
        Refused: With `invalid_dpop_proof`, and what was wrong in words.
    """
    header = jwt.get_unverified_header(proof)
    jwk = header.get("jwk", {})
    problems = []
    if header.get("typ") != "dpop+jwt" or "d" in jwk:
        problems.append("the header is not that of a proof")
    claims = jwt.decode(
        proof,
        jwt.PyJWK({**jwk, "alg": header["alg"]}),
        algorithms=["ES256", "RS256", "EdDSA"],
        options={"verify_iat": False},
    )
    if (claims.get("htm"), claims.get("htu")) != (method, url):
        problems.append("it is for another request")
    if abs(claims.get("iat", 0) - time.time()) > 60 or claims.get("jti") in seen:
        problems.append("it is not fresh")
    seen.add(claims.get("jti", ""))
    if claims.get("ath") != (None if token is None else base64url(hashlib.sha256(token.encode()).digest())):
        problems.append("it is for another token")
    if problems:
        raise Refused(refuse("invalid_dpop_proof", error_description="; ".join(problems)))
    text = json.dumps(jwk, sort_keys=True, separators=(",", ":"))
    return claims, base64url(hashlib.sha256(text.encode()).digest())


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
