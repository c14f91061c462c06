"""What callers give: checked and put where it belongs, before anything is sent.

Knows texts, `_meta` and progress handlers; no method.
"""

from __future__ import annotations

from ..errors import ConfigError
from .settings import Unset, check_timeout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from .progress import Progress
    from .session import Session

    Timeout = float | Unset | None
    OnProgress = Callable[[float, float | None, str | None], Any]


def check_text(value: object, where: str) -> None:
    """Raise TypeError for what is no text, or text that UTF-8 cannot hold."""
    if not isinstance(value, str):
        raise TypeError(f"{where}: expected str")
    if not is_text(value):
        raise TypeError(f"{where}: holds a lone surrogate")


def is_text(value: str) -> bool:
    """Can UTF-8 hold it? JSON escapes can bring what it cannot."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def hoist_meta(
    arguments: Mapping[str, Any] | None, meta: Mapping[str, Any] | None
) -> tuple[Mapping[str, Any], Mapping[str, Any] | None]:
    """`_meta` among the arguments belongs beside them (R6); the caller's mapping stays as it is."""
    if arguments is None:
        return {}, meta
    if not hasattr(arguments, "items"):
        raise TypeError("arguments: expected a mapping")
    if "_meta" not in arguments:
        return arguments, meta
    hoisted = arguments["_meta"]
    if not hasattr(hoisted, "items"):
        raise TypeError("arguments._meta: expected a mapping")
    rest = {key: value for key, value in arguments.items() if key != "_meta"}
    return rest, {**hoisted, **(meta or {})}


def split_meta(
    params: Mapping[str, Any] | None,
) -> tuple[dict[str, Any], Mapping[str, Any] | None]:
    """Parameters without their `_meta`, and that."""
    if not params:
        return {}, None
    meta = params.get("_meta")
    if meta is not None and not hasattr(meta, "items"):
        raise TypeError("params._meta: expected a mapping")
    return {key: value for key, value in params.items() if key != "_meta"}, meta


def progress_for(
    session: Session,
    handler: OnProgress | None,
    reset: bool,
    timeout: Timeout,
    max_total: float | None,
    kind: type[Progress] | None = None,
) -> Progress:
    """What a caller wants done with the progress of a call. `kind`: another class of progress than `Progress`."""
    if kind is None:
        from .progress import Progress

        kind = Progress
    seconds = session.view.timeout if isinstance(timeout, Unset) else check_timeout(timeout)
    if not reset or seconds is None:
        return kind(handler, None, 0.0)
    total = check_timeout(max_total)
    if total is None:
        raise ConfigError("reset_on_progress needs max_total: the most seconds the call may take")
    return kind(handler, seconds, session.io.now() + total)
