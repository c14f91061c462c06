"""The handlers a client is given: what they must look like, and what follows from them at once."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from ferrule import AsyncClient, Client, Root
from ferrule._session.handlers import Handlers
from ferrule.errors import ConfigError
from tests.support.asking import wait_for
from tests.support.steps import answer

URL = "http://127.0.0.1:9/mcp"
HANDLERS = ("on_elicitation", "on_sampling", "on_log", "on_notification", "roots")


async def coroutine(*_: Any) -> None: ...


class Awaited:
    async def __call__(self, *_: Any) -> None: ...


@pytest.mark.req("I1")
@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize("handler", [coroutine, partial(coroutine, 1), Awaited()])
def test_the_sync_client_refuses_what_it_cannot_await_and_names_it(name: str, handler: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name}: Client cannot await"):
        Client(URL, **{name: handler})
    AsyncClient(URL, **{name: handler})


@pytest.mark.req("I1")
@pytest.mark.parametrize("name", HANDLERS[:-1])
@pytest.mark.parametrize("given", ["handler", 5, True, ["x"]])
def test_a_handler_that_cannot_be_called_is_refused(name: str, given: Any) -> None:
    for client in (Client, AsyncClient):
        with pytest.raises(ConfigError, match=f"{name}: expected a function"):
            client(URL, **{name: given})


@pytest.mark.req("I1", "N11")
def test_sampling_with_tools_needs_somebody_to_do_it() -> None:
    with pytest.raises(ConfigError, match="on_sampling"):
        Client(URL, sampling_tools=True)


@pytest.mark.req("I8")
@pytest.mark.parametrize(
    "root",
    [
        "https://example.com/",
        "/home/ann",
        "file:/home",
        "",
        "file:///a/../b",
        "file:///a/%2E%2e/b",
        "file:///a\\..\\b",
        "file:///a%2F..%2fb",
        "file:///with space",
        "file:///line\n",
        "file:///ümlaut",
        5,
        None,
        {"name": "x"},
        {"uri": 5},
        {"uri": "file:///a", "name": 5},
        Root("ftp://x"),
        Root("file:///a", 5),  # type: ignore[arg-type]
    ],
)
def test_a_root_that_is_no_file_uri_is_refused_without_being_shown(root: Any) -> None:
    with pytest.raises(ConfigError, match="roots: ") as caught:
        Client(URL, roots=["file:///fine", root])
    assert "home" not in str(caught.value)


@pytest.mark.req("I8")
@pytest.mark.parametrize("roots", ["file:///a", b"x", 5, {"uri": "file:///a"}, True])
def test_roots_are_a_list(roots: Any) -> None:
    with pytest.raises(ConfigError, match="roots: expected a list"):
        Client(URL, roots=roots)


@pytest.mark.req("I8")
def test_roots_are_given_as_text_values_or_mappings_by_any_iterable() -> None:
    given = iter(["file:///a", Root("FILE:///b..c/%20", "B"), {"uri": "file://host/c", "name": "C", "_meta": {"x": 1}}])
    roots = Handlers(roots=given).roots
    assert roots == (
        Root("file:///a"),
        Root("FILE:///b..c/%20", "B"),
        Root("file://host/c", "C", meta={"x": 1}),
    )


@pytest.mark.req("I1")
def test_whether_there_is_anything_to_listen_for() -> None:
    assert not Handlers().any
    for name in HANDLERS[:-1]:
        assert Handlers(**{name: print}).any  # type: ignore[arg-type]
    assert Handlers(roots=[]).any


@pytest.mark.req("N11")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_client_declares_what_its_handlers_can_do(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(
        server.url,
        on_elicitation=print,
        on_sampling=print,
        sampling_tools=True,
        roots=["file:///a"],
        on_log=print,
        capabilities={"extensions": {"com.example/a": {}}},
    )
    client.call_tool("echo", {})
    expected: dict[str, Any] = {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}},
        "extensions": {"com.example/a": {}},
    }
    if era == "stateless":
        key = "io.modelcontextprotocol/clientCapabilities"
        expected["roots"] = {}
        assert [request.meta[key] for request in server.requests] == [expected, expected]
    else:
        [call] = server.calls("initialize")
        assert call.params["capabilities"] == {**expected, "roots": {"listChanged": True}}


@pytest.mark.req("I8")
def test_changed_roots_are_told_and_asked_for_anew(flavour: Any, child: Any) -> None:
    from tests.support import child as on_stdio
    from tests.support.asking import ask

    changed = "notifications/roots/list_changed"
    server = child({changed: [[on_stdio.send(ask("roots/list"))]]}, era="handshake")
    roots = ["file:///a"]
    client = flavour.connect(server.stdio(), roots=lambda: roots)
    roots.append("file:///b")
    client.notify_roots_changed()
    server.wait_until(lambda: any("result" in message for message in server.messages))
    [reply] = [message for message in server.messages if "result" in message]
    assert reply["result"] == {"roots": [{"uri": "file:///a"}, {"uri": "file:///b"}]}


@pytest.mark.req("I8")
def test_changed_roots_are_told_over_http_in_the_handshake_era_only(flavour: Any, serve: Any) -> None:
    changed = "notifications/roots/list_changed"
    old, new = serve({changed: answer({})}, era="handshake"), serve()
    for server, count in ((old, 1), (new, 0)):
        client = flavour.connect(server.url, roots=["file:///a"])
        client.notify_roots_changed()
        wait_for(lambda server=server, count=count: server.count(changed) == count)  # type: ignore[misc]
    assert old.calls(changed)[0].header("Mcp-Session-Id") == "session-1"
    with pytest.raises(ConfigError, match="roots="):
        flavour.connect(old.url).notify_roots_changed()
    assert old.count(changed) == 1
