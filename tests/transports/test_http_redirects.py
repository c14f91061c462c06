"""Redirects: what is followed keeps method and body, what is refused sends nothing anywhere."""

from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.errors import HTTPStatusError, LimitExceeded
from tests.support.steps import Step, answer, initialized, status, text

MARKER = "secret-7f3a"
ONCE = Retry(attempts=1)
MOVED = pytest.mark.parametrize("code", [307, 308])


def by_path(scripts: dict[str, Step], otherwise: Step) -> Step:
    """A script for each request target."""
    return lambda turn: scripts.get(turn.request.target, otherwise)(turn)


def to(location: str, code: int = 307) -> Step:
    return status(code, b"<html>moved</html>", content_type="text/html", headers=[("Location", location)])


OK = answer(text("ok"))


@pytest.mark.req("W19")
@MOVED
@pytest.mark.parametrize(
    "location", ["/mcp/", "mcp/", "{origin}/mcp/", "//{host}/mcp/", "./mcp/#fragment", "/x/../mcp/"]
)
def test_a_redirect_within_the_origin_keeps_method_body_and_headers_and_is_remembered(
    flavour: Any, serve: Any, code: int, location: str
) -> None:
    server = serve()
    where = location.format(origin=server.origin, host=server.origin.partition("//")[2])
    server.rules["tools/call"] = by_path({"/mcp": to(where, code)}, OK)
    client = flavour.connect(server.url, protocol="stateless", headers={"X-Tenant": "a"}, auth="token")
    assert client.call_tool("echo", {"a": 1}).text == "ok"
    assert client.call_tool("echo", {"a": 2}).text == "ok"
    first, second, third = server.requests
    assert [request.target for request in server.requests] == ["/mcp", "/mcp/", "/mcp/"]
    assert (first.verb, first.body, first.headers) == (second.verb, second.body, second.headers)
    assert third.params["arguments"] == {"a": 2}
    assert server.accepted == 1


@pytest.mark.req("W19")
def test_a_redirect_is_remembered_by_the_whole_session_and_by_every_view(flavour: Any, serve: Any) -> None:
    server = serve(era="handshake")
    usual = server.rules["initialize"]
    server.rules["initialize"] = by_path({"/mcp": to("/mcp/")}, usual)
    client = flavour.connect(server.url, protocol="handshake")
    client.call_tool("echo", {})
    client.close()
    assert [(request.method, request.target) for request in server.requests] == [
        ("initialize", "/mcp"),
        ("initialize", "/mcp/"),
        ("notifications/initialized", "/mcp/"),
        ("tools/call", "/mcp/"),
        ("DELETE", "/mcp/"),
    ]
    modern = serve()
    modern.rules["tools/call"] = by_path({"/mcp": to("/new")}, OK)
    client = flavour.connect(modern.url, protocol="stateless")
    client.call_tool("echo", {})
    view = client.with_options(headers={"X-User": "b"})
    view.call_tool("echo", {})
    assert [request.target for request in modern.requests] == ["/mcp", "/new", "/new"]


@pytest.mark.req("W19")
def test_three_redirects_in_a_row_are_followed_and_a_fourth_is_a_limit(flavour: Any, serve: Any) -> None:
    steps = {"/mcp": to("/1"), "/1": to("/2", 308), "/2": to("/3")}
    server = serve({"tools/call": by_path(steps, OK)})
    assert flavour.connect(server.url, protocol="stateless").call_tool("echo", {}).text == "ok"
    server.rules["tools/call"] = by_path({**steps, "/3": to("/4")}, OK)
    with pytest.raises(LimitExceeded) as caught:
        flavour.connect(server.url, protocol="stateless").call_tool("echo", {})
    assert caught.value.limit == "max_redirects"
    assert [request.target for request in server.requests[4:]] == ["/mcp", "/1", "/2", "/3"]


@pytest.mark.req("W19")
def test_a_redirect_to_itself_ends_at_the_limit(flavour: Any, serve: Any) -> None:
    server = serve({"tools/list": to("/mcp")})
    client = flavour.connect(server.url, protocol="stateless", limits=Limits(max_redirects=1))
    with pytest.raises(LimitExceeded):
        client.list_tools()
    assert server.count("tools/list") == 2


@pytest.mark.req("W19")
@pytest.mark.parametrize("code", [301, 302, 303])
def test_a_redirect_that_would_change_the_method_is_refused(flavour: Any, serve: Any, code: int) -> None:
    server = serve({"tools/call": to(f"/mcp/?{MARKER}", code)})
    with pytest.raises(HTTPStatusError) as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert (caught.value.status, caught.value.request_sent) == (code, True)
    assert MARKER not in str(caught.value)
    assert server.count("tools/call") == 1


@pytest.mark.req("W19")
@MOVED
@pytest.mark.parametrize("form", ["http://localhost:{port}/mcp", "http://127.0.0.1:{port}", "//127.0.0.1:{port}/mcp"])
def test_a_redirect_to_another_origin_is_refused_before_anything_is_sent_there(
    flavour: Any, serve: Any, code: int, form: str
) -> None:
    elsewhere = serve()
    server = serve({"tools/call": to(form.format(port=elsewhere.port) + f"/{MARKER}?token={MARKER}", code)})
    with pytest.raises(HTTPStatusError) as caught:
        flavour.connect(server.url, auth=MARKER, retry=ONCE).call_tool("echo", {})
    assert server.origin in str(caught.value)
    assert f":{elsewhere.port}" in str(caught.value)
    assert MARKER not in str(caught.value)
    assert elsewhere.accepted == 0
    assert server.count("tools/call") == 1


@pytest.mark.req("W19")
@pytest.mark.parametrize(
    "location", ["", "ftp://example.com/x", "javascript:alert(1)", "http://", "http://user:pw@exa mple/", "http://[::1"]
)
def test_a_redirect_to_nowhere_is_refused(flavour: Any, serve: Any, location: str) -> None:
    server = serve({"tools/call": to(location)})
    with pytest.raises(HTTPStatusError) as caught:
        flavour.connect(server.url).call_tool("echo", {})
    assert caught.value.status == 307
    assert server.count("tools/call") == 1


@pytest.mark.req("W19")
def test_a_redirect_from_https_to_http_on_the_same_host_is_followed_as_https_once(
    flavour: Any, serve: Any, certificates: Any
) -> None:
    server = serve(tls=certificates.server)
    plain = server.origin.replace("https", "http")
    server.rules["tools/call"] = by_path({"/mcp": to(plain + "/mcp/")}, OK)
    client = flavour.connect(server.url, tls=certificates.ca_path, protocol="stateless")
    assert client.call_tool("echo", {}).text == "ok"
    assert [request.target for request in server.requests] == ["/mcp", "/mcp/"]
    server.rules["tools/call"] = by_path({"/mcp": to(plain + "/1"), "/1": to(plain + "/2")}, OK)
    with pytest.raises(HTTPStatusError, match="another origin"):
        flavour.connect(server.url, tls=certificates.ca_path, protocol="stateless").call_tool("echo", {})
    assert [request.target for request in server.requests[2:]] == ["/mcp", "/1"]


@pytest.mark.req("W19")
def test_a_redirect_from_https_to_a_http_port_is_refused(flavour: Any, serve: Any, certificates: Any) -> None:
    plain = serve()
    server = serve(tls=certificates.server)
    server.rules["tools/call"] = to(plain.url)
    with pytest.raises(HTTPStatusError) as caught:
        flavour.connect(server.url, tls=certificates.ca_path).call_tool("echo", {})
    assert server.origin in str(caught.value)
    assert plain.origin in str(caught.value)
    assert plain.accepted == 0


@pytest.mark.req("W19")
def test_a_user_in_location_never_replaces_ours_nor_is_shown(flavour: Any, serve: Any) -> None:
    server = serve()
    host = server.origin.partition("//")[2]
    server.rules["tools/call"] = by_path({"/mcp": to(f"http://eve:{MARKER}@{host}/mcp/")}, OK)
    client = flavour.connect(f"http://adam:pw@{host}/mcp", protocol="stateless")
    assert client.call_tool("echo", {}).text == "ok"
    assert {request.header("Authorization") for request in server.requests} == {"Basic YWRhbTpwdw=="}
    assert MARKER not in repr(client)


@pytest.mark.req("W19")
def test_a_notification_follows_a_redirect_too(flavour: Any, serve: Any) -> None:
    server = serve({"initialize": answer(initialized())}, era="handshake", session=None)
    client = flavour.connect(server.url)
    server.rules["notifications/x"] = by_path({"/mcp": to("/mcp/")}, status(202))
    client.notify("notifications/x")
    assert [request.target for request in server.calls("notifications/x")] == ["/mcp", "/mcp/"]
