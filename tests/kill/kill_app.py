"""A process that hosts queries over a store in the folder it is given, until its sources end or somebody kills it.

Two inputs: a generator on event time, in two partitions, and a pushed stream that a thread of this process feeds. Five
queries, three of them into JSON lines and two into SQLite tables. It says ``pushed n`` when the store has acknowledged
value *n*, and ``done`` with what it recovered.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import GeneratorSource, JsonLinesSink, QueryEvaluator, SqliteTableSink
from reliable_rx import operators as ops
from reliable_rx.errors import StoreUnavailable
from reliable_rx.testing.faults import arm_from_environment

EVENTS = 20_000
PUSHED = 150
KEYS = 7

QUERIES: dict[str, Any] = {
    "worst": rx.source("made").pipe(
        ops.group_by(lambda e: e["key"]),
        ops.flat_map(lambda g: g.pipe(ops.scan(lambda a, e: max(a, e["size"]), 0), ops.distinct_until_changed())),
    ),
    "windows": rx.source("made").pipe(
        ops.window_with_time(97.0), ops.flat_map(lambda w: w.pipe(ops.map(lambda e: e["size"]), ops.sum()))
    ),
    "quiet": rx.source("made").pipe(ops.filter(lambda e: e["key"] == 3), ops.debounce(11.5), ops.map(lambda e: e["n"])),
    "totals": rx.source("pushed").pipe(ops.scan(lambda total, value: total + value, 0)),
    "over": rx.source("totals").pipe(ops.pairwise(), ops.map(lambda pair: pair[1] - pair[0])),
}  # fmt: skip


def made(i: int, random: Any) -> dict[str, int]:
    return {"n": i, "key": random.randrange(KEYS), "size": random.randrange(1_000_000)}


def say(*words: Any) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def feed(pushed: Any) -> None:
    """Push what is not in yet; the log itself knows how far we were."""
    while pushed.end < PUSHED:
        try:
            pushed.on_next(pushed.end)
        except StoreUnavailable:
            continue
        say("pushed", pushed.end - 1)
    while pushed.end == PUSHED:
        try:
            pushed.on_completed()
        except StoreUnavailable:
            continue


def evaluator_in(folder: Path, store: SqliteStore) -> tuple[QueryEvaluator, Any]:
    evaluator = QueryEvaluator(
        store, checkpoint_interval_s=0.02, checkpoint_events=300, batch_events_max=20, full_every=4
    )
    source = GeneratorSource(made, partitions=2, count=EVENTS // 2, seed=11, timestamp=lambda e: e["n"] * 1.0)
    evaluator.source("made", source)
    pushed = evaluator.push("pushed")
    for name, query in QUERIES.items():
        evaluator.create(name, query)
    for name in ("worst", "quiet", "over"):
        evaluator.sink(name, JsonLinesSink(folder / f"{name}.jsonl"))
    for name in ("windows", "totals"):
        evaluator.sink(name, SqliteTableSink(folder / "tables.db", name))
    return evaluator, pushed


def main(folder: Path) -> None:
    arm_from_environment()
    with SqliteStore(folder / "store") as store:
        evaluator, pushed = evaluator_in(folder, store)
        with evaluator:
            evaluator.start()
            feeder = threading.Thread(target=feed, args=(pushed,), daemon=True)
            feeder.start()
            evaluator.run()
            feeder.join()
            say("done", evaluator.recovery)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
