"""Where to connect for a URL, and what to say when that fails.

Knows addresses and the errors of connecting; the IO does the connecting.
"""

from __future__ import annotations

import os

from ..errors import ConfigError, ConnectError
from .url import Url, parse_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ssl

    from .._io.interface import IO, Address, Receiver, SocketStream

_DEFAULT_PATH = "/mcp"


class Tcp:
    """A server that is reached at an address of its own, whatever its URL says.

    Args:
        host: Name or address to connect to.
        port: Port to connect to.
        url: The URL that requests are made for (Host header, TLS name, path). Default: http, that
            host and port, /mcp.
    """

    __slots__ = ("host", "port", "url")

    def __init__(self, host: str, port: int, url: str | None = None) -> None:
        if not isinstance(port, int) or not 0 < port < 65536:
            raise ConfigError("Tcp: port must be a number from 1 to 65535")
        if not isinstance(host, str) or not host or any(ch <= " " for ch in host):
            raise ConfigError("Tcp: host must be a name or an address")
        self.host = host
        self.port = port
        self.url = parse_url(url or f"http://{bracketed(host)}:{port}{_DEFAULT_PATH}")

    @property
    def address(self) -> str:
        """Where to connect, as one text."""
        return f"{self.host} {self.port}"

    def __repr__(self) -> str:
        return f"Tcp({self.host!r}, {self.port}, {self.url.label!r})"


class Unix:
    """A server that listens on a Unix socket.

    Args:
        path: The socket's path.
        url: The URL that requests are made for. Default: http://localhost/mcp.
    """

    __slots__ = ("path", "url")

    def __init__(self, path: str | os.PathLike[str], url: str = f"http://localhost{_DEFAULT_PATH}") -> None:
        self.path = os.fspath(path)
        if not self.path or "\0" in self.path:
            raise ConfigError("Unix: path must name a socket")
        self.url = parse_url(url)

    @property
    def address(self) -> str:
        """Where to connect, as one text."""
        return self.path

    def __repr__(self) -> str:
        return f"Unix({self.path!r}, {self.url.label!r})"


def server_name(url: Url) -> str:
    """The name that the server's certificate must bear; without trailing dot (RFC 6066, section 3) and zone."""
    return url.host.removesuffix(".").partition("%")[0]


def bracketed(host: str) -> str:
    """The host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host


async def look_up(io: IO, url: Url, deadline: float) -> list[Address]:
    """Every address of a URL's host.

    Raises:
        ConnectError: It was not found.
        Expired: At the deadline.
    """
    try:
        return await io.look_up(url.host, url.port, deadline)
    except (OSError, UnicodeError, ValueError) as error:
        raise _no_way(f"{bracketed(url.host)}:{url.port}", error, tls=False) from error


async def dial(
    io: IO,
    url: Url,
    endpoint: Tcp | Unix | None,
    context: ssl.SSLContext | None,
    receiver: Receiver,
    deadline: float,
    addresses: list[Address] | None = None,
) -> SocketStream:
    """Open a stream to where `url` is served.

    Args:
        io: Who connects.
        url: What requests are made for; names the host whose certificate is checked.
        endpoint: Where to connect instead of the URL's own host and port, or None.
        context: How to do TLS, None for none.
        receiver: Whom the stream hands its bytes to.
        deadline: When to give up.
        addresses: What the host was found to stand for (`look_up`); None where `endpoint` says where to connect.

    Raises:
        ConnectError: No connection; the text names the address and the reason.
        Expired: At the deadline.
    """
    path = None
    host, port = url.host, url.port
    if isinstance(endpoint, Unix):
        path = endpoint.path
    elif endpoint is not None:
        host, port = endpoint.host, endpoint.port
    where = path or f"{bracketed(host)}:{port}"
    try:
        return await io.connect(
            host,
            port,
            path=path,
            addresses=addresses,
            tls=context,
            server_hostname=server_name(url) if context else None,
            deadline=deadline,
            receiver=receiver,
        )
    except (OSError, UnicodeError, ValueError) as error:
        raise _no_way(where, error, tls=bool(context)) from error


def _no_way(where: str, error: Exception, *, tls: bool) -> ConnectError:
    # By name: only the drivers may import ssl. A certificate does not become good by being looked at again.
    transient = type(error).__name__ != "SSLCertVerificationError"
    return ConnectError(f"cannot connect to {where}: {reason(error, tls=tls)}", transient=transient)


_NAMES: dict[type[OSError], str] = {
    ConnectionRefusedError: "connection refused",
    ConnectionResetError: "the connection was reset",
    ConnectionAbortedError: "the connection was aborted",
    BrokenPipeError: "the connection was closed",
    TimeoutError: "timed out",
    FileNotFoundError: "there is no such socket",
    PermissionError: "permission denied",
}


def reason(error: Exception, *, tls: bool = False) -> str:
    """Say in a few words why a stream was not opened, or was lost; never in the peer's words."""
    if tls:
        from .tls import explain

        known = explain(error)
        if known is not None:
            return known
    if isinstance(error, UnicodeError):
        return "the host name cannot be looked up"
    if isinstance(error, OSError):
        # By name: only the drivers may import socket.
        if type(error).__name__ == "gaierror":
            return "the host name was not found"
        for kind, text in _NAMES.items():
            if isinstance(error, kind):
                return text
        if error.errno:
            return os.strerror(error.errno).lower()
    return type(error).__name__
