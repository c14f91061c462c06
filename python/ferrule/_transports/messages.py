"""What an incoming JSON-RPC message is, and whether it answers a call.

Pure rules over decoded messages; where they came from is the transports' business.
"""

from __future__ import annotations

from .. import _log
from ..errors import InvalidMessage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any, TypeGuard

    from .._io.interface import Slot
    from .call import Call

PROGRESS = "notifications/progress"


def is_answer(message: Any, call_id: int) -> TypeGuard[dict[str, Any]]:
    """Is this decoded JSON the answer to that id, and not a request that happens to carry it?

    Some servers give the integer back as a string.
    """
    if type(message) is not dict or "method" in message:
        return False
    given = message.get("id")
    return given == call_id if type(given) is int else given == str(call_id)


def is_error_without_id(message: Any) -> bool:
    """Is this a JSON-RPC error that names no request?"""
    if type(message) is not dict or message.get("id") is not None:
        return False
    error = message.get("error")
    return type(error) is dict and type(error.get("code")) is int


_SESSION_IS_GONE = (
    r"\b(?:no valid|invalid|missing|unknown|expired|no such)(?: or \w+)? (?:mcp[- ])?session"
    r"|\bsession(?:[- ]id)?(?: header| id)*(?: is| was| has| has been| does)?"
    r" (?:not found|not exist|invalid|missing|required|unknown|expired|terminated)\b"
)


def says_session_is_gone(body: bytes) -> bool:
    """Does the body of a refusal name a missing or invalid session? Many servers say so with 400 where 404 is meant."""
    import re

    return re.search(_SESSION_IS_GONE, body[:1024].decode("latin-1"), re.IGNORECASE) is not None


def progress_token(params: object) -> object:
    """The token of a progress notification's parameters, None when there is none."""
    return params.get("progressToken") if type(params) is dict else None


def post_progress(call: Call, slot: Slot, params: Any, max_queue: int) -> None:
    """Leave a progress notification for the caller's handler; beyond `max_queue` of them it is dropped, and said so."""
    waiting = slot.backlog()
    if waiting < max_queue:
        slot.post(params)
    elif not call.overrun:
        call.overrun = True  # type: ignore[misc]  # it is a `SpecialCall`: nobody else has progress
        _log.warning("%s: the progress handler is %d notifications behind: some are dropped", call.method.name, waiting)


async def wait_for(slot: Slot, call: Call, wait: Callable[[Slot, float], Awaitable[None]]) -> None:
    """Wait until the slot is done, and hand the progress that comes before that to the caller's handler.

    Args:
        slot: What is waited for.
        call: Whose deadline counts, which progress may move.
        wait: How it is waited for: a connection's or the IO's way.

    Raises:
        Expired: At the deadline.
    """
    while True:
        if slot.mail and call.deliver is not None:
            await call.deliver(slot.take_mail())
        elif slot.done:
            return
        else:
            await wait(slot, call.deadline)


def check_answer(message: dict[str, Any], where: str) -> None:
    """Raise InvalidMessage when an answer is neither a result nor an error (JSON-RPC 2.0, Response object).

    Args:
        message: A message whose id is that of a call.
        where: Method and server, for the error's text.
    """
    if "error" in message:
        error = message["error"]
        if type(error) is not dict:
            raise InvalidMessage(f"{where}: the error is not an object")
        if type(error.get("code")) is not int:
            raise InvalidMessage(f"{where}: the error's code is not an integer")
        return
    if "result" not in message:
        raise InvalidMessage(f"{where}: the answer has neither result nor error")
    if type(message["result"]) is not dict:
        raise InvalidMessage(f"{where}: the result is not an object")
