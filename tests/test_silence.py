"""Nothing that the library says holds content: all that is public is driven with marked secrets, all output searched.

`support/silence.py` is the program that does it, `support/silence_servers.py` what it talks to. A public method, an
argument, a handler, an exported class or an error that is not driven fails a test here.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
import traceback
import uuid
from pathlib import Path
from typing import Any

import pytest

import ferrule
from ferrule import _handles, errors
from ferrule._protocol.rpc_errors import rpc_error
from ferrule.types import CallToolResult, Context
from tests.support import silence
from tests.support.secrets import VARIABLE, leaks
from tests.support.silence_handlers import Handlers
from tests.support.silence_servers import RUNS

pytestmark = pytest.mark.req("G1")

ROOT = Path(__file__).parent.parent

RAISED = {"RPCError", "InvalidParams", "MethodNotFound", "URLElicitationRequired", "ToolError", "InvalidMessage"}
RAISED |= {"InvalidResult", "LimitExceeded", "RequestTimeout", "NegotiationError", "CapabilityError", "ConfigError"}
"""Errors that every run must have met, so that what is searched is known to hold them."""
RAISED |= {"TypeError", "CapabilityError"}
RAISED_OVER_HTTP = {"HTTPStatusError", "AuthChallengeError", "AuthStepUpError", "ConnectionClosed", "ConnectError"}
RAISED_OVER_STREAMS = {"stdio": {"ServerExited", "ConnectError"}, "socket": {"ServerExited"}}
RAISED_IN = {"stateless": {"InputRequired", "UnknownResultType"}, "handshake": set[str]()}


@pytest.mark.req("G2")
@pytest.mark.parametrize(("transport", "era"), RUNS)
@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_nothing_that_comes_out_holds_a_secret(flavour: str, transport: str, era: str, tmp_path: Path) -> None:
    mark = f"mark{uuid.uuid4().hex}"
    report = tmp_path / "report.json"
    path = os.pathsep.join([str(Path(ferrule.__file__).parent.parent), str(ROOT)])
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "always", "-m", "tests.support.silence", flavour, transport, era, report],
        env={**environment, VARIABLE: mark, "PYTHONPATH": path},
        cwd=ROOT,
        capture_output=True,
        timeout=300,
    )

    out = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    assert done.returncode == 0, out[-5000:]
    assert leaks(out, mark) == set(), [line for line in out.splitlines() if mark in line][:5]

    said = json.loads(report.read_text())
    reached = silence.everything() if era == "handshake" else set(silence.public_members())
    assert reached - set(said["driven"]) == set(), "public, and not driven"
    assert silence.expected_calls(transport, era) - set(said["called"]) == set(), "a handler was not called"
    if era == "handshake":
        assert silence.exported(flavour) - set(said["shown"]) == set(), "exported, and not shown"
    met = RAISED | RAISED_OVER_STREAMS.get(transport, RAISED_OVER_HTTP) | RAISED_IN[era]
    assert met - set(said["errors"]) == set()
    assert "DEBUG:ferrule" in out
    assert "WARNING:application" in out


def test_every_argument_of_the_constructors_is_given() -> None:
    given = set(inspect.signature(ferrule.Client).parameters) - {"target"}
    assert given == set(silence.OPTIONS) | set(Handlers(lambda what, value: None, False).options)


@pytest.mark.parametrize("kind", [ferrule.Client, *silence.HANDED_OUT.values()], ids=lambda kind: kind.__name__)
def test_every_argument_of_every_method_is_given(kind: type) -> None:
    for member in silence.public_members(kind).values():
        if not isinstance(member, property):
            silence.arguments_for(member, http=True)


def test_every_handler_is_expected_to_be_called() -> None:
    handlers = {*Handlers(lambda what, value: None, False).options, *silence.BY_HANDLERS}
    assert {one.partition(" ")[0].rstrip(":") for one in silence.expected_calls("sse", "handshake")} == handlers


def test_all_that_is_handed_out_is_driven() -> None:
    kinds = {
        value for value in vars(_handles).values() if inspect.isclass(value) and value.__module__ == "ferrule._handles"
    }
    assert kinds == set(silence.HANDED_OUT.values())


# --- every error, in the hands of who logs it ----------------------------------------------------

OURS: dict[str, Any] = {
    # what the library itself says, or numbers
    "message": "what happened",
    "method": "tools/call",
    "problem": "tools[3].name: expected string",
    "server": "https://example.com/mcp",
    "name": "echo",
    "limit": "max_pages",
    "reason": "digest",
    "status": 500,
    "code": -32000,
    "http_status": 400,
    "retry_after": 1.0,
    "exit_code": 3,
    "request_sent": True,
    "transient": True,
    "offered": ("2025-11-25",),
    "step": "token",
}
SECRET = "hunter2"
THEIRS: dict[str, Any] = {
    # what comes from the peer: nothing of it may show
    "content_type": f"text/{SECRET}",
    "stderr_tail": SECRET.encode(),
    "result_type": SECRET,
    "data": {"a": SECRET, "requiredCapabilities": {SECRET: {}}, "supported": [SECRET], "requested": SECRET},
    "supported": (SECRET,),
    "requests": {SECRET: {"params": SECRET}},
    "state": SECRET,
    "url": f"https://{SECRET}:{SECRET}@idp.example/token?{SECRET}#{SECRET}",
    "error": SECRET,
    "description": SECRET,
    "result": CallToolResult.from_wire({"content": [{"type": "text", "text": SECRET}], "isError": True}),
}


def every_error() -> list[type[errors.FerruleError]]:
    found = [value for value in vars(errors).values() if inspect.isclass(value)]
    return sorted((one for one in found if issubclass(one, errors.FerruleError)), key=lambda one: one.__name__)


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.__name__)
def test_no_error_shows_what_the_peer_said(kind: type[errors.FerruleError]) -> None:
    parameters = [name for name in inspect.signature(kind).parameters if name != "self"]
    values = {name: THEIRS[name] if name in THEIRS else OURS[name] for name in parameters}
    if "code" in values:
        values["message"] = SECRET
    error = kind(**values)
    shown = [str(error), repr(error), *traceback.format_exception(error), str(error.args)]
    assert SECRET not in "\n".join(shown)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            rpc_error(code=-32000, message="no", method="tools/call", server="http://h/mcp"),
            "tools/call: error -32000 from http://h/mcp",
        ),
        (
            errors.ToolError(THEIRS["result"], name="echo", server="http://h/mcp"),
            "tools/call: the tool reported an error from http://h/mcp",
        ),
        (
            errors.AuthError("refused", status=403, error="x", description="y", method="ping", server="http://h/mcp"),
            "ping: refused (HTTP 403) from http://h/mcp",
        ),
    ],
)
def test_a_peers_error_is_method_code_and_server(error: errors.FerruleError, text: str) -> None:
    assert str(error) == text


@pytest.mark.parametrize("words", ["a\x1b[31m\nb\u2028c\x85d\u202ee", "x" * 5000, "ä" * 5000])
def test_a_peers_words_are_escaped_and_capped(words: str) -> None:
    result = CallToolResult.from_wire({"content": [{"type": "text", "text": words}], "isError": True})
    said = [
        rpc_error(code=1, message=words).message,
        errors.ToolError(result, name="echo").message,
        errors.AuthError("refused", description=words).description or "",
    ]
    for one in said:
        assert one.isprintable()
        assert 0 < len(one.encode()) <= 1024


def test_what_a_handler_is_told_does_not_show_the_method_that_the_peer_wrote() -> None:
    told: dict[str, Any] = {
        "server": "https://example.com/mcp",
        "server_name": SECRET,
        "task_id": SECRET,
        "protocol_version": SECRET,
    }
    context = Context(method=f"notifications/{SECRET}", era="handshake", **told)
    assert repr(context) == str(context) == "<Context of https://example.com/mcp>"


def test_the_search_finds_what_it_looks_for() -> None:
    import base64

    mark = "mark0123456789abcdef"
    assert leaks(f"x {mark}-cursor- y", mark) == {"cursor"}
    assert leaks(f"x {mark} y", mark) == {"without a place"}
    for before in ("", "a", "ab", "user:"):
        assert leaks(base64.b64encode(f"{before}{mark}-token-".encode()).decode(), mark) == {"base64"}
    assert leaks("nothing", mark) == set()
