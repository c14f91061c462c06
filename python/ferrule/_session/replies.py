"""Answers to the server's requests on their way: a few at a time, and none makes a reader wait.

Knows how answers look and travel; not what they say.
"""

from __future__ import annotations

from collections import deque

from .. import _log
from .._io import Closing, Expired
from .._transports.call import LinkLost
from ..errors import ConnectError, ConnectionClosed, FerruleError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from .._io.interface import IO, Handle
    from .._transports.call import Link
    from ..limits import Limits
    from .session import Session

METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_MOST = 4096
"""Answers that wait to be sent. What comes in one read is fewer."""
_CARRIERS = 8
"""Answers under way at once that no handler gave: a burst of pings takes no more threads or connections."""


def result_reply(request_id: object, result: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request."""
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_reply(request_id: object, code: int, text: str) -> dict[str, Any]:
    """A refusal. The text is a constant: what went wrong here is not the server's to know."""
    return {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}


class Replies:
    """The answers of one client to one server, all its sessions together."""

    __slots__ = ("_busy", "_io", "_limits", "_lost", "_waiting")

    def __init__(self, io: IO, limits: Limits) -> None:
        self._io = io
        self._limits = limits
        self._waiting: deque[tuple[dict[str, Any], Session, Link]] = deque()
        self._busy = 0
        self._lost = 0

    def post(self, reply: dict[str, Any], session: Session, link: Link) -> None:
        """Have an answer sent. Neither raises nor waits."""
        with self._io.mutex():
            lost = len(self._waiting) >= _MOST
            if lost:
                self._lost += 1
            else:
                self._waiting.append((reply, session, link))
            begin = not lost and self._busy < _CARRIERS
            self._busy += begin
            first = lost and self._lost == 1
        if first:
            _log.warning("%s: %d answers wait to be sent; further ones are lost", session.label, _MOST)
        if begin and begin_work(self._io, self._carry()) is None:
            with self._io.mutex():
                self._busy -= 1

    async def _carry(self) -> None:
        try:
            while (item := self._next()) is not None:
                await self.send(*item)
        finally:
            with self._io.mutex():
                self._busy -= 1

    def _next(self) -> tuple[dict[str, Any], Session, Link] | None:
        with self._io.mutex():
            if self._waiting:
                return self._waiting.popleft()
            lost, self._lost = self._lost, 0
        if lost:
            _log.warning("%d answers to the server's requests were lost", lost)
        return None

    async def send(self, reply: dict[str, Any], session: Session, link: Link) -> None:
        """Send an answer now. One that may not have arrived is sent once more: to answer twice does no harm."""
        deadline = self._io.now() + self._limits.reply_timeout
        for last in (False, True):
            try:
                return await session.transport.reply(reply, link, deadline)
            except (ConnectError, ConnectionClosed) as error:
                if not last and not session.peer.closed and session.transport.http:
                    continue
                failure: Exception = error
            except (FerruleError, Expired, Closing, LinkLost) as error:
                failure = error
            _log.debug("a reply could not be sent: %s", type(failure).__name__)
            return None
        return None

    def clear(self) -> None:
        """Forget what was not sent yet: the client is being closed."""
        with self._io.mutex():
            self._waiting.clear()


def begin_work(io: IO, coroutine: Coroutine[Any, Any, Any]) -> Handle | None:
    """Begin background work on behalf of a reader, which must not fail for lack of a thread."""
    try:
        return io.background(coroutine)
    except Exception as error:
        _log.warning("background work could not be begun: %s", type(error).__name__)
        return None
