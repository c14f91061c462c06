"""Which documents are asked for, in which order, and which of them are believed."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule._http.url import parse_url
from ferrule._io.blocking import BlockingIO, run
from ferrule.auth.discovery import Metadata, candidates, canonical, covers, find_metadata, find_resource
from ferrule.errors import AuthDiscoveryError

SERVER = parse_url("https://mcp.example/public/mcp")
PATH = "https://mcp.example/.well-known/oauth-protected-resource/public/mcp"
ROOT = "https://mcp.example/.well-known/oauth-protected-resource"
TENANT = "https://as.example/tenant1"
RESOURCE = {"resource": "https://mcp.example/public/mcp", "authorization_servers": ["https://as.example"]}


class Web:
    """A fetcher of documents that are here; anything else is answered with 404."""

    def __init__(self, **pages: Any) -> None:
        self.io = BlockingIO()
        self.pages = pages
        self.asked: list[str] = []

    async def get_json(self, url: str, step: str, deadline: float) -> tuple[int, dict[str, Any] | None]:
        assert step == "discovery"
        self.asked.append(url)
        page = self.pages.get(url, 404)
        return (page, None) if isinstance(page, int) else (200, page)


def web(pages: dict[str, Any]) -> Any:
    return Web(**pages)


def resource_of(pages: dict[str, Any], named: str | None = None) -> tuple[Any, list[str]]:
    fetcher = web(pages)
    return run(find_resource(fetcher, SERVER, named, 0.0)), fetcher.asked


def metadata_of(pages: dict[str, Any], issuer: str, **options: Any) -> tuple[Metadata, list[str]]:
    fetcher = web(pages)
    return run(find_metadata(fetcher, issuer, 0.0, **options)), fetcher.asked


# --- the resource --------------------------------------------------------------------------------


def test_the_document_that_the_challenge_names_is_the_only_one_asked_for() -> None:
    named = "https://mcp.example/custom/metadata.json"
    resource, asked = resource_of({named: {**RESOURCE, "scopes_supported": ["a", 5]}, PATH: RESOURCE}, named)
    assert asked == [named]
    assert (resource.resource, resource.issuers, resource.scopes) == (SERVER.label, ("https://as.example",), ("a",))
    for status in (404, 403, 500):
        with pytest.raises(AuthDiscoveryError) as caught:
            resource_of({named: status, PATH: RESOURCE, ROOT: RESOURCE}, named)
        assert caught.value.status == status


@pytest.mark.req("A5")
@pytest.mark.parametrize(
    "named", ["https://evil.example/prm", "http://mcp.example/prm", "https://mcp.example:8443/prm"]
)
def test_a_document_on_another_origin_is_not_asked_for(named: str) -> None:
    fetcher = web({named: RESOURCE})
    with pytest.raises(AuthDiscoveryError, match="another origin"):
        run(find_resource(fetcher, SERVER, named, 0.0))
    assert fetcher.asked == []


@pytest.mark.parametrize("missing", [404, 401, 403, 405, None])
def test_without_a_name_the_path_comes_first_and_the_root_next(missing: int | None) -> None:
    pages: dict[str, Any] = {ROOT: {**RESOURCE, "resource": "https://mcp.example"}}
    if missing is not None:
        pages[PATH] = missing
    resource, asked = resource_of(pages)
    assert asked == [PATH, ROOT]
    assert resource.resource == "https://mcp.example"


def test_what_is_found_under_the_path_is_not_looked_for_at_the_root() -> None:
    assert resource_of({PATH: RESOURCE, ROOT: RESOURCE})[1] == [PATH]


def test_a_server_at_the_root_has_one_place() -> None:
    fetcher = web({})
    run(find_resource(fetcher, parse_url("https://mcp.example"), None, 0.0))
    assert fetcher.asked == [ROOT]


def test_a_server_that_says_nothing_is_of_2025_03_26() -> None:
    resource, _ = resource_of({})
    assert (resource.legacy, resource.issuers, resource.resource) == (True, ("https://mcp.example",), SERVER.label)


def test_a_server_in_trouble_is_not_taken_for_one_that_says_nothing() -> None:
    with pytest.raises(AuthDiscoveryError) as caught:
        resource_of({PATH: 503})
    assert caught.value.status == 503


@pytest.mark.req("A2")
@pytest.mark.parametrize("resource", ["https://other.example/public/mcp", "https://mcp.example/pub", None, 5])
def test_a_document_about_another_resource_is_not_believed(resource: Any) -> None:
    with pytest.raises(AuthDiscoveryError, match="another resource"):
        resource_of({PATH: {**RESOURCE, "resource": resource}})


@pytest.mark.parametrize("issuers", [None, [], "https://as.example", [5]])
def test_a_document_without_an_authorization_server_is_no_help(issuers: Any) -> None:
    with pytest.raises(AuthDiscoveryError, match="no authorization server"):
        resource_of({PATH: {**RESOURCE, "authorization_servers": issuers}})


@pytest.mark.req("A2")
@pytest.mark.parametrize(
    ("resource", "server", "same"),
    [
        ("https://a.example/mcp", "https://a.example/mcp", True),
        ("HTTPS://A.example:443/mcp", "https://a.example/mcp", True),
        ("https://a.example", "https://a.example/mcp", True),
        ("https://a.example/", "https://a.example/mcp", True),
        ("https://a.example/x", "https://a.example/x/mcp", True),
        ("https://a.example/x/", "https://a.example/x/mcp", True),
        ("https://a.example/x", "https://a.example/xy", False),
        ("https://a.example/mcp/x", "https://a.example/mcp", False),
        ("https://a.example/MCP", "https://a.example/mcp", False),
        ("http://a.example/mcp", "https://a.example/mcp", False),
        ("https://a.example:8443/mcp", "https://a.example/mcp", False),
        ("https://b.example/mcp", "https://a.example/mcp", False),
        ("https://u@a.example/mcp", "https://a.example/mcp", False),
        ("https://a.example/mcp#x", "https://a.example/mcp", False),
        ("https://a.example/mcp", "https://a.example/mcp?tenant=1", True),
        ("https://a.example/mcp?tenant=1", "https://a.example/mcp?tenant=1", True),
        ("https://a.example/mcp?tenant=2", "https://a.example/mcp?tenant=1", False),
        ("urn:mcp", "https://a.example/mcp", False),
    ],
)
def test_a_resource_is_the_servers_url_or_a_prefix_of_its_path(resource: str, server: str, same: bool) -> None:
    assert covers(resource, parse_url(server)) is same


@pytest.mark.parametrize(
    ("server", "resource"),
    [
        ("https://A.Example:443", "https://a.example"),
        ("https://a.example/", "https://a.example"),
        ("https://a.example/mcp/", "https://a.example/mcp/"),
        ("https://u:p@a.example:8443/mcp?key=secret#x", "https://a.example:8443/mcp"),
    ],
)
def test_a_server_that_did_not_name_itself_is_called_by_its_url_without_what_may_be_secret(
    server: str, resource: str
) -> None:
    assert canonical(parse_url(server)) == resource


# --- the authorization server --------------------------------------------------------------------


def test_an_issuer_with_a_path_has_three_places_and_none_is_above_its_path() -> None:
    assert (
        candidates(TENANT)
        == candidates(f"{TENANT}/")
        == [
            "https://as.example/.well-known/oauth-authorization-server/tenant1",
            "https://as.example/.well-known/openid-configuration/tenant1",
            "https://as.example/tenant1/.well-known/openid-configuration",
        ]
    )


def test_an_issuer_without_a_path_has_two_places() -> None:
    assert candidates("https://as.example") == [
        "https://as.example/.well-known/oauth-authorization-server",
        "https://as.example/.well-known/openid-configuration",
    ]


@pytest.mark.parametrize(
    "issuer", ["as.example", "https://as.example/?a=1", "https://as.example#x", "https://u@as.example"]
)
def test_what_is_no_issuer_identifier_is_refused(issuer: str) -> None:
    with pytest.raises(AuthDiscoveryError):
        candidates(issuer)


@pytest.mark.parametrize("place", range(3))
def test_each_place_is_asked_in_turn(place: int) -> None:
    document = {"issuer": TENANT, "token_endpoint": "https://as.example/t"}
    metadata, asked = metadata_of({candidates(TENANT)[place]: document}, TENANT)
    assert metadata.token_endpoint == "https://as.example/t"
    assert asked == candidates(TENANT)[: place + 1]


@pytest.mark.req("A6")
@pytest.mark.parametrize("stated", ["https://honest.example", f"{TENANT}/", TENANT.upper(), None, 5])
def test_a_document_that_states_another_issuer_is_not_used(stated: Any) -> None:
    document = {"issuer": stated, "token_endpoint": "https://as.example/t"}
    with pytest.raises(AuthDiscoveryError, match="another issuer"):
        metadata_of({candidates(TENANT)[0]: document}, TENANT)


def test_a_document_of_another_issuer_does_not_hide_the_right_one() -> None:
    right = {"issuer": TENANT, "token_endpoint": "https://as.example/right"}
    wrong = {"issuer": "https://as.example", "token_endpoint": "https://as.example/wrong"}
    metadata, _ = metadata_of(dict(zip(candidates(TENANT), [wrong, 500, right], strict=True)), TENANT)
    assert metadata.token_endpoint == "https://as.example/right"


@pytest.mark.req("A6")
@pytest.mark.parametrize("named", ["https://as.example", "https://as.example/", TENANT, f"{TENANT}/"])
def test_a_final_slash_makes_another_issuer_and_the_error_says_so(named: str) -> None:
    document = {"issuer": named, "token_endpoint": "https://as.example/t"}
    metadata, _ = metadata_of({candidates(named)[0]: document}, named)
    assert metadata.issuer == named
    other = named.removesuffix("/") if named.endswith("/") else f"{named}/"
    with pytest.raises(AuthDiscoveryError, match="final slash, which counts"):
        metadata_of({candidates(named)[0]: {**document, "issuer": other}}, named)


@pytest.mark.parametrize("stated", ["https://mcp.example", "https://mcp.example/"])
def test_the_origin_of_a_server_that_named_no_issuer_may_have_its_slash_or_not(stated: str) -> None:
    document = {"issuer": stated, "token_endpoint": "https://mcp.example/t"}
    metadata, _ = metadata_of({candidates("https://mcp.example")[0]: document}, "https://mcp.example", legacy=True)
    assert metadata.issuer == stated


def test_trouble_is_told_from_absence() -> None:
    with pytest.raises(AuthDiscoveryError) as caught:
        metadata_of(dict.fromkeys(candidates(TENANT), 500), TENANT, legacy=True)
    assert caught.value.status == 500
    with pytest.raises(AuthDiscoveryError, match="no metadata"):
        metadata_of({}, TENANT)


def test_a_document_without_a_token_endpoint_is_no_help() -> None:
    with pytest.raises(AuthDiscoveryError, match="token endpoint"):
        metadata_of({candidates(TENANT)[0]: {"issuer": TENANT}}, TENANT)


def test_an_authorization_server_of_2025_03_26_without_metadata_has_the_default_endpoints() -> None:
    metadata, _ = metadata_of({}, "https://mcp.example", legacy=True)
    assert metadata.token_endpoint == "https://mcp.example/token"
    assert metadata.authorization_endpoint == "https://mcp.example/authorize"
    assert metadata.registration_endpoint == "https://mcp.example/register"


def test_members_of_the_wrong_type_count_as_absent() -> None:
    wrong = {
        "authorization_endpoint": 5,
        "registration_endpoint": "",
        "scopes_supported": "a b",
        "token_endpoint_auth_methods_supported": {},
        "code_challenge_methods_supported": None,
        "authorization_response_iss_parameter_supported": "true",
        "client_id_metadata_document_supported": 1,
    }
    metadata = Metadata("https://as.example", "https://as.example/t", wrong)
    assert (metadata.authorization_endpoint, metadata.registration_endpoint) == (None, None)
    assert (metadata.scopes, metadata.auth_methods, metadata.pkce_methods) == (None, None, None)
    assert (metadata.sends_issuer, metadata.reads_client_documents) == (False, False)
    assert repr(metadata) == "<Metadata of https://as.example: 7 members>"
