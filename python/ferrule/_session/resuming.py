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
    responses = {}
    for number, (key, given) in enumerate(resume.responses.items(), 1):
        # By number: the keys are the server's words.
        responses[key] = _as_wire(key, given, f"resume.responses, number {number}")
    link = await session.link_by(deadline, method)
    if link.era.handshake:
        raise ConfigError(f"{method}: resume= needs the stateless era; the server speaks {link.era.revision}")
    return with_responses(params, responses or None, resume.state)


def _as_wire(key: object, given: Any, where: str) -> dict[str, Any]:
    """An answer as JSON: from a value of `types`, a mapping in the schema's shape, or a list of roots."""
    if hasattr(given, "to_wire"):
        given = given.to_wire()
    elif isinstance(given, (list, tuple)):
        given = {"roots": [root.to_wire() for root in fixed_roots(given)]}
    if not isinstance(key, str) or not hasattr(given, "items"):
        raise TypeError(
            f"{where}: expected a str and an ElicitResult, a CreateMessageResult, a list of roots or a mapping"
        )
    wire = dict(given)
    dumps(wire, where)
    return wire
