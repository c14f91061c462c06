"""Stores for response caches, and servers that give hints."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.support.steps import TOOL, Message, Request, Step, answer, ordinary_results

HOUR = 3_600_000

WAYS: dict[str, tuple[str, Callable[..., Any]]] = {
    # every question whose answer may be kept: its method, and how a client asks it
    "discover": ("server/discover", lambda client, **options: client.discover(**options)),
    "tools": ("tools/list", lambda client, **options: client.list_tools(**options)),
    "tools page": ("tools/list", lambda client, **options: client.list_tools_page(**options)),
    "tools iterator": ("tools/list", lambda client, **options: list(client.iter_tools(**options))),
    "prompts": ("prompts/list", lambda client, **options: client.list_prompts(**options)),
    "resources": ("resources/list", lambda client, **options: client.list_resources(**options)),
    "templates": ("resources/templates/list", lambda client, **options: client.list_resource_templates(**options)),
    "read": ("resources/read", lambda client, **options: client.read_resource("demo://a", **options)),
}


def hinted(ttl: Any = HOUR, scope: Any = "public", **methods: Any) -> dict[str, Step]:
    """Rules of a server whose answers may be kept for an hour."""
    from tests.support.steps import discovered

    hints = {name: value for name, value in (("ttlMs", ttl), ("cacheScope", scope)) if value is not ...}
    results = {"server/discover": discovered(), **ordinary_results()}
    return {method: answer(with_hints(result, hints)) for method, result in results.items() if method in CACHEABLE}


CACHEABLE = {method for method, _ in WAYS.values()}


def with_hints(result: Any, hints: Message) -> Callable[[Request], Message]:
    def give(request: Request) -> Message:
        given = dict(result(request) if callable(result) else result)
        given.pop("ttlMs", None)
        given.pop("cacheScope", None)
        return {**given, **hints}

    return give


def tools(*names: str, ttl: Any = HOUR, scope: str = "public", cursor: str | None = None) -> Message:
    """A page of tools."""
    page = {"resultType": "complete", "tools": [{**TOOL, "name": name} for name in names]}
    page |= {"ttlMs": ttl, "cacheScope": scope}
    return page if cursor is None else {**page, "nextCursor": cursor}


class Table:
    """The simplest store there can be: it never forgets by itself, and writes down what it was told."""

    def __init__(self) -> None:
        self.entries: dict[bytes, bytes] = {}
        self.seconds: dict[bytes, float] = {}
        self.deleted: list[bytes] = []

    def get(self, keys: Sequence[bytes], /) -> list[bytes | None]:
        return [self.entries.get(key) for key in keys]

    def put(self, key: bytes, value: bytes, seconds: float, /) -> None:
        self.entries[key] = value
        self.seconds[key] = seconds

    def delete(self, keys: Sequence[bytes], /) -> None:
        self.deleted += keys
        for key in keys:
            self.entries.pop(key, None)

    def answers(self, kind: bytes = b"a") -> list[bytes]:
        """The values of answers that are kept."""
        return [value for key, value in self.entries.items() if key.startswith(kind)]


class AsyncTable(Table):
    """The same for an asyncio client."""

    async def get(self, keys: Sequence[bytes], /) -> list[bytes | None]:  # type: ignore[override]
        return Table.get(self, keys)

    async def put(self, key: bytes, value: bytes, seconds: float, /) -> None:  # type: ignore[override]
        Table.put(self, key, value, seconds)

    async def delete(self, keys: Sequence[bytes], /) -> None:  # type: ignore[override]
        Table.delete(self, keys)


class Broken(Table):
    """A store that is out of reach for some of what it is asked."""

    def __init__(self, *methods: str) -> None:
        super().__init__()
        self.broken = set(methods)

    def _fail(self, method: str) -> None:
        if method in self.broken:
            raise OSError("no route to the store of hunter2")

    def get(self, keys: Sequence[bytes], /) -> list[bytes | None]:
        self._fail("get")
        return super().get(keys)

    def put(self, key: bytes, value: bytes, seconds: float, /) -> None:
        self._fail("put")
        super().put(key, value, seconds)

    def delete(self, keys: Sequence[bytes], /) -> None:
        self._fail("delete")
        super().delete(keys)


class Counting:
    """A `request_meta` that says how often it was asked, where no answer depends on it, or where answers do."""

    def __init__(self, key: str = "traceparent") -> None:
        self.key = key
        self.count = 0

    def __call__(self) -> Message:
        self.count += 1
        return {self.key: str(self.count)}

    def sent(self, requests: list[Request]) -> list[tuple[str, int]]:
        """Method and value of each request that carried one."""
        return [(one.method, int(one.meta[self.key])) for one in requests if self.key in one.meta]


def as_text(value: object) -> str:
    return json.dumps(value, sort_keys=True)
