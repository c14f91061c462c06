"""Where the browser comes back to, and what the user sees there."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from ferrule._http.url import parse_url
from ferrule._io import Expired
from ferrule.auth.receiver import Receiver, open_receiver, read_query
from tests.io.drivers import PATIENCE, Driver

ANY = parse_url("http://127.0.0.1/callback")


@pytest.fixture(params=["blocking", "asyncio"])
def driver(request: pytest.FixtureRequest) -> Driver:
    return Driver(request.param)


@pytest.fixture
def browser() -> Iterator[Any]:
    """`browser(url, ...)` visits in a thread; `pages` are (status, text, headers) in order."""
    pages: list[tuple[int, str, Any]] = []
    threads: list[threading.Thread] = []

    def get(urls: tuple[str, ...]) -> None:
        for url in urls:
            try:
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=PATIENCE) as page:
                    pages.append((page.status, page.read().decode(), page.headers))
            except urllib.error.HTTPError as error:
                pages.append((error.code, error.read().decode(), error.headers))

    def visit(*urls: str) -> list[tuple[int, str, Any]]:
        thread = threading.Thread(target=get, args=(urls,))
        threads.append(thread)
        thread.start()
        return pages

    yield visit
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


def received(driver: Driver, browser: Any, *queries: str, problem: str | None = None) -> tuple[str, list[Any]]:
    """What the receiver took of these visits, and the pages they saw."""

    async def scenario(io: Any) -> tuple[str, list[Any]]:
        receiver = await open_receiver(io, ANY, None)
        pages = browser(*(receiver.redirect_uri + query for query in queries))
        query = await receiver.query("the-state", io.now() + PATIENCE)
        receiver.show(problem)
        receiver.close()
        await driver.until(lambda: len(pages) == len(queries))
        return query, pages

    value: tuple[str, list[Any]] = driver.run(scenario)
    return value


def test_the_answer_is_taken_and_the_user_told_that_it_is_done(driver: Driver, browser: Any) -> None:
    query, [(status, page, headers)] = received(driver, browser, "?code=c%2B1&state=the-state")
    assert query == "code=c%2B1&state=the-state"
    assert status == 200
    assert "You are logged in." in page and "close this window" in page
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "the-state" not in page and "c+1" not in page


def test_what_went_wrong_is_shown_as_text_and_not_as_markup(driver: Driver, browser: Any) -> None:
    problem = "The server said <script>alert('x')</script> & \"more\""
    _, [(_, page, _)] = received(driver, browser, "?error=x&state=the-state", problem=problem)
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt; &amp; &quot;more&quot;" in page
    assert "did not succeed" in page


@pytest.mark.parametrize("stray", ["?code=1", "?code=1&state=other", "?code=1&state=the-state&state=the-state", ""])
def test_an_answer_to_something_else_is_turned_away_and_waited_past(driver: Driver, browser: Any, stray: str) -> None:
    query, pages = received(driver, browser, stray, "?code=2&state=the-state")
    assert query == "code=2&state=the-state"
    assert [status for status, _, _ in pages] == [400, 200]


def test_a_favicon_is_not_found(driver: Driver, browser: Any) -> None:
    async def scenario(io: Any) -> None:
        receiver = await open_receiver(io, ANY, None)
        pages = browser(receiver.redirect_uri.replace("/callback", "/favicon.ico"))
        with pytest.raises(Expired):
            await receiver.query("s", io.now() + 0.5)
        receiver.close()
        await driver.until(lambda: pages)
        assert pages[0][0] == 404

    driver.run(scenario)


def test_the_port_of_last_time_is_used_again_if_it_is_free(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        first = await open_receiver(io, ANY, None)
        first.close()
        again = await open_receiver(io, ANY, first.redirect_uri)
        assert again.redirect_uri == first.redirect_uri
        beside = await open_receiver(io, ANY, first.redirect_uri)
        assert beside.redirect_uri != first.redirect_uri
        for receiver in (again, beside):
            receiver.close()

    driver.run(scenario)


@pytest.mark.parametrize("before", ["https://app.example/callback", "http://127.0.0.1:70000/callback", "nonsense"])
def test_an_earlier_redirect_uri_of_another_kind_counts_for_nothing(driver: Driver, before: str) -> None:
    async def scenario(io: Any) -> None:
        receiver = await open_receiver(io, ANY, before)
        assert receiver.redirect_uri.startswith("http://127.0.0.1:")
        receiver.close()

    driver.run(scenario)


def test_a_port_that_the_user_named_is_the_only_one(driver: Driver) -> None:
    async def scenario(io: Any) -> None:
        first = await open_receiver(io, ANY, None)
        wanted = parse_url(first.redirect_uri)
        with pytest.raises(OSError):
            await open_receiver(io, wanted, None)
        first.close()
        named: Receiver = await open_receiver(io, wanted, None)
        assert named.redirect_uri == first.redirect_uri
        named.close()

    driver.run(scenario)


def test_a_parameter_that_comes_twice_is_there_and_worth_nothing() -> None:
    assert read_query("a=1&b=2&a=3&c=&a=4") == {"a": "", "b": "2", "c": ""}
    assert read_query("&".join(f"p{number}=1" for number in range(200))) == {}
