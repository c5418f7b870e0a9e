"""Running a query in a real engine under the oracle's clock, also killed and recovered at every boundary.

These runners need the `hosting` package, which stands above this one, so they import it when they are called.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from reactivex.internal.constants import UTC_ZERO

import reliable_rx
from reliable_rx import operators
from reliable_rx.testing.marbles import COMPLETED, ERROR, NEXT, RAISED, Timed
from reliable_rx.testing.virtual_time import Build, Runner, Streams

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.turns import Events, Output, Turn


def run_hosted(build: Build, streams: Streams, until_s: float) -> list[Timed]:
    """Play *streams* into *build* in an engine.

    >>> from reliable_rx.testing import draw_marbles, parse_marbles
    >>> draw_marbles(run_hosted(lambda ops, rx, s: s.pipe(ops.scan(max)), [parse_marbles("-1-2-1|")], 9))
    '-1-2-2|'
    """
    return HostedRun(build, streams, until_s, crash=False).play()


def run_recovered(build: Build, streams: Streams, until_s: float) -> list[Timed]:
    """The same, with the engine turned into bytes, thrown away and recovered after every turn."""
    return HostedRun(build, streams, until_s, crash=True).play()


def run_leaping(build: Build, streams: Streams, until_s: float) -> list[Timed]:
    """The same, with a clock that only events move: what is due before an event happens in the event's turn.

    What one turn emits at several times is told apart by a `timestamp` behind the query.

    >>> from reliable_rx.testing import draw_marbles, parse_marbles
    >>> draw_marbles(run_leaping(lambda ops, rx, s: s.pipe(ops.delay(1.0)), [parse_marbles("-1----2|")], 9))
    '--1----2|'
    """

    def stamped(ops: Any, rx: Any, *sources: Any) -> Any:
        return build(ops, rx, *sources).pipe(ops.materialize(), ops.timestamp())

    record = HostedRun(stamped, streams, until_s, crash=False, leaps=True).play()
    return [unstamped(each) for each in record if each.kind != COMPLETED]


def unstamped(each: Timed) -> Timed:
    """Return the notification that was recorded with its time, or what went wrong before there was one."""
    if each.kind != NEXT:
        return each
    time_s, inside = (each.value.timestamp - UTC_ZERO).total_seconds(), each.value.value
    return Timed(time_s, inside.kind, inside.exception if inside.kind == ERROR else getattr(inside, "value", None))


HOSTED: dict[str, Runner] = {
    "hosted": run_hosted,
    "hosted and recovered": run_recovered,
    "hosted in leaps": run_leaping,
}
"""The runners that host; a query that cannot be hosted is not held to them."""


class HostedRun:
    """One input through one engine."""

    policy = "fail"

    def __init__(
        self,
        build: Build,
        streams: Streams,
        until_s: float,
        *,
        crash: bool,
        batches: bool = False,
        leaps: bool = False,
    ) -> None:
        self.build = build
        self.streams = streams
        self.until_s = until_s
        self.crash = crash
        self.batches = batches
        self.leaps = leaps
        self.record: list[Timed] = []
        self.outputs: list[Output] = []
        self.engine = self.new_engine()

    def new_engine(self) -> QueryEngine:
        """Return an engine that knows its sources and nothing else."""
        from hosting.engine.engine import QueryEngine

        engine = QueryEngine()
        for number in range(len(self.streams)):
            engine.declare(f"s{number}", ["0"])
        return engine

    def play(self) -> list[Timed]:
        sources = [reliable_rx.source(f"s{number}") for number in range(len(self.streams))]
        try:
            query = self.build(operators, reliable_rx, *sources)
        except Exception as error:
            return [Timed(0.0, RAISED, error)]
        self.take(self.engine.creation("query", query, time=0.0, policy=self.policy))
        for turn in self.turns():
            if not self.leaps:
                self.tick_until(turn.time, before=True)
            self.take(turn)
        if self.leaps:
            self.tick(self.until_s)
        else:
            self.tick_until(self.until_s)
        return self.record

    def turns(self) -> Iterator[Events]:
        """Yield the notifications of all streams as turns: by time, the first stream first."""
        from hosting.engine.turns import Events

        played = [0] * len(self.streams)
        merged = [(each.time_s, number, each) for number, stream in enumerate(self.streams) for each in stream]
        for (time_s, number, *_), together in groupby(sorted(merged, key=lambda item: item[:2]), key=self.together):
            notifications = [each for _, _, each in together]
            values = [each.value for each in notifications if each.kind == NEXT]
            last = notifications[-1]
            error = last.value if last.kind == ERROR else None
            yield Events(f"s{number}", "0", played[number], values, time_s, ended=last.kind != NEXT, error=error)
            played[number] += len(values)

    def together(self, item: tuple[float, int, Timed]) -> tuple[Any, ...]:
        """Return what notifications have in common that make one turn: in batches their time and source."""
        return item[:2] if self.batches else (*item[:2], id(item))

    def tick_until(self, time: float, *, before: bool = False) -> None:
        """Take a turn for each time at which something is due."""
        while (due := self.engine.timers.next_due()) is not None and (due < time or (due == time and not before)):
            self.tick(due)

    def tick(self, due: float) -> None:
        from hosting.engine.turns import Tick

        self.take(Tick(due))

    def take(self, turn: Turn) -> None:
        self.outputs = self.engine.take(turn)
        for out in self.outputs:
            if out.name != "query":
                continue
            now = self.engine.clock
            self.record.extend(Timed(now, NEXT, value) for value in out.values)
            if out.ended:
                self.record.append(Timed(now, COMPLETED if out.error is None else ERROR, out.error))
        if self.crash:
            from hosting.engine.snapshot import copy_of

            self.engine = copy_of(self.engine)
