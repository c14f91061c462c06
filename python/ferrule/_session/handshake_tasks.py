"""The wire of tasks in the handshake era, where the caller decides which call becomes one.

Specification: 2025-11-25, basic/utilities/tasks. Knows its requests and notifications; how a task is followed to its
end is `tasks`' business.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from .. import _log
from .._json import dumps
from .._protocol import methods
from .._protocol.declared import require
from .._transports.call import LinkLost
from ..errors import CapabilityError, InvalidResult
from ..types.tasks import CreateTaskResult, TaskInfo
from .arguments import is_text
from .changes import TASK_STATUS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._io.interface import Slot
    from .session import Session
    from .standing import Standing
    from .task_wire import Mail, TaskProgress


class Tasks:
    """The tasks of one session of the handshake era. See `task_wire.Source`."""

    __slots__ = ("_followed", "_standing")

    method = "tasks/result"

    def __init__(self, standing: Standing) -> None:
        self._standing = standing
        # Weakly: a task that its caller forgot is nobody's business.
        self._followed: WeakValueDictionary[str, Mail] = WeakValueDictionary()

    @property
    def _session(self) -> Session:
        return self._standing.session

    def follow(self, task_id: str, mail: Mail) -> None:
        """Collect what is said of this task."""
        with self._session.io.mutex():
            self._followed[task_id] = mail

    def heard(self, method: str, params: dict[str, Any] | None) -> None:
        """Give a status to the task it is about. Neither raises nor waits."""
        if method != TASK_STATUS or params is None:
            return
        task_id = params.get("taskId")
        with self._session.io.mutex():
            mail = self._followed.get(task_id) if type(task_id) is str else None
        if mail is None:
            return
        try:
            mail.post(TaskInfo.from_wire(params))
        except InvalidResult:
            _log.warning("%s from %s: not in the schema's shape, dropped", TASK_STATUS, self._session.label)

    async def create(
        self,
        params: dict[str, Any],
        ttl: int | None,
        deadline: float,
        meta: Mapping[str, Any] | None,
        progress: TaskProgress | None,
        idempotent: bool,
    ) -> CreateTaskResult:
        """Call a tool as a task. Never repeated, like any call, unless its caller says that it may be."""
        params = {**params, "task": {} if ttl is None else {"ttl": ttl}}
        result = await self._session.perform(
            methods.TOOLS_CALL_AS_TASK,
            dumps(params, "params"),
            deadline,
            params["name"],
            meta,
            progress,
            idempotent,
        )
        created = CreateTaskResult.from_wire(result, method="tools/call")
        if not is_text(created.task.task_id):
            raise InvalidResult("tools/call", "task.taskId: holds a lone surrogate")
        return created

    async def get(self, task_id: str, deadline: float) -> TaskInfo:
        """How the task is."""
        result = await self._session.perform(methods.TASKS_GET, _params(task_id), deadline, task_id)
        return TaskInfo.from_wire(result, method="tasks/get")

    async def payload(self, info: TaskInfo, deadline: float) -> dict[str, Any]:
        """What the call gave; the server answers when the task is over, and asks meanwhile what it needs to know."""
        return await self._session.perform(methods.TASKS_RESULT, _params(info.task_id), deadline)

    async def answer(self, info: TaskInfo, deadline: float) -> float | None:
        """The server asks by requests of its own."""
        return None

    async def update(self, task_id: str, responses: Mapping[str, Any], deadline: float) -> None:
        """See `answer`."""
        raise CapabilityError(
            f"tasks/update: {self._session.label} speaks the handshake era, in which servers ask by requests of their"
            " own; nothing was sent"
        )

    def ends(self, info: TaskInfo) -> float:
        """The server says so when it is asked."""
        return float("inf")

    async def cancel(self, task_id: str, deadline: float) -> TaskInfo:
        """Have the server give it up."""
        session = self._session
        link = await session.link_by(deadline, "tasks/cancel")
        require(link.capabilities, "tasks.cancel", "tasks/cancel", session.label)
        result = await session.perform(methods.TASKS_CANCEL, _params(task_id), deadline, task_id)
        return TaskInfo.from_wire(result, method="tasks/cancel")

    async def wait(self, slot: Slot, deadline: float) -> None:
        """Wait for mail. A lost link ends the wait: the next look opens another."""
        session = self._session
        link = session.link
        if link is None:
            return
        try:
            await session.transport.wait(slot, link, deadline)
        except LinkLost:
            session.drop(link)


def _params(task_id: str) -> bytes:
    return dumps({"taskId": task_id}, "params")
