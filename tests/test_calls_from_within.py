"""Functions of queries, sources and values that call the evaluator that calls them: refused before anything changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from lanes import NIGHTLY, at_each_commit, left_to_commits, of_lane, sample_of
from test_every_method import EVALUATOR, PUSHED, STREAM, SUBSCRIPTION, Observer

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.edges.egress import Stream
from hosting.sources.pushed import PushedStream
from hosting.subscriptions.subscription import Subscription
from reliable_rx.errors import ReliableRxError, TooLate

VALUES = [1, 2, 3, 4]
ENDING = ("other", "q", "calls")
AT = 3
"""The event whose function calls."""


class World:
    """What the calls of the tables want: an evaluator, a stream, a subscription and a pushed stream of it."""

    evaluator: QueryEvaluator
    stream: Stream
    subscription: Subscription
    pushed: PushedStream
    lines: CallbackSink

    def __init__(self, folder: Path, store: Any) -> None:
        self.folder, self.store = folder, store
        self.accepted: list[int] = []
        self.call: Callable[[World], Any] | None = None
        self.told: list[BaseException | None] = []

    def accept(self, _id: int) -> None: ...

    def push(self, *values: int) -> None:
        self.pushed.push(values)

    def within(self) -> None:
        call, self.call = self.call, None
        if call is not None:
            try:
                call(self)
            except BaseException as error:
                self.told.append(error)
                raise
            self.told.append(None)


HELD: list[World] = []


def poke(value: int) -> int:
    if value == AT and HELD:
        HELD[0].within()
    return value


def effect(value: int) -> None:
    poke(value)


def keyed(value: int) -> int:
    return poke(value) % 2


def timed(value: int) -> int:
    return poke(AT) and value


def stamped(value: int) -> float:
    return float(poke(value))


class Pokes:
    """A value that calls while it is pickled."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __reduce__(self) -> Any:
        return Pokes, (poke(self.value),)


class Fetches(ListSource):
    """A source that calls while it is read."""

    def open(self, partition: str, at: int, /) -> Any:
        reader = super().open(partition, at)
        fetch = reader.fetch

        def calls(count_max: int, /) -> Any:
            poke(AT)
            return fetch(count_max)

        reader.fetch = calls  # type: ignore[method-assign]
        return reader


n = rx.source("n")
QUERIES: dict[str, Any] = {
    "map": lambda: n.map(poke),
    "filter": lambda: n.filter(lambda value: poke(value) > 0),
    "group selector": lambda: n.group_by(keyed).flat_map(lambda group: group.count()),
    "scan": lambda: n.scan(lambda total, value: total + poke(value), 0),
    "effect": lambda: n.do_action(effect),
    "timer": lambda: n.delay(0.001).map(timed),
    "inner": lambda: n.flat_map(lambda value: rx.just(value).map(poke)),
    "timestamp": lambda: rx.source("stamped"),
    "fetch": lambda: rx.source("fetched"),
    "pickled output": lambda: n.map(Pokes),
    "pickled state": lambda: n.map(Pokes).merge(rx.source("p")).buffer_with_count(9).map(len),
}
SOURCES = ("timestamp", "fetch")
TABLES = {"evaluator": EVALUATOR, "stream": STREAM, "subscription": SUBSCRIPTION, "pushed": PUSHED}
READS = {
    "finished", "trouble", "started", "closed", "events_in", "had", "stream", "queries", "query", "statistics",
    "read", "check", "first", "depth", "ended", "lock", "kept_from", "unstored", "readable", "is_idle", "end",
    "end_of", "bounds", "open", "partitions", "wake", "stop", "start", "log",
}  # fmt: skip
"""What changes nothing, or is asked of the loop only."""
EXTRA: dict[str, Callable[[Any], Any]] = {
    "a stream not yet asked for": lambda w: w.evaluator.stream("other"),
    "its own stream": lambda w: w.evaluator.stream("calls"),
    "holders release": lambda w: w.evaluator.holders.release("q", "me"),
    "full checkpoint": lambda w: w.evaluator.checkpoint(full=True),
    "dispose of itself": lambda w: w.evaluator.dispose("calls"),
    "restart of itself": lambda w: w.evaluator.restart("calls"),
    "create again": lambda w: w.evaluator.create("other", n.map(lambda value: value)),
}
ALL = {
    **{f"{table}.{name}": (name in READS, call) for table, calls in TABLES.items() for name, call in calls.items()},
    **{name: ("stream" in name, call) for name, call in EXTRA.items()},
}
ALL["subscription.start"] = (False, lambda w: w.subscription.start(0))


def begin(world: World, place: str, batch: int, *, background: bool) -> None:
    """Declare everything; the loop has not run."""
    evaluator = world.evaluator = QueryEvaluator(
        world.store, batch_events_max=batch, background=background, idle_s=0.01, checkpoint_interval_s=3600.0
    )
    evaluator.source("n", ListSource(VALUES))
    if place == "timestamp":
        evaluator.source("stamped", ListSource(VALUES, timestamp=stamped))
    if place == "fetch":
        evaluator.source("fetched", Fetches(VALUES))
    world.pushed = evaluator.push("p")
    evaluator.create("calls", QUERIES[place]())
    evaluator.create("other", n.map(lambda value: -value))
    evaluator.create("q", n.map(lambda value: 2 * value))
    evaluator.create("gone", n.take(1))
    world.stream = evaluator.stream("q")
    world.lines = CallbackSink(lambda at, value: None)
    evaluator.sink("q", world.lines)


def run(world: World, place: str) -> None:
    names = ENDING[:2] if place == "pickled state" else ENDING
    for _ in range(2):  # `stop` ends the first
        world.evaluator.run(until=lambda: all(world.evaluator.query(name).status != "running" for name in names))
    world.evaluator.flush()


def ledger(evaluator: QueryEvaluator, name: str) -> Sequence[Any]:
    stream = evaluator.stream(name)
    return [(part.first + at, value) for part in stream.read(0, 100) for at, value in enumerate(part.values)]


def play(folder: Path, place: str, name: str, batch: int, *, checkpoint: bool, background: bool) -> str:
    """Call *name* from within *place*, then open the store again; return what is wrong, or nothing."""
    reads, call = ALL[name]
    is_well = TooLate if not reads else type(None)
    wanted = {"other": [*enumerate(-v for v in VALUES)], "q": [*enumerate(2 * v for v in VALUES)]}
    HELD.clear()
    with SqliteStore(folder) as store:
        world = World(folder, store)
        begin(world, place, batch, background=background)
        with world.evaluator as evaluator:
            evaluator.start()
            world.subscription = world.stream.subscribe(Observer(), name="me")
            if checkpoint:
                evaluator.checkpoint()
            HELD.append(world)
            world.call = call
            try:
                run(world, place)
            except ReliableRxError as error:  # a source that fails ends the run, which may be begun again
                if place not in SOURCES or world.told[0] not in (error, error.__cause__):
                    raise
                run(world, place)
            evaluator.checkpoint()
            HELD.clear()
            found = {each: ledger(evaluator, each) for each in wanted}
        if not world.told:
            return f"{name} was not called"
        if not isinstance(world.told[0], is_well):
            return f"{name}: {world.told[0]!r}"
        if found != wanted:
            return f"{name}: {found}"
    with SqliteStore(folder) as store:
        world = World(folder, store)
        begin(world, place, batch, background=background)
        with world.evaluator as evaluator:
            run(world, place)
            again = {each: ledger(evaluator, each) for each in wanted}
    return "" if again == wanted else f"{name}, then: {again}"


LANES = {
    "singly": (1, False, True),
    "behind a checkpoint": (1000, True, True),
    "singly, behind a checkpoint, in one thread": (1, True, False),
    "in one thread": (1000, False, False),
}
QUICK = [("map", "behind a checkpoint")]
CASES = [
    (place, lane) if (place, lane) in QUICK else at_each_commit(place, lane) for place in QUERIES for lane in LANES
]


@left_to_commits
@pytest.mark.parametrize("place, lane", of_lane(CASES, nightly=2 * NIGHTLY))
def test_a_call_from_within_a_turn_is_refused_and_nothing_is_lost(place: str, lane: str, tmp_path: Path) -> None:
    """Whatever a function calls: what changes something raises `TooLate`, reads go on, and the others have all."""
    batch, checkpoint, background = LANES[lane]
    wrong: list[str] = []
    for number, name in enumerate(sample_of(3, ALL)):
        folder = tmp_path / str(number)
        try:
            why = play(folder, place, name, batch, checkpoint=checkpoint, background=background)
        except BaseException as error:
            why = f"{name}: {type(error).__name__}: {error}"
        finally:
            HELD.clear()
        wrong += [why] if why else []
    assert not wrong, "\n".join(wrong)
