"""One query, three ways to run it: un-hosted `reactivex`, an embedded evaluator, and Spark; and Spark's own SQL.

Frames that are no streams end, so each query here is one run of Spark over all its keys.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.query.piping import compose
from reliable_rx.testing import Timed
from reliable_rx.testing.marbles import COMPLETED, NEXT
from reliable_rx.testing.openings import MomentScheduler, opening_in_moments
from reliable_rx.testing.virtual_time import hot_sources
from spark_bridge import run_on_spark

Event = tuple[int, str, float, int]  # sequence id, key, time, value
Step = Callable[[Any], Any]
HORIZON_S = 30.0
KEYS = "abcdef"
SCHEMA = "n long, k string, t double, v long"


def chosen(chance: random.Random) -> Callable[[Any], Any]:
    """Return what some operators in a row do to numbers."""
    n, seconds = chance.randrange(1, 4), chance.choice((1.5, 2.7, 4.1))
    steps: list[Step] = [
        ops.map(lambda a: a + n),
        ops.filter(lambda a: a % 3 != n % 3),
        ops.scan(lambda a, b: (a * 3 + b) % 1009, n),
        ops.distinct_until_changed(),
        ops.distinct(lambda a: a % 7),
        ops.take(n + 3),
        ops.skip(n),
        ops.take_last(n),
        ops.start_with(n),
        ops.delay(seconds),
        ops.debounce(seconds),
        compose(ops.pairwise(), ops.map(sum)),
        compose(ops.buffer_with_count(n), ops.map(sum)),
        compose(ops.buffer_with_time(seconds), ops.map(len)),
        compose(ops.window_with_count(n), ops.flat_map(lambda w: w.pipe(ops.to_list(), ops.map(len)))),
        compose(ops.tumbling_window(seconds), ops.flat_map(lambda w: w.pipe(ops.sum()))),
        compose(ops.group_by(lambda a: a % 2), ops.flat_map(lambda g: g.pipe(ops.map(lambda a: a + g.key)))),
        compose(ops.time_interval(), ops.map(lambda each: round(each.interval.total_seconds() * 1000) + each.value)),
    ]  # fmt: skip
    picked = chance.sample(steps, chance.randrange(1, 4))
    return lambda source: source.pipe(*picked)


def random_query(seed: int) -> rx.Query[Any]:
    """Return a query for all events: operators without state, groups, and what `chosen` chooses in each."""
    chance = random.Random(seed)
    inside = chosen(chance)
    before = chance.choice((ops.map(lambda e: e), ops.filter(lambda e: e["v"] != 4)))
    return rx.source("s").pipe(
        before,
        ops.group_by(lambda e: e["k"]),
        ops.flat_map(lambda g: inside(g.pipe(ops.map(lambda e: e["v"])))),
        chance.choice((ops.map(lambda a: a), ops.filter(lambda a: a != 5))),
    )  # type: ignore[return-value]


def random_join(seed: int) -> rx.Query[Any]:
    """Return a query for one key that joins two sources."""
    chance = random.Random(seed)
    left, right = (chosen(chance)(rx.source(name).pipe(ops.map(lambda e: e["v"]))) for name in ("left", "right"))
    join = chance.choice((ops.with_latest_from, ops.combine_latest, ops.zip))
    return left.pipe(join(right), ops.map(lambda pair: pair[0] * 100 + pair[1]))  # type: ignore[no-any-return]


def told(seed: int, count: int = 80, keys: str = KEYS) -> list[Event]:
    """Return events, no two at one time."""
    chance = random.Random(seed)
    return [(n, chance.choice(keys), 100.0 + n * 0.37, chance.randrange(9)) for n in range(count)]


def as_row(event: Event) -> dict[str, Any]:
    return dict(zip(("n", "k", "t", "v"), event, strict=True))


def alone(query: rx.Query[Any], sources: dict[str, Sequence[Event]]) -> list[Any]:
    """Return what un-hosted `reactivex` gives for one key by the clock of its events; groups open as in a host."""
    begin = min(event[2] for events in sources.values() for event in events)
    clock, heard = MomentScheduler(begin - 1e-5), []  # what a subscription does at once is done before
    stamped = [
        [*(Timed(e[2], NEXT, as_row(e)) for e in events), Timed(events[-1][2] + 1e-5, COMPLETED, None)]
        for events in sources.values()
    ]
    streams = dict(zip(sources, hot_sources(clock, stamped), strict=True))
    with opening_in_moments(clock):
        query.bind(**streams).subscribe(heard.append, scheduler=clock)
        clock.advance_to(max(events[-1][2] for events in sources.values()) + HORIZON_S)
    return heard


def embedded(query: rx.Query[Any], sources: dict[str, Sequence[Event]]) -> list[Any]:
    """Return what an evaluator on event time emits."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        for name, events in sources.items():
            evaluator.source(name, ListSource([as_row(event) for event in events]))
        evaluator.create("q", query, clock=rx.event_time(lambda e: e["t"]))
        evaluator.run(until=lambda: evaluator.stream("q").ended)
        return [value for part in evaluator.stream("q").read(0, 100_000) for value in part.values]


def on_spark(spark: Any, query: rx.Query[Any], sources: dict[str, Sequence[Event]], **how: Any) -> dict[str, list[Any]]:
    """Return by key what Spark emits, and check its ids."""
    from pyspark.sql import functions as f

    chance, frames = random.Random(1), {}
    for name, events in sources.items():
        rows = chance.sample(list(events), len(events))
        frames[name] = spark.createDataFrame(rows, SCHEMA).withColumn(
            "at", f.timestamp_micros(f.round(f.col("t") * 1_000_000).cast("long"))
        )
    out = run_on_spark(query, frames, key="k", seq="n", emits="long", time="at", buckets=3, **how)
    heard: dict[str, list[Any]] = defaultdict(list)
    for row in sorted(out.collect(), key=lambda row: (row.k, row.id)):  # Spark would run the query once to sort it
        assert row.id == len(heard[row.k])
        heard[row.k].append(row.value if row.kind == "next" else row.kind)
    assert all(each.pop() == "completed" for each in heard.values())
    return heard


@pytest.mark.parametrize("seed", range(5))
def test_groups_are_the_same_three_ways(spark: Any, seed: int) -> None:
    """A random query gives each key what it gives un-hosted and embedded for the events of that key."""
    query, events = random_query(seed), told(seed)
    heard = on_spark(spark, query, {"s": events})
    for key in sorted({event[1] for event in events}):
        mine = {"s": [event for event in events if event[1] == key]}
        assert heard[key] == embedded(query, mine) == alone(query, mine), key


@pytest.mark.parametrize("seed", range(3))
def test_joins_are_the_same_three_ways(spark: Any, seed: int) -> None:
    """A random query over two sources of one key gives the same un-hosted, embedded, and for each key on Spark."""
    query, events = random_join(seed), told(seed + 100)
    sources = {"left": events[::2], "right": events[1::2]}
    heard = on_spark(spark, query, sources, per_key=True)
    for key in sorted({e[1] for e in sources["left"]} & {e[1] for e in sources["right"]}):
        mine = {name: [event for event in each if event[1] == key] for name, each in sources.items()}
        assert heard[key] == embedded(query, mine) == alone(query, mine), key


# -- Spark's own SQL


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def grouped(inside: Callable[[Any], Any]) -> rx.Query[Any]:
    return rx.source("s").pipe(ops.group_by(lambda e: e["k"]), ops.flat_map(inside))  # type: ignore[return-value]


def test_counts_and_sums_are_those_of_sql(spark: Any) -> None:
    """Spark's aggregation and a reduce per key say the same."""
    from pyspark.sql import functions as f

    frame = spark.createDataFrame(told(1, 300), SCHEMA)
    totals = grouped(lambda g: g.pipe(ops.reduce(lambda a, e: (a[0] + 1, a[1] + e["v"]), (0, 0))))
    ours = run_on_spark(totals, frame, key="k", seq="n", emits="c long, s long").where("kind = 'next'")
    assert rows(ours.select("k", "c", "s")) == rows(frame.groupBy("k").agg(f.count("*"), f.sum("v")))


def test_windows_are_those_of_sql(spark: Any) -> None:
    """Tumbling, sliding and session windows of event time hold what Spark's own hold."""
    from pyspark.sql import functions as f

    events = [event for event in told(2, 300) if event[0] % 17 < 9]  # with gaps that end sessions
    frame = spark.createDataFrame(events, SCHEMA).withColumn("at", f.timestamp_seconds("t"))
    windows = {
        "tumbling": (ops.tumbling_window(5.0), f.window("at", "5 seconds")),
        "sliding": (ops.sliding_window(6.0, 2.0), f.window("at", "6 seconds", "2 seconds")),
        "session": (ops.window_with_inactivity(3.0), f.session_window("at", "3 seconds")),
    }
    for name, (window, sql) in windows.items():
        query = grouped(lambda g, window=window: g.pipe(window, ops.flat_map(lambda w: w.pipe(ops.count()))))
        ours = run_on_spark(query, frame, key="k", seq="n", time="at", emits="c long").where("c > 0")
        assert rows(ours.select("k", "c")) == rows(frame.groupBy("k", sql).count().select("k", "count")), name


# -- what rows hold

NOON = datetime(2026, 7, 1, 12, 30, tzinfo=UTC)
TYPES = (
    "n long, k decimal(9,2), at timestamp, wall timestamp_ntz, day date, price decimal(20,3), raw binary, ok boolean, "
    "list array<int>, times array<timestamp>, record struct<a: long, at: timestamp>, named map<string, decimal(5,2)>"
)
VALUES = (
    Decimal("1.50"), NOON, NOON.replace(tzinfo=None), NOON.date(), Decimal("12345678901234567.891"), b"\0", True,
    [1, None], [NOON, None], {"a": 1, "at": NOON + timedelta(microseconds=1)}, {"x": Decimal("2.50"), "y": None},
)  # fmt: skip


def test_every_type_comes_in_and_goes_out(spark: Any) -> None:
    """Arrays, maps, structs, decimals, instants and nulls are plain values in events, and columns of what comes out."""
    names = TYPES.split(", ", 1)
    frame = spark.createDataFrame([(1, *VALUES), (2, VALUES[0], *[None] * (len(VALUES) - 1))], TYPES)
    wanted = dict(zip(frame.columns[1:], VALUES, strict=True))

    def seen(event: dict[str, Any]) -> dict[str, Any]:
        if event["n"] == 1 and {name: event[name] for name in wanted} != wanted:
            raise ValueError(f"{event} is not {wanted}")
        return {name: value for name, value in event.items() if name not in ("n", "k")}

    query = rx.source("s").pipe(ops.group_by(lambda e: e["k"]), ops.flat_map(lambda g: g.pipe(ops.map(seen))))
    emits = names[1].split(", ", 1)[1]
    out = run_on_spark(query, frame, key="k", seq="n", emits=emits)
    assert [field.simpleString() for field in out.schema][3:-1] == [each.simpleString() for each in frame.schema][2:]
    kept = sorted(out.where("kind = 'next'").collect(), key=lambda row: row.id)
    assert [row[3:-1] for row in kept] == [row[2:] for row in sorted(frame.collect())]
