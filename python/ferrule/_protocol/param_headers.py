"""Which arguments of a tool are mirrored into `Mcp-Param-*` headers, and what the headers say: for both ends.

Specification: 2026-07-28, basic/transports/streamable-http, "Custom Headers from Tool Parameters". Knows schemas,
arguments and header values; does not know who sends them, nor how often.
"""

from __future__ import annotations

from .._value import Frozen
from .._wire import decode_header_value, encode_header_value
from .headers import is_token

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Path = tuple[str, ...]
    """The names of the properties that lead to an argument."""

ANNOTATION = "x-mcp-header"
PREFIX = "Mcp-Param-"

_LARGEST = 2**53 - 1
"""Beyond it an integer is not the same in every language, so that no header may carry it."""
_TYPES = ("string", "integer", "boolean")  # a `number` has no one spelling
# Keywords whose value is data of the tool's author: what looks like an annotation in there is none.
_DATA = frozenset({"const", "default", "enum", "example", "examples"})
# Keywords whose value holds schemas under names of the author's: there a name is no keyword.
_NAMED_SCHEMAS = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
_DIGITS = frozenset("0123456789")
_LONGEST = 32  # characters of a number worth reading: 17 hold the largest


class InvalidAnnotation(ValueError):
    """A tool's `x-mcp-header` breaks a rule of the specification, which makes the whole definition invalid.

    Attributes:
        reason: Which rule, in words of our own: nothing of the schema is in them.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ParamHeaders(Frozen):
    """What of a tool's arguments is mirrored. False when nothing is.

    Attributes:
        pairs: The name of each header and the path of its argument, in the order of the schema.
    """

    __slots__ = ("pairs",)

    pairs: tuple[tuple[str, Path], ...]

    def __init__(self, pairs: tuple[tuple[str, Path], ...]) -> None:
        self._set("pairs", pairs)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def __repr__(self) -> str:
        return f"<ParamHeaders of {len(self.pairs)} arguments>"

    def headers(self, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
        """The headers of one call, values encoded.

        An argument that is missing, null, or of a kind no header can carry (an array, a fraction, an integer that is
        not the same in every language) has none.
        """
        found = []
        for name, path in self.pairs:
            text = _text(_at(arguments, path))
            if text is not None:
                found.append((name, encode_header_value(text)))
        return found

    def mismatch(self, arguments: Mapping[str, Any], given: Mapping[str, str]) -> str | None:
        """What is wrong with the headers of a call that came in, without its content; None when nothing is.

        Args:
            arguments: The arguments in the body.
            given: The headers that came with it, by their names in lower case.
        """
        for name, path in self.pairs:
            problem = _compare(_at(arguments, path), given.get(name.lower()))
            if problem is not None:
                return f"{name} {problem}"
        return None


_NOTHING = ParamHeaders(())


def plan(schema: Mapping[str, Any]) -> ParamHeaders:
    """Read the annotations of a tool's input schema.

    `$ref` is not followed: an annotation counts where it stands.

    Raises:
        InvalidAnnotation: One of them breaks a rule.
    """
    pairs: list[tuple[str, Path]] = []
    names: set[str] = set()
    for annotated, path in _annotated(schema):
        name = _checked(annotated, path)
        if name.lower() in names:
            raise InvalidAnnotation(f"{ANNOTATION}: a name is given twice")
        names.add(name.lower())
        pairs.append((PREFIX + name, path))
    return ParamHeaders(tuple(pairs)) if pairs else _NOTHING


def _annotated(root: Any) -> Iterator[tuple[Mapping[str, Any], Path]]:
    """Each schema in `root` that is annotated, with its path, which is empty where no path of properties leads."""
    # A stack of our own: how deep a schema goes is the peer's choice.
    waiting: list[tuple[Any, Path | None]] = [(root, ())]
    while waiting:
        node, path = waiting.pop()
        if isinstance(node, list):
            waiting += [(item, None) for item in reversed(node)]
        if not isinstance(node, dict):
            continue
        if ANNOTATION in node:
            yield node, path or ()
        waiting += reversed(list(_below(node, path)))


def _below(schema: Mapping[str, Any], path: Path | None) -> Iterator[tuple[Any, Path | None]]:
    """The schemas directly under this one, each with its path, or None where `properties` alone do not lead there."""
    for keyword, item in schema.items():
        if keyword in _DATA or keyword == ANNOTATION:
            continue
        if keyword not in _NAMED_SCHEMAS or not isinstance(item, dict):
            yield item, None
            continue
        chained = path is not None and keyword == "properties"
        for name, inner in item.items():
            yield inner, (*path, name) if chained and path is not None else None


def _checked(schema: Mapping[str, Any], path: Path) -> str:
    name = schema[ANNOTATION]
    if not path:
        raise InvalidAnnotation(f"{ANNOTATION}: only properties that `properties` alone lead to may have it")
    if not isinstance(name, str) or not is_token(name):
        raise InvalidAnnotation(f"{ANNOTATION}: a name must be a token of HTTP, at least one character long")
    if schema.get("type") not in _TYPES:
        raise InvalidAnnotation(f"{ANNOTATION}: the type of a mirrored property must be string, integer or boolean")
    return name


def _at(arguments: Any, path: Path) -> Any:
    """The argument at a path, None where there is none."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


def _text(value: Any) -> str | None:
    """How a header spells the value, before encoding; None for what it cannot carry."""
    if isinstance(value, str):
        return None if _has_surrogates(value) else value
    if isinstance(value, bool):
        return "true" if value else "false"
    number = _integer(value)
    return None if number is None else str(number)


def _integer(value: Any) -> int | None:
    """The value as an integer that is the same in every language; `7.0` is one (JSON Schema, `integer`)."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and -_LARGEST <= value <= _LARGEST else None


def _has_surrogates(text: str) -> bool:
    """Does the text hold half of a pair, which has no UTF-8?"""
    return not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text)


def _compare(value: Any, header: str | None) -> str | None:
    """What is wrong with a header, given the argument it mirrors."""
    if value is None:
        return None if header is None else "came without the argument that it mirrors"
    text = _text(value)
    if header is None:
        # What no header can carry the schema of the tool refuses, which says more than a missing header.
        return None if text is None else "is missing"
    decoded = decode_header_value(header)
    if decoded is None:
        return "is not valid base64 of UTF-8"
    if decoded == text or (text is not None and not isinstance(value, (str, bool)) and _number(decoded) == value):
        return None
    return "does not match the argument in the body"


def _number(text: str) -> int | None:
    """An integer that a header spells in decimal, as `42` or `42.0`, exactly; None for any other text."""
    whole, _, fraction = text.partition(".")
    if fraction.strip("0") or len(whole) > _LONGEST or not _DIGITS.issuperset(whole.removeprefix("-")):
        return None
    return int(whole) if whole.strip("-") else None
