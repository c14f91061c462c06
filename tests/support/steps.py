"""What a scripted server does with one request: steps, and scripts made of them.

A step is a function of a `Turn`; a script is one step or a list of them; `turns(a, b)` gives the
first request script `a` and every later one `b`. Anything callable with a `Turn` will do where no
step here fits.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

SERVER_INFO = {"name": "scripted", "version": "1.0"}
SERVER_INFO_KEY = "io.modelcontextprotocol/serverInfo"

Message = dict[str, Any]
Headers = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Request:
    """One HTTP request as it came in."""

    verb: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    connection: int
    """Which of the accepted connections it came on, counted from 0."""

    def header(self, name: str) -> str | None:
        """The first value of a header, or None."""
        return next((v for n, v in self.headers if n.lower() == name.lower()), None)

    @property
    def message(self) -> Any:
        """The JSON body; {} when there is none, or a form."""
        form = self.header("Content-Type") == "application/x-www-form-urlencoded"
        return json.loads(self.body) if self.body and not form else {}

    @property
    def method(self) -> str:
        """The JSON-RPC method; "reply" for a response, the HTTP verb when there is no body."""
        message = self.message
        if isinstance(message, dict):
            return str(message.get("method", "reply" if message else self.verb))
        return "batch"

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.message.get("params") or {})

    @property
    def meta(self) -> dict[str, Any]:
        return dict(self.params.get("_meta") or {})


class Turn(Protocol):
    """What a step may use."""

    @property
    def request(self) -> Request:
        """What is being answered; not to be touched in a script for "accept"."""

    def send(self, data: bytes, /) -> None:
        """Write; silently nothing when the client has gone."""

    def close(self) -> None:
        """End the connection the polite way."""

    def reset(self) -> None:
        """End the connection with RST."""

    def wait(self, event: threading.Event, /) -> bool:
        """Wait for the test's event; False when the server is closed first."""

    def wait_gone(self) -> None:
        """Read until the client has closed its side, or the server is closed."""


Step = Callable[[Turn], None]
Script = Step | Sequence[Step]


@dataclass
class turns:
    """One script per request; the last one serves all later requests too."""

    scripts: tuple[Script, ...]
    used: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __init__(self, *scripts: Script) -> None:
        self.scripts = scripts
        self.used = 0
        self._lock = threading.Lock()

    def next(self) -> Script:
        with self._lock:
            script = self.scripts[min(self.used, len(self.scripts) - 1)]
            self.used += 1
            return script


Rules = Mapping[str, Script | turns]


# --- bytes ---------------------------------------------------------------------------------------


def http(status: int = 200, body: bytes = b"", headers: Headers = (), *, length: bool = True) -> bytes:
    """A whole HTTP response; `length=False` leaves Content-Length out."""
    lines = [f"HTTP/1.1 {status} Scripted", *(f"{name}: {value}" for name, value in headers)]
    if length and status not in (204, 304):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
JSON = ("Content-Type", "application/json")
SSE = ("Content-Type", "text/event-stream")
CHUNKED = ("Transfer-Encoding", "chunked")


def event(message: Message | bytes, *, id: str | None = None, retry: int | None = None) -> bytes:
    """One server-sent event."""
    data = message if isinstance(message, bytes) else json.dumps(message).encode()
    lines = [b"event: message"]
    if id is not None:
        lines.append(b"id: " + id.encode())
    if retry is not None:
        lines.append(b"retry: %d" % retry)
    return b"\n".join([*lines, b"data: " + data]) + b"\n\n"


def result_for(request: Request, result: Any) -> Message:
    return {"jsonrpc": "2.0", "id": request.message.get("id"), "result": result}


def text(value: str, **more: Any) -> Message:
    """The result of a tool call with one text block."""
    return {"resultType": "complete", "content": [{"type": "text", "text": value}], **more}


# --- steps ---------------------------------------------------------------------------------------

Item = Message | bytes | Callable[[Request], Message | bytes]
"""What a stream sends: a message (a result without an id gets the request's), raw bytes, or a
function of the request.
"""


def _resolve(item: Any, request: Request) -> Any:
    return item(request) if callable(item) else item


def answer(result: Any = None, *, status: int = 200, headers: Headers = (), content_type: str = JSON[1]) -> Step:
    """A JSON answer. `result`: a dict, or a function of the request; None is a text block "ok"."""

    def step(turn: Turn) -> None:
        value = text("ok") if result is None else _resolve(result, turn.request)
        body = json.dumps(result_for(turn.request, value)).encode()
        turn.send(http(status, body, [("Content-Type", content_type), *headers]))

    return step


def error(code: int, message: str = "refused", data: Any = None, *, status: int = 200, id: Any = ...) -> Step:
    """A JSON-RPC error as JSON, with the request's id unless another is given."""

    def step(turn: Turn) -> None:
        problem: Message = {"code": code, "message": message}
        if data is not None:
            problem["data"] = data
        own = turn.request.message.get("id") if id is ... else id
        body = json.dumps({"jsonrpc": "2.0", "id": own, "error": problem}).encode()
        turn.send(http(status, body, [JSON]))

    return step


def stream(*items: Item, end: bool = True, headers: Headers = ()) -> Step:
    """A chunked text/event-stream; without `end` it stays open and the script goes on."""

    def step(turn: Turn) -> None:
        turn.send(http(200, b"", [SSE, CHUNKED, *headers], length=False))
        more(*items)(turn)
        if end:
            turn.send(LAST_CHUNK)

    return step


def more(*items: Item) -> Step:
    """More events on an open `stream(..., end=False)`; finish it with `raw(LAST_CHUNK)`."""

    def step(turn: Turn) -> None:
        for item in items:
            value = _resolve(item, turn.request)
            if isinstance(value, dict) and "method" not in value:
                value = {"jsonrpc": "2.0", "id": turn.request.message.get("id"), **value}
            turn.send(chunk(value if isinstance(value, bytes) else event(value)))

    return step


def progress(value: float, total: float | None = None, message: str | None = None) -> Item:
    """An item of a stream: progress under the request's own token."""

    def item(request: Request) -> Message:
        params = {"progressToken": request.meta.get("progressToken"), "progress": value}
        params |= {k: v for k, v in (("total", total), ("message", message)) if v is not None}
        return {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}

    return item


def result(value: Any = None) -> Item:
    """An item of a stream: the answer itself."""
    return {"result": text("ok") if value is None else value}


def status(code: int, body: bytes = b"", *, content_type: str | None = None, headers: Headers = ()) -> Step:
    """A plain HTTP answer."""
    kind = [("Content-Type", content_type)] if content_type else []
    return raw(http(code, body, [*kind, *headers]))


def raw(data: bytes | Callable[[Request], bytes], *, pieces: int | None = None) -> Step:
    """These bytes as they are; `pieces`: written that many bytes at a time."""

    def step(turn: Turn) -> None:
        value = data(turn.request) if callable(data) else data
        size = pieces or len(value) or 1
        for start in range(0, len(value), size):
            turn.send(value[start : start + size])

    return step


def close() -> Step:
    """End the connection after what was sent."""
    return lambda turn: turn.close()


def reset() -> Step:
    """End the connection with RST."""
    return lambda turn: turn.reset()


def hang() -> Step:
    """Send nothing more; ends when the client closes the connection."""
    return lambda turn: turn.wait_gone()


def wait(go: threading.Event) -> Step:
    """Hold until the test sets the event."""

    def step(turn: Turn) -> None:
        turn.wait(go)

    return step


# --- what a server does unless told otherwise ---------------------------------------------------

TOOL: Message = {"name": "echo", "inputSchema": {"type": "object"}}
CAPABILITIES: Message = {"tools": {}, "resources": {}, "prompts": {}}
_LISTS: dict[str, tuple[str, list[Message]]] = {
    "tools/list": ("tools", [TOOL]),
    "resources/list": ("resources", [{"uri": "demo://a", "name": "a"}]),
    "resources/templates/list": ("resourceTemplates", [{"uriTemplate": "demo://{x}", "name": "t"}]),
    "prompts/list": ("prompts", [{"name": "greet"}]),
}


def _echo(request: Request) -> Message:
    return text(json.dumps(request.params.get("arguments", {}), sort_keys=True))


def ordinary_results() -> dict[str, Any]:
    """Method -> result, or function of the request, of a good server in both eras."""
    hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    results: dict[str, Any] = {m: {name: items, **hints} for m, (name, items) in _LISTS.items()}
    results["tools/call"] = _echo
    results["resources/read"] = lambda request: {
        "contents": [{"uri": request.params.get("uri"), "text": "hello"}],
        **hints,
    }
    results["prompts/get"] = {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "resultType": "complete",
    }
    return results


def discovered(versions: Sequence[str] = ("2026-07-28",), capabilities: Message = CAPABILITIES) -> Message:
    """A DiscoverResult."""
    return {
        "resultType": "complete",
        "supportedVersions": list(versions),
        "capabilities": capabilities,
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_INFO_KEY: SERVER_INFO},
    }


def initialized(version: str | None = None, capabilities: Message = CAPABILITIES) -> Callable[[Request], Message]:
    """An InitializeResult at `version`, or at the one the client offered."""
    return lambda request: {
        "protocolVersion": version or request.params["protocolVersion"],
        "capabilities": capabilities,
        "serverInfo": SERVER_INFO,
    }


def stateless_rules() -> dict[str, Script | turns]:
    """A server of the stateless era."""
    rules: dict[str, Script | turns] = {m: answer(r) for m, r in ordinary_results().items()}
    rules["server/discover"] = answer(discovered())
    rules["*"] = error(-32601, "Method not found", status=404)
    rules["GET"] = rules["DELETE"] = status(405, headers=[("Allow", "POST")])
    return rules


def handshake_rules(session: str | None = "session-1") -> dict[str, Script | turns]:
    """A server of the handshake era; `session=None` gives no Mcp-Session-Id."""
    headers = [("Mcp-Session-Id", session)] if session else []
    rules: dict[str, Script | turns] = {m: answer(r) for m, r in ordinary_results().items()}
    rules["server/discover"] = error(-32000, "Server not initialized", status=400, id=None)
    rules["initialize"] = answer(initialized(), headers=headers)
    rules["ping"] = answer({})
    for notification in ("initialized", "cancelled"):
        rules[f"notifications/{notification}"] = status(202)
    rules["reply"] = status(202)
    rules["*"] = error(-32601, "Method not found")
    rules["GET"] = status(405, headers=[("Allow", "POST, DELETE")])
    rules["DELETE"] = status(200)
    return rules


def default_rules(era: str | None, session: str | None) -> dict[str, Script | turns]:
    """What an ordinary server of the era does; nothing for None."""
    if era == "stateless":
        return stateless_rules()
    return handshake_rules(session) if era == "handshake" else {}
