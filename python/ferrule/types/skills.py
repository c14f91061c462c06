"""Skills that a server serves: instructions for agents, as directories of resources (SEP-2640)."""

from __future__ import annotations

from ._base import Value, Wrong, fields, required
from .common import CacheableResult, ListResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DYNAMIC = "dynamic"
MANIFEST = "/SKILL.md"


class SkillFile(Value):
    """A file of a skill, and what its content must be.

    Attributes:
        uri: What to read it by.
        digest: "sha256:" and 64 lower-case hexadecimal digits, over its bytes.
        size: Its length in bytes.
    """

    __slots__ = fields(uri=required(str), digest=required(str), size=required(int))
    if TYPE_CHECKING:
        uri: str
        digest: str
        size: int


def _load_resources(item: Any) -> Any:
    if item == DYNAMIC:
        return item
    if type(item) is not list:
        raise Wrong('expected array or "dynamic"')
    files = []
    for number, wire in enumerate(item):
        if type(wire) is not dict:
            raise Wrong("expected object").under(f"[{number}]")
        try:
            files.append(SkillFile._decode(wire))
        except Wrong as wrong:
            raise wrong.under(f"[{number}]") from None
    return tuple(files)


class Skill(Value):
    """What a server says of one of its skills. It holds no content: see `ferrule.skills`.

    Attributes:
        uri: The URI of its SKILL.md. It names the skill at this server; another server may use the same.
        frontmatter: The front matter of that file, as JSON.
        resources: All of its files, or "dynamic" where their content cannot be told beforehand.
    """

    __slots__ = fields(uri=required(str), frontmatter=required(dict), resources=required((object, _load_resources)))
    if TYPE_CHECKING:
        uri: str
        frontmatter: Mapping[str, Any]
        resources: tuple[SkillFile, ...] | str

    @property
    def name(self) -> str:
        """Its name, a label: several skills may have the same."""
        name = self.frontmatter.get("name")
        return name if isinstance(name, str) else ""

    @property
    def description(self) -> str:
        """What it is for, as its author says."""
        description = self.frontmatter.get("description")
        return description if isinstance(description, str) else ""

    @property
    def root(self) -> str:
        """The directory it is: what relative references in it start from."""
        return self.uri.removesuffix(MANIFEST)

    @property
    def files(self) -> tuple[SkillFile, ...]:
        """Its files; none where they are "dynamic"."""
        return self.resources if isinstance(self.resources, tuple) else ()

    @property
    def is_dynamic(self) -> bool:
        """Whether nothing says what the content must be."""
        return self.resources == DYNAMIC


class ListSkillsResult(ListResult):
    """One page of the skills of a server."""

    __slots__ = fields(skills=required([Skill]))
    if TYPE_CHECKING:
        skills: tuple[Skill, ...]

    @property
    def items(self) -> tuple[Skill, ...]:
        """The skills of this page."""
        return self.skills


class GetSkillResult(CacheableResult):
    """One skill, asked for by its URI."""

    __slots__ = fields(skill=required(Skill))
    if TYPE_CHECKING:
        skill: Skill
