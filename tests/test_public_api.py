"""The names people import, and that both clients have the same ones."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path

import pytest

import ferrule
from ferrule import AsyncClient, Client, errors

ROOT = Path(__file__).parent.parent

ONLY_SYNC = {"close"}
ONLY_ASYNC = {"aclose"}


def members(client: type) -> dict[str, object]:
    """The public methods and properties of a client class."""
    return {name: value for name, value in inspect.getmembers(client) if not name.startswith("_")}


def test_every_public_name_is_there() -> None:
    for name in ferrule.__all__:
        assert getattr(ferrule, name) is not None, name
    assert set(ferrule.__all__) <= set(dir(ferrule))


def test_all_is_sorted_and_has_no_name_twice() -> None:
    assert sorted(set(ferrule.__all__)) == sorted(ferrule.__all__)


def test_star_import_gives_exactly_the_public_names() -> None:
    space: dict[str, object] = {}
    exec("from ferrule import *", space)
    assert set(space) - {"__builtins__"} == set(ferrule.__all__)


def test_a_name_that_does_not_exist_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        ferrule.no_such_name  # noqa: B018


def test_every_error_stands_in_the_tree_of_the_docstring() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.FerruleError):
            assert name in (errors.__doc__ or ""), name


def test_both_clients_have_the_same_methods_and_properties() -> None:
    sync, both = set(members(Client)), set(members(AsyncClient))
    assert sync - both == ONLY_SYNC
    assert both - sync == ONLY_ASYNC


def test_both_clients_take_the_same_arguments() -> None:
    theirs = members(AsyncClient)
    for name, value in members(Client).items():
        if inspect.isfunction(value) and name not in ONLY_SYNC:
            other = theirs[name]
            assert inspect.isfunction(other), name
            ours = inspect.signature(value).parameters
            assert str(list(ours.values())) == str(list(inspect.signature(other).parameters.values()))
    assert str(inspect.signature(Client)) == str(inspect.signature(AsyncClient))


def test_everything_public_is_documented() -> None:
    for client in (Client, AsyncClient):
        for name, value in members(client).items():
            assert inspect.getdoc(value), f"{client.__name__}.{name}"
    for name in ferrule.__all__:
        value = getattr(ferrule, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            assert value.__doc__, name


def test_the_version_is_the_one_of_the_crates() -> None:
    cargo = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))
    assert ferrule.__version__ == cargo["workspace"]["package"]["version"]


def test_orjson_is_the_only_runtime_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [name.partition(">")[0] for name in project["dependencies"]] == ["orjson"]
