"""Lists in pages: all of them, one of them, one item after another; whatever the cursors look like."""

from collections.abc import Callable
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import HTTPStatusError, InvalidParams, InvalidResult, LimitExceeded
from tests.support.steps import Request, Step, answer, error, status, turns

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
ONCE = Retry(attempts=1)

LISTS: dict[str, tuple[str, str, Callable[[int], Any]]] = {
    "tools": ("tools/list", "tools", lambda n: {"name": f"t{n}", "inputSchema": {"type": "object"}}),
    "resources": ("resources/list", "resources", lambda n: {"uri": f"demo://{n}", "name": f"t{n}"}),
    "resource_templates": (
        "resources/templates/list",
        "resourceTemplates",
        lambda n: {"uriTemplate": f"demo://{n}/{{x}}", "name": f"t{n}"},
    ),
    "prompts": ("prompts/list", "prompts", lambda n: {"name": f"t{n}"}),
}
KINDS = pytest.mark.parametrize("kind", LISTS)


def pages(kind: str, sizes: list[int], cursors: list[str]) -> Step:
    """Pages of these sizes; the cursor that leads to page n + 1 is `cursors[n]`."""
    _, member, item = LISTS[kind]
    given = iter(range(len(sizes)))

    def page(request: Request) -> dict[str, Any]:
        number = next(given)
        start = sum(sizes[:number])
        result: dict[str, Any] = {member: [item(n) for n in range(start, start + sizes[number])]}
        if number < len(cursors):
            result["nextCursor"] = cursors[number]
        return {**result, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}

    return answer(page)


def cursors_sent(server: Any, method: str) -> list[Any]:
    return [request.params.get("cursor", ...) for request in server.calls(method)]


@pytest.mark.req("P1")
@KINDS
@ERAS
def test_all_pages_are_gathered_in_order(flavour: Any, serve: Any, kind: str, era: str) -> None:
    method = LISTS[kind][0]
    server = serve({method: pages(kind, [2, 0, 3], ["a", "b"])}, era=era)
    items = getattr(flavour.connect(server.url), f"list_{kind}")()
    assert [item.name for item in items] == ["t0", "t1", "t2", "t3", "t4"]
    assert cursors_sent(server, method) == [..., "a", "b"]


@pytest.mark.req("P1")
@KINDS
def test_lazy_iteration_fetches_a_page_when_it_is_needed(flavour: Any, serve: Any, kind: str) -> None:
    method = LISTS[kind][0]
    server = serve({method: pages(kind, [2, 2], ["a"])})
    items = iter(getattr(flavour.connect(server.url), f"iter_{kind}")())
    assert server.count(method) == 0
    assert [next(items).name, next(items).name] == ["t0", "t1"]
    assert server.count(method) == 1
    assert [item.name for item in items] == ["t2", "t3"]
    assert server.count(method) == 2
    assert next(items, None) is None


@pytest.mark.req("P1")
@KINDS
def test_one_page_comes_with_the_cursor_of_the_next(flavour: Any, serve: Any, kind: str) -> None:
    method, member, _ = LISTS[kind]
    server = serve({method: pages(kind, [1, 1], ["a"])})
    fetch = getattr(flavour.connect(server.url), f"list_{kind}_page")
    first = fetch()
    assert first.next_cursor == "a"
    second = fetch(first.next_cursor)
    assert second.next_cursor is None
    attribute = "resource_templates" if kind == "resource_templates" else member
    assert [item.name for page in (first, second) for item in getattr(page, attribute)] == ["t0", "t1"]
    assert cursors_sent(server, method) == [..., "a"]


@pytest.mark.req("P1")
@ERAS
@pytest.mark.parametrize(
    "cursors",
    [["", ""], ["same", "same"], ["b", "a"], ["null", "0"], ["\u2028 ü 😀\0", "x" * 10_000]],
    ids=["empty", "repeated", "backwards", "look like nothing", "odd"],
)
def test_cursors_go_back_as_they_came_and_are_never_judged(
    flavour: Any, serve: Any, cursors: list[str], era: str
) -> None:
    server = serve({"tools/list": pages("tools", [1, 1, 1], cursors)}, era=era)
    tools = flavour.connect(server.url).list_tools()
    assert [tool.name for tool in tools] == ["t0", "t1", "t2"]
    assert cursors_sent(server, "tools/list") == [..., *cursors]


@pytest.mark.req("P1")
def test_an_empty_cursor_of_the_callers_is_sent(flavour: Any, serve: Any) -> None:
    server = serve()
    flavour.connect(server.url).list_tools_page("")
    assert cursors_sent(server, "tools/list") == [""]


@pytest.mark.req("P1")
@pytest.mark.parametrize("way", ["list_tools", "iter_tools"])
def test_more_pages_than_the_limit_are_an_error_and_never_a_cut_list(flavour: Any, serve: Any, way: str) -> None:
    limits = Limits(max_pages=3)
    fits = serve({"tools/list": pages("tools", [1, 1, 1], ["a", "b"])})
    assert len(list(getattr(flavour.connect(fits.url, limits=limits), way)())) == 3
    server = serve({"tools/list": pages("tools", [1] * 9, ["a"] * 9)})
    client = flavour.connect(server.url, limits=limits)
    with pytest.raises(LimitExceeded, match="tools/list") as caught:
        list(getattr(client, way)())
    assert caught.value.limit == "max_pages"
    assert server.count("tools/list") == 3


@pytest.mark.req("P1")
@pytest.mark.parametrize("way", ["list_prompts", "iter_prompts"])
def test_more_items_than_the_limit_are_an_error_and_never_a_cut_list(flavour: Any, serve: Any, way: str) -> None:
    limits = Limits(max_items=5)
    fits = serve({"prompts/list": pages("prompts", [3, 2], ["a"])})
    assert len(list(getattr(flavour.connect(fits.url, limits=limits), way)())) == 5
    server = serve({"prompts/list": pages("prompts", [3, 3], ["a"])})
    with pytest.raises(LimitExceeded) as caught:
        list(getattr(flavour.connect(server.url, limits=limits), way)())
    assert caught.value.limit == "max_items"


@pytest.mark.req("P1")
def test_the_default_limits_are_a_thousand_pages_and_a_hundred_thousand_items() -> None:
    assert (Limits().max_pages, Limits().max_items) == (1000, 100_000)


@pytest.mark.req("P1", "T1")
def test_a_list_that_never_ends_costs_no_more_than_the_timeout(flavour: Any, serve: Any) -> None:
    def page(turn: Any) -> None:
        turn.server._closing.wait(0.02)
        answer({"tools": [], "nextCursor": "on", "resultType": "complete"})(turn)

    server = serve({"tools/list": page})
    with pytest.raises(TimeoutError):
        flavour.connect(server.url).list_tools(timeout=0.3)
    assert 2 < server.count("tools/list") < 100


@pytest.mark.req("P1", "X1")
@pytest.mark.parametrize("cursor", [7, True, {}, ["a"]])
def test_a_cursor_that_is_no_text_is_an_invalid_result(flavour: Any, serve: Any, cursor: Any) -> None:
    server = serve({"tools/list": answer({"tools": [], "nextCursor": cursor})})
    with pytest.raises(InvalidResult, match="tools/list: nextCursor"):
        flavour.connect(server.url).list_tools()


@pytest.mark.req("P1")
def test_a_null_cursor_is_none(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": answer({"tools": [], "nextCursor": None})})
    assert flavour.connect(server.url).list_tools() == []
    assert server.count("tools/list") == 1


@pytest.mark.req("P1", "R4")
def test_a_page_that_fails_fails_the_list_and_lazy_iteration_can_go_on_there(flavour: Any, serve: Any) -> None:
    ask = pages("tools", [1, 1], ["a"])
    server = serve({"tools/list": turns(ask, status(500), ask)})
    client = flavour.connect(server.url, retry=ONCE)
    items: Any = client.iter_tools()
    step = items.__anext__ if flavour.is_async else items.__next__
    assert step().name == "t0"
    with pytest.raises(HTTPStatusError):
        step()
    # A generator would be over after an error; this is none.
    assert step().name == "t1"
    assert cursors_sent(server, "tools/list") == [..., "a", "a"]


@pytest.mark.req("P1")
def test_a_refused_cursor_is_the_servers_error(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": turns(pages("tools", [1], ["gone"]), error(-32602, "bad cursor"))})
    with pytest.raises(InvalidParams):
        flavour.connect(server.url).list_tools()


@pytest.mark.req("P1")
def test_a_page_is_asked_for_again_after_an_outage(flavour: Any, serve: Any) -> None:
    ask = pages("tools", [1, 1], ["a"])
    server = serve({"tools/list": turns(ask, status(503), ask)})
    tools = flavour.connect(server.url, retry=Retry(backoff=0.01)).list_tools()
    assert [tool.name for tool in tools] == ["t0", "t1"]
    assert cursors_sent(server, "tools/list") == [..., "a", "a"]
