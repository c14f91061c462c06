"""`_core` as an extension module: names, signatures, threads, other package names."""

from __future__ import annotations

import pickle
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ferrule import _core, _wire

CLASSES = ["BodyDecoder", "LineDecoder", "RequestTemplate", "ResponseDecoder", "ResponseHead"]


def test_the_door_offers_all_of_the_core() -> None:
    offered = {name for name in dir(_core) if not name.startswith("_")}
    assert offered <= set(_wire.__all__)
    assert all(getattr(_wire, name) is getattr(_core, name) for name in offered)


def test_codes_and_kinds_are_distinct() -> None:
    assert sorted(_wire.CODES) == list(range(1, len(_wire.CODES) + 1))
    assert len(set(_wire.CODES.values())) == len(_wire.CODES)
    kinds = [_wire.HEAD, _wire.BODY, _wire.EVENT, _wire.COMMENT, _wire.DATA, _wire.END, _wire.LINE, _wire.FAULT]
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize("name", CLASSES)
def test_classes_are_final_and_belong_to_the_module(name: str) -> None:
    found = getattr(_core, name)
    assert found.__module__ == "ferrule._core"
    with pytest.raises(TypeError):
        type("Sub", (found,), {})


def test_decoders_are_not_pickled() -> None:
    with pytest.raises(TypeError):
        pickle.dumps(_wire.LineDecoder())


COPY = """
import sys
from app._vendor.ferrule import _core as copied, _wire as door
assert copied.__name__ == "app._vendor.ferrule._core", copied.__name__
assert copied.LineDecoder.__module__ == copied.__name__
assert door.LineDecoder().feed(b"{}\\n") == [(door.LINE, b"{}", 0)]
assert not any(name == "ferrule" or name.startswith("ferrule.") for name in sys.modules)
sys.path.insert(0, sys.argv[1])
from other import _core as second
assert second.__name__ == "other._core"
assert second.LineDecoder().feed(b"{}\\n") == copied.LineDecoder().feed(b"{}\\n")
error = door.fault_error(1, 0, 0)
assert type(error).__module__ == "app._vendor.ferrule.errors", type(error).__module__
"""


@pytest.mark.req("V1")
def test_the_core_works_under_any_name_and_twice(tmp_path: Path) -> None:
    core = Path(_core.__file__)
    for place in (tmp_path / "app/_vendor/ferrule", tmp_path / "elsewhere/other"):
        place.mkdir(parents=True)
        for file in [*core.parent.glob("*.py"), core]:
            (place / file.name).write_bytes(file.read_bytes())
        (place / "__init__.py").write_text("")
    subprocess.run([sys.executable, "-W", "error", "-c", COPY, str(tmp_path / "elsewhere")], cwd=tmp_path, check=True)


@pytest.mark.req("V3", "V5")
def test_threads_share_one_template_and_have_decoders_of_their_own() -> None:
    template = _wire.RequestTemplate("POST", "/", [("Host", "x")])
    failures: list[object] = []

    def work(number: int) -> None:
        decoder = _wire.LineDecoder(buffer_size=512)
        view = decoder.get_buffer()
        for at in range(2000):
            line = b'{"thread":%d,"at":%d}' % (number, at)
            view[: len(line) + 1] = line + b"\n"
            if decoder.buffer_updated(len(line) + 1) != [(_wire.LINE, line, 0)]:
                failures.append((number, at))
            if not template.body(line).endswith(line):
                failures.append((number, at))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failures == []


def test_a_finalizer_may_use_another_decoder_while_frames_are_made() -> None:
    class Meddler:
        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            other.feed(b"{}\n")
            decoder.feed(b"")

    other, decoder = _wire.LineDecoder(), _wire.LineDecoder()
    for _ in range(50):
        for _ in range(20):
            Meddler()
        assert len(decoder.feed(b"{}\n" * 2000)) == 2000
