"""Secrets of one authorization request: PKCE's verifier and challenge, and the state (RFC 7636; RFC 6749, 10.12).

Knows random bytes and hashes. Does not know what they are sent with.
"""

from __future__ import annotations

SECRET_BYTES = 32
"""256 bits, as RFC 7636, section 7.1 recommends; 43 characters of base64url."""


def new_secret() -> str:
    """A verifier or a state: unreserved characters that nobody can guess."""
    from secrets import token_urlsafe

    return token_urlsafe(SECRET_BYTES)


def challenge_of(verifier: str) -> str:
    """The challenge of method S256 (RFC 7636, section 4.2)."""
    from base64 import urlsafe_b64encode
    from hashlib import sha256

    return urlsafe_b64encode(sha256(verifier.encode("ascii")).digest()).rstrip(b"=").decode("ascii")


def same_secret(expected: str, given: str) -> bool:
    """Compare in a time that says nothing about where they differ."""
    from hmac import compare_digest

    return compare_digest(expected.encode(), given.encode("utf-8", "surrogatepass"))
