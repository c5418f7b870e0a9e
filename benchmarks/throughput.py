"""Events per second through hosted queries, against plain `reactivex`, a hand-written loop and Bytewax.

All sides call the same lambdas on the same events, in the same process run, in interleaved rounds (Bytewax in a process
of its own, timed from inside it, start-up not counted). `reactivex` gets the events from a list through a `Subject`,
the loop from the same list; both append each output to a list. The hosted side reads the list as a `ListSource`, with a
`SqliteStore` on disk and a checkpoint every second, and is timed from before its first event until `run` returns: then
every output is durable and visible, and the stream's last values are compared with the loop's.

    linear_batch_exactly_once     map, filter, scan, map, distinct_until_changed; batches of 1,000
    linear_single_at_least_once   the same, one event per turn (the first fifth of the events: ratios do not need more)
    group_by_1000_exactly_once    group_by 1,000 keys, scan per group, every event out; batches of 1,000

Bytewax runs with its recovery store on (epochs of a second), batches of 1,000 from a list, `key_on` and `stateful_map`.
It needs the extra `bench` (`pip install -e '.[bench]'`); without it its ratio is null.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.pop(0)  # this directory, whose checkpoint.py would hide the package of that name
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import importlib.util
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any

import reactivex
from reactivex import operators as plain

import reliable_rx as rx
from benchmarks.measuring import (
    Bar,
    Result,
    arguments,
    interleaved,
    report,
    sqlite_store,
    store_directory,
    times_as_fast,
)
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops

KEYS = 1000
TAIL = 100

raised = lambda n: n + 1  # noqa: E731 - the sides share lambdas, as users write them
kept = lambda n: n % 10 != 0  # noqa: E731
summed = lambda total, n: total + n  # noqa: E731
shown = lambda total: total // 8  # noqa: E731
key_of = lambda event: event[0]  # noqa: E731
added = lambda total, event: total + event[1]  # noqa: E731


def numbers(count: int) -> list[int]:
    """Return the events of the linear query."""
    draw = random.Random(7)
    return [draw.randrange(1000) for _ in range(count)]


def keyed(count: int) -> list[tuple[str, int]]:
    """Return the events of the grouped query: key, value."""
    draw = random.Random(7)
    keys = [f"key-{number:03}" for number in range(KEYS)]
    return [(keys[draw.randrange(KEYS)], draw.randrange(1000)) for _ in range(count)]


def linear(o: Any) -> Callable[[Any], Any]:
    """Return the linear query in the operators of *o*: ours, or those of `reactivex`."""
    return reactivex.compose(o.map(raised), o.filter(kept), o.scan(summed, 0), o.map(shown), o.distinct_until_changed())


def grouped(o: Any) -> Callable[[Any], Any]:
    """Return the grouped query in the operators of *o*."""
    return reactivex.compose(o.group_by(key_of), o.flat_map(lambda group: group.pipe(o.scan(added, 0))))


def linear_loop(events: Sequence[int], out: list[Any]) -> None:
    total, last = 0, object()
    for n in events:
        n = raised(n)
        if kept(n):
            total = summed(total, n)
            value = shown(total)
            if value != last:
                last = value
                out.append(value)


def grouped_loop(events: Sequence[tuple[str, int]], out: list[Any]) -> None:
    totals: dict[str, int] = {}
    for event in events:
        key = key_of(event)
        total = totals[key] = added(totals.get(key, 0), event)
        out.append(total)


def run_loop(loop: Callable[..., None], events: Sequence[Any]) -> float:
    out: list[Any] = []
    began = time.perf_counter()
    loop(events, out)
    return time.perf_counter() - began


def run_reactivex(query: Callable[[Any], Any], events: Sequence[Any]) -> float:
    out: list[Any] = []
    subject: reactivex.Subject[Any] = reactivex.Subject()
    subject.pipe(query).subscribe(out.append)
    began = time.perf_counter()
    for event in events:
        subject.on_next(event)
    subject.on_completed()
    return time.perf_counter() - began


def run_hosted(query: Any, events: Sequence[Any], expected: Sequence[Any], *, where: str | None, **how: Any) -> float:
    with sqlite_store(where) as store, QueryEvaluator(store, checkpoint_interval_s=1.0, **how) as evaluator:
        evaluator.source("events", ListSource(events))
        evaluator.create("out", query)
        evaluator.start()
        began = time.perf_counter()
        evaluator.run()
        took = time.perf_counter() - began
        check(evaluator, expected)
        return took


def check(evaluator: QueryEvaluator, expected: Sequence[Any]) -> None:
    """Compare the end of the stream with the loop's."""
    stream = evaluator.stream("out")
    first = max(0, len(expected) - TAIL)
    seen = [value for segment in stream.read(first, TAIL) for value in segment.values]
    if stream.visible != len(expected) + 1 or seen != list(expected[first:]):
        raise SystemExit(f"the hosted query gave {stream.visible - 1:,} outputs ending in {seen[-3:]}, which is wrong")


def run_bytewax(count: int, where: str | None) -> float:
    with store_directory(where) as path:
        side = Path(__file__).with_name("bytewax_side.py")
        done = subprocess.run([sys.executable, side, str(count), path], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the Bytewax side failed:\n{done.stderr}")
        return float(done.stdout)


def compare(
    name: str, query: Callable[[Any], Any], loop: Callable[..., None], events: Sequence[Any], args: Any,
    bars: Sequence[Bar], *, batch: int, delivery: str, bytewax: bool = False,
) -> Result:  # fmt: skip
    """Measure one row of the table."""
    expected: list[Any] = []
    loop(events, expected)
    hosted = rx.source("events").pipe(query(ops))
    how = {"where": args.dir, "batch_events_max": batch, "delivery": delivery}
    sides = {
        "hosted": lambda: run_hosted(hosted, events, expected, **how),
        "reactivex": lambda: run_reactivex(query(plain), events),
        "loop": lambda: run_loop(loop, events),
    }
    if bytewax and importlib.util.find_spec("bytewax") is not None:
        sides["bytewax"] = lambda: run_bytewax(len(events), args.dir)
    times = interleaved(sides, rounds=args.rounds, budget_s=args.budget_s / 3)
    figures: dict[str, float | None] = {"events_per_s": len(events) / statistics.median(times["hosted"])}
    figures |= {f"vs_{other}": times_as_fast(times, "hosted", other) for other in ("reactivex", "loop")}
    note = f"{len(events):,} events, {len(times['hosted'])} rounds; " + ", ".join(
        f"{side} {statistics.median(taken) / len(events) * 1e9:,.0f} ns" for side, taken in times.items()
    )
    if bytewax:
        figures["vs_bytewax"] = times_as_fast(times, "hosted", "bytewax")
        note += "" if "bytewax" in times else "; Bytewax is not installed: pip install -e '.[bench]'"
    return Result(name, figures, bars, note)


def main() -> None:
    """Measure what was asked for."""
    parser = arguments(__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--budget-s", type=float, default=100.0, help="fewer rounds rather than more seconds than this")
    parser.add_argument("--only", choices=("batch", "single", "group_by"), help="measure one row of the table")
    args = parser.parse_args()
    if args.only in (None, "batch"):
        bars = [Bar("vs_reactivex", 4.0), Bar("vs_loop", 0.5)]
        name, events = "linear_batch_exactly_once", numbers(args.events)
        result = compare(name, linear, linear_loop, events, args, bars, batch=1000, delivery="exactly_once")
        report([result], as_json=args.json)
    if args.only in (None, "single"):
        bars = [Bar("vs_reactivex", 0.6)]
        name, events = "linear_single_at_least_once", numbers(args.events)[: max(1, args.events // 5)]
        result = compare(name, linear, linear_loop, events, args, bars, batch=1, delivery="at_least_once")
        report([result], as_json=args.json)
    if args.only in (None, "group_by"):
        bars = [Bar("vs_reactivex", 3.0), Bar("vs_bytewax", 1.5)]
        how: dict[str, Any] = {"batch": 1000, "delivery": "exactly_once", "bytewax": True}
        result = compare("group_by_1000_exactly_once", grouped, grouped_loop, keyed(args.events), args, bars, **how)
        report([result], as_json=args.json)


if __name__ == "__main__":
    main()
