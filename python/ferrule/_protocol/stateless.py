"""The stateless era: revision 2026-07-28 and later, where each request carries all it needs.

Specification: 2026-07-28, basic/versioning and basic/index. Knows what a result may say of itself and
what the answers to `server/discover` mean, not how they are fetched.
"""

from __future__ import annotations

from .._json import dumps, loads
from ..errors import InputRequired, InvalidResult, UnknownResultType
from .envelope import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION, RequestEnvelope
from .era import Era

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..errors import FerruleError
    from .methods import Method

_COMPLETE = (None, "complete")


class StatelessEra(Era):
    """A revision whose requests carry the envelope."""

    __slots__ = ("claims",)

    name = "stateless"
    handshake = False
    mirrors = True
    answers_requests = False
    cancels_by_closing = True

    def __init__(self, envelope: RequestEnvelope, claims: frozenset[str] = frozenset()) -> None:
        """`claims`: the values of `resultType` that extensions bring, for every method."""
        # Serialised once: the envelope is the same for every request of a connection.
        meta = dumps(envelope.to_meta(), "the envelope")
        # A copy: what the serialiser returns keeps 4 KB of room behind it, for as long as it lives.
        super().__init__(envelope.protocol_version, meta=memoryview(meta).tobytes())
        self.claims = claims

    @property
    def envelope(self) -> RequestEnvelope:
        """What `meta` says. Made for who asks, as few do: it would be 0.4 KB of each client (benches/startup.py)."""
        meta = loads(self.meta or b"{}")
        return RequestEnvelope(
            meta[PROTOCOL_VERSION], meta[CLIENT_CAPABILITIES], meta.get(CLIENT_INFO), meta.get(LOG_LEVEL)
        )

    def check_result(self, method: Method, result: dict[str, Any], accepts: frozenset[str] = frozenset()) -> None:
        """Raise when the result is not the final one, nor of a kind in `accepts`.

        Raises:
            InputRequired: The server asks for input before it goes on.
            InvalidResult: It asks where the specification does not allow it to, or in a wrong shape; or it made a task
                of a request that cannot become one, or whose caller did not say so.
            UnknownResultType: A kind of result nobody here knows (basic/index, ResultType).
        """
        kind = result.get("resultType")
        if kind in _COMPLETE or (isinstance(kind, str) and (kind in accepts or kind in self.claims)):
            return
        if kind == "task":
            text = "resultType: task is not allowed here; call_tool(..., tasks=True) asks for it"
            raise InvalidResult(method.name, text)
        if kind != "input_required":
            raise UnknownResultType(
                f"{method.name}: the server answered with an unknown resultType",
                result_type=kind if isinstance(kind, str) else "",
            )
        if not method.rounds:
            raise InvalidResult(method.name, "resultType: input_required is not allowed here")
        raise _input_required(method, result.get("inputRequests"), result.get("requestState"))


def _input_required(method: Method, requests: Any, state: Any) -> FerruleError:
    """What the server asks for, or that it does so in a wrong shape (basic/patterns/mrtr, InputRequiredResult)."""
    if requests is None and state is None:
        return InvalidResult(method.name, "expected inputRequests or requestState")
    if requests is not None and not isinstance(requests, dict):
        return InvalidResult(method.name, "inputRequests: expected object")
    if state is not None and not isinstance(state, str):
        return InvalidResult(method.name, "requestState: expected string")
    return InputRequired(
        f"{method.name}: the server asks for input before it goes on; answer and send the request again",
        requests=requests or {},
        state=state,
    )
