"""What each `auth/` scenario's client is given as `auth=`, by the context that the suite hands over."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from ferrule.auth import Auth, ClientCredentials, DPoP, EnterpriseManaged, JWTBearer, OAuth

Context = dict[str, Any]
CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"


class Browser:
    """A user who consents to everything: goes where they are sent, and comes back without visiting the program."""

    def __init__(self) -> None:
        self._came_back_to = ""

    def redirect(self, url: str) -> None:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=10)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}")
            self._came_back_to = connection.getresponse().getheader("Location") or ""
        finally:
            connection.close()

    def callback(self) -> str:
        return self._came_back_to


def user(context: Context) -> Auth:
    browser = Browser()
    return OAuth(
        context.get("client_id"),
        context.get("client_secret"),
        client_metadata_url=CLIENT_DOCUMENT,
        redirect_uri="http://127.0.0.1:3000/callback",
        redirect=browser.redirect,
        callback=browser.callback,
    )


def user_with_a_key(context: Context) -> Auth:
    return DPoP(user(context))


def service_with_a_key(context: Context) -> Auth:
    return ClientCredentials(
        context["client_id"], private_key=context["private_key_pem"], algorithm=context["signing_algorithm"]
    )


def service_with_a_secret(context: Context) -> Auth:
    return ClientCredentials(context["client_id"], context["client_secret"])


def employee(context: Context) -> Auth:
    return EnterpriseManaged(
        context["idp_id_token"],
        idp_token_endpoint=context["idp_token_endpoint"],
        idp_client_id=context["idp_client_id"],
        client_id=context["client_id"],
        client_secret=context["client_secret"],
    )


def workload(context: Context) -> Auth:
    return JWTBearer(context["valid_jwt"], client_id=context["client_id"])


AUTHS: dict[str, Callable[[Context], Auth]] = {
    "auth/client-credentials-jwt": service_with_a_key,
    "auth/client-credentials-basic": service_with_a_secret,
    "auth/enterprise-managed-authorization": employee,
    "auth/wif-jwt-bearer": workload,
    "auth/dpop": user_with_a_key,
    "auth/dpop-nonce": user_with_a_key,
}
"""All others are a user's."""
