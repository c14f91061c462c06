"""What a client declares of itself: what its handlers can do, and what the user adds.

Specification: 2025-11-25, basic/lifecycle, Capability Negotiation; 2026-07-28, basic/index; in both the pages under
client/. Pure; knows no handler.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def client_capabilities(
    *,
    handshake: bool,
    elicitation: bool,
    sampling: bool,
    sampling_tools: bool,
    roots: bool,
    extras: Mapping[str, Any],
) -> dict[str, Any]:
    """The `ClientCapabilities` of one era.

    Args:
        handshake: For the handshake era, where the client can say that the roots changed?
        elicitation: There is a handler for it. It takes both modes.
        sampling: There is a handler for it.
        sampling_tools: That handler takes requests with tools.
        roots: There are roots to list.
        extras: What the user declares beside. It is added to, and never taken from, what the handlers imply.
    """
    implied: dict[str, dict[str, Any]] = {}
    if elicitation:
        implied["elicitation"] = {"form": {}, "url": {}}
    if sampling:
        implied["sampling"] = {"tools": {}} if sampling_tools else {}
    if roots:
        implied["roots"] = {"listChanged": True} if handshake else {}
    merged = dict(extras)
    for name, capability in implied.items():
        given = merged.get(name)
        merged[name] = {**given, **capability} if isinstance(given, dict) else capability
    return merged
