"""What a response body is worth, by status, Content-Type and first byte.

Knows HTTP's headers about content. It parses no message, and its errors name status and type, never
the body.
"""

from __future__ import annotations

from .._wire import KIND_JSON
from ..errors import HTTPStatusError, InvalidMessage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from .._core import ResponseHead
    from ..errors import FerruleError

_BOM = b"\xef\xbb\xbf"
_WHITESPACE = b" \t\r\n"
_LOOK = 1024
_LONGEST_TYPE = 100
_LONGEST_WAIT = 86400.0


def may_be_message(head: ResponseHead, body: bytes) -> bool:
    """Is it worth parsing as JSON-RPC? By its type, or since it begins like an object or array."""
    return head.kind == KIND_JSON or looks_like_json(body)


def looks_like_json(body: bytes) -> bool:
    """Does it begin, after a byte order mark and white space, as a JSON object or array does?"""
    start = 3 if body.startswith(_BOM) else 0
    return body[start : start + _LOOK].lstrip(_WHITESPACE)[:1] in (b"{", b"[")


def media_type(head: ResponseHead) -> str | None:
    """The media type in lower case, without parameters; None when there is no usable one."""
    value = (head.get("content-type") or "").partition(";")[0].strip(" \t").lower()
    if not value or len(value) > _LONGEST_TYPE or not value.isascii() or not value.isprintable():
        return None
    return value


def refusal(head: ResponseHead, where: str) -> FerruleError:
    """The error for a response whose body is no message.

    Args:
        head: Its head.
        where: Method and server, for the text.

    Returns:
        InvalidMessage for 2xx, HTTPStatusError for all else.
    """
    kind = media_type(head)
    shown = kind or "no content type"
    if 200 <= head.status < 300:
        return InvalidMessage(f"{where}: HTTP {head.status} with {shown} instead of a JSON-RPC message")
    wanted = "the proxy wants other credentials, " if head.status == 407 else ""
    return HTTPStatusError(
        f"{where}: {wanted}HTTP {head.status} ({shown})",
        status=head.status,
        retry_after=retry_after(head.get("retry-after"), head.get("date")),
        content_type=kind,
    )


def retry_after(value: str | None, date: str | None) -> float | None:
    """The seconds that a `Retry-After` asks for (RFC 9110, section 10.2.3), at most a day.

    Args:
        value: The header: seconds, or a date.
        date: The response's `Date`. A date in `value` counts from it, so that neither clock's error
            matters; without it such a value says nothing.
    """
    value = (value or "").strip(" \t")
    if not value:
        return None
    if value.isascii() and value.isdigit():
        return min(float(value[:10]), _LONGEST_WAIT)
    seconds = seconds_between(date or "", value)
    return None if seconds is None else min(max(seconds, 0.0), _LONGEST_WAIT)


def seconds_between(first: str, second: str) -> float | None:
    """How much later the second of two HTTP dates is; None when either is none."""
    then, now = _date(second), _date(first)
    return None if then is None or now is None else (then - now).total_seconds()


def _date(text: str) -> datetime | None:
    from datetime import UTC
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)
