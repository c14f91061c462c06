"""Checking structured content by the schema a tool declared for it (X2), where the client was asked to.

Knows the checker, which comes with the extra `ferrule[schema]`, and what texts may say of a result that breaks its
schema: where and which rule, never a value. When to check is `tool_calls`' business. Specification: 2026-07-28,
server/tools, Output Schema; basic/index, JSON Schema Usage.
"""

from __future__ import annotations

from .. import _log
from .._json import loads
from .._protocol.schema_bounds import Bounds, UnusableSchema, bounds, dialect
from ..errors import ConfigError, InvalidResult
from ..types.tools import CallToolResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from ..limits import Limits
    from .definitions import Definition
    from .session import Session

_LONGEST_NAME = 64
"""Characters of a property's name in a text, as the schema's author wrote it."""


def check_installed() -> None:
    """Raise ConfigError where the extra is not installed."""
    try:
        import jsonschema_rs  # noqa: F401
    except ImportError:
        raise ConfigError(
            'validate_output: checking results needs a JSON Schema validator: install "ferrule[schema]"'
        ) from None


class OutputSchema:
    """One tool's output schema, as it was listed: compiled when it is first needed.

    Attributes:
        data: It as JSON. Empty when it is too big to be kept.
    """

    __slots__ = ("_checker", "_flags", "_limits", "_size", "data")

    def __init__(self, data: bytes, flags: int, limits: Limits) -> None:
        self._size = len(data)
        self.data = data if len(data) <= limits.max_schema_bytes else b""
        self._flags = flags
        self._limits = limits
        self._checker: Checker | None = None

    def __repr__(self) -> str:
        return f"<OutputSchema of {self._size} bytes>"

    def checker(self) -> Checker:
        """What checks by it. Threads that come here at once may make one each, and the last is kept: they are alike."""
        if self._checker is None:
            self._checker = self._compile()
        return self._checker

    def _compile(self) -> Checker:
        try:
            if not self.data:
                most = self._limits.max_schema_bytes
                raise UnusableSchema(f"it is larger than Limits.max_schema_bytes ({most})")
            schema = loads(self.data, self._flags)
            # The bounds first: what breaks them is not to be compiled either.
            found = bounds(schema, self._limits.max_subschemas)
            return Checker(_validator(schema), found, None)
        except UnusableSchema as problem:
            return Checker(None, None, str(problem))


def _validator(schema: dict[str, Any]) -> Any:
    """The checker's own object. It fetches nothing, and its regular expressions take linear time."""
    import jsonschema_rs as checker

    kind = checker.Draft7Validator if dialect(schema) == "draft-07" else checker.Draft202012Validator
    try:
        return kind(
            schema,
            pattern_options=checker.RegexOptions(),
            validate_formats=False,
            offline=True,
            mask="a value",
        )
    except ValueError:
        pass  # its error quotes the schema
    raise UnusableSchema("it is not valid in its dialect, or has a pattern that cannot be matched in linear time")


class Checker:
    """Says whether results conform to one schema.

    Attributes:
        problem: Why nothing can be checked by it; None when it can.
    """

    __slots__ = ("_bounds", "_validator", "problem")

    def __init__(self, validator: Any, bounds: Bounds | None, problem: str | None) -> None:
        self._validator = validator
        self._bounds = bounds
        self.problem = problem

    def violation(self, result: CallToolResult) -> str | None:
        """Where and how the result breaks the schema: the first place found; None when it does not."""
        if not result.is_set("structured_content"):
            return "structuredContent: missing, although the tool has an outputSchema"
        content = result.structured_content
        assert self._bounds is not None
        if not self._bounds.bear(content):
            return "structuredContent: nested too deeply for what the tool's outputSchema does at each level"
        try:
            return None if self._validator.is_valid(content) else f"structuredContent{self._place(content)}"
        except ValueError:
            pass  # its error may quote the content
        return "structuredContent: holds text that is no Unicode, so that it cannot be checked"

    def _place(self, content: Any) -> str:
        assert self._bounds is not None
        if self._bounds.recursive:
            # To find the place takes time that grows exponentially with the content's depth; the verdict does not.
            return ": does not conform to the tool's outputSchema"
        error = next(iter(self._validator.iter_errors(content)), None)
        if error is None:
            return ": does not conform to the tool's outputSchema"
        return f"{self._path(error.instance_path)}: breaks the rule {error.kind.name} of the tool's outputSchema"

    def _path(self, steps: Iterable[str | int]) -> str:
        """A path without content: names that the schema has are shown, any other is a star."""
        assert self._bounds is not None
        path = ""
        for step in steps:
            if isinstance(step, int):
                path += f"[{step}]"
            elif step in self._bounds.names and step.isidentifier() and step.isascii() and len(step) <= _LONGEST_NAME:
                path += f".{step}"
            else:
                path += ".*"
        return path


# What a call does with it


def refuse_unchecked(session: Session, definition: Definition) -> None:
    """Before anything is sent: a strict client runs no tool whose result it could not check.

    Raises:
        InvalidResult: The schema the server listed cannot be used.
    """
    if definition.output_schema is None or session.settings.validate_output != "strict":
        return
    problem = definition.output_schema.checker().problem
    if problem is not None:
        text = f"the tool's outputSchema cannot be used: {problem}; nothing was sent, as validate_output is strict"
        raise InvalidResult("tools/list", text, request_sent=False)


def check_output(session: Session, definition: Definition, called: CallToolResult) -> None:
    """See that a result conforms to its tool's output schema. What a tool says of its own failure is exempt.

    Raises:
        InvalidResult: It does not, and `validate_output` is strict; else the log says so.
    """
    if definition.output_schema is None or not isinstance(called, CallToolResult) or called.is_error:
        return
    checker = definition.output_schema.checker()
    problem = checker.problem
    if problem is not None:
        problem = f"structuredContent is not checked, as the tool's outputSchema cannot be used: {problem}"
    else:
        problem = checker.violation(called)
    if problem is None:
        return
    if session.settings.validate_output == "strict":
        raise InvalidResult("tools/call", problem)
    _log.warning("tools/call at %s: %s", session.label, problem)
