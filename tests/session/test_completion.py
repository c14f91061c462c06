"""Completion of arguments in both eras and over both wires."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.errors import CapabilityError, InvalidResult
from ferrule.types import Completion, PromptReference, ResourceTemplateReference
from tests.support import child as on_stdio
from tests.support.pushes import ALL, opened, opening
from tests.support.steps import answer, discovered

VALUES = {"completion": {"values": ["python", "pytorch"], "total": 10, "hasMore": True, "new": 1}}


def completing(serve: Any, era: str, **rules: Any) -> Any:
    first = (
        {"server/discover": answer(discovered(capabilities=ALL))} if era == "stateless" else {"initialize": opening()}
    )
    return serve({**first, "completion/complete": answer(VALUES), **rules}, era=era)


@pytest.mark.req("N12", "X1")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_an_argument_is_completed_by_the_server(flavour: Any, serve: Any, era: str) -> None:
    server = completing(serve, era)
    client = flavour.connect(server.url)
    found = client.complete(PromptReference("review"), ("language", "py"), context={"style": "short"}, meta={"a": 1})
    assert found.completion == Completion.from_wire(VALUES["completion"])
    assert found.completion.values == ("python", "pytorch")
    assert (found.completion.total, found.completion.has_more) == (10, True)
    params = server.requests[-1].params
    assert params["ref"] == {"type": "ref/prompt", "name": "review"}
    assert params["argument"] == {"name": "language", "value": "py"}
    assert params["context"] == {"arguments": {"style": "short"}}
    assert params["_meta"]["a"] == 1


def test_references_and_arguments_may_be_mappings_in_the_schemas_form(flavour: Any, serve: Any) -> None:
    server = completing(serve, "handshake")
    client = flavour.connect(server.url)
    client.complete({"type": "ref/prompt", "name": "p", "new": 1}, {"name": "a", "value": ""})
    assert server.requests[-1].params == {
        "ref": {"type": "ref/prompt", "name": "p", "new": 1},
        "argument": {"name": "a", "value": ""},
    }
    client.complete(ResourceTemplateReference("file:///{path}"), ("path", "/e"))
    assert server.requests[-1].params["ref"] == {"type": "ref/resource", "uri": "file:///{path}"}


@pytest.mark.parametrize(("ref", "argument"), [("p", ("a", "b")), (PromptReference("p"), "a"), (None, ("a", "b"))])
def test_what_is_no_reference_or_argument_is_a_type_error(flavour: Any, serve: Any, ref: Any, argument: Any) -> None:
    with pytest.raises(TypeError, match="expected a"):
        flavour.client(serve().url).complete(ref, argument)


@pytest.mark.req("N12")
def test_a_server_that_completes_nothing_is_not_asked(flavour: Any, serve: Any) -> None:
    server = serve({"initialize": opening({"prompts": {}})}, era="handshake")
    with pytest.raises(CapabilityError, match="completions"):
        flavour.connect(server.url).complete(PromptReference("p"), ("a", "b"))
    assert server.count("completion/complete") == 0


@pytest.mark.req("N12")
def test_at_2024_11_05_no_server_declares_completion_and_all_are_asked(flavour: Any, serve: Any) -> None:
    old = {"initialize": opening({"prompts": {}}, version="2024-11-05")}
    server = completing(serve, "handshake", **old)
    found = flavour.connect(server.url).complete(PromptReference("p"), ("a", "b"))
    assert found.completion.values == ("python", "pytorch")


@pytest.mark.req("X1")
def test_a_completion_of_the_wrong_shape_is_an_invalid_result(flavour: Any, serve: Any) -> None:
    server = completing(serve, "handshake", **{"completion/complete": answer({"completion": {"values": [7]}})})
    with pytest.raises(InvalidResult, match=r"completion\.values\[0\]: expected string"):
        flavour.connect(server.url).complete(PromptReference("p"), ("a", "b"))


def test_completion_works_over_stdio(flavour: Any, child: Any) -> None:
    rules = {"initialize": [opened()], "completion/complete": [[on_stdio.answer(VALUES)]]}
    client = flavour.connect(child(rules, era="handshake").stdio())
    assert client.complete(PromptReference("p"), ("a", "b")).completion.total == 10
