"""Keys that sign: loaded, made, and described to others by their public half.

Knows the algorithms of RFC 7518 and RFC 8037 that authorization servers take from clients, and the one library that
computes them, which comes with the extra `ferrule[crypto]`. Knows no JWT: see `jwt`.
"""

from __future__ import annotations

from ..errors import ConfigError
from .base64url import base64url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

    PrivateKey = Any
    """One of cryptography's private keys: each kind signs with arguments of its own."""


ALGORITHMS = ("ES256", "EdDSA", "RS256")
"""What is signed with, in order of preference where the other side takes several."""

_LEAST_RSA_BITS = 2048  # RFC 7518, section 3.3
_P256_BYTES = 32


class SigningKey:
    """A private key and the one algorithm it signs with.

    Its `repr` shows the algorithm alone, and it is never pickled.

    Args:
        private_key: PEM (PKCS #8, or the older forms that OpenSSL writes), not encrypted; or a private key of the
            library `cryptography`.
        algorithm: "ES256", "RS256" or "EdDSA". None: what the key can do.
        key_id: The `kid` that the other side knows the key by, if it keeps several.

    Raises:
        ConfigError: The extra `ferrule[crypto]` is not installed, it is no private key, or the key is of another kind
            than the algorithm or too weak.

    Attributes:
        algorithm: The `alg` of what is signed.
        key_id: The `kid`, or None.
    """

    __slots__ = ("_key", "_thumbprint", "algorithm", "key_id")

    def __init__(
        self, private_key: str | bytes | PrivateKey, algorithm: str | None = None, *, key_id: str | None = None
    ) -> None:
        key = _load(private_key) if isinstance(private_key, (str, bytes)) else private_key
        possible = _algorithm_of(key)
        if algorithm is not None and algorithm not in ALGORITHMS:
            raise ConfigError(f"algorithm: expected one of {', '.join(ALGORITHMS)}")
        if algorithm is not None and algorithm != possible:
            raise ConfigError(f"private_key: a key for {possible} cannot sign with {algorithm}")
        self._key = key
        self._thumbprint = ""
        self.algorithm = possible
        self.key_id = key_id

    @classmethod
    def generate(cls, algorithm: str = "ES256") -> SigningKey:
        """Make a new key, for this process alone.

        Raises:
            ConfigError: The extra `ferrule[crypto]` is not installed, or the algorithm is not known.
        """
        return cls(_generate(algorithm), algorithm)

    def sign(self, data: bytes) -> bytes:
        """The signature in the form of a JWS (RFC 7515)."""
        if self.algorithm == "EdDSA":
            return bytes(self._key.sign(data))
        if self.algorithm == "RS256":
            return _sign_rsa(self._key, data)
        return _sign_p256(self._key, data)

    def public_jwk(self) -> dict[str, str]:
        """The public half as a JWK (RFC 7517): required members only, in the order of the thumbprint's text."""
        public = self._key.public_key()
        if self.algorithm == "EdDSA":
            return {"crv": "Ed25519", "kty": "OKP", "x": base64url(public.public_bytes_raw())}
        numbers = public.public_numbers()
        if self.algorithm == "RS256":
            return {"e": _integer(numbers.e), "kty": "RSA", "n": _integer(numbers.n)}
        x, y = (base64url(part.to_bytes(_P256_BYTES, "big")) for part in (numbers.x, numbers.y))
        return {"crv": "P-256", "kty": "EC", "x": x, "y": y}

    def thumbprint(self) -> str:
        """The SHA-256 thumbprint of the public half (RFC 7638): what a bound token names."""
        if not self._thumbprint:
            from hashlib import sha256

            from .._json import dumps

            self._thumbprint = base64url(sha256(dumps(self.public_jwk())).digest())
        return self._thumbprint

    def __repr__(self) -> str:
        return f"<SigningKey {self.algorithm}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SigningKey cannot be pickled: it would carry its private key")


def as_key(
    given: str | bytes | PrivateKey | SigningKey, algorithm: str | None = None, key_id: str | None = None
) -> SigningKey:
    """What a user gave as a private key, as one that signs.

    Raises:
        ConfigError: As for `SigningKey`; or it is one already, and what else was given contradicts it.
    """
    if not isinstance(given, SigningKey):
        return SigningKey(given, algorithm, key_id=key_id)
    if algorithm not in (None, given.algorithm):
        raise ConfigError(f"private_key: a key for {given.algorithm} cannot sign with {algorithm}")
    if key_id not in (None, given.key_id):
        raise ConfigError("key_id: the SigningKey has another one")
    return given


def choose_algorithm(offered: Iterable[object] | None) -> str | None:
    """What to make a key for: the first of ours that is offered, or of all if nothing was said; None: there is none."""
    if offered is None:
        return ALGORITHMS[0]
    known = {name for name in offered if isinstance(name, str)}
    return next((name for name in ALGORITHMS if name in known), None)


def require_crypto() -> None:
    """See that the library is there.

    Raises:
        ConfigError: It is not; the text names the extra.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise ConfigError("signing needs the extra: pip install 'ferrule[crypto]'") from None


def _load(pem: str | bytes) -> PrivateKey:
    require_crypto()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    data = pem.encode() if isinstance(pem, str) else pem
    try:
        return load_pem_private_key(data, password=None)
    except TypeError:
        problem = "it is encrypted; decrypt it, or load it with `cryptography` and give the key"
    except (ValueError, UnsupportedAlgorithm):
        problem = "it is no private key in PEM"
    raise ConfigError(f"private_key: {problem}")  # outside of the handler: the library's error may quote the key


def _algorithm_of(key: object) -> str:
    require_crypto()
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, ed25519.Ed25519PrivateKey):
        return "EdDSA"
    if isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
        return "ES256"
    if not isinstance(key, rsa.RSAPrivateKey):
        raise ConfigError("private_key: expected a key on P-256 (ES256), an RSA key (RS256) or an Ed25519 key (EdDSA)")
    if key.key_size < _LEAST_RSA_BITS:
        raise ConfigError(f"private_key: an RSA key of {key.key_size} bits is too short; {_LEAST_RSA_BITS} are needed")
    return "RS256"


def _generate(algorithm: str) -> PrivateKey:
    require_crypto()
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if algorithm == "ES256":
        return ec.generate_private_key(ec.SECP256R1())
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm == "RS256":
        return rsa.generate_private_key(public_exponent=65537, key_size=_LEAST_RSA_BITS)
    raise ConfigError(f"algorithm: expected one of {', '.join(ALGORITHMS)}")


def _sign_p256(key: PrivateKey, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    r, s = decode_dss_signature(key.sign(data, ECDSA(SHA256())))
    return r.to_bytes(_P256_BYTES, "big") + s.to_bytes(_P256_BYTES, "big")  # RFC 7518, section 3.4


def _sign_rsa(key: PrivateKey, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    return bytes(key.sign(data, PKCS1v15(), SHA256()))


def _integer(number: int) -> str:
    """Base64urlUInt (RFC 7518, section 2)."""
    return base64url(number.to_bytes((number.bit_length() + 7) // 8, "big"))
