"""How a client finds out which era a server speaks, over HTTP. (stdio: tests/transports/test_stdio.py.)"""

from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import (
    AuthError,
    CapabilityError,
    ConnectError,
    FerruleError,
    HTTPStatusError,
    NegotiationError,
    RPCError,
)
from tests.support.steps import (
    answer,
    close,
    discovered,
    error,
    hang,
    initialized,
    raw,
    reset,
    status,
    stream,
    text,
    turns,
)

MODERN = "2026-07-28"
FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)
ONCE = Retry(attempts=1)


def unsupported(*supported: str, code_status: int = 400) -> Any:
    data = {"supported": list(supported), "requested": MODERN}
    return error(-32022, "Unsupported protocol version", data, status=code_status)


@pytest.mark.req("N1")
def test_discover_at_the_newest_revision_is_the_first_thing_sent(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url)
    assert server.methods == ["server/discover"]
    assert server.requests[0].header("MCP-Protocol-Version") == MODERN
    assert server.requests[0].meta["io.modelcontextprotocol/protocolVersion"] == MODERN
    assert (client.era, client.protocol_version) == ("stateless", MODERN)
    assert client.server_info.name == "scripted"


@pytest.mark.req("N1", "N2")
def test_a_refused_version_is_sent_once_more_when_the_server_lists_it(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": turns(unsupported(MODERN), answer(discovered()))})
    client = flavour.connect(server.url)
    assert client.era == "stateless"
    assert server.methods == ["server/discover", "server/discover"]
    first, second = (request.message["id"] for request in server.requests)
    assert first != second


@pytest.mark.req("N2")
def test_a_server_that_refuses_what_it_lists_twice_ends_in_a_negotiation_error(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": unsupported(MODERN)})
    with pytest.raises(NegotiationError) as caught:
        flavour.connect(server.url)
    assert tuple(caught.value.supported) == (MODERN,)
    assert MODERN in caught.value.offered
    assert server.methods == ["server/discover"] * 2


@pytest.mark.req("N2")
def test_no_revision_in_common_names_both_sides(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": unsupported("2099-01-01")})
    with pytest.raises(NegotiationError) as caught:
        flavour.connect(server.url)
    assert tuple(caught.value.supported) == ("2099-01-01",)
    assert "2025-11-25" in caught.value.offered
    assert "initialize" not in server.methods


@pytest.mark.req("N1")
@pytest.mark.parametrize("by", ["error", "result"])
def test_a_list_of_handshake_revisions_alone_leads_to_initialize(flavour: Any, serve: Any, by: str) -> None:
    listed = ["2025-06-18", "2025-03-26"]
    probe = unsupported(*listed) if by == "error" else answer(discovered(listed))
    server = serve({"server/discover": probe}, era="handshake")
    client = flavour.connect(server.url)
    assert client.era == "handshake"
    initialize = next(request for request in server.requests if request.method == "initialize")
    assert initialize.params["protocolVersion"] == "2025-06-18"


@pytest.mark.req("N1")
@pytest.mark.parametrize(
    ("code", "data"),
    [(-32020, None), (-32021, {"requiredCapabilities": {"roots": {}}})],
)
def test_a_recognised_modern_error_never_leads_to_initialize(flavour: Any, serve: Any, code: int, data: Any) -> None:
    server = serve({"server/discover": error(code, "no", data, status=400)})
    with pytest.raises(RPCError) as caught:
        flavour.connect(server.url)
    assert caught.value.code == code
    assert "initialize" not in server.methods


@pytest.mark.req("N3")
@pytest.mark.parametrize(
    "probe",
    [
        status(400),
        status(400, b"Bad Request: no session", content_type="text/plain"),
        status(404, b"<html>not here</html>", content_type="text/html"),
        status(405),
        status(406),
        status(501),
        error(-32601, "Method not found"),
        error(-32000, "Server not initialized", status=400, id=None),
        error(-32022, "without data", status=400),
        answer({"tools": []}),
        answer({"supportedVersions": "2026-07-28", "capabilities": {}}),
        status(200, b"hello", content_type="text/html"),
        status(202),
        status(204),
        raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{"),
    ],
)
def test_any_other_answer_to_the_probe_leads_to_the_handshake(flavour: Any, serve: Any, probe: Any) -> None:
    server = serve({"server/discover": probe}, era="handshake")
    client = flavour.connect(server.url)
    assert (client.era, client.protocol_version) == ("handshake", "2025-11-25")
    assert server.methods == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.req("N3")
@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503])
def test_an_outage_is_no_verdict_and_is_waited_out(flavour: Any, serve: Any, code: int) -> None:
    server = serve({"server/discover": turns(status(code), status(code), answer(discovered()))})
    client = flavour.connect(server.url, retry=FAST)
    assert client.era == "stateless"
    assert server.methods == ["server/discover"] * 3


@pytest.mark.req("N3")
@pytest.mark.parametrize("code", [408, 425, 429, 503])
def test_an_outage_that_lasts_is_raised_and_never_becomes_a_handshake(flavour: Any, serve: Any, code: int) -> None:
    server = serve({"server/discover": status(code)}, era="handshake")
    with pytest.raises(HTTPStatusError) as caught:
        flavour.connect(server.url, retry=FAST)
    assert caught.value.status == code
    assert server.methods == ["server/discover"] * 3


@pytest.mark.req("N3")
@pytest.mark.parametrize("fault", [close(), reset(), stream(end=True)])
def test_a_connection_lost_during_the_probe_is_no_verdict(flavour: Any, serve: Any, fault: Any) -> None:
    server = serve({"server/discover": turns(fault, fault, answer(discovered()))})
    assert flavour.connect(server.url, retry=FAST).era == "stateless"
    assert "initialize" not in server.methods


@pytest.mark.req("N3")
def test_a_probe_that_is_never_answered_over_http_times_out_and_is_no_verdict(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": hang()})
    with pytest.raises(TimeoutError):
        flavour.connect(server.url, timeout=0.3)
    assert server.methods == ["server/discover"]


@pytest.mark.req("N3")
@pytest.mark.parametrize("code", [401, 403])
def test_refused_without_a_credential_is_a_matter_of_authorization(flavour: Any, serve: Any, code: int) -> None:
    server = serve({"server/discover": status(code)}, era="handshake")
    with pytest.raises((AuthError, HTTPStatusError)) as caught:
        flavour.connect(server.url)
    assert isinstance(caught.value, (AuthError, HTTPStatusError))
    assert caught.value.status == code
    assert server.methods == ["server/discover"]


@pytest.mark.req("N3")
@pytest.mark.parametrize("code", [401, 403])
def test_refused_with_a_credential_initialize_is_tried_once(flavour: Any, serve: Any, code: int) -> None:
    server = serve({"server/discover": status(code)}, era="handshake")
    client = flavour.connect(server.url, auth="token-1")
    assert client.era == "handshake"
    assert server.requests[0].header("Authorization") == "Bearer token-1"
    assert server.methods == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.req("N3")
def test_refused_with_a_credential_twice_the_error_is_raised(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": status(401), "initialize": status(401)}, era="handshake")
    with pytest.raises(AuthError):
        flavour.connect(server.url, auth="token-1")
    assert server.methods == ["server/discover", "initialize"]


@pytest.mark.req("N5")
def test_the_verdict_is_kept_for_the_life_of_the_client(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url)
    for _ in range(3):
        client.call_tool("echo", {})
    assert server.count("server/discover") == 1


@pytest.mark.req("N5")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_verdict_given_to_a_new_client_saves_the_probe(flavour: Any, serve: Any, era: str) -> None:
    server = serve(era=era)
    prior = flavour.connect(server.url).prior
    before = server.count("server/discover")
    client = flavour.connect(server.url, prior=prior)
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert client.era == era
    assert client.server_info.name == "scripted"
    assert server.count("server/discover") == before


@pytest.mark.req("N5")
def test_a_stateless_verdict_that_proves_wrong_is_found_anew_once(flavour: Any, serve: Any) -> None:
    modern = serve()
    prior = flavour.connect(modern.url).prior
    old = serve({"tools/list": turns(status(400), answer({"tools": []}))}, era="handshake")
    client = flavour.connect(old.url, prior=prior)
    assert client.list_tools() == []
    assert client.era == "handshake"
    assert old.count("server/discover") == 1


@pytest.mark.req("N5", "R2")
def test_a_tools_call_under_a_wrong_verdict_is_reported_and_the_next_one_works(flavour: Any, serve: Any) -> None:
    prior = flavour.connect(serve().url).prior
    old = serve({"tools/call": turns(status(400), answer(text("late")))}, era="handshake")
    client = flavour.connect(old.url, prior=prior)
    with pytest.raises(HTTPStatusError):
        client.call_tool("echo", {})
    assert old.count("tools/call") == 1
    assert client.call_tool("echo", {}).text == "late"
    assert client.era == "handshake"


@pytest.mark.req("N5")
def test_a_handshake_verdict_that_proves_wrong_is_found_anew_once(flavour: Any, serve: Any) -> None:
    prior = flavour.connect(serve(era="handshake").url).prior
    modern = serve()
    client = flavour.connect(modern.url, prior=prior)
    assert client.era == "stateless"
    assert modern.methods == ["initialize", "server/discover"]


@pytest.mark.req("N6")
@pytest.mark.parametrize("pin", ["stateless", MODERN])
def test_a_pinned_stateless_client_needs_no_probe(flavour: Any, serve: Any, pin: str) -> None:
    server = serve()
    client = flavour.connect(server.url, protocol=pin)
    client.call_tool("echo", {})
    assert server.methods == ["tools/call"]


@pytest.mark.req("N6")
@pytest.mark.parametrize(("pin", "offered"), [("handshake", "2025-11-25"), ("2025-03-26", "2025-03-26")])
def test_a_pinned_handshake_offers_its_revision_at_once(flavour: Any, serve: Any, pin: str, offered: str) -> None:
    server = serve(era="handshake")
    client = flavour.connect(server.url, protocol=pin)
    assert server.methods == ["initialize", "notifications/initialized"]
    assert server.requests[0].params["protocolVersion"] == offered
    assert client.protocol_version == offered


@pytest.mark.req("N6")
def test_a_pin_never_falls_back(flavour: Any, serve: Any) -> None:
    old = serve(era="handshake")
    client = flavour.connect(old.url, protocol="stateless", retry=ONCE)
    with pytest.raises(FerruleError):
        client.request("server/discover")
    assert old.methods == ["server/discover"]
    answers_older = serve({"initialize": answer(initialized("2025-06-18"))}, era="handshake")
    with pytest.raises(NegotiationError):
        flavour.connect(answers_older.url, protocol="2025-11-25")


@pytest.mark.req("N7")
@pytest.mark.parametrize("version", ["2099-01-01", MODERN, 7, None])
def test_an_answer_at_a_version_nobody_asked_for_ends_the_session_and_raises(
    flavour: Any, serve: Any, version: Any
) -> None:
    result = {"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}
    server = serve({"initialize": answer(result, headers=[("Mcp-Session-Id", "s-1")])}, era="handshake")
    with pytest.raises(NegotiationError):
        flavour.connect(server.url)
    assert server.methods == ["server/discover", "initialize", "DELETE"]
    assert server.requests[-1].header("Mcp-Session-Id") == "s-1"


@pytest.mark.req("N7")
def test_an_older_revision_of_the_servers_choice_is_agreed_to(flavour: Any, serve: Any) -> None:
    server = serve({"initialize": answer(initialized("2025-03-26"))}, era="handshake")
    client = flavour.connect(server.url)
    assert server.requests[1].params["protocolVersion"] == "2025-11-25"
    assert client.protocol_version == "2025-03-26"


@pytest.mark.req("N8", "N10")
def test_callers_that_come_at_once_make_one_handshake_and_wait_for_its_end(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    client = flavour.client(server.url)
    outcomes = flavour.together(*[lambda: client.call_tool("echo", {}).text for _ in range(8)])
    assert outcomes == ["{}"] * 8
    assert server.methods[:3] == ["server/discover", "initialize", "notifications/initialized"]
    assert server.methods[3:] == ["tools/call"] * 8


@pytest.mark.req("N9")
def test_the_agreed_version_is_on_every_later_message_but_not_on_initialize(flavour: Any, serve: Any) -> None:
    server = serve(
        {"initialize": answer(initialized("2025-06-18"), headers=[("Mcp-Session-Id", "s")])}, era="handshake"
    )
    client = flavour.connect(server.url)
    client.call_tool("echo", {})
    client.close()
    versions = {request.method: request.header("MCP-Protocol-Version") for request in server.requests[1:]}
    assert versions == {
        "initialize": None,
        "notifications/initialized": "2025-06-18",
        "tools/call": "2025-06-18",
        "DELETE": "2025-06-18",
    }


@pytest.mark.req("N10")
def test_a_failed_connect_leaves_nothing_behind_and_can_be_tried_again(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": turns(status(503), answer(discovered()))})
    client = flavour.client(server.url, retry=ONCE)
    with pytest.raises(HTTPStatusError):
        client.connect()
    client.connect()
    assert client.era == "stateless"


@pytest.mark.req("N10")
def test_a_refused_port_is_a_connect_error_for_all_who_wait(flavour: Any, serve: Any) -> None:
    server = serve()
    server.close()
    client = flavour.client(server.url, retry=ONCE)
    outcomes = flavour.together(*[client.list_tools for _ in range(4)])
    assert all(isinstance(outcome, ConnectError) for outcome in outcomes)
    assert not any(outcome.request_sent for outcome in outcomes)


@pytest.mark.req("N11")
def test_nothing_is_declared_but_what_was_given(flavour: Any, serve: Any) -> None:
    key = "io.modelcontextprotocol/clientCapabilities"
    server = serve()
    flavour.connect(server.url)
    given: dict[str, Any] = {"experimental": {"x": {}}, "extensions": {"com.example/ui": {}}}
    flavour.connect(server.url, capabilities=given)
    assert [request.meta[key] for request in server.requests] == [{}, given]
    old = serve(era="handshake")
    flavour.connect(old.url, capabilities=given, protocol="handshake")
    assert old.requests[0].params["capabilities"] == given


@pytest.mark.req("N11", "E1")
def test_an_anonymous_client_names_itself_only_where_the_protocol_demands_it(flavour: Any, serve: Any) -> None:
    server = serve()
    flavour.connect(server.url, client_info=None)
    assert "io.modelcontextprotocol/clientInfo" not in server.requests[0].meta
    old = serve(era="handshake")
    flavour.connect(old.url, client_info=None, protocol="handshake")
    assert old.requests[0].params["clientInfo"]["name"] == "ferrule"
    flavour.connect(server.url, client_info={"name": "app", "version": "2"})
    assert server.requests[-1].meta["io.modelcontextprotocol/clientInfo"] == {"name": "app", "version": "2"}


@pytest.mark.req("N12")
@pytest.mark.parametrize("era", ["stateless", "handshake"])
def test_a_method_whose_capability_is_absent_is_refused_before_anything_is_sent(
    flavour: Any, serve: Any, era: str
) -> None:
    rules = {
        "server/discover": answer(discovered(capabilities={"tools": {}})),
        "initialize": answer(initialized(capabilities={"tools": {}})),
    }
    server = serve(rules, era=era)
    client = flavour.connect(server.url, protocol="handshake" if era == "handshake" else "auto")
    sent = len(server.requests)
    with pytest.raises(CapabilityError, match="prompts") as caught:
        client.list_prompts()
    assert caught.value.request_sent is False
    assert len(server.requests) == sent
    client.list_tools()


@pytest.mark.req("N12", "N13")
def test_capabilities_that_were_never_asked_for_block_nothing(flavour: Any, serve: Any) -> None:
    server = serve()
    client = flavour.connect(server.url, protocol="stateless")
    assert client.server_capabilities is None
    assert [prompt.name for prompt in client.list_prompts()] == ["greet"]


@pytest.mark.req("N13")
def test_without_discover_the_servers_name_comes_with_its_first_result(flavour: Any, serve: Any) -> None:
    info = {"io.modelcontextprotocol/serverInfo": {"name": "late", "version": "3"}}
    server = serve({"tools/call": answer(text("ok", _meta=info))})
    client = flavour.connect(server.url, protocol="stateless")
    before = client.server_info
    client.call_tool("echo", {})
    after = client.server_info
    assert before is None
    assert (after.name, after.version) == ("late", "3")
    assert server.methods == ["tools/call"]


@pytest.mark.req("N3")
def test_the_probe_timeout_is_not_for_http(flavour: Any, serve: Any) -> None:
    import threading

    from tests.support.steps import wait

    late = threading.Event()
    server = serve({"server/discover": [wait(late), answer(discovered())]})
    client = flavour.client(server.url, limits=Limits(probe_timeout=0.05))
    running = flavour.start(client.connect)
    server.wait_until(lambda: server.count("server/discover") == 1)
    with pytest.raises(TimeoutError):
        running._future.result(0.2)
    late.set()
    running.result()
    assert client.era == "stateless"
