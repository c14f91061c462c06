"""The server's requests that handlers answer: so many at once, the others in turn; withdrawn ones never answered.

Knows the life of a request from its arrival to its reply. What a handler is asked, and what makes a good answer, is
`asking`'s business.
"""

from __future__ import annotations

from collections import deque
from contextvars import ContextVar

from .. import _log
from .._http.bypass import IN_HANDLER
from ..errors import InvalidResult
from .asking import Refused, answer, understand
from .replies import INTERNAL_ERROR, INVALID_PARAMS, begin_work, error_reply, result_reply

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .._io.interface import IO, Handle
    from .._transports.call import Link
    from ..limits import Limits
    from ..types import Context
    from .handlers import Handlers
    from .replies import Replies
    from .session import Session

RELATED_TASK = "io.modelcontextprotocol/related-task"

CURRENT: ContextVar[Ask | None] = ContextVar("ask", default=None)
"""The request that the code that runs now answers."""

_FAILED = "Internal error"
_BUSY = "Too many requests at once"


class Ask:
    """One request of the server's.

    Attributes:
        context: What its handler is told; `cancelled` in it means that it is not to be answered.
        handle: The work on it.
        begun: Has that work begun?
    """

    __slots__ = ("begun", "context", "handle", "link", "message", "session")

    def __init__(self, message: dict[str, Any], session: Session, link: Link, context: Context) -> None:
        self.message = message
        self.session = session
        self.link = link
        self.context = context
        self.handle: Handle | None = None
        self.begun = False

    @property
    def key(self) -> tuple[Link, object]:
        """What sets it apart: ids are unique within a session only."""
        return self.link, self.message["id"]

    @property
    def params(self) -> dict[str, Any]:
        """Its parameters, empty if there are none."""
        params = self.message.get("params")
        return params if type(params) is dict else {}


class Desk:
    """Where all requests of one server arrive, from all sessions of a client."""

    __slots__ = ("_asks", "_handlers", "_io", "_limits", "_refused", "_replies", "_running", "_waiting")

    def __init__(self, io: IO, limits: Limits, handlers: Handlers, replies: Replies) -> None:
        self._io = io
        self._limits = limits
        self._handlers = handlers
        self._replies = replies
        self._asks: dict[tuple[Link, object], Ask] = {}
        self._waiting: deque[Ask] = deque()
        self._running = 0
        self._refused = 0

    def take(self, message: dict[str, Any], session: Session, link: Link, context: Context) -> None:
        """Have a request answered. Neither raises nor waits."""
        ask = Ask(message, session, link, context)
        context.task_id = related_task(ask.params)
        with self._io.mutex():
            begin = self._running < self._limits.max_handlers
            full = not begin and len(self._waiting) >= self._limits.max_queue
            if begin:
                self._running += 1
            elif not full:
                self._waiting.append(ask)
            if not full:
                self._asks[ask.key] = ask
            self._refused += full
            first = full and self._refused == 1
        if begin:
            self._begin(ask)
        elif full:
            self._refuse(ask, _BUSY)
        if first:
            _log.warning(
                "%s: %d requests of the server's wait for a handler; further ones are refused",
                ask.session.label,
                self._limits.max_queue,
            )

    def _begin(self, ask: Ask | None) -> None:
        while ask is not None:
            # On a loop the work begins after this; among threads the handle is not used.
            ask.handle = begin_work(self._io, self._serve(ask))
            if ask.handle is not None:
                return
            self._refuse(ask, _FAILED)
            ask = self._after(ask)

    def _refuse(self, ask: Ask, text: str) -> None:
        self._replies.post(error_reply(ask.message["id"], INTERNAL_ERROR, text), ask.session, ask.link)

    def _after(self, ask: Ask) -> Ask | None:
        """Whose turn it is when a request is done with."""
        with self._io.mutex():
            if self._asks.get(ask.key) is ask:
                del self._asks[ask.key]
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            refused, self._refused = self._refused, 0
        if refused:
            _log.warning("%s: %d requests of the server's were refused", ask.session.label, refused)
        return None

    async def _serve(self, ask: Ask) -> None:
        ask.begun = True
        try:
            if not ask.context.cancelled:
                await self._answer(ask)
        finally:
            self._begin(self._after(ask))

    async def _answer(self, ask: Ask) -> None:
        IN_HANDLER.set(True)
        CURRENT.set(ask)
        reply = None
        try:
            reply = await self._reply_to(ask)
        finally:
            if reply is None and not ask.context.cancelled:
                # The handler ended the thread or task that it ran in.
                self._refuse(ask, _FAILED)
        if not ask.context.cancelled:
            await self._replies.send(reply, ask.session, ask.link)

    async def _reply_to(self, ask: Ask) -> dict[str, Any]:
        request_id = ask.message["id"]
        try:
            result = await answer(self._io, self._handlers, _understood(self._handlers, ask), ask.context)
        except Refused as refusal:
            return error_reply(request_id, refusal.code, refusal.text)
        except Exception as error:
            _log.warning(
                "%s from %s: the handler raised %s", ask.context.method, ask.session.label, type(error).__name__
            )
            return error_reply(request_id, INTERNAL_ERROR, _FAILED)
        task = related_task(ask.params)
        if task is not None:
            # 2025-11-25, basic/utilities/tasks, Associated Messages
            result["_meta"] = {**(result.get("_meta") or {}), RELATED_TASK: {"taskId": task}}
        return result_reply(request_id, result)

    # Giving up

    def cancel(self, link: Link, request_id: object) -> None:
        """The server withdrew a request (basic/utilities/cancellation); an unknown one is nobody's."""
        if type(request_id) in (int, str):
            with self._io.mutex():
                ask = self._asks.get((link, request_id))
            if ask is not None:
                self._give_up(lambda one: one is ask)

    def drop(self, link: Link) -> None:
        """The session is gone: what was asked in it is not answered."""
        self._give_up(lambda ask: ask.link is link)

    def close(self, session: Session | None = None) -> None:
        """The client, or one view of it, is being closed."""
        self._give_up(lambda ask: session is None or ask.session is session)

    def _give_up(self, wanted: Callable[[Ask], bool]) -> None:
        with self._io.mutex():
            asks = [ask for ask in self._asks.values() if wanted(ask)]
            for ask in asks:
                ask.context.cancelled = True
                del self._asks[ask.key]
            self._waiting = deque(ask for ask in self._waiting if not ask.context.cancelled)
        own = CURRENT.get()
        for ask in asks:
            # What has not begun finds out by itself, and a handler that closes the client must come to its end.
            # A thread cannot be stopped: its answer is dropped.
            if ask.begun and ask is not own and ask.handle is not None and not self._io.blocking:
                ask.handle.cancel()


def _understood(handlers: Handlers, ask: Ask) -> Any:
    """The request as a value; one in no known shape is refused."""
    try:
        return understand(handlers, ask.params, ask.context)
    except InvalidResult:
        raise Refused(INVALID_PARAMS, "Invalid params") from None


def related_task(params: dict[str, Any]) -> str | None:
    """The task that a request says it belongs to."""
    meta = params.get("_meta")
    task = meta.get(RELATED_TASK) if type(meta) is dict else None
    task_id = task.get("taskId") if type(task) is dict else None
    return task_id if type(task_id) is str else None
