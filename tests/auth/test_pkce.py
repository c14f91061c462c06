"""The secrets of one authorization request."""

from __future__ import annotations

from ferrule.auth.pkce import challenge_of, new_secret, same_secret


def test_the_challenge_is_the_one_of_the_rfc() -> None:
    # RFC 7636, appendix B
    assert challenge_of("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk") == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_a_secret_has_256_bits_of_unreserved_characters() -> None:
    secrets = {new_secret() for _ in range(100)}
    assert len(secrets) == 100
    assert all(len(secret) == 43 and secret.replace("-", "").replace("_", "").isalnum() for secret in secrets)


def test_secrets_are_compared_whole() -> None:
    assert same_secret("abc", "abc")
    assert not any(same_secret("abc", other) for other in ("", "ab", "abcd", "abC", "äöü", "\udc80"))
