"""Staying logged in: tokens are renewed in time, once, by one party alone, and kept between runs."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from ferrule import AsyncClient
from ferrule.auth import FileStore, MemoryStore, TokenStore
from ferrule.auth.kept import Grant, Shelf, renewal_time, server_key
from ferrule.auth.token_endpoint import ClientIdentity
from ferrule.auth.tokens import Token
from ferrule.errors import AuthTokenError, ConfigError
from tests.auth.browsing import Visitor
from tests.auth.conftest import Clock
from tests.io.drivers import Driver
from tests.servers.parties import Reply, refuse
from tests.servers.protected import World
from tests.support.clients import Flavour

HOUR = 3600.0


def grants(world: World) -> list[str]:
    """The kinds of token requests so far."""
    return [form["grant_type"] for form in world.authority.token_requests()]


def call(client: Any) -> str:
    text: str = client.call_tool("echo", {}).text
    return text


# --- when ----------------------------------------------------------------------------------------


def test_a_token_is_renewed_ahead_of_its_end_and_no_request_is_refused(
    flavour: Flavour, world: World, visitor: Visitor, clock: Clock
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    clock.ahead = HOUR - 90
    call(client)
    assert grants(world) == ["authorization_code"]
    clock.ahead = HOUR - 50
    refused = len([asked for asked in world.mcp.party.seen if asked.header("authorization") is None])
    call(client)
    assert grants(world) == ["authorization_code", "refresh_token"]
    assert len([asked for asked in world.mcp.party.seen if asked.header("authorization") is None]) == refused
    assert len(visitor.sent_to) == 1


def test_a_token_that_was_revoked_is_renewed_when_it_is_refused(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    for _ in range(2):  # the second time with the refresh token that came of the first
        world.authority.tokens.clear()
        assert call(client) == "hello"
    assert grants(world) == ["authorization_code", "refresh_token", "refresh_token"]
    used = [form["refresh_token"] for form in world.authority.token_requests()[1:]]
    assert len(set(used)) == 2
    assert {form["resource"] for form in world.authority.token_requests()} == {world.url}
    assert len(visitor.sent_to) == 1


def test_a_refresh_token_that_is_not_replaced_stays_good(flavour: Flavour, world: World, visitor: Visitor) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    refresh_tokens = dict(world.authority.refresh)
    world.authority.token_members["refresh_token"] = None
    for _ in range(2):
        world.authority.tokens.clear()
        world.authority.refresh.update(refresh_tokens)
        assert call(client) == "hello"
    assert grants(world) == ["authorization_code", "refresh_token", "refresh_token"]


def test_a_refresh_token_that_is_refused_sends_the_user_to_log_in(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    world.mcp.scope = "read"
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    world.authority.tokens.clear()
    world.authority.refresh.clear()
    world.mcp.scope = ""
    assert call(client) == "hello"
    assert grants(world) == ["authorization_code", "refresh_token", "authorization_code"]
    assert "scope=read" in visitor.sent_to[1]


def test_a_refused_token_is_not_renewed_where_the_server_wants_more_than_it_was_asked_for(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    world.mcp.scope = "read"
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    world.authority.tokens.clear()
    world.mcp.scope = "read write"
    assert call(client) == "hello"
    assert grants(world) == ["authorization_code", "authorization_code"]


def test_without_a_refresh_token_a_token_is_used_to_its_end_and_then_the_user_is_asked(
    flavour: Flavour, world: World, visitor: Visitor, clock: Clock
) -> None:
    world.authority.token_members["refresh_token"] = None
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    clock.ahead = HOUR - 5
    call(client)
    assert len(visitor.sent_to) == 1
    clock.ahead = HOUR + 5
    call(client)
    assert grants(world) == ["authorization_code", "authorization_code"]


def test_a_token_without_an_end_is_used_until_it_is_refused(
    flavour: Flavour, world: World, visitor: Visitor, clock: Clock
) -> None:
    world.authority.token_members["expires_in"] = None
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    clock.ahead = 1e9
    call(client)
    assert grants(world) == ["authorization_code"]


def test_a_token_that_ends_at_once_is_not_renewed_for_ever(flavour: Flavour, world: World, visitor: Visitor) -> None:
    world.authority.token_members["expires_in"] = 0
    client = flavour.client(world.url, auth=visitor.oauth())
    assert call(client) == "hello"
    assert len(grants(world)) < 4


def test_a_renewal_that_fails_in_passing_leaves_a_good_token_in_use(
    flavour: Flavour, world: World, visitor: Visitor, clock: Clock
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    clock.ahead = HOUR - 50
    world.authority.tricks["/token"] = lambda asked: Reply(503, {})
    assert call(client) == "hello"
    assert call(client) == "hello"
    assert grants(world) == ["authorization_code", "refresh_token"]  # not with every call
    del world.authority.tricks["/token"]
    clock.ahead = HOUR - 15
    assert call(client) == "hello"
    assert grants(world)[-1] == "refresh_token"
    assert len(visitor.sent_to) == 1


def test_a_renewal_that_fails_when_the_token_is_over_is_an_error(
    flavour: Flavour, world: World, visitor: Visitor, clock: Clock
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    clock.ahead = HOUR + 5
    world.authority.tricks["/token"] = lambda asked: Reply(503, {})
    calls = len(world.mcp.calls())
    with pytest.raises(AuthTokenError) as caught:
        call(client)
    assert (caught.value.status, caught.value.request_sent) == (503, False)
    assert len(world.mcp.calls()) == calls


@pytest.mark.parametrize(
    ("expires_at", "refresh", "when"),
    [(None, "r", float("inf")), (1000.0, None, 1000.0), (1000.0, "r", 940.0), (100.0, "r", 90.0), (0.0, "r", 1.0)],
)
def test_a_tenth_of_a_tokens_life_is_left_when_it_is_renewed_and_a_minute_at_most(
    expires_at: float | None, refresh: str | None, when: float
) -> None:
    assert renewal_time(Token("t", expires_at=expires_at, refresh_token=refresh), 0.0) == when


# --- once ----------------------------------------------------------------------------------------


@pytest.mark.req("A3")
def test_ten_calls_with_a_revoked_token_renew_it_once(flavour: Flavour, world: World, visitor: Visitor) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    world.authority.tokens.clear()
    assert flavour.together(*[lambda: call(client)] * 10) == ["hello"] * 10
    assert grants(world) == ["authorization_code", "refresh_token"]


@pytest.mark.req("A3")
def test_ten_calls_with_an_old_token_renew_it_once(
    flavour: Flavour, world: World, visitor: Visitor, clock: Clock
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    clock.ahead = HOUR + 5
    assert flavour.together(*[lambda: call(client)] * 10) == ["hello"] * 10
    assert grants(world) == ["authorization_code", "refresh_token"]


@pytest.mark.req("A3")
def test_a_waiter_that_is_cancelled_strands_nobody(world: World, visitor: Visitor) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        asked.set()
        assert go_on.wait(20)

    async def scenario() -> None:
        async with AsyncClient(world.url, auth=visitor.oauth()) as client:
            world.authority.tokens.clear()
            world.authority.tricks["/token"] = hold
            first, *others = [asyncio.ensure_future(client.call_tool("echo", {})) for _ in range(4)]
            await asyncio.to_thread(asked.wait, 20)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            go_on.set()
            assert [result.text for result in await asyncio.gather(*others)] == ["hello"] * 3

    asyncio.run(scenario())
    assert grants(world) == ["authorization_code", "refresh_token"]


# --- by one party, and between runs --------------------------------------------------------------


def test_what_is_kept_in_a_file_serves_the_next_run(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path
) -> None:
    with flavour.client(world.url, auth=visitor.oauth(store=FileStore(tmp_path))) as client:
        call(client)
    seen = len(world.authority.party.seen)
    refused = len(world.mcp.party.seen)
    with flavour.client(world.url, auth=Visitor().oauth(store=FileStore(tmp_path))) as client:
        assert call(client) == "hello"
    assert len(world.authority.party.seen) == seen
    assert all(asked.header("authorization") for asked in world.mcp.party.seen[refused:])


def test_the_registration_of_an_earlier_run_is_used_again(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path
) -> None:
    for _ in range(2):
        with flavour.client(world.url, auth=visitor.oauth(store=FileStore(tmp_path))) as client:
            call(client)
        world.authority.tokens.clear()
        world.authority.refresh.clear()
    assert grants(world) == ["authorization_code", "refresh_token", "authorization_code"]
    assert world.authority.party.paths.count("POST /register") == 1


@pytest.mark.req("A3")
def test_of_two_parties_with_one_file_one_uses_the_refresh_token(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path
) -> None:
    ones = [flavour.client(world.url, auth=visitor.oauth(store=FileStore(tmp_path))) for _ in range(3)]
    for client in ones:
        call(client)
    assert grants(world) == ["authorization_code"]
    world.authority.tokens.clear()
    assert flavour.together(*[lambda client=client: call(client) for client in ones]) == ["hello"] * 3
    assert grants(world) == ["authorization_code", "refresh_token"]
    assert len(visitor.sent_to) == 1


@pytest.mark.req("A6")
def test_what_another_client_id_was_given_is_not_used(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path
) -> None:
    with flavour.client(world.url, auth=visitor.oauth(store=FileStore(tmp_path))) as client:
        call(client)
    world.authority.clients["mine"] = world.authority.clients["client-0"]
    with flavour.client(world.url, auth=visitor.oauth("mine", store=FileStore(tmp_path))) as client:
        assert call(client) == "hello"
    assert len(visitor.sent_to) == 2
    assert "client_id=mine" in visitor.sent_to[1]


@pytest.mark.req("A1")
def test_the_users_own_secret_is_not_written_down(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path
) -> None:
    from tests.servers.authority import Registered

    world.authority.clients["mine"] = Registered("s3cr3t", "client_secret_basic")
    for _ in range(2):
        oauth = visitor.oauth("mine", "s3cr3t", store=FileStore(tmp_path))
        with flavour.client(world.url, auth=oauth) as client:
            assert call(client) == "hello"
        world.authority.tokens.clear()
    assert grants(world) == ["authorization_code", "refresh_token"]
    assert not [path for path in tmp_path.iterdir() if "s3cr3t" in path.read_text()]


@pytest.mark.parametrize("text", ["", "no JSON", "[]", '{"version": 99}', '{"version": 1, "client": {}, "token": 5}'])
def test_what_is_not_understood_in_a_store_counts_as_not_there(
    flavour: Flavour, world: World, visitor: Visitor, tmp_path: Path, text: str
) -> None:
    with flavour.client(world.url, auth=visitor.oauth(store=FileStore(tmp_path))) as client:
        call(client)
    for path in tmp_path.glob("*.json"):
        path.write_text(text)
    with flavour.client(world.url, auth=visitor.oauth(store=FileStore(tmp_path))) as client:
        assert call(client) == "hello"
    assert len(visitor.sent_to) == 2


class Broken(MemoryStore):
    """A store whose disk is full."""

    __slots__ = ()

    def save(self, key: str, text: str) -> None:
        raise OSError(f"disk full: {text}")


def test_a_store_that_fails_is_said_without_what_it_was_to_keep(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth(store=Broken()))
    with pytest.raises(ConfigError) as caught:
        call(client)
    assert str(caught.value).endswith("the token store failed: OSError")


class Remote(TokenStore):
    """A store that has to be waited for."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    async def load(self, key: str) -> str | None:  # type: ignore[override]
        await asyncio.sleep(0)
        return self.kept.get(key)

    async def save(self, key: str, text: str) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.kept[key] = text

    async def delete(self, key: str) -> None:  # type: ignore[override]
        self.kept.pop(key, None)


def test_a_store_may_be_waited_for_by_the_asynchronous_client_alone(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth(store=Remote()))
    if flavour.is_async:
        assert call(client) == "hello"
    else:
        with pytest.raises(ConfigError, match="AsyncClient"):
            call(client)


class Slow(MemoryStore):
    """A store that must not be called on an event loop."""

    __slots__ = ("threads",)
    blocks = True

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[str] = set()

    def load(self, key: str) -> str | None:
        self.threads.add(threading.current_thread().name)
        return super().load(key)


def test_a_store_that_blocks_is_called_off_the_event_loop(world: World, visitor: Visitor) -> None:
    store = Slow()

    async def scenario() -> None:
        async with AsyncClient(world.url, auth=visitor.oauth(store=store)) as client:
            assert (await client.call_tool("echo", {})).text == "hello"

    asyncio.run(scenario())
    assert threading.current_thread().name not in store.threads


def test_a_claim_of_another_process_is_waited_for_until_the_deadline(driver: Driver, tmp_path: Path) -> None:
    from ferrule._io import Expired

    async def scenario(io: Any) -> None:
        shelf, other = (Shelf(io, FileStore(tmp_path), "server") for _ in range(2))
        claim = await other.claim("issuer", io.now() + 1)
        with pytest.raises(Expired):
            await shelf.claim("issuer", io.now() + 0.2)
        await other.let_go(claim)
        await shelf.let_go(await shelf.claim("issuer", io.now() + 1))

    driver.run(scenario)


@pytest.mark.req("A6")
def test_an_entry_comes_back_as_it_was_kept(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        store = MemoryStore()
        shelf = Shelf(io, store, "server")
        client = ClientIdentity("id", "secret", "client_secret_post", None, "http://127.0.0.1:1/callback", "a b", 7.0)
        token = Token("access", "dpop", 5.0, "refresh", "a", "issuer", "resource")
        grant = Grant(token, "issuer", client, "a b", 4.0)
        await shelf.save("issuer", client, grant, None)
        assert await shelf.load("issuer", None) == (client, grant)
        assert await shelf.load("issuer", "another") == (None, None)
        assert (await shelf.last_issuer(None), await shelf.last_issuer("another")) == ("issuer", None)
        assert grant.headers == [("Authorization", "DPoP access")]
        assert all(json.loads(text)["version"] == 1 for text in store._texts.values())
        await shelf.forget("issuer")
        assert await shelf.load("issuer", None) == (None, None)

    driver.run(scenario)


def test_tenants_that_a_query_tells_apart_are_kept_apart_without_the_query() -> None:
    from ferrule._http.url import parse_url

    one, two, none = (parse_url(f"https://a.example/mcp{query}") for query in ("?key=1", "?key=2", ""))
    keys = {server_key(url, "https://a.example/mcp") for url in (one, two, none)}
    assert len(keys) == 3
    assert not any("key=" in key for key in keys)


# --- whom an answer belongs to -------------------------------------------------------------------


@pytest.mark.req("C3")
def test_each_token_is_a_context_of_its_own_to_a_cache(world: World, visitor: Visitor) -> None:
    from ferrule import Client

    oauth = visitor.oauth()
    with Client(world.url, auth=oauth) as client:
        transport: Any = client._session.transport
        partition = transport._fresh.partition
        call(client)
        first = partition()
        world.authority.tokens.clear()
        call(client)
        renewed = partition()
        world.authority.tokens.clear()
        world.authority.refresh.clear()
        call(client)
        assert len({first, renewed, partition(), None}) == 4


def test_a_secret_that_never_expires_is_used_and_one_that_did_is_replaced(
    flavour: Flavour, world: World, visitor: Visitor, clock: Clock, tmp_path: Path
) -> None:
    """`client_secret_expires_at`: 0 means never (RFC 7591, section 3.2.1)."""
    expires = {"at": 0.0}

    def register(asked: Any) -> Reply:
        from tests.servers.authority import Registered

        name = f"client-{len(world.authority.clients)}"
        world.authority.clients[name] = Registered("s", "client_secret_post")
        said = {"client_id": name, "client_secret": "s", "client_secret_expires_at": expires["at"]}
        return Reply(201, {**said, "token_endpoint_auth_method": "client_secret_post"})

    world.authority.tricks["/register"] = register

    def log_in() -> int:
        world.authority.tokens.clear()
        world.authority.refresh.clear()
        with flavour.client(world.url, auth=visitor.oauth(store=FileStore(tmp_path))) as client:
            call(client)
        return len(world.authority.clients)

    assert [log_in(), log_in()] == [1, 1]
    for path in tmp_path.glob("*.json"):
        path.unlink()
    expires["at"] = clock() + 10
    assert [log_in(), log_in()] == [2, 2]
    clock.ahead = 60
    assert log_in() == 3


def test_a_renewal_for_which_the_client_is_unknown_registers_and_logs_in_again(
    flavour: Flavour, world: World, visitor: Visitor
) -> None:
    client = flavour.client(world.url, auth=visitor.oauth())
    call(client)
    world.authority.tokens.clear()
    once = iter([refuse("invalid_client", 401)])
    world.authority.tricks["/token"] = lambda asked: next(once, None)
    assert call(client) == "hello"
    assert world.authority.party.paths.count("POST /register") == 2
