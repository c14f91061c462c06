"""Starting servers that nobody here wrote, and ending exactly the processes that were started."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
NODE_FOLDER = HERE / "node"
SUITE_FOLDER = HERE.parent / "conformance"
OPENID_FOLDER = HERE / "oidc"
EVERYTHING = NODE_FOLDER / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
PATIENCE = 30.0

# Linux: PR_SET_PDEATHSIG, so that a test run that is killed leaves no server behind.
_DIE = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execvp(sys.argv[1], sys.argv[1:])"
DYING_WITH_US = [sys.executable, "-I", "-S", "-c", _DIE] if sys.platform == "linux" else []


@contextlib.contextmanager
def running(argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process in a group of its own; the whole group is ended on the way out."""
    process = subprocess.Popen(
        [*DYING_WITH_US, *argv],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        **options,
    )
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Ask the group to end, then make it."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(5.0)
            break
        except subprocess.TimeoutExpired:
            continue
    if process.stdout is not None:
        process.stdout.close()


@contextlib.contextmanager
def printing_its_url(*arguments: str) -> Iterator[str]:
    """A Python server that listens before it prints its URL as the first line."""
    with running([sys.executable, *arguments], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, f"the server ended with {process.wait()}"
        yield url


def sdk_over_http(*options: str) -> contextlib.AbstractContextManager[str]:
    """The official Python SDK's server; gives its URL."""
    return printing_its_url(str(HERE / "sdk_server.py"), "http", *options)


def resumable_over_http() -> contextlib.AbstractContextManager[str]:
    """The official Python SDK's server with an event store; gives its URL."""
    return printing_its_url(str(HERE / "resumable_server.py"))


def caching_over_http() -> contextlib.AbstractContextManager[str]:
    """A server of the official Python SDK that gives cache hints; gives its URL."""
    return printing_its_url(str(HERE / "caching_server.py"))


def demo_over_http() -> contextlib.AbstractContextManager[str]:
    """The demo server of the package; gives its URL."""
    return printing_its_url("-m", "ferrule.demo_server", "--http")


def sdk_over_stdio() -> list[str]:
    """The command of the official Python SDK's server."""
    return [sys.executable, str(HERE / "sdk_server.py"), "stdio"]


# --- @modelcontextprotocol/server-everything -----------------------------------------------------


def need_node() -> None:
    """Install the server if this machine can, else say that its tests do not run."""
    lacking = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if lacking:
        reason = f"no {' and no '.join(lacking)} on this machine; .ci/run installs it"
        if os.environ.get("FERRULE_REQUIRE_NODE"):
            pytest.fail(reason)
        pytest.skip(reason)
    install(NODE_FOLDER)


def node() -> str:
    """A Node of 20 or newer: the machine's own, or the one that the conformance suite brings from npm."""
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) >= 20:
        return "node"
    install(SUITE_FOLDER)
    return str(SUITE_FOLDER / "node_modules/.bin/node")


# --- oidc-provider, and a server that takes its tokens --------------------------------------------


@contextlib.contextmanager
def openid_provider(seconds: int) -> Iterator[str]:
    """An OpenID provider whose access tokens last that long; yields its issuer."""
    need_node()
    install(OPENID_FOLDER)
    install(SUITE_FOLDER)
    argv = [str(SUITE_FOLDER / "node_modules/.bin/node"), "provider.js", str(seconds)]
    with running(argv, stdout=subprocess.PIPE, cwd=OPENID_FOLDER) as process:
        assert process.stdout is not None
        issuer = next((line.strip() for line in process.stdout if line.startswith("http://")), None)
        assert issuer is not None, f"the provider ended with {process.wait()}"
        yield issuer


def guarded_over_http(issuer: str) -> contextlib.AbstractContextManager[str]:
    """The official Python SDK's server, which wants tokens of that issuer; gives its URL."""
    return printing_its_url(str(HERE / "guarded_server.py"), issuer)


def install(folder: Path) -> None:
    """`npm ci`, once for a lock file, whoever else is about to do the same."""
    import fcntl

    lock = (folder / "package-lock.json").read_text(encoding="utf-8")
    stamp = folder / "node_modules" / ".installed"
    with (folder / "package.json").open("rb") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != lock:
            command = ["npm", "ci", "--no-progress", "--loglevel=error"]
            subprocess.run(command, cwd=folder, check=True, timeout=300, stdin=subprocess.DEVNULL)
            stamp.write_text(lock, encoding="utf-8")


@contextlib.contextmanager
def everything_over_http(transport: str = "streamableHttp", path: str = "/mcp") -> Iterator[str]:
    """server-everything over an HTTP transport (the other is "sse"); yields its URL once the port answers."""
    need_node()
    for _ in range(5):
        port = free_port()
        argv = [node(), str(EVERYTHING), transport]
        with running(argv, stdout=subprocess.DEVNULL, env={**os.environ, "PORT": str(port)}) as process:
            if answers(process, port):
                yield f"http://127.0.0.1:{port}{path}"
                return
    raise AssertionError("server-everything does not start")


def everything_over_stdio() -> list[str]:
    """The command of server-everything over stdio."""
    need_node()
    return [node(), str(EVERYTHING), "stdio"]


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def answers(process: subprocess.Popen[str], port: int) -> bool:
    """Wait until the port accepts connections; False when the process ended first."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0):
            return process.poll() is None
        time.sleep(0.02)
    return False


def asgi_over_http(file: Path) -> contextlib.AbstractContextManager[str]:
    """The ASGI application in a file, under uvicorn; gives its URL."""
    return printing_its_url(str(HERE / "asgi_server.py"), str(file))
