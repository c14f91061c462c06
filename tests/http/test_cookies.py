"""Cookies of one origin: which are kept, for how long, and what goes back."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from typing import Any

import pytest

from ferrule._core import HEAD, ResponseDecoder
from ferrule._http.cookies import CookieJar
from ferrule._http.url import parse_url
from ferrule.limits import Limits
from tests.support.texts import logged

pytestmark = pytest.mark.req("W24")

URL = "https://www.example.com/api/mcp?x=1"
DATE = "Sun, 05 Jan 2025 12:00:00 GMT"


class Clock:
    """As much of an IO as a jar needs."""

    def __init__(self) -> None:
        self.time = 1000.0

    def now(self) -> float:
        return self.time

    def mutex(self) -> Any:
        return nullcontext()


class Jar:
    """A jar at one URL, with a clock the test moves."""

    def __init__(self, url: str = URL, given: str = "", **limits: int) -> None:
        self.clock = Clock()
        self.url = parse_url(url)
        self.jar = CookieJar(self.clock, Limits(**limits), given)  # type: ignore[arg-type]

    def take(self, *values: str | bytes, date: str | None = DATE) -> None:
        lines = [f"Date: {date}"] if date else []
        head = "\r\n".join(["HTTP/1.1 200 OK", *lines]).encode()
        for value in values:
            head += b"\r\nSet-Cookie: " + (value.encode() if isinstance(value, str) else value)
        decoder = ResponseDecoder(max_head=1 << 20)
        decoder.begin()
        frames = decoder.feed(head + b"\r\nContent-Length: 0\r\n\r\n")
        assert frames[0][0] == HEAD
        self.jar.take(frames[0][1], self.url)

    def line(self, url: str | None = None) -> str | None:
        return self.jar.line(self.url if url is None else parse_url(url))


@pytest.mark.parametrize(
    ("values", "line"),
    [
        (["a=1"], "a=1"),
        (["a=1; Path=/; HttpOnly; SameSite=Lax"], "a=1"),
        ([" a = 1 ;"], "a=1"),
        (["a="], "a="),
        (['a="quoted, value"'], 'a="quoted, value"'),
        (["a=b=c=="], "a=b=c=="),
        (["a=1", "b=2"], "a=1; b=2"),
        (["a=1", "a=2"], "a=2"),
        (["a=1; Path=/api", "a=2; Path=/api/mcp"], "a=2; a=1"),
        (["a=1; secure"], "a=1"),
        (["no pair"], None),
        (["=1"], None),
        ([""], None),
        (["a=\tb\tc"], None),
        ([b"a=\xe4"], None),
        ([b"\xc3\xa4=1"], None),
    ],
)
def test_name_and_value_go_back_as_they_came(values: list[str | bytes], line: str | None) -> None:
    jar = Jar()
    jar.take(*values)
    assert jar.line() == line


@pytest.mark.parametrize(
    ("attribute", "kept"),
    [
        ("Path=/", True),
        ("Path=/api", True),
        ("Path=/api/", True),
        ("Path=/api/mcp", True),
        ("Path=/api/mcp/", False),
        ("Path=/ap", False),
        ("Path=/other", False),
        ("Path=other", True),
        ("Path=", True),
        ("Domain=www.example.com", True),
        ("Domain=.Example.COM", True),
        ("Domain=ample.com", False),
        ("Domain=other.example.com", False),
        ("Domain=a.www.example.com", False),
        ("Domain=", True),
        ("Secure", True),
        ("Max-Age=1", True),
        ("Max-Age=0", False),
        ("Max-Age=-1", False),
        ("Max-Age=soon", True),
        ("Max-Age=99999999999999999999999", True),
        ("Expires=Sun, 05 Jan 2025 12:00:01 GMT", True),
        ("Expires=Sun, 05 Jan 2025 12:00:00 GMT", False),
        ("Expires=Thu, 01-Jan-1970 00:00:10 GMT", False),
        ("Expires=Sun, 05 Jan 2025 11:00:00 GMT; Max-Age=5", True),
        ("Expires=never", True),
        ("Expires=", True),
    ],
)
def test_attributes_say_whether_it_goes_back(attribute: str, kept: bool) -> None:
    jar = Jar()
    jar.take(f"a=1; {attribute}")
    assert jar.line() == ("a=1" if kept else None)


def test_without_a_path_the_directory_of_the_request_counts() -> None:
    jar = Jar()
    jar.take("a=1")
    assert jar.line("https://www.example.com/api/other") == "a=1"
    assert jar.line("https://www.example.com/apis") is None
    top = Jar("https://www.example.com/mcp")
    top.take("a=1")
    assert top.line("https://www.example.com/anything") == "a=1"


def test_a_secure_cookie_is_not_kept_where_there_is_no_tls() -> None:
    jar = Jar("http://127.0.0.1:8000/mcp")
    jar.take("a=1; Secure", "b=2")
    assert jar.line() == "b=2"


@pytest.mark.parametrize(
    ("host", "domain", "kept"),
    [("127.0.0.1", "127.0.0.1", True), ("127.0.0.1", "0.0.1", False), ("[::1]", "1", False), ("a.b.", "b", True)],
)
def test_an_address_has_no_domain_but_itself(host: str, domain: str, kept: bool) -> None:
    jar = Jar(f"http://{host}/mcp")
    jar.take(f"a=1; Domain={domain}")
    assert (jar.line() == "a=1") == kept


def test_a_cookie_ends_when_its_time_is_up() -> None:
    jar = Jar()
    jar.take("a=1; Max-Age=10", "b=2; Expires=Sun, 05 Jan 2025 12:00:20 GMT", "c=3")
    jar.clock.time += 9.9
    assert jar.line() == "a=1; b=2; c=3"
    jar.clock.time += 0.1
    assert jar.line() == "b=2; c=3"
    jar.clock.time += 10
    assert jar.line() == "c=3"
    jar.clock.time += 1e9
    assert jar.line() == "c=3"
    assert len(jar.jar) == 1


def test_a_server_that_tells_no_time_can_still_take_a_cookie_back() -> None:
    jar = Jar()
    jar.take("a=1; Expires=Sun, 05 Jan 2031 12:00:00 GMT", "b=2", date=None)
    assert jar.line() == "a=1; b=2"
    jar.take("a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", date=None)
    assert jar.line() == "b=2"


def test_the_number_is_capped_and_the_oldest_goes_first() -> None:
    jar = Jar(max_cookies=3)
    jar.take(*(f"c{n}={n}" for n in range(5)))
    assert jar.line() == "c2=2; c3=3; c4=4"
    jar.take("c2=new")
    assert jar.line() == "c2=new; c3=3; c4=4"


def test_what_has_expired_goes_before_what_has_not() -> None:
    jar = Jar(max_cookies=2)
    jar.take("a=1", "b=2; Max-Age=1")
    jar.clock.time += 2
    jar.take("c=3")
    assert jar.line() == "a=1; c=3"


def test_none_is_kept_when_none_may_be() -> None:
    jar = Jar(max_cookies=0)
    jar.take("a=1")
    assert jar.line() is None


def test_the_size_of_one_is_capped() -> None:
    jar = Jar(max_cookie_bytes=10)
    jar.take("a=" + "x" * 9, "b=" + "x" * 10, "c=1")
    assert jar.line() == "a=xxxxxxxxx; c=1"


def test_what_is_not_kept_is_logged_without_its_content() -> None:
    jar = Jar(max_cookie_bytes=40)
    with logged() as lines:
        jar.take("hunter2", "a=hunter2; Domain=hunter2.com", "hunter2=" + "hunter2" * 40, b"a=\xe4hunter2", "b=1")
    assert len(lines) == 4
    assert "hunter2" not in "\n".join([*lines, repr(jar.jar)])


def test_the_users_own_cookies_go_first_and_keep_their_names() -> None:
    jar = Jar(given="user=me; sid=mine;")
    assert jar.line() == "user=me; sid=mine"
    jar.take("sid=theirs", "lb=7")
    assert jar.line() == "user=me; sid=mine; lb=7"


def test_a_jar_serves_threads_at_once() -> None:
    jar = Jar(max_cookies=8)
    lock = threading.Lock()
    jar.clock.mutex = lambda: lock  # type: ignore[method-assign]
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(200):
                jar.take(f"c{number}-{turn}=1", f"d{number}=1; Max-Age={turn % 2}")
                assert len((jar.line() or "").split("; ")) <= 8
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(jar.jar) <= 8
