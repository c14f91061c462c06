"""Ways to a server that work, and errors that say why one does not, on each driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ferrule._http.pool import Pool
from ferrule._http.url import parse_url
from ferrule._io import Expired
from ferrule.errors import ConnectError
from ferrule.limits import Limits
from tests.http.wire import (
    GONE,
    READ,
    Driver,
    Recorder,
    WireServer,
    answer,
    call,
    pool_to,
    post,
)

Serve = Callable[..., WireServer]


def failing(driver: Driver, url: str, **options: Any) -> ConnectError:
    """The error of a call to what cannot be reached."""

    async def body(io: Any) -> ConnectError:
        pool = Pool(io, parse_url(url), limits=Limits(), **options)
        exchange = Recorder(io)
        with pytest.raises(ConnectError) as caught:
            await pool.send(exchange, post(), io.now() + 10)
        assert not caught.value.request_sent
        assert not exchange.sent
        assert not pool.connections
        await pool.close()
        return caught.value

    error: ConnectError = driver(body)
    assert "hunter2" not in str(error)
    return error


@pytest.mark.req("W23")
def test_a_refused_connection_names_host_port_and_reason(driver: Driver) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    error = failing(driver, f"http://me:hunter2@127.0.0.1:{port}/mcp?hunter2")

    assert str(error) == f"cannot connect to 127.0.0.1:{port}: connection refused"


@pytest.mark.req("W23", "W20")
@pytest.mark.parametrize("driver", ["blocking", "asyncio"], indirect=True)  # uvloop's resolver is in C
def test_a_name_that_does_not_exist_says_so(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    def not_found(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "hunter2 not known")

    monkeypatch.setattr(socket, "getaddrinfo", not_found)
    error = failing(driver, "http://nowhere.invalid:81/mcp")

    assert str(error) == "cannot connect to nowhere.invalid:81: the host name was not found"


@pytest.mark.req("W23")
def test_an_endpoint_says_where_to_connect_whatever_the_url_says(driver: Driver, wire: Serve, tmp_path: Any) -> None:
    from ferrule._http.endpoints import Tcp, Unix

    tcp_server = wire([READ, answer(b"[1]"), GONE])
    unix_server = wire([READ, answer(b"[2]"), GONE], path=str(tmp_path / "s"))
    unix_server.url = "http://example.invalid/mcp"

    async def body(io: Any) -> list[bytes]:
        bodies = []
        tcp = Tcp("127.0.0.1", tcp_server.port, "http://example.invalid/mcp")
        for server, endpoint in ((tcp_server, tcp), (unix_server, Unix(tmp_path / "s"))):
            server.url = endpoint.url.label
            async with pool_to(io, server, endpoint=endpoint) as pool:
                bodies.append((await call(io, pool)).body)
        return bodies

    assert driver(body) == [b"[1]", b"[2]"]


@pytest.mark.req("W23")
def test_a_missing_unix_socket_is_named(driver: Driver, tmp_path: Any) -> None:
    from ferrule._http.endpoints import Unix

    path = str(tmp_path / "missing")

    error = failing(driver, "http://localhost/mcp", endpoint=Unix(path))

    assert str(error) == f"cannot connect to {path}: there is no such socket"


@pytest.mark.req("W23", "T1")
def test_connecting_meets_the_deadline(driver: Driver) -> None:
    import socket

    # A listener whose queue is full answers no further connection.
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)

        async def body(io: Any) -> None:
            pool = Pool(io, parse_url(f"http://127.0.0.1:{address[1]}/"), limits=Limits(max_connections=1))
            exchange = Recorder(io)
            for _ in range(2):
                with pytest.raises(Expired):
                    await pool.send(exchange, post(), io.now() + 0.1)
            assert not exchange.sent
            assert not pool.connections
            await pool.close()

        try:
            driver(body)
        finally:
            for filler in fillers:
                filler.close()
