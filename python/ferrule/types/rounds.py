"""Input that a server asks for before it answers a call (2026-07-28, basic/patterns/mrtr), for who answers by hand."""

from __future__ import annotations

from .._value import Frozen
from ..errors import InvalidResult
from ._base import Value, fields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .elicitation import ElicitRequest
    from .sampling import SamplingRequest


class RootsRequest(Value):
    """The server asks where on the client's machine it may work: a list of `Root` is the answer."""

    __slots__ = fields()


class Resume(Frozen):
    """What a call goes on with that ended in `InputRequired`, in this process or another.

    Attributes:
        responses: The answers, by the keys of `InputRequired.requests`: an `ElicitResult`, a `CreateMessageResult`, a
            list of roots (`Root`, or `file://` URIs as str), or a mapping in the schema's shape.
        state: `InputRequired.state`, unaltered; None if there was none.
    """

    __slots__ = ("responses", "state")

    responses: Mapping[str, Any]
    state: str | None

    def __init__(self, responses: Mapping[str, Any] | None = None, state: str | None = None) -> None:
        if responses is not None and not hasattr(responses, "items"):
            raise TypeError("Resume: responses must be a mapping of keys to answers")
        if state is not None and not isinstance(state, str):
            raise TypeError("Resume: state must be a str, or None")
        self._set("responses", dict(responses or {}))
        self._set("state", state)

    def __repr__(self) -> str:
        state = "no state" if self.state is None else f"state[{len(self.state)}]"
        return f"<Resume responses[{len(self.responses)}], {state}>"


def read_input_request(wire: Any) -> ElicitRequest | SamplingRequest | RootsRequest:
    """One of `InputRequired.requests` as a value.

    Raises:
        InvalidResult: It is none that the specification knows, or not in the schema's shape.
    """
    method = wire.get("method") if isinstance(wire, dict) else None
    cls: Any = None
    if method == "elicitation/create":
        from .elicitation import ElicitRequest as cls
    elif method == "sampling/createMessage":
        from .sampling import SamplingRequest as cls
    elif method == "roots/list":
        cls = RootsRequest
    if cls is None:
        raise InvalidResult(
            "inputRequests", "method: expected elicitation/create, sampling/createMessage or roots/list"
        )
    return cls.from_wire(wire.get("params") or {}, method)  # type: ignore[no-any-return]
