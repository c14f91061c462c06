"""Tools, and what calling one gives."""

from __future__ import annotations

from .._wire import new_value
from ..errors import InvalidResult
from ._base import Value, fields, optional, required
from .common import Icon, ListResult, Result
from .content import TextContent, load_block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

    from .content import ContentBlock


class ToolAnnotations(Value):
    """Hints about a tool. They are the server's words: trust them as far as the server.

    Attributes:
        title: A name for people.
        read_only_hint: The tool changes nothing.
        destructive_hint: It may destroy something; meaningful unless it is read-only.
        idempotent_hint: Calling it again with the same arguments changes nothing further.
        open_world_hint: It deals with the world outside, as a web search does.
    """

    __slots__ = fields(
        title=optional(str),
        read_only_hint=optional(bool, False),
        destructive_hint=optional(bool, True),
        idempotent_hint=optional(bool, False),
        open_world_hint=optional(bool, True),
    )
    if TYPE_CHECKING:
        title: str | None = None
        read_only_hint: bool = False
        destructive_hint: bool = True
        idempotent_hint: bool = False
        open_world_hint: bool = True


class ToolExecution(Value):
    """How a tool may be run.

    Attributes:
        task_support: Whether it can be called as a task: `forbidden`, `optional` or `required`.
    """

    __slots__ = fields(task_support=optional(str, "forbidden"))
    if TYPE_CHECKING:
        task_support: str = "forbidden"


class _Whole(Value, draft=True):
    """Room for what a tool was read from: only `_kept_tools` puts something there, and it is no field."""

    __slots__ = ("_json",)


class Tool(_Whole):
    """A tool that a server offers.

    Attributes:
        name: What to call it by; `title` is for people.
        input_schema: The JSON Schema of its arguments, exactly as received.
        output_schema: The JSON Schema of `structured_content`, exactly as received.
    """

    __slots__ = fields(
        name=required(str),
        input_schema=required(dict),
        title=optional(str),
        description=optional(str),
        output_schema=optional(dict),
        annotations=optional(ToolAnnotations),
        execution=optional(ToolExecution),
        icons=optional([Icon], ()),
    )
    if TYPE_CHECKING:
        name: str
        input_schema: dict[str, Any]
        title: str | None = None
        description: str | None = None
        output_schema: dict[str, Any] | None = None
        annotations: ToolAnnotations | None = None
        execution: ToolExecution | None = None
        icons: tuple[Icon, ...] = ()

    def to_openai(self, *, responses: bool = False) -> dict[str, Any]:
        """The tool for OpenAI's Chat Completions, and for the many APIs like it.

        Its name is made valid; see `tools_for` for several tools at once, whose names have to differ, and for the way
        back from the name that a model calls.

        Args:
            responses: For the Responses API instead.
        """
        from ._exports import define

        return define("openai", self, responses=responses)

    def to_anthropic(self) -> dict[str, Any]:
        """The tool for Anthropic's Messages API; see `to_openai`."""
        from ._exports import define

        return define("anthropic", self)

    def to_gemini(self) -> dict[str, Any]:
        """The tool as a function declaration of the Gemini API; see `to_openai`."""
        from ._exports import define

        return define("gemini", self)


class ListToolsResult(ListResult):
    """One page of the tools of a server."""

    __slots__ = fields(tools=required([Tool]))
    if TYPE_CHECKING:
        tools: tuple[Tool, ...]

    @property
    def items(self) -> tuple[Tool, ...]:
        """The tools of this page."""
        return self.tools


class CallToolResult(Result):
    """What a tool gave.

    Attributes:
        content: The content blocks, in order.
        structured_content: A JSON value that conforms to the tool's output schema. None when there
            is none; `is_set("structured_content")` tells that from null.
        is_error: The tool itself failed and `content` says why.
    """

    __slots__ = fields(
        content=optional([(dict, load_block)], ()),
        structured_content=optional(object),
        is_error=optional(bool, False),
    )
    if TYPE_CHECKING:
        content: tuple[ContentBlock, ...] = ()
        structured_content: Any = None
        is_error: bool = False

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join([block.text for block in self.content if isinstance(block, TextContent)])

    @classmethod
    def from_wire(cls, wire: Any, method: str | None = "tools/call", *, structured_object: bool = False) -> Self:
        """Read what a server sent.

        Args:
            wire: The JSON object, as parsed. Parts of it become parts of the value.
            method: The method it answers, for the error.
            structured_object: Structured content has to be an object, as in the handshake era.

        Raises:
            InvalidResult: It has the wrong shape; the text names method and path.
        """
        plain = plain_result(wire) if wire.__class__ is dict else None
        if plain is not None:
            return plain  # type: ignore[return-value]
        value = super().from_wire(wire, method)
        problem = None
        if wire.get("content") is None and "structuredContent" not in wire:
            problem = "content: expected array"
        elif structured_object and not isinstance(wire.get("structuredContent"), (dict, type(None))):
            problem = "structuredContent: expected object"
        if problem is not None:
            raise InvalidResult(method or cls.__name__, problem)
        return value


def plain_result(wire: dict[str, Any]) -> CallToolResult | None:
    """A result of plain text blocks, read without the table; None for whatever is unusual.

    Nearly every tool call pays for this one, with caches that went cold while it waited for the server: the table costs
    it three times as much (benches/calls.py, the sync rows).
    """
    content = wire.get("content")
    if content.__class__ is not list:
        return None
    texts = []
    for block in content:
        text = block.get("text") if block.__class__ is dict and len(block) == 2 else None
        if text.__class__ is not str or block.get("type") != "text":
            return None
        texts.append(new_value(TextContent, "text", text))
    blocks = tuple(texts)
    # What servers send most, in either era.
    kind, failed = wire.get("resultType"), wire.get("isError")
    if failed.__class__ is bool:
        if len(wire) == 2:
            return new_value(CallToolResult, "content", blocks, "is_error", failed)  # type: ignore[no-any-return]
        if len(wire) == 3 and kind == "complete":
            return new_value(CallToolResult, "content", blocks, "is_error", failed, "result_type", kind)  # type: ignore[no-any-return]
    rest = _plain_rest(wire)
    return None if rest is None else new_value(CallToolResult, "content", blocks, *rest)


def _plain_rest(wire: dict[str, Any]) -> list[Any] | None:
    """Names and items of what there is beside the content; None when something is unusual."""
    rest: list[Any] = []
    for key, item in wire.items():
        if key == "resultType" and item == "complete":
            rest += ("result_type", item)
        elif key == "isError" and item.__class__ is bool:
            rest += ("is_error", item)
        elif key == "structuredContent" and item.__class__ is dict:
            rest += ("structured_content", item)
        elif key == "_meta" and item.__class__ is dict:
            rest += ("meta", item)
        elif key != "content":
            return None
    return rest
