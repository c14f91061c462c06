"""What sets one operation's requests apart from plain ones, handed down the call path as a value.

Knows what it carries, nothing of where it comes from or how it goes out.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .._transports.call import Link


class Evaluation:
    """One evaluation of the user's `request_meta`, for one request (seed of C8 to C10).

    Whoever weighs something by it (a cache) hands it on with the request that follows, which spends it: what was
    weighed is what is sent. Every other request evaluates afresh.
    """

    __slots__ = ("_meta",)

    def __init__(self, meta: dict[str, Any]) -> None:
        self._meta: dict[str, Any] | None = meta

    def spend(self) -> dict[str, Any] | None:
        """The members of `_meta`, the first time; None ever after."""
        meta, self._meta = self._meta, None
        return meta


class Special:
    """What one operation's requests carry that others do not.

    Attributes:
        headers: Headers for these requests alone (`Mcp-Param-*`), values as they go out; None for none.
        declares: Extensions that only these requests declare: identifier to settings.
        accepts: The values of `resultType` that are an answer to these requests, besides "complete".
        evaluation: What `request_meta` gave for this operation, spent by its first request.
    """

    __slots__ = ("accepts", "declares", "evaluation", "headers")

    def __init__(
        self,
        *,
        headers: list[tuple[str, str]] | None = None,
        declares: Mapping[str, Any] | None = None,
        accepts: frozenset[str] = frozenset(),
        evaluation: Evaluation | None = None,
    ) -> None:
        self.headers = headers
        self.declares = declares
        self.accepts = accepts
        self.evaluation = evaluation

    def note(self, meta: Mapping[str, Any], link: Link) -> None:
        """Take note of an attempt that is about to be made: the members of `_meta` that it carries, and its link."""

    def moved(self) -> None:
        """The same attempt goes out for another caller or to another place than was noted: see `Call.special`."""
