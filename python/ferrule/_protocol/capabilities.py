"""What a client declares of itself: what its handlers can do, and what the user adds.

Specification: 2025-11-25, basic/lifecycle, Capability Negotiation, and the pages under client/. Pure; knows no handler.
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
        handshake: For the handshake era? In the stateless era a server asks by `input_required`, which nothing here
            acts on, so what the handlers can do is not declared there: this is the one place that says so.
        elicitation: There is a handler for it. It takes both modes.
        sampling: There is a handler for it.
        sampling_tools: That handler takes requests with tools.
        roots: There are roots to list.
        extras: What the user declares beside. It is added to, and never taken from, what the handlers imply.
    """
    implied: dict[str, dict[str, Any]] = {}
    if handshake:
        if elicitation:
            implied["elicitation"] = {"form": {}, "url": {}}
        if sampling:
            implied["sampling"] = {"tools": {}} if sampling_tools else {}
        if roots:
            implied["roots"] = {"listChanged": True}
    merged = dict(extras)
    for name, capability in implied.items():
        given = merged.get(name)
        merged[name] = {**given, **capability} if isinstance(given, dict) else capability
    return merged
