"""Tokens for programs, got from a server that checks everything it is sent."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from ferrule import Client
from ferrule.auth import ClientCredentials, EnterpriseManaged, JWTBearer
from ferrule.auth.keys import ALGORITHMS, SigningKey
from ferrule.errors import AuthDiscoveryError, AuthStepUpError, AuthTokenError, ConfigError
from tests.auth.test_concurrency import python_calls
from tests.servers.authority import ID_JAG, ID_TOKEN, JWT_BEARER, SHARED_KEY, TOKEN_EXCHANGE, Registered
from tests.servers.parties import Reply, refuse
from tests.servers.protected import World
from tests.support.clients import Flavour

SECRET = "s3cr3t: with / odd + characters"


@pytest.fixture(params=["stateless", "handshake"])
def era(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


def public(key: SigningKey) -> Any:
    return jwt.PyJWK({**key.public_jwk(), "alg": key.algorithm}).key


def call(flavour: Flavour, world: World, auth: Any, **options: Any) -> str:
    """The text of a tool call."""
    with flavour.client(world.url, auth=auth, **options) as client:
        return client.call_tool("echo", {}).text


def workload_jwt(world: World, **claims: Any) -> str:
    given = {"aud": world.authority.issuer, "sub": "workload", "exp": time.time() + 60, **claims}
    return jwt.encode(given, SHARED_KEY, "HS256")


# --- client credentials ----------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_service_authenticates_with_its_secret(flavour: Flavour, era: str, method: str) -> None:
    with World(era) as world:
        world.authority.clients["me"] = Registered(SECRET, method)
        world.authority.metadata["token_endpoint_auth_methods_supported"] = [method]
        assert call(flavour, world, ClientCredentials("me", SECRET)) == "hello"
        [form] = world.authority.token_requests()
        assert form["grant_type"] == "client_credentials"
        assert form["resource"] == world.url
        assert len(world.mcp.calls()) == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_service_authenticates_with_its_key(flavour: Flavour, world: World, algorithm: str) -> None:
    key = SigningKey.generate(algorithm)
    world.authority.clients["me"] = Registered(None, "private_key_jwt", public(key), algorithm)
    assert call(flavour, world, ClientCredentials("me", private_key=key)) == "hello"
    [form] = world.authority.token_requests()
    assert "client_id" not in form


def test_the_method_that_was_named_is_used_whatever_the_server_lists(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_post")
    auth = ClientCredentials("me", SECRET, token_endpoint_auth_method="client_secret_post")
    assert call(flavour, world, auth) == "hello"


def test_one_token_serves_all_calls_and_all_clients_of_one_flow(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    auth = ClientCredentials("me", SECRET)
    for _ in range(2):
        with flavour.client(world.url, auth=auth) as client:
            for _ in range(3):
                assert client.call_tool("echo", {}).text == "hello"
    assert len(world.authority.token_requests()) == 1


@pytest.mark.req("A3")
def test_calls_that_are_refused_at_once_get_one_token_for_all(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    go = threading.Event()

    def slowly(asked: Any) -> None:
        go.wait(10)

    with flavour.client(world.url, auth=ClientCredentials("me", SECRET)) as client:
        client.connect()
        world.authority.tokens.clear()  # revoked
        world.authority.tricks["/token"] = slowly
        calls = [flavour.start(client.call_tool, "echo", {}) for _ in range(8)]
        while len(world.mcp.calls()) < 8:
            time.sleep(0.001)
        go.set()
        assert [each.result().text for each in calls] == ["hello"] * 8
    assert len(world.authority.token_requests()) == 2


@pytest.mark.req("A3")
def test_a_late_refusal_is_answered_with_the_token_another_client_got_meanwhile(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    auth = ClientCredentials("me", SECRET)
    go = threading.Event()

    def late(asked: Any) -> None:
        if "late" in asked.message.get("params", {}).get("arguments", {}):
            go.wait(10)

    with flavour.client(world.url, auth=auth) as one, flavour.client(world.url, auth=auth) as other:
        one.connect()
        other.connect()
        world.authority.tokens.clear()  # revoked
        world.mcp.tricks["/mcp"] = late
        call = flavour.start(other.call_tool, "echo", {"late": True})
        while not world.mcp.calls():
            time.sleep(0.001)
        assert one.call_tool("echo", {}).text == "hello"
        go.set()
        assert call.result().text == "hello"
    assert len(world.authority.token_requests()) == 2


def test_a_token_is_renewed_before_it_ends_without_a_refused_call(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    world.authority.token_members["expires_in"] = 0
    with flavour.client(world.url, auth=ClientCredentials("me", SECRET)) as client:
        client.connect()
        asked = len(world.authority.token_requests())
        client.call_tool("echo", {})
    assert len(world.mcp.calls()) == 1
    assert len(world.authority.token_requests()) == asked + 1
    assert all(form["grant_type"] == "client_credentials" for form in world.authority.token_requests())


def test_a_refused_secret_is_the_authorization_servers_error_and_fails_one_call(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered("another", "client_secret_basic")
    client = flavour.client(world.url, auth=ClientCredentials("me", SECRET))
    with pytest.raises(AuthTokenError) as caught:
        client.call_tool("echo", {})
    assert caught.value.error == "invalid_client"
    assert caught.value.url == world.authority.token_url
    assert SECRET not in f"{caught.value!r} {caught.value}"
    assert len(world.authority.token_requests()) == 1
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    assert client.call_tool("echo", {}).text == "hello"


@pytest.mark.req("A4")
def test_a_token_at_hand_costs_a_call_at_most_six_function_calls(world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    with Client(world.url, auth=ClientCredentials("me", SECRET)) as client:
        client.call_tool("echo", {})
        [token] = world.authority.tokens
        with Client(world.url, auth=token) as plain:
            least = min(python_calls(plain) for _ in range(5))
            most = min(python_calls(client) for _ in range(5))
    assert most - least <= 6


# --- scopes ----------------------------------------------------------------------------------------


def test_scopes_come_from_the_challenge_and_the_users_own(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    world.mcp.scope = "tools:call"
    assert call(flavour, world, ClientCredentials("me", SECRET, scopes=["mine"])) == "hello"
    [form] = world.authority.token_requests()
    assert form["scope"] == "mine tools:call"


def test_without_a_challenge_the_scopes_are_those_the_server_lists(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    world.mcp.metadata["scopes_supported"] = ["a", "b"]
    assert call(flavour, world, ClientCredentials("me", SECRET)) == "hello"
    [form] = world.authority.token_requests()
    assert form["scope"] == "a b"


def test_a_step_up_asks_for_what_was_granted_and_what_lacks(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    world.mcp.scope = "read"
    with flavour.client(world.url, auth=ClientCredentials("me", SECRET)) as client:
        client.connect()
        world.mcp.scope = "write"
        assert client.call_tool("echo", {}).text == "hello"
    assert [form["scope"] for form in world.authority.token_requests()] == ["read", "read write"]
    assert len(world.mcp.calls()) == 2


def test_a_step_up_that_gains_nothing_ends_after_one_token(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    world.authority.grants = {"read"}
    world.mcp.scope = "read"
    with flavour.client(world.url, auth=ClientCredentials("me", SECRET)) as client:
        client.connect()
        world.mcp.scope = "read write"
        for _ in range(2):
            with pytest.raises(AuthStepUpError) as caught:
                client.call_tool("echo", {})
            assert (caught.value.status, caught.value.error) == (403, "insufficient_scope")
    assert [form["scope"] for form in world.authority.token_requests()] == ["read", "read write"]
    assert len(world.mcp.calls()) == 3


def test_a_server_that_asks_for_ever_more_scopes_gets_one_token_a_call(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")

    def more(asked: Any) -> Reply | None:
        if asked.header("authorization") is None:
            return None
        scope = f"scope-{len(world.mcp.party.seen)}-{'x' * 500}"
        return Reply(403, {}, [("WWW-Authenticate", f'Bearer error="insufficient_scope", scope="{scope}"')])

    with flavour.client(world.url, auth=ClientCredentials("me", SECRET)) as client:
        client.connect()
        world.mcp.tricks["/mcp"] = more
        for calls in range(1, 20):
            with pytest.raises(AuthStepUpError):
                client.call_tool("echo", {})
            assert len(world.authority.token_requests()) <= 1 + calls
    assert all(len(form.get("scope", "")) <= 4096 for form in world.authority.token_requests())
    assert len(world.authority.token_requests()) < 12


# --- whose credentials -----------------------------------------------------------------------------


@pytest.mark.req("A6")
def test_credentials_are_never_shown_to_another_authorization_server(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    with flavour.client(world.url, auth=ClientCredentials("me", SECRET)) as client:
        client.connect()
        world.authority.tokens.clear()
        world.mcp.metadata["authorization_servers"] = [world.stranger.issuer]
        with pytest.raises(AuthDiscoveryError, match="another authorization server"):
            client.call_tool("echo", {})
    assert world.stranger.party.seen == []


@pytest.mark.req("A6")
def test_of_two_servers_at_once_one_has_the_credentials_sent_to_its_authorization_server(flavour: Flavour) -> None:
    together = threading.Barrier(2)

    def meet(asked: Any) -> None:
        together.wait(10)

    service = ClientCredentials("me", SECRET)
    with World() as one, World() as other:
        for world in (one, other):
            world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
            world.authority.tricks["/.well-known/oauth-authorization-server"] = meet
        clients = [flavour.client(world.url, auth=service) for world in (one, other)]
        done = flavour.together(*[lambda client=client: client.call_tool("echo", {}) for client in clients])
        assert sorted(type(each).__name__ for each in done) == ["AuthDiscoveryError", "CallToolResult"]
        assert len(one.authority.token_requests()) + len(other.authority.token_requests()) == 1


@pytest.mark.req("A6")
def test_the_issuer_that_was_named_is_the_only_one_that_is_asked(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    world.mcp.metadata["authorization_servers"] = [world.stranger.issuer, world.authority.issuer]
    assert call(flavour, world, ClientCredentials("me", SECRET, issuer=world.authority.issuer)) == "hello"
    assert world.stranger.party.seen == []
    with pytest.raises(AuthDiscoveryError, match="another authorization server"):
        call(flavour, world, ClientCredentials("me", SECRET, issuer="https://third.example"))


# --- assertions ------------------------------------------------------------------------------------


def test_a_workload_shows_the_jwt_that_its_platform_signed(flavour: Flavour, era: str) -> None:
    with World(era) as world:
        world.authority.clients["me"] = Registered()
        assertion = workload_jwt(world)
        assert call(flavour, world, JWTBearer(assertion, client_id="me")) == "hello"
        [form] = world.authority.token_requests()
        assert form == {
            "grant_type": JWT_BEARER,
            "assertion": assertion,
            "client_id": "me",
            "resource": world.url,
        }


def test_an_assertion_without_a_client_goes_alone(flavour: Flavour, world: World) -> None:
    forms: list[dict[str, str]] = []

    def take(asked: Any) -> Reply:
        forms.append(asked.form)
        return refuse("invalid_client", 401)

    world.authority.tricks["/token"] = take
    with pytest.raises(AuthTokenError):
        call(flavour, world, JWTBearer(workload_jwt(world)))
    assert sorted(forms[0]) == ["assertion", "grant_type", "resource"]


def test_a_function_is_asked_for_each_token_with_the_issuer(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered()
    audiences: list[str] = []

    def platform(audience: str) -> str:
        audiences.append(audience)
        return workload_jwt(world)

    async def platform_async(audience: str) -> str:
        return platform(audience)

    function: Callable[[str], Any] = platform_async if flavour.is_async else platform
    with flavour.client(world.url, auth=JWTBearer(function, client_id="me")) as client:
        client.call_tool("echo", {})
        world.authority.tokens.clear()
        client.call_tool("echo", {})
    assert audiences == [world.authority.issuer] * 2


def test_a_file_is_read_anew_for_each_token(flavour: Flavour, world: World, tmp_path: Path) -> None:
    world.authority.clients["me"] = Registered()
    path = tmp_path / "token"
    path.write_text(workload_jwt(world, n=1) + "\n")
    with flavour.client(world.url, auth=JWTBearer(path, client_id="me")) as client:
        client.call_tool("echo", {})
        path.write_text(workload_jwt(world, n=2) + "\n")
        world.authority.tokens.clear()
        client.call_tool("echo", {})
    sent = [
        jwt.decode(form["assertion"], options={"verify_signature": False})["n"]
        for form in world.authority.token_requests()
    ]
    assert sent == [1, 2]


@pytest.mark.parametrize("claims", [{"aud": "https://other.example"}, {"exp": 1}], ids=["audience", "expired"])
def test_a_refused_assertion_is_sent_once_and_no_other_grant_is_tried(
    flavour: Flavour, world: World, claims: dict[str, Any]
) -> None:
    world.authority.clients["me"] = Registered()
    with pytest.raises(AuthTokenError) as caught:
        call(flavour, world, JWTBearer(workload_jwt(world, **claims), client_id="me"))
    assert caught.value.error == "invalid_grant"
    assert len(world.authority.token_requests()) == 1
    assert not caught.value.request_sent


@pytest.mark.parametrize("given", ["", " \n", "x" * 70000], ids=["empty", "blank", "long"])
def test_what_is_no_assertion_is_a_mistake_of_the_caller_and_is_not_sent(
    flavour: Flavour, world: World, given: str, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text(given)
    for assertion in (path, lambda audience: given):
        with pytest.raises(ConfigError, match="assertion: expected 1 to 65536 characters"):
            call(flavour, world, JWTBearer(assertion, client_id="me"))
    with pytest.raises(ConfigError, match="must return a str, not bytes"):
        call(flavour, world, JWTBearer(lambda audience: b"x", client_id="me"))  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match=r"the file cannot be read \(FileNotFoundError\)"):
        call(flavour, world, JWTBearer(tmp_path / "nothing", client_id="me"))
    assert world.authority.token_requests() == []


# --- the enterprise --------------------------------------------------------------------------------


def enterprise(world: World, **options: Any) -> EnterpriseManaged:
    world.idp.clients["at-idp"] = Registered("idp-secret", "client_secret_post")
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    given = {
        "idp_token_endpoint": world.idp.token_url,
        "idp_client_id": "at-idp",
        "idp_client_secret": "idp-secret",
        "client_id": "me",
        "client_secret": SECRET,
        **options,
    }
    return EnterpriseManaged("id-token-of-the-user", **given)


def test_a_users_log_in_becomes_a_grant_and_the_grant_a_token(flavour: Flavour, era: str) -> None:
    with World(era) as world:
        world.mcp.scope = "chat.read"
        assert call(flavour, world, enterprise(world)) == "hello"
        [exchange] = world.idp.token_requests()
        assert exchange == {
            "grant_type": TOKEN_EXCHANGE,
            "requested_token_type": ID_JAG,
            "audience": world.authority.issuer,
            "resource": world.url,
            "scope": "chat.read",
            "subject_token": "id-token-of-the-user",
            "subject_token_type": ID_TOKEN,
            "client_id": "at-idp",
            "client_secret": "idp-secret",
        }
        [form] = world.authority.token_requests()
        assert form["grant_type"] == JWT_BEARER
        assert "subject_token" not in form


def test_a_new_token_takes_both_legs_again(flavour: Flavour, world: World) -> None:
    asked: list[str] = []

    def log_in(audience: str) -> str:
        asked.append(audience)
        return "id-token-of-the-user"

    auth = enterprise(world)
    auth._subject = log_in
    with flavour.client(world.url, auth=auth) as client:
        client.call_tool("echo", {})
        world.authority.tokens.clear()
        client.call_tool("echo", {})
    assert len(world.idp.token_requests()) == len(world.authority.token_requests()) == 2
    assert asked == [world.idp.token_url] * 2


@pytest.mark.req("A2")
@pytest.mark.parametrize("kind", ["urn:ietf:params:oauth:token-type:access_token", None])
def test_what_the_identity_provider_gives_must_be_a_grant(flavour: Flavour, world: World, kind: str | None) -> None:
    world.idp.token_members["issued_token_type"] = kind
    with pytest.raises(AuthTokenError, match="something else than a grant") as caught:
        call(flavour, world, enterprise(world))
    assert caught.value.url == world.idp.token_url
    assert world.authority.token_requests() == []


def test_a_policy_that_says_no_is_the_identity_providers_error(flavour: Flavour, world: World) -> None:
    world.idp.tricks["/token"] = lambda asked: refuse("invalid_grant", error_description="policy\x1b[2J")
    with pytest.raises(AuthTokenError) as caught:
        call(flavour, world, enterprise(world))
    assert (caught.value.error, caught.value.description) == ("invalid_grant", "policy\\x1b[2J")
    assert world.authority.token_requests() == []


# --- mistakes of the caller ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ClientCredentials("me"), "client_secret or private_key is needed"),
        (lambda: ClientCredentials("me", "s", private_key="p"), "not both"),
        (lambda: ClientCredentials("me", "s", token_endpoint_auth_method="tls"), "must be one of"),
        (lambda: ClientCredentials("me", "s", token_endpoint_auth_method="private_key_jwt"), "needs private_key"),
        (
            lambda: ClientCredentials("me", private_key=SigningKey.generate(), algorithm="RS256"),
            "cannot sign with RS256",
        ),
        (lambda: ClientCredentials("me", private_key=SigningKey.generate(), key_id="k"), "has another one"),
        (lambda: JWTBearer(b"x"), "expected a str, a pathlib.Path or a function"),  # type: ignore[arg-type]
        (lambda: JWTBearer("x", client_secret="s"), "need client_id"),
        (
            lambda: EnterpriseManaged(
                "x", idp_token_endpoint="https://i", idp_client_id="a", client_id="b", subject_token_type="jwt"
            ),
            "expected one of id_token, saml2",
        ),
        (lambda: ClientCredentials("me", "s", allow_hosts="a"), "not one str"),
    ],
)
def test_arguments_that_contradict_each_other_are_named_at_once(make: Callable[[], Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        make()


@pytest.mark.req("A1")
def test_a_flow_shows_and_pickles_nothing_of_its_credentials(flavour: Flavour, world: World) -> None:
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    auth = ClientCredentials("me", SECRET)
    with flavour.client(world.url, auth=auth) as client:
        client.call_tool("echo", {})
        shown = repr(auth) + repr(client)
    assert not [secret for secret in (SECRET, *world.authority.tokens) if secret in shown]
    assert repr(auth) == "<ClientCredentials: 1 servers>"
    for each in (auth, JWTBearer("a", client_id="b"), enterprise(world)):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(each)
