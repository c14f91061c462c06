"""How a value is read from JSON and written back: one table per class, made when it is created.

A class says what its fields are; this module checks what a peer sent against that, keeps what the
class does not know, and names the place of what is wrong. It does not know any class.

A field that was not sent stays an empty slot: reading it gives the default, writing leaves it out.
"""

from __future__ import annotations

from .._value import Frozen
from ..errors import InvalidResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from dataclasses import KW_ONLY
    from typing import Any, ClassVar, Self

    Load = Callable[[Any], Any]
    """Turns a JSON value of the right type into what the field holds, or raises `Wrong`."""

_SHOWN = 3  # items of a list in a repr

_DRAFT = {
    "__slots__": (),
    "__init__": object.__init__,
    "__setattr__": object.__setattr__,
    "__delattr__": object.__delattr__,  # one slot of the type serves both
}

# What the JSON types of Python are called in JSON.
_NAMES = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
_NAMES |= {bool: "boolean"}


class Wrong(Exception):
    """A part of a result has the wrong shape. Each level adds its part of the path."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.path = ""

    def under(self, name: str) -> Wrong:
        """Add the name of the field, or the `[index]`, in which the fault lies."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        self.path = f"{name}{dot}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.args[0]}" if self.path else str(self.args[0])


class Field:
    """What one field may hold. Made by `required`, `optional` and `hint`."""

    __slots__ = ("default", "hint", "keyword", "kind", "required")

    def __init__(self, kind: Any, default: Any, required: bool, hint: bool, keyword: bool) -> None:
        self.kind = kind
        self.default = default
        self.required = required
        self.hint = hint
        self.keyword = keyword

    @property
    def is_list(self) -> bool:
        """Whether the field holds a tuple of items."""
        return isinstance(self.kind, list)


def required(kind: Any) -> Field:
    """A field that has to be there.

    Args:
        kind: `str`, `int`, `float`, `bool`, `dict`; `object` for any JSON value; a `Value` class;
            `[kind]` for a list of them; `(type, load)` for anything else.
    """
    return Field(kind, None, True, False, False)


def optional(kind: Any, default: Any = None, *, keyword: bool = False) -> Field:
    """A field that may be missing or null; then it has the default. `dict` makes a new one."""
    return Field(kind, default, False, False, keyword)


def hint(kind: Any, default: Any) -> Field:
    """A field that is mere advice: when it makes no sense it counts as missing."""
    return Field(kind, default, False, True, True)


def fields(**table: Field) -> dict[str, Field]:
    """The `__slots__` of a value class, in the order of its constructor."""
    return table


def _resolve(kind: Any) -> tuple[type, Load | None]:
    """The JSON type to expect, and the function that goes on from there."""
    if isinstance(kind, tuple):
        return kind
    if isinstance(kind, list):
        return list, _list_of(*_resolve(kind[0]))
    if issubclass(kind, Value):
        return dict, kind._decode
    return kind, None


def _list_of(kind: type, load: Load | None) -> Load:
    def load_list(items: list[Any]) -> tuple[Any, ...]:
        loaded: list[Any] = []
        append = loaded.append
        try:
            for item in items:
                if item.__class__ is not kind:
                    item = _as(kind, item)
                append(item if load is None else load(item))
        except Wrong as wrong:
            wrong.under(f"[{len(loaded)}]")
            raise
        return tuple(loaded)

    return load_list


def _as(kind: type, item: Any) -> Any:
    """The item as that JSON type, if it is one in a less usual form."""
    if kind is float and item.__class__ is int:
        return item
    if kind is int and item.__class__ is float and item.is_integer():
        return int(item)
    if isinstance(item, kind) and (kind is object or not isinstance(item, bool)):
        return item
    raise Wrong(f"expected {_NAMES[kind]}")


def _wire_name(name: str) -> str:
    """The name in JSON: `input_schema` is `inputSchema`."""
    if name == "meta":
        return "_meta"
    return name[0] + name.title().replace("_", "")[1:] if "_" in name else name


class Value(Frozen):
    """The base of everything a server sends.

    Attributes:
        meta: The `_meta` object; empty if there was none.
        extra: Whatever else the server sent, by its own names. Nulls in place of optional fields
            and hints that make no sense are kept here too.
    """

    __slots__ = fields(meta=optional(dict, dict, keyword=True), extra=optional(dict, dict, keyword=True))
    if TYPE_CHECKING:
        _: KW_ONLY
        meta: Mapping[str, Any] = {}
        extra: Mapping[str, Any] = {}

        _fields: ClassVar[dict[str, Field]]
        _table: ClassVar[dict[str, tuple[str, type, Load | None]]]
        _required: ClassVar[tuple[tuple[str, str], ...]]
        _wire_names: ClassVar[dict[str, str]]
        _tag: ClassVar[str | None]

        @staticmethod
        def _decode(wire: dict[str, Any]) -> Any: ...

    def __init_subclass__(cls, *, draft: bool = False) -> None:
        if draft:
            return
        super().__init_subclass__()
        own: dict[str, Field] = cls.__dict__["__slots__"]
        cls._fields = {**own, **getattr(cls, "_fields", {})}
        positional = tuple(name for name, field in cls._fields.items() if not field.keyword)
        cls.__match_args__ = positional  # type: ignore[misc, assignment]
        cls._wire_names = {**getattr(cls, "_wire_names", {})}
        cls._table = {**getattr(cls, "_table", {})}
        missing = list(getattr(cls, "_required", ()))
        for name, field in own.items():
            wire_name = cls._wire_names[name] = _wire_name(name)
            kind, load = _resolve(field.kind)
            # A hint matches no type, so that it always takes the careful way.
            cls._table[wire_name] = (name, Field if field.hint else kind, load)
            if field.required:
                missing.append((wire_name, f"expected {_NAMES.get(kind, 'a value')}"))
        cls._required = tuple(missing)
        cls._tag = None if "type" in cls._fields else getattr(cls, "type", None)
        if "_decode" not in cls.__dict__:
            cls._decode = staticmethod(_decoder(cls))  # type: ignore[method-assign, assignment]

    if not TYPE_CHECKING:  # checkers derive the constructor from the fields, and know them all

        def __init__(self, *args, **given):
            name = type(self).__name__
            if len(args) > len(self.__match_args__):
                raise TypeError(f"{name}() takes {len(self.__match_args__)} positional arguments")
            positional = dict(zip(self.__match_args__, args, strict=False))
            if twice := positional.keys() & given.keys():
                raise TypeError(f"{name}() got {', '.join(sorted(twice))} twice")
            given |= positional
            if unknown := given.keys() - self._fields.keys():
                raise TypeError(f"{name}() has no field {', '.join(sorted(unknown))}")
            for field_name, field in self._fields.items():
                if field_name in given:
                    self._give(field_name, field, given[field_name])
                elif field.required:
                    raise TypeError(f"{name}() needs {field_name}")

        def __getattr__(self, name):
            """The default of a field that was not sent."""
            field = type(self)._fields.get(name)
            if field is None or field.required:
                raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
            return {} if field.default is dict else field.default

    def _give(self, name: str, field: Field, item: Any) -> None:
        """Fill a slot for the constructor. None leaves an optional field out."""
        if item is None and not field.required and field.kind is not object:
            return
        self._set(name, tuple(item) if isinstance(item, list) and field.is_list else item)

    @classmethod
    def from_wire(cls, wire: Any, method: str | None = None) -> Self:
        """Read what a peer sent.

        Args:
            wire: The JSON object, as parsed. Parts of it become parts of the value.
            method: The method it answers, for the error.

        Raises:
            InvalidResult: It has the wrong shape; the text names method and path.
        """
        try:
            return cls._decode(wire if wire.__class__ is dict else _as(dict, wire))  # type: ignore[no-any-return]
        except Wrong as wrong:
            problem = str(wrong)
        raise InvalidResult(method or cls.__name__, problem)

    @classmethod
    def _is_tag(cls, item: Any) -> bool:
        """Whether this `type` is the one that the class stands for. False if it stands for none."""
        if cls._tag is not None and item != cls._tag:
            raise Wrong(f'expected "{cls._tag}"')
        return cls._tag is not None

    @classmethod
    def _decode_odd(cls, value: Any, key: str, item: Any) -> bool:
        """Store what is right in a less usual form. False for what belongs into `extra`."""
        name, kind, load = cls._table[key]
        field = cls._fields[name]
        if item is None and not field.required:
            return False
        try:
            if field.hint:
                kind, load = _resolve(field.kind)
            item = _as(kind, item)
            setattr(value, name, item if load is None else load(item))
        except Wrong:
            if field.hint:
                return False
            raise
        return True

    def to_wire(self) -> dict[str, Any]:
        """Write the JSON object, with what was sent or given and no defaults.

        Parts that are JSON in the value (schemas, `meta`, structured content) are shared with it.
        """
        wire = dict(self.extra)
        if self._tag is not None:
            wire["type"] = self._tag
        for name, item in self._state().items():
            if name != "extra":
                wire[self._wire_names[name]] = _plain(item)
        return wire

    def is_set(self, name: str) -> bool:
        """Whether the field was sent or given, and is not a default."""
        return name in self._state()

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) or None for name in self._names)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_size(item)}" for name, item in self._state().items())
        return f"{type(self).__name__}({shown})"


def _drafts(cls: type[Value]) -> Callable[[], Any]:
    """A maker of drafts: values of a class with the same slots that lets itself be filled.

    Assigning `__class__` then freezes one, which is faster than filling it frozen. The class of drafts is made with the
    first of them: most programs read few kinds of values.
    """
    draft: type[Any] | None = None

    def new_draft() -> Any:
        nonlocal draft
        if draft is None:
            draft = type("_draft", (cls,), dict(_DRAFT), draft=True)
        return draft()

    return new_draft


def _decoder(cls: type[Value]) -> Load:
    """The function that reads the class from JSON. A closure finds its tables faster than a method."""
    table, required, is_tag, decode_odd = cls._table, cls._required, cls._is_tag, cls._decode_odd
    new_draft = _drafts(cls)

    def decode(wire: dict[str, Any]) -> Value:
        value = new_draft()
        extra: dict[str, Any] | None = None
        key = ""
        try:
            for key, item in wire.items():
                if key in table:
                    name, kind, load = table[key]
                    if item.__class__ is kind or kind is object:
                        setattr(value, name, item if load is None else load(item))
                        continue
                    if decode_odd(value, key, item):
                        continue
                elif key == "type" and is_tag(item):
                    continue
                if extra is None:
                    value.extra = extra = {}
                extra[key] = item
        except Wrong as wrong:
            wrong.under(key)
            raise
        if required:
            _check_required(wire, required)
        value.__class__ = cls
        return value  # type: ignore[no-any-return]

    return decode


def _check_required(wire: dict[str, Any], required: tuple[tuple[str, str], ...]) -> None:
    for key, expected in required:
        if key not in wire:
            raise Wrong(expected).under(key)


# Python does not run this for the class that defines it. What is left over has no place in JSON.
Value.__init_subclass__()
del Value._table["extra"], Value._wire_names["extra"]


def _plain(item: Any) -> Any:
    """A field's value as JSON."""
    if isinstance(item, Value):
        return item.to_wire()
    if isinstance(item, tuple):
        return [_plain(part) for part in item]
    return item


def _size(item: Any) -> str:
    """What `repr` shows of a field: type and length, flags, never content."""
    if item is None or isinstance(item, (bool, Value)):
        return repr(item)
    if isinstance(item, tuple) and item and isinstance(item[0], Value):
        shown = [repr(part) for part in item[:_SHOWN]]
        if len(item) > _SHOWN:
            shown.append(f"{len(item) - _SHOWN} more")
        return f"[{', '.join(shown)}]"
    length = f"[{len(item)}]" if hasattr(item, "__len__") else ""
    return f"{type(item).__name__}{length}"
