"""Requests, messages and header values as they go out."""

from __future__ import annotations

import json

import pytest

from ferrule import _wire
from ferrule._wire import CODES, RequestTemplate, decode_header_value, encode_header_value, encode_message

HEADERS = [("Host", "example.com"), ("Accept", "application/json, text/event-stream")]


def refusal(error: pytest.ExceptionInfo[ValueError]) -> tuple[str, int]:
    code, position, _ = error.value.args
    return CODES[code], position


@pytest.mark.req("E4")
def test_a_request_is_head_mirror_headers_length_and_message() -> None:
    template = RequestTemplate("POST", "/mcp?a=b", HEADERS, mirror=True)
    request = template.request(
        7, "tools/call", "add", b'{"name":"add"}', b'{"a":1}', b'{"b":2}', [("Mcp-Param-Region", "us-west1")]
    )
    head, _, body = request.partition(b"\r\n\r\n")
    assert head.decode().split("\r\n") == [
        "POST /mcp?a=b HTTP/1.1",
        "Host: example.com",
        "Accept: application/json, text/event-stream",
        "Mcp-Method: tools/call",
        "Mcp-Name: add",
        "Mcp-Param-Region: us-west1",
        f"Content-Length: {len(body)}",
    ]
    assert body == b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add","_meta":{"a":1,"b":2}}}'


@pytest.mark.req("E4")
def test_an_unsafe_name_is_encoded_in_its_header_only() -> None:
    template = RequestTemplate("POST", "/", [], mirror=True)
    request = template.request(1, "resources/read", "file:///é", b'{"uri":"file:///\xc3\xa9"}', None, None, None)
    assert b"\r\nMcp-Name: =?base64?ZmlsZTovLy/DqQ==?=\r\n" in request
    assert request.endswith(b'"params":{"uri":"file:///\xc3\xa9"}}')


def test_a_handshake_request_has_no_mirror() -> None:
    template = RequestTemplate("POST", "/", HEADERS)
    assert b"Mcp-" not in template.request(1, "tools/call", "add", None, None, None, None)


def test_a_reply_and_a_get_have_no_envelope() -> None:
    template = RequestTemplate("POST", "/", [("Host", "x")], mirror=True)
    assert template.body(b"{}", [("A", "b")]) == b"POST / HTTP/1.1\r\nHost: x\r\nA: b\r\nContent-Length: 2\r\n\r\n{}"
    assert RequestTemplate("GET", "/", [("Host", "x")]).bare() == b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    assert template.bare([("A", "é")]) == "POST / HTTP/1.1\r\nHost: x\r\nA: é\r\n\r\n".encode("latin-1")


@pytest.mark.parametrize("params", [None, b"{}", b' { "a" : [1] } '])
@pytest.mark.parametrize("meta", [None, b"{}", b'{"m":1}'])
@pytest.mark.parametrize("extra", [None, b"{}", b'{"x":2}'])
def test_every_combination_of_parts_is_one_json_object(
    params: bytes | None, meta: bytes | None, extra: bytes | None
) -> None:
    message = json.loads(encode_message(3, "ping", params, meta, extra, False))
    expected = {"jsonrpc": "2.0", "id": 3, "method": "ping"}
    joined = json.loads(params or b"{}")
    if meta is not None or extra is not None:
        joined["_meta"] = json.loads(meta or b"{}") | json.loads(extra or b"{}")
    assert message == (expected if params is meta is extra is None else {**expected, "params": joined})


def test_a_message_may_end_with_a_newline() -> None:
    assert encode_message(None, "a", None, None, None, True) == b'{"jsonrpc":"2.0","method":"a"}\n'
    assert (
        encode_message(-(2**63), "a", None, None, None, False)
        == b'{"jsonrpc":"2.0","id":-9223372036854775808,"method":"a"}'
    )


@pytest.mark.req("W21")
@pytest.mark.parametrize("value", ["a\r\nX: y", "\r", "\n", "\0", "\x01", "\x7f", "\x85", "世", "\ud800"])
def test_no_value_injects_anything(value: str) -> None:
    template = RequestTemplate("POST", "/", [])
    with pytest.raises(ValueError) as error:
        template.body(b"{}", [("A", "b"), ("X", value)])
    assert refusal(error) == ("header_value", 1)
    with pytest.raises(ValueError) as error:
        RequestTemplate("POST", "/", [("X", value)])
    assert refusal(error) == ("header_value", 0)


@pytest.mark.req("W21")
@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\n", "é", "(a)", "\ud800"])
def test_no_name_injects_anything(name: str) -> None:
    with pytest.raises(ValueError) as error:
        RequestTemplate("POST", "/", [(name, "x")])
    assert refusal(error) == ("header_name", 0)


@pytest.mark.req("W21")
@pytest.mark.parametrize("name", ["Content-Length", "transfer-encoding"])
def test_the_framing_belongs_to_the_template(name: str) -> None:
    with pytest.raises(ValueError) as error:
        RequestTemplate("POST", "/", []).body(b"{}", [(name, "1")])
    assert refusal(error) == ("framing_header", 0)


@pytest.mark.req("W20", "W21")
@pytest.mark.parametrize(
    ("method", "target", "position"),
    [
        ("GE T", "/", 0),
        ("", "/", 0),
        ("GET", "/ x", 1),
        ("GET", "", 1),
        ("GET", "/\r\n", 1),
        ("GET", "/é", 1),
        ("GET", "/\ud800", 1),
    ],
)
def test_the_request_line_has_no_room_for_more(method: str, target: str, position: int) -> None:
    with pytest.raises(ValueError) as error:
        RequestTemplate(method, target, [])
    assert refusal(error) == ("request_line", position)


@pytest.mark.req("W21", "G1")
def test_a_refusal_holds_no_content() -> None:
    from ferrule.errors import ConfigError

    with pytest.raises(ValueError) as error:
        RequestTemplate("POST", "/", [("X", "hunter2\ud800")])
    assert "hunter2" not in repr(error.value)
    made = _wire.refusal_error(error.value)
    assert isinstance(made, ConfigError) and "hunter2" not in str(made)


def test_what_is_no_object_is_refused() -> None:
    for index, bad in enumerate([b"[]", b"null", b'{"a":1']):
        parts: list[bytes | None] = [None, None, None]
        parts[index] = bad
        with pytest.raises(ValueError) as error:
            encode_message(1, "a", parts[0], parts[1], parts[2], False)
        assert refusal(error) == ("not_an_object", index)


# The examples of 2026-07-28, Streamable HTTP, Value Encoding, and the edges around them.
VALUES = [
    ("us-west1", "us-west1"),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ("", ""),
    ("inner space", "inner space"),
    ("\t", "=?base64?CQ==?="),
    ("=?BASE64?eA==?=", "=?BASE64?eA==?="),
]


@pytest.mark.req("E4")
@pytest.mark.parametrize(("value", "encoded"), VALUES)
def test_a_header_value_is_plain_or_between_sentinels(value: str, encoded: str) -> None:
    assert encode_header_value(value) == encoded
    assert decode_header_value(encoded) == value


@pytest.mark.req("E4")
@pytest.mark.parametrize("payload", ["\ud800", "eA", "eA=", "eB==", "e", "====", "e A=", "_w==", "/w=="])
def test_a_bad_sentinel_is_no_value(payload: str) -> None:
    assert decode_header_value(f"=?base64?{payload}?=") is None


def test_a_plain_value_is_not_copied() -> None:
    value = "".join(["us-", "west1"])
    assert encode_header_value(value) is value
    assert decode_header_value(value) is value


@pytest.mark.req("E4")
def test_the_official_sdk_encodes_alike() -> None:
    inbound = pytest.importorskip("mcp.shared.inbound")
    for text in [
        *(value for value, _ in VALUES),
        *(chr(code) for code in range(0x200)),
        "a\tb",
        "=?base64??=",
        "é" * 40,
    ]:
        assert encode_header_value(text) == inbound.encode_header_value(text), text
        assert decode_header_value(encode_header_value(text)) == text
