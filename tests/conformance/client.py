"""The client that the official conformance suite drives: `client.py URL`, the scenario in the environment.

Each scenario is the plain use of ferrule that it asks for. Ends with another status than 0 when a call fails.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ferrule import Client
from ferrule.errors import AuthDiscoveryError, AuthError, AuthorizationError, AuthStepUpError, SkillRejected
from ferrule.skills import Skills
from ferrule.types import SamplingRejected


def connect_only(client: Client) -> None:
    """Connecting is all."""


def list_tools(client: Client) -> None:
    client.list_tools()


def ask_again(client: Client) -> None:
    """One more request after the first was refused for its version."""
    client.discover()


def add_numbers(client: Client) -> None:
    [tool] = [tool for tool in client.list_tools() if tool.name == "add_numbers"]
    result = client.call_tool(tool.name, {"a": 5, "b": 3})
    assert not result.is_error


def wait_for_the_answer(client: Client) -> None:
    """The server closes the stream before the answer and names a time to come back."""
    result = client.call_tool("test_reconnection", {})
    assert not result.is_error


def use_everything(client: Client) -> None:
    """Each kind of request once, so that each kind's headers are seen."""
    for tool in client.list_tools():
        client.call_tool(tool.name, {})
    for resource in client.list_resources():
        client.read_resource(resource.uri)
    for prompt in client.list_prompts():
        client.get_prompt(prompt.name)


def call_as_told(client: Client) -> None:
    """The calls that the scenario lists, arguments as they stand there."""
    client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        client.call_tool(call["name"], call["arguments"])


def call_what_is_offered(client: Client) -> None:
    """Every tool that is listed, with an argument for each property."""
    for tool in client.list_tools():
        client.call_tool(tool.name, dict.fromkeys(tool.input_schema.get("properties", {}), "value"))


def send_a_schema_back(client: Client) -> None:
    schemas = {tool.name: tool.input_schema for tool in client.list_tools()}
    client.call_tool("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


def fill_in_a_form(client: Client) -> None:
    """The tool asks, on the standalone stream, for a form in which every field has a default."""
    result = client.call_tool("test_client_elicitation_defaults", {})
    assert not result.is_error


def answer_in_rounds(client: Client) -> None:
    """A tool that asks with a state, one that has nothing to do with it, one without a state, one without a kind."""
    for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
        result = client.call_tool(f"test_mrtr_{name}", {})
        assert not result.is_error


def confirm(request: Any, context: Any) -> dict[str, Any]:
    """A user who agrees."""
    return {"action": "accept", "content": {"confirmed": True}}


def accept_defaults(request: Any, context: Any) -> dict[str, Any]:
    """A user who sends the form off as it is."""
    return {"action": "accept", "content": request.fill_defaults()}


def refuse(request: Any, context: Any) -> Any:
    """A user who wants no model asked."""
    raise SamplingRejected


def call_the_first_tool(client: Client) -> None:
    result = client.call_tool(client.list_tools()[0].name, {})
    assert not result.is_error


def list_skills(client: Client) -> None:
    """No file is read until a skill is loaded."""
    [skill] = Skills(client).list()
    assert skill.name == "pdf-processing"


def load_a_skill_that_is_not_what_was_listed(client: Client) -> None:
    """It is given up with its first file."""
    skills = Skills(client)
    [skill] = skills.list()
    try:
        skills.load(skill)
    except SkillRejected:
        return
    for file in skill.files:
        skills.read(skill, file.uri)


SCENARIOS: dict[str, Callable[[Client], None]] = {
    "initialize": connect_only,
    "tools_call": add_numbers,
    "sse-retry": wait_for_the_answer,
    "request-metadata": ask_again,
    "http-standard-headers": use_everything,
    "http-custom-headers": call_as_told,
    "http-invalid-tool-headers": call_what_is_offered,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": send_a_schema_back,
    "elicitation-sep1034-client-defaults": fill_in_a_form,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": load_a_skill_that_is_not_what_was_listed,
    "sep-2640-client-verify-size": load_a_skill_that_is_not_what_was_listed,
    "sep-2640-client-verify-frontmatter": load_a_skill_that_is_not_what_was_listed,
    "sep-2322-client-request-state": answer_in_rounds,
}
OPTIONS: dict[str, dict[str, Any]] = {
    "elicitation-sep1034-client-defaults": {"on_elicitation": accept_defaults},
    "request-metadata": {"on_elicitation": accept_defaults, "on_sampling": refuse, "roots": ["file:///"]},
    "sep-2322-client-request-state": {"on_elicitation": confirm},
}
"""What a scenario's client is given besides the URL."""


def authorization(name: str) -> dict[str, Any]:
    """The `auth=` of an `auth/` scenario; nothing for the others."""
    if not name.startswith("auth/"):
        return {}
    from tests.conformance.authorization import AUTHS, user

    return {"auth": AUTHS.get(name, user)(json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")))}


REFUSALS: dict[str, type[AuthError]] = {
    "auth/scope-retry-limit": AuthStepUpError,
    "auth/resource-mismatch": AuthDiscoveryError,
    "auth/metadata-issuer-mismatch": AuthDiscoveryError,
    "auth/iss-supported-missing": AuthorizationError,
    "auth/iss-wrong-issuer": AuthorizationError,
    "auth/iss-unexpected": AuthorizationError,
    "auth/iss-normalized": AuthorizationError,
}
"""What a scenario has to end in whose server must not be given in to."""


def main() -> None:
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    options = {**OPTIONS.get(name, {}), **authorization(name)}
    try:
        with Client(sys.argv[1], timeout=20, **options) as client:
            SCENARIOS.get(name, call_the_first_tool)(client)
    except AuthError as error:
        if type(error) is not REFUSALS.get(name):
            raise
    else:
        assert name not in REFUSALS, "the client gave in"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent.parent.parent))
    main()
