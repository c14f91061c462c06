"""Endpoints say where to connect, whatever the URL says."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Any

import pytest

from ferrule._http.endpoints import Tcp, Unix, reason, server_name
from ferrule._http.url import parse_url
from ferrule.errors import ConfigError


@pytest.mark.req("W23")
def test_tcp_makes_a_url_of_its_address_unless_one_is_given() -> None:
    assert Tcp("::1", 8000).url.origin == "http://[::1]:8000"
    assert Tcp("10.0.0.1", 80).url.label == "http://10.0.0.1/mcp"
    endpoint = Tcp("10.0.0.1", 8443, "https://example.com/x?y")
    assert (endpoint.host, endpoint.port) == ("10.0.0.1", 8443)
    assert (endpoint.url.host, endpoint.url.target) == ("example.com", "/x?y")


@pytest.mark.req("W23")
def test_unix_takes_a_path_and_a_url(tmp_path: Path) -> None:
    assert Unix(tmp_path / "s").path == str(tmp_path / "s")
    assert Unix("/run/s").url.label == "http://localhost/mcp"
    assert Unix("/run/s", "https://example.com/x").url.origin == "https://example.com"


@pytest.mark.req("W23", "W20")
def test_endpoints_show_neither_password_nor_query() -> None:
    assert repr(Tcp("h", 1, "http://u:hunter2@h/x?hunter2")) == "Tcp('h', 1, 'http://h/x')"
    assert repr(Unix("/s", "http://u:hunter2@h/x?hunter2")) == "Unix('/s', 'http://h/x')"


@pytest.mark.req("W23")
@pytest.mark.parametrize(("host", "port"), [("", 80), ("h h", 80), ("h\n", 80), ("h", 0), ("h", 65536), ("h", "80")])
def test_an_address_that_is_none_is_a_config_error(host: str, port: object) -> None:
    with pytest.raises(ConfigError):
        Tcp(host, port)  # type: ignore[arg-type]


@pytest.mark.req("W23")
@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://Example.com/", "example.com"),
        ("https://example.com./", "example.com"),
        ("https://[fe80::1%25eth0]/", "fe80::1"),
        ("https://127.0.0.1/", "127.0.0.1"),
    ],
)
def test_the_name_on_the_certificate_is_the_hosts_without_dot_and_zone(url: str, name: str) -> None:
    assert server_name(parse_url(url)) == name


@pytest.mark.req("W23")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(111, "hunter2"), "connection refused"),
        (ConnectionResetError(), "the connection was reset"),
        (TimeoutError("hunter2"), "timed out"),
        (socket.gaierror(-2, "hunter2"), "the host name was not found"),
        (OSError(errno.EHOSTUNREACH, "hunter2"), "no route to host"),
        (OSError(errno.ENETUNREACH, "hunter2"), "network is unreachable"),
        (OSError(errno.EMFILE, "hunter2"), "too many open files"),
        (OSError("hunter2"), "OSError"),
        ("é".encode, "the host name cannot be looked up"),
        (ValueError("hunter2"), "ValueError"),
    ],
)
def test_the_reason_is_named_in_our_words(error: Any, text: str) -> None:
    if callable(error):
        with pytest.raises(UnicodeError) as caught:
            error("ascii")
        error = caught.value

    assert reason(error) == text
    assert reason(error, tls=True) == text


@pytest.mark.req("W23")
@pytest.mark.parametrize("path", ["", "a\0b"])
def test_a_path_that_is_none_is_a_config_error(path: str) -> None:
    with pytest.raises(ConfigError):
        Unix(path)
