"""Which capabilities a client declares: those its handlers imply, and those its user adds."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule._protocol.capabilities import client_capabilities

NOTHING: dict[str, Any] = {"elicitation": False, "sampling": False, "sampling_tools": False, "roots": False}
ELICITATION: dict[str, Any] = {"form": {}, "url": {}}


@pytest.mark.req("N11")
@pytest.mark.parametrize(
    ("given", "declared"),
    [
        ({}, {}),
        ({"elicitation": True}, {"elicitation": ELICITATION}),
        ({"sampling": True}, {"sampling": {}}),
        ({"sampling": True, "sampling_tools": True}, {"sampling": {"tools": {}}}),
        ({"roots": True}, {"roots": {"listChanged": True}}),
        (
            {"elicitation": True, "sampling": True, "roots": True},
            {"elicitation": ELICITATION, "sampling": {}, "roots": {"listChanged": True}},
        ),
    ],
)
def test_handlers_imply_their_capability_and_nothing_else_is_declared(
    given: dict[str, Any], declared: dict[str, Any]
) -> None:
    assert client_capabilities(handshake=True, extras={}, **{**NOTHING, **given}) == declared


@pytest.mark.req("N11")
def test_what_the_user_adds_is_added_and_takes_nothing_away() -> None:
    extras = {
        "experimental": {"x": {}},
        "extensions": {"com.example/a": {"b": 1}},
        "sampling": {"context": {}},
        "roots": {"listChanged": False, "other": 1},
        "elicitation": None,
    }
    kept = {name: dict(value) if value else value for name, value in extras.items()}  # type: ignore[call-overload]
    asked = {"elicitation": True, "sampling": True, "sampling_tools": True, "roots": True}
    assert client_capabilities(handshake=True, extras=extras, **asked) == {
        "experimental": {"x": {}},
        "extensions": {"com.example/a": {"b": 1}},
        "sampling": {"context": {}, "tools": {}},
        "roots": {"listChanged": True, "other": 1},
        "elicitation": ELICITATION,
    }
    assert extras == kept


@pytest.mark.req("N11")
def test_the_stateless_era_declares_the_same_but_roots_that_change() -> None:
    asked = {"elicitation": True, "sampling": True, "sampling_tools": True, "roots": True}
    assert client_capabilities(handshake=False, extras={}, **NOTHING) == {}
    assert client_capabilities(handshake=False, extras={"experimental": {}}, **asked) == {
        "elicitation": ELICITATION,
        "sampling": {"tools": {}},
        "roots": {},
        "experimental": {},
    }
