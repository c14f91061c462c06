"""Which message in an HTTP answer is the answer: exact values, ids, shapes, batches."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import (
    FerruleError,
    InvalidMessage,
)
from tests.support.steps import (
    CHUNKED,
    JSON,
    SSE,
    Step,
    answer,
    chunk,
    http,
    initialized,
    raw,
    result,
    stream,
    text,
    turns,
)

ONCE = Retry(attempts=1)
MARKER = "secret-7f3a"
OK = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"ok"}]}}'


def body(data: bytes, content_type: str | None = JSON[1], code: int = 200) -> Step:
    """An HTTP answer with this body, `%d` being the request's id."""
    headers = [] if content_type is None else [("Content-Type", content_type)]
    return raw(lambda request: http(code, filled(data, request), headers))


def events(data: bytes, content_type: str = SSE[1]) -> Step:
    """An event stream of these bytes, `%d` being the request's id."""
    head = http(200, b"", [("Content-Type", content_type), CHUNKED], length=False)
    return raw(lambda request: head + chunk(filled(data, request)) + chunk(b"")[:-2] + b"\r\n")


def filled(data: bytes, request: Any) -> bytes:
    return data.replace(b"%d", b"%d" % request.message.get("id", 0))


def one_event(data: bytes) -> Step:
    return events(b"data: " + data + b"\n\n")


FORMS = pytest.mark.parametrize("form", [body, one_event], ids=["json", "sse"])
Form = Callable[[bytes], Step]


# --- numbers and texts ---------------------------------------------------------------------------

EXACT = [
    2**53 + 1,
    2**63,
    2**64,
    -(2**64),
    10**40,
    0.1,
    1e308,
    -0.0,
    5e-324,
    "\ud800",
    "a\udfffb",
    "\u2028\x85 \U0001f600",
]


@pytest.mark.req("W10")
@FORMS
def test_numbers_and_lone_surrogates_arrive_exactly(flavour: Any, serve: Any, form: Form) -> None:
    value = {"values": EXACT}
    data = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"structuredContent":' + json.dumps(value).encode() + b"}}"
    server = serve({"tools/call": form(data)})
    called = flavour.connect(server.url).call_tool("echo", {})
    assert called.structured_content == value
    assert [type(one) for one in called.structured_content["values"]] == [type(one) for one in EXACT]


@pytest.mark.req("W10")
@FORMS
@pytest.mark.parametrize(
    "value",
    [
        b"NaN",
        b"Infinity",
        b"[-Infinity]",
        b"1e999",
        b"[NaN, 36893488147419103232]",
        b"[1e999, 36893488147419103232]",
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 100_000 + b"36893488147419103232" + b"]" * 100_000,
        b"9" * 5000,
        b"[1,]",
        b"'a'",
    ],
    ids=["NaN", "inf", "-inf", "1e999", "NaN+big", "1e999+big", "deep", "deep+big", "5000 digits", "comma", "quotes"],
)
def test_what_json_cannot_hold_is_an_invalid_message(flavour: Any, serve: Any, form: Form, value: bytes) -> None:
    bad = OK.replace(b'"ok"', b'"%b", "x": ' % MARKER.encode() + value)
    server = serve({"tools/call": turns(form(bad), answer(text("good")))})
    client = flavour.connect(server.url)
    with pytest.raises(InvalidMessage) as caught:
        client.call_tool("echo", {})
    assert MARKER not in str(caught.value)
    assert caught.value.__cause__ is None
    assert client.call_tool("echo", {}).text == "good"


# --- whose answer it is --------------------------------------------------------------------------


@pytest.mark.req("W11")
@FORMS
def test_an_id_that_comes_back_as_a_string_is_ours(flavour: Any, serve: Any, form: Form) -> None:
    server = serve({"tools/call": form(OK.replace(b'"id":%d', b'"id":"%d"'))})
    assert flavour.connect(server.url).call_tool("echo", {}).text == "ok"


@pytest.mark.req("W11")
@pytest.mark.parametrize("id", [b"999999", b'"x"', b"null", b"true", b"[1]", b"{}", b"1.5", b'"0x1"'])
def test_a_single_answer_with_another_id_is_an_invalid_message_at_once(flavour: Any, serve: Any, id: bytes) -> None:
    server = serve({"tools/call": turns(body(OK.replace(b"%d", id)), answer(text("good")))})
    client = flavour.connect(server.url, timeout=None)
    with pytest.raises(InvalidMessage, match="another id") as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert client.call_tool("echo", {}).text == "good"


@pytest.mark.req("W11")
def test_answers_to_others_and_duplicates_on_a_stream_never_reach_a_call(flavour: Any, serve: Any) -> None:
    def other(request: Any) -> Any:
        return {"jsonrpc": "2.0", "id": request.message["id"] + 1, "result": text("not yours")}

    def again(request: Any) -> Any:
        return {"jsonrpc": "2.0", "id": request.message["id"], "result": text("twice")}

    server = serve({"tools/call": turns(stream(other, result(text("mine")), again), stream(result(text("next"))))})
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}).text == "mine"
    assert client.call_tool("echo", {}).text == "next"


@pytest.mark.req("W11", "R4")
def test_a_stream_that_ends_with_only_somebody_elses_answer_is_a_closed_connection(flavour: Any, serve: Any) -> None:
    from ferrule.errors import ConnectionClosed

    server = serve({"tools/call": one_event(OK.replace(b"%d", b"999999"))})
    with pytest.raises(ConnectionClosed, match="before the answer") as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert caught.value.request_sent is True
    assert server.count("tools/call") == 1


# --- shapes --------------------------------------------------------------------------------------


@pytest.mark.req("W14")
@FORMS
@pytest.mark.parametrize(
    "member",
    [
        b'"result":null',
        b'"result":[1]',
        b'"result":"x"',
        b'"error":null',
        b'"error":"x"',
        b'"error":[]',
        b'"error":{}',
        b'"error":{"code":"-32601","message":"x"}',
        b'"error":{"code":1.5,"message":"x"}',
        b'"error":{"code":true,"message":"x"}',
        b'"other":1',
    ],
)
def test_an_answer_of_the_wrong_shape_is_an_invalid_message_at_once(
    flavour: Any, serve: Any, form: Form, member: bytes
) -> None:
    server = serve({"tools/call": turns(form(b'{"jsonrpc":"2.0","id":%d,' + member + b"}"), answer(text("good")))})
    client = flavour.connect(server.url, timeout=None)
    with pytest.raises(InvalidMessage) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert client.call_tool("echo", {}).text == "good"
    assert server.count("tools/call") == 2


@pytest.mark.req("W14")
@FORMS
@pytest.mark.parametrize("message", [b"7", b"null", b'"text"', b"true"])
def test_json_that_is_no_message_is_an_invalid_message(flavour: Any, serve: Any, form: Form, message: bytes) -> None:
    with pytest.raises(InvalidMessage):
        flavour.connect(serve({"tools/call": form(message)}).url, timeout=None).call_tool("echo", {})


# --- batches -------------------------------------------------------------------------------------

PING = b'{"jsonrpc":"2.0","id":"p-1","method":"ping"}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/x"}'


@pytest.mark.req("W13")
@FORMS
@pytest.mark.parametrize(
    "batch",
    [b"[" + OK + b"]", b"[" + b",".join([NOTE, PING, OK, NOTE]) + b"]", b"[" + OK + b", 7, null]"],
    ids=["alone", "among others", "beside nonsense"],
)
def test_a_batch_is_taken_apart_at_2025_03_26_and_its_requests_answered_singly(
    flavour: Any, serve: Any, form: Form, batch: bytes
) -> None:
    rules = {"initialize": answer(initialized("2025-03-26")), "tools/call": form(batch)}
    server = serve(rules, era="handshake", session=None)
    assert flavour.connect(server.url).call_tool("echo", {}).text == "ok"
    if PING in batch:
        server.wait_until(lambda: server.count("reply") == 1)
        assert server.calls("reply")[0].message == {"jsonrpc": "2.0", "id": "p-1", "result": {}}


@pytest.mark.req("W13")
@FORMS
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", None])
def test_a_batch_at_any_other_revision_is_an_invalid_message(
    flavour: Any, serve: Any, form: Form, version: str | None
) -> None:
    rules: dict[str, Any] = {"tools/call": form(b"[" + OK + b"]")}
    if version is not None:
        rules["initialize"] = answer(initialized(version))
    server = serve(rules, era="handshake" if version else "stateless")
    with pytest.raises(InvalidMessage):
        flavour.connect(server.url, timeout=None).call_tool("echo", {})


@pytest.mark.req("W13")
@FORMS
@pytest.mark.parametrize("batch", [b"[]", b"[[" + OK + b"]]", b"[" * 1000 + OK + b"]" * 1000, b"[" + NOTE + b"]"])
def test_a_batch_without_the_answer_is_an_error_however_it_is_nested(
    flavour: Any, serve: Any, form: Form, batch: bytes
) -> None:
    rules = {"initialize": answer(initialized("2025-03-26")), "tools/call": turns(form(batch), answer(text("good")))}
    client = flavour.connect(serve(rules, era="handshake").url)
    with pytest.raises(FerruleError) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert client.call_tool("echo", {}).text == "good"
