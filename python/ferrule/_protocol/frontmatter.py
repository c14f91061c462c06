"""The YAML front matter of a SKILL.md, as JSON.

Specification: Agent Skills (agentskills.io), and the skills extension (SEP-2640), Frontmatter Verification. Pure rules.
The text is a server's: nothing in it makes time or memory grow faster than its length, and no YAML tag does anything.

Scalars are read by the core schema of YAML 1.2, as JSON-minded parsers do: `yes` is a text, and so is a date.
"""

from __future__ import annotations

from ..errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LONGEST = 64 * 1024
"""Bytes of front matter. What describes a skill has a few hundred."""
_FENCE = "---"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_PLAIN = ("map", "seq", "str", "int", "float", "bool", "null", "timestamp", "merge", "value")
_TAGS = frozenset(f"tag:yaml.org,2002:{name}" for name in _PLAIN)
"""What untagged nodes are taken for. None of it is used."""


class BadFrontmatter(Exception):
    """The front matter cannot be read. The text says why, and holds nothing of it."""


def read_frontmatter(text: str) -> dict[str, Any]:
    """The front matter of a SKILL.md as a JSON object.

    Raises:
        BadFrontmatter: There is none, or it cannot be read.
        ConfigError: The library that reads it is not installed.
    """
    block = _block(text.removeprefix("\ufeff"))
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise ConfigError("skills: to verify front matter, install ferrule[skills]") from None
    try:
        node = yaml.compose(block, Loader=yaml.SafeLoader)
        found = _value(node, set(), yaml)
    except (yaml.YAMLError, RecursionError, ValueError):
        raise BadFrontmatter("it is no YAML that can be read") from None
    if type(found) is not dict:
        raise BadFrontmatter("it is no mapping")
    return found


def _block(text: str) -> str:
    """What stands between the fences."""
    # Not by `splitlines`, which knows line ends that YAML does not.
    lines = text[: _LONGEST + 2 * len(_FENCE) + 4].split("\n")
    if lines[0].rstrip() != _FENCE:
        raise BadFrontmatter("the file does not begin with any")
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            return "\n".join((*lines[1:number], ""))
    raise BadFrontmatter(f"it does not end within {_LONGEST} bytes")


def _value(node: Any, seen: set[int], yaml: Any) -> Any:
    """A node as JSON. Each is read once: aliases could stand for more than anybody can read."""
    if node is None:
        return None
    if id(node) in seen:
        raise BadFrontmatter("it holds an alias")
    seen.add(id(node))
    if node.tag not in _TAGS:
        raise BadFrontmatter("it holds a tag")
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, seen, yaml) for item in node.value]
    found: dict[str, Any] = {}
    for key, item in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value in found:
            raise BadFrontmatter("it holds a key twice, or one that is no text")
        found[key.value] = _value(item, seen, yaml)
    return found


def _scalar(node: Any) -> Any:
    """A scalar: quoted and block ones are texts."""
    text: str = node.value
    if node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    import re

    if re.fullmatch(r"[-+]?[0-9]{1,300}", text):
        return int(text)
    return float(text) if len(text) < 400 and re.fullmatch(_NUMBER, text) else text


def same(one: Any, other: Any) -> bool:
    """Are two JSON values the same? True is not 1, and 1 is 1.0."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    numbers = isinstance(one, (int, float)) and isinstance(other, (int, float))
    return (numbers or type(one) is type(other)) and bool(one == other)
