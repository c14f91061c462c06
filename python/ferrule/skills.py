"""Skills that servers serve: instructions for agents, listed by name and read only when they are needed.

A skill is a directory of resources with a SKILL.md at its root (the extension `io.modelcontextprotocol/skills`,
SEP-2640). `Skills` and `AsyncSkills` list them without reading a file, and hand a file over only if its size, its
digest and, for SKILL.md, its front matter are what the server had listed. Needs `ferrule[skills]`.

    from ferrule import Client
    from ferrule.skills import Skills

    with Client("https://example.com/mcp") as client:
        skills = Skills(client)
        for skill in skills.list():
            print(skill.name, skill.description)
        text = skills.load(skill)
        form = skills.read(skill, "references/FORMS.md")

What a skill says is a server's word, to be treated like any other: ask the user before it is loaded. That list and file
match proves no more than that they belong together. A `Skill` belongs to the server that listed it: keep the two
together, since another server may use the same URI and name.
"""

from __future__ import annotations

from ._session import skills as _skills
from ._session.settings import UNSET
from .types.skills import Skill, SkillFile

TYPE_CHECKING = False
if TYPE_CHECKING:
    import builtins

    from ._session.settings import Unset
    from .async_client import AsyncClient
    from .client import Client

    Timeout = float | Unset | None

__all__ = ["AsyncSkills", "Skill", "SkillFile", "Skills"]


class Skills:
    """The skills of one server, for `Client`."""

    __slots__ = ("_client",)

    def __init__(self, client: Client) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._client!r}>"

    def list(self, *, timeout: Timeout = UNSET) -> builtins.list[Skill]:
        """What the server lists (skills/list), all pages; it may serve more. No file is read.

        Args:
            timeout: Seconds for all pages together; default the client's.

        Raises:
            CapabilityError: The server did not declare the extension.
            FerruleError: See `Client.list_tools`.
        """
        client = self._client
        return client._run(_skills.list_skills(client._session, timeout))

    def get(self, uri: str, *, timeout: Timeout = UNSET) -> Skill:
        """One skill by the URI of its SKILL.md, listed or not (skills/get). No file is read.

        Also how to go on after `SkillRejected`: what the server lists may have changed meanwhile.

        Raises:
            InvalidParams: The server serves no such skill.
            CapabilityError: The server did not declare the extension.
            FerruleError: See `Client.call_tool`.
        """
        client = self._client
        return client._run(_skills.get_skill(client._session, uri, timeout))

    def load(self, skill: Skill, *, timeout: Timeout = UNSET, allow_dynamic: bool = False) -> str:
        """The text of its SKILL.md, front matter included, read now and verified.

        Args:
            skill: As listed.
            timeout: Seconds; default the client's.
            allow_dynamic: Also a skill whose files are "dynamic": only its front matter can be verified.

        Raises:
            SkillRejected: It is not what the server listed, or not listed as a skill must be.
            LimitExceeded: It has more or larger files than `Limits.max_skill_files` and `max_skill_bytes` allow.
            ConfigError: `ferrule[skills]` is not installed.
            FerruleError: See `Client.read_resource`.
        """
        client = self._client
        return client._run(_skills.load(client._session, skill, timeout, allow_dynamic))

    def read(self, skill: Skill, path: str, *, timeout: Timeout = UNSET, allow_dynamic: bool = False) -> bytes:
        """A file of it, read now and verified.

        Args:
            skill: As listed: the one that was loaded, for as long as it is acted upon.
            path: Relative to the skill's directory, such as "references/FORMS.md", or its URI as listed.
            timeout: Seconds; default the client's.
            allow_dynamic: Also of a skill whose files are "dynamic": nothing of them can be verified.

        Raises:
            SkillRejected: It is not what the server listed, or no file of this skill.
            FerruleError: See `load`.
        """
        client = self._client
        return client._run(_skills.read(client._session, skill, path, timeout, allow_dynamic))


class AsyncSkills:
    """The skills of one server, for `AsyncClient`: see `Skills`."""

    __slots__ = ("_client",)

    def __init__(self, client: AsyncClient) -> None:
        self._client = client

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._client!r}>"

    async def list(self, *, timeout: Timeout = UNSET) -> builtins.list[Skill]:
        """What the server lists: see `Skills.list`."""
        return await _skills.list_skills(self._client._session, timeout)

    async def get(self, uri: str, *, timeout: Timeout = UNSET) -> Skill:
        """One skill by the URI of its SKILL.md: see `Skills.get`."""
        return await _skills.get_skill(self._client._session, uri, timeout)

    async def load(self, skill: Skill, *, timeout: Timeout = UNSET, allow_dynamic: bool = False) -> str:
        """The text of its SKILL.md, verified: see `Skills.load`."""
        return await _skills.load(self._client._session, skill, timeout, allow_dynamic)

    async def read(self, skill: Skill, path: str, *, timeout: Timeout = UNSET, allow_dynamic: bool = False) -> bytes:
        """A file of it, verified: see `Skills.read`."""
        return await _skills.read(self._client._session, skill, path, timeout, allow_dynamic)
