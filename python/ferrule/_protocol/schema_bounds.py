"""What checking by a JSON Schema can cost, and whether all it refers to is inside it: found out before it is used.

Specification: 2026-07-28, basic/index, JSON Schema Usage. Knows the keywords of 2020-12 and draft-07 that hold schemas,
and how `$ref` names one; knows no values that are checked.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": "2020-12",
    "http://json-schema.org/draft-07/schema": "draft-07",
}
"""The dialects that are understood, by their `$schema` without an empty fragment."""
DEFAULT = "https://json-schema.org/draft/2020-12/schema"

DEEPEST = 200
"""How deep schemas may lie in each other, references followed: each level is a frame on the checker's stack."""
MOST_FRAMES = 4000
"""How many such frames a schema may need that comes back to itself at each level of a value: what a thread with a stack
of 512 KiB has been seen to bear, with room to spare."""

_ONE = (
    *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties"),
)
_LIST = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAP = ("dependencies", "dependentSchemas", "patternProperties", "properties")
_SHELVES = ("$defs", "definitions")
"""Where schemas lie that only a reference applies."""
_REFS = ("$dynamicRef", "$ref")
_LEFT_OVER = ("unevaluatedItems", "unevaluatedProperties")
"""To know what nothing else has looked at, the checker goes through the schemas beside these twice more."""


class UnusableSchema(Exception):
    """Nothing can be checked by this schema. The text says why and holds nothing of it."""


class Bounds:
    """What is known of a schema before it is used.

    Attributes:
        subschemas: How many subschemas a check applies at most to one value, each as often as it is reached.
        levels: How many of them lie in each other.
        recursive: Does it refer to itself, so that the value decides how often?
        names: The properties it names: no content of a server's when an error says where it is.
    """

    __slots__ = ("levels", "names", "recursive", "subschemas")

    def __init__(self, subschemas: int, levels: int, recursive: bool, names: frozenset[str]) -> None:
        self.subschemas = subschemas
        self.levels = levels
        self.recursive = recursive
        self.names = names

    def bear(self, value: Any) -> bool:
        """Can the value be checked without more frames than there may be?"""
        return not self.recursive or not _deeper(value, MOST_FRAMES // (self.levels + 1))


def dialect(schema: dict[str, Any]) -> str:
    """The dialect a schema is written in, 2020-12 unless it says another (Schema Dialect).

    Raises:
        UnusableSchema: One that is not understood.
    """
    named = schema.get("$schema", DEFAULT)
    found = DIALECTS.get(named.removesuffix("#")) if isinstance(named, str) else None
    if found is None:
        raise UnusableSchema("its $schema names a dialect that is not known here; 2020-12 and draft-07 are")
    return found


def bounds(schema: dict[str, Any], most: int) -> Bounds:
    """Follow every reference of a schema.

    Args:
        schema: The schema, not too deep to walk through.
        most: How many subschemas it may apply to one value.

    Raises:
        UnusableSchema: It refers to something outside itself, or costs too much.
    """
    index = _Index(schema)
    count = _Count(index, most)
    total, levels = count.of(schema, "", 0)
    return Bounds(total, levels, count.recursive, frozenset(index.names))


def _deeper(value: Any, most: int) -> bool:
    """Are there more than so many arrays and objects in each other?"""
    layer = [value]
    for _ in range(most):
        below: list[Any] = []
        for item in layer:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
        if not below:
            return False
        layer = below
    return any(isinstance(item, (dict, list)) for item in layer)


def _below(schema: dict[str, Any]) -> Iterator[Any]:
    """The schemas that are applied with this one, references aside."""
    for key in _ONE:
        if isinstance(schema.get(key), dict):
            yield schema[key]
    for key in _LIST:
        if isinstance(schema.get(key), list):
            yield from schema[key]
    for key in _MAP:
        if isinstance(schema.get(key), dict):
            yield from schema[key].values()


class _Index:
    """Where references lead within one document: each identified schema and anchor by its absolute name."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.names: set[str] = set()
        self._targets: dict[str, Any] = {"": root}
        self._bases: dict[int, str] = {}
        waiting: list[tuple[Any, str]] = [(root, "")]
        while waiting:
            schema, base = waiting.pop()
            if not isinstance(schema, dict):
                continue
            base = self._enter(schema, base)
            waiting += [(below, base) for below in _below(schema)]
            for shelf in _SHELVES:
                if isinstance(schema.get(shelf), dict):
                    waiting += [(below, base) for below in schema[shelf].values()]

    def _enter(self, schema: dict[str, Any], base: str) -> str:
        """Note what the schema is called; gives the base of the references in it."""
        own = schema.get("$id")
        if isinstance(own, str):
            base = _join(base, own).removesuffix("#")
            self._targets.setdefault(base, schema)
        self._bases[id(schema)] = base
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(key), str):
                self._targets.setdefault(f"{base}#{schema[key]}", schema)
        if isinstance(schema.get("properties"), dict):
            self.names.update(schema["properties"])
        return base

    def base(self, schema: dict[str, Any], otherwise: str) -> str:
        """What references in this schema are relative to."""
        return self._bases.get(id(schema), otherwise)

    def find(self, ref: str, base: str) -> tuple[Any, str]:
        """The schema that a reference means, and the base around it.

        Raises:
            UnusableSchema: It is not in the document.
        """
        whole = _join(base, ref)
        document, _, fragment = whole.partition("#")
        if fragment and not fragment.startswith("/"):
            found = self._targets.get(whole)
        else:
            found = self._targets.get(document)
            if fragment:
                found = _at(found, fragment)
        if found is None:
            raise UnusableSchema("a $ref in it leads to nothing within it, and nothing else is ever fetched")
        return found, document


def _join(base: str, ref: str) -> str:
    if ref.startswith("#"):
        return base.partition("#")[0] + ref
    from urllib.parse import urljoin

    try:
        return urljoin(base, ref)
    except ValueError:
        raise UnusableSchema("an $id or a $ref in it is no URI") from None


def _at(document: Any, pointer: str) -> Any:
    """What a JSON Pointer in a URI's fragment means (RFC 6901, section 6), None for nothing."""
    from urllib.parse import unquote

    found = document
    for part in pointer.split("/")[1:]:
        key = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict):
            found = found.get(key)
        elif isinstance(found, list) and key.isdecimal() and key.isascii() and len(key) < 10:
            found = found[int(key)] if int(key) < len(found) else None
        else:
            return None
    return found


_UNDER_WAY = (1, 0)


class _Count:
    """How many schemas apply together with one, each as often as it is reached.

    Each schema is looked at once. One that is reached from within itself counts as one there: how often it comes back
    is up to the value, and the checker remembers what it has found out about each part of that.
    """

    def __init__(self, index: _Index, most: int) -> None:
        self.recursive = False
        self._index = index
        self._most = most
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, schema: Any, base: str, depth: int) -> tuple[int, int]:
        """The number for one schema, and how many levels lie below it.

        Raises:
            UnusableSchema: It is too large, or a reference leads out of the document.
        """
        if not isinstance(schema, dict):
            return 1, 0
        known = self._known.get(id(schema))
        if known is _UNDER_WAY:
            self.recursive = True
            return 1, 0
        if depth + (known[1] if known is not None else 0) > DEEPEST:
            raise UnusableSchema(f"it is nested more than {DEEPEST} levels deep, references followed")
        if known is not None:
            return known
        self._known[id(schema)] = _UNDER_WAY
        base = self._index.base(schema, base)
        total, height = 1, 0
        times = 3 if any(key in schema for key in _LEFT_OVER) else 1
        for below, around in self._applied(schema, base):
            more, levels = self.of(below, around, depth + 1)
            total, height = total + times * more, max(height, levels + 1)
            if total > self._most:
                raise UnusableSchema(f"it applies more than {self._most} subschemas to one value")
        self._known[id(schema)] = total, height
        return total, height

    def _applied(self, schema: dict[str, Any], base: str) -> Iterator[tuple[Any, str]]:
        for below in _below(schema):
            yield below, base
        for key in _REFS:
            ref = schema.get(key)
            if not isinstance(ref, str):
                continue
            if ref.removesuffix("#") in DIALECTS:
                self.recursive = True  # the checker has these itself, and they are
                continue
            yield self._index.find(ref, base)
