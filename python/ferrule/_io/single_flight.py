"""What both drivers share of single flight: who is inside what, and which outcomes are shared.

Knows no threads and no tasks: `blocking` and `asyncio` wait in their own way.
"""

from __future__ import annotations

from . import INSIDE, Closing, Expired

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    E = TypeVar("E", bound=BaseException)


def refuse_reentry(flight: object) -> None:
    """Raise when waiting for `flight` would be waiting for oneself."""
    if flight in INSIDE.get():
        raise RuntimeError("single flight entered again from inside its own body")


def hands_over(error: BaseException) -> bool:
    """Does this outcome say something about the leader only, so that a follower must try itself?"""
    if not isinstance(error, Exception) or isinstance(error, (Expired, Closing)):
        return True
    from ..errors import RequestTimeout

    return isinstance(error, RequestTimeout)


def twin(error: E) -> E:
    """Return a copy to raise elsewhere: tracebacks, notes and causes of one caller stay its own."""
    from copy import copy

    try:
        other = copy(error)
    except Exception:
        return error
    if type(other) is not type(error):
        return error
    other.__cause__ = error.__cause__
    other.__context__ = error.__context__
    other.__suppress_context__ = error.__suppress_context__
    return other.with_traceback(error.__traceback__)
