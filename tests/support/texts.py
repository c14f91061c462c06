"""What a library says: the texts of an error with its chain, and the lines it logs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator


def texts_of(error: BaseException | None) -> str:
    """`str` and `repr` of an error and of everything that it was raised from or during."""
    said: list[str] = []
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        said += [str(one), repr(one), *getattr(one, "__notes__", ())]
        waiting += [one.__cause__, one.__context__]
    return "\n".join(said)


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname} {self.format(record)}")


@contextlib.contextmanager
def logged() -> Iterator[list[str]]:
    """The lines of the logger "ferrule" at DEBUG, with tracebacks, as "LEVEL text"."""
    logger, handler = logging.getLogger("ferrule"), _Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
