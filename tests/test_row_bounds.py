"""What is too long for a row of the store: joined things are written apart, and what is so by itself is its query's.

The bounds are small here: SQLite's own limit is set, so that a row which is longer is refused by SQLite itself.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import SqliteStore, failures
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import LimitExceeded, QueryRefused

LONG = 100_000
SLACK = 2_000


@pytest.fixture(autouse=True)
def bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(failures, "ROW_BYTES_MAX", LONG)
    monkeypatch.setattr(failures, "ENVELOPE_BYTES_MAX", SLACK)
    monkeypatch.setattr(failures, "JOINED_BYTES_MAX", LONG // 5)
    monkeypatch.setattr("hosting.engine.records.CHUNK_BYTES_MAX", LONG // 20)
    yield


def opened(path: Path) -> SqliteStore:
    """Open a store that takes no longer rows than it says."""
    store = SqliteStore(path)
    for part in (store._parts.checkpoint, store._parts.journal, store._parts.log):
        assert part._writing is not None
        part._writing.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONG)
    return store


def hosted(store: SqliteStore, count: int, *, background: bool = False) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=background, checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource(list(range(count))))
    evaluator.create("sum", rx.source("n").pipe(ops.scan(add, 0)))
    return evaluator


def add(total: int, n: int) -> int:
    return total + n


def first_long(kept: bytes, n: int) -> bytes:
    return kept or long(n)


def kept_of(group: Any) -> Any:
    return group.pipe(ops.scan(first_long, b""), ops.last())


def of_fifty(n: int) -> int:
    return n % 50


def is_late(n: int) -> bool:
    return n >= 10


def holding(data: bytes) -> Any:
    def longer(n: int) -> int:
        return len(data) + n

    return rx.source("n").map(longer)


def values(evaluator: QueryEvaluator, name: str) -> list[Any]:
    return [value for part in evaluator.stream(name).read(0, 10_000) for value in part.values]


def long(n: int) -> bytes:
    return bytes([n]) * (LONG // 20)


def too_long_at_three(n: int) -> bytes:
    return bytes([n]) * (LONG if n == 3 else 10)


async def answer(n: int) -> bytes:
    await asyncio.sleep(0)
    return too_long_at_three(n) if n < 10 else long(n)


def check_again(path: Path, count: int, expected: dict[str, list[Any]]) -> None:
    """Open the store twice more: everything is as it was, and checkpoints go on."""
    for _ in range(2):
        with opened(path) as store, hosted(store, count) as evaluator:
            evaluator.run()
            evaluator.checkpoint(full=True)
            assert {name: values(evaluator, name) for name in expected} == expected


def test_emissions_that_are_too_long_together(tmp_path: Path) -> None:
    """Many values that are too long for one row are stored in several, in order, with their end."""
    expected = [long(n) for n in range(100)]
    with opened(tmp_path / "s") as store:
        with hosted(store, 100) as evaluator:
            evaluator.create("long", rx.source("n").map(long))
            evaluator.run()
            evaluator.checkpoint()
        assert len(list(store.outputs("long", 0))) > 10
    check_again(tmp_path / "s", 100, {"long": expected})


@pytest.mark.parametrize("crash", [False, True])
def test_a_value_that_is_too_long_is_its_querys(tmp_path: Path, crash: bool) -> None:
    """Its id is kept, the query that emitted it ends, and the one beside it goes on; so it is behind a kill."""
    with opened(tmp_path / "s") as store:
        evaluator = hosted(store, 6)
        evaluator.create("long", rx.source("n").map(too_long_at_three).pipe(ops.concat(rx.never())))
        if crash:
            evaluator.run()
            evaluator.abandon()
        else:
            with evaluator:
                evaluator.run()
                evaluator.checkpoint()
                assert evaluator.query("long").status == "failed"
                assert "id 3" in str(evaluator.query("long").error)
                assert values(evaluator, "sum") == [0, 1, 3, 6, 10, 15]
    with opened(tmp_path / "s") as store, hosted(store, 6) as evaluator:
        evaluator.run()
        evaluator.checkpoint(full=True)
        assert evaluator.query("long").status == "failed"
        assert values(evaluator, "sum") == [0, 1, 3, 6, 10, 15]
    with opened(tmp_path / "s") as store, hosted(store, 6) as evaluator:
        evaluator.run()
        assert [len(each) for each in values(evaluator, "long") if isinstance(each, bytes)] == [10] * 5


def test_states_that_are_too_long_together(tmp_path: Path) -> None:
    """Many groups whose rows are too long for one blob are stored in several."""
    with opened(tmp_path / "s") as store, hosted(store, 200) as evaluator:
        endless: Any = rx.source("n").pipe(ops.concat(rx.never()))
        evaluator.create("groups", endless.pipe(ops.group_by(of_fifty), ops.flat_map(kept_of)))
        evaluator.run(until=lambda: evaluator.events_in >= 200)
        evaluator.checkpoint()
        assert evaluator.query("groups").status != "failed"
        before = values(evaluator, "groups")
    check_again(tmp_path / "s", 200, {"groups": before, "sum": [n * (n + 1) // 2 for n in range(200)]})


def test_a_state_that_is_too_long_is_its_querys(tmp_path: Path) -> None:
    """A buffer that does not fit into a row ends its query with the limit, at a checkpoint, and no other."""
    with opened(tmp_path / "s") as store:
        evaluator = hosted(store, 100)
        evaluator.create("kept", rx.source("n").map(long).pipe(ops.concat(rx.never()), ops.buffer_with_count(1000)))
        with evaluator:
            evaluator.run(until=lambda: evaluator.events_in >= 100)
            evaluator.checkpoint()
            assert evaluator.query("kept").status == "failed" and "a state of" in str(evaluator.query("kept").error)
    check_again(tmp_path / "s", 100, {"sum": [n * (n + 1) // 2 for n in range(100)]})


@pytest.mark.parametrize("background", [False, True])
def test_answers_that_are_too_long_together(tmp_path: Path, background: bool) -> None:
    """Answers of calls fill several journal records; one that is too long by itself is refused to its query alone."""
    with opened(tmp_path / "s") as store:
        evaluator = hosted(store, 100, background=background)
        evaluator.create("fine", rx.source("n").pipe(ops.filter(is_late), ops.map_async(answer)))
        evaluator.create("fails", rx.source("n").pipe(ops.map_async(answer)))
        evaluator.run()
        assert evaluator.query("fails").status == "failed" and "LimitExceeded" in str(evaluator.query("fails").error)
        assert evaluator.query("fine").status == "completed" and len(values(evaluator, "fine")) == 90
        expected = {name: values(evaluator, name) for name in ("fine", "sum")}
        evaluator.abandon()
    check_again(tmp_path / "s", 100, expected)


def test_queries_that_are_too_long(tmp_path: Path) -> None:
    """Queries that are too long together are created, one that is too long by itself is refused."""
    many = {f"q{n}": holding(long(n)) for n in range(60)}
    with opened(tmp_path / "s") as store, hosted(store, 3) as evaluator:
        evaluator.start()
        evaluator.create_many(many)
        with pytest.raises(QueryRefused, match="a row of a store at most 100,000"):
            evaluator.create("large", holding(b"x" * LONG))
        evaluator.run()
        evaluator.checkpoint(full=True)
        assert values(evaluator, "q7") == [LONG // 20 + n for n in range(3)]


def test_an_error_that_is_too_long(tmp_path: Path) -> None:
    """A query that fails with an error which no row takes has failed with what stands for it."""

    def fails(n: int) -> int:
        raise ValueError(b"x" * LONG)

    with opened(tmp_path / "s") as store, hosted(store, 3) as evaluator:
        evaluator.create("fails", rx.source("n").map(fails))
        evaluator.run()
        evaluator.checkpoint()
    with opened(tmp_path / "s") as store, hosted(store, 3) as evaluator:
        evaluator.run()
        assert evaluator.query("fails").status == "failed"
        assert values(evaluator, "sum") == [0, 1, 3]


def test_the_limit_is_named() -> None:
    """What is too long says by how much."""
    assert isinstance(failures.too_large("here", "much"), LimitExceeded)
    assert f"{LONG:,}" in str(failures.too_large("here", "much"))
