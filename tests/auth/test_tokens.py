"""What a token endpoint's answer is worth, and what of a token is shown."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ferrule.auth import Token
from ferrule.errors import AuthTokenError

URL = "https://idp.example/token"


def read(**said: Any) -> Token:
    return Token.from_response(said, now=1000.0, url=URL, issuer="https://idp.example", resource="https://h/mcp")


@pytest.mark.req("A6")
def test_an_answer_becomes_a_token_for_its_issuer_and_resource() -> None:
    token = read(access_token="t", token_type="Bearer", expires_in=60, refresh_token="r", scope="a b")
    assert (token.access_token, token.token_type, token.expires_at) == ("t", "bearer", 1060.0)
    assert (token.refresh_token, sorted(token.scopes)) == ("r", ["a", "b"])
    assert (token.issuer, token.resource) == ("https://idp.example", "https://h/mcp")
    assert token.lasts_until(1059.9)
    assert not token.lasts_until(1060.0)


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    ("given", "expires_at"),
    [(None, None), ("120", 1120.0), (0, 1000.0), (1.5, 1001.5), (-1, None), (True, None), ("soon", None), ([], None)],
)
def test_a_lifetime_that_is_none_is_unknown(given: Any, expires_at: float | None) -> None:
    assert read(access_token="t", token_type="bearer", expires_in=given).expires_at == expires_at


@pytest.mark.req("A6")
def test_a_lifetime_beyond_all_sense_is_ten_years() -> None:
    assert read(access_token="t", expires_in=10**300).expires_at == 1000.0 + 10 * 365 * 86400
    assert read(access_token="t", expires_in="9" * 400).expires_at == 1000.0 + 10 * 365 * 86400


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    "said",
    [
        {},
        {"access_token": ""},
        {"access_token": None},
        {"access_token": 5},
        {"access_token": "a b"},
        {"access_token": "a\r\nX: y"},
        {"access_token": "ä"},
        {"access_token": "t", "token_type": "mac"},
        {"access_token": "t", "token_type": 5},
    ],
)
def test_an_answer_without_a_usable_token_is_an_error_of_the_token_step(said: dict[str, Any]) -> None:
    with pytest.raises(AuthTokenError) as caught:
        read(**said)
    assert (caught.value.step, caught.value.url) == ("token", URL)


@pytest.mark.req("A6")
def test_a_refreshed_token_keeps_what_the_answer_does_not_say() -> None:
    earlier = read(access_token="t", refresh_token="r1", scope="a")
    again = Token.from_response({"access_token": "u"}, now=2000.0, url=URL, earlier=earlier)
    assert (again.refresh_token, again.scope) == ("r1", "a")
    rotated = Token.from_response({"access_token": "u", "refresh_token": "r2"}, now=2000.0, url=URL, earlier=earlier)
    assert rotated.refresh_token == "r2"
    assert Token.from_response({"access_token": "u"}, now=0.0, url=URL, asked="x y").scopes == {"x", "y"}


@pytest.mark.req("A1")
def test_a_token_shows_no_secret_and_is_not_pickled() -> None:
    token = read(access_token="hunter2", refresh_token="hunter2", expires_in=9, scope="hunter2")
    assert "hunter2" not in repr(token) + str(token) + repr([token])
    with pytest.raises(TypeError, match="not pickled") as caught:
        pickle.dumps(token)
    assert "hunter2" not in str(caught.value)


@pytest.mark.req("A6")
def test_what_a_store_keeps_comes_back_as_it_was() -> None:
    token = read(access_token="t", refresh_token="r", expires_in=9, scope="a")
    assert Token.imported(token.export()) == token
    assert Token.imported(Token("t").export()) == Token("t")


@pytest.mark.req("A6")
@pytest.mark.parametrize(
    "change",
    [{"access_token": 1}, {"token_type": "mac"}, {"expires_at": "soon"}, {"expires_at": True}, {"refresh_token": 5}],
)
def test_what_a_store_holds_of_another_kind_is_no_token(change: dict[str, Any]) -> None:
    assert Token.imported({**Token("t").export(), **change}) is None
