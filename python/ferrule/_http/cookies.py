"""The cookies of one origin: what its answers set, and what the next request gives back (RFC 6265, section 5).

Knows one origin and no other, so nothing kept here can reach another one. Kept for the life of a client's view, in
memory only: a load balancer that pins its clients to a server is what cookies are for here. Never shown, never logged.
"""

from __future__ import annotations

import math

from .. import _log
from .content import seconds_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._core import ResponseHead
    from .._io.interface import IO
    from ..limits import Limits
    from .url import Url

_BEGINNING = "Tue, 05 Nov 2024 00:00:00 GMT"
"""No cookie of an MCP server expired before there was the protocol: where the server tells no time (`Date`), an earlier
`Expires` means "delete this" and a later one is left to the server."""


class _Cookie:
    __slots__ = ("expires_at", "name", "path", "text")

    def __init__(self, name: str, content: str, path: str, expires_at: float) -> None:
        self.name = name
        self.text = f"{name}={content}"
        self.path = path
        self.expires_at = expires_at

    def covers(self, path: str) -> bool:
        """Section 5.1.4: is a request for this path within the cookie's?"""
        return path == self.path or path.startswith(self.path if self.path.endswith("/") else f"{self.path}/")


class CookieJar:
    """What one view of a client keeps.

    Args:
        io: Has the clock and the mutex.
        limits: `max_cookies` (the oldest goes first) and `max_cookie_bytes` (a larger one is not kept).
        given: The user's own `Cookie` header, if any: it is sent with every request, and a server's cookie of a name
            that it holds is not.
    """

    __slots__ = ("_cookies", "_given", "_given_names", "_io", "_limits")

    def __init__(self, io: IO, limits: Limits, given: str = "") -> None:
        self._io = io
        self._limits = limits
        self._given = given.strip("; \t")
        self._given_names = {pair.partition("=")[0].strip() for pair in given.split(";")}
        self._cookies: dict[tuple[str, str], _Cookie] = {}

    def __len__(self) -> int:
        return len(self._cookies)

    def __repr__(self) -> str:
        return f"<CookieJar of {len(self._cookies)}>"

    def take(self, head: ResponseHead, url: Url) -> None:
        """Keep, replace or drop what the answer to a request for `url` sets."""
        now, date = self._io.now(), head.get("date")
        found = [_parse(value, url, now, date, self._limits) for value in head.get_all("set-cookie")]
        with self._io.mutex():
            for one in found:
                if type(one) is _Cookie:
                    self._keep(one, now)
        for one in found:
            if type(one) is str:
                _log.debug("a cookie was not kept: %s", one)

    def line(self, url: Url) -> str | None:
        """The `Cookie` header for a request, None when there is none to send."""
        path = url.target.partition("?")[0]
        with self._io.mutex():
            self._drop_expired(self._io.now())
            found = [one for one in self._cookies.values() if one.covers(path) and one.name not in self._given_names]
        found.sort(key=lambda cookie: -len(cookie.path))  # section 5.4: longer paths first, then the older
        texts = [self._given] if self._given else []
        return "; ".join(texts + [cookie.text for cookie in found]) or None

    def _keep(self, cookie: _Cookie, now: float) -> None:
        """Under the mutex."""
        key = (cookie.name, cookie.path)
        if cookie.expires_at <= now:
            self._cookies.pop(key, None)
            return
        if key not in self._cookies and len(self._cookies) >= self._limits.max_cookies:
            self._drop_expired(now)
        while key not in self._cookies and len(self._cookies) >= self._limits.max_cookies:
            if not self._cookies:
                return
            del self._cookies[next(iter(self._cookies))]
        self._cookies[key] = cookie

    def _drop_expired(self, now: float) -> None:
        """Under the mutex."""
        for key in [key for key, cookie in self._cookies.items() if cookie.expires_at <= now]:
            del self._cookies[key]


def _parse(value: str, url: Url, now: float, date: str | None, limits: Limits) -> _Cookie | str:
    """What one `Set-Cookie` sets, or why it is not kept."""
    pair, _, rest = value.partition(";")
    name, is_pair, content = pair.partition("=")
    name, content = name.strip(" \t"), content.strip(" \t")
    # What could not go out again must not be kept: it would spoil every request.
    if not is_pair or not name or not (name + content).isascii() or not (name + content).isprintable():
        return f"{len(value)} bytes that are no name and value of printable ASCII"
    size = len(name) + len(content)
    if size > limits.max_cookie_bytes:
        return f"{size} bytes are more than max_cookie_bytes ({limits.max_cookie_bytes})"
    attributes = _attributes(rest)
    if not _is_for(url, attributes):
        return "it is not for this origin"
    path = attributes.get("path", "")
    if not path.startswith("/"):
        path = _default_path(url)
    return _Cookie(name, content, path, _expiry(attributes, now, date))


def _attributes(text: str) -> dict[str, str]:
    """Attributes by lower-cased name; of those named twice the last one counts."""
    found = {}
    for part in text.split(";"):
        name, _, value = part.partition("=")
        found[name.strip(" \t").lower()] = value.strip(" \t")
    return found


def _is_for(url: Url, attributes: dict[str, str]) -> bool:
    """May this origin set such a cookie? `Secure` needs https, `Domain` must cover the host."""
    if "secure" in attributes and not url.is_https:
        return False
    domain = attributes.get("domain", "").removeprefix(".").lower()
    host = url.host.removesuffix(".")
    return not domain or host == domain or (host.endswith(f".{domain}") and not _is_address(host))


def _is_address(host: str) -> bool:
    return ":" in host or not host.strip("0123456789.")


def _default_path(url: Url) -> str:
    """Section 5.1.4: the directory of what was asked."""
    return url.target.partition("?")[0].rpartition("/")[0] or "/"


def _expiry(attributes: dict[str, str], now: float, date: str | None) -> float:
    """When it ends, on the IO's clock. `Max-Age` goes before `Expires`; neither: with the client."""
    age = attributes.get("max-age", "")
    digits = age.removeprefix("-")
    if digits.isascii() and digits.isdecimal():
        return now + float(digits[:12]) if digits == age else -math.inf
    if "expires" not in attributes:
        return math.inf
    seconds = seconds_between(date or _BEGINNING, attributes["expires"])
    if seconds is None or (date is None and seconds > 0):
        return math.inf
    return now + seconds
