"""Many requests at once: what is renewed how often, what is held meanwhile, and whose credentials are whose."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from typing import Any

import pytest

from ferrule import AsyncClient, Client
from ferrule.auth import Auth, BearerAuth
from ferrule.errors import AuthChallengeError, AuthTokenError
from tests.io.drivers import until
from tests.support.authorized import Scripted, guarded_server, header, refuse, tokens_of
from tests.support.clients import run_async
from tests.support.steps import answer, text, turns

TOGETHER = 8


class Renewing(Auth):
    """Renews its token when it is refused; the test says when a renewal ends, and how."""

    def __init__(self) -> None:
        self.token = "old"
        self.renewals = 0
        self.error: Exception | None = None
        self.go = threading.Event()

    def headers(self, request: Any) -> Any:
        return header(self.token)

    def react(self, request: Any, response: Any, deadline: float) -> Any:
        self.renewals += 1
        self.go.wait(10)
        if self.error is not None:
            raise self.error
        self.token = f"new{self.renewals}"
        return True


class AsyncRenewing(Renewing):
    async def react(self, request: Any, response: Any, deadline: float) -> Any:
        self.renewals += 1
        while not self.go.is_set():
            await asyncio.sleep(0.001)
        if self.error is not None:
            raise self.error
        self.token = f"new{self.renewals}"
        return True


class Fresh(Auth):
    """Makes its header anew for each request, as one that signs does."""

    def headers(self, request: Any) -> Any:
        return [("Authorization", "Bearer t")]


class Gate:
    """Holds the refusals until all have arrived, so that all were sent with the same token."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)

    def __call__(self, turn: Any) -> None:
        if turn.request.header("Authorization") == "Bearer old":
            self._barrier.wait(10)
            refuse()(turn)
        else:
            answer()(turn)


def renewing(flavour: Any) -> Renewing:
    return AsyncRenewing() if flavour.is_async else Renewing()


def waiting(client: Any) -> int:
    """How many wait for what another one does for them."""
    flights = client._session.peer.io._flights.values()
    # On an event loop the first one waits as well.
    return sum(len(one.waiters) - 1 if hasattr(one, "waiters") else len(one.followers) for one in list(flights))


@pytest.mark.req("A3")
def test_requests_that_are_refused_at_once_are_renewed_once(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": Gate(TOGETHER)})
    auth = renewing(flavour)
    client = flavour.connect(server.url, auth=auth)
    calls = [flavour.start(client.call_tool, "echo", {}) for _ in range(TOGETHER)]
    server.wait_until(lambda: server.count("tools/call") == TOGETHER)
    auth.go.set()
    assert [call.result().text for call in calls] == ["ok"] * TOGETHER
    assert auth.renewals == 1
    assert Counter(tokens_of(server.calls())) == {"Bearer old": TOGETHER, "Bearer new1": TOGETHER}


@pytest.mark.req("A3")
def test_a_refusal_of_what_was_replaced_meanwhile_renews_nothing(flavour: Any, serve: Any) -> None:
    late = threading.Event()

    def script(turn: Any) -> None:
        if turn.request.header("Authorization") != "Bearer old":
            answer()(turn)
            return
        if turn.request.params["arguments"].get("late"):
            turn.wait(late)
        refuse()(turn)

    server = serve({"tools/call": script})
    auth = renewing(flavour)
    auth.go.set()
    client = flavour.connect(server.url, auth=auth)
    call = flavour.start(client.call_tool, "echo", {"late": True})
    server.wait_until(lambda: server.count("tools/call") == 1)
    client.call_tool("echo", {})
    late.set()
    call.result()
    assert auth.renewals == 1


@pytest.mark.req("A3")
def test_a_failed_renewal_fails_those_who_wait_and_not_the_next_call(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": Gate(TOGETHER)})
    auth = renewing(flavour)
    auth.error = AuthTokenError("refused", step="token", url="https://idp.example/token", error="invalid_client")
    client = flavour.connect(server.url, auth=auth)
    calls = [flavour.start(client.call_tool, "echo", {}) for _ in range(TOGETHER)]
    until(lambda: waiting(client) == TOGETHER - 1)
    auth.go.set()
    outcomes = [call.outcome() for call in calls]
    assert {type(outcome) for outcome in outcomes} == {AuthTokenError}
    assert {outcome.error for outcome in outcomes} == {"invalid_client"}
    assert auth.renewals == 1
    auth.error = None
    server.rules["tools/call"] = turns(refuse(), answer())
    assert client.call_tool("echo", {}).text == "ok"
    assert auth.renewals == 2


@pytest.mark.req("A3", "T4")
def test_the_first_who_waits_may_be_cancelled_and_the_others_go_on(serve: Any) -> None:
    server = serve({"tools/call": Gate(3)})
    auth = AsyncRenewing()

    async def body() -> list[Any]:
        async with AsyncClient(server.url, auth=auth) as client:
            calls = [asyncio.create_task(client.call_tool("echo", {})) for _ in range(3)]
            while not auth.renewals:
                await asyncio.sleep(0.001)
            while waiting(client) < 2:
                await asyncio.sleep(0.001)
            calls[0].cancel()
            await asyncio.sleep(0)
            auth.go.set()
            return await asyncio.gather(*calls, return_exceptions=True)

    outcomes = run_async(body())
    cancelled = [outcome for outcome in outcomes if isinstance(outcome, asyncio.CancelledError)]
    assert len(cancelled) == 1
    assert [outcome.text for outcome in outcomes if outcome not in cancelled] == ["ok", "ok"]


@pytest.mark.req("A4")
def test_authorized_calls_are_in_flight_at_the_same_time(flavour: Any, serve: Any) -> None:
    barrier = threading.Barrier(10)

    def all_at_once(turn: Any) -> None:
        barrier.wait(10)  # breaks if one of them waits for another to end
        answer()(turn)

    server = guarded_server(serve, "stateless", {"Bearer t"}, **{"tools/call": all_at_once})
    client = flavour.connect(server.url, auth=Scripted("none", "t"))
    outcomes = flavour.together(*[lambda: client.call_tool("echo", {})] * 10)
    assert [outcome.text for outcome in outcomes] == ["ok"] * 10


@pytest.mark.req("A2", "N14")
def test_a_thousand_views_never_mix_their_credentials(flavour: Any, serve: Any) -> None:
    def whose(turn: Any) -> None:
        said = turn.request.header("Authorization")
        if said.endswith("-old"):
            refuse()(turn)
        else:
            answer(text(said))(turn)

    server = serve({"tools/call": whose})
    client = flavour.connect(server.url)
    views = [client.with_options(auth=Scripted(f"u{n}-old", f"u{n}-new")) for n in range(1000)]

    def use(part: int) -> list[str]:
        return [view.call_tool("echo", {}).text for view in views[part::8]]

    said = flavour.together(*[lambda part=part: use(part) for part in range(8)])
    assert said == [[f"Bearer u{n}-new" for n in range(part, 1000, 8)] for part in range(8)]
    with pytest.raises(AuthChallengeError):
        server.rules["tools/call"] = refuse()
        client.call_tool("echo", {})
    assert server.calls()[-1].header("Authorization") is None


def python_calls(client: Client) -> int:
    """Functions that are called while one tool is."""
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    client.call_tool("echo", {})
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        client.call_tool("echo", {})
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.req("A4")
@pytest.mark.parametrize("auth", [BearerAuth("t"), Fresh()], ids=["fixed", "new each time"])
def test_a_valid_credential_costs_a_call_at_most_six_function_calls(serve: Any, auth: Auth) -> None:
    server = serve()
    with Client(server.url) as plain, Client(server.url, auth=auth) as authorized:
        least = min(python_calls(plain) for _ in range(5))
        most = min(python_calls(authorized) for _ in range(5))
    assert most - least <= 6


@pytest.mark.req("A4")
def test_a_valid_credential_makes_a_call_wait_for_nothing(flavour: Any, serve: Any) -> None:
    class Ready(BearerAuth):
        def prepare(self, request: Any, deadline: float) -> Any:
            raise AssertionError("nothing is missing")

        react = prepare  # type: ignore[assignment]

    server = serve()
    client = flavour.connect(server.url, auth=Ready("t"))
    taken: list[str] = []
    io = client._session.peer.io
    for name in ("mutex", "once"):
        setattr(io, name, noting(taken, name, getattr(io, name)))
    client.call_tool("echo", {})
    assert taken == []


def noting(taken: list[str], name: str, function: Any) -> Any:
    def noted(*args: Any) -> Any:
        taken.append(name)
        return function(*args)

    return noted


@pytest.mark.req("A3", "V3")
def test_after_a_fork_or_in_another_client_an_auth_starts_with_what_it_has(serve: Any) -> None:
    server = guarded_server(serve, "stateless", {"Bearer t"})
    auth = Scripted("none", "t")
    for _ in range(2):
        with Client(server.url, auth=auth) as client:
            client.call_tool("echo", {})
    assert len(auth.reactions) == 1
