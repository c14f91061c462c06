"""Tasks: tool calls that go on after their answer, looked at until they end.

Specification: 2025-11-25, basic/utilities/tasks. Knows how one task is followed, whatever the wire: those of
the two eras are in `handshake_tasks` and `extension_tasks`.
"""

from __future__ import annotations

from .. import _log
from .._io import Closing, Expired
from .._json import dumps
from .._protocol.declared import require
from ..errors import (
    CapabilityError,
    ConfigError,
    ConnectionClosed,
    FerruleError,
    RequestTimeout,
    ToolError,
)
from ..types.tasks import CreateTaskResult, TaskInfo
from .arguments import check_text, hoist_meta, progress_for
from .definitions import PLAIN, definition_of
from .handshake_tasks import Tasks
from .output_schemas import check_output, refuse_unchecked
from .results import called_tool
from .settings import UNSET
from .standing import standing_of
from .task_wire import Mail, TaskProgress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..types import CallToolResult, Resume
    from .arguments import OnProgress, Timeout
    from .definitions import Definition
    from .session import Session
    from .task_wire import Source


class TaskCore:
    """One task, as its caller follows it.

    Attributes:
        id: Its id at the server.
        info: What the server said of it last.
        created: The answer to the call that became this task; None for one that was looked up.
        name: The tool's name; None for a task that was looked up.
        definition: What its call went out under.
    """

    __slots__ = ("_mail", "_progress", "_session", "_source", "created", "definition", "id", "info", "name")

    def __init__(
        self,
        session: Session,
        source: Source,
        info: TaskInfo,
        mail: Mail,
        name: str | None = None,
        created: CreateTaskResult | None = None,
        progress: TaskProgress | None = None,
        definition: Definition = PLAIN,
    ) -> None:
        self._session = session
        self._source = source
        self._mail = mail
        self._progress = progress
        self.id = info.task_id
        self.info = info
        self.name = name
        self.created = created
        self.definition = definition

    async def poll(self, timeout: Timeout = UNSET) -> TaskInfo:
        """Ask once."""
        deadline = self._session.enter_until(timeout)
        await self._look(deadline)
        await self._read_mail(deadline)
        return self.info

    async def cancel(self, timeout: Timeout = UNSET) -> TaskInfo:
        """Have the server give it up."""
        info = await self._source.cancel(self.id, self._session.enter_until(timeout))
        if info is not None:
            self._learn(info)
        return self.info

    async def update(self, responses: Mapping[str, Any], timeout: Timeout = UNSET) -> None:
        """Answer by hand what it asks."""
        await self._source.update(self.id, responses, self._session.enter_until(timeout))

    async def result(self, timeout: Timeout, raise_on_error: bool) -> CallToolResult:
        """Wait for its end and fetch what the tool gave."""
        return await self.result_by(self._session.enter_until(timeout), raise_on_error)

    async def result_by(self, deadline: float, raise_on_error: bool) -> CallToolResult:
        """As `result`, by a deadline that progress may move."""
        try:
            deadline = await self._until_over(deadline)
            wire = await self._source.payload(self.info, deadline)
        except Expired:
            raise RequestTimeout(
                f"{self._where()}: not over within the timeout; it goes on at the server", request_sent=True
            ) from None
        except Closing:
            raise ConnectionClosed(f"{self._where()}: the client was closed", request_sent=True) from None
        await self._read_mail(deadline)
        self._progress = None  # not called after the task has ended (T6)
        called = called_tool(self._session, wire, self._source.method)
        check_output(self._session, self.definition, called)
        if raise_on_error and getattr(called, "is_error", False):
            raise ToolError(called, name=self.name or "a task", server=self._session.label)
        return called

    async def _until_over(self, deadline: float) -> float:
        """Look at it until its result can be had; the deadline then."""
        while not self.info.is_final:
            if self.info.status == "input_required":
                moved = await self._source.answer(self.info, deadline)
                if moved is None:
                    break
                deadline = moved
            news, deadline = await self._pause(deadline)
            if not news:
                await self._look(deadline)
            if not self.info.is_final and self._session.io.now() > self._source.ends(self.info):
                text = f"{self._where()}: not over when its ttl had passed; the server may forget it at any time"
                raise RequestTimeout(text, request_sent=True)
        return deadline

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
    wishes = (on_progress, False, timeout, None)
    task, _ = await _create(session, name, arguments, ttl, deadline, wishes, meta, False)
    return task


async def call_as_task(
    session: Session,
    name: str,
    arguments: Mapping[str, Any] | None,
    deadline: float,
    progress: tuple[OnProgress | None, bool, Timeout, float | None],
    meta: Mapping[str, Any] | None,
    idempotent: bool,
    raise_on_error: bool,
    resume: Resume | None = None,
) -> CallToolResult:
    """Call a tool as a task, and wait for its end (Tool-Level Negotiation)."""
    max_total = progress[3]
    if max_total is not None:
        deadline = min(deadline, session.deadline(max_total))
    task, deadline = await _create(session, name, arguments, None, deadline, progress, meta, idempotent, resume)
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
    resume: Resume | None = None,
) -> tuple[TaskCore, float]:
    """The task that a call became, and the deadline then."""
    check_text(name, "name")
    given, meta = hoist_meta(arguments, meta)
    definition = definition_of(session, name)
    refuse_unchecked(session, definition)
    link = await session.link_by(deadline, "tools/call as a task")
    if not link.era.handshake:
        return await _create_by_extension(session, name, given, deadline, wishes, meta, idempotent, resume, definition)
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
    return TaskCore(session, tasks, created.task, mail, name, created, progress, definition), deadline


async def _create_by_extension(
    session: Session,
    name: str,
    arguments: Mapping[str, Any],
    deadline: float,
    wishes: tuple[OnProgress | None, bool, Timeout, float | None],
    meta: Mapping[str, Any] | None,
    idempotent: bool,
    resume: Resume | None,
    definition: Definition,
) -> tuple[TaskCore, float]:
    from .calling import ToolCall
    from .extension_tasks import CREATED, DECLARED, Answered, ExtensionTask, answered, created

    handler, reset, timeout, max_total = wishes
    progress = None
    if handler is not None or reset:
        progress = progress_for(session, handler, reset, timeout, max_total)
    params = dumps({"name": name, "arguments": arguments}, "params")
    # Who gives up on it before it was answered cancels a request; from then on only `tasks/cancel` cancels it.
    call = ToolCall(
        session,
        name,
        params,
        deadline,
        meta,
        progress,
        idempotent,
        definition,
        declares=DECLARED,
        accepts=frozenset({CREATED}),
    )
    result = await call.result(resume)
    mail = Mail(session.io, session.settings.limits.max_queue)
    if result.get("resultType") != CREATED:
        source: Source = Answered(result)
        info = answered()
    else:
        source = ExtensionTask(session, is_new=True)
        info = created(result)
    reached = progress.reached if progress is not None else 0.0
    return TaskCore(session, source, info, mail, name, definition=call.definition), max(call.deadline, reached)


async def get_task(session: Session, task_id: str, timeout: Timeout) -> TaskCore:
    """A task by its id, wherever it was begun."""
    deadline = session.enter_until(timeout)
    check_text(task_id, "task_id")
    mail = Mail(session.io, session.settings.limits.max_queue)
    link = await session.link_by(deadline, "tasks/get")
    if not link.era.handshake:
        from .extension_tasks import ExtensionTask, require

        await require(session, deadline, "tasks/get")
        task = ExtensionTask(session, is_new=False)
        return TaskCore(session, task, await task.get(task_id, deadline), mail)
    tasks = await _tasks_of(session, deadline, "tasks/get")
    tasks.follow(task_id, mail)
    return TaskCore(session, tasks, await tasks.get(task_id, deadline), mail)


async def _tasks_of(session: Session, deadline: float, what: str) -> Tasks:
    link = await session.link_by(deadline, what)
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


def task_support(session: Session, name: str) -> str | None:
    """What a list said of running this tool as a task (handshake era); None for nothing."""
    known = standing_of(session).definitions
    definition = known.known.get(name) if known is not None else None
    return definition.task_support if definition is not None else None


def _check_support(session: Session, name: str) -> None:
    """A tool that is known to be no task is not called as one; one that was never listed may be."""
    if task_support(session, name) == "forbidden":
        raise CapabilityError(
            f"tools/call as a task: {session.label} says that this tool cannot be called as a task; nothing was sent"
        )
