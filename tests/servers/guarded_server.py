"""A server of the official Python SDK that wants tokens: `guarded_server.py ISSUER`.

It asks the authorization server what each token is worth (RFC 7662), so revoked and expired ones are refused at once.
Listens on a free port of 127.0.0.1 and prints its URL.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import urllib.parse
import urllib.request
from base64 import b64encode
from typing import Any

import uvicorn
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from pydantic import AnyHttpUrl

NAME = "mcp-server"
SECRET = "mcp-server-secret"
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Introspection(TokenVerifier):
    """Asks for each token."""

    def __init__(self, issuer: str, resource: str) -> None:
        self._issuer = issuer
        self._resource = resource

    async def verify_token(self, token: str) -> AccessToken | None:
        said = await asyncio.to_thread(self._ask, token)
        if not said.get("active") or said.get("aud") != self._resource:
            return None
        return AccessToken(
            token=token,
            client_id=said["client_id"],
            scopes=said.get("scope", "").split(),
            expires_at=said.get("exp"),
            resource=self._resource,
            subject=said.get("sub"),
        )

    def _ask(self, token: str) -> dict[str, Any]:
        body = urllib.parse.urlencode({"token": token}).encode()
        basic = b64encode(f"{NAME}:{SECRET}".encode()).decode()
        request = urllib.request.Request(f"{self._issuer}/token/introspection", body)
        request.add_header("Authorization", f"Basic {basic}")
        with _direct.open(request, timeout=10) as answer:
            said: dict[str, Any] = json.load(answer)
            return said


def main() -> None:
    issuer = sys.argv[1]
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    auth = AuthSettings(
        issuer_url=issuer,  # type: ignore[arg-type]  # an AnyHttpUrl would get a slash, and be another issuer
        resource_server_url=AnyHttpUrl(url),
        required_scopes=["mcp:read"],
        validate_token_resource=True,
    )
    server = MCPServer("guarded", token_verifier=Introspection(issuer, url), auth=auth)

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    print(url, flush=True)
    app = server.streamable_http_app()
    uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)).run(sockets=[listener])


if __name__ == "__main__":
    main()
