"""A value on its way to one waiting task: the event loop's counterpart of the slot in `wakers`.

Knows one future at a time. Deadlines are kept by the IO object.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import asyncio
    from typing import Any


class Slot:
    """One value for one waiting task, with mail before it. See `interface.Slot`."""

    __slots__ = ("_items", "done", "error", "future", "mail", "value")

    def __init__(self) -> None:
        self.done = False
        self.mail = False
        self.future: asyncio.Future[type[Exception] | None] | None = None
        """Whom to wake; its result is None, or what the wait ends with."""
        self.value: Any = None
        self.error: BaseException | None = None
        self._items: list[Any] | None = None

    def set(self, value: Any, /) -> None:
        """Give the value; the first of `set` and `fail` wins."""
        if not self.done:
            self.done = True
            self.value = value
            future = self.future
            if future is not None and not future.done():
                future.set_result(None)

    def fail(self, error: BaseException, /) -> None:
        """Give the error; the first of `set` and `fail` wins."""
        if not self.done:
            self.done = True
            self.error = error
            future = self.future
            if future is not None and not future.done():
                future.set_result(None)

    def post(self, item: Any, /) -> None:
        """Leave mail; dropped once `done`."""
        if not self.done:
            if self._items is None:
                self._items = []
            self._items.append(item)
            self.mail = True
            future = self.future
            if future is not None and not future.done():
                future.set_result(None)

    def backlog(self) -> int:
        """See `interface.Slot.backlog`."""
        return len(self._items) if self._items is not None else 0

    def take_mail(self) -> list[Any]:
        """Return what was posted since the last call, in order."""
        self.mail = False
        items, self._items = self._items or [], None
        return items

    def result(self) -> Any:
        """Return the value or raise the error; only once `done`."""
        if self.error is not None:
            raise self.error
        return self.value
