"""What of a user's log-in the program of `silence` shows, with marked secrets wherever one can be."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ferrule import Limits
from ferrule._http.url import parse_url
from ferrule._io.blocking import BlockingIO
from ferrule.auth import AuthContext, FileStore, KeyringStore, MemoryStore, OAuth, SigningKey, Token
from ferrule.auth.code_flow import Request
from ferrule.auth.discovery import Metadata, Resource
from ferrule.auth.kept import Grant, Memory
from ferrule.auth.token_endpoint import ClientIdentity
from ferrule.auth.users import User
from tests.support.secrets import secret


def made_by_hand() -> list[Any]:
    """One of each, in use."""
    io = BlockingIO()
    server = parse_url(f"https://{secret('user')}:{secret('password')}@h/mcp?{secret('query')}")
    key = SigningKey.generate()
    client = ClientIdentity(secret("client"), secret("client-secret"), "private_key_jwt", key, scope=secret("scope"))
    token = Token(secret("access-token"), "bearer", 9.0, secret("refresh-token"), secret("granted-scope"))
    grant = Grant(token, "https://h", client, secret("asked-scope"), 5.0)
    metadata = Metadata("https://h", "https://h/token", {secret("member"): secret("document")})
    resource = Resource(f"https://h/mcp?{secret('resource')}", ("https://h",), (secret("supported"),))
    store = MemoryStore()
    store.save("key", secret("kept"))
    sys.modules.setdefault("keyring", ModuleType("keyring"))  # the extra, which is never called
    oauth = OAuth(
        secret("client"),
        secret("client-secret"),
        scopes=secret("configured"),
        store=store,
        client_metadata={"logo_uri": secret("logo")},
    )
    bound = oauth.bind(AuthContext(io, Limits(), server))
    bound._memory.grant = grant
    memory: Memory = bound._memory
    return [
        *(oauth, oauth.client, bound, memory, grant, client, metadata, resource, store),
        *(FileStore("/tmp"), KeyringStore()),
        Request(metadata, resource, client, secret("scope"), f"https://app/{secret('redirect')}", None),
        User(io, f"https://app/{secret('redirect')}", 5.0, None, lambda: secret("answer"), None),
    ]
