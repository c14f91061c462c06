"""The library's logger, imported when there is first something to say (logging costs 5 ms of start-up).

Texts describe messages by method, id, size, position and timing; never by content, header, token or session id.
"""

from __future__ import annotations

_NAME = __name__.rpartition(".")[0]


def debug(text: str, *args: object) -> None:
    """Log what only matters to somebody looking for a fault."""
    import logging

    logging.getLogger(_NAME).debug(text, *args)


def warning(text: str, *args: object) -> None:
    """Log what the user may want to act on."""
    import logging

    logging.getLogger(_NAME).warning(text, *args)
