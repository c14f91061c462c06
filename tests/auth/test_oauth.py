"""A user who logs in: whom they are sent to, for what, as which client, and what their answer has to match."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import pytest

from ferrule import Client, MemoryCache
from ferrule.auth import FileStore, OAuth, SigningKey
from ferrule.errors import (
    AuthDiscoveryError,
    AuthError,
    AuthorizationError,
    AuthRegistrationError,
    AuthStepUpError,
    AuthTokenError,
    ConfigError,
)
from tests.auth.browsing import REDIRECT_URI, Visitor
from tests.auth.test_concurrency import python_calls
from tests.servers.authority import Registered
from tests.servers.parties import Asked, Reply, refuse
from tests.servers.protected import World
from tests.support.clients import Flavour


def queries(visitor: Visitor) -> list[dict[str, str]]:
    """What each authorization asked for."""
    return [{name: value for name, [value] in parse_qs(urlsplit(url).query).items()} for url in visitor.sent_to]


def call(flavour: Flavour, world: World, auth: Any, **options: Any) -> str:
    with flavour.client(world.url, auth=auth, **options) as client:
        return client.call_tool("echo", {}).text


def fail(flavour: Flavour, world: World, auth: Any, kind: type[AuthError]) -> AuthError:
    with pytest.raises(kind) as caught:
        call(flavour, world, auth)
    assert type(caught.value) is kind
    return caught.value


# --- the whole flow ------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_user_logs_in_once_for_all_calls(flavour: Flavour, era: str) -> None:
    with World(era) as world:
        visitor = Visitor(world.authority)
        with flavour.client(world.url, auth=visitor.oauth()) as client:
            assert [client.call_tool("echo", {}).text for _ in range(3)] == ["hello"] * 3
        assert len(visitor.sent_to) == 1
        assert world.authority.party.paths == [
            "GET /.well-known/oauth-authorization-server",
            "POST /register",
            "GET /authorize",
            "POST /token",
        ]
        assert len(world.mcp.calls()) == 3


def test_the_authorization_request_says_all_it_must(flavour: Flavour, world: World, visitor: Visitor) -> None:
    assert call(flavour, world, visitor.oauth()) == "hello"
    [asked] = queries(visitor)
    assert asked["response_type"] == "code"
    assert asked["client_id"] == "client-0"
    assert asked["redirect_uri"] == REDIRECT_URI
    assert asked["resource"] == world.url
    assert asked["code_challenge_method"] == "S256"
    assert len(asked["code_challenge"]) == len(asked["state"]) == 43
    assert "scope" not in asked
    [form] = world.authority.token_requests()
    assert set(form) == {"grant_type", "code", "redirect_uri", "code_verifier", "resource", "client_id"}
    assert form["resource"] == world.url


def test_what_the_endpoint_has_in_its_query_stays(flavour: Flavour, world: World, visitor: Visitor) -> None:
    world.authority.metadata["authorization_endpoint"] = f"{world.authority.issuer}/authorize?tenant=a"
    assert call(flavour, world, visitor.oauth()) == "hello"
    assert queries(visitor)[0]["tenant"] == "a"


def test_a_resource_that_is_named_by_a_prefix_is_asked_for_as_it_is_written(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    origin = world.mcp.party.origin.replace("http://", "HTTP://")
    world.mcp.metadata["resource"] = origin
    with pytest.raises(AuthError):  # this server takes tokens for its whole URL alone
        call(flavour, world, visitor.oauth())
    assert queries(visitor)[0]["resource"] == origin
    assert world.authority.token_requests()[0]["resource"] == origin


def test_two_users_of_one_client_do_not_mix(flavour: Flavour, world: World) -> None:
    ann, bob = Visitor(world.authority), Visitor(world.authority)
    with flavour.client(world.url, auth=ann.oauth()) as client:
        other = client.with_options(auth=bob.oauth())
        assert client.call_tool("echo", {}).text == other.call_tool("echo", {}).text == "hello"
    assert len(ann.sent_to) == len(bob.sent_to) == 1
    tokens = {asked.header("authorization") for asked in world.mcp.calls()} - {None}
    assert len(tokens) == 2


@pytest.mark.req("A2", "C3")
def test_private_answers_are_for_one_token_and_not_for_the_next(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    def listed(asked: Asked) -> Reply | None:
        if not asked.body or asked.message.get("method") != "tools/list" or not asked.header("authorization"):
            return None
        result = {"tools": [], "resultType": "complete", "ttlMs": 60000, "cacheScope": "private"}
        return Reply(body={"jsonrpc": "2.0", "id": asked.message["id"], "result": result})

    def asked_for_lists() -> int:
        seen = list(world.mcp.party.seen)
        return len([asked for asked in seen if asked.body and asked.message.get("method") == "tools/list"])

    world.mcp.tricks["/mcp"] = listed
    store = MemoryCache()
    first = flavour.client(world.url, auth=visitor.oauth(), cache=store)
    assert first.list_tools() == first.list_tools() == []
    before = asked_for_lists()
    world.authority.tokens.clear()
    first.call_tool("echo", {})  # renews the token
    first.list_tools()
    assert asked_for_lists() == before + 1
    flavour.client(world.url, auth=visitor.oauth(), cache=store).list_tools()
    assert asked_for_lists() == before + 2


@pytest.mark.req("A3")
def test_calls_that_are_refused_at_once_send_the_user_to_log_in_once(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    done = flavour.together(*[lambda: client.call_tool("echo", {}).text] * 10)
    assert done == ["hello"] * 10
    assert len(visitor.sent_to) == 1


@pytest.mark.req("A4")
def test_a_valid_token_costs_a_call_at_most_six_function_calls(world: World, visitor: Visitor) -> None:
    with Client(world.url, auth=visitor.oauth()) as logged_in:
        most = min(python_calls(logged_in) for _ in range(5))
        [token] = world.authority.tokens
        with Client(world.url, auth=token) as plain:
            least = min(python_calls(plain) for _ in range(5))
    assert most - least <= 6


# --- scopes --------------------------------------------------------------------------------------


def test_more_scopes_are_asked_for_together_with_those_of_before(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    world.mcp.scope = "read"
    with flavour.client(world.url, auth=visitor.oauth()) as client:
        client.call_tool("echo", {})
        world.mcp.scope = "write"
        assert client.call_tool("echo", {}).text == "hello"
    assert [asked["scope"] for asked in queries(visitor)] == ["read", "read write"]


@pytest.mark.parametrize("scopes", ["mine yours", ["mine", "yours"]])
def test_the_users_own_scopes_are_asked_for_beside_the_servers(
    flavour: Flavour, world: World, visitor: Visitor, scopes: Any
) -> None:
    world.mcp.scope = "read"
    assert call(flavour, world, visitor.oauth(scopes=scopes)) == "hello"
    assert queries(visitor)[0]["scope"] == "mine yours read"


def test_offline_access_is_asked_for_with_consent_where_it_is_listed(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    world.mcp.metadata["scopes_supported"] = ["read"]
    world.authority.metadata["scopes_supported"] = ["offline_access"]
    assert call(flavour, world, visitor.oauth()) == "hello"
    assert queries(visitor)[0]["scope"] == "read offline_access"
    assert queries(visitor)[0]["prompt"] == "consent"


def test_a_server_that_is_never_satisfied_is_asked_no_more_than_twice(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    world.mcp.scope = "read"
    with flavour.client(world.url, auth=visitor.oauth()) as client:
        client.call_tool("echo", {})
        world.mcp.scope = "write"
        drop_scopes(world)
        for _ in range(3):
            with pytest.raises(AuthStepUpError) as caught:
                client.call_tool("echo", {})
            assert caught.value.status == 403
    assert [asked["scope"] for asked in queries(visitor)] == ["read", "read write"]


def drop_scopes(world: World) -> None:
    """Have the authorization server grant none of the scopes that are asked for."""

    def answer(asked: Any) -> Reply | None:
        for code in world.authority.codes.values():
            code.query = {name: value for name, value in code.query.items() if name != "scope"}
        return None

    world.authority.tricks["/token"] = answer


# --- the answer ----------------------------------------------------------------------------------


def changed(**members: str | None) -> Callable[[str], str]:
    """An answer in which these are different, or left out."""

    def tamper(location: str) -> str:
        head, _, query = location.partition("?")
        given = {name: value for name, [value] in parse_qs(query).items()} | members
        return f"{head}?{urlencode({name: value for name, value in given.items() if value is not None})}"

    return tamper


@pytest.mark.req("A2")
@pytest.mark.parametrize("state", ["another", "", None])
def test_an_answer_with_another_state_is_not_used(flavour: Flavour, world: World, state: str | None) -> None:
    visitor = Visitor(world.authority, tamper=changed(state=state, error="shown", error_description="not shown"))
    error = fail(flavour, world, visitor.oauth(), AuthorizationError)
    assert (error.error, error.description) == (None, None)
    assert world.authority.token_requests() == []


@pytest.mark.req("A6")
@pytest.mark.parametrize("iss", ["https://evil.example", "{issuer}/", "", None])
def test_an_answer_of_another_issuer_is_neither_used_nor_shown(flavour: Flavour, world: World, iss: str | None) -> None:
    stated = iss and iss.format(issuer=world.authority.issuer)
    visitor = Visitor(world.authority, tamper=changed(iss=stated, error="evil", error_description="call 555-0123"))
    error = fail(flavour, world, visitor.oauth(), AuthorizationError)
    assert (error.error, error.description) == (None, None)
    assert "evil" not in str(error)
    assert world.authority.token_requests() == []


def test_an_issuer_that_was_not_promised_may_be_missing(flavour: Flavour, world: World) -> None:
    world.authority.metadata["authorization_response_iss_parameter_supported"] = None
    visitor = Visitor(world.authority, tamper=changed(iss=None))
    assert call(flavour, world, visitor.oauth()) == "hello"


def test_a_refusal_says_what_the_authorization_server_said(flavour: Flavour, world: World) -> None:
    tamper = changed(code=None, error="access_denied", error_description="The user\nsaid no.")
    error = fail(flavour, world, Visitor(world.authority, tamper=tamper).oauth(), AuthorizationError)
    assert error.step == "authorization"
    assert error.error == "access_denied"
    assert error.description == "The user\\nsaid no."
    assert error.url == world.authority.issuer
    assert "said no" not in str(error)


def test_an_answer_without_a_code_is_none(flavour: Flavour, world: World) -> None:
    fail(flavour, world, Visitor(world.authority, tamper=changed(code=None)).oauth(), AuthorizationError)


def test_a_code_that_is_refused_is_an_error_of_the_token_step(flavour: Flavour, world: World) -> None:
    error = fail(flavour, world, Visitor(world.authority, tamper=changed(code="stale")).oauth(), AuthTokenError)
    assert (error.step, error.error, error.status) == ("token", "invalid_grant", 400)
    assert error.url == world.authority.token_url


@pytest.mark.parametrize("methods", [None, [], ["plain"]])
def test_an_authorization_server_without_pkce_is_not_used(
    flavour: Flavour, world: World, visitor: Visitor, methods: list[str] | None
) -> None:
    world.authority.metadata["code_challenge_methods_supported"] = methods
    error = fail(flavour, world, visitor.oauth(), AuthDiscoveryError)
    assert "PKCE" in str(error)
    assert visitor.sent_to == []


@pytest.mark.req("A3")
def test_a_log_in_that_failed_fails_those_who_wait_and_not_the_next_call(flavour: Flavour, world: World) -> None:
    visitor = Visitor(world.authority, tamper=changed(code="stale"))
    client = flavour.client(world.url, auth=visitor.oauth())
    done = flavour.together(*[lambda: client.call_tool("echo", {})] * 4)
    assert [type(each) for each in done] == [AuthTokenError] * 4
    visitor._tamper = lambda location: location
    assert client.call_tool("echo", {}).text == "hello"


# --- as which client -----------------------------------------------------------------------------


@pytest.mark.req("A6")
def test_a_client_id_is_shown_to_the_first_authorization_server_alone_whichever_server_names_another(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    world.authority.clients["mine"] = Registered("s3cr3t", "client_secret_basic")
    oauth = visitor.oauth("mine", "s3cr3t")
    assert call(flavour, world, oauth) == "hello"
    with World() as other:
        error = fail(flavour, other, oauth, AuthRegistrationError)
        assert "client_id belongs to" in str(error)
        assert not [asked for asked in other.authority.party.seen if asked.body or "mine" in asked.target]
    assert len(visitor.sent_to) == 1


def test_a_client_that_was_registered_beforehand_is_used_with_its_secret(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    world.authority.clients["mine"] = Registered("s3cr3t", "client_secret_basic")
    assert call(flavour, world, visitor.oauth("mine", "s3cr3t", issuer=world.authority.issuer)) == "hello"
    assert "POST /register" not in world.authority.party.paths


def test_a_client_may_sign_in_place_of_a_secret_in_later_runs_too(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path
) -> None:
    key = SigningKey.generate()
    public = jwt.PyJWK({**key.public_jwk(), "alg": key.algorithm}).key
    world.authority.clients["mine"] = Registered(None, "private_key_jwt", public, key.algorithm)
    for _ in range(2):
        oauth = visitor.oauth("mine", private_key=key, store=FileStore(tmp_path))
        assert call(flavour, world, oauth) == "hello"
        world.authority.tokens.clear()
    kinds = [form["grant_type"] for form in world.authority.token_requests()]
    assert kinds == ["authorization_code", "refresh_token"]


@pytest.mark.req("A6")
@pytest.mark.parametrize("named", [True, False])
def test_a_client_id_is_never_shown_to_another_authorization_server(
    flavour: Flavour, world: World, visitor: Visitor, named: bool
) -> None:
    world.authority.clients["mine"] = Registered("s3cr3t", "client_secret_basic")
    oauth = visitor.oauth("mine", "s3cr3t", issuer=world.authority.issuer if named else None)
    with flavour.client(world.url, auth=oauth) as client:
        client.call_tool("echo", {})
        world.authority.tokens.clear()
        world.mcp.metadata["authorization_servers"] = [world.stranger.issuer]
        with pytest.raises(AuthRegistrationError, match="another authorization server"):
            client.call_tool("echo", {})
    assert world.stranger.party.seen == []


@pytest.mark.req("A6")
def test_a_client_registers_anew_where_the_authorization_server_changed(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    with flavour.client(world.url, auth=visitor.oauth()) as client:
        client.call_tool("echo", {})
        world.authority.tokens.clear()
        world.mcp.metadata["authorization_servers"] = [world.stranger.issuer]
        world.mcp.authority = world.stranger
        before = len(world.authority.party.seen)
        assert client.call_tool("echo", {}).text == "hello"
    assert "POST /register" in world.stranger.party.paths
    assert {form["grant_type"] for form in world.stranger.token_requests()} == {"authorization_code"}
    assert len(world.authority.party.seen) == before


def test_a_metadata_document_is_the_client_id_where_such_are_read(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    url = "https://app.example/client.json"
    world.authority.metadata["client_id_metadata_document_supported"] = True
    world.authority.clients[url] = Registered()
    assert call(flavour, world, visitor.oauth(client_metadata_url=url)) == "hello"
    assert queries(visitor)[0]["client_id"] == url
    assert "POST /register" not in world.authority.party.paths


def test_where_no_registration_is_possible_the_user_is_told_what_to_give(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    world.authority.metadata["registration_endpoint"] = None
    error = fail(flavour, world, visitor.oauth(), AuthRegistrationError)
    assert "client_id" in str(error)


def test_a_refused_registration_says_why(flavour: Flavour, world: World, visitor: Visitor) -> None:
    world.authority.tricks["/register"] = lambda asked: refuse("invalid_redirect_uri", error_description="https only")
    error = fail(flavour, world, visitor.oauth(), AuthRegistrationError)
    assert (error.error, error.description, error.status) == ("invalid_redirect_uri", "https only", 400)


def test_a_client_that_was_forgotten_is_registered_again_next_time(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    oauth = visitor.oauth()
    world.authority.tricks["/token"] = lambda asked: refuse("invalid_client", 401)
    fail(flavour, world, oauth, AuthTokenError)
    del world.authority.tricks["/token"]
    assert call(flavour, world, oauth) == "hello"
    assert world.authority.party.paths.count("POST /register") == 2


# --- servers of 2025-03-26 -----------------------------------------------------------------------


def test_a_server_that_says_nothing_is_its_own_authorization_server(flavour: Flavour, world: World) -> None:
    """Without any metadata: /authorize, /register and /token at the origin, without the path of the endpoint."""
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        world.mcp.tricks[path] = lambda asked: Reply(404, {})
    world.mcp.challenge = "Bearer"
    for path in ("/register", "/token"):
        world.mcp.tricks[path] = world.authority.party.answer
    visitor = Visitor(world.authority)
    visitor._by_origin[world.mcp.party.origin] = world.authority
    world.authority.metadata["authorization_response_iss_parameter_supported"] = None
    visitor._tamper = changed(iss=None)
    assert call(flavour, world, visitor.oauth()) == "hello"
    assert queries(visitor)[0]["resource"] == world.url
    assert visitor.sent_to[0].startswith(f"{world.mcp.party.origin}/authorize?")


# --- what is refused at once, and what is never shown --------------------------------------------


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"client_secret": "s"}, "client_id"),
        ({"issuer": "https://a.example"}, "client_id"),
        ({"client_id": "c", "token_endpoint_auth_method": "client_secret_basic"}, "client_secret"),
        ({"client_id": "c", "token_endpoint_auth_method": "magic"}, "token_endpoint_auth_method"),
        ({"client_metadata_url": "http://app.example/c.json"}, "client_metadata_url"),
        ({"client_metadata_url": "https://app.example/"}, "client_metadata_url"),
        ({"client_metadata_url": "https://app.example/a/%2e%2E/c.json"}, "dot segments"),
        ({"client_metadata_url": "https://u@app.example/c.json"}, "client_metadata_url"),
        ({"client_metadata": {"redirect_uris": []}}, "redirect_uri"),
        ({"redirect": "not a function"}, "redirect"),
        ({"callback": lambda: ""}, "redirect_uri"),
        ({"redirect_uri": "https://app.example/back"}, "callback"),
        ({"redirect_uri": "http://127.0.0.1/back?x=1"}, "query"),
        (
            {"redirect_uri": "http://app.example/back", "redirect": print, "callback": lambda: ""},
            "https",
        ),
        ({"login_timeout": 0}, "login_timeout"),
        ({"login_timeout": "5"}, "login_timeout"),
        ({"allow_hosts": "one.example"}, "allow_hosts"),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(options: dict[str, Any], part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        OAuth(**options)


@pytest.mark.req("A1")
def test_neither_repr_nor_pickle_shows_a_secret(flavour: Flavour, world: World, visitor: Visitor) -> None:
    world.authority.clients["mine"] = Registered("s3cr3t", "client_secret_basic")
    oauth = visitor.oauth("mine", "s3cr3t")
    assert call(flavour, world, oauth) == "hello"
    [token] = world.authority.tokens
    [memory] = oauth._memories.values()
    shown = repr([oauth, oauth.client, memory.grant, oauth.store])
    assert not any(secret in shown for secret in ("s3cr3t", token, *world.authority.refresh))
    for thing in (oauth, oauth.client, memory.grant, memory.grant and memory.grant.client):
        with pytest.raises(TypeError):
            pickle.dumps(thing)
