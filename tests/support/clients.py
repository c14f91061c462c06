"""Both clients behind one plain, blocking face, so that a test about either is written once.

`Client` is used as it is. `AsyncClient` lives on an event loop that runs in a thread of its own; a
`Portal` hands every call to that loop and waits for it. So a test is ordinary code in both
flavours, tasks go on between its calls as they do in a program, and concurrency is
`flavour.together(...)` for both.

What is about asyncio itself (cancellation, tasks, two loops) is written with `run_async` instead.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from ferrule import Client

PATIENCE = 30.0
"""Seconds after which a call that should have ended fails the test."""

_NAMES = {"close": "aclose"}
_TO_AWAIT = ("__aenter__", "__aiter__", "__anext__", "poll")
"""Who has one of these is used through a portal as well."""


class Portal:
    """An `AsyncClient` that is called like a `Client`."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._target = target
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._target)

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, _NAMES.get(name, name))
        if not callable(value):
            return value
        return lambda *args, **kwargs: self._call(value, *args, **kwargs)

    def __enter__(self) -> Any:
        value = self._call(self._target.__aenter__)
        return self if value is self._target else value

    def __exit__(self, *reason: Any) -> None:
        self._call(self._target.__aexit__, *reason)

    def __iter__(self) -> Iterator[Any]:
        items = self._target.__aiter__()
        while True:
            try:
                yield self._call(items.__anext__)
            except StopAsyncIteration:
                return

    def _call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        async def body() -> Any:
            value = function(*args, **kwargs)
            return await value if inspect.isawaitable(value) else value

        value = _settle(asyncio.run_coroutine_threadsafe(body(), self._loop))
        return Portal(value, self._loop) if any(hasattr(value, name) for name in _TO_AWAIT) else value


class Running:
    """A call that was started and not waited for."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._future: Future[Any] = Future()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()

    def _run(self, call: Callable[[], Any]) -> None:
        try:
            self._future.set_result(call())
        except BaseException as error:
            self._future.set_exception(error)

    @property
    def done(self) -> bool:
        return self._future.done()

    def result(self, timeout: float = PATIENCE) -> Any:
        """What the call returned or raised; fails when it has not ended within `timeout`."""
        return _settle(self._future, timeout)

    def outcome(self, timeout: float = PATIENCE) -> Any:
        """What the call returned, or the exception it raised as a value."""
        try:
            return self.result(timeout)
        except Exception as error:
            return error


class Flavour:
    """One of the two clients, as the fixture `flavour` hands it to a test."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_async = name == "async"
        self._open: list[Any] = []
        self._loop = LoopThread() if self.is_async else None

    def __repr__(self) -> str:
        return f"Flavour({self.name!r})"

    def client(self, target: Any, **options: Any) -> Client:
        """A client that is not connected yet; the fixture closes it when the test has not."""
        import ferrule

        if self._loop is None:
            client: Any = ferrule.Client(target, **options)
        else:
            loop = self._loop
            client = Portal(loop.call(lambda: ferrule.AsyncClient(target, **options)), loop.loop)
        self._open.append(client)
        return cast("Client", client)

    def connect(self, target: Any, **options: Any) -> Client:
        """A connected client."""
        client = self.client(target, **options)
        client.connect()
        return client

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Running:
        """Begin `call(*args, **kwargs)` and go on; see `Running`."""
        return Running(lambda: call(*args, **kwargs))

    def together(self, *calls: Callable[[], Any]) -> list[Any]:
        """Make the calls at once; their outcomes in order, an exception as a value."""
        barrier = threading.Barrier(len(calls))

        def at_once(call: Callable[[], Any]) -> Any:
            barrier.wait(PATIENCE)
            return call()

        running = [self.start(at_once, call) for call in calls]
        return [each.outcome() for each in running]

    def finish(self) -> None:
        """Close what is open; nothing may be left on the event loop."""
        try:
            for client in reversed(self._open):
                client.close()
        finally:
            self._open.clear()
            # An unclosed socket warns now, in the test that left it.
            if self._loop is None:
                gc.collect()
            else:
                self._loop.stop()


class LoopThread:
    """An event loop in a thread; `stop` fails on tasks left behind and on errors nobody took."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._complaints: list[str] = []
        self.loop.set_exception_handler(self._complain)
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def _complain(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    def call(self, function: Callable[[], Any]) -> Any:
        async def body() -> Any:
            return function()

        return _settle(asyncio.run_coroutine_threadsafe(body(), self.loop))

    def stop(self) -> None:
        left = _settle(asyncio.run_coroutine_threadsafe(_finish_tasks(), self.loop))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE)
        gc.collect()  # a future whose exception nobody took complains now
        self.loop.close()
        assert not left, f"tasks left on the loop: {left}"
        assert not self._complaints, f"errors nobody took: {self._complaints}"


def run_async(body: Coroutine[Any, Any, Any], *, patience: float = 2.0) -> Any:
    """Run `body` on a loop of its own; tasks left behind and errors nobody took fail the test."""
    complaints: list[str] = []

    async def main() -> tuple[Any, list[str]]:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: complaints.append(f"{context.get('message')}: {context.get('exception')!r}")
        )
        value = await body
        return value, await _finish_tasks(patience)

    value, left = asyncio.run(main())
    gc.collect()
    assert not left, f"tasks left on the loop: {left}"
    assert not complaints, f"errors nobody took: {complaints}"
    return value


async def _finish_tasks(patience: float = 2.0) -> list[str]:
    """Let clean-up that is under way come to its end; name and cancel the tasks that do not."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if not others:
        return []
    _, left = await asyncio.wait(others, timeout=patience)
    names = [repr(task) for task in left]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    return names


def _settle(future: Future[Any], timeout: float = PATIENCE) -> Any:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    if not done.wait(timeout):
        raise AssertionError(f"the call has not ended within {timeout:g} s")
    return future.result()
