"""State of keyed queries on the move: from an evaluator into buckets and on into another evaluator, nothing lost."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lanes import at_each_commit, every
from test_spark_keyed import GROUPED, Event, by_key, events

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused, QueryRefused
from spark_bridge.keyed import Arrivals, Bucket, KeyedQuery
from spark_bridge.keyed.joining import Joined, put_together
from spark_bridge.keyed.moving import cut_out, for_key, name_for

LATENESS_S = 3.0
Queries = dict[str, rx.Query[Any]]


def stamp(event: Event) -> float:
    return event[1]


def key_of(event: Event) -> str:
    return event[0]


CLOCK = rx.event_time(stamp, lateness_s=LATENESS_S)
BEFORE = {"n": {"0": 0}}


def in_evaluator(
    folder: Path, queries: Queries, told: Sequence[Event], *, event_time: bool, done: bool = False
) -> dict[str, list[tuple[int, list[Any]]]]:
    """Let an evaluator take events, one at a time, and leave a checkpoint; return what its streams hold, with ids."""
    now = [0.0]
    store = SqliteStore(folder)
    with QueryEvaluator(store, background=False, clock=lambda: now[0]) as evaluator:
        pushed = evaluator.push("n")
        for name, query in queries.items():
            evaluator.create(name, query, clock=CLOCK if event_time else None)
        for event in told:
            now[0] = event[1]
            pushed.on_next(event)
            while evaluator.step():
                pass
        if done:
            pushed.on_completed()
            while evaluator.step():
                pass
        streams = {name: evaluator.stream(name) for name in queries}
        found = {
            name: [(part.first, list(part.values)) for part in stream.read(stream.first, 100_000)]
            for name, stream in streams.items()
        }
    store.close()
    return found


def values_of(found: dict[str, list[tuple[int, list[Any]]]]) -> list[str]:
    return sorted(repr(value) for parts in found.values() for _, values in parts for value in values)


def in_bucket(bucket: Bucket, told: Sequence[Event], *, high: float) -> tuple[dict[str, list[Any]], Bucket]:
    """Let a bucket take events, some at a time and in no order, through bytes after each batch."""
    chance, heard = random.Random(3), defaultdict(list)
    on_event_time, rest = bucket.query.event_time, list(enumerate(told))
    while rest or on_event_time:
        size = chance.randrange(1, 4) if on_event_time else 1
        batch, rest = rest[:size], rest[size:]
        chance.shuffle(batch)
        arrivals = Arrivals([e[0] for _, e in batch], [n for n, _ in batch], [e for _, e in batch])
        arrivals.times = [event[1] for _, event in batch]
        time = high - LATENESS_S if on_event_time else batch[0][1][1]
        for key, number, kind, value in bucket.take(arrivals, time=time).rows():
            assert kind == "next"
            heard[key].append((number, value))
        bucket = Bucket(bucket.query, bucket.blob())
        high = max(high, *arrivals.times, 0.0)
        if not batch:  # the batch without rows in which Spark tells how far the watermark has come
            break
    return heard, bucket


EVENT_TIME = pytest.mark.parametrize("event_time", [at_each_commit(False), True], ids=["time of batches", "event time"])


@EVENT_TIME
@pytest.mark.parametrize("name", [at_each_commit(name) if n % 4 else name for n, name in enumerate(GROUPED)])
def test_groups_move_both_ways(name: str, event_time: bool, tmp_path: Path) -> None:
    """Evaluator, then a bucket, then another evaluator: together they emit what one evaluator does for all events."""
    query, told = GROUPED[name], events(7)
    keyed = KeyedQuery(query, event_time=event_time)
    first = in_evaluator(tmp_path / "before", {"q": query}, told[:20], event_time=event_time)
    with SqliteStore(tmp_path / "before") as store:
        bucket = cut_out(store, "q", keyed)
    assert bool(bucket.waiting) == event_time
    heard, bucket = in_bucket(bucket, told[20:40], high=told[19][1])
    with SqliteStore(tmp_path / "after") as store:
        clock = CLOCK if event_time else None
        joined = put_together([bucket.blob()], store, "q", keyed, positions=BEFORE, clock=clock)
    last = in_evaluator(tmp_path / "after", {"q": query}, told[40:], event_time=event_time, done=event_time)
    whole = in_evaluator(tmp_path / "whole", {"q": query}, told, event_time=event_time, done=event_time)
    between = [repr(value) for each in heard.values() for _, value in each]
    assert sorted([*values_of(first), *between, *values_of(last)]) == values_of(whole)
    check_ids(first["q"], heard, joined, last["q"])


def check_ids(first: list[Any], heard: dict[str, list[Any]], joined: Joined, last: list[Any]) -> None:
    """Every key's ids go on where the stream's had come to, and the stream's behind all of theirs."""
    begin = sum(len(values) for _, values in first)
    for each in heard.values():
        assert [number for number, _ in each] == list(range(begin, begin + len(each)))
    assert joined.ended == []
    assert joined.next_id == max([begin, *(each[-1][0] + 1 for each in heard.values())])
    assert not last or last[0][0] == joined.next_id


def test_a_new_key_begins_behind_the_stream(tmp_path: Path) -> None:
    """A key that the evaluator has never seen has ids above all that the evaluator has given."""
    query = GROUPED["scan"]
    first = in_evaluator(tmp_path / "s", {"q": query}, [("a", 1.0, 1), ("b", 2.0, 2)], event_time=False)
    with SqliteStore(tmp_path / "s") as store:
        bucket = cut_out(store, "q", KeyedQuery(query))
    heard, _ = in_bucket(bucket, [("new", 3.0, 4), ("a", 3.0, 4)], high=2.0)
    assert sum(len(values) for _, values in first["q"]) == 2
    assert [(key, number) for key, each in heard.items() for number, _ in each] == [("new", 2), ("a", 2)]


# -- queries that are written for one key

N = rx.source("n").map(lambda event: event[2])
PER_KEY: Queries = {
    "a chain": N.scan(lambda a, b: a * 3 + b, 1),
    "windows": N.window_with_count(2).flat_map(lambda w: w.pipe(ops.to_list())),
    "settled": N.debounce(1.5),
    "read twice": N.zip(N.skip(1)),
    "with itself": N.pipe(ops.with_latest_from(N.pipe(ops.filter(lambda n: n % 2)))),
}


@EVENT_TIME
@pytest.mark.parametrize("name", every(3, PER_KEY))
def test_queries_for_one_key_move_both_ways(name: str, event_time: bool, tmp_path: Path) -> None:
    """A standing query for each key goes into a bucket and comes back, with its ids and its waiting events."""
    query, told = PER_KEY[name], events(11)
    keyed = KeyedQuery(query, per_key=True, event_time=event_time)
    queries = {name_for("q", key): for_key(query, key_of, key) for key in "abcde"}
    first = in_evaluator(tmp_path / "before", queries, told[:20], event_time=event_time)
    with SqliteStore(tmp_path / "before") as store:
        bucket = cut_out(store, "q", keyed, key_mapper=key_of)
    heard, bucket = in_bucket(bucket, told[20:40], high=told[19][1])
    with SqliteStore(tmp_path / "after") as store:
        clock = CLOCK if event_time else None
        joined = put_together([bucket.blob()], store, "q", keyed, positions=BEFORE, clock=clock, key_mapper=key_of)
    last = in_evaluator(tmp_path / "after", queries, told[40:], event_time=event_time, done=event_time)
    whole = in_evaluator(tmp_path / "whole", queries, told, event_time=event_time, done=event_time)
    assert joined == Joined()
    for each in queries:
        rows = [*numbered(first[each]), *heard.get(each[-1], []), *numbered(last[each])]
        assert rows == numbered(whole[each]), each


def numbered(parts: list[tuple[int, list[Any]]]) -> list[tuple[int, Any]]:
    return [(first + place, value) for first, values in parts for place, value in enumerate(values)]


def test_a_key_that_has_ended_keeps_its_ids(tmp_path: Path) -> None:
    """A query that has ended on Spark is none in the evaluator, and one of its name goes on with its ids."""
    query = KeyedQuery(rx.source("n").map(lambda event: event[2]).take(1), per_key=True)
    bucket = Bucket(query)
    assert len(bucket.take(Arrivals(["a"], [0], [("a", 0.0, 1)]), time=0.0).ids) == 2
    with SqliteStore(tmp_path / "s") as store:
        joined = put_together([bucket.blob()], store, "q", query, positions=BEFORE, key_mapper=key_of)
    assert joined.ended == ["a"]
    again = {name_for("q", "a"): for_key(query.query, key_of, "a")}
    assert in_evaluator(tmp_path / "s", again, [("a", 1.0, 7)], event_time=False) == {"q/a": [(2, [7])]}


# -- what is refused


def test_what_cannot_move_is_refused(tmp_path: Path) -> None:
    """Another query, a missing clock or key, a store in use, a source that selectors read: refused with what to do."""
    query = by_key(lambda g: g.pipe(ops.count()))
    in_evaluator(tmp_path / "s", {"q": query}, [("a", 1.0, 1)], event_time=False)
    bucket = Bucket(KeyedQuery(query)).blob()
    with SqliteStore(tmp_path / "s") as store:
        with pytest.raises(CheckpointRefused, match="another query"):
            cut_out(store, "q", KeyedQuery(GROUPED["scan"]))
        with pytest.raises(CheckpointRefused, match="no running query 'r'"):
            cut_out(store, "r", KeyedQuery(query))
        with pytest.raises(CheckpointRefused, match="store is not empty"):
            put_together([bucket], store, "q", KeyedQuery(query), positions=BEFORE)
        with pytest.raises(QueryRefused, match="key_mapper"):
            cut_out(store, "q", KeyedQuery(N.count(), per_key=True))
    hidden = KeyedQuery(N.flat_map(lambda n: rx.source("m").take(n)), per_key=True, reads=("m",))
    with SqliteStore(tmp_path / "t") as store:
        with pytest.raises(QueryRefused, match="clock=event_time"):
            put_together([], store, "q", KeyedQuery(query, event_time=True), positions=BEFORE)
        with pytest.raises(QueryRefused, match="'m'"):
            put_together([], store, "q", hidden, positions={**BEFORE, "m": {"0": 0}}, key_mapper=key_of)
