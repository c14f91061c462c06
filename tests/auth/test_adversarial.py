"""Servers that mean harm. What they name is not asked, what they say is not believed, and each ends in its own error.

The parties are public (names, https, public addresses, as `tests.support.network` plays them), so that no private
address is theirs to name; the network counts whom the client reached.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest

from ferrule import Limits
from ferrule.auth import ClientCredentials, EnterpriseManaged
from ferrule.errors import (
    AuthChallengeError,
    AuthDiscoveryError,
    AuthError,
    AuthorizationError,
    AuthRegistrationError,
    AuthTokenError,
)
from tests.auth.browsing import Visitor
from tests.servers.authority import Code, Registered
from tests.servers.parties import Asked, Reply, endless, redirect, slow
from tests.servers.protected import PRM, World
from tests.support.clients import Flavour
from tests.support.network import PUBLIC, Network, network

HOMES = {name: f"{PUBLIC}{number}" for number, name in enumerate(World.NAMES, 10)}
INSIDE = {
    "inside.example": ["10.0.0.5"],
    "both.example": [f"{PUBLIC}99", "192.168.1.1"],
    "loop.example": ["127.0.0.1"],
    "meta.example": ["169.254.169.254"],
    "six.example": ["fd00:ec2::254"],
    "mapped.example": ["::ffff:10.0.0.5"],
}
"""Names of the adversary's that lead where only the client can go."""
FORBIDDEN = [
    *("https://127.0.0.1", "https://127.1", "https://2130706433", "https://0x7f000001", "https://0177.0.0.1"),
    *("https://0x7f.0.0x1", "https://0", "https://0.0.0.0", "https://127.0.0.1.", "https://localhost"),
    *("https://LocalHost.", "https://a.localhost", "https://１２７.0.0.1", "https://[::1]", "https://[::]"),
    *("https://[::ffff:127.0.0.1]", "https://[::ffff:7f00:1]", "https://[::127.0.0.1]", "https://[2002:7f00:1::]"),
    *("https://[64:ff9b::7f00:1]", "https://[64:ff9b:1::a00:1]", "https://[2001:db8::5efe:a00:1]"),
    *("https://10.0.0.1", "https://172.16.0.1", "https://192.168.0.1", "https://100.64.0.1", "https://0xa.1"),
    *("https://169.254.169.254", "https://2852039166", "https://0xa9fea9fe", "https://0251.0376.0251.0376"),
    *("https://[fd00:ec2::254]", "https://[fe80::1]", "https://[fe80::1%25lo]", "https://[fc00::1]"),
    *("https://metadata.google.internal", "https://100.100.100.200", "https://224.0.0.1", "https://255.255.255.255"),
    *("http://stranger.example", "https://mcp.example@10.0.0.1", "https://mcp.example:x@stranger.example"),
    *("https://10.0.0.1#@mcp.example", "https://10.0.0.1\\@mcp.example", "https://10.0.0.1:443/../mcp"),
    *("file:///etc/passwd", "ftp://stranger.example", "javascript:alert(1)//", "//10.0.0.1", "", "https://"),
]
"""Where no request may go, nor any browser be sent, in every spelling."""


@pytest.fixture(scope="module")
def tls() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """A server's context for all names, and a client's that trusts it."""
    import trustme

    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert(*World.NAMES).configure_cert(server)
    authority.configure_trust(client)
    return server, client


class Attack:
    """A world of public servers, the network they are in, and a client's view of it."""

    def __init__(self, flavour: Flavour, world: World, net: Network, trust: ssl.SSLContext) -> None:
        self.flavour = flavour
        self.world = world
        self.net = net
        self.visitor = Visitor(world.authority, world.stranger)
        self._trust = trust

    def call(self, auth: Any = None, **options: Any) -> str:
        """The text of one tool call; by default a user logs in for it."""
        limits = Limits(max_auth_bytes=65536, auth_timeout=options.pop("auth_timeout", 10))
        given = {"auth": auth or self.visitor.oauth(), "tls": self._trust, "limits": limits, **options}
        client = self.flavour.client(self.world.url, **given)
        try:
            return client.call_tool("echo", {}).text
        finally:
            client.close()

    def fail(self, kind: type[AuthError], auth: Any = None, **options: Any) -> AuthError:
        """The error of one tool call; nobody was reached who must not be, and no other secret than one's own left."""
        with pytest.raises(kind) as caught:
            self.call(auth, **options)
        assert self.net.offences == []
        assert type(caught.value) is kind
        return caught.value

    def secrets_sent_to_the_stranger(self) -> list[Asked]:
        """Its requests that carry anything that is a secret."""
        return [
            asked
            for asked in self.world.stranger.party.seen
            if asked.body or asked.header("authorization") or asked.header("dpop")
        ]


@pytest.fixture
def attack(flavour: Flavour, tls: tuple[ssl.SSLContext, ssl.SSLContext]) -> Iterator[Attack]:
    names: dict[str, Any] = {**INSIDE, **{name: [address] for name, address in HOMES.items()}}
    with World(tls=tls[0]) as world, network(names, set(HOMES.values())) as net:
        world.authority.clients["me"] = Registered("secret", "client_secret_basic")
        yield Attack(flavour, world, net, tls[1])


def service() -> ClientCredentials:
    return ClientCredentials("me", "secret")


def test_honest_public_servers_are_asked(attack: Attack) -> None:
    """What the attacks below change one thing of."""
    assert attack.call() == "hello"
    assert attack.call(service()) == "hello"
    assert attack.net.offences == []
    assert {host for host, _ in attack.net.connected} == {HOMES["mcp.example"], HOMES["as.example"]}


# --- addresses -------------------------------------------------------------------------------------


def name_metadata(world: World, url: str) -> None:
    world.mcp.challenge = f'Bearer resource_metadata="{url}/prm"'


def name_issuer(world: World, url: str) -> None:
    world.mcp.metadata["authorization_servers"] = [url]


def name_token_endpoint(world: World, url: str) -> None:
    world.authority.metadata["token_endpoint"] = f"{url}/token"


def name_registration_endpoint(world: World, url: str) -> None:
    world.authority.metadata["registration_endpoint"] = f"{url}/register"


def name_authorization_endpoint(world: World, url: str) -> None:
    world.authority.metadata["authorization_endpoint"] = f"{url}/authorize"


FIELDS: dict[Callable[[World, str], None], type[AuthError]] = {
    name_metadata: AuthDiscoveryError,
    name_issuer: AuthDiscoveryError,
    name_token_endpoint: AuthTokenError,
    name_registration_endpoint: AuthRegistrationError,
    name_authorization_endpoint: AuthorizationError,
}


@pytest.mark.req("A5")
@pytest.mark.parametrize("field", FIELDS)
def test_no_spelling_of_a_forbidden_address_is_asked_whichever_field_names_it(
    attack: Attack, field: Callable[[World, str], None]
) -> None:
    # A name is looked up by who connects, and that is the browser for the one endpoint that is the user's.
    names = [] if field is name_authorization_endpoint else [f"https://{name}" for name in INSIDE]
    for url in [*FORBIDDEN, *names]:
        field(attack.world, url)
        error = attack.fail(FIELDS[field])
        assert "10.0.0.5" not in str(error), url
    assert {host for host, _ in attack.net.connected} <= {HOMES["mcp.example"], HOMES["as.example"]}
    sent_to = [urlsplit(url).hostname for url in attack.visitor.sent_to]
    assert set(sent_to) <= {"as.example"}
    if field is name_authorization_endpoint:
        assert sent_to == []


@pytest.mark.req("A5")
def test_a_name_that_changes_its_address_is_connected_to_where_it_was_judged(attack: Attack) -> None:
    answers = iter([[HOMES["as.example"]]])
    attack.net.names["as.example"] = lambda: next(answers, ["10.0.0.5"])
    authority = attack.world.authority
    # The connection ends with the first answer, so the name is looked up again for the second.
    authority.tricks["/.well-known/oauth-authorization-server"] = lambda asked: Reply(
        body=authority.described(), headers=[("Connection", "close")]
    )
    attack.fail(AuthTokenError, service())
    assert attack.net.looked_up.count("as.example") == 2
    assert {host for host, _ in attack.net.connected} == {HOMES["mcp.example"], HOMES["as.example"]}


@pytest.mark.req("A5")
@pytest.mark.parametrize("later", [["10.0.0.1"], ["127.0.0.1"], [f"{PUBLIC}10", "10.0.0.1"]])
def test_a_server_cannot_make_itself_one_of_the_inside_by_its_own_name(attack: Attack, later: list[str]) -> None:
    answers = iter([[HOMES["mcp.example"]]] * 2)  # for the call, and for the resource metadata
    attack.net.names["mcp.example"] = lambda: next(answers, later)
    attack.world.mcp.metadata["authorization_servers"] = ["https://inside.example"]
    with pytest.raises(AuthDiscoveryError):
        attack.call(service())
    assert "10.0.0.5" not in [host for host, _ in attack.net.connected]


@pytest.mark.req("A5")
def test_a_host_that_the_user_allows_may_be_private(attack: Attack) -> None:
    attack.net.names["as.example"] = ["10.1.2.3"]
    attack.net.homes.add("10.1.2.3")
    attack.fail(AuthDiscoveryError, service())
    assert not [host for host, _ in attack.net.connected if host == "10.1.2.3"]
    assert attack.call(ClientCredentials("me", "secret", allow_hosts=["as.example"])) == "hello"
    assert attack.call(attack.visitor.oauth(allow_hosts=["as.example"])) == "hello"


@pytest.mark.req("A5")
def test_an_identity_provider_that_the_user_names_may_be_private(attack: Attack) -> None:
    attack.net.names["idp.example"] = ["10.1.2.3"]
    attack.net.homes.add("10.1.2.3")
    attack.world.idp.clients["me"] = Registered()
    auth = EnterpriseManaged(
        "id-token-of-the-user",
        idp_token_endpoint=attack.world.idp.token_url,
        idp_client_id="me",
        client_id="me",
        client_secret="secret",
    )
    assert attack.call(auth) == "hello"


# --- redirects -------------------------------------------------------------------------------------

PAGES = {
    PRM: AuthDiscoveryError,
    "/.well-known/oauth-authorization-server": AuthDiscoveryError,
    "/register": AuthRegistrationError,
    "/token": AuthTokenError,
}


@pytest.mark.req("A2", "A5")
@pytest.mark.parametrize("page", PAGES)
def test_a_redirect_is_not_followed_with_or_without_credentials(attack: Attack, page: str) -> None:
    world = attack.world
    stranger = world.stranger.party.origin
    for status, target in (
        *((status, stranger) for status in (301, 302, 303, 307, 308)),
        *((307, target) for target in ("https://10.0.0.1", "http://169.254.169.254", "/elsewhere")),
    ):
        away = Reply(status, headers=[("Location", f"{target}{page}")])
        (world.mcp if page == PRM else world.authority).tricks[page] = lambda asked, away=away: away  # type: ignore[misc]
        attack.fail(PAGES[page])
    assert world.stranger.party.seen == []


@pytest.mark.req("A2")
def test_an_open_redirect_of_the_mcp_server_takes_no_token_elsewhere(attack: Attack) -> None:
    world = attack.world

    def away(asked: Asked) -> Reply | None:
        leads = Reply(307, headers=[("Location", f"{world.stranger.party.origin}/mcp")])
        return leads if asked.header("authorization") else None

    world.mcp.tricks["/mcp"] = away
    with pytest.raises(Exception, match="redirect"):
        attack.call(service())
    assert world.stranger.party.seen == []


# --- who is who ------------------------------------------------------------------------------------


@pytest.mark.req("A6")
@pytest.mark.parametrize("stated", ["https://stranger.example", "{}/", "{}/.", "HTTPS://{}", None, 7, ["{}"], ""])
def test_metadata_that_speaks_of_another_issuer_is_not_believed(attack: Attack, stated: Any) -> None:
    issuer = attack.world.authority.issuer
    if isinstance(stated, str):
        stated = stated.format(issuer)
    attack.world.authority.metadata["issuer"] = [issuer] if isinstance(stated, list) else stated
    error = attack.fail(AuthDiscoveryError)
    assert error.url == f"{issuer}/.well-known/oauth-authorization-server" or error.url == issuer
    assert attack.visitor.sent_to == []


@pytest.mark.req("A6")
@pytest.mark.parametrize("iss", ["stranger", "slash", "missing"])
@pytest.mark.parametrize("kind", ["code", "error"])
def test_an_answer_of_another_authorization_server_is_dropped_whole(attack: Attack, iss: str, kind: str) -> None:
    """Mix-up (RFC 9207): the code of one server must not be shown to another."""
    world = attack.world
    wrong = {"stranger": world.stranger.issuer, "slash": f"{world.authority.issuer}/"}

    def tamper(location: str) -> str:
        answer = dict(parse_qsl(urlsplit(location).query))
        del answer["iss"]
        if iss in wrong:
            answer["iss"] = wrong[iss]
        if kind == "error":
            answer |= {"error": "access_denied", "error_description": "call 555-0100"}
            del answer["code"]
        return f"{location.partition('?')[0]}?{urlencode(answer)}"

    attack.visitor = Visitor(world.authority, tamper=tamper)
    error = attack.fail(AuthorizationError)
    assert (error.error, error.description) == (None, None)
    assert "555-0100" not in f"{error!r} {error} {error.__cause__!r} {error.__context__!r}"
    assert world.authority.token_requests() == []
    assert world.stranger.party.seen == []


@pytest.mark.parametrize("change", ["other", "missing", "twice", "empty"])
def test_an_answer_to_another_request_is_dropped(attack: Attack, change: str) -> None:
    def tamper(location: str) -> str:
        pairs = parse_qsl(urlsplit(location).query)
        rest = [(name, value) for name, value in pairs if name != "state"]
        state = dict(pairs)["state"]
        given = {"other": ["x" * 43], "missing": [], "twice": [state, state], "empty": [""]}[change]
        return f"{location.partition('?')[0]}?{urlencode(rest + [('state', value) for value in given])}"

    attack.visitor = Visitor(attack.world.authority, tamper=tamper)
    attack.fail(AuthorizationError)
    assert attack.world.authority.token_requests() == []


def test_a_code_that_was_used_before_gives_no_token(attack: Attack) -> None:
    world = attack.world
    code = "stolen"
    world.authority.codes[code] = Code({"code_challenge": "of another request"}, used=True)

    def tamper(location: str) -> str:
        answer = {**dict(parse_qsl(urlsplit(location).query)), "code": code}
        return f"{location.partition('?')[0]}?{urlencode(answer)}"

    attack.visitor = Visitor(world.authority, tamper=tamper)
    error = attack.fail(AuthTokenError)
    assert error.error == "invalid_grant"
    # One that was not used is of no use either: it belongs to another verifier.
    world.authority.codes[code] = Code({"code_challenge": "of another request"})
    assert attack.fail(AuthTokenError).error == "invalid_grant"
    assert len(world.authority.token_requests()) == 2


@pytest.mark.parametrize("methods", [None, [], ["plain"], "S256", [1]])
def test_without_pkce_no_user_is_sent_anywhere(attack: Attack, methods: Any) -> None:
    attack.world.authority.metadata["code_challenge_methods_supported"] = methods
    error = attack.fail(AuthDiscoveryError)
    assert "PKCE" in str(error)
    assert attack.visitor.sent_to == []


# --- for whom --------------------------------------------------------------------------------------


@pytest.mark.req("A2")
@pytest.mark.parametrize(
    "resource",
    [
        "https://stranger.example/mcp",
        "https://mcp.example/mcp",
        "{}/other",
        "{}x",
        "{}#fragment",
        "{}?tenant=b",
        None,
        7,
        "",
    ],
)
def test_no_token_is_asked_for_another_resource_than_the_server(attack: Attack, resource: Any) -> None:
    world = attack.world
    world.mcp.metadata["resource"] = resource.format(world.url) if isinstance(resource, str) else resource
    for auth in (attack.visitor.oauth(), service()):
        attack.fail(AuthDiscoveryError, auth)
    assert attack.visitor.sent_to == []
    assert world.authority.party.seen == []


@pytest.mark.req("A2")
def test_a_token_for_another_resource_is_shown_to_this_server_alone_and_not_for_ever(attack: Attack) -> None:
    world = attack.world

    def for_another(asked: Asked) -> None:
        for granted in world.authority.tokens.values():
            granted.resource = "https://stranger.example/mcp"

    world.mcp.tricks["/mcp"] = for_another
    error = attack.fail(AuthChallengeError, service())
    assert error.status == 401
    assert len(world.authority.token_requests()) <= 2
    assert world.stranger.party.seen == []


# --- bodies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_a_document_without_end_is_cut_off(attack: Attack, page: str) -> None:
    party = attack.world.mcp if page == PRM else attack.world.authority
    party.tricks[page] = lambda asked: endless(party.party)
    error = attack.fail(PAGES[page])
    assert "limits.max_auth_bytes" in str(error)


@pytest.mark.parametrize("page", PAGES)
def test_a_document_that_does_not_come_is_given_up(attack: Attack, page: str) -> None:
    party = attack.world.mcp if page == PRM else attack.world.authority
    party.tricks[page] = lambda asked: slow(party.party)
    error = attack.fail(PAGES[page], auth_timeout=0.25)
    assert "limits.auth_timeout" in str(error)


BODIES = {
    "no JSON": b"<html>",
    "no object": b"[1, 2]",
    "no UTF-8": b'{"issuer": "\xff"}',
    "deep": b"[" * 50_000,
    "null": b"null",
    "empty": b"",
    "a number out of range": b'{"expires_in": 1e999}',
}


@pytest.mark.parametrize("page", PAGES)
def test_a_body_that_is_no_document_is_an_error_of_its_step(attack: Attack, page: str) -> None:
    party = attack.world.mcp if page == PRM else attack.world.authority
    for body in BODIES.values():
        party.tricks[page] = lambda asked, body=body: Reply(body=body)  # type: ignore[misc]
        error = attack.fail(PAGES[page])
        assert "html" not in str(error)


TOKENS: dict[str, list[Any]] = {
    "access_token": [None, 7, [], {}, "", "a\r\nX-Evil: 1", "a b", "é", "x\x00"],
    "token_type": [7, [], {}, "", "mac", "N_A", "bearer\r\n"],
}


@pytest.mark.parametrize("member", TOKENS)
def test_a_token_that_no_header_can_carry_is_none(attack: Attack, member: str) -> None:
    for value in TOKENS[member]:
        attack.world.authority.token_members[member] = value
        attack.fail(AuthTokenError, service())
    assert attack.world.mcp.calls() == []


def test_what_an_authorization_server_says_is_escaped_capped_and_never_in_the_text(attack: Attack) -> None:
    said = "\x1b[31mred\u202e\r\n" + "x" * 5000
    attack.world.authority.tricks["/token"] = lambda asked: Reply(
        400, {"error": "e\x07" * 100, "error_description": said, "access_token": "t0ps3cret"}
    )
    error = attack.fail(AuthTokenError, service())
    assert error.error is not None and error.description is not None
    assert len(error.error) <= 64 and len(error.description.encode()) <= 1024
    assert (error.error + error.description).isprintable()
    assert "red" not in f"{error} {error!r}"
    assert "t0ps3cret" not in f"{error} {error!r} {error.description}"


def test_hostile_challenges_end_in_a_log_in_or_an_error_and_never_in_a_crash(attack: Attack) -> None:
    for challenge in (
        *("Bearer", "Bearer ,,,", 'Bearer resource_metadata="', "Bearer =", "Negotiate abc, Basic realm=x", '"' * 5000),
        *("Bearer " + "a=b, " * 3000, 'Bearer scope="' + "s " * 6000 + '"', "DPoP, Bearer", 'Bearer error="\\"'),
    ):
        attack.world.mcp.challenge = challenge
        try:
            attack.call(service())
        except AuthError as error:
            assert challenge not in str(error)
    assert attack.net.offences == []


@pytest.mark.req("A2")
def test_a_stranger_never_sees_a_secret_whatever_the_server_names(attack: Attack) -> None:
    """The secret of a known client: the server names a new authorization server, and both together the rest."""
    world = attack.world
    auth = ClientCredentials("me", "secret", issuer=world.authority.issuer)
    for metadata, mcp in (
        ({}, {"authorization_servers": [world.stranger.issuer]}),
        ({"issuer": world.authority.issuer}, {"authorization_servers": [world.stranger.issuer]}),
        ({"issuer": world.authority.issuer, "token_endpoint": world.stranger.token_url}, {}),
    ):
        world.stranger.metadata, world.mcp.metadata = metadata, mcp
        if mcp:
            attack.fail(AuthDiscoveryError, auth)
        else:
            assert attack.call(auth) == "hello"
    assert attack.secrets_sent_to_the_stranger() == []


def test_a_log_in_page_elsewhere_is_not_where_the_redirect_leads(attack: Attack) -> None:
    """An authorization endpoint that sends the user on to a stranger brings no code of the stranger's back."""
    world = attack.world
    answer = f"{world.stranger.party.origin}/callback?code=x&state=y"
    world.authority.tricks["/authorize"] = lambda asked: redirect(answer)
    attack.fail(AuthorizationError)
    assert world.authority.token_requests() == []
