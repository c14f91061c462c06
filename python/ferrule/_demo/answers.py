"""What the demo server offers, and the rules of both eras; no wire.

One request in, one answer out: `perform`. It knows nothing of the client it ships with.
"""

from __future__ import annotations

import threading

from .changes import NOTE, Watch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .changes import Changes

    Message = dict[str, Any]
    Notify = Callable[[Message], None]

STATELESS = "2026-07-28"
HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26")
INFO = {"name": "ferrule-demo", "title": "Ferrule demo server", "version": "1.0.0"}
INSTRUCTIONS = "Nothing here reaches beyond this server: call whatever you like."
CAPABILITIES: Message = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}}
PREFIX = "io.modelcontextprotocol/"
UPDATED = "notifications/resources/updated"

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
RESOURCE_NOT_FOUND = -32002  # up to 2025-11-25; INVALID_PARAMS since
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022

_STEP_SECONDS = 0.02


class Problem(Exception):
    """A JSON-RPC error to answer with, and the HTTP status it goes with."""

    def __init__(self, code: int, message: str, data: Any = None, *, status: int = 200) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.status = status

    def to_error(self) -> Message:
        """The `error` member of the answer."""
        error = {"code": self.code, "message": str(self)}
        return error if self.data is None else {**error, "data": self.data}


# --- what the server offers ----------------------------------------------------------------------


def _object(**properties: Message) -> Message:
    return {"type": "object", "properties": properties, "required": list(properties)}


TOOLS: list[Message] = [
    {
        "name": "add",
        "description": "Add two numbers.",
        "inputSchema": _object(a={"type": "number"}, b={"type": "number"}),
        "outputSchema": _object(sum={"type": "number"}),
    },
    {
        "name": "count",
        "description": "Count to n, reporting each step as progress.",
        "inputSchema": _object(n={"type": "integer", "minimum": 0, "maximum": 1000}),
    },
    {
        "name": "fail",
        "description": "Fail, and say why.",
        "inputSchema": {"type": "object"},
    },
    {
        "name": "note",
        "description": "Write a text to demo://note, and tell those who subscribed to it.",
        "inputSchema": _object(text={"type": "string"}),
    },
    {
        "name": "welcome",
        "description": "Ask who you are, and welcome you (2026-07-28).",
        "inputSchema": {"type": "object"},
    },
]
RESOURCES: list[Message] = [
    {"uri": "demo://greeting", "name": "greeting", "mimeType": "text/plain"},
    {"uri": NOTE, "name": "note", "mimeType": "text/plain"},
    {"uri": "demo://pixel", "name": "pixel", "mimeType": "image/gif"},
]
TEMPLATES: list[Message] = [{"uriTemplate": "demo://square/{n}", "name": "square", "mimeType": "text/plain"}]
PROMPTS: list[Message] = [
    {
        "name": "greet",
        "description": "Ask for a greeting.",
        "arguments": [{"name": "who", "description": "Whom to greet.", "required": True}],
    }
]
_PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"


class Job:
    """One request being worked on: what it asks, in which era, and where its notifications go.

    Attributes:
        watch: What it makes known: to the session that it belongs to, or as the subscription that it is.
    """

    def __init__(
        self,
        message: Message,
        changes: Changes,
        notify: Notify,
        *,
        session: Watch | None = None,
        keep_alive: Callable[[], None] = lambda: None,
    ) -> None:
        self.id = message["id"]
        self.params: Message = message.get("params") or {}
        self.stateless = session is None
        self.changes = changes
        self.watch = session or Watch()
        self.keep_alive = keep_alive
        self.cancelled = threading.Event()
        self._notify = notify
        self.meta: Message = self.params.get("_meta") or {}
        self._token = self.meta.get("progressToken")

    def progress(self, value: int, total: int, message: str) -> None:
        """Report progress, if the client asked for it."""
        if self._token is not None:
            params = {"progress": value, "total": total, "message": message}
            params["progressToken"] = self._token
            self.notify("notifications/progress", params)

    def notify(self, method: str, params: Message) -> None:
        """Send a notification that belongs to this request."""
        self._notify(notification(method, params))

    def cancel(self) -> None:
        """The client wants no answer any more."""
        self.cancelled.set()
        if self.stateless:
            self.watch.end()


def notification(method: str, params: Message) -> Message:
    """A notification as it is sent."""
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _text(text: str, **more: Any) -> Message:
    return {"content": [{"type": "text", "text": text}], **more}


def _add(job: Job, arguments: Message) -> Message:
    values = [arguments.get(name) for name in ("a", "b")]
    if not all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
        return _text("add needs two numbers, a and b.", isError=True)
    total = values[0] + values[1]  # type: ignore[operator] # checked one line above
    return _text(str(total), structuredContent={"sum": total})


def _count(job: Job, arguments: Message) -> Message:
    n = arguments.get("n")
    if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n <= 1000:
        return _text("count needs an integer n from 0 to 1000.", isError=True)
    for step in range(1, n + 1):
        if job.cancelled.wait(_STEP_SECONDS):
            return _text(f"Cancelled at {step}.", isError=True)
        job.progress(step, n, f"step {step} of {n}")
    return _text(f"Counted to {n}.")


def _fail(job: Job, arguments: Message) -> Message:
    return _text("fail did what it is for: nothing is wrong with your call.", isError=True)


def _note(job: Job, arguments: Message) -> Message:
    text = arguments.get("text")
    if not isinstance(text, str):
        return _text("note needs a text.", isError=True)
    job.changes.write(text)
    return _text("Noted.")


_WHO: Message = {
    "method": "elicitation/create",
    "params": {"message": "Who are you?", "mode": "form", "requestedSchema": _object(name={"type": "string"})},
}


def _welcome(job: Job, arguments: Message) -> Message:
    if not job.stateless:
        return _text("welcome asks in rounds, which began with 2026-07-28.", isError=True)
    responses = job.params.get("inputResponses")
    answer = responses.get("who") if isinstance(responses, dict) else None
    if not isinstance(answer, dict):
        if "elicitation" not in (job.meta.get(PREFIX + "clientCapabilities") or {}):
            missing: Message = {"requiredCapabilities": {"elicitation": {"form": {}}}}
            raise Problem(MISSING_CAPABILITY, "welcome has to ask who you are", missing, status=400)
        return {"resultType": "input_required", "inputRequests": {"who": _WHO}, "requestState": "asked"}
    name = (answer.get("content") or {}).get("name") if answer.get("action") == "accept" else None
    return _text(f"Welcome, {name}." if isinstance(name, str) else "Welcome, whoever you are.")


_TOOL_BODIES: dict[str, Callable[[Job, Message], Message]] = {
    "add": _add,
    "count": _count,
    "fail": _fail,
    "note": _note,
    "welcome": _welcome,
}


def _call_tool(job: Job) -> Message:
    name, arguments = job.params.get("name"), job.params.get("arguments", {})
    body = _TOOL_BODIES.get(name) if isinstance(name, str) else None
    if body is None:
        raise Problem(INVALID_PARAMS, f"Unknown tool: {name}")
    if not isinstance(arguments, dict):
        raise Problem(INVALID_PARAMS, "arguments must be an object")
    return body(job, arguments)


def _content(uri: Any, changes: Changes) -> Message | None:
    """What a resource holds; None when there is none."""
    if not isinstance(uri, str):
        return None
    if uri == NOTE:
        return {"text": changes.note, "mimeType": "text/plain"}
    if uri == "demo://greeting":
        return {"text": "Hello from the demo server.", "mimeType": "text/plain"}
    if uri == "demo://pixel":
        return {"blob": _PIXEL, "mimeType": "image/gif"}
    number = uri.removeprefix("demo://square/")
    if number != uri and number.isdecimal() and len(number) < 20:
        return {"text": str(int(number) ** 2), "mimeType": "text/plain"}
    return None


def _find_resource(job: Job) -> Message:
    uri = job.params.get("uri")
    content = _content(uri, job.changes)
    if content is None:
        code = INVALID_PARAMS if job.stateless else RESOURCE_NOT_FOUND
        raise Problem(code, "Resource not found", {"uri": uri})
    return {"uri": uri, **content}


def _read_resource(job: Job) -> Message:
    return {"contents": [_find_resource(job)]}


# Only the note changes, but all that can be read can be watched.


def _subscribe(job: Job) -> Message:
    job.watch.uris.add(_find_resource(job)["uri"])
    return {}


def _unsubscribe(job: Job) -> Message:
    job.watch.uris.discard(_find_resource(job)["uri"])
    return {}


def _listen(job: Job) -> Message:
    wanted = job.params.get("notifications")
    uris = wanted.get("resourceSubscriptions", []) if isinstance(wanted, dict) else None
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise Problem(INVALID_PARAMS, "notifications must be an object, its resourceSubscriptions strings", status=400)
    honored = [uri for uri in uris if _content(uri, job.changes)]
    tag = {"_meta": {PREFIX + "subscriptionId": job.id}}
    job.watch.uris.update(honored)
    job.watch.claim()
    job.changes.add(job.watch)
    try:
        agreed = {"resourceSubscriptions": honored} if honored else {}
        job.notify("notifications/subscriptions/acknowledged", {**tag, "notifications": agreed})
        job.watch.follow(lambda uri: job.notify(UPDATED, {**tag, "uri": uri}), job.keep_alive)
    finally:
        job.changes.remove(job.watch)
    return tag


def _get_prompt(job: Job) -> Message:
    if job.params.get("name") != "greet":
        raise Problem(INVALID_PARAMS, f"Unknown prompt: {job.params.get('name')}")
    who = (job.params.get("arguments") or {}).get("who")
    if not isinstance(who, str):
        raise Problem(INVALID_PARAMS, "greet needs the argument who")
    content = {"type": "text", "text": f"Greet {who} in one warm sentence."}
    return {"messages": [{"role": "user", "content": content}]}


def _listing(key: str, items: list[Message]) -> Callable[[Job], Message]:
    return lambda job: {key: items}


def _discover(job: Job) -> Message:
    return {
        "supportedVersions": [STATELESS, *HANDSHAKE],
        "capabilities": CAPABILITIES,
        "instructions": INSTRUCTIONS,
    }


def _initialize(job: Job) -> Message:
    offered = job.params.get("protocolVersion")
    return {
        "protocolVersion": offered if offered in HANDSHAKE else HANDSHAKE[0],
        "capabilities": CAPABILITIES,
        "serverInfo": INFO,
        "instructions": INSTRUCTIONS,
    }


_BOTH: dict[str, Callable[[Job], Message]] = {
    "tools/list": _listing("tools", TOOLS),
    "tools/call": _call_tool,
    "resources/list": _listing("resources", RESOURCES),
    "resources/templates/list": _listing("resourceTemplates", TEMPLATES),
    "resources/read": _read_resource,
    "prompts/list": _listing("prompts", PROMPTS),
    "prompts/get": _get_prompt,
}
_HANDSHAKE_METHODS = {
    **_BOTH,
    "initialize": _initialize,
    "ping": lambda job: {},
    "resources/subscribe": _subscribe,
    "resources/unsubscribe": _unsubscribe,
}
_STATELESS_METHODS = {**_BOTH, "server/discover": _discover, "subscriptions/listen": _listen}
_UNCACHED = ("tools/call", "prompts/get", "subscriptions/listen")
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def perform(message: Message, job: Job) -> Message:
    """Do what a request asks; the whole answer, success or error."""
    method = message["method"]
    methods = _STATELESS_METHODS if job.stateless else _HANDSHAKE_METHODS
    body = methods.get(method)
    if body is None:
        raise Problem(METHOD_NOT_FOUND, f"Method not found: {method}", status=404)
    result = body(job)
    if job.stateless:
        meta = {**result.get("_meta", {}), PREFIX + "serverInfo": INFO}
        result = {"resultType": "complete", **result, "_meta": meta}
        if method not in _UNCACHED:
            ttl = 0 if job.params.get("uri") == NOTE else 60_000
            result |= {"ttlMs": ttl, "cacheScope": "public"}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


# --- the rules of both eras ----------------------------------------------------------------------


def check_message(message: Any) -> Message:
    """Refuse what is no single JSON-RPC message."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise Problem(INVALID_REQUEST, "Expected one JSON-RPC 2.0 message", status=400)
    if not isinstance(message.get("method", ""), str):
        raise Problem(INVALID_REQUEST, "method must be a string", status=400)
    if "id" in message and not isinstance(message["id"], str | int):
        raise Problem(INVALID_REQUEST, "id must be a string or an integer", status=400)
    if not isinstance(message.get("params", {}), dict):
        raise Problem(INVALID_PARAMS, "params must be an object", status=400)
    return message


def is_stateless(message: Message) -> bool:
    """A request of the stateless era says so in its `_meta`; `initialize` opens the other one."""
    meta = (message.get("params") or {}).get("_meta")
    return message.get("method") != "initialize" and (
        message.get("method") == "server/discover"
        or (isinstance(meta, dict) and any(key.startswith(PREFIX) for key in meta))
    )


def check_envelope(message: Message) -> None:
    """What every stateless request carries, and at a version that is spoken here."""
    meta = (message.get("params") or {}).get("_meta") or {}
    version = meta.get(PREFIX + "protocolVersion")
    missing = [
        PREFIX + name
        for name, kind in (("protocolVersion", str), ("clientCapabilities", dict))
        if not isinstance(meta.get(PREFIX + name), kind)
    ]
    if missing:
        text = f"Missing or mistyped in _meta: {', '.join(missing)}"
        raise Problem(INVALID_PARAMS, text, status=400)
    if version != STATELESS:
        data = {"supported": [STATELESS, *HANDSHAKE], "requested": version}
        raise Problem(UNSUPPORTED_VERSION, "Unsupported protocol version", data, status=400)


def decode_header(value: str) -> str | None:
    """A header value with its base64 sentinel taken off; None when that cannot be done."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    import base64

    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return None


def check_headers(header: Callable[[str], str | None], message: Message) -> None:
    """The headers of a stateless POST repeat what its body says."""
    params = message.get("params") or {}
    expected = {
        "MCP-Protocol-Version": (params.get("_meta") or {}).get(PREFIX + "protocolVersion"),
        "Mcp-Method": message["method"],
    }
    if message["method"] in _NAMED:
        expected["Mcp-Name"] = params.get(_NAMED[message["method"]])
    for name, value in expected.items():
        given = header(name)
        if given is None:
            raise Problem(HEADER_MISMATCH, f"The {name} header is missing", status=400)
        if value is not None and decode_header(given) != value:
            text = f"The {name} header does not match the body"
            raise Problem(HEADER_MISMATCH, text, status=400)


def failure(message: Any, problem: Problem) -> Message:
    """The error answer to `message`, as far as it has an id."""
    id = message.get("id") if isinstance(message, dict) else None
    return {"jsonrpc": "2.0", "id": id, "error": problem.to_error()}
