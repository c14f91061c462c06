"""Every class reads and writes messages in the specification's shapes without loss."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import pytest

from ferrule import types
from ferrule._json import dumps, loads
from ferrule.errors import InvalidResult
from ferrule.types._base import Value
from tests.types.vectors import VECTORS

each = pytest.mark.parametrize(("name", "wire"), VECTORS, ids=[f"{name}-{n}" for n, (name, _) in enumerate(VECTORS)])


def read(name: str, wire: dict[str, Any]) -> Value:
    if name == "UnknownContent":
        wire, name = {"content": [wire]}, "CallToolResult"
        block: Value = types.CallToolResult.from_wire(wire).content[0]
        return block
    cls: type[Value] = getattr(types, name)
    return cls.from_wire(wire)


@each
@pytest.mark.req("V4", "X1")
def test_a_message_is_read_and_written_without_loss(name: str, wire: dict[str, Any]) -> None:
    sent = copy.deepcopy(wire)
    value = read(name, wire)
    assert type(value).__name__ == name
    assert value.to_wire() == sent
    assert wire == sent, "reading changes nothing"
    assert loads(dumps(value.to_wire())) == sent


@each
@pytest.mark.req("V4", "X1")
def test_everything_the_schema_names_is_a_field_and_nothing_else_is(name: str, wire: dict[str, Any]) -> None:
    value = read(name, wire)
    assert set(value.extra) == set(wire) & {"somethingNew"}


@each
@pytest.mark.req("X1", "V4")
def test_members_that_nobody_knows_yet_are_kept(name: str, wire: dict[str, Any]) -> None:
    wire = {**wire, "fromTheFuture": {"a": [1, None]}}
    value = read(name, wire)
    if name != "UnknownContent":
        assert value.extra["fromTheFuture"] == {"a": [1, None]}
    assert value.to_wire() == wire


@each
@pytest.mark.req("V1")
def test_a_value_that_was_read_survives_pickling_and_deep_copies(name: str, wire: dict[str, Any]) -> None:
    value = read(name, wire)
    for twin in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value)):
        assert twin == value
        assert twin.to_wire() == wire


@each
@pytest.mark.req("G1")
def test_no_repr_holds_what_was_sent(name: str, wire: dict[str, Any]) -> None:
    marked = json.loads(json.dumps(wire), object_pairs_hook=mark)
    marked["meta"] = {"s3cr3t": "s3cr3t"}
    marked["s3cr3t"] = "s3cr3t"
    value = read(name, marked)
    assert "s3cr3t" in json.dumps(value.to_wire())
    assert "s3cr3t" not in repr(value)
    assert "s3cr3t" not in str(value)


def mark(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Put a marker into every text of a message, the `type` of content blocks aside."""
    return {key: f"s3cr3t{item}" if isinstance(item, str) and key != "type" else item for key, item in pairs}


WRONG: list[Any] = [None, True, 7, 1.5, "text", [], [None], [7], {}, {"type": 7}, [{}], [[]]]


@each
@pytest.mark.req("X1")
def test_any_member_of_any_wrong_type_gives_a_value_or_names_its_place(name: str, wire: dict[str, Any]) -> None:
    for key in wire:
        for wrong in WRONG:
            changed = {**wire, key: wrong}
            if name == "UnknownContent" and key == "type":
                continue
            try:
                value = read(name, changed)
            except InvalidResult as error:
                assert error.problem.partition(": ")[0].startswith(key)
                assert "s3cr3t" not in str(error)
            else:
                assert value.to_wire() == changed
                repr(value)


@each
@pytest.mark.req("X1")
def test_any_missing_member_gives_a_value_or_is_named(name: str, wire: dict[str, Any]) -> None:
    for key in wire:
        changed = {other: item for other, item in wire.items() if other != key}
        if key == "type":  # the caller has already told by it
            continue
        try:
            value = read(name, changed)
        except InvalidResult as error:
            place = "content" if key == "structuredContent" else key
            assert error.problem.startswith(f"{place}: expected ")
        else:
            assert value.to_wire() == changed
