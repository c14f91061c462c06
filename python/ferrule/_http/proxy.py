"""Which proxy the requests for a URL go through, and what a request needs for it.

Knows proxy settings as the standard library reads them, and the absolute form of a target (RFC 9112, section 3.2.2);
how a proxy is asked for a tunnel, `tunnel` knows. Errors never show a proxy's user, password or URL.
"""

from __future__ import annotations

import os
import sys

from ..errors import ConfigError
from .url import parse_url

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .url import Url

_HAS_SYSTEM_SETTINGS = sys.platform in ("win32", "darwin")
"""Where proxies may be set outside the environment."""


def proxy_for(url: Url, given: str | None) -> Url | None:
    """The proxy that requests for `url` go through, or None.

    Args:
        url: The server.
        given: The user's `proxy=`: a proxy's URL; "" for none; None to go by `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY`
            and `NO_PROXY`, on Windows and macOS also by the system's settings. Those are not asked for loopback.

    Raises:
        ConfigError: It is not the URL of an http proxy.
    """
    if given is not None:
        return _parse(given, "proxy") if given else None
    found = "" if _is_loopback(url.host) else _from_environment(url)
    return _parse(found, f"the environment's proxy for {url.scheme} (proxy= goes before it)") if found else None


def proxy_headers(proxy: Url) -> list[tuple[str, str]]:
    """What the proxy itself must be told: its credentials."""
    basic = proxy.basic_authorization()
    return [] if basic is None else [("Proxy-Authorization", basic)]


def absolute_target(url: Url) -> str:
    """The target on the request line where a proxy reads it: http alone, it passes TLS through."""
    return url.origin + url.target


def _parse(text: str, what: str) -> Url:
    if "://" not in text:
        text = f"http://{text}"  # as curl and the standard library take it
    try:
        proxy = parse_url(text)
    except ConfigError:
        proxy = None
    if proxy is None or proxy.is_https:
        raise ConfigError(f"{what}: expected http://[user:password@]host[:port]; no other kind of proxy is supported")
    return proxy


def _from_environment(url: Url) -> str:
    # Looked at before anything is imported: urllib.request costs more than the rest of a client.
    if not _HAS_SYSTEM_SETTINGS and not any(name.lower().endswith("_proxy") for name in os.environ):
        return ""
    from urllib.request import getproxies, proxy_bypass

    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all") or ""
    if proxy and proxy_bypass(f"{url.host}:{url.port}"):
        return ""
    return proxy


def _is_loopback(host: str) -> bool:
    if host == "::1" or (host.startswith("127.") and not host.strip("0123456789.")):
        return True
    name = host.removesuffix(".")
    return name == "localhost" or name.endswith(".localhost")
