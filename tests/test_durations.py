"""A duration that an element gives and that is no number: it ends the query that asks with it, and no other.

A NaN is smaller than nothing and larger than nothing: as a time among others it puts all timers of an engine out of
order. Plain `reactivex` raises where it would wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import every

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events, Tick
from reliable_rx.testing import RUNNERS, run_plain
from reliable_rx.testing.marbles import Timed
from reliable_rx.testing.queries import run_stored

NAN = float("nan")
WAITS: dict[str, Callable[[Any, Any, Any, float], Any]] = {
    "timer": lambda o, r, s, x: r.timer(x),
    "timer with a period": lambda o, r, s, x: r.timer(x, x),
    "interval": lambda o, r, s, x: r.interval(x),
    "delay": lambda o, r, s, x: s.pipe(o.delay(x)),
    "delay_subscription": lambda o, r, s, x: r.of(1).pipe(o.delay_subscription(x)),
    "debounce": lambda o, r, s, x: r.of(1).pipe(o.debounce(x)),
    "throttle_first": lambda o, r, s, x: r.of(1, 2).pipe(o.throttle_first(x)),
    "sample": lambda o, r, s, x: s.pipe(o.sample(x)),
    "timeout": lambda o, r, s, x: r.of(1).pipe(o.timeout(x)),
    "take_with_time": lambda o, r, s, x: r.of(1).pipe(o.take_with_time(x)),
    "skip_with_time": lambda o, r, s, x: s.pipe(o.skip_with_time(x)),
    "take_last_with_time": lambda o, r, s, x: r.of(1).pipe(o.take_last_with_time(x)),
    "skip_last_with_time": lambda o, r, s, x: r.of(1).pipe(o.skip_last_with_time(x)),
    "buffer_with_time": lambda o, r, s, x: r.of(1).pipe(o.buffer_with_time(x)),
    "shifted buffers": lambda o, r, s, x: r.of(1).pipe(o.buffer_with_time(2.0, x)),
    "buffer_with_time_or_count": lambda o, r, s, x: r.of(1).pipe(o.buffer_with_time_or_count(x, 3)),
    "window_with_time": lambda o, r, s, x: r.of(1).pipe(o.window_with_time(x), o.merge_all()),
    "replay": lambda o, r, s, x: r.of(1).pipe(o.replay(3, x), o.ref_count()),
    "take_until_with_time": lambda o, r, s, x: r.of(1).pipe(o.take_until_with_time(x)),
    "skip_until_with_time": lambda o, r, s, x: s.pipe(o.skip_until_with_time(x)),
}
ASKS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "at once": lambda o, r, s, wait: s.pipe(o.flat_map(lambda x: wait(o, r, s, x))),
    "from a timer": lambda o, r, s, wait: s.pipe(o.delay(0.25), o.flat_map(lambda x: wait(o, r, s, x))),
}


def facts(came: list[Timed]) -> list[tuple[float, str, str]]:
    return [
        (each.time_s, each.kind, repr(each.value) if each.kind == "N" else type(each.value).__name__) for each in came
    ]


@pytest.mark.parametrize("asks", ASKS)
@pytest.mark.parametrize("waits", every(4, WAITS, commits=1))
def test_a_nan_fails_what_waits_for_it_as_by_rxpy(waits: str, asks: str) -> None:
    """However it is run, the error comes when plain `reactivex` has it, and as a `ValueError`."""

    def build(o: Any, r: Any, s: Any) -> Any:
        return ASKS[asks](o, r, s, WAITS[waits])

    streams = [[Timed(2.0, "N", NAN), Timed(3.0, "N", 1.5), Timed(8.0, "C", None)]]
    expected = facts(run_plain(build, streams, 30.0))
    for name, run in {**RUNNERS, "stored": lambda *given: run_stored(*given, [])}.items():
        assert facts(run(build, streams, 30.0)) == expected, name


def test_a_timer_of_an_operator_of_yours_is_never_due_at_a_nan() -> None:
    """The query that asks for it fails, and the timers of the others stay in order."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    waiting = rx.source("n").flat_map(lambda x: rx.timer(abs(x)).map(lambda _: x))
    engine.take(engine.creation("good", waiting, time=0.0))
    engine.take(engine.creation("bad", rx.source("n").delay(0.5).flat_map(lambda x: rx.timer(NAN * x)), time=0.0))
    engine.take(Events("n", "0", 0, [5.0, 1.0, 4.0, 2.0, 3.0], time=1.0))
    came = [out for time in (1.5, 9.0) for out in engine.take(Tick(time))]
    assert [value for out in came if out.name == "good" for value in out.values] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [type(out.error) for out in came if out.name == "bad"] == [ValueError]
