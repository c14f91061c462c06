"""Extensions of the protocol that a client speaks beside the protocol itself.

Specification: 2026-07-28, basic/index (Extensions, ResultType). Knows what an extension claims, not what it means.
"""

from __future__ import annotations

from .._value import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


TASKS = "io.modelcontextprotocol/tasks"
"""The extension of tasks, which is declared by the requests that want it and no others."""


class Extension(Frozen):
    """An extension that the client declares, and what of the server's words it understands.

    Attributes:
        id: Its identifier, such as "com.example/thing".
        settings: What is declared under it, a JSON object.
        result_types: The values of `resultType` that it brings.
        notifications: The methods of the notifications that it brings.
    """

    __slots__ = ("id", "notifications", "result_types", "settings")

    id: str
    settings: Mapping[str, Any]
    result_types: tuple[str, ...]
    notifications: tuple[str, ...]

    def __init__(
        self,
        id: str,
        settings: Mapping[str, Any] | None = None,
        result_types: Iterable[str] = (),
        notifications: Iterable[str] = (),
    ) -> None:
        self._set("id", id)
        self._set("settings", dict(settings or {}))
        self._set("result_types", tuple(result_types))
        self._set("notifications", tuple(notifications))
