"""Tools whose arguments go into headers or whose results have a schema, and servers that are strict about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.steps import Message, Step, answer, error

REGION = {"type": "string", "x-mcp-header": "Region"}


def tool(name: str = "echo", properties: Any = None, **more: Any) -> Message:
    """A tool as it is listed; `properties` are those of its arguments."""
    return {"name": name, "inputSchema": {"type": "object", "properties": properties or {}}, **more}


def page(*tools: Message, cursor: str | None = None) -> Message:
    """A page of tools."""
    result: Message = {"tools": list(tools), "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return result if cursor is None else {**result, "nextCursor": cursor}


def listed(*tools: Message, cursor: str | None = None) -> Step:
    """The answer to `tools/list`."""
    return answer(page(*tools, cursor=cursor))


def paged(*pages: Callable[[], list[Message]] | list[Message]) -> Step:
    """Pages by cursor: the first without one, the next at "1", and so on."""

    def step(request: Any) -> Message:
        number = int(request.params.get("cursor", 0))
        items = pages[number]
        cursor = str(number + 1) if number + 1 < len(pages) else None
        return page(*(items() if callable(items) else items), cursor=cursor)

    return answer(step)


def demanding(header: str, then: Any = None) -> Step:
    """Refuses a call that comes without this header; `then` (default: a text block) is the result of the others."""
    refused, accepted = error(-32020, status=400), answer(then)

    def step(turn: Any) -> None:
        (refused if turn.request.header(header) is None else accepted)(turn)

    return step


def param_headers(request: Any) -> dict[str, str]:
    """The `Mcp-Param-*` headers of a request, without that prefix."""
    prefix = "mcp-param-"
    return {name[len(prefix) :]: value for name, value in request.headers if name.lower().startswith(prefix)}
