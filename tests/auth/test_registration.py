"""As which client an authorization server is asked, and how the client proves that it is that one."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ferrule.auth.discovery import Metadata
from ferrule.auth.registration import ClientSettings, application_type, given_identity, registration_request
from ferrule.auth.registration import _registered as registered
from ferrule.auth.token_endpoint import ClientIdentity, authenticate, choose_method
from ferrule.errors import AuthRegistrationError

ISSUER = "https://as.example"
CALLBACK = "http://127.0.0.1:8765/callback"
DOCUMENT = "https://app.example/client.json"


def metadata(**members: Any) -> Metadata:
    return Metadata(ISSUER, f"{ISSUER}/token", members)


def test_what_was_registered_beforehand_comes_before_the_document() -> None:
    reads = metadata(client_id_metadata_document_supported=True)
    both = ClientSettings(client_id="mine", document_url=DOCUMENT)
    assert given_identity(reads, both) == ClientIdentity("mine")
    assert given_identity(reads, ClientSettings(document_url=DOCUMENT)) == ClientIdentity(DOCUMENT)
    assert given_identity(metadata(), ClientSettings(document_url=DOCUMENT)) is None
    assert given_identity(reads, ClientSettings()) is None


@pytest.mark.req("A6")
def test_a_client_id_of_another_issuer_is_refused() -> None:
    settings = ClientSettings(client_id="mine", issuer=f"{ISSUER}/")
    with pytest.raises(AuthRegistrationError, match="another authorization server"):
        given_identity(metadata(), settings)


@pytest.mark.parametrize(
    ("offered", "secret", "key", "method"),
    [
        (None, False, False, "none"),
        (None, True, False, "client_secret_basic"),
        (["client_secret_post"], True, False, "client_secret_post"),
        (["client_secret_post", "client_secret_basic"], True, False, "client_secret_basic"),
        (["private_key_jwt"], True, False, "client_secret_basic"),
        (None, True, True, "private_key_jwt"),
    ],
)
def test_the_way_to_authenticate_follows_what_is_given_and_what_is_offered(
    offered: list[str] | None, secret: bool, key: bool, method: str
) -> None:
    assert choose_method(offered, secret=secret, key=key) == method


@pytest.mark.parametrize(
    ("offered", "method"),
    [
        (None, "none"),
        (["none", "client_secret_basic"], "none"),
        (["client_secret_post", "client_secret_basic"], "client_secret_basic"),
        (["client_secret_post"], "client_secret_post"),
        (["private_key_jwt"], "none"),
    ],
)
def test_a_registration_asks_for_a_secret_only_where_the_server_insists(offered: Any, method: str) -> None:
    offers = metadata(token_endpoint_auth_methods_supported=offered)
    assert registration_request(offers, ClientSettings(), CALLBACK, None)["token_endpoint_auth_method"] == method


def test_a_registration_names_its_scopes_and_what_the_user_adds() -> None:
    settings = ClientSettings(name="Mine", extra={"software_id": "x", "grant_types": ["authorization_code"]})
    assert registration_request(metadata(), settings, CALLBACK, "a b") == {
        "client_name": "Mine",
        "redirect_uris": [CALLBACK],
        "application_type": "native",
        "grant_types": ["authorization_code"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": "a b",
        "software_id": "x",
    }


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        (CALLBACK, "native"),
        ("http://localhost/callback", "native"),
        ("https://[::1]:1/callback", "native"),
        ("com.example.app:/callback", "native"),
        ("https://app.example/callback", "web"),
    ],
)
def test_a_client_is_native_unless_its_redirect_uri_is_on_the_web(uri: str, kind: str) -> None:
    assert application_type(uri) == kind


@pytest.mark.parametrize(
    ("said", "identity"),
    [
        ({}, ClientIdentity("c", redirect_uri=CALLBACK)),
        (
            {"client_secret": "s", "client_secret_expires_at": 0, "scope": "a"},
            ClientIdentity("c", "s", "client_secret_basic", redirect_uri=CALLBACK, scope="a"),
        ),
        (
            {"client_secret": "s", "token_endpoint_auth_method": "client_secret_post", "client_secret_expires_at": 9},
            ClientIdentity("c", "s", "client_secret_post", redirect_uri=CALLBACK, secret_expires_at=9),
        ),
        ({"client_secret": 5, "scope": 5, "client_secret_expires_at": "x"}, ClientIdentity("c", redirect_uri=CALLBACK)),
    ],
)
def test_what_a_registration_says_is_what_the_client_is(said: dict[str, Any], identity: ClientIdentity) -> None:
    assert registered({"client_id": "c", **said}, CALLBACK, ISSUER) == identity


@pytest.mark.parametrize("method", ["private_key_jwt", "client_secret_jwt", "client_secret_basic"])
def test_a_registration_that_the_client_cannot_use_is_refused(method: str) -> None:
    with pytest.raises(AuthRegistrationError, match="cannot use"):
        registered({"client_id": "c", "token_endpoint_auth_method": method}, CALLBACK, ISSUER)


def test_basic_encodes_each_part_as_a_form_does_first() -> None:
    headers, fields = authenticate(ClientIdentity("a:b c", "ä%+/", "client_secret_basic"), ISSUER, 0.0)
    [(name, value)] = headers
    assert name == "Authorization"
    assert base64.b64decode(value.removeprefix("Basic ")) == b"a%3Ab+c:%C3%A4%25%2B%2F"
    assert fields == {}


@pytest.mark.parametrize(
    ("identity", "fields"),
    [
        (ClientIdentity("c"), {"client_id": "c"}),
        (ClientIdentity("c", "s", "client_secret_post"), {"client_id": "c", "client_secret": "s"}),
    ],
)
def test_other_ways_say_it_in_the_body(identity: ClientIdentity, fields: dict[str, str]) -> None:
    assert authenticate(identity, ISSUER, 0.0) == ([], fields)


@pytest.mark.parametrize(
    ("secret", "at", "over"), [("s", 0, False), ("s", 5, True), ("s", 15, False), (None, 5, False)]
)
def test_a_secret_is_over_at_its_time_and_zero_means_never(secret: str | None, at: float, over: bool) -> None:
    assert ClientIdentity("c", secret, secret_expires_at=at).expired(10.0) is over
