"""A chain of differential checkpoints holds exactly what one full checkpoint of the same moment holds."""

from __future__ import annotations

import re
from typing import Any

import pytest
from every_case import CASES, lanes
from lanes import at_each_commit

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.records import read_records
from hosting.engine.snapshot import Snapshot, load
from hosting.engine.turns import Dispose, Events
from reliable_rx import operators as ops
from reliable_rx.runtime.rows import Loader
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.hosted import HostedRun

ADDRESS = re.compile(" at 0x[0-9a-f]+")
STREAMS = ("-0-1-2-0-1-(22)-0-1|", "--1-0-2--(01)---2-1-0---|")
HOSTABLE = [name for name, case in CASES.items() if case.hostable]
both_ways = pytest.mark.parametrize(
    "late", [at_each_commit(False), True], ids=["between turns", "while the next turn is taken"]
)
both_kinds = pytest.mark.parametrize("full", [False, at_each_commit(True)], ids=["differential", "full"])


class ChainedRun(HostedRun):
    """A run with a checkpoint after every turn; *late* writes its rows only when the next turn has been taken."""

    def __init__(self, build: Any, sources: int, *, late: bool, full: bool = False) -> None:
        super().__init__(build, [parse_marbles(STREAMS[n % 2]) for n in range(sources)], 40.0, crash=False)
        self.late, self.full = late, full
        self.chunks: list[bytes] = []
        self.open: Snapshot | None = None
        self.as_of: dict[str, str] = {}

    def take(self, turn: Any) -> None:
        super().take(turn)
        if self.late:
            self.close()
        self.as_of = rows_now(self.engine)
        self.open = Snapshot(self.engine, full=self.full or not self.chunks)
        if not self.late:
            self.close()

    def close(self) -> None:
        """Finish the checkpoint at work, and hold the chain to the rows of the moment it was begun."""
        if self.open is not None:
            self.chunks = ([] if self.full else self.chunks) + written(self.open)
            self.open = None
            assert rows_in(self.chunks) == self.as_of


def written(snapshot: Snapshot) -> list[bytes]:
    while not snapshot.write_some(1):
        pass
    return snapshot.chunks()


def rows_now(engine: QueryEngine) -> dict[str, str]:
    """Return all rows by key, and leave the engine as it was."""
    snapshot = Snapshot(engine, full=True)
    rows = rows_in(written(snapshot))
    snapshot.roll_back()
    return rows


def rows_in(chunks: list[bytes]) -> dict[str, str]:
    rows = read_records(chunks, Loader({}))
    kept = {key: row for key, row in rows.items() if key[0] not in ("plan", "signature", "retired")}
    return {repr(key): ADDRESS.sub("", repr(row)) for key, row in kept.items()}


@both_kinds
@both_ways
@pytest.mark.parametrize("name", lanes(HOSTABLE, fast=1, every=4))
def test_a_chain_holds_the_rows_of_its_moment(name: str, late: bool, full: bool) -> None:
    """Rows that have ended are gone, rows that live are in it as they were, whichever way they were written."""
    case = CASES[name]
    run = ChainedRun(case.build, case.sources, late=late, full=full)
    run.play()
    run.close()


@both_ways
@pytest.mark.parametrize("name", lanes(HOSTABLE, fast=1, every=4))
def test_a_disposed_query_leaves_no_row(name: str, late: bool) -> None:
    """After a dispose the chain holds nothing of the query, so that it does not come back."""
    case = CASES[name]
    run = ChainedRun(case.build, case.sources, late=late)
    query = run.build(ops, rx, *(rx.source(f"s{number}") for number in range(len(run.streams))))
    run.engine.take(run.engine.creation("query", query, time=0.0))
    for turn in list(run.turns())[:7]:
        run.take(turn)
    run.take(Dispose("query", run.engine.clock))
    run.close()
    assert rows_in(run.chunks) == {}


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
        chunks += written(snapshot)
    again = QueryEngine()
    again.declare("n", ["0"])
    load(again, chunks, snapshot.header)
    assert [list(out.values) for out in again.take(Events("n", "0", 5, [5], 5.0))] == [[9]]
