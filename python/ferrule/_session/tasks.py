"""Tasks: tool calls that go on after their answer, looked at until they end.

Specification: 2025-11-25, basic/utilities/tasks. `TaskCore` is one task, whatever the wire; `Tasks` is the wire of
the handshake era.
"""

from __future__ import annotations

from weakref import WeakValueDictionary

from .. import _log
from .._io import Closing, Expired
from .._json import dumps
from .._protocol import methods
from .._protocol.declared import require
from .._transports.call import LinkLost
from ..errors import (
    CapabilityError,
    ConfigError,
    ConnectionClosed,
    FerruleError,
    InvalidResult,
    RequestTimeout,
    ToolError,
)
from ..types.tasks import CreateTaskResult, TaskInfo
from ..types.tools import CallToolResult
from .arguments import check_text, hoist_meta, is_text, progress_for
from .changes import TASK_STATUS
from .progress import Progress
from .settings import UNSET
from .standing import standing_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any, Protocol

    from .._io.interface import IO, Slot
    from .._transports.call import Call, SpecialCall
    from .arguments import OnProgress, Timeout
    from .session import Session
    from .standing import Standing

    class Source(Protocol):
        """The wire of one era's tasks."""

        async def get(self, task_id: str, deadline: float, /) -> TaskInfo: ...
        async def payload(self, task_id: str, deadline: float, /) -> dict[str, Any]: ...
        async def cancel(self, task_id: str, deadline: float, /) -> TaskInfo: ...
        async def wait(self, slot: Slot, deadline: float, /) -> None: ...


class Mail:
    """What arrives for one task while nobody asks: progress of its call as it came, and `TaskInfo`s."""

    __slots__ = ("__weakref__", "_most", "slot")

    def __init__(self, io: IO, most: int) -> None:
        self.slot: Slot = io.slot()
        self._most = most

    def post(self, info: TaskInfo) -> None:
        """Leave a status; beyond `Limits.max_queue` it is dropped, as the next look brings a newer one."""
        if self.slot.backlog() < self._most:
            self.slot.post(info)


class TaskProgress(Progress):
    """Progress that goes on after the call it belongs to (Task Progress Notifications)."""

    __slots__ = ("call", "deliver")

    call: SpecialCall
    """Known to the session's inbound side for as long as this is held."""
    deliver: Callable[[list[Any]], Awaitable[None]]

    def for_call(self, call: Call, io: IO) -> Callable[[list[Any]], Awaitable[None]]:
        """As for any call."""
        self.call = call  # type: ignore[assignment]
        self.deliver = super().for_call(call, io)
        return self.deliver


class Tasks:
    """The tasks of one session of the handshake era. See `Source`."""

    __slots__ = ("_followed", "_standing")

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

    async def payload(self, task_id: str, deadline: float) -> dict[str, Any]:
        """What the call gave; the server answers when the task is over, and asks meanwhile what it needs to know."""
        return await self._session.perform(methods.TASKS_RESULT, _params(task_id), deadline)

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


class TaskCore:
    """One task, as its caller follows it.

    Attributes:
        id: Its id at the server.
        info: What the server said of it last.
        created: The answer to the call that became this task; None for one that was looked up.
        name: The tool's name; None for a task that was looked up.
    """

    __slots__ = ("_mail", "_progress", "_session", "_source", "created", "id", "info", "name")

    def __init__(
        self,
        session: Session,
        source: Source,
        info: TaskInfo,
        mail: Mail,
        name: str | None = None,
        created: CreateTaskResult | None = None,
        progress: TaskProgress | None = None,
    ) -> None:
        self._session = session
        self._source = source
        self._mail = mail
        self._progress = progress
        self.id = info.task_id
        self.info = info
        self.name = name
        self.created = created

    async def poll(self, timeout: Timeout = UNSET) -> TaskInfo:
        """Ask once."""
        deadline = self._session.enter_until(timeout)
        await self._look(deadline)
        await self._read_mail(deadline)
        return self.info

    async def cancel(self, timeout: Timeout = UNSET) -> TaskInfo:
        """Have the server give it up."""
        self._learn(await self._source.cancel(self.id, self._session.enter_until(timeout)))
        return self.info

    async def result(self, timeout: Timeout, raise_on_error: bool) -> CallToolResult:
        """Wait for its end and fetch what the tool gave."""
        return await self.result_by(self._session.enter_until(timeout), raise_on_error)

    async def result_by(self, deadline: float, raise_on_error: bool) -> CallToolResult:
        """As `result`, by a deadline that progress may move."""
        try:
            while not self.info.is_final and self.info.status != "input_required":
                news, deadline = await self._pause(deadline)
                if not news:
                    await self._look(deadline)
            wire = await self._source.payload(self.id, deadline)
        except Expired:
            raise RequestTimeout(
                f"{self._where()}: not over within the timeout; it goes on at the server", request_sent=True
            ) from None
        except Closing:
            raise ConnectionClosed(f"{self._where()}: the client was closed", request_sent=True) from None
        await self._read_mail(deadline)
        self._progress = None  # not called after the task has ended (T6)
        called = CallToolResult.from_wire(wire, "tasks/result", structured_object=self._session.handshake)
        if raise_on_error and called.is_error:
            raise ToolError(called, name=self.name or "a task", server=self._session.label)
        return called

    def _where(self) -> str:
        return f"a task at {self._session.label}"

    async def _look(self, deadline: float) -> None:
        self._learn(await self._source.get(self.id, deadline))

    def _learn(self, info: TaskInfo) -> None:
        """Take what the server says, unless a later word was heard: what is over does not begin again."""
        if not self.info.is_final or info.is_final:
            self.info = info

    async def _pause(self, deadline: float) -> tuple[bool, float]:
        """Wait for the time of the next look. True when a notification made it unnecessary; and the deadline now."""
        io = self._session.io
        until = io.now() + self._interval()
        while True:
            news, deadline = await self._read_mail(deadline)
            if news:
                return True, deadline
            now = io.now()
            if now >= deadline:
                raise Expired
            if now >= until:
                return False, deadline
            try:
                await self._source.wait(self._mail.slot, min(until, deadline))
            except Expired:
                continue
            if not self._mail.slot.mail:
                # The link is lost: look at once, unless looking does no good either.
                return False, deadline

    def _interval(self) -> float:
        limits = self._session.settings.limits
        named = self.info.poll_interval
        seconds = limits.poll_interval if named is None else named / 1000
        return float(min(max(seconds, limits.min_poll_interval), limits.max_poll_interval))

    async def _read_mail(self, deadline: float) -> tuple[bool, float]:
        """Hand progress to the caller, take note of the status. True if there was one; and the deadline now."""
        slot = self._mail.slot
        if not slot.mail:
            return False, deadline
        news = False
        steps = []
        for item in slot.take_mail():
            if isinstance(item, TaskInfo):
                self._learn(item)
                news = True
            else:
                steps.append(item)
        progress = self._progress
        if steps and progress is not None:
            await progress.deliver(steps)
            if progress.extend is not None:
                deadline = min(progress.latest, max(deadline, self._session.io.now() + progress.extend))
        return news, deadline


# What callers begin with


async def call_tool_task(
    session: Session,
    name: str,
    arguments: Mapping[str, Any] | None,
    ttl: int | None,
    timeout: Timeout,
    on_progress: OnProgress | None,
    meta: Mapping[str, Any] | None,
) -> TaskCore:
    """Call a tool as a task: see `Client.call_tool_task`."""
    deadline = session.enter_until(timeout)
    if ttl is not None and (type(ttl) is not int or ttl <= 0):
        raise ConfigError("ttl: expected a positive whole number of milliseconds, or None")
    return await _create(session, name, arguments, ttl, deadline, (on_progress, False, timeout, None), meta, False)


async def call_as_task(
    session: Session,
    name: str,
    arguments: Mapping[str, Any] | None,
    deadline: float,
    progress: tuple[OnProgress | None, bool, Timeout, float | None],
    meta: Mapping[str, Any] | None,
    idempotent: bool,
    raise_on_error: bool,
) -> CallToolResult:
    """Call a tool that can be called in no other way, and wait for its end (Tool-Level Negotiation)."""
    max_total = progress[3]
    if max_total is not None:
        deadline = min(deadline, session.deadline(max_total))
    task = await _create(session, name, arguments, None, deadline, progress, meta, idempotent)
    try:
        return await task.result_by(deadline, raise_on_error)
    except BaseException as error:
        if not task.info.is_final and not isinstance(error, ToolError):
            # Nobody else knows of it.
            session.io.background(_give_up(task))
        raise


async def _give_up(task: TaskCore) -> None:
    try:
        await task.cancel(task._session.settings.limits.cancel_timeout)
    except FerruleError as error:
        _log.debug("a task could not be cancelled: %s", type(error).__name__)


async def _create(
    session: Session,
    name: str,
    arguments: Mapping[str, Any] | None,
    ttl: int | None,
    deadline: float,
    wishes: tuple[OnProgress | None, bool, Timeout, float | None],
    meta: Mapping[str, Any] | None,
    idempotent: bool,
) -> TaskCore:
    check_text(name, "name")
    given, meta = hoist_meta(arguments, meta)
    handler, reset, timeout, max_total = wishes
    tasks = await _tasks_of(session, deadline, "tools/call as a task")
    _check_support(session, name)
    mail = Mail(session.io, session.settings.limits.max_queue)
    progress: TaskProgress | None = None
    if handler is not None or reset:
        progress = progress_for(session, handler, reset, timeout, max_total, TaskProgress)  # type: ignore[assignment]
        assert progress is not None
        await session.listen(deadline)
    params = {"name": name, "arguments": given}
    created = await tasks.create(params, ttl, deadline, meta, progress, idempotent)
    tasks.follow(created.task.task_id, mail)
    if progress is not None:
        progress.call.slot = mail.slot
    return TaskCore(session, tasks, created.task, mail, name, created, progress)


async def get_task(session: Session, task_id: str, timeout: Timeout) -> TaskCore:
    """A task by its id, wherever it was begun."""
    deadline = session.enter_until(timeout)
    check_text(task_id, "task_id")
    tasks = await _tasks_of(session, deadline, "tasks/get")
    mail = Mail(session.io, session.settings.limits.max_queue)
    tasks.follow(task_id, mail)
    return TaskCore(session, tasks, await tasks.get(task_id, deadline), mail)


async def _tasks_of(session: Session, deadline: float, what: str) -> Tasks:
    link = await session.link_by(deadline, what)
    if not link.era.handshake:
        raise CapabilityError(
            f"{what}: at revision {link.era.revision}, which {session.label} speaks, tasks are an extension that this"
            " version of the client does not know; nothing was sent"
        )
    require(link.capabilities, "tasks", what, session.label)
    standing = standing_of(session)
    with session.io.mutex():
        begun = standing.tasks is None
        if begun:
            standing.tasks = Tasks(standing)
    if begun:
        standing.attend()
    assert standing.tasks is not None
    return standing.tasks


def _check_support(session: Session, name: str) -> None:
    """A tool that is known to be no task is not called as one; one that was never listed may be."""
    known = standing_of(session).definitions
    definition = known.known.get(name) if known is not None else None
    if definition is not None and definition.task_support == "forbidden":
        raise CapabilityError(
            f"tools/call as a task: {session.label} says that this tool cannot be called as a task; nothing was sent"
        )
