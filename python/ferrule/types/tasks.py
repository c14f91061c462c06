"""Tasks: calls that go on at the server after it has answered (revision 2025-11-25, basic/utilities/tasks)."""

from __future__ import annotations

from ._base import Value, fields, hint, optional, required
from .common import ListResult, Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Self

_PLAIN_NAMES = {"ttlMs": "ttl", "pollIntervalMs": "pollInterval"}

FINAL = frozenset({"completed", "failed", "cancelled"})
"""The statuses after which no other comes."""


class TaskInfo(Value):
    """What the server last said about a task.

    Attributes:
        task_id: What to ask for it by. Who knows it may read the result: keep it out of logs.
        status: `working`, `input_required`, `completed`, `failed` or `cancelled`; a server may invent others.
        created_at: When, in ISO 8601.
        last_updated_at: When the status changed last, in ISO 8601.
        status_message: What the server says of the status, for people.
        ttl: Milliseconds from its creation for which the task is kept; None for ever, or if the server does not say.
        poll_interval: Milliseconds between two looks at it, as the server would like it.
        result: What the call gave, as received, where the server tells it with the status (stateless era).
        error: The JSON-RPC error that the call ended with, as received, where it tells that (stateless era).
        input_requests: What the server needs to know to go on, by its keys, as received (stateless era).
    """

    __slots__ = fields(
        task_id=required(str),
        status=required(str),
        created_at=optional(str),
        last_updated_at=optional(str),
        status_message=optional(str),
        ttl=optional(int),
        poll_interval=hint(float, None),
        result=optional(dict),
        error=optional(dict),
        input_requests=optional(dict),
    )
    if TYPE_CHECKING:
        task_id: str
        status: str
        created_at: str | None = None
        last_updated_at: str | None = None
        status_message: str | None = None
        ttl: int | None = None
        poll_interval: float | None = None
        result: dict[str, Any] | None = None
        error: dict[str, Any] | None = None
        input_requests: dict[str, Any] | None = None

    @classmethod
    def from_extension(cls, wire: Any, method: str | None = None) -> Self:
        """As `from_wire`, from a task of the extension `io.modelcontextprotocol/tasks` (stateless era).

        There two fields have other names: `ttlMs` and `pollIntervalMs`.
        """
        if type(wire) is dict:
            wire = {_PLAIN_NAMES.get(name, name): item for name, item in wire.items()}
            wire.pop("resultType", None)
        return cls.from_wire(wire, method)

    @property
    def is_final(self) -> bool:
        """Whether the task is over: `completed`, `failed` or `cancelled`."""
        return self.status in FINAL


class CreateTaskResult(Result):
    """What a call that became a task answers at once."""

    __slots__ = fields(task=required(TaskInfo))
    if TYPE_CHECKING:
        task: TaskInfo

    @property
    def immediate_response(self) -> str | None:
        """What to tell the model meanwhile, if the server says."""
        text = self.meta.get("io.modelcontextprotocol/model-immediate-response")
        return text if isinstance(text, str) else None


class ListTasksResult(ListResult):
    """One page of the tasks of a server."""

    __slots__ = fields(tasks=required([TaskInfo]))
    if TYPE_CHECKING:
        tasks: tuple[TaskInfo, ...]

    @property
    def items(self) -> tuple[TaskInfo, ...]:
        """The tasks of this page."""
        return self.tasks
