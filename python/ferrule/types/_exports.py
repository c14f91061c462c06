"""Tools as the providers of language models want them, under names these accept, with a way back.

Knows the shapes and the rules of OpenAI, Anthropic and Gemini as of 2026. Does not talk to them.
"""

from __future__ import annotations

from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .tools import Tool

_PLAIN = frozenset("_-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_FIRST = _PLAIN - frozenset("-0123456789")
# What a provider takes in a name, at its beginning, and how long a name may be.
_NAMES = {
    "openai": (_PLAIN, _PLAIN, 64),
    "anthropic": (_PLAIN, _PLAIN, 128),
    "gemini": (_PLAIN | {"."}, _FIRST, 64),
}
_DIGEST = 8  # hexadecimal digits that tell names apart which would be the same
# What OpenAI and Anthropic refuse in a schema's outermost object, together with the whole request.
_REFUSED = ("oneOf", "anyOf", "allOf", "enum", "not")


class ProviderTools:
    """The tools of a server as one provider wants them: made by `tools_for`.

    Attributes:
        provider: `openai`, `anthropic` or `gemini`.
        definitions: For the provider's argument `tools` (Gemini: `functionDeclarations`): dicts of your own, ordered
            by the tools' names, so that the same tools give the same bytes and a provider's prompt cache hits.
    """

    __slots__ = ("_originals", "definitions", "provider")

    def __init__(self, provider: str, definitions: list[dict[str, Any]], originals: dict[str, str]) -> None:
        self.provider = provider
        self.definitions = definitions
        self._originals = originals

    def __len__(self) -> int:
        return len(self.definitions)

    def __repr__(self) -> str:
        return f"<ProviderTools for {self.provider}, {len(self)} tools>"

    def name_of(self, name: str) -> str:
        """The name of the tool for `call_tool`, given the name by which the model calls it.

        Raises:
            KeyError: There is no such tool: models make names up. The text does not hold it.
        """
        found = self._originals.get(name)
        if found is None:
            raise KeyError("no tool has this name at the provider")
        return found


def tools_for(provider: str, tools: Iterable[Tool], *, responses: bool = False) -> ProviderTools:
    """Export tools to a provider of language models.

    A name that the provider does not take is changed: what it may not hold becomes `_`. Where names would then be the
    same, or too long, those that were changed end in a digest of the original, so that a name depends on the set of
    tools alone and not on their order.

    Args:
        provider: `openai`, `anthropic` or `gemini`.
        tools: As `list_tools` gives them. Of several servers, only when no name is used twice.
        responses: For OpenAI's Responses API in place of Chat Completions.

    Raises:
        ConfigError: The provider is not known, or two tools have the same name.
    """
    if provider not in _NAMES:
        raise ConfigError(f"provider: expected one of {', '.join(_NAMES)}")
    ordered = sorted(tools, key=lambda tool: tool.name)
    originals = _unique([tool.name for tool in ordered], provider)
    exported = {original: name for name, original in originals.items()}
    definitions = [define(provider, tool, exported[tool.name], responses=responses) for tool in ordered]
    return ProviderTools(provider, definitions, originals)


def define(provider: str, tool: Tool, name: str | None = None, *, responses: bool = False) -> dict[str, Any]:
    """One tool as the provider wants it, under `name`, or under its own made valid."""
    if name is None:
        [name] = _unique([tool.name], provider)
    if provider == "openai":
        return _OPENAI[responses](name, tool)
    return _anthropic(name, tool) if provider == "anthropic" else _gemini(name, tool)


# --- names ---------------------------------------------------------------------------------------


def _unique(names: list[str], provider: str) -> dict[str, str]:
    """The names at the provider, each with its original. What was valid from the start is kept."""
    if len(set(names)) != len(names):
        raise ConfigError("tools: two of them have the same name; tell the servers' tools apart first")
    found = {name: name for name in names if _valid(name, provider) == name}
    changed = [name for name in names if name not in found]
    wanted = [_valid(name, provider) for name in changed]
    for name, plain in zip(changed, wanted, strict=True):
        taken = plain in found or wanted.count(plain) > 1 or len(name) > _NAMES[provider][2]
        found[_digested(name, plain, provider, found) if taken else plain] = name
    return found


def _valid(name: str, provider: str) -> str:
    """The name with nothing in it that the provider refuses."""
    allowed, first, longest = _NAMES[provider]
    plain = "".join([character if character in allowed else "_" for character in name]) or "_"
    return (plain if plain[0] in first else f"_{plain}")[:longest]


def _digested(name: str, plain: str, provider: str, taken: dict[str, str]) -> str:
    """A name that nobody else has, the same each time."""
    from hashlib import sha256

    room = _NAMES[provider][2] - _DIGEST - 1
    digest = sha256(name.encode("utf-8", "surrogatepass"))
    while (made := f"{plain[:room]}_{digest.hexdigest()[:_DIGEST]}") in taken:
        digest.update(b".")
    return made


# --- shapes --------------------------------------------------------------------------------------


def _described(tool: Tool) -> dict[str, str]:
    text = tool.description or tool.title
    return {"description": text} if text else {}


def _chat_completions(name: str, tool: Tool) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **_described(tool), "parameters": _loosened(tool)}}


def _responses(name: str, tool: Tool) -> dict[str, Any]:
    # `strict` is on there unless it is turned off, and takes a small part of JSON Schema only.
    return {"type": "function", "name": name, **_described(tool), "parameters": _loosened(tool), "strict": False}


_OPENAI: dict[bool, Callable[[str, Tool], dict[str, Any]]] = {False: _chat_completions, True: _responses}


def _anthropic(name: str, tool: Tool) -> dict[str, Any]:
    return {"name": name, **_described(tool), "input_schema": _loosened(tool)}


def _gemini(name: str, tool: Tool) -> dict[str, Any]:
    return {"name": name, **_described(tool), "parametersJsonSchema": _schema_of(tool)}


def _schema_of(tool: Tool) -> dict[str, Any]:
    """A copy of the input schema that shares nothing with the tool."""
    from copy import deepcopy

    return deepcopy(tool.input_schema)


def _loosened(tool: Tool) -> dict[str, Any]:
    """The input schema with an outermost object that every model's API takes.

    Alternatives in it are dropped, and the properties that they name become optional ones: the model sees all
    parameters, and the server still checks what it is called with.
    """
    schema = _schema_of(tool)
    properties = schema.get("properties")
    schema["type"] = "object"
    schema["properties"] = merged = dict(properties) if isinstance(properties, dict) else {}
    for keyword in _REFUSED:
        dropped = schema.pop(keyword, None)
        for branch in dropped if isinstance(dropped, list) and keyword.endswith("Of") else []:
            inner = branch.get("properties") if isinstance(branch, dict) else None
            for name, property_schema in inner.items() if isinstance(inner, dict) else ():
                merged.setdefault(name, property_schema)
    return schema
