"""Evaluators in processes that run one after the other, joined by a stream in the first one's store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.store import Store
from hosting import CallbackSink, ListSource, QueryEvaluator, StoredStreamSource
from hosting.sources.stored import is_ended
from reliable_rx import operators as ops
from reliable_rx.errors import PositionUnavailable

COUNT = 900


def write(store: Store, values: list[int], *, crash: bool = False) -> None:
    """Run the first evaluator over *values*; a crash leaves what the last checkpoint has."""
    writer = QueryEvaluator(store, batch_events_max=50, retain_events=10, checkpoint_interval_s=3600, background=False)
    writer.source("n", ListSource(values, follow=True))
    writer.create("sums", rx.source("n").pipe(ops.scan(lambda a, n: a + n, 0)))
    writer.start()
    while writer.step():
        if writer.engine.number % 5 == 0:
            writer.checkpoint()
    if not crash:
        writer.checkpoint()
    writer.close()


def read(store: SqliteStore, own: SqliteStore, got: list[tuple[int, Any]]) -> None:
    """Run the second evaluator over all that the first has left."""
    source = StoredStreamSource(store, "sums", subscriber="reader")
    with QueryEvaluator(own, background=False) as reader:
        reader.source("sums", source)
        reader.create("tens", rx.source("sums").pipe(ops.map(lambda n: n * 10)))
        reader.sink("tens", CallbackSink(lambda n, value: got.append((n, value))))
        reader.run(until=source.is_drained)
        while reader.step():
            pass


def test_a_stream_without_a_value_begins_at_0() -> None:
    """There is no id before somebody has written."""
    source = StoredStreamSource(MemoryStore(), "sums", subscriber="reader")
    with closing(source.open("0", 0)) as reader:
        assert reader.fetch(1).values == ()
    with pytest.raises(PositionUnavailable, match="ids 0 to 0 of stream 'sums', not 1"):
        source.open("0", 1)


@pytest.mark.parametrize("crash", [False, True])
def test_two_evaluators_in_turn_lose_nothing(tmp_path: Path, crash: bool) -> None:
    """The reader gets every value once and in order, whether the writer stopped or died between its turns."""
    got: list[tuple[int, Any]] = []
    with SqliteStore(tmp_path / "first") as store:
        store.acknowledge("sums", "reader", -1)
    for round_end in range(COUNT // 3, COUNT + 1, COUNT // 3):
        values = list(range(round_end))
        with SqliteStore(tmp_path / "first") as store:
            write(store, values, crash=crash and round_end < COUNT)
        with SqliteStore(tmp_path / "first") as store, SqliteStore(tmp_path / "second") as own:
            read(store, own, got)
    assert [value for _, value in got] == [10 * sum(range(n + 1)) for n in range(COUNT)]
    assert [n for n, _ in got] == list(range(COUNT))


def test_the_writer_keeps_what_the_reader_has_not_acknowledged(tmp_path: Path) -> None:
    """A reader that came once is kept for: what it has not acknowledged stays, what it has may go."""
    with SqliteStore(tmp_path / "first") as store:
        store.acknowledge("sums", "reader", -1)
        write(store, list(range(20)))
        store.acknowledge("sums", "reader", 4)
        write(store, list(range(500)))
        bounds = store.bounds("sums")
        assert bounds is not None
        assert bounds[0] <= 5
        store.acknowledge("sums", "reader", 499)
        write(store, list(range(2000)))
        later = store.bounds("sums")
        assert later is not None
        assert later[0] > 5


def test_reading_draws_no_more_than_is_asked_for() -> None:
    """One value out of a long stream costs a segment or two, and not all that the store has behind it."""
    store = MemoryStore()
    store.acknowledge("sums", "reader", -1)
    write(store, list(range(COUNT)))
    drawn = 0
    outputs = store.outputs

    def counted(*arguments: Any) -> Any:
        nonlocal drawn
        for each in outputs(*arguments):
            drawn += 1
            yield each

    store.outputs = counted  # type: ignore[method-assign]
    reader = StoredStreamSource(store, "sums", subscriber="reader").open("0", 0)
    assert len(reader.fetch(1).values) == 1
    assert drawn <= 2


def test_the_end_comes_through_the_store(tmp_path: Path) -> None:
    """The terminal notification has an id and is read like any other."""
    with SqliteStore(tmp_path / "first") as store:
        with QueryEvaluator(store, background=False) as writer:
            writer.source("n", ListSource([1, 2, 3]))
            writer.create("sums", rx.source("n").pipe(ops.scan(lambda a, n: a + n, 0)))
            writer.run()
        ended: list[tuple[int, Any]] = []
        with SqliteStore(tmp_path / "second") as own, QueryEvaluator(own, background=False) as reader:
            reader.source("sums", StoredStreamSource(store, "sums", subscriber="reader"))
            reader.create("count", rx.source("sums").pipe(ops.count()))
            reader.sink("count", CallbackSink(lambda n, value: ended.append((n, value))))
            reader.run()
        assert ended == [(0, 3)]


@pytest.mark.parametrize("ends", [True, False])
def test_whether_a_stream_has_ended_is_known_after_a_restart(ends: bool) -> None:
    """`ended` reads what an earlier run has stored, if nobody has looked at the stream yet."""
    store = MemoryStore()
    for _ in range(2):
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1, 2, 3], follow=not ends))
        evaluator.create("same", rx.source("n"))
        while evaluator.step():
            pass
        assert evaluator.stream("same").ended == ends
        evaluator.checkpoint()
        evaluator.close()
        store = store.reopen()


def test_the_end_of_a_stream_without_values_is_seen() -> None:
    """Also where the terminal notification is all that there is."""
    store = MemoryStore()
    with QueryEvaluator(store, background=False) as writer:
        writer.source("n", ListSource([1, 2, 3]))
        writer.create("none", rx.source("n").pipe(ops.filter(lambda n: n > 3)))
        writer.run()
    assert [is_ended(store, "none", end) for end in (0, 1)] == [False, True]
