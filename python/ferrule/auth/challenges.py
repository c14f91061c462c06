"""What a server asks for with `WWW-Authenticate` (RFC 9110, section 11.6.1), taken apart.

Knows the grammar: several challenges in one header, several headers, quoted strings, bare token68 values. Never fails:
what is no challenge is skipped. Which scheme counts is said here; what a challenge leads to is not.
"""

from __future__ import annotations

from .._value import Frozen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

COUNTS = ("bearer", "dpop")
"""The schemes by which MCP servers ask for OAuth tokens (RFC 6750, section 3; RFC 9449, section 7.1)."""

_LONGEST = 16384
"""Characters of all values that are read: what a whole head may have in common servers."""
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_TOKEN68 = _TOKEN | frozenset("/=")
_BLANK = " \t"


class Scheme(Frozen):
    """One challenge.

    Attributes:
        name: The scheme in lower case.
        params: Its parameters, names in lower case; of two with one name the first. A token68 is under "".
    """

    __slots__ = ("name", "params")

    name: str
    params: dict[str, str]

    def __init__(self, name: str, params: dict[str, str]) -> None:
        self._set("name", name)
        self._set("params", params)

    def __hash__(self) -> int:
        return hash((self.name, frozenset(self.params.items())))

    def __repr__(self) -> str:
        return f"Scheme({self.name[:32]!r}, {len(self.params)} parameters)"


def parse(values: Iterable[str]) -> list[Scheme]:
    """The challenges of all `WWW-Authenticate` headers of an answer, in order."""
    schemes: list[Scheme] = []
    left = _LONGEST
    for value in values:
        schemes += _Scanner(value[:left]).challenges()
        left -= min(left, len(value))
    return schemes


def choose(schemes: list[Scheme], names: tuple[str, ...] = COUNTS) -> Scheme | None:
    """The challenge that counts: the first of these schemes, preferred in this order; None when there is none."""
    for name in names:
        for scheme in schemes:
            if scheme.name == name:
                return scheme
    return None


class _Scanner:
    """Reads one header value once, from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def challenges(self) -> list[Scheme]:
        found: list[Scheme] = []
        while self._at < len(self._text):
            self._skip(_BLANK + ",")
            start = self._at
            name = self._take(_TOKEN)
            if name and self._is_param():
                self._at = start
                self._param(found[-1].params if found else {})
            elif name and self._ends_or_blank():
                found.append(Scheme(name.lower(), self._token68()))
            else:
                self._skip_item()
        return found

    def _is_param(self) -> bool:
        """Is what was just read a parameter's name? Then `=` follows, and that is no end of a token68."""
        at = self._at
        self._skip(_BLANK)
        if self._peek() == "=":
            return True
        self._at = at
        return False

    def _ends_or_blank(self) -> bool:
        return self._peek() in ("", ",", *_BLANK)

    def _token68(self) -> dict[str, str]:
        """What follows a scheme's name, if it is no parameter: a token68 up to the comma."""
        self._skip(_BLANK)
        start = self._at
        value = self._take(_TOKEN68)
        self._skip(_BLANK)
        bare = value.rstrip("=")
        if bare and "=" not in bare and self._peek() in ("", ",") and not self._reads_as_scheme(value):
            return {"": value}
        self._at = start
        return {}

    def _reads_as_scheme(self, value: str) -> bool:
        # "Basic Bearer, ..." is nobody's token68; a name without anything after it could be either.
        return value.lower() in COUNTS

    def _param(self, params: dict[str, str]) -> None:
        name = self._take(_TOKEN).lower()
        self._skip(_BLANK)
        self._at += 1  # the equals sign
        self._skip(_BLANK)
        value = self._quoted() if self._peek() == '"' else self._take(_TOKEN68)
        if value is not None:
            params.setdefault(name, value)
        self._skip(_BLANK)
        if self._peek() not in ("", ",", *_TOKEN):
            self._skip_item()

    def _quoted(self) -> str | None:
        """A quoted string with its escapes undone; None when it does not end."""
        self._at += 1
        parts: list[str] = []
        while (ch := self._peek()) and ch != '"':
            if ch == "\\":
                self._at += 1
            parts.append(self._peek())
            self._at += 1
        self._at += 1
        return "".join(parts) if ch else None

    def _skip_item(self) -> None:
        """Go to the next comma outside a quoted string; always on by one."""
        if self._peek() == '"':
            self._quoted()
            return
        self._at += 1
        while (ch := self._peek()) and ch not in ',"':
            self._at += 1

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip(self, characters: str) -> None:
        while self._peek() and self._peek() in characters:
            self._at += 1

    def _take(self, characters: frozenset[str]) -> str:
        start = self._at
        while self._peek() in characters:
            self._at += 1
        return self._text[start : self._at]
