"""What a body is worth is told by status, type and first byte; what is refused is not shown."""

from __future__ import annotations

import pytest

from ferrule._core import ResponseDecoder, ResponseHead
from ferrule._http.content import looks_like_json, may_be_message, media_type, refusal, retry_after
from ferrule.errors import HTTPStatusError, InvalidMessage


def head(*headers: str, status: int = 200) -> ResponseHead:
    decoder = ResponseDecoder()
    decoder.begin()
    lines = [f"HTTP/1.1 {status} X", *headers, "Content-Length: 0", "", ""]
    value = decoder.feed("\r\n".join(lines).encode("latin-1"))[0][1]
    assert isinstance(value, ResponseHead)
    return value


@pytest.mark.req("W7")
@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/problem+json",
        "application/vnd.x+JSON;a=b",
        "text/json",
    ],
)
def test_json_types_are_worth_parsing_whatever_the_body_looks_like(kind: str) -> None:
    assert may_be_message(head(f"Content-Type: {kind}"), b"nonsense")


@pytest.mark.req("W7", "W5")
@pytest.mark.parametrize("kind", [None, "text/plain", "text/html", "application/octet-stream", "nonsense"])
@pytest.mark.parametrize(
    ("body", "worth"),
    [
        (b'{"jsonrpc":"2.0"}', True),
        (b"[]", True),
        (b" \r\n\t{", True),
        (b"\xef\xbb\xbf {", True),
        (b"<html>{", False),
        (b"<!DOCTYPE html>", False),
        (b"Bad Gateway", False),
        (b"", False),
        (b"   ", False),
        (b'"text"', False),
        (b"1", False),
        (b"null", False),
    ],
)
def test_under_another_type_only_an_object_or_array_is_worth_parsing(
    kind: str | None, body: bytes, worth: bool
) -> None:
    headers = [f"Content-Type: {kind}"] if kind else []

    assert may_be_message(head(*headers), body) is worth
    assert looks_like_json(body) is worth


@pytest.mark.req("W7")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("Text/HTML; charset=utf-8", "text/html"),
        (" application/json ", "application/json"),
        ("", None),
        (";", None),
        ("a" * 200, None),
        ("t\xe9xt/html", None),
    ],
)
def test_the_media_type_comes_without_parameters(value: str, kind: str | None) -> None:
    assert media_type(head(f"Content-Type: {value}")) == kind


@pytest.mark.req("W7")
def test_an_error_status_is_named_with_its_type_and_nothing_else() -> None:
    headers = ["Content-Type: text/html; hunter2", "Retry-After: 7", "Server: hunter2"]

    error = refusal(head(*headers, status=503), "tools/call at http://h/mcp")

    assert isinstance(error, HTTPStatusError)
    assert str(error) == "tools/call at http://h/mcp: HTTP 503 (text/html)"
    assert (error.status, error.retry_after, error.content_type) == (503, 7.0, "text/html")
    assert error.request_sent


@pytest.mark.req("W7", "W15")
def test_success_without_a_message_is_an_invalid_message() -> None:
    error = refusal(head("Content-Type: text/html"), "ping")
    assert isinstance(error, InvalidMessage)
    assert str(error) == "ping: HTTP 200 with text/html instead of a JSON-RPC message"
    assert str(refusal(head(status=202), "ping")) == "ping: HTTP 202 with no content type instead of a JSON-RPC message"
    assert str(refusal(head(status=500), "ping")) == "ping: HTTP 500 (no content type)"


@pytest.mark.req("R1")
@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("120", 120.0),
        (" 5 ", 5.0),
        ("99999999999999999999999999", 86400.0),
        ("Sun, 29 Nov 2026 20:00:30 GMT", 30.0),
        ("Sun, 29 Nov 2026 19:00:00 GMT", 0.0),
        ("Sunday, 29-Nov-26 20:01:00 GMT", 60.0),
        ("Sun Nov 29 20:01:00 2026", 60.0),
        ("Tue, 29 Nov 2033 20:00:00 GMT", 86400.0),
        ("-1", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("Sun, 99 Nov 2026 20:00:30 GMT", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_that_counts_from_the_answers(
    value: str | None, seconds: float | None
) -> None:
    assert retry_after(value, "Sun, 29 Nov 2026 20:00:00 GMT") == seconds


@pytest.mark.req("R1")
@pytest.mark.parametrize("date", [None, "", "nonsense"])
def test_a_date_without_the_answers_own_date_says_nothing(date: str | None) -> None:
    assert retry_after("Sun, 29 Nov 2026 20:00:30 GMT", date) is None
    assert retry_after("30", date) == 30.0
