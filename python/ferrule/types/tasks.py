"""Tasks: calls that go on at the server after it has answered (revision 2025-11-25, basic/utilities/tasks)."""

from __future__ import annotations

from ._base import Value, fields, hint, optional, required
from .common import ListResult, Result

TYPE_CHECKING = False

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
    """

    __slots__ = fields(
        task_id=required(str),
        status=required(str),
        created_at=optional(str),
        last_updated_at=optional(str),
        status_message=optional(str),
        ttl=optional(int),
        poll_interval=hint(float, None),
    )
    if TYPE_CHECKING:
        task_id: str
        status: str
        created_at: str | None = None
        last_updated_at: str | None = None
        status_message: str | None = None
        ttl: int | None = None
        poll_interval: float | None = None

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
