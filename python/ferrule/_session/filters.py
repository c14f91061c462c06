"""What a `subscriptions/listen` request asks for, what its acknowledgment grants, and which event a notification is.

Specification: 2026-07-28, basic/patterns/subscriptions, Notification Filter. Pure rules; no request and no stream.
"""

from __future__ import annotations

from .._transports.listens import SUBSCRIPTION_ID
from ..errors import InvalidResult
from ..types.events import LISTS, UPDATED, Honored, ResourceUpdated, TaskChanged
from ..types.tasks import TaskInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..types.events import Event
    from .special import Special
    from .subscriptions import Wanted

_TASK = "notifications/tasks"


def filter_for(wanted: Wanted) -> dict[str, Any]:
    """The notification filter that asks for this (Notification Filter; extensions/tasks, Task Status Notifications)."""
    named = {
        "toolsListChanged": wanted.tools,
        "promptsListChanged": wanted.prompts,
        "resourcesListChanged": wanted.resources,
        "resourceSubscriptions": list(wanted.uris),
        "taskIds": list(wanted.task_ids),
    }
    return {name: value for name, value in named.items() if value}


def declaring(wanted: Wanted) -> Special | None:
    """The extension of tasks is declared only where tasks are asked for."""
    if not wanted.task_ids:
        return None
    from .extensions import TASKS
    from .special import Special

    return Special(declares={TASKS: {}})


def honored(granted: Any, wanted: Wanted) -> Honored:
    """What the server agreed to, of what was asked for."""
    if type(granted) is not dict:
        raise InvalidResult("subscriptions/listen", "notifications: expected object")
    return Honored(
        tools=wanted.tools and granted.get("toolsListChanged") is True,
        prompts=wanted.prompts and granted.get("promptsListChanged") is True,
        resources=wanted.resources and granted.get("resourcesListChanged") is True,
        uris=_both(wanted.uris, granted.get("resourceSubscriptions")),
        task_ids=_both(wanted.task_ids, granted.get("taskIds")),
    )


def _both(wanted: tuple[str, ...], granted: Any) -> tuple[str, ...]:
    if type(granted) is not list:
        return ()
    named = {one for one in granted if type(one) is str}
    return tuple(one for one in wanted if one in named)


def _untagged(params: dict[str, Any]) -> dict[str, Any]:
    """Without the id, which means nothing to a caller: an event is the same in both eras."""
    meta = params.get("_meta")
    if type(meta) is not dict:
        return params
    rest = {key: value for key, value in meta.items() if key != SUBSCRIPTION_ID}
    if rest:
        return {**params, "_meta": rest}
    return {key: value for key, value in params.items() if key != "_meta"}


def event_of(method: str, params: dict[str, Any], wanted: Wanted) -> Event | None:
    """The event that a notification is, None for one that was not asked for. Raises InvalidResult."""
    params = _untagged(params)
    if method in LISTS:
        member, kind = LISTS[method]
        return kind.from_wire(params) if getattr(wanted, member) else None
    if method == UPDATED and wanted.uris:
        return ResourceUpdated.from_wire(params)
    if method == _TASK and wanted.task_ids:
        return TaskChanged(task=TaskInfo.from_extension(params))
    return None
