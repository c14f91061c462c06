"""Messages over a child's pipes: whose a line is, who waits for what, and how writers share one pipe.

How children start and end: test_stdio_life.py. How their era is found out: test_stdio_negotiation.py.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Limits
from ferrule.errors import (
    CapabilityError,
    ConfigError,
    ConnectionClosed,
    InvalidMessage,
    LimitExceeded,
    RequestTimeout,
    RPCError,
)
from tests.support import child as on_stdio
from tests.support.child import ScriptedChild, answer, big, echo, error, hold, progress, raw, release, send

both_eras = pytest.mark.parametrize("era", ["stateless", "handshake"])
RESULT = '"result":{"content":[{"type":"text","text":"raw"}]}'


def pending(client: Any) -> dict[int, Any]:
    """Who waits for an answer, as the transport sees it."""
    waiting: dict[int, Any] = client._session.transport._child.pending
    return waiting


def cancelled(server: ScriptedChild) -> list[int]:
    return [message["params"]["requestId"] for message in server.calls("notifications/cancelled")]


def written(answer_text: str) -> Any:
    """A line that is the answer, spelt as given."""
    return raw(answer_text.encode() + b"\n")


# --- lines ---------------------------------------------------------------------------------------


@pytest.mark.req("D3")
@pytest.mark.parametrize(
    "noise",
    [
        b"Server listening, secret=hunter2\n",
        b"\xff\xfe hunter2\n",
        b'{"jsonrpc": "hunter2\n',
        b'"hunter2"\n',
        b"12345\n",
        b"null\n",
        b"[1, 2]\n",
        b"\n\r\n  \n",
        b"\0\0\0\n",
        b'{"id": 99, "result": {"secret": "hunter2"}}\n',
        b'{"method": "notifications/unknown", "params": {"secret": "hunter2"}}\n',
        b'{"method": 5}\n{"id": null, "method": "hunter2"}\n{"id": {}, "method": "ping"}\n{}\n',
    ],
)
@both_eras
def test_a_line_that_is_no_message_is_skipped_and_reading_goes_on(
    flavour: Any, child: Any, caplog: Any, noise: bytes, era: str
) -> None:
    caplog.set_level(logging.DEBUG)
    server = child({"tools/call": [[raw(noise), echo(), raw(noise)], [echo()]]}, era=era)
    client = flavour.connect(server.stdio())
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert client.call_tool("echo", {"a": 2}).text == '{"a": 2}'
    assert "hunter2" not in caplog.text
    assert "12345" not in caplog.text
    assert pending(client) == {}


@pytest.mark.req("D3")
def test_a_skipped_line_is_logged_by_its_size(flavour: Any, child: Any, caplog: Any) -> None:
    server = child({"tools/call": [[raw(b"x" * 1234 + b"\n"), echo()]]})
    flavour.connect(server.stdio()).call_tool("echo", {})
    assert [record.getMessage() for record in caplog.records if "1234 bytes" in record.getMessage()]


@pytest.mark.req("D3")
def test_a_child_that_writes_nothing_but_noise_does_not_flood_the_log(flavour: Any, child: Any, caplog: Any) -> None:
    server = child({"tools/call": [[raw(b"noise\n" * 5000), echo()]]})
    assert flavour.connect(server.stdio()).call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert 1 < len([record for record in caplog.records if record.levelno >= logging.WARNING]) < 20


@pytest.mark.req("W5", "W1")
def test_a_message_may_come_with_a_bom_and_carriage_returns_and_in_pieces(flavour: Any, child: Any) -> None:
    pieces = [raw(bytes([byte])) for byte in b'{"jsonrpc":"2.0","id":']
    line = [raw(b"\xef\xbb\xbf"), *pieces, written(f"$ID,{RESULT}}}\r")]
    client = flavour.connect(child({"tools/call": [line]}).stdio(), protocol="stateless")
    assert client.call_tool("echo", {}).text == "raw"


@pytest.mark.req("W10", "W4")
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":$ID,"result":{"x":NaN}}',
        b'{"id":$ID,"result":{"x":' + b"[" * 5000 + b"]" * 5000 + b"}}",
        b'{"id":"$ID","result":{"x":"\xff"}}',
        b'{"id":$ID,"result":{"x":1}',
        b'{"id":$ID,"result":{}} trailing',
    ],
)
def test_an_answer_that_cannot_be_read_fails_its_call_at_once(flavour: Any, child: Any, line: bytes) -> None:
    server = child({"tools/call": [[raw(line + b"\n")], [echo()]]})
    client = flavour.connect(server.stdio(), timeout=None)
    with pytest.raises(InvalidMessage) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert server.count("tools/call") == 2


@pytest.mark.req("W10")
def test_large_integers_and_lone_surrogates_arrive_as_they_are(flavour: Any, child: Any) -> None:
    text = '"result":{"content":[],"structuredContent":{"n":123456789012345678901234567890,"s":"\\ud800"}}'
    server = child({"tools/call": [[written(f'{{"id":$ID,{text}}}')]]})
    content = flavour.connect(server.stdio()).call_tool("echo", {}).structured_content
    assert content == {"n": 123456789012345678901234567890, "s": "\ud800"}


@pytest.mark.req("W14")
@pytest.mark.parametrize(
    "rest",
    ['"result":null', '"result":[]', '"result":"x"', '"error":"x"', '"error":{"code":"x"}', '"error":null', '"x":1'],
)
@both_eras
def test_an_answer_of_the_wrong_shape_fails_its_call_at_once(flavour: Any, child: Any, rest: str, era: str) -> None:
    server = child({"tools/call": [[written(f'{{"id":$ID,{rest}}}')], [echo()]]}, era=era)
    client = flavour.connect(server.stdio(), timeout=None)
    with pytest.raises(InvalidMessage):
        client.call_tool("echo", {})
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'


@pytest.mark.req("W9")
@both_eras
def test_a_line_that_is_too_long_fails_the_call_it_answers_and_no_other(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[big(300_000)], [echo()]]}, era=era)
    client = flavour.connect(server.stdio(), limits=Limits(max_message_bytes=200_000), timeout=None)
    with pytest.raises(LimitExceeded) as caught:
        client.call_tool("big", {})
    assert (caught.value.limit, caught.value.request_sent) == ("max_message_bytes", True)
    assert client.call_tool("echo", {"a": "b" * 100_000}).text == json.dumps({"a": "b" * 100_000})
    assert (pending(client), len(server.pids), cancelled(server)) == ({}, 1, [])


@pytest.mark.req("D7")
def test_a_line_of_forty_mebibytes_is_one_answer(flavour: Any, child: Any) -> None:
    client = flavour.connect(child({"tools/call": [[big(40 << 20)]]}).stdio(), timeout=None)
    text = client.call_tool("big", {}).text
    assert len(text) == 40 << 20
    assert text.count("x") == 40 << 20


# --- whose an answer is --------------------------------------------------------------------------


@pytest.mark.req("W11", "T3")
@both_eras
def test_an_answer_to_something_else_is_dropped(flavour: Any, child: Any, era: str) -> None:
    ok = {"content": [{"type": "text", "text": "foreign"}]}
    strays = [answer(ok, id=other) for other in (0, -1, 9999, "x", None, 1.5, True, 1, "00", [1], {"a": 1}, "9" * 30)]
    server = child({"tools/call": [[*strays, echo(), answer(ok), answer(ok)], [echo()]]}, era=era)
    client = flavour.connect(server.stdio())
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert client.call_tool("echo", {"a": 2}).text == '{"a": 2}'


@pytest.mark.req("W11")
@both_eras
def test_an_id_that_comes_back_as_a_string_is_ours_if_it_is_spelt_alike(flavour: Any, child: Any, era: str) -> None:
    zeros = written('{"id":"0$ID","result":{"content":[{"type":"text","text":"foreign"}]}}')
    server = child({"tools/call": [[zeros, written(f'{{"id":"$ID",{RESULT}}}')]]}, era=era)
    assert flavour.connect(server.stdio()).call_tool("echo", {}).text == "raw"


@pytest.mark.req("T5", "W11")
@both_eras
def test_answers_in_another_order_reach_their_callers(flavour: Any, child: Any, era: str) -> None:
    server = child({"tools/call": [[hold()]] * 7 + [[release()]]}, era=era)
    client = flavour.connect(server.stdio())
    outcomes = flavour.together(*(lambda n=n: client.call_tool("echo", {"n": n}) for n in range(8)))
    assert [outcome.text for outcome in outcomes] == [json.dumps({"n": n}) for n in range(8)]


@pytest.mark.req("T5")
@both_eras
def test_a_call_that_fails_fails_alone(flavour: Any, child: Any, era: str) -> None:
    script = [[error(-32000)], [written('{"id":$ID,"result":null}')], [big(300_000)], []]
    server = child({"tools/call": [*script, [echo()]]}, era=era)
    client = flavour.connect(server.stdio(), limits=Limits(max_message_bytes=200_000), timeout=1.0)
    calls = [lambda n=n: client.call_tool("echo", {"n": n}) for n in range(8)]
    outcomes = flavour.together(*calls)
    failed = [type(outcome) for outcome in outcomes if isinstance(outcome, Exception)]
    assert set(failed) == {RPCError, InvalidMessage, LimitExceeded, RequestTimeout}
    assert len(failed) == 4
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, Exception) or outcome.text == json.dumps({"n": n})
    assert pending(client) == {}


# --- writing -------------------------------------------------------------------------------------


@pytest.mark.req("D5")
@both_eras
def test_messages_of_many_writers_never_interleave(flavour: Any, child: Any, era: str) -> None:
    writers = 50 if flavour.is_async else 8
    # Larger than a pipe, so that each message takes several writes.
    load = {n: {"n": n, "fill": str(n % 10) * 150_000} for n in range(writers)}
    server = child({"tools/call": [[echo()]]}, era=era)
    client = flavour.connect(server.stdio(), timeout=None)
    outcomes = flavour.together(*(lambda n=n: client.call_tool("echo", load[n]) for n in load))
    assert [json.loads(outcome.text) for outcome in outcomes] == list(load.values())
    assert (len(server.pids), pending(client)) == (1, {})


# --- what the server sends by itself -------------------------------------------------------------


def request(method: str, request_id: Any) -> Any:
    return send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": {}})


def replies(server: ScriptedChild) -> dict[Any, Any]:
    return {m["id"]: m for m in server.messages if isinstance(m, dict) and "method" not in m}


def test_a_ping_of_the_server_is_answered_and_what_is_unknown_refused(flavour: Any, child: Any) -> None:
    asked = [request("ping", 7), request("ping", "seven"), request("no/such", 8), request("roots/list", 9)]
    server = child({"tools/call": [[*asked, echo()]]}, era="handshake")
    client = flavour.connect(server.stdio())
    client.call_tool("echo", {})
    server.wait_until(lambda: len(replies(server)) == 4)
    assert replies(server)[7] == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert replies(server)["seven"]["result"] == {}
    assert [replies(server)[n]["error"]["code"] for n in (8, 9)] == [-32601, -32601]


def test_in_the_stateless_era_a_request_of_the_server_is_logged_and_not_answered(
    flavour: Any, child: Any, caplog: Any
) -> None:
    server = child({"tools/call": [[request("ping", 7), echo()]]})
    client = flavour.connect(server.stdio())
    client.call_tool("echo", {})
    client.call_tool("echo", {})
    client.close()
    assert replies(server) == {}
    assert [record for record in caplog.records if "forbids" in record.getMessage()]


@pytest.mark.req("T6")
@both_eras
def test_progress_reaches_its_own_call_before_the_result(flavour: Any, child: Any, era: str) -> None:
    foreign = send({"method": "notifications/progress", "params": {"progressToken": 9999, "progress": 5}})
    odd: list[Any] = [None, [], {}, {"progressToken": []}]
    bad = [send({"method": "notifications/progress", "params": params}) for params in odd]
    server = child(
        {"tools/call": [[foreign, *bad, progress(1, 2, "one"), progress(2, 2), echo(), progress(3)]]}, era=era
    )
    client = flavour.connect(server.stdio())
    seen: list[Any] = []
    client.call_tool("echo", {}, on_progress=lambda *given: seen.append(given))
    assert seen == [(1, 2, "one"), (2, 2, None)]
    client.call_tool("echo", {})
    assert len(seen) == 2


# --- batches -------------------------------------------------------------------------------------

BATCH = written(
    '[{"id":77,"method":"ping"},{"method":"notifications/x"},5,[],{"id":9999,"result":{}},{"id":$ID,' + RESULT + "}]"
)


@pytest.mark.req("W13")
def test_at_2025_03_26_a_batch_is_taken_apart_and_answers_go_singly(flavour: Any, child: Any) -> None:
    server = child({"tools/call": [[BATCH], [echo()]]}, era="handshake")
    client = flavour.connect(server.stdio(), protocol="2025-03-26")
    assert client.call_tool("echo", {}).text == "raw"
    server.wait_until(lambda: 77 in replies(server))
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'


@pytest.mark.req("W13")
@pytest.mark.parametrize("revision", ["2025-11-25", "2025-06-18", "2024-11-05", "2026-07-28"])
def test_elsewhere_a_batch_fails_the_call_it_would_answer(flavour: Any, child: Any, revision: str) -> None:
    server = child({"tools/call": [[BATCH], [echo()]]}, era="both")
    client = flavour.connect(server.stdio(), protocol=revision, timeout=None)
    with pytest.raises(InvalidMessage):
        client.call_tool("echo", {})
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert replies(server) == {}


# --- views and notifications ---------------------------------------------------------------------


@pytest.mark.req("N14")
@both_eras
def test_views_share_the_child_and_its_session(flavour: Any, child: Any, era: str) -> None:
    server = child(era=era)
    client = flavour.connect(server.stdio())
    views = [client.with_options(timeout=n + 5) for n in range(20)]
    for n, view in enumerate(views):
        assert view.call_tool("echo", {"n": n}).text == json.dumps({"n": n})
    views[0].close()
    assert views[1].call_tool("echo", {}).text == "{}"
    assert (len(server.pids), server.count("initialize")) == (1, int(era == "handshake"))
    with pytest.raises(ConfigError):
        client.with_options(auth="token")


@pytest.mark.req("N14")
def test_a_view_that_is_used_first_connects_for_all(flavour: Any, child: Any) -> None:
    server = child(era="handshake")
    client = flavour.client(server.stdio())
    assert client.with_options(timeout=9).call_tool("echo", {}).text == "{}"
    assert client.call_tool("echo", {}).text == "{}"
    assert server.count("initialize") == 1


@pytest.mark.req("N12")
@both_eras
def test_what_the_server_did_not_declare_is_refused_before_anything_is_sent(flavour: Any, child: Any, era: str) -> None:
    without: dict[str, Callable[[], Any]] = {
        "server/discover": lambda: {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
        "initialize": lambda: {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {}},
    }
    server = child({method: [[answer(result())]] for method, result in without.items()}, era=era)
    client = flavour.connect(server.stdio(), protocol="auto" if era == "stateless" else "handshake")
    with pytest.raises(CapabilityError):
        client.get_prompt("greet")
    assert server.count("prompts/get") == 0
    assert client.call_tool("echo", {}).text == "{}"


@both_eras
@pytest.mark.req("T2")
def test_a_notification_of_the_callers_is_one_line(flavour: Any, child: Any, era: str) -> None:
    server = child(era=era)
    client = flavour.client(server.stdio())
    client.notify("notifications/custom", {"a": 1})
    server.wait_until(lambda: server.count("notifications/custom") == 1)
    sent = server.calls("notifications/custom")[0]
    assert (sent["params"], "id" in sent) == ({"a": 1}, False)


@pytest.mark.req("T7")
def test_after_close_every_call_says_so(flavour: Any, child: Any) -> None:
    server = child()
    client = flavour.connect(server.stdio())
    client.close()
    client.close()
    for call in (client.connect, lambda: client.call_tool("echo", {}), lambda: client.notify("notifications/x")):
        with pytest.raises(ConnectionClosed) as caught:
            call()
        assert not caught.value.request_sent
    assert len(server.pids) == 1
    assert on_stdio.is_alive(server.pids[0]) is False
