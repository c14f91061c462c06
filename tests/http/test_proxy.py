"""Proxies: chosen as the standard library chooses, asked for a tunnel for https, told the whole URL for http."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import trustme

from ferrule._http.pool import Pool
from ferrule._http.proxy import absolute_target, proxy_for, proxy_headers
from ferrule._http.url import parse_url
from ferrule._io import Expired
from ferrule.errors import ConfigError, ConnectError, HTTPStatusError
from ferrule.limits import Limits
from tests.http.wire import CLOSE, GONE, READ, RESET, Driver, Peer, Recorder, WireServer, again, answer, call, post

Serve = Callable[..., WireServer]

AUTHORITY = trustme.CA()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def chosen(url: str, given: str | None = None) -> str | None:
    proxy = proxy_for(parse_url(url), given)
    return None if proxy is None else proxy.origin


# --- which one -----------------------------------------------------------------------------------


@pytest.mark.req("W22")
@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "http://h/", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://h/", "http://p:1"),
        ({"http_proxy": "p:1"}, "http://h/", "http://p:1"),
        ({"HTTP_PROXY": "http://p:1"}, "https://h/", None),
        ({"HTTPS_PROXY": "http://p:1"}, "https://h/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, "https://h/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "HTTPS_PROXY": "http://q:2"}, "https://h/", "http://q:2"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h"}, "https://h/", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "x, .example.com"}, "https://a.example.com/", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "example.com"}, "https://example.org/", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h:444"}, "https://h/", "http://p:1"),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "h:444"}, "https://h:444/", None),
        ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://h/", None),
        ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, "http://h/", None),
        ({"HTTP_PROXY": ""}, "http://h/", None),
        ({"NO_PROXY": "x"}, "http://h/", None),
        ({"ALL_PROXY": "http://p:1"}, "http://127.0.0.1:8000/", None),
        ({"ALL_PROXY": "http://p:1"}, "http://127.9.9.9/", None),
        ({"ALL_PROXY": "http://p:1"}, "https://localhost/", None),
        ({"ALL_PROXY": "http://p:1"}, "https://api.localhost./", None),
        ({"ALL_PROXY": "http://p:1"}, "http://[::1]/", None),
        ({"ALL_PROXY": "http://p:1"}, "http://localhost.example/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1"}, "http://127.example.com/", "http://p:1"),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "fe80::1"}, "http://[fe80::1]/", None),
    ],
)
def test_the_environment_is_read_as_the_standard_library_reads_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], url: str, proxy: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert chosen(url) == proxy


@pytest.mark.req("W22")
def test_what_the_user_says_goes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://p:1")
    monkeypatch.setenv("NO_PROXY", "*")

    assert chosen("http://h/", "q:2") == "http://q:2"
    assert chosen("http://127.0.0.1/", "http://q:2") == "http://q:2", "loopback when asked"
    monkeypatch.delenv("NO_PROXY")
    assert chosen("http://h/") == "http://p:1"
    assert chosen("http://h/", "") is None


@pytest.mark.req("W22", "W20")
@pytest.mark.parametrize(
    "given", ["socks5://me:hunter2@p:1", "https://me:hunter2@p:1", "http://me:hunter2@p:x", "http://me:hunter2@"]
)
def test_a_proxy_that_is_not_supported_is_a_config_error(given: str) -> None:
    with pytest.raises(ConfigError, match=r"^proxy: ") as caught:
        proxy_for(parse_url("http://h/"), given)

    assert "hunter2" not in str(caught.value)


@pytest.mark.req("W22")
def test_a_proxy_is_told_the_whole_url_but_never_its_user() -> None:
    proxy = parse_url("http://me:pw@p:1")

    assert absolute_target(parse_url("http://a:b@h:81/x?y")) == "http://h:81/x?y"
    assert absolute_target(parse_url("http://[::1]")) == "http://[::1]/"
    assert proxy_headers(proxy) == [("Proxy-Authorization", "Basic bWU6cHc=")]
    assert proxy_headers(parse_url("http://p:1")) == []


def test_without_variables_nothing_is_imported() -> None:
    code = (
        "import sys\nfrom ferrule._http.proxy import proxy_for\nfrom ferrule._http.url import parse_url\n"
        "assert proxy_for(parse_url('http://h/'), None) is None\n"
        "assert not {'urllib.request', 'ssl', 'socket'} & set(sys.modules)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}

    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


# --- through it ----------------------------------------------------------------------------------


def server_tls(peer: Peer) -> None:
    """The proxy has connected: from here on the peer is the server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert("example.com").configure_cert(context)
    peer.socket = context.wrap_socket(peer.socket, server_side=True)
    peer.server.adopt(peer.socket)


def client_tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


def pool_through(io: Any, server: WireServer, url: str, user: str = "", **limits: Any) -> Pool:
    proxy = parse_url(f"http://{user}127.0.0.1:{server.port}")
    return Pool(io, parse_url(url), limits=Limits(**limits), tls=client_tls(), proxy=proxy)


CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.mark.req("W22", "W18")
@pytest.mark.parametrize("answered", [CONNECTED, b"HTTP/1.0 200 OK\r\nContent-Length: 7\r\nVia: x\r\n\r\n"])
def test_https_goes_through_a_tunnel_that_is_used_again(driver: Driver, wire: Serve, answered: bytes) -> None:
    proxy = wire([READ, answered, server_tls, again(READ, answer(b"[1]"))])

    async def body(io: Any) -> list[bytes]:
        pool = pool_through(io, proxy, "https://example.com/mcp", "me:pw@")
        bodies = [(await call(io, pool)).body for _ in range(3)]
        await pool.close()
        return bodies

    assert driver(body) == [b"[1]"] * 3
    assert proxy.accepted == [0]
    assert [request for _, request in proxy.requests] == [
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nProxy-Authorization: Basic bWU6cHc=\r\n\r\n",
        *[post()] * 3,
    ]


@pytest.mark.req("W22")
def test_http_goes_to_the_proxy_as_it_is(driver: Driver, wire: Serve) -> None:
    proxy = wire([READ, answer(b"[1]"), GONE])

    async def body(io: Any) -> bytes:
        pool = pool_through(io, proxy, "http://example.com/mcp")
        exchange = await call(io, pool)
        await pool.close()
        return exchange.body

    assert driver(body) == b"[1]"


@pytest.mark.req("W22", "W20")
@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (
            [READ, b"HTTP/1.1 403 No\r\nContent-Length: 9999999\r\n\r\nhunter2"],
            "refused to connect to example.com:443 (HTTP 403)",
        ),
        (
            [READ, b"HTTP/1.1 302 Found\r\nLocation: http://hunter2/\r\n\r\n"],
            "refused to connect to example.com:443 (HTTP 302)",
        ),
        ([READ, b"hunter2\r\n\r\n"], "for example.com:443 did not answer CONNECT as a proxy does"),
        ([READ, CLOSE], "for example.com:443 did not answer CONNECT as a proxy does"),
        ([READ, RESET], "for example.com:443 did not answer CONNECT as a proxy does"),
        ([READ, CONNECTED + answer(b"hunter2"), GONE], "through the proxy at http://127.0.0.1:"),
    ],
)
def test_a_tunnel_that_fails_is_a_connect_error_and_nothing_was_sent(
    driver: Driver, wire: Serve, steps: list[Any], text: str
) -> None:
    proxy = wire([*steps, GONE] if steps[-1] not in (CLOSE, RESET, GONE) else steps)

    async def body(io: Any) -> None:
        pool = pool_through(io, proxy, "https://example.com/mcp", "me:hunter2@", max_connections=1)
        for _ in range(2):
            exchange = Recorder(io)
            with pytest.raises(ConnectError) as caught:
                await pool.send(exchange, post(), io.now() + 5)
            assert text in str(caught.value)
            assert "hunter2" not in str(caught.value)
            assert not caught.value.request_sent
            assert not exchange.sent
        assert not pool.connections
        await pool.close()

    driver(body)


@pytest.mark.req("W22", "R1")
def test_a_proxy_that_wants_other_credentials_says_so_by_its_status(driver: Driver, wire: Serve) -> None:
    proxy = wire([READ, answer(b"hunter2", status="407 Needs you"), GONE])

    async def body(io: Any) -> str:
        pool = pool_through(io, proxy, "https://example.com/mcp", "me:hunter2@")
        exchange = Recorder(io)
        with pytest.raises(HTTPStatusError) as caught:
            await pool.send(exchange, post(), io.now() + 5)
        assert caught.value.status == 407
        assert not caught.value.request_sent
        assert not exchange.sent
        await pool.close()
        return str(caught.value)

    text = f"the proxy at http://127.0.0.1:{proxy.port} for example.com:443 wants other credentials (HTTP 407)"
    assert driver(body) == text


@pytest.mark.req("W22")
def test_a_proxy_that_hangs_up_before_tls_is_no_way_through(driver: Driver, wire: Serve) -> None:
    proxy = wire([READ, CONNECTED, CLOSE])
    # uvloop does not always notice the end of a stream whose TLS is about to begin; then the deadline does.
    errors = (ConnectError, Expired) if driver.name == "uvloop" else ConnectError

    async def body(io: Any) -> None:
        pool = pool_through(io, proxy, "https://example.com/mcp")
        exchange = Recorder(io)
        with pytest.raises(errors):
            await pool.send(exchange, post(), io.now() + 1)
        assert not exchange.sent
        assert not pool.connections
        await pool.close()

    driver(body)


@pytest.mark.req("W22", "W23")
def test_the_certificate_that_counts_is_the_servers(driver: Driver, wire: Serve) -> None:
    proxy = wire([READ, CONNECTED, server_tls])

    async def body(io: Any) -> str:
        pool = pool_through(io, proxy, "https://example.org/mcp")
        with pytest.raises(ConnectError) as caught:
            await pool.send(Recorder(io), post(), io.now() + 5)
        await pool.close()
        return str(caught.value)

    assert driver(body) == (
        f"cannot connect to example.org:443 through the proxy at http://127.0.0.1:{proxy.port}: "
        "the server's certificate is for another host name"
    )


@pytest.mark.req("W22", "T1")
@pytest.mark.parametrize("steps", [[READ, GONE], [READ, CONNECTED, GONE]])
def test_a_silent_proxy_meets_the_deadline(driver: Driver, wire: Serve, steps: list[Any]) -> None:
    proxy = wire(steps)

    async def body(io: Any) -> None:
        pool = pool_through(io, proxy, "https://example.com/mcp")
        with pytest.raises(Expired):
            await pool.send(Recorder(io), post(), io.now() + 0.2)
        assert not pool.connections
        await pool.close()

    driver(body)


@pytest.mark.req("W22")
def test_a_proxy_that_cannot_be_reached_is_named(driver: Driver) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    async def body(io: Any) -> str:
        proxy = parse_url(f"http://me:hunter2@127.0.0.1:{port}")
        pool = Pool(io, parse_url("https://example.com/"), limits=Limits(), tls=client_tls(), proxy=proxy)
        with pytest.raises(ConnectError) as caught:
            await pool.send(Recorder(io), post(), io.now() + 5)
        await pool.close()
        return str(caught.value)

    assert driver(body) == (f"cannot connect to 127.0.0.1:{port}: connection refused (the proxy for example.com:443)")
