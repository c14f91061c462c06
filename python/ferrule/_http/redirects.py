"""Which redirects are followed, and where to.

Pure rules. 307 and 308 within the origin keep method and body and prove that nothing was executed;
all others would change the method, or hand credentials to somebody else.
"""

from __future__ import annotations

from .._protocol import refusals
from ..errors import ConfigError, HTTPStatusError, LimitExceeded
from .url import Url, encode_target, parse_url

STATUSES = frozenset((301, 302, 303, 307, 308))


class Trail:
    """Why one request was written again so far.

    Attributes:
        causes: The refusals that authorization has answered.
        followed: How many redirects.
        repaired: Was an https → http redirect of the same host followed as https? Done once.
    """

    __slots__ = ("_limit", "causes", "followed", "repaired")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.causes: tuple[str, ...] = ()
        self.followed = 0
        self.repaired = False

    @staticmethod
    def leads_on(status: int) -> bool:
        """Is an answer of this status a redirect?"""
        return status in STATUSES

    def follow(self, url: Url, status: int, location: str | None) -> Url:
        """Where to send the request that `url` answered with a redirect.

        Raises:
            HTTPStatusError: The redirect is refused; the text names both origins.
            LimitExceeded: There were too many.
        """
        target, repaired = _resolve(url, status, location, self.repaired)
        if self.followed >= self._limit:
            raise LimitExceeded(
                f"{url.origin}: more than {self._limit} redirects",
                limit="max_redirects",
                request_sent=True,
            )
        self.followed += 1
        self.repaired = self.repaired or repaired
        return target


def resolve(url: Url, status: int, location: str | None, *, repaired: bool = False) -> Url:
    """Where a redirect leads.

    Args:
        url: What answered.
        status: One of `STATUSES`.
        location: The `Location` header as received (latin-1).
        repaired: Was a redirect from https to http followed as https already?

    Raises:
        HTTPStatusError: The redirect is refused; the text names both origins.
    """
    return _resolve(url, status, location, repaired)[0]


def _resolve(url: Url, status: int, location: str | None, repaired: bool) -> tuple[Url, bool]:
    if not location:
        raise _refused(url, status, "without saying where to")
    try:
        target = locate(url, location)
    except ConfigError:
        raise _refused(url, status, "to something that is no http or https URL") from None
    where = f"to {target.origin}"
    if status not in refusals.STATUSES:
        raise _refused(url, status, f"{where}, which would not keep the method")
    if target.origin == url.origin:
        return target, False
    if not repaired and _is_downgrade(url, target):
        # A server behind a proxy that ends TLS often does not know that it is reached by https.
        return Url("https", url.host, url.port, target.target, url.userinfo), True
    raise _refused(url, status, f"{where}, another origin")


def _is_downgrade(url: Url, target: Url) -> bool:
    if (url.scheme, target.scheme, target.host) != ("https", "http", url.host):
        return False
    return url.port == target.port or (url.port, target.port) == (443, 80)


def locate(url: Url, location: str) -> Url:
    """Resolve a reference (RFC 3986, section 5.2), its path and query otherwise left alone.

    Raises:
        ConfigError: It leads to no URL.
    """
    if any(ch < " " or ch == "\x7f" for ch in location):
        raise ConfigError("control character")
    # latin-1 stands for the bytes that were received; they go back as they came.
    reference = "".join(ch if ch < "\x7f" else f"%{ord(ch):02X}" for ch in location.strip(" "))
    reference = reference.partition("#")[0]
    if reference.startswith("//"):
        reference = f"{url.scheme}:{reference}"
    elif not _has_scheme(reference):
        return Url(url.scheme, url.host, url.port, encode_target(_join(url, reference)), url.userinfo)
    target = parse_url(reference)
    # A user in Location is the server's idea, not ours: ours stays ours.
    return Url(target.scheme, target.host, target.port, target.target, url.userinfo)


def _has_scheme(reference: str) -> bool:
    scheme, found, _ = reference.partition(":")
    return bool(found) and not any(ch in "/?" for ch in scheme)


def _join(url: Url, reference: str) -> str:
    base, _, _ = url.target.partition("?")
    if not reference:
        return url.target
    if reference.startswith("?"):
        return base + reference
    path, mark, query = reference.partition("?")
    if not path.startswith("/"):
        path = base[: base.rfind("/") + 1] + path
    return _without_dots(path) + mark + query


def _without_dots(path: str) -> str:
    """RFC 3986, section 5.2.4."""
    if "/." not in path:
        return path
    kept: list[str] = []
    parts = path.split("/")[1:]
    for part in parts:
        if part == "..":
            if kept:
                kept.pop()
        elif part != ".":
            kept.append(part)
    if parts[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _refused(url: Url, status: int, what: str) -> HTTPStatusError:
    return HTTPStatusError(f"{url.origin} redirected ({status}) {what}: not followed", status=status)
