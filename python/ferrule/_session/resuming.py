"""A call that goes on where another ended with `InputRequired`, with answers made by hand.

Specification: 2026-07-28, basic/patterns/mrtr. Knows what may be an answer, nothing of who gave it.
"""

from __future__ import annotations

from .._json import dumps
from ..errors import ConfigError
from .handlers import fixed_roots
from .rounds import with_responses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..types import Resume
    from .session import Session


async def resumed(session: Session, method: str, params: bytes, resume: Resume, deadline: float) -> bytes:
    """The parameters of a request, with what the caller answers.

    Raises:
        TypeError: `resume` is none, or an answer is neither a value nor a JSON object.
        ConfigError: The server speaks the handshake era, which has no rounds.
    """
    from ..types import Resume

    if not isinstance(resume, Resume):
        raise TypeError("resume: expected a Resume")
    responses = answers(resume.responses, "resume.responses")
    link = await session.link_by(deadline, method)
    if link.era.handshake:
        raise ConfigError(f"{method}: resume= needs the stateless era; the server speaks {link.era.revision}")
    return with_responses(params, responses or None, resume.state)


def answers(given: Mapping[str, Any], where: str) -> dict[str, dict[str, Any]]:
    """Answers by the server's keys, as JSON. Errors count them: the keys are the server's words.

    Raises:
        TypeError: One of them is neither a value nor a JSON object.
        ConfigError: A root is none.
    """
    found = {}
    for number, (key, value) in enumerate(given.items(), 1):
        place = f"{where}, number {number}"
        if not isinstance(key, str):
            raise TypeError(f"{place}: expected a str as its key")
        found[key] = _as_wire(value, place)
        dumps(found[key], place)
    return found


def _as_wire(given: Any, where: str) -> dict[str, Any]:
    """An answer as JSON: from a value of `types`, a mapping in the schema's shape, or a list of roots."""
    if hasattr(given, "to_wire"):
        given = given.to_wire()
    if hasattr(given, "items"):
        return dict(given)
    if isinstance(given, (list, tuple)):
        return {"roots": [root.to_wire() for root in fixed_roots(given)]}
    raise TypeError(f"{where}: expected an ElicitResult, a CreateMessageResult, a list of roots or a mapping")
