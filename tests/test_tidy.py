"""What keeps the code readable, as limits: module and function length, documented names, no dead files.

A limit is passed only with a reason, written down here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import random
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from statistics import median
from types import ModuleType

import pytest
from hypothesis import settings
from lanes import left_to_commits

ROOT = Path(__file__).parent.parent
PACKAGES = ("reliable_rx", "checkpoint", "hosting", "spark_bridge")
MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 50
MEDIAN_FUNCTION_LINES_MAX = 10
LINE_LENGTH_MAX = 120
DOCSTRING_FIRST = re.compile(r'(#.*\n|\s)*r?"""\s*[^\s"]')

LONGER_MODULES = {
    "hosting/engine/engine.py": (
        500,
        "one state machine: turns, time, routing and the instances' world share every field",
    ),
    "hosting/evaluator/evaluator.py": (500, "the façade: most of it is documented public methods"),
}
LONGER_FUNCTIONS: dict[str, tuple[int, str]] = {}
PUBLIC = (
    "reliable_rx", "reliable_rx.operators", "reliable_rx.creation", "reliable_rx.testing", "checkpoint", "hosting",
    "hosting.sources", "hosting.sinks", "spark_bridge",
)  # fmt: skip
# Classes whose every public method is documented too: what application code calls.
CALLED_BY_APPLICATIONS = ("QueryEvaluator", "Stream", "PushedStream", "Query")
NOT_IMPORTED = {
    "hosting/cli/__main__.py": "run by python -m",
    "hosting/__main__.py": "run by python -m",
    "spark_bridge/demo/job.py": "found by its entry point in pyproject.toml",
    "tests/spark/armed/sitecustomize.py": "imported by Python itself, when a process starts",
    "tests/spark/leave_classes.py": "run by the Makefile",
}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


LIBRARY = sources(*PACKAGES)


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in LIBRARY}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of code from ``def`` on, the docstring not counted."""
    body = function.body
    lines = (function.end_lineno or 0) - function.lineno + 1
    if ast.get_docstring(function) is not None:
        lines -= (body[0].end_lineno or 0) - body[0].lineno + 1
    return lines


def test_modules_are_short() -> None:
    """A module is at most 400 lines; the exceptions have reasons, bounds of their own, and are really longer."""
    lengths = {name_of(path): len(path.read_text().splitlines()) for path in LIBRARY}
    limits = {name: LONGER_MODULES.get(name, (MODULE_LINES_MAX, ""))[0] for name in lengths}
    assert not {name: lines for name, lines in lengths.items() if lines > limits[name]}
    assert not [name for name in LONGER_MODULES if lengths.get(name, 0) <= MODULE_LINES_MAX], "needs no exception"


@left_to_commits
def test_functions_are_short() -> None:
    """A function is at most 50 lines without its docstring, and the median under 10."""
    lengths = {f"{name_of(path)}:{f.name}": length(f) for path, tree in trees().items() for f in functions(tree)}
    limits = {name: LONGER_FUNCTIONS.get(name, (FUNCTION_LINES_MAX, ""))[0] for name in lengths}
    assert not {name: lines for name, lines in lengths.items() if lines > limits[name]}
    assert median(lengths.values()) < MEDIAN_FUNCTION_LINES_MAX


def test_lines_are_short() -> None:
    """No line of Python is longer than 120 characters."""
    long = [
        f"{name_of(path)}:{number}"
        for path in sources(*PACKAGES, "tests", "examples", "benchmarks", "docs")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > LINE_LENGTH_MAX
    ]
    assert not long


def test_every_module_says_what_it_is() -> None:
    """Every module begins with a docstring."""
    everything = sources(*PACKAGES, "tests", "examples", "benchmarks", "docs")
    assert not [name_of(path) for path in everything if not DOCSTRING_FIRST.match(path.read_text())]


@left_to_commits
def test_nothing_prints_but_the_command_line() -> None:
    """``print`` is called in hosting/cli and hosting/demo only."""
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path, tree in trees().items()
        if not name_of(path).startswith(("hosting/cli", "hosting/demo"))
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert not wrong


@left_to_commits
def test_no_traceback_goes_to_the_log_as_it_is() -> None:
    """What an error holds is the user's, and not all of it can be written: `with_trace` makes it printable."""
    raw = ("exc_info=", "LOG.exception(")
    found = [f"{name_of(path)}: {each}" for path in LIBRARY for each in raw if each in path.read_text()]
    assert not found


CUT = {"reliable_rx/errors.py", "reliable_rx/shown.py", "hosting/reports/failure_summary.py"}
"""`cut_middle` is for sentences, which end with a remedy, `cut_end` for values; a traceback loses its begin."""


@left_to_commits
def test_texts_are_cut_in_one_way() -> None:
    """No text is cut where it is told: a sentence that is cut at its end lacks its remedy."""
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path, tree in trees().items()
        if name_of(path) not in CUT
        for node in ast.walk(tree)
        if (isinstance(node, ast.Subscript) and isinstance(node.value, ast.JoinedStr))
        or (isinstance(node, ast.JoinedStr) and has_cut_part([*map(written, node.values)]))
        or (isinstance(node, ast.BinOp) and has_cut_part([node.left, node.right]))
    ]
    assert not wrong


def written(part: ast.expr) -> ast.expr:
    return part.value if isinstance(part, ast.FormattedValue) else part


def has_cut_part(parts: list[ast.expr]) -> bool:
    """Whether "…" stands beside a slice."""
    dots = any(isinstance(each, ast.Constant) and "…" in str(each.value) for each in parts)
    return dots and any(isinstance(each, ast.Subscript) and isinstance(each.slice, ast.Slice) for each in parts)


@left_to_commits
def test_invariants_survive_optimisation() -> None:
    """The library has no ``assert`` statement, which ``python -O`` would remove: it calls ``invariant`` or raises."""
    wrong = [
        f"{name_of(path)}:{node.lineno}"
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]
    assert not wrong


@left_to_commits
def test_no_module_is_dead() -> None:
    """Every module of the library is imported by another one, and every helper of the tests by a test."""
    everything = sources(*PACKAGES, "tests", "examples", "benchmarks", "docs")
    named = {path: names(ast.parse(path.read_text())) for path in everything}
    candidates = [path for path in everything if may_be_dead(path)]
    dead = [
        name_of(path)
        for path in candidates
        if not any(dotted(path) & used for other, used in named.items() if other != path)
    ]
    assert not [name for name in dead if name not in NOT_IMPORTED]


def may_be_dead(path: Path) -> bool:
    folder = name_of(path).split("/")[0]
    if folder in PACKAGES:
        return path.name != "__init__.py"
    return folder == "tests" and not path.name.startswith(("test_", "conftest", "__init__"))


def dotted(path: Path) -> set[str]:
    """What a module may be called where it is used: by its full name, by its file, inside tests by its own name."""
    full = name_of(path).removesuffix(".py").replace("/", ".")
    return {full, path.name} | ({path.stem} if full.startswith("tests.") else set())


def names(tree: ast.Module) -> set[str]:
    """Every module (and name of a module) that *tree* imports, and every file it names in a string."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
            found |= {node.value, node.value.rpartition("/")[2]}
    return found


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name: str) -> None:
    """Everything in ``__all__`` exists and has a docstring of its own, which begins and ends as a sentence does."""
    module = importlib.import_module(name)
    undocumented = [each for each in module.__all__ if needs_words(getattr(module, each))]
    assert not undocumented
    assert len(set(module.__all__)) == len(module.__all__)


def needs_words(value: object) -> bool:
    if isinstance(value, ModuleType) or not (inspect.isclass(value) or inspect.isroutine(value)):
        return False  # constants and type aliases say what they are in their module
    if (value.__module__ or "").startswith("reactivex"):
        return False  # RxPY's own classes are RxPY's to describe
    words = inspect.cleandoc(value.__dict__.get("__doc__") or "" if inspect.isclass(value) else value.__doc__ or "")
    first = words.split("\n\n")[0].rstrip()
    return not first or not first.endswith((".", ":", "…")) or not (first[0].isupper() or first[0] in "`*(")


@pytest.mark.parametrize("name", CALLED_BY_APPLICATIONS)
def test_public_methods_are_documented(name: str) -> None:
    """Every public method and property that an application calls has a docstring."""
    kind = find_class(name)
    own = {key: value for key, value in vars(kind).items() if not key.startswith("_") and is_callable(value)}
    if name == "Query":  # its operators are installed from reliable_rx.operators and reactivex, documented there
        own = {key: value for key, value in own.items() if key in ("bind", "content_hash", "explain", "is_hostable")}
    assert not [key for key, value in own.items() if not (value.__doc__ or "").strip() and key not in PROTOCOL]


PROTOCOL = ("partitions", "open", "close", "acknowledge", "fetch")  # documented once, at the protocol


def is_callable(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, property)


def find_class(name: str) -> type:
    for module in map(importlib.import_module, ("reliable_rx", "hosting")):
        if hasattr(module, name):
            found = getattr(module, name)
            assert isinstance(found, type)
            return found
    raise LookupError(name)


def test_the_top_level_is_as_it_is_said_to_be() -> None:
    """The repository holds four packages of one distribution and, beside them, what a reader expects."""
    for name in ("reliable_rx_cli.py", "README.md", "LICENSE", "CHANGELOG.md", "Makefile", ".ci/run", "pyproject.toml"):
        assert (ROOT / name).is_file(), name
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").is_file(), package


def test_a_test_draws_alike_in_every_run(request: pytest.FixtureRequest) -> None:
    """Who gives no seed has the same draws as in every other run; no test asks for others, or keeps to its own."""
    seed = request.config.option.hypothesis_seed
    assert settings().derandomize is (seed is None)
    assert random.random() == random.Random(f"{seed} {request.node.nodeid}").random()
    own = re.compile(r"(?<!System)Random\(\)|default_rng\(\)|derandomize=|random\.seed\(")
    found = [name_of(path) for path in sources("tests") if path.name != "conftest.py" and own.search(path.read_text())]
    assert found == ["tests/test_tidy.py"]
