"""Results as values, where they may be of a kind that an extension brings.

Knows which class is read from a result, not how it is had.
"""

from __future__ import annotations

from ..types.tools import CallToolResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .session import Session


def value_of(session: Session, cls: Any, result: dict[str, Any], method: str, **options: Any) -> Any:
    """A result as a value of its class; as an `ExtensionResult` where it is of a kind that an extension claimed.

    Raises:
        InvalidResult: It does not have the shape of its class.
    """
    kind = result.get("resultType", "complete")
    if kind != "complete" and not session.handshake and session.settings.extensions:
        from ..types.extensions import ExtensionResult
        from .extensions import claimed_types

        if kind in claimed_types(session.settings.extensions):
            return ExtensionResult.from_wire(result, method)
    return cls.from_wire(result, method, **options)


def called_tool(session: Session, result: dict[str, Any], method: str = "tools/call") -> CallToolResult:
    """The result of a tool: see `value_of`."""
    called: CallToolResult = value_of(session, CallToolResult, result, method, structured_object=session.handshake)
    return called
