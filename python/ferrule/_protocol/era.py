"""What the two eras have in common: the questions everything above asks of the one that was chosen.

An era is chosen once per server (at a revision of it) and asked ever after, so that nothing above
compares revisions. Knows no I/O and no connection.
"""

from __future__ import annotations

from . import versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .methods import Method


class Era:
    """One era at one revision.

    Attributes:
        name: "handshake" or "stateless".
        revision: The protocol revision spoken.
        handshake: A session begins with `initialize` and may have an id.
        mirrors: Requests over HTTP repeat method and name in `Mcp-*` headers.
        batches: The peer may send arrays of messages.
        meta: What goes into every request's `params._meta`, serialised, or None.
        answers_requests: The server may send requests, which are answered.
        cancels_by_closing: Over HTTP, closing the response stream is the cancellation.
    """

    __slots__ = ("batches", "meta", "revision")

    name: str
    handshake: bool
    mirrors: bool
    answers_requests: bool
    cancels_by_closing: bool

    @property
    def declares_completions(self) -> bool:
        """Is completion a capability that servers declare?"""
        return True

    def is_among(self, revisions: Iterable[str]) -> bool:
        """Is its revision one of these?"""
        return versions.newest_common(revisions, (self.revision,)) is not None

    def __init__(self, revision: str, *, batches: bool = False, meta: bytes | None = None) -> None:
        self.revision = revision
        self.batches = batches
        self.meta = meta

    def __repr__(self) -> str:
        return f"<Era {self.name} {self.revision}>"

    def check_result(self, method: Method, result: dict[str, Any], accepts: frozenset[str] = frozenset()) -> None:
        """Raise when `result` is not an answer to `method`: complete, or of a `resultType` in `accepts`."""
        raise AssertionError("an era answers this itself")
