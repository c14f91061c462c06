"""What each `auth/` scenario's client is given as `auth=`, by the context that the suite hands over."""

from __future__ import annotations

from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

from ferrule.auth import Auth, ClientCredentials, DPoP, EnterpriseManaged, JWTBearer, OAuth

Context = dict[str, Any]


class Visitor:
    """A user without a browser: asks for the page they are sent to, and brings back where that would send them."""

    redirect_uri = "http://127.0.0.1:9/callback"

    def __init__(self) -> None:
        self._location = ""

    def redirect(self, url: str) -> None:
        parts = urlsplit(url)
        connection = HTTPConnection(parts.netloc, timeout=10)
        connection.request("GET", f"{parts.path}?{parts.query}")
        self._location = connection.getresponse().headers["Location"]
        connection.close()

    def callback(self) -> str:
        return self._location


def user(**options: Any) -> OAuth:
    """A user who consents to everything."""
    visitor = Visitor()
    given = {"redirect_uri": visitor.redirect_uri, "redirect": visitor.redirect, "callback": visitor.callback}
    return OAuth(**{**given, **options})


def user_with_a_key(context: Context) -> Auth:
    return DPoP(user())


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
