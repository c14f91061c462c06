"""Pages of tools as they are kept: a tool that nobody has looked into is a tool in every way."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ferrule.types import ListToolsResult, Tool
from ferrule.types._kept_tools import pack_tools, unpack_tools

WIRE: dict[str, Any] = {
    "resultType": "complete",
    "nextCursor": "x",
    "ttlMs": 5,
    "_meta": {"m": 1},
    "odd": [1],
    "tools": [
        {"name": "bare", "inputSchema": {}},
        {"name": "described", "description": "d", "inputSchema": {"type": "object"}},
        {
            "name": "full",
            "title": "T",
            "description": "",
            "inputSchema": {"type": "object", "properties": {"a": {"type": "integer"}}},
            "outputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": True, "x": 1},
            "execution": {"taskSupport": "optional"},
            "icons": [{"src": "data:,"}],
            "_meta": {"a": 1},
            "more": {"b": 2},
        },
        {"name": "nulls", "title": None, "description": None, "inputSchema": {}, "outputSchema": None},
        {"name": "titled", "title": "\u2028 ü", "inputSchema": {}},
    ],
}
PAGE = ListToolsResult.from_wire(WIRE)
EACH = pytest.mark.parametrize("number", range(len(PAGE.tools)), ids=[tool.name for tool in PAGE.tools])


def kept(number: int) -> Tool:
    return unpack_tools(pack_tools(WIRE)).tools[number]


USES: dict[str, Callable[[Tool], Any]] = {
    **{name: (lambda tool, name=name: getattr(tool, name)) for name in Tool._names},  # type: ignore[misc]
    "repr": repr,
    "wire": lambda tool: tool.to_wire(),
    "set": lambda tool: [name for name in Tool._names if tool.is_set(name)],
    "pickled": lambda tool: pickle.loads(pickle.dumps(tool)),
    "copied": copy.copy,
    "deep": copy.deepcopy,
    "replaced": lambda tool: tool.replace(name="other"),
    "matched": lambda tool: _match(tool),
}


def _match(tool: Tool) -> Any:
    match tool:
        case Tool(name, schema, title):
            return name, schema, title
    return None


@EACH
@pytest.mark.parametrize("use", USES)
def test_whatever_is_done_first_it_is_the_same_tool(number: int, use: str) -> None:
    tool = kept(number)
    assert USES[use](tool) == USES[use](PAGE.tools[number])
    assert tool == PAGE.tools[number]
    assert isinstance(tool, Tool)
    assert type(tool).__name__ == "Tool"


@EACH
def test_tools_compare_whether_looked_into_or_not(number: int) -> None:
    assert kept(number) == PAGE.tools[number]
    assert PAGE.tools[number] == kept(number)
    assert kept(number) == kept(number)
    assert kept(number) != kept(number - 1)
    assert kept(number) != 7


def test_the_page_is_the_same_page() -> None:
    assert unpack_tools(pack_tools(WIRE)) == PAGE
    assert unpack_tools(pack_tools({**WIRE, "tools": []})).tools == ()


def test_it_stays_immutable_and_has_no_other_attributes() -> None:
    for _ in range(2):
        tool = kept(2)
        with pytest.raises(AttributeError, match="Tool is immutable"):
            tool.name = "x"  # type: ignore[misc]
        with pytest.raises(AttributeError, match="Tool has no attribute 'nothing'"):
            tool.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_threads_may_look_into_one_together() -> None:
    for _ in range(200):
        tool = kept(2)
        barrier = threading.Barrier(3)
        seen: list[Any] = []

        def look(tool: Tool = tool, barrier: threading.Barrier = barrier, seen: list[Any] = seen) -> None:
            barrier.wait()
            seen.append((tool.input_schema, tool.extra, tool.icons, tool.output_schema))

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        full = PAGE.tools[2]
        assert seen == [(full.input_schema, full.extra, full.icons, full.output_schema)] * 3


@pytest.mark.parametrize(
    "spoil", [lambda data: data[:-1], lambda data: data[:5], lambda data: b"", lambda data: data + b"x"]
)
def test_what_is_cut_is_no_page(spoil: Any) -> None:
    from ferrule.errors import FerruleError

    with pytest.raises((ValueError, FerruleError)):
        unpack_tools(spoil(pack_tools(WIRE)))


@pytest.mark.parametrize("schema", [{"maximum": 10**30}, {"title": "\ud800"}])
def test_what_only_the_standard_library_keeps_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        pack_tools({"tools": [{"name": "a", "inputSchema": schema}]})
