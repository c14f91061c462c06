"""Views of one client for many end users: what they share, and what never passes from one to another."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import tracemalloc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ferrule import AsyncClient, Client, Limits, Retry
from ferrule.errors import ConfigError, ConnectionClosed, RequestTimeout
from tests.support.clients import run_async
from tests.support.steps import (
    CHUNKED,
    LAST_CHUNK,
    SSE,
    answer,
    chunk,
    event,
    hang,
    http,
    initialized,
    raw,
    result_for,
    text,
    turns,
)

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
USERS = 1000


def named_sessions(turn: Any) -> None:
    """Answer `initialize` with a session that is named after the caller's credential."""
    user = (turn.request.header("Authorization") or "nobody").removeprefix("Bearer ")
    answer(initialized(), headers=[("Mcp-Session-Id", f"session-of-{user}")])(turn)


def user_of(request: Any) -> set[str]:
    """Everything in a request that says whose it is."""
    said = {request.header("X-User"), (request.header("Authorization") or "").removeprefix("Bearer ")}
    said.add(request.meta.get("com.example/user"))
    if request.header("Mcp-Session-Id") is not None:
        said.add(request.header("Mcp-Session-Id").removeprefix("session-of-"))
    return {str(one) for one in said}


def view_for(client: Any, user: str, *, asked: bool = False) -> Any:
    """A view that shows its user in every way there is; `asked`: by functions instead of values."""
    auth: Any = (lambda: user) if asked else user
    meta: Any = (lambda: {"com.example/user": user}) if asked else {"com.example/user": user}
    return client.with_options(headers={"X-User": user}, auth=auth, request_meta=meta)


# --- what is shared, and what is not -------------------------------------------------------------


@pytest.mark.req("N14", "N5")
@ERAS
def test_views_share_the_connection_and_the_verdict(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url)
    views = [client.with_options(headers={"X-User": str(n)}) for n in range(5)]
    for n, view in enumerate(views):
        assert view.call_tool("echo", {"n": n}).text == f'{{"n": {n}}}'
        assert (view.era, view.protocol_version) == (client.era, client.protocol_version)
    assert client.prior == views[0].prior
    assert server.count("server/discover") == 1
    assert server.accepted == 1


@pytest.mark.req("N14")
def test_what_a_view_is_not_given_is_as_in_the_one_it_was_made_from(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": hang()})
    client = flavour.connect(
        server.url,
        headers={"X-A": "client"},
        auth="client-token",
        request_meta={"com.example/k": "client"},
    )

    def shown(who: Any) -> tuple[str | None, str | None, Any]:
        who.call_tool("echo", {})
        request = server.calls()[-1]
        return request.header("X-A"), request.header("Authorization"), request.meta.get("com.example/k")

    one = client.with_options(headers={"X-A": "one"})
    two = one.with_options(auth=lambda: "two-token", timeout=0.1)
    three = two.with_options(request_meta=lambda: {"com.example/k": "three"}, auth=None)
    bare = three.with_options(headers=None, request_meta=None)
    assert shown(one) == ("one", "Bearer client-token", "client")
    assert shown(two) == ("one", "Bearer two-token", "client")
    assert shown(three) == ("one", None, "three")
    assert shown(bare) == (None, None, None)
    assert shown(client) == ("client", "Bearer client-token", "client")
    with pytest.raises(RequestTimeout):
        bare.list_tools()  # the timeout came down from `two`


@pytest.mark.req("N14", "W20")
def test_a_view_cannot_be_given_what_contradicts_itself(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.client(server.url, auth="token")
    with pytest.raises(ConfigError):
        client.with_options(headers={"Authorization": "Bearer other"})
    with pytest.raises(ConfigError):
        client.with_options(headers={"Mcp-Session-Id": "other"})
    with pytest.raises(ConfigError):
        client.with_options(timeout=0)
    view = client.with_options(headers={"authorization": "Basic eA=="}, auth=None)
    view.call_tool("echo", {})
    assert [request.header("Authorization") for request in server.requests] == ["Basic eA=="] * 2
    with_user = flavour.client(server.url.replace("//", "//user:word@"))
    with pytest.raises(ConfigError):
        with_user.with_options(auth="token")


@pytest.mark.req("N14", "S1", "S3")
def test_each_view_has_a_session_of_its_own_and_ends_that_one_only(flavour: Any, serve: Any) -> None:
    server = serve({"initialize": named_sessions}, era="handshake")
    client = flavour.connect(server.url, auth="root")
    views = [client.with_options(auth=f"user-{n}") for n in range(3)]
    for view in views:
        view.call_tool("echo", {})
        view.call_tool("echo", {})
    assert [view.session_id for view in views] == [f"session-of-user-{n}" for n in range(3)]
    assert server.count("initialize") == 4
    views[1].close()
    views[1].close()
    (ended,) = server.calls("DELETE")
    assert ended.header("Mcp-Session-Id") == "session-of-user-1"
    assert ended.header("Authorization") == "Bearer user-1"
    assert views[0].call_tool("echo", {}).text == client.call_tool("echo", {}).text == "{}"
    client.close()
    ended_ids = [request.header("Mcp-Session-Id") for request in server.calls("DELETE")]
    assert sorted(ended_ids) == ["session-of-root", *(f"session-of-user-{n}" for n in (0, 1, 2))]
    for request in server.requests[1:]:
        session = request.header("Mcp-Session-Id")
        assert session is None or session == f"session-of-{request.header('Authorization')[7:]}"


@pytest.mark.req("N14", "S3")
def test_a_view_that_was_closed_never_shows_its_old_session_again(flavour: Any, serve: Any) -> None:
    count = iter(range(100))
    rules = {"initialize": lambda turn: answer(initialized(), headers=[("Mcp-Session-Id", f"s-{next(count)}")])(turn)}
    server = serve(rules, era="handshake")
    client = flavour.connect(server.url)
    view = client.with_options(headers={"X-User": "1"})
    view.call_tool("echo", {})
    view.close()
    assert view.session_id is None
    view.call_tool("echo", {})
    assert [call.header("Mcp-Session-Id") for call in server.calls()] == ["s-1", "s-2"]


@pytest.mark.req("N14", "T7")
def test_closing_a_view_of_a_stateless_server_says_nothing_to_it(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url)
    view = client.with_options(headers={"X-User": "1"})
    view.call_tool("echo", {})
    view.close()
    assert client.call_tool("echo", {}).text == "{}"
    assert server.methods == ["server/discover", "tools/call", "tools/call"]
    assert server.accepted == 1


@pytest.mark.req("N14", "T7")
@ERAS
def test_when_the_client_is_closed_its_views_are_too(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url)
    used, unused = client.with_options(headers={"X-User": "1"}), client.with_options(headers={"X-User": "2"})
    used.call_tool("echo", {})
    client.close()
    late = client.with_options(headers={"X-User": "3"})
    sent = len(server.requests)
    for view in (used, unused, late):
        with pytest.raises(ConnectionClosed, match="closed") as caught:
            view.call_tool("echo", {})
        assert caught.value.request_sent is False
        view.close()
    server.wait_until(lambda: server.open == 0)
    assert len(server.requests) == sent


@pytest.mark.req("N14", "T5")
@ERAS
def test_a_view_whose_call_fails_disturbs_no_other_view(flavour: Any, serve: Any, era: str) -> None:
    server = serve({"tools/call": turns(hang(), answer(text("good")))}, era=era, session=None)
    client = flavour.connect(server.url)
    hasty, calm = client.with_options(timeout=0.2), client.with_options(headers={"X-User": "calm"})
    running = flavour.start(hasty.call_tool, "echo", {})
    server.wait_until(lambda: server.count("tools/call") == 1)
    assert calm.call_tool("echo", {}).text == "good"
    assert isinstance(running.outcome(), RequestTimeout)
    assert hasty.call_tool("echo", {}).text == "good"


# --- a thousand of them --------------------------------------------------------------------------


@contextmanager
def eager_switching() -> Iterator[None]:
    """Threads take turns as often as the interpreter lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def check_credentials(server: Any, calls: int) -> None:
    """Every request that says anything of a user says the same everywhere, its arguments included."""
    assert server.count("tools/call") == calls
    for request in server.calls():
        assert user_of(request) == {request.params["arguments"]["user"]}
    for method in ("initialize", "notifications/initialized", "DELETE"):
        for request in server.calls(method):
            said = {request.header("X-User"), (request.header("Authorization") or "").removeprefix("Bearer ")}
            assert len(said) == 1 or said == {None, ""}  # the client's own session
            if request.header("Mcp-Session-Id") is not None:
                assert request.header("Mcp-Session-Id").removeprefix("session-of-") in {*said, "nobody"}


def scripted(era: str) -> dict[str, Any]:
    """Answers of both kinds, each naming the user it was for.

    A stream comes with its end, in one piece: while an end is awaited, the next call would open another connection.
    """

    def streamed(request: Any) -> bytes:
        message = result_for(request, text(str(request.header("X-User"))))
        return http(200, b"", [SSE, CHUNKED], length=False) + chunk(event(message)) + LAST_CHUNK

    both = (answer(lambda request: text(str(request.header("X-User")))), raw(streamed))

    def call(turn: Any) -> None:
        both[len(turn.request.params["arguments"]["user"]) % 2](turn)

    return {"tools/call": call, "initialize": named_sessions}


@pytest.mark.req("N14", "V5")
@ERAS
def test_a_thousand_views_in_eight_threads_never_mix_credentials(serve: Any, era: str) -> None:
    server = serve(scripted(era), era=era)
    problems: list[str] = []
    # On a slow machine a connection may well be idle for longer than the ordinary four seconds.
    limits = Limits(close_timeout=30, idle_timeout=300)
    with Client(server.url, limits=limits) as client, eager_switching():

        def work(users: list[str]) -> None:
            for n, user in enumerate(users):
                view = view_for(client, user, asked=n % 2 == 0)
                if view.call_tool("echo", {"user": user}).text != user:
                    problems.append(user)

        users = [f"user-{n}" for n in range(USERS if era == "stateless" else USERS // 2)]
        threads = [threading.Thread(target=work, args=(users[start::8],)) for start in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        connections = server.accepted
    assert problems == []
    assert connections <= 8
    check_credentials(server, len(users))
    if era == "handshake":
        assert server.count("DELETE") == len(users) + 1
        assert server.accepted <= connections + 16  # closing has its bounds, too


@pytest.mark.req("N14")
@ERAS
def test_a_thousand_views_in_as_many_tasks_never_mix_credentials(serve: Any, era: str) -> None:
    server = serve(scripted(era), era=era)
    users = [f"user-{n}" for n in range(USERS if era == "stateless" else USERS // 2)]

    async def main() -> None:
        async with AsyncClient(server.url, limits=Limits(max_connections=20, close_timeout=30), timeout=60) as client:

            async def call(n: int, user: str) -> str:
                view = view_for(client, user, asked=n % 2 == 0)
                return str((await view.call_tool("echo", {"user": user})).text)

            answers = await asyncio.gather(*(call(n, user) for n, user in enumerate(users)))
            assert answers == users

    run_async(main())
    check_credentials(server, len(users))
    if era == "handshake":
        assert server.count("DELETE") == len(users) + 1


# --- what a view costs ---------------------------------------------------------------------------


def bytes_each(make: Any) -> float:
    """Bytes of Python memory that each of a thousand views keeps."""
    make(10)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = make(1000)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(kept) == 1000
    return (after - before) / 1000


@pytest.mark.req("N14")
def test_a_view_costs_about_a_kilobyte_and_opens_nothing(serve: Any) -> None:
    server = serve()
    with Client(server.url) as client:
        headers = {"X-User": "somebody"}

        def made(count: int) -> list[Any]:
            return [client.with_options(headers=headers, auth="token") for _ in range(count)]

        def used(count: int) -> list[Any]:
            views = made(count)
            for view in views:
                view.call_tool("echo", {})
            server.requests.clear()
            return views

        assert bytes_each(made) < 800  # 514 when this was written
        assert server.methods == ["server/discover"]
        assert bytes_each(used) < 1400  # 930
        assert server.accepted == 1


@pytest.mark.req("N14", "T7")
def test_a_view_that_nobody_holds_any_more_is_gone(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url, retry=Retry(attempts=1))
    kept = client.with_options(headers={"X-User": "kept"})
    view = client.with_options(headers={"X-User": "1"})
    view.call_tool("echo", {})
    session = weakref.ref(view._session)
    del view
    gc.collect()
    assert session() is None
    assert kept.call_tool("echo", {}).text == "{}"
