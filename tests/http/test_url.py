"""URLs are taken apart once and kept exactly."""

from __future__ import annotations

import copy
import pickle

import pytest

from ferrule._http.url import Url, parse_url
from ferrule.errors import ConfigError

SECRET = "hunter2"


@pytest.mark.req("W20")
@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://h", "/"),
        ("http://h/", "/"),
        ("http://h?", "/?"),
        ("http://h?a=1", "/?a=1"),
        ("http://h/mcp", "/mcp"),
        ("http://h/mcp/", "/mcp/"),
        ("http://h//a//b/../c", "//a//b/../c"),
        ("http://h/mcp?a=%2F&b=c%20d&&=x;y", "/mcp?a=%2F&b=c%20d&&=x;y"),
        ("http://h/%7euser/%E2%82%AC", "/%7euser/%E2%82%AC"),
        ("http://h/a b?c d", "/a%20b?c%20d"),
        ("http://h/ü?€", "/%C3%BC?%E2%82%AC"),
        ('http://h/a|b\\c^`{}"<>', '/a|b\\c^`{}"<>'),
        ("http://h/mcp?next=http://x/?y=1#part", "/mcp?next=http://x/?y=1"),
        ("http://h#part", "/"),
        ("http://h/a@b:c", "/a@b:c"),
        ("http://h/a%zz", "/a%zz"),
    ],
)
def test_path_and_query_survive_exactly_but_for_spaces_and_non_ascii(text: str, target: str) -> None:
    assert parse_url(text).target == target


@pytest.mark.req("W20")
@pytest.mark.parametrize(
    ("text", "host", "port", "host_header"),
    [
        ("http://Example.COM/x", "example.com", 80, "example.com"),
        ("HTTPS://example.com", "example.com", 443, "example.com"),
        ("http://example.com:80/", "example.com", 80, "example.com"),
        ("https://example.com:80/", "example.com", 80, "example.com:80"),
        ("https://example.com:443/", "example.com", 443, "example.com"),
        ("http://example.com:/", "example.com", 80, "example.com"),
        ("http://example.com:08080/", "example.com", 8080, "example.com:8080"),
        ("http://127.0.0.1:9", "127.0.0.1", 9, "127.0.0.1:9"),
        ("http://[::1]/mcp", "::1", 80, "[::1]"),
        ("http://[0:0:0:0:0:0:0:1]:8000/mcp", "::1", 8000, "[::1]:8000"),
        ("http://[FE80::A]:80", "fe80::a", 80, "[fe80::a]"),
        ("http://[fe80::1%25eth0]:1", "fe80::1%eth0", 1, "[fe80::1]:1"),
        ("http://bücher.example", "xn--bcher-kva.example", 80, "xn--bcher-kva.example"),
        ("http://ＥＸＡＭＰＬＥ.com", "example.com", 80, "example.com"),
        ("http://under_score.example.", "under_score.example.", 80, "under_score.example."),
        ("https://h:65535", "h", 65535, "h:65535"),
    ],
)
def test_host_and_port_are_known_and_a_default_port_is_not_sent(
    text: str, host: str, port: int, host_header: str
) -> None:
    url = parse_url(text)

    assert (url.host, url.port, url.host_header) == (host, port, host_header)
    assert url.origin == f"{url.scheme}://{host_header}"


@pytest.mark.req("W20")
@pytest.mark.parametrize(
    ("text", "userinfo", "header"),
    [
        ("http://a:b@h/", ("a", "b"), "Basic YTpi"),
        ("http://a@h/", ("a", ""), "Basic YTo="),
        ("http://:b@h/", ("", "b"), "Basic OmI="),
        ("http://a:b:c@h/", ("a", "b:c"), "Basic YTpiOmM="),
        ("http://a:p%40ss%3A@h/", ("a", "p@ss:"), "Basic YTpwQHNzOg=="),
        ("http://a:b@c@h/", ("a", "b@c"), "Basic YTpiQGM="),
        ("http://ü:€@h/", ("ü", "€"), "Basic w7w64oKs"),
        ("http://@h/", None, None),
        ("http://:@h/", None, None),
        ("http://h/", None, None),
    ],
)
def test_user_and_password_become_basic_authorization(
    text: str, userinfo: tuple[str, str] | None, header: str | None
) -> None:
    url = parse_url(text)

    assert (url.host, url.userinfo) == ("h", userinfo)
    assert url.basic_authorization() == header


@pytest.mark.req("W20")
def test_user_password_and_query_are_in_no_text_about_the_url() -> None:
    url = parse_url(f"https://me:{SECRET}@example.com:8443/mcp?key={SECRET}#{SECRET}")

    assert url.label == "https://example.com:8443/mcp"
    assert url.origin == "https://example.com:8443"
    assert repr(url) == str(url) == "<Url https://example.com:8443/mcp>"


@pytest.mark.req("W20")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "/mcp",
        "//h/mcp",
        "h:80/mcp",
        "http:/h",
        "http:h",
        "ftp://{}@h/",
        "file:///{}",
        "javascript://{}@h",
        "unix://{}@h",
        "{}@h://x",
        " http://{}@h/",
        "http://",
        "http:///mcp",
        "http://{}@",
        "http://{}@/mcp",
        "http://{}@:80/",
        "http://{}@h:0/",
        "http://{}@h:65536/",
        "http://{}@h:99999999999999999999999/",
        "http://{}@h:-1/",
        "http://{}@h:+1/",
        "http://{}@h:８/",
        "http://{}@h:8a/",
        "http://{}@h:1:2/",
        "http://{}@::1/",
        "http://{}@[::1/",
        "http://{}@::1]/",
        "http://{}@[::1]x/",
        "http://{}@[]/",
        "http://{}@[1.2.3.4]/",
        "http://{}@[::g]/",
        "http://{}@h h/",
        "http://{}@h%41/",
        "http://{}@h\\@evil.example/",
        "http://{}@h<x>/",
        "http://{}@evil.example／h/",
        "http://{}@a..b/",
        "http://{}@.b/",
        "http://{}@./",
        "http://{}@" + "a" * 64 + ".example/",
        "http://{}@" + "a." * 200 + "example/",
        "http://{}@" + "ü" * 64 + "/",
        "http://{}@h/\ud800",
        "http://{}@\ud800/",
        "http://a%3Ab:{}@h/",
        "http://a%0Ab:{}@h/",
        "http://a:%00{}@h/",
    ],
)
def test_what_cannot_be_used_is_a_config_error_without_the_password(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_url(text.replace("{}", f"me:{SECRET}"))

    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.req("W20", "W21")
@pytest.mark.parametrize("control", [*map(chr, range(0x20)), "\x7f", "\x80", "\x85", "\x9f"])
@pytest.mark.parametrize("text", ["{}http://h/", "ht{}tp://h", "http://u{}:p@h/", "http://a{}b/",
                                  "http://h:8{}0/", "http://h/a{}b", "http://h/?a{}b",
                                  "http://h/#{}", "http://h/{}"])  # fmt: skip
def test_a_control_character_anywhere_is_a_config_error(text: str, control: str) -> None:
    with pytest.raises(ConfigError, match="control character"):
        parse_url(text.replace("{}", control))


@pytest.mark.req("W20")
@pytest.mark.parametrize("value", [None, b"http://h/", 3])
def test_what_is_no_text_is_a_config_error(value: object) -> None:
    with pytest.raises(ConfigError, match="must be a str"):
        parse_url(value)  # type: ignore[arg-type]


def test_urls_compare_by_everything_they_say() -> None:
    url = parse_url("http://a:b@h:80/x?y#z")

    assert url == parse_url("HTTP://a:b@H/x?y")
    assert hash(url) == hash(parse_url("http://a:b@h/x?y"))
    for other in ("https://a:b@h:80/x?y", "http://h/x?y", "http://a:b@h/X?y", "http://a:b@i/x?y"):
        assert url != parse_url(other)
    assert url != "http://a:b@h:80/x?y"


def test_urls_can_be_pickled_and_copied() -> None:
    url = parse_url("https://a:b@h:8443/x?y")

    assert pickle.loads(pickle.dumps(url)) == url == copy.deepcopy(url)
    assert isinstance(copy.copy(url), Url)
