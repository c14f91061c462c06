"""`check_json`: which arguments have an exact JSON form."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import uuid
from typing import Any

import orjson
import pytest

from ferrule._wire import check_json


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Text(enum.StrEnum):
    A = "a"


class Words(list[str]):
    pass


class Record(dict[str, int]):
    pass


@dataclasses.dataclass
class Point:
    x: int


@pytest.mark.req("W10")
@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        2**64 - 1,
        1.5,
        -0.0,
        5e-324,
        "",
        "é🌍",
        [],
        (1, 2),
        {},
        {"": []},
        Level.LOW,
        Text.A,
        Words("a"),
        Record(a=1),
    ],
    ids=repr,
)
def test_what_has_an_exact_form_passes(value: Any) -> None:
    assert check_json(value) is None
    assert check_json({"a": [value]}) is None


BAD: list[tuple[Any, str]] = [
    (float("nan"), "float is not finite"),
    (float("inf"), "float is not finite"),
    (-float("inf"), "float is not finite"),
    (2**64, "int exceeds 64 bits"),
    (-(2**63) - 1, "int exceeds 64 bits"),
    (10**400, "int exceeds 64 bits"),
    ("\ud800", "string holds a lone surrogate"),
    ({1: 2}, "key is int, not str"),
    ({None: 2}, "key is NoneType, not str"),
    ({"\udfff": 2}, "key holds a lone surrogate"),
    (b"x", "bytes has no JSON form"),
    ({1, 2}, "set has no JSON form"),
    (1j, "complex has no JSON form"),
    (Colour.RED, "Colour has no JSON form"),
    (Point(1), "Point has no JSON form"),
    (datetime.datetime(2026, 1, 1), "datetime has no JSON form"),
    (datetime.date(2026, 1, 1), "date has no JSON form"),
    (uuid.UUID(int=0), "UUID has no JSON form"),
    (decimal.Decimal(1), "Decimal has no JSON form"),
    (range(3), "range has no JSON form"),
    (object, "type has no JSON form"),
]


@pytest.mark.req("W10")
@pytest.mark.parametrize(
    ("value", "reason"), BAD, ids=lambda item: item if isinstance(item, str) and item.isascii() else ""
)
def test_what_has_none_is_named_by_path_and_reason(value: Any, reason: str) -> None:
    assert check_json(value) == ("", reason)
    assert check_json({"ok": 1, "a": [0, {"b-c": (value,)}]}) == (".a[1].b-c[0]", reason)


@pytest.mark.req("W10")
def test_a_path_quotes_keys_that_are_no_names() -> None:
    assert check_json({"two words": b""}) == ('["two words"]', "bytes has no JSON form")
    assert check_json({"": {'"\n': b""}}) == ('[""]["\\"\\n"]', "bytes has no JSON form")
    path, _ = check_json({"k" * 1000: b""}) or ("", "")
    assert path == "." + "k" * 64


def nested(depth: int, leaf: Any = 1) -> Any:
    value = leaf
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.req("W10")
def test_what_passes_can_be_serialised_within_a_message() -> None:
    deepest = nested(250)
    assert check_json(deepest) is None
    orjson.dumps({"params": {"arguments": deepest}})
    path, reason = check_json(nested(251)) or ("", "")
    assert (path, reason) == ("[0]" * 250, "nested deeper than 250 levels")


@pytest.mark.req("W10")
def test_a_cycle_is_too_deep() -> None:
    cycle: dict[str, Any] = {}
    cycle["a"] = cycle
    _, reason = check_json(cycle) or ("", "")
    assert reason == "nested deeper than 250 levels"


@pytest.mark.req("W10")
def test_a_million_siblings_are_not_deep() -> None:
    assert check_json([[]] * 1_000_000) is None
