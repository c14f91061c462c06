"""What a server says unasked: log messages, and every other notification."""

from __future__ import annotations

from .._text import escape_peer_text
from ._base import Value, fields, optional, required

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LEVELS = {
    "debug": 10,
    "info": 20,
    "notice": 20,
    "warning": 30,
    "error": 40,
    "critical": 50,
    "alert": 50,
    "emergency": 50,
}


class LogMessage(Value):
    """A log message of the server's (server/utilities/logging).

    Attributes:
        level: `debug`, `info`, `notice`, `warning`, `error`, `critical`, `alert` or `emergency`.
        data: What it says: any JSON value, exactly as received. Before it is shown or logged, control characters in it
            need escaping: `text` is safe.
        logger: Which part of the server says so, if it tells.
    """

    __slots__ = fields(level=required(str), data=required(object), logger=optional(str))
    if TYPE_CHECKING:
        level: str
        data: Any
        logger: str | None = None

    @property
    def text(self) -> str:
        """`data` in one line that is safe to show or log: control characters escaped, at most 1 KiB."""
        if isinstance(self.data, str):
            return escape_peer_text(self.data)
        import json

        return escape_peer_text(json.dumps(self.data, ensure_ascii=False))

    @property
    def severity(self) -> int:
        """`level` on the scale of Python's `logging`; that of a warning when it is unknown."""
        return _LEVELS.get(self.level, 30)


class Notification(Value):
    """A notification of the server's.

    Attributes:
        method: Such as `notifications/tools/list_changed`.
        params: Its parameters as received; empty if there were none.
    """

    __slots__ = fields(method=required(str), params=optional(dict, dict))
    if TYPE_CHECKING:
        method: str
        params: dict[str, Any] = {}
