"""The flat schemas of form elicitations: their defaults, and whether an answer fits one.

Specification: 2025-11-25, client/elicitation, Requested Schema. Schemas come from a peer: what makes no sense in one
asks for nothing, and its patterns are not run, since a hostile one could take for ever.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


def fill_defaults(schema: Mapping[str, Any], content: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What the schema gives as defaults, under what the user entered.

    Args:
        schema: The `requested_schema` of a form.
        content: What the user entered; it wins.

    Returns:
        A new dict.
    """
    filled = {}
    for name, wanted in _properties(schema).items():
        if "default" in wanted:
            default = wanted["default"]
            filled[name] = list(default) if isinstance(default, list) else default
    return {**filled, **(content or {})}


def problems(schema: Mapping[str, Any], content: Mapping[str, Any]) -> list[str]:
    """What is wrong with an answer, such as `age: expected integer`; empty when it fits."""
    properties = _properties(schema)
    required = schema.get("required")
    found = []
    if isinstance(required, list):
        found += [f"{name}: is required" for name in required if isinstance(name, str) and name not in content]
    for name, value in content.items():
        problem = _problem(properties.get(name, {}), value) if isinstance(name, str) else "expected a name"
        if problem is not None:
            found.append(f"{name}: {problem}")
    return found


def _properties(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: wanted for name, wanted in properties.items() if isinstance(wanted, dict)}


def _problem(wanted: dict[str, Any], value: Any) -> str | None:
    kind = wanted.get("type")
    check = _CHECKS.get(kind) if isinstance(kind, str) else None
    if check is not None:
        return check(wanted, value)
    # A type that forms do not have: the answer has to be one that they do.
    if isinstance(value, (str, bool, int, float)) or _is_choice(value):
        return None
    return "expected string, number, boolean or array of strings"


def _is_choice(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)


def _check_string(wanted: dict[str, Any], value: Any) -> str | None:
    if not isinstance(value, str):
        return "expected string"
    choices = _choices(wanted, "oneOf")
    if choices is not None and value not in choices:
        return "expected one of the choices"
    return _length_problem(wanted, len(value), "Length", "characters") or _format_problem(wanted, value)


def _check_array(wanted: dict[str, Any], value: Any) -> str | None:
    if not _is_choice(value):
        return "expected array of strings"
    items = wanted.get("items")
    choices = _choices(items, "anyOf") if isinstance(items, dict) else None
    if choices is not None and not choices.issuperset(value):
        return "expected some of the choices"
    return _length_problem(wanted, len(value), "Items", "choices")


def _check_number(wanted: dict[str, Any], value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value - value != 0:
        return "expected number"
    least, most = _number(wanted, "minimum"), _number(wanted, "maximum")
    if least is not None and value < least:
        return f"expected at least {least}"
    if most is not None and value > most:
        return f"expected at most {most}"
    return None


def _check_integer(wanted: dict[str, Any], value: Any) -> str | None:
    if isinstance(value, bool) or not (isinstance(value, int) or (isinstance(value, float) and value.is_integer())):
        return "expected integer"
    return _check_number(wanted, value)


def _check_boolean(wanted: dict[str, Any], value: Any) -> str | None:
    return None if isinstance(value, bool) else "expected boolean"


_CHECKS: dict[str, Callable[[dict[str, Any], Any], str | None]] = {
    "string": _check_string,
    "array": _check_array,
    "number": _check_number,
    "integer": _check_integer,
    "boolean": _check_boolean,
}


def _number(wanted: dict[str, Any], name: str) -> float | None:
    """A bound, if the schema gives it as a number."""
    bound = wanted.get(name)
    return bound if isinstance(bound, (int, float)) and not isinstance(bound, bool) else None


def _choices(wanted: dict[str, Any], titled: str) -> set[str] | None:
    """What may be chosen: an `enum`, or the `const` of each titled choice; None for anything."""
    choices = wanted.get("enum")
    if not isinstance(choices, list):
        options = wanted.get(titled)
        if not isinstance(options, list):
            return None
        choices = [option.get("const") for option in options if isinstance(option, dict)]
    return {choice for choice in choices if isinstance(choice, str)}


def _length_problem(wanted: dict[str, Any], length: int, what: str, unit: str) -> str | None:
    least, most = _number(wanted, f"min{what}"), _number(wanted, f"max{what}")
    if least is not None and length < least:
        return f"expected at least {least} {unit}"
    if most is not None and length > most:
        return f"expected at most {most} {unit}"
    return None


def _format_problem(wanted: dict[str, Any], value: str) -> str | None:
    name = wanted.get("format")
    looks_right = _FORMATS.get(name) if isinstance(name, str) else None
    return None if looks_right is None or looks_right(value) else f"expected {name}"


def _is_email(value: str) -> bool:
    name, _, host = value.rpartition("@")
    return bool(name) and bool(host) and not any(character.isspace() for character in value)


def _is_uri(value: str) -> bool:
    scheme, colon, rest = value.partition(":")
    allowed = scheme.replace("+", "").replace("-", "").replace(".", "")
    return bool(colon and rest) and scheme[:1].isalpha() and allowed.isascii() and allowed.isalnum() and " " not in rest


def _is_date(value: str) -> bool:
    from datetime import date

    try:
        return len(value) == 10 and value == date.fromisoformat(value).isoformat()
    except ValueError:
        return False


def _is_date_time(value: str) -> bool:
    from datetime import datetime

    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return False
    return value[10:11] in ("T", "t") and moment.tzinfo is not None


_FORMATS: dict[str, Callable[[str], bool]] = {
    "email": _is_email,
    "uri": _is_uri,
    "date": _is_date,
    "date-time": _is_date_time,
}
