"""Whose answer is whose: what sets questions apart in a store that clients share, and what sets callers apart."""

from __future__ import annotations

import json
import ssl
from contextlib import suppress
from typing import Any

import pytest

from ferrule import MemoryCache, Tcp
from tests.support.caches import HOUR, Table, hinted, tools
from tests.support.steps import Request, answer

SCOPES = pytest.mark.parametrize("scope", ["public", "private"])


def asked(flavour: Any, server: Any, store: Any, url: str | None = None, **options: Any) -> int:
    """How many requests a new client needs for a list that lies in the store, perhaps."""
    before = server.count("tools/list")
    client = flavour.client(url or server.url, cache=store, protocol="stateless", **options)
    client.list_tools()
    return int(server.count("tools/list") - before)


# --- questions -----------------------------------------------------------------------------------


@pytest.mark.req("C2")
@SCOPES
def test_clients_that_share_a_store_share_answers(flavour: Any, serve: Any, scope: str) -> None:
    server, store = serve(hinted(scope=scope)), MemoryCache()
    assert [asked(flavour, server, store) for _ in range(3)] == [1, 0, 0]
    assert asked(flavour, server, MemoryCache()) == 1


@pytest.mark.req("C2")
@SCOPES
def test_another_endpoint_is_another_server(flavour: Any, serve: Any, scope: str) -> None:
    server, other, store = serve(hinted(scope=scope)), serve(hinted(scope=scope)), MemoryCache()
    assert asked(flavour, server, store) == 1
    assert asked(flavour, server, store, server.url + "/more") == 1
    assert asked(flavour, server, store, server.url + "?a=1") == 1
    assert asked(flavour, server, store, server.url + "?a=2") == 1
    assert asked(flavour, server, store, server.url.replace("127.0.0.1", "localhost")) == 1
    assert asked(flavour, other, store) == 1
    # The same URL, reached elsewhere.
    assert asked(flavour, other, store, Tcp("127.0.0.1", other.port, server.url)) == 1  # type: ignore[arg-type]
    assert asked(flavour, server, store) == 0


@pytest.mark.req("C2")
def test_another_parameter_is_another_question(flavour: Any, serve: Any) -> None:
    server = serve(hinted())
    client = flavour.connect(server.url)
    for uri in ("demo://a", "demo://b", "demo://a?b", "demo://a"):
        assert client.read_resource(uri).contents[0].uri == uri
    client.list_resources_page("a")
    client.list_resources_page("")
    client.list_resources_page()
    client.list_resource_templates_page()
    client.list_resources_page("a")
    assert [server.count(f"resources/{one}") for one in ("read", "list", "templates/list")] == [3, 3, 1]


BASE: dict[str, Any] = {"baggage": "k=1", "com.example/a": {"x": 1, "y": [1, 2]}}


@pytest.mark.req("C2")
@SCOPES
@pytest.mark.parametrize(
    ("options", "same"),
    [
        ({"request_meta": {**BASE, "traceparent": "00-1"}}, True),
        ({"request_meta": {**BASE, "tracestate": "a=1"}}, True),
        ({"request_meta": dict(reversed(BASE.items()))}, True),
        ({"request_meta": {**BASE, "com.example/a": {"y": [1, 2], "x": 1}}}, True),
        ({"request_meta": lambda: {**BASE, "progressToken": 7}}, True),
        ({"request_meta": BASE, "log_level": "debug"}, True),
        ({"request_meta": {**BASE, "baggage": "k=2"}}, False),
        ({"request_meta": {**BASE, "com.example/a": {"x": 1, "y": [2, 1]}}}, False),
        ({"request_meta": {**BASE, "com.example/a": {"x": 1.5, "y": [1, 2]}}}, False),
        ({"request_meta": {**BASE, "com.example/b": None}}, False),
        ({"request_meta": {"baggage": "k=1"}}, False),
        ({"request_meta": BASE, "client_info": {"name": "other", "version": "1"}}, False),
        ({"request_meta": BASE, "client_info": None}, False),
        ({"request_meta": BASE, "capabilities": {"experimental": {"x": {}}}}, False),
    ],
)
def test_what_of_the_meta_counts(flavour: Any, serve: Any, scope: str, options: dict[str, Any], same: bool) -> None:
    server, store = serve(hinted(scope=scope)), MemoryCache()
    assert asked(flavour, server, store, request_meta=BASE) == 1
    assert asked(flavour, server, store, **options) == (0 if same else 1)


@pytest.mark.req("C2")
def test_the_meta_of_one_call_counts(flavour: Any, serve: Any) -> None:
    server = serve(hinted())
    client = flavour.connect(server.url, request_meta={"com.example/a": 1})
    for meta in (None, {}, {"com.example/a": 1}, {"traceparent": "x"}, {"com.example/a": 2}, {"com.example/a": 2}):
        client.read_resource("demo://a", meta=meta)
    assert [one.meta["com.example/a"] for one in server.calls("resources/read")] == [1, 2]


# --- callers -------------------------------------------------------------------------------------

CALLERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "token": ({"auth": "a"}, {"auth": "b"}),
    "header": ({"headers": {"Authorization": "Basic YTpi"}}, {"headers": {"Authorization": "Basic YTpj"}}),
    "cookie": ({"headers": {"Cookie": "user=a"}}, {"headers": {"Cookie": "user=b"}}),
    "any header": ({"headers": {"X-Tenant": "a"}}, {"headers": {"X-Tenant": "b"}}),
    "one more header": ({}, {"headers": {"X-Tenant": "b"}}),
    "none": ({"auth": "a"}, {}),
}


@pytest.mark.req("C3")
@pytest.mark.parametrize("who", CALLERS)
def test_private_answers_are_each_callers_own(flavour: Any, serve: Any, who: str) -> None:
    first, second = CALLERS[who]
    server, store = serve(hinted(scope="private")), MemoryCache()
    assert [asked(flavour, server, store, **one) for one in (first, second, first, second)] == [1, 1, 0, 0]


@pytest.mark.req("C3")
@pytest.mark.parametrize("who", CALLERS)
def test_public_answers_are_everybodys(flavour: Any, serve: Any, who: str) -> None:
    server, store = serve(hinted(scope="public")), MemoryCache()
    assert [asked(flavour, server, store, **one) for one in CALLERS[who]] == [1, 0]


@pytest.mark.req("C3")
def test_the_user_in_the_url_counts(flavour: Any, serve: Any) -> None:
    server, store = serve(hinted(scope="private")), MemoryCache()
    urls = [server.url.replace("//", f"//{user}@") for user in ("a:b", "a:c", "a:b")]
    assert [asked(flavour, server, store, url) for url in urls] == [1, 1, 0]


@pytest.mark.req("C3")
@pytest.mark.parametrize("scope", [..., None, "Public", "PUBLIC", "shared", 1, ["public"]])
def test_a_scope_that_is_missing_or_unknown_is_private(flavour: Any, serve: Any, scope: Any) -> None:
    server, store = serve(hinted(scope=scope)), MemoryCache()
    assert [asked(flavour, server, store, auth=one) for one in ("a", "b", "a")] == [1, 1, 0]


@pytest.mark.req("C3")
def test_who_cannot_be_told_from_others_keeps_nothing_private(flavour: Any, serve: Any) -> None:
    server = serve(hinted(scope="private"))
    client = flavour.connect(server.url, auth=lambda: "same")
    client.list_tools()
    client.list_tools()
    assert server.count("tools/list") == 2
    assert client.cache_info().entries == 0
    assert not any("same" in str(one) for one in client.cache_info()._state().values())
    public, store = serve(hinted(scope="public")), MemoryCache()
    assert [asked(flavour, public, store, auth=lambda: "x") for _ in range(2)] == [1, 0]


@pytest.mark.req("C3")
def test_a_context_that_may_hold_a_certificate_is_this_clients_own(flavour: Any, serve: Any, certificates: Any) -> None:
    server, store = serve(hinted(scope="private"), tls=certificates.server), MemoryCache()
    context: ssl.SSLContext = certificates.client()
    assert [asked(flavour, server, store, tls=context) for _ in range(2)] == [1, 1]
    client = flavour.connect(server.url, cache=store, tls=context)
    client.list_tools()
    client.list_tools()
    assert server.count("tools/list") == 3
    assert [asked(flavour, server, store, tls=certificates.ca_path) for _ in range(2)] == [1, 0]


@pytest.mark.req("C3")
def test_the_credentials_for_a_proxy_count(flavour: Any, serve: Any) -> None:
    # What goes through an http proxy to an http server goes to the proxy as it is: this one is the server, too.
    server, store = serve(hinted(scope="private")), MemoryCache()
    proxies = [f"http://{user}@127.0.0.1:{server.port}" for user in ("a:b", "a:c", "a:b")]
    assert [asked(flavour, server, store, "http://far.example/mcp", proxy=one) for one in proxies] == [1, 1, 0]


@pytest.mark.req("C3")
def test_a_cookie_that_the_server_sets_counts_from_then_on(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": answer(tools("a", scope="private"), headers=[("Set-Cookie", "user=7; Path=/")])})
    client = flavour.connect(server.url)
    for _ in range(4):
        client.list_tools()
    cookies = [one.header("Cookie") for one in server.calls("tools/list")]
    assert cookies == [None, "user=7"]


@pytest.mark.req("C3")
def test_a_store_without_a_secret_shares_no_private_answers(flavour: Any, serve: Any) -> None:
    for scope, requests in (("private", [1, 1]), ("public", [1, 0])):
        server, store = serve(hinted(scope=scope)), Table()
        assert [asked(flavour, server, store) for _ in range(2)] == requests
        store.secret = b"short"  # type: ignore[attr-defined]
        assert asked(flavour, server, store) == requests[1]


@pytest.mark.req("C3")
def test_a_store_holds_nothing_of_the_caller_and_answers_as_json(flavour: Any, serve: Any) -> None:
    server, store = serve(hinted(scope="private")), Table()
    store.secret = b"0123456789abcdef"  # type: ignore[attr-defined]
    options = {"auth": "hunter2", "headers": {"X-Tenant": "hunter3"}, "request_meta": {"a": "hunter4"}}
    assert asked(flavour, server, store, server.url + "?hunter5", **options) == 1
    flavour.client(server.url, cache=store, protocol="stateless").list_prompts()
    assert b"hunter" not in b"".join([*store.entries, *store.entries.values()])
    values = [value for value in store.answers() if b'"prompts"' in value]
    ((value),) = values
    assert value.startswith(b"ferrule1-")
    assert json_behind_it(value)["prompts"] == [{"name": "greet"}]


def json_behind_it(value: bytes) -> Any:
    """The JSON that a value ends with; what stands before it is random, and may hold a brace."""
    for start in range(len(value)):
        with suppress(ValueError):
            if value[start : start + 1] == b"{":
                return json.loads(value[start:])
    raise AssertionError("there is none")


@pytest.mark.req("C3")
def test_an_answer_that_becomes_private_is_no_longer_served_to_everybody(flavour: Any, serve: Any) -> None:
    server, store = serve(hinted(scope="public")), MemoryCache()
    client = flavour.connect(server.url, cache=store, auth="a")
    client.list_tools()
    server.rules.update(hinted(scope="private"))
    client.list_tools(cache="refresh")
    assert asked(flavour, server, store, auth="b") == 1
    assert asked(flavour, server, store, auth="a") == 0


# --- views ---------------------------------------------------------------------------------------


def for_users(scope: str) -> dict[str, Any]:
    def page(request: Request) -> Any:
        return tools(f"of {request.header('Authorization')}", scope=scope)

    return {"tools/list": answer(page)}


@pytest.mark.req("N14", "C3")
def test_views_share_public_answers_and_never_private_ones(flavour: Any, serve: Any) -> None:
    server = serve(for_users("private"))
    client = flavour.connect(server.url)
    views = [client.with_options(auth=f"user-{number}") for number in range(20)]
    for _ in range(2):
        for number, view in enumerate(views):
            assert view.list_tools()[0].name == f"of Bearer user-{number}"
    assert server.count("tools/list") == 20
    public = serve(for_users("public"))
    client = flavour.connect(public.url)
    for number in range(5):
        assert client.with_options(auth=f"user-{number}").list_tools()[0].name == "of Bearer user-0"
    assert public.count("tools/list") == 1
    assert client.cache_info().hits == 4


@pytest.mark.req("N14", "C5")
def test_views_of_different_users_never_share_a_request(flavour: Any, serve: Any) -> None:
    server = serve(for_users("private"))
    client = flavour.connect(server.url)
    views = [client.with_options(auth=f"user-{number}") for number in range(6)]
    found = flavour.together(*[view.list_tools for view in views])
    assert [tools[0].name for tools in found] == [f"of Bearer user-{number}" for number in range(6)]
    assert server.count("tools/list") == 6


@pytest.mark.req("C2", "C3")
def test_what_a_child_answers_is_this_clients_own(flavour: Any, child: Any) -> None:
    from tests.support import child as on_stdio

    server = child({"tools/list": [[on_stdio.answer(tools("a", ttl=HOUR))]]}, era="stateless")
    store = MemoryCache()
    for _ in range(2):
        client = flavour.connect(server.stdio(), cache=store, protocol="stateless")
        assert [[tool.name for tool in client.list_tools()] for _ in range(3)] == [["a"]] * 3
    assert server.count("tools/list") == 2
