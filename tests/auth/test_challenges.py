"""What servers write into `WWW-Authenticate`, and which of it counts."""

from __future__ import annotations

import random

import pytest

from ferrule.auth import Challenge
from ferrule.auth.challenges import choose, parse


def taken_apart(*values: str) -> list[tuple[str, dict[str, str]]]:
    return [(scheme.name, scheme.params) for scheme in parse(values)]


@pytest.mark.parametrize(
    ("values", "schemes"),
    [
        (['Bearer realm="mcp", scope="a b"'], [("bearer", {"realm": "mcp", "scope": "a b"})]),
        (["bEaReR Scope=a"], [("bearer", {"scope": "a"})]),
        (["Bearer"], [("bearer", {})]),
        (["Negotiate, Bearer scope=a"], [("negotiate", {}), ("bearer", {"scope": "a"})]),
        (['Basic realm="a, Bearer b", Bearer x=y'], [("basic", {"realm": "a, Bearer b"}), ("bearer", {"x": "y"})]),
        (["Basic realm=a", "Bearer scope=b"], [("basic", {"realm": "a"}), ("bearer", {"scope": "b"})]),
        (["Basic YWJj==, Bearer x=y"], [("basic", {"": "YWJj=="}), ("bearer", {"x": "y"})]),
        ([r'Bearer realm="say \"hi\" \\ there"'], [("bearer", {"realm": r"say " + '"hi" \\ there'})]),
        (['Bearer scope = "a" ,\terror =b'], [("bearer", {"scope": "a", "error": "b"})]),
        ([",, Bearer a=1,, b=2,"], [("bearer", {"a": "1", "b": "2"})]),
        (["Bearer scope=first, scope=second"], [("bearer", {"scope": "first"})]),
        (["Bearer resource_metadata=https://h/x"], [("bearer", {"resource_metadata": "https"})]),
        (['DPoP algs="ES256 RS256", error=x'], [("dpop", {"algs": "ES256 RS256", "error": "x"})]),
        (["Bearer\tscope=a"], [("bearer", {"scope": "a"})]),
        (['Bearer scope=""'], [("bearer", {"scope": ""})]),
    ],
)  # fmt: skip
def test_challenges_are_read_by_the_grammar(values: list[str], schemes: list[tuple[str, dict[str, str]]]) -> None:
    assert taken_apart(*values) == schemes


@pytest.mark.parametrize(
    "value",
    [
        "",
        ",",
        "=",
        '"',
        '"Bearer"',
        "Bearer =",
        'Bearer scope="never closed',
        "\x00",
        "Bearer (comment)",
        "ä ö",
        "@ Bearer",
    ],
)
def test_what_is_no_challenge_is_skipped_and_nothing_is_raised(value: str) -> None:
    for scheme in parse([value]):
        assert "scope" not in scheme.params


def test_a_broken_part_does_not_hide_the_challenge_after_it() -> None:
    assert choose(parse(['@@@ "x, y", Bearer scope="a"']))
    assert taken_apart('Basic realm="open', "Bearer scope=a")[-1] == ("bearer", {"scope": "a"})


def test_any_header_is_read_in_time_and_without_error() -> None:
    chance = random.Random(5)
    for _ in range(2000):
        parse(["".join(chance.choices('Bearer ,="\\\t;=a@', k=chance.randrange(60)))])
    assert len(parse(["a," * 500_000])) < 10_000


@pytest.mark.parametrize(
    ("values", "name"),
    [
        (["Basic realm=x, DPoP algs=ES256, Bearer scope=a"], "bearer"),
        (["Basic realm=x", "DPoP algs=ES256"], "dpop"),
        (["Basic realm=x, Digest nonce=y"], None),
        ([], None),
    ],
)
def test_only_bearer_and_dpop_count(values: list[str], name: str | None) -> None:
    scheme = Challenge(401, values).scheme
    assert (scheme and scheme.name) == name


def test_parameters_of_a_challenge_that_does_not_count_are_not_seen() -> None:
    challenge = Challenge(403, ['Basic error="insufficient_scope", scope="admin"'])
    assert (challenge.param("scope"), challenge.wants_scope) == (None, False)


def test_what_one_challenge_that_counts_does_not_say_another_may() -> None:
    values = ['DPoP algs="ES256", scope="b", error="insufficient_scope"', 'Bearer realm="gate"', 'Bearer scope="a"']
    challenge = Challenge(403, values)
    assert challenge.scheme is not None and challenge.scheme.params == {"realm": "gate"}
    assert [challenge.param(name) for name in ("scope", "algs", "realm", "none")] == ["a", "ES256", "gate", None]
    assert challenge.wants_scope


def test_a_nonce_is_wanted_only_if_one_came() -> None:
    values = ['DPoP error="use_dpop_nonce"']
    assert Challenge(401, values, "n-1").wants_nonce
    assert not Challenge(401, values).wants_nonce
    assert not Challenge(401, ["Bearer"], "n-1").wants_nonce


def test_what_a_challenge_holds_is_not_in_its_repr() -> None:
    challenge = Challenge(401, ['Bearer scope="secret", realm=secret'], "secret")
    assert "secret" not in repr(challenge) + repr(challenge.schemes)
    assert challenge == Challenge(401, ['Bearer scope="secret", realm=secret'], "secret")
    assert len({challenge, Challenge(401, ["Bearer"])}) == 2
