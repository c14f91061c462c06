"""The servers of `silence`: each does what its case says, on its transport, in its era."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import ferrule
from tests.support import child, steps
from tests.support.lines import LineServer
from tests.support.proxy import ForwardProxy
from tests.support.scripted import ScriptedServer
from tests.support.secrets import ARGUMENT, secret
from tests.support.silence_servers import ASKED, NEGOTIATION, Case
from tests.support.silence_words import (
    PROGRESS,
    answer_line,
    changes,
    discovered,
    good,
    heard,
    initialized,
    late_progress,
    note,
    unasked,
)
from tests.support.steps import Message, Request, Turn

NOISY = ("tools/call", "resources/subscribe", "tasks/result")
"""Methods during which the server says what nobody asked for."""
GOOD_KINDS = ("well", "proxy", "tcp", "forgetful", "dropping", "resumed", "endpoint", "lost")
"""Kinds of cases whose answers are good ones."""


def run(script: Any, turn: Turn) -> None:
    """Do what a script says."""
    for step in [script] if callable(script) else script:
        step(turn)


class Standing:
    """The script of GET: streams on which the server speaks unasked, the latest one at any time.

    Args:
        says: What is said on each stream first.
        endpoint: What the old transport's endpoint event names; None for the new transport.
        drops: End the first stream at once.

    Attributes:
        owed: What is to be done for a GET after that event.
    """

    def __init__(self, says: list[Message], endpoint: str | None = None, drops: bool = False) -> None:
        self._says = says
        self._endpoint = endpoint
        self._drops = drops
        self._latest: Turn | None = None
        self.owed: dict[str, Any] = {}

    def __call__(self, turn: Turn) -> None:
        if self._endpoint is None and turn.request.header("mcp-session-id") is None:
            return steps.status(405, secret("body").encode())(turn)
        last = turn.request.header("last-event-id")
        if last not in (None, secret("standing-event")):
            return run(self.owed.pop(last, steps.status(400, secret("body").encode())), turn)
        headers = [steps.SSE, steps.CHUNKED, ("X-Secret", secret("stream-header"))]
        turn.send(steps.http(200, b"", headers, length=False))
        if self._endpoint is not None:
            turn.send(steps.chunk(b"event: endpoint\ndata: " + self._endpoint.encode() + b"\n\n"))
        self._latest = turn
        self.push(self._says)
        if self._drops:
            self._drops = False
            turn.send(steps.LAST_CHUNK)
            return turn.close()
        turn.wait_gone()

    def push(self, messages: list[Message]) -> None:
        """Say something on the latest stream."""
        for message in messages:
            self.push_line(json.dumps(message).encode())

    def push_line(self, line: bytes) -> None:
        """Send any bytes as an event."""
        if self._latest is not None:
            self._latest.send(steps.chunk(steps.event(line, id=secret("standing-event"))))

    def end(self) -> None:
        """End the latest stream."""
        if self._latest is not None:
            self._latest.close()


class World:
    """Starts the server of each case; all end with the stack."""

    def __init__(self, stack: ExitStack, folder: Path, transport: str, era: str) -> None:
        self._stack = stack
        self._folder = folder
        self._transport = transport
        self._era = era
        self._count = 0

    def target(self, case: Case) -> Any:
        """What the client of this case is to connect to."""
        make = {"stdio": self._child, "socket": self._socket, "old": self._old}.get(self._transport, self._http)
        return make(case)

    def options(self, case: Case) -> dict[str, Any]:
        """What this case's client is made with."""
        options: dict[str, Any] = {} if self._transport == "json" else {"auth": None}
        if case.kind == "proxy":
            proxy = self._stack.enter_context(ForwardProxy(user=f"me:{secret('proxy-password')}"))
            options["proxy"] = proxy.url if case.value else proxy.url.replace("//me:", "//you:")
        return {**options, **case.options}

    def _result(self, case: Case, method: str) -> tuple[str, Any]:
        """How a request is answered: the kind and the value of `Case`."""
        if method in case.where and case.kind.endswith(" by method"):
            return case.kind.partition(" ")[0], case.value[method]
        if method in case.where and case.kind not in GOOD_KINDS:
            return case.kind, case.value
        if method == "server/discover" and self._era == "handshake":
            return "error", (-32601, {"text": secret("no-discover")})
        if method == "initialize" and self._era == "stateless":
            return "error", (-32601, {"text": secret("no-initialize")})
        changed = {"protocolVersion": "2024-11-05"} if self._transport == "old" else {}
        known = {**good(self._era), "server/discover": discovered(), "initialize": initialized(**changed)}
        return ("result", known[method]) if method in known else ("error", (-32601, {"text": secret("unknown")}))

    # over HTTP

    def _http(self, case: Case) -> Any:
        standing = Standing(_noise(case), drops=case.kind == "dropping")
        methods = [*NEGOTIATION, *ASKED, *case.where]
        scripts = {method: self._script(case, method, standing) for method in methods}
        session = secret("session-id") if self._era == "handshake" else None
        if session is not None:
            scripts["GET"] = standing
        else:
            scripts["subscriptions/listen"] = lambda turn: steps.stream(*heard(turn.request.message))(turn)
        server = self._stack.enter_context(ScriptedServer(scripts, era=self._era, session=session))
        if case.kind == "tcp":
            return ferrule.Tcp("127.0.0.1", server.port, f"http://localhost/mcp?key={secret('query')}")
        return self._url(server, "" if self._transport == "json" else f"{secret('user')}:{secret('password')}@")

    def _url(self, server: ScriptedServer, userinfo: str) -> str:
        return f"http://{userinfo}127.0.0.1:{server.port}/mcp?key={secret('query')}"

    def _script(self, case: Case, method: str, standing: Standing) -> Any:
        kind, value = self._result(case, method)
        if kind == "steps":
            return value
        headers = [("Set-Cookie", f"lb={secret('cookie')}; Path=/"), ("Set-Cookie", f"x={secret('foreign')}; Domain=x")]
        if method == "initialize" and kind == "result":
            headers.append(("Mcp-Session-Id", secret("session-id")))

        def body(request: Request) -> bytes:
            return answer_line(kind, value, request.message.get("id"))

        def answer(turn: Turn) -> None:
            if "id" not in turn.request.message:
                return steps.status(202)(turn)
            if method in NOISY:
                standing.push([*(_noise(case) if self._transport == "json" else changes()), *_late(turn.request)])
            if self._transport == "json" or method in NEGOTIATION:
                return turn.send(steps.http(200, body(turn.request), [steps.JSON, *headers]))
            noise = [steps.progress(PROGRESS[0], PROGRESS[1], PROGRESS[2]())]
            noise += _noise(case) if method in NOISY else []
            answered = steps.event(body(turn.request), id=secret("event"), retry=1)
            return steps.stream(*noise, answered, headers=headers)(turn)

        if method in NEGOTIATION:
            return answer
        if case.kind == "resumed":
            return _resumed(case, standing, body)
        return self._forgetful(answer) if case.kind == "forgetful" else answer

    def _forgetful(self, script: Callable[[Turn], None]) -> Callable[[Turn], None]:
        def step(turn: Turn) -> None:
            self._count += 1
            if self._count % 3:
                script(turn)
            else:
                steps.status(404, secret("no-session").encode(), content_type="text/html")(turn)

        return step

    # over the HTTP+SSE transport of 2024-11-05

    def _old(self, case: Case) -> Any:
        named = case.value if case.kind == "endpoint" else "/messages?session=" + secret("old-session")
        standing = Standing(_noise(case), endpoint=named)

        def take(turn: Turn) -> None:
            method = turn.request.method
            if turn.request.target.startswith("/mcp"):
                return steps.status(405, secret("no-post").encode())(turn)
            if case.kind == "lost" and method in case.where:
                return standing.end()
            kind, value = self._result(case, method)
            if kind == "steps":
                return run(value, turn)
            steps.status(202, secret("accepted").encode())(turn)
            if turn.request.message.get("id") is None or method == "reply":
                return None
            if method in NOISY:
                standing.push([*_noise(case), *_late(turn.request)])
            return standing.push_line(answer_line(kind, value, turn.request.message["id"]))

        rules: dict[str, Any] = {"GET": standing, "*": take, "batch": take}
        server = self._stack.enter_context(ScriptedServer(rules, era=None))
        return self._url(server, f"{secret('user')}:{secret('password')}@")

    # over pipes and sockets

    def _child(self, case: Case) -> ferrule.Stdio:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        rules = {method: [self._steps(case, method)] for method in [*NEGOTIATION, *ASKED]}
        scripted = child.ScriptedChild(folder, rules, era="both")
        scripted.argv.append(secret("argv"))
        return scripted.stdio(env={ARGUMENT: secret("env")}, stderr=lambda line: None)

    def _socket(self, case: Case) -> Any:
        rules: dict[str, list[Any]] = {method: [self._bytes(case, method)] for method in [*NEGOTIATION, *ASKED]}
        return ferrule.ByteStream.tcp("127.0.0.1", self._stack.enter_context(LineServer(rules)).port)

    def _steps(self, case: Case, method: str) -> list[child.Step]:
        kind, value = self._result(case, method)
        return list(value) if kind == "steps" else [child.raw(self._lines(case, method))]

    def _bytes(self, case: Case, method: str) -> bytes | str:
        kind, value = self._result(case, method)
        return str(value) if kind == "steps" else self._lines(case, method)

    def _lines(self, case: Case, method: str) -> bytes:
        """The answer with what comes around it; calls have their own id as the token of their progress."""
        kind, value = self._result(case, method)
        line = answer_line(kind, value, "$ID")
        before: list[Message] = []
        after: list[Message] = []
        if method not in NEGOTIATION:
            progress = {"progressToken": "$ID", "progress": PROGRESS[0], "message": PROGRESS[2]()}
            before = [note("progress", progress), *(_noise(case) if method in NOISY else [])]
            after = [late_progress("$ID")]
        lines = [*map(json.dumps, before), line.decode("latin-1"), *map(json.dumps, after), ""]
        return "\n".join(lines).encode("latin-1").replace(b'"$ID"', b"$ID")


def _noise(case: Case) -> list[Message]:
    """What is said beside the answers: all there is where these are good ones."""
    return unasked() if case.kind in GOOD_KINDS else changes()


def _late(request: Request) -> list[Message]:
    return [late_progress(request.meta["progressToken"])] if "progressToken" in request.meta else []


def _resumed(case: Case, standing: Standing, body: Callable[[Request], bytes]) -> Callable[[Turn], None]:
    """Every stream ends before its answer, which is fetched by GET."""

    def step(turn: Turn) -> None:
        if "id" not in turn.request.message:
            return steps.status(202)(turn)
        event_id = f"{secret('resumed')}{len(standing.owed)}-{turn.request.message['id']}"
        answer = steps.stream(steps.event(body(turn.request), id=secret("event")))
        standing.owed[event_id] = case.value or answer
        return steps.stream(steps.event(b"", id=event_id, retry=1))(turn)

    return step
