"""`_core.new_value`: an instance of a frozen class, filled in one call."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from ferrule._wire import new_value
from ferrule.types import CallToolResult, TextContent


class Frozen:
    __slots__ = ("__weakref__", "a", "b")
    if TYPE_CHECKING:
        a: object
        b: object

    def __init__(self) -> None:
        raise AssertionError("not run")

    def __setattr__(self, name: str, item: object) -> None:
        raise AttributeError(name)


def test_slots_are_filled_past_init_and_setattr() -> None:
    value = new_value(Frozen, "a", 1, "b", [2])
    assert type(value) is Frozen
    assert (value.a, value.b) == (1, [2])


def test_what_is_not_given_stays_empty() -> None:
    value = new_value(Frozen, "a", 1)
    with pytest.raises(AttributeError):
        _ = value.b


def test_it_is_equal_to_what_the_constructor_makes() -> None:
    block = new_value(TextContent, "text", "hi")
    assert block == TextContent("hi")
    assert new_value(CallToolResult, "content", (block,)) == CallToolResult((TextContent("hi"),))


def test_the_value_takes_references_and_gives_them_back() -> None:
    class Item:
        pass

    item = Item()
    seen = weakref.ref(item)
    value = new_value(Frozen, "a", item)
    del item
    assert seen() is value.a
    del value
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("fields", [("a",), ("a", 1, "b")])
def test_a_name_without_an_item_is_a_type_error(fields: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        new_value(Frozen, *fields)


def test_a_name_that_is_no_slot_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError):
        new_value(Frozen, "c", 1)


def test_a_name_that_is_no_text_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        new_value(Frozen, 1, 1)


def test_what_cannot_be_made_without_arguments_raises_what_it_raises() -> None:
    class Picky:
        def __new__(cls, needed: object) -> Picky:
            return super().__new__(cls)

    with pytest.raises(TypeError):
        new_value(Picky)
    with pytest.raises(TypeError):
        new_value(type(iter([])))
