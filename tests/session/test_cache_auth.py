"""Answers that are kept by clients with an `Auth`: whose they are when credentials come, and change, under way."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import MemoryCache, Retry
from ferrule.auth import BearerAuth
from ferrule.errors import AuthChallengeError, HTTPStatusError
from tests.support.authorized import Scripted, guarded, tokens_of
from tests.support.caches import Table, hinted, tools
from tests.support.steps import answer, error, status, turns

ONCE = Retry(attempts=1)


class Known(Scripted):
    """One that can say who asks."""

    def partition(self) -> bytes | None:
        token = self.tokens[0]
        return None if token is None else token.encode()


def requests_for(flavour: Any, server: Any, auth: Any, store: Any) -> int:
    """How many requests a new client needs for a list that lies in the store, perhaps."""
    before = server.count("tools/list")
    flavour.client(server.url, cache=store, protocol="stateless", auth=auth, retry=ONCE).list_tools()
    return int(server.count("tools/list") - before)


@pytest.mark.req("C3")
@pytest.mark.parametrize("make", [BearerAuth, Known])
def test_an_auth_that_says_who_asks_has_its_private_answers_kept(flavour: Any, serve: Any, make: Any) -> None:
    server, store = serve(hinted(scope="private")), MemoryCache()
    asked = [requests_for(flavour, server, make(token), store) for token in ("a", "a", "b", "a", "b")]
    assert asked == [1, 0, 1, 0, 0]


@pytest.mark.req("C3")
def test_an_auth_that_does_not_say_shares_nothing_private(flavour: Any, serve: Any) -> None:
    server = serve(hinted(scope="private"))
    client = flavour.connect(server.url, auth=Scripted("a"))
    client.list_tools()
    client.list_tools()
    assert server.count("tools/list") == 2


@pytest.mark.req("C3", "C9")
@pytest.mark.parametrize("before", ["old", None])
def test_an_answer_is_filed_under_the_credentials_that_were_sent_for_it(flavour: Any, serve: Any, before: Any) -> None:
    # "old" is refused and replaced; None has to be prepared first.
    rules = hinted(scope="private")
    server, store = serve({"tools/list": guarded(rules["tools/list"], ["Bearer new"])}), MemoryCache()
    client = flavour.client(server.url, cache=store, protocol="stateless", auth=Known(before, "new"))
    client.list_tools()
    asked = server.count("tools/list")
    client.list_tools()
    assert requests_for(flavour, server, Known("new"), store) == 0
    assert server.count("tools/list") == asked
    with pytest.raises(AuthChallengeError):
        requests_for(flavour, server, Known("old", more=False), store)


@pytest.mark.req("C3", "C5")
def test_who_waits_for_a_caller_that_became_another_one_asks_for_itself(flavour: Any, serve: Any) -> None:
    def of(scope: str) -> Any:
        return answer(lambda request: tools(f"of {request.header('Authorization')}", scope=scope))

    server = serve({"tools/list": guarded(of("private"), ["Bearer b", "Bearer c"])})
    client = flavour.connect(server.url, auth=Known("a", "b"))
    other = client.with_options(auth=Known("a", "c"))
    found = flavour.together(client.list_tools, other.list_tools)
    assert [one[0].name for one in found] == ["of Bearer b", "of Bearer c"]


@pytest.mark.req("C3", "C6")
def test_what_was_kept_for_another_caller_is_not_served_after_its_time(flavour: Any, serve: Any) -> None:
    kept, trouble = answer(tools("of a", scope="private")), guarded(status(503), ["Bearer b"])
    server, store = serve({"tools/list": turns(kept, trouble)}), Table()
    client = flavour.connect(server.url, auth=Known("a", "b"), cache=store, retry=ONCE, stale_if_error=60)
    client.list_tools()
    store.entries = {key: value for key, value in store.entries.items() if not key.startswith(b"a")}  # its time is over
    with pytest.raises(HTTPStatusError):
        client.list_tools()
    assert tokens_of(server.calls("tools/list")) == ["Bearer a", "Bearer a", "Bearer b"]


@pytest.mark.req("C2", "C3")
def test_an_answer_after_a_redirect_that_set_a_cookie_belongs_to_whoever_has_the_cookie(
    flavour: Any, serve: Any
) -> None:
    rules = hinted(scope="private")
    away = status(307, headers=[("Location", "/mcp"), ("Set-Cookie", "user=u")])
    server, store = serve({"tools/list": turns(away, rules["tools/list"])}), MemoryCache()
    client = flavour.client(server.url, cache=store, protocol="stateless")
    client.list_tools()
    client.list_tools()
    assert server.count("tools/list") == 2
    assert requests_for(flavour, server, None, store) == 1


@pytest.mark.req("C7", "C3")
def test_a_refused_cursor_begins_the_list_again_for_a_caller_with_an_auth(flavour: Any, serve: Any) -> None:
    first, second = tools("a", scope="private", cursor="1"), tools("b", scope="private")
    server = serve({"tools/list": turns(answer(first), error(-32602), answer(first), answer(second))})
    client = flavour.connect(server.url, auth=BearerAuth("a"))
    assert [tool.name for tool in client.list_tools()] == ["a", "b"]
    assert [tool.name for tool in client.list_tools()] == ["a", "b"]
    assert server.count("tools/list") == 4
