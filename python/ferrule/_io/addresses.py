"""Where to connect: literals, names, and the order in which addresses are tried.

Knows `getaddrinfo` and socket options. Knows nothing of how the drivers wait for a connection.
"""

from __future__ import annotations

import socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Address = tuple[int, int, int, Any]
    """Family, type, protocol, socket address."""

ATTEMPT_DELAY = 0.25
"""Seconds until the next address is tried beside one that has not answered (RFC 8305, section 5)."""


def literal(host: str, port: int) -> list[Address] | None:
    """Return the address that an IP literal stands for; None for a name. Never asks DNS."""
    try:
        found = socket.getaddrinfo(plain(host), port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (socket.gaierror, ValueError):  # UnicodeError is a ValueError
        return None
    return in_turn(found)


def plain(host: str) -> str | bytes:
    """The host as bytes where that says the same: for a str `getaddrinfo` loads the IDNA codec, 1.5 ms of start-up."""
    return host.encode() if host.isascii() else host


def unix(path: str) -> list[Address]:
    """Return the one address of a Unix socket."""
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise OSError("this platform has no Unix sockets")
    return [(family, socket.SOCK_STREAM, 0, path)]


def in_turn(found: list[Any]) -> list[Address]:
    """Order what `getaddrinfo` found so that families alternate, the preferred one first."""
    families: dict[int, list[Address]] = {}
    for family, kind, protocol, _, address in found:
        families.setdefault(family, []).append((family, kind, protocol, address))
    ordered: list[Address] = []
    lists = list(families.values())
    for rank in range(max(map(len, lists), default=0)):
        ordered += [addresses[rank] for addresses in lists if rank < len(addresses)]
    return ordered


def no_such_name() -> socket.gaierror:
    """Return the error for a name that cannot even be asked for."""
    return socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def resolve(host: str, port: int) -> list[Address]:
    """Ask the system's resolver. Blocks for as long as that likes."""
    try:
        found = socket.getaddrinfo(plain(host), port, type=socket.SOCK_STREAM)
    except ValueError:  # the IDNA codec refused it, or a NUL
        raise no_such_name() from None
    return in_turn(found)


def open_socket(address: Address) -> socket.socket:
    """Return an unconnected, non-blocking socket for this address."""
    family, kind, protocol, _ = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        if family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    except BaseException:
        sock.close()
        raise
    return sock
