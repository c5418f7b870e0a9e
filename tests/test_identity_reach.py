"""A query's identity covers the code that it reaches by name in the modules of its user, and nothing else."""

from __future__ import annotations

import ast
import enum
import importlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import reliable_rx as rx
from checkpoint.format.by_value import encode_query
from checkpoint.format.codec import decode
from reliable_rx.functions.imports import imported
from reliable_rx.functions.reach import is_constant
from reliable_rx.query.identity import REACHES

APP = """
import enum, json, math, re
from dataclasses import dataclass
import helping
from helping import indirectly

RATE = 3
doubled = 1
TABLE = {"a": 1.5, "b": [1, 2]}
WORD = re.compile("[a-z]+")
CALLS = []


class Colour(enum.Enum):
    RED = 1


@dataclass(frozen=True)
class Trade:
    price: float

    @property
    def doubled(self):
        return self.price * 2

    def scaled(self, by):
        return scale(self.price, by)


def scale(price, by):
    return price * by


def helper(n):
    return n + 1 if n else other(n)


def other(n):
    return helper(n - 1) if n > 5 else n


def deco(f):
    def inner(n):
        return f(n)
    return inner


@deco
def decorated(n):
    return n * 5


def counted(n):
    CALLS.append(n)
    return len(CALLS) if helping is None else n


def unused(n):
    return n


import reliable_rx as rx
n = rx.source("n")
INNER = rx.of(1, 2).map(lambda x: scale(x, 2))

QUERIES = {
    "lambda": n.map(lambda x: helper(x)),
    "named": n.map(helper),
    "constant": n.map(lambda x: x * RATE),
    "table": n.map(lambda x: TABLE["a"] * x),
    "class": n.map(lambda x: Trade(x).doubled),
    "method": n.map(lambda x: Trade(x).scaled(2)),
    "enum": n.map(lambda x: Colour(x)),
    "module": n.map(lambda x: helping.twice(x)),
    "indirect": n.map(indirectly),
    "decorated": n.map(decorated),
    "inner": n.flat_map(lambda x: INNER),
    "counting": n.map(counted),
    "plain": n.map(lambda x: json.dumps(math.floor(x))),
}
"""
HELPING = """
FACTOR = 2


def twice(n):
    return n * FACTOR


def indirectly(n):
    return twice(twice(n))
"""
EDITS: list[tuple[str, str, str, set[str]]] = [
    ("app", "return n + 1 if n", "return n + 2 if n", {"lambda", "named"}),
    ("app", "n > 5", "n > 6", {"lambda", "named"}),
    ("app", "RATE = 3", "RATE = 4", {"constant"}),
    ("app", '"a": 1.5', '"a": 2.5', {"table"}),
    ("app", "[1, 2]}", "[1, 3]}", {"table"}),
    ("app", "self.price * 2", "self.price * 3", {"class", "method"}),
    ("app", "return price * by", "return price + by", {"class", "method", "inner"}),
    ("app", "RED = 1", "RED = 2", {"enum"}),
    ("app", "return n * 5", "return n * 6", {"decorated"}),
    ("app", "def unused(n):\n    return n", "def unused(n):\n    return 2", set()),
    ("app", "doubled = 1", "doubled = 2", set()),  # an attribute is called so too
    ("app", "CALLS = []", "CALLS = [1]", set()),
    ("app", "INNER = rx.of(1, 2)", "INNER = rx.of(1, 3)", {"inner"}),
    ("helping", "FACTOR = 2", "FACTOR = 3", {"module", "indirect"}),
    ("helping", "return twice(twice(n))", "return twice(n)", {"indirect"}),
]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModuleType]]:
    """Return what writes both modules, with edits, and imports them anew."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def load(**edits: tuple[str, str]) -> ModuleType:
        texts = {"app": APP, "helping": HELPING}
        for name, text in texts.items():
            before, after = edits.get(name, ("", ""))
            assert before in text
            (tmp_path / f"edited_{name}.py").write_text(
                text.replace(before, after, 1).replace("helping", "edited_helping")
            )
            sys.modules.pop(f"edited_{name}", None)
        importlib.invalidate_caches()
        return importlib.import_module("edited_app")

    yield load
    for name in ("edited_app", "edited_helping"):
        sys.modules.pop(name, None)


def hashes(module: ModuleType) -> dict[str, str]:
    return {name: query.content_hash for name, query in module.QUERIES.items()}


@pytest.mark.parametrize(("where", "before", "after", "changed"), EDITS, ids=[each[2][:24] for each in EDITS])
def test_an_edit_changes_the_queries_that_reach_it(
    load: Callable[..., ModuleType], where: str, before: str, after: str, changed: set[str]
) -> None:
    """An edit of a function, method, constant or table changes the identity of the queries that reach it only."""
    first = hashes(load())
    assert hashes(load()) == first, "without an edit all are the same"
    second = hashes(load(**{where: (before, after)}))
    assert {name for name in first if first[name] != second[name]} == changed


def test_processes_agree(load: Callable[..., ModuleType], tmp_path: Path) -> None:
    """The identity is that of another process, of another hash seed, whatever is asked for first."""
    here = hashes(load())
    program = textwrap.dedent("""
        import json, sys, edited_app
        names = list(edited_app.QUERIES)
        if len(sys.argv) > 1: names.reverse()
        print(json.dumps({name: edited_app.QUERIES[name].content_hash for name in names}))
    """)
    root = str(Path(__file__).parent.parent)
    for seed, more in (("1", []), ("2", ["backwards"])):
        env = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{root}", "PYTHONHASHSEED": seed}
        ran = subprocess.run(
            [sys.executable, "-c", program, *more], env=env, capture_output=True, text=True, check=True
        )
        assert json.loads(ran.stdout) == here


def test_stored_code_is_what_it_was(load: Callable[..., ModuleType]) -> None:
    """A stored query has the functions and the identity of its day, whatever is edited since."""
    app = load()
    stored = {name: (encode_query(query), query.content_hash) for name, query in app.QUERIES.items()}
    results = {name: answers(query) for name, query in app.QUERIES.items()}
    by_name = {"class", "method", "enum"}  # classes go by their names: values of them are compared and looked up
    for where, before, after, _ in EDITS:
        load(**{where: (before, after)})
        for name, (code, identity) in stored.items():
            again = decode(code)
            if name not in by_name:
                assert answers(again) == results[name], (name, after)
                assert again.content_hash == identity, (name, after)


def answers(query: Any) -> list[Any]:
    """Return what the functions of *query* give."""
    import reliable_rx as rx

    got: list[Any] = []
    query.bind(n=rx.of(1, 7)).subscribe(lambda value: got.append(getattr(value, "name", value)), got.append)
    got = [str(each) for each in got]
    return got


def test_threads_agree(load: Callable[..., ModuleType]) -> None:
    """Many evaluators of one process declare the same app at once, and each gives its queries the same identity."""
    app = load()
    expected = hashes(app)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(20):
                REACHES.known.clear()
                found = [future.result() for future in [pool.submit(hashes, app) for _ in range(4)]]
                assert found == [expected] * 4
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    "one, same", [([8, 0, 16], [0, 8, 16]), ([(8, "a"), (0, "b")], [(0, "b"), (8, "a")]), ([8.0, 0.5], [0.5, 8.0])]
)
def test_the_order_of_a_set_is_no_edit(one: list[Any], same: list[Any]) -> None:
    """A set that was made in another order is iterated in another one, and is the same."""

    def identity(found: frozenset[Any]) -> str:
        return rx.source("n").map(lambda n: n in found).content_hash

    assert identity(frozenset(one)) == identity(frozenset(same)) != identity(frozenset([*one, 99]))


def test_a_module_that_is_not_there_hides_none_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that tries one module and takes another reaches the one that there is."""
    (tmp_path / "helper_that_is_there.py").write_text("RATE = 2")
    monkeypatch.syspath_prepend(tmp_path)

    def body(n: int) -> Any:
        try:
            import helper_that_is_not_there as helper
        except ImportError:
            import helper_that_is_there as helper
        return n * helper.RATE

    assert [each.__name__ for each in imported(body)] == ["helper_that_is_there"]
    sys.modules.pop("helper_that_is_there", None)


class Rights(enum.Flag):
    READ = 1
    WRITE = 2
    RUN = 4


def test_an_enumeration_that_has_met_more_values_is_no_edit() -> None:
    """Combinations are kept by their class when they are first made; its members are what counts."""

    def identity() -> str:
        REACHES.known.clear()
        return rx.source("n").map(lambda n: Rights(n) | Rights.READ).content_hash

    before, known = identity(), len(Rights._value2member_map_)
    assert Rights(7) and Rights.READ | Rights.RUN
    assert len(Rights._value2member_map_) > known
    assert identity() == before


class Tagged(tuple[int, ...]):
    """It may have attributes beside its items."""


class Pair(NamedTuple):
    first: int
    second: Any


@dataclass(frozen=True)
class Frozen:
    value: Any


def test_a_constant_has_nothing_beside_its_items() -> None:
    """Tuples and records of data are constants; one of another class may hold what its items do not show."""
    assert is_constant((1, 2)) and is_constant(Pair(1, (2, "a")))
    assert not is_constant(Pair(1, object()))
    assert is_constant(Frozen((1, "a"))) and is_constant(Frozen) and not is_constant(Frozen(object()))
    assert not is_constant(Tagged((1, 2))) and not is_constant(ast.Name("x"))
