"""What an import loads, by name: no timing here, `benches/startup.py` has that."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"asyncio", "ssl", "subprocess", "http", "typing", "logging", "email", "urllib"}

REPORT = """
import sys
{before}
known = set(sys.modules)
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
{program}
new = sorted(set(sys.modules) - known)
others = [path for path in opened if not path.endswith((".py", ".pyc", ".so", ".pyd"))]
import _thread, json
print(json.dumps([new, others, _thread._count()]))
"""


def report(program: str, before: str = "") -> tuple[set[str], list[str], int]:
    """Run a program in a fresh interpreter: top names it loaded, files it opened, its threads."""
    source = REPORT.format(program=program, before=before)
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", source], capture_output=True, text=True, timeout=60, check=True
    )
    new, opened, threads = json.loads(done.stdout.splitlines()[-1])
    return {name.partition(".")[0] for name in new}, opened, threads


@pytest.mark.req("V2")
def test_importing_the_package_loads_next_to_nothing() -> None:
    loaded, opened, threads = report("import ferrule")
    assert loaded & (HEAVY | {"orjson", "json", "re", "socket", "threading"}) == set()
    assert opened == []
    assert threads == 0


@pytest.mark.req("V2")
def test_importing_the_clients_loads_orjson_and_the_core_and_nothing_heavy() -> None:
    program = "from ferrule import Client, AsyncClient, Stdio"
    loaded, opened, threads = report(program, before="import orjson")
    assert loaded & (HEAVY | {"json", "re", "socket"}) == set()
    assert opened == []
    assert threads == 0


@pytest.mark.req("V2")
def test_making_clients_starts_no_thread() -> None:
    program = """
from ferrule import Client, Stdio
Client("http://127.0.0.1:1/mcp"), Client("https://127.0.0.1:1/mcp"), Client(Stdio("nothing"))
"""
    loaded, _, threads = report(program, before="import orjson")
    assert loaded & {"asyncio", "ssl", "subprocess", "http"} == set()
    assert threads == 0


@pytest.mark.req("V2")
def test_a_plain_http_call_of_the_sync_client_needs_neither_asyncio_nor_ssl() -> None:
    program = """
from ferrule._demo.http import HTTPServer
import threading
with HTTPServer() as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    known = set(sys.modules)
    from ferrule import Client
    with Client(server.url) as client:
        assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"sum": 3}
    server.shutdown()
"""
    loaded, _, _ = report(program)
    assert loaded & {"asyncio", "ssl", "subprocess"} == set()


@pytest.mark.req("V2")
@pytest.mark.parametrize("auth", ["None", '"token"', "lambda: 'token'"])
def test_a_client_without_a_flow_loads_nothing_of_authorization(auth: str) -> None:
    program = f"""
from ferrule._demo.http import HTTPServer
import threading
with HTTPServer() as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    from ferrule import Client
    with Client(server.url, auth={auth}) as client:
        client.call_tool("add", {{"a": 1, "b": 2}})
        client.list_tools()
    server.shutdown()
assert not [name for name in sys.modules if name.startswith("ferrule.auth")]
"""
    report(program)


@pytest.mark.req("V2")
def test_naming_a_flow_loads_no_cryptography_no_sockets_and_no_browser() -> None:
    program = """
from ferrule.auth import BearerAuth, ClientCredentials, JWTBearer
BearerAuth("token"), ClientCredentials("me", "secret"), JWTBearer("assertion")
"""
    loaded, opened, threads = report(program, before="import orjson")
    assert (
        loaded & {"cryptography", "asyncio", "ssl", "socket", "http", "webbrowser", "subprocess", "threading"} == set()
    )
    assert opened == []
    assert threads == 0
