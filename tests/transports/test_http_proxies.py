"""Both clients behind a proxy: what the proxy is told, what the server sees, and what goes wrong on the way."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Client, Retry, Stdio, Tcp, Unix, errors
from tests.conftest import Certificates
from tests.support.clients import Flavour
from tests.support.proxy import ForwardProxy
from tests.support.scripted import ScriptedServer
from tests.support.steps import answer, discovered, status, turns
from tests.support.texts import logged, texts_of

pytestmark = pytest.mark.req("W22")

Serve = Callable[..., ScriptedServer]

ONCE = Retry(attempts=1)
SECRET = "hunter2"


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def refusal(call: Callable[[], Any]) -> errors.FerruleError:
    """The error of a call, which must not hold the proxy's password, nor must the log."""
    with logged() as lines, pytest.raises(errors.FerruleError) as caught:
        call()
    assert SECRET not in texts_of(caught.value) + "\n".join(lines)
    return caught.value


@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_http_goes_through_the_proxy_in_absolute_form(flavour: Flavour, serve: Serve, era: str) -> None:
    server = serve(era=era)
    with ForwardProxy(user=f"me:{SECRET}") as proxy:
        with flavour.client(f"{server.url}?a=b", proxy=proxy.url) as client:
            assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'

        assert len(proxy.heads) == len(server.requests)
        assert set(proxy.lines) <= {f"{verb} {server.url}?a=b HTTP/1.1" for verb in ("POST", "DELETE")}
        assert all(request.target == "/mcp?a=b" for request in server.requests)
        assert all(request.header("Host") == f"127.0.0.1:{server.port}" for request in server.requests)


def test_https_goes_through_one_tunnel(flavour: Flavour, serve: Serve, certificates: Certificates) -> None:
    server = serve(tls=certificates.server)
    with ForwardProxy(user=f"me:{SECRET}") as proxy:
        with flavour.client(server.url, proxy=proxy.url, tls=certificates.ca_path) as client:
            for _ in range(3):
                client.call_tool("echo")

        assert proxy.lines == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]
        assert {request.target for request in server.requests} == {"/mcp"}
        assert not any(request.header("Proxy-Authorization") for request in server.requests)


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_the_environment_names_the_proxy(
    flavour: Flavour, serve: Serve, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    server = serve()
    with ForwardProxy(server.port) as proxy:
        monkeypatch.setenv(variable, proxy.url)
        with flavour.client("http://server.example/mcp") as client:
            client.call_tool("echo")

        assert set(proxy.lines) == {"POST http://server.example/mcp HTTP/1.1"}


def test_loopback_is_reached_directly_unless_asked_otherwise(
    flavour: Flavour, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve()
    with ForwardProxy() as proxy:
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        flavour.connect(server.url).call_tool("echo")
        flavour.connect(f"http://localhost:{server.port}/mcp", proxy="").call_tool("echo")
        assert proxy.lines == []

        flavour.connect(server.url, proxy=proxy.url).call_tool("echo")
        assert proxy.lines


def test_views_and_redirects_go_through_the_proxy_too(flavour: Flavour, serve: Serve) -> None:
    moved = status(307, headers=[("Location", "/mcp/")])
    server = serve({"server/discover": turns(moved, answer(discovered()))})
    with ForwardProxy() as proxy:
        client = flavour.connect(server.url, proxy=proxy.url)
        client.with_options(headers={"X-User": "b"}).call_tool("echo")

        there = f"POST {server.url}/ HTTP/1.1"
        assert proxy.lines == [f"POST {server.url} HTTP/1.1", there, there]
        assert len(proxy.lines) == len(server.requests)
        assert server.calls()[0].header("X-User") == "b"


@pytest.mark.parametrize("secure", [False, True])
def test_a_proxy_that_wants_other_credentials_is_asked_once(
    flavour: Flavour, serve: Serve, certificates: Certificates, secure: bool
) -> None:
    server = serve(tls=certificates.server if secure else None)
    with ForwardProxy(user="me:right") as proxy:
        url = f"http://me:{SECRET}@127.0.0.1:{proxy.port}"
        client = flavour.client(server.url, proxy=url, tls=certificates.ca_path if secure else None)

        error = refusal(lambda: client.call_tool("echo"))

        assert isinstance(error, errors.HTTPStatusError)
        assert error.status == 407
        assert "wants other credentials" in str(error)
        assert len(proxy.heads) == 1
        assert server.requests == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (b"HTTP/1.1 403 No\r\nContent-Length: 7\r\n\r\nhunter2", "refused to connect to 127.0.0.1:{port} (HTTP 403)"),
        (b"hunter2\r\n\r\n", "did not answer CONNECT as a proxy does"),
    ],
)
def test_a_refused_tunnel_is_a_connect_error_that_says_why(
    flavour: Flavour, serve: Serve, certificates: Certificates, said: bytes, text: str
) -> None:
    server = serve(tls=certificates.server)
    with ForwardProxy(answer=said) as proxy:
        url = proxy.url.replace("//", f"//me:{SECRET}@")
        client = flavour.client(server.url, proxy=url, tls=certificates.ca_path, retry=ONCE)

        error = refusal(lambda: client.call_tool("echo"))

        assert isinstance(error, errors.ConnectError)
        assert text.format(port=server.port) in str(error)
        assert not error.request_sent
        assert server.accepted == 0


def test_a_proxy_that_hangs_meets_the_deadline(flavour: Flavour, serve: Serve, certificates: Certificates) -> None:
    server = serve(tls=certificates.server)
    with ForwardProxy(answer=b"") as proxy:
        client = flavour.client(server.url, proxy=proxy.url, tls=certificates.ca_path)

        error = refusal(lambda: client.call_tool("echo", timeout=0.3))

        assert isinstance(error, errors.RequestTimeout)
        assert not error.request_sent


def test_a_tool_call_that_a_proxy_answers_with_a_status_is_not_repeated(flavour: Flavour, serve: Serve) -> None:
    server = serve({"tools/call": turns(status(502, b"hunter2", content_type="text/plain"), answer())})
    with ForwardProxy() as proxy:
        client = flavour.connect(server.url, proxy=proxy.url)

        error = refusal(lambda: client.call_tool("echo"))

        assert isinstance(error, errors.HTTPStatusError)
        assert error.status == 502
        assert server.count("tools/call") == 1


def test_a_proxy_shows_up_in_no_repr(flavour: Flavour) -> None:
    client = flavour.client("http://server.example/mcp", proxy=f"http://me:{SECRET}@127.0.0.1:1")

    assert SECRET not in repr(client)


@pytest.mark.parametrize(
    ("target", "proxy"),
    [
        (Stdio("true"), "http://p:1"),
        (Tcp("127.0.0.1", 1), "http://p:1"),
        (Unix("server.sock"), "http://p:1"),
        ("http://h/", "socks5://me:hunter2@p:1"),
        ("http://h/", "https://me:hunter2@p:1"),
        ("http://h/", b"http://p:1"),
    ],
)
def test_what_cannot_be_meant_is_said_when_the_client_is_made(target: Any, proxy: Any) -> None:
    error = refusal(lambda: Client(target, proxy=proxy))

    assert isinstance(error, errors.ConfigError)
    assert str(error).startswith("proxy")


def test_a_proxy_of_the_environment_that_cannot_be_used_is_named_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", f"socks5://me:{SECRET}@127.0.0.1:1")

    error = refusal(lambda: Client("http://server.example/mcp"))

    assert "environment" in str(error)
    Client("http://server.example/mcp", proxy="").close()
