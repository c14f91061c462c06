"""What was found out about a server: its era and revision, and what it said of itself.

A value that can be kept as JSON and given to a later client (`prior=`). Knows nothing of how it was found out.
"""

from __future__ import annotations

from .._protocol import versions
from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


class Verdict:
    """The era of a server, for the life of a client.

    Attributes:
        stateless: Which of the two eras.
        revision: The stateless revision to speak, or the handshake revision to offer.
        discovered: The result of `server/discover` as received, or None.
        proven: Has the server answered under this verdict? A prior one may be out of date.
    """

    __slots__ = ("discovered", "proven", "revision", "stateless")

    def __init__(
        self,
        stateless: bool,
        revision: str,
        discovered: dict[str, Any] | None = None,
        proven: bool = True,
    ) -> None:
        self.stateless = stateless
        self.revision = revision
        self.discovered = discovered
        self.proven = proven

    def export(self) -> dict[str, Any]:
        """As plain JSON data."""
        exported: dict[str, Any] = {
            "era": "stateless" if self.stateless else "handshake",
            "revision": self.revision,
        }
        if self.discovered is not None:
            exported["discover"] = self.discovered
        return exported

    @classmethod
    def imported(cls, prior: Mapping[str, Any]) -> Verdict:
        """A verdict that another client came to.

        Raises:
            ConfigError: It is not what `export` returns.
        """
        stateless = prior.get("era") == "stateless"
        ours = versions.STATELESS if stateless else versions.HANDSHAKE
        revision = prior.get("revision")
        known = isinstance(revision, str) and revision in ours
        if prior.get("era") not in ("stateless", "handshake") or not known:
            raise ConfigError("prior: expected what another client's `prior` property returned")
        discovered = prior.get("discover")
        if discovered is not None and not isinstance(discovered, dict):
            raise ConfigError("prior: discover must be an object")
        return cls(stateless, str(revision), discovered, proven=False)
