"""Base64 in text to bytes, with a limit."""

from __future__ import annotations

from ..errors import InvalidResult, LimitExceeded


def decode_base64(owner: object, field: str, text: str, max_bytes: int) -> bytes:
    """Decode a field of a value, whose class and name the errors give."""
    where = type(owner).__name__
    if len(text) // 4 * 3 > max_bytes + 2:  # what padding may take away
        raise LimitExceeded(f"{where}.{field}: more than {max_bytes} bytes", limit="max_bytes", request_sent=True)
    import binascii

    try:
        # Some servers wrap lines, as in mail; anything else outside the alphabet is an error.
        data = binascii.a2b_base64("".join(text.split()), strict_mode=True)
    except ValueError:
        data = None
    if data is None:
        raise InvalidResult(where, f"{field}: expected base64")
    if len(data) > max_bytes:
        raise LimitExceeded(f"{where}.{field}: more than {max_bytes} bytes", limit="max_bytes", request_sent=True)
    return data
