"""Chromium without a screen, driven through its debugging pipe: one page, scripts in it, and what it shows.

Knows the DevTools protocol as far as one page needs it: JSON messages that end in NUL, on the descriptors 3 and 4.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

PATIENCE = 30.0
# The browser wants the pipes at 3 and 4; and on Linux it ends with this process (PR_SET_PDEATHSIG).
_PLACE = (
    "import ctypes, fcntl, os, sys; ctypes.CDLL(None).prctl(1, 9)\n"
    "ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]\n"
    "[os.dup2(end, 3 + place) for place, end in enumerate(ends)]\n"
    "os.execvp(sys.argv[3], sys.argv[3:])"
)


def command() -> str:
    """The browser, or a test that says that it did not run."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found is not None:
            return found
    reason = "no chromium on this machine; .ci/run installs it"
    if os.environ.get("FERRULE_REQUIRE_CHROMIUM"):
        pytest.fail(reason)
    pytest.skip(reason)


class Chromium:
    """A browser with one page; a context manager."""

    def __init__(self, folder: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        argv = [
            *(command(), "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}"),
            *("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync", "about:blank"),
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PLACE, str(to_browser), str(from_browser), *argv],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        os.set_blocking(self._read, False)
        self._data = b""
        self._last = 0
        self._session: str | None = None

    def __enter__(self) -> Self:
        [page] = [each for each in self._ask("Target.getTargets")["targetInfos"] if each["type"] == "page"]
        options = {"targetId": page["targetId"], "flatten": True}
        self._session = self._ask("Target.attachToTarget", **options)["sessionId"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)
        os.close(self._read)
        os.close(self._write)

    def open(self, url: str) -> None:
        """Go there, without waiting for the page."""
        self._ask("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """What an expression is in the page; None where there is no page at the moment."""
        return self._ask("Runtime.evaluate", expression=script).get("result", {}).get("value")

    def wait_for(self, script: str) -> Any:
        """Wait until an expression is true in the page."""
        end = time.monotonic() + PATIENCE
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}; the page: {self.text()}"
            time.sleep(0.05)
        return value

    def text(self) -> str:
        """What the page shows."""
        return str(self.run("document.body ? document.body.innerText : ''"))

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._last += 1
        message = {"id": self._last, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._last:
            pass
        result: dict[str, Any] = answer.get("result", {})
        return result

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while b"\0" not in self._data:
            assert time.monotonic() < end, "the browser does not answer"
            try:
                data = os.read(self._read, 65536)
            except BlockingIOError:
                time.sleep(0.01)
                continue
            assert data, "the browser ended"
            self._data += data
        message, _, self._data = self._data.partition(b"\0")
        value: dict[str, Any] = json.loads(message)
        return value
