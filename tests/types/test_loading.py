"""What loading the types costs in modules, and that a copy of the package keeps to itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "python" / "ferrule"


def run(program: str, folder: Path) -> list[str]:
    """Run a program in a fresh interpreter that finds modules in `folder` first."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{program}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.split()


@pytest.mark.req("V2")
def test_the_names_of_the_types_load_none_of_their_modules() -> None:
    loaded = run("import ferrule.types; print(*[m for m in sys.modules if 'ferrule' in m])", PACKAGE.parent)
    assert loaded == ["ferrule", "ferrule.types"]


@pytest.mark.req("V2")
def test_all_types_errors_and_limits_load_nothing_but_themselves() -> None:
    program = """
before = set(sys.modules)
import ferrule.limits
from ferrule.types import *
print(*sorted(name for name in set(sys.modules) - before))
"""
    loaded = set(run(program, PACKAGE.parent))
    assert {name for name in loaded if not name.startswith("ferrule")} <= {"__future__"}
    assert "ferrule._json" not in loaded


@pytest.mark.req("V1")
def test_values_errors_and_limits_pickle_in_a_copy_under_another_name(tmp_path: Path) -> None:
    vendored = tmp_path / "app" / "_vendor"
    shutil.copytree(PACKAGE, vendored / "ferrule", ignore=shutil.ignore_patterns("__pycache__"))
    program = """
import pickle
sys.path.append({parent!r})
import ferrule.errors, ferrule.limits, ferrule.types
from app._vendor.ferrule import errors, limits, types
wire = {{"content": [{{"type": "text", "text": "x"}}], "isError": True, "new": 1}}
for value, other in (
    (types.CallToolResult.from_wire(wire), ferrule.types.CallToolResult.from_wire(wire)),
    (limits.Limits(max_pages=3), ferrule.limits.Limits(max_pages=3)),
):
    twin = pickle.loads(pickle.dumps(value))
    assert twin == value and type(twin) is type(value)
    assert value != other
    assert pickle.loads(pickle.dumps(other)) == other
error = errors.ToolError(types.CallToolResult.from_wire(wire), name="x")
twin = pickle.loads(pickle.dumps(error))
assert type(twin) is errors.ToolError and twin.result == error.result
assert not isinstance(twin, ferrule.errors.FerruleError)
try:
    types.Tool.from_wire({{}})
except errors.InvalidResult:
    print("fine")
"""
    assert run(program.format(parent=str(PACKAGE.parent)), tmp_path) == ["fine"]
