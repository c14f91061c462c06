"""Where a server is: URLs, users in them, TLS, and addresses beside the URL."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ferrule import Retry, Tcp, Unix
from ferrule.errors import ConfigError, ConnectError, FerruleError, TransportError
from tests.support.steps import answer, hang, raw, result, status, stream, text
from tests.support.texts import logged, texts_of

MARKER = "secret-7f3a"
ONCE = Retry(attempts=1)


# --- URLs ----------------------------------------------------------------------------------------


@pytest.mark.req("W20")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
@pytest.mark.parametrize(
    "target",
    ["/a%2Fb/../c;v=1?x=%20y&empty=&q=a+b", "/mcp?", "//double//", "/%7Euser/%e4%b8%96", "/?q=1", "/a/./b/"],
)
def test_path_and_query_survive_exactly(flavour: Any, serve: Any, target: str, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.origin + target)
    client.call_tool("echo", {})
    client.close()
    assert {request.target for request in server.requests} == {target}


@pytest.mark.req("W20")
@pytest.mark.parametrize(("end", "target"), [("", "/"), ("?a=b", "/?a=b"), ("/x#fragment", "/x"), ("/a b", "/a%20b")])
def test_what_a_url_leaves_out_or_may_not_hold_is_put_right(flavour: Any, serve: Any, end: str, target: str) -> None:
    server = serve()
    flavour.connect(server.origin + end)
    assert server.requests[0].target == target


@pytest.mark.req("W20")
@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://[::1]:8080/mcp", "[::1]:8080"),
        ("http://[2001:DB8::7]/mcp", "[2001:db8::7]"),
        ("http://bücher.example/mcp", "xn--bcher-kva.example"),
        ("http://EXAMPLE.com:80/mcp", "example.com"),
        ("http://example.com:8080/mcp", "example.com:8080"),
    ],
)
def test_the_host_header_is_the_urls_whatever_address_is_connected_to(
    flavour: Any, serve: Any, url: str, host: str
) -> None:
    server = serve()
    client = flavour.connect(Tcp("127.0.0.1", server.port, url))
    assert client.call_tool("echo", {}).text == "{}"
    assert {request.header("Host") for request in server.requests} == {host}


@pytest.mark.req("W20")
@pytest.mark.parametrize(
    "url",
    [
        "",
        "mcp",
        "example.com/mcp",
        "ftp://example.com",
        "ws://example.com",
        "file:///etc/passwd",
        "http://",
        "http:///mcp",
        "http://exa mple.com/",
        "http://example.com:99999/",
        "http://example.com:x/",
        "http://[::1/",
        "http://example.com/\r\nX: y",
        "http://example.com/\0",
        "http://example.com/\x7f",
        "http://a\\b/",
        "http://-/\n",
        7,
        None,
        b"http://example.com",
    ],
)
def test_what_is_no_url_of_a_server_is_a_config_error_at_once(flavour: Any, url: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        flavour.client(url)
    assert caught.value.request_sent is False


@pytest.mark.req("W20")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_user_in_the_url_becomes_basic_authorization_on_every_request(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(f"http://us%65r:p%40ss%3A@127.0.0.1:{server.port}/mcp")
    client.call_tool("echo", {})
    client.close()
    # printf 'user:p@ss:' | base64
    assert {request.header("Authorization") for request in server.requests} == {"Basic dXNlcjpwQHNzOg=="}
    assert {request.header("Host") for request in server.requests} == {f"127.0.0.1:{server.port}"}


@pytest.mark.req("W20")
@pytest.mark.parametrize("options", [{"auth": "t"}, {"headers": {"authorization": "Basic eA=="}}])
def test_a_user_in_the_url_and_another_credential_contradict_each_other(flavour: Any, options: Any) -> None:
    with pytest.raises(ConfigError, match="user") as caught:
        flavour.client(f"http://adam:{MARKER}@127.0.0.1:9/mcp", **options)
    assert MARKER not in texts_of(caught.value)


@pytest.mark.req("W20")
def test_an_authorization_header_and_auth_contradict_each_other(flavour: Any) -> None:
    with pytest.raises(ConfigError, match="Authorization"):
        flavour.client("http://127.0.0.1:9/mcp", auth="t", headers={"Authorization": "Bearer u"})


@pytest.mark.req("W20")
@pytest.mark.parametrize(
    "rules", [{"tools/call": status(500)}, {"tools/call": status(307)}, {"tools/call": status(200)}]
)
def test_user_password_and_query_are_in_no_text(flavour: Any, serve: Any, rules: Any) -> None:
    server = serve(rules)
    with logged() as lines:
        client = flavour.connect(f"http://{MARKER}:{MARKER}@127.0.0.1:{server.port}/mcp?key={MARKER}")
        with pytest.raises(FerruleError) as caught:
            client.call_tool("echo", {})
        server.close()
        with pytest.raises(TransportError) as lost:
            client.call_tool("echo", {})
    shown = [repr(client), texts_of(caught.value), texts_of(lost.value), *lines]
    assert MARKER not in "\n".join(shown)


# --- TLS -----------------------------------------------------------------------------------------


@pytest.mark.req("W23")
@pytest.mark.parametrize("trust", ["path", "pathlib", "context"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_server_whose_authority_is_trusted_is_reached_over_tls(
    flavour: Any, serve: Any, certificates: Any, trust: str, host: str
) -> None:
    ca = certificates.ca_path
    tls = {"path": ca, "pathlib": Path(ca), "context": certificates.client()}[trust]
    server = serve(tls=certificates.server)
    client = flavour.connect(f"https://{host}:{server.port}/mcp", tls=tls)
    big = {"data": "x" * 300_000}
    assert len(client.call_tool("echo", big).text) > 300_000
    assert client.list_tools()[0].name == "echo"
    assert client.call_tool("echo", {}).text == "{}"
    assert server.accepted == 1
    server.rules["tools/call"] = stream(result(text("streamed")))
    assert client.call_tool("echo", {}).text == "streamed"


@pytest.mark.req("W23", "R4")
def test_a_certificate_nobody_trusts_is_a_connect_error_that_says_so(
    flavour: Any, serve: Any, certificates: Any
) -> None:
    server = serve(tls=certificates.untrusted)
    for tls in (certificates.ca_path, None):
        with pytest.raises(ConnectError, match=r"certificate authority|self-signed") as caught:
            flavour.connect(server.url, tls=tls, retry=ONCE)
        assert caught.value.request_sent is False
    assert server.requests == []


@pytest.mark.req("W23")
@pytest.mark.parametrize("host", ["other.example", "127.0.0.2"])
def test_a_certificate_for_another_host_is_a_connect_error_that_says_so(
    flavour: Any, serve: Any, certificates: Any, host: str
) -> None:
    server = serve(tls=certificates.server)
    target = Tcp("127.0.0.1", server.port, f"https://{host}/mcp")
    with pytest.raises(ConnectError, match=r"for another (host name|IP address)"):
        flavour.connect(target, tls=certificates.ca_path, retry=ONCE)
    assert server.requests == []


@pytest.mark.req("W23")
def test_the_name_in_the_url_is_what_is_checked_at_another_address(flavour: Any, serve: Any, certificates: Any) -> None:
    server = serve(tls=certificates.server)
    client = flavour.connect(Tcp("127.0.0.1", server.port, "https://localhost/mcp"), tls=certificates.ca_path)
    assert client.call_tool("echo", {}).text == "{}"


@pytest.mark.req("W23")
def test_a_server_without_tls_is_a_connect_error_that_says_so(flavour: Any, serve: Any, certificates: Any) -> None:
    server = serve({"accept": [raw(b"HTTP/1.1 400 Bad Request\r\n\r\n"), hang()]})
    with pytest.raises(ConnectError, match="does not speak TLS"):
        flavour.connect(server.url.replace("http", "https"), tls=certificates.ca_path, retry=ONCE)


@pytest.mark.req("W23")
def test_a_server_that_wants_a_certificate_gets_the_one_in_the_context(flavour: Any, serve: Any) -> None:
    import trustme

    authority = trustme.CA()

    def server_context(version: ssl.TLSVersion) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
        context.maximum_version = version
        return context

    bare = ssl.create_default_context()
    authority.configure_trust(bare)
    named = ssl.create_default_context()
    authority.configure_trust(named)
    authority.issue_cert("client@example.com").configure_cert(named)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        server = serve(tls=server_context(version))
        # Since TLS 1.3 a server refuses after the client's handshake is over, with the request under way.
        with pytest.raises(TransportError):
            flavour.connect(server.url, tls=bare, retry=ONCE)
        assert server.requests == []
        assert flavour.connect(server.url, tls=named).call_tool("echo", {}).text == "{}"


@pytest.mark.req("W23")
@pytest.mark.parametrize("tls", ["/nowhere/ca.pem", False, 7])
def test_trust_in_something_else_is_a_config_error(flavour: Any, serve: Any, certificates: Any, tls: Any) -> None:
    with pytest.raises(ConfigError, match="tls"):
        flavour.connect(serve(tls=certificates.server).url, tls=tls)


# --- other addresses -----------------------------------------------------------------------------


@pytest.mark.req("W23")
def test_tcp_without_a_url_speaks_http_to_slash_mcp(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(Tcp("127.0.0.1", server.port))
    assert client.call_tool("echo", {}).text == "{}"
    assert server.requests[0].target == "/mcp"
    assert server.requests[0].header("Host") == f"127.0.0.1:{server.port}"


@pytest.mark.req("W23")
def test_the_next_address_of_a_name_is_tried(flavour: Any, serve: Any) -> None:
    server = serve()  # on 127.0.0.1 alone, while localhost is often ::1 first
    assert flavour.connect(f"http://localhost:{server.port}/mcp").call_tool("echo", {}).text == "{}"


@contextlib.contextmanager
def unix_door(path: str, port: int) -> Iterator[None]:
    """A Unix socket that leads to a local port."""

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def carry(inner: socket.socket) -> None:
        with inner, socket.create_connection(("127.0.0.1", port)) as outer:
            back = threading.Thread(target=pump, args=(outer, inner))
            back.start()
            pump(inner, outer)
            back.join()

    def accept() -> None:
        while True:
            try:
                inner, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=carry, args=(inner,)))
            threads[-1].start()

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        threads = [threading.Thread(target=accept)]
        threads[0].start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)


@pytest.mark.req("W23")
def test_a_unix_socket_is_an_address_like_another(flavour: Any, serve: Any, tmp_path: Path) -> None:
    server = serve({"tools/call": answer(text("ok"))})
    path = str(tmp_path / "s")
    with unix_door(path, server.port):
        client = flavour.connect(Unix(path, "http://service.example/x?y=z"))
        assert [client.call_tool("echo", {}).text for _ in range(3)] == ["ok"] * 3
        assert server.requests[0].target == "/x?y=z"
        assert server.requests[0].header("Host") == "service.example"
        assert server.accepted == 1
        client.close()


@pytest.mark.req("W23")
@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="there are no Unix sockets")
def test_a_unix_socket_that_is_not_there_is_a_connect_error(flavour: Any, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="no such socket"):
        flavour.connect(Unix(tmp_path / "none"), retry=ONCE)
