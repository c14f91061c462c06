"""Subscriptions of the stateless era by clients with an `Auth`: whose stream it is, and when that is found out."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ferrule import AsyncClient
from ferrule.errors import AuthChallengeError
from ferrule.types import Missed, ToolsChanged
from tests.support.authorized import SCOPE, Coroutines, Scripted, guarded, refuse, tokens_of
from tests.support.clients import run_async
from tests.support.listening import QUICK, HttpEars
from tests.support.steps import status, turns


def kind(flavour: Any) -> Any:
    return Coroutines if flavour.is_async else Scripted


@pytest.mark.req("L1", "L3", "R2")
@pytest.mark.parametrize("first", ["old", None])
def test_a_stream_is_opened_with_a_good_token_and_so_is_the_next(flavour: Any, serve: Any, first: Any) -> None:
    # "old" is refused, and the `Auth` reacts; None has to be prepared.
    ears = HttpEars()
    server = serve({"subscriptions/listen": guarded(ears, ["Bearer new"])})
    auth = kind(flavour)(first, "new")
    client = flavour.client(server.url, auth=auth, protocol="stateless", retry=QUICK)
    with client.subscribe(tools=True) as changes:
        auth.tokens = [first, "new"]
        ears.opened(1).drop()
        ears.opened(2).send("tools/list_changed")
        assert [changes.next(timeout=10) for _ in range(2)] == [Missed(), ToolsChanged()]
    sent = ["Bearer new"] * 2 if first is None else ["Bearer old", "Bearer new"] * 2
    assert tokens_of(server.calls("subscriptions/listen")) == sent
    assert len({one.message["id"] for one in server.requests}) == len(server.requests)


@pytest.mark.req("L1", "W19", "R2")
def test_each_cause_to_ask_again_counts_once_and_a_redirect_beside_them(flavour: Any, serve: Any) -> None:
    moved = status(307, headers=[("Location", "/mcp/")])
    ears = HttpEars()
    server = serve({"subscriptions/listen": turns(refuse(), moved, refuse(403, SCOPE), ears, refuse(), refuse())})
    client = flavour.client(server.url, auth=kind(flavour)("a", "b", "c", "d"), protocol="stateless", retry=QUICK)
    with client.subscribe(tools=True):
        pass
    assert tokens_of(server.requests) == ["Bearer a", "Bearer b", "Bearer b", "Bearer c"]
    assert [one.target for one in server.requests] == ["/mcp", "/mcp", "/mcp/", "/mcp/"]
    with pytest.raises(AuthChallengeError), client.subscribe(tools=True):
        pass
    assert server.count("subscriptions/listen") == 6


class Person(Scripted):
    """Somebody has to be asked, who takes longer than a request may."""

    patience = 30.0

    def react(self, *args: Any) -> Any:
        time.sleep(0.6)
        return super().react(*args)


@pytest.mark.req("L1", "T1")
def test_what_a_person_takes_does_not_count_against_opening(flavour: Any, serve: Any) -> None:
    ears = HttpEars()
    server = serve({"subscriptions/listen": guarded(ears, ["Bearer b"])})
    client = flavour.connect(server.url, auth=Person("a", "b"), timeout=0.5)
    with client.subscribe(tools=True) as changes:
        assert changes.honored.tools
    assert tokens_of(server.calls("subscriptions/listen")) == ["Bearer a", "Bearer b"]


@pytest.mark.req("L3")
def test_an_async_function_is_asked_for_the_token_of_each_stream(serve: Any) -> None:
    ears = HttpEars()
    server = serve({"subscriptions/listen": ears})
    given: list[str] = []

    async def token() -> str:
        given.append(f"t{len(given)}")
        return given[-1]

    async def main() -> None:
        options: dict[str, Any] = {"auth": token, "protocol": "stateless", "retry": QUICK}
        async with AsyncClient(server.url, **options) as client, client.subscribe(tools=True) as changes:
            ears.opened(1).drop()
            assert await changes.next(timeout=10) == Missed()

    run_async(main())
    assert tokens_of(server.calls("subscriptions/listen")) == ["Bearer t0", "Bearer t1"]
