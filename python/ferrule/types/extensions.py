"""Results that only an extension understands."""

from __future__ import annotations

from ._base import fields
from .common import Result


class ExtensionResult(Result):
    """A result of a kind that one of the client's extensions claimed: see `ferrule.Extension`.

    Attributes:
        result_type: The kind, one of the extension's `result_types`.
        extra: All that the server sent besides, as received.
    """

    __slots__ = fields()
