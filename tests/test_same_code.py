"""Stored code of two processes: the same function has other bytes, and is the same code; another one is not."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from lanes import left_to_commits

from checkpoint import MemoryStore
from checkpoint.format.same_code import is_same_code
from hosting import ListSource, QueryEvaluator
from reliable_rx import source

APP = """
import base64, dataclasses, enum, functools, sys
import reliable_rx as rx
from checkpoint.format.by_value import encode_query

TEXTS = {"a", "b", "c", "d"}


@dataclasses.dataclass(frozen=True)
class Pair:
    one: int
    two: str = "x"


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


PAIRS = {Pair(1), Pair(2), Pair(3)}
COLOURS = {Colour.RED, Colour.BLUE}
NESTED = {frozenset({"a", "b"}), frozenset({"c", "d"})}


def closing(held):
    return lambda x: x in held


def made(k):
    class Local:
        by = k

        def __call__(self, x):
            return x * self.by

    return Local()


def helper(x):
    return x in {"u", "v", "w"}


FUNCTIONS = {
    "a constant": lambda x: x in {"aa", "bb", "cc"},
    "another constant": lambda x: x in {"aa", "bb", "dd"},
    "a global": lambda x: x in TEXTS,
    "a closure": closing({"q", "w", "e", "r"}),
    "another closure": closing({"q", "w", "e", "t"}),
    "records": lambda x: x in PAIRS,
    "closed records": closing(PAIRS),
    "members": lambda x: x in COLOURS,
    "closed members": closing(COLOURS),
    "closed nested": closing(NESTED),
    "closed mixed": closing({(1, "a"), (2, "b"), ("c", 3)}),
    "an object of a local class": made(2),
    "another one": made(3),
    "a helper": lambda x: helper(x),
    "a partial": functools.partial(closing, {"1", "2", "3"}),
    "a tuple": lambda x: (1, 2)[x],
    "a tuple the other way": lambda x: (2, 1)[x],
}
for name, each in FUNCTIONS.items():
    print(name, base64.b64encode(encode_query(rx.source("s").map(each).node)).decode(), sep="|")
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[bytes]]:
    """What processes of other hash seeds store of each function, one of them from a folder of its own."""
    found: dict[str, list[bytes]] = {}
    for seed in ("1", "2", "77"):
        folder: Path = tmp_path_factory.mktemp("same") if seed == "77" else tmp_path_factory.getbasetemp()
        (folder / "same_code_app.py").write_text(APP)
        child = subprocess.run(
            [sys.executable, "-c", "import same_code_app"],
            cwd=folder,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert child.returncode == 0, child.stderr
        for line in child.stdout.splitlines():
            name, code = line.split("|")
            found.setdefault(name, []).append(base64.b64decode(code))
    return found


@left_to_commits
def test_the_same_function_is_the_same_code(written: dict[str, list[bytes]]) -> None:
    """Whatever the hash seed; where the file lies counts only for functions that may ask for it."""
    assert any(one != other for one, other, _ in written.values()), "the seeds make no difference: nothing is shown"
    assert [name for name, (one, other, _) in written.items() if not is_same_code(one, other)] == []


@left_to_commits
def test_other_functions_are_other_code(written: dict[str, list[bytes]]) -> None:
    """No two of them are taken for one, in whichever process they were written."""
    names = [(one, other) for one in written for other in written if one < other]
    assert [each for each in names if is_same_code(written[each[0]][0], written[each[1]][1])] == []


def test_an_unchanged_query_over_a_set_is_not_created_again() -> None:
    """A query whose code has other bytes at each start takes no turn for that, so that its state is not copied."""
    store, turns = MemoryStore(), list[int]()
    for order in (("a", "b", "c"), ("c", "a", "b"), ("b", "c", "a")):
        held = Unordered(order)
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1], follow=True))
        evaluator.create("q", source("n").map(lambda x, held=held: x in held.texts).scan(lambda a, x: a + x, 0))
        evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == 1)
        evaluator.checkpoint()
        turns.append(evaluator.engine.number)
        evaluator.close()
    assert all(one == other for one, other in pairwise(turns)), turns


class Unordered:
    """Holds a set whose order is that in which it was filled, as far as the table allows."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.texts = set(texts)
