"""Log-ins at an authorization server that nobody here wrote: oidc-provider, whose tokens last seconds and rotate.

The MCP server is one of the official Python SDK; it asks the provider what each token is worth.
"""

from __future__ import annotations

import json
import queue
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from ferrule.auth import FileStore, OAuth
from tests.servers import launch
from tests.support.chromium import Chromium
from tests.support.clients import PATIENCE, Flavour
from tests.support.forms import FormUser

SECONDS = 2
"""How long an access token lasts."""
REDIRECT_URI = "http://127.0.0.1:9/callback"


@dataclass(frozen=True)
class Site:
    """The provider and the server."""

    issuer: str
    url: str

    def revoke(self, token: dict[str, Any], client_id: str, kind: str) -> None:
        """Have the provider take a token back (RFC 7009)."""
        body = urlencode({"token": token[kind], "token_type_hint": kind, "client_id": client_id}).encode()
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"{self.issuer}/token/revocation", body, timeout=20) as answer:
            assert answer.status == 200


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with launch.openid_provider(SECONDS) as issuer, launch.guarded_over_http(issuer) as url:
        yield Site(issuer, url)


@pytest.fixture(scope="module", params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    flavour = Flavour(request.param)
    yield flavour
    flavour.finish()


@dataclass
class LoggedIn:
    """A user, what is kept of the log-in, and clients that use it."""

    user: FormUser
    folder: Path
    connect: Callable[[], Any]

    def entry(self) -> dict[str, Any]:
        """What the store holds for the issuer."""
        entries = [json.loads(path.read_text()) for path in self.folder.glob("*.json")]
        [entry] = [entry for entry in entries if "token" in entry]
        return dict(entry)


@pytest.fixture
def logged_in(flavour: Flavour, site: Site, tmp_path: Path) -> LoggedIn:
    user = FormUser(REDIRECT_URI)

    def connect() -> Any:
        oauth = OAuth(
            redirect_uri=REDIRECT_URI, redirect=user.redirect, callback=user.callback, store=FileStore(tmp_path)
        )
        return flavour.client(site.url, auth=oauth)

    return LoggedIn(user, tmp_path, connect)


def add(client: Any) -> None:
    assert client.call_tool("add", {"a": 1, "b": 2}).structured_content == {"result": 3}


def wait_for_the_end_of(entry: dict[str, Any]) -> None:
    """Wait until a token is over, for us and for the provider."""
    time.sleep(max(0.0, entry["token"]["expires_at"] + 0.3 - time.time()))


def test_a_user_logs_in_and_consents_and_tokens_are_renewed_before_they_end(logged_in: LoggedIn) -> None:
    client = logged_in.connect()
    add(client)
    first = logged_in.entry()
    assert (first["asked"], first["token"]["scope"]) == ("mcp:read offline_access", "mcp:read")
    wait_for_the_end_of(first)
    add(client)
    second = logged_in.entry()
    assert second["token"]["access_token"] != first["token"]["access_token"]
    assert second["token"]["refresh_token"] != first["token"]["refresh_token"]
    assert (logged_in.user.log_ins, logged_in.user.forms) == (1, 2)
    other = logged_in.connect()
    add(other)
    assert logged_in.user.log_ins == 1


def test_a_token_that_is_refused_before_its_time_is_replaced_without_the_user(
    logged_in: LoggedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = [600.0]
    for name in ("blocking.BlockingIO", "asyncio.AsyncIO"):
        monkeypatch.setattr(f"ferrule._io.{name}.wall", lambda *_: time.time() + ahead[0])
    client = logged_in.connect()
    add(client)
    first = logged_in.entry()
    ahead[0] = 0.0  # from now on the token seems to be good for minutes
    time.sleep(SECONDS + 0.3)
    add(client)
    assert logged_in.entry()["token"]["access_token"] != first["token"]["access_token"]
    assert logged_in.user.log_ins == 1


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
def test_when_the_log_in_was_revoked_the_user_logs_in_again(logged_in: LoggedIn, site: Site, kind: str) -> None:
    """This provider takes back all tokens of a log-in with any of them."""
    client = logged_in.connect()
    add(client)
    entry = logged_in.entry()
    site.revoke(entry["token"], entry["client"]["client_id"], kind)
    add(client)
    assert logged_in.user.log_ins == 2
    assert logged_in.entry()["client"]["client_id"] == entry["client"]["client_id"]


def test_a_refresh_token_of_yesterday_is_refused_and_the_user_logs_in_again(
    logged_in: LoggedIn, tmp_path: Path
) -> None:
    """A provider that sees a refresh token twice takes all of the log-in's tokens back."""
    client = logged_in.connect()
    add(client)
    old = tmp_path.with_name("old")
    shutil.copytree(tmp_path, old)
    wait_for_the_end_of(logged_in.entry())
    add(client)
    shutil.copytree(old, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(old)
    restored = logged_in.connect()
    add(restored)
    assert logged_in.user.log_ins == 2


@pytest.mark.req("A3")
def test_many_calls_and_clients_renew_a_token_once(flavour: Flavour, logged_in: LoggedIn) -> None:
    ones = [logged_in.connect() for _ in range(2)]
    for client in ones:
        add(client)
    wait_for_the_end_of(logged_in.entry())
    done = flavour.together(*[lambda client=client: add(client) for client in ones * 5])
    assert done == [None] * 10
    # Had a refresh token been used twice, the provider would have taken back everything.
    assert logged_in.user.log_ins == 1


def test_the_whole_log_in_in_a_browser(flavour: Flavour, site: Site, tmp_path: Path) -> None:
    with Chromium(tmp_path / "chromium") as browser:
        sent: queue.Queue[str] = queue.Queue()
        client = flavour.client(site.url, auth=OAuth(redirect=sent.put))
        running = flavour.start(lambda: add(client))
        browser.open(sent.get(timeout=PATIENCE))
        browser.wait_for("!!document.querySelector('input[name=login]')")
        assert site.issuer in str(browser.run("location.href"))
        browser.run("document.querySelector('input[name=login]').value = 'ann'")
        browser.run("document.querySelector('input[name=password]').value = 'secret'")
        browser.run("document.querySelector('form').submit()")
        browser.wait_for("!!document.querySelector('input[name=prompt][value=consent]')")
        assert "offline access" in browser.text()
        browser.run("document.querySelector('form').submit()")
        browser.wait_for("document.body && document.body.innerText.includes('You are logged in.')")
        assert "close this window" in browser.text()
        assert str(browser.run("location.href")).startswith("http://127.0.0.1:")
        assert browser.run("document.title") == "You are logged in."
        running.result()
