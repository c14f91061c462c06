"""Which class a JSON-RPC error of the server's is.

Knows codes and the shapes of `data` that belong to them (2026-07-28, basic/index, Error Codes); what the classes mean
is said where they are, in `errors`.
"""

from __future__ import annotations

from ..errors import (
    HeaderMismatch,
    InvalidParams,
    MethodNotFound,
    MissingClientCapability,
    RPCError,
    UnsupportedProtocolVersion,
    URLElicitationRequired,
    member,
    strings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _is_unsupported_version(data: Any) -> bool:
    supported = strings(member(data, "supported"))
    return supported is not None and isinstance(member(data, "requested"), str)


def _is_url_elicitation(data: Any) -> bool:
    elicitations = member(data, "elicitations")
    return isinstance(elicitations, list) and all(
        member(item, "mode") == "url" and strings([member(item, name) for name in ("url", "message", "elicitationId")])
        for item in elicitations
    )


# code → the class, and whether `data` has the shape that the specification gives it
_BY_CODE: dict[int, tuple[type[RPCError], Callable[[Any], bool]]] = {
    -32601: (MethodNotFound, lambda data: True),
    -32602: (InvalidParams, lambda data: True),
    -32020: (HeaderMismatch, lambda data: True),
    -32021: (MissingClientCapability, lambda data: isinstance(member(data, "requiredCapabilities"), dict)),
    -32022: (UnsupportedProtocolVersion, _is_unsupported_version),
    -32042: (URLElicitationRequired, _is_url_elicitation),
}


def rpc_error(
    *,
    code: int,
    message: str,
    data: Any = None,
    http_status: int | None = None,
    method: str | None = None,
    server: str | None = None,
    request_sent: bool = True,
) -> RPCError:
    """Choose the class for a JSON-RPC error.

    One with attributes only when `data` has the shape the specification gives it; else it is a plain `RPCError`.
    """
    cls, well_formed = _BY_CODE.get(code, (RPCError, bool))
    return (cls if well_formed(data) else RPCError)(
        code=code,
        message=message,
        data=data,
        http_status=http_status,
        method=method,
        server=server,
        request_sent=request_sent,
    )
