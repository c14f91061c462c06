"""Fixtures every test may use; `tests/support/` holds what they are made of."""

from __future__ import annotations

import gc
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.child import ScriptedChild
from tests.support.clients import Flavour
from tests.support.scripted import ScriptedServer

pytest_plugins = ["tests.servers.fixtures"]


def pytest_collection_finish() -> None:
    """What was collected stays to the end: who looks for leaks after each test need not go through all of it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(params=["sync", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    """Each client in turn; what the test opened with it is closed afterwards."""
    flavour = Flavour(request.param)
    yield flavour
    flavour.finish()


@pytest.fixture
def serve() -> Iterator[Callable[..., ScriptedServer]]:
    """`serve(rules, era=...)` starts a `ScriptedServer` that ends with the test."""
    with ExitStack() as stack:
        yield lambda *args, **kwargs: stack.enter_context(ScriptedServer(*args, **kwargs))


@pytest.fixture
def child(tmp_path: Path) -> Callable[..., ScriptedChild]:
    """`child(rules, era=...)` makes a `ScriptedChild`; its `stdio()` is a client's target."""
    count = iter(range(1000))

    def make(*args: Any, **kwargs: Any) -> ScriptedChild:
        folder = tmp_path / f"child-{next(count)}"
        folder.mkdir()
        return ScriptedChild(folder, *args, **kwargs)

    return make


@dataclass(frozen=True)
class Certificates:
    """A certificate authority made for the run, and a server certificate for 127.0.0.1 and
    localhost.
    """

    ca_path: str
    server: ssl.SSLContext
    untrusted: ssl.SSLContext
    """A server context signed by nobody the client knows."""

    def client(self) -> ssl.SSLContext:
        """A client context that trusts the authority."""
        return ssl.create_default_context(cafile=self.ca_path)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """TLS for `serve(tls=certificates.server)`."""
    import trustme

    def context(authority: trustme.CA) -> ssl.SSLContext:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1", "localhost").configure_cert(server)
        return server

    authority = trustme.CA()
    path = tmp_path_factory.mktemp("tls") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return Certificates(str(path), context(authority), context(trustme.CA()))


# --- selection by behaviour ----------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--req",
        action="append",
        default=[],
        metavar="ID",
        help="run only the tests marked with this behaviour id (may be given more than once)",
    )


def marked_ids(item: pytest.Item) -> set[str]:
    """The behaviour ids that a test carries."""
    return {str(name) for mark in item.iter_markers("req") for name in mark.args}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = set(config.getoption("--req"))
    if not wanted:
        return
    kept = [item for item in items if wanted & marked_ids(item)]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    items[:] = kept


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Long and binary values are numbered: as names they are no sentences, and may differ between workers."""
    if isinstance(val, str | bytes) and (len(val) > 60 or not val.isascii()):
        return argname
    return None
