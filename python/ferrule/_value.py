"""Immutable, slotted values: what a frozen dataclass gives, without its 0.85 ms of import each.

A class lists its fields in `__slots__`. Knows nothing of JSON; `types._base` adds that.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, ClassVar, NoReturn, Self, dataclass_transform
else:

    def dataclass_transform(**_):
        """Tell type checkers what constructors look like; at run time do nothing."""
        return lambda cls: cls


_store = object.__setattr__
_load = object.__getattribute__


@dataclass_transform(frozen_default=True)
class Frozen:
    """The base of immutable values: equality, hash, repr, copying, pickling, `replace`."""

    __slots__ = ()
    if TYPE_CHECKING:
        _names: ClassVar[tuple[str, ...]]

    def __init_subclass__(cls) -> None:
        inherited: tuple[str, ...] = getattr(cls, "_names", ())
        cls._names = (*cls.__dict__.get("__slots__", ()), *inherited)

    def _set(self, name: str, value: object) -> None:
        """Fill a slot. For constructors."""
        _store(self, name, value)

    def _state(self) -> dict[str, Any]:
        """The slots that are filled."""
        state = {}
        for name in self._names:
            try:
                state[name] = _load(self, name)
            except AttributeError:
                continue
        return state

    def replace(self, **changes: Any) -> Self:
        """Make a copy with some fields changed.

        Args:
            **changes: New values by field name.

        Raises:
            TypeError: There is no such field.
        """
        return type(self)(**{**self._state(), **changes})

    if not TYPE_CHECKING:  # what copy.replace calls, from Python 3.13 on
        __replace__ = replace

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: use replace({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self._names)

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self._names)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._state().items())
        return f"{type(self).__name__}({fields})"

    def __copy__(self) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self), self._state())


def _restore(cls: type[Frozen], state: dict[str, Any]) -> Frozen:
    value = cls.__new__(cls)
    for name, item in state.items():
        _store(value, name, item)
    return value
