"""The YAML front matter of skills: what is read, and what is refused."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ferrule._protocol.frontmatter import BadFrontmatter, read_frontmatter, same
from ferrule.errors import ConfigError

PLAIN = "name: pdf\ndescription: Extract, fill and assemble\n"


def document(block: str, body: str = "Body.\n") -> str:
    return f"---\n{block}---\n\n{body}"


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    ("block", "expected"),
    [
        (PLAIN, {"name": "pdf", "description": "Extract, fill and assemble"}),
        ("a: 'it''s'\nb: \"x\\ty\"\n", {"a": "it's", "b": "x\ty"}),
        ("a: 1\nb: 1.5\nc: -2e3\nd: 0x10\n", {"a": 1, "b": 1.5, "c": -2000.0, "d": "0x10"}),
        ("a: true\nb: yes\nc: No\nd: 'true'\n", {"a": True, "b": "yes", "c": "No", "d": "true"}),
        ("a:\nb: ~\nc: null\nd: ''\n", {"a": None, "b": None, "c": None, "d": ""}),
        ("a: 2026-01-02\nb: 12:30\nc: 1_000\n", {"a": "2026-01-02", "b": "12:30", "c": "1_000"}),
        ("a: |\n  one\n  two\nb: >-\n  one\n  two\n", {"a": "one\ntwo\n", "b": "one two"}),
        ("a: [1, {b: c}]\nd:\n- e\n- f: g\n", {"a": [1, {"b": "c"}], "d": ["e", {"f": "g"}]}),
        ("metadata: {version: '1.10', 1: x}\n", {"metadata": {"version": "1.10", "1": "x"}}),
        ("a: .nan\nb: .inf\n", {"a": ".nan", "b": ".inf"}),
    ],
)
def test_it_is_read_as_json_minded_parsers_read_it(block: str, expected: dict[str, Any]) -> None:
    assert read_frontmatter(document(block)) == expected


@pytest.mark.req("X6")
def test_line_ends_and_a_byte_order_mark_do_not_matter() -> None:
    text = "\ufeff" + document(PLAIN).replace("\n", "\r\n")
    assert read_frontmatter(text)["name"] == "pdf"


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "# Title\n",
        "---\nname: a\n",
        " ---\nname: a\n---\n",
        document("- a\n- b\n"),
        document("just text\n"),
        document("a: [\n"),
        document("a: b: c\n"),
        document("a: 1\na: 2\n"),
        document("? [a]\n: b\n"),
        document("a: &x [1]\nb: *x\n"),
        document("a: !!python/object/apply:os.system [x]\n"),
        document("a: !own b\n"),
        document("a: \0\n"),
        document(f"a: {'x' * 70_000}\n"),
        document("a: " + "[" * 20_000 + "\n"),
    ],
)
def test_anything_else_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(BadFrontmatter) as caught:
        read_frontmatter(text)
    assert "os.system" not in str(caught.value)


@pytest.mark.req("X6")
@pytest.mark.timeout(10)  # writing all of it out takes longer than there is time
def test_aliases_cannot_stand_for_more_than_was_sent() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    with pytest.raises(BadFrontmatter):
        read_frontmatter(document(bomb))


def test_without_the_library_it_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"ferrule\[skills\]"):
        read_frontmatter(document(PLAIN))


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 0}, {"a": False}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": {"b": ["c"]}}, {"a": {"b": ["c"]}}, True),
        ({"a": ""}, {"a": None}, False),
    ],
)
def test_values_are_compared_as_json(one: Any, other: Any, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal
