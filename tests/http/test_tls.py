"""Trust comes from the system unless the user says otherwise, and never silently from nowhere."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import trustme

from ferrule._http import tls
from ferrule._http.tls import context_from, default_context
from ferrule.errors import ConfigError


@pytest.mark.req("W23")
def test_the_default_context_checks_certificate_and_host_name() -> None:
    context = default_context()

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context_from(None) is context


@pytest.mark.req("W23")
def test_threads_that_ask_at_once_get_one_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "_default", None)
    barrier = threading.Barrier(8)
    contexts: list[ssl.SSLContext] = []

    def ask() -> None:
        barrier.wait()
        contexts.append(default_context())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(contexts) == 8
    assert len(set(map(id, contexts))) == 1


@pytest.mark.req("W23")
def test_a_lock_left_behind_by_a_fork_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Orphaned:
        """What the child of a fork has when another thread was making the context."""

        def acquire(self, timeout: float) -> bool:
            assert timeout <= 5
            return False

        def release(self) -> None:
            raise AssertionError("it is not ours")

    monkeypatch.setattr(tls, "_default", None)
    monkeypatch.setattr(tls, "_lock", Orphaned())

    assert default_context().check_hostname


@pytest.mark.req("W23")
def test_a_ca_file_is_trusted_instead_of_the_system(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(path))

    for given in (path, str(path)):
        context = context_from(given)
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.check_hostname
        assert len(context.get_ca_certs()) == 1


@pytest.mark.req("W23")
def test_a_directory_of_certificates_is_taken_too(tmp_path: Path) -> None:
    context = context_from(tmp_path)

    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.get_ca_certs() == []


@pytest.mark.req("W23")
def test_a_context_is_used_as_it_is() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    assert context_from(context) is context


@pytest.mark.req("W23")
@pytest.mark.parametrize("value", [False, True, 0, b"/ca.pem", object()])
def test_false_and_other_things_are_refused(value: object) -> None:
    for check in (context_from, tls.check_tls):
        with pytest.raises(ConfigError, match=r"^tls: expected"):
            check(value)  # type: ignore[arg-type]


@pytest.mark.req("W23")
def test_a_ca_path_that_cannot_be_loaded_is_a_config_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate")

    with pytest.raises(ConfigError, match=r"missing\.pem"):
        context_from(tmp_path / "missing.pem")
    with pytest.raises(ConfigError, match=r"empty\.pem"):
        context_from(empty)


def test_nothing_of_ssl_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, ferrule._http.tls as tls\n"
        "tls.check_tls(None); tls.check_tls('ca.pem')\n"
        "assert 'ssl' not in sys.modules\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
