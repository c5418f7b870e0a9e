"""Names in the store: ids of streams whose queries are gone, and queries that are named as rows are."""

from __future__ import annotations

from typing import Any

import pytest

import reliable_rx as rx
from checkpoint.format.codec import decode, encode
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import Snapshot, copy_of, load
from hosting.engine.turns import Dispose, Events


class Stored:
    """An engine, and what a store would have of it."""

    def __init__(self) -> None:
        self.engine = self.new()
        self.chunks: list[bytes] = []
        self.head = b""
        self.taken = 0

    def new(self) -> QueryEngine:
        engine = QueryEngine()
        engine.declare("n", ["0"])
        return engine

    def create(self, name: str) -> None:
        self.engine.take(self.engine.creation(name, rx.source("n").map(lambda n: n), time=0.0))

    def dispose(self, *names: str) -> None:
        for name in names:
            self.engine.take(Dispose(name, 0.0))

    def event(self) -> dict[str, int]:
        """Take an event; return the first id of what each query emitted."""
        self.taken += 1
        return {out.name: out.first for out in self.engine.take(Events("n", "0", self.taken - 1, [self.taken], 0.0))}

    def snapshot(self, *, full: bool = False, fails: bool = False) -> int:
        """Save; return how many rows were written."""
        snapshot = Snapshot(self.engine, full=full)
        while not snapshot.write_some(3):
            pass
        if fails:
            snapshot.roll_back()
        else:
            self.chunks = [*([] if full else self.chunks), *snapshot.chunks()]
            self.head = encode(snapshot.header)
        return snapshot.rows

    def recover(self) -> None:
        self.engine = self.new()
        load(self.engine, self.chunks, decode(self.head))


def test_ids_go_on_where_a_disposed_query_left_them() -> None:
    """Whether the checkpoint was full, differential, failed or taken while it happened: behind value and end."""
    stored = Stored()
    for name in ("a", "b", "c"):
        stored.create(name)
    assert stored.event() == {"a": 0, "b": 0, "c": 0}
    stored.snapshot(full=True)
    stored.dispose("a", "b")
    stored.snapshot()
    stored.recover()
    stored.create("a")
    stored.dispose("c")
    stored.snapshot(fails=True)
    stored.snapshot()
    stored.recover()
    assert stored.event() == {"a": 2}
    stored.dispose("a")
    stored.snapshot()
    stored.recover()
    assert {name: stored.engine.emitted(name) for name in ("a", "b", "c", "d")} == {"a": 4, "b": 2, "c": 2, "d": 0}
    for name in ("a", "b", "c"):
        stored.create(name)
    stored.snapshot()
    stored.recover()
    assert not stored.engine.retired.by_name
    assert stored.event() == {"a": 4, "b": 2, "c": 2}


def test_disposed_queries_cost_nothing_in_later_checkpoints() -> None:
    """Neither a differential one nor the header grows with names that have been."""
    stored = Stored()
    stored.snapshot(full=True)
    empty = len(stored.head)
    for number in range(500):
        stored.create(f"session {number}")
    stored.event()
    stored.dispose(*(f"session {number}" for number in range(500)))
    assert stored.snapshot() == 500
    stored.create("q")
    stored.event()
    assert stored.snapshot() == 1
    assert len(stored.head) < empty + 50
    stored.recover()
    assert stored.engine.emitted("session 7") == 2


def test_a_snapshot_has_what_was_retired_when_it_was_taken() -> None:
    """What happens while it is written is not in it."""
    stored = Stored()
    stored.create("a")
    stored.event()
    stored.dispose("a")
    snapshot = Snapshot(stored.engine, full=True)
    stored.create("a")
    stored.event()
    while not snapshot.write_some(1):
        pass
    again = stored.new()
    load(again, snapshot.chunks(), decode(encode(snapshot.header)))
    assert (again.emitted("a"), list(again.standing)) == (2, [])
    assert stored.engine.emitted("a") == 3


@pytest.mark.parametrize("name", ["top", "plan", "signature", "retired", "waiting", "subject", "inner", ""])
def test_a_query_may_be_named_as_rows_are(name: str) -> None:
    """Its groups are rows whose addresses begin with its name."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    query: Any = rx.source("n").pipe(
        rx.operators.group_by(lambda n: n % 2), rx.operators.flat_map(lambda g: g.scan(lambda a, n: a + n, 0))
    )
    engine.take(engine.creation(name, query, time=0.0))
    engine.take(Events("n", "0", 0, [1, 2], 0.0))
    engine = copy_of(engine)
    (out,) = engine.take(Events("n", "0", 2, [3, 4], 0.0))
    assert list(out.values) == [4, 6]
