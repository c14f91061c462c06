"""The examples of README.md run, and print what it says they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PLACEHOLDER_URL = "http://127.0.0.1:8000/mcp"

EXAMPLES = re.findall(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", README, re.DOTALL)


def run(program: str) -> str:
    """What a program prints, run as a user would in an activated environment."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
        env={**os.environ, "PATH": path},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("program", "output"), EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_of_the_readme_prints_what_it_says(program: str, output: str, demo_url: str) -> None:
    assert run(program.replace(PLACEHOLDER_URL, demo_url)) == output


def test_the_readme_shows_both_clients_on_its_first_screen() -> None:
    screen = "\n".join(README.splitlines()[:60])
    assert "import Client" in screen
    assert "import AsyncClient" in screen
    assert "make demo" in screen
    assert "make test" in screen
    assert len(EXAMPLES) >= 3


def test_the_demo_runs_to_its_end() -> None:
    transcript = run("from ferrule.demo import main; raise SystemExit(main())")
    for part in ("Client, over stdio", "AsyncClient, over HTTP", "stateless era", "3 of 3", "144"):
        assert part in transcript
