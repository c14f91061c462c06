"""Statements and tests name each other: no promise without a test, no test without a promise."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parent


def statements() -> dict[str, dict[str, str]]:
    """The entries of requirements.toml."""
    return tomllib.loads((TESTS / "requirements.toml").read_text(encoding="utf-8"))


def sources() -> list[Path]:
    return [path for path in TESTS.rglob("test_*.py") if "node_modules" not in path.parts]


def ids_in(source: str) -> Iterator[str | None]:
    """The ids of every `pytest.mark.req(...)` in a source text; None for one that is no literal."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.req"):
            for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
                literal = isinstance(argument, ast.Constant) and isinstance(argument.value, str)
                yield argument.value if literal else None  # type: ignore[attr-defined]


def marked() -> dict[str | None, list[str]]:
    """Each id with the test files that name it."""
    found: dict[str | None, list[str]] = {}
    for path in sources():
        for name in ids_in(path.read_text(encoding="utf-8")):
            found.setdefault(name, []).append(str(path.relative_to(TESTS)))
    return found


def test_every_statement_has_a_test() -> None:
    assert sorted(set(statements()) - set(marked())) == []


def test_every_test_names_known_statements_as_literals() -> None:
    unknown = {name: files for name, files in marked().items() if name not in statements()}
    assert unknown == {}


def test_every_statement_says_something_in_one_paragraph() -> None:
    for name, entry in statements().items():
        assert set(entry) <= {"statement", "spec"}, name
        assert entry["statement"].endswith(".") and "\n" not in entry["statement"], name


def test_marks_are_found_wherever_they_stand() -> None:
    source = """
pytestmark = pytest.mark.req("A1")
@pytest.mark.req("A2", "A3")
def test(): ...
cases = [pytest.param(1, marks=mark.req("A4")), pytest.param(2, marks=pytest.mark.req(name))]
"""
    assert set(ids_in(source)) == {"A1", "A2", "A3", "A4", None}
