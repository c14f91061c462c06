"""A client with handlers in a process that forks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.session.test_fork import play

PROGRAM = """
import warnings
from ferrule import ElicitResult

contexts = []

def handler(request, context):
    contexts.append(context)
    return ElicitResult.accept({"name": str(os.getpid())})

client = Client(target, on_elicitation=handler, on_log=lambda message, context: None, timeout=10)
client.call_tool("echo")
report["threads"] = threading.active_count()

def body():
    client.call_tool("echo")
    client.close()
    assert len(contexts) == 2

report["code"] = ended(fork(body))
client.call_tool("echo")
client.close()
until(lambda: threading.active_count() == 1)
report["asked"] = len(contexts)
"""


@pytest.mark.req("V3", "I1")
def test_handlers_answer_in_parent_and_child_alike(asking: Any) -> None:
    from tests.support.asking import form

    server = asking(form("a"), replies=1)
    target = [server.target] if isinstance(server.target, str) else server.server.argv
    report = play(PROGRAM, *target)
    assert (report["code"], report["asked"]) == (0, 2)
    answered = [reply["result"]["content"]["name"] for reply in server.replies]
    assert len(answered) == 3 and answered[0] == answered[2] != answered[1]
