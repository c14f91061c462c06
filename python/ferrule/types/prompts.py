"""Prompts, and the messages that one expands to."""

from __future__ import annotations

from ._base import Value, fields, optional, required
from .common import Icon, ListResult, Result
from .content import load_block

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .content import ContentBlock


class PromptArgument(Value):
    """What a prompt can be filled with.

    Attributes:
        required: Whether it has to be given.
    """

    __slots__ = fields(
        name=required(str),
        title=optional(str),
        description=optional(str),
        required=optional(bool, False),
    )
    if TYPE_CHECKING:
        name: str
        title: str | None = None
        description: str | None = None
        required: bool = False


class Prompt(Value):
    """A prompt that a server offers.

    Attributes:
        name: What to ask for it by; `title` is for people.
    """

    __slots__ = fields(
        name=required(str),
        title=optional(str),
        description=optional(str),
        arguments=optional([PromptArgument], ()),
        icons=optional([Icon], ()),
    )
    if TYPE_CHECKING:
        name: str
        title: str | None = None
        description: str | None = None
        arguments: tuple[PromptArgument, ...] = ()
        icons: tuple[Icon, ...] = ()


class ListPromptsResult(ListResult):
    """One page of the prompts of a server."""

    __slots__ = fields(prompts=required([Prompt]))
    if TYPE_CHECKING:
        prompts: tuple[Prompt, ...]

    @property
    def items(self) -> tuple[Prompt, ...]:
        """The prompts of this page."""
        return self.prompts


class PromptMessage(Value):
    """One message of a prompt.

    Attributes:
        role: Who says it: `user` or `assistant`.
    """

    __slots__ = fields(role=required(str), content=required((dict, load_block)))
    if TYPE_CHECKING:
        role: str
        content: ContentBlock


class GetPromptResult(Result):
    """The messages that a prompt expands to."""

    __slots__ = fields(messages=required([PromptMessage]), description=optional(str))
    if TYPE_CHECKING:
        messages: tuple[PromptMessage, ...]
        description: str | None = None
