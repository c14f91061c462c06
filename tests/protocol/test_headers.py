import pytest

from ferrule._protocol.headers import user_headers
from ferrule.errors import ConfigError


@pytest.mark.req("W21")
def test_a_users_headers_go_out_as_given_and_in_order() -> None:
    assert user_headers({"X-Tenant": "a", "User-Agent": "mine"}) == (("X-Tenant", "a"), ("User-Agent", "mine"))
    assert user_headers([("X-A", "1"), ("X-A", "2")]) == (("X-A", "1"), ("X-A", "2"))
    assert user_headers(None) == ()


@pytest.mark.req("W21")
@pytest.mark.parametrize(
    "name",
    [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "Connection",
        "Content-Type",
        "Accept",
        "Accept-Encoding",
        "MCP-Protocol-Version",
        "Mcp-Session-Id",
        "mcp-name",
        "Mcp-Param-Region",
        "Last-Event-ID",
    ],
)
def test_a_header_that_the_client_owns_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name):
        user_headers({name: "x"})


@pytest.mark.req("W21")
@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", "a\x7fb", "a\x1bb", "\u20ac"])
def test_a_value_that_no_header_may_carry_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        user_headers({"X-Tenant": value})
    assert "X-Tenant" in str(caught.value)
    assert value not in str(caught.value)


@pytest.mark.req("W21")
@pytest.mark.parametrize("name", ["", "X Tenant", "X:Y", "X\r\nY", "\u00fc"])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="a name may hold"):
        user_headers({name: "x"})
