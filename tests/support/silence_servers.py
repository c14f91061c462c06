"""Servers with marked secrets in all they say, well-behaved and not, for `silence`.

A case is one way to answer every request, written once for all transports where it can be.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ferrule
from ferrule._protocol.methods import METHODS
from tests.support import child, steps
from tests.support.lines import HANG, HANG_UP, LineServer
from tests.support.proxy import ForwardProxy
from tests.support.scripted import ScriptedServer
from tests.support.secrets import ARGUMENT, MARK, secret
from tests.support.steps import Message, Request

HTTP = ("json", "sse")
TRANSPORTS = (*HTTP, "stdio", "socket")
ERAS = ("stateless", "handshake")

NEGOTIATION = ("server/discover", "initialize")
ASKED = [*(name for name in METHODS if name not in NEGOTIATION), "custom/method"]

FATAL = ["tools/call", "ping"]

# --- what is said --------------------------------------------------------------------------------


def s(place: str) -> dict[str, Any]:
    """Members that any object may have beside its own."""
    return {"_meta": {"deep": secret(f"{place}-meta")}, "vendor": secret(f"{place}-vendor")}


def blocks() -> list[Message]:
    data = base64.b64encode(secret("blob").encode()).decode()
    inner = {"uri": "demo://" + secret("embedded-uri"), "text": secret("embedded-text"), **s("embedded")}
    return [
        {"type": "text", "text": secret("text"), **s("text-block")},
        {"type": "image", "data": data, "mimeType": "image/" + secret("image-type"), **s("image")},
        {"type": "audio", "data": data, "mimeType": "audio/" + secret("audio-type"), **s("audio")},
        {"type": "resource_link", "uri": "demo://" + secret("link"), "name": secret("link-name"), **s("link")},
        {"type": "resource", "resource": inner},
        {"type": secret("block-type"), "text": secret("unknown-block")},
    ]


def entry(name: str, **more: Any) -> Message:
    """An item of a list. Names are no secrets: they are what calls are made with."""
    return {"name": name, "title": secret("title"), "description": secret("description"), **more, **s("item")}


def good(era: str) -> dict[str, Message]:
    """The result of each method, right and full."""
    schema = {"type": "object", "properties": {secret("property"): {"description": secret("schema")}}}
    lists = {
        "tools/list": ("tools", entry("echo", inputSchema=schema, outputSchema=schema)),
        "resources/list": ("resources", entry("a", uri="demo://" + secret("listed-uri"))),
        "resources/templates/list": ("resourceTemplates", entry("t", uriTemplate="demo://" + secret("template"))),
        "prompts/list": ("prompts", entry("greet", arguments=[entry("who")])),
    }
    results: dict[str, Message] = {method: {name: [item], **s("list")} for method, (name, item) in lists.items()}
    structured = {"text": secret("structured"), secret("structured-key"): 1}
    results["tools/call"] = {"content": blocks(), "structuredContent": structured, **s("call")}
    data = base64.b64encode(secret("content-blob").encode()).decode()
    contents = [{"uri": "demo://" + secret("read"), "text": secret("content")}, {"uri": "demo://b", "blob": data}]
    results["resources/read"] = {"contents": contents, **s("read")}
    messages = [{"role": "user", "content": block} for block in blocks()[:5]]
    results["prompts/get"] = {"messages": messages, "description": secret("prompt"), **s("prompt")}
    results["completion/complete"] = {"completion": {"values": [secret("completion")]}, **s("complete")}
    results["ping"] = s("pong")
    results["custom/method"] = {"text": secret("custom"), **s("custom")}
    return {name: {"resultType": "complete", **result} for name, result in results.items()}


def capabilities() -> Message:
    served = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}, "logging": {}}
    return {**served, "experimental": {secret("server-capability"): {"text": secret("experimental")}}}


def info() -> Message:
    return {"name": "silent", "version": "1", "title": secret("server-title"), "websiteUrl": secret("website")}


def discovered(**changes: Any) -> Message:
    meta = {"io.modelcontextprotocol/serverInfo": info(), "deep": secret("discover-meta")}
    said = {"capabilities": capabilities(), "instructions": secret("instructions"), "_meta": meta}
    return {"resultType": "complete", "supportedVersions": ["2026-07-28"], **said, **changes}


def initialized(**changes: Any) -> Message:
    said = {"capabilities": capabilities(), "serverInfo": info(), "instructions": secret("instructions")}
    return {"protocolVersion": "2025-11-25", **said, **s("initialize"), **changes}


def unasked() -> list[Message]:
    """What servers send beside answers."""
    note: dict[str, Any] = {"jsonrpc": "2.0"}
    form = {"message": secret("question"), "requestedSchema": {"type": "object", "properties": {secret("field"): {}}}}
    message = {"role": "user", "content": {"type": "text", "text": secret("sampling")}}
    changed = {"level": "error", "logger": secret("logger"), "data": {"text": secret("log-data")}}
    url = {"mode": "url", "message": secret("url-question"), "url": "https://h/" + secret("asked-url")}
    return [
        {**note, "method": "notifications/message", "params": changed},
        {**note, "method": "notifications/message", "params": secret("log-params")},
        {**note, "method": "notifications/tools/list_changed", "params": s("changed")},
        {**note, "method": "notifications/resources/updated", "params": {"uri": "demo://" + secret("updated")}},
        {**note, "method": "notifications/progress", "params": {"progressToken": secret("token-of-progress")}},
        {**note, "method": "notifications/cancelled", "params": {"requestId": secret("cancelled-id")}},
        {**note, "method": "notifications/" + secret("notification"), "params": {"x": secret("notified")}},
        {**note, "id": secret("id-of-ping"), "method": "ping", "params": s("ping")},
        {**note, "id": 1, "method": "roots/list", "params": s("roots")},
        {**note, "id": 2, "method": "elicitation/create", "params": form},
        {**note, "id": 3, "method": "elicitation/create", "params": {**url, "elicitationId": secret("elicitation")}},
        {**note, "id": 4, "method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 9}},
        {**note, "id": 5, "method": "sampling/createMessage", "params": {"messages": secret("no-messages")}},
        {**note, "id": 6, "method": secret("server-method"), "params": {"x": secret("server-param")}},
        {**note, "id": [secret("list-id")], "method": "ping"},
        {**note, "id": secret("foreign-id"), "result": {"text": secret("foreign-result")}},
        {**note, "id": 987654, "error": {"code": 1, "message": secret("foreign-error")}},
    ]


PROGRESS = (0.5, 2.0, lambda: secret("progress"))

# --- how every request is answered ---------------------------------------------------------------


@dataclass
class Case:
    """One behaviour of a server.

    Args:
        kind: "result" (of a method's name), "error", "line" (bytes instead of a message) or "steps".
        value: The result, the error, the bytes; for "steps" the transport's own steps.
        where: Which methods are answered like this; all others are answered well.
    """

    name: str
    kind: str
    value: Any
    where: list[str] = field(default_factory=lambda: ASKED)
    timeout: float = 10.0

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


def elicitation() -> Message:
    said = {"url": "https://h/" + secret("error-url"), "message": secret("error-question")}
    return {"mode": "url", "elicitationId": secret("error-elicitation"), **said}


def wrong_results() -> Iterator[tuple[str, Any]]:
    """Results nobody should send."""
    names = ("tools", "resources", "resourceTemplates", "prompts", "content", "contents", "messages", "completion")
    yield "text for lists", {name: secret("wrong") for name in names}
    yield "text in lists", {name: [secret("wrong-item")] for name in names}
    fields = ("name", "uri", "uriTemplate", "type", "role", "inputSchema", "content", "text")
    yield "objects for fields", {name: [{one: {secret("wrong-key"): 1} for one in fields}] for name in names}
    yield "nulls", dict.fromkeys(names) | s("nulls")
    yield "structured text", {"content": [], "structuredContent": secret("not-an-object")}
    yield "an unknown type", {"resultType": secret("result-type")}
    ask = {"a": {"method": "elicitation/create", "params": {"message": secret("round"), "requestedSchema": {}}}}
    yield "a question", {"resultType": "input_required", "inputRequests": ask, "requestState": secret("state")}
    yield "a wrong question", {"resultType": "input_required", "inputRequests": secret("no-requests")}
    yield "text", secret("no-result")
    yield "nothing", None
    yield "too much", {"text": secret("long") * 3000, "content": []}
    yield "a tool's failure", {"content": blocks(), "isError": True}


def wrong_lines() -> Iterator[tuple[str, bytes]]:
    """Messages nobody should send; `$ID` is the request's id."""
    mark = MARK.encode()
    yield "no JSON", b'{"jsonrpc": "2.0", "id": $ID, "result": ' + mark + b"-no-json-"
    yield "no JSON either", b'{"id": $ID, "result": {"a": "' + mark + b'-control-\x01"}}'
    yield "not UTF-8", b'{"id": $ID, "result": {"a": "' + mark + b'-bytes-\xff"}}'
    yield "a number too long", b'{"id": $ID, "result": {"content": "' + mark + b'-slow-", "n": ' + b"9" * 5000 + b"}}"
    yield "NaN", b'{"id": $ID, "result": {"content": ["' + mark + b'-nan-", NaN]}}'
    yield "nested", b'{"id": $ID, "result": {"' + mark + b'-deep-": ' + b"[" * 2000 + b"]" * 2000 + b"}}"
    yield "another id", b'{"jsonrpc": "2.0", "id": "' + mark + b'-other-id-", "result": {}}'
    yield "a batch", b'[{"jsonrpc": "2.0", "id": $ID, "result": {"a": "' + mark + b'-batch-"}}]'
    yield "a string", b'"' + mark + b'-string-"'
    yield "no result", b'{"jsonrpc": "2.0", "id": $ID, "' + mark + b'-member-": 1}'
    yield "an error that is none", b'{"jsonrpc": "2.0", "id": $ID, "error": "' + mark + b'-no-error-"}'
    yield "a code that is none", b'{"id": $ID, "error": {"code": "' + mark + b'-no-code-", "message": 1}}'


def http_steps() -> Iterator[tuple[str, Any]]:
    """What only HTTP can do wrong."""
    body = secret("body").encode()
    hidden = [("X-Secret", secret("answer-header")), ("WWW-Authenticate", f'Bearer realm="{secret("realm")}"')]
    hidden += [("Set-Cookie", f"a={secret('late-cookie')}"), ("Retry-After", secret("retry-after"))]
    for status in (200, 204, 400, 401, 403, 404, 405, 407, 413, 429, 500, 503):
        yield f"HTTP {status}", steps.status(status, body, content_type="text/html", headers=hidden)
    away = ("//u:" + secret("redirect") + "@127.0.0.1:9/" + secret("path"), "http://[" + secret("host"))
    for status, *targets in ((302, "/" + secret("path"), *away), (307, "/again?" + secret("query-of-redirect"), *away)):
        for target in targets:
            yield f"HTTP {status} away", steps.status(status, body, headers=[("Location", target)])
    yield "an unknown coding", steps.status(200, body, headers=[steps.JSON, ("Content-Encoding", secret("coding"))])
    yield "no gzip", steps.status(200, body, headers=[steps.JSON, ("Content-Encoding", "gzip")])
    yield "no HTTP", [steps.raw(secret("no-http").encode() + b"\r\n\r\n"), steps.close()]
    yield "a bad header", [steps.raw(b"HTTP/1.1 200 OK\r\n" + secret("bad").encode() + b"\x00: 1\r\n\r\n")]
    yield "a bad length", [steps.raw(b"HTTP/1.1 200 OK\r\nContent-Length: " + body + b"\r\n\r\n")]
    head = steps.http(200, b"", [steps.JSON, steps.CHUNKED], length=False)
    yield "a bad chunk", [steps.raw(head + body + b"\r\n"), steps.close()]
    yield "half an answer", [steps.raw(head + steps.chunk(b'{"a": "' + body)), steps.close()]
    yield "a reset", [steps.raw(head + steps.chunk(b'{"a": "' + body)), steps.reset()]
    lost = steps.event(b"", id=secret("event-id")) + b"event: " + body + b"\ndata: x\n\n: " + body + b"\n"
    yield "a lost stream", [steps.stream(lost, end=False), steps.close()]
    yield "nothing", steps.close()
    yield "silence", steps.hang()


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


def negotiations() -> Iterator[tuple[str, str, Any]]:
    """What can go wrong before the first call."""
    yield (
        "versions nobody knows",
        "result",
        lambda era: {
            "server/discover": discovered(supportedVersions=[secret("version")]),
            "initialize": initialized(protocolVersion=secret("version")),
        },
    )
    yield (
        "a shapeless greeting",
        "result",
        lambda era: {
            "server/discover": {"capabilities": secret("no-capabilities")},
            "initialize": {"capabilities": secret("no-capabilities"), "serverInfo": secret("no-info")},
        },
    )
    yield (
        "no capabilities",
        "result",
        lambda era: {
            "server/discover": discovered(capabilities={}),
            "initialize": initialized(capabilities={}),
        },
    )


def cases(transport: str, era: str) -> Iterator[Case]:
    """Everything a server may do."""
    yield Case("all is well", "well", None)
    for code, data in ERRORS:
        yield Case(f"error {code}", "error", (code, data()))
    yield Case("error 1 at once", "error", (1, {"text": secret("refused")}), where=[*NEGOTIATION, *ASKED])
    for name, result in wrong_results():
        yield Case(name, "result", result)
    # Over pipes, what names no request is an answer to nobody.
    patience = 10.0 if transport in HTTP else 0.1
    for name, line in wrong_lines():
        yield Case(name, "line", line, timeout=patience)
        yield Case(f"{name} at once", "line", line, where=list(NEGOTIATION), timeout=patience)
    for name, kind, by_method in negotiations():
        yield Case(name, f"{kind} by method", by_method(era), where=list(NEGOTIATION))
    own = {"stdio": child_steps, "socket": socket_steps}.get(transport, http_steps)
    for name, what in own():
        timeout = 0.1 if name == "silence" else 10.0
        # A child that ends takes a moment each time.
        yield Case(name, "steps", what, timeout=timeout, where=ASKED if transport in HTTP else FATAL)
        yield Case(f"{name} at once", "steps", what, where=list(NEGOTIATION), timeout=timeout)
    if transport == "json":
        yield Case("a proxy", "proxy", secret("proxy-password"))
        yield Case("a proxy that wants more", "proxy", "")


def refused(transport: str) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """What constructors and calls refuse, or cannot reach."""
    yield "a bad target", secret("target"), {}
    yield "a bad URL", f"http://{secret('user')}:{secret('password')}@h:x/{secret('path')}", {}
    yield "a bad program", ferrule.Stdio("no-such-program", secret("argument"), env={"A": secret("env")}), {}
    if transport not in HTTP:
        return
    here = "http://127.0.0.1:9/mcp"
    yield "nobody there", f"{here}?{secret('query')}", {}
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


# --- the servers ---------------------------------------------------------------------------------


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
        if self._transport == "stdio":
            return self._child(case)
        if self._transport == "socket":
            rules: dict[str, list[Any]] = {method: [self._bytes(case, method)] for method in [*NEGOTIATION, *ASKED]}
            return ferrule.ByteStream.tcp("127.0.0.1", self._stack.enter_context(LineServer(rules)).port)
        scripts = {method: self._script(case, method) for method in [*NEGOTIATION, *ASKED]}
        session = secret("session-id") if self._era == "handshake" else None
        server = self._stack.enter_context(ScriptedServer(scripts, era=self._era, session=session))
        userinfo = "" if self._transport == "json" else f"{secret('user')}:{secret('password')}@"
        return f"http://{userinfo}127.0.0.1:{server.port}/mcp?key={secret('query')}"

    def options(self, case: Case) -> dict[str, Any]:
        """What this case's client is made with."""
        if case.kind == "proxy":
            proxy = self._stack.enter_context(ForwardProxy(user=f"me:{secret('proxy-password')}"))
            return {"proxy": proxy.url if case.value else proxy.url.replace("//me:", "//you:")}
        return {"auth": None} if self._transport == "sse" else {}

    def _result(self, case: Case, method: str) -> tuple[str, Any]:
        """How a request is answered: the kind and the value of `Case`."""
        if method in case.where and case.kind.endswith(" by method"):
            return case.kind.partition(" ")[0], case.value[method]
        if method in case.where and case.kind not in ("well", "proxy"):
            return case.kind, case.value
        if method == "server/discover" and self._era == "handshake":
            return "error", (-32601, {"text": secret("no-discover")})
        if method == "initialize" and self._era == "stateless":
            return "error", (-32601, {"text": secret("no-initialize")})
        known = {**good(self._era), "server/discover": discovered(), "initialize": initialized()}
        return ("result", known[method]) if method in known else ("error", (-32601, {"text": secret("unknown")}))

    # over HTTP

    def _script(self, case: Case, method: str) -> Any:
        kind, value = self._result(case, method)
        if kind == "steps":
            return value
        headers = [("Set-Cookie", f"lb={secret('cookie')}; Path=/"), ("Set-Cookie", f"x={secret('foreign')}; Domain=x")]
        if method == "initialize" and kind == "result":
            headers.append(("Mcp-Session-Id", secret("session-id")))

        def body(request: Request) -> bytes:
            return answer_line(kind, value, request.message.get("id"))

        if self._transport == "sse" and method not in NEGOTIATION:
            noise = [steps.progress(PROGRESS[0], PROGRESS[1], PROGRESS[2]()), *unasked()]
            return steps.stream(*noise, lambda request: steps.event(body(request), id=secret("event")), headers=headers)
        return steps.raw(lambda request: steps.http(200, body(request), [steps.JSON, *headers]))

    # over stdio

    def _child(self, case: Case) -> ferrule.Stdio:
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        rules = {method: [self._lines(case, method)] for method in [*NEGOTIATION, *ASKED]}
        scripted = child.ScriptedChild(folder, rules, era="both")
        scripted.argv.append(secret("argv"))
        return scripted.stdio(env={ARGUMENT: secret("env")}, stderr=lambda line: None)

    def _lines(self, case: Case, method: str) -> list[child.Step]:
        kind, value = self._result(case, method)
        if kind == "steps":
            return list(value)
        line = answer_line(kind, value, "$ID").replace(b'"$ID"', b"$ID")
        noise = [child.progress(PROGRESS[0], PROGRESS[1], PROGRESS[2]()), *(child.send(one) for one in unasked())]
        return [*([] if method in NEGOTIATION else noise), child.raw(line + b"\n")]

    # over a socket

    def _bytes(self, case: Case, method: str) -> bytes | str:
        kind, value = self._result(case, method)
        if kind == "steps":
            return str(value)
        line = answer_line(kind, value, "$ID").replace(b'"$ID"', b"$ID")
        noise = [] if method in NEGOTIATION else [json.dumps(one).encode() for one in unasked()]
        return b"\n".join([*noise, line, b""])


def answer_line(kind: str, value: Any, id: Any) -> bytes:
    """The message that answers a request."""
    if kind == "line":
        return bytes(value.replace(b"$ID", json.dumps(id).encode()))
    message: Message = {"jsonrpc": "2.0", "id": id}
    if kind == "error":
        message["error"] = {"code": value[0], "message": secret("error-message"), "data": value[1]}
    else:
        message["result"] = value
    return json.dumps(message).encode()
