"""How requests are authorized: a token, a browser log-in, a service's own credentials, or a class of one's own.

Names only; each comes from its module when it is first asked for.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .dpop import DPoP as DPoP
    from .interface import Auth as Auth
    from .interface import AuthContext as AuthContext
    from .interface import AuthRequest as AuthRequest
    from .interface import Challenge as Challenge
    from .keys import SigningKey as SigningKey
    from .machine import ClientCredentials as ClientCredentials
    from .machine import EnterpriseManaged as EnterpriseManaged
    from .machine import JWTBearer as JWTBearer
    from .oauth import OAuth as OAuth
    from .static import BasicAuth as BasicAuth
    from .static import BearerAuth as BearerAuth
    from .stores import FileStore as FileStore
    from .stores import KeyringStore as KeyringStore
    from .stores import MemoryStore as MemoryStore
    from .stores import TokenStore as TokenStore
    from .tokens import Token as Token

_HOMES = {
    "Auth": "interface",
    "AuthContext": "interface",
    "AuthRequest": "interface",
    "BasicAuth": "static",
    "BearerAuth": "static",
    "Challenge": "interface",
    "ClientCredentials": "machine",
    "DPoP": "dpop",
    "EnterpriseManaged": "machine",
    "FileStore": "stores",
    "JWTBearer": "machine",
    "KeyringStore": "stores",
    "MemoryStore": "stores",
    "OAuth": "oauth",
    "SigningKey": "keys",
    "Token": "tokens",
    "TokenStore": "stores",
}

__all__ = [
    "Auth",
    "AuthContext",
    "AuthRequest",
    "BasicAuth",
    "BearerAuth",
    "Challenge",
    "ClientCredentials",
    "DPoP",
    "EnterpriseManaged",
    "FileStore",
    "JWTBearer",
    "KeyringStore",
    "MemoryStore",
    "OAuth",
    "SigningKey",
    "Token",
    "TokenStore",
]


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
