"""`make mutants`: break the source in one place at a time; a test of the right behaviour must turn red.

Works on copies of the tree in a temporary folder. A mutant is killed when, of the tests that carry one of its ids,
at least one fails that passes without it; one that none of them notices survives, and fails the run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
COPIED = ("python", "tests", "rust", "pyproject.toml", "Cargo.toml", "README.md", "CHANGELOG.md")
NOT_COPIED = shutil.ignore_patterns("node_modules", "target", "__pycache__", ".*_cache")
TEST_SECONDS, RUN_SECONDS = 30, 400
KILLED, NO_TESTS = 1, 5  # pytest's exit codes
NOTICED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutant:
    """One change to one line."""

    id: str
    req: list[str]
    """The behaviours whose tests must notice."""
    file: str
    old: str
    new: str
    tests: list[str] = field(default_factory=lambda: ["tests", "--ignore=tests/real"])
    """Where to look for them, as pytest's arguments."""

    def apply(self, tree: Path) -> None:
        """Change the copy of the source at `tree`."""
        path = tree / self.file
        source = path.read_text(encoding="utf-8")
        path.write_text(source.replace(self.old, self.new), encoding="utf-8")

    def revert(self, tree: Path) -> None:
        """Make the copy what it was."""
        shutil.copy2(ROOT / self.file, tree / self.file)


@dataclass(frozen=True)
class Outcome:
    """What the tests made of a mutant."""

    mutant: Mutant
    killed: bool
    how: str
    seconds: float


def load() -> list[Mutant]:
    """The committed mutants."""
    entries = tomllib.loads((HERE / "mutants.toml").read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**entry) for entry in entries]


def copy_tree(place: Path) -> Path:
    """A copy of what the tests need, with the compiled core."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=NOT_COPIED)
        elif source.exists():
            shutil.copy2(source, place / name)
    return place


def run_tests(tree: Path, ids: list[str], where: list[str]) -> tuple[int, str]:
    """Run the tests that carry the ids on a copy; pytest's exit code and its output."""
    command = [
        *(sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-o", f"timeout={TEST_SECONDS}"),
        *(part for name in ids for part in ("--req", name)),
        *where,
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree / "python"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["FERRULE_FAULT_CASES"] = "100"
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, ""
    return done.returncode, done.stdout


def judge(mutant: Mutant, tree: Path) -> Outcome:
    """Have a mutant judged by its tests. The one that notices must be green without it, and red with it once more."""
    started = time.monotonic()
    if (ROOT / mutant.file).read_text(encoding="utf-8").count(mutant.old) != 1:
        return Outcome(mutant, False, f"its old text does not stand once in {mutant.file}", 0.0)
    unsteady: list[str] = []
    while True:
        where = [*mutant.tests, *(f"--deselect={name}" for name in unsteady)]
        code, output = run_mutated(mutant, tree, mutant.req, where)
        noticed = NOTICED.search(output)
        seconds = time.monotonic() - started
        if code != KILLED or not noticed:
            reasons = {0: "SURVIVED", NO_TESTS: "NO TEST carries its ids", -1: "the tests did not end"}
            return Outcome(mutant, False, reasons.get(code, f"pytest ended with {code}"), seconds)
        test = noticed[1]
        if run_tests(tree, [], [test])[0] == 0 and run_mutated(mutant, tree, [], [test])[0] == KILLED:
            return Outcome(mutant, True, test.rpartition("::")[2], seconds)
        unsteady.append(test)
        print(f"unsteady, not counted: {test}", flush=True)


def run_mutated(mutant: Mutant, tree: Path, ids: list[str], where: list[str]) -> tuple[int, str]:
    """Run tests on a copy while it is mutated."""
    mutant.apply(tree)
    try:
        return run_tests(tree, ids, where)
    finally:
        mutant.revert(tree)


def judge_all(mutants: list[Mutant], jobs: int, folder: Path) -> list[Outcome]:
    """Judge the mutants, several at a time, each time on a copy of its own."""
    copies: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        copies.put(copy_tree(folder / f"copy-{number}"))

    def one(mutant: Mutant) -> Outcome:
        tree = copies.get()
        try:
            outcome = judge(mutant, tree)
        finally:
            copies.put(tree)
        show(outcome)
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, mutants))


def show(outcome: Outcome) -> None:
    """One line of the table."""
    mutant = outcome.mutant
    mark = "killed  " if outcome.killed else "SURVIVES"
    print(f"{mark} {mutant.id:36} {','.join(mutant.req):12} {outcome.seconds:5.1f} s  {outcome.how}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", help="the id of a mutant (may be repeated)")
    parser.add_argument("-j", type=int, default=2, help="how many at a time (default 2)")
    options = parser.parse_args()
    mutants = [each for each in load() if not options.only or each.id in options.only]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        outcomes = judge_all(mutants, options.j, Path(folder))
    survivors = [outcome for outcome in outcomes if not outcome.killed]
    print(f"{len(outcomes) - len(survivors)} killed, {len(survivors)} not")
    return 1 if survivors or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
