"""DPoP proofs (RFC 9449, section 4): what one holds, and the nonces that servers want in them.

Knows one key and the last nonce of each server. When proofs are made, and what becomes of the answers, is said in
`dpop`.
"""

from __future__ import annotations

from .._json import loads
from .base64url import base64url
from .jwt import new_id, sign_jwt
from .keys import ALGORITHMS, SigningKey, choose_algorithm
from .steps import TOKEN, auth_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_NONCES = 64  # servers; a client talks to one MCP server and a few authorization servers
_LONGEST_NONCE = 1024


class Proofs:
    """Makes proofs with one key.

    The key is made when the first proof is needed, unless it was given: so the algorithm can follow what the servers
    say they take.

    Args:
        key: The key, or None for a new one.
        algorithm: What a new key signs with; None: the first of ours that the servers take.
    """

    __slots__ = ("_algorithm", "_keys", "_nonces", "_offered")

    def __init__(self, key: SigningKey | None = None, algorithm: str | None = None) -> None:
        self._keys = [] if key is None else [key]
        self._algorithm = algorithm
        self._offered: Iterable[object] | None = None
        self._nonces: dict[str, str] = {}

    def offer(self, algorithms: Iterable[object] | None) -> None:
        """Take note of what a server accepts; of no use once there is a key."""
        if algorithms is not None:
            self._offered = list(algorithms)

    @property
    def key(self) -> SigningKey:
        """The key, made if there is none yet.

        Raises:
            AuthTokenError: The servers take no algorithm of ours.
        """
        if not self._keys:
            algorithm = self._algorithm or choose_algorithm(self._offered)
            if algorithm is None:
                raise auth_error(TOKEN, f"DPoP: none of {', '.join(ALGORITHMS)} is among the algorithms that are taken")
            self._keys.append(SigningKey.generate(algorithm))  # two threads may make one each; both use the first
        return self._keys[0]

    def note(self, origin: str, nonce: str | None) -> None:
        """Keep the nonce of an answer for the next requests to that origin."""
        if nonce is None or not 0 < len(nonce) <= _LONGEST_NONCE:
            return
        if len(self._nonces) >= _MOST_NONCES and origin not in self._nonces:
            self._nonces.clear()
        self._nonces[origin] = nonce

    def nonce(self, origin: str) -> str | None:
        """What the next proof for that origin holds."""
        return self._nonces.get(origin)

    def make(self, method: str, origin: str, url: str, now: float, token: str | None = None) -> str:
        """A fresh proof for one request.

        Args:
            method: The HTTP method.
            origin: The server, as `note` knows it.
            url: Where the request goes; query and fragment are left out.
            now: Seconds since the epoch.
            token: The access token that is sent with it.
        """
        key = self.key
        target = url.partition("#")[0].partition("?")[0]
        claims = {"jti": new_id(), "htm": method, "htu": target, "iat": int(now)}
        if token is not None:
            from hashlib import sha256

            claims["ath"] = base64url(sha256(token.encode("ascii")).digest())
        nonce = self.nonce(origin)
        if nonce is not None:
            claims["nonce"] = nonce
        return sign_jwt(key, {"typ": "dpop+jwt", "jwk": key.public_jwk()}, claims)

    def __repr__(self) -> str:
        return f"<Proofs {self._keys[0].algorithm if self._keys else 'unused'}>"


def nonce_in(proof: str) -> str | None:
    """The nonce that one of our own proofs holds."""
    from binascii import a2b_base64

    claims = proof.split(".")[1].translate(str.maketrans("-_", "+/")) if proof.count(".") == 2 else ""
    nonce = loads(a2b_base64(claims + "=" * (-len(claims) % 4))).get("nonce") if claims else None
    return nonce if isinstance(nonce, str) else None
