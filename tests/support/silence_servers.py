"""Everything that the servers of `silence` do, well-behaved and not.

A case is one way to answer every request, written once for all transports where it can be. `silence_words` has what is
said, `silence_world` the servers that say it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import ferrule
from ferrule._protocol.methods import METHODS
from tests.support import child, steps
from tests.support.lines import HANG, HANG_UP
from tests.support.secrets import secret
from tests.support.silence_words import (
    blocks,
    discovered,
    elicitation,
    in_rounds,
    initialized,
    wrong_lines,
    wrong_results,
)

HTTP = ("json", "sse", "old")
TRANSPORTS = (*HTTP, "stdio", "socket")
ERAS = ("stateless", "handshake")
RUNS = [(transport, era) for transport in TRANSPORTS for era in ERAS if (transport, era) != ("old", "stateless")]

NEGOTIATION = ("server/discover", "initialize")
ASKED = [*(name for name in METHODS if name not in NEGOTIATION), "custom/method"]
POSTED = ["reply", "notifications/cancelled", "notifications/roots/list_changed", "custom/method"]

FATAL = ["tools/call", "ping"]
ABOUT_TASKS = ["tasks/get", "tasks/result", "tasks/cancel"]

TASKS = ("call_tool_task", "get_task")
FEW = ("call_tool", "list_tools", "notify", "subscribe", *TASKS)
"""Members of a client that are enough where a case would take long with all of them."""

UNCONNECTED = ("call_tool", "list_tools", "notify", "server_info")
"""What is enough where the client cannot even connect, or its streams are not the point."""

WELL = "all is well"


@dataclass
class Case:
    """One behaviour of a server.

    Args:
        kind: "result" (of a method's name), "error", "line" (bytes instead of a message) or "steps"; "well",
            "proxy", "tcp"; "forgetful" ends the session every third time, "dropping" its first standalone stream,
            "resumed" every stream of a call, to be resumed with an answer or with the steps of `value`; "endpoint" (of
            the old transport) names `value`, "lost" ends its stream.
        value: The result, the error, the bytes; for "steps" the transport's own steps.
        where: Which methods are answered like this; all others are answered well.
        names: The members of the client that are used; None for all.
        options: What the client is made with instead of the ordinary.
    """

    name: str
    kind: str
    value: Any = None
    where: list[str] = field(default_factory=lambda: ASKED)
    timeout: float = 10.0
    names: tuple[str, ...] | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def connects(self) -> bool:
        """Can a client connect to it?"""
        return not set(NEGOTIATION) & set(self.where)


ERRORS: list[tuple[int, Any]] = [
    (-32602, lambda: {"text": secret("error-data")}),
    (-32601, lambda: secret("error-data")),
    (-32603, lambda: [secret("error-data")]),
    (-32002, lambda: {"uri": secret("error-uri")}),
    (-32020, lambda: {"text": secret("error-data")}),
    (-32021, lambda: {"requiredCapabilities": {secret("required"): {}}}),
    (-32022, lambda: {"supported": [secret("supported")], "requested": secret("requested")}),
    (-32042, lambda: {"elicitations": [elicitation()]}),
]


def statuses() -> Iterator[tuple[str, Any]]:
    """What HTTP refuses with."""
    body = secret("body").encode()
    hidden = [("X-Secret", secret("answer-header")), ("WWW-Authenticate", f'Bearer realm="{secret("realm")}"')]
    hidden += [("Set-Cookie", f"a={secret('late-cookie')}"), ("Retry-After", secret("retry-after"))]
    for status in (400, 401, 403, 404, 405, 407, 413, 429, 500, 503):
        yield f"HTTP {status}", steps.status(status, body, content_type="text/html", headers=hidden)
    away = ("//u:" + secret("redirect") + "@127.0.0.1:9/" + secret("path"), "http://[" + secret("host"))
    for status, *targets in ((302, "/" + secret("path"), *away), (307, "/again?" + secret("query-of-redirect"), *away)):
        for target in targets:
            yield f"HTTP {status} away", steps.status(status, body, headers=[("Location", target)])
    yield "no HTTP", [steps.raw(secret("no-http").encode() + b"\r\n\r\n"), steps.close()]
    yield "a bad header", [steps.raw(b"HTTP/1.1 200 OK\r\n" + secret("bad").encode() + b"\x00: 1\r\n\r\n")]
    yield "a bad length", [steps.raw(b"HTTP/1.1 200 OK\r\nContent-Length: " + body + b"\r\n\r\n")]
    yield "nothing", steps.close()
    yield "silence", steps.hang()


def http_steps() -> Iterator[tuple[str, Any]]:
    """What only HTTP can do wrong."""
    yield from statuses()
    body = secret("body").encode()
    for status in (200, 204):
        yield f"HTTP {status}", steps.status(status, body, content_type="text/html")
    yield "an unknown coding", steps.status(200, body, headers=[steps.JSON, ("Content-Encoding", secret("coding"))])
    yield "no gzip", steps.status(200, body, headers=[steps.JSON, ("Content-Encoding", "gzip")])
    head = steps.http(200, b"", [steps.JSON, steps.CHUNKED], length=False)
    yield "a bad chunk", [steps.raw(head + body + b"\r\n"), steps.close()]
    yield "half an answer", [steps.raw(head + steps.chunk(b'{"a": "' + body)), steps.close()]
    yield "a reset", [steps.raw(head + steps.chunk(b'{"a": "' + body)), steps.reset()]
    lost = steps.event(b"", id=secret("event-id"), retry=1) + b"event: " + body + b"\ndata: x\n\n: " + body + b"\n"
    yield "a lost stream", [steps.stream(lost, end=False), steps.close()]


def child_steps() -> Iterator[tuple[str, Any]]:
    """What only a child can do wrong."""
    says = child.stderr(secret("stderr") + "\n")
    yield "a chatty child", [says, child.raw(secret("noise").encode() + b"\n"), child.answer()]
    yield "a dying child", [says, child.die(3)]
    yield "a killed child", [says, child.raw(b'{"half": "' + secret("half").encode()), child.die(by_signal=9)]
    yield "a mute child", [says, child.mute()]
    yield "silence", [child.hold()]


def socket_steps() -> Iterator[tuple[str, Any]]:
    """What only a server at the other end of a stream can do wrong."""
    yield "a lost stream", HANG_UP
    yield "silence", HANG


def negotiations(transport: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What can go wrong before the first call: results by method."""
    shapeless = {"capabilities": secret("no-capabilities"), "serverInfo": secret("no-info")}
    for name, changes in (
        ("versions nobody knows", {"supportedVersions": [secret("version")], "protocolVersion": secret("version")}),
        ("a shapeless greeting", shapeless),
        ("no capabilities", {"capabilities": {}}),
    ):
        changed = {"server/discover": discovered(**changes), "initialize": initialized(**changes)}
        if changes is shapeless:
            changed = dict.fromkeys(changed, changes)
        yield name, changed


def cases(transport: str, era: str) -> Iterator[Case]:
    """Everything a server may do."""
    yield Case(WELL, "well")
    yield from variants(transport, era)
    for code, data in ERRORS:
        # Whoever agrees to visit a page waits until the server says that it was done.
        yield Case(f"error {code}", "error", (code, data()), timeout=0.5 if code == -32042 else 10.0)
    yield Case("error 1 at once", "error", (1, {"text": secret("refused")}), where=[*NEGOTIATION, *ASKED])
    yield Case("lost tasks", "error", (-32602, {"text": secret("error-data")}), where=ABOUT_TASKS, names=TASKS)
    for name, result in wrong_results():
        # What is too long ends the stream that all answers of the old transport come on.
        yield Case(name, "result", result, timeout=0.2 if (name, transport) == ("too much", "old") else 10.0)
        yield Case(f"{name} of tasks", "result", result, where=ABOUT_TASKS, names=TASKS)
    # Over pipes, what names no request is an answer to nobody.
    patience = 10.0 if transport in ("json", "sse") else 0.1
    for name, line in wrong_lines():
        yield Case(name, "line", line, timeout=patience, names=FEW)
        yield Case(f"{name} at once", "line", line, where=list(NEGOTIATION), timeout=patience)
    for name, by_method in negotiations(transport):
        yield Case(name, "result by method", by_method, where=list(NEGOTIATION))
    own = {"stdio": child_steps, "socket": socket_steps, "old": statuses}.get(transport, http_steps)
    for name, what in own():
        timeout = 0.1 if name == "silence" else 10.0
        # A child that ends takes a moment each time.
        where = ASKED if transport in HTTP else FATAL
        yield Case(name, "steps", what, timeout=timeout, where=where, names=FEW)
        yield Case(f"{name} at once", "steps", what, where=list(NEGOTIATION), timeout=timeout)
    blobs = {"content": blocks(), "isError": True}
    yield Case("a failed task", "result", blobs, where=["tasks/result"], names=TASKS)


def variants(transport: str, era: str) -> Iterator[Case]:
    """What a server does that is right, and other ways to make a client of it."""
    roots = ["file:///" + secret("fixed-root"), ferrule.Root("file:///" + secret("fixed-root"), secret("root-name"))]
    no_handlers = dict.fromkeys(("on_elicitation", "on_sampling", "roots", "on_log", "on_notification"))
    yield Case("fixed roots", "well", options={"roots": roots, "listen": True}, names=("call_tool", "subscribe"))
    plain = {**no_handlers, "sampling_tools": False, "listen": False, "keep_lists": False}
    yield Case("no handlers", "well", options=plain, names=FEW)
    if transport == "json":
        yield Case("a proxy", "proxy", secret("proxy-password"), names=UNCONNECTED, options={"listen": False})
        yield Case("a proxy that wants more", "proxy", "", names=UNCONNECTED)
        yield Case("a server by address", "tcp", names=FEW)
    if transport in HTTP:
        yield Case("refused posts", "steps", steps.status(400, secret("body").encode()), where=POSTED)
    if transport == "old":
        for endpoint in ("http://127.0.0.1:9/" + secret("foreign-path"), "http://u:" + secret("user") + "@["):
            yield Case("a bad endpoint", "endpoint", endpoint, where=list(NEGOTIATION))
        yield Case("a lost stream", "lost", where=FATAL)
        yield Case("a stream lost at once", "lost", where=list(NEGOTIATION))
    if era == "stateless":
        for name, result in in_rounds():
            asks = {**result, "resultType": "input_required"}
            yield Case(name, "result", asks, names=("call_tool", "get_prompt", "read_resource") * 2)
    elif transport in HTTP and transport != "old":
        yield Case("a forgetful server", "forgetful", names=("list_tools", "ping", "subscribe", *FEW))
        yield Case("a stream that is dropped", "dropping", names=FEW)
        yield Case("streams that are resumed", "resumed", None)
        refusal = steps.status(410, secret("body").encode(), content_type="text/html")
        yield Case("streams that are not resumed", "resumed", refusal, names=FEW)


def refused(transport: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """What constructors and calls refuse, or cannot reach."""
    yield "a bad target", secret("target"), {}
    yield "a bad URL", f"http://{secret('user')}:{secret('password')}@h:x/{secret('path')}", {}
    yield "a bad program", ferrule.Stdio("no-such-program", secret("argument"), env={"A": secret("env")}), {}
    here = "http://127.0.0.1:9/mcp"
    yield "a bad root", here, {"roots": [secret("no-root")]}
    yield "bad roots", here, {"roots": secret("no-roots")}
    yield "a handler that is none", here, {"on_log": secret("no-handler")}
    if transport not in HTTP:
        return
    yield "nobody there", f"{here}?{secret('query')}", {}
    yield "nobody at a socket", ferrule.Unix("/no/such/socket", f"http://h/mcp?{secret('query')}"), {}
    yield "two credentials", f"http://u:{secret('password')}@127.0.0.1:9/mcp", {"auth": secret("token")}
    yield "a bad header", here, {"headers": {"X-A": secret("header") + "\n"}}
    yield "a header of ours", here, {"headers": {"Mcp-Session-Id": secret("header")}}
    yield "a bad token", here, {"auth": secret("token") + "\n"}
    yield "a bad fresh token", here, {"auth": lambda: secret("token") + "\n"}
    yield "a bad proxy", here, {"proxy": f"socks5://u:{secret('proxy-password')}@h"}
    yield "a bad prior", here, {"prior": {"era": secret("prior"), "revision": secret("prior")}}
    yield "a bad pin", here, {"protocol": secret("pin")}
    yield "bad limits", here, {"limits": None, "timeout": secret("timeout")}
    yield "a bad name", here, {"client_info": {"name": [secret("name")]}}
    yield "bad capabilities", here, {"capabilities": [secret("capability")]}
