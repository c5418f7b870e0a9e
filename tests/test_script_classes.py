"""Classes of a script are those of the script in every process: as in a module, they go by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from lanes import left_to_commits

SCRIPT = """
import dataclasses, enum, json, os, sys, typing
import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator

@dataclasses.dataclass(frozen=True)
class Data:
    a: int

class Named(typing.NamedTuple):
    a: int

class Colour(enum.Enum):
    ZERO = 0
    ONE = 1

class Outer:
    @dataclasses.dataclass(frozen=True)
    class Inner:
        a: int

class Meta(type):
    pass

class Plain(metaclass=Meta):
    def __init__(self, a):
        self.a = a
    def __eq__(self, other):
        return isinstance(other, Plain) and other.a == self.a
    def __hash__(self):
        return hash(self.a)

KINDS = {"data": Data, "named": Named, "colour": Colour, "inner": Outer.Inner, "plain": Plain}

def queries(n, kind):
    yield "seen", n.scan(lambda a, x: a | {kind(x % 2)}, frozenset()).map(len)
    yield "groups", n.map(lambda x: kind(x % 2)).group_by(lambda p: p).flat_map(
        lambda g: g.scan(lambda a, _: a + 1, 0))
    yield "dist", n.map(lambda x: kind(1)).distinct().map(lambda p: type(p) is kind)
    yield "code", n.scan(lambda a, x: (a[0] | {kind(x % 2)}, lambda: x), (frozenset(), None)).map(lambda a: len(a[0]))
    yield "default", n.scan(lambda a, x, kind=kind: a + isinstance(kind(x % 2), kind), 0)

if __name__ == "__main__":
    count, how = int(sys.argv[1]), sys.argv[2]
    evaluator = QueryEvaluator(SqliteStore("store"), checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource(list(range(1, count + 1)), follow=True))
    evaluator.start()
    if not evaluator.queries():
        for name, kind in KINDS.items():
            for which, query in queries(rx.source("n"), kind):
                evaluator.create(f"{which} {name}", query)
    evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= count)
    evaluator.flush()
    found = {name: [v for part in evaluator.stream(name).read(0, 99) for v in part.values]
             for name in evaluator.queries()}
    print(json.dumps([found, [str(each) for each in evaluator.statistics().incidents]]), flush=True)
    if how == "kill":
        os._exit(0)
    evaluator.checkpoint()
    evaluator.close()
"""


def run(folder: Path, count: int, how: str) -> tuple[dict[str, list[object]], list[str]]:
    done = subprocess.run(
        [sys.executable, "script.py", str(count), how],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        env={"PYTHONPATH": str(Path(__file__).parent.parent)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found, incidents = json.loads(done.stdout)
    return found, incidents


@left_to_commits
@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("edited", [False, True])
def test_what_a_script_keeps_meets_what_it_makes(tmp_path: Path, how: str, edited: bool) -> None:
    """Two runs over the halves of a source give what one over all of it gives, for every kind of class in a script."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run(tmp_path, 3, how)
    if edited:
        script.write_text(SCRIPT.replace("lambda a, _: a + 1", "lambda a, _: 1 + a"))
    found, incidents = run(tmp_path, 6, how)
    assert incidents == []
    expected = {
        "seen": [1, 2, 2, 2, 2, 2],
        "groups": [1, 1, 2, 2, 3, 3],
        "dist": [True],
        "code": [1, 2, 2, 2, 2, 2],
        "default": [1, 2, 3, 4, 5, 6],
    }
    assert len(found) == 25
    for name, values in found.items():
        assert values == expected[name.split()[0]], name
