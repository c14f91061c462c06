"""Completion of arguments, and progress."""

from __future__ import annotations

from ._base import Value, Wrong, fields, optional, required
from .common import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, Literal


class PromptReference(Value):
    """A prompt whose arguments are to be completed."""

    type: ClassVar[Literal["ref/prompt"]] = "ref/prompt"
    __slots__ = fields(name=required(str), title=optional(str))
    if TYPE_CHECKING:
        name: str
        title: str | None = None


class ResourceTemplateReference(Value):
    """A resource template whose variables are to be completed.

    Attributes:
        uri: The URI template.
    """

    type: ClassVar[Literal["ref/resource"]] = "ref/resource"
    __slots__ = fields(uri=required(str))
    if TYPE_CHECKING:
        uri: str


class Completion(Value):
    """Values that an argument could have.

    Attributes:
        values: At most 100, the best first.
        total: How many there are in all, if the server knows.
        has_more: There are more than `values` shows.
    """

    __slots__ = fields(values=required([str]), total=optional(int), has_more=optional(bool, False))
    if TYPE_CHECKING:
        values: tuple[str, ...]
        total: int | None = None
        has_more: bool = False


class CompleteResult(Result):
    """What `completion/complete` answers."""

    __slots__ = fields(completion=required(Completion))
    if TYPE_CHECKING:
        completion: Completion


def _load_token(token: Any) -> Any:
    if isinstance(token, (str, int)) and not isinstance(token, bool):
        return token
    raise Wrong("expected string or integer")


class Progress(Value):
    """How far a request is: the parameters of `notifications/progress`.

    Attributes:
        progress: So far; it should only grow.
        total: The value at the end, if the server knows.
        message: What it is doing, in the server's words.
        progress_token: The request it is about.
    """

    __slots__ = fields(
        progress=required(float),
        progress_token=required((object, _load_token)),
        total=optional(float),
        message=optional(str),
    )
    if TYPE_CHECKING:
        progress: float
        progress_token: str | int
        total: float | None = None
        message: str | None = None
