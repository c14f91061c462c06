"""Nothing secret of a log-in shows anywhere, whether it goes well or not."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import pytest

from ferrule.errors import FerruleError
from tests.auth.browsing import Visitor
from tests.servers.authority import Registered
from tests.servers.parties import Asked, Reply, refuse
from tests.servers.protected import World
from tests.support.clients import Flavour

SECRET = "the-clients-own-s3cr3t"
SAID = "what the server says to nobody but the user"


def tell(asked: Asked) -> Reply:
    return refuse("invalid_grant", error_description=SAID)


def secrets_of(world: World, visitor: Visitor) -> set[str]:
    """Every secret that was on the wire."""
    found = {SECRET, SAID, *world.authority.tokens, *world.authority.refresh, *world.authority.codes}
    for form in world.authority.token_requests():
        found |= {form[name] for name in ("code", "code_verifier", "refresh_token") if name in form}
    for code in world.authority.codes.values():
        found |= {code.query["state"], code.query["code_challenge"]}
    return found


@pytest.mark.req("A1")
@pytest.mark.parametrize("path", [None, "/token", "/.well-known/oauth-authorization-server"])
def test_no_log_error_repr_or_output_shows_a_secret(
    flavour: Flavour,
    world: World,
    visitor: Visitor,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    path: str | None,
) -> None:
    caplog.set_level(logging.DEBUG)
    world.authority.clients["me"] = Registered(SECRET, "client_secret_basic")
    oauth = visitor.oauth("me", SECRET)
    client = flavour.client(world.url, auth=oauth)
    shown: list[Any] = []

    def call() -> None:
        try:
            client.call_tool("echo", {})
        except FerruleError as error:
            shown.extend((str(error), repr(error), "".join(traceback.format_exception(error))))
        shown.append(repr([client, oauth, oauth._memories, oauth.store]))

    call()
    issued = set(world.authority.tokens) | set(world.authority.refresh)
    if path is not None:
        world.authority.tricks[path] = tell
    world.authority.tokens.clear()
    call()
    world.authority.refresh.clear()
    call()
    output = capfd.readouterr()
    everything = "\n".join([*shown, caplog.text, output.out, output.err])
    assert "hello" not in everything
    leaked = {name for name in secrets_of(world, visitor) | issued if name and name in everything}
    assert leaked == set()
    assert any("HTTP 40" in text for text in shown) is (path is not None)
