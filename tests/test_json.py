"""JSON in and out: exact numbers, refusals that name the place, errors that quote nothing."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import uuid
from collections import OrderedDict
from typing import Any

import pytest

from ferrule._json import FLAG_DEEP, FLAG_SLOW, dump_text, dumps, loads
from ferrule.errors import InvalidMessage

MARK = "s3cr3t-marker"
either_parser = pytest.mark.parametrize("flags", [0, FLAG_SLOW], ids=["fast", "exact"])


@either_parser
@pytest.mark.parametrize(
    "value",
    [
        {"jsonrpc": "2.0", "id": 7, "result": {"content": [{"type": "text", "text": "ä\u2028\n"}]}},
        [2**63, -(2**63), 0.1, 1e300, True, None, ""],
        {"": {"": []}},
    ],
)
@pytest.mark.req("W10")
def test_both_parsers_read_the_same(value: Any, flags: int) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        read = loads(text.encode(), flags)
        assert read == value
        assert json.dumps(read) == json.dumps(value)


@either_parser
@pytest.mark.req("W5")
def test_a_byte_order_mark_and_a_line_end_around_a_message_are_dropped(flags: int) -> None:
    assert loads(b'\xef\xbb\xbf{"id": 1}\r\n', flags) == {"id": 1}


@pytest.mark.req("W10")
def test_integers_beyond_64_bits_stay_exact() -> None:
    data = b'{"id": 1, "n": [18446744073709551616, -9223372036854775809, 1.5]}'
    assert loads(data, FLAG_SLOW)["n"] == [2**64, -(2**63) - 1, 1.5]


@pytest.mark.req("W10")
def test_an_escaped_lone_surrogate_stays_one_character() -> None:
    assert loads(b'["\\ud83d", "\\ud83d\\ude00"]', FLAG_SLOW) == ["\ud83d", "😀"]


@either_parser
@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b'{"a": nope}', "bad JSON at byte"),
        (b'{"a": 1', "bad JSON at byte"),
        (b'{"a": 1} {"b": 2}', "bad JSON at byte 9"),
        (b"", "bad JSON at byte 0"),
        (b"\xef\xbb\xbf" * 3000 + b"{}", "bad JSON at byte 0"),
        (b"<html>", "bad JSON at byte 0"),
        (b'{"a": "tab\t"}', "bad JSON at byte"),
        ('{"ä": nope}'.encode(), "bad JSON at byte"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        (b'{"a": "\xed\xa0\x80"}', "not UTF-8 at byte 7"),
    ],
)
@pytest.mark.req("G2", "W4")
def test_what_is_no_json_is_named_by_position_and_size(data: bytes, problem: str, flags: int) -> None:
    with pytest.raises(InvalidMessage) as caught:
        loads(data, flags)
    size = len(data.removeprefix(b"\xef\xbb\xbf"))
    assert str(caught.value).startswith(problem)
    assert str(caught.value).endswith(f" ({size} bytes)")


@either_parser
@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.req("W10")
def test_numbers_that_json_does_not_have_are_refused(number: str, flags: int) -> None:
    with pytest.raises(InvalidMessage):
        loads(f'{{"n": {number}}}'.encode(), flags)


@pytest.mark.req("W10")
def test_an_integer_too_long_to_convert_is_refused() -> None:
    with pytest.raises(InvalidMessage, match=r"number out of range \(5000 bytes\)"):
        loads(b"1" * 5000, FLAG_SLOW)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("flags", [0, FLAG_SLOW, FLAG_SLOW | FLAG_DEEP])
@pytest.mark.req("W10")
def test_nesting_beyond_the_limit_is_refused(opening: bytes, flags: int) -> None:
    with pytest.raises(InvalidMessage):
        loads(opening * 200_000, flags)


@either_parser
@pytest.mark.req("W10")
def test_nesting_that_real_messages_have_is_read(flags: int) -> None:
    value = loads(b"[" * 500 + b"]" * 500, flags)
    for _ in range(499):
        value = value[0]
    assert value == []


@pytest.mark.req("W10")
def test_what_the_framer_found_too_deep_is_not_even_parsed() -> None:
    with pytest.raises(InvalidMessage, match=r"^JSON nested too deeply \(2 bytes\)$"):
        loads(b"{}", FLAG_SLOW | FLAG_DEEP)


@either_parser
@pytest.mark.parametrize("tail", [b"x", b": NaN}", b"\xff", b'"]'])
@pytest.mark.req("G1", "G2")
def test_neither_the_error_nor_its_chain_holds_what_was_parsed(tail: bytes, flags: int) -> None:
    with pytest.raises(InvalidMessage) as caught:
        loads(b'{"' + MARK.encode() + b'"' + tail, flags)
    assert MARK not in repr(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ({"a": 1, "b": [True, None, 1.5]}, b'{"a":1,"b":[true,null,1.5]}'),
        ({"b": 1, "a": 2}, b'{"b":1,"a":2}'),
        ({"n": [2**63 - 1, -(2**63)]}, b'{"n":[9223372036854775807,-9223372036854775808]}'),
        ({"t": "a\nb\u2028ä"}, '{"t":"a\\nb\u2028ä"}'.encode()),
        ((1, (2,)), b"[1,[2]]"),
        (OrderedDict(a=1), b'{"a":1}'),
        ({}, b"{}"),
    ],
)
@pytest.mark.req("W10")
def test_values_with_an_exact_form_are_written_in_one_line(value: Any, data: bytes) -> None:
    assert dumps(value) == data
    assert b"\n" not in data


@dataclasses.dataclass
class Point:
    x: int = 1


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, float("nan")]}, r"arguments\.a\[1\]: "),
        ({"a": {"b": float("-inf")}}, r"arguments\.a\.b: "),
        ({"a": {1: 2}}, r"arguments\.a: "),
        ({None: 2}, r"arguments: "),
        ({"a": 2**64}, r"arguments\.a: "),
        ({"a": -(2**63) - 1}, r"arguments\.a: "),
        ({"a": b"bytes"}, r"arguments\.a: "),
        ({"a": {1, 2}}, r"arguments\.a: "),
        ({"a": object()}, r"arguments\.a: "),
        ({"a": Point()}, r"arguments\.a: "),
        ({"a": Colour.RED}, r"arguments\.a: "),
        ({"a": datetime.datetime(2026, 1, 1)}, r"arguments\.a: "),
        ({"a": datetime.date(2026, 1, 1)}, r"arguments\.a: "),
        ({"a": uuid.UUID(int=1)}, r"arguments\.a: "),
        ({"a": decimal.Decimal(1)}, r"arguments\.a: "),
        ({"a": "\ud800"}, r"arguments\.a: "),
        ({"a": iter([1])}, r"arguments\.a: "),
    ],
)
@pytest.mark.req("W10")
def test_what_has_no_exact_form_is_a_type_error_that_names_the_path(value: Any, place: str) -> None:
    with pytest.raises(TypeError, match=f"^{place}") as caught:
        dumps(value)
    assert caught.value.__context__ is None


@pytest.mark.req("W10")
def test_the_path_begins_with_the_name_of_what_was_given() -> None:
    with pytest.raises(TypeError, match=r"^params\.a: "):
        dumps({"a": object()}, where="params")


@pytest.mark.req("W10")
def test_a_value_that_contains_itself_is_a_type_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(TypeError, match="arguments"):
        dumps(endless)


@pytest.mark.parametrize("text", ["", "ünï\u2028\U0001f600", '"\\\x00\x7f', "\ud800", "a\udfff\ud83d\ude00"])
@pytest.mark.req("M1")
def test_a_text_is_written_so_that_it_is_read_as_it_was(text: str) -> None:
    written = dump_text(text)
    assert json.loads(written) == json.loads(json.dumps(text))
    assert b"\n" not in written
