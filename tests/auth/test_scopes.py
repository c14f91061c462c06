"""Which scopes are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.auth.scopes import adds_nothing, choose_scopes

NOTHING: dict[str, Any] = {"configured": None, "challenged": (), "before": (), "resource": None, "server": None}


def chosen(**given: Any) -> str | None:
    return choose_scopes(**{**NOTHING, **given})


def test_the_challenge_comes_before_what_the_resource_supports() -> None:
    assert chosen(challenged=["files:read"], resource=["files:read", "files:write"]) == "files:read"


def test_without_a_challenge_everything_the_resource_supports_is_asked_for() -> None:
    assert chosen(resource=["a", "b"]) == "a b"


def test_without_either_no_scope_is_asked_for() -> None:
    assert chosen() is None
    assert chosen(resource=[]) is None


def test_a_step_up_keeps_what_was_asked_for_before() -> None:
    assert chosen(challenged=["write", "read"], before=["read"], resource=["decoy"]) == "read write"


def test_what_the_user_configured_is_asked_for_as_well() -> None:
    assert chosen(configured=["mine"], challenged=["theirs"]) == "mine theirs"
    assert chosen(configured=["mine"], resource=["theirs"]) == "mine"


@pytest.mark.parametrize("server", [None, [], ["openid"]])
def test_offline_access_is_never_asked_for_unless_the_authorization_server_lists_it(server: list[str] | None) -> None:
    assert chosen(challenged=["a", "offline_access"], configured=["offline_access"], server=server) == "a"
    assert chosen(resource=["offline_access"], server=server) is None


def test_offline_access_is_asked_for_where_the_authorization_server_lists_it() -> None:
    assert chosen(challenged=["a"], server=["a", "offline_access"]) == "a offline_access"


def test_offline_access_alone_is_not_asked_for_since_no_scope_means_the_servers_own_choice() -> None:
    assert chosen(server=["offline_access"]) is None


def test_scopes_that_were_asked_for_already_add_nothing() -> None:
    assert adds_nothing("a b", ["b"])
    assert adds_nothing(None, [])
    assert adds_nothing("a", ["a", "offline_access"])
    assert not adds_nothing("a b", ["b", "c"])
    assert not adds_nothing(None, ["a"])
