"""The store in memory: what it keeps, for how long, and what makes room."""

from __future__ import annotations

import os
import threading

import pytest

from ferrule import MemoryCache


def test_what_was_put_is_there_until_it_is_deleted_or_its_time_is_over() -> None:
    cache = MemoryCache()
    cache.put(b"a1", b"one", 60.0)
    cache.put(b"a2", b"two", 60.0)
    cache.put(b"m3", b"mark", 0.0)
    assert cache.get([b"a2", b"a9", b"a1", b"m3"]) == [b"two", None, b"one", None]
    cache.put(b"a1", b"ONE", 60.0)
    cache.delete([b"a2", b"a9"])
    assert cache.get([b"a1", b"a2"]) == [b"ONE", None]
    assert cache.answers == 1
    cache.clear()
    assert cache.get([b"a1"]) == [None]
    assert (cache.answers, cache.size) == (0, 0)


@pytest.mark.req("C5")
def test_the_least_used_makes_room() -> None:
    cache = MemoryCache(max_entries=3)
    for key in (b"a1", b"a2", b"a3"):
        cache.put(key, b"x", 60.0)
    cache.get([b"a1"])
    cache.put(b"a4", b"x", 60.0)
    assert cache.get([b"a1", b"a2", b"a3", b"a4"]) == [b"x", None, b"x", b"x"]


@pytest.mark.req("C5")
def test_bytes_are_bounded_and_what_is_too_big_is_not_kept() -> None:
    cache = MemoryCache(max_bytes=3000)
    for number in range(100):
        cache.put(b"a%d" % number, b"x" * 400, 60.0)
        assert cache.size <= 3000
    assert cache.answers == 4
    cache.put(b"a99", b"x" * 4000, 60.0)
    assert cache.get([b"a99"]) == [None]
    assert cache.answers == 3
    for number in range(100):
        cache.delete([b"a%d" % number])
    assert cache.size == 0


def test_secrets_are_random_and_nothing_shows() -> None:
    cache = MemoryCache()
    cache.put(b"a1", b"hunter2", 60.0)
    assert len(cache.secret) == 32
    assert cache.secret != MemoryCache().secret
    assert repr(cache) == f"<MemoryCache of 1 answers, {cache.size} bytes>"


def test_threads_may_share_one() -> None:
    cache = MemoryCache(max_entries=50)

    def work(start: int) -> None:
        for number in range(start, start + 2000):
            cache.put(b"a%d" % (number % 97), b"x" * (number % 13), 60.0)
            cache.get([b"a%d" % (number % 89)])
            cache.delete([b"a%d" % (number % 83)])

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.answers <= 50
    cache.delete([b"a%d" % number for number in range(97)])
    assert (cache.answers, cache.size) == (0, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_begins_with_an_empty_one_whoever_held_the_lock() -> None:
    cache = MemoryCache()
    cache.put(b"a1", b"x", 60.0)
    with cache._lock:
        pid = os.fork()
        if pid == 0:
            os._exit(0 if cache.get([b"a1"]) == [None] and cache.size == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert cache.get([b"a1"]) == [b"x"]
