"""A user without a browser who fills in HTML forms: logs in, consents, and is sent back to the program.

Knows forms with hidden fields and cookies; no scripts.
"""

from __future__ import annotations

import http.cookiejar
import urllib.request
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode, urljoin

PATIENCE = 20.0
FIELDS = {"login": "ann", "password": "any"}


class _Form(HTMLParser):
    """The first form of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.action: str | None = None
        self.fields: dict[str, str] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "form" and self.action is None:
            self.action = given.get("action")
        name = given.get("name")
        if tag == "input" and name:
            self.fields[name] = given.get("value") or FIELDS.get(name, "")


class _NoFurther(urllib.request.HTTPRedirectHandler):
    """Follows redirects until one leads back to the program."""

    def __init__(self, back: str) -> None:
        self._back = back
        self.came_back_to = ""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        if newurl.startswith(self._back):
            self.came_back_to = newurl
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class FormUser:
    """`redirect` and `callback` of an `OAuth`; `forms` counts the pages that were filled in."""

    def __init__(self, redirect_uri: str) -> None:
        self._redirect_uri = redirect_uri
        self.log_ins = 0
        self.forms = 0
        self._answer = ""

    def redirect(self, url: str) -> None:
        self.log_ins += 1
        stop = _NoFurther(self._redirect_uri)
        jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), jar, stop)
        data = None
        while not stop.came_back_to:
            try:
                with opener.open(url, data, timeout=PATIENCE) as page:
                    url, form = page.url, _Form(page.read().decode())
            except urllib.error.HTTPError as error:
                with error:
                    assert stop.came_back_to, f"HTTP {error.code}"
                break
            assert form.action is not None, "no form to fill in"
            url, data = urljoin(url, form.action), urlencode(form.fields).encode()
            self.forms += 1
        self._answer = stop.came_back_to

    def callback(self) -> str:
        return self._answer
