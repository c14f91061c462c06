"""What every value can do, shown on a small class of the test's own and on all real ones."""

from __future__ import annotations

import copy
import pickle
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from ferrule import types
from ferrule.errors import InvalidResult
from ferrule.types import CallToolResult, Icon, ResourceLink, TextContent, Tool, ToolAnnotations
from ferrule.types._base import Value, fields, hint, optional, required


class Box(Value):
    """Every kind of field there is."""

    __slots__ = fields(
        name=required(str),
        size_mm=optional(float),
        count=optional(int, 1),
        is_open=optional(bool, False),
        labels=optional([str], ()),
        inner=optional(Icon),
        icons=optional([Icon], ()),
        schema=optional(dict),
        anything=optional(object),
        advice=hint(int, 0),
    )
    if TYPE_CHECKING:
        name: str
        size_mm: float | None = None
        count: int = 1
        is_open: bool = False
        labels: tuple[str, ...] = ()
        inner: Icon | None = None
        icons: tuple[Icon, ...] = ()
        schema: dict[str, Any] | None = None
        anything: Any = None
        advice: int = 0


FULL = {
    "name": "crate",
    "sizeMm": 2.5,
    "count": 3,
    "isOpen": True,
    "labels": ["a", "b"],
    "inner": {"src": "data:,"},
    "icons": [{"src": "https://x/1", "sizes": ["any"]}, {"src": "https://x/2", "new": 1}],
    "schema": {"type": "object", "$ref": "#/x"},
    "anything": [None, {"x": 1}],
    "advice": 4,
    "_meta": {"a/b": 1},
    "unheardOf": {"deep": [1]},
}


@pytest.mark.req("X1", "V4")
def test_every_kind_of_field_is_read_and_written_back_without_loss() -> None:
    box = Box.from_wire(FULL)
    assert (box.name, box.size_mm, box.count, box.is_open) == ("crate", 2.5, 3, True)
    assert box.labels == ("a", "b")
    assert box.inner == Icon("data:,")
    assert [icon.src for icon in box.icons] == ["https://x/1", "https://x/2"]
    assert box.schema is FULL["schema"]
    assert box.anything == [None, {"x": 1}]
    assert box.meta == {"a/b": 1}
    assert box.extra == {"unheardOf": {"deep": [1]}}
    assert box.icons[1].extra == {"new": 1}
    assert box.to_wire() == FULL
    assert Box.from_wire(box.to_wire()) == box


@pytest.mark.req("X1")
def test_fields_that_were_not_sent_have_their_defaults_and_are_not_written() -> None:
    box = Box.from_wire({"name": "crate"})
    assert (box.size_mm, box.count, box.is_open, box.labels) == (None, 1, False, ())
    assert (box.inner, box.icons, box.schema, box.anything) == (None, (), None, None)
    assert (box.advice, box.meta, box.extra) == (0, {}, {})
    assert box.to_wire() == {"name": "crate"}
    assert box == Box("crate", count=1)


@pytest.mark.req("X1", "V4")
def test_a_default_that_was_sent_is_written_back() -> None:
    wire = {"name": "crate", "count": 1, "isOpen": False, "labels": [], "_meta": {}}
    assert Box.from_wire(wire).to_wire() == wire
    assert Box.from_wire(wire).is_set("count")
    assert not Box.from_wire({"name": "crate"}).is_set("count")


@pytest.mark.parametrize("name", ["sizeMm", "count", "isOpen", "labels", "inner", "icons"])
@pytest.mark.req("X1", "V4")
def test_null_in_place_of_an_optional_field_counts_as_missing_and_is_kept(name: str) -> None:
    wire = {"name": "crate", name: None}
    box = Box.from_wire(wire)
    assert box.extra == {name: None}
    assert (box.count, box.is_open, box.labels) == (1, False, ())
    assert box.to_wire() == wire


@pytest.mark.req("X1")
def test_null_is_a_value_where_any_json_value_is_allowed() -> None:
    box = Box.from_wire({"name": "crate", "anything": None})
    assert box.anything is None
    assert box.is_set("anything")
    assert box.extra == {}
    assert box.to_wire() == {"name": "crate", "anything": None}


@pytest.mark.parametrize("advice", [None, "7", 1.5, True, [1], {}])
@pytest.mark.req("X1", "V4")
def test_a_hint_that_makes_no_sense_counts_as_missing_and_is_kept(advice: Any) -> None:
    wire = {"name": "crate", "advice": advice}
    box = Box.from_wire(wire)
    assert box.advice == 0
    assert box.to_wire() == wire


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"name": None}, "name: expected string"),
        ({"name": 3}, "name: expected string"),
        ({"name": True}, "name: expected string"),
        ({"name": ["crate"]}, "name: expected string"),
        ({"sizeMm": "2"}, "sizeMm: expected number"),
        ({"sizeMm": True}, "sizeMm: expected number"),
        ({"count": 1.5}, "count: expected integer"),
        ({"count": True}, "count: expected integer"),
        ({"count": "1"}, "count: expected integer"),
        ({"isOpen": 1}, "isOpen: expected boolean"),
        ({"isOpen": "true"}, "isOpen: expected boolean"),
        ({"labels": "a"}, "labels: expected array"),
        ({"labels": {"a": 1}}, "labels: expected array"),
        ({"labels": ["a", None]}, "labels[1]: expected string"),
        ({"inner": "x"}, "inner: expected object"),
        ({"inner": {}}, "inner.src: expected string"),
        ({"inner": {"src": 1}}, "inner.src: expected string"),
        ({"inner": {"src": "x", "sizes": [1]}}, "inner.sizes[0]: expected string"),
        ({"icons": {}}, "icons: expected array"),
        ({"icons": [{"src": "x"}, None]}, "icons[1]: expected object"),
        ({"icons": [{"src": "x"}, {"src": 1}]}, "icons[1].src: expected string"),
        ({"schema": []}, "schema: expected object"),
        ({"_meta": []}, "_meta: expected object"),
    ],
)
@pytest.mark.req("X1")
def test_a_wrong_shape_names_method_and_path(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidResult) as caught:
        Box.from_wire({"name": "crate", **changes}, "boxes/list")
    assert str(caught.value) == f"boxes/list: {problem}"
    assert caught.value.method == "boxes/list"
    assert caught.value.__context__ is None


@pytest.mark.parametrize("wire", [None, [], "x", 3, True])
@pytest.mark.req("X1")
def test_what_is_no_object_is_no_value(wire: Any) -> None:
    with pytest.raises(InvalidResult, match=r"^boxes/list: expected object$"):
        Box.from_wire(wire, "boxes/list")


@pytest.mark.req("X1")
def test_a_missing_required_field_is_named() -> None:
    with pytest.raises(InvalidResult, match=r"^Box: name: expected string$"):
        Box.from_wire({"count": 3})


@pytest.mark.req("X1", "W10")
def test_numbers_are_accepted_in_every_form_that_json_has_for_them() -> None:
    box = Box.from_wire({"name": "crate", "count": 3.0, "sizeMm": 2})
    assert (box.count, type(box.count)) == (3, int)
    assert (box.size_mm, type(box.size_mm)) == (2, int)
    huge = Box.from_wire({"name": "crate", "count": 2**70})
    assert huge.count == 2**70


@pytest.mark.req("X1")
def test_fields_named_like_attributes_of_a_value_do_no_harm() -> None:
    wire = {"name": "crate", "extra": 1, "meta": 2, "type": 3, "_fields": 4, "__class__": 5}
    box = Box.from_wire(wire)
    assert box.extra == {"extra": 1, "meta": 2, "type": 3, "_fields": 4, "__class__": 5}
    assert type(box) is Box
    assert box.to_wire() == wire


def test_a_value_cannot_be_changed() -> None:
    for box in (Box("crate"), Box.from_wire({"name": "crate"})):
        for name in ("name", "count", "something", "__class__"):
            with pytest.raises(AttributeError):
                setattr(box, name, 1)
            with pytest.raises(AttributeError):
                delattr(box, name)
        assert not hasattr(box, "__dict__")
        assert box == Box("crate")


def test_an_unknown_attribute_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Box has no attribute 'nam'"):
        _ = Box("crate").nam  # type: ignore[attr-defined]


def test_the_constructor_takes_fields_by_position_and_name() -> None:
    box = Box("crate", 2.5, labels=["a"], meta={"k": 1})  # type: ignore[arg-type]
    assert (box.name, box.size_mm, box.labels, box.meta) == ("crate", 2.5, ("a",), {"k": 1})
    assert Box("crate", size_mm=None) == Box("crate")
    assert Box("crate", size_mm=None).to_wire() == {"name": "crate"}


@pytest.mark.parametrize(
    ("args", "given", "problem"),
    [
        ((), {}, "needs name"),
        (("a",), {"name": "b"}, "name twice"),
        (("a",), {"colour": "b", "age": 1}, "no field age, colour"),
        (tuple("abcdefghijkl"), {}, "takes 9 positional"),
    ],
)
def test_the_constructor_refuses_what_does_not_fit(args: tuple[Any, ...], given: dict[str, Any], problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        Box(*args, **given)


def test_replace_makes_a_changed_copy() -> None:
    box = Box.from_wire(FULL)
    other = box.replace(name="chest", count=None)
    assert (other.name, other.count, other.labels) == ("chest", 1, ("a", "b"))
    assert box.name == "crate"
    assert other.extra == box.extra
    with pytest.raises(TypeError, match="no field colour"):
        box.replace(colour="red")
    if sys.version_info >= (3, 13):
        assert copy.replace(box, name="chest").name == "chest"


def test_equality_is_by_class_and_all_fields() -> None:
    assert Box("a") == Box("a")
    assert Box("a") != Box("b")
    assert Box("a") != Box("a", meta={"x": 1})
    assert Box("a") != Box("a", extra={"x": 1})
    assert Box("a") != "a"
    assert TextContent("a") != Icon("a")


def test_values_are_hashable_when_their_fields_are() -> None:
    assert len({TextContent("a"), TextContent("a"), TextContent.from_wire({"text": "a"})}) == 1
    assert hash(Box("a", is_open=False)) == hash(Box("a"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Tool("a", {"type": "object"}))


@pytest.mark.req("V1")
def test_values_survive_pickling_and_copying_with_what_was_and_was_not_sent() -> None:
    for box in (Box.from_wire(FULL), Box("crate"), Box.from_wire({"name": "crate", "count": 1})):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            twin = pickle.loads(pickle.dumps(box, protocol))
            assert twin == box
            assert twin.to_wire() == box.to_wire()
        assert copy.copy(box) is box
        deep = copy.deepcopy(box)
        assert deep == box
        assert deep.schema is None or deep.schema is not box.schema


def test_values_match_patterns() -> None:
    result = CallToolResult.from_wire({"content": [{"type": "text", "text": "3"}]})
    match result:
        case CallToolResult((TextContent(text),), is_error=False):
            assert text == "3"
        case _:
            pytest.fail("no match")
    assert TextContent.__match_args__ == ("text", "annotations")
    assert ResourceLink.__match_args__[:2] == ("uri", "name")


@pytest.mark.req("G1")
def test_a_repr_shows_types_counts_and_lengths_and_no_content() -> None:
    assert repr(Box.from_wire(FULL)) == (
        "Box(name=str[5], size_mm=float, count=int, is_open=True, labels=tuple[2], "
        "inner=Icon(src=str[6]), icons=[Icon(src=str[11], sizes=tuple[1]), "
        "Icon(src=str[11], extra=dict[1])], schema=dict[2], anything=list[2], advice=int, "
        "meta=dict[1], extra=dict[1])"
    )


@pytest.mark.req("G1")
def test_a_repr_stays_short_however_much_was_sent() -> None:
    wire = {"content": [{"type": "text", "text": "x" * 10_000}] * 5000}
    assert repr(CallToolResult.from_wire(wire)) == (
        "CallToolResult(content=[TextContent(text=str[10000]), TextContent(text=str[10000]), "
        "TextContent(text=str[10000]), 4997 more])"
    )


def classes() -> list[type[Value]]:
    found = [getattr(types, name) for name in types.__all__]
    return [item for item in found if isinstance(item, type) and issubclass(item, Value)]


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__name__)
def test_every_class_is_slotted_documented_and_lists_the_fields_it_declares(
    cls: type[Value],
) -> None:
    assert "__slots__" in cls.__dict__
    assert cls.__dictoffset__ == 0
    assert cls.__doc__
    assert cls.__module__.startswith("ferrule.types.")
    assert cls.__qualname__ == cls.__name__


def test_the_package_lists_its_names_and_knows_no_others() -> None:
    assert set(types.__all__) <= set(dir(types))
    with pytest.raises(AttributeError, match="has no attribute 'Tol'"):
        _ = types.Tol


@pytest.mark.req("X1")
def test_names_in_json_are_the_camel_case_of_the_fields() -> None:
    wire = {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": False}
    hints = ToolAnnotations.from_wire(wire)
    assert (hints.read_only_hint, hints.destructive_hint, hints.open_world_hint) == (
        True,
        False,
        False,
    )
    assert hints.extra == {}


def test_an_abandoned_draft_leaves_nothing_behind() -> None:
    bad = {"content": [{"type": "text", "text": "x"}] * 100 + [{"type": "text"}]}

    def fail() -> None:
        with pytest.raises(InvalidResult):
            CallToolResult.from_wire(bad)

    fail()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(50):
            fail()
        assert tracemalloc.get_traced_memory()[0] - before < 20_000
    finally:
        tracemalloc.stop()
