"""What the servers of `silence` say, right and wrong, with marked secrets in all of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from tests.support.secrets import MARK, secret
from tests.support.steps import Message

# What a client asks about, and what servers announce.
TASK = secret("task-id")
WATCHED_URI = "demo://" + secret("watched-uri")


def s(place: str) -> dict[str, Any]:
    """Members that any object may have beside its own."""
    return {"_meta": {"deep": secret(f"{place}-meta")}, "vendor": secret(f"{place}-vendor")}


def icons() -> list[Message]:
    return [{"src": "https://h/" + secret("icon"), "mimeType": "image/" + secret("icon-type"), "sizes": ["any"]}]


def blocks() -> list[Message]:
    data = base64.b64encode(secret("blob").encode()).decode()
    inner = {"uri": "demo://" + secret("embedded-uri"), "text": secret("embedded-text"), **s("embedded")}
    notes = {"audience": [secret("audience")], "priority": 1, "lastModified": secret("modified")}
    return [
        {"type": "text", "text": secret("text"), "annotations": notes, **s("text-block")},
        {"type": "image", "data": data, "mimeType": "image/" + secret("image-type"), **s("image")},
        {"type": "audio", "data": data, "mimeType": "audio/" + secret("audio-type"), **s("audio")},
        {"type": "resource_link", "uri": "demo://" + secret("link"), "name": secret("link-name"), **s("link")},
        {"type": "resource", "resource": inner},
        {"type": secret("block-type"), "text": secret("unknown-block")},
    ]


def entry(name: str, **more: Any) -> Message:
    """An item of a list. Names are no secrets: they are what calls are made with."""
    said = {"title": secret("title"), "description": secret("description"), "icons": icons()}
    return {"name": name, **said, **more, **s("item")}


def tool() -> Message:
    inner = {"type": "string", "description": secret("schema"), "x-mcp-header": "Text"}
    schema = {"type": "object", "properties": {secret("property"): inner, "text": inner}}
    # What results break in a place that only their content names.
    broken = {"type": "object", "properties": {"text": True}, "additionalProperties": {"const": secret("const")}}
    more = {"annotations": {"title": secret("tool-title")}, "execution": {"taskSupport": "optional"}}
    return entry("echo", inputSchema=schema, outputSchema=broken, **more)


def refused_tool() -> Message:
    """One that no call may go out for where arguments are repeated in headers."""
    inner = {"type": "string", "x-mcp-header": secret("annotation") + " "}
    return entry("refused", inputSchema={"type": "object", "properties": {secret("annotated"): inner}})


def task(status: str) -> Message:
    """A task, as every answer about tasks tells of it."""
    times = {"createdAt": secret("created"), "lastUpdatedAt": secret("updated-at")}
    return {"taskId": TASK, "status": status, "statusMessage": secret("status"), **times, "ttl": 9, **s("task")}


def good(era: str) -> dict[str, Message]:
    """The result of each method, right and full."""
    lists: dict[str, tuple[Any, ...]] = {
        "tools/list": ("tools", tool(), refused_tool()),
        "resources/list": ("resources", entry("a", uri="demo://" + secret("listed-uri"))),
        "resources/templates/list": ("resourceTemplates", entry("t", uriTemplate="demo://" + secret("template"))),
        "prompts/list": ("prompts", entry("greet", arguments=[entry("who")])),
        "tasks/list": ("tasks", task("working")),
    }
    results: dict[str, Message] = {method: {name: items, **s("list")} for method, (name, *items) in lists.items()}
    structured = {"text": secret("structured"), secret("structured-key"): 1}
    called = {"content": blocks(), "structuredContent": structured, **s("call")}
    # One answer for calls and for calls as tasks.
    advice = {"io.modelcontextprotocol/model-immediate-response": secret("immediate"), "deep": secret("call-meta")}
    results["tools/call"] = {**called, "task": task(secret("task-status")), "_meta": advice}
    over = {"result": called, "error": {"code": 1, "message": secret("failed")}, "inputRequests": {secret("asked"): {}}}
    results["tasks/get"] = {**task("completed"), "pollInterval": 1, "pollIntervalMs": 1, "ttlMs": 9, **over}
    results["tasks/update"] = s("updated")
    results["tasks/result"] = called
    results["tasks/cancel"] = task("cancelled")
    data = base64.b64encode(secret("content-blob").encode()).decode()
    contents = [{"uri": "demo://" + secret("read"), "text": secret("content")}, {"uri": "demo://b", "blob": data}]
    results["resources/read"] = {"contents": contents, **s("read")}
    messages = [{"role": "user", "content": block} for block in blocks()[:5]]
    results["prompts/get"] = {"messages": messages, "description": secret("prompt"), **s("prompt")}
    results["completion/complete"] = {"completion": {"values": [secret("completion")]}, **s("complete")}
    for method in ("ping", "resources/subscribe", "resources/unsubscribe", "logging/setLevel"):
        results[method] = s("empty")
    results["custom/method"] = {"text": secret("custom"), **s("custom")}
    return {name: {"resultType": "complete", **result} for name, result in results.items()}


def capabilities() -> Message:
    lists: dict[str, Any] = {name: {"listChanged": True} for name in ("tools", "prompts")}
    lists["resources"] = {"subscribe": True, "listChanged": True}
    tasks: Message = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    extensions: Message = {"io.modelcontextprotocol/tasks": {}, "com.example/" + secret("extension"): {}}
    served = {**lists, "completions": {}, "logging": {}, "tasks": tasks, "extensions": extensions}
    return {**served, "experimental": {secret("server-capability"): {"text": secret("experimental")}}}


def info() -> Message:
    said = {"title": secret("server-title"), "websiteUrl": secret("website"), "icons": icons()}
    return {"name": secret("server-name"), "version": secret("server-version"), **said}


def discovered(**changes: Any) -> Message:
    meta = {"io.modelcontextprotocol/serverInfo": info(), "deep": secret("discover-meta")}
    said = {"capabilities": capabilities(), "instructions": secret("instructions"), "_meta": meta}
    return {"resultType": "complete", "supportedVersions": ["2026-07-28"], **said, **changes}


def initialized(**changes: Any) -> Message:
    said = {"capabilities": capabilities(), "serverInfo": info(), "instructions": secret("instructions")}
    return {"protocolVersion": "2025-11-25", **said, **s("initialize"), **changes}


def heard(message: Message) -> list[Message]:
    """What comes on the stream of a listen request, its end included."""
    meta = {"io.modelcontextprotocol/subscriptionId": message["id"], "deep": secret("listen-meta")}
    updated = {"uri": WATCHED_URI, "title": secret("heard-title")}
    told = {
        "subscriptions/acknowledged": {"notifications": message["params"]["notifications"], **s("acknowledged")},
        "tools/list_changed": s("heard"),
        "resources/updated": updated,
        "tasks": {**task("failed"), "error": {"code": 1, "message": secret("heard-failure")}},
        "prompts/list_changed": {"_meta": [secret("heard-meta")]},
    }
    notes = [note(method, {"_meta": meta, **params}) for method, params in told.items()]
    wrong = note("resources/updated", {"_meta": meta, "uri": [secret("heard-no-uri")]})
    return [*notes, wrong, {"result": {"resultType": "complete", "_meta": meta, **s("listened")}}]


# --- what is said unasked ------------------------------------------------------------------------


def note(method: str, params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}


def ask(id: Any, method: str, params: Any) -> Message:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def form() -> Message:
    properties: Message = {secret("field"): {"type": "string", "description": secret("field-description")}}
    properties |= {"n": {"type": "integer", "default": 1}, "m": {"default": secret("default")}}
    schema = {"type": "object", "properties": properties, "required": [secret("field")]}
    related = {"io.modelcontextprotocol/related-task": {"taskId": TASK}}
    return {"message": secret("question"), "requestedSchema": schema, "_meta": related}


def url() -> Message:
    asked = {"message": secret("url-question"), "url": "https://h/" + secret("asked-url")}
    return {"mode": "url", "elicitationId": secret("elicitation"), **asked, **s("url")}


def conversation() -> Message:
    use = {"type": "tool_use", "id": secret("tool-use"), "name": secret("tool"), "input": {"a": secret("input")}}
    result = {"type": "tool_result", "toolUseId": secret("tool-use"), "content": blocks()[:1], **s("tool-result")}
    messages = [
        {"role": "user", "content": {"type": "text", "text": secret("sampling")}},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    wishes = {"systemPrompt": secret("system-prompt"), "stopSequences": [secret("stop")], "metadata": s("metadata")}
    return {"messages": messages, "maxTokens": 9, **wishes, **s("sampling")}


def changes() -> list[Message]:
    """What subscriptions hear of."""
    return [
        note("tools/list_changed", s("tools-changed")),
        note("prompts/list_changed", s("prompts-changed")),
        note("resources/list_changed", s("resources-changed")),
        note("resources/updated", {"uri": WATCHED_URI, **s("updated")}),
        note("resources/updated", {"uri": "demo://" + secret("other-uri")}),
        note("resources/updated", {"uri": [secret("no-uri")]}),
        note("tasks/status", task("working")),
        note("tasks/status", {"taskId": TASK, "status": [secret("no-status")]}),
        note("elicitation/complete", {"elicitationId": secret("error-elicitation")}),
        note("elicitation/complete", {"elicitationId": secret("unknown-elicitation")}),
    ]


def questions() -> list[Message]:
    """The server's requests: what handlers answer, what no handler knows, and some that are withdrawn."""
    tools = {"tools": [tool()], "toolChoice": {"mode": secret("tool-choice")}}
    return [
        ask(secret("id-of-ping"), "ping", s("ping")),
        ask(secret("id-of-roots"), "roots/list", s("roots")),
        ask(secret("id-of-form"), "elicitation/create", form()),
        ask(secret("id-of-url"), "elicitation/create", url()),
        ask(secret("id-of-mode"), "elicitation/create", {**form(), "mode": secret("mode")}),
        ask(secret("id-of-no-question"), "elicitation/create", {"message": [secret("no-question")]}),
        ask(secret("id-of-sampling"), "sampling/createMessage", conversation()),
        ask(secret("id-of-tools"), "sampling/createMessage", {**conversation(), **tools}),
        ask(secret("id-of-no-messages"), "sampling/createMessage", {"messages": secret("no-messages")}),
        ask(secret("id-of-nothing"), secret("server-method"), {"x": secret("server-param")}),
        ask([secret("list-id")], "ping", {}),
        ask(secret("id-withdrawn"), "elicitation/create", form()),
        note("cancelled", {"requestId": secret("id-withdrawn"), "reason": secret("reason")}),
        note("cancelled", {"requestId": secret("unknown-id"), "reason": secret("reason")}),
    ]


def in_rounds() -> Iterator[tuple[str, Message]]:
    """What servers of the stateless era answer before they go on: one question at a time, and no question."""
    tools = {"tools": [tool()], "toolChoice": {"mode": secret("tool-choice")}}
    for name, method, params in (
        ("a form", "elicitation/create", form()),
        ("a page", "elicitation/create", url()),
        ("a model", "sampling/createMessage", conversation()),
        ("a model with tools", "sampling/createMessage", {**conversation(), **tools}),
        ("roots", "roots/list", s("roots")),
        ("what nobody knows", secret("server-method"), s("round")),
        ("a mode nobody knows", "elicitation/create", {**form(), "mode": secret("mode")}),
        ("no question", "elicitation/create", {"message": [secret("no-question")]}),
    ):
        asked = {secret("key-of-round"): {"method": method, "params": params}}
        yield f"a round for {name}", {"inputRequests": asked, "requestState": secret("state"), **s("round")}
    yield "a round for nothing", {"requestState": secret("state")}


def unasked() -> list[Message]:
    """What servers send beside answers."""
    logged = {"level": "error", "logger": secret("logger"), "data": {"text": secret("log-data")}}
    return [
        note("message", logged),
        note("message", {"level": secret("level"), "data": secret("log-text")}),
        note("message", secret("log-params")),
        note(secret("notification"), {"x": secret("notified")}),
        note("progress", {"progressToken": secret("token-of-progress")}),
        *changes(),
        *questions(),
        {"jsonrpc": "2.0", "id": secret("foreign-id"), "result": {"text": secret("foreign-result")}},
        {"jsonrpc": "2.0", "id": 987654, "error": {"code": 1, "message": secret("foreign-error")}},
    ]


PROGRESS = (0.5, 2.0, lambda: secret("progress"))


def late_progress(token: Any) -> Message:
    """Progress of a call that comes on another stream, or after its answer."""
    return note("progress", {"progressToken": token, "progress": 1, "message": secret("late-progress")})


# --- answers -------------------------------------------------------------------------------------


def elicitation() -> Message:
    said = {"url": "https://h/" + secret("error-url"), "message": secret("error-question")}
    return {"mode": "url", "elicitationId": secret("error-elicitation"), **said}


def wrong_results() -> Iterator[tuple[str, Any]]:
    """Results nobody should send."""
    names = ["tools", "resources", "resourceTemplates", "prompts", "content", "contents", "messages", "completion"]
    names += ["tasks", "task"]
    yield "text for lists", {name: secret("wrong") for name in names}
    yield "text in lists", {name: [secret("wrong-item")] for name in names}
    fields = ("name", "uri", "uriTemplate", "type", "role", "inputSchema", "content", "text", "taskId", "status")
    yield "objects for fields", {name: [{one: {secret("wrong-key"): 1} for one in fields}] for name in names}
    yield "nulls", dict.fromkeys(names) | s("nulls")
    yield "a shapeless task", {"task": {"taskId": [secret("no-id")]}, "status": {secret("no-status"): 1}}
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
