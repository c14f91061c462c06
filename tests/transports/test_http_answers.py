"""What an HTTP answer may look like, and what becomes of one that is none."""

from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Retry
from ferrule.errors import (
    AuthError,
    HTTPStatusError,
    InvalidMessage,
    InvalidParams,
    RPCError,
)
from tests.support.steps import (
    CHUNKED,
    JSON,
    SSE,
    Step,
    answer,
    chunk,
    discovered,
    error,
    event,
    http,
    initialized,
    raw,
    status,
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


# --- bytes ---------------------------------------------------------------------------------------


@pytest.mark.req("W4")
@FORMS
def test_an_answer_that_is_not_utf8_fails_its_request_and_the_connection_goes_on(
    flavour: Any, serve: Any, form: Form
) -> None:
    bad = OK.replace(b"ok", MARKER.encode() + b"\xff\xfe")
    server = serve({"tools/call": turns(form(bad), answer(text("good")))})
    client = flavour.connect(server.url)
    with pytest.raises(InvalidMessage, match="UTF-8") as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert MARKER not in str(caught.value)
    assert client.call_tool("echo", {}).text == "good"
    assert server.accepted == 1


@pytest.mark.req("W5")
@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + OK,
        OK + b"\r\n",
        b"\xef\xbb\xbf" + OK + b"\r\n",
        b" \r\n\t" + OK,
        b"\xef\xbb\xbf  " + OK.replace(b'"ok"', b'"ok","x":%s' % (b"9" * 30)),
    ],
    ids=["bom", "crlf", "bom and crlf", "white space", "bom and a big number"],
)
@pytest.mark.parametrize("content_type", [JSON[1], None])
def test_a_json_body_may_begin_with_a_byte_order_mark_and_end_with_crlf(
    flavour: Any, serve: Any, data: bytes, content_type: str | None
) -> None:
    server = serve({"tools/call": body(data, content_type)})
    assert flavour.connect(server.url).call_tool("echo", {}).text == "ok"


@pytest.mark.req("W5")
@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"], ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["no bom", "bom"])
def test_an_event_stream_may_begin_with_a_byte_order_mark_and_use_any_line_ending(
    flavour: Any, serve: Any, newline: bytes, bom: bytes
) -> None:
    lines = [b": hello", b"event: message", b"data: " + OK, b"", b""]
    server = serve({"tools/call": events(bom + newline.join(lines))})
    assert flavour.connect(server.url).call_tool("echo", {}).text == "ok"


# --- content types -------------------------------------------------------------------------------


@pytest.mark.req("W7")
@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/problem+json",
        "text/json",
        "text/plain",
        "application/octet-stream",
        "nonsense",
        "",
        None,
    ],
)
def test_a_json_rpc_body_is_understood_under_any_content_type(
    flavour: Any, serve: Any, content_type: str | None
) -> None:
    server = serve({"tools/call": body(OK, content_type)})
    assert flavour.connect(server.url).call_tool("echo", {}).text == "ok"


@pytest.mark.req("W7")
@pytest.mark.parametrize("content_type", ["text/event-stream", "TEXT/Event-Stream;charset=UTF-8"])
def test_an_event_stream_is_known_by_its_type_without_case_and_parameters(
    flavour: Any, serve: Any, content_type: str
) -> None:
    server = serve({"tools/call": events(b"data:" + OK + b"\n\n", content_type)})
    assert flavour.connect(server.url).call_tool("echo", {}).text == "ok"


@pytest.mark.req("W7", "R4")
@pytest.mark.parametrize("code", [403, 404, 503])
@pytest.mark.parametrize(
    ("content_type", "data"),
    [
        ("text/html; charset=utf-8", f"<html>{MARKER}</html>".encode()),
        ("text/plain", MARKER.encode()),
        ("application/json", b'{"error": "%b", "detail": "no"}' % MARKER.encode()),
        ("application/json", b'{"error": {"message": "%b", "type": "x"}}' % MARKER.encode()),
        ("application/json", b'{"detail": "%b"}' % MARKER.encode()),
        ("application/json", b'["%b"]' % MARKER.encode()),
        ("application/json", b'{"%b' % MARKER.encode()),
        ("application/json", b""),
    ],
    ids=["html", "text", "error text", "error object", "detail", "array", "half", "empty"],
)
def test_an_http_error_without_a_json_rpc_answer_tells_status_and_type_but_never_the_body(
    flavour: Any, serve: Any, code: int, content_type: str, data: bytes
) -> None:
    server = serve({"tools/call": body(data, content_type, code)})
    client = flavour.connect(server.url, retry=ONCE)
    with pytest.raises(HTTPStatusError) as caught:
        client.call_tool("echo", {})
    assert caught.value.status == code
    assert caught.value.content_type == content_type.partition(";")[0]
    assert str(code) in str(caught.value)
    assert content_type.partition(";")[0] in str(caught.value)
    assert caught.value.request_sent is True
    assert MARKER not in f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"


@pytest.mark.req("W7", "N3")
@pytest.mark.parametrize("data", [b'{"error": "overloaded"}', b'{"detail": "overloaded"}'])
def test_a_gateways_own_json_under_503_is_an_outage_and_no_verdict_about_the_server(
    flavour: Any, serve: Any, data: bytes
) -> None:
    server = serve({"server/discover": turns(body(data, code=503), answer(discovered()))})
    client = flavour.connect(server.url, retry=Retry(backoff=0.01))
    assert client.era == "stateless"
    assert server.methods == ["server/discover"] * 2


@pytest.mark.req("W7")
def test_a_page_instead_of_an_answer_is_an_invalid_message_that_names_the_type(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": body(f"<html>{MARKER}</html>".encode(), "text/html")})
    with pytest.raises(InvalidMessage, match=r"200.*text/html") as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert MARKER not in str(caught.value)


@pytest.mark.req("W7")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_every_post_accepts_both_kinds_of_answer_and_is_json(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    client = flavour.connect(server.url)
    client.call_tool("echo", {})
    client.list_tools()
    posts = [request for request in server.requests if request.verb == "POST"]
    assert len(posts) >= 3
    for request in posts:
        assert request.header("Accept") == "application/json, text/event-stream"
        assert request.header("Content-Type") == "application/json"
        assert int(request.header("Content-Length")) == len(request.body)


# --- errors in HTTP errors -----------------------------------------------------------------------


@pytest.mark.req("W12")
@pytest.mark.parametrize("id", [..., None], ids=["our id", "null"])
@pytest.mark.parametrize(
    ("code", "http_status"), [(-32602, 400), (-32601, 404), (-32603, 500), (-32000, 503), (7, 403)]
)
def test_a_json_rpc_error_in_an_http_error_is_an_rpc_error_with_the_status(
    flavour: Any, serve: Any, code: int, http_status: int, id: Any
) -> None:
    server = serve({"tools/call": error(code, MARKER, {"a": 1}, status=http_status, id=id)})
    with pytest.raises(RPCError) as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert (caught.value.code, caught.value.http_status) == (code, http_status)
    assert (caught.value.message, caught.value.data) == (MARKER, {"a": 1})
    assert caught.value.request_sent is True
    assert MARKER not in str(caught.value) + repr(caught.value)
    assert isinstance(caught.value, InvalidParams) == (code == -32602)


@pytest.mark.req("W12")
def test_a_json_rpc_error_without_an_id_in_an_http_error_is_ours_too(flavour: Any, serve: Any) -> None:
    data = b'{"jsonrpc": "2.0", "error": {"code": -32602, "message": "no"}}'
    for content_type in (JSON[1], "text/plain", None):
        server = serve({"tools/call": body(data, content_type, 400)})
        with pytest.raises(InvalidParams) as caught:
            flavour.connect(server.url).call_tool("echo", {})
        assert caught.value.http_status == 400


@pytest.mark.req("W12")
def test_a_json_rpc_error_on_an_event_stream_with_an_error_status_counts(flavour: Any, serve: Any) -> None:
    message = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no"}}

    def step(request: Any) -> bytes:
        return http(400, event({**message, "id": request.message["id"]}), [SSE])

    server = serve({"tools/call": raw(step)})
    with pytest.raises(InvalidParams) as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert caught.value.http_status == 400


@pytest.mark.req("W12")
def test_401_is_a_matter_of_authorization_whatever_the_body_says(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": error(-32600, MARKER, status=401, id=None)})
    with pytest.raises(AuthError) as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert (caught.value.status, caught.value.request_sent) == (401, True)
    assert MARKER not in str(caught.value)


# --- no answer at all ----------------------------------------------------------------------------


@pytest.mark.req("W15")
@pytest.mark.parametrize("nothing", [status(202), status(204), status(200), body(b""), status(205)])
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_an_empty_success_to_a_request_is_an_error_at_once(flavour: Any, serve: Any, nothing: Step, era: str) -> None:
    server = serve({"tools/call": turns(nothing, answer(text("good")))}, era=era)
    client = flavour.connect(server.url, timeout=None)
    with pytest.raises(InvalidMessage) as caught:
        client.call_tool("echo", {})
    assert caught.value.request_sent is True
    assert client.call_tool("echo", {}).text == "good"


ACCEPTED = {
    "202": status(202),
    "204": status(204),
    "200": status(200),
    "200 with text": status(200, b"thanks", content_type="text/plain"),
    "200 with json": answer({}),
    "200 with an open stream": stream(end=False),
    "202 without an end": raw(b"HTTP/1.1 202 Accepted\r\n\r\n"),
    "202 with an open body": raw(b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"),
}


@pytest.mark.req("W15", "W18")
@pytest.mark.parametrize("accepted", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_a_notification_takes_any_success_without_waiting_for_its_end(flavour: Any, serve: Any, accepted: Step) -> None:
    rules = {"initialize": answer(initialized("2025-06-18")), "notifications/x": accepted}
    server = serve(rules, era="handshake", session=None)
    client = flavour.connect(server.url, timeout=None)
    client.notify("notifications/x", {"a": 1})
    assert server.requests[-1].message == {"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": 1}}
    assert client.call_tool("echo", {}).text == "{}"


@pytest.mark.req("W15")
@pytest.mark.parametrize("code", [400, 403, 404, 405, 500])
def test_a_notification_that_is_refused_is_an_error(flavour: Any, serve: Any, code: int) -> None:
    server = serve({"notifications/x": status(code)}, era="handshake", session=None)
    client = flavour.connect(server.url)
    with pytest.raises(HTTPStatusError) as caught:
        client.notify("notifications/x")
    assert caught.value.status == code
    assert isinstance(client.call_tool("echo", {}).text, str)
