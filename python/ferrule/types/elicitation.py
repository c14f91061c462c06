"""Elicitation: what a server asks the user, and what the user said (2025-11-25, client/elicitation)."""

from __future__ import annotations

from ._base import Value, fields, optional, required
from ._flat_schema import fill_defaults as fill_defaults
from ._flat_schema import problems

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class ElicitRequest(Value):
    """A question of the server's to the user.

    Attributes:
        message: Why the server asks, for the user to read. The server's words: escape them before they are shown.
        mode: `form` for data in `requested_schema`, `url` for a page the user is to visit.
        requested_schema: A flat JSON Schema of the form, exactly as received; empty in mode `url`.
        url: Where the user is to go, whole. It is never opened or fetched by ferrule; show it with the server that
            asks (`context.server`), and open it only after the user agreed.
        elicitation_id: What `notifications/elicitation/complete` will name; None in mode `form`.
    """

    __slots__ = fields(
        message=required(str),
        mode=optional(str, "form"),
        requested_schema=optional(dict, dict),
        url=optional(str),
        elicitation_id=optional(str),
    )
    if TYPE_CHECKING:
        message: str
        mode: str = "form"
        requested_schema: dict[str, Any] = {}
        url: str | None = None
        elicitation_id: str | None = None

    def fill_defaults(self, content: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The defaults that the form's schema gives, under what the user entered; a new dict."""
        return fill_defaults(self.requested_schema, content)

    def problems(self, content: Mapping[str, Any]) -> list[str]:
        """What keeps `content` from being sent as the form's answer, such as `age: expected integer`.

        The names in it are the server's. A schema's `pattern` is not looked at.
        """
        return problems(self.requested_schema, content)


class ElicitResult(Value):
    """What the user said: made by `accept`, `decline` and `cancel`.

    Attributes:
        action: `accept`, `decline` (a no) or `cancel` (no choice was made).
        content: What was entered into the form, by field; only with `accept`.
    """

    __slots__ = fields(action=required(str), content=optional(dict))
    if TYPE_CHECKING:
        action: str
        content: Mapping[str, Any] | None = None

    @classmethod
    def accept(cls, content: Mapping[str, Any] | None = None) -> ElicitResult:
        """The user agreed: with what was entered into the form, or to visit the URL."""
        return cls("accept", None if content is None else dict(content))

    @classmethod
    def decline(cls) -> ElicitResult:
        """The user said no."""
        return cls("decline")

    @classmethod
    def cancel(cls) -> ElicitResult:
        """The user dismissed the question."""
        return cls("cancel")
