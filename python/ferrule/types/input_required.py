"""The result that asks back before there is one (2026-07-28, basic/patterns/mrtr), for who reads results by hand."""

from __future__ import annotations

from ._base import fields, optional
from .common import Result

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class InputRequiredResult(Result):
    """The server needs input before it goes on. The clients raise it as `errors.InputRequired`.

    Attributes:
        input_requests: What it asks, by keys of its own, as received; empty where it only wants the request again.
        request_state: What to hand back with the next request, unaltered; None if there is none.
    """

    __slots__ = fields(input_requests=optional(dict, dict), request_state=optional(str))
    if TYPE_CHECKING:
        input_requests: dict[str, Any] = {}
        request_state: str | None = None
