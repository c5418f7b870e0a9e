"""A chain of differential checkpoints holds exactly what one full checkpoint holds."""

from __future__ import annotations

from typing import Any

import operator_cases_inner  # noqa: F401  (it fills the table)
import pytest
from operator_cases import CASES

import reliable_rx as rx
from hosting.engine import QueryEngine
from hosting.snapshot import Snapshot, load, read_records
from hosting.turn import Dispose, Events
from reliable_rx import operators as ops
from reliable_rx.rows import Loader
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.hosted import HostedRun

STREAMS = ("-0-1-2-0-1-(22)-0-1|", "--1-0-2--(01)---2-1-0---|")


class ChainedRun(HostedRun):
    """A run whose rows are written after every turn; *late* writes them only while the next turn is taken."""

    def __init__(self, build: Any, sources: int, *, late: bool) -> None:
        super().__init__(build, [parse_marbles(STREAMS[n % 2]) for n in range(sources)], 40.0, crash=False)
        self.late = late
        self.chunks: list[bytes] = []
        self.open: Snapshot | None = None
        self.turns_taken = 0

    def take(self, turn: Any) -> None:
        super().take(turn)
        if self.late:
            self.finish()
        self.open = Snapshot(self.engine, full=not self.turns_taken)
        self.turns_taken += 1
        if not self.late:
            self.finish()

    def finish(self) -> None:
        if self.open is not None:
            while not self.open.write_some(1):
                pass
            self.chunks += self.open.chunks()
            self.open = None

    def check(self) -> None:
        self.finish()
        last = Snapshot(self.engine, full=True)
        while not last.write_some(100):
            pass
        assert keys(self.chunks) == keys(last.chunks())


def keys(chunks: list[bytes]) -> set[Any]:
    loader = Loader({})
    return {repr(key) for key in read_records(chunks, loader) if key[0] not in ("plan", "signature")}


@pytest.mark.parametrize("late", [False, True], ids=["between turns", "while the next turn is taken"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.hostable])
def test_a_chain_of_differentials_holds_the_rows_of_a_full_checkpoint(name: str, late: bool) -> None:
    """Rows that have ended are gone from the chain, and rows that live are in it, whichever way they were written."""
    case = CASES[name]
    run = ChainedRun(case.build, case.sources, late=late)
    run.play()
    run.check()


def test_a_window_that_has_ended_does_not_come_back() -> None:
    """After recovery from differentials only the open window is there, and it is the one that closes next."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    query = rx.source("n").window_with_count(2).flat_map(lambda window: window.sum())
    engine.take(engine.creation("q", query, time=0.0))
    chunks: list[bytes] = []
    for turn in range(5):
        engine.take(Events("n", "0", turn, [turn], float(turn)))
        snapshot = Snapshot(engine, full=not turn)
        while not snapshot.write_some(1):
            pass
        chunks += snapshot.chunks()
    again = QueryEngine()
    again.declare("n", ["0"])
    load(again, chunks, snapshot.header)
    assert [list(out.values) for out in again.take(Events("n", "0", 5, [5], 5.0))] == [[9]]


@pytest.mark.parametrize("late", [False, True], ids=["between turns", "while the next turn is taken"])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.hostable])
def test_a_disposed_query_leaves_no_row(name: str, late: bool) -> None:
    """After a dispose the chain holds nothing of the query, so that it does not come back."""
    case = CASES[name]
    run = ChainedRun(case.build, case.sources, late=late)
    run.engine.take(run.engine.creation("query", build(run), time=0.0))
    for turn in list(run.turns())[:7]:
        run.take(turn)
    run.take(Dispose("query", run.engine.clock))
    run.check()
    assert keys(run.chunks) == set()


def build(run: ChainedRun) -> Any:
    return run.build(ops, rx, *(rx.source(f"s{number}") for number in range(len(run.streams))))
