"""Which scopes to ask for (2026-07-28, authorization: scope selection, refresh tokens, step-up).

Pure: sets of names in, one text out.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

OFFLINE = "offline_access"


def choose_scopes(
    *,
    configured: Iterable[str] | None,
    challenged: Iterable[str],
    before: Iterable[str],
    resource: Iterable[str] | None,
    server: Iterable[str] | None,
) -> str | None:
    """The `scope` of an authorization request, None to leave it out.

    The challenge comes first, and with it what was asked for before and what the user configured: a token that can do
    less than the last one would fail other calls. Without a challenge, what the resource says it needs at least.

    Args:
        configured: What the user wants at least; None: nothing in particular.
        challenged: What the server's challenge names.
        before: What was asked for before, of the same authorization server.
        resource: `scopes_supported` of the resource, None when it did not say.
        server: `scopes_supported` of the authorization server, None when it did not say.
    """
    names = dict.fromkeys([*before, *(configured or ()), *challenged])
    if not names:
        names = dict.fromkeys(resource or ())
    # Only the authorization server can say that it gives refresh tokens for this one; a resource may not ask for it.
    names.pop(OFFLINE, None)
    if names and OFFLINE in (server or ()):
        names[OFFLINE] = None
    return " ".join(names) or None


def adds_nothing(asked: str | None, needed: Iterable[str]) -> bool:
    """Was all of this asked for already, as far as a resource may ask for it? Then asking again would gain nothing."""
    return set(needed) - {OFFLINE} <= set((asked or "").split())
