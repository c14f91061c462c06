"""Requests of a server's that the stateless era forbids."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import child as on_stdio
from tests.support.asking import PING, ask, form, sampling
from tests.support.steps import result, stream
from tests.support.texts import logged

SECRET = "secret/7f3a"
UNKNOWN = [ask(SECRET), ask(SECRET + "2"), ask(SECRET, id=None)]
FORBIDDEN = [PING, form(), form(2), sampling(), ask("roots/list"), *UNKNOWN, PING]
KINDS = ["ping", "elicitation/create", "sampling/createMessage", "roots/list", "of an unknown kind"]


@pytest.mark.req("I7")
@pytest.mark.parametrize("place", ["http", "stdio"])
def test_a_request_of_the_servers_is_logged_once_for_each_kind_and_not_answered(
    flavour: Any, serve: Any, child: Any, place: str
) -> None:
    server: Any
    if place == "http":
        server = serve({"tools/call": stream(*FORBIDDEN, result())})
        target = server.url
    else:
        server = child({"tools/call": [[*map(on_stdio.send, FORBIDDEN), on_stdio.answer()]]})
        target = server.stdio()
    asked: list[Any] = []
    ask_user = asked.append
    client = flavour.connect(
        target, on_elicitation=lambda *_: ask_user(1), on_sampling=lambda *_: ask_user(2), roots=lambda: ask_user(3)
    )
    with logged() as lines:
        assert client.call_tool("echo", {}).text == "ok"
        assert client.call_tool("echo", {}).text == "ok"
        client.close()
    told = [line for line in lines if "forbids" in line]
    assert [next(kind for kind in KINDS if f"({kind})" in line) for line in told] == KINDS
    assert all(line.startswith("WARNING ") and "2026-07-28" in line for line in told)
    assert not any(SECRET in line for line in lines)
    assert asked == []
    messages = server.messages if place == "stdio" else [request.message for request in server.requests]
    assert [message.get("method") for message in messages] == ["server/discover", "tools/call", "tools/call"]
