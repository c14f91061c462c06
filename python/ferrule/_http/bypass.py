"""Whether the code that runs now is a handler's, or sends what a handler may wait for: it waits for no place.

Handlers run while calls wait for them, and those calls hold places: a call from a handler that waited for a place in
turn could wait for ever. So could one that waits for somebody else's request, as single flights have it.
"""

from __future__ import annotations

from contextvars import ContextVar

from .._io import INSIDE

IN_HANDLER: ContextVar[bool] = ContextVar("in_handler", default=False)


def passes_by() -> bool:
    """Is the request that is about to be sent not to wait for one of `Limits.max_connections` places?"""
    return IN_HANDLER.get() or bool(INSIDE.get())
