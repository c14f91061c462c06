"""A session that the server has forgotten: begun anew once for all, and nothing of the old one goes on."""

from __future__ import annotations

import itertools
import threading
from functools import partial
from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import FerruleError, HTTPStatusError, RPCError, SessionExpired
from tests.support.steps import (
    answer,
    error,
    event,
    hang,
    initialized,
    more,
    status,
    stream,
    turns,
    wait,
)
from tests.support.texts import logged

FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)


class Sessions:
    """A server whose sessions are s-1, s-2, ..., and which knows only the latest one."""

    def __init__(self, serve: Any, gone: Any = None, **rules: Any) -> None:
        self.gone = gone or status(404)
        self.count = itertools.count(1)
        self.current = ""
        wrapped = {name: partial(self._answer, rule) for name, rule in rules.pop("rules", {}).items()}
        wrapped.setdefault("tools/list", partial(self._answer, answer({"tools": []})))
        wrapped.setdefault("tools/call", partial(self._answer, answer()))
        self.server = serve({**wrapped, "initialize": self._begin, **rules}, era="handshake")

    def _begin(self, turn: Any) -> None:
        self.current = f"s-{next(self.count)}"
        answer(initialized(), headers=[("Mcp-Session-Id", self.current)])(turn)

    def _answer(self, rule: Any, turn: Any) -> None:
        known = turn.request.header("Mcp-Session-Id") == self.current
        for step in [rule] if callable(rule) else rule:
            (step if known else self.gone)(turn)
            if not known:
                return

    def forget(self) -> None:
        """Know no session any more."""
        self.current = "none"

    def ids(self, method: str) -> list[str | None]:
        return [request.header("Mcp-Session-Id") for request in self.server.calls(method)]


@pytest.mark.req("S2")
def test_a_lost_session_is_begun_anew_once_for_all_who_wait(flavour: Any, serve: Any) -> None:
    sessions = Sessions(serve)
    client = flavour.connect(sessions.server.url)
    sessions.forget()
    assert flavour.together(*[client.list_tools] * 8) == [[]] * 8
    ids = sessions.ids("tools/list")
    assert sessions.server.count("initialize") == 2
    assert ids.count("s-2") == 8
    assert 1 <= ids.count("s-1") <= 8
    first_again = sessions.server.methods.index("initialize", 3)
    assert "Mcp-Session-Id" not in dict(sessions.server.requests[first_again].headers)


@pytest.mark.req("S2", "R2")
def test_a_tool_call_in_a_lost_session_is_not_repeated(flavour: Any, serve: Any) -> None:
    sessions = Sessions(serve)
    client = flavour.connect(sessions.server.url)
    sessions.forget()
    with pytest.raises(SessionExpired) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert sessions.ids("tools/call") == ["s-1"]
    assert client.call_tool("echo", {}).text == "ok"
    assert sessions.ids("tools/call") == ["s-1", "s-2"]
    sessions.forget()
    assert client.call_tool("echo", {}, idempotent=True).text == "ok"
    assert sessions.ids("tools/call") == ["s-1", "s-2", "s-2", "s-3"]


@pytest.mark.req("S2")
def test_a_404_to_an_old_session_after_it_was_replaced_begins_no_other(flavour: Any, serve: Any) -> None:
    late = threading.Event()
    sessions = Sessions(serve)
    old = sessions.server.rules["tools/list"]

    def slowly(turn: Any) -> None:
        turn.wait(late)
        old(turn)

    sessions.server.rules["tools/list"] = turns(slowly, old)
    client = flavour.connect(sessions.server.url)
    slow = flavour.start(client.list_tools)
    sessions.server.wait_until(lambda: sessions.server.count("tools/list") == 1)
    sessions.forget()
    assert client.list_tools() == []
    late.set()
    assert slow.result() == []
    assert sessions.server.count("initialize") == 2
    assert client.session_id == "s-2"


@pytest.mark.req("S2")
@pytest.mark.parametrize(
    "words",
    [
        "Bad Request: No valid session ID provided",
        "Bad Request: Missing session ID",
        "Bad Request: Mcp-Session-Id header is required",
        "Invalid or missing session ID",
        "Session not found",
    ],
)
@pytest.mark.parametrize("form", ["JSON-RPC", "text"])
def test_a_400_that_names_the_session_means_what_404_does(flavour: Any, serve: Any, words: str, form: str) -> None:
    said = error(-32000, words, status=400, id="server-error")
    if form == "text":
        said = status(400, words.encode(), content_type="text/plain")
    sessions = Sessions(serve, gone=said)
    client = flavour.connect(sessions.server.url)
    sessions.forget()
    assert client.list_tools() == []
    assert sessions.server.count("initialize") == 2


@pytest.mark.req("S2")
@pytest.mark.parametrize(
    ("said", "raised"),
    [
        (error(-32602, "missing field", status=400, id=None), RPCError),
        (error(-32602, "session not found", status=400), RPCError),
        (status(400, b"no"), HTTPStatusError),
        (status(400), HTTPStatusError),
    ],
    ids=["another error", "an error of the request itself", "another text", "nothing"],
)
def test_any_other_400_leaves_the_session_alone(flavour: Any, serve: Any, said: Any, raised: Any) -> None:
    server = serve({"tools/list": said}, era="handshake")
    client = flavour.connect(server.url)
    with pytest.raises(raised):
        client.list_tools()
    client.ping()
    assert server.count("initialize") == 1


@pytest.mark.req("S2")
def test_without_a_session_a_400_that_speaks_of_one_begins_nothing(flavour: Any, serve: Any) -> None:
    server = serve(
        {"tools/list": status(400, b"Missing session ID", content_type="text/plain")}, era="handshake", session=None
    )
    client = flavour.connect(server.url)
    with pytest.raises(HTTPStatusError):
        client.list_tools()
    assert server.count("initialize") == 1


@pytest.mark.req("S8", "S4")
def test_the_stream_is_opened_again_under_the_new_session_and_the_old_one_closed(flavour: Any, serve: Any) -> None:
    gone = threading.Event()

    def kept(turn: Any) -> None:
        stream(event(b"", id=f"of-{turn.request.header('Mcp-Session-Id')}"), end=False)(turn)
        turn.wait_gone()
        gone.set()

    sessions = Sessions(serve, GET=kept)
    client = flavour.connect(sessions.server.url, listen=True)
    sessions.forget()
    assert client.list_tools() == []
    assert gone.wait(10)
    assert sessions.ids("GET") == ["s-1", "s-2"]
    # A place in the old session's stream says nothing in the new one.
    assert [get.header("Last-Event-ID") for get in sessions.server.calls("GET")] == [None, None]
    assert sessions.server.methods[-5:] == [
        *("tools/list", "initialize", "notifications/initialized", "GET", "tools/list")
    ]


@pytest.mark.req("S8")
def test_the_old_sessions_stream_is_closed_also_where_no_new_session_is_to_be_had(flavour: Any, serve: Any) -> None:
    gone = threading.Event()

    def kept(turn: Any) -> None:
        stream(end=False)(turn)
        turn.wait_gone()
        gone.set()

    sessions = Sessions(serve, GET=kept)
    client = flavour.connect(sessions.server.url, listen=True)
    sessions.forget()
    sessions.server.rules["initialize"] = status(501)
    with pytest.raises(HTTPStatusError):
        client.list_tools()
    assert gone.wait(10)


@pytest.mark.req("S8")
def test_what_belongs_to_a_session_is_renewed_in_order_before_waiting_calls_go_on(flavour: Any, serve: Any) -> None:
    sessions = Sessions(serve)
    client = flavour.connect(sessions.server.url)
    session: Any = client._session
    seen: list[Any] = []

    async def first(link: Any, deadline: float) -> None:
        seen.append(("first", link.session_id))
        await session.notify("notifications/first", None, deadline)
        raise FerruleError("secret reason", request_sent=False)

    async def second(link: Any, deadline: float) -> None:
        seen.append(("second", link.session_id))
        await session.notify("notifications/second", None, deadline)

    sessions.server.rules["notifications/first"] = sessions.server.rules["notifications/second"] = status(202)
    session.on_new_link.extend((first, second))
    client.list_tools()
    assert seen == []
    sessions.forget()
    with logged() as lines:
        assert client.list_tools() == []
    assert seen == [("first", "s-2"), ("second", "s-2")]
    assert sessions.server.methods[-3:] == ["notifications/first", "notifications/second", "tools/list"]
    assert sessions.ids("notifications/second") == ["s-2"]
    assert len([line for line in lines if line.startswith("WARNING") and "renewed" in line]) == 1
    assert "secret" not in "\n".join(lines)


@pytest.mark.req("S8")
def test_the_inbound_side_is_told_that_the_old_session_is_gone(flavour: Any, serve: Any) -> None:
    go = threading.Event()
    ask = event({"jsonrpc": "2.0", "id": "r", "method": "ping"})
    sessions = Sessions(serve, GET=[stream(end=False), wait(go), more(ask), hang()])
    client = flavour.connect(sessions.server.url, listen=True)
    inbound: Any = client._session.inbound
    dropped: list[Any] = []

    class Spy:
        """Notes what is dropped."""

        max_queue = inbound.max_queue
        listeners = inbound.listeners

        def __getattr__(self, name: str) -> Any:
            return getattr(inbound, name)

        def drop(self, link: Any) -> None:
            dropped.append(link.session_id)
            inbound.drop(link)

    client._session.inbound = Spy()
    sessions.forget()
    client.list_tools()
    assert dropped == ["s-1"]
    go.set()
    sessions.server.wait_until(lambda: sessions.server.count("reply") >= 1)
    # The old stream is closed: what is asked on it is not heard, and not answered under the new id.
    assert sessions.ids("reply") == ["s-2"]
