"""An MCP server that wants access tokens, with everything around it: `World`.

Knows JSON-RPC as far as one tool call needs it, the protected-resource metadata and the challenges; the tokens are the
authorization server's (`authority`).
"""

from __future__ import annotations

import ssl
import time
from types import TracebackType
from typing import Any, Self

from tests.servers.authority import Authority, Granted, Refused, Trick, check_proof
from tests.servers.parties import Asked, Party, Reply, refuse
from tests.support.steps import discovered, initialized, text

PRM = "/.well-known/oauth-protected-resource/mcp"


class Protected:
    """The MCP server.

    Attributes:
        metadata: What its protected-resource metadata says beside or instead of what is true.
        challenge: The whole `WWW-Authenticate` of a 401, in place of the honest one.
        scope: What a token must hold, word by word.
        nonce: The DPoP nonce it insists on, if any.
        tricks: Path -> function of the request, asked before the honest answer.
    """

    def __init__(
        self,
        authority: Authority,
        era: str = "stateless",
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.authority = authority
        self.era = era
        self.metadata: dict[str, Any] = {}
        self.challenge: str | None = None
        self.scope = ""
        self.nonce: str | None = None
        self.tricks: dict[str, Trick] = {}
        self.proofs: set[str] = set()
        self.party = Party(self._answer, host, tls)
        self.url = f"{self.party.origin}/mcp"

    def close(self) -> None:
        self.party.close()

    def calls(self) -> list[Asked]:
        """The requests that reached a tool, authorized or not."""
        asked = [asked for asked in list(self.party.seen) if asked.path == "/mcp" and asked.verb == "POST"]
        return [each for each in asked if each.message.get("method") == "tools/call"]

    def described(self) -> dict[str, Any]:
        honest = {"resource": self.url, "authorization_servers": [self.authority.issuer]}
        return {name: value for name, value in {**honest, **self.metadata}.items() if value is not None}

    def _answer(self, asked: Asked) -> Reply:
        trick = self.tricks.get(asked.path)
        reply = trick(asked) if trick else None
        if reply is not None:
            return reply
        if asked.path == PRM:
            return Reply(body=self.described())
        if asked.path != "/mcp":
            return Reply(404, {})
        try:
            self._admit(asked)
        except Refused as refused:
            return refused.reply
        return self._serve(asked)

    # Who may come in

    def _admit(self, asked: Asked) -> None:
        scheme, _, token = (asked.header("authorization") or "").partition(" ")
        granted = self.authority.tokens.get(token)
        wanted = "DPoP" if granted is not None and granted.jkt else "Bearer"
        if granted is None or not self._holds(granted) or scheme != wanted:
            raise Refused(self._challenge(401, "invalid_token" if token else ""))
        if granted.jkt:
            self._check_binding(asked, token, granted)
        if not set(self.scope.split()) <= set(granted.scope.split()):
            raise Refused(self._challenge(403, "insufficient_scope"))

    def _holds(self, granted: Granted) -> bool:
        return granted.resource == self.url and granted.expires_at > time.time()

    def _check_binding(self, asked: Asked, token: str, granted: Granted) -> None:
        claims, jkt = check_proof(asked.header("dpop") or "", asked.verb, self.url, self.proofs, token)
        if jkt != granted.jkt:
            raise Refused(refuse("invalid_token", 401))
        if self.nonce is not None and claims.get("nonce") != self.nonce:
            raise Refused(
                Reply(
                    401,
                    {"error": "use_dpop_nonce"},
                    [("WWW-Authenticate", 'DPoP error="use_dpop_nonce"'), ("DPoP-Nonce", self.nonce)],
                )
            )

    def _challenge(self, status: int, error: str) -> Reply:
        honest = f'Bearer resource_metadata="{self.party.origin}{PRM}"'
        honest += f', error="{error}"' if error else ""
        honest += f', scope="{self.scope}"' if self.scope else ""
        return Reply(status, {"error": error}, [("WWW-Authenticate", self.challenge or honest)])

    # What they come for

    def _serve(self, asked: Asked) -> Reply:
        if asked.verb != "POST":
            return Reply(405 if asked.verb == "GET" else 200)
        message = asked.message
        method = message.get("method")
        if "id" not in message:
            return Reply(202)
        results: dict[str, Any] = {
            "tools/list": {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "resultType": "complete"},
            "tools/call": text("hello"),
            "ping": {},
        }
        if self.era == "stateless":
            results["server/discover"] = discovered()
        elif method == "initialize":
            request: Any = type("Request", (), {"params": message["params"]})
            results["initialize"] = initialized()(request)
        if method not in results:
            return Reply(400, {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "not initialized"}})
        return Reply(body={"jsonrpc": "2.0", "id": message["id"], "result": results[method]})


class World:
    """An MCP server, its authorization server, an identity provider, and a stranger: `with World() as world:`."""

    NAMES = ("mcp.example", "as.example", "idp.example", "stranger.example")
    """What the parties are called when they are public."""

    def __init__(self, era: str = "stateless", tls: ssl.SSLContext | None = None) -> None:
        mcp, authority, idp, stranger = self.NAMES if tls else ("127.0.0.1",) * 4
        self.authority = Authority(host=authority, tls=tls)
        self.idp = Authority(is_idp=True, host=idp, tls=tls)
        self.stranger = Authority(host=stranger, tls=tls)
        self.mcp = Protected(self.authority, era, mcp, tls)
        self.url = self.mcp.url

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for each in (self.mcp, self.authority, self.idp, self.stranger):
            each.close()
