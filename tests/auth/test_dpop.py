"""Tokens bound to a key, over every way of getting one, judged by servers that check each proof."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import jwt
import pytest

from ferrule.auth import Auth, BearerAuth, ClientCredentials, DPoP, JWTBearer
from ferrule.auth.keys import ALGORITHMS, SigningKey
from ferrule.errors import AuthChallengeError, AuthError, AuthTokenError, ConfigError
from tests.auth.browsing import Visitor
from tests.servers.authority import SHARED_KEY, Granted, Registered
from tests.servers.parties import Reply
from tests.servers.protected import World
from tests.support.clients import Flavour


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        world.authority.clients["me"] = Registered("secret", "client_secret_basic")
        yield world


def service() -> ClientCredentials:
    return ClientCredentials("me", "secret")


def proof(asked: Any) -> dict[str, Any]:
    """The claims of the proof of one request."""
    return dict(jwt.decode(asked.header("dpop"), options={"verify_signature": False}))


@pytest.mark.req("A2")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_every_request_carries_the_bound_token_and_a_fresh_proof(flavour: Flavour, era: str) -> None:
    with World(era) as world:
        world.authority.clients["me"] = Registered("secret", "client_secret_basic")
        with flavour.client(world.url, auth=DPoP(service())) as client:
            for _ in range(3):
                assert client.call_tool("echo", {}).text == "hello"
        with_token = [asked for asked in world.mcp.party.seen if asked.header("authorization")]
        assert {asked.header("authorization").partition(" ")[0] for asked in with_token} == {"DPoP"}  # type: ignore[union-attr]
        assert len({proof(asked)["jti"] for asked in with_token}) == len(with_token) >= 3
        assert len(world.authority.token_requests()) == 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_new_key_signs_with_what_the_authorization_server_takes(
    flavour: Flavour, world: World, algorithm: str
) -> None:
    world.authority.metadata["dpop_signing_alg_values_supported"] = ["PS256", algorithm]
    with flavour.client(world.url, auth=DPoP(service())) as client:
        assert client.call_tool("echo", {}).text == "hello"
    [asked] = world.mcp.calls()
    assert jwt.get_unverified_header(asked.header("dpop") or "")["alg"] == algorithm


@pytest.mark.parametrize("offered", [["none"], ["HS256", "PS256"], []])
def test_a_server_that_takes_none_of_our_algorithms_is_sent_no_proof(
    flavour: Flavour, world: World, offered: list[str]
) -> None:
    world.authority.metadata["dpop_signing_alg_values_supported"] = offered
    client = flavour.client(world.url, auth=DPoP(service()))
    with pytest.raises(AuthTokenError, match="none of ES256, EdDSA, RS256"):
        client.call_tool("echo", {})
    assert world.authority.token_requests() == []


def test_the_callers_key_is_used_and_the_token_is_bound_to_it(flavour: Flavour, world: World) -> None:
    key = SigningKey.generate("EdDSA")
    with flavour.client(world.url, auth=DPoP(service(), private_key=key)) as client:
        client.call_tool("echo", {})
    assert {granted.jkt for granted in world.authority.tokens.values()} == {key.thumbprint()}


def test_the_authorization_servers_nonce_is_in_the_second_request(flavour: Flavour, world: World) -> None:
    world.authority.nonce = "as-nonce"
    with flavour.client(world.url, auth=DPoP(service())) as client:
        assert client.call_tool("echo", {}).text == "hello"
        assert len(world.authority.token_requests()) == 2
        world.authority.tokens.clear()
        client.call_tool("echo", {})
    # The nonce is known by then.
    assert len(world.authority.token_requests()) == 3
    proofs = [proof(asked) for asked in world.authority.party.seen if asked.path == "/token"]
    assert [each.get("nonce") for each in proofs] == [None, "as-nonce", "as-nonce"]
    assert len({each["jti"] for each in proofs}) == 3


@pytest.mark.req("R2")
def test_the_servers_nonce_has_the_request_sent_once_more(flavour: Flavour, world: World) -> None:
    with flavour.client(world.url, auth=DPoP(service())) as client:
        client.connect()
        world.mcp.nonce = "rs-1"
        assert client.call_tool("echo", {}).text == "hello"
        assert [proof(asked).get("nonce") for asked in world.mcp.calls()] == [None, "rs-1"]
        world.mcp.nonce = "rs-2"
        assert client.call_tool("echo", {}).text == "hello"
    assert [proof(asked).get("nonce") for asked in world.mcp.calls()] == [None, "rs-1", "rs-1", "rs-2"]
    assert len(world.authority.token_requests()) == 1


@pytest.mark.req("R2")
def test_calls_that_lack_one_nonce_at_once_are_all_sent_once_more(flavour: Flavour, world: World) -> None:
    together = threading.Barrier(5)

    def hold_until_all_are_there(asked: Any) -> None:
        if asked.message.get("method") == "tools/call" and "nonce" not in proof(asked):
            together.wait(10)

    with flavour.client(world.url, auth=DPoP(service())) as client:
        client.connect()
        world.mcp.nonce = "rs-1"
        world.mcp.tricks["/mcp"] = hold_until_all_are_there
        calls = [flavour.start(client.call_tool, "echo", {}) for _ in range(5)]
        assert [call.result().text for call in calls] == ["hello"] * 5
    assert [proof(asked).get("nonce") for asked in world.mcp.calls()] == [None] * 5 + ["rs-1"] * 5


@pytest.mark.req("A3")
def test_a_bound_token_that_does_not_help_is_not_renewed_call_after_call(flavour: Flavour, world: World) -> None:
    with flavour.client(world.url, auth=DPoP(service())) as client:
        client.connect()
        before = len(world.authority.token_requests())
        world.mcp.tricks["/mcp"] = lambda asked: Reply(401, {}, [("WWW-Authenticate", "DPoP")])
        for _ in range(3):
            with pytest.raises(AuthChallengeError):
                client.call_tool("echo", {})
    assert len(world.authority.token_requests()) - before == 1


@pytest.mark.req("A3")
def test_a_late_refusal_of_an_old_token_takes_the_new_one(flavour: Flavour, world: World) -> None:
    go = threading.Event()

    def hold_the_first_call(asked: Any) -> None:
        if asked.message.get("method") == "tools/call" and len(world.mcp.calls()) == 1:
            go.wait(10)

    with flavour.client(world.url, auth=DPoP(service())) as client:
        client.connect()
        world.authority.tokens.clear()
        world.mcp.tricks["/mcp"] = hold_the_first_call
        held = flavour.start(client.call_tool, "echo", {})
        while not world.mcp.calls():
            time.sleep(0.001)
        assert client.call_tool("echo", {}).text == "hello"
        go.set()
        assert held.result().text == "hello"
    assert len(world.authority.token_requests()) == 2


def test_a_server_that_always_wants_another_nonce_is_not_asked_for_ever(flavour: Flavour, world: World) -> None:
    with flavour.client(world.url, auth=DPoP(service())) as client:
        client.connect()
        before = len(world.mcp.party.seen)

        def another(asked: Any) -> None:
            world.mcp.nonce = f"nonce-{len(world.mcp.party.seen)}"

        world.mcp.tricks["/mcp"] = another
        with pytest.raises(AuthError):
            client.call_tool("echo", {})
    assert len(world.mcp.party.seen) - before <= 3


@pytest.mark.req("A2")
@pytest.mark.parametrize("claimed", ["Bearer", "bearer", None])
def test_a_token_that_is_not_bound_is_never_sent(flavour: Flavour, world: World, claimed: str | None) -> None:
    world.authority.token_members["token_type"] = claimed
    with (
        pytest.raises(AuthTokenError, match="not bound to the key"),
        flavour.client(world.url, auth=DPoP(service())) as client,
    ):
        client.call_tool("echo", {})
    assert not [asked for asked in world.mcp.party.seen if asked.header("authorization")]


@pytest.mark.req("A2")
def test_a_bound_token_is_never_sent_without_proofs(flavour: Flavour, world: World) -> None:
    world.authority.token_members["token_type"] = "DPoP"
    with (
        pytest.raises(AuthTokenError, match=r"needs DPoP\(\.\.\.\) around"),
        flavour.client(world.url, auth=service()) as client,
    ):
        client.call_tool("echo", {})
    assert not [asked for asked in world.mcp.party.seen if asked.header("authorization")]


def test_a_token_from_elsewhere_is_proven_with_the_key_it_is_bound_to(flavour: Flavour, world: World) -> None:
    key = SigningKey.generate()
    world.authority.tokens["from-elsewhere"] = Granted("me", world.url, jkt=key.thumbprint())

    class Given(Auth):
        def headers(self, request: Any) -> list[tuple[str, str]]:
            return [("Authorization", "DPoP from-elsewhere")]

    with flavour.client(world.url, auth=DPoP(Given(), private_key=key)) as client:
        assert client.call_tool("echo", {}).text == "hello"


def test_the_layer_works_over_assertions_too(flavour: Flavour, world: World) -> None:
    claims = {"aud": world.authority.issuer, "exp": time.time() + 60}
    world.authority.clients["me"] = Registered()
    auth = DPoP(JWTBearer(jwt.encode(claims, SHARED_KEY, "HS256"), client_id="me"))
    with flavour.client(world.url, auth=auth) as client:
        assert client.call_tool("echo", {}).text == "hello"


@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_users_tokens_are_bound_from_the_authorization_request_on(flavour: Flavour, era: str) -> None:
    with World(era) as world:
        world.authority.metadata["dpop_signing_alg_values_supported"] = ["EdDSA"]
        world.authority.nonce, world.mcp.nonce = "as-nonce", "rs-nonce"
        visitor = Visitor(world.authority)
        with flavour.client(world.url, auth=DPoP(visitor.oauth())) as client:
            assert client.call_tool("echo", {}).text == "hello"
            # A refreshed token is bound to the same key.
            world.authority.tokens.clear()
            assert client.call_tool("echo", {}).text == "hello"
        [url] = visitor.sent_to
        [granted] = world.authority.tokens.values()
        assert dict(parse_qsl(urlsplit(url).query))["dpop_jkt"] == granted.jkt
        grants = [form["grant_type"] for form in world.authority.token_requests()]
        assert grants == ["authorization_code", "authorization_code", "refresh_token"]
        with_token = [asked for asked in world.mcp.party.seen if asked.header("authorization")]
        assert {jwt.get_unverified_header(asked.header("dpop") or "")["alg"] for asked in with_token} == {"EdDSA"}


def test_mistakes_of_the_caller_are_named_at_once() -> None:
    inner = service()
    DPoP(inner)
    with pytest.raises(ConfigError, match="belongs to another DPoP"):
        DPoP(inner)
    with pytest.raises(ConfigError, match="needs private_key"):
        DPoP(BearerAuth("token"))
    with pytest.raises(ConfigError, match="expected one of ES256, EdDSA, RS256"):
        DPoP(service(), algorithm="HS256")
    with pytest.raises(ConfigError, match="a key for ES256 cannot sign with RS256"):
        DPoP(service(), private_key=SigningKey.generate("ES256"), algorithm="RS256")


def test_without_the_library_the_error_names_the_extra() -> None:
    program = """
import sys
sys.modules["cryptography"] = None
from ferrule.auth import ClientCredentials, DPoP
from ferrule.errors import ConfigError
for make in (lambda: DPoP(ClientCredentials("me", "s")), lambda: ClientCredentials("me", private_key="x")):
    try:
        make()
    except ConfigError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count("pip install 'ferrule[crypto]'") == 2


def test_flows_that_sign_nothing_load_no_cryptography() -> None:
    program = """
import sys, json
from ferrule.auth import ClientCredentials, JWTBearer
ClientCredentials("me", "secret"), JWTBearer("x")
print(json.dumps([name for name in sys.modules if name.partition(".")[0] in ("cryptography", "asyncio", "ssl")]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.req("A1")
def test_the_layer_shows_and_pickles_nothing_of_its_key() -> None:
    auth = DPoP(service())
    assert repr(auth) == "<DPoP over <ClientCredentials: 0 servers>>"
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(auth)
