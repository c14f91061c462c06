"""What of `ferrule.auth` the program of `silence` shows: everything there is, with marked secrets in it."""

from __future__ import annotations

from typing import Any

from ferrule import Limits
from ferrule._http.url import parse_url
from ferrule._io.blocking import BlockingIO
from ferrule.auth import Auth, AuthContext, AuthRequest, BasicAuth, BearerAuth, Challenge, Token
from ferrule.auth.fetch import Answer, Way
from ferrule.auth.static import AsyncTokens
from tests.support import silence_flows, silence_logins
from tests.support.secrets import secret


class Credentials(Auth):
    """A class of the user's: has nothing at first, and renews what was refused."""

    def __init__(self) -> None:
        self.token: str | None = None

    def headers(self, request: AuthRequest) -> list[tuple[str, str]] | None:
        return None if self.token is None else [("Authorization", f"Bearer {self.token}")]

    def prepare(self, request: AuthRequest, deadline: float) -> None:
        self.token = secret("prepared-token")

    def react(self, request: AuthRequest, response: Challenge, deadline: float) -> bool:
        self.token = secret("renewed-token")
        return True


async def token() -> str:
    return secret("awaited-token")


def made_by_hand() -> list[Any]:
    """One of each."""
    url = f"http://{secret('user')}:{secret('password')}@h/mcp?{secret('query')}"
    sent = (("Authorization", f"Bearer {secret('sent-token')}"),)
    challenge = f'Bearer realm="{secret("realm")}", scope="{secret("scope")}", {secret("challenge")}="x"'
    context = AuthContext(BlockingIO(), Limits(), parse_url(url), (None, url, None))
    said = {"access_token": secret("access-token"), "refresh_token": secret("refresh-token"), "scope": secret("scope")}
    return [
        Auth(),
        BearerAuth(secret("bearer")),
        BasicAuth(secret("user"), secret("password")),
        AsyncTokens(token),
        AuthRequest("POST", f"https://h/mcp?{secret('query')}", sent),
        Challenge(401, [challenge], secret("nonce")),
        *Challenge(401, [challenge]).schemes,
        Token.from_response(said, now=0.0, url=url),
        context,
        context.fetcher([secret("allowed-host")]),
        Way(None, url, None),
        Answer(200, said, None),  # type: ignore[arg-type]
        *silence_flows.made_by_hand(),
        *silence_logins.made_by_hand(),
    ]
