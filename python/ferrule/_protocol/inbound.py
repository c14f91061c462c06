"""What a server answers to a message that it refuses: codes, HTTP statuses and bodies.

Specification: 2026-07-28, basic/index, "Error Codes", and basic/transports/streamable-http, "Server Validation". Knows
what goes with what; what is refused is decided where messages are checked.
"""

from __future__ import annotations

from .versions import is_handshake

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

_STATUSES = dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS), 400)
_STATUSES |= dict.fromkeys((HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION), 400)
_STATUSES[METHOD_NOT_FOUND] = 404


def http_status(code: int) -> int:
    """The HTTP status of a response with this JSON-RPC error code; 200 where the specification names none."""
    return _STATUSES.get(code, 200)


class Refusal(Exception):
    """A message that a server does not serve, and how it says so.

    Its text is made of our own words and the names of methods, keys and headers. What the client sent is at most in
    `data`, which goes back to that client.

    Args:
        code: The JSON-RPC error code.
        message: One sentence for the client.
        data: A JSON value with more, or None.
        http_status: The HTTP status, where it is not the one that belongs to the code.
        id: The id of the request, where it could be read.

    Attributes:
        code: As given.
        message: As given.
        data: As given.
        http_status: The HTTP status to answer with.
        id: The id of the request, None where there is none or it could not be read.
    """

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        http_status: int | None = None,
        id: str | int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.http_status = http_status if http_status is not None else _STATUSES.get(code, 200)
        self.id = id

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.data, self.http_status, self.id)

    def __repr__(self) -> str:
        return f"<Refusal {self.code}, HTTP {self.http_status}>"

    def to_response(self, id: str | int | None = None) -> dict[str, Any]:
        """The body of the answer, a JSON-RPC error response.

        Args:
            id: The id of the request, where it is not the one that was read from it. Without any the response has none.
        """
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        answered = self.id if id is None else id
        return {"jsonrpc": "2.0", **({} if answered is None else {"id": answered}), "error": error}


def unfit_envelope(keys: list[str], supported: Iterable[str], *, strict: bool = False) -> Refusal:
    """The refusal of an envelope whose `keys` are missing or of a wrong type.

    It names the revisions too: it is all that a client of the handshake era learns from a server without that era.
    """
    spoken = list(supported)
    text = f"params._meta: missing or of a wrong type: {', '.join(keys)} (this server speaks {', '.join(spoken)})"
    return Refusal(INVALID_REQUEST if strict else INVALID_PARAMS, text, {"keys": keys, "supported": spoken})


def check_version(requested: str, supported: Iterable[str]) -> None:
    """Raise unless an envelope may name this revision here (2026-07-28, basic/versioning, Version Negotiation)."""
    spoken = list(supported)
    if requested not in spoken or is_handshake(requested):
        data = {"supported": spoken, "requested": requested}
        raise Refusal(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
