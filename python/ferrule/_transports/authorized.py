"""What an `Auth` adds to the requests of one view, and what is done when the server refuses them.

Knows when an `Auth` is asked what: headers for each request, `prepare` when it has none yet, `react` after a refusal.
How it comes by a token is its own business. Loaded when there is such an object, or a refusal to be explained.
"""

from __future__ import annotations

from .._http.cookies import CookieJar
from .._protocol.headers import user_headers
from ..auth.interface import Auth, AuthContext, AuthRequest, Challenge
from ..errors import AuthChallengeError, AuthStepUpError, AuthTokenError, ConfigError
from .call import UNREADY
from .fresh import Fresh

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._core import ResponseHead
    from .._http.redirects import Trail
    from .._http.url import Url
    from .._io.interface import IO
    from ..errors import AuthError
    from ..limits import Limits

    Headers = list[tuple[str, str]]

_FUTILE = 60.0
"""Seconds in which credentials that were refused right after they had been renewed are not renewed again: a user is
not sent to log in twice for what did not help."""


class Authorized(Fresh):
    """As `Fresh`, with an `Auth`.

    Args:
        io: Has the clock and the mutex.
        limits: How many cookies are kept, and how large.
        label: The server as texts name it.
        auth: What authorizes the requests.
        context: Where that is.
        cookies: The user's own `Cookie` header.

    Raises:
        ConfigError: `auth` is no `Auth`.
    """

    __slots__ = (
        "_bound",
        "_checked",
        "_cookies",
        "_futile",
        "_futile_until",
        "_io",
        "_limits",
        "_names",
        "_replaced",
        "_request",
        "_url",
    )

    _jar: CookieJar | None  # type: ignore[assignment]  # most servers set none

    def __init__(self, io: IO, limits: Limits, label: str, auth: Any, context: AuthContext, cookies: str = "") -> None:
        if not isinstance(auth, Auth):
            raise ConfigError("auth: expected a token (str), a function that returns one, or an Auth")
        self._io = io
        self._limits = limits
        self._label = label
        self._cookies = cookies
        self._jar = CookieJar(io, limits, cookies) if cookies else None
        self._bound = auth.bind(context)
        self._url = context.server
        self._request = _request("POST", context.server)
        self._checked: Headers | None = None
        self._names: frozenset[str] = frozenset()
        self._replaced: Headers | None = None
        """Credentials that were refused and have been replaced: a later refusal of them is answered already."""
        self._futile: Headers | None = None
        self._futile_until = 0.0

    def headers(self, url: Url, own: Headers | None = None, verb: str = "POST") -> Headers:
        """The headers for a request that is about to be made; `UNREADY`: `prepared` gives them. The hot path."""
        request = self._request if url is self._url and verb == "POST" else self._describe(url, verb)
        given = self._bound.headers(request)
        if given is None:
            return UNREADY
        if given is not self._checked:
            self._check(given)
        return given if own is None and self._jar is None else self._with_others(given, url, own)

    async def prepared(self, url: Url, own: Headers | None, verb: str, deadline: float) -> Headers:
        """The headers for a request, after waiting for what is missing.

        Raises:
            AuthError: It cannot be had.
            Expired: At the deadline. Nothing was sent.
        """
        request = self._describe(url, verb)
        given = await self._ask(self._bound.prepare, request, deadline)
        if given is None:
            given = self._bound.headers(request)
        if given is None:
            raise AuthTokenError(f"{self._label}: {self._bound!r} has no credentials, even after it prepared them")
        self._check(given)
        return self._with_others(given, url, own)

    async def react(
        self, url: Url, sent: Headers, own: Headers | None, verb: str, head: ResponseHead, trail: Trail, deadline: float
    ) -> bool:
        """Have a refusal answered: is the request to be sent once more? At most once for each cause."""
        challenge = challenge_of(head)
        cause = _cause(challenge)
        given = _credentials(sent, own)
        credentials = _lasting(given)
        if cause is None or cause in trail.causes:
            if cause == "401":
                self._futile, self._futile_until = credentials, self._io.now() + _FUTILE
            return False
        trail.causes += (cause,)
        is_refused = cause == "401"
        if is_refused and credentials == self._futile and self._io.now() < self._futile_until:
            return False
        request = _request(verb, url, tuple(given))

        async def answer(deadline: float) -> bool:
            # Asked and noted here: whoever comes when this is over finds it noted, or is one of those who waited.
            is_answered = is_refused and credentials == self._replaced
            if is_answered and _lasting(self.headers(url, None, verb)) != credentials:
                return True
            again = bool(await self._ask(self._bound.react, request, challenge, deadline))
            if again and is_refused:
                self._replaced = credentials
            return again

        # Whoever was refused with the same credentials for the same reason waits for the same answer.
        key = ("react", self, challenge.status, challenge.www_authenticate, request.sent)
        until = max(deadline, self._io.now() + self._bound.patience)
        return await self._io.once(key, answer, until)  # type: ignore[no-any-return]

    async def _ask(self, method: Any, *args: Any) -> Any:
        """Call the `Auth`: a user's through the IO; what ferrule's own return waits through it as well."""
        value = await self._io.call(method, *args)
        return await value if hasattr(type(value), "__await__") else value

    def put_off(self, deadline: float, began: float) -> float:
        """A call's deadline, after a reaction that began then: what a person took does not count."""
        return deadline + self._io.now() - began if self._bound.patience else deadline

    def partition(self) -> bytes | None:
        """See `Auth.partition`."""
        return self._bound.partition()

    def cookies(self, url: Url) -> str | None:
        """See `Fresh.cookies`."""
        return None if self._jar is None else self._jar.line(url)

    def take(self, head: ResponseHead, url: Url) -> None:
        """Keep the cookies of an answer."""
        if self._jar is None:
            jar = CookieJar(self._io, self._limits, self._cookies)
            with self._io.mutex():
                self._jar = self._jar or jar
        super().take(head, url)

    def _describe(self, url: Url, verb: str) -> AuthRequest:
        request = _request(verb, url)
        if verb == "POST":  # a redirect that is remembered
            self._request, self._url = request, url
        return request

    def _check(self, given: Headers) -> None:
        """Raise ConfigError for headers that cannot be sent, or are not the user's to set."""
        if not isinstance(given, list):
            raise ConfigError(f"{self._label}: the headers that an Auth gives must be a list of pairs")
        for name, value in given:
            # Most are what was checked already, but for a value in which nothing can be wrong.
            if name not in self._names or not (type(value) is str and value.isascii() and value.isprintable()):
                user_headers(given)
                self._names |= {name}
        self._checked = given

    def _with_others(self, given: Headers, url: Url, own: Headers | None) -> Headers:
        headers = [*own, *given] if own else list(given)
        cookies = self.cookies(url)
        if cookies is not None:
            headers.append(("Cookie", cookies))
        return headers


def _request(verb: str, url: Url, sent: tuple[tuple[str, str], ...] = ()) -> AuthRequest:
    return AuthRequest(verb, url.origin + url.target, sent)


def _credentials(sent: Headers, own: Headers | None) -> Headers:
    """What of a request's headers came from the `Auth`."""
    return [field for field in sent if field[0] != "Cookie" and field not in (own or ())]


def _lasting(given: Headers) -> Headers:
    """What of it is the same in the next request: a proof (RFC 9449) is not."""
    return [field for field in given if field[0] != "DPoP"]


def challenge_of(head: ResponseHead) -> Challenge:
    """What a refusal says."""
    return Challenge(head.status, head.get_all("www-authenticate"), head.get("dpop-nonce"))


def _cause(challenge: Challenge) -> str | None:
    """Why the request was refused before it was executed; None where that is not proved (R2)."""
    if challenge.status == 403:
        return "insufficient_scope" if challenge.wants_scope else None
    return "use_dpop_nonce" if challenge.wants_nonce else "401"


def refusal(head: ResponseHead, where: str) -> AuthError | None:
    """The error for a refusal that nothing answers; None for a 403 that is not about scopes."""
    challenge = challenge_of(head)
    if challenge.status == 403 and not challenge.wants_scope:
        return None
    kind: type[AuthError] = AuthChallengeError
    wanted = "the server wants authorization"
    if challenge.status == 403:
        kind, wanted = AuthStepUpError, "the server wants more scopes than the token has"
    return kind(
        f"{where}: {wanted}",
        status=head.status,
        error=challenge.param("error"),
        description=challenge.param("error_description"),
        request_sent=True,
    )
