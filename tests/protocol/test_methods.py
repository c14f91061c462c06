import pytest

from ferrule._protocol import methods
from ferrule._protocol.versions import KNOWN


@pytest.mark.req("R5")
def test_a_tools_call_and_an_unknown_method_are_not_idempotent() -> None:
    assert not methods.lookup("tools/call").idempotent
    assert not methods.lookup("acme/launch").idempotent


@pytest.mark.req("E4")
@pytest.mark.parametrize(
    ("method", "parameter"),
    [
        ("tools/call", "name"),
        ("prompts/get", "name"),
        ("resources/read", "uri"),
        ("tasks/get", "taskId"),
        ("tasks/update", "taskId"),
        ("tasks/cancel", "taskId"),
        ("tools/list", None),
        ("server/discover", None),
    ],
)
def test_mcp_name_mirrors_the_parameter_the_specification_names(method: str, parameter: str | None) -> None:
    assert methods.lookup(method).name_param == parameter


@pytest.mark.req("T2")
def test_giving_up_on_initialize_or_discover_is_told_to_nobody() -> None:
    assert not methods.INITIALIZE.cancellable
    assert not methods.DISCOVER.cancellable
    assert methods.TOOLS_CALL.cancellable


def test_input_may_be_asked_for_by_tools_call_prompts_get_and_resources_read_only() -> None:
    asking = {name for name, method in methods.METHODS.items() if method.rounds}
    assert asking == {"tools/call", "prompts/get", "resources/read"}


COMMON = {
    *("completion/complete", "prompts/get", "prompts/list", "resources/list", "resources/read"),
    *("resources/templates/list", "tools/call", "tools/list"),
}
HANDSHAKE = COMMON | {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
REQUESTS = {
    # what each revision's schema lets a client ask; the stateless era's tasks are an extension
    "2024-11-05": HANDSHAKE,
    "2025-03-26": HANDSHAKE,
    "2025-06-18": HANDSHAKE,
    "2025-11-25": HANDSHAKE | {"tasks/get", "tasks/list", "tasks/result", "tasks/cancel"},
    "2026-07-28": COMMON | {"server/discover", "subscriptions/listen"},
    "io.modelcontextprotocol/tasks": {"tasks/get", "tasks/update", "tasks/cancel"},
    "io.modelcontextprotocol/skills": {"skills/list", "skills/get"},
}


@pytest.mark.req("V4")
def test_every_method_of_every_revision_is_known_and_no_other_is() -> None:
    assert set(methods.METHODS) == set().union(*REQUESTS.values())
    assert {name for name in REQUESTS if "/" not in name} == set(KNOWN)
    for name in methods.METHODS:
        assert methods.lookup(name).name == name
