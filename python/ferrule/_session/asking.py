"""What each request of the server's is to a handler, and what a good answer to it is.

Specification: 2025-11-25 and 2026-07-28, client/elicitation, client/sampling, client/roots. Answers are never
invented: what the handler gives is sent if it is in the schema's shape, and otherwise nothing of it. Does not know how
a request came (by itself or in a round), nor how its answer goes back.
"""

from __future__ import annotations

from .. import _log
from .._json import dumps
from ..errors import InvalidResult
from .handlers import call, fixed_roots
from .replies import INVALID_PARAMS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any

    from .._io.interface import IO
    from ..types import Context
    from .handlers import Handlers

REJECTED = -1


class Refused(Exception):
    """The request is answered by an error of its own."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Unfit(Exception):
    """What the handler gave cannot be sent. The reason was logged."""


def understand(handlers: Handlers, params: dict[str, Any], context: Context) -> Any:
    """The request as a value for `answer`; no handler is asked yet.

    Raises:
        Refused: It asks for what was not declared.
        InvalidResult: It is not in the schema's shape.
    """
    return _KINDS[context.method][0](handlers, params, context)


async def answer(io: IO, handlers: Handlers, request: Any, context: Context) -> dict[str, Any]:
    """Have a request handled; give its result as JSON.

    Raises:
        Refused: The user does not want it answered.
        Exception: The handler's own, or what it gave cannot be sent.
    """
    result = await _KINDS[context.method][1](io, handlers, request, context)
    dumps(result, "the handler's answer")
    return result


def _elicitation(handlers: Handlers, params: dict[str, Any], context: Context) -> Any:
    from ..types.elicitation import ElicitRequest

    request = ElicitRequest.from_wire(params, context.method)
    if request.mode not in ("form", "url"):
        raise Refused(INVALID_PARAMS, "Elicitation mode not supported")
    if request.mode == "url":
        if request.url is None:
            raise InvalidResult(context.method, "url: expected string")
        if request.elicitation_id is None and context.era == "handshake":  # the stateless era has no such id
            raise InvalidResult(context.method, "elicitationId: expected string")
    return request


async def _elicit(io: IO, handlers: Handlers, request: Any, context: Context) -> dict[str, Any]:
    return await elicit(io, handlers.on_elicitation, request, context)


async def elicit(io: IO, handler: Any, request: Any, context: Context) -> dict[str, Any]:
    """Put a question to the user; give the answer as JSON, checked."""
    from ..types.elicitation import ElicitResult

    given = _shaped(ElicitResult, await call(io, handler, request, context), context)
    if given.action not in ("accept", "decline", "cancel"):
        raise _unfit(context, "expected the action accept, decline or cancel")
    result: dict[str, Any] = {"action": given.action}
    if given.meta:
        result["_meta"] = dict(given.meta)
    if given.action != "accept" or request.mode != "form":
        return result
    content = given.content if given.content is not None else {}
    faults = request.problems(content)
    if faults:
        raise _unfit(context, f"{len(faults)} faults by the requested schema; request.problems(content) names them")
    result["content"] = content
    return result


def _sampling(handlers: Handlers, params: dict[str, Any], context: Context) -> Any:
    from ..types.sampling import SamplingRequest

    if not handlers.sampling_tools and (params.get("tools") is not None or params.get("toolChoice") is not None):
        raise Refused(INVALID_PARAMS, "Sampling with tools not supported")
    return SamplingRequest.from_wire(params, context.method)


async def _sample(io: IO, handlers: Handlers, request: Any, context: Context) -> dict[str, Any]:
    from ..types.sampling import CreateMessageResult, SamplingRejected

    try:
        given = await call(io, handlers.on_sampling, request, context)
    except SamplingRejected:
        raise Refused(REJECTED, "User rejected sampling request") from None
    return _shaped(CreateMessageResult, given, context).to_wire()  # type: ignore[no-any-return]


def _roots(handlers: Handlers, params: dict[str, Any], context: Context) -> None:
    """There is nothing in it to read."""


async def _list_roots(io: IO, handlers: Handlers, request: None, context: Context) -> dict[str, Any]:
    roots = handlers.roots
    if callable(roots):
        roots = fixed_roots(await call(io, roots))
    return {"roots": [root.to_wire() for root in roots]}


def _shaped(cls: Any, given: Any, context: Context) -> Any:
    """What a handler gave as a checked value: it may be one already, or a mapping in the schema's shape."""
    wire = given.to_wire() if isinstance(given, cls) else given
    if not hasattr(wire, "items"):
        raise _unfit(context, f"expected {cls.__name__} or a mapping, not {type(given).__name__}")
    try:
        return cls.from_wire(dict(wire))
    except InvalidResult as error:
        problem = error.problem
    raise _unfit(context, problem)


def _unfit(context: Context, problem: str) -> Unfit:
    _log.warning("%s from %s: the handler's answer cannot be sent: %s", context.method, context.server, problem)
    return Unfit()


_KINDS: dict[
    str,
    tuple[
        Callable[[Handlers, dict[str, Any], Context], Any],
        Callable[[IO, Handlers, Any, Context], Awaitable[dict[str, Any]]],
    ],
] = {
    "elicitation/create": (_elicitation, _elicit),
    "sampling/createMessage": (_sampling, _sample),
    "roots/list": (_roots, _list_roots),
}
"""How a request of each method is read, and how it is answered."""
