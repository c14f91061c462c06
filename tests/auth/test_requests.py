"""What an `Auth` is asked, when, and what becomes of a request that the server refuses."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from ferrule import Limits, Retry
from ferrule.auth import Auth, BearerAuth
from ferrule.errors import (
    AuthChallengeError,
    AuthStepUpError,
    AuthTokenError,
    HTTPStatusError,
    RequestTimeout,
)
from tests.support.authorized import (
    BEARER,
    NONCE_WANTED,
    SCOPE,
    Coroutines,
    Scripted,
    guarded_server,
    header,
    refuse,
    tokens_of,
)
from tests.support.old_sse import OldServer
from tests.support.steps import LAST_CHUNK, answer, error, event, hang, more, raw, result, status, stream, turns, wait

ERAS = pytest.mark.parametrize("era", ["stateless", "handshake"])
FAST = Retry(attempts=3, backoff=0.01, max_backoff=0.02)
PRIOR = {"era": "handshake", "revision": "2025-11-25", "transport": "http+sse"}
PING = event({"jsonrpc": "2.0", "id": "p", "method": "ping"})


@pytest.fixture(params=[Scripted, Coroutines], ids=["plain", "coroutines"])
def scripted(request: pytest.FixtureRequest) -> Any:
    """An `Auth` of the user's, with plain functions and with coroutines (that do not suspend, so for `Client` too)."""
    return request.param


def handler(*_: Any) -> None:
    """Something that could use what the server sends unasked."""


# --- before anything is sent ---------------------------------------------------------------------


@pytest.mark.req("A2")
@ERAS
def test_who_has_no_credential_gets_one_before_anything_is_sent(
    flavour: Any, serve: Any, era: str, scripted: Any
) -> None:
    server = guarded_server(serve, era, {"Bearer t"})
    auth = scripted(None, "t")
    client = flavour.connect(server.url, auth=auth, protocol=era)
    client.call_tool("echo", {})
    assert [(request.method, request.url) for request in auth.prepared] == [("POST", server.url)]
    assert set(tokens_of(server.requests)) == {"Bearer t"}
    assert auth.reactions == []


@pytest.mark.req("A2")
def test_what_prepare_returns_is_for_that_request_alone(flavour: Any, serve: Any) -> None:
    class Counting(Auth):
        count = 0

        def headers(self, request: Any) -> None:
            return

        def prepare(self, request: Any, deadline: float) -> Any:
            self.count += 1
            return header(f"t{self.count}")

    server = serve({"DELETE": status(200)}, era="handshake")
    client = flavour.connect(server.url, auth=Counting(), protocol="handshake", headers={"Cookie": "a=b"})
    client.call_tool("echo", {})
    client.close()  # and no farewell, for which it would have to be prepared
    assert tokens_of(server.requests) == ["Bearer t1", "Bearer t2", "Bearer t3"]
    assert {request.header("Cookie") for request in server.requests} == {"a=b"}


@pytest.mark.req("A2", "R4")
def test_who_never_gets_a_credential_sends_nothing(flavour: Any, serve: Any) -> None:
    server = serve()
    with pytest.raises(AuthTokenError, match="no credentials") as caught:
        flavour.client(server.url, auth=Scripted(None), protocol="stateless").call_tool("echo", {})
    assert caught.value.request_sent is False
    assert server.requests == []


@pytest.mark.req("A2", "R4", "T1")
def test_the_deadline_of_the_call_holds_while_it_is_prepared(flavour: Any, serve: Any) -> None:
    class Slow(Auth):
        def bind(self, context: Any) -> Any:
            self.io = context.io
            return self

        def headers(self, request: Any) -> None:
            return

        async def prepare(self, request: Any, deadline: float) -> None:
            await self.io.wait(self.io.slot(), deadline)

    server = serve()
    client = flavour.client(server.url, auth=Slow(), protocol="stateless")
    with pytest.raises(RequestTimeout, match="not sent") as caught:
        client.call_tool("echo", {}, timeout=0.05)
    assert caught.value.request_sent is False
    assert server.requests == []


@pytest.mark.req("A2")
def test_an_error_of_the_users_own_class_comes_out_as_it_is(flavour: Any, serve: Any) -> None:
    class Failing(Auth):
        def headers(self, request: Any) -> Any:
            raise LookupError("vault")

    server = serve()
    with pytest.raises(LookupError, match="vault"):
        flavour.client(server.url, auth=Failing(), protocol="stateless").call_tool("echo", {})
    assert server.requests == []


# --- after a refusal -----------------------------------------------------------------------------


@pytest.mark.req("R2", "A3")
@ERAS
def test_a_call_that_was_refused_is_sent_once_more_with_what_there_is_then(
    flavour: Any, serve: Any, era: str, scripted: Any
) -> None:
    server = guarded_server(serve, era, {"Bearer old", "Bearer new"})
    auth = scripted("old", "new")
    client = flavour.connect(server.url, auth=auth)
    server.rules["tools/call"] = turns(refuse(), answer(lambda request: {"content": [], "resultType": "complete"}))
    client.call_tool("echo", {"a": 1})
    first, second = server.calls()
    assert tokens_of([first, second]) == ["Bearer old", "Bearer new"]
    assert first.body == second.body
    [(request, challenge)] = auth.reactions
    assert (request.method, request.url, list(request.sent)) == ("POST", server.url, header("old"))
    assert (challenge.status, challenge.www_authenticate, challenge.dpop_nonce) == (401, (BEARER,), None)


@pytest.mark.req("R2")
@pytest.mark.parametrize("body", [b"", b'{"jsonrpc": "2.0", "id": null, "error": {"code": -1, "message": "no"}}'])
def test_a_second_refusal_for_the_same_cause_is_raised(flavour: Any, serve: Any, body: bytes) -> None:
    server = serve({"tools/call": status(401, body, headers=[("WWW-Authenticate", BEARER)])})
    auth = Scripted("a", "b", "c")
    client = flavour.connect(server.url, auth=auth)
    with pytest.raises(AuthChallengeError, match="wants authorization") as caught:
        client.call_tool("echo", {})
    refused = caught.value
    assert (refused.status, refused.error, refused.description) == (401, "invalid_token", "expired")
    assert (refused.request_sent, refused.step) == (True, None)
    assert (server.count("tools/call"), len(auth.reactions)) == (2, 1)


@pytest.mark.req("R2")
def test_nothing_is_sent_again_when_there_is_nothing_else_to_send(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": refuse()})
    for auth in ("t", BearerAuth("t"), Scripted("t", more=False)):
        client = flavour.connect(server.url, auth=auth)
        with pytest.raises(AuthChallengeError):
            client.call_tool("echo", {})
    assert server.count("tools/call") == 3


@pytest.mark.req("R2")
def test_a_403_counts_only_if_it_is_about_the_scope(flavour: Any, serve: Any) -> None:
    server = serve(
        {"tools/call": turns(refuse(403, SCOPE), answer(), refuse(403, BEARER), status(403), refuse(403, SCOPE))}
    )
    auth = Scripted("a", "b", "c", "d")
    client = flavour.connect(server.url, auth=auth)
    client.call_tool("echo", {})
    assert server.count("tools/call") == 2
    assert auth.reactions[0][1].param("scope") == "a b"
    for _ in range(2):
        with pytest.raises(HTTPStatusError):
            client.call_tool("echo", {})
    assert (server.count("tools/call"), len(auth.reactions)) == (4, 1)
    with pytest.raises(AuthStepUpError, match="more scopes") as caught:
        client.call_tool("echo", {})
    assert (caught.value.status, caught.value.error, caught.value.description) == (403, "insufficient_scope", "more")
    assert (server.count("tools/call"), len(auth.reactions)) == (6, 2)


@pytest.mark.req("R2")
def test_each_cause_counts_for_itself_and_once(flavour: Any, serve: Any) -> None:
    refusals = [NONCE_WANTED, refuse(), refuse(403, SCOPE)]
    server = serve({"tools/call": turns(*refusals, answer(), *refusals, NONCE_WANTED, answer())})
    auth = Scripted(*"abcdefghij")
    client = flavour.connect(server.url, auth=auth)
    client.call_tool("echo", {})
    assert [challenge.wants_nonce for _, challenge in auth.reactions] == [True, False, False]
    with pytest.raises(AuthChallengeError) as caught:
        client.call_tool("echo", {})
    assert caught.value.error == "use_dpop_nonce"
    assert server.count("tools/call") == 8


@pytest.mark.req("A2", "W19")
def test_no_credential_follows_a_redirect_elsewhere(flavour: Any, serve: Any) -> None:
    other = serve()
    server = serve({"tools/call": status(307, headers=[("Location", other.url)])})
    auth = Scripted("a", "b")
    client = flavour.connect(server.url, auth=auth)
    with pytest.raises(HTTPStatusError, match="another origin"):
        client.call_tool("echo", {})
    assert other.requests == []
    server.rules["tools/call"] = turns(status(307, headers=[("Location", "/elsewhere?x=1")]), answer())
    client.call_tool("echo", {})
    assert auth.asked[-1].url == f"{server.origin}/elsewhere?x=1"
    assert tokens_of(server.calls()) == ["Bearer a"] * 3


# --- what is no call -----------------------------------------------------------------------------


@pytest.mark.req("R2")
def test_notifications_and_replies_that_were_refused_are_sent_once_more(flavour: Any, serve: Any) -> None:
    asking = [stream(event({"jsonrpc": "2.0", "id": "p", "method": "ping"}), end=False)]
    released = threading.Event()
    server = serve(
        {
            "notifications/initialized": turns(refuse(), status(202)),
            "reply": turns(refuse(), status(202)),
            "tools/call": [*asking, wait(released), more(result()), raw(LAST_CHUNK)],
        },
        era="handshake",
    )
    auth = Scripted("a", "b", "c")
    client = flavour.connect(server.url, auth=auth)
    call = flavour.start(client.call_tool, "echo", {})
    server.wait_until(lambda: server.count("reply") == 2)
    released.set()
    call.result()
    assert server.count("notifications/initialized") == 2
    assert tokens_of(server.calls("reply")) == ["Bearer b", "Bearer c"]


@pytest.mark.req("R2", "S4")
def test_the_stream_for_what_comes_unasked_is_authorized_anew(flavour: Any, serve: Any) -> None:
    server = serve({"GET": turns(refuse(), [stream(end=False), hang()])}, era="handshake")
    auth = Scripted("a", "b")
    flavour.connect(server.url, auth=auth, on_notification=handler)
    server.wait_until(lambda: server.count("GET") == 2)
    assert tokens_of(server.calls("GET")) == ["Bearer a", "Bearer b"]
    assert auth.reactions[0][0].method == "GET"


@pytest.mark.req("R2", "S5")
def test_a_stream_that_is_gone_on_with_is_authorized_anew(flavour: Any, serve: Any) -> None:
    def found(turn: Any) -> None:
        call = server.calls()[-1]
        stream(event({"jsonrpc": "2.0", "id": call.message["id"], "result": {"content": []}}, id="z"))(turn)

    server = serve({"GET": turns(refuse(), found)}, era="handshake")
    server.rules["tools/call"] = [stream(event(b"", id="e-1", retry=20), end=False), raw(LAST_CHUNK)]
    client = flavour.connect(server.url, auth=Scripted("a", "b"))
    client.call_tool("echo", {})
    assert tokens_of(server.calls("GET")) == ["Bearer a", "Bearer b"]
    assert server.count("tools/call") == 1


@pytest.mark.req("R2", "O1")
def test_the_old_transport_is_authorized_too(flavour: Any, serve: Any) -> None:
    old = OldServer()
    server = serve(old.rules, era=None, path="/sse")
    stream_of, post = server.rules["GET"], server.rules["*"]
    server.rules["GET"] = turns(refuse(), stream_of)
    server.rules["tools/call"] = turns(refuse(), post)
    auth = Scripted("a", "b", "c")
    client = flavour.connect(server.url, prior=PRIOR, auth=auth)
    assert client.call_tool("echo", {"a": 1}).text == '{"a": 1}'
    assert tokens_of(server.calls("GET")) == ["Bearer a", "Bearer b"]
    assert tokens_of(server.calls()) == ["Bearer b", "Bearer c"]
    assert [(request.method, request.url) for request, _ in auth.reactions] == [
        ("GET", server.url),
        ("POST", f"{server.origin}/messages?session=1"),
    ]


# --- finding out what a server is ----------------------------------------------------------------


@pytest.mark.req("N3")
@ERAS
def test_a_probe_that_was_refused_is_sent_again_after_authorization(flavour: Any, serve: Any, era: str) -> None:
    server = guarded_server(serve, era, {"Bearer t"})
    auth = Scripted("none", "t")
    client = flavour.connect(server.url, auth=auth)
    assert client.era == era
    assert server.methods[:2] == ["server/discover"] * 2
    assert len(auth.reactions) == 1
    assert server.count("initialize") == (1 if era == "handshake" else 0)


@pytest.mark.req("N3")
def test_a_gateway_that_refuses_only_what_it_does_not_know_is_asked_to_initialize(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": refuse()}, era="handshake")
    client = flavour.connect(server.url, auth=BearerAuth("t"))
    assert (client.era, server.methods[:2]) == ("handshake", ["server/discover", "initialize"])


@pytest.mark.req("N3", "R2")
def test_credentials_that_did_not_help_just_now_are_not_renewed_again(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": refuse(), "initialize": refuse()}, era="handshake")
    auth = Scripted("a", "b")
    with pytest.raises(AuthChallengeError):
        flavour.connect(server.url, auth=auth)
    assert server.methods == ["server/discover", "server/discover", "initialize"]
    assert len(auth.reactions) == 1


@pytest.mark.req("N3")
@pytest.mark.parametrize("status_", [400, 404, None])
@pytest.mark.parametrize("options", [{}, {"prior": {"era": "handshake", "revision": "2025-11-25"}}])
def test_authorization_that_fails_on_its_way_is_no_verdict_about_the_server(
    flavour: Any, serve: Any, options: Any, status_: int | None
) -> None:
    class Failing(Scripted):
        def react(self, request: Any, response: Any, deadline: float) -> Any:
            raise AuthTokenError("refused", step="token", url="https://idp.example/token", status=status_)

    server = serve({"*": refuse(), "server/discover": refuse(), "initialize": refuse()}, era="handshake")
    with pytest.raises(AuthTokenError):
        flavour.connect(server.url, auth=Failing("a"), retry=FAST, **options)
    assert len(server.requests) == 1


@pytest.mark.req("N3")
def test_without_a_credential_a_refusal_is_no_verdict(flavour: Any, serve: Any) -> None:
    server = serve({"server/discover": refuse()}, era="handshake")
    with pytest.raises(AuthChallengeError):
        flavour.connect(server.url, retry=FAST)
    assert server.methods == ["server/discover"]


@pytest.mark.req("R2", "W12")
def test_other_refusals_are_what_they_were(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": error(-32600, "no", status=400, id=None)})
    auth = Scripted("a", "b")
    client = flavour.connect(server.url, auth=auth, limits=Limits())
    with pytest.raises(Exception, match="-32600"):
        client.call_tool("echo", {})
    assert auth.reactions == []


@pytest.mark.req("A2", "R4")
def test_a_notification_that_waits_for_a_credential_in_vain_was_not_sent(flavour: Any, serve: Any) -> None:
    class Once(Auth):
        count = 0

        def bind(self, context: Any) -> Any:
            self.io = context.io
            return self

        def headers(self, request: Any) -> Any:
            self.count += 1
            return header("t") if self.count < 3 else None

        async def prepare(self, request: Any, deadline: float) -> None:
            await self.io.wait(self.io.slot(), deadline)

    server = serve(era="handshake", session=None)
    client = flavour.connect(server.url, auth=Once(), protocol="handshake")
    with pytest.raises(RequestTimeout) as caught:
        client.notify("notifications/custom", timeout=0.05)
    assert caught.value.request_sent is False
    assert server.count("notifications/custom") == 0


@pytest.mark.req("R2")
def test_a_scope_that_stays_insufficient_does_not_make_a_credential_futile(flavour: Any, serve: Any) -> None:
    server = serve({"tools/call": turns(refuse(), *[refuse(403, SCOPE)] * 2, refuse(), answer())})
    auth = Scripted("a", "b", "b", "c")
    client = flavour.connect(server.url, auth=auth)
    with pytest.raises(AuthStepUpError):
        client.call_tool("echo", {})
    client.call_tool("echo", {})
    assert tokens_of(server.calls()) == ["Bearer a", "Bearer b", "Bearer b", "Bearer b", "Bearer c"]


@pytest.mark.req("A2")
def test_what_tells_answers_apart_is_known_for_each_view(flavour: Any) -> None:
    def partition(**options: Any) -> bytes | None:
        client = flavour.client("http://127.0.0.1:9/mcp", **options)
        found: bytes | None = client._session.transport.partition()
        return found

    assert partition() == partition(headers={"Cookie": "a=b"}) == b""
    assert partition(auth="t") == partition(auth=BearerAuth("t")) != partition(auth="u")
    assert partition(auth=lambda: "t") is None
    assert partition(auth=Scripted("t")) is None
