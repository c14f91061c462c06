"""The wire of tasks in the stateless era, where they are an extension: the server decides which call becomes one.

Specification: extensions/tasks. Knows the extension's requests and what they say; how a task is followed to its end is
`tasks`' business. The extension is declared by these requests and no others.
"""

from __future__ import annotations

from .._json import dumps
from .._protocol import methods
from .._protocol.rpc_errors import rpc_error
from ..errors import CapabilityError, FerruleError, InputRequired, InvalidResult, TaskCancelled
from ..types.tasks import TaskInfo
from .arguments import is_text
from .extensions import TASKS
from .resuming import answers
from .rounds import Clock, responses_to
from .special import Special

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._io.interface import Slot
    from .session import Session

CREATED = "task"
"""The `resultType` of an answer that made a task of its call."""


DECLARED: dict[str, Any] = {TASKS: {}}
"""What requests of the extension declare, and no others."""


class Answered:
    """A call that was answered at once: a task that is over, unknown to the server. See `task_wire.Source`."""

    __slots__ = ("_result",)

    method = "tools/call"

    def __init__(self, result: dict[str, Any]) -> None:
        self._result = result

    async def get(self, task_id: str, deadline: float) -> TaskInfo:
        """There is nobody to ask."""
        return answered()

    async def payload(self, info: TaskInfo, deadline: float) -> dict[str, Any]:
        """The answer."""
        return self._result

    async def answer(self, info: TaskInfo, deadline: float) -> float | None:
        """It asks for nothing."""
        return None

    async def update(self, task_id: str, responses: Mapping[str, Any], deadline: float) -> None:
        """Nor does it want anything."""

    async def cancel(self, task_id: str, deadline: float) -> TaskInfo | None:
        """It is over."""
        return None

    async def wait(self, slot: Slot, deadline: float) -> None:
        """Nothing comes any more."""

    def ends(self, info: TaskInfo) -> float:
        """It has ended."""
        return float("inf")


def answered() -> TaskInfo:
    """The state of such a task. It has no id."""
    return TaskInfo(task_id="", status="completed")


class ExtensionTask:
    """One task of a server of the stateless era. See `task_wire.Source`."""

    __slots__ = ("_answered", "_session", "_since")

    method = "tasks/get"

    def __init__(self, session: Session, is_new: bool) -> None:
        self._session = session
        self._since = session.io.now() if is_new else None
        # An input key is answered once in a task's life, however often the server names it.
        self._answered: set[str] = set()

    async def get(self, task_id: str, deadline: float) -> TaskInfo:
        """How the task is; with its result, its error or its questions."""
        result = await self._ask(methods.TASKS_GET, task_id, {}, deadline)
        info = TaskInfo.from_extension(result, "tasks/get")
        if info.task_id != task_id:
            raise InvalidResult("tasks/get", "taskId: it is another task")
        return info

    async def payload(self, info: TaskInfo, deadline: float) -> dict[str, Any]:
        """What a task ended with.

        Raises:
            RPCError: The call failed.
            TaskCancelled: It was given up.
            InvalidResult: The server does not say what it ended with.
        """
        if info.status == "cancelled":
            raise TaskCancelled(f"a task at {self._session.label}: it was cancelled", request_sent=True)
        if info.status == "completed":
            if info.result is None:
                raise InvalidResult("tasks/get", "result: expected object")
            return info.result
        error = info.error or {}
        code, message = error.get("code"), error.get("message")
        if type(code) is not int:
            raise InvalidResult("tasks/get", "error.code: expected integer")
        raise rpc_error(
            code=code,
            message=message if isinstance(message, str) else "",
            data=error.get("data"),
            method="tools/call",
            server=self._session.label,
        )

    async def answer(self, info: TaskInfo, deadline: float) -> float:
        """Answer what the task asks and was not answered yet. Gives the deadline, which stood still meanwhile.

        Raises:
            InputRequired: No handler answers it.
        """
        asked = {key: wire for key, wire in (info.input_requests or {}).items() if key not in self._answered}
        if not asked:
            return deadline
        session = self._session
        clock = Clock(session.io, deadline, session.settings.limits.max_handler_time, None)
        needed = InputRequired("", requests=asked, state=None)
        responses = await responses_to(session, methods.TASKS_UPDATE, needed, None, clock, info.task_id)
        await self.update(info.task_id, responses, clock.deadline)
        return clock.deadline

    async def update(self, task_id: str, responses: Mapping[str, Any], deadline: float) -> None:
        """Give the task answers (Task Update Requests)."""
        given = answers(responses, "responses")
        self._answered.update(given)
        try:
            await self._ask(methods.TASKS_UPDATE, task_id, {"inputResponses": given}, deadline)
        except FerruleError as error:
            if not error.request_sent:
                self._answered.difference_update(given)
            raise

    async def cancel(self, task_id: str, deadline: float) -> TaskInfo | None:
        """Have the server give it up: it says that it heard that, not what comes of it (Task Cancellation)."""
        await self._ask(methods.TASKS_CANCEL, task_id, {}, deadline)
        return None

    async def wait(self, slot: Slot, deadline: float) -> None:
        """Nothing comes by itself: who wants that subscribes."""
        await self._session.io.wait(slot, deadline)

    def ends(self, info: TaskInfo) -> float:
        """When the server may forget the task, if that is known."""
        if self._since is None or info.ttl is None:
            return float("inf")
        return self._since + info.ttl / 1000

    async def _ask(
        self, method: methods.Method, task_id: str, params: dict[str, Any], deadline: float
    ) -> dict[str, Any]:
        special = Special(declares=DECLARED)
        return await self._session.perform(
            method, dumps({"taskId": task_id, **params}, "params"), deadline, task_id, special=special
        )


def created(result: dict[str, Any]) -> TaskInfo:
    """The state of a task that was made by a call."""
    info = TaskInfo.from_extension(result, "tools/call")
    if not info.task_id or not is_text(info.task_id):
        raise InvalidResult("tools/call", "taskId: expected a text that is not empty and holds no lone surrogate")
    return info


async def require(session: Session, deadline: float, what: str) -> None:
    """Raise CapabilityError where the server is known not to have the extension."""
    link = await session.link_by(deadline, what)
    if link.capabilities is None:
        return
    extensions = link.capabilities.get("extensions")
    if type(extensions) is not dict or TASKS not in extensions:
        raise CapabilityError(f"{what}: {session.label} did not declare the extension {TASKS}; nothing was sent")
