"""The user's side: the browser of this machine, its last page, and the handlers of services; and the user's time."""

from __future__ import annotations

import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ferrule import AsyncClient
from ferrule.auth import OAuth, browser
from ferrule.errors import AuthorizationError, AuthTokenError, ConfigError, RequestTimeout
from tests.auth.browsing import REDIRECT_URI, Visitor
from tests.io.drivers import until
from tests.servers.parties import Reply, redirect
from tests.servers.protected import World
from tests.support.clients import PATIENCE, Flavour
from tests.support.scripted import ScriptedServer
from tests.support.steps import hang


class Browser:
    """A browser: `open(url)` visits in a thread, follows redirects, and keeps the page that it ends at."""

    def __init__(self) -> None:
        self.urls: list[str] = []
        self.pages: list[str] = []
        self._threads: list[threading.Thread] = []

    def open(self, url: str) -> bool:
        self.urls.append(url)
        thread = threading.Thread(target=self._visit, args=(url,))
        self._threads.append(thread)
        thread.start()
        return True

    def _visit(self, url: str) -> None:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=PATIENCE) as page:
                self.pages.append(page.read().decode())
        except (OSError, urllib.error.URLError) as error:
            self.pages.append(f"no page: {type(error).__name__}")

    def last_page(self) -> str:
        until(lambda: len(self.pages) == len(self.urls), "the last page")
        return self.pages[-1]

    def close(self) -> None:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


@pytest.fixture
def user() -> Iterator[Browser]:
    user = Browser()
    yield user
    user.close()


def call(flavour: Flavour, world: World, auth: Any, **options: Any) -> str:
    with flavour.client(world.url, auth=auth, **options) as client:
        return client.call_tool("echo", {}).text


# --- the browser of this machine -----------------------------------------------------------------


def test_the_browser_opens_comes_back_and_says_that_it_is_done(
    flavour: Flavour, world: World, user: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", user.open)
    assert call(flavour, world, OAuth()) == "hello"
    assert "You are logged in." in user.last_page()
    [form] = world.authority.token_requests()
    assert form["redirect_uri"].startswith("http://127.0.0.1:")
    assert form["redirect_uri"].endswith("/callback")
    [registered] = [asked.message for asked in world.authority.party.seen if asked.path == "/register"]
    assert registered["redirect_uris"] == [form["redirect_uri"]]
    assert registered["application_type"] == "native"
    assert registered["grant_types"] == ["authorization_code", "refresh_token"]
    assert registered["token_endpoint_auth_method"] == "none"


@pytest.mark.parametrize("reason", ["no-screen", "no-browser", "error"])
def test_where_no_browser_can_be_opened_the_address_is_printed(
    flavour: Flavour,
    world: World,
    user: Browser,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    reason: str,
) -> None:
    import webbrowser

    def cannot(url: str) -> bool:
        assert reason != "no-screen"
        if reason == "error":
            raise webbrowser.Error("no browser")
        return False

    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    if reason != "no-screen":
        monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    monkeypatch.setattr(webbrowser, "open", cannot)
    running = flavour.start(lambda: call(flavour, world, OAuth()))
    printed = ""

    def url() -> str:
        nonlocal printed
        printed += capsys.readouterr().err
        return next((word for word in printed.split() if word.startswith("http")), "")

    until(url, "the address")
    user.open(url())
    assert running.result() == "hello"
    assert "on this machine" in printed


def test_only_where_screens_are_named_by_the_environment_is_it_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    assert browser.is_headless()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not browser.is_headless()


def test_the_page_says_what_the_authorization_server_said(flavour: Flavour, world: World, user: Browser) -> None:
    def deny(asked: Any) -> Reply:
        answer = f"error=access_denied&error_description=%3Cb%3ENot%20today&iss={world.authority.issuer}"
        return redirect(f"{asked.query['redirect_uri']}?{answer}&state={asked.query['state']}")

    world.authority.tricks["/authorize"] = deny
    with pytest.raises(AuthorizationError):
        call(flavour, world, OAuth(redirect=user.open))
    assert "The authorization server answered access_denied: &lt;b&gt;Not today" in user.last_page()


def test_the_page_says_nothing_of_an_answer_that_is_not_the_authorization_servers(
    flavour: Flavour, world: World, user: Browser
) -> None:
    def mix_up(asked: Any) -> Reply:
        answer = "error=evil&error_description=Call%20555-0123&iss=https://evil.example"
        return redirect(f"{asked.query['redirect_uri']}?{answer}&state={asked.query['state']}")

    world.authority.tricks["/authorize"] = mix_up
    with pytest.raises(AuthorizationError):
        call(flavour, world, OAuth(redirect=user.open))
    page = user.last_page()
    assert "did not succeed" in page
    assert "evil" not in page and "555" not in page


def test_the_page_says_when_the_code_was_not_taken(flavour: Flavour, world: World, user: Browser) -> None:
    world.authority.tricks["/token"] = lambda asked: Reply(500, {})
    with pytest.raises(AuthTokenError):
        call(flavour, world, OAuth(redirect=user.open))
    page = user.last_page()
    assert "did not succeed" in page and "HTTP 500" in page


def test_a_port_that_was_named_is_used(flavour: Flavour, world: World, user: Browser) -> None:
    from tests.servers.launch import free_port

    uri = f"http://127.0.0.1:{free_port()}/oauth/back"
    assert call(flavour, world, OAuth(redirect=user.open, redirect_uri=uri)) == "hello"
    assert world.authority.token_requests()[0]["redirect_uri"] == uri
    user.last_page()


def test_a_port_that_is_taken_is_said(flavour: Flavour, world: World) -> None:
    oauth = OAuth(redirect_uri=f"http://127.0.0.1:{world.mcp.party.port}/callback")
    with pytest.raises(AuthorizationError, match=f"port {world.mcp.party.port}"):
        call(flavour, world, oauth)


def test_nobody_coming_back_ends_the_wait(flavour: Flavour, world: World) -> None:
    with pytest.raises(AuthorizationError, match=r"within 0\.2 seconds"):
        call(flavour, world, OAuth(redirect=lambda url: None, login_timeout=0.2))


# --- handlers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [lambda url: url, lambda url: url.partition("?")[2], "mapping"])
def test_a_callback_may_return_the_url_its_query_or_its_parameters(flavour: Flavour, world: World, form: Any) -> None:
    from urllib.parse import parse_qsl

    visitor = Visitor(world.authority)

    def callback() -> Any:
        location = visitor.callback()
        return dict(parse_qsl(location.partition("?")[2])) if form == "mapping" else form(location)

    oauth = OAuth(redirect_uri=REDIRECT_URI, redirect=visitor.redirect, callback=callback)
    assert call(flavour, world, oauth) == "hello"


@pytest.mark.parametrize("value", [None, 5, ("code", "state")])
def test_a_callback_that_returns_something_else_is_told_what_is_wanted(
    flavour: Flavour, world: World, value: Any
) -> None:
    visitor = Visitor(world.authority)
    oauth = OAuth(redirect_uri=REDIRECT_URI, redirect=visitor.redirect, callback=lambda: value)
    with pytest.raises(ConfigError, match="callback must return"):
        call(flavour, world, oauth)


def test_an_exception_of_a_handler_reaches_the_caller(flavour: Flavour, world: World) -> None:
    def fail(url: str) -> None:
        raise LookupError("no such user")

    with pytest.raises(LookupError, match="no such user"):
        call(flavour, world, OAuth(redirect_uri=REDIRECT_URI, redirect=fail, callback=lambda: ""))


def test_handlers_may_be_waited_for_by_the_asynchronous_client_alone(flavour: Flavour, world: World) -> None:
    visitor = Visitor(world.authority)

    async def send(url: str) -> None:
        visitor.redirect(url)

    async def callback() -> str:
        return visitor.callback()

    oauth = OAuth(redirect_uri=REDIRECT_URI, redirect=send, callback=callback)
    if flavour.is_async:
        assert call(flavour, world, oauth) == "hello"
    else:
        with pytest.raises(ConfigError, match="AsyncClient"):
            call(flavour, world, oauth)


def test_a_service_registers_as_a_web_application(flavour: Flavour, world: World) -> None:
    visitor = Visitor(world.authority)
    uri = "https://app.example/oauth/callback"
    oauth = OAuth(
        redirect_uri=uri,
        redirect=visitor.redirect,
        callback=visitor.callback,
        client_name="My app",
        client_metadata={"logo_uri": "https://app.example/logo.png"},
    )
    assert call(flavour, world, oauth) == "hello"
    [registered] = [asked.message for asked in world.authority.party.seen if asked.path == "/register"]
    assert registered["application_type"] == "web"
    assert registered["redirect_uris"] == [uri]
    assert (registered["client_name"], registered["logo_uri"]) == ("My app", "https://app.example/logo.png")


# --- the user's time -----------------------------------------------------------------------------


def slow(visitor: Visitor, seconds: float) -> Callable[[], str]:
    def callback() -> str:
        time.sleep(seconds)
        return visitor.callback()

    return callback


def later(visitor: Visitor, seconds: float) -> Any:
    import asyncio

    async def callback() -> str:
        await asyncio.sleep(seconds)
        return visitor.callback()

    return callback


def takes(flavour: Flavour, visitor: Visitor, seconds: float) -> OAuth:
    callback = later(visitor, seconds) if flavour.is_async else slow(visitor, seconds)
    return OAuth(redirect_uri=REDIRECT_URI, redirect=visitor.redirect, callback=callback)


def test_the_users_time_does_not_count_against_the_first_calls_timeout(flavour: Flavour, world: World) -> None:
    visitor = Visitor(world.authority)
    assert call(flavour, world, takes(flavour, visitor, 0.7), timeout=0.5) == "hello"


def test_nor_does_it_when_the_user_has_to_log_in_again(flavour: Flavour, world: World) -> None:
    visitor = Visitor(world.authority)
    client = flavour.client(world.url, auth=takes(flavour, visitor, 0.7), timeout=0.5)
    assert client.call_tool("echo", {}, timeout=0.6).text == "hello"
    world.authority.tokens.clear()
    world.authority.refresh.clear()
    assert client.call_tool("echo", {}).text == "hello"
    assert len(visitor.sent_to) == 2


def test_a_server_that_does_not_answer_is_given_up_as_soon_as_ever(
    flavour: Flavour, serve: Callable[..., ScriptedServer]
) -> None:
    server = serve({"*": hang(), "server/discover": hang(), "initialize": hang()}, era="stateless")
    client = flavour.client(server.url, auth=OAuth(), timeout=0.3)
    with pytest.raises(RequestTimeout):  # the log-in's time would be too long for this test
        client.connect()


def test_a_log_in_that_its_only_waiter_leaves_ends_and_tells_the_user(world: World, user: Browser) -> None:
    import asyncio

    sent = threading.Event()
    url = ""

    def send(where: str) -> None:
        nonlocal url
        url = where
        sent.set()

    async def scenario() -> None:
        async with AsyncClient(world.url, auth=OAuth(redirect=send), protocol="stateless") as client:
            await client.call_tool("echo", {})

    async def main() -> None:
        task = asyncio.ensure_future(scenario())
        await asyncio.to_thread(sent.wait, PATIENCE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    user.open(url)
    assert user.last_page().startswith("no page")
