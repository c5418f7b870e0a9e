"""All small inputs of an operator as a tree: what inputs have in common is played once, and what is over is left.

`check_operator` of the testing kit plays every input from its beginning and, to recover everywhere, puts the engine
through bytes after every turn: the first event of an input is played again for each input that it begins. Over two
sources that took hours. Here a node is an input, and below it are those that go on from it by one event:

* *Recovered* runs go on from the bytes of the node above. So every boundary of every input is recovered from, once,
  and all that may follow starts from there.
* *What is over is left.* Where the reference has ended one event more is played, in every way, and none below: what
  has ended finds the second as it found the first.
* *Leaps* differ from steps where something is due between events. Where nothing is they are the same turns.

Rejected: random words, which meet the short ones again and again and miss those in which two events change places;
and joining nodes whose engines hold equal rows, since nobody knows whether the reference is alike there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from operator_cases import Case

import reliable_rx as rx
from checkpoint.format.codec import decode, encode
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import Snapshot, load
from hosting.engine.turns import Create, Events, Tick, Turn
from reliable_rx import operators as ops
from reliable_rx.testing.marbles import COMPLETED, ERROR, NEXT, Timed
from reliable_rx.testing.oracle import SourceError, compare
from reliable_rx.testing.virtual_time import Runner, run_plain

HORIZON_S = 10.0
LEAPING = "hosted in leaps"
RECOVERED = "hosted and recovered"


@dataclass(frozen=True)
class Input:
    """What the sources have played, how many values that is, and which of them have not ended."""

    streams: tuple[tuple[Timed, ...], ...]
    live: frozenset[int]
    values: int = 0
    time_s: float = 0.0

    def longer(self, letters: Sequence[Any], gaps_s: Sequence[float]) -> Iterator[tuple[int, Input]]:
        """Yield every input that goes on by an end or one of the *letters*, behind the source that has it."""
        for source in sorted(self.live):
            for gap_s in gaps_s:
                time_s = self.time_s + gap_s
                for value in letters:
                    yield source, self.with_event(source, Timed(time_s, NEXT, value))
                yield source, self.with_event(source, Timed(time_s, COMPLETED))
                yield source, self.with_event(source, Timed(time_s, ERROR, SourceError("over")))

    def with_event(self, source: int, event: Timed) -> Input:
        streams = (*self.streams[:source], (*self.streams[source], event), *self.streams[source + 1 :])
        if event.kind == NEXT:
            return Input(streams, self.live, self.values + 1, event.time_s)
        return Input(streams, self.live - {source}, self.values, event.time_s)


@dataclass(frozen=True)
class Stored:
    """A hosted query between two turns: in bytes, and beside them what it has emitted and what is due next."""

    plan: bytes
    rows: Sequence[bytes] = ()
    header: bytes = b""
    record: tuple[Timed, ...] = ()
    due_s: float | None = None
    waits: bool = False
    """Whether anything was ever due between two turns."""

    def fed(self, source: int, events: Sequence[Timed]) -> Stored:
        """Return where it is after the last of the *events* of a source."""
        last = events[-1]
        ended, error = last.kind != NEXT, last.value if last.kind == ERROR else None
        values = () if ended else (last.value,)
        turn = Events(f"s{source}", "0", len(events) - 1, values, last.time_s, ended=ended, error=error)
        return self.waited(last.time_s, inclusive=False).after(turn)

    def waited(self, until_s: float, *, inclusive: bool = True) -> Stored:
        """Return where it is when what is due until then has happened."""
        now = self
        while now.due_s is not None and (now.due_s < until_s or (inclusive and now.due_s == until_s)):
            now = now.after(Tick(now.due_s))
        return now

    def after(self, turn: Turn) -> Stored:
        """Return where what is recovered from the bytes is when it has taken *turn*."""
        engine = QueryEngine()
        load(engine, [self.plan, *self.rows], decode(self.header))
        return self.taken(engine, turn)

    def taken(self, engine: QueryEngine, turn: Turn) -> Stored:
        record = list(self.record)
        for out in engine.take(turn):
            record += [Timed(engine.clock, NEXT, value) for value in out.values]
            if out.ended:
                record.append(Timed(engine.clock, COMPLETED if out.error is None else ERROR, out.error))
        due_s = engine.timers.next_due()
        snapshot = Snapshot(engine, full=True)
        snapshot.plans = {}  # it is in the bytes already
        while not snapshot.write_some(1000):
            pass
        waits = self.waits or due_s is not None
        return Stored(self.plan, snapshot.chunks(), encode(snapshot.header), tuple(record), due_s, waits)


def created(case: Case) -> Stored:
    """Return the query of *case* behind its creation."""
    engine = QueryEngine()
    for number in range(case.sources):
        engine.declare(f"s{number}", ["0"])
    query = case.build(ops, rx, *[rx.source(f"s{number}") for number in range(case.sources)])
    creation: Create = engine.creation("query", query, time=0.0)
    plan = creation.code
    return Stored(encode([(("plan", creation.plan), (encode(plan.query), plan.limits))])).taken(engine, creation)


@dataclass
class Tree:
    """The inputs of one case, and how many of them have been played."""

    case: Case
    runners: Mapping[str, Runner]
    """Who plays each of the shorter inputs, from its beginning."""
    shorter_max: int
    """How many values those have; longer inputs are for the reference and what is recovered."""
    length_max: int
    alphabet: Sequence[Any]
    in_turn: bool = False
    """Whether the next value is the next letter of the alphabet, and not any."""
    played: int = 0

    def grow(self) -> int:
        """Play all inputs, and return how many they were."""
        first = Input(((),) * self.case.sources, frozenset(range(self.case.sources)))
        self.visit(first, created(self.case) if self.case.hostable else None)
        return self.played

    def visit(self, given: Input, at: Stored | None, *, over: bool = False) -> None:
        """Play an input, and those that go on from it unless it was *over* before its last event."""
        until_s = given.time_s + HORIZON_S
        expected = run_plain(self.case.reference or self.case.build, given.streams, until_s)
        for name, runner in self.playing(given, at):
            compare(name, given.streams, expected, runner(self.case.build, given.streams, until_s))
        if at is not None:
            compare(RECOVERED, given.streams, expected, at.waited(until_s).record)
        self.played += 1
        if over:
            return
        over = any(each.kind != NEXT and each.time_s <= given.time_s for each in expected)
        for source, longer in given.longer(self.letters(given), self.case.gaps_s):
            self.visit(longer, at and at.fed(source, longer.streams[source]), over=over)

    def playing(self, given: Input, at: Stored | None) -> Iterator[tuple[str, Runner]]:
        for name, runner in self.runners.items():
            if at is None or (given.values <= self.shorter_max and (at.waits or name != LEAPING)):
                yield name, runner

    def letters(self, given: Input) -> Sequence[Any]:
        if given.values == self.length_max:
            return ()
        return [self.alphabet[given.values % len(self.alphabet)]] if self.in_turn else self.alphabet
