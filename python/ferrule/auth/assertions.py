"""Assertions that prove who the client is (RFC 7523, section 2.2): `private_key_jwt`.

Knows the claims and their life time; the clock and the audience are the caller's.
"""

from __future__ import annotations

from .jwt import new_id, sign_jwt

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .keys import SigningKey

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

_LIFETIME = 300
"""Seconds that an assertion holds: used at once, it needs no more than clocks may differ."""


def client_assertion(key: SigningKey, client_id: str, audience: str, now: float) -> str:
    """A fresh assertion, for one request.

    Args:
        key: What the authorization server knows the public half of.
        client_id: Issuer and subject.
        audience: The issuer of the authorization server, as its metadata spells it.
        now: Seconds since the epoch.
    """
    issued = int(now)
    times = {"iat": issued, "exp": issued + _LIFETIME}
    claims = {"iss": client_id, "sub": client_id, "aud": audience, "jti": new_id(), **times}
    header = {"typ": "JWT"} if key.key_id is None else {"typ": "JWT", "kid": key.key_id}
    return sign_jwt(key, header, claims)
