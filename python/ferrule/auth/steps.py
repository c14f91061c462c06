"""The steps on the way to a token, and the error that belongs to each.

Knows names. What an authorization server said is taken from its answer here, so that no other place has to escape it.
"""

from __future__ import annotations

from ..errors import (
    AuthChallengeError,
    AuthDiscoveryError,
    AuthError,
    AuthorizationError,
    AuthRegistrationError,
    AuthStepUpError,
    AuthTokenError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CHALLENGE = "challenge"
DISCOVERY = "discovery"
REGISTRATION = "registration"
AUTHORIZATION = "authorization"
TOKEN = "token"
STEP_UP = "step-up"

_ERRORS: dict[str, type[AuthError]] = {
    CHALLENGE: AuthChallengeError,
    DISCOVERY: AuthDiscoveryError,
    REGISTRATION: AuthRegistrationError,
    AUTHORIZATION: AuthorizationError,
    TOKEN: AuthTokenError,
    STEP_UP: AuthStepUpError,
}


def auth_error(step: str, message: str, **attributes: Any) -> AuthError:
    """The error of a step. `attributes` are the keywords of `AuthError`."""
    return _ERRORS[step](message, step=step, **attributes)


def refused(
    step: str, message: str, url: str, status: int | None = None, said: Mapping[str, Any] | None = None
) -> AuthError:
    """The error for an OAuth error answer (RFC 6749, sections 4.1.2.1 and 5.2).

    Args:
        step: One of the names above.
        message: What that means, in our words.
        url: Who answered.
        status: The HTTP status, if it came as the answer to a request.
        said: The members of the answer; `error` and `error_description` are taken, if they are text.
    """
    given = said or {}
    error, description = given.get("error"), given.get("error_description")
    return auth_error(
        step,
        message,
        url=url,
        status=status,
        error=error if isinstance(error, str) else None,
        description=description if isinstance(description, str) else None,
    )
