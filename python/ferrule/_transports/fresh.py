"""Headers that differ from request to request: a token that is asked for each time, and cookies.

Knows no template and no connection; most clients need none of this, and have none.
"""

from __future__ import annotations

from .._http.cookies import CookieJar
from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .._core import ResponseHead
    from .._http.redirects import Trail
    from .._http.url import Url
    from .._io.interface import IO
    from ..limits import Limits

    Headers = list[tuple[str, str]]


class Fresh:
    """What one view adds to each of its requests.

    Args:
        io: Has the clock and the mutex.
        limits: How many cookies are kept, and how large.
        label: The server as texts name it.
        auth: Returns the token for one request, or None.
        cookies: The user's own `Cookie` header.
    """

    __slots__ = ("_auth", "_jar", "_label")

    def __init__(
        self, io: IO, limits: Limits, label: str, auth: Callable[[], str] | None = None, cookies: str = ""
    ) -> None:
        self._label = label
        self._auth = auth
        self._jar = CookieJar(io, limits, cookies)

    def headers(self, url: Url, own: Headers | None = None, verb: str = "POST") -> Headers:
        """The headers for a request that is about to be made, `own` to it first; `UNREADY`: `prepared` gives them.

        Raises:
            ConfigError: `auth` returned no token.
        """
        headers = list(own or ())
        if self._auth is not None:
            token = self._auth()
            if not isinstance(token, str) or not token.isascii() or not token.isprintable():
                if hasattr(token, "close"):
                    token.close()  # a coroutine: Python would warn that nobody awaited it
                raise ConfigError(f"{self._label}: the function given as auth must return printable ASCII text")
            headers.append(("Authorization", f"Bearer {token}"))
        cookies = self.cookies(url)
        if cookies is not None:
            headers.append(("Cookie", cookies))
        return headers

    async def prepared(self, url: Url, own: Headers | None, verb: str, deadline: float) -> Headers:
        """The headers for a request, after waiting for what is missing: here, nothing ever is."""
        return self.headers(url, own, verb)

    async def react(
        self, url: Url, sent: Headers, own: Headers | None, verb: str, head: ResponseHead, trail: Trail, deadline: float
    ) -> bool:
        """Is a request that was refused to be sent once more? There is no other token to send."""
        return False

    def partition(self) -> bytes | None:
        """Whose the answers are, for a cache; None: unknown."""
        return None

    def cookies(self, url: Url) -> str | None:
        """The cookies that a request would carry now."""
        return self._jar.line(url)

    def take(self, head: ResponseHead, url: Url) -> None:
        """Keep the cookies of an answer of the server's; those of a proxy that wants credentials are none of its."""
        if head.status != 407:
            self._jar.take(head, url)
