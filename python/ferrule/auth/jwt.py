"""Signed JWTs (RFC 7515, RFC 7519) in their compact form.

Knows how one is put together; what its claims mean is said by `assertions` and `dpop`. Nothing here reads a JWT: what
others signed is passed on as it is.
"""

from __future__ import annotations

from os import urandom

from .._json import dumps
from .base64url import base64url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .keys import SigningKey


def sign_jwt(key: SigningKey, header: Mapping[str, Any], claims: Mapping[str, Any]) -> str:
    """The compact form of a JWT signed with `key`, whose `alg` goes into the header."""
    head = dumps({"alg": key.algorithm, **header}, "header")
    signed = f"{base64url(head)}.{base64url(dumps(claims, 'claims'))}"
    return f"{signed}.{base64url(key.sign(signed.encode()))}"


def new_id() -> str:
    """A `jti` that nobody can guess and that never comes twice: 128 random bits."""
    return base64url(urandom(16))
