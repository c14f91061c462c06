"""What a subscription yields: changes at the server, by kind.

An event says that something is not as it was, not how it is now: read that when you need it.
"""

from __future__ import annotations

from .._value import Frozen
from ._base import Value, fields, optional, required
from .tasks import TaskInfo

TYPE_CHECKING = False


class Event(Value):
    """The base of all events. What the server sent beside the fields is in `extra` and `meta`."""

    __slots__ = fields()


class ToolsChanged(Event):
    """The list of tools changed: `notifications/tools/list_changed`."""

    __slots__ = fields()


class PromptsChanged(Event):
    """The list of prompts changed: `notifications/prompts/list_changed`."""

    __slots__ = fields()


class ResourcesChanged(Event):
    """The list of resources changed, or that of the templates: `notifications/resources/list_changed`."""

    __slots__ = fields()


class ResourceUpdated(Event):
    """A resource holds something else now: `notifications/resources/updated`.

    Attributes:
        uri: The resource's URI: one that was subscribed to, or one below it.
    """

    __slots__ = fields(uri=required(str))
    if TYPE_CHECKING:
        uri: str


class TaskChanged(Event):
    """A task has another status: `notifications/tasks/status`, or `notifications/tasks` in the stateless era.

    Attributes:
        task: The task as it is now.
    """

    __slots__ = fields(task=required(TaskInfo))
    if TYPE_CHECKING:
        task: TaskInfo


LISTS: dict[str, tuple[str, type[Event]]] = {
    "notifications/tools/list_changed": ("tools", ToolsChanged),
    "notifications/prompts/list_changed": ("prompts", PromptsChanged),
    "notifications/resources/list_changed": ("resources", ResourcesChanged),
}
"""Which notification says that a list changed: the wish it answers, and its event."""
UPDATED = "notifications/resources/updated"


class Missed(Event):
    """There may have been changes that nobody will hear of: read anew what you depend on.

    Attributes:
        count: How many events were dropped because they were not taken fast enough (`Limits.max_queue`). None when
            it cannot be known: the session or the child was lost, and the subscription goes on with a new one.
    """

    __slots__ = fields(count=optional(int))
    if TYPE_CHECKING:
        count: int | None = None


class Honored(Frozen):
    """What of a subscription's wishes the server agreed to.

    Attributes:
        tools: Changes of the list of tools.
        prompts: Changes of the list of prompts.
        resources: Changes of the lists of resources and templates.
        uris: The resources that are watched.
        task_ids: The tasks that are watched.
    """

    __slots__ = ("prompts", "resources", "task_ids", "tools", "uris")

    tools: bool
    prompts: bool
    resources: bool
    uris: tuple[str, ...]
    task_ids: tuple[str, ...]

    def __init__(
        self,
        tools: bool = False,
        prompts: bool = False,
        resources: bool = False,
        uris: tuple[str, ...] = (),
        task_ids: tuple[str, ...] = (),
    ) -> None:
        self._set("tools", tools)
        self._set("prompts", prompts)
        self._set("resources", resources)
        self._set("uris", uris)
        self._set("task_ids", task_ids)

    def __bool__(self) -> bool:
        return self.tools or self.prompts or self.resources or bool(self.uris) or bool(self.task_ids)

    def __repr__(self) -> str:
        flags = ", ".join(f"{name}={getattr(self, name)}" for name in ("tools", "prompts", "resources"))
        return f"Honored({flags}, uris=tuple[{len(self.uris)}], task_ids=tuple[{len(self.task_ids)}])"
