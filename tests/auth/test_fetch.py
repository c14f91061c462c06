"""Requests to authorization servers: what they carry, what is refused before it leaves, and how they fail."""

from __future__ import annotations

import gc
import socket
from typing import Any

import pytest

from ferrule import Limits, Tcp
from ferrule._http.url import parse_url
from ferrule._io import Expired
from ferrule.auth import AuthContext
from ferrule.errors import AuthDiscoveryError, AuthError, AuthTokenError, ConnectError
from tests.io.drivers import Driver
from tests.support.leaving import watched
from tests.support.proxy import ForwardProxy
from tests.support.steps import CHUNKED, JSON, SSE, chunk, close, hang, http, raw, reset, status

LIMITS = Limits(max_auth_bytes=20_000, auth_timeout=5.0)


class Asking:
    """One fetcher, driven to its end."""

    def __init__(
        self,
        driver: Driver,
        server: str,
        allow_hosts: Any = (),
        limits: Limits = LIMITS,
        way: Any = None,
        reached: Any = (),
    ) -> None:
        """`reached`: the addresses at which the server was connected to."""
        self._driver = driver
        self._server = parse_url(server)
        self._allow_hosts = allow_hosts
        self._limits = limits
        self._way = way or (None, None, None)
        self._reached = [
            (int(socket.AF_INET), int(socket.SOCK_STREAM), 0, (address, 443)) for address in reached
        ] or None

    def __call__(self, verb: str, *args: Any, timeout: float = 10.0) -> Any:
        async def body(io: Any) -> Any:
            fetcher = AuthContext(io, self._limits, self._server, self._way, lambda: self._reached).fetcher(
                self._allow_hosts
            )
            try:
                return await getattr(fetcher, verb)(*args, io.now() + timeout)
            finally:
                fetcher.close()

        return self._driver.run(body)


def with_json(body: bytes, code: int = 200, headers: Any = ()) -> Any:
    return raw(http(code, body, [JSON, *headers]))


# --- what goes out and comes back ----------------------------------------------------------------


@pytest.mark.req("A5")
def test_a_document_comes_with_its_status(driver: Driver, serve: Any) -> None:
    server = serve({"GET": with_json(b'{"issuer": "x"}')}, era=None)
    assert Asking(driver, server.url)("get_json", f"{server.origin}/.well-known/x?y=z", "discovery") == (
        200,
        {"issuer": "x"},
    )
    request = server.requests[0]
    assert (request.verb, request.target, request.body) == ("GET", "/.well-known/x?y=z", b"")
    assert request.header("Accept") == "application/json"
    assert request.header("Host") == server.origin.removeprefix("http://")


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("step", "answer"),
    [
        (with_json(b'{"a": 1}', 404), (404, {"a": 1})),
        (status(404), (404, None)),
        (with_json(b"[1]"), (200, None)),
        (with_json(b"{broken"), (200, None)),
        (with_json(b"\xff\xfe"), (200, None)),
        (with_json(b"[" * 10_000), (200, None)),
        (status(200, b'{"a": 1}', content_type="text/plain"), (200, {"a": 1})),
        (raw(http(200, b'data: {"a": 1}\n\n', [SSE])), (200, None)),
        (status(204), (204, None)),
        (status(500, b"<html>", content_type="text/html"), (500, None)),
    ],
)
def test_what_is_no_json_object_is_nothing(driver: Driver, serve: Any, step: Any, answer: Any) -> None:
    server = serve({"GET": step}, era=None)
    assert Asking(driver, server.url)("get_json", server.url, "discovery") == answer


@pytest.mark.req("A5")
def test_a_form_and_an_object_are_posted_and_answered(driver: Driver, serve: Any) -> None:
    server = serve({"*": with_json(b'{"ok": true}', 201, [("DPoP-Nonce", "n")])}, era=None)
    asking = Asking(driver, server.url)
    fields = {"grant_type": "a b", "code": "ä&="}
    answer = asking("post_form", server.url, fields, [("DPoP", "proof")], "token")
    assert (answer.status, answer.json, answer.headers.get("dpop-nonce")) == (201, {"ok": True}, "n")
    asking("post_json", server.url, {"redirect_uris": ["http://127.0.0.1/"]}, [], "registration")
    form, given = server.requests
    assert form.header("Content-Type") == "application/x-www-form-urlencoded"
    assert (form.body, form.header("DPoP")) == (b"grant_type=a+b&code=%C3%A4%26%3D", "proof")
    assert given.header("Content-Type") == "application/json"
    assert given.message == {"redirect_uris": ["http://127.0.0.1/"]}


@pytest.mark.req("A5")
@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(driver: Driver, serve: Any, code: int) -> None:
    other = serve({"GET": with_json(b"{}")}, era=None)
    server = serve({"*": status(code, headers=[("Location", other.url)])}, era=None)
    server.rules["GET"] = server.rules["*"]
    asking = Asking(driver, server.url)
    assert asking("get_json", server.url, "discovery") == (code, None)
    assert asking("post_form", server.url, {"code": "x"}, [], "token").status == code
    assert other.requests == []


@pytest.mark.req("A5")
def test_the_servers_own_endpoint_is_used_for_its_origin_and_no_other(driver: Driver, serve: Any) -> None:
    server = serve({"GET": with_json(b'{"here": 1}')}, era=None)
    way = (None, None, Tcp("127.0.0.1", server.port))
    with watched({"mcp.localhost": ["127.0.0.9"], "idp.localhost": ["127.0.0.9"]}) as leaving:
        asking = Asking(driver, "http://mcp.localhost/mcp", way=way)
        assert asking("get_json", "http://mcp.localhost/.well-known/x", "discovery") == (200, {"here": 1})
        with pytest.raises(AuthDiscoveryError):
            asking("get_json", "http://idp.localhost/x", "discovery")
    assert leaving.names == ["idp.localhost"]
    assert leaving.addresses == ["127.0.0.1", "127.0.0.9"]


# --- what never leaves ---------------------------------------------------------------------------

OUTSIDE = "https://mcp.example/mcp"


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    "url",
    [
        *("https://127.0.0.1/x", "https://2130706433/x", "https://0x7f.1/x", "https://[::ffff:7f00:1]/x"),
        *("https://169.254.169.254/latest", "https://[fd00:ec2::254]/", "http://idp.example/", "https://10.0.0.1/"),
        *("https://localhost/x", "https://u:p@idp.example/", "ftp://idp.example/", "https://a.localhost/"),
    ],
)
@pytest.mark.parametrize(
    ("verb", "args", "step"), [("get_json", (), "discovery"), ("post_form", ({"code": "hunter2"}, []), "token")]
)
def test_a_forbidden_url_is_neither_looked_up_nor_connected_to(
    driver: Driver, url: str, verb: str, args: Any, step: str
) -> None:
    with watched() as leaving, pytest.raises(AuthError) as caught:
        Asking(driver, OUTSIDE)(verb, url, *args, step)
    assert (leaving.names, leaving.addresses) == ([], [])
    assert (caught.value.step, caught.value.request_sent) == (step, False)
    assert "not asked" in str(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["127.0.0.1"],
        ["169.254.169.254"],
        ["::1"],
        ["fe80::1"],
        ["64:ff9b::a9fe:a9fe"],
        ["::ffff:10.0.0.1"],
        ["93.184.216.34", "10.0.0.1"],
        ["0.0.0.0"],
    ],
)
def test_a_name_that_leads_inside_is_not_connected_to(driver: Driver, addresses: list[str]) -> None:
    answers = {"idp.example": addresses, "mcp.example": ["93.184.216.34"]}
    with watched(answers) as leaving, pytest.raises(AuthDiscoveryError, match="not asked") as caught:
        Asking(driver, OUTSIDE)("get_json", "https://idp.example/x", "discovery")
    assert leaving.names[0] == "idp.example"
    assert leaving.addresses == []
    assert caught.value.url == "https://idp.example/x"


@pytest.mark.req("A5")
def test_a_resolver_that_changes_its_mind_is_asked_once(driver: Driver) -> None:
    answers = {"idp.example": [["93.184.216.34"], ["127.0.0.1"]]}
    with watched(answers) as leaving, pytest.raises(AuthDiscoveryError, match="connection refused"):
        Asking(driver, OUTSIDE)("get_json", "https://idp.example/x", "discovery")
    assert leaving.names == ["idp.example"]
    assert leaving.addresses == ["93.184.216.34"]


@pytest.mark.req("A5")
def test_a_server_inside_may_name_others_inside(driver: Driver) -> None:
    answers = {"idp.example": ["10.0.0.2"], "local.example": ["127.0.0.1"]}
    with watched(answers) as leaving:
        for name in ("idp", "local"):
            with pytest.raises(AuthDiscoveryError):
                asking = Asking(driver, OUTSIDE, reached=["10.0.0.1", "10.0.0.9"])
                asking("get_json", f"https://{name}.example/x", "discovery")
    assert leaving.addresses == ["10.0.0.2"]
    assert leaving.names == ["idp.example", "local.example"]


@pytest.mark.req("A5")
@pytest.mark.parametrize("reached", [[], ["93.184.216.34"], ["93.184.216.34", "10.0.0.1"], ["127.0.0.1", "8.8.8.8"]])
def test_a_server_is_inside_by_where_it_was_reached_and_only_if_that_is_inside_alone(
    driver: Driver, reached: list[str]
) -> None:
    """What its name stands for is the server's to say, and it may say another thing each time."""
    asking = Asking(driver, OUTSIDE, reached=reached)
    answers = {"mcp.example": ["10.0.0.1"], "idp.example": ["10.0.0.2"]}
    with watched(answers) as leaving, pytest.raises(AuthDiscoveryError, match="leads to a private address"):
        asking("get_json", "https://idp.example/x", "discovery")
    assert leaving.addresses == []
    assert leaving.names == ["idp.example"]


@pytest.mark.req("A5")
def test_a_name_that_only_looks_like_this_machine_is_not_asked_in_the_clear(driver: Driver) -> None:
    asking = Asking(driver, "http://127.0.0.1:8000/mcp")
    answers = {"idp.localhost": ["93.184.216.34"]}
    with watched(answers) as leaving, pytest.raises(AuthDiscoveryError, match="no https URL"):
        asking("get_json", "http://idp.localhost/x", "discovery")
    assert leaving.addresses == []


@pytest.mark.req("A5")
def test_the_servers_own_name_and_the_users_hosts_are_not_judged(driver: Driver) -> None:
    answers: dict[str, Any] = {"idp.example": ["10.0.0.2"], "meta.example": ["169.254.169.254"]}
    answers["mcp.example"] = [["10.0.0.1"], ["169.254.169.254"]]  # not even its own name leads to a metadata service
    with watched(answers) as leaving:
        asking = Asking(driver, OUTSIDE, allow_hosts=["idp.example", "meta.example"])
        for name in ("mcp", "mcp", "idp", "meta"):
            with pytest.raises(AuthDiscoveryError):
                asking("get_json", f"https://{name}.example/x", "discovery")
    assert leaving.addresses == ["10.0.0.1", "10.0.0.2"]


@pytest.mark.req("A5")
def test_through_a_proxy_names_and_literals_are_judged_and_nothing_is_looked_up(driver: Driver) -> None:
    with ForwardProxy(answer=b"HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n") as proxy, watched() as leaving:
        asking = Asking(driver, OUTSIDE, way=(None, proxy.url, None))
        for url in ("https://10.0.0.1/x", "https://localhost/x", "https://metadata.google.internal/x"):
            with pytest.raises(AuthDiscoveryError, match="not asked"):
                asking("get_json", url, "discovery")
        assert proxy.lines == []
        with pytest.raises(AuthDiscoveryError, match="proxy"):
            asking("get_json", "https://idp.example/x", "discovery")
        assert proxy.lines == ["CONNECT idp.example:443 HTTP/1.1"]
    assert leaving.names == []


@pytest.mark.req("A5")
def test_a_connection_that_is_kept_goes_to_the_address_that_was_judged(driver: Driver, serve: Any) -> None:
    server = serve({"GET": with_json(b"{}")}, era=None)
    url = f"http://idp.localhost:{server.port}/"

    async def body(io: Any) -> None:
        fetcher = AuthContext(io, LIMITS, parse_url(server.url)).fetcher()
        for _ in range(3):
            assert await fetcher.get_json(url, "discovery", io.now() + 5) == (200, {})
        fetcher.close()
        assert await fetcher.get_json(url, "discovery", io.now() + 5) == (200, {})

    with watched({"idp.localhost": ["127.0.0.1"]}) as leaving:
        driver.run(body)
    assert leaving.names == ["idp.localhost"] * 2
    assert server.accepted == 2


@pytest.mark.req("A5")
def test_no_more_than_eight_origins_are_kept_and_a_dropped_fetcher_leaves_nothing_open(
    driver: Driver, serve: Any
) -> None:
    servers = [serve({"GET": with_json(b"{}")}, era=None) for _ in range(9)]

    async def body(io: Any) -> None:
        fetcher = AuthContext(io, LIMITS, parse_url(servers[0].url)).fetcher()
        for server in servers:
            await fetcher.get_json(server.url, "discovery", io.now() + 5)
        assert "8 origins" in repr(fetcher)
        servers[0].wait_until(lambda: servers[0].open == 0)
        del fetcher
        gc.collect()
        await io.sleep(0)
        for server in servers:
            server.wait_until(lambda: server.open == 0)  # noqa: B023

    driver.run(body)


# --- how it fails --------------------------------------------------------------------------------


@pytest.mark.req("A5")
@pytest.mark.parametrize("length", [True, False])
def test_a_huge_answer_is_cut_off_at_the_limit(driver: Driver, serve: Any, length: bool) -> None:
    body = b" " * 20_001 if length else b""
    steps = [raw(http(200, body, [JSON]))]
    if not length:
        steps = [raw(http(200, b"", [JSON, CHUNKED], length=False)), raw(chunk(b" " * 30_000)), hang()]
    server = serve({"GET": steps}, era=None)
    with pytest.raises(AuthDiscoveryError, match="max_auth_bytes") as caught:
        Asking(driver, server.url)("get_json", server.url, "discovery")
    assert caught.value.step == "discovery"


@pytest.mark.req("A5")
def test_a_slow_answer_is_given_up_after_its_own_time_and_not_the_calls(driver: Driver, serve: Any) -> None:
    server = serve({"GET": [raw(http(200, b"", [JSON, CHUNKED], length=False)), raw(chunk(b"{")), hang()]}, era=None)
    limits = LIMITS.replace(auth_timeout=0.05)
    with pytest.raises(AuthTokenError, match=r"limits\.auth_timeout"):
        Asking(driver, server.url, limits=limits)("get_json", server.url, "token")
    with pytest.raises(Expired):
        Asking(driver, server.url)("get_json", server.url, "token", timeout=0.05)


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ({"GET": [reset()]}, "was closed"),
        ({"GET": [close()]}, "ended inside"),
        ({"GET": raw(b"no http at all\r\n\r\n")}, "bad"),
        ({"GET": raw(http(200, b"\x00", [JSON, ("Content-Encoding", "gzip")]))}, "body"),
    ],
)
def test_a_broken_answer_is_an_error_of_its_step(driver: Driver, serve: Any, rules: Any, text: str) -> None:
    server = serve(rules, era=None)
    with pytest.raises(AuthDiscoveryError) as caught:
        Asking(driver, server.url)("get_json", server.url + "?secret", "discovery")
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.url == server.url


@pytest.mark.req("A5")
def test_no_connection_is_an_error_of_its_step_with_the_reason_as_its_cause(driver: Driver, serve: Any) -> None:
    server = serve(era=None)
    server.stop_listening()
    with pytest.raises(AuthDiscoveryError, match="connection refused") as caught:
        Asking(driver, server.url)("get_json", server.url, "discovery")
    assert isinstance(caught.value.__cause__, ConnectError)
    with watched(), pytest.raises(AuthDiscoveryError, match="not found"):
        Asking(driver, OUTSIDE)("get_json", "https://nowhere.example/", "discovery")


@pytest.mark.req("A5")
def test_the_clients_own_trust_decides_about_certificates(driver: Driver, serve: Any, certificates: Any) -> None:
    server = serve({"GET": with_json(b"{}")}, era=None, tls=certificates.server)
    trusting = Asking(driver, server.url, way=(certificates.ca_path, None, None))
    assert trusting("get_json", server.url, "discovery") == (200, {})
    with pytest.raises(AuthDiscoveryError, match="certificate"):
        Asking(driver, server.url)("get_json", server.url, "discovery")


@pytest.mark.req("A1")
def test_nothing_of_an_answer_or_a_way_is_in_a_repr(driver: Driver, serve: Any) -> None:
    server = serve({"*": with_json(b'{"access_token": "hunter2"}')}, era=None)
    answer = Asking(driver, server.url)("post_form", server.url, {}, [], "token")
    assert repr(answer) == "<Answer 200, 1 members>"
    context = AuthContext(None, LIMITS, parse_url("https://u:hunter2@h/?hunter2"), (None, "http://u:hunter2@p", None))  # type: ignore[arg-type]
    assert "hunter2" not in repr(context)
