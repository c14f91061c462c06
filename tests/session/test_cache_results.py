"""What becomes of answers in a cache that are no plain results: of rounds, of extensions, with hints and without."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Extension
from ferrule.types import ExtensionResult
from tests.support.caches import HOUR
from tests.support.rounds import FORM, accept, needs
from tests.support.steps import answer, turns


def contents(words: str, **more: Any) -> dict[str, Any]:
    """A resource that may be kept."""
    return {**READ, "contents": [{"uri": "demo://a", "text": words}], **more}


READ = {"resultType": "complete", "ttlMs": HOUR, "cacheScope": "public"}


@pytest.mark.req("C4", "C6", "M1")
def test_after_a_refresh_in_rounds_the_older_answer_is_not_served(flavour: Any, serve: Any) -> None:
    rounds = (answer(needs({"who": FORM})), answer(contents("of rounds")))
    server = serve({"resources/read": turns(answer(contents("old")), *rounds, answer(contents("new")))})
    client = flavour.connect(server.url, on_elicitation=accept)

    def read(**options: Any) -> str:
        return str(client.read_resource("demo://a", **options).contents[0].text)

    assert [read(), read(), read(cache="refresh"), read(), read()] == ["old", "old", "of rounds", "new", "new"]
    assert server.count("resources/read") == 4


@pytest.mark.req("C4", "M4")
@pytest.mark.parametrize("mode", ["use", "refresh"])
def test_a_result_of_an_extension_is_not_kept_whatever_its_hints(flavour: Any, serve: Any, mode: Any) -> None:
    partial = {"resultType": "com.example/partial", "ttlMs": HOUR, "cacheScope": "public", "contents": []}
    server = serve({"resources/read": answer(partial)})
    client = flavour.connect(server.url, extensions=[Extension("com.example/x", result_types=["com.example/partial"])])
    for count in (1, 2):
        assert isinstance(client.read_resource("demo://a", cache=mode), ExtensionResult)
        assert server.count("resources/read") == count
    assert client.cache_info().entries == 0


@pytest.mark.req("C1")
def test_one_answer_without_a_hint_does_not_keep_others_from_being_served(flavour: Any, serve: Any) -> None:
    server = serve({"resources/read": answer(lambda one: contents("a") if one.params["uri"] == "demo://a" else BARE)})
    client = flavour.connect(server.url)
    for uri in ("demo://b", "demo://a", "demo://b", "demo://a", "demo://a", "demo://b", "demo://a"):
        client.read_resource(uri)
    read = [one.params["uri"][-1] for one in server.calls("resources/read")]
    # Before the first hint nothing is weighed, so that the answer with it is not kept yet.
    assert read == ["b", "a", "b", "a", "b"]


BARE = {"resultType": "complete", "contents": []}
