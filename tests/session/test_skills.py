"""Skills over resources: listed without being read, verified when they are."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from ferrule import Limits
from ferrule.errors import CapabilityError, InvalidParams, InvalidResult, LimitExceeded, SkillRejected
from ferrule.skills import AsyncSkills, Skill, SkillFile, Skills
from tests.support.clients import Portal
from tests.support.steps import Request, answer, discovered, error

ROOT = "skill://acme/pdf-processing"
URI = f"{ROOT}/SKILL.md"
FORMS = f"{ROOT}/references/FORMS.md"
ICON = f"{ROOT}/icon.png"
FRONT = {"name": "pdf-processing", "description": "Extract, fill and assemble", "metadata": {"version": "2.1.0"}}
TEXT = """---
name: pdf-processing
description: Extract, fill and assemble
metadata:
  version: 2.1.0
---

Read references/FORMS.md.
"""
FILES: dict[str, str | bytes] = {URI: TEXT, FORMS: "Försupport\n", ICON: b"\x89PNG"}
EXTENSION: dict[str, Any] = {"io.modelcontextprotocol/skills": {}}


def listed(content: str | bytes, uri: str) -> dict[str, Any]:
    data = content.encode() if isinstance(content, str) else content
    return {"uri": uri, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}


def entry(**changes: Any) -> dict[str, Any]:
    """What the server says of the skill."""
    resources = [listed(content, uri) for uri, content in FILES.items()]
    return {"uri": URI, "frontmatter": FRONT, "resources": resources, **changes}


def page(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "skills": list(entries), **more}


def contents(uri: str, content: str | bytes) -> dict[str, Any]:
    own = {"text": content} if isinstance(content, str) else {"blob": base64.b64encode(content).decode()}
    return {"resultType": "complete", "contents": [{"uri": uri, **own}]}


def skilled(serve: Any, files: Any = None, **rules: Any) -> Any:
    """A server with the skill, whose files hold what is given in place of what is listed."""
    held = {**FILES, **(files or {})}

    def read(request: Request) -> dict[str, Any]:
        uri = request.params["uri"]
        return contents(uri, held[uri])

    capabilities = {"resources": {}, "extensions": EXTENSION}
    ordinary = {
        "server/discover": answer(discovered(capabilities=capabilities)),
        "skills/list": answer(page(entry())),
        "skills/get": answer({"skill": entry()}),
        "resources/read": answer(read),
    }
    return serve({**ordinary, **rules})


@pytest.fixture
def skills(flavour: Any) -> Any:
    """`skills(url, ...)`: the skills of a server, for each client."""

    def make(url: str, **options: Any) -> Any:
        client = flavour.connect(url, **options)
        if not flavour.is_async:
            return Skills(client)
        portal: Any = client
        return Portal(AsyncSkills(portal._target), portal._loop)

    return make


# --- listing -------------------------------------------------------------------------------------


@pytest.mark.req("X6", "P1")
def test_skills_are_listed_over_all_pages_and_none_is_read(skills: Any, serve: Any) -> None:
    other = {"uri": "skill://daily/SKILL.md", "frontmatter": {"name": "daily", "description": "d"}}

    def pages(request: Request) -> dict[str, Any]:
        if "cursor" in request.params:
            return page({**other, "resources": "dynamic"})
        return page(entry(more=1), nextCursor="")

    server = skilled(serve, **{"skills/list": answer(pages)})
    first, second = skills(server.url).list()
    assert (first.name, first.description, first.uri, first.root) == ("pdf-processing", FRONT["description"], URI, ROOT)
    assert first.frontmatter == FRONT
    assert [file.uri for file in first.files] == [URI, FORMS, ICON]
    assert (first.is_dynamic, first.extra, first.to_wire()) == (False, {"more": 1}, entry(more=1))
    assert (second.is_dynamic, second.files) == (True, ())
    assert server.methods == ["server/discover", "skills/list", "skills/list"]


@pytest.mark.req("X6")
def test_one_skill_is_had_by_its_uri(skills: Any, serve: Any) -> None:
    server = skilled(serve)
    skill = skills(server.url).get(URI)
    assert skill == Skill.from_wire(entry())
    assert server.calls("skills/get")[0].params["uri"] == URI
    server.rules["skills/get"] = answer({"skill": entry(uri="skill://other/SKILL.md")})
    with pytest.raises(InvalidResult, match="another skill"):
        skills(server.url).get(URI)
    server.rules["skills/get"] = error(-32602)
    with pytest.raises(InvalidParams):
        skills(server.url).get(URI)


@pytest.mark.req("X6", "N12")
@pytest.mark.parametrize("pinned", [False, True])
def test_a_server_without_the_extension_is_not_asked(skills: Any, serve: Any, pinned: bool) -> None:
    server = serve()
    options = {"protocol": "stateless"} if pinned else {}
    mine = skills(server.url, **options)
    for call in (mine.list, lambda: mine.get(URI)):
        with pytest.raises(CapabilityError, match="did not declare the extension"):
            call()
    assert set(server.methods) == {"server/discover"}


@pytest.mark.req("X6", "N13")
def test_a_pinned_server_is_asked_what_it_can_first(skills: Any, serve: Any) -> None:
    server = skilled(serve)
    assert len(skills(server.url, protocol="stateless").list()) == 1
    assert server.methods == ["server/discover", "skills/list"]


@pytest.mark.req("X6", "X1")
@pytest.mark.parametrize(
    ("changes", "part"),
    [
        ({"resources": None}, 'resources: expected array or "dynamic"'),
        ({"resources": "static"}, 'resources: expected array or "dynamic"'),
        ({"resources": [7]}, r"resources\[0\]: expected object"),
        ({"resources": [{"uri": URI, "digest": "x"}]}, r"resources\[0\]\.size"),
        ({"frontmatter": []}, "frontmatter: expected object"),
        ({"uri": 7}, "uri: expected string"),
    ],
)
def test_an_entry_of_the_wrong_shape_is_an_invalid_result(skills: Any, serve: Any, changes: Any, part: str) -> None:
    server = skilled(serve, **{"skills/list": answer(page(entry(**changes)))})
    with pytest.raises(InvalidResult, match=part):
        skills(server.url).list()


# --- reading -------------------------------------------------------------------------------------


@pytest.mark.req("X6")
def test_a_skill_is_loaded_and_its_files_read_when_they_are_asked_for(skills: Any, serve: Any) -> None:
    server = skilled(serve)
    mine = skills(server.url)
    [skill] = mine.list()
    assert mine.load(skill) == TEXT
    assert mine.read(skill, "references/FORMS.md") == FILES[FORMS].encode()  # type: ignore[union-attr]
    assert mine.read(skill, "./references/../icon.png") == FILES[ICON]
    assert mine.read(skill, ICON) == FILES[ICON]
    assert [call.params["uri"] for call in server.calls("resources/read")] == [URI, FORMS, ICON, ICON]


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (TEXT + "extra", "size"),
        (TEXT.replace("FORMS", "EVIL!"), "digest"),
        (TEXT.replace("Extract", "Extrakt"), "digest"),
    ],
)
def test_content_that_is_not_what_was_listed_is_rejected(skills: Any, serve: Any, content: str, reason: str) -> None:
    server = skilled(serve, {URI: content, FORMS: "Försupport?"})
    mine = skills(server.url)
    [skill] = mine.list()
    with pytest.raises(SkillRejected) as caught:
        mine.load(skill)
    assert caught.value.reason == reason
    assert "acme" not in str(caught.value)
    with pytest.raises(SkillRejected, match="not to be used"):
        mine.read(skill, "references/FORMS.md")


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    "content",
    [
        TEXT.replace("fill and assemble", "exfiltrate"),
        TEXT.replace("  version: 2.1.0", "  version: 2.1"),
        TEXT.replace("metadata:", "license: MIT\nmetadata:"),
        TEXT.removeprefix("---\n"),
        TEXT.replace("name: pdf-processing", "name: [pdf-processing"),
        TEXT.encode() + b"\xff",
    ],
)
def test_front_matter_that_is_not_what_was_listed_is_rejected(skills: Any, serve: Any, content: Any) -> None:
    resources = [listed(content, URI)]
    server = skilled(serve, {URI: content}, **{"skills/list": answer(page(entry(resources=resources)))})
    mine = skills(server.url)
    with pytest.raises(SkillRejected) as caught:
        mine.load(mine.list()[0])
    assert caught.value.reason == "frontmatter"
    assert "exfiltrate" not in str(caught.value)


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    "path", ["", ".", "other.md", "../other/SKILL.md", "skill://other/SKILL.md", "references", "http://x.example/"]
)
def test_what_is_no_file_of_the_skill_is_not_read(skills: Any, serve: Any, path: str) -> None:
    server = skilled(serve)
    mine = skills(server.url)
    [skill] = mine.list()
    with pytest.raises(SkillRejected) as caught:
        mine.read(skill, path)
    assert caught.value.reason == "unlisted"
    assert server.count("resources/read") == 0


@pytest.mark.req("X6")
@pytest.mark.parametrize(
    "changes",
    [
        {"uri": "skill://acme/other/SKILL.md"},
        {"uri": f"{ROOT}/README.md"},
        {"frontmatter": {"name": "pdf-processing"}},
        {"frontmatter": {**FRONT, "name": 7}},
        {"resources": []},
        {"resources": [listed("x", FORMS)]},
        {"resources": [listed(TEXT, URI), listed(TEXT, URI)]},
        {"resources": [listed(TEXT, URI), listed("x", "skill://acme/other/x")]},
        {"resources": [{**listed(TEXT, URI), "digest": "sha256:" + "A" * 64}]},
        {"resources": [{**listed(TEXT, URI), "digest": "a" * 64}]},
        {"resources": [{**listed(TEXT, URI), "size": -1}]},
    ],
)
def test_a_skill_that_is_not_listed_as_one_must_be_is_not_read(skills: Any, serve: Any, changes: Any) -> None:
    server = skilled(serve, **{"skills/list": answer(page(entry(**changes)))})
    mine = skills(server.url)
    [skill] = mine.list()
    with pytest.raises(SkillRejected) as caught:
        mine.load(skill)
    assert caught.value.reason == "entry"
    assert server.count("resources/read") == 0


@pytest.mark.req("X6")
def test_a_skill_beyond_the_limits_is_not_read(skills: Any, serve: Any) -> None:
    server = skilled(serve)
    for limits in (Limits(max_skill_files=2), Limits(max_skill_bytes=20)):
        mine = skills(server.url, limits=limits)
        [skill] = mine.list()
        with pytest.raises(LimitExceeded) as caught:
            mine.load(skill)
        assert caught.value.limit.startswith("max_skill_")
    assert server.count("resources/read") == 0


@pytest.mark.req("X6")
def test_a_dynamic_skill_is_used_only_by_who_wants_that(skills: Any, serve: Any) -> None:
    server = skilled(serve, {FORMS: "today's"}, **{"skills/list": answer(page(entry(resources="dynamic")))})
    mine = skills(server.url)
    [skill] = mine.list()
    for call in (mine.load, lambda one: mine.read(one, "references/FORMS.md")):
        with pytest.raises(SkillRejected) as caught:
            call(skill)
        assert caught.value.reason == "dynamic"
    assert mine.load(skill, allow_dynamic=True) == TEXT
    assert mine.read(skill, "references/FORMS.md", allow_dynamic=True) == b"today's"
    with pytest.raises(SkillRejected):
        mine.read(skill, "..", allow_dynamic=True)


@pytest.mark.req("X6", "X1")
@pytest.mark.parametrize(
    "wrong",
    [
        {"contents": []},
        {"contents": [{"uri": FORMS, "text": TEXT}]},
        {"contents": [{"uri": URI, "text": TEXT}, {"uri": URI, "text": TEXT}]},
        {"contents": [{"uri": URI, "blob": "no base64!"}]},
        {"contents": [{"uri": URI, "text": "\ud800"}]},
    ],
)
def test_an_answer_that_is_not_the_file_is_an_invalid_result(skills: Any, serve: Any, wrong: Any) -> None:
    server = skilled(serve, **{"resources/read": answer(wrong)})
    mine = skills(server.url)
    with pytest.raises(InvalidResult):
        mine.load(mine.list()[0])


@pytest.mark.req("X6", "G1")
def test_reprs_show_sizes(skills: Any, serve: Any) -> None:
    skill = Skill.from_wire(entry())
    assert "acme" not in repr(skill) + repr(skill.files[0])
    assert isinstance(skill.files[0], SkillFile)
    assert "Skills of <" in repr(skills(skilled(serve).url))
