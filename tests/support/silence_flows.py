"""What of the flows without a user the program of `silence` shows, with marked secrets wherever one can be."""

from __future__ import annotations

from typing import Any

from ferrule import Limits
from ferrule._http.url import parse_url
from ferrule._io.blocking import BlockingIO
from ferrule.auth import AuthContext, ClientCredentials, DPoP, EnterpriseManaged, JWTBearer, SigningKey, Token
from ferrule.auth.discovery import Metadata
from ferrule.auth.flow import Flow, Wanted
from ferrule.auth.machine import Credentials
from ferrule.auth.proofs import Proofs
from tests.support.secrets import secret


def enterprise() -> EnterpriseManaged:
    return EnterpriseManaged(
        secret("id-token"),
        idp_token_endpoint=f"https://h/token?{secret('idp-query')}",
        idp_client_id=secret("idp-client"),
        idp_client_secret=secret("idp-secret"),
        client_id=secret("client"),
        client_secret=secret("client-secret"),
        scopes=secret("scope"),
    )


def used(flow: Flow, kind: str = "bearer") -> list[Any]:
    """A flow that has got a token for a server, as the view of a client has it."""
    server = parse_url(f"https://{secret('user')}:{secret('password')}@h/mcp?{secret('query')}")
    bound = flow.bind(AuthContext(BlockingIO(), Limits(), server))
    standing = bound._standing
    standing.token = Token(secret("access-token"), kind, 9.0, secret("refresh-token"), secret("granted-scope"))
    standing.headers = [("Authorization", f"{kind} {secret('access-token')}")]
    standing.wanted = Wanted(Metadata("https://h", "https://h/token"), "https://h/mcp", secret("wanted-scope"))
    standing.named = f"https://h/prm?{secret('named')}"
    return [flow, bound, standing, standing.token]


def made_by_hand() -> list[Any]:
    """One of each."""
    key = SigningKey.generate()
    proofs = Proofs(key)
    proofs.note("https://h", secret("nonce"))
    with_key = ClientCredentials(secret("client"), private_key=key, key_id=None)
    under_dpop = JWTBearer(secret("assertion"), client_id=secret("client"), client_secret=secret("client-secret"))
    layer = DPoP(under_dpop, private_key=key)
    context = AuthContext(BlockingIO(), Limits(), parse_url(f"https://h/mcp?{secret('query')}"))
    return [
        key,
        proofs,
        Credentials(secret("client"), secret("client-secret"), None, None, None, None),
        *used(ClientCredentials(secret("client"), secret("client-secret"))),
        *used(with_key),
        *used(enterprise()),
        *used(under_dpop, "dpop"),
        layer,
        layer.bind(context),
    ]
