"""Whether the code that runs now is a handler's, whose calls wait for no connection's place.

Handlers run while calls wait for them, and those calls hold places: a call from a handler that waited for a place in
turn could wait for ever.
"""

from __future__ import annotations

from contextvars import ContextVar

IN_HANDLER: ContextVar[bool] = ContextVar("in_handler", default=False)
