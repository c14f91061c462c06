"""What all views of one client share: the IO, the way to the server, the verdict about it, the ids.

Knows how to make these anew after a fork; knows nothing of single requests.
"""

from __future__ import annotations

import itertools
import weakref

from .. import _wire
from .._json import dumps
from .._protocol import envelope
from .._protocol.stateless import StatelessEra
from .verdict import Verdict

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .._io.interface import IO
    from .._protocol.era import Era
    from .._transports.call import Link
    from .._transports.interface import Transport
    from .caching import Caching
    from .listening import Listener
    from .reception import Reception
    from .session import Session
    from .settings import Settings


_NO_CLAIMS: frozenset[str] = frozenset()  # one for all: each `frozenset()` makes another, of 216 bytes


class Peer:
    """A server, as one client knows it.

    Attributes:
        caching: What answers are kept; None before the first question whose answer could be.
        io: Does everything that waits.
        transport: Carries messages; views derive their own from it.
        settings: What the client was asked to be.
        verdict: The server's era, once found out.
        next_id: Gives each request its id, never the same twice (basic/index, Requests).
        generation: Counts up when a fork made everything anew.
        listeners: The streams that sessions keep open for what the server sends unasked.
        sessions: The sessions that have an id at the server, with their links: to be ended on close.
        closed: No call is taken any more.
        default_info: Who the client says it is where the protocol wants a name and none was given.
    """

    __slots__ = (
        "__weakref__",
        "_declaring",
        "_eras",
        "_make",
        "_reception",
        "_renewed",
        "caching",
        "closed",
        "default_info",
        "generation",
        "io",
        "listeners",
        "next_id",
        "sessions",
        "settings",
        "transport",
        "verdict",
    )

    def __init__(self, settings: Settings, make: Callable[[], tuple[IO, Transport]]) -> None:
        self._make = make
        self._eras: dict[tuple[str, str | None], StatelessEra] = {}
        self._declaring: dict[tuple[object, ...], bytes] | None = None
        self._renewed: dict[IO, tuple[IO, Transport]] = {}
        self.settings = settings
        self.io, self.transport = make()
        self.default_info = {"name": "ferrule", "version": _wire.VERSION}
        self.next_id: Callable[[], int] = itertools.count(1).__next__
        self.verdict: Verdict | None = Verdict.imported(settings.prior) if settings.prior else None
        self.sessions: dict[Link, Session] = {}
        self._reception: Reception | None = None
        self.caching: Caching | None = None
        self.listeners: weakref.WeakSet[Listener] | None = None
        self.generation = 0
        self.closed = False

    def renew_after_fork(self) -> None:
        """Leave all that belongs to the parent process alone and start afresh.

        Of threads that come here at once all go on with what one of them made; the locks are new ones.
        """
        old_io, old = self.io, self.transport
        if not old_io.forked():
            return
        io, transport = self._renewed.setdefault(old_io, self._make())
        with io.mutex():
            mine = self.io is old_io
            if mine:
                self.transport = transport
                self.sessions = {}
                self._reception = None
                self.caching = None
                self.listeners = None
                self.generation += 1
                self.io = io
        if mine:
            old.abandon()

    @property
    def known_reception(self) -> Reception | None:
        """Where what the server sends unasked is handled, if it sent something yet."""
        return self._reception

    def reception(self) -> Reception:
        """Where what the server sends unasked is handled; made when first needed."""
        found = self._reception
        if found is None:
            from .reception import Reception

            made = Reception(self)
            with self.io.mutex():
                found = self._reception = self._reception or made
        return found

    def stateless_era(self, revision: str, log_level: str | None = None) -> StatelessEra:
        """The stateless era at `revision`, its envelope serialised once for all views.

        `log_level`: in place of the constructor's.
        """
        settings = self.settings
        level = log_level or settings.log_level
        era = self._eras.get((revision, level))
        if era is None:
            era = self._eras[revision, level] = StatelessEra(
                envelope.RequestEnvelope(
                    revision,
                    settings.handlers.capabilities(False, settings.capabilities),
                    settings.client_info,
                    level,
                ),
                self._claims(),
            )
        return era

    def _claims(self) -> frozenset[str]:
        """The result types that extensions of the user's bring."""
        if not self.settings.extensions:
            return _NO_CLAIMS
        from .extensions import claimed_types

        return claimed_types(self.settings.extensions)

    def envelope_declaring(self, era: Era, extensions: Mapping[str, Any]) -> bytes:
        """The serialised envelope of requests that declare further extensions than all others do: always alike."""
        key = (era, *extensions)
        found = self._declaring.get(key) if self._declaring is not None else None
        if found is not None:
            return found
        given = era.envelope  # type: ignore[attr-defined]  # a `StatelessEra`: no other has envelopes
        capabilities = dict(given.client_capabilities)
        capabilities["extensions"] = {**capabilities.get("extensions", {}), **extensions}
        own = envelope.RequestEnvelope(given.protocol_version, capabilities, given.client_info, given.log_level)
        made = memoryview(dumps(own.to_meta(), "the envelope")).tobytes()
        with self.io.mutex():
            self._declaring = {**(self._declaring or {}), key: made}
        return made

    def prior(self) -> dict[str, Any] | None:
        """The verdict as JSON data, None while there is none."""
        return self.verdict.export() if self.verdict is not None else None
