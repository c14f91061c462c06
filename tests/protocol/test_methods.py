import pytest

from ferrule._protocol import methods


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
