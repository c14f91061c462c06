"""One row for each method a client can call: what the rules of other modules need to know of it.

Knows names and facts only; how a request is sent, retried or decoded is decided elsewhere by these facts.
"""

from __future__ import annotations


class Method:
    """What sets one method apart.

    Attributes:
        name: As on the wire.
        capability: The server capability it needs, None for none; `a.b` is the member b of the capability a.
        idempotent: Calling it twice is the same as calling it once, so a lost answer may be asked for
            again. Never true of `tools/call`, nor of a method we do not know.
        name_param: The parameter that `Mcp-Name` mirrors (2026-07-28, Streamable HTTP, Standard Request Headers).
        rounds: The server may answer `input_required` (2026-07-28, Multi Round-Trip Requests).
        cancellable: Giving up on it is told to the server.
    """

    __slots__ = ("cancellable", "capability", "idempotent", "name", "name_param", "rounds")

    def __init__(
        self,
        name: str,
        *,
        capability: str | None = None,
        idempotent: bool = False,
        name_param: str | None = None,
        rounds: bool = False,
        cancellable: bool = True,
    ) -> None:
        self.name = name
        self.capability = capability
        self.idempotent = idempotent
        self.name_param = name_param
        self.rounds = rounds
        self.cancellable = cancellable

    def __repr__(self) -> str:
        return f"<Method {self.name}>"


INITIALIZE = Method("initialize", idempotent=True, cancellable=False)
DISCOVER = Method("server/discover", idempotent=True, cancellable=False)
PING = Method("ping", idempotent=True)
TOOLS_LIST = Method("tools/list", capability="tools", idempotent=True)
TOOLS_CALL = Method("tools/call", capability="tools", name_param="name", rounds=True)
RESOURCES_LIST = Method("resources/list", capability="resources", idempotent=True)
RESOURCES_TEMPLATES_LIST = Method("resources/templates/list", capability="resources", idempotent=True)
RESOURCES_READ = Method("resources/read", capability="resources", idempotent=True, name_param="uri", rounds=True)
PROMPTS_LIST = Method("prompts/list", capability="prompts", idempotent=True)
PROMPTS_GET = Method("prompts/get", capability="prompts", idempotent=True, name_param="name", rounds=True)
RESOURCES_SUBSCRIBE = Method("resources/subscribe", capability="resources.subscribe", idempotent=True)
RESOURCES_UNSUBSCRIBE = Method("resources/unsubscribe", capability="resources.subscribe", idempotent=True)
SUBSCRIPTIONS_LISTEN = Method("subscriptions/listen", idempotent=True)
LOGGING_SET_LEVEL = Method("logging/setLevel", capability="logging", idempotent=True)
SKILLS_LIST = Method("skills/list", idempotent=True)
SKILLS_GET = Method("skills/get", idempotent=True)
COMPLETE = Method("completion/complete", capability="completions", idempotent=True)
TASKS_GET = Method("tasks/get", idempotent=True, name_param="taskId", cancellable=False)
TASKS_RESULT = Method("tasks/result", idempotent=True, cancellable=False)
TASKS_LIST = Method("tasks/list", capability="tasks.list", idempotent=True)
TASKS_UPDATE = Method("tasks/update", name_param="taskId", cancellable=False)
TASKS_CANCEL = Method("tasks/cancel", name_param="taskId", cancellable=False)

# The same methods under other rules; not looked up by name.
TOOLS_CALL_AS_TASK = Method("tools/call", capability="tasks.requests.tools.call", name_param="name", cancellable=False)
"""A task is cancelled by `tasks/cancel` alone (2025-11-25, basic/utilities/cancellation)."""
COMPLETE_UNDECLARED = Method("completion/complete", idempotent=True)
"""Revision 2024-11-05 has completion, but no capability that says so."""

METHODS = {
    method.name: method
    for method in (
        INITIALIZE,
        DISCOVER,
        PING,
        TOOLS_LIST,
        TOOLS_CALL,
        RESOURCES_LIST,
        RESOURCES_TEMPLATES_LIST,
        RESOURCES_READ,
        PROMPTS_LIST,
        PROMPTS_GET,
        RESOURCES_SUBSCRIBE,
        RESOURCES_UNSUBSCRIBE,
        SUBSCRIPTIONS_LISTEN,
        LOGGING_SET_LEVEL,
        SKILLS_LIST,
        SKILLS_GET,
        COMPLETE,
        TASKS_GET,
        TASKS_RESULT,
        TASKS_LIST,
        TASKS_UPDATE,
        TASKS_CANCEL,
    )
}


def lookup(name: str) -> Method:
    """The method's row; for a name we do not know, one that promises nothing."""
    return METHODS.get(name) or Method(name)
