"""What documents and answers hold that they must not: text that can be neither sent nor kept, numbers without sense,
parameters that come twice. None of it is believed, and nothing of it ends a call with anything but its answer or an
`AuthError`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ferrule.auth import AuthRequest, ClientCredentials, FileStore, OAuth, Token
from ferrule.auth.fetch import Answer, Way
from ferrule.auth.machine import Credentials
from ferrule.auth.registration import ClientSettings
from ferrule.auth.token_endpoint import ClientIdentity
from ferrule.errors import AuthError, AuthorizationError, AuthTokenError
from tests.auth.browsing import REDIRECT_URI, Visitor
from tests.servers.authority import Registered
from tests.servers.parties import Reply
from tests.servers.protected import World
from tests.support.clients import Flavour

SURROGATE = "\ud800"
HUGE = 10**400


def call(flavour: Flavour, world: World, auth: Any) -> str:
    with flavour.client(world.url, auth=auth) as client:
        return client.call_tool("echo", {}).text


def resource_scopes(world: World, value: Any) -> None:
    world.mcp.metadata["scopes_supported"] = value if isinstance(value, list) else [value]


def server_scopes(world: World, value: Any) -> None:
    world.authority.metadata["scopes_supported"] = value if isinstance(value, list) else [value]


def token_member(name: str) -> Callable[[World, Any], None]:
    def change(world: World, value: Any) -> None:
        world.authority.token_members[name] = value

    change.__name__ = name
    return change


FIELDS = [resource_scopes, server_scopes, *map(token_member, ("refresh_token", "scope", "expires_in"))]


@pytest.mark.req("A6")
@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [SURROGATE, "\x00\r\n", "é", HUGE, -HUGE, {}], ids=repr)
def test_what_can_be_neither_sent_nor_kept_is_not_taken(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path, field: Any, value: Any
) -> None:
    field(world, value)
    assert call(flavour, world, visitor.oauth(store=FileStore(tmp_path))) == "hello"
    world.authority.tokens.clear()
    assert call(flavour, world, visitor.oauth(store=FileStore(tmp_path))) == "hello"


@pytest.mark.req("A6")
@pytest.mark.parametrize("member", ["client_id", "client_secret", "client_secret_expires_at", "scope"])
@pytest.mark.parametrize("value", [SURROGATE, "", HUGE, 1e300, [1]], ids=repr)
def test_a_registration_of_nonsense_is_refused_or_not_taken(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path, member: str, value: Any
) -> None:
    world.authority.clients["c"] = Registered()
    world.authority.tricks["/register"] = lambda asked: Reply(201, {"client_id": "c", member: value})
    if member == "client_id":
        with pytest.raises(AuthError, match="did not register"):
            call(flavour, world, visitor.oauth(store=FileStore(tmp_path)))
    else:
        assert call(flavour, world, visitor.oauth(store=FileStore(tmp_path))) == "hello"


@pytest.mark.req("A6")
@pytest.mark.parametrize("first", ["right", "wrong"])
def test_an_issuer_that_is_named_twice_is_not_the_right_one(flavour: Flavour, world: World, first: str) -> None:
    """The redirect URI of an attacker's making may hold one already, for the honest server to add its own."""
    world.authority.metadata["authorization_response_iss_parameter_supported"] = None
    wrong = f"iss={quote(world.stranger.issuer, safe='')}"

    def tamper(location: str) -> str:
        place, _, query = location.partition("?")
        return f"{place}?{wrong}&{query}" if first == "wrong" else f"{location}&{wrong}"

    with pytest.raises(AuthorizationError, match="another authorization server"):
        call(flavour, world, Visitor(world.authority, tamper=tamper).oauth())
    assert world.authority.token_requests() == []


@pytest.mark.parametrize("form", [lambda url: url, lambda url: url.partition("?")[2]], ids=["url", "query"])
def test_a_question_mark_in_an_answer_is_part_of_its_value(flavour: Flavour, world: World, form: Any) -> None:
    visitor = Visitor(world.authority)
    oauth = OAuth(
        redirect_uri=REDIRECT_URI,
        redirect=visitor.redirect,
        callback=lambda: form(visitor.callback() + "&session_state=a?b#fragment"),
    )
    assert call(flavour, world, oauth) == "hello"


@pytest.mark.req("A6")
def test_an_error_that_comes_with_a_200_is_the_authorization_servers_error(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered("secret", "client_secret_basic")
    world.authority.tricks["/token"] = lambda asked: Reply(200, {"error": "bad_code", "error_description": "why"})
    with pytest.raises(AuthTokenError) as caught:
        call(flavour, world, ClientCredentials("me", "secret"))
    assert (caught.value.error, caught.value.description) == ("bad_code", "why")


@pytest.mark.req("A3")
def test_a_scope_that_was_refused_is_not_asked_for_by_the_next_call(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered("secret", "client_secret_basic")
    world.mcp.scope = "read"

    def refused(asked: Any) -> Reply | None:
        return Reply(400, {"error": "invalid_scope"}) if "root" in asked.form["scope"].split() else None

    world.authority.tricks["/token"] = refused
    with flavour.client(world.url, auth=ClientCredentials("me", "secret")) as client:
        assert client.call_tool("echo", {}).text == "hello"
        world.mcp.scope = "root"
        with pytest.raises(AuthTokenError) as caught:
            client.call_tool("echo", {})
        assert caught.value.error == "invalid_scope"
        world.mcp.scope = "read"
        world.authority.tokens.clear()
        assert client.call_tool("echo", {}).text == "hello"
    assert [form["scope"] for form in world.authority.token_requests()] == ["read", "read root", "read"]


@pytest.mark.req("A1")
@pytest.mark.parametrize(
    "value",
    [
        AuthRequest("POST", "https://mcp.example/mcp", (("Authorization", "Bearer s3cr3t"),)),
        Way(None, "http://user:s3cr3t@proxy.example"),
        Answer(200, {"access_token": "s3cr3t"}, None),  # type: ignore[arg-type]
        Credentials("me", "s3cr3t", None, None, None, None),
        ClientIdentity("me", "s3cr3t"),
        ClientSettings(client_id="me", client_secret="s3cr3t"),
        Token("s3cr3t"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_holds_a_secret_neither_shows_nor_pickles_it(value: Any) -> None:
    assert "s3cr3t" not in f"{value!r} {value}"
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError):
            pickle.dumps(value, protocol)
    with pytest.raises(TypeError):
        deepcopy(value)
