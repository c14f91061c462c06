"""The mutex keeps threads apart, and costs nothing where there is one thread."""

from __future__ import annotations

import threading

import pytest

from ferrule._io.blocking import BlockingIO


@pytest.mark.req("V5")
def test_while_one_thread_is_inside_no_other_enters() -> None:
    io = BlockingIO()
    entered, leave = threading.Event(), threading.Event()
    order: list[str] = []

    def first() -> None:
        with io.mutex():
            entered.set()
            leave.wait(10)
            order.append("first leaves")

    def second() -> None:
        with io.mutex():
            order.append("second enters")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert entered.wait(10)
    threads[1].start()
    threads[1].join(0.05)  # it would be inside by now
    leave.set()
    for thread in threads:
        thread.join(10)
    assert order == ["first leaves", "second enters"]
