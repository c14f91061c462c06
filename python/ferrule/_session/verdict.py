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

_HTTP_SSE = "http+sse"


class Verdict:
    """The era of a server, for the life of a client.

    Attributes:
        stateless: Which of the two eras.
        revision: The stateless revision to speak, or the handshake revision to offer.
        discovered: The result of `server/discover` as received, or None.
        proven: Has the server answered under this verdict? A prior one may be out of date.
        http_sse: Is the server reached over the transport of 2024-11-05?
    """

    __slots__ = ("discovered", "http_sse", "proven", "revision", "stateless")

    def __init__(
        self,
        stateless: bool,
        revision: str,
        discovered: dict[str, Any] | None = None,
        proven: bool = True,
        http_sse: bool = False,
    ) -> None:
        self.stateless = stateless
        self.revision = revision
        self.discovered = discovered
        self.proven = proven
        self.http_sse = http_sse

    def export(self) -> dict[str, Any]:
        """As plain JSON data."""
        exported: dict[str, Any] = {
            "era": "stateless" if self.stateless else "handshake",
            "revision": self.revision,
        }
        if self.discovered is not None:
            exported["discover"] = self.discovered
        if self.http_sse:
            exported["transport"] = _HTTP_SSE
        return exported

    @classmethod
    def imported(cls, prior: Mapping[str, Any]) -> Verdict:
        """A verdict that another client came to.

        Raises:
            ConfigError: It is not what `export` returns.
        """
        stateless = prior.get("era") == "stateless"
        revision = prior.get("revision")
        known = versions.is_stateless(revision) if stateless else versions.is_handshake(revision)
        if prior.get("era") not in ("stateless", "handshake") or not known:
            raise ConfigError("prior: expected what another client's `prior` property returned")
        discovered = prior.get("discover")
        if discovered is not None and not isinstance(discovered, dict):
            raise ConfigError("prior: discover must be an object")
        transport = prior.get("transport")
        if transport is not None and (transport != _HTTP_SSE or stateless):
            raise ConfigError("prior: transport names none that this era has")
        return cls(stateless, str(revision), discovered, proven=False, http_sse=transport is not None)
