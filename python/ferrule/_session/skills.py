"""Skills over resources: what a server lists, read when it is needed and used only if it is what was listed.

Specification: the skills extension, `io.modelcontextprotocol/skills` (SEP-2640). Knows what a listed skill promises
and how a file is held against that. A match proves that list and file belong together, not that either may be trusted.
"""

from __future__ import annotations

from .. import types
from .._json import dumps
from .._protocol import methods
from .._protocol.frontmatter import BadFrontmatter, read_frontmatter, same
from ..errors import CapabilityError, InvalidResult, LimitExceeded, SkillRejected
from ..types.skills import MANIFEST, GetSkillResult, ListSkillsResult, Skill, SkillFile
from . import features
from .arguments import check_text
from .paging import Pages
from .settings import UNSET

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .arguments import Timeout
    from .session import Session

SKILLS = "io.modelcontextprotocol/skills"
_HEX = frozenset("0123456789abcdef")
_SHA256 = "sha256:"


async def list_skills(session: Session, timeout: Timeout = UNSET) -> list[Skill]:
    """All skills that the server lists. No file is read."""
    deadline = session.enter_until(timeout)
    await _require(session, "skills/list", timeout)

    async def fetch(cursor: str | None) -> ListSkillsResult:
        params = dumps({"cursor": cursor}, "params") if cursor is not None else None
        result = await session.perform(methods.SKILLS_LIST, params, deadline)
        return ListSkillsResult.from_wire(result, method="skills/list")

    return await Pages(session, "skills/list", fetch).all()


async def get_skill(session: Session, uri: str, timeout: Timeout = UNSET) -> Skill:
    """One skill by its URI, listed or not."""
    deadline = session.enter_until(timeout)
    check_text(uri, "uri")
    await _require(session, "skills/get", timeout)
    result = await session.perform(methods.SKILLS_GET, dumps({"uri": uri}, "params"), deadline)
    skill = GetSkillResult.from_wire(result, method="skills/get").skill
    if skill.uri != uri:
        raise InvalidResult("skills/get", "skill.uri: it is another skill")
    return skill


async def load(session: Session, skill: Skill, timeout: Timeout = UNSET, allow_dynamic: bool = False) -> str:
    """The SKILL.md of a skill, verified."""
    session.enter()
    check_entry(skill, session.settings.limits, session.label, allow_dynamic)
    data = await _fetch(session, skill, skill.uri, timeout)
    try:
        text = data.decode()
        found = read_frontmatter(text)
    except UnicodeDecodeError:
        raise _rejected(session.label, "frontmatter", "SKILL.md is not UTF-8") from None
    except BadFrontmatter as error:
        problem = str(error)
    else:
        if same(found, dict(skill.frontmatter)):
            return text
        problem = "it is not the one that the server lists"
    raise _rejected(session.label, "frontmatter", f"the front matter of SKILL.md: {problem}")


async def read(
    session: Session, skill: Skill, path: str, timeout: Timeout = UNSET, allow_dynamic: bool = False
) -> bytes:
    """A file of a skill, verified."""
    session.enter()
    check_text(path, "path")
    check_entry(skill, session.settings.limits, session.label, allow_dynamic)
    return await _fetch(session, skill, _located(skill, path, session.label), timeout)


async def _require(session: Session, what: str, timeout: Timeout) -> None:
    """A server is asked for skills once it said that it has the extension (Capability Negotiation)."""
    link = await session.link_by(session.deadline(timeout), what)
    if link.capabilities is None:
        await features.discover(session, timeout)
    extensions = (link.capabilities or {}).get("extensions")
    if type(extensions) is not dict or SKILLS not in extensions:
        raise CapabilityError(f"{what}: {session.label} did not declare the extension {SKILLS}; nothing was sent")


async def _fetch(session: Session, skill: Skill, uri: str, timeout: Timeout) -> bytes:
    result = await features.read_resource(session, uri, timeout=timeout)
    data = _content(result, uri)
    listed = next((one for one in skill.files if one.uri == uri), None)
    if listed is not None:
        _verify(listed, data, session.label)
    return data


def _content(result: Any, uri: str) -> bytes:
    """The bytes of a resource."""
    contents = [one for one in getattr(result, "contents", ()) if one.uri == uri]
    if len(contents) != 1:
        raise InvalidResult("resources/read", "contents: expected the file that was asked for, once")
    content: types.TextResourceContents | types.BlobResourceContents = contents[0]
    if isinstance(content, types.BlobResourceContents):
        return content.decode()
    try:
        return content.text.encode()
    except UnicodeEncodeError:
        raise InvalidResult("resources/read", "contents[0].text: holds a lone surrogate") from None


# What is checked; without I/O


def check_entry(skill: Skill, limits: Any, server: str, allow_dynamic: bool) -> None:
    """See that a skill is listed as one must be, and not too big.

    Raises:
        SkillRejected: It is not.
        LimitExceeded: It has too many files, or they are too large.
    """
    name = skill.root.rpartition("/")[2]
    if not skill.uri.endswith(MANIFEST) or not name or name != skill.name or not skill.description:
        raise _rejected(server, "entry", "name, description or URI are not as a skill's must be")
    if skill.is_dynamic:
        if not allow_dynamic:
            raise _rejected(server, "dynamic", "nothing says what its content must be")
        return
    files = skill.files
    if len(files) > limits.max_skill_files:
        raise _too_big(server, "max_skill_files", limits.max_skill_files)
    if sum(one.size for one in files) > limits.max_skill_bytes:
        raise _too_big(server, "max_skill_bytes", limits.max_skill_bytes)
    uris = {one.uri for one in files}
    if len(uris) != len(files) or skill.uri not in uris or not all(_is_sound(one, skill.root) for one in files):
        raise _rejected(server, "entry", "its list of files is not complete and sound")


def _is_sound(file: SkillFile, root: str) -> bool:
    digest = file.digest.removeprefix(_SHA256)
    well_formed = digest != file.digest and len(digest) == 64 and _HEX.issuperset(digest)
    return well_formed and file.size >= 0 and file.uri.startswith(f"{root}/")


def _located(skill: Skill, path: str, server: str) -> str:
    """The URI of a file: as listed, or from a relative reference within the skill."""
    uris = {one.uri for one in skill.files}
    if path in uris:
        return path
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    uri = "/".join((skill.root, *steps))
    if uri in uris or (skill.is_dynamic and steps):
        return uri
    raise _rejected(server, "unlisted", "it has no such file")


def _verify(file: SkillFile, data: bytes, server: str) -> None:
    if len(data) != file.size:
        raise _rejected(server, "size", f"a file has {len(data)} bytes, not {file.size}")
    from hashlib import sha256

    if f"{_SHA256}{sha256(data).hexdigest()}" != file.digest:
        raise _rejected(server, "digest", "a file is not the one that the server lists")


def _rejected(server: str, reason: str, problem: str) -> SkillRejected:
    return SkillRejected(f"a skill at {server}: {problem}; it is not to be used", reason=reason)


def _too_big(server: str, limit: str, value: int) -> LimitExceeded:
    return LimitExceeded(f"a skill at {server}: it goes beyond {limit} ({value})", limit=limit)
