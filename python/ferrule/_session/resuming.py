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
    responses = {key: as_wire(value) for key, value in resume.responses.items()}
    dumps(responses, "resume.responses")
    link = await session.link_by(deadline, method)
    if link.era.handshake:
        raise ConfigError(f"{method}: resume= needs the stateless era; the server speaks {link.era.revision}")
    return with_responses(params, responses or None, resume.state)


def as_wire(given: Any) -> dict[str, Any]:
    """An answer as JSON: a value of `types`, a mapping in the schema's shape, or a list of roots."""
    if hasattr(given, "to_wire"):
        given = given.to_wire()
    if hasattr(given, "items"):
        return dict(given)
    if isinstance(given, (list, tuple)):
        return {"roots": [root.to_wire() for root in fixed_roots(given)]}
    raise TypeError("responses: expected an ElicitResult, a CreateMessageResult, a list of roots or a mapping")
