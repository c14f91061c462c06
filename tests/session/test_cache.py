"""What is kept, for how long, and what is served: the rules of the response cache (server/utilities/caching)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ferrule import CacheInfo, Limits, MemoryCache, Retry
from ferrule.errors import (
    ConfigError,
    ConnectionClosed,
    HTTPStatusError,
    InputRequired,
    InvalidParams,
    InvalidResult,
    RPCError,
)
from tests.support.caches import HOUR, WAYS, Table, hinted, tools
from tests.support.rounds import FORM
from tests.support.steps import TOOL, Request, answer, error, reset, status, text, turns

EACH = pytest.mark.parametrize("way", WAYS)
ONCE = Retry(attempts=1)


def names(found: Any) -> list[str]:
    return [tool.name for tool in found]


def soon(holds: Any) -> None:
    """Wait, within bounds, for what time alone brings."""
    for _ in range(2000):
        if holds():
            return
        threading.Event().wait(0.002)
    raise AssertionError("it never came")


# --- fresh, and for how long ---------------------------------------------------------------------


@pytest.mark.req("C1")
@EACH
@pytest.mark.parametrize("scope", ["public", "private"])
def test_an_answer_is_used_while_it_is_fresh(flavour: Any, serve: Any, way: str, scope: str) -> None:
    method, ask = WAYS[way]
    server = serve(hinted(scope=scope))
    client = flavour.connect(server.url)
    before = server.count(method)
    first = ask(client)
    assert ask(client) == first
    assert ask(client) == first
    assert server.count(method) == before + 1
    assert client.cache_info().hits == 2
    assert client.cache_info().misses == 1


@pytest.mark.req("C1")
@pytest.mark.parametrize("ttl", [0, -1, -HOUR, ..., None, "3600000", 3600000.5, True, [HOUR]])
def test_an_answer_without_a_time_that_makes_sense_is_not_kept(flavour: Any, serve: Any, ttl: Any) -> None:
    server = serve(hinted(ttl=ttl))
    client = flavour.connect(server.url)
    for _ in range(3):
        assert names(client.list_tools()) == ["echo"]
    assert server.count("tools/list") == 3
    assert client.cache_info().entries == 0


@pytest.mark.req("C1")
def test_an_answer_is_asked_for_again_when_its_time_is_over(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": turns(answer(tools("old", ttl=1)), answer(tools("new")))})
    client = flavour.connect(server.url)
    assert names(client.list_tools()) == ["old"]
    soon(lambda: names(client.list_tools()) == ["new"])
    assert server.count("tools/list") == 2


@pytest.mark.req("C1")
@pytest.mark.parametrize(
    ("ttl", "limit", "seconds"),
    [(5_000, 86400.0, 5.0), (10**12, 86400.0, 86400.0), (10**400, 86400.0, 86400.0), (HOUR, 7.0, 7.0)],
)
def test_the_time_counts_from_when_the_answer_came_and_has_an_upper_bound(
    flavour: Any, serve: Any, ttl: int, limit: float, seconds: float
) -> None:
    table = Table()
    server = serve(hinted(ttl=ttl))
    client = flavour.connect(server.url, cache=table, limits=Limits(max_cache_age=limit))
    client.list_tools()
    ((kept),) = [seconds for key, seconds in table.seconds.items() if key[:1] == b"a"]
    assert seconds - 5 < kept <= seconds


@pytest.mark.req("C1")
def test_a_server_that_begins_to_give_hints_is_believed_from_the_next_answer_on(flavour: Any, serve: Any) -> None:
    bare = {key: value for key, value in tools("a").items() if key != "ttlMs"}
    server = serve({"tools/list": turns(answer(bare), answer(bare), answer(tools("b")))})
    client = flavour.connect(server.url)
    for _ in range(6):
        client.list_tools()
    # Two without hints, the one that brought them unasked, and one that was weighed.
    assert server.count("tools/list") == 4


@pytest.mark.req("C1", "N13")
def test_what_a_server_says_of_itself_is_refreshed_by_its_time(flavour: Any, serve: Any) -> None:
    from tests.support.steps import discovered

    first = {**discovered(), "instructions": "one", "ttlMs": 1}
    later = {**discovered(), "instructions": "two", "ttlMs": HOUR}
    server = serve({"server/discover": turns(answer(first), answer(first), answer(later))})
    client = flavour.connect(server.url)
    assert client.discover().instructions == client.instructions == "one"
    soon(lambda: client.discover().instructions == "two")
    assert client.instructions == "two"
    client.discover()
    assert server.count("server/discover") == 3


@pytest.mark.req("N13")
def test_without_discover_a_kept_answer_still_says_who_the_server_is(flavour: Any, serve: Any) -> None:
    from tests.support.steps import SERVER_INFO, SERVER_INFO_KEY

    store = MemoryCache()
    server = serve({"tools/list": answer({**tools("a"), "_meta": {SERVER_INFO_KEY: SERVER_INFO}})})
    for _ in range(2):
        client = flavour.client(server.url, protocol="stateless", cache=store)
        client.list_tools()
        assert client.server_info is not None
        assert client.server_info.name == "scripted"
        assert client.server_capabilities is None
    assert server.methods == ["tools/list"]


# --- what is never kept --------------------------------------------------------------------------


@pytest.mark.req("C4")
def test_a_question_back_is_not_kept(flavour: Any, serve: Any) -> None:
    asks = {
        "resultType": "input_required",
        "inputRequests": {"who": FORM},
        "requestState": "s",
        "ttlMs": HOUR,
        "cacheScope": "public",
    }
    server = serve({"resources/read": answer(asks)})
    client = flavour.connect(server.url)
    for _ in range(2):
        with pytest.raises(InputRequired):
            client.read_resource("demo://a")
    assert server.count("resources/read") == 2
    assert client.cache_info().entries == 0


@pytest.mark.req("C4")
def test_errors_and_wrong_shapes_are_not_kept(flavour: Any, serve: Any) -> None:
    wrong = {**tools(), "tools": 7}
    server = serve({"tools/list": turns(error(-32000), answer(wrong), answer(tools("a")))})
    client = flavour.connect(server.url)
    for kind in (RPCError, InvalidResult):
        with pytest.raises(kind):
            client.list_tools()
    assert [names(client.list_tools()) for _ in range(2)] == [["a"], ["a"]]
    assert server.count("tools/list") == 3


@pytest.mark.req("C4")
def test_calls_prompts_completions_and_raw_requests_are_not_kept(flavour: Any, serve: Any) -> None:
    hints = {"ttlMs": HOUR, "cacheScope": "public"}
    server = serve({"tools/call": answer(text("a", **hints)), **hinted()})
    server.rules["prompts/get"] = answer({"messages": [], "resultType": "complete", **hints})
    client = flavour.connect(server.url)
    for _ in range(2):
        client.call_tool("echo", {})
        client.get_prompt("greet")
        client.request("tools/list")
        client.ping()
    counts = [server.count(one) for one in ("tools/call", "prompts/get", "tools/list", "server/discover")]
    assert counts == [2, 2, 2, 3]


# --- as the caller wishes ------------------------------------------------------------------------


@pytest.mark.req("C6")
@EACH
def test_a_caller_may_refresh_what_is_kept_or_go_past_it(flavour: Any, serve: Any, way: str) -> None:
    method, ask = WAYS[way]
    server = serve(hinted())
    client = flavour.connect(server.url)
    before = server.count(method)
    ask(client, cache="bypass")
    ask(client, cache="use")
    ask(client, cache="bypass")
    assert server.count(method) == before + 3
    ask(client, cache="refresh")
    assert server.count(method) == before + 4
    ask(client)
    assert server.count(method) == before + 4


@pytest.mark.req("C6")
def test_what_a_refresh_brings_is_what_is_kept(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": turns(answer(tools("a")), answer(tools("b")), answer(tools("c")))})
    client = flavour.connect(server.url)
    assert names(client.list_tools()) == ["a"]
    assert names(client.list_tools(cache="refresh")) == ["b"]
    assert names(client.list_tools(cache="bypass")) == ["c"]
    assert names(client.list_tools()) == ["b"]


@pytest.mark.req("C6", "C1")
@pytest.mark.parametrize("ttl", [0, -1, None])
def test_what_a_refresh_brings_ends_what_was_kept_before(flavour: Any, serve: Any, ttl: Any) -> None:
    server = serve({"tools/list": turns(answer(tools("a")), answer(tools("b", ttl=ttl)), answer(tools("c")))})
    client = flavour.connect(server.url)
    assert names(client.list_tools()) == ["a"]
    assert names(client.list_tools(cache="refresh")) == ["b"]
    assert names(client.list_tools()) == ["c"]


@pytest.mark.req("C6")
@EACH
def test_any_other_wish_is_a_config_error(flavour: Any, serve: Any, way: str) -> None:
    client = flavour.connect(serve().url)
    with pytest.raises(ConfigError, match="use"):
        WAYS[way][1](client, cache="never")


@pytest.mark.req("C6")
def test_a_client_without_a_cache_keeps_nothing(flavour: Any, serve: Any) -> None:
    server = serve(hinted())
    client = flavour.connect(server.url, cache=None)
    client.list_tools()
    client.list_tools(cache="refresh")
    client.clear_cache()
    assert server.count("tools/list") == 2
    assert client.cache_info() == CacheInfo(entries=0, bytes=0)


@pytest.mark.req("C6")
@EACH
def test_clear_cache_has_everything_asked_for_again(flavour: Any, serve: Any, way: str) -> None:
    method, ask = WAYS[way]
    server = serve(hinted())
    client = flavour.connect(server.url)
    before = server.count(method)
    ask(client)
    client.clear_cache()
    assert client.cache_info().entries == 0
    ask(client)
    ask(client)
    assert server.count(method) == before + 2


@pytest.mark.req("C6")
def test_cache_info_counts_answers_and_bytes(flavour: Any, serve: Any) -> None:
    client = flavour.connect(serve(hinted()).url)
    assert client.cache_info() == CacheInfo(0, 0, 0, 0, 0)
    client.list_tools()
    client.read_resource("demo://a")
    client.read_resource("demo://b")
    client.list_tools()
    info = client.cache_info()
    assert (info.hits, info.stale_hits, info.misses, info.entries) == (1, 0, 3, 3)
    assert 300 < info.bytes < 5000
    table = flavour.connect(serve(hinted()).url, cache=Table())
    table.list_tools()
    assert table.cache_info() == CacheInfo(misses=1)


@pytest.mark.req("C6")
@pytest.mark.parametrize("trouble", [status(503), reset(), status(429)])
def test_a_stale_answer_is_served_while_the_server_cannot_be_asked(flavour: Any, serve: Any, trouble: Any) -> None:
    server = serve({"tools/list": turns(answer(tools("old", ttl=1)), trouble)})
    client = flavour.connect(server.url, stale_if_error=60.0, retry=ONCE)
    client.list_tools()
    soon(lambda: client.cache_info().stale_hits or not client.list_tools())
    assert names(client.list_tools()) == ["old"]
    server.rules["tools/list"] = answer(tools("new"))
    assert names(client.list_tools()) == ["new"]


@pytest.mark.req("C6")
def test_a_stale_answer_is_served_when_the_server_says_nothing_in_time(flavour: Any, serve: Any) -> None:
    from tests.support.steps import hang

    server = serve({"tools/list": turns(answer(tools("old", ttl=1)), hang())})
    client = flavour.connect(server.url, stale_if_error=60.0)
    client.list_tools()
    soon(lambda: client.cache_info().stale_hits or not client.list_tools(timeout=0.1))
    assert server.count("tools/list") == 2


@pytest.mark.req("C6")
@pytest.mark.parametrize("refusal", [error(-32000), error(-32602), status(400), status(403), answer({"tools": 7})])
def test_a_refusal_is_never_covered_by_a_stale_answer(flavour: Any, serve: Any, refusal: Any) -> None:
    server = serve({"tools/list": turns(answer(tools("old", ttl=1)), refusal)})
    client = flavour.connect(server.url, stale_if_error=60.0, retry=ONCE)
    client.list_tools()

    def refused() -> bool:
        try:
            client.list_tools()
        except Exception as problem:
            return not isinstance(problem, HTTPStatusError) or problem.status < 500
        return False

    soon(refused)
    assert client.cache_info().stale_hits == 0


@pytest.mark.req("C6")
def test_stale_answers_are_not_served_unless_asked_nor_after_they_were_dropped(flavour: Any, serve: Any) -> None:
    rules = turns(answer(tools("old", ttl=1)), status(503))
    plain = flavour.connect(serve({"tools/list": rules}).url, retry=ONCE)
    plain.list_tools()

    def fails(client: Any) -> bool:
        try:
            client.list_tools()
        except HTTPStatusError:
            return True
        return False

    soon(lambda: fails(plain))
    server = serve({"tools/list": turns(answer(tools("old", ttl=1)), status(503))})
    client = flavour.connect(server.url, retry=ONCE, stale_if_error=60.0)
    client.list_tools()
    soon(lambda: client.cache_info().stale_hits or not client.list_tools())
    client.clear_cache()
    assert fails(client)
    client.close()
    with pytest.raises(ConnectionClosed):
        client.list_tools()


@pytest.mark.req("C6", "T7")
def test_a_closed_client_serves_nothing(flavour: Any, serve: Any) -> None:
    client = flavour.connect(serve(hinted()).url)
    view = client.with_options(timeout=5.0)
    client.list_tools()
    view.list_tools()
    client.close()
    for one in (client, view):
        with pytest.raises(ConnectionClosed, match="closed"):
            one.list_tools()


# --- as nobody else's to change, within bounds ---------------------------------------------------


@pytest.mark.req("C5")
def test_what_a_caller_does_to_an_answer_reaches_nobody_else(flavour: Any, serve: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1]}}}
    tool = {**TOOL, "inputSchema": schema, "_meta": {"a": [1]}, "annotations": {"odd": [1]}, "odd": {"b": 1}}
    page = {**tools(), "tools": [tool], "_meta": {"m": [1]}}
    client = flavour.connect(
        serve({"tools/list": answer(page), **hinted(prompts=1)} | {"tools/list": answer(page)}).url
    )
    for _ in range(3):
        found = client.list_tools_page()
        (one,) = found.tools
        assert (one.input_schema, one.meta, one.annotations.extra, one.extra, found.meta) == (
            schema,
            {"a": [1]},
            {"odd": [1]},
            {"odd": {"b": 1}},
            {"m": [1]},
        )
        for part in (one.input_schema["properties"], one.meta["a"], one.annotations.extra, one.extra, found.meta):
            part.clear()
    for _ in range(3):
        prompts = client.list_prompts_page()
        assert prompts.extra == {}
        prompts.meta["x"] = 1
        assert "x" not in client.list_prompts_page().meta


@pytest.mark.req("C5", "W10")
def test_numbers_and_texts_of_any_kind_are_kept_exactly(flavour: Any, serve: Any) -> None:
    schema = {"type": "object", "maximum": 10**30, "default": 0.1, "title": "\ud800"}
    page = {**tools(), "tools": [{**TOOL, "inputSchema": schema}]}
    server = serve({"tools/list": answer(page)})
    client = flavour.connect(server.url)
    assert [client.list_tools()[0].input_schema for _ in range(2)] == [schema, schema]
    assert server.count("tools/list") == 1


@pytest.mark.req("C5")
def test_what_is_kept_is_bounded_in_bytes_and_entries(flavour: Any, serve: Any) -> None:
    server = serve(hinted())
    for limits in (Limits(max_cache_bytes=2_000), Limits(max_cache_entries=6)):
        client = flavour.connect(server.url, limits=limits)
        for number in range(50):
            client.read_resource(f"demo://{number}")
            info = client.cache_info()
            assert info.bytes <= limits.max_cache_bytes
            assert info.entries <= limits.max_cache_entries
        assert client.cache_info().entries >= 2
        sent = server.count("resources/read")
        client.read_resource("demo://49")
        client.read_resource("demo://0")
        assert server.count("resources/read") == sent + 1


# --- pages ---------------------------------------------------------------------------------------


@pytest.mark.req("C7")
def test_pages_are_kept_one_by_one(flavour: Any, serve: Any) -> None:
    pages = {None: tools("a", cursor="1"), "1": tools("b", cursor="", ttl=0), "": tools("c")}

    def page(request: Request) -> Any:
        return pages[request.params.get("cursor")]

    server = serve({"tools/list": answer(page)})
    client = flavour.connect(server.url)
    assert client.list_tools_page("").tools[0].name == "c"
    for _ in range(3):
        assert names(client.list_tools()) == ["a", "b", "c"]
    assert [call.params.get("cursor") for call in server.calls("tools/list")] == ["", None, "1", "1", "1"]


@pytest.mark.req("C7")
def test_a_rejected_cursor_drops_the_pages_and_starts_the_list_over_once(flavour: Any, serve: Any) -> None:
    rules = turns(
        answer(tools("a", cursor="old")), error(-32602), answer(tools("a", cursor="new")), answer(tools("b")), error(-1)
    )
    server = serve({"tools/list": rules})
    client = flavour.connect(server.url)
    client.list_tools_page()
    assert names(client.list_tools()) == ["a", "b"]
    assert names(client.list_tools()) == ["a", "b"]
    assert [call.params.get("cursor") for call in server.calls("tools/list")] == [None, "old", None, "new"]


@pytest.mark.req("C7")
def test_a_list_is_started_over_once_only_and_never_for_its_first_page(flavour: Any, serve: Any) -> None:
    def page(turn: Any) -> None:
        refused = "cursor" in turn.request.params
        (error(-32602) if refused else answer(tools("a", cursor="x")))(turn)

    server = serve({"tools/list": page, "prompts/list": error(-32602)})
    client = flavour.connect(server.url)
    with pytest.raises(InvalidParams):
        client.list_tools()
    assert [call.params.get("cursor") for call in server.calls("tools/list")] == [None, "x", None, "x"]
    with pytest.raises(InvalidParams):
        client.list_prompts()
    assert server.count("prompts/list") == 1


@pytest.mark.req("C7")
def test_a_rejected_cursor_of_the_callers_is_raised_and_drops_the_pages(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": turns(answer(tools("a", cursor="x")), error(-32602), answer(tools("b")))})
    client = flavour.connect(server.url)
    cursor = client.list_tools_page().next_cursor
    with pytest.raises(InvalidParams):
        client.list_tools_page(cursor)
    assert names(client.list_tools_page().tools) == ["b"]
