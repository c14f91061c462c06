"""A URL does not say which HTTP transport is behind it: how that of 2024-11-05 is found, and when it is not tried."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import ConfigError, FerruleError, HTTPStatusError, ProtocolError, RPCError
from tests.support.old_sse import OldServer
from tests.support.steps import answer, error, hang, status, stream

FAST = Retry(attempts=2, backoff=0.01, max_backoff=0.02)
PRIOR = {"era": "handshake", "revision": "2025-11-25", "transport": "http+sse"}


@pytest.fixture
def old(serve: Any) -> Any:
    """`old(OldServer(...))` serves it at /sse; gives the scripted server."""
    return lambda server, **rules: serve({**server.rules, **rules}, era=None, path="/sse")


@pytest.mark.req("N3", "O1")
@pytest.mark.parametrize("refusal", [400, 404, 405])
def test_a_server_of_the_old_transport_is_found_from_its_url(flavour: Any, old: Any, refusal: int) -> None:
    server = old(OldServer(refusal=refusal))
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}).text == "{}"
    assert [(request.verb, request.target) for request in server.requests[:4]] == [
        ("POST", "/sse"),
        ("POST", "/sse"),
        ("GET", "/sse"),
        ("POST", "/messages?session=1"),
    ]
    assert server.methods[:4] == ["server/discover", "initialize", "GET", "initialize"]
    assert client.protocol_version == "2025-11-25"


@pytest.mark.req("N3")
@pytest.mark.parametrize("code", [-32600, -32601, -32000, -32022])
def test_an_error_that_is_no_modern_one_does_not_keep_it_from_being_found(flavour: Any, old: Any, code: int) -> None:
    # -32022 without its data is not well-formed, so it is not the modern one.
    plan = OldServer()
    taking = plan.rules["*"]

    def initialize(turn: Any) -> None:
        refused = turn.request.target == "/sse"
        (error(code, "no", status=400) if refused else taking)(turn)

    server = old(plan, initialize=initialize)
    client = flavour.connect(server.url)
    assert client.call_tool("echo", {}).text == "{}"


@pytest.mark.req("N3")
def test_a_modern_error_to_initialize_is_raised_and_no_stream_is_asked_for(flavour: Any, old: Any) -> None:
    modern = error(-32022, "no", {"supported": ["2099-01-01"], "requested": "2025-11-25"}, status=400)
    server = old(OldServer(), initialize=modern)
    client = flavour.client(server.url, protocol="handshake", retry=FAST)
    with pytest.raises(FerruleError):
        client.connect()
    assert server.count("GET") == 0


@pytest.mark.req("N3")
@pytest.mark.parametrize("said", [401, 403, 410, 415, 501, 503])
def test_other_refusals_of_initialize_do_not_lead_there(flavour: Any, old: Any, said: int) -> None:
    server = old(OldServer(), initialize=status(said))
    client = flavour.client(server.url, protocol="handshake", retry=FAST)
    with pytest.raises(FerruleError):
        client.connect()
    assert server.count("GET") == 0


@pytest.mark.req("N3", "N10")
@pytest.mark.parametrize(
    "rule",
    [status(405), status(404), answer({}), status(200, b"<p>", content_type="text/html"), stream(), status(500)],
    ids=["405", "404", "JSON", "HTML", "a stream that ends", "500"],
)
def test_where_there_is_no_such_stream_the_refusal_of_initialize_is_raised(flavour: Any, old: Any, rule: Any) -> None:
    server = old(OldServer(), GET=rule)
    client = flavour.client(server.url, retry=FAST)
    with pytest.raises(HTTPStatusError) as caught:
        client.connect()
    assert caught.value.status == 405
    assert client.prior is None
    client.close()
    server.wait_until(lambda: server.open == 0)


@pytest.mark.req("N3")
def test_a_stream_that_names_no_endpoint_is_not_waited_for_long(flavour: Any, old: Any) -> None:
    server = old(OldServer(), GET=[stream(end=False), hang()])
    client = flavour.client(server.url, limits=Limits(probe_timeout=0.2))
    with pytest.raises(HTTPStatusError) as caught:
        client.connect(timeout=20)
    assert caught.value.status == 405


@pytest.mark.req("N3")
def test_an_rpc_error_without_such_a_stream_is_raised_as_it_is(flavour: Any, old: Any) -> None:
    server = old(OldServer(), GET=status(405), initialize=error(-32602, "bad version", status=400))
    client = flavour.client(server.url)
    with pytest.raises(RPCError) as caught:
        client.connect()
    assert (caught.value.code, caught.value.http_status) == (-32602, 400)


@pytest.mark.req("O1", "N3")
def test_an_endpoint_of_another_origin_is_said_and_nothing_is_sent_there(flavour: Any, old: Any, serve: Any) -> None:
    elsewhere = serve(era="handshake")
    server = old(OldServer(endpoint=elsewhere.url))
    client = flavour.client(server.url, auth="token")
    with pytest.raises(ProtocolError, match="another origin"):
        client.connect()
    assert server.methods == ["server/discover", "initialize", "GET"]
    assert elsewhere.requests == []


@pytest.mark.req("N6", "N3")
@pytest.mark.parametrize("pin", ["handshake", "2024-11-05"])
def test_pins_that_include_the_old_transport_find_it_the_same_way(flavour: Any, old: Any, pin: str) -> None:
    server = old(OldServer())
    client = flavour.connect(server.url, protocol=pin)
    assert server.methods[:3] == ["initialize", "GET", "initialize"]
    offered = "2025-11-25" if pin == "handshake" else pin
    assert server.calls("initialize")[-1].params["protocolVersion"] == offered
    assert client.protocol_version == offered


@pytest.mark.req("N6")
@pytest.mark.parametrize("pin", ["2025-03-26", "2025-06-18", "2025-11-25", "stateless", "2026-07-28"])
def test_any_other_pin_does_not_fall_back(flavour: Any, old: Any, pin: str) -> None:
    server = old(OldServer())
    client = flavour.client(server.url, protocol=pin)
    with pytest.raises(HTTPStatusError):
        client.call_tool("echo", {})
    assert server.count("GET") == 0


@pytest.mark.req("N6")
def test_the_oldest_revision_is_spoken_over_the_later_transport_where_that_is_offered(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    client = flavour.connect(server.url, protocol="2024-11-05")
    assert client.call_tool("echo", {}).content
    assert client.protocol_version == "2024-11-05"
    assert server.count("GET") == 0


@pytest.mark.req("N5", "N3")
def test_the_verdict_says_which_transport_it_was_and_a_later_client_goes_there_at_once(flavour: Any, old: Any) -> None:
    server = old(OldServer())
    prior = flavour.connect(server.url).prior
    assert prior == PRIOR
    before = len(server.requests)
    client = flavour.connect(server.url, prior=prior)
    assert server.methods[before:] == ["GET", "initialize", "notifications/initialized"]
    assert client.prior == PRIOR


@pytest.mark.req("N5", "N14")
def test_views_of_the_client_use_what_it_found_out(flavour: Any, old: Any) -> None:
    server = old(OldServer())
    client = flavour.connect(server.url)
    before = len(server.requests)
    view = client.with_options(headers={"X-User": "b"})
    assert view.call_tool("echo", {}).text == "{}"
    assert server.methods[before:] == ["GET", "initialize", "notifications/initialized", "tools/call"]


@pytest.mark.req("N5")
def test_a_verdict_that_proves_wrong_is_found_anew(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    client = flavour.connect(server.url, prior=PRIOR)
    assert client.call_tool("echo", {}).content
    assert server.methods[:3] == ["GET", "server/discover", "initialize"]
    assert client.prior == {"era": "handshake", "revision": "2025-11-25"}


@pytest.mark.req("N5")
@pytest.mark.parametrize(
    "wrong",
    [
        {"era": "handshake", "revision": "2025-11-25", "transport": "carrier pigeon"},
        {"era": "stateless", "revision": "2026-07-28", "transport": "http+sse"},
    ],
)
def test_a_verdict_over_no_known_transport_is_refused(flavour: Any, wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="transport"):
        flavour.client("http://127.0.0.1:9/", prior=wrong)
