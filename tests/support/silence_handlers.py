"""The user's functions for `silence`: each shows what it is handed and answers differently from call to call.

What was called, and with which answer, is remembered, so that a test can ask for all of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ferrule import CreateMessageResult, ElicitResult, Root, SamplingRejected
from ferrule.types import ToolUseContent
from tests.support.secrets import secret


def raises(*_: Any) -> Any:
    raise ValueError(secret("handler"))


def rejects(*_: Any) -> Any:
    raise SamplingRejected(secret("rejection"))


def unfit(*_: Any) -> Any:
    return {"action": secret("action"), "model": {secret("model"): 1}, "content": secret("unfit")}


def no_mapping(*_: Any) -> Any:
    return secret("no-mapping")


def accepts(request: Any, _: Any) -> Any:
    if request.mode == "url":
        return ElicitResult.accept()
    assert request.problems({secret("entered"): []})
    return ElicitResult.accept(request.fill_defaults({secret("field"): secret("entered")}))


def accepts_what_does_not_fit(*_: Any) -> Any:
    return ElicitResult.accept({"n": secret("entered"), secret("entered-name"): {}})


def says(*_: Any) -> Any:
    return CreateMessageResult.of_text(secret("completion"), model=secret("model"))


def uses_a_tool(*_: Any) -> Any:
    block = ToolUseContent(secret("own-tool-use"), secret("own-tool"), {"text": secret("own-input")})
    return CreateMessageResult(secret("model"), block, "assistant", "toolUse")


ELICITATION = (accepts, raises, lambda *_: ElicitResult.decline(), unfit, accepts_what_does_not_fit, no_mapping)
SAMPLING = (says, raises, uses_a_tool, rejects, unfit, no_mapping)
ROOTS = (
    lambda: [Root("file:///" + secret("root"), secret("root-name")), "file:///" + secret("root")],
    raises,
    lambda: [secret("no-root")],
    lambda: secret("no-roots"),
)
LISTENING: tuple[Callable[..., Any], ...] = (lambda *_: None, raises)


class Handlers:
    """The functions for one client after another.

    Args:
        show: Prints what a function was handed.
        is_async: Are some of them coroutine functions?

    Attributes:
        called: What was called: "on_sampling with tools", and with the answer, "on_sampling: raises".
    """

    def __init__(self, show: Callable[[str, Any], None], is_async: bool) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self.called: set[str] = set()

        async def on_elicitation(request: Any, context: Any) -> Any:
            return self.on_elicitation(request, context)

        async def on_log(message: Any, context: Any) -> Any:
            return self.on_log(message, context)

        self.options: dict[str, Any] = {
            "on_elicitation": on_elicitation if is_async else self.on_elicitation,
            "on_sampling": self.on_sampling,
            "roots": self.roots,
            "on_log": on_log if is_async else self.on_log,
            "on_notification": self.on_notification,
        }

    def on_elicitation(self, request: Any, context: Any) -> Any:
        return self._answer("on_elicitation", f" {request.mode}", ELICITATION, request, context)

    def on_sampling(self, request: Any, context: Any) -> Any:
        return self._answer("on_sampling", " with tools" if request.tools else "", SAMPLING, request, context)

    def roots(self) -> Any:
        return self._answer("roots", "", ROOTS)

    def on_log(self, message: Any, context: Any) -> Any:
        assert message.text
        return self._answer("on_log", "", LISTENING, message, context)

    def on_notification(self, notification: Any, context: Any) -> Any:
        return self._answer("on_notification", "", LISTENING, notification, context)

    def on_progress(self, progress: float, total: float | None, message: str | None) -> Any:
        return self._answer("on_progress", "" if message is None else " with a message", LISTENING)

    def _answer(self, name: str, kind: str, answers: tuple[Callable[..., Any], ...], *handed: Any) -> Any:
        for one in handed:
            self._show(name, one)
        with self._lock:
            count = self._counts[name + kind] = self._counts.get(name + kind, 0) + 1
            self.called.add(name + kind)
            self.called.add(f"{name}{kind}: {(count - 1) % len(answers)}")
        answer = answers[(count - 1) % len(answers)](*handed)
        self._show(name, answer)
        return answer


ASKED = {
    f"{name}: {number}"
    for name, answers in (
        ("on_elicitation form", ELICITATION),
        ("on_elicitation url", ELICITATION),
        ("on_sampling", SAMPLING),
        ("on_sampling with tools", SAMPLING),
        ("roots", ROOTS),
    )
    for number in range(len(answers))
}
TOLD = {f"{name}: {number}" for name in ("on_log", "on_notification") for number in range(len(LISTENING))}
WATCHED = {f"on_progress with a message: {number}" for number in range(len(LISTENING))}
