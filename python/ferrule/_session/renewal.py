"""What is done when a session takes the place of an earlier one.

Knows the order and that a failure stops nothing; what is renewed, those know who asked for it.
"""

from __future__ import annotations

from .. import _log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._transports.call import Link
    from .session import Session


async def renew(session: Session, link: Link, deadline: float) -> None:
    """Run what waits for a new link, in order. Its errors are logged: the session itself is good."""
    for hook in list(session.on_new_link):
        try:
            await hook(link, deadline)
        except Exception as error:
            _log.warning(
                "%s: something could not be renewed in the new session: %s", session.label, type(error).__name__
            )
