"""Credentials that never change, and what is refused as one."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from ferrule import Stdio
from ferrule.auth import Auth, BasicAuth, BearerAuth
from ferrule.errors import ConfigError
from tests.support.authorized import Scripted, guarded_server, tokens_of
from tests.support.steps import event, hang, more, status, stream

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
PING = event({"jsonrpc": "2.0", "id": "p", "method": "ping"})


def handler(*_: Any) -> None:
    """Something that could use what the server sends unasked."""


@pytest.mark.req("A2")
@pytest.mark.parametrize(
    ("auth", "sent"),
    [
        ("t", "Bearer t"),
        (lambda: "t", "Bearer t"),
        (BearerAuth("t"), "Bearer t"),
        (BasicAuth("ü", "p:w"), "Basic w7w6cDp3"),
    ],
)
@ERAS
def test_every_message_carries_the_credential(flavour: Any, serve: Any, era: str, auth: Any, sent: str) -> None:
    rules = {} if era == "stateless" else {"GET": [stream(end=False), more(PING), hang()], "reply": status(202)}
    server = guarded_server(serve, era, {sent}, **rules)
    client = flavour.connect(server.url, auth=auth, on_notification=handler)
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    if era == "handshake":
        server.wait_until(lambda: "reply" in server.methods)
    client.close()
    assert set(tokens_of(server.requests)) == {sent}
    if era == "handshake":
        wanted = {"initialize", "notifications/initialized", "GET", "DELETE", "reply", "tools/call"}
        assert wanted <= set(server.methods)


@pytest.mark.req("A2")
def test_an_async_function_for_a_token_is_awaited_for_each_request(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    tokens = iter("abcdefg")

    async def token() -> str:
        return next(tokens)

    client = flavour.client(server.url, auth=token, protocol="handshake")
    if not flavour.is_async:
        with pytest.raises(ConfigError, match="auth"):
            client.connect()
        assert server.requests == []
        return
    client.connect()
    client.call_tool("echo", {})
    assert tokens_of(server.requests) == [f"Bearer {ch}" for ch in "abc"]


@pytest.mark.req("A1")
@pytest.mark.parametrize(
    ("kind", "args"),
    [
        (BearerAuth, ("hunter2\r\nX: y",)),
        (BearerAuth, ("",)),
        (BearerAuth, (5,)),
        (BasicAuth, ("hunter2:", "hunter2")),
        (BasicAuth, ("u", "hunter2\n")),
        (BasicAuth, (b"u", "hunter2")),
    ],
)
def test_a_credential_that_cannot_be_sent_is_refused_and_not_shown(kind: Any, args: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        kind(*args)
    assert "hunter2" not in str(caught.value)


@pytest.mark.req("A1")
def test_credentials_are_neither_shown_nor_pickled_and_tell_answers_apart() -> None:
    one, other, user = BearerAuth("hunter2"), BearerAuth("hunter3"), BasicAuth("hunter2", "hunter2")
    assert "hunter" not in repr([one, other, user])
    for auth in (one, user):
        with pytest.raises(TypeError, match="not pickled"):
            pickle.dumps(auth)
        assert b"hunter" not in (auth.partition() or b"")
    assert len({one.partition(), other.partition(), user.partition()}) == 3
    assert one.partition() == BearerAuth("hunter2").partition()
    assert Auth().partition() is None


@pytest.mark.req("A7")
def test_stdio_takes_no_auth(flavour: Any) -> None:
    for auth in ("t", BearerAuth("t"), Scripted("t"), lambda: "t"):
        with pytest.raises(ConfigError, match="stdio"):
            flavour.client(Stdio("program"), auth=auth)


@pytest.mark.req("A2")
@pytest.mark.parametrize("auth", [7, object(), b"token", ["t"]])
def test_what_is_no_auth_is_refused(flavour: Any, auth: Any) -> None:
    with pytest.raises(ConfigError, match="auth"):
        flavour.client("http://127.0.0.1:9/mcp", auth=auth)


@pytest.mark.req("A2", "W20")
def test_an_auth_and_another_credential_contradict_each_other(flavour: Any) -> None:
    with pytest.raises(ConfigError, match="Authorization"):
        flavour.client("http://127.0.0.1:9/mcp", auth=BearerAuth("t"), headers={"authorization": "x"})
    with pytest.raises(ConfigError, match="user"):
        flavour.client("http://u:p@127.0.0.1:9/mcp", auth=BearerAuth("t"))


@pytest.mark.req("A2", "W21")
@pytest.mark.parametrize(
    "given",
    [
        [("Authorization", "a\r\nX: hunter2")],
        [("X\r\n", "hunter2")],
        [("Content-Length", "5")],
        [("Mcp-Session-Id", "hunter2")],
        [("Authorization", b"hunter2")],
        (("Authorization", "hunter2"),),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["headers", "prepare"])
def test_headers_that_cannot_be_sent_or_are_the_clients_are_refused(
    flavour: Any, serve: Any, given: Any, late: bool
) -> None:
    class Bad(Auth):
        def headers(self, request: Any) -> Any:
            return None if late else given

        def prepare(self, request: Any, deadline: float) -> Any:
            return given

    server = serve()
    with pytest.raises(ConfigError) as caught:
        flavour.client(server.url, auth=Bad(), protocol="stateless").call_tool("echo", {})
    assert "hunter2" not in str(caught.value)
    assert server.requests == []
