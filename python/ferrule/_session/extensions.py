"""Extensions of the protocol that a client speaks beside the protocol itself.

Specification: 2026-07-28, basic/versioning (Extension Negotiation) and basic/index (ResultType, `_meta` key names).
Knows what an extension claims and that claims do not collide, not what they mean.
"""

from __future__ import annotations

from .._json import dumps
from .._value import Frozen
from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

TASKS = "io.modelcontextprotocol/tasks"
"""The extension of tasks, which is declared by the requests that want it and no others."""
_RESERVED_TYPES = frozenset({"complete", "input_required", "task"})
_ALPHANUMERIC = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


class Extension(Frozen):
    """An extension that the client declares, in both eras, and what of the server's words it understands.

        thing = Extension("com.example/thing", {"depth": 2}, result_types=["com.example/partial"])
        client = Client(url, extensions=[thing])

    A result of a claimed type is given as `types.ExtensionResult` by the method that was called, and by `request` as it
    came. Without a claim it is an `UnknownResultType` error. Notifications, claimed or not, go to `on_notification`.

    Attributes:
        id: Its identifier: reverse domain name, slash, name, such as "com.example/thing".
        settings: What is declared under it, a JSON object.
        result_types: The values of `resultType` that it brings (stateless era).
        notifications: The methods of the notifications that it brings.

    Raises:
        ConfigError: An argument cannot be meant like that.
    """

    __slots__ = ("id", "notifications", "result_types", "settings")

    id: str
    settings: Mapping[str, Any]
    result_types: tuple[str, ...]
    notifications: tuple[str, ...]

    def __init__(
        self,
        id: str,
        settings: Mapping[str, Any] | None = None,
        result_types: Iterable[str] = (),
        notifications: Iterable[str] = (),
    ) -> None:
        _check_id(id)
        self._set("id", id)
        self._set("settings", _checked_settings(id, settings))
        self._set("result_types", _texts(id, result_types, "result_types"))
        self._set("notifications", _texts(id, notifications, "notifications"))
        reserved = sorted(_RESERVED_TYPES.intersection(self.result_types))
        if reserved:
            raise ConfigError(f"extension {id}: the protocol's own resultType {reserved[0]} cannot be claimed")

    def __hash__(self) -> int:
        return hash((type(self), self.id))

    def __repr__(self) -> str:
        claims = f"{len(self.result_types)} result types, {len(self.notifications)} notifications"
        return f"<Extension {self.id}, settings[{len(self.settings)}], {claims}>"


def _check_id(id: object) -> None:
    if not isinstance(id, str):
        raise ConfigError("extension: the id must be str")
    prefix, slash, name = id.partition("/")
    if not slash or not all(_is_label(label) for label in prefix.split(".")) or not _is_name(name):
        raise ConfigError('extension: the id must be a prefix, a slash and a name, such as "com.example/thing"')
    if id == TASKS:
        raise ConfigError(f"extension {TASKS}: declared by the calls that want tasks: call_tool(..., tasks=True)")


def _is_label(label: str) -> bool:
    """Begins with a letter, ends with a letter or digit, hyphens within."""
    return bool(label) and label[0] in _ALPHANUMERIC and not label[0].isdigit() and _is_name(label, "-")


def _is_name(name: str, within: str = "-_.") -> bool:
    return (
        bool(name)
        and name[0] in _ALPHANUMERIC
        and name[-1] in _ALPHANUMERIC
        and _ALPHANUMERIC.issuperset(name.translate({ord(sign): None for sign in within}))
    )


def _checked_settings(id: str, settings: Mapping[str, Any] | None) -> dict[str, Any]:
    if settings is not None and not hasattr(settings, "items"):
        raise ConfigError(f"extension {id}: settings must be a mapping")
    copy = dict(settings or {})
    try:
        dumps(copy, "settings")
    except TypeError as error:
        raise ConfigError(f"extension {id}: {error}") from None
    return copy


def _texts(id: str, given: Iterable[str], what: str) -> tuple[str, ...]:
    if isinstance(given, str):
        raise ConfigError(f"extension {id}: {what} takes several, such as a list")
    texts = tuple(given)
    if not all(isinstance(text, str) and text for text in texts):
        raise ConfigError(f"extension {id}: {what} must be texts that are not empty")
    return texts


def checked(extensions: Iterable[Extension]) -> tuple[Extension, ...]:
    """The extensions of one client.

    Raises:
        ConfigError: They are none, or two of them have the same id or claim the same.
    """
    found = tuple(extensions)
    owners: dict[tuple[str, str], str] = {}
    for extension in found:
        if not isinstance(extension, Extension):
            raise ConfigError(f"extensions: expected Extension, not {type(extension).__name__}")
        claims = [("id", extension.id), *(("resultType", kind) for kind in dict.fromkeys(extension.result_types))]
        for claim in claims:
            if claim in owners:
                raise ConfigError(f"extensions: {owners[claim]} and {extension.id} have the same {claim[0]}")
            owners[claim] = extension.id
    return found


def declared(capabilities: Mapping[str, Any], extensions: tuple[Extension, ...]) -> dict[str, Any]:
    """Capabilities with the extensions among them, one given by its `Extension` before one given by hand."""
    merged = dict(capabilities)
    by_hand = merged.get("extensions") or {}
    merged["extensions"] = {**by_hand, **{extension.id: extension.settings for extension in extensions}}
    return merged


def claimed_types(extensions: tuple[Extension, ...]) -> frozenset[str]:
    """The values of `resultType` that are an answer because of an extension."""
    return frozenset(kind for extension in extensions for kind in extension.result_types)
