"""The HTTP+SSE transport of 2024-11-05: one stream for all answers, a POST for each message."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import (
    AuthError,
    ConnectionClosed,
    HTTPStatusError,
    ProtocolError,
    RequestTimeout,
    RPCError,
)
from tests.support.old_sse import OldServer
from tests.support.steps import hang, initialized, raw, reset, status, text, turns
from tests.support.texts import logged

FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)
PRIOR = {"era": "handshake", "revision": "2025-11-25", "transport": "http+sse"}


@pytest.fixture
def old(serve: Any) -> Any:
    """`old(OldServer(...))` serves it at /sse; gives the scripted server."""

    def start(server: OldServer, **rules: Any) -> Any:
        return serve({**server.rules, **rules}, era=None, path="/sse")

    return start


@pytest.mark.req("O1", "N9")
def test_messages_go_to_the_endpoint_and_answers_come_on_the_stream(flavour: Any, old: Any) -> None:
    server = old(OldServer())
    client = flavour.connect(server.url, prior=PRIOR, headers={"X-Tenant": "a"}, auth="token")
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert [tool.name for tool in client.list_tools()] == ["echo"]
    assert [(request.verb, request.target, request.method) for request in server.requests] == [
        ("GET", "/sse", "GET"),
        ("POST", "/messages?session=1", "initialize"),
        ("POST", "/messages?session=1", "notifications/initialized"),
        ("POST", "/messages?session=1", "tools/call"),
        ("POST", "/messages?session=1", "tools/list"),
    ]
    opening = server.requests[0]
    assert opening.header("Accept") == "text/event-stream"
    versions = [request.header("MCP-Protocol-Version") for request in server.requests]
    assert versions == [None, None, *["2025-11-25"] * 3]
    assert {request.header("X-Tenant") for request in server.requests} == {"a"}
    assert {request.header("Authorization") for request in server.requests} == {"Bearer token"}
    assert (client.era, client.session_id) == ("handshake", None)


@pytest.mark.req("O1")
@pytest.mark.parametrize(
    ("endpoint", "target"),
    [
        ("/messages/?s=1", "/messages/?s=1"),
        ("messages?s=1", "/messages?s=1"),
        ("?s=1", "/sse?s=1"),
        ("../up/./here", "/up/here"),
        ("{origin}/abs?s=1#part", "/abs?s=1"),
        ("//{netloc}/net", "/net"),
        ("/spa ce/ünï", "/spa%20ce/%C3%BCn%C3%AF"),
    ],
)
def test_the_endpoint_is_resolved_against_the_streams_url(flavour: Any, old: Any, endpoint: str, target: str) -> None:
    plan = OldServer()
    server = old(plan)
    plan.endpoint = endpoint.replace("{origin}", server.origin).replace("{netloc}", f"127.0.0.1:{server.port}")
    client = flavour.connect(server.url, prior=PRIOR)
    client.ping()
    assert {request.target for request in server.requests[1:]} == {target}


@pytest.mark.req("O1")
@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:1/messages",
        "http://localhost:{port}/messages",
        "https://127.0.0.1:{port}/messages",
        "//evil.example/messages",
        "http://127.0.0.1:{port}@evil.example/",
        "ftp://127.0.0.1:{port}/messages",
        "http://",
        "",
        "/a\tb",
        "/" + "x" * 9000,
    ],
)
def test_an_endpoint_elsewhere_or_nowhere_is_refused_before_any_post(flavour: Any, old: Any, endpoint: str) -> None:
    plan = OldServer()
    server = old(plan)
    plan.endpoint = endpoint.replace("{port}", str(server.port))
    client = flavour.client(server.url, prior=PRIOR, auth="token", protocol="2024-11-05", timeout=5, retry=FAST)
    with pytest.raises((ProtocolError, RequestTimeout)) as caught:
        client.call_tool("echo", {}, timeout=1 if not endpoint else 5)
    assert caught.value.request_sent is False
    assert [request.verb for request in server.requests] == ["GET"]
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("O1")
def test_calls_before_the_endpoint_wait_for_it(flavour: Any, old: Any) -> None:
    go = threading.Event()
    plan = OldServer()
    opening = plan.rules["GET"]

    def late(turn: Any) -> None:
        turn.wait(go)
        opening(turn)

    server = old(plan, GET=late)
    client = flavour.client(server.url, prior=PRIOR)
    calls = [flavour.start(client.call_tool, "echo", {"n": n}) for n in range(5)]
    server.wait_until(lambda: server.count("GET") == 1)
    assert len(server.requests) == 1
    go.set()
    assert [call.result().text for call in calls] == [f'{{"n": {n}}}' for n in range(5)]
    assert (server.count("GET"), server.count("initialize")) == (1, 1)


@pytest.mark.req("O1", "T1")
def test_an_endpoint_that_never_comes_meets_the_deadline(flavour: Any, old: Any) -> None:
    server = old(OldServer(endpoint=None))
    client = flavour.client(server.url, prior=PRIOR)
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.3)
    assert caught.value.request_sent is False
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("O2")
def test_an_answer_before_the_posts_own_202_counts(flavour: Any, old: Any) -> None:
    answered = threading.Event()

    def early(plan: OldServer, request: Any) -> None:
        if request.method == "tools/call":
            plan.answer(request)
            answered.wait(10)

    plan = OldServer(before=early)
    server = old(plan)
    client = flavour.connect(server.url, prior=PRIOR)
    assert client.call_tool("echo", {}, timeout=4).text == "{}"  # less than the 202 takes
    answered.set()
    assert client.call_tool("echo", {"again": 1}).text == '{"again": 1}'


@pytest.mark.req("O2")
@pytest.mark.parametrize("how", ["end", "reset"])
def test_the_loss_of_the_stream_fails_waiting_calls_and_the_next_one_reconnects(
    flavour: Any, old: Any, how: str
) -> None:
    plan = OldServer(results={"tools/call": None})
    server = old(plan)
    client = flavour.connect(server.url, prior=PRIOR, retry=FAST)
    calls = [flavour.start(client.call_tool, "echo", {}) for _ in range(3)]
    server.wait_until(lambda: server.count("tools/call") == 3)
    plan.end() if how == "end" else plan.streams[-1].reset()
    for call in calls:
        error = call.outcome()
        assert isinstance(error, ConnectionClosed)
        assert error.request_sent is True
    plan.results["tools/call"] = text("back")
    assert client.call_tool("echo", {}).text == "back"
    assert (server.count("GET"), server.count("initialize"), server.count("tools/call")) == (2, 2, 4)
    assert server.requests[-1].target == "/messages?session=2"


@pytest.mark.req("O2", "R1")
def test_an_idempotent_request_whose_stream_was_lost_is_sent_again_on_a_new_one(flavour: Any, old: Any) -> None:
    plan = OldServer()

    def lose(request: Any) -> Any:
        if len(plan.streams) == 1:
            plan.end()
        return {"tools": []}

    plan.results["tools/list"] = lose
    server = old(plan)
    client = flavour.connect(server.url, prior=PRIOR, retry=FAST)
    assert client.list_tools() == []
    assert (server.count("GET"), server.count("tools/list")) == (2, 2)


@pytest.mark.req("O2")
def test_a_stream_that_was_lost_while_nobody_called_is_opened_anew_unseen(flavour: Any, old: Any) -> None:
    plan = OldServer()
    server = old(plan)
    client = flavour.connect(server.url, prior=PRIOR)
    plan.end()
    server.wait_until(lambda: server.open <= 1)
    time.sleep(0.05)  # the end reaches the client
    assert client.call_tool("echo", {}).text == "{}"
    assert server.count("initialize") == 2


@pytest.mark.req("O2", "N10")
def test_a_stream_that_is_lost_during_the_handshake_fails_the_call_unsent_and_the_next_one_works(
    flavour: Any, old: Any
) -> None:
    plan = OldServer()

    def lose(request: Any) -> Any:
        plan.end()
        plan.results["initialize"] = initialized()

    plan.results["initialize"] = lose
    server = old(plan)
    client = flavour.client(server.url, prior=PRIOR, retry=FAST)
    with pytest.raises(ConnectionClosed) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is False
    assert client.call_tool("echo", {}).text == "{}"
    assert server.count("tools/call") == 1


@pytest.mark.req("O2", "T2")
def test_giving_up_is_told_the_server_and_a_late_answer_is_dropped(flavour: Any, old: Any) -> None:
    plan = OldServer(results={"tools/call": None})
    server = old(plan)
    client = flavour.connect(server.url, prior=PRIOR)
    with pytest.raises(RequestTimeout) as caught:
        client.call_tool("echo", {}, timeout=0.2)
    assert caught.value.request_sent is True
    server.wait_until(lambda: server.count("notifications/cancelled") == 1)
    lost = server.calls()[0].message["id"]
    assert server.calls("notifications/cancelled")[0].params["requestId"] == lost
    plan.send({"jsonrpc": "2.0", "id": lost, "result": text("late")})
    plan.results["tools/call"] = text("next")
    assert client.call_tool("echo", {}).text == "next"


@pytest.mark.req("O2", "T6")
def test_progress_comes_in_order_before_the_answer(flavour: Any, old: Any) -> None:
    plan = OldServer()

    def step_by_step(request: Any) -> Any:
        for value in (1, 2, 3):
            params = {"progressToken": request.meta["progressToken"], "progress": value}
            plan.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        plan.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 9, "progress": 0}})
        return text("done")

    plan.results["tools/call"] = step_by_step
    client = flavour.connect(old(plan).url, prior=PRIOR)
    seen: list[float] = []
    assert client.call_tool("echo", {}, on_progress=lambda *step: seen.append(step[0])).text == "done"
    assert seen == [1, 2, 3]


@pytest.mark.req("O2", "T6")
def test_progress_is_handed_on_before_the_post_was_accepted(flavour: Any, old: Any) -> None:
    seen: list[float] = []
    arrived = threading.Event()

    def slowly(plan: OldServer, request: Any) -> None:
        if request.method == "tools/call":
            params = {"progressToken": request.meta["progressToken"], "progress": 1}
            plan.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            assert arrived.wait(10)

    def handler(*step: Any) -> None:
        seen.append(step[0])
        arrived.set()

    client = flavour.connect(old(OldServer(before=slowly)).url, prior=PRIOR)
    assert client.call_tool("echo", {}, on_progress=handler).text == "{}"
    assert seen == [1]


@pytest.mark.req("O2")
def test_requests_of_the_server_are_answered_by_post_without_any_call(flavour: Any, old: Any) -> None:
    plan = OldServer()
    server = old(plan)
    flavour.connect(server.url, prior=PRIOR)
    plan.send({"jsonrpc": "2.0", "id": "p", "method": "ping"})
    server.wait_until(lambda: server.count("reply") == 1)
    [reply] = server.calls("reply")
    assert reply.message == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert reply.target == "/messages?session=1"


@pytest.mark.req("O2", "W13")
def test_batches_are_taken_apart_at_the_revision_that_has_them(flavour: Any, old: Any) -> None:
    plan = OldServer()
    server = old(plan)
    plan.results["initialize"] = initialized("2025-03-26")
    client = flavour.connect(server.url, prior=PRIOR)
    assert client.protocol_version == "2025-03-26"
    plan.send(b'[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"b","method":"ping"}]')
    server.wait_until(lambda: server.count("reply") == 2)


@pytest.mark.req("O2", "W4", "G1")
def test_damage_on_the_stream_loses_that_event_alone(flavour: Any, old: Any) -> None:
    plan = OldServer()
    server = old(plan)
    with logged() as lines:
        client = flavour.connect(server.url, prior=PRIOR)
        for damaged in (b"secret", b'"secret"', b"\xff\xfe", b'{"id": "secret", "result": {}}', b'{"id": [1]}'):
            plan.send(damaged)
        plan.streams[-1].send(b"1a\r\nevent: endpoint\ndata: /x\n\n\r\n")
        assert client.call_tool("echo", {}).text == "{}"
    assert "secret" not in "\n".join(lines)
    assert server.requests[-1].target == "/messages?session=1"


@pytest.mark.req("O2", "T5")
@pytest.mark.parametrize("said", [400, 404, 413, 500])
def test_a_post_that_is_refused_fails_its_call_alone(flavour: Any, old: Any, said: int) -> None:
    plan = OldServer()
    server = old(plan, **{"tools/call": status(said)})
    client = flavour.connect(server.url, prior=PRIOR)
    with pytest.raises(HTTPStatusError) as caught:
        client.call_tool("echo", {})
    assert (caught.value.status, caught.value.request_sent) == (said, True)
    client.ping()
    assert (server.count("tools/call"), server.count("GET")) == (1, 1)


@pytest.mark.req("O2", "R2")
def test_a_post_whose_connection_is_lost_is_not_repeated_for_a_tool(flavour: Any, old: Any) -> None:
    server = old(OldServer(), **{"tools/call": reset()})
    client = flavour.connect(server.url, prior=PRIOR, retry=FAST)
    with pytest.raises(ConnectionClosed) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert server.count("tools/call") == 1
    client.ping()


@pytest.mark.req("O1", "W19")
def test_redirects_of_stream_and_post_are_followed_within_the_origin(flavour: Any, old: Any) -> None:
    plan = OldServer()
    opening, taking = plan.rules["GET"], plan.rules["*"]
    server = old(
        plan,
        GET=turns(status(307, headers=[("Location", "/other/sse")]), opening),
        **{"tools/call": turns(status(308, headers=[("Location", "/new?s=1")]), taking)},
    )
    plan.endpoint = "post"
    client = flavour.connect(server.url, prior=PRIOR)
    assert client.call_tool("echo", {}).text == "{}"
    assert [request.target for request in server.requests] == [
        *("/sse", "/other/sse", "/other/post", "/other/post", "/other/post", "/new?s=1")
    ]


@pytest.mark.req("O1", "R1")
@pytest.mark.parametrize("first", [status(503), reset()], ids=["503", "a reset"])
def test_an_outage_of_the_stream_is_tried_again(flavour: Any, old: Any, first: Any) -> None:
    plan = OldServer()
    server = old(plan, GET=turns(first, plan.rules["GET"]))
    client = flavour.connect(server.url, prior=PRIOR, retry=FAST)
    assert client.call_tool("echo", {}).text == "{}"
    assert server.count("GET") == 2


@pytest.mark.req("O1")
@pytest.mark.parametrize(
    ("rule", "raised"),
    [(status(401), AuthError), (status(403), HTTPStatusError), (raw(b""), RequestTimeout)],
    ids=["401", "403", "silence"],
)
def test_a_stream_that_is_refused_is_an_error_that_says_so(flavour: Any, old: Any, rule: Any, raised: Any) -> None:
    server = old(OldServer(), GET=rule if raised is not RequestTimeout else hang())
    client = flavour.client(server.url, prior=PRIOR, protocol="2024-11-05", retry=FAST)
    with pytest.raises(raised) as caught:
        client.connect(timeout=1)
    assert caught.value.request_sent is False
    client.close()
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("O2", "T7")
def test_closing_ends_the_stream_and_the_calls_at_once(flavour: Any, old: Any) -> None:
    server = old(OldServer(results={"tools/call": None}))
    client = flavour.connect(server.url, prior=PRIOR)
    call = flavour.start(client.call_tool, "echo", {})
    server.wait_until(lambda: server.count("tools/call") == 1)
    began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 2.5
    error = call.outcome()
    assert isinstance(error, ConnectionClosed)
    assert error.request_sent is True
    server.wait_until(lambda: server.open == 0)
    assert server.count("DELETE") == 0


@pytest.mark.req("O2", "N14")
def test_each_view_has_a_stream_of_its_own(flavour: Any, old: Any) -> None:
    plan = OldServer()
    server = old(plan)
    client = flavour.connect(server.url, prior=PRIOR)
    view = client.with_options(headers={"X-User": "b"})
    assert view.call_tool("echo", {}).text == "{}"
    assert [get.header("X-User") for get in server.calls("GET")] == [None, "b"]
    assert server.requests[-1].target == "/messages?session=2"
    before = server.open
    view.close()
    server.wait_until(lambda: server.open < before)


@pytest.mark.req("O2", "T7")
def test_a_client_that_is_dropped_unclosed_takes_its_stream_with_it(flavour: Any, old: Any) -> None:
    server = old(OldServer())
    client = flavour.connect(server.url, prior=PRIOR)
    client.ping()
    flavour._open.clear()
    del client
    gc.collect()
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("O2", "T7")
def test_a_view_that_is_dropped_unclosed_takes_its_stream_with_it(flavour: Any, old: Any) -> None:
    server = old(OldServer())
    client = flavour.connect(server.url, prior=PRIOR)
    view = client.with_options(headers={"X-User": "b"})
    view.ping()
    session: Any = view._session
    # What a client knows of its sessions is theirs until it is closed.
    client._session.peer.sessions.pop(session.link)
    before = server.open
    del view, session
    gc.collect()
    server.wait_until(lambda: server.open < before)


@pytest.mark.req("O2", "T5")
def test_concurrent_calls_each_get_their_own_answer(flavour: Any, old: Any) -> None:
    server = old(OldServer())
    client = flavour.connect(server.url, prior=PRIOR, limits=Limits(max_connections=4))
    outcomes = flavour.together(*[lambda n=n: client.call_tool("echo", {"n": n}).text for n in range(20)])
    assert outcomes == [f'{{"n": {n}}}' for n in range(20)]


@pytest.mark.req("O2", "W14")
def test_an_error_on_the_stream_is_an_rpc_error(flavour: Any, old: Any) -> None:
    plan = OldServer(results={"tools/call": None})

    def refuse(plan: OldServer, request: Any) -> None:
        if request.method == "tools/call":
            problem = {"code": -32602, "message": "no such tool"}
            plan.send({"jsonrpc": "2.0", "id": str(request.message["id"]), "error": problem})

    plan.before = refuse
    client = flavour.connect(old(plan).url, prior=PRIOR)
    with pytest.raises(RPCError) as caught:
        client.call_tool("echo", {})
    assert (caught.value.code, caught.value.message) == (-32602, "no such tool")


@pytest.mark.req("O2", "V3")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_fork_leaves_the_stream_to_its_parent_and_opens_its_own(old: Any) -> None:
    from ferrule import Client

    plan = OldServer()
    server = old(plan)
    with Client(server.url, prior=PRIOR) as client:
        client.ping()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                status = 0 if client.call_tool("echo", {}).text == "{}" else 2
            finally:
                sys.stdout.flush()
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert server.count("GET") == 2
        plan.streams.reverse()  # the parent's is answered on again
        assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
        assert server.count("GET") == 2
