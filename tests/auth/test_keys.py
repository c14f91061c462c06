"""Keys and what they sign, judged by PyJWT, which nobody here wrote."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from ferrule.auth.assertions import client_assertion
from ferrule.auth.keys import ALGORITHMS, SigningKey, choose_algorithm
from ferrule.errors import ConfigError

NOW = 1_800_000_000.75
AUDIENCE = "https://as.example/tenant"
MAKERS: dict[str, Any] = {
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
    "RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
}


def pem(key: Any, encryption: Any = None) -> bytes:
    forms = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return bytes(key.private_bytes(*forms, encryption or serialization.NoEncryption()))


def read(text: str, key: SigningKey, **options: Any) -> dict[str, Any]:
    """The claims, once the signature has been checked against the key's own public JWK."""
    public = jwt.PyJWK({**key.public_jwk(), "alg": key.algorithm})
    options.setdefault("audience", AUDIENCE)
    return jwt.decode(
        text, public, algorithms=[key.algorithm], options={"verify_exp": False, "verify_iat": False}, **options
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_key_is_loaded_from_pem_and_signs_what_its_public_half_verifies(algorithm: str) -> None:
    private = MAKERS[algorithm]()
    for given in (pem(private), pem(private).decode(), private):
        key = SigningKey(given, algorithm)
        claims = read(client_assertion(key, "me", AUDIENCE, NOW), key)
        assert claims["iss"] == claims["sub"] == "me"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_assertion_says_who_for_whom_and_until_when(algorithm: str) -> None:
    key = SigningKey.generate(algorithm)
    text = client_assertion(key, "me", AUDIENCE, NOW)
    assert jwt.get_unverified_header(text) == {"alg": algorithm, "typ": "JWT"}
    claims = read(text, key)
    jti = claims.pop("jti")
    assert len(jti) == 22
    assert claims == {"iss": "me", "sub": "me", "aud": AUDIENCE, "iat": 1_800_000_000, "exp": 1_800_000_300}


def test_two_assertions_never_have_one_jti() -> None:
    key = SigningKey.generate()
    made = [read(client_assertion(key, "me", AUDIENCE, NOW), key)["jti"] for _ in range(50)]
    assert len(set(made)) == 50


def test_the_key_id_goes_into_the_header() -> None:
    key = SigningKey(pem(MAKERS["ES256"]()), key_id="2026-a")
    assert jwt.get_unverified_header(client_assertion(key, "me", AUDIENCE, NOW))["kid"] == "2026-a"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_public_jwk_holds_no_private_part(algorithm: str) -> None:
    members = set(SigningKey.generate(algorithm).public_jwk())
    assert members <= {"kty", "crv", "x", "y", "n", "e"}


def test_the_thumbprint_is_the_one_of_the_example_of_rfc_7638() -> None:
    modulus = (
        "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknj"
        "hMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQ"
        "vRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzK"
        "nqDKgw"
    )

    class Published(SigningKey):
        def __init__(self) -> None:
            self._thumbprint = ""

        def public_jwk(self) -> dict[str, str]:
            return {"e": "AQAB", "kty": "RSA", "n": modulus}

    assert Published().thumbprint() == "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("not a key", "no private key in PEM"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "no private key in PEM"),
        (pem(MAKERS["ES256"](), serialization.BestAvailableEncryption(b"x")), "it is encrypted"),
        (ec.generate_private_key(ec.SECP384R1()), "expected a key on P-256"),
        (rsa.generate_private_key(public_exponent=65537, key_size=1024), "1024 bits is too short"),
        (42, "expected a key on P-256"),
    ],
    ids=["text", "pem", "encrypted", "P-384", "RSA-1024", "number"],
)
def test_what_cannot_sign_is_refused_by_kind_and_never_quoted(given: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as caught:
        SigningKey(given)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "AAAA" not in str(caught.value)


def test_a_key_is_not_used_for_another_algorithm_than_its_own() -> None:
    with pytest.raises(ConfigError, match="a key for ES256 cannot sign with RS256"):
        SigningKey(MAKERS["ES256"](), "RS256")
    with pytest.raises(ConfigError, match="expected one of ES256, EdDSA, RS256"):
        SigningKey(MAKERS["ES256"](), "HS256")
    with pytest.raises(ConfigError, match="expected one of ES256, EdDSA, RS256"):
        SigningKey.generate("none")


@pytest.mark.req("A1")
def test_a_key_shows_its_algorithm_alone_and_is_never_pickled() -> None:
    key = SigningKey.generate()
    assert repr(key) == "<SigningKey ES256>"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(key)


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (None, "ES256"),
        (["RS256", "ES256"], "ES256"),
        (["PS256", "RS256"], "RS256"),
        (["EdDSA"], "EdDSA"),
        ([None, 3, "RS256"], "RS256"),
        (["none", "HS256"], None),
        ([], None),
    ],
)
def test_the_first_of_ours_that_the_other_side_takes_is_chosen(offered: Any, chosen: str | None) -> None:
    assert choose_algorithm(offered) == chosen


def test_without_the_library_the_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["cryptography"] = None
from ferrule.auth.keys import SigningKey
from ferrule.errors import ConfigError
for make in (lambda: SigningKey("x"), SigningKey.generate):
    try:
        make()
    except ConfigError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count("pip install 'ferrule[crypto]'") == 2
