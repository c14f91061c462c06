"""Cookies as both clients keep them: given back to the server that set them, by the view it set them for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ferrule import Limits, errors
from tests.support.clients import Flavour
from tests.support.scripted import ScriptedServer
from tests.support.steps import SSE, Request, Step, answer, initialized, raw, result, status, stream, turns
from tests.support.texts import logged, texts_of

pytestmark = pytest.mark.req("W24")

Serve = Callable[..., ScriptedServer]


def setting(*cookies: str) -> Step:
    return answer(headers=[("Set-Cookie", cookie) for cookie in cookies])


def cookies(requests: list[Request]) -> list[str | None]:
    return [request.header("Cookie") for request in requests]


def test_a_cookie_goes_with_every_later_request(flavour: Flavour, serve: Serve) -> None:
    opened = answer(initialized(), headers=[("Mcp-Session-Id", "s"), ("Set-Cookie", "lb=node-7; Path=/")])
    server = serve({"initialize": opened}, era="handshake")
    with flavour.client(server.url, protocol="handshake") as client:
        client.call_tool("echo")
        client.notify("notifications/roots/list_changed")

    sent = {request.method: request.header("Cookie") for request in server.requests}
    assert sent.pop("initialize") is None
    assert {"notifications/initialized", "tools/call", "DELETE"} < set(sent)
    assert set(sent.values()) == {"lb=node-7"}


@pytest.mark.parametrize(
    "script",
    [
        setting("a=1"),
        stream(result(), headers=[("Set-Cookie", "a=1")]),
        status(401, headers=[("Set-Cookie", "a=1")]),
        status(500, headers=[("Set-Cookie", "a=1")]),
        status(200, headers=[SSE, ("Set-Cookie", "a=1")]),
        status(307, headers=[("Location", "/mcp"), ("Set-Cookie", "a=1")]),
    ],
)
def test_any_answer_may_set_one(flavour: Flavour, serve: Serve, script: Step) -> None:
    server = serve({"tools/call": turns(script, answer())})
    client = flavour.connect(server.url)
    for _ in range(2):
        try:
            client.call_tool("echo")
        except errors.FerruleError:
            continue

    assert cookies(server.calls())[:2] == [None, "a=1"]


def test_an_accepted_notification_may_set_one(flavour: Flavour, serve: Serve) -> None:
    accepted = status(202, headers=[("Set-Cookie", "a=1")])
    server = serve({"notifications/initialized": accepted}, era="handshake")
    flavour.connect(server.url).call_tool("echo")

    assert cookies(server.calls()) == ["a=1"]


def test_a_new_value_takes_the_place_of_the_old_one_and_an_expired_one_goes(flavour: Flavour, serve: Serve) -> None:
    scripts = [setting("a=1", "b=1"), setting("a=2"), setting("a=; Max-Age=0"), answer()]
    server = serve({"tools/call": turns(*scripts)})
    client = flavour.connect(server.url)
    for _ in range(4):
        client.call_tool("echo")

    assert cookies(server.calls()) == [None, "a=1; b=1", "a=2; b=1", "b=1"]


@pytest.mark.req("N14")
def test_views_share_no_cookies(flavour: Flavour, serve: Serve) -> None:
    def own(request: Request) -> bytes:
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: user="
            + str(request.header("X-User")).encode()
            + b"\r\nContent-Length: %d\r\n\r\n%s" % (len(body(request)), body(request))
        )

    def body(request: Request) -> bytes:
        return b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","content":[]}}' % request.message["id"]

    server = serve({"tools/call": raw(own)})
    client = flavour.connect(server.url, headers={"X-User": "root"})
    views = [client.with_options(headers={"X-User": f"u{number}"}) for number in range(3)]
    for _ in range(2):
        for view in [client, *views]:
            view.call_tool("echo")

    assert [(call.header("X-User"), call.header("Cookie")) for call in server.calls()] == [
        *((name, None) for name in ("root", "u0", "u1", "u2")),
        *((name, f"user={name}") for name in ("root", "u0", "u1", "u2")),
    ]


def test_the_users_cookies_and_the_servers_go_in_one_header(flavour: Flavour, serve: Serve) -> None:
    server = serve({"tools/call": turns(setting("lb=1", "sid=theirs"), answer())})
    client = flavour.connect(server.url, headers=[("cookie", "sid=mine"), ("X-A", "b"), ("Cookie", "x=y")])
    client.call_tool("echo")
    client.call_tool("echo")

    assert cookies(server.calls()) == ["sid=mine; x=y", "sid=mine; x=y; lb=1"]
    assert all(sum(name.lower() == "cookie" for name, _ in request.headers) == 1 for request in server.requests)
    assert all(request.header("X-A") == "b" for request in server.requests)


def test_a_token_that_is_asked_for_goes_beside_them(flavour: Flavour, serve: Serve) -> None:
    server = serve({"tools/call": turns(setting("a=1"), answer())})
    client = flavour.connect(server.url, auth=lambda: "token")
    client.call_tool("echo")
    client.call_tool("echo")

    assert cookies(server.calls()) == [None, "a=1"]
    assert {call.header("Authorization") for call in server.calls()} == {"Bearer token"}


def test_they_go_to_no_other_origin(flavour: Flavour, serve: Serve) -> None:
    other = serve()
    there = status(307, headers=[("Location", other.url), ("Set-Cookie", "b=2")])
    server = serve({"tools/call": turns(setting("a=1"), there)})
    client = flavour.connect(server.url)
    client.call_tool("echo")
    with pytest.raises(errors.HTTPStatusError):
        client.call_tool("echo")

    assert other.requests == []


def test_count_and_size_are_capped(flavour: Flavour, serve: Serve) -> None:
    many = setting(*(f"c{number}=1" for number in range(10)), "large=" + "x" * 100)
    server = serve({"tools/call": turns(many, answer())})
    client = flavour.connect(server.url, limits=Limits(max_cookies=2, max_cookie_bytes=50))
    client.call_tool("echo")
    client.call_tool("echo")

    assert cookies(server.calls()) == [None, "c8=1; c9=1"]


def test_one_that_cannot_be_sent_back_spoils_no_request(flavour: Flavour, serve: Serve) -> None:
    server = serve({"tools/call": turns(setting("a=\x80\xff", "b=1"), answer())})
    client = flavour.connect(server.url)
    client.call_tool("echo")
    client.call_tool("echo")

    assert cookies(server.calls()) == [None, "b=1"]


@pytest.mark.req("G1")
def test_they_are_never_shown(flavour: Flavour, serve: Serve) -> None:
    server = serve({"tools/call": turns(setting("a=hunter2", "b=hunter2; Domain=x"), status(500))})
    with logged() as lines:
        client = flavour.connect(server.url)
        client.call_tool("echo")
        with pytest.raises(errors.HTTPStatusError) as caught:
            client.call_tool("echo")

    assert cookies(server.calls())[1] == "a=hunter2"
    assert "hunter2" not in texts_of(caught.value) + "\n".join(lines) + repr(client)
