"""The handshake era: revisions 2024-11-05 to 2025-11-25, which begin with `initialize`.

Specification: 2025-11-25, basic/lifecycle. Knows the shape of that exchange, not how it is carried out.
"""

from __future__ import annotations

from . import versions
from .era import Era

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .methods import Method


class HandshakeEra(Era):
    """A revision that is agreed on by `initialize`."""

    __slots__ = ()

    name = "handshake"
    handshake = True
    mirrors = False
    answers_requests = True
    cancels_by_closing = False

    def __init__(self, revision: str) -> None:
        super().__init__(revision, batches=versions.has_batches(revision))

    @property
    def declares_completions(self) -> bool:
        """Is completion a capability that servers declare?"""
        return versions.declares_completions(self.revision)

    def check_result(self, method: Method, result: dict[str, Any], accepts: frozenset[str] = frozenset()) -> None:
        """Every result of this era is complete; a `resultType` in it means nothing."""


def initialize_params(revision: str, capabilities: Mapping[str, Any], client_info: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `initialize`."""
    return {
        "protocolVersion": revision,
        "capabilities": dict(capabilities),
        "clientInfo": dict(client_info),
    }


def usable_session_id(value: str | None) -> bool:
    """May this `Mcp-Session-Id` be sent back? 1 to 4096 visible ASCII characters (2025-11-25, Session Management)."""
    return value is not None and 0 < len(value) <= 4096 and all("!" <= character <= "~" for character in value)
