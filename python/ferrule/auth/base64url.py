"""base64url without padding (RFC 4648, section 5), as JWTs and PKCE write bytes. Knows nothing of either."""

from __future__ import annotations

from binascii import b2a_base64

_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def base64url(data: bytes) -> str:
    """Bytes as text for URLs and headers."""
    return b2a_base64(data, newline=False).translate(_URL_SAFE, b"=").decode()
