"""Servers that want a token, and an `Auth` that a test scripts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Iterable
from typing import Any

from ferrule.auth import Auth, AuthRequest, Challenge
from tests.support.scripted import ScriptedServer
from tests.support.steps import Step, Turn, default_rules, status, turns

BEARER = 'Bearer realm="mcp", error="invalid_token", error_description="expired"'
SCOPE = 'Bearer error="insufficient_scope", scope="a b", error_description="more"'
NONCE = 'DPoP error="use_dpop_nonce"'


def refuse(code: int = 401, challenge: str = BEARER, **headers: str) -> Step:
    """A refusal."""
    return status(code, headers=[("WWW-Authenticate", challenge), *headers.items()])


NONCE_WANTED = status(401, headers=[("WWW-Authenticate", NONCE), ("DPoP-Nonce", "n-1")])


def guarded(then: Any, good: Container[str | None], refusal: Step | None = None) -> Any:
    """A script that is only gone through for these `Authorization` headers."""
    if isinstance(then, turns):
        return turns(*(guarded(script, good, refusal) for script in then.scripts))
    steps = [then] if callable(then) else list(then)

    def step(turn: Turn) -> None:
        ours = turn.request.header("Authorization") in good
        for one in steps if ours else [refusal or refuse()]:
            one(turn)

    return step


def guarded_server(
    serve: Callable[..., ScriptedServer], era: str, good: Container[str | None], **rules: Any
) -> ScriptedServer:
    """A server that wants one of these `Authorization` headers on everything."""
    session = "session-1" if era == "handshake" else None
    everything = {**default_rules(era, session), **rules}
    return serve({name: guarded(script, good) for name, script in everything.items()}, era=None)


class Scripted(Auth):
    """Gives one token after another: the next one when it has to react.

    Args:
        tokens: What it has; None: it is not ready, and `prepare` moves on.
        more: Whether `react` moves on, True for always.
    """

    def __init__(self, *tokens: str | None, more: bool = True) -> None:
        self.tokens = list(tokens)
        self.more = more
        self.asked: list[AuthRequest] = []
        self.prepared: list[AuthRequest] = []
        self.reactions: list[tuple[AuthRequest, Challenge]] = []
        self._lock = threading.Lock()

    def headers(self, request: AuthRequest) -> list[tuple[str, str]] | None:
        self.asked.append(request)
        token = self.tokens[0]
        return None if token is None else header(token)

    def prepare(self, request: AuthRequest, deadline: float) -> Any:
        with self._lock:
            self.prepared.append(request)
            if self.tokens[0] is None and len(self.tokens) > 1:
                del self.tokens[0]

    def react(self, request: AuthRequest, response: Challenge, deadline: float) -> Any:
        with self._lock:
            self.reactions.append((request, response))
            if self.more and len(self.tokens) > 1:
                del self.tokens[0]
            return self.more


class Coroutines(Scripted):
    """The same, to be awaited."""

    async def prepare(self, request: AuthRequest, deadline: float) -> Any:
        return super().prepare(request, deadline)

    async def react(self, request: AuthRequest, response: Challenge, deadline: float) -> Any:
        return super().react(request, response, deadline)


def header(token: str) -> list[tuple[str, str]]:
    return [("Authorization", f"Bearer {token}")]


def tokens_of(requests: Iterable[Any]) -> list[str | None]:
    """The `Authorization` header of each request."""
    return [request.header("Authorization") for request in requests]
