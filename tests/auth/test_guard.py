"""Which URLs and addresses that a peer names are asked, in every spelling."""

from __future__ import annotations

import pytest

from ferrule._http.url import parse_url
from ferrule.auth.guard import Forbidden, check_url, kinds_of
from ferrule.errors import ConfigError

pytestmark = pytest.mark.req("A5")

PUBLIC = parse_url("https://mcp.example/mcp")
LOOPBACK = parse_url("http://127.0.0.1:8000/mcp")
PRIVATE = parse_url("https://10.0.0.5/mcp")


@pytest.mark.parametrize(
    ("address", "kinds"),
    [
        ("8.8.8.8", {"public"}),
        ("2606:4700::1111", {"public"}),
        *((address, {"loopback"}) for address in ("127.0.0.1", "127.255.255.254", "0.0.0.0", "::1", "::")),
        *((address, {"private"}) for address in ("10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.0.1")),
        *((address, {"private"}) for address in ("100.64.0.1", "100.127.255.255", "198.18.0.1", "fd12::1", "fec0::1")),
        *((address, {"public"}) for address in ("172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1", "198.20.0.1")),
        *((address, {"link-local"}) for address in ("169.254.1.1", "fe80::1", "fe80::1%eth0", "febf::1")),
        *((address, {"reserved"}) for address in ("224.0.0.1", "255.255.255.255", "240.0.0.1", "0.1.2.3")),
        *((address, {"reserved"}) for address in ("192.0.2.1", "203.0.113.7", "ff02::1", "2001:db8::1", "100::1")),
        *((address, {"metadata service"}) for address in ("169.254.169.254", "169.254.170.2", "fd00:ec2::254")),
        *((address, {"metadata service"}) for address in ("100.100.100.200", "168.63.129.16", "fd20:ce::254")),
        *((address, {"metadata service"}) for address in ("fe80::a9fe:a9fe", "fe80::a9fe:a9fe%eth0", "fd00:42::42")),
        # an IPv4 address within an IPv6 one
        ("::ffff:10.0.0.1", {"private"}),
        ("::ffff:a9fe:a9fe", {"metadata service"}),
        ("::10.0.0.1", {"private"}),
        ("::ffff:0:10.0.0.1", {"private"}),
        ("::ffff:8.8.8.8", {"public"}),
        ("2002:7f00:0001::", {"loopback"}),
        ("2002:0808:0808::", {"public"}),
        ("64:ff9b::169.254.169.254", {"metadata service"}),
        ("64:ff9b::8.8.8.8", {"public"}),
        ("64:ff9b:1::10.0.0.1", {"private"}),
        ("2001:0:a00:1::", {"private", "reserved"}),
        ("2606:4700::5efe:127.0.0.1", {"loopback"}),
        ("fe80::5efe:8.8.8.8", {"link-local", "public"}),
        ("no address", {"reserved"}),
    ],
)
def test_an_address_is_of_its_kind_however_it_is_wrapped(address: str, kinds: set[str]) -> None:
    assert kinds_of(address) == kinds


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.1", "2130706433", "017700000001", "0x7f000001", "0x7f.1", "0177.0.0.01", "127.0.0.1."),
        *("localhost", "localhost.", "LOCALHOST", "a.localhost", "0", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"),
        *("10.0.0.1", "0xa000001", "167772161", "012.0.0.1", "192.168.1", "[fd00::1]", "[64:ff9b::a00:1]"),
        *("169.254.1.1", "[fe80::1]", "[fe80::1%25eth0]", "[2002:a00:1::]", "１０.0.0.1"),
    ],
)
def test_a_public_server_may_name_no_inner_address_in_any_spelling(host: str) -> None:
    with pytest.raises(Forbidden, match="allow_hosts") as caught:
        check_url(f"https://{host}/token?x=y", peer_of=PUBLIC)
    assert host not in str(caught.value)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "0xa9fea9fe", "2852039166", "[::ffff:a9fe:a9fe]", "[fd00:ec2::254]"]
)
@pytest.mark.parametrize("server", [PUBLIC, LOOPBACK, PRIVATE, parse_url("https://169.254.7.7/mcp")])
def test_a_metadata_service_is_never_asked_whatever_the_server_is(host: str, server: object) -> None:
    for allowed in ((), (host.strip("[]"), "metadata.google.internal")):
        with pytest.raises(Forbidden, match="metadata service"):
            check_url(f"https://{host}/latest", peer_of=server, allow_hosts=allowed)  # type: ignore[arg-type]
    with pytest.raises(Forbidden, match="metadata service"):
        check_url("https://metadata.google.internal/", peer_of=server)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["https://256.1", "https://1.2.3.4.5", "https://4294967296", "https://0x1_0", "https://08"]
)
def test_a_number_that_is_no_address_is_not_looked_up(url: str) -> None:
    with pytest.raises(Forbidden, match="reserved"):
        check_url(url, peer_of=LOOPBACK)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://idp.example/token", "no https"),
        ("http://10.0.0.1/token", "no https"),
        ("https://user:pw@idp.example/", "user"),
        ("ftp://idp.example/", "no http"),
        ("file:///etc/passwd", "no http"),
        ("javascript:alert(1)", "no http"),
        ("https://idp.example\\@10.0.0.1/", "no http"),
        ("https://idp.example/\r\nHost: x", "no http"),
        ("", "no http"),
    ],
)
def test_only_https_without_a_user_is_asked(url: str, why: str) -> None:
    with pytest.raises(Forbidden, match=why):
        check_url(url, peer_of=PUBLIC)


@pytest.mark.parametrize(
    ("server", "url", "allowed"),
    [
        (LOOPBACK, "http://localhost:9000/token", True),
        (LOOPBACK, "http://[::1]:9000/token", True),
        (LOOPBACK, "https://192.168.1.2/token", True),
        (LOOPBACK, "http://192.168.1.2/token", False),
        (LOOPBACK, "https://169.254.1.1/", False),
        (PRIVATE, "https://10.9.9.9/token", True),
        (PRIVATE, "https://[fd00::1]/token", True),
        (PRIVATE, "https://127.0.0.1/token", False),
        (PRIVATE, "http://localhost/token", False),
        (PUBLIC, "https://idp.example/token", True),
        (PUBLIC, "https://mcp.example:8443/token", True),
    ],
)
def test_a_server_may_name_what_is_no_further_in_than_itself(server: object, url: str, allowed: bool) -> None:
    if allowed:
        assert check_url(url, peer_of=server).label == url  # type: ignore[arg-type]
    else:
        with pytest.raises(Forbidden):
            check_url(url, peer_of=server)  # type: ignore[arg-type]


def test_the_hosts_of_an_organisation_may_be_inside_when_the_user_names_them() -> None:
    assert check_url("https://10.0.0.1/t", peer_of=PUBLIC, allow_hosts=["10.0.0.1"])
    assert check_url("https://idp.localhost/t", peer_of=PUBLIC, allow_hosts=["IDP.localhost"])
    with pytest.raises(Forbidden):
        check_url("https://10.0.0.2/t", peer_of=PUBLIC, allow_hosts=["10.0.0.1"])
    with pytest.raises(ConfigError, match="several"):
        check_url("https://10.0.0.2/t", peer_of=PUBLIC, allow_hosts="10.0.0.2")
