"""How long a stream may be silent: as its own keep-alive comments say, or for ever.

Knows times only.
"""

from __future__ import annotations

_MISSED = 3
"""Intervals without a sign of life after which a stream is taken for dead."""
_ONE_SIGN = 0.01
"""Seconds within which two comments are one sign: they came in one packet."""
_LEAST = 1.0
"""Seconds that any stream may be silent: what keeps a connection alive is sent every few seconds, not more often."""


class Pulse:
    """The signs of life of one stream.

    Attributes:
        due: When the next sign is overdue; never, as long as no interval is known.
    """

    __slots__ = ("_commented", "_interval", "due")

    def __init__(self) -> None:
        self._commented: float | None = None
        self._interval: float | None = None
        self.due = float("inf")

    def comment(self, now: float) -> None:
        """A comment came. Two of them make an interval; of several the longest counts."""
        before = self._commented
        if before is not None and now - before < _ONE_SIGN:
            return
        self._commented = now
        if before is not None:
            self._interval = max(now - before, self._interval or 0.0)
        self.beat(now)

    def beat(self, now: float) -> None:
        """Anything came."""
        if self._interval is not None:
            self.due = now + max(_MISSED * self._interval, _LEAST)
