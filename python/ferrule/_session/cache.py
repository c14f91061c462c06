"""Answers that are kept for as long as the server allows: the store, and the rules of what goes in and comes out.

Specification: 2026-07-28, server/utilities/caching.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    class ResponseCache(Protocol):
        """Where answers are kept."""
