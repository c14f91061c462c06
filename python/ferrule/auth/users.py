"""The user's side of an authorization: who sends them to a URL, and how what they bring back reaches the program.

Knows browsers, the loopback receiver and the handlers of services. Whether an answer is good is judged in `code_flow`.
"""

from __future__ import annotations

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
        return value.partition("#")[0].rpartition("?")[2]
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
    *,
    redirect_uri: str | None,
    port: int,
    preferred: int,
    timeout: float,
    redirect: Callable[[str], Any] | None,
    callback: Callable[[], Any] | None,
) -> User:
    """Get ready to be answered; `finish` it.

    Args:
        io: Who listens and calls.
        redirect_uri: The URI of `callback`; None: the receiver's own.
        port: Of the receiver, 0 for any.
        preferred: A port of before, which the client may be registered with.
        timeout: Seconds that the user has.
        redirect: Who sends the user, None for the browser.
        callback: Who brings the answer, None for the receiver.

    Raises:
        AuthorizationError: The port is taken.
    """
    if callback is not None:
        return User(io, redirect_uri or "", timeout, redirect, callback, None)
    try:
        receiver = await open_receiver(io, port, preferred)
    except OSError:
        message = f"port {port} of this machine, where the browser would come back to, is taken"
        raise auth_error(AUTHORIZATION, message) from None
    return User(io, redirect_uri or receiver.redirect_uri, timeout, redirect, None, receiver)
