"""A user without a browser: goes where they are sent, consents, and comes back with the answer.

What an authorization server answers is taken from it directly, so nothing here uses the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from ferrule.auth import OAuth
from tests.servers.authority import Authority
from tests.servers.parties import Asked

REDIRECT_URI = "http://127.0.0.1:9/callback"


class Visitor:
    """The user. `sent_to` are the URLs; `tamper` may change the answer on its way back."""

    def __init__(self, *authorities: Authority, tamper: Callable[[str], str] = lambda location: location) -> None:
        self._by_origin = {authority.party.origin: authority for authority in authorities}
        self._tamper = tamper
        self._location = ""
        self.sent_to: list[str] = []

    def redirect(self, url: str) -> None:
        self.sent_to.append(url)
        parts = urlsplit(url)
        authority = self._by_origin[f"{parts.scheme}://{parts.netloc}"]
        asked = Asked("GET", f"{parts.path}?{parts.query}", {}, b"")
        authority.party.seen.append(asked)
        self._location = dict(authority.party.answer(asked).headers)["Location"]

    def callback(self) -> str:
        return self._tamper(self._location)

    def oauth(self, *args: Any, **options: Any) -> OAuth:
        """An `OAuth` whose user this is."""
        return OAuth(*args, redirect_uri=REDIRECT_URI, redirect=self.redirect, callback=self.callback, **options)
