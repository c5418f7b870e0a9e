"""One evaluator over partitions that split, merge and wait for base data: in their order, each event once.

The generator's script says what there is; every start of the evaluator makes its own source of the same script, as a
new process would.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import examples

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import GeneratorSource, ListSource, QueryEvaluator
from hosting.edges.ingress import LISTING_S
from hosting.sources import Base, Error, Merge, Split
from hosting.sources.script import Change
from reliable_rx import SourceFailed
from reliable_rx import operators as ops
from reliable_rx.event_time import event_time
from reliable_rx.reliable import Listing
from reliable_rx.testing import check_ledger

COUNT = 7


def named(name: str) -> Callable[[int, Any], tuple[str, int]]:
    return lambda i, _: (name, i)


class World:
    """A store, and one evaluator after the other over the same script."""

    def __init__(self, script: Sequence[Change], *, roots: Sequence[str] = ("p",), timed: bool = False, **options: Any):
        made = [name for change in script for name in getattr(change, "into", ()) if isinstance(change, Split)]
        made += [change.into for change in script if isinstance(change, Merge)]
        self.names = [*roots, *made]
        self.script, self.options = script, options
        self.timed = timed
        self.store = MemoryStore()
        self.now = 100.0
        self.evaluator = self.make()

    def source(self) -> GeneratorSource:
        stamp = (lambda value: float(value[1])) if self.timed else None
        functions = {name: named(name) for name in self.names}
        options = {"count": COUNT, "clock": lambda: self.now, **self.options}
        return GeneratorSource(functions, script=self.script, timestamp=stamp, **options)

    def make(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store, background=False, clock=lambda: self.now, checkpoint_interval_s=1e9, batch_events_max=2,
            idle_s=0.0,
        )  # fmt: skip
        evaluator.source("s", self.source())
        evaluator.create("seen", rx.source("s").map(lambda value: value))
        evaluator.create("total", rx.source("s").count())
        return evaluator

    def crash(self) -> None:
        self.store = self.store.reopen()
        self.evaluator = self.make()

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.evaluator.step()

    def run(self) -> None:
        while self.evaluator.step():
            pass

    def values(self, stream: str) -> list[Any]:
        return [value for part in self.evaluator.stream(stream).read(0, 100_000) for value in part.values]

    def check(self) -> None:
        """Each event once and in order, all of what comes before first, and the source's end behind all."""
        seen = self.values("seen")
        ends = {name: end for change in self.script for name, end in ends_of(change).items()}
        for name in self.names:
            expected = [(name, i) for i in range(ends.get(name, COUNT))]
            check_ledger(expected, [value for value in seen if value[0] == name]).check(f"partition {name!r}")
        self.check_order(seen)
        assert self.values("total") == [len(seen)]

    def check_order(self, seen: Sequence[Any]) -> None:
        first = {name: place for place, (name, _) in reversed(list(enumerate(seen)))}
        last = {name: place for place, (name, _) in enumerate(seen)}
        listing = {each.name: each for each in self.source()._script.listings.values()}
        base = [name for name, each in listing.items() if each.base]
        for name in first:
            before = [*listing[name].parents, *(() if listing[name].base else base)]
            assert all(last.get(each, -1) < first[name] for each in before), f"{name!r} was read before {before}"


def ends_of(change: Change) -> dict[str, int]:
    if isinstance(change, Merge):
        return dict(change.ends)
    return {change.partition: change.count if isinstance(change, Base) else change.at}


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[str], list[Change]]:
    """Draw partitions that are there at first, and what becomes of them."""
    roots = [f"r{number}" for number in range(draw(st.integers(1, 3)))]
    open_ones, changes = list(roots), list[Change]()
    for name in roots[1:]:
        if draw(st.booleans()):
            changes.append(Base(partition=name, count=draw(st.integers(0, COUNT))))
            open_ones.remove(name)
    for number in range(draw(st.integers(0, 4))):
        at, seen = draw(st.integers(0, COUNT)), draw(st.sampled_from(["always", "after parents"]))
        if len(open_ones) > 1 and draw(st.booleans()):
            ends = {open_ones.pop(draw(st.integers(0, len(open_ones) - 1))): at for _ in range(2)}
            changes.append(Merge(ends=ends, into=f"m{number}", seen=seen))
            open_ones.append(f"m{number}")
        else:
            name = open_ones.pop(draw(st.integers(0, len(open_ones) - 1)))
            changes.append(Split(partition=name, at=at, into=(f"a{number}", f"b{number}"), seen=seen))
            open_ones += [f"a{number}", f"b{number}"]
    return roots, changes


@examples(80)
@given(scripts(), st.lists(st.integers(1, 12), max_size=5), st.booleans(), st.booleans())
def test_nothing_is_read_before_what_it_follows(
    drawn: tuple[list[str], list[Change]], crashes: list[int], timed: bool, checkpoint: bool
) -> None:
    """Whatever splits and merges, and wherever the process dies: no child before its parents, no increment before base
    data, each event once, and the source ends for its queries when the last partition has."""
    roots, script = drawn
    with tempfile.TemporaryDirectory() as facts:
        world = World(script, roots=roots, timed=timed, facts=facts)
        for steps in crashes:
            world.steps(steps)
            if checkpoint and steps % 2:
                world.evaluator.checkpoint()
            world.crash()
        world.run()
        world.check()


def test_the_suite_finds_a_child_that_is_read_too_early() -> None:
    """Without the rule the property above fails: the check can see it."""
    world = World([Split(at=5, partition="p", into=("a", "b"))])
    world.evaluator.intake.lineages["s"].ready = lambda waiting, ended: list(waiting)  # type: ignore[method-assign]
    world.run()
    with pytest.raises(AssertionError, match="was read before"):
        world.check_order(world.values("seen"))


def test_partitions_that_appear_while_it_runs_are_found() -> None:
    """A partition that is listed only later is read, at the latest after `LISTING_S`, and puts off the end."""
    script = [Split(partition="p", at=2, into=("a",), seen=5.0)]
    world = World(script, roots=("p", "q"), begin=100.0, count=None)
    world.steps(3)
    assert {name for name, _ in world.values("seen")} == {"p", "q"}
    world.now += LISTING_S
    world.steps(6)
    assert {name for name, _ in world.values("seen")} == {"p", "q", "a"}


def test_a_partition_that_appears_at_a_later_start_puts_off_the_end() -> None:
    """The source ends when all have ended that it had before its end, also those of a later start; over crashes."""
    store = MemoryStore()

    def start(store: MemoryStore, *names: str) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, batch_events_max=2)
        evaluator.source("s", ListSource({name: [1, 2, 3, 4] for name in names}))
        evaluator.create("total", rx.source("s").count())
        return evaluator

    first = start(store, "old")
    first.step()
    first.checkpoint()
    second = start(store := store.reopen(), "old", "new")
    second.step()
    second.step()
    third = start(store := store.reopen(), "old", "new")
    third.run()
    assert [value for part in third.stream("total").read(0, 10) for value in part.values] == [8]
    third.checkpoint()
    fourth = start(store.reopen(), "old", "new", "late")
    fourth.start()
    fourth.create("after", rx.source("s").count())
    fourth.run()
    assert [value for part in fourth.stream("total").read(0, 10) for value in part.values] == [8]
    assert [value for part in fourth.stream("after").read(0, 10) for value in part.values] == [4]


def test_a_partition_that_was_not_listed_for_a_while_goes_on_where_it_was() -> None:
    """It keeps its position, also when it comes back while the evaluator runs."""
    shown = [Listing("p"), Listing("q")]

    class Coming(ListSource):
        def listing(self) -> Sequence[Listing]:
            return list(shown)

    def start(store: MemoryStore) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            store, background=False, checkpoint_interval_s=1e9, batch_events_max=2, clock=lambda: now[0]
        )
        evaluator.source("s", Coming({"p": range(10), "q": range(100, 110)}, follow=True))
        evaluator.create("seen", rx.source("s").map(lambda value: value))
        return evaluator

    now = [0.0]
    store = MemoryStore()
    first = start(store)
    for _ in range(5):
        first.step()
    first.checkpoint()
    del shown[1]
    second = start(store.reopen())
    while second.step():
        pass
    shown.append(Listing("q"))
    now[0] += LISTING_S
    while second.step():
        pass
    seen = [value for part in second.stream("seen").read(0, 100) for value in part.values]
    assert sorted(seen) == [*range(10), *range(100, 110)]


def test_children_do_not_come_late_by_the_clock() -> None:
    """While a parent is read its children cannot speak, and that is no silence: none of their events is late."""
    script = [Split(partition="p", at=3, into=("a",))]
    store = MemoryStore()
    now = 100.0
    evaluator = QueryEvaluator(store, background=False, clock=lambda: now, batch_events_max=1)
    functions = {"p": lambda i, _: ("p", float(i)), "a": lambda i, _: ("a", 3.0 + i), "q": lambda i, _: ("q", 50.0 + i)}
    evaluator.source("s", GeneratorSource(functions, script=script, count=6))
    clock = event_time(lambda value: value[1], lateness_s=0.0, idle_s=5.0, late="side")
    evaluator.create("all", rx.source("s").map(lambda value: value), clock=clock)
    for _ in range(60):
        evaluator.step()
        now += 0.5
    late = [value for part in evaluator.stream("all.late").read(0, 100) for value in part.values]
    assert not late
    got = [value for part in evaluator.stream("all").read(0, 100) for value in part.values]
    assert [time for _, time in got] == sorted(time for _, time in got)
    assert len(got) == 3 + 6 + 6


def test_an_error_ends_the_source_and_all_that_follows() -> None:
    """A parent that ends in an error ends the source with it, and the evaluator comes to its end."""
    world = World([Split(partition="p", at=3, into=("a",))], faults=[Error(partition="p", at=1)])
    world.evaluator.run()
    assert world.evaluator.query("total").error is not None


def test_a_ring_is_refused_by_name() -> None:
    """Partitions that wait for each other could never begin: the list is refused where it is read."""

    class Ring(ListSource):
        def listing(self) -> Sequence[Listing]:
            return [Listing("a", ("b",)), Listing("b", ("a",))]

    with pytest.raises(SourceFailed, match=r"'s' lists a ring.*'(a|b)' waits for '(a|b)'"):
        QueryEvaluator(MemoryStore()).source("s", Ring({"a": [], "b": []}))


def test_a_starting_point_is_resolved_once() -> None:
    """Latest is where the source ended at the first start; a crash before the first checkpoint does not move it."""
    values = [1, 2, 3]

    def start(store: MemoryStore, **options: Any) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("s", ListSource(values, follow=True, timestamp=options.pop("timestamp", None)), **options)
        evaluator.create("seen", rx.source("s").map(lambda value: value))
        return evaluator

    store = MemoryStore()
    first = start(store, start="latest")
    first.step()
    values.append(4)
    while first.step():
        pass
    values.append(5)
    second = start(store := store.reopen(), start="latest")
    while second.step():
        pass
    assert [value for part in second.stream("seen").read(0, 10) for value in part.values] == [4, 5]
    second.checkpoint()
    third = start(store.reopen(), start="earliest")
    third.start()
    assert third.intake.positions() == {("s", "0"): 5}
    timed = start(MemoryStore(), start=datetime.fromtimestamp(3, UTC), timestamp=lambda value: value)
    timed.start()
    assert timed.intake.positions() == {("s", "0"): 2}
    with pytest.raises(ValueError, match="time zone"):
        start(MemoryStore(), start=datetime(2013, 1, 1))
    for point in ("newest", 1.5, -1, True, False):
        with pytest.raises(ValueError, match="no starting point"):
            start(MemoryStore(), start=point)


def test_run_goes_on_while_a_partition_may_still_appear() -> None:
    """A source that lists no partition yet has not ended, though all others have; one that cannot list any has."""
    shown: list[Listing] = []

    class Coming(ListSource):
        def listing(self) -> Sequence[Listing]:
            return list(shown)

    def look() -> bool:
        nonlocal looks
        looks += 1
        if looks == 10:
            shown.append(Listing("p"))
            now[0] += LISTING_S
        return looks > 10_000

    now, looks = [0.0], 0
    evaluator = QueryEvaluator(MemoryStore(), background=False, clock=lambda: now[0])
    evaluator.source("there", ListSource([1, 2]))
    evaluator.source("coming", Coming({"p": [3]}))
    evaluator.source("empty", ListSource({}))
    evaluator.create("sum", rx.merge(*map(rx.source, ("there", "coming", "empty"))).pipe(ops.sum()))
    evaluator.run(until=look)
    assert 10 < looks < 10_000
    assert [value for part in evaluator.stream("sum").read(0, 10) for value in part.values] == [6]


def test_run_ends_where_no_source_has_a_partition() -> None:
    """A source without partitions, that cannot have any later, has ended, and its queries with it."""
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("empty", ListSource({}))
    evaluator.create("count", rx.source("empty").count())
    deadline = time.monotonic() + 60
    evaluator.run(until=lambda: time.monotonic() > deadline)
    assert time.monotonic() < deadline
    assert [value for part in evaluator.stream("count").read(0, 10) for value in part.values] == [0]
