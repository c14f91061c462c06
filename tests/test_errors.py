"""The error tree: attributes, texts without content, copies, and the choice of class by code."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from ferrule import errors
from ferrule._protocol.rpc_errors import rpc_error
from ferrule._text import escape_peer_text
from ferrule.errors import (
    AuthChallengeError,
    AuthDiscoveryError,
    AuthError,
    AuthorizationError,
    AuthRegistrationError,
    AuthStepUpError,
    AuthTokenError,
    CapabilityError,
    ConfigError,
    ConnectError,
    ConnectionClosed,
    FerruleError,
    HeaderMismatch,
    HTTPStatusError,
    InputRequired,
    InvalidMessage,
    InvalidParams,
    InvalidResult,
    LimitExceeded,
    MethodNotFound,
    MissingClientCapability,
    NegotiationError,
    ProtocolError,
    RequestTimeout,
    RPCError,
    ServerExited,
    SessionExpired,
    SkillRejected,
    TaskCancelled,
    ToolError,
    TransportError,
    UnknownResultType,
    UnsupportedProtocolVersion,
    URLElicitationRequired,
)
from ferrule.types import CallToolResult, TextContent

MARK = "s3cr3t-marker"
FAILED = CallToolResult((TextContent(MARK),), is_error=True)
LINK = {"mode": "url", "url": f"https://{MARK}", "message": MARK, "elicitationId": MARK}

# One of each class, with a marker in whatever came from the peer.
EVERY = [
    FerruleError("broken"),
    LimitExceeded("too long", limit="max_message_bytes", request_sent=True),
    TransportError("broken", request_sent=True),
    ConnectError("no route to host"),
    ConnectionClosed("closed", request_sent=True),
    RequestTimeout("30 s are over", request_sent=True),
    HTTPStatusError("HTTP 503", status=503, retry_after=2.5, content_type="text/html"),
    SessionExpired("unknown session"),
    ServerExited("exited", exit_code=-9, stderr_tail=MARK.encode(), request_sent=True),
    ProtocolError("broken"),
    InvalidMessage("bad JSON at byte 3 (8 bytes)"),
    InvalidResult("tools/list", "tools[3].name: expected string"),
    UnknownResultType("unknown result type", result_type=MARK),
    RPCError(code=-32000, message=MARK, data={"a": MARK}, method="tools/call", server="weather"),
    MethodNotFound(code=-32601, message=MARK),
    InvalidParams(code=-32602, message=MARK),
    HeaderMismatch(code=-32020, message=MARK),
    MissingClientCapability(code=-32021, message=MARK, data={"requiredCapabilities": {MARK: {}}}),
    UnsupportedProtocolVersion(code=-32022, message=MARK, data={"supported": [MARK]}),
    URLElicitationRequired(code=-32042, message=MARK, data={"elicitations": [LINK]}),
    ToolError(FAILED, name=MARK, server="weather"),
    CapabilityError("the server has no prompts"),
    NegotiationError("nothing in common", offered=["2026-07-28"], supported=[MARK]),
    SkillRejected("a skill is not what it should be", reason="digest"),
    TaskCancelled("a task was cancelled", request_sent=True),
    InputRequired("no handler", requests={"k": {"message": MARK}}, state=MARK),
    AuthError("refused", status=403, error=MARK, description=MARK, server="weather"),
    AuthChallengeError("refused", status=401, error=MARK, description=MARK),
    AuthDiscoveryError("no metadata", step="discovery", url=f"https://{MARK}@idp.example/m?{MARK}#{MARK}", status=404),
    AuthRegistrationError("refused", step="registration", error=MARK, description=MARK),
    AuthorizationError("denied", step="authorization", error=MARK, description=MARK),
    AuthTokenError("refused", step="token", error=MARK, description=MARK),
    AuthStepUpError("refused", status=403, error=MARK),
    ConfigError("auth= and an Authorization header"),
]
each = pytest.mark.parametrize("error", EVERY, ids=lambda error: type(error).__name__)


def test_the_list_of_examples_holds_every_class_once() -> None:
    classes = {item for _, item in inspect.getmembers(errors, inspect.isclass) if issubclass(item, BaseException)}
    assert {type(error) for error in EVERY} == classes
    assert len(EVERY) == len(classes)


def test_the_docstring_prints_the_tree_as_it_is() -> None:
    tree = (errors.__doc__ or "").split("\n\n")[1]
    depths: list[str] = []
    seen = set()
    for line in tree.splitlines():
        indent = len(line) - len(line.lstrip(" │├└─"))
        name = line[indent:].split()[0]
        del depths[(indent - 4) // 4 :]
        depths.append(name)
        seen.add(name)
        if len(depths) > 1:
            assert depths[-2] in {base.__name__ for base in getattr(errors, name).__bases__}
    assert seen == {type(error).__name__ for error in EVERY}


@each
@pytest.mark.req("V1")
def test_every_error_survives_pickling_with_all_its_attributes(error: FerruleError) -> None:
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        twin = pickle.loads(pickle.dumps(error, protocol))
        assert type(twin) is type(error)
        assert (str(twin), twin.args, vars(twin)) == (str(error), error.args, vars(error))


@each
def test_every_error_can_be_copied_shallow_and_deep(error: FerruleError) -> None:
    for twin in (copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert (str(twin), vars(twin)) == (str(error), vars(error))


def test_notes_survive_pickling() -> None:
    error = ConnectError("no route")
    error.add_note("while listing tools")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["while listing tools"]


@each
@pytest.mark.req("G1")
def test_no_text_of_an_error_holds_what_the_peer_said(error: FerruleError) -> None:
    assert MARK not in str(error)
    assert MARK not in repr(error)


@each
@pytest.mark.req("R4")
def test_every_error_says_whether_the_request_may_have_been_seen(error: FerruleError) -> None:
    assert error.request_sent in (True, False)
    error = copy.copy(error)
    error.request_sent = True  # an earlier attempt may have been sent
    assert error.request_sent is True


@pytest.mark.req("R4")
def test_what_was_answered_was_sent_and_what_was_refused_here_was_not() -> None:
    sent = {type(error).__name__ for error in EVERY if error.request_sent}
    assert {"RPCError", "ToolError", "InvalidResult", "HTTPStatusError"} <= sent
    unsent = {"ConnectError", "CapabilityError", "ConfigError", "NegotiationError", "AuthError"}
    assert not unsent & sent


@pytest.mark.parametrize("cls", [TransportError, ConnectionClosed, RequestTimeout, ServerExited])
@pytest.mark.req("R4")
def test_where_only_the_caller_knows_it_has_to_say_whether_it_was_sent(cls: Any) -> None:
    with pytest.raises(TypeError, match="request_sent"):
        cls("lost")


def test_chaining_is_left_to_raise() -> None:
    first = ConnectionClosed("lost", request_sent=True)
    with pytest.raises(RequestTimeout) as caught:
        try:
            raise first
        except ConnectionClosed as error:
            raise RequestTimeout("over", request_sent=True) from error
    assert caught.value.__cause__ is first


def test_a_timeout_is_caught_as_the_builtin_and_is_no_system_error() -> None:
    error = RequestTimeout("30 s are over", request_sent=True)
    assert isinstance(error, TimeoutError)
    assert error.errno is None
    assert str(error) == "30 s are over"


def test_an_invalid_result_names_method_and_path() -> None:
    error = InvalidResult("tools/list", "tools[3].name: expected string")
    assert str(error) == "tools/list: tools[3].name: expected string"
    assert (error.method, error.problem) == ("tools/list", "tools[3].name: expected string")


@pytest.mark.req("G1")
def test_the_text_of_an_rpc_error_is_method_code_and_server() -> None:
    full = rpc_error(code=-32000, message="x", method="tools/call", server="weather")
    assert str(full) == "tools/call: error -32000 from weather"
    assert str(rpc_error(code=-32000, message="x")) == "error -32000"


@pytest.mark.req("G1")
def test_the_text_of_a_tool_error_is_method_and_server_and_its_message_the_tools_words() -> None:
    error = ToolError(
        CallToolResult((TextContent("no \x1b[31mcity"), TextContent("given"))),
        name="forecast",
        server="weather",
    )
    assert str(error) == "tools/call: the tool reported an error from weather"
    assert error.message == "no \\x1b[31mcity\\ngiven"
    assert (error.code, error.name, error.method) == (0, "forecast", "tools/call")


@pytest.mark.req("G1")
def test_the_text_of_an_auth_error_is_what_was_done_status_and_server() -> None:
    error = AuthError("the token was refused", status=403, error="invalid_grant", server="idp")
    assert str(error) == "the token was refused (HTTP 403) from idp"
    assert error.error == "invalid_grant"


@pytest.mark.req("G1")
def test_an_auth_error_says_at_which_step_and_url_it_failed_without_user_and_query() -> None:
    url = "https://user:secret@idp.example/token?code=1#x"
    error = AuthTokenError("refused", step="token", url=url, status=400)
    assert str(error) == "token: refused, at https://idp.example/token (HTTP 400)"
    assert (error.step, error.url) == ("token", "https://idp.example/token")


@pytest.mark.parametrize(
    ("code", "data", "cls"),
    [
        (-32601, None, MethodNotFound),
        (-32602, None, InvalidParams),
        (-32020, None, HeaderMismatch),
        (-32020, {"anything": 1}, HeaderMismatch),
        (-32021, {"requiredCapabilities": {"sampling": {}}}, MissingClientCapability),
        (-32021, {"requiredCapabilities": ["sampling"]}, RPCError),
        (-32021, None, RPCError),
        (-32022, {"supported": ["2026-07-28"], "requested": "x"}, UnsupportedProtocolVersion),
        (-32022, {"supported": [], "requested": "x"}, UnsupportedProtocolVersion),
        (-32022, {"supported": ["2026-07-28"]}, RPCError),
        (-32022, {"supported": [2026], "requested": "x"}, RPCError),
        (-32022, {"supported": "2026-07-28", "requested": "x"}, RPCError),
        (-32022, "2026-07-28", RPCError),
        (-32042, {"elicitations": [LINK]}, URLElicitationRequired),
        (-32042, {"elicitations": []}, URLElicitationRequired),
        (-32042, {"elicitations": [{**LINK, "mode": "form"}]}, RPCError),
        (-32042, {"elicitations": [{"mode": "url", "url": "https://a"}]}, RPCError),
        (-32042, {"elicitations": ["https://a"]}, RPCError),
        (-32042, None, RPCError),
        (-32000, None, RPCError),
        (7, {"supported": []}, RPCError),
    ],
)
def test_the_class_is_chosen_by_code_and_only_when_the_data_fits(code: int, data: Any, cls: type[RPCError]) -> None:
    error = rpc_error(code=code, message="no", data=data, http_status=400)
    assert type(error) is cls
    assert (error.code, error.data, error.http_status) == (code, data, 400)


def test_recognised_errors_give_what_their_data_says() -> None:
    version = {"supported": ["2026-07-28", "2025-11-25"], "requested": "2099-01-01"}
    unsupported = rpc_error(code=-32022, message="", data=version)
    assert isinstance(unsupported, UnsupportedProtocolVersion)
    assert unsupported.supported == ("2026-07-28", "2025-11-25")
    assert unsupported.requested == "2099-01-01"
    missing = rpc_error(code=-32021, message="", data={"requiredCapabilities": {"roots": {}}})
    assert isinstance(missing, MissingClientCapability)
    assert missing.required == {"roots": {}}
    link = rpc_error(code=-32042, message="", data={"elicitations": [LINK]})
    assert isinstance(link, URLElicitationRequired)
    assert link.elicitations == (LINK,)


def test_attributes_of_an_error_built_by_hand_without_data_are_empty() -> None:
    assert UnsupportedProtocolVersion(code=-32022, message="").supported == ()
    assert UnsupportedProtocolVersion(code=-32022, message="").requested == ""
    assert MissingClientCapability(code=-32021, message="").required == {}
    assert URLElicitationRequired(code=-32042, message="").elicitations == ()


@pytest.mark.parametrize(
    ("code", "method", "found"),
    [
        (-32002, "resources/read", True),
        (-32002, None, True),
        (-32602, "resources/read", True),
        (-32602, "tools/call", False),
        (-32602, None, False),
        (-32603, "resources/read", False),
    ],
)
@pytest.mark.req("X5")
def test_a_missing_resource_is_recognised_by_both_codes(code: int, method: str | None, found: bool) -> None:
    assert rpc_error(code=code, message="", method=method).is_resource_not_found is found


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("plain words", "plain words"),
        ("Grüße, 世界 👩‍👩‍👧", "Grüße, 世界 👩‍👩‍👧"),
        ("a\r\n\tb", "a\\r\\n\\tb"),
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x00\x7f\x9b31m", "\\x00\\x7f\\x9b31m"),
        ("a\u2028b\u2029c\x85", "a\\u2028b\\u2029c\\x85"),
        ("\u202egnp.exe\ufeff", "\\u202egnp.exe\\ufeff"),
        ("\ud800", "\\ud800"),
        ("", ""),
    ],
)
@pytest.mark.req("G1")
def test_control_characters_of_a_peer_are_escaped_and_words_are_not(text: str, safe: str) -> None:
    assert escape_peer_text(text) == safe
    assert rpc_error(code=1, message=text).message == safe


@pytest.mark.parametrize("character", ["a", "ß", "世", "\x1b", "\ud800", "👍"])
@pytest.mark.parametrize("count", [1023, 1024, 1025, 2_000_000])
@pytest.mark.req("G1")
def test_what_a_peer_says_is_capped_at_one_kibibyte(character: str, count: int) -> None:
    safe = escape_peer_text(character * count)
    assert len(safe.encode()) <= 1024
    if character == "a" and count <= 1024:
        assert safe == "a" * count
    else:
        assert safe.endswith("…")
        assert len(safe.encode()) >= 1018
    assert AuthError("no", description=character * count).description == safe


@pytest.mark.parametrize("message", [None, 7, {"text": MARK}, [MARK], True])
@pytest.mark.req("W12")
def test_a_message_that_is_no_text_counts_as_nothing_said(message: Any) -> None:
    assert rpc_error(code=-32000, message=message).message == ""
    assert AuthError("no", description=message).description in ("", None)


def test_a_content_type_and_a_result_type_from_the_peer_are_escaped_too() -> None:
    assert HTTPStatusError("x", status=500, content_type="a\x1bb").content_type == "a\\x1bb"
    assert UnknownResultType("x", result_type="a\x1bb").result_type == "a\\x1bb"
    error = NegotiationError("x", offered=("a",), supported=["b\x1b" * 100])
    assert error.offered == ("a",)
    assert len(error.supported[0].encode()) <= 64
