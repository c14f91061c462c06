"""Which URLs that a peer names may be asked: a server must not make its client knock at doors only the client reaches.

Specification: security best practices, Server-Side Request Forgery. The rules:

* https, but for loopback.
* No address that is loopback, private, link-local or reserved, unless the server itself is at such ones, and at no
  other. A server on this machine may name private addresses too: it reaches them itself. Where a server is that has a
  name is what the name stood for when the client last connected: what it stands for when it is asked again is for the
  server to say.
* The address of a cloud's metadata service never, whatever the server is.
* The server's own host is always allowed otherwise: it is talked to anyway.
* Hosts of `allow_hosts` may be at any address but a metadata service's.

Addresses are judged in every spelling: an IPv6 address by what is embedded in it (mapped, compatible, translated, 6to4,
Teredo, ISATAP, NAT64), an IPv4 one also as decimal, octal or hexadecimal numbers of one to four parts. Knows names and
addresses; looking them up, and connecting to what was judged and to nothing else, is done through the IO.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from .._http.endpoints import look_up
from .._http.url import parse_url
from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .._http.url import Url
    from .._io.interface import IO, Address

PUBLIC, LOOPBACK, PRIVATE, LINK_LOCAL = "public", "loopback", "private", "link-local"
RESERVED, METADATA = "reserved", "metadata service"

_METADATA = frozenset(
    {
        *("169.254.169.254", "169.254.170.2", "169.254.170.23"),  # nearly everybody; AWS ECS and EKS
        *("100.100.100.200", "168.63.129.16", "192.0.0.192"),  # Alibaba, Azure, Oracle
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254"),  # AWS, AWS EKS, Google
    }
)
_METADATA_NAMES = frozenset({"metadata", "metadata.google.internal", "metadata.goog", "instance-data"})

# The first that holds the address decides. RFC 6890 and its registries, as of 2025.
_IPV4 = [
    (LOOPBACK, "0.0.0.0/32"),  # connecting to it means this machine
    (RESERVED, "0.0.0.0/8"),
    (LOOPBACK, "127.0.0.0/8"),
    *((PRIVATE, net) for net in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")),
    (PRIVATE, "198.18.0.0/15"),  # for benchmarks; what local proxies make up for every name
    (LINK_LOCAL, "169.254.0.0/16"),
    *((RESERVED, net) for net in ("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.51.100.0/24")),
    *((RESERVED, net) for net in ("203.0.113.0/24", "224.0.0.0/3")),
]
_IPV6 = [
    *((LOOPBACK, net) for net in ("::/128", "::1/128")),
    *((PRIVATE, net) for net in ("fc00::/7", "fec0::/10", "64:ff9b:1::/48")),
    (LINK_LOCAL, "fe80::/10"),
    *((RESERVED, net) for net in ("ff00::/8", "100::/64", "2001:db8::/32", "3fff::/20", "5f00::/16")),
]
_NETWORKS4 = [(kind, IPv4Network(net)) for kind, net in _IPV4]
_NETWORKS6 = [(kind, IPv6Network(net)) for kind, net in _IPV6]
_SUFFIXED = [IPv6Network(net) for net in ("64:ff9b::/96", "64:ff9b:1::/48", "::ffff:0:0:0/96", "::/96")]
"""Networks whose addresses end in an IPv4 address."""

_ALLOWED_BY = {
    PUBLIC: frozenset[str](),
    PRIVATE: frozenset({PRIVATE, LOOPBACK}),
    LOOPBACK: frozenset({LOOPBACK}),
    LINK_LOCAL: frozenset({LINK_LOCAL}),
    RESERVED: frozenset[str](),
}
"""Of which kinds alone a server must be to name an address of this kind."""


class Forbidden(Exception):
    """A URL that is not asked; the text says why and holds nothing of it. Internal: a step's error is made of it."""


def check_url(url: str, *, peer_of: Url, allow_hosts: Iterable[str] = ()) -> Url:
    """Judge a URL by itself: its scheme and spelling, and its address if it is one.

    Args:
        url: What the peer named.
        peer_of: The server, as the user named it.
        allow_hosts: Names the user allows: see above.

    Raises:
        Forbidden: It must not be asked.
    """
    try:
        target = parse_url(url)
    except ConfigError:
        raise Forbidden("is no http or https URL") from None
    if target.userinfo is not None:
        raise Forbidden("holds a user")
    kinds = _kinds_of_host(target.host)
    if not target.is_https and kinds != {LOOPBACK}:
        raise Forbidden("is no https URL")
    if target.host == peer_of.host:
        return target
    _judge(kinds or {PUBLIC}, _kinds_of_host(peer_of.host) or set(), target.host in allowed_names(allow_hosts))
    return target


def allowed_names(allow_hosts: Iterable[str]) -> frozenset[str]:
    """The names of `allow_hosts`, as they are compared.

    Raises:
        ConfigError: It is one text, not several.
    """
    if isinstance(allow_hosts, str):
        raise ConfigError("allow_hosts: expected several names, not one str")
    return frozenset(name.lower().strip("[]") for name in allow_hosts)


class Guard:
    """Looks up the hosts of URLs that were checked and says which addresses may be connected to.

    Args:
        io: Looks names up.
        server: The server, as the user named it.
        place: The host that the server is reached at, if that is another one; "" for one on this machine.
        allow_hosts: See above.
        reached: What the server's host stood for when it was last connected to; None: that is not known.
    """

    __slots__ = ("_allowed", "_io", "_place", "_reached", "_server")

    def __init__(
        self,
        io: IO,
        server: Url,
        place: str | None,
        allow_hosts: Iterable[str],
        reached: Callable[[], list[Address] | None] | None = None,
    ) -> None:
        self._io = io
        self._reached = reached
        self._server = server
        self._place = place
        self._allowed = allowed_names(allow_hosts)

    def check(self, url: str) -> Url:
        """As `check_url`, for this server."""
        return check_url(url, peer_of=self._server, allow_hosts=self._allowed)

    async def addresses(self, url: Url, deadline: float) -> list[Address]:
        """Every address of the URL's host, each of them judged: connect to these.

        Raises:
            Forbidden: One of them must not be connected to; so none is, since whoever names them chose that one too.
            ConnectError: The host was not found.
            Expired: At the deadline.
        """
        found = await look_up(self._io, url, deadline)
        kinds = kinds_of_all(found)
        if not url.is_https and kinds != {LOOPBACK}:
            raise Forbidden("is no https URL")  # a name that only looks like one of this machine
        own = url.host == self._server.host
        _judge(kinds, self._server_kinds(), own or url.host in self._allowed)
        return found

    def _server_kinds(self) -> set[str]:
        if self._place == "":
            return {LOOPBACK}
        known = _kinds_of_host(self._place or self._server.host)
        if known is not None:
            return known
        reached = None if self._reached is None else self._reached()
        return kinds_of_all(reached or ())


def kinds_of_all(addresses: Iterable[Any]) -> set[str]:
    """The kinds of what a name stands for."""
    return set().union(*(kinds_of(address[3][0]) for address in addresses))


def _judge(kinds: set[str], server: set[str], named: bool) -> None:
    """Raise unless a server of these kinds may name something of those."""
    if METADATA in kinds:
        raise Forbidden("leads to a metadata service")
    if named:
        return
    for kind in sorted(kinds - {PUBLIC}):
        if not server or not server <= _ALLOWED_BY[kind]:
            hint = "" if kind == RESERVED else "; if it is yours, name its host in allow_hosts"
            raise Forbidden(f"leads to a {kind} address, where the server is none{hint}")


def _kinds_of_host(host: str) -> set[str] | None:
    """What a host is by its spelling alone; None for a name that would have to be looked up."""
    name = host.removesuffix(".")
    if name in _METADATA_NAMES:
        return {METADATA}
    if name == "localhost" or name.endswith(".localhost"):
        return {LOOPBACK}
    if ":" in name:
        return kinds_of(name)
    last = name.rpartition(".")[2]
    if not (last.isdigit() or last.startswith("0x")):
        return None
    # What ends in a number is an address to everybody who reads URLs (WHATWG URL, "ends in a number").
    address = _from_numbers(name.split("."))
    return {RESERVED} if address is None else kinds_of(str(address))


def _from_numbers(parts: list[str]) -> IPv4Address | None:
    """The address that `inet_aton` reads: one to four numbers, the last filling what the others leave."""
    numbers = [_number(part) for part in parts]
    if len(numbers) > 4 or None in numbers:
        return None
    *first, last = [number for number in numbers if number is not None]
    room = 4 - len(first)
    if any(number > 255 for number in first) or last >= 256**room:
        return None
    return IPv4Address(bytes(first) + last.to_bytes(room, "big"))


def _number(text: str) -> int | None:
    if not text.isalnum():  # `int` takes more than digits
        return None
    try:
        if text.startswith("0x"):
            return int(text[2:] or "0", 16)
        return int(text, 8) if text.startswith("0") else int(text)
    except ValueError:
        return None


def kinds_of(text: str) -> set[str]:
    """The kinds that an address is of: its own, and those of the addresses that are embedded in it."""
    try:
        if ":" not in text:
            return {_kind4(IPv4Address(text))}
        address = IPv6Address(text.partition("%")[0])
    except ValueError:
        return {RESERVED}
    if str(address) in _METADATA:
        return {METADATA}
    own = next((kind for kind, network in _NETWORKS6 if address in network), None)
    if own == LOOPBACK:
        return {own}
    embedded = {_kind4(one) for one in _embedded(address)}
    return embedded if own is None and embedded else {own or PUBLIC} | embedded


def _kind4(address: IPv4Address) -> str:
    if str(address) in _METADATA:
        return METADATA
    return next((kind for kind, network in _NETWORKS4 if address in network), PUBLIC)


def _embedded(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that traffic to an IPv6 address may end at."""
    packed = address.packed
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address.sixtofour is not None:
        return [address.sixtofour]
    if address.teredo is not None:
        return list(address.teredo)
    is_isatap = packed[8:12] in (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")
    if is_isatap or any(address in network for network in _SUFFIXED):
        return [IPv4Address(packed[12:])]
    return []
