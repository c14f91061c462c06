"""The names people import, and what using authorization loads."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import ferrule.auth
from tests.test_import_cost import report


def test_every_public_name_is_there_sorted_and_documented() -> None:
    assert ferrule.auth.__all__ == sorted(set(ferrule.auth.__all__))
    assert set(dir(ferrule.auth)) == set(ferrule.auth.__all__)
    for name in ferrule.auth.__all__:
        value = getattr(ferrule.auth, name)
        assert value.__name__ == name
        assert inspect.getdoc(value), name


def test_a_name_that_does_not_exist_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        ferrule.auth.no_such_name  # noqa: B018


HERE = f"sys.path.insert(0, {str(Path(ferrule.__file__).parent.parent)!r})"
PROGRAM = """
from ferrule._demo.http import HTTPServer
import threading
with HTTPServer() as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    from ferrule import Client
    {auth}
    with Client(server.url, auth=auth) as client:
        assert client.call_tool("add", {{"a": 1, "b": 2}}).structured_content == {{"sum": 3}}
    server.shutdown()
loaded = sorted(name for name in sys.modules if name.startswith("ferrule.auth"))
assert loaded == {loaded}, loaded
"""


@pytest.mark.req("A4", "V2")
@pytest.mark.parametrize("auth", ["auth = None", "auth = 'token'", "auth = lambda: 'token'"])
def test_a_token_or_a_function_loads_nothing_of_it(auth: str) -> None:
    report(PROGRAM.format(auth=auth, loaded=[]), before=HERE)


@pytest.mark.req("A4", "V2")
def test_a_fixed_credential_loads_no_more_than_it_needs() -> None:
    auth = "from ferrule.auth import BearerAuth; auth = BearerAuth('token')"
    names = [f"ferrule.auth{module}" for module in ("", ".interface", ".challenges", ".static")]
    loaded, _, _ = report(PROGRAM.format(auth=auth, loaded=sorted(names)), before=f"{HERE}; import ferrule._demo.http")
    assert loaded & {"ipaddress", "ssl", "asyncio"} == set()
