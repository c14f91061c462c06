"""One call of a tool on its way: its requests, in rounds and after a refusal for its headers.

Knows what one call does with the definition it goes out under, which is its own from beginning to end: neither a list
that is read meanwhile nor another call changes it (E7). What definitions hold is `definitions`' business.
"""

from __future__ import annotations

from .._io import Closing, Expired
from .._json import loads
from .._protocol import methods
from ..errors import ConnectionClosed, FerruleError, HeaderMismatch, InputRequired, RequestTimeout
from .definitions import PLAIN, Definition, learn
from .listing import TOOLS, page_anew
from .output_schemas import refuse_unchecked
from .paging import Pages
from .retry import account
from .special import Special

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ..types import Resume
    from .progress import Progress
    from .session import Session


class ToolCall:
    """One call of a tool: what each request of it has in common, and how far it has come.

    Attributes:
        definition: What it goes out under: another one only after a refusal that proves it out of date.
        deadline: When it has to end; rounds move it by the time of their handlers.
    """

    __slots__ = (
        "_accepts",
        "_declares",
        "_idempotent",
        "_meta",
        "_params",
        "_progress",
        "_session",
        "deadline",
        "definition",
        "name",
    )

    def __init__(
        self,
        session: Session,
        name: str,
        params: bytes,
        deadline: float,
        meta: Mapping[str, Any] | None,
        progress: Progress | None,
        idempotent: bool,
        definition: Definition = PLAIN,
        declares: Mapping[str, Any] | None = None,
        accepts: frozenset[str] = frozenset(),
    ) -> None:
        """`declares`, `accepts`: as those of `Special`."""
        self._session = session
        self._params = params
        self._meta = meta
        self._progress = progress
        self._idempotent = idempotent
        self._declares = declares
        self._accepts = accepts
        self.name = name
        self.deadline = deadline
        self.definition = definition

    async def result(self, resume: Resume | None = None) -> dict[str, Any]:
        """Send it, and go on in rounds until it is answered.

        Args:
            resume: What answers the questions it ended with before.
        """
        params = self._params
        if resume is not None:
            from .resuming import resumed

            params = await resumed(self._session, methods.TOOLS_CALL.name, params, resume, self.deadline)
        try:
            return await self._send(params, self.deadline)
        except InputRequired as question:
            needed = question  # the rounds go on outside, so that no error of theirs or of a handler's is chained to it
        return await self._in_rounds(needed)

    async def finish(self, unfinished: InputRequired | HeaderMismatch) -> dict[str, Any]:
        """As `result`, for a call whose first request was answered like this."""
        if isinstance(unfinished, InputRequired):
            return await self._in_rounds(unfinished)
        try:
            return await self._send_again(unfinished, self._params, self.deadline)
        except InputRequired as question:
            needed = question
        return await self._in_rounds(needed)

    async def _in_rounds(self, needed: InputRequired) -> dict[str, Any]:
        from .rounds import clock_for, go_on

        clock = clock_for(self._session, self.deadline, self._progress)
        result = await go_on(self._session, methods.TOOLS_CALL, self._params, needed, clock, self._send)
        self.deadline = clock.deadline
        return result

    async def _send(self, params: bytes, deadline: float) -> dict[str, Any]:
        try:
            return await self._perform(params, deadline)
        except HeaderMismatch as refusal:
            refused = refusal
        return await self._send_again(refused, params, deadline)

    async def _send_again(self, refusal: HeaderMismatch, params: bytes, deadline: float) -> dict[str, Any]:
        """After a refusal for its headers, so unexecuted: once more, by the list as it is now (E6).

        Raises:
            FerruleError: `refusal` itself where there is no such thing as headers made of arguments, or the tool is
                not listed; else what went wrong then, the refusal as its cause.
        """
        if not self._session.mirrors or refusal.method != methods.TOOLS_CALL.name:
            raise refusal
        try:
            definition = await _definition_anew(self._session, self.name, deadline)
            if definition is None:
                raise refusal
            refuse_unchecked(self._session, definition)
            self.definition = definition
            return await self._perform(params, deadline)
        except FerruleError as error:
            if error is not refusal:
                account(error, None, refusal)
            raise

    async def _perform(self, params: bytes, deadline: float) -> dict[str, Any]:
        mirrored = self.definition.param_headers
        # The arguments as they went out: the caller's own may have changed meanwhile.
        headers = mirrored.headers(loads(self._params)["arguments"]) if mirrored is not None else None
        special = None
        if headers or self._declares:
            special = Special(headers=headers or None, declares=self._declares, accepts=self._accepts)
        return await self._session.perform(
            methods.TOOLS_CALL,
            params,
            deadline,
            self.name,
            self._meta,
            self._progress,
            self._idempotent,
            special,
        )


# The list, read again


async def _definition_anew(session: Session, name: str, deadline: float) -> Definition | None:
    """The definition of a tool as the server lists it now; None when it does not, or with annotations no call may have.

    Read once for all who ask at the same time; who looks for another tool than that reader may have to go further.
    """

    async def read(by: float) -> tuple[dict[str, Definition], bool]:
        return await _read_until(session, name, by)

    found: dict[str, Definition]
    try:
        while True:
            found, whole = await session.io.once(("definitions", session), read, deadline)
            if name in found or whole:
                return found.get(name)
    except Expired:
        text = f"tools/call at {session.label}: refused for its headers, and the tools were not listed again"
        raise RequestTimeout(f"{text} within the timeout", request_sent=True) from None
    except Closing:
        raise ConnectionClosed(f"tools/call at {session.label}: the client was closed", request_sent=True) from None


async def _read_until(session: Session, name: str, deadline: float) -> tuple[dict[str, Definition], bool]:
    """The definitions from the first page to the one with this tool, and whether that was the whole list."""
    found: dict[str, Definition] = {}

    async def fetch(cursor: str | None) -> Any:
        page, read = learn(session, await page_anew(session, TOOLS, cursor, deadline))
        found.update(read)
        return page

    pages = Pages(session, TOOLS.method.name, fetch)
    try:
        while (await pages.next()).name != name:
            pass
    except StopAsyncIteration:
        return found, True
    return found, False
