"""The generic checks, each with a bounded number of examples, and the planted bugs that each of them must find."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import pytest
from every_case import CASES
from lanes import at_each_commit
from planting import Planting
from sinks_world import SinkWorld
from test_code_changes import CHANGES, modules, test_the_change_comes_behind_what_was_done
from test_edit_reports import check_edits
from test_evaluator_machine import run
from test_event_time import agree
from test_map_async_hosted import run_machine
from test_notebook_edits import OUTPUTS, STEPS, played
from test_operators_again import check
from test_sinks_policies import test_every_flipped_bit_of_a_flushed_file
from test_snapshot_differential import ChainedRun

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import NondeterminismDetected
from reliable_rx.testing import RUNNERS, check_query
from reliable_rx.testing.recipes import Recipe, Step, recipes
from tests.event_time_model import words

WINDOWS = Recipe(0, (Step("window_with_count", (Recipe(0, (Step("scan"),)),)),))
ZIPPED = Recipe(0, (Step("zip", (Recipe(1, ()),)),))
READERS = Recipe(1, (Step("combine_latest", (Recipe(0, ()),)), Step("window_with_count", (ZIPPED,))))
CHAINED = Recipe(1, (Step("concat", (Recipe(0, (Step("start_with"),)),)), Step("scan")))

COUNTER = itertools.count()


def counted(value: int) -> tuple[int, int]:
    """What no query may do: read what changes from run to run."""
    return value, next(COUNTER)


def shared(ops: Any, rx_: Any, source: Any) -> Any:
    """A reader that comes again stands behind one that has stayed, whichever is written first."""
    both = source.pipe(ops.share())
    again = both.pipe(ops.map(over_three), ops.retry(3))
    return again.pipe(ops.merge(both), ops.scan(lambda total, each: total * 2 + each, 0))


def over_three(value: int) -> int:
    if value > 3:
        raise ValueError(f"{value} is over three")
    return value + 10


def queries() -> None:
    """Timed queries, two states beside each other, and made-up ones, over stored generations."""
    check_query(Recipe(0, (Step("scan"), Step("scan"))), examples=40)
    check_query(Recipe(0, (Step("debounce"), Step("scan"), Step("sample"))), examples=40)
    check_query(recipes(sources=2), sources=2, examples=60)


def nondeterminism() -> None:
    """A query that reads a counter is found out when its turns are taken again."""
    store = MemoryStore()
    for _ in range(2):
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        evaluator.create("counts", rx.source("n").map(counted))
        if not store.journal.last_turn:
            while evaluator.step():
                pass
            store.crash()
            store = store.reopen()
        else:
            assert refuses(evaluator)


def refuses(evaluator: QueryEvaluator) -> bool:
    evaluator.start()
    return isinstance(evaluator.engine.standing["counts"].error, NondeterminismDetected)


def event_time() -> None:
    """All short words of stamped events agree with the model, through bytes after every turn."""
    for query in ("map", "buffer_with_time"):
        for word in words(3, (1.0, 6.0)):
            agree(word, query, "side", lateness_s=1.0, crash=True)


def chains() -> None:
    """Differentials hold what full checkpoints hold: cases of groups, windows and inner sequences."""
    for name, case in CASES.items():
        if case.hostable and name.startswith(("group_by", "window_with_count", "flat_map")):
            for late in (False, True):
                chained = ChainedRun(case.build, case.sources, late=late)
                chained.play()
                chained.close()


def evictions() -> None:
    """What remembers by key and may keep two gives up the right one, out of any chain of checkpoints."""
    for name, case in CASES.items():
        if name.startswith("group_by: two groups"):
            check_query(case.build, reference=case.reference, examples=60)


def begun_again() -> None:
    """Un-hosted, operators over two sequences are as new when they are subscribed to again."""
    for operator in ("combine_latest", "zip", "skip_until"):
        for name in [name for name, case in CASES.items() if name.startswith(f"{operator}:") and case.sources == 2][:2]:
            check(name, {"un-hosted": RUNNERS["un-hosted"]})


def edits() -> None:
    """What stands before an operator is edited after every turn: nobody feels it, and the report is true."""
    for name in ("zip: operator", "start_with: one", "switch_latest: the source", "group_by: take of groups"):
        for edit in ("a function", "an operator"):
            check_edits(name, edit)


def code_changes() -> None:
    """The app's code changes between two runs, behind a kill: the change comes behind what was done."""
    for change in ("a helper of a lambda", "a named function", "a table", "a helper of another module"):
        assert change in CHANGES
        with TemporaryDirectory() as folder, modules(Path(folder)) as load:
            test_the_change_comes_behind_what_was_done(load, change, end="killed")


def notebook() -> None:
    """Cells of a notebook are mended: the next creation is an edit, also behind a kill; and without one it is told."""
    for kind in ("function", "number"):
        steps = [each for each in STEPS if each != "checkpoint"]
        with pytest.MonkeyPatch.context() as patch:
            notebook = played(patch, kind, again=False, kill_at=4, steps=steps)
            assert notebook.outputs == OUTPUTS
            notebook.evaluator.close()
        steps = ["event", "mend", "event"]
        with pytest.MonkeyPatch.context() as patch:
            notebook = played(patch, kind, again=False, kill_at=len(steps), steps=steps)
            assert [each.kind for each in notebook.evaluator.statistics().incidents] == ["redefined"]
            assert notebook.report == "None"
            notebook.evaluator.close()


def sinks() -> None:
    """Sinks over hostile values, failing places and crashes; and a file of which any bit is flipped."""
    with TemporaryDirectory() as folder:
        for seed in range(20):
            place = Path(folder, str(seed))
            place.mkdir()
            SinkWorld(seed, place).check()
        place = Path(folder, "flipped")
        place.mkdir()
        test_every_flipped_bit_of_a_flushed_file(place)


CHECKS: dict[str, Callable[[], None]] = {
    "queries": queries,
    "windows": lambda: check_query(WINDOWS, examples=60),
    "samples": lambda: check_query(Recipe(0, (Step("sample"),)), examples=80),
    "readers": lambda: check_query(READERS, sources=2, examples=150),
    "shared": lambda: check_query(shared, examples=150),
    "chained": lambda: check_query(CHAINED, sources=2, examples=100),
    "chains": chains,
    "evictions": evictions,
    "again": begun_again,
    "event time": event_time,
    "notebook": notebook,
    "sinks": sinks,
    "calls": lambda: run_machine(examples=100, steps=25),
    "machine": lambda: run(examples=60, steps=40),
    "nondeterminism": nondeterminism,
    "edits": edits,
    "code changes": code_changes,
}

Plant = Callable[[pytest.MonkeyPatch], None]
TIMES = 10


class Plants:
    """Planted bugs under the names of their functions, each with the check that must find it."""

    def __init__(
        self,
        checks: Mapping[str, Callable[..., Any]] = CHECKS,
        *,
        times: int = 1,
        raises: type[BaseException] | tuple[type[BaseException], ...] = Exception,
    ) -> None:
        self.checks, self.times, self.raises = checks, times, raises
        self.bugs: dict[str, tuple[Plant, str]] = {}

    def __call__(self, check: str) -> Callable[[Plant], Plant]:
        """Register a bug under its function's name, and the check that must find it."""

        def register(plant: Plant) -> Plant:
            self.bugs[plant.__name__.replace("_", " ")] = (plant, check)
            return plant

        return register

    def names(self, *, dear: Sequence[str] = ()) -> list[Any]:
        """Return a parameter for each; the fast lane has every third of those that are not *dear*."""
        assert set(dear) <= set(self.bugs), dear
        quick = [name for name in self.bugs if name not in dear][::3]
        return [name if name in quick else at_each_commit(name) for name in self.bugs]

    def plant(self, name: str, patch: pytest.MonkeyPatch) -> None:
        """Plant a bug where it fits."""
        self.bugs[name][0](cast("pytest.MonkeyPatch", Planting(patch)))

    def must_be_found(self, name: str, patch: pytest.MonkeyPatch, *given: Any) -> None:
        """Plant a bug and hold that its check fails, run a bounded number of times: by chance one may miss the bug.

        A plant whose parameters are no longer those of what it replaces is no bug, and is not found but reported: when
        it is planted, and where it calls the original with what that does not take any more.
        """
        self.plant(name, patch)
        check = self.bugs[name][1]
        collects = gc.isenabled()
        try:
            with pytest.raises(self.raises) as caught:
                for _ in range(self.times):
                    self.checks[check](*given)
        finally:
            if collects:
                gc.enable()  # an evaluator that the bug stops within a checkpoint is not closed
        is_stale = isinstance(caught.value, TypeError) and "<locals>" in str(caught.value)
        if is_stale or isinstance(caught.value, NameError):
            raise caught.value
