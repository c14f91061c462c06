"""The protocol revisions and what sets them apart.

The only module, with the two era modules, that may compare revisions. It knows no messages.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

STATELESS = ("2026-07-28",)
"""Revisions that carry everything in each request, newest first (the specification: "modern")."""

HANDSHAKE = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Revisions that begin with `initialize`, newest first (the specification: "legacy")."""

KNOWN = STATELESS + HANDSHAKE

_ANY_HANDSHAKE = ("auto", "handshake")
"""Pins that leave the revision open and allow this era."""

_WITH_BATCHES = frozenset({"2025-03-26"})


def has_batches(revision: str) -> bool:
    """May a peer of this revision put several messages into one JSON array?"""
    return revision in _WITH_BATCHES


def is_stateless(revision: object) -> bool:
    """Is it one of ours that carry everything in each request?"""
    return revision in STATELESS


def is_handshake(revision: object) -> bool:
    """Is it one of ours that begin with `initialize`, and whose requests carry no envelope?"""
    return revision in HANDSHAKE


def shown(revision: str) -> str:
    """The revision for a text, and none of a peer's words where it is none we know."""
    return revision if revision in KNOWN else "of an unknown revision"


def declares_completions(revision: str) -> bool:
    """Does a server of this revision say whether it completes arguments?"""
    return revision != "2024-11-05"


def agreed(revision: object, protocol: str) -> bool:
    """May a session go on at what the server answered to `initialize`, for a client pinned to `protocol`?"""
    return is_handshake(revision) and protocol in (revision, *_ANY_HANDSHAKE)


def may_have_http_sse(protocol: str) -> bool:
    """Can a client pinned to `protocol` be meant for the transport HTTP+SSE, which only the oldest revision has?"""
    return protocol in (HANDSHAKE[-1], *_ANY_HANDSHAKE)


def newest_common(offered: Iterable[str], ours: tuple[str, ...]) -> str | None:
    """The newest of our revisions that the peer offers too, or None.

    Args:
        offered: What the peer named, in any order, known to us or not.
        ours: `STATELESS`, `HANDSHAKE` or `KNOWN`: newest first.
    """
    theirs = set(offered)
    return next((revision for revision in ours if revision in theirs), None)
