"""The single door to the core: what `_core` offers, and what its fault codes mean as errors.

Knows codes and limits. Does not know whose message was faulty. A pure-Python stand-in takes the
place of `_core` here, where no wheel exists (PEP 399).
"""

from __future__ import annotations

from ._core import (
    BODY,
    CODES,
    COMMENT,
    DATA,
    END,
    EVENT,
    FAULT,
    FLAG_DEEP,
    FLAG_SLOW,
    HEAD,
    KIND_JSON,
    KIND_OTHER,
    KIND_SSE,
    LINE,
    VERSION,
    BodyDecoder,
    LineDecoder,
    RequestTemplate,
    ResponseDecoder,
    ResponseHead,
    check_json,
    decode_header_value,
    encode_header_value,
    encode_message,
    new_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .errors import FerruleError

__all__ = [
    "BODY",
    "CODES",
    "COMMENT",
    "DATA",
    "END",
    "EVENT",
    "FAULT",
    "FLAG_DEEP",
    "FLAG_SLOW",
    "HEAD",
    "KIND_JSON",
    "KIND_OTHER",
    "KIND_SSE",
    "LINE",
    "VERSION",
    "BodyDecoder",
    "LineDecoder",
    "RequestTemplate",
    "ResponseDecoder",
    "ResponseHead",
    "check_json",
    "decode_header_value",
    "encode_header_value",
    "encode_message",
    "fault_error",
    "new_value",
    "refusal_error",
]

# Which bound of `Limits` a fault is about.
_LIMITS = {
    "head_too_large": "max_head_bytes",
    "too_many_headers": "max_head_bytes",
    "message_too_large": "max_message_bytes",
    "line_too_long": "max_message_bytes",
}


def fault_error(code: int, position: int, size: int, *, request_sent: bool = True) -> FerruleError:
    """The error that a FAULT frame stands for. Its text holds the code's name and numbers, no content."""
    from .errors import ConnectionClosed, InvalidMessage, LimitExceeded

    name = CODES.get(code, "unknown")
    text = f"{name.replace('_', ' ')} at byte {position} ({size} bytes)"
    if name in _LIMITS:
        return LimitExceeded(text, limit=_LIMITS[name], request_sent=request_sent)
    if name == "truncated":
        return ConnectionClosed(f"the stream ended inside a message, at byte {position}", request_sent=request_sent)
    return InvalidMessage(text, request_sent=request_sent)


def refusal_error(refusal: ValueError) -> FerruleError:
    """The error for what `RequestTemplate` or `encode_message` refused to encode: nothing was sent."""
    from .errors import ConfigError

    code, position, _ = refusal.args
    return ConfigError(f"cannot be sent: {CODES[code].replace('_', ' ')}, number {position}")
