"""The tests that .ci/run plays at each commit by the functions that they call, recorded once and kept.

The record is brought up to date by what has come and gone since: tests that are new are run once to see what they call,
those that are no more are left out. Tests that fail without a mutant are not in it, since they say nothing.
"""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from calls import LISTED, TO, read
from mutants import Mutant
from trees import copy_of_tree, pytest

LANES = {"not slow": ("-m", "not slow"), "the rest": ("-m", "not slow", "--rest"), "commit": ("-m", "commit")}
"""The fast lane, the other rows of its tests, and the commit lane: how each is run as a whole."""
WAVES_S = (5.0, 30.0, 120.0, float("inf"))
"""The tests of a mutant run in waves of about this length, the quickest first: most mutants die in the first."""
PLUGIN = "tests.quality.mutation.calls"
Record = dict[str, dict[str, tuple[float, list[str]]]]
"""By lane and test: the seconds that it took, and the functions that it called."""


@dataclass(frozen=True)
class Wave:
    """Tests of one lane that are run together."""

    lane: str
    tests: list[str]
    seconds: float


class Suite:
    """Index of the tests by what they call."""

    def __init__(self, record: Record) -> None:
        self.lanes = {lane: {test: took for test, (took, _) in record[lane].items()} for lane in record}
        self.callers: dict[str, list[str]] = defaultdict(list)
        self.of_module: dict[str, set[str]] = defaultdict(set)
        for tests in record.values():
            for test, (_, functions) in tests.items():
                for function in functions:
                    self.callers[function].append(test)
                    self.of_module[function.partition("::")[0]].add(test)
        self.unreliable: set[str] = set()

    def __len__(self) -> int:
        return sum(map(len, self.lanes.values()))

    def waves(self, mutant: Mutant) -> Iterator[Wave]:
        """Yield the tests that may notice *mutant*: those of the fast lane first, in each lane the quickest."""
        known = self.callers.get(f"{mutant.path}::{mutant.function}") or self.of_module.get(mutant.path)
        callers = None if known is None else set(known)
        for lane, seconds in self.lanes.items():
            found = sorted(
                (test for test in seconds if callers is None or test in callers), key=lambda test: (seconds[test], test)
            )
            for length_s in WAVES_S:
                wave: list[str] = []
                spent_s = 0.0
                while found and spent_s <= length_s:
                    wave.append(found.pop(0))
                    spent_s += seconds[wave[-1]]
                if wave:
                    yield Wave(lane, wave, spent_s)


def recorded(kept: Path, workers: int) -> Record:
    """Return which test calls what: what is *kept* in that folder, and what those call that are not."""
    record: Record = {}
    with tempfile.TemporaryDirectory() as folder:
        tree = copy_of_tree(Path(folder, "tree"))
        for lane in LANES:
            to = kept / lane.replace(" ", "-")
            to.mkdir(parents=True, exist_ok=True)
            tests, known = listed(tree, lane, Path(folder)), read(to)
            if new := [test for test in tests if test not in known]:
                names = Path(folder, "new.txt")
                names.write_text("\n".join(new))
                which = [f"@{names}"] if known else []
                pytest(tree, "-n", str(workers), "-p", PLUGIN, *LANES[lane], *which, **{TO: str(to)})
                known = read(to)
            record[lane] = {test: known[test] for test in tests if test in known}
    return record


def listed(tree: Path, lane: str, to: Path) -> list[str]:
    """Return the names of all tests of a lane."""
    code, output = pytest(tree, "-n", "0", "--collect-only", "-p", PLUGIN, *LANES[lane], **{TO: str(to)})
    if code != 0:
        raise SystemExit(f"the tests cannot be listed:\n{output}")
    tests: list[str] = json.loads((to / LISTED).read_text())
    return tests
