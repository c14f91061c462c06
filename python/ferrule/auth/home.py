"""Which authorization server credentials belong to: the one the user named, or else the first they were used with.

Knows one issuer. Servers that are talked to at the same time, in threads too, get one answer between them.
"""

from __future__ import annotations


class Home:
    """Whose credentials they are."""

    __slots__ = ("_settled",)

    def __init__(self, issuer: str | None) -> None:
        self._settled: dict[str, str] = {} if issuer is None else {"issuer": issuer}

    @property
    def issuer(self) -> str | None:
        """The authorization server; None: that is open yet."""
        return self._settled.get("issuer")

    def settle(self, issuer: str) -> str:
        """Say that it is this one, if it is open yet; the one it is."""
        return self._settled.setdefault("issuer", issuer)  # atomic, so it needs no lock

    def __repr__(self) -> str:
        return f"<Home {'open' if self.issuer is None else 'settled'}>"
