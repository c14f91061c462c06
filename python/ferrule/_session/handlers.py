"""The user's functions for what the server asks and says, checked once.

Knows which were given; when they are called is `inbound`'s business.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any


class Handlers:
    """What the constructor was given, by the same names."""

    __slots__ = ("on_elicitation", "on_log", "on_notification", "on_sampling", "roots", "sampling_tools")

    def __init__(
        self,
        *,
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
        self.roots = roots
        self.on_log = on_log
        self.on_notification = on_notification

    @property
    def any(self) -> bool:
        """Could a message that the server sends unasked be of use to one of them?"""
        return any(getattr(self, name) is not None for name in _UNASKED)


_UNASKED = ("on_elicitation", "on_sampling", "roots", "on_log", "on_notification")
