"""Checkpoints of 100,000 rows: the pause, the size of a differential, a full one under load, and the way back.

The rows are the groups of one query, `group_by` 100,000 keys and a scan per group, over SQLite on disk, `exactly_once`.

    pause_ms                 how long turns stand still when a checkpoint begins: the median of the differential ones
                             (1 % of the rows dirty) and that of the full ones; the larger
    differential_ratio       bytes of a differential checkpoint with 1 % of the rows dirty / bytes of a full one
    full_s                   from the beginning of a full checkpoint to its commit, while turns go on
    throughput_during_ratio  events per second while a full checkpoint is under way / in the second before it, with
                             batches of 1,000 over keys in random order
    recovery_s               a fresh evaluator over that store (a full checkpoint, a differential one, and 1 % of the
                             rows touched once more in the journal): opening the store and `start`

All are medians of several repetitions.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gc
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import reliable_rx as rx
from benchmarks.measuring import Bar, Result, arguments, report, store_directory
from checkpoint import SqliteStore
from hosting import ListSource, QueryEvaluator
from hosting.reports.statistics import CheckpointFigures
from reliable_rx import operators as ops

NEVER_S = 1e9
ENDLESS = 1 << 40


def key_of(event: tuple[int, int]) -> int:
    return event[0]


def add(total: int, event: tuple[int, int]) -> int:
    return total + event[1]


class Feed(Sequence[Any]):
    """Every key once, in random order, over and over: any 1,000 events in a row are for 1,000 rows."""

    def __init__(self, rows: int) -> None:
        self.events = [(key, 1) for key in range(rows)]
        random.Random(7).shuffle(self.events)
        self.there = 0

    def __len__(self) -> int:
        return self.there

    def __getitem__(self, index: Any) -> Any:
        start, end, _ = index.indices(self.there)
        start, count = start % len(self.events), end - start
        found = self.events[start : start + count]
        return found if len(found) == count else found + self.events[: count - len(found)]


class Hosted:
    """A store, an evaluator over it, and the query; opening it is what recovery takes."""

    def __init__(self, path: Path, feed: Feed, **how: Any) -> None:
        gc.collect()
        began = time.perf_counter()
        self.feed = feed
        self.store = SqliteStore(path)
        self.evaluator = evaluator = QueryEvaluator(self.store, **how)
        evaluator.source("events", ListSource(feed, follow=True))
        totals = ops.flat_map(lambda group: group.pipe(ops.scan(add, 0)))
        evaluator.create("totals", rx.source("events").pipe(ops.group_by(key_of), totals))
        evaluator.start()
        self.opening_s = time.perf_counter() - began

    def feed_more(self, count: int) -> None:
        """Take *count* more events, durably."""
        self.feed.there += count
        self.evaluator.run(until=lambda: self.evaluator.intake.positions()["events", "0"] == self.feed.there)

    def checkpoint(self, *, full: bool) -> CheckpointFigures:
        self.evaluator.checkpoint(full=full)
        figures = self.evaluator.statistics().checkpoint
        if figures is None or (figures.kind == "full") is not full:
            raise SystemExit(f"wanted a {'full' if full else 'differential'} checkpoint, got {figures}")
        return figures

    def close(self) -> None:
        """Leave without a checkpoint."""
        self.evaluator.close()
        self.store.close()


@dataclass
class Watch:
    """Looks on before every turn, and tells the time of full checkpoints from the time between them."""

    evaluator: QueryEvaluator
    wanted: int
    fulls: list[CheckpointFigures] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    busy: bool = False
    at: float = 0.0
    events: int = 0
    spent: list[float] = field(default_factory=lambda: [0.0, 0.0])
    taken: list[int] = field(default_factory=lambda: [0, 0])
    longest_s: float = 0.0

    def __call__(self) -> bool:
        now, events = time.perf_counter(), self.evaluator.events_in
        if self.at:
            self.spent[self.busy] += now - self.at
            self.taken[self.busy] += events - self.events
            if self.busy:
                self.longest_s = max(self.longest_s, now - self.at)
        self.at, self.events = now, events
        busy = self.evaluator.checkpointer.attempt is not None
        if self.busy and not busy:
            self.note()
        self.busy = busy
        return len(self.fulls) == self.wanted

    def note(self) -> None:
        """A checkpoint is committed."""
        figures = self.evaluator.statistics().checkpoint
        if figures is not None and figures.kind == "full" and self.taken[False]:
            between, during = (self.taken[which] / self.spent[which] for which in (False, True))
            self.fulls.append(figures)
            self.rates.append(between)
            self.ratios.append(during / between)
        self.spent, self.taken = [0.0, 0.0], [0, 0]


def at_rest(path: Path, feed: Feed, rows: int, repeats: int) -> tuple[list[CheckpointFigures], list[CheckpointFigures]]:
    """Return the figures of differential and full checkpoints with nothing else going on."""
    hosted = Hosted(path, feed, checkpoint_interval_s=NEVER_S, checkpoint_events=ENDLESS, full_every=ENDLESS)
    hosted.feed_more(rows)
    differential, full = [], []
    for _ in range(repeats):
        full.append(hosted.checkpoint(full=True))
        hosted.feed_more(rows // 100)
        differential.append(hosted.checkpoint(full=False))
    hosted.feed_more(rows // 100)
    hosted.close()
    return differential, full


def under_load(path: Path, feed: Feed, repeats: int, interval_s: float) -> Watch:
    """Take events without end, with a full checkpoint every second."""
    hosted = Hosted(path, feed, checkpoint_interval_s=interval_s, checkpoint_events=ENDLESS, full_every=0)
    watch = Watch(hosted.evaluator, repeats)
    feed.there = ENDLESS
    hosted.evaluator.run(until=watch)
    hosted.close()
    return watch


def recovery(path: Path, feed: Feed, repeats: int) -> list[float]:
    """Return how long each recovery takes; none changes the store."""
    taken = []
    for _ in range(repeats):
        hosted = Hosted(path, feed, checkpoint_interval_s=NEVER_S)
        taken.append(hosted.opening_s)
        hosted.close()
    return taken


def measure(rows: int, repeats: int, interval_s: float, where: str | None) -> Result:
    feed = Feed(rows)
    with store_directory(where) as path:
        differential, full = at_rest(path, feed, rows, repeats)
        recovering_s = recovery(path, feed, repeats)
        watch = under_load(path, feed, repeats, interval_s)
    pauses_s = [median(each.pause_s for each in group) for group in (differential, full + watch.fulls)]
    figures: dict[str, float | None] = {
        "pause_ms": max(pauses_s) * 1e3,
        "differential_ratio": median(one.bytes / all_.bytes for one, all_ in zip(differential, full, strict=True)),
        "full_s": median(each.commit_s for each in watch.fulls),
        "throughput_during_ratio": median(watch.ratios),
        "recovery_s": median(recovering_s),
    }
    bars = [
        Bar("pause_ms", 5, most=True),
        Bar("differential_ratio", 0.03, most=True),
        Bar("full_s", 3, most=True),
        Bar("throughput_during_ratio", 0.5),
        Bar("recovery_s", 3, most=True),
    ]
    note = (
        f"{rows:,} rows, {repeats} repetitions; pause {pauses_s[0] * 1e3:.2f} ms differential, "
        f"{pauses_s[1] * 1e3:.2f} full; longest turn during a full one {watch.longest_s * 1e3:.0f} ms; full at rest "
        f"{median(each.commit_s for each in full):.2f} s, {full[-1].bytes:,} bytes; "
        f"{median(watch.rates):,.0f} events/s between checkpoints"
    )
    return Result("checkpoint", figures, bars, note)


def main() -> None:
    """Measure what was asked for."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--interval-s", type=float, default=1.0, help="between full checkpoints under load")
    args = parser.parse_args()
    report([measure(args.rows, args.repeats, args.interval_s, args.dir)], as_json=args.json)


if __name__ == "__main__":
    main()
