"""A page of tools as it is kept: what most programs read of a tool at once, the rest when somebody first looks.

Knows how such a page is written and read. A tool made here is a `Tool` in every way; its schemas, and all else that
could be changed, are decoded anew for it, so that nothing done to it reaches what is kept.
"""

from __future__ import annotations

from .._json import dumps, loads
from .._wire import new_value
from .tools import ListToolsResult, Tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_AT_ONCE = ("name", "title", "description")
_LENGTH = 8


def pack_tools(result: dict[str, Any]) -> bytes:
    """A page that `ListToolsResult.from_wire` has accepted, as bytes.

    Raises:
        TypeError: It holds a number or a text that only the standard library's JSON keeps exactly.
    """
    tools = result["tools"]
    each = [memoryview(dumps(tool, "tools")).tobytes() for tool in tools]
    index = [
        [len(data), *[tool[name] if type(tool.get(name)) is str else None for name in _AT_ONCE]]
        for tool, data in zip(tools, each, strict=True)
    ]
    rest = {key: value for key, value in result.items() if key != "tools"}
    head = dumps([rest, index], "result")
    return b"".join((len(head).to_bytes(_LENGTH, "big"), head, *each))


def unpack_tools(packed: bytes) -> ListToolsResult:
    """The page, made anew.

    Raises:
        ValueError: It is none.
        FerruleError: It is none.
    """
    start = _LENGTH + int.from_bytes(packed[:_LENGTH], "big")
    rest, index = loads(packed[_LENGTH:start])
    page = ListToolsResult.from_wire({**rest, "tools": []}, "tools/list")
    tools: list[Any] = []
    append = tools.append
    for length, name, title, description in index:
        data = packed[start : start + length]
        start += length
        if description is None:
            append(new_value(_Undecoded, "_json", data, "name", name, *(("title", title) if title is not None else ())))
        elif title is None:
            append(new_value(_Undecoded, "_json", data, "name", name, "description", description))
        else:
            append(new_value(_Undecoded, "_json", data, "name", name, "description", description, "title", title))
    if start != len(packed):
        raise ValueError("a kept page is cut")
    page._set("tools", tuple(tools))
    return page


class _Undecoded(Tool, draft=True):
    """A tool of which nothing but these three is known yet; what is not, has an empty slot and comes by here."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in _AT_ONCE:
            return None
        _decode(self)
        return getattr(self, name)

    def _state(self) -> dict[str, Any]:
        _decode(self)
        return Tool._state(self)

    def replace(self, **changes: Any) -> Any:
        _decode(self)
        return Tool.replace(self, **changes)

    def __eq__(self, other: object) -> bool:
        _decode(self)
        if isinstance(other, _Undecoded):
            _decode(other)
        return Tool.__eq__(self, other)

    def __hash__(self) -> int:
        _decode(self)
        return Tool.__hash__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        _decode(self)
        return Tool.__reduce__(self)


_Undecoded.__name__ = _Undecoded.__qualname__ = Tool.__name__
_store = object.__setattr__


def _decode(tool: Tool) -> None:
    """Make it a `Tool` as any other. Threads may come here together: what each of them sets is the same."""
    data: bytes | None = tool._json  # type: ignore[attr-defined]
    if data is None:
        return
    for name, item in Tool.from_wire(loads(data), "tools/list")._state().items():
        _store(tool, name, item)
    _store(tool, "__class__", Tool)
    _store(tool, "_json", None)
