"""A query that is edited half-way through its input, in every way in which a query can go over: see `WAYS`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any
from unittest.mock import patch

from checkpoint.format.code import OtherCode, makers
from checkpoint.format.codec import decode, encode
from hosting.engine import snapshot
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import Snapshot, copy_of
from hosting.engine.turns import Answer, Events, Tick
from reliable_rx.runtime.calling import Call
from reliable_rx.runtime.outliving import units

SOURCES = ("a", "b", "c")
WAYS = ("while it runs", "behind a stop", "behind a kill", "killed at every turn", "by another Python")
TICKS_MAX = 60
ANSWERED_AFTER_S = 2.5
Step = tuple[str, Any]
"""A source, and what it emits next; None if it ends. Without a name it is how long nothing comes."""


@dataclass
class Played:
    """What came of an edit."""

    before: list[Any] = field(default_factory=list)
    after: list[Any] = field(default_factory=list)
    report: Any = None
    status: str = ""
    largest: int = 0
    """The largest number of things that the query has held behind the edit."""


class World:
    """One engine, and a clock that goes a second further with each step."""

    def __init__(self) -> None:
        self.engine = QueryEngine()
        for source in SOURCES:
            self.engine.declare(source, ["0"])
        self.counts: Counter[str] = Counter()
        self.due: dict[Call, float] = {}
        """When the calls are answered that are out."""

    def create(self, query: Any) -> list[Any]:
        return values_of(self.engine.take(self.engine.creation("q", query, time=self.engine.clock)))

    def take(self, step: Step, *, after_s: float = 1.0) -> list[Any]:
        """Take one step, and all that is due before it."""
        source, value = step
        if not source:
            return self.tick(self.engine.clock + value)
        now = self.engine.clock + after_s
        found = self.tick(now)
        values = [] if value is None else [value]
        turn = Events(source, "0", self.counts[source], values, now, ended=value is None)
        self.counts[source] += len(values)
        return found + values_of(self.engine.take(turn))

    def tick(self, until: float, *, at_most: int = 1_000_000) -> list[Any]:
        found: list[Any] = []
        while (due := self.next_due()) <= until and due < float("inf") and at_most:
            call = next((call for call, answered in self.due.items() if answered <= due), None)
            now = max(due, self.engine.clock)
            found += values_of(self.engine.take(Tick(now) if call is None else self.answer(call, now)))
            at_most -= 1
        return found

    def next_due(self) -> float:
        """Return when something is due next; calls that have been made since are answered some time later."""
        known, askers = self.due, self.engine.calls.askers
        self.due = {call: known.get(call, self.engine.clock + ANSWERED_AFTER_S) for call in sorted(askers)}
        due = self.engine.timers.next_due()
        return min(float("inf") if due is None else due, *self.due.values(), float("inf"))

    def answer(self, call: Call, now: float) -> Answer:
        make, _ = self.engine.calls.request(call)
        return Answer(call, encode((returned(make()), None)), now)

    def restart(self) -> None:
        self.engine = copy_of(self.engine)

    def held(self) -> int:
        """Count what the query holds in its states and rows."""
        standing = self.engine.standing["q"]
        return sum(size_of(each) for each in rows_in(standing)) + sum(1 for _ in units(standing))

    def is_taken_over(self, query: Any) -> list[Any]:
        """Load what another Python has stored into an engine that declares *query*."""
        whole = Snapshot(self.engine, full=True)
        while not whole.write_some(1000):
            pass
        chunks, head = whole.chunks(), decode(encode(whole.header))
        whole.roll_back()
        other = QueryEngine()
        for source in SOURCES:
            other.declare(source, ["0"])
        other.suspended.declare("q", query, "fail", self.engine.standing["q"].plan.limits, None)
        error = OtherCode("of another", what="code of another", where="q", makers=makers()._replace(python="3.0.0"))
        with patch.object(snapshot, "is_of_others", lambda engine, top: error):
            snapshot.load(other, chunks, head)
        self.engine = other
        return self.tick(other.clock)


def returned(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return stopped.value
    raise AssertionError("it waits")


def rows_in(instance: Any) -> Iterator[Any]:
    yield from (state for state in instance.states if state is not None)
    for children in (instance.children or {}).values():
        for child in children.values():
            yield from rows_in(child)


def size_of(value: Any) -> int:
    """Count the elements in all containers of *value*."""
    if isinstance(value, dict):
        return sum(1 + size_of(each) for each in value.values())
    if isinstance(value, (list, tuple, set)) or type(value).__name__ == "deque":
        return sum(1 + size_of(each) for each in value)
    return sum(size_of(getattr(value, each.name)) for each in fields(value)) if is_dataclass(value) else 0


def values_of(outputs: Sequence[Any]) -> list[Any]:
    return [value for each in outputs if each.name == "q" for value in each.values]


def play(before: Any, after: Any, way: str, prefix: Sequence[Step], rest: Sequence[Step]) -> Played:
    """Play *prefix* into *before*, go over to *after* in some *way*, and play the *rest*."""
    world, played = World(), Played()
    world.create(before)
    for step in prefix:
        played.before += world.take(step)
    if way in ("behind a stop", "killed at every turn"):
        world.restart()
    played.after += world.is_taken_over(after) if way == "by another Python" else world.create(after)
    if way == "killed at every turn":
        world.restart()
    return finished(world, played, rest, kill=way == "killed at every turn")


def finished(world: World, played: Played, rest: Sequence[Step], *, kill: bool = False) -> Played:
    played.report = world.engine.reports.get("q")
    for step in rest:
        played.after += world.take(step)
        played.largest = max(played.largest, world.held())
        if kill:
            world.restart()
    played.after += world.tick(float("inf"), at_most=TICKS_MAX)
    played.status = world.engine.standing["q"].status
    return played


def replayed(before: Any, after: Any, prefix: Sequence[Step], rest: Sequence[Step]) -> Played:
    """The same with a checkpoint half-way through *prefix*, behind which everything is taken twice."""
    world = World()
    world.create(before)
    half = len(prefix) // 2
    early = [value for step in prefix[:half] for value in world.take(step)]
    found: list[Played] = []
    for _ in range(2):
        again, played = World(), Played([*early])
        again.engine, again.counts, again.due = copy_of(world.engine), world.counts.copy(), world.due.copy()
        for step in prefix[half:]:
            played.before += again.take(step)
        played.after += again.create(after)
        found.append(finished(again, played, rest))
    first, second = found
    assert (first.after, str(first.report), first.status) == (second.after, str(second.report), second.status)
    return second


def alone(query: Any, steps: Sequence[Step], ended: Sequence[str] = ()) -> Played:
    """Play *steps* into *query* where nothing was before, but that some sources have *ended*."""
    world = World()
    for source in ended:
        world.engine.take(Events(source, "0", 0, [], 0.0, ended=True))
    played = Played()
    played.after += world.create(query)
    return finished(world, played, steps)
