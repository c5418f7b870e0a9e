"""Edited queries over the state of the query before, by bucket: what is kept, what begins afresh, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
from test_spark_keyed import Event, by_key

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused
from reliable_rx.operators.contract.operator import Linear
from spark_bridge.checkpoints import check_keyed
from spark_bridge.keyed import Arrivals, Bucket, KeyedQuery

TOLD: list[Event] = [("a", 1.0, 3), ("b", 2.0, 5), ("a", 3.0, 2), ("b", 4.0, 1), ("a", 5.0, 4), ("b", 6.0, 7)]
Inside = Callable[[Any], Any]


def total(g: Any) -> Any:
    return g.pipe(ops.map(lambda e: e[2]), ops.scan(lambda a, b: a + b, 0))


def noted(g: Any) -> Any:
    return g.pipe(ops.map(lambda e: e[2] * 10), ops.map(lambda n: n + 1), ops.scan(lambda a, b: a + b, 0))


def settled(g: Any) -> Any:
    return total(g).pipe(ops.debounce(100.0), ops.pairwise())


EDITS: dict[str, tuple[Inside, Inside]] = {
    "a chain": (total, noted),
    "a chain that gets an operator": (total, lambda g: total(g).pipe(ops.pairwise())),
    "a chain that loses one": (lambda g: total(g).pipe(ops.pairwise()), total),
    "a chain that becomes more": (total, lambda g: total(g).pipe(ops.buffer_with_count(2))),
    "more that becomes a chain": (lambda g: total(g).pipe(ops.buffer_with_count(2)), total),
    "more that stays so": (
        lambda g: total(g).pipe(ops.buffer_with_count(2)),
        lambda g: noted(g).pipe(ops.window_with_count(2), ops.merge_all()),
    ),
    "an ended group": (
        lambda g: total(g).pipe(ops.take(1)),
        lambda g: total(g).pipe(ops.take(1), ops.buffer_with_count(1)),
    ),
    "a chain of fewer": (lambda g: total(g).pipe(ops.take(9)), lambda g: total(g).pipe(ops.take(2))),
    "a chain of shorter lists": (
        lambda g: g.pipe(ops.map(itemgetter(2)), ops.take_last(9)),
        lambda g: g.pipe(ops.map(itemgetter(2)), ops.take_last(1)),
    ),
    "a chain whose total is of another kind": (
        total, lambda g: g.pipe(ops.scan(lambda a, e: [*a, e[2]], list[int]())),
    ),
    "more, of shorter lists": (
        lambda g: total(g).pipe(ops.window_with_count(9), ops.merge_all(), ops.buffer_with_count(9)),
        lambda g: total(g).pipe(ops.window_with_count(2), ops.merge_all(), ops.buffer_with_count(1)),
    ),
    "nothing kept": (lambda g: g.pipe(ops.map(lambda e: e[2])), lambda g: g.pipe(ops.map(lambda e: -e[2]))),
}  # fmt: skip


def in_evaluator(before: Any, after: Any, told: Sequence[Event], at: int) -> list[str]:
    """Return what an evaluator emits whose query is edited behind *at* events."""
    there = list(told[:at])
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(there, follow=True))
        for query, more in ((before, []), (after, told[at:])):
            evaluator.create("q", query)
            there += more
            while evaluator.step():
                pass
        return sorted(repr(value) for part in evaluator.stream("q").read(0, 1000) for value in part.values)


def in_bucket(bucket: Bucket, told: Sequence[Event], first: int) -> tuple[list[tuple[str, int, Any]], bytes]:
    found = []
    for seq, event in enumerate(told, first):
        rows = bucket.take(Arrivals([event[0]], [seq], [event], times=[event[1]]), time=event[1]).rows()
        found += [(key, number, value) for key, number, _, value in rows]
    return found, bucket.blob()


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_query_goes_on_as_in_an_evaluator(name: str) -> None:
    """What has the same path and operator keeps its state, the rest begins afresh, ids go on."""
    before, after = (by_key(inside) for inside in EDITS[name])
    found, blob = in_bucket(Bucket(KeyedQuery(before)), TOLD[:3], 0)
    more, blob = in_bucket(Bucket(KeyedQuery(after), blob), TOLD[3:], 3)
    found += more
    assert sorted(repr(value) for _, _, value in found) == in_evaluator(before, after, TOLD, 3)
    for key in "ab":
        assert [number for each, number, _ in found if each == key] == list(range(sum(e[0] == key for e in found)))
    again, _ = in_bucket(Bucket(KeyedQuery(after), blob), [], 6)
    assert again == []


def test_timers_are_kept_and_set() -> None:
    """A debounce that comes with an edit waits for its first value, and one that was there still fires."""
    _, blob = in_bucket(Bucket(KeyedQuery(by_key(lambda g: total(g).pipe(ops.debounce(100.0))))), TOLD[:3], 0)
    bucket = Bucket(KeyedQuery(by_key(settled)), blob)
    assert bucket.next_wake() == 102.0
    assert not bucket.take(Arrivals([], [], []), time=110.0).ids
    assert bucket.next_wake() is None
    rows, blob = in_bucket(Bucket(bucket.query, bucket.blob()), [("a", 111.0, 1), ("b", 112.0, 1)], 3)
    assert rows == []
    bucket = Bucket(bucket.query, blob)
    out = bucket.take(Arrivals([], [], []), time=300.0)
    assert [(key, value) for key, _, _, value in out.rows()] == [("a", (5, 6)), ("b", (5, 6))]


def test_events_that_wait_are_the_edited_querys() -> None:
    """On event time, what the watermark has not passed is taken by the query that is there then."""
    query = KeyedQuery(by_key(total), event_time=True)
    bucket = Bucket(query)
    arrivals = Arrivals([e[0] for e in TOLD], [*range(6)], list(TOLD), times=[e[1] for e in TOLD])
    assert len(bucket.take(arrivals, time=0.0).ids) == 0
    assert len(bucket.take(Arrivals([], [], [], times=[]), time=3.5).ids) == 3
    edited = Bucket(KeyedQuery(by_key(noted), event_time=True), bucket.blob())
    out = edited.take(Arrivals([], [], [], times=[]), time=10.0)
    assert sorted((key, value) for key, _, _, value in out.rows()) == [("a", 46), ("b", 16), ("b", 87)]


# -- what is refused


@dataclass
class OldState:
    sum: int = 0


@dataclass
class NewState:
    total: int = 0


@dataclass(frozen=True, eq=False)
class Old(Linear, name="own_sum"):
    State = OldState

    def on_next(self, state: Any, value: Any, out: list[Any]) -> None:
        state.sum += value
        out.append(state.sum)


@dataclass(frozen=True, eq=False)
class New(Linear, name="own_sum"):
    State = NewState
    unit: int = field(default=1)

    def on_next(self, state: Any, value: Any, out: list[Any]) -> None:
        state.total += value
        out.append(state.total)


def own(op: Linear) -> Any:
    return by_key(lambda g: g.pipe(ops.map(lambda e: e[2]), op))


N = rx.source("n").map(lambda event: event[2])
TOTAL = KeyedQuery(by_key(total))
OTHERS: dict[str, tuple[KeyedQuery, KeyedQuery, str, str]] = {
    "other fields": (KeyedQuery(own(Old())), KeyedQuery(own(New())), "operator state", "/flat_map/inner/own_sum"),
    "another query": (TOTAL, KeyedQuery(by_key(lambda g: g.count())), "query", "/flat_map/inner/scan"),
    "another form": (TOTAL, KeyedQuery(N.scan(lambda a, b: a + b), per_key=True), "form", "bucket"),
    "another clock": (TOTAL, KeyedQuery(by_key(total), event_time=True), "clock", "bucket"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_cannot_go_on_is_refused(name: str) -> None:
    """State of another query, or that an operator cannot read, is refused: with the operator's path, if it is one."""
    before, after, what, where = OTHERS[name]
    _, blob = in_bucket(Bucket(before), TOLD[:3], 0)
    with pytest.raises(CheckpointRefused) as refused:
        Bucket(after, blob)
    assert (refused.value.what, refused.value.where) == (what, where)


PLACED = {"buckets": 16, "key": "k string", "events": "dict", "columns of 'n'": {"k": "string", "v": "int64"}}
CHANGES: dict[str, dict[str, Any]] = {
    "buckets": {"buckets": 8},
    "key": {"key": "k int64"},
    "columns of 'n'": {"columns of 'n'": {"k": "string", "v": "double"}},
}


@pytest.mark.parametrize("what", CHANGES)
def test_other_keys_columns_and_buckets_are_refused(what: str, tmp_path: Path) -> None:
    """A checkpoint says in what way it is another one, at start and in every bucket; a new column is no change."""
    query = KeyedQuery(by_key(total))
    blob = Bucket(query, placed=PLACED).blob()
    begun(tmp_path, query)
    for refuse in (lambda new: Bucket(query, blob, placed=new), lambda new: check_keyed(str(tmp_path), query, new)):
        with pytest.raises(CheckpointRefused, match=f"was begun with {what}") as refused:
            refuse({**PLACED, **CHANGES[what]})
        assert refused.value.what == what
        refuse({**PLACED, "columns of 'n'": {"k": "string", "v": "int64", "w": "double"}})


def begun(folder: Path, query: KeyedQuery) -> None:
    """Make *folder* the checkpoint of *query*, as it is once Spark has started it."""
    assert check_keyed(str(folder), query, PLACED) is None
    (folder / "metadata").write_text(json.dumps({"id": "7"}))


def test_a_checkpoint_tells_what_becomes_of_its_state(tmp_path: Path) -> None:
    """An edit is reported before Spark is started; another query is refused, and so is a directory used otherwise."""
    begun(tmp_path / "q", KeyedQuery(by_key(total)))
    report = check_keyed(str(tmp_path / "q"), KeyedQuery(by_key(settled)), PLACED)
    assert str(report) == "kept: /flat_map/inner/scan; fresh: /flat_map/inner/debounce, /flat_map/inner/pairwise"
    with pytest.raises(CheckpointRefused, match=r"/flat_map/inner/debounce, .*; give it a checkpoint of its own"):
        check_keyed(str(tmp_path / "q"), KeyedQuery(by_key(lambda g: g.count())), PLACED)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "metadata").write_text(json.dumps({"id": "7"}))
    with pytest.raises(CheckpointRefused, match="used without this mark"):
        check_keyed(str(tmp_path / "other"), KeyedQuery(by_key(total)), PLACED)
    assert check_keyed("s3://elsewhere/q", KeyedQuery(by_key(total)), PLACED) is None
