"""JSON in and out, exactly: no number changes silently, and no error quotes what was parsed.

Knows orjson, and the standard `json` for what orjson cannot hold. Does not know JSON-RPC.
"""

from __future__ import annotations

import orjson

from ._wire import check_json
from .errors import InvalidMessage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

# What the framer found in a message, as `_core` flags it.
FLAG_SLOW = 1
FLAG_DEEP = 2

_BOM = b"\xef\xbb\xbf"
# What orjson would otherwise turn into something else.
_EXACT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


parse = orjson.loads
"""As `loads`, for who falls back on that: raises a ValueError that holds the document, and no other error may be raised
while that is handled."""


def loads(data: bytes, flags: int = 0) -> Any:
    """Parse one JSON text in UTF-8.

    Args:
        data: The text. A byte order mark before it is dropped.
        flags: What the framer found. With `FLAG_SLOW` (an integer beyond 64 bits, or an escaped
            lone surrogate) the text is parsed by the standard library, which keeps both.

    Raises:
        InvalidMessage: It is not JSON, not UTF-8, or nested too deeply. The text says where and
            how long, and neither it nor the chain holds any of the data.
    """
    if not flags:
        try:
            return orjson.loads(data)
        except ValueError:
            pass  # its error holds the document: no other may be raised in this handler
    return _loads_carefully(data.removeprefix(_BOM), flags)


def _loads_carefully(data: bytes, flags: int) -> Any:
    if flags & FLAG_DEEP:
        raise InvalidMessage(f"JSON nested too deeply ({len(data)} bytes)")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        problem: str | None = f"not UTF-8 at byte {error.start}"
    else:
        value, problem = _parse(text, exact=bool(flags & FLAG_SLOW))
        if problem is None:
            return value
    raise InvalidMessage(f"{problem} ({len(data)} bytes)")


def _parse(text: str, *, exact: bool) -> tuple[Any, str | None]:
    """The value, and what is wrong with the text if anything is."""
    import json

    try:
        if exact:
            return json.loads(text, parse_constant=_refuse, parse_float=_finite), None
        return orjson.loads(text), None
    except json.JSONDecodeError as error:  # orjson's is one too
        return None, f"bad JSON at byte {len(text[: error.pos].encode())}"
    except RecursionError:
        return None, "JSON nested too deeply"
    except ValueError:  # from the hooks, or an integer with more digits than Python converts
        return None, "JSON with a number out of range"


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise ValueError("not finite")
    return number


def dump_text(text: str) -> bytes:
    """Serialise a text that a peer sent so that it gets it back as it was, a lone surrogate included."""
    try:
        return orjson.dumps(text)
    except TypeError:
        import json

        return json.dumps(text).encode()


def canonical(value: object, where: str) -> bytes:
    """As `dumps`, with the members of every object in one order: equal JSON values give equal bytes."""
    return orjson.dumps(orjson.loads(dumps(value, where)), option=orjson.OPT_SORT_KEYS)


def dumps(value: object, where: str = "arguments") -> bytes:
    """Serialise a value that has an exact JSON form, in one line.

    Args:
        value: Made of dict with str keys, list, tuple, str, int, finite float, bool and None, or
            subclasses of these.
        where: What the value is called in errors.

    Raises:
        TypeError: Some part of it has no exact JSON form; the text names the path, such as
            `arguments.rows[3]`. Nothing is coerced.
    """
    found = check_json(value)
    if found is not None:
        path, reason = found
        raise TypeError(f"{where}{path}: {reason}")
    try:
        return orjson.dumps(value, option=_EXACT)
    except TypeError:
        pass  # what check_json lets through and orjson does not, such as a named tuple
    raise TypeError(f"{where}: some part of it has no JSON form")
