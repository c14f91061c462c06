"""URLs of servers: taken apart once, kept exactly.

Knows RFC 3986 as far as http and https need it. Errors and `repr` never show user, password or
query.
"""

from __future__ import annotations

from ..errors import ConfigError

_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-._")


class Url:
    """Where a server is.

    Attributes:
        scheme: "http" or "https".
        host: Name or address to connect to, without brackets, in ASCII and lower case.
        port: Always a number.
        target: Path and query exactly as given; only spaces and non-ASCII are percent-encoded.
        userinfo: (user, password) with percent-encoding undone, or None.
        origin: Scheme, host and port; a default port is left out.
        host_header: What goes into `Host`.
        label: Origin and path, for people and logs: no user, password or query.
    """

    __slots__ = ("host", "host_header", "label", "origin", "port", "scheme", "target", "userinfo")

    def __init__(
        self,
        scheme: str,
        host: str,
        port: int,
        target: str,
        userinfo: tuple[str, str] | None = None,
    ) -> None:
        self.scheme = scheme
        self.host = host
        self.port = port
        self.target = target
        self.userinfo = userinfo
        # A zone ("fe80::1%eth0") means something on this machine only: RFC 6874, section 1.
        shown = f"[{host.partition('%')[0]}]" if ":" in host else host
        self.host_header = shown if port == _DEFAULT_PORTS[scheme] else f"{shown}:{port}"
        self.origin = f"{scheme}://{self.host_header}"
        self.label = self.origin + target.partition("?")[0]

    @property
    def is_https(self) -> bool:
        """Does it ask for TLS?"""
        return self.scheme == "https"

    def basic_authorization(self) -> str | None:
        """The `Authorization` value for the URL's user and password (RFC 7617), or None."""
        if self.userinfo is None:
            return None
        from binascii import b2a_base64

        return "Basic " + b2a_base64(":".join(self.userinfo).encode(), newline=False).decode()

    def _key(self) -> tuple[object, ...]:
        return self.scheme, self.host, self.port, self.target, self.userinfo

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Url) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<Url {self.label}>"


def parse_url(text: str) -> Url:
    """Take an http or https URL apart.

    Raises:
        ConfigError: It cannot be used. The text names the part at fault, never its content.
    """
    if not isinstance(text, str):
        raise ConfigError("the server's URL must be a str")
    if any(ch < " " or "\x7f" <= ch <= "\x9f" for ch in text):
        raise ConfigError("the server's URL has a control character in it")
    scheme, found, rest = text.partition("://")
    scheme = scheme.lower()
    if not found or scheme not in _DEFAULT_PORTS:
        raise ConfigError("the server's URL must begin with http:// or https://")
    authority, target = _split_target(rest.partition("#")[0])
    if "\\" in authority:  # for a browser it ends the host, for RFC 3986 it does not
        raise ConfigError("the server's URL has a backslash in it")
    userinfo, found, location = authority.rpartition("@")
    host, port = _host_and_port(location)
    return Url(
        scheme,
        host,
        port or _DEFAULT_PORTS[scheme],
        encode_target(target),
        _user_and_password(userinfo) if found else None,
    )


def encode_target(text: str) -> str:
    """Percent-encode spaces and what is not ASCII (as UTF-8), nothing else."""
    if text.isascii():
        return text.replace(" ", "%20")
    try:
        raw = text.encode()
    except UnicodeEncodeError:
        raise ConfigError("the server's URL has a lone surrogate in it") from None
    return "".join(chr(b) if 0x20 < b < 0x7F else f"%{b:02X}" for b in raw)


def _split_target(rest: str) -> tuple[str, str]:
    for at, ch in enumerate(rest):
        if ch == "/":
            return rest[:at], rest[at:]
        if ch == "?":
            return rest[:at], "/" + rest[at:]
    return rest, "/"


def _user_and_password(userinfo: str) -> tuple[str, str] | None:
    user, _, password = userinfo.partition(":")
    if not user and not password:
        return None
    if "%" in userinfo:
        from urllib.parse import unquote

        user, password = unquote(user), unquote(password)
    # RFC 7617, section 2: the first colon ends the user, and control characters are excluded.
    if ":" in user or any(ch < " " or ch == "\x7f" for ch in user + password):
        raise ConfigError("the user or password in the server's URL cannot be sent")
    return user, password


def _host_and_port(location: str) -> tuple[str, int | None]:
    if location.startswith("["):
        address, found, after = location[1:].partition("]")
        if not found or (after and after[0] != ":"):
            raise ConfigError("the server's URL has unbalanced brackets around its host")
        return _ipv6(address), _port(after[1:])
    host, _, port = location.partition(":")
    return check_host(host), _port(port)


def _port(text: str) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdigit() and len(text) <= 5 and 0 < int(text) < 65536:
        return int(text)
    raise ConfigError("the server's URL has a port that is no number from 1 to 65535")


def _ipv6(text: str) -> str:
    from ipaddress import AddressValueError, IPv6Address

    try:
        return str(IPv6Address(text.replace("%25", "%", 1)))
    except AddressValueError:
        raise ConfigError("the server's URL has brackets around what is no IPv6 address") from None


def check_host(host: str) -> str:
    """A host name in the form that is looked up and compared: ASCII, lower case.

    Raises:
        ConfigError: It is empty, too long, or holds what no host name can.
    """
    if not host:
        raise ConfigError("the server's URL has no host")
    if not host.isascii():
        try:
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            raise ConfigError("the server's URL has a host that IDNA cannot encode") from None
    host = host.lower()
    # After IDNA: it maps full-width forms to characters with a meaning in URLs.
    if not _HOST_CHARACTERS.issuperset(host):
        raise ConfigError("the server's URL has a character in its host that no host has")
    labels = host.removesuffix(".").split(".")
    if len(host) > 254 or not all(0 < len(label) < 64 for label in labels):
        raise ConfigError("the server's URL has a host with an empty or too long label")
    return host
