"""What it costs to open and close an inner sequence: hosted, and in `reactivex`, in the same run.

Both sides take the same events through the same operator; the cost of the same events through a `map` is taken off
each. Hosted is the engine without the disk, fed ten events a turn. Processor time, the median of interleaved rounds; a
ratio is the median of the rounds' ratios. Four kinds of selector differ in what a host has to do for an element:

    list         returns values, which need no row and no subscription
    shared plan  returns one and the same query each time, which the next element ends
    new query    returns another query for each element, which the next element ends
    new, to end  the same, but each lives until its timer fires and is then over

The bar is `AT_MOST_US`. The last two miss it: `docs/performance.md` says by how much, and where the time goes.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import reactivex
from reactivex import operators as plain
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.subject import Subject

import reliable_rx as rx
from benchmarks.measuring import interleaved
from hosting.engine import QueryEngine
from hosting.turn import Events
from reliable_rx import operators as ops

Build = Callable[[Any, Any, Any], Any]
TURN, STEP_S, AT_MOST_US = 10, 0.001, 10.0


def same(value: Any) -> Any:
    return value


def one_for_all(o: Any, r: Any, s: Any) -> Any:
    never = r.never()
    return s.pipe(o.switch_map(lambda n: never))


TRIVIAL: Build = lambda o, r, s: s.pipe(o.map(same))  # noqa: E731
KINDS: dict[str, Build] = {
    "list": lambda o, r, s: s.pipe(o.flat_map(lambda n: r.of(n))),
    "shared plan": one_for_all,
    "new query": lambda o, r, s: s.pipe(o.switch_map(lambda n: r.timer(5.0).pipe(o.map(lambda _: n)))),
    "new, to end": lambda o, r, s: s.pipe(o.flat_map(lambda n: r.timer(STEP_S).pipe(o.map(lambda _: n)))),
}


def hosted(build: Build, count: int) -> float:
    """Return the microseconds per event in an engine."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    engine.take(engine.creation("q", build(ops, rx, rx.source("s")), time=0.0))
    turns = [
        Events("s", "0", first, list(range(first, first + TURN)), first * STEP_S) for first in range(0, count, TURN)
    ]
    began = time.process_time()
    for turn in turns:
        engine.take(turn)
    return (time.process_time() - began) / count * 1e6


def pushed(build: Build, count: int) -> float:
    """Return the microseconds per event in `reactivex`."""
    subject: Subject[int] = Subject()
    clock = VirtualTimeScheduler(0.0)
    build(plain, reactivex, subject).subscribe(same, same, lambda: None, scheduler=clock)
    began = time.process_time()
    for first in range(0, count, TURN):
        clock.advance_to((first + 1) * STEP_S)
        for n in range(first, first + TURN):
            subject.on_next(n)
    return (time.process_time() - began) / count * 1e6


def measure(build: Build, events: int, rounds: int) -> dict[str, float]:
    """Return the medians for one kind."""
    sides = {
        "hosted": lambda: hosted(build, events),
        "hosted, trivial": lambda: hosted(TRIVIAL, events),
        "reactivex": lambda: pushed(build, events),
        "reactivex, trivial": lambda: pushed(TRIVIAL, events),
    }
    gc.collect()
    times = interleaved(sides, rounds=rounds, budget_s=120.0)
    here, there = (
        [full - empty for full, empty in zip(times[side], times[f"{side}, trivial"], strict=True)]
        for side in ("hosted", "reactivex")
    )
    return {
        "hosted_us": statistics.median(here),
        "reactivex_us": statistics.median(there),
        "times": statistics.median(b / a for a, b in zip(here, there, strict=True)),
    }


def spoken(kind: str, figures: dict[str, float]) -> str:
    """Return one line of the table."""
    late = f"  > {AT_MOST_US:g} µs" if figures["hosted_us"] > AT_MOST_US else ""
    return (
        f"inner sequence, {kind:16}{figures['hosted_us']:8.1f} µs hosted{figures['reactivex_us']:8.1f} µs reactivex"
        f"{figures['times']:8.1f} × as fast{late}"
    )
