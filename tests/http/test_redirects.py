"""Redirects are followed within the origin, and only those that keep method and body."""

from __future__ import annotations

import pytest

from ferrule._http.redirects import Trail, resolve
from ferrule._http.url import parse_url
from ferrule.errors import HTTPStatusError, LimitExceeded

SECRET = "hunter2"


def redirected(start: str, location: str | None, status: int = 307) -> tuple[str, str]:
    """Origin and target of where a redirect leads."""
    url = resolve(parse_url(start), status, location)
    return url.origin, url.target


@pytest.mark.req("W19")
@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("/mcp/", "/mcp/"),
        ("http://h:8000/mcp/", "/mcp/"),
        ("HTTP://H:8000/mcp/", "/mcp/"),
        ("//h:8000/mcp/", "/mcp/"),
        ("mcp/", "/a/mcp/"),
        ("./mcp/", "/a/mcp/"),
        ("../mcp/", "/mcp/"),
        ("../../../mcp/", "/mcp/"),
        ("..", "/"),
        (".", "/a/"),
        ("b/./c/../d", "/a/b/d"),
        ("/x/../y/.", "/y/"),
        ("/x/..", "/"),
        ("/.hidden/..x", "/.hidden/..x"),
        ("?new=1", "/a/b?new=1"),
        ("#part", "/a/b?old=1"),
        ("/mcp/?a=%2F&b=/../c#part", "/mcp/?a=%2F&b=/../c"),
        ("/a b", "/a%20b"),
        ("/\xc3\xbc", "/%C3%BC"),
        (" /mcp/ ", "/mcp/"),
        ("/x:y", "/x:y"),
        ("./x:y", "/a/x:y"),
    ],
)
def test_within_the_origin_the_target_is_what_location_says(status: int, location: str, target: str) -> None:
    start = "http://h:8000/a/b?old=1"

    assert redirected(start, location, status) == ("http://h:8000", target)


@pytest.mark.req("W19", "W20")
def test_the_user_of_the_url_stays_and_one_in_location_is_not_taken_over() -> None:
    url = parse_url("http://me:pw@h/mcp")

    assert resolve(url, 307, "http://other:x@h/mcp/").userinfo == ("me", "pw")
    assert resolve(url, 307, "/mcp/").userinfo == ("me", "pw")
    assert resolve(parse_url("http://h/mcp"), 307, "http://other:x@h/mcp/").userinfo is None


@pytest.mark.req("W19")
@pytest.mark.parametrize(
    ("start", "status", "location", "to"),
    [
        ("http://h/mcp", 301, "/mcp/", "http://h"),
        ("http://h/mcp", 302, "/mcp/", "http://h"),
        ("http://h/mcp", 303, "/mcp/", "http://h"),
        ("http://h/mcp", 307, "http://evil.example/mcp", "http://evil.example"),
        ("http://h/mcp", 308, "//evil.example/mcp", "http://evil.example"),
        ("http://h/mcp", 307, "http://h:81/mcp", "http://h:81"),
        ("http://h/mcp", 308, "https://h/mcp", "https://h"),
        ("https://h/mcp", 307, "http://other/mcp", "http://other"),
        ("https://h:8443/mcp", 307, "http://h/mcp", "http://h"),
        ("https://h/mcp", 307, "http://h:8080/mcp", "http://h:8080"),
        ("https://h:444/mcp", 307, "http://h:445/mcp", "http://h:445"),
        ("https://h/mcp", 301, "http://h/mcp", "http://h"),
    ],
)
def test_everything_else_is_refused_with_an_error_that_names_both_origins(
    start: str, status: int, location: str, to: str
) -> None:
    url = parse_url(start)

    with pytest.raises(HTTPStatusError) as caught:
        resolve(url, status, location)

    assert caught.value.status == status
    assert caught.value.request_sent
    assert f"{url.origin} redirected ({status}) to {to}," in str(caught.value)


@pytest.mark.req("W19")
@pytest.mark.parametrize(
    "location",
    [
        None,
        "",
        f"javascript:{SECRET}",
        f"ftp://{SECRET}/",
        f"http://[{SECRET}/",
        f"http:///{SECRET}",
        f"http://me:{SECRET}@h:99999/",
        f"/{SECRET}\r\nX: y",
        f"/{SECRET}\0",
        f"http:{SECRET}",
    ],
)
def test_a_location_that_cannot_be_used_is_refused_and_not_shown(location: str | None) -> None:
    with pytest.raises(HTTPStatusError) as caught:
        resolve(parse_url(f"http://me:{SECRET}@h/mcp?{SECRET}"), 307, location)

    assert SECRET not in str(caught.value)
    assert "http://h redirected (307) " in str(caught.value)


@pytest.mark.req("W19")
@pytest.mark.parametrize(
    ("start", "location", "origin"),
    [
        ("https://h/mcp", "http://h/mcp/", "https://h"),
        ("https://h/mcp", "http://h:80/mcp/", "https://h"),
        ("https://h:8443/mcp", "http://h:8443/mcp/", "https://h:8443"),
    ],
)
def test_https_to_http_on_the_same_host_is_followed_as_https_once(start: str, location: str, origin: str) -> None:
    trail = Trail(3)

    url = trail.follow(parse_url(start), 307, location)

    assert (url.origin, url.target) == (origin, "/mcp/")
    assert trail.repaired
    with pytest.raises(HTTPStatusError):
        trail.follow(url, 307, location)


@pytest.mark.req("W19")
def test_at_most_the_allowed_number_of_redirects_is_followed() -> None:
    trail = Trail(3)
    url = parse_url("http://h/mcp")
    for _ in range(3):
        url = trail.follow(url, 307, "/mcp")

    with pytest.raises(LimitExceeded) as caught:
        trail.follow(url, 307, "/mcp")

    assert caught.value.limit == "max_redirects"
    assert trail.followed == 3


@pytest.mark.req("W19")
def test_a_limit_of_zero_follows_none() -> None:
    with pytest.raises(LimitExceeded, match="more than 0 redirects"):
        Trail(0).follow(parse_url("http://h/mcp"), 308, "/mcp/")
