"""One HTTP request and all of its response, seen from who asked.

A connection tells its exchange what arrives; what that means is the subclass's business.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._core import ResponseHead
    from .._io.interface import Slot
    from ..errors import FerruleError


class Exchange:
    """What a connection calls as a response arrives. None of the methods may raise or wait.

    The order is `on_head` (before it `on_notable`, of some heads), then any of `on_body`, `on_event` and
    `on_comment`, then exactly one of `on_end` and `on_failed`, which may also come first. After
    `Connection.leave` nothing is called any more.

    Attributes:
        slot: What the caller waits on. Once it is done the caller needs nothing more of the
            response.
        sent: May the server have seen the request? Set before the first write.
        quiet: Is it content to find the head in its attribute `head`, and to hear of no end once its slot is done?
            Then neither costs a call (benches/calls.py).
    """

    __slots__ = ("sent", "slot")

    slot: Slot
    sent: bool
    quiet = False

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.sent = False

    def on_head(self, head: ResponseHead) -> None:
        """Take note of the status and headers."""

    def on_notable(self, head: ResponseHead) -> None:
        """Take note that the head is `notable`, as it is right after this."""

    def on_body(self, data: bytes, flags: int) -> None:
        """Take the whole body of a response that is no event stream."""

    def on_event(self, data: bytes, flags: int, id: str | None, retry: int | None) -> None:
        """Take one server-sent event of type "message", or only its id or retry (data is b"")."""

    def on_typed_event(self, data: bytes, flags: int, id: str | None, retry: int | None, type: str) -> None:
        """Take an event of another type. It is no message, but its id and retry count."""
        if id is not None or retry is not None:
            self.on_event(b"", 0, id, retry)

    def on_comment(self) -> None:
        """Take note of a sign of life."""

    def on_end(self) -> None:
        """Take note that the response is complete; the connection serves others already."""

    def on_failed(self, error: FerruleError) -> None:
        """Take note that the response will not be completed."""


class _Nobody(Exchange):
    """Stands where an exchange has left, or has not come yet: what arrives is dropped."""

    __slots__ = ()

    def __init__(self) -> None:
        """Have no slot: nobody waits."""
        self.sent = False


NOBODY = _Nobody()
