"""The package lives anywhere: copied into another package, and twice in one process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

USE = """
import pickle, sys
from {name} import Client, FerruleError, Stdio, errors, types

server = Stdio(sys.executable, "-m", "{name}.demo_server", env={{"PYTHONPATH": {path!r}}})
with Client(server, timeout=20) as client:
    result = client.call_tool("add", {{"a": 1, "b": 2}})
    assert result.structured_content == {{"sum": 3}}, result
    assert type(result) is types.CallToolResult, type(result)
    assert type(result).__module__.startswith("{name}."), type(result)
    assert pickle.loads(pickle.dumps(result)) == result
    tools = client.list_tools()
    assert pickle.loads(pickle.dumps(tools[0])) == tools[0]
    try:
        client.read_resource("demo://nowhere")
    except errors.RPCError as error:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and again.code == error.code
    else:
        raise AssertionError("an unknown resource was read")
assert issubclass(errors.RPCError, FerruleError)
assert errors.RPCError.__module__ == "{name}.errors"
"""


def copy_package(place: Path) -> None:
    """Copy the package, with its compiled core and nothing from outside, to `place`."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "python" / "ferrule", place, ignore=ignore)
    folder = place.parent
    while not (folder / "root").exists():
        (folder / "__init__.py").touch()
        folder = folder.parent


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "root").touch()
    return tmp_path


def run(place: Path, program: str) -> None:
    program = f"import sys\nsys.path.insert(0, {str(place)!r})\n{program}"
    command = [sys.executable, "-I", "-X", "dev", "-W", "error", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.req("V1")
def test_a_copy_inside_another_package_is_complete(place: Path) -> None:
    copy_package(place / "app" / "_vendor" / "ferrule")
    use = USE.format(name="app._vendor.ferrule", path=str(place))
    outside = "[m for m in sys.modules if m.partition('.')[0] == 'ferrule']"
    run(place, f"{use}\nassert not {outside}, {outside}")


@pytest.mark.req("V1")
def test_a_copy_under_another_name_is_complete(place: Path) -> None:
    copy_package(place / "plugin" / "mcp_client")
    run(place, USE.format(name="plugin.mcp_client", path=str(place)))


@pytest.mark.req("V1")
def test_two_copies_in_one_process_do_not_mix(place: Path) -> None:
    copy_package(place / "one" / "ferrule")
    copy_package(place / "two" / "ferrule")
    both = [USE.format(name=f"{name}.ferrule", path=str(place)) for name in ("one", "two")]
    apart = "import one.ferrule, two.ferrule\n" + "\n".join(
        f"assert one.ferrule.{name} is not two.ferrule.{name}"
        for name in ("Client", "AsyncClient", "FerruleError", "Limits")
    )
    run(place, "\n".join([*both, apart]))


@pytest.mark.req("V1")
def test_the_core_names_no_python_module_of_its_own() -> None:
    for path in (ROOT / "rust" / "py" / "src").rglob("*.rs"):
        assert '"ferrule' not in path.read_text(encoding="utf-8"), path.name
