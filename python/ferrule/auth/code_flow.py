"""One authorization: the user is sent to the authorization server and comes back with a code, which becomes a token.

Knows the authorization request and what makes its answer credible (RFC 6749 section 4.1, RFC 7636, RFC 8707, RFC 9207).
Everything it keeps lives in the operation's locals.
"""

from __future__ import annotations

from math import inf

from .._io import Expired
from .pkce import challenge_of, new_secret, same_secret
from .receiver import read_query
from .steps import AUTHORIZATION, DISCOVERY, auth_error, refused
from .token_endpoint import request_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    from ..errors import AuthError
    from .discovery import Metadata, Resource
    from .fetch import Fetcher
    from .proofs import Proofs
    from .token_endpoint import ClientIdentity
    from .tokens import Token
    from .users import User


class Request:
    """What one authorization asks for, and what its answer has to match."""

    __slots__ = ("_identity", "_metadata", "_proofs", "_redirect_uri", "_resource", "_scope", "_state", "_verifier")

    def __init__(
        self,
        metadata: Metadata,
        resource: Resource,
        identity: ClientIdentity,
        scope: str | None,
        redirect_uri: str,
        proofs: Proofs | None,
    ) -> None:
        self._metadata = metadata
        self._resource = resource
        self._identity = identity
        self._scope = scope
        self._redirect_uri = redirect_uri
        self._proofs = proofs
        self._state = new_secret()
        self._verifier = new_secret()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Request holds secrets and is not pickled")

    async def perform(self, fetcher: Fetcher, user: User) -> Token:
        """Have the user authorize, and take the token.

        Raises:
            AuthorizationError: The user or the authorization server said no, nobody answered, or the answer is not
                the authorization server's.
            AuthTokenError: The code was not taken.
        """
        io = fetcher.io
        try:
            answer = await user.ask(self._url(fetcher), self._state, io.now() + user.timeout)
        except Expired:
            raise self._problem(f"the user did not come back within {user.timeout:g} seconds") from None
        code = self._code(read_query(answer) if isinstance(answer, str) else answer)
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": self._verifier,
            "resource": self._resource.resource,
        }
        return await request_token(
            fetcher, self._metadata, self._identity, fields, inf, asked=self._scope, proofs=self._proofs
        )

    def _url(self, fetcher: Fetcher) -> str:
        """Where the user is sent. What the endpoint has in its query stays (RFC 6749, section 3.1)."""
        from urllib.parse import urlencode

        endpoint = self._metadata.authorization_endpoint
        if endpoint is None:
            raise self._lacks("an authorization endpoint")
        if "S256" not in (self._metadata.pkce_methods or ()):
            raise self._lacks("PKCE with S256, without which a code can be stolen")
        fetcher.check(endpoint, AUTHORIZATION)
        parameters = {
            "response_type": "code",
            "client_id": self._identity.client_id,
            "redirect_uri": self._redirect_uri,
            "state": self._state,
            "code_challenge": challenge_of(self._verifier),
            "code_challenge_method": "S256",
            "resource": self._resource.resource,
        }
        if self._scope is not None:
            parameters["scope"] = self._scope
            if "offline_access" in self._scope.split():
                # OpenID Connect Core, section 11: without consent the scope is ignored.
                parameters["prompt"] = "consent"
        if self._proofs is not None:
            self._proofs.offer(self._metadata.document.get("dpop_signing_alg_values_supported"))
            parameters["dpop_jkt"] = self._proofs.key.thumbprint()
        base = endpoint.partition("#")[0]
        return f"{base}{'&' if '?' in base else '?'}{urlencode(parameters)}"

    def _code(self, answer: Mapping[str, str]) -> str:
        """The code, of an answer that is this request's and this authorization server's."""
        if not same_secret(self._state, answer.get("state", "")):
            raise self._problem("the answer belongs to another request (its state differs)")
        self._check_issuer(answer.get("iss"))
        if "error" in answer:
            raise refused(AUTHORIZATION, "the authorization was refused", self._metadata.issuer, said=answer)
        code = answer.get("code")
        if not code:
            raise self._problem("the answer has no code")
        return code

    def _check_issuer(self, stated: str | None) -> None:
        """RFC 9207, section 2.4, as plain strings. On a mismatch nothing of the answer is shown or kept."""
        if stated is None:
            if self._metadata.sends_issuer:
                raise self._problem("the answer does not say which authorization server it comes from")
        elif stated != self._metadata.issuer:
            raise self._problem("the answer comes from another authorization server than was asked")

    def _lacks(self, what: str) -> AuthError:
        message = f"the authorization server does not offer {what}"
        return auth_error(DISCOVERY, message, url=self._metadata.issuer)

    def _problem(self, message: str) -> AuthError:
        return auth_error(AUTHORIZATION, message, url=self._metadata.issuer)
