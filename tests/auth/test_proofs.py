"""What a DPoP proof holds, judged by PyJWT."""

from __future__ import annotations

from typing import Any

import jwt
import pytest

from ferrule.auth.keys import ALGORITHMS, SigningKey
from ferrule.auth.proofs import Proofs, nonce_in
from ferrule.errors import AuthTokenError

NOW = 1_800_000_000.75
ORIGIN = "https://mcp.example"
URL = "https://mcp.example/mcp"


def read(proof: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, once the signature has been checked against the key in the header."""
    header = jwt.get_unverified_header(proof)
    key = jwt.PyJWK({**header["jwk"], "alg": header["alg"]})
    return header, jwt.decode(proof, key, algorithms=[header["alg"]], options={"verify_iat": False})


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_proof_names_its_key_the_method_the_url_and_the_time(algorithm: str) -> None:
    key = SigningKey.generate(algorithm)
    header, claims = read(Proofs(key).make("POST", ORIGIN, URL, NOW))
    assert header == {"alg": algorithm, "typ": "dpop+jwt", "jwk": key.public_jwk()}
    assert len(claims.pop("jti")) == 22
    assert claims == {"htm": "POST", "htu": URL, "iat": 1_800_000_000}


@pytest.mark.parametrize("rest", ["?tenant=a", "#part", "?a#b", "#b?a"])
def test_query_and_fragment_are_no_part_of_a_proof(rest: str) -> None:
    _, claims = read(Proofs().make("GET", ORIGIN, URL + rest, NOW))
    assert claims["htu"] == URL


def test_a_proof_beside_a_token_holds_the_tokens_hash() -> None:
    # The token and its hash of RFC 9449, section 7.1.
    token = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
    _, claims = read(Proofs().make("POST", ORIGIN, URL, NOW, token))
    assert claims["ath"] == "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo"


def test_no_two_proofs_have_one_jti() -> None:
    proofs = Proofs()
    assert len({read(proofs.make("POST", ORIGIN, URL, NOW))[1]["jti"] for _ in range(50)}) == 50


def test_each_server_gets_its_own_last_nonce() -> None:
    proofs = Proofs()
    proofs.note(ORIGIN, "first")
    proofs.note(ORIGIN, "second")
    proofs.note("https://as.example", "other")
    assert read(proofs.make("POST", ORIGIN, URL, NOW))[1]["nonce"] == "second"
    assert read(proofs.make("POST", "https://as.example", URL, NOW))[1]["nonce"] == "other"
    assert "nonce" not in read(proofs.make("POST", "https://third.example", URL, NOW))[1]


@pytest.mark.parametrize("nonce", [None, "", "x" * 1025, "known"])
def test_what_is_no_new_nonce_changes_nothing(nonce: str | None) -> None:
    proofs = Proofs()
    proofs.note(ORIGIN, "known")
    proofs.note(ORIGIN, nonce)
    assert proofs.nonce(ORIGIN) == "known"
    assert read(proofs.make("POST", ORIGIN, URL, NOW))[1]["nonce"] == "known"


def test_nonces_of_ever_new_servers_are_not_kept_for_ever() -> None:
    proofs = Proofs()
    for n in range(1000):
        proofs.note(f"https://h{n}.example", "n" * 100)
    assert len(proofs._nonces) <= 64


@pytest.mark.parametrize(
    ("offered", "algorithm"), [(None, "ES256"), (["RS256"], "RS256"), (["PS256", "EdDSA"], "EdDSA")]
)
def test_a_new_key_follows_what_the_server_takes(offered: Any, algorithm: str) -> None:
    proofs = Proofs()
    proofs.offer(offered)
    assert proofs.key.algorithm == algorithm
    assert proofs.key is proofs.key


def test_the_callers_key_and_algorithm_come_before_what_the_server_takes() -> None:
    key = SigningKey.generate("EdDSA")
    for proofs, algorithm in ((Proofs(key), "EdDSA"), (Proofs(algorithm="ES256"), "ES256")):
        proofs.offer(["RS256"])
        assert proofs.key.algorithm == algorithm


def test_a_server_that_takes_none_of_ours_is_told_apart_before_anything_is_sent() -> None:
    proofs = Proofs()
    proofs.offer(["none", "HS256"])
    with pytest.raises(AuthTokenError, match="none of ES256, EdDSA, RS256"):
        proofs.make("POST", ORIGIN, URL, NOW)


@pytest.mark.req("A1")
def test_the_repr_of_proofs_shows_the_algorithm_alone() -> None:
    proofs = Proofs()
    assert repr(proofs) == "<Proofs unused>"
    proofs.note(ORIGIN, "secret-nonce")
    proofs.make("POST", ORIGIN, URL, NOW)
    assert repr(proofs) == "<Proofs ES256>"


@pytest.mark.parametrize("nonce", [None, "n", "ü?>~" * 20])
def test_the_nonce_of_a_proof_of_ours_can_be_read_again(nonce: str | None) -> None:
    proofs = Proofs()
    proofs.note(ORIGIN, nonce)
    assert nonce_in(proofs.make("POST", ORIGIN, URL, NOW)) == nonce
    assert nonce_in("") is None
