"""`_meta` among arguments goes beside them, whatever is called."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

from tests.support.pushes import opening
from tests.support.steps import answer

CALLS: dict[str, tuple[str, Callable[..., Any]]] = {
    "a tool": ("tools/call", lambda client, given, meta: client.call_tool("echo", given, meta=meta)),
    "a prompt": ("prompts/get", lambda client, given, meta: client.get_prompt("greet", given, meta=meta)),
    "a task": ("tools/call", lambda client, given, meta: client.call_tool_task("echo", given, meta=meta)),
}


@pytest.mark.req("R6")
@pytest.mark.parametrize(("method", "call"), CALLS.values(), ids=CALLS.keys())
def test_meta_among_the_arguments_is_sent_beside_them(flavour: Any, serve: Any, method: str, call: Any) -> None:
    rules = {"initialize": opening()}
    if call is CALLS["a task"][1]:
        rules["tools/call"] = answer({"task": {"taskId": "t", "status": "working"}})
    server = serve(rules, era="handshake")
    client = flavour.connect(server.url)
    given = {"a": "1", "_meta": {"x": [1], "y": 2}}
    call(client, given, {"y": 3})
    params = server.calls(method)[0].params
    assert (params["arguments"], params["_meta"]) == ({"a": "1"}, {"x": [1], "y": 3})
    assert given == {"a": "1", "_meta": {"x": [1], "y": 2}}
    call(client, MappingProxyType(given), None)
    assert server.calls(method)[1].params["_meta"] == {"x": [1], "y": 2}
    with pytest.raises(TypeError, match=r"arguments\._meta: expected a mapping"):
        call(client, {"_meta": 7}, None)
    assert server.count(method) == 2
