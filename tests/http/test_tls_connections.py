"""https on each driver: reuse, and errors that say which check failed."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from ferrule._http import tls as tls_module
from ferrule._http.endpoints import Tcp
from ferrule._http.pool import Pool
from ferrule._http.url import parse_url
from ferrule.errors import ConnectError, ConnectionClosed
from ferrule.limits import Limits
from tests.http.wire import (
    CLOSE,
    GONE,
    READ,
    RESET,
    Driver,
    Peer,
    Recorder,
    WireServer,
    again,
    answer,
    call,
    post,
    wait,
)

Serve = Callable[..., WireServer]

AUTHORITY = trustme.CA()


def server_context(*names: str, authority: trustme.CA = AUTHORITY, **how: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1", "localhost")), **how).configure_cert(context)
    return context


@pytest.fixture(scope="module")
def ca_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    AUTHORITY.cert_pem.write_to_path(str(path))
    return path


def client_context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    AUTHORITY.configure_trust(context)
    return context


@pytest.mark.req("W23", "W18")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_one_connection_serves_many_calls(driver: Driver, wire: Serve, ca_path: Path, version: ssl.TLSVersion) -> None:
    context = server_context()
    context.minimum_version = context.maximum_version = version
    large = b'"' + b"a" * 300_000 + b'"'
    server = wire([again(READ, answer(large))], tls=context)

    async def body(io: Any) -> list[bytes]:
        pool = Pool(io, parse_url(server.url), limits=Limits(), tls=ca_path)
        bodies = []
        for _ in range(5):
            bodies.append((await call(io, pool, post(b"b" * 200_000))).body)
            await io.sleep(0.002)
        await pool.close()
        return bodies

    assert driver(body) == [large] * 5
    assert server.accepted == [0]


@pytest.mark.req("W16", "W23")
@pytest.mark.parametrize("how", [CLOSE, RESET])
def test_a_tls_connection_closed_while_idle_is_not_used_again(driver: Driver, wire: Serve, how: Any) -> None:
    go = threading.Event()
    server = wire([READ, answer(), wait(go), how], [READ, answer(b"[2]"), GONE], tls=server_context())

    async def body(io: Any) -> bytes:
        pool = Pool(io, parse_url(server.url), limits=Limits(), tls=client_context())
        await call(io, pool)
        go.set()
        server.wait_until(lambda: server.ended == [0])
        await io.sleep(0.002)
        second = await call(io, pool)
        await pool.close()
        return second.body

    assert driver(body) == b"[2]"


@pytest.mark.req("W23")
def test_a_client_certificate_comes_with_the_context(driver: Driver, wire: Serve) -> None:
    context = server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    AUTHORITY.configure_trust(context)
    names: list[Any] = []

    def look(peer: Peer) -> None:
        assert isinstance(peer.socket, ssl.SSLSocket)
        names.append(peer.socket.getpeercert())

    server = wire([look, READ, answer(b"[1]"), GONE], tls=context)
    client = client_context()
    AUTHORITY.issue_cert("agent@example.com").configure_cert(client)

    async def body(io: Any) -> bytes:
        pool = Pool(io, parse_url(server.url), limits=Limits(), tls=client)
        exchange = await call(io, pool)
        await pool.close()
        return exchange.body

    assert driver(body) == b"[1]"
    assert names[0]["subjectAltName"] == (("email", "agent@example.com"),)


@pytest.mark.req("W23")
def test_without_a_client_certificate_the_error_says_that_one_is_wanted(driver: Driver, wire: Serve) -> None:
    context = server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    AUTHORITY.configure_trust(context)
    server = wire([READ], tls=context)

    async def body(io: Any) -> None:
        pool = Pool(io, parse_url(server.url), limits=Limits(), tls=client_context())
        # With TLS 1.3 the client's handshake is over before the server has looked.
        with pytest.raises((ConnectionClosed, ConnectError)) as caught:
            await call(io, pool)
        if caught.value.request_sent and "reset" not in str(caught.value):
            assert "the server wants a client certificate" in str(caught.value)
        await pool.close()

    driver(body)


@pytest.mark.req("W23")
def test_the_name_that_is_asked_for_and_checked_is_the_urls(driver: Driver, wire: Serve) -> None:
    context = server_context("example.com")
    asked: list[str] = []
    context.sni_callback = lambda sock, name, _: asked.append(name)
    server = wire([READ, answer(b"[1]"), GONE], tls=context)

    async def body(io: Any) -> bytes:
        endpoint = Tcp("127.0.0.1", server.port, "https://example.com/mcp")
        pool = Pool(io, endpoint.url, limits=Limits(), tls=client_context(), endpoint=endpoint)
        exchange = await call(io, pool)
        await pool.close()
        return exchange.body

    assert driver(body) == b"[1]"
    assert asked == ["example.com"]


def refused(driver: Driver, url: str, tls: Any) -> str:
    async def body(io: Any) -> ConnectError:
        pool = Pool(io, parse_url(url), limits=Limits(max_connections=1), tls=tls)
        for _ in range(2):
            exchange = Recorder(io)
            with pytest.raises(ConnectError) as caught:
                await pool.send(exchange, post(), io.now() + 10)
            assert not exchange.sent
            assert not caught.value.request_sent
        assert not pool.connections
        await pool.close()
        return caught.value

    return str(driver(body))


def day(days: int) -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days)


CHECKS: dict[str, tuple[Callable[[], ssl.SSLContext], str]] = {
    "expired": (lambda: server_context(not_before=day(-9), not_after=day(-1)), "has expired"),
    "not yet valid": (lambda: server_context(not_before=day(1), not_after=day(9)), "is not valid yet"),
    "unknown authority": (
        lambda: server_context(authority=trustme.CA()),
        "comes from an unknown certificate authority",
    ),
    "other host": (lambda: server_context("example.com"), "is for another "),
}


@pytest.mark.req("W23")
@pytest.mark.parametrize("name", CHECKS)
def test_a_certificate_that_is_refused_says_which_check_failed(driver: Driver, wire: Serve, name: str) -> None:
    make, text = CHECKS[name]
    server = wire([READ], tls=make())

    error = refused(driver, server.url, client_context())

    assert error.startswith(f"cannot connect to 127.0.0.1:{server.port}: the server's certificate {text}")


@pytest.mark.req("W23")
def test_a_host_name_that_does_not_match_is_told_from_an_address(driver: Driver, wire: Serve) -> None:
    server = wire([READ], tls=server_context("example.com"))
    url = server.url.replace("127.0.0.1", "localhost")

    assert refused(driver, url, client_context()).endswith("the server's certificate is for another host name")


@pytest.mark.req("W23")
def test_a_self_signed_certificate_says_so(driver: Driver, wire: Serve, tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    self_signed(tmp_path / "pair.pem")
    context.load_cert_chain(tmp_path / "pair.pem")
    server = wire([READ], tls=context)

    assert refused(driver, server.url, None).endswith("the server's certificate is self-signed and not trusted")


def self_signed(path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day(-1))
        .not_valid_after(day(1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    encoding = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    path.write_bytes(
        key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain) + certificate.public_bytes(encoding)
    )


@pytest.mark.req("W23")
def test_a_server_without_tls_says_so(driver: Driver, wire: Serve) -> None:
    server = wire([Peer.read_some, answer(b"hunter2"), GONE])
    url = server.url.replace("http:", "https:")

    error = refused(driver, url, client_context())

    assert error.endswith("the server does not speak TLS on this port")
    assert "hunter2" not in error


@pytest.mark.req("W23")
def test_no_tls_version_in_common_says_so(driver: Driver, wire: Serve) -> None:
    context = server_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    server = wire([READ], tls=context)
    client = client_context()
    client.minimum_version = ssl.TLSVersion.TLSv1_3

    assert refused(driver, server.url, client).endswith("no TLS version in common with the server")


@pytest.mark.req("W23")
@pytest.mark.parametrize("how", [CLOSE, RESET])
def test_a_server_that_hangs_up_during_the_handshake_is_a_connect_error(driver: Driver, wire: Serve, how: Any) -> None:
    server = wire([lambda peer: peer.socket.recv(100), how])
    url = server.url.replace("http:", "https:")

    error = refused(driver, url, client_context())

    assert error.startswith(f"cannot connect to 127.0.0.1:{server.port}: ")
    assert error.partition(": ")[2] in (
        "the server closed the connection during TLS",
        "the connection was reset",
    )


@pytest.mark.req("W23", "T1")
def test_a_handshake_meets_the_deadline(driver: Driver, wire: Serve) -> None:
    from ferrule._io import Expired

    server = wire([GONE])

    async def body(io: Any) -> None:
        pool = Pool(io, parse_url(server.url.replace("http:", "https:")), limits=Limits(), tls=client_context())
        exchange = Recorder(io)
        with pytest.raises(Expired):
            await pool.send(exchange, post(), io.now() + 0.1)
        assert not exchange.sent
        assert not pool.connections
        await pool.close()

    driver(body)


@pytest.mark.req("W23")
def test_an_http_pool_never_makes_a_context(driver: Driver, wire: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(tls_module, "context_from", never)
    server = wire([READ, answer(b"[1]"), GONE])

    async def body(io: Any) -> None:
        pool = Pool(io, parse_url(server.url), limits=Limits())
        await call(io, pool)
        await pool.close()

    driver(body)


def test_explanations_hold_nothing_that_a_peer_wrote() -> None:
    assert tls_module.explain(OSError("x")) is None
    error = ssl.SSLError(1, "[SSL: SOMETHING_ODD] hunter2 (_ssl.c:1)")
    error.reason = "SOMETHING_ODD"
    assert tls_module.explain(error) == "TLS failed (something odd)"
    assert tls_module.explain(ssl.SSLZeroReturnError(6, "x")) == "the server closed the connection during TLS"
    verification = ssl.SSLCertVerificationError(1, "hunter2")
    verification.verify_code = 99
    assert tls_module.explain(verification) == "the server's certificate was refused (check 99)"
    assert socket.gaierror.__name__ == "gaierror"
