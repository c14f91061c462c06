"""The architecture, read from the source: layers, cycles, what a layer touches, mutex bodies."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "python" / "ferrule"

# The longest matching prefix counts; a new module that matches none fails a test.
LAYERS = {
    "": 7,  # the package itself: names only, loaded when asked for
    "__main__": 7,
    "cli": 7,
    "testing": 7,
    "demo": 7,
    "demo_server": 7,
    "_demo": 7,
    "client": 6,
    "async_client": 6,
    "_client": 6,
    "_lists": 6,
    "_handles": 6,
    "_async_handles": 6,
    "_target": 6,
    "skills": 6,
    "redis_cache": 6,
    "group": 6,
    "config": 6,
    "_io": 5,
    "_session": 4,
    "_transports": 3,
    "server": 3,
    "auth": 3,
    "_http": 2,
    "_protocol": 1,
    "_wire": 1,
    "_core": 1,
    "_io.__init__": 0,  # names that everybody shares
    "_io.interface": 0,  # types alone
    "errors": 0,
    "types": 0,
    "limits": 0,
    "_json": 0,
    "_log": 0,
    "_text": 0,
    "_value": 0,
}
UPWARD_ALLOWED = {
    ("_json", "_wire"),  # the slow-path flags of messages
    ("types.tools", "_wire"),  # values filled in one call (benches/calls.py)
    ("types._kept_tools", "_wire"),
}

TYPES_ALONE = ("_io.interface", "_transports.interface")

WORLD = {
    *(
        "asyncio",
        "threading",
        "_thread",
        "socket",
        "ssl",
        "select",
        "selectors",
        "subprocess",
        "signal",
    ),
    *("time", "sched", "queue", "multiprocessing", "concurrent", "socketserver", "http"),
}
WORLD_ALLOWED = {
    ("_http.tls", "ssl"),  # makes the context, when the first https connection needs it
    ("_http.tls", "_thread"),  # the lock around that
}
THIRD_PARTY = {"orjson"}
EXTRAS = {
    "auth.keys": {"cryptography"},
    "_protocol.frontmatter": {"yaml"},
    "_session.output_schemas": {"jsonschema_rs"},
}
"""What comes with an extra, and the one module that may ask for it."""
LONGEST_FILE = 500


@dataclass(frozen=True)
class Module:
    """One file of the package."""

    name: str
    """Dotted, without the package's own name; a package is `name.__init__`."""
    tree: ast.Module

    @property
    def package(self) -> list[str]:
        """The parts of the package that its relative imports start from."""
        return self.name.split(".")[:-1]

    @property
    def types_only(self) -> bool:
        """Is it there for type checkers alone?"""
        return self.name in TYPES_ALONE

    def nodes(self) -> Iterator[ast.AST]:
        """Everything that runs: all nodes outside `if TYPE_CHECKING:`."""
        waiting: list[ast.AST] = [self.tree]
        while waiting:
            node = waiting.pop()
            yield node
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                waiting.extend(node.orelse)
            else:
                waiting.extend(ast.iter_child_nodes(node))


@cache
def modules() -> dict[str, Module]:
    """Every module of the package by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        found[name] = Module(name, ast.parse(path.read_text(encoding="utf-8"), str(path)))
    return found


def module_at(parts: list[str]) -> str | None:
    """The name of the module at a dotted path, if there is one."""
    name = ".".join(parts)
    package = ".".join([*parts, "__init__"])
    return package if package in modules() else name if name in modules() else None


def relative_imports(module: Module) -> Iterator[str]:
    """The package's own modules that a module imports, at its top or in a function."""
    for node in module.nodes():
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = module.package[: len(module.package) - (node.level - 1)]
        base += node.module.split(".") if node.module else []
        for alias in node.names:
            target = module_at([*base, alias.name]) or module_at(base)
            yield target if target is not None else ".".join([*base, alias.name])


def absolute_imports(module: Module) -> Iterator[str]:
    """The dotted names that a module imports from outside its package."""
    for node in module.nodes():
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""


def layer(name: str) -> int | None:
    """The layer of a module; None when the table does not know it."""
    parts = name.split(".")
    while parts:
        known = LAYERS.get(".".join(parts))
        if known is not None:
            return known
        parts.pop()
    return LAYERS[""] if name == "__init__" else None


every_module = pytest.mark.parametrize("module", modules().values(), ids=lambda m: m.name)


@every_module
def test_every_module_has_a_layer(module: Module) -> None:
    assert layer(module.name) is not None, f"{module.name}: say in LAYERS where it belongs"


@every_module
def test_imports_point_down(module: Module) -> None:
    own = layer(module.name) or 0
    upward = [
        target
        for target in relative_imports(module)
        if (layer(target) or 0) > own and (module.name, target) not in UPWARD_ALLOWED
    ]
    assert not upward, f"{module.name} (layer {own}) imports from above: {upward}"


def test_there_is_no_import_cycle() -> None:
    graph = {name: sorted(set(relative_imports(module))) for name, module in modules().items()}
    assert find_cycle(graph) is None


@every_module
def test_the_package_never_imports_itself_by_name(module: Module) -> None:
    assert not [name for name in absolute_imports(module) if name.split(".")[0] == "ferrule"]


@every_module
def test_only_the_standard_library_orjson_and_what_an_extra_brings_are_imported(module: Module) -> None:
    tops = {name.split(".")[0] for name in absolute_imports(module)}
    assert tops - sys.stdlib_module_names <= THIRD_PARTY | EXTRAS.get(module.name, set())


def below_io() -> list[Module]:
    return [module for module in modules().values() if (layer(module.name) or 0) <= 4 and not module.types_only]


pure_module = pytest.mark.parametrize("module", below_io(), ids=lambda m: m.name)


@pure_module
def test_layers_below_io_do_not_touch_the_world(module: Module) -> None:
    tops = {name.split(".")[0] for name in absolute_imports(module)}
    touched = {top for top in tops & WORLD if (module.name, top) not in WORLD_ALLOWED}
    assert not touched, f"{module.name} imports {sorted(touched)}: that is a method of IO"


@every_module
def test_the_core_is_reached_through_one_module(module: Module) -> None:
    direct = [target for target in relative_imports(module) if target.partition(".")[0] == "_core"]
    assert not direct or module.name == "_wire" or module.types_only, (
        "import it from _wire, so that a stand-in can take its place"
    )


@every_module
def test_modules_of_types_alone_are_never_loaded(module: Module) -> None:
    assert not [name for name in relative_imports(module) if name in TYPES_ALONE]


@pure_module
def test_layers_below_io_read_no_clock(module: Module) -> None:
    reads = [
        ast.unparse(node)
        for node in module.nodes()
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("utcnow", "today")
    ]
    assert not reads


@pure_module
def test_layers_below_io_hold_no_async_generator(module: Module) -> None:
    assert not list(async_generators(module.tree))


@every_module
def test_nothing_waits_under_the_mutex(module: Module) -> None:
    assert not list(waits_under_mutex(module.tree)), f"{module.name}: await or yield under a mutex"


# The demo is a server of its own: it knows nothing of the client it ships with.
MAY_COMPARE_REVISIONS = {
    "_protocol.versions",
    "_protocol.handshake",
    "_protocol.stateless",
    "_demo.answers",
    "_demo.http",
}


@every_module
def test_revisions_are_compared_in_the_modules_of_versions_and_eras_alone(module: Module) -> None:
    if module.name not in MAY_COMPARE_REVISIONS:
        assert not list(revision_tests(module.tree)), f"{module.name}: ask the era instead"


def long_files() -> Iterator[tuple[str, int]]:
    for folder, pattern in (
        ("python", "*.py"),
        ("tests", "*.py"),
        ("benches", "*.py"),
        ("rust", "*.rs"),
    ):
        for path in (ROOT / folder).rglob(pattern):
            if not {"node_modules", "target"} & set(path.parts):
                yield str(path.relative_to(ROOT)), path.read_bytes().count(b"\n")


def test_no_file_holds_two_ideas() -> None:
    assert {name: lines for name, lines in long_files() if lines > LONGEST_FILE} == {}


# --- the readers, and proof that they see what they look for -----------------------------------


def find_cycle(graph: dict[str, list[str]]) -> list[str] | None:
    """One cycle of a graph, or None."""
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return None
        for target in graph.get(name, []):
            if found := visit(target, [*path, name]):
                return found
        done.add(name)
        return None

    return next((found for name in graph if (found := visit(name, []))), None)


def async_generators(tree: ast.AST) -> Iterator[str]:
    """Async generator functions and expressions, and the decorator that needs one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AsyncFunctionDef):
            if any(isinstance(inner, ast.Yield) for inner in own_nodes(node)):
                yield node.name
        elif isinstance(node, ast.GeneratorExp):
            if any(comprehension.is_async for comprehension in node.generators):
                yield ast.unparse(node)
        elif isinstance(node, ast.Name | ast.Attribute | ast.alias) and (
            ast.unparse(node).endswith("asynccontextmanager")
        ):
            yield ast.unparse(node)


def waits_under_mutex(tree: ast.AST) -> Iterator[str]:
    """What suspends inside the body of a `with` on a mutex."""
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and any(is_mutex(item.context_expr) for item in node.items):
            for statement in node.body:
                for inner in [statement, *own_nodes(statement)]:
                    kinds = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)
                    if isinstance(inner, kinds):
                        yield ast.unparse(inner)


def revision_tests(tree: ast.AST) -> Iterator[str]:
    """Where a revision is written down, or what holds one is compared with anything but None."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            if REVISION.fullmatch(node.value):
                yield node.value
        elif isinstance(node, ast.Compare) and any(is_revision(part) for part in (node.left, *node.comparators)):
            others = [part for part in (node.left, *node.comparators) if not is_revision(part)]
            if not all(isinstance(part, ast.Constant) and part.value is None for part in others) or not others:
                yield ast.unparse(node)


REVISION = re.compile(r"20\d\d-\d\d-\d\d")
HOLDS_REVISIONS = {"revision", "STATELESS", "HANDSHAKE", "KNOWN"}


def is_revision(expression: ast.expr) -> bool:
    """Does it look at a revision, or at a list of ours?"""
    names = {node.attr for node in ast.walk(expression) if isinstance(node, ast.Attribute)}
    names |= {node.id for node in ast.walk(expression) if isinstance(node, ast.Name)}
    return bool(names & HOLDS_REVISIONS) and not isinstance(expression, ast.Call)


def is_mutex(expression: ast.expr) -> bool:
    """Is this `io.mutex()`, or a name or attribute that says it holds one?"""
    return ast.unparse(expression).removesuffix("()").endswith("mutex")


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes inside a function or statement, without those of functions nested in it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from own_nodes(child)


def test_a_cycle_is_seen() -> None:
    assert find_cycle({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c", "b"]
    assert find_cycle({"a": ["b", "c"], "b": ["c"]}) is None


@pytest.mark.parametrize(
    "source",
    [
        "async def f():\n  yield 1",
        "x = (a async for a in b)",
        "from contextlib import asynccontextmanager",
        "@contextlib.asynccontextmanager\ndef f(): ...",
    ],
)
def test_an_async_generator_is_seen(source: str) -> None:
    assert list(async_generators(ast.parse(source)))


def test_a_generator_inside_a_coroutine_is_fine() -> None:
    source = "async def f():\n  def g():\n    yield 1\n  return [x async for x in y]"
    assert not list(async_generators(ast.parse(source)))


@pytest.mark.parametrize("what", ["await x", "yield", "for a in b:\n      await a"])
@pytest.mark.parametrize("mutex", ["io.mutex()", "self._io.mutex()", "self._mutex", "mutex"])
def test_waiting_under_a_mutex_is_seen(what: str, mutex: str) -> None:
    assert list(waits_under_mutex(ast.parse(f"async def f():\n  with {mutex}:\n    {what}")))


@pytest.mark.parametrize(
    "source",
    [
        "if link.era.revision == newest: pass",
        "x = revision in versions.HANDSHAKE",
        "x = protocol in versions.STATELESS",
        "x = theirs < revision",
        "x = revision != own.revision",
        "x = {'2025-03-26': 1}",
        "x = versions.HANDSHAKE[-1] in offered",
    ],
)
def test_comparing_a_revision_is_seen(source: str) -> None:
    assert list(revision_tests(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ['"""Revision.\n\n2025-03-26."""', "x = revision is None", "x = era.handshake", "'2025-03-26'", "f(era.revision)"],
)
def test_telling_a_revision_is_no_comparison(source: str) -> None:
    assert not list(revision_tests(ast.parse(source)))


def test_what_is_imported_for_types_alone_does_not_count() -> None:
    tree = ast.parse("if TYPE_CHECKING:\n  import ssl\nelse:\n  import json\ndef f():\n  import re")
    assert sorted(absolute_imports(Module("x", tree))) == ["json", "re"]
