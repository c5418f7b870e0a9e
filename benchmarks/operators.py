"""What an event costs in every operator: hosted in batches, un-hosted, and in `reactivex`, in the same run.

All three run the same build with the same functions. Un-hosted and `reactivex` are pushed through a `Subject`, in
virtual time (the clock goes on one second per event for the operators of time), into an observer that does nothing.
Hosted is the engine with turns of 1,000 events, without the disk: `throughput.py` has that. Each figure is processor
time per event, the median of interleaved rounds; a ratio is the median of the rounds' ratios.

    unhosted      time un-hosted over reactivex's: at most 1.3
    hosted        how many times as fast hosted is: at least 2 for linear operators, 5 for higher-order ones

Behind the table: what opening and closing an inner sequence costs, which is at most 10 µs (`inner` says how).

    python benchmarks/operators.py [--only NAME] [--events 20000] [--rounds 5] [--json]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import gc
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import reactivex
from reactivex import operators as plain
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.subject import Subject

import reliable_rx as rx
from benchmarks import inner
from benchmarks.measuring import arguments
from benchmarks.operator_table import HIGHER, LINEAR, ROWS, TIMED, Row
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events
from reliable_rx import operators as ops

BATCH = 1000
UNHOSTED_MOST = 1.3
HOSTED_LEAST = {LINEAR: 2.0, HIGHER: 5.0}
HELD_TO_FIVE = (
    "flat_map, lists", "buffer_with_count", "window_with_count", "switch_map", "group_by, 10 groups",
    "distinct, all new",
)  # fmt: skip


def ignore(_: Any = None) -> None: ...


def pushed(row: Row, operators: Any, creation: Any, count: int) -> float:
    """Return the nanoseconds per event through a `Subject`."""
    subject: Subject[int] = Subject()
    clock = VirtualTimeScheduler(0.0)
    row.build(operators, creation, subject).subscribe(ignore, ignore, ignore, scheduler=clock)
    clock.advance_to(0.25)
    timed, push = row.kind == TIMED, subject.on_next
    gc.collect()
    began = time.process_time()
    if timed:
        for n in range(count):
            clock.advance_to(n + 1.0)
            push(n)
    else:
        for n in range(count):
            push(n)
    return (time.process_time() - began) / count * 1e9


def hosted(row: Row, count: int) -> float:
    """Return the nanoseconds per event in an engine."""
    engine = QueryEngine()
    engine.declare("s", ["0"], timestamp=(lambda n: n + 1.0) if row.kind == TIMED else None)
    engine.take(engine.creation("q", row.build(ops, rx, rx.source("s")), time=0.0))
    turns = [
        Events("s", "0", first, list(range(first, min(count, first + BATCH))), 1.0) for first in range(0, count, BATCH)
    ]
    gc.collect()
    began = time.process_time()
    for turn in turns:
        engine.take(turn)
    return (time.process_time() - began) / count * 1e9


def measure(row: Row, events: int, rounds: int) -> dict[str, float]:
    """Return the medians for one operator."""
    count = max(BATCH, int(events * row.share))
    sides = {
        "reactivex": lambda: pushed(row, plain, reactivex, count),
        "unhosted": lambda: pushed(row, ops, rx, count),
        "hosted": lambda: hosted(row, count),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for number in range(rounds):
        for name in names[number % 3 :] + names[: number % 3]:
            times[name].append(sides[name]())
    median = {name: statistics.median(each) for name, each in times.items()}
    ratio = [b / a for a, b in zip(times["reactivex"], times["unhosted"], strict=True)]
    speedup = [a / b for a, b in zip(times["reactivex"], times["hosted"], strict=True)]
    return {
        "reactivex_ns": median["reactivex"],
        "unhosted_ns": median["unhosted"],
        "hosted_ns": median["hosted"],
        "unhosted": statistics.median(ratio),
        "hosted": statistics.median(speedup),
    }


def missed(name: str, row: Row, figures: dict[str, float]) -> str:
    """Say which bars an operator misses."""
    words = []
    if figures["unhosted"] > UNHOSTED_MOST:
        words.append(f"un-hosted > {UNHOSTED_MOST}")
    least = HOSTED_LEAST.get(row.kind, 0.0) if row.kind == LINEAR or name in HELD_TO_FIVE else 0.0
    if figures["hosted"] < least:
        words.append(f"hosted < {least:g}")
    return ", ".join(words)


def spoken(name: str, row: Row, figures: dict[str, float], form: str) -> str:
    """Return one line of the table."""
    if form == "json":
        return json.dumps({"name": name, "kind": row.kind, **{k: float(f"{v:.4g}") for k, v in figures.items()}})
    ns = [f"{figures[key]:,.0f}" for key in ("reactivex_ns", "unhosted_ns", "hosted_ns")]
    if form == "markdown":
        return f"| {name} | {row.kind} | {' | '.join(ns)} | {figures['unhosted']:.2f} | {figures['hosted']:.1f} |"
    widths = "".join(text.rjust(width) for text, width in zip(ns, (10, 10, 8), strict=True))
    ratios = f"{figures['unhosted']:7.2f}{figures['hosted']:8.1f}"
    return f"{name:32}{row.kind:16}{widths}    {ratios}  {missed(name, row, figures)}"


COLUMNS = (
    "operator",
    "kind",
    "reactivex, ns",
    "un-hosted, ns",
    "hosted, ns",
    "un-hosted / reactivex",
    "hosted: × as fast",
)
HEADS = {
    "json": "",
    "markdown": f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}",
    "text": f"{'operator':32}{'kind':16}{'reactivex':>10}{'un-hosted':>10}{'hosted':>8} ns {'ratio':>7}{'times':>8}",
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = arguments(__doc__)
    parser.add_argument("--only", help="measure the operators whose name contains this")
    parser.add_argument("--events", type=int, default=20_000, help="events for a cheap operator (default 20,000)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--markdown", action="store_true", help="print the table for the documentation")
    options = parser.parse_args(argv)
    form = "json" if options.json else "markdown" if options.markdown else "text"
    rows = {name: row for name, row in ROWS.items() if options.only is None or options.only in name}
    if HEADS[form]:
        print(HEADS[form])
    misses = []
    for name, row in rows.items():
        figures = measure(row, options.events, options.rounds)
        if missed(name, row, figures):
            misses.append(name)
        print(spoken(name, row, figures, form), flush=True)
    for name, kind in inner.KINDS.items() if options.only in (None, "inner") else ():
        opened = inner.measure(kind, max(BATCH, options.events // 4), options.rounds)
        line = json.dumps({"name": f"inner sequence, {name}", **opened}) if options.json else inner.spoken(name, opened)
        print(line, flush=True)
    if form == "text":
        print(f"{len(rows)} operators; a bar is missed by {', '.join(misses) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
