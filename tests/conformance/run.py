"""`make conformance`: the official suite's client scenarios, one process at a time, strictly judged.

A scenario passes when the suite says so, the client ended with 0 and in time, no check failed or warned, and the
checks that `baseline.toml` names have succeeded, as many as it says: the suite alone also passes clients that never
called.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT))

from tests.servers import launch  # noqa: E402 - needs the line above

NODE = HERE / "node_modules/.bin/node"
SUITE = HERE / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
CLIENT_SECONDS = 30
AT_ONCE = 2
"""Scenarios that run side by side: each starts a server, a client and Node for both."""


@dataclass(frozen=True)
class Verdict:
    """How one scenario went at one protocol version."""

    scenario: str
    version: str
    problems: list[str]
    counts: dict[str, int]
    seconds: float


def run_suite(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """The suite's own command line."""
    command = [str(NODE), str(SUITE), *arguments]
    environment = {**os.environ, "NO_PROXY": "*"}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=environment)


def check_node() -> str:
    """The version of the Node that runs the suite; it needs 22, whatever the machine's own is."""
    version = subprocess.run([str(NODE), "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < 22:
        sys.exit(f"ferrule: the conformance suite needs Node 22, not {version.strip()}")
    return version.strip()


def known_scenarios() -> set[str]:
    """Every client scenario of the installed suite."""
    listing = run_suite("list", "--client", timeout=60).stdout
    return set(re.findall(r"^\s+- (\S+)", listing, re.MULTILINE))


def judge(scenario: str, version: str, row: dict[str, Any]) -> Verdict:
    """Run one scenario and look at everything it left. Those of extensions belong to no version: they are forced."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        arguments = [
            *("client", "--command", f"exec {sys.executable} {HERE / 'client.py'}"),
            *("--scenario", scenario),
            *(("--spec-version", version) if version else ()),  # scenarios of extensions have none
            *("--timeout", str(CLIENT_SECONDS * 1000), "-o", folder),
            *(["--force"] if row.get("extension") else []),
        ]
        try:
            done = run_suite(*arguments, timeout=CLIENT_SECONDS + 30)
        except subprocess.TimeoutExpired:
            problems, checks = ["the suite did not end"], []
        else:
            checks = [
                check
                for path in Path(folder).rglob("checks.json")
                for check in json.loads(path.read_text(encoding="utf-8"))
            ]
            problems = problems_of(done, checks, row["checks"], row.get("successes", 1), Path(folder))
    counts: dict[str, int] = {}
    for check in checks:
        counts[check["status"]] = counts.get(check["status"], 0) + 1
    return Verdict(scenario, version, problems, counts, time.monotonic() - started)


def problems_of(
    done: subprocess.CompletedProcess[str],
    checks: list[dict[str, Any]],
    wanted: list[str],
    successes: int,
    folder: Path,
) -> list[str]:
    """What keeps a run from being a pass, in words."""
    problems = []
    succeeded = {check["id"] for check in checks if check["status"] == "SUCCESS"}
    for check in checks:
        if check["status"] in ("FAILURE", "WARNING"):
            problems.append(f"{check['id']}: {check.get('errorMessage') or check['description']}")
    problems += [f"{name}: did not succeed" for name in wanted if name not in succeeded]
    counted = sum(check["status"] == "SUCCESS" for check in checks)
    if 0 < counted < successes:
        problems.append(f"{counted} checks succeeded and not {successes}: some were not exercised")
    if not succeeded:
        problems.append("not a single check succeeded: the client did nothing that the scenario looks at")
    ended = re.search(r"Client exited with code (\S+)", done.stderr)
    if ended and ended[1] != "0":
        problems.append(f"the client ended with {ended[1]}")
    if "TIMED OUT" in done.stderr:
        problems.append("the client timed out")
    if "SKIPPED: scenario" in done.stdout:
        problems.append("the suite skipped it at this version")
    if done.returncode and not problems:
        problems.append(f"the suite ended with {done.returncode}")
    if problems:
        problems += [
            line for path in folder.rglob("stderr.txt") for line in path.read_text(encoding="utf-8").splitlines()[-3:]
        ]
    return problems


def install() -> None:
    """The suite and its Node, or one sentence about what is lacking."""
    if shutil.which("npm") is None:
        sys.exit("ferrule: the conformance suite needs Node and npm; .ci/run installs them.")
    launch.install(HERE)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="scenarios, comma separated")
    options = parser.parse_args()
    install()
    suite = json.loads((HERE / "package.json").read_text(encoding="utf-8"))["dependencies"]
    name = "@modelcontextprotocol/conformance"
    print(f"{name}@{suite[name]} under Node {check_node()}")
    baseline = tomllib.loads((HERE / "baseline.toml").read_text(encoding="utf-8"))
    required: dict[str, Any] = baseline["required"]
    unlisted = known_scenarios() ^ set(required)

    chosen = options.only.split(",") if options.only else list(required)
    print(f"{'scenario':36} {'version':11} {'verdict':8} {'ok':>3} {'bad':>3} {'skipped':>7} {'s':>5}")
    runs = [(scenario, version) for scenario in chosen for version in required[scenario]["versions"]]
    failed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for verdict in pool.map(lambda run: judge(run[0], run[1], required[run[0]]), runs):
            failed += bool(verdict.problems)
            show(verdict)
    if unlisted:
        print(f"not in the baseline, or not in the suite any more: {sorted(unlisted)}")
    return 1 if failed or unlisted else 0


def show(verdict: Verdict) -> None:
    """One line of the table, and what went wrong under it."""
    counts = verdict.counts
    bad = counts.get("FAILURE", 0) + counts.get("WARNING", 0)
    word = "FAILED" if verdict.problems else "passed"
    print(
        f"{verdict.scenario:36} {verdict.version or '(extension)':11} {word:8} {counts.get('SUCCESS', 0):3} {bad:3} "
        f"{counts.get('SKIPPED', 0):7} {verdict.seconds:5.1f}",
        flush=True,
    )
    for problem in verdict.problems:
        print(f"    {problem}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
