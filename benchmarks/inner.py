"""What it costs to open and close an inner sequence: hosted, and in `reactivex`, in the same run.

Both sides take the same events through the same operator; what the same work costs without inner sequences is taken
off each: the events through a `map`, and for those that live to their end a tick of a timer through a `map` as well.
Hosted is the engine without the disk, fed ten events a turn. Processor time, the median of interleaved rounds; a ratio
is the median of the rounds' ratios. Four kinds of selector differ in what a host has to do for an element:

    list         returns values, which need no row and no subscription
    shared plan  returns one and the same query each time, which the next element ends
    new query    returns another query for each element, which the next element ends
    new, to end  the same, but each lives until its timer fires, its function is asked and its value emitted

The bar is `AT_MOST_US`. `docs/performance.md` has the figures, and says where the time goes.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import reactivex
from reactivex import operators as plain
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.subject import Subject

import reliable_rx as rx
from benchmarks.measuring import interleaved
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events
from reliable_rx import operators as ops

Build = Callable[[Any, Any, Any], Any]


class Kind(NamedTuple):
    """A query, and whether each of its inner sequences has a timer that fires."""

    build: Build
    ticks: bool = False


TURN, STEP_S, AT_MOST_US = 10, 0.001, 10.0


def same(value: Any) -> Any:
    return value


def one_for_all(o: Any, r: Any, s: Any) -> Any:
    never = r.never()
    return s.pipe(o.switch_map(lambda n: never))


PARTS = ("", ", trivial", ", ticking")
TRIVIAL: Build = lambda o, r, s: s.pipe(o.map(same))  # noqa: E731
TICKING: Build = lambda o, r, s: r.timer(STEP_S, STEP_S).pipe(o.map(same))  # noqa: E731
KINDS: dict[str, Kind] = {
    "list": Kind(lambda o, r, s: s.pipe(o.flat_map(lambda n: r.of(n)))),
    "shared plan": Kind(one_for_all),
    "new query": Kind(lambda o, r, s: s.pipe(o.switch_map(lambda n: r.timer(5.0).pipe(o.map(lambda _: n))))),
    "new, to end": Kind(
        lambda o, r, s: s.pipe(o.flat_map(lambda n: r.timer(STEP_S).pipe(o.map(lambda _: n)))), ticks=True
    ),
}


def hosted(build: Build, count: int, *, per_turn: int = TURN) -> float:
    """Return the microseconds per event in an engine; with none *per_turn*, per step of the clock."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    engine.take(engine.creation("q", build(ops, rx, rx.source("s")), time=0.0))
    turns = [
        Events("s", "0", first, list(range(first, first + per_turn)), first * STEP_S) for first in range(0, count, TURN)
    ]
    began = time.process_time()
    for turn in turns:
        engine.take(turn)
    return (time.process_time() - began) / count * 1e6


def pushed(build: Build, count: int, *, per_turn: int = TURN) -> float:
    """Return the same in `reactivex`."""
    subject: Subject[int] = Subject()
    clock = VirtualTimeScheduler(0.0)
    build(plain, reactivex, subject).subscribe(same, same, lambda: None, scheduler=clock)
    began = time.process_time()
    for first in range(0, count, TURN):
        clock.advance_to((first + 1) * STEP_S)
        for n in range(first, first + per_turn):
            subject.on_next(n)
    return (time.process_time() - began) / count * 1e6


def measure(kind: Kind, events: int, rounds: int) -> dict[str, float]:
    """Return the medians for one kind."""
    sides = {
        "hosted": lambda: hosted(kind.build, events),
        "hosted, trivial": lambda: hosted(TRIVIAL, events),
        "hosted, ticking": lambda: hosted(TICKING, events, per_turn=0) if kind.ticks else 0.0,
        "reactivex": lambda: pushed(kind.build, events),
        "reactivex, trivial": lambda: pushed(TRIVIAL, events),
        "reactivex, ticking": lambda: pushed(TICKING, events, per_turn=0) if kind.ticks else 0.0,
    }
    gc.collect()
    times = interleaved(sides, rounds=rounds, budget_s=120.0)
    here, there = (
        [full - empty - ticks for full, empty, ticks in zip(*(times[f"{side}{of}"] for of in PARTS), strict=True)]
        for side in ("hosted", "reactivex")
    )
    return {
        "hosted_us": statistics.median(here),
        "reactivex_us": statistics.median(there),
        "times": statistics.median(b / a for a, b in zip(here, there, strict=True)),
        "timer_us": statistics.median(times["hosted, ticking"]),
    }


def spoken(name: str, figures: dict[str, float]) -> str:
    """Return one line of the table."""
    late = f"  > {AT_MOST_US:g} µs" if figures["hosted_us"] > AT_MOST_US else ""
    timer = f"  and {figures['timer_us']:.1f} µs for its timer" if figures["timer_us"] else ""
    return (
        f"inner sequence, {name:16}{figures['hosted_us']:8.1f} µs hosted{figures['reactivex_us']:8.1f} µs reactivex"
        f"{figures['times']:8.1f} × as fast{late}{timer}"
    )
