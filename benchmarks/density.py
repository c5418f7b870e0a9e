"""What a standing query costs: 100,000 of them, each with its own name, over one source.

Each is `source -> where_key -> scan -> map`, written in a loop as a user would and created with `create_many`, 1,000 at
a time.

    bytes_each       growth of this process's resident memory (/proc/self/statm, after a garbage collection) divided by
                     the number of queries: when all are created, and again after a checkpoint of all; the larger
    create_us_each   writing the query and creating it, durably (each `create_many` returns after an fsync), divided
                     by their number
    route_us         an event that one query wants, the query picked at random, one event per turn, `exactly_once`:
                     2,000 turns and the flush that makes all outputs durable and visible, divided by 2,000; the
                     median of several such series
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gc
import os
import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import reliable_rx as rx
from benchmarks.measuring import Bar, Result, arguments, report, sqlite_store
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops

PORTION = 1000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

Event = tuple[int, int]


def key_of(event: Event) -> int:
    return event[0]


def add(total: int, event: Event) -> int:
    return total + event[1]


def doubled(total: int) -> int:
    return total * 2


def query(key: int) -> Any:
    """Return a query as a user writes it."""
    return rx.source("s").pipe(ops.where_key(key_of, key), ops.scan(add, 0), ops.map(doubled))


def resident_bytes() -> int:
    """Return how much memory this process has now."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES


def create(evaluator: QueryEvaluator, first: int, end: int) -> None:
    for start in range(first, end, PORTION):
        evaluator.create_many({f"query-{key}": query(key) for key in range(start, min(start + PORTION, end))})


@dataclass
class Router:
    """Feeds events to random queries and sees that each comes out."""

    evaluator: QueryEvaluator
    events: list[Event]
    count: int
    draw: random.Random

    def series(self, turns: int) -> float:
        """Return seconds per event."""
        keys = [self.draw.randrange(self.count) for _ in range(turns)]
        self.events.extend((key, 1) for key in keys)
        end = self.evaluator.events_in + turns
        began = time.perf_counter()
        while self.evaluator.events_in < end:
            self.evaluator.step()
        self.evaluator.flush()
        took = time.perf_counter() - began
        seen = self.evaluator.stream(f"query-{keys[-1]}")
        if seen.visible != seen.next_id or seen.visible == 0:
            raise SystemExit(f"the output of query-{keys[-1]} is not visible")
        return took / turns


def measure(count: int, turns: int, series: int, where: str | None) -> Result:
    events: list[Event] = []
    with sqlite_store(where) as store, QueryEvaluator(store, batch_events_max=1) as evaluator:
        evaluator.source("s", ListSource(events, follow=True))
        evaluator.create(
            "query--1", query(-1)
        )  # the plan, the store's pages, the threads: there once, whatever the count
        evaluator.start()
        evaluator.checkpoint()
        before = resident_bytes()
        create_s = timed(lambda: create(evaluator, 0, count))
        created = resident_bytes() - before
        evaluator.checkpoint()
        checkpointed = resident_bytes() - before
        router = Router(evaluator, events, count, random.Random(7))
        route_s = [router.series(turns) for _ in range(series)]
    figures: dict[str, float | None] = {
        "count": count,
        "bytes_each": max(created, checkpointed) / count,
        "create_us_each": create_s / count * 1e6,
        "route_us": statistics.median(route_s) * 1e6,
    }
    bars = [Bar("bytes_each", 1000, most=True), Bar("create_us_each", 50, most=True), Bar("route_us", 20, most=True)]
    note = f"created {created / count:,.0f} bytes each, checkpointed {checkpointed / count:,.0f}; route series: "
    return Result("standing_queries", figures, bars, note + ", ".join(f"{each * 1e6:.1f}" for each in route_s) + " us")


def timed(action: Callable[[], None]) -> float:
    gc.collect()
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> None:
    """Measure what was asked for."""
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--series", type=int, default=5)
    args = parser.parse_args()
    report([measure(args.count, args.turns, args.series, args.dir)], as_json=args.json)


if __name__ == "__main__":
    main()
