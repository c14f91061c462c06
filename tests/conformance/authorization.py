"""What each `auth/` scenario's client is given as `auth=`, by the context that the suite hands over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ferrule.auth import Auth, ClientCredentials, EnterpriseManaged, JWTBearer

Context = dict[str, Any]


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
}
