"""Making a peer's words safe to show: control characters escaped, length capped.

Knows which characters change a terminal or a log; does not know where the text came from.
"""

from __future__ import annotations

PEER_TEXT_LIMIT = 1024
"""Bytes of UTF-8 that are kept of anything a peer says about itself."""

_NAMED = {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}
# C0, DEL with C1, marks and separators of lines, overrides of direction, halves of surrogate pairs
_RANGES = (
    *((0x00, 0x1F), (0x7F, 0x9F), (0x200E, 0x200F), (0x2028, 0x202E)),
    *((0x2066, 0x2069), (0xD800, 0xDFFF), (0xFEFF, 0xFEFF)),
)


class _Escapes:
    """What `str.translate` asks for each character."""

    def __getitem__(self, code: int) -> str:
        if code in _NAMED:
            return _NAMED[code]
        if any(first <= code <= last for first, last in _RANGES):
            return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
        raise LookupError(code)  # the character stays as it is


def escape_peer_text(text: object, limit: int = PEER_TEXT_LIMIT) -> str:
    r"""Make text from a peer safe for logs and terminals.

    Control characters (C0, C1, U+2028, U+2029, overrides of direction; with ESC every ANSI
    sequence) become escapes such as `\x1b`, and what is longer than `limit` bytes of UTF-8 ends in
    an ellipsis. The time taken does not depend on the length of the text.

    Args:
        text: What the peer said. What is no text counts as nothing said.
        limit: The most bytes the answer may have in UTF-8.

    Returns:
        Text of one line.
    """
    if not isinstance(text, str):
        return ""
    head = text[:limit]
    if len(head) == len(text) and head.isascii() and head.isprintable():
        return head
    data = head.translate(_Escapes()).encode()
    if len(head) == len(text) and len(data) <= limit:
        return data.decode()
    return data[: max(limit - 3, 0)].decode(errors="ignore") + "…"


def shown_url(url: str) -> str:
    """A URL as it may be shown: without user, query and fragment, escaped, at most 256 bytes."""
    scheme, found, rest = url.partition("://")
    rest = rest.partition("?")[0].partition("#")[0]
    authority, slash, path = rest.partition("/")
    return escape_peer_text(scheme + found + authority.rpartition("@")[2] + slash + path, 256)
