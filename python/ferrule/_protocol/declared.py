"""What a peer declared that it can do.

Specification: 2025-11-25, basic/lifecycle, Capability Negotiation. Knows the shape of the declaration.
"""

from __future__ import annotations

from ..errors import CapabilityError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def require(declared: Any, path: str, what: str, server: str) -> None:
    """Raise CapabilityError unless the server declared this capability (N12)."""
    if not declares(declared, path):
        raise CapabilityError(f"{what}: {server} did not declare the capability {path}; nothing was sent")


def declares(declared: Any, path: str) -> bool:
    """Does the declaration hold this capability, such as `tools` or `resources.subscribe`?

    An object or True says yes; false, null and what is missing say no.
    """
    for name in path.split("."):
        declared = declared.get(name) if type(declared) is dict else None
    return declared is True or type(declared) is dict
