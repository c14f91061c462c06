"""Multi round-trip requests: a call that is sent again with what its server asked for, until it is answered.

Specification: 2026-07-28, basic/patterns/mrtr. Knows rounds and their time; what a handler is asked and what makes a
good answer is `asking`'s business, how each request is sent and when it may be repeated the session's.
"""

from __future__ import annotations

from math import inf

from .._io import Closing, Expired
from .._json import dump_text, dumps
from ..errors import ConnectionClosed, FerruleError, InputRequired, InvalidResult, RequestTimeout
from .asking import Refused, Unfit, answer, understand
from .reception import circumstances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from typing import Any

    from .._io.interface import IO
    from .._protocol.methods import Method
    from .._transports.call import Link
    from ..types import Context
    from .progress import Progress
    from .session import Session

    Send = Callable[[bytes, float], Awaitable[dict[str, Any]]]
    Question = tuple[Any, Context]
    """A request of the server's as a value, and what its handler is told beside it."""


async def go_on(
    session: Session,
    method: Method,
    params: bytes,
    needed: InputRequired,
    clock: Clock,
    send: Send,
) -> dict[str, Any]:
    """Answer what the server asks, and send the same request again until its result is a complete one.

    Each request is one of its own: with a new id, the responses and the state of the round before it and of no other,
    and the rules of `Session.perform` about sending it twice. `request_meta` is evaluated for each.

    Args:
        session: Whose call it is.
        method: The method's row.
        params: The serialised parameters of the first request without `_meta`; not empty, and without responses.
        needed: What the server answered to that.
        clock: Keeps the call's deadline.
        send: Sends a request with these parameters, to be answered by a deadline.

    Raises:
        InputRequired: No handler answers what the server asks, or it asks again and again.
        InvalidResult: What it asks is not in the schema's shape.
        FerruleError: Of the last request.
    """
    try:
        return await _rounds(session, method, params, needed, clock, send)
    except FerruleError as error:
        error.request_sent = True  # by the first round, if not by the last
        raise


async def _rounds(
    session: Session,
    method: Method,
    params: bytes,
    needed: InputRequired,
    clock: Clock,
    send: Send,
) -> dict[str, Any]:
    limits = session.settings.limits
    pause = limits.round_backoff
    for number in range(1, limits.max_rounds + 1):
        clock.follow_progress()
        responses = None
        if needed.requests:
            responses = await responses_to(session, method, needed, number, clock)
            pause = limits.round_backoff
        else:
            await clock.wait(pause, _where(session, method))
            pause = min(2 * pause, limits.max_round_backoff)
        if clock.is_up:
            raise RequestTimeout(
                f"{_where(session, method)}: not complete within the timeout, in round {number}; raise `timeout`",
                request_sent=True,
            )
        try:
            return await send(with_responses(params, responses, needed.state), clock.deadline)
        except InputRequired as question:
            needed = question
    why = f"the server still asks after {limits.max_rounds} rounds (limits.max_rounds)"
    raise _unanswered(session, method, needed, why)


class Clock:
    """When a call in rounds has to end: its deadline stands still while a handler runs.

    Attributes:
        deadline: When the next request has to be answered.
    """

    __slots__ = ("_allowed", "_io", "_progress", "deadline")

    def __init__(self, io: IO, deadline: float, allowed: float, progress: Progress | None) -> None:
        self._io = io
        self._allowed = allowed
        self._progress = progress
        self.deadline = deadline

    @property
    def is_up(self) -> bool:
        """Did the deadline pass?"""
        return self._io.now() >= self.deadline

    @property
    def of_handlers(self) -> float:
        """When handlers that begin now have to be done."""
        return self.deadline + self._allowed

    def follow_progress(self) -> None:
        """A request whose progress moved its own deadline has moved that of the call."""
        if self._progress is not None:
            self.deadline = max(self.deadline, self._progress.reached)

    def handled(self, since: float) -> None:
        """Handlers ran since then: as far as that is allowed, it does not count."""
        free = min(self._io.now() - since, self._allowed)
        self._allowed -= free
        self.deadline += free
        if self._progress is not None:
            self._progress.latest += free

    async def wait(self, seconds: float, where: str) -> None:
        """Let so much time pass, but not more than there is."""
        try:
            await self._io.sleep(min(seconds, max(0.0, self.deadline - self._io.now())))
        except Closing:
            raise ConnectionClosed(f"{where}: the client was closed", request_sent=True) from None


def clock_for(session: Session, deadline: float, progress: Progress | None = None) -> Clock:
    """The clock of a call that has to end then; the time of handlers is added, as `Limits.max_handler_time` allows."""
    return Clock(session.io, deadline, session.settings.limits.max_handler_time, progress)


def _where(session: Session, method: Method) -> str:
    return f"{method.name} at {session.label}"


def _unanswered(session: Session, method: Method, needed: InputRequired, why: str) -> InputRequired:
    how = "go on with `resume=`" if method.rounds else "give the answers to `Task.update`"
    return InputRequired(
        f"{_where(session, method)}: {why}; answer `.requests` and {how}",
        requests=needed.requests,
        state=needed.state,
    )


def with_responses(params: bytes, responses: Mapping[str, Any] | None, state: str | None) -> bytes:
    """The parameters of a request as they were serialised, byte for byte, with responses and state behind them.

    Args:
        params: Of the first request; not an empty object.
        responses: By the server's keys; None for none.
        state: What the server gave, to be returned as it is; None if it gave none.
    """
    parts = [params[:-1]]
    if responses is not None:
        items = [b"%b:%b" % (dump_text(key), dumps(value)) for key, value in responses.items()]
        parts.append(b',"inputResponses":{%b}' % b",".join(items))
    if state is not None:
        parts.append(b',"requestState":%b' % dump_text(state))
    return b"".join((*parts, b"}"))


# What the server asks


async def responses_to(
    session: Session,
    method: Method,
    needed: InputRequired,
    number: int | None,
    clock: Clock,
    task_id: str | None = None,
) -> dict[str, dict[str, Any]]:
    """The results of all requests of a round, by their keys. No handler is called unless all can be answered.

    Args:
        session: Whose handlers answer.
        method: The method whose server asks.
        needed: What it asks.
        number: Which round it is; None for what is asked otherwise.
        clock: Keeps the deadline.
        task_id: The task that asks, if one does.

    Raises:
        InputRequired: Not all of them were answered.
        InvalidResult: One of them is not in the schema's shape.
    """
    link = await session.link_by(clock.deadline, method.name)
    questions = []
    why = None
    for place, wire in enumerate(needed.requests.values(), 1):
        try:
            questions.append(_question(session, method, link, wire, place))
        except Refused as refusal:
            why = refusal.text
            break
    if why is not None:
        raise _unanswered(session, method, needed, why)
    latest = clock.of_handlers
    for _, context in questions:
        context.round = number
        context.task_id = task_id
        context.deadline = None if latest == inf else latest
    began = session.io.now()
    answers = await _answers(session, method, needed, questions, latest)
    clock.handled(began)
    return dict(zip(needed.requests, answers, strict=True))


def _question(session: Session, method: Method, link: Link, wire: Any, place: int) -> Question:
    """One request, read.

    Raises:
        Refused: No handler was given for it, or it asks for what was not declared.
        InvalidResult: It is not in the schema's shape. Its key is the server's, and not shown.
    """
    where = f"inputRequests, number {place}"
    asked = wire.get("method") if type(wire) is dict else None
    params = wire.get("params", {}) if type(wire) is dict else None
    if type(asked) is not str or type(params) is not dict:
        raise InvalidResult(method.name, f"{where}: expected object with method and params")
    handlers = session.settings.handlers
    if not handlers.handle(asked):
        raise Refused(0, "the server asks for input and no handler was given for it")
    context = circumstances(session, link, asked)
    try:
        return understand(handlers, params, context), context
    except InvalidResult as error:
        problem = error.problem
    raise InvalidResult(method.name, f"{where}: {asked}: {problem}")


async def _answers(
    session: Session, method: Method, needed: InputRequired, questions: list[Question], deadline: float
) -> list[dict[str, Any]]:
    """What the handlers say, at most `Limits.max_handlers` of them at once; the first that fails ends all."""
    io, most = session.io, session.settings.limits.max_handlers
    answers: list[dict[str, Any]] = []
    try:
        for start in range(0, len(questions), most):
            batch = [_answer(session, method, needed, *question) for question in questions[start : start + most]]
            answers += await io.gather(*batch, deadline=deadline)
    except Expired:
        why = "its handlers took longer than the timeout and limits.max_handler_time allow"
        raise RequestTimeout(f"{_where(session, method)}: {why}", request_sent=True) from None
    except Closing:
        raise ConnectionClosed(f"{_where(session, method)}: the client was closed", request_sent=True) from None
    finally:
        if len(answers) < len(questions):
            for _, context in questions:
                context.cancelled = True
    return answers


async def _answer(
    session: Session, method: Method, needed: InputRequired, request: Any, context: Context
) -> dict[str, Any]:
    try:
        return await answer(session.io, session.settings.handlers, request, context)
    except Refused as refusal:
        why = refusal.text
    except Unfit:
        why = f"what the handler for {context.method} gave cannot be sent"
    except Exception as error:
        why = f"the handler for {context.method} raised {type(error).__name__}"
    raise _unanswered(session, method, needed, why)
