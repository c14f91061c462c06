"""What lists say of tools that a call has to heed: headers made of arguments, output schemas, tools that run as tasks.

Knows what is remembered of each tool, and what of it matters under the current link; how a call heeds it is
`tool_calls`' business. Specification: 2026-07-28, basic/transports/streamable-http, Custom Headers from Tool
Parameters; server/tools, Output Schema; 2025-11-25, basic/utilities/tasks, Tool-Level Negotiation.
"""

from __future__ import annotations

from .. import _log
from .._json import FLAG_SLOW, dumps
from .._protocol.param_headers import InvalidAnnotation, plan
from .._text import escape_peer_text
from .._value import Frozen
from .standing import standing_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .._protocol.param_headers import ParamHeaders
    from ..types import ListToolsResult, Tool
    from .output_schemas import OutputSchema
    from .session import Session
    from .standing import Standing


class Definition(Frozen):
    """What one tool asks of its calls. A call that goes out holds on to the one it goes out under (E7).

    Attributes:
        param_headers: Which arguments are repeated in headers; None for none.
        output_schema: What its structured content is checked by; None when there is no schema, or nobody checks.
        task_support: Whether it can be called as a task of the handshake era; None where the server has no tasks.
    """

    __slots__ = ("output_schema", "param_headers", "task_support")

    param_headers: ParamHeaders | None
    output_schema: OutputSchema | None
    task_support: str | None

    def __init__(
        self, param_headers: ParamHeaders | None, output_schema: OutputSchema | None, task_support: str | None
    ) -> None:
        self._set("param_headers", param_headers)
        self._set("output_schema", output_schema)
        self._set("task_support", task_support)

    @property
    def special(self) -> bool:
        """Does a call differ from a plain one?"""
        return self.param_headers is not None or self.output_schema is not None or self.task_support == "required"


PLAIN = Definition(None, None, None)


class Definitions:
    """What is remembered of one server's tools, for one session.

    Attributes:
        known: Each tool of which there is something to remember.
        special: Those of them whose calls are not plain.
    """

    __slots__ = ("_most", "_plans", "known", "special")

    def __init__(self, most: int) -> None:
        self.known: dict[str, Definition] = {}
        self.special: dict[str, Definition] = {}
        self._most = most
        # What the annotations of a schema with this hash came to, so that a list that is read again costs no second
        # plan and no second warning.
        self._plans: dict[str, tuple[int, ParamHeaders | None]] = {}

    def take(self, name: str, definition: Definition) -> None:
        """Remember a tool as it was listed last. Beyond `Limits.max_items` a new one counts as never listed."""
        _put(self.known, name, definition if definition is not PLAIN else None, self._most)
        _put(self.special, name, definition if definition.special else None, self._most)

    def refuse(self, name: str) -> None:
        """Forget a tool that was listed with annotations no call may go out under."""
        self.take(name, PLAIN)

    def planned(self, name: str, schema: int) -> tuple[int, ParamHeaders | None] | None:
        """What was made of the same schema before: None for nothing yet, with None in it when it is not valid."""
        found = self._plans.get(name)
        return found if found is not None and found[0] == schema else None

    def note_plan(self, name: str, schema: int, made: ParamHeaders | None) -> None:
        """Remember what a schema came to."""
        _put(self._plans, name, (schema, made), self._most)


def _put(table: dict[str, Any], name: str, item: Any, most: int) -> None:
    """Set an item or, with None, take it out."""
    if item is None:
        table.pop(name, None)
    elif name in table or len(table) < most:
        table[name] = item


def definition_of(session: Session, name: str) -> Definition:
    """What a call of this tool goes out under, as far as lists have shown it."""
    standing = session.standing
    special = standing.special if standing is not None else None
    return special.get(name, PLAIN) if special is not None else PLAIN


def learn(session: Session, page: ListToolsResult) -> tuple[ListToolsResult, dict[str, Definition]]:
    """Take note of what the tools of a page ask of their calls.

    Returns:
        The page, without the tools that no call may go out for, and the definitions of those in it.
    """
    lesson = _Lesson(session)
    if not lesson.of_interest:
        return page, {}
    read: dict[str, Definition] = {}
    usable = []
    for tool in page.tools:
        try:
            read[tool.name] = lesson.define(tool)
        except InvalidAnnotation:
            read.pop(tool.name, None)
            continue
        usable.append(tool)
    lesson.remember([tool.name for tool in page.tools], read)
    return (page if len(usable) == len(page.tools) else page.replace(tools=tuple(usable))), read


class _Lesson:
    """One page being read: what of it matters, by the link it came under and what the client was asked to do."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._limits = session.settings.limits
        self._standing: Standing | None = session.standing
        self._headers = session.mirrors
        self._checks = session.settings.validate_output != "off"
        self._tasks = _has_tasks(session)
        known = self._standing.definitions if self._standing is not None else None
        self._known: Definitions | None = known

    @property
    def of_interest(self) -> bool:
        """Can there be anything to learn, or to forget?"""
        return self._headers or self._checks or self._tasks or self._known is not None

    def define(self, tool: Tool) -> Definition:
        """What one tool asks of its calls.

        Raises:
            InvalidAnnotation: It has annotations that the specification does not allow; the log has said so.
        """
        headers = self._plan(tool) if self._headers and _mentions(tool, _ANNOTATION) else None
        schema = None
        if self._checks and _mentions(tool, _OUTPUT_SCHEMA) and tool.output_schema is not None:
            schema = self._output_schema(tool)
        support = None
        if self._tasks:
            support = tool.execution.task_support if tool.execution is not None else "forbidden"
        if headers is None and schema is None and support is None:
            return PLAIN
        return Definition(headers, schema, support)

    def remember(self, names: list[str], read: dict[str, Definition]) -> None:
        """Keep the definitions for the calls to come."""
        if self._known is None:
            if all(definition is PLAIN for definition in read.values()):
                return
            self._definitions()
        known, standing = self._definitions(), standing_of(self._session)
        with self._session.io.mutex():
            for name in names:
                if name in read:
                    known.take(name, read[name])
                else:
                    known.refuse(name)
            standing.special = known.special or None

    def _definitions(self) -> Definitions:
        """What is remembered, made with the first thing that is."""
        if self._known is None:
            standing = standing_of(self._session)
            with self._session.io.mutex():
                if standing.definitions is None:
                    standing.definitions = Definitions(self._limits.max_items)
                self._known = standing.definitions
        return self._known

    def _plan(self, tool: Tool) -> ParamHeaders | None:
        source = _bytes_of(tool.input_schema)[0]
        if _ANNOTATION not in source:
            return None
        known, key = self._definitions(), hash(source)
        before = known.planned(tool.name, key)
        if before is not None:
            if before[1] is None:
                raise InvalidAnnotation("as was said before")
            return before[1] or None
        made: ParamHeaders | None = None
        problem: InvalidAnnotation | None = None
        try:
            made = plan(tool.input_schema)
        except InvalidAnnotation as found:
            problem = found
        with self._session.io.mutex():
            known.note_plan(tool.name, key, made)
        if problem is not None:
            text = "tools/list at %s: the tool %s is left out, as no call may go out for it: %s"
            _log.warning(text, self._session.label, escape_peer_text(tool.name, 128), problem)
            raise problem
        return made or None

    def _output_schema(self, tool: Tool) -> OutputSchema:
        from .output_schemas import OutputSchema

        data, flags = _bytes_of(tool.output_schema)
        before = self._known.known.get(tool.name) if self._known is not None else None
        if before is not None and before.output_schema is not None and before.output_schema.data == data:
            return before.output_schema
        return OutputSchema(data, flags, self._limits)


_ANNOTATION = b'"x-mcp-header"'
_OUTPUT_SCHEMA = b'"outputSchema"'


def _mentions(tool: Tool, name: bytes) -> bool:
    """False: surely not. A kept tool is not decoded for that (benches/cache.py)."""
    kept: bytes | None = getattr(tool, "_json", None)
    return kept is None or name in kept


def _bytes_of(schema: Any) -> tuple[bytes, int]:
    """A schema as JSON, and how that is to be read again: one form for each, whatever its server's spelling was."""
    try:
        return dumps(schema), 0
    except TypeError:
        import json

        # A number or a text that only the standard library keeps exactly.
        return json.dumps(schema).encode(), FLAG_SLOW


def _has_tasks(session: Session) -> bool:
    """Can tools of this server be called as tasks of the handshake era?"""
    link = session.link
    if link is None or not link.era.handshake or not link.capabilities or "tasks" not in link.capabilities:
        return False
    from .._protocol.declared import declares

    return declares(link.capabilities, "tasks.requests.tools.call")
