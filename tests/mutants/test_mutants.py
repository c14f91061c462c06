"""The committed mutants still fit the source, so that `make mutants` means something."""

from __future__ import annotations

import tomllib

import pytest

from tests.mutants.run import HERE, ROOT, Mutant, load

MUTANTS = load()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.id)
def test_a_mutant_changes_one_line_that_is_there(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text(encoding="utf-8")
    assert source.count(mutant.old) == 1, mutant.id
    assert "\n" not in mutant.old + mutant.new, mutant.id
    assert mutant.old != mutant.new


def test_every_mutant_names_known_behaviours() -> None:
    known = tomllib.loads((HERE.parent / "requirements.toml").read_text(encoding="utf-8"))
    assert {name for mutant in MUTANTS for name in mutant.req} <= set(known)


def test_there_are_enough_mutants_and_no_name_stands_twice() -> None:
    names = [mutant.id for mutant in MUTANTS]
    assert len(set(names)) == len(names) >= 25
