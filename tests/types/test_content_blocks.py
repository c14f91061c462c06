"""Content blocks and the contents of resources: kinds, unknown kinds, base64 when asked for."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ferrule.errors import InvalidResult, LimitExceeded
from ferrule.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    GetPromptResult,
    ImageContent,
    ReadResourceResult,
    Resource,
    ResourceLink,
    TextContent,
    TextResourceContents,
    UnknownContent,
)
from tests.types.vectors import ALIEN, AUDIO, BLOB, EMBEDDED, IMAGE, INSIDE, LINK, TEXT


@pytest.mark.req("X1")
def test_blocks_are_told_apart_by_type_and_keep_their_order() -> None:
    sent: list[dict[str, Any]] = [TEXT, IMAGE, AUDIO, LINK, EMBEDDED, ALIEN]
    blocks = CallToolResult.from_wire({"content": sent}).content
    kinds = [TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource]
    assert [type(block) for block in blocks] == [*kinds, UnknownContent]
    assert [block.type for block in blocks] == [block["type"] for block in sent]


@pytest.mark.req("X1", "V4")
def test_a_block_of_an_unknown_type_is_kept_whole() -> None:
    block = CallToolResult.from_wire({"content": [ALIEN]}).content[0]
    assert isinstance(block, UnknownContent)
    assert (block.type, block.raw) == ("hologram", ALIEN)
    assert block.to_wire() == ALIEN
    assert repr(block) == "UnknownContent(type=str[8], raw=dict[3])"


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("text", "content[1]: expected object"),
        (None, "content[1]: expected object"),
        ({}, "content[1].type: expected string"),
        ({"type": None}, "content[1].type: expected string"),
        ({"type": ["text"]}, "content[1].type: expected string"),
        ({"type": "text"}, "content[1].text: expected string"),
        ({"type": "text", "text": None}, "content[1].text: expected string"),
        ({"type": "text", "text": {}}, "content[1].text: expected string"),
        ({"type": "text", "text": "", "annotations": 1}, "content[1].annotations: expected object"),
        (
            {"type": "text", "text": "", "annotations": {"priority": "1"}},
            "content[1].annotations.priority: expected number",
        ),
        ({"type": "image", "data": "AA=="}, "content[1].mimeType: expected string"),
        ({"type": "audio", "mimeType": "a/b"}, "content[1].data: expected string"),
        ({"type": "resource_link", "uri": "a:b"}, "content[1].name: expected string"),
        ({"type": "resource"}, "content[1].resource: expected object"),
        ({"type": "resource", "resource": []}, "content[1].resource: expected object"),
        (
            {"type": "resource", "resource": {"uri": "a:b"}},
            "content[1].resource: expected text or blob",
        ),
        (
            {"type": "resource", "resource": {"text": "x"}},
            "content[1].resource.uri: expected string",
        ),
        (
            {"type": "resource", "resource": {"uri": "a:b", "blob": 1}},
            "content[1].resource.blob: expected string",
        ),
    ],
)
@pytest.mark.req("X1")
def test_a_block_of_a_wrong_shape_is_named(block: Any, problem: str) -> None:
    with pytest.raises(InvalidResult) as caught:
        CallToolResult.from_wire({"content": [TEXT, block]})
    assert str(caught.value) == f"tools/call: {problem}"


@pytest.mark.parametrize("kind", ["image", "hologram", None, 7])
@pytest.mark.req("X1")
def test_a_block_is_not_read_as_one_of_another_type(kind: Any) -> None:
    with pytest.raises(InvalidResult, match=r'^TextContent: type: expected "text"$'):
        TextContent.from_wire({"type": kind, "text": "x"})


@pytest.mark.req("X1")
def test_a_message_of_a_prompt_holds_one_block_of_any_type() -> None:
    wire = {"messages": [{"role": "user", "content": ALIEN}]}
    assert GetPromptResult.from_wire(wire).messages[0].content.type == "hologram"
    with pytest.raises(InvalidResult, match=r"messages\[0\]\.content: expected object$"):
        GetPromptResult.from_wire({"messages": [{"role": "user", "content": [TEXT]}]})


def test_a_resource_link_is_a_resource_and_equal_to_none() -> None:
    link = ResourceLink("chart://12", "chart 12")
    assert isinstance(link, Resource)
    assert link.to_wire() == LINK
    assert link != Resource("chart://12", "chart 12")


@pytest.mark.req("X1")
def test_contents_are_told_apart_by_the_member_they_have() -> None:
    wire = {
        "contents": [
            INSIDE,
            BLOB,
            {"uri": "a:b", "text": None, "blob": "AA=="},
            {"uri": "a:b", "text": "both", "blob": "AA=="},
        ]
    }
    result = ReadResourceResult.from_wire(wire)
    kinds = [TextResourceContents, BlobResourceContents, BlobResourceContents]
    assert [type(part) for part in result.contents] == [*kinds, TextResourceContents]
    assert result.text == "depths in metres\nboth"
    assert result.to_wire() == wire


ANY_DATA = pytest.mark.parametrize(
    "make",
    [
        lambda text: ImageContent(text, "image/png"),
        lambda text: AudioContent(text, "audio/wav"),
        lambda text: BlobResourceContents("a:b", text),
    ],
    ids=["image", "audio", "blob"],
)


@ANY_DATA
@pytest.mark.parametrize("data", [b"", b"\0", b"ab", b"abc", bytes(range(256))])
@pytest.mark.req("X4")
def test_data_is_decoded_when_asked_for(make: Any, data: bytes) -> None:
    text = base64.b64encode(data).decode()
    value = make(text)
    assert value.decode() == data
    assert text in value.to_wire().values()


@ANY_DATA
@pytest.mark.req("X4")
def test_line_ends_in_base64_are_no_fault(make: Any) -> None:
    assert make(base64.encodebytes(b"x" * 200).decode()).decode() == b"x" * 200


@ANY_DATA
@pytest.mark.parametrize("text", ["A", "AA", "AA=", "A===", "====", "AA==AA==", "A-_=", "ä", "é=="])
@pytest.mark.req("X4")
def test_malformed_base64_is_an_invalid_result_when_decoded_and_not_before(make: Any, text: str) -> None:
    value = make(text)
    with pytest.raises(InvalidResult, match=r"expected base64$") as caught:
        value.decode()
    assert caught.value.method == type(value).__name__
    assert caught.value.__context__ is None


@ANY_DATA
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 300])
@pytest.mark.req("X4")
def test_data_is_decoded_up_to_the_limit_and_not_beyond(make: Any, size: int) -> None:
    value = make(base64.b64encode(b"x" * size).decode())
    assert len(value.decode(max_bytes=size)) == size
    for less in range(max(0, size - 3), size):
        with pytest.raises(LimitExceeded, match=f"more than {less} bytes") as caught:
            value.decode(max_bytes=less)
        assert caught.value.limit == "max_bytes"
        assert caught.value.request_sent is True
