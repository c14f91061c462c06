"""The user's side of an authorization: who sends them to a URL, and how what they bring back reaches the program.

Knows browsers, the loopback receiver and the handlers of services. Whether an answer is good is judged in `code_flow`.
"""

from __future__ import annotations

from .._http.url import parse_url
from ..errors import AuthError, AuthorizationError, ConfigError
from .browser import send_user
from .receiver import open_receiver
from .steps import AUTHORIZATION, auth_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .._io.interface import IO
    from .receiver import Receiver


class User:
    """What is open while one user is asked.

    Attributes:
        redirect_uri: Where the authorization server sends the browser back to.
        timeout: Seconds that the user has.
    """

    __slots__ = ("_callback", "_io", "_receiver", "_redirect", "redirect_uri", "timeout")

    def __init__(
        self,
        io: IO,
        redirect_uri: str,
        timeout: float,
        redirect: Callable[[str], Any] | None,
        callback: Callable[[], Any] | None,
        receiver: Receiver | None,
    ) -> None:
        self._io = io
        self._redirect = redirect
        self._callback = callback
        self._receiver = receiver
        self.redirect_uri = redirect_uri
        self.timeout = timeout

    async def ask(self, url: str, state: str, deadline: float) -> str | Mapping[str, str]:
        """Send the user there; the query of the answer, or its parameters.

        Raises:
            Expired: Nobody came back.
        """
        if self._redirect is None:
            await send_user(self._io, url)
        else:
            await call(self._io, "redirect", self._redirect, url)
        if self._receiver is not None:
            return await self._receiver.query(state, deadline)
        assert self._callback is not None
        return _answer_of(await call(self._io, "callback", self._callback))

    def finish(self, error: BaseException | None) -> None:
        """Tell the user how it went, and stop listening."""
        if self._receiver is not None:
            self._receiver.show(None if error is None else _explain(error))
            self._receiver.close()


async def call(io: IO, name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Run one of the user's functions. A coroutine is for `AsyncClient`.

    Raises:
        ConfigError: `Client` was given a coroutine function.
    """
    value = await io.call(function, *args)
    if hasattr(type(value), "__await__"):
        value.close()
        raise ConfigError(f"{name} is a coroutine function: use AsyncClient, or give Client a plain one")
    return value


def _answer_of(value: Any) -> str | Mapping[str, str]:
    """What `callback` returned: the whole URL, its query, or the parameters."""
    if isinstance(value, str):
        place, found, query = value.partition("#")[0].partition("?")
        return query if found and "=" not in place else value.partition("#")[0]  # a value may hold a question mark
    if hasattr(value, "items"):
        return {str(name): text for name, text in value.items() if isinstance(text, str)}
    raise ConfigError("callback must return the URL that the browser came back to, or a mapping of its parameters")


def _explain(error: BaseException) -> str:
    """What went wrong, for the user's eyes: what the authorization server said, where that is known to be its word."""
    if isinstance(error, AuthorizationError) and error.error is not None:
        detail = f": {error.description}" if error.description else ""
        return f"The authorization server answered {error.error}{detail}"
    if isinstance(error, AuthError):
        return f"{error}."
    return "The program gave up before the log-in was complete."


async def meet_user(
    io: IO,
    redirect_uri: str,
    *,
    before: str | None,
    timeout: float,
    redirect: Callable[[str], Any] | None,
    callback: Callable[[], Any] | None,
) -> User:
    """Get ready to be answered; `finish` it.

    Args:
        io: Who listens and calls.
        redirect_uri: Where the browser is to come back to: to `callback`, or to this machine.
        before: The redirect URI of last time, if there was one.
        timeout: Seconds that the user has.
        redirect: Who sends the user, None for the browser.
        callback: Who brings the answer, None for the receiver.

    Raises:
        AuthorizationError: The port is taken.
    """
    if callback is not None:
        return User(io, redirect_uri, timeout, redirect, callback, None)
    wanted = parse_url(redirect_uri)
    try:
        receiver = await open_receiver(io, wanted, before)
    except OSError:
        message = f"port {wanted.port} of this machine, where the browser would come back to, is taken"
        raise auth_error(AUTHORIZATION, message) from None
    return User(io, receiver.redirect_uri, timeout, redirect, None, receiver)


def check_redirect_uri(redirect_uri: str, *, received: bool) -> None:
    """See that a redirect URI can be used (2026-07-28, security considerations: https, or this machine).

    Args:
        redirect_uri: What the user gave.
        received: Is it ours to listen at?

    Raises:
        ConfigError: It cannot.
    """
    url = parse_url(redirect_uri)
    local = url.host in ("127.0.0.1", "localhost") and not url.is_https
    if "?" in redirect_uri or "#" in redirect_uri or url.userinfo is not None:
        raise ConfigError("redirect_uri must have no query, fragment or user")
    if received and not local:
        raise ConfigError("redirect_uri is not on this machine (http://127.0.0.1/...): give callback as well")
    if not local and not url.is_https:
        raise ConfigError("redirect_uri must be https, or on this machine")
