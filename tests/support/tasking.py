"""Servers that make tasks of calls: of the handshake era, and of the stateless one by the extension."""

from __future__ import annotations

from typing import Any

from ferrule import Limits
from tests.support.pushes import Pushes, opening
from tests.support.steps import Step, answer, discovered, text, turns

FAST = Limits(min_poll_interval=0.01)


def state(status: str = "working", **more: Any) -> dict[str, Any]:
    """A task as the server tells of it."""
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:01Z"}
    return {"taskId": "t-1", "status": status, **times, "ttl": 60000, "pollInterval": 20, **more}


def states(*each: Any) -> Step | turns:
    return turns(*[answer(one if isinstance(one, dict) else state(one)) for one in each])


def tasking(serve: Any, **rules: Any) -> Any:
    """A server that makes a task of each call, and ends it at the second look."""
    ordinary = {
        "initialize": opening(),
        "GET": Pushes(),
        "tools/call": answer({"task": state()}),
        "tasks/get": states("working", "completed"),
        "tasks/result": answer(text("done")),
        "tasks/cancel": answer(state("cancelled")),
    }
    return serve({**ordinary, **rules}, era="handshake")


def tool(support: str | None, name: str = "echo") -> dict[str, Any]:
    described: dict[str, Any] = {"name": name, "inputSchema": {"type": "object"}}
    return described if support is None else {**described, "execution": {"taskSupport": support}}


# --- the stateless era ---------------------------------------------------------------------------

EXTENSION = "io.modelcontextprotocol/tasks"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


def detail(status: str = "working", **more: Any) -> dict[str, Any]:
    """A task as the extension's `tasks/get` tells of it."""
    times = {"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:01Z"}
    shape = {"resultType": "complete", "taskId": "t-1", "status": status, **times, "ttlMs": 60000, "pollIntervalMs": 20}
    return {**shape, **more}


def made(**more: Any) -> dict[str, Any]:
    """The answer to a call that became a task."""
    return {**detail(), "resultType": "task", **more}


def details(*each: Any) -> Step | turns:
    return turns(*[answer(one if isinstance(one, dict) else detail(one)) for one in each])


DONE = detail("completed", result=text("done"))


def extended(serve: Any, **rules: Any) -> Any:
    """A server with the extension that makes a task of each call, and ends it at the second look."""
    ordinary = {
        "server/discover": answer(discovered(capabilities={"tools": {}, "extensions": {EXTENSION: {}}})),
        "tools/call": answer(made()),
        "tasks/get": details("working", DONE),
        "tasks/update": answer({"resultType": "complete"}),
        "tasks/cancel": answer({"resultType": "complete"}),
    }
    return serve({**ordinary, **rules})


def declares_tasks(request: Any) -> bool:
    """Does this request declare the extension?"""
    return EXTENSION in request.meta[CAPABILITIES].get("extensions", {})
