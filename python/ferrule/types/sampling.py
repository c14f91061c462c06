"""Sampling: what a server asks a language model, and the model's answer (2025-11-25, client/sampling)."""

from __future__ import annotations

from ._base import Value, Wrong, fields, optional, required
from .content import TextContent, load_block
from .tools import Tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal

    from ._base import Field
    from .content import ContentBlock


class SamplingRejected(Exception):
    """For a sampling handler to raise when the user does not want the request to be answered.

    The server gets the error -1 with a constant text; what is said here is not sent.
    """


class ToolUseContent(Value):
    """The model wants a tool of the request to be called.

    Attributes:
        id: What the result will name.
        name: The tool.
        input: Its arguments.
    """

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    __slots__ = fields(id=required(str), name=required(str), input=required(dict))
    if TYPE_CHECKING:
        id: str
        name: str
        input: dict[str, Any]


class ToolResultContent(Value):
    """What a tool gave.

    Attributes:
        tool_use_id: The `id` of the `ToolUseContent` it belongs to.
        content: The content blocks, in order.
        structured_content: A JSON object, or None.
        is_error: The tool failed.
    """

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    __slots__ = fields(
        tool_use_id=required(str),
        content=required([(dict, load_block)]),
        structured_content=optional(dict),
        is_error=optional(bool, False),
    )
    if TYPE_CHECKING:
        tool_use_id: str
        content: tuple[ContentBlock, ...]
        structured_content: dict[str, Any] | None = None
        is_error: bool = False


def _load_block(wire: Any) -> Any:
    if not isinstance(wire, dict):
        raise Wrong("expected object")
    kind = wire.get("type")
    if kind == "tool_use":
        return ToolUseContent._decode(wire)
    return ToolResultContent._decode(wire) if kind == "tool_result" else load_block(wire)


def _load_content(wire: Any) -> Any:
    """One content block, or several."""
    if not isinstance(wire, list):
        return _load_block(wire)
    blocks: list[Any] = []
    for number, block in enumerate(wire):
        try:
            blocks.append(_load_block(block))
        except Wrong as wrong:
            wrong.under(f"[{number}]")
            raise
    return tuple(blocks)


class _Said(Value):
    """What one side of the conversation said: one content block, or a tuple of them."""

    __slots__ = fields()

    def _give(self, name: str, field: Field, item: Any) -> None:
        super()._give(name, field, tuple(item) if name == "content" and isinstance(item, list) else item)

    @property
    def blocks(self) -> tuple[Any, ...]:
        """`content` as a tuple, also when it is a single block."""
        content: Any = self.content  # type: ignore[attr-defined]
        return content if isinstance(content, tuple) else (content,)

    @property
    def text(self) -> str:
        """The text blocks, joined by newlines."""
        return "\n".join([block.text for block in self.blocks if isinstance(block, TextContent)])


class SamplingMessage(_Said):
    """One message of the conversation.

    Attributes:
        role: Who says it: `user` or `assistant`.
        content: A content block, `ToolUseContent` and `ToolResultContent` among them, or a tuple of them: `blocks` is
            always a tuple.
    """

    __slots__ = fields(role=required(str), content=required((object, _load_content)))
    if TYPE_CHECKING:
        role: str
        content: Any


class SamplingRequest(Value):
    """A request to a language model.

    Attributes:
        messages: The conversation so far.
        max_tokens: The most tokens the answer may have.
        system_prompt: What the server would have the model told first.
        model_preferences: The server's wishes for the model, as received: `hints`, `costPriority`, `speedPriority`,
            `intelligencePriority`.
        include_context: `none`, `thisServer` or `allServers`.
        temperature: How freely to choose.
        stop_sequences: Where to stop.
        metadata: For the model's provider, as received.
        tools: Tools the model may ask for; only when the client said `sampling_tools=True`.
        tool_choice: Whether it must, as received: `{"mode": "auto" | "required" | "none"}`.
    """

    __slots__ = fields(
        messages=required([SamplingMessage]),
        max_tokens=required(int),
        system_prompt=optional(str),
        model_preferences=optional(dict, dict),
        include_context=optional(str, "none"),
        temperature=optional(float),
        stop_sequences=optional([str], ()),
        metadata=optional(dict, dict),
        tools=optional([Tool], ()),
        tool_choice=optional(dict),
    )
    if TYPE_CHECKING:
        messages: tuple[SamplingMessage, ...]
        max_tokens: int
        system_prompt: str | None = None
        model_preferences: dict[str, Any] = {}
        include_context: str = "none"
        temperature: float | None = None
        stop_sequences: tuple[str, ...] = ()
        metadata: dict[str, Any] = {}
        tools: tuple[Tool, ...] = ()
        tool_choice: dict[str, Any] | None = None


class CreateMessageResult(_Said):
    """What the model answered.

    Attributes:
        model: Which model it was.
        content: A content block, or several; `ToolUseContent` to have tools called.
        role: `assistant`, as good as always.
        stop_reason: Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or another; None if unknown.
    """

    __slots__ = fields(
        model=required(str),
        content=required((object, _load_content)),
        role=required(str),
        stop_reason=optional(str),
    )
    if TYPE_CHECKING:
        model: str
        content: Any
        role: str
        stop_reason: str | None = None

    @classmethod
    def of_text(cls, text: str, *, model: str, stop_reason: str | None = "endTurn") -> CreateMessageResult:
        """The answer of an assistant that is plain text."""
        return cls(model, TextContent(text), "assistant", stop_reason)
