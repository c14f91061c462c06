"""The doors to the world: sockets, processes, clocks, threads and tasks.

`blocking` and `asyncio` perform the same operations (the protocols in `interface`); everything below
is written once against them. This module itself knows only what both drivers and their callers share.
"""

from __future__ import annotations

from contextvars import ContextVar

INSIDE: ContextVar[tuple[object, ...]] = ContextVar("inside", default=())
"""The single flights whose bodies the current code runs in, outermost first."""


class Expired(Exception):
    """A deadline passed. Internal: the layer that knows the method turns it into `RequestTimeout`."""


class Unsent(Expired):
    """A write's deadline passed, and of what was to be written no byte was or will be."""


class Closing(Exception):
    """The IO object was closed while something waited on it. Internal, like `Expired`."""


def log_failure(what: str, error: BaseException) -> None:
    """Log that background work failed, by the error's type alone: its text may quote content."""
    import logging

    # The parent package's name, whatever it is called where it was vendored.
    logger = logging.getLogger(__name__.rpartition(".")[0])
    logger.warning("%s failed: %s", what, type(error).__qualname__)
