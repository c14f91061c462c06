"""The user's functions for what the server asks and says, checked once.

Knows which were given and what they must look like; when they are called is `inbound`'s business.
"""

from __future__ import annotations

from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from .._io.interface import IO

_ASKED = {
    "elicitation/create": "on_elicitation",
    "sampling/createMessage": "on_sampling",
    "roots/list": "roots",
}
_FUNCTIONS = ("on_elicitation", "on_sampling", "on_log", "on_notification")


class Handlers:
    """What the constructor was given, by the same names.

    Attributes:
        any: Was there any?
        asked: Was there one for what servers ask?
        roots: A function that returns the roots, or the tuple of `Root` that they are; None for none.
    """

    __slots__ = (
        "any",
        "asked",
        "on_elicitation",
        "on_log",
        "on_notification",
        "on_sampling",
        "roots",
        "sampling_tools",
    )

    def __init__(
        self,
        *,
        blocking: bool = False,
        on_elicitation: Callable[..., Any] | None = None,
        on_sampling: Callable[..., Any] | None = None,
        sampling_tools: bool = False,
        roots: Iterable[Any] | Callable[..., Any] | None = None,
        on_log: Callable[..., Any] | None = None,
        on_notification: Callable[..., Any] | None = None,
    ) -> None:
        self.on_elicitation = on_elicitation
        self.on_sampling = on_sampling
        self.sampling_tools = sampling_tools
        self.on_log = on_log
        self.on_notification = on_notification
        self.asked = not (on_elicitation is None and on_sampling is None and roots is None)
        self.any = self.asked or on_log is not None or on_notification is not None
        for name in _FUNCTIONS:
            _check(name, getattr(self, name), blocking)
        if sampling_tools and on_sampling is None:
            raise ConfigError("sampling_tools: needs on_sampling, which handles them")
        if callable(roots):
            _check("roots", roots, blocking)
            self.roots: Any = roots
        else:
            self.roots = None if roots is None else fixed_roots(roots)

    def handle(self, method: str) -> bool:
        """Is there a handler for this request of a server's?"""
        handler = _ASKED.get(method)
        return handler is not None and getattr(self, handler) is not None

    def capabilities(self, handshake: bool, extras: Mapping[str, Any]) -> dict[str, Any]:
        """What to declare in an era, the user's extras included: see `client_capabilities`."""
        if not self.asked:
            return dict(extras)
        from .._protocol.capabilities import client_capabilities

        return client_capabilities(
            handshake=handshake,
            elicitation=self.on_elicitation is not None,
            sampling=self.on_sampling is not None,
            sampling_tools=self.sampling_tools,
            roots=self.roots is not None,
            extras=extras,
        )


def _check(name: str, handler: Any, blocking: bool) -> None:
    """Raise for what cannot be called, or not be awaited by who calls it."""
    if handler is None:
        return
    if not callable(handler):
        raise ConfigError(f"{name}: expected a function")
    if blocking:
        refuse_coroutine_function(name, handler)


def refuse_coroutine_function(name: str, handler: Any) -> None:
    """Raise ConfigError for a function that only AsyncClient can await."""
    import inspect

    if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None)):  # noqa: B004
        raise ConfigError(f"{name}: Client cannot await an async function; use AsyncClient")


def fixed_roots(given: Any) -> tuple[Any, ...]:
    """The roots as values.

    Raises:
        ConfigError: One of them is none.
    """
    from ..types.roots import Root

    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__") or hasattr(given, "items"):
        raise ConfigError("roots: expected a list of file:// URIs, or a function that returns one")
    return tuple(Root.of(item) for item in given)


async def call(io: IO, handler: Any, *args: Any) -> Any:
    """Run the user's function and return what it gives; the sync client cannot await that."""
    value = await io.call(handler, *args)
    if hasattr(type(value), "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise ConfigError("Client cannot await what a handler returns; use AsyncClient")
    return value
