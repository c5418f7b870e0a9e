"""Which parts of an edited query run: what is new begins with the next events, what is kept goes on or stays ended."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lanes import crossed, every_of

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator
from hosting.engine.hosted_query import RUNNING, Standing
from reliable_rx.operators.hubs import Hub
from reliable_rx.query.query import HubLeaf
from reliable_rx.runtime.plan import Plan, PlanNode

SOURCES = ("a", "b", "c")
WAYS = ("live", "behind a stop", "behind a kill")
EVENTS, EDITED_AT = 16, 8
LATER_S = 50.0
Draw = Callable[[int], int]
"""Draws one of so many."""


class Run:
    """A query that is edited in the midst of its events, beside one that is created as it was edited to, just then."""

    def __init__(self, before: Any, after: Any, events: list[str], way: str) -> None:
        self.store, self.now, self.way = MemoryStore(), 1000.0, way
        self.queries = {"q": before}
        self.open()
        self.play(events[:EDITED_AT])
        before_it = self.values("q")
        old = self.standing("q")
        self.old = None if old is None else (old.plan, old.active)
        if way == "behind a stop":
            self.stop()
        self.queries = {"q": after, "f": after}
        if way == "behind a stop":
            self.open()
        for name in self.queries if way != "behind a stop" else ():
            self.evaluator.create(name, after)
        self.settle()
        self.report = str(self.evaluator.statistics().reports.get("q"))
        self.unheard = [*self.leaves_unheard()]
        self.play(events[EDITED_AT:-4])
        if way == "behind a kill":
            self.evaluator.flush()
            self.evaluator.abandon()
            self.store = self.store.reopen()
            self.open()
            assert self.evaluator.recovery is not None and self.evaluator.recovery.replayed_turns
        self.play(events[-4:])
        self.end()
        self.found = self.values("q")[len(before_it) :], self.evaluator.query("q").status
        self.fresh = self.values("f"), self.evaluator.query("f").status
        for _ in range(2):
            self.stop()
            self.open()
            assert not self.evaluator.statistics().reports
        self.evaluator.abandon()

    def open(self) -> None:
        self.evaluator = QueryEvaluator(self.store, background=False, checkpoint_interval_s=1e9, clock=lambda: self.now)
        self.pushed = {name: self.evaluator.push(name) for name in SOURCES}
        for name, query in self.queries.items():
            self.evaluator.create(name, query)
        self.evaluator.start()
        self.settle()

    def stop(self) -> None:
        self.evaluator.__exit__(None, None, None)
        self.store = self.store.reopen()

    def settle(self) -> None:
        for _ in range(200):
            if not self.evaluator.step():
                return
        raise AssertionError("there is no end of it")

    def play(self, events: list[str]) -> None:
        for number, source in enumerate(events):
            self.now += 1.0
            self.pushed[source].push([int(self.now) % 7 + number])
            self.settle()

    def end(self) -> None:
        for source in SOURCES:
            self.now += 1.0
            self.pushed[source].on_completed()
            self.settle()
        for _ in range(3):
            self.now += LATER_S
            self.settle()
        self.evaluator.flush()

    def values(self, name: str) -> list[Any]:
        self.evaluator.flush()
        return [value for part in self.evaluator.stream(name).read(0, 10**6) for value in part.values]

    def standing(self, name: str) -> Standing | None:
        found = self.evaluator.engine.standing[name]
        return found if found.status == RUNNING else None

    def kept(self) -> set[str]:
        """Return the operators that an edit may have kept something of."""
        if self.old is None:
            return set()
        known = {node.path for node in self.old[0].walk()}
        after = self.evaluator.engine.standing["f"].plan
        return {node.path for node in after.walk() if node.path in known and not is_plain(node)}

    def leaves_unheard(self) -> Iterator[str]:
        """Yield the leaves that a new query would read, and this one does not though nothing kept has ended them."""
        query, anew = self.standing("q"), self.standing("f")
        if query is None or anew is None or self.old is None:
            return
        for node in query.plan.nodes:
            is_read = node.down is None or query.active & node.down.bit or query.detached & node.bit
            if query.active & node.bit and not is_read:
                yield f"{node.path} runs for nobody"
        for leaf in query.plan.leaves:
            if anew.active & leaf.bit and not query.active & leaf.bit and not has_ended_it(leaf, *self.old):
                yield leaf.path


def is_plain(node: PlanNode) -> bool:
    return node.op.name in ("source", "inner", "shared", "map", "filter")


ENDING = ("take", "take_while", "first", "take_until", "share", "concat", "amb", "catch_next", "skip_until")
"""What may end something that stands before it, or leave it, or begin it later."""
ENDED = (*ENDING, "with_latest_from", "zip", "sample")
"""What ends its other inputs with one of them."""


def has_ended_it(leaf: PlanNode, before: Plan, active: int) -> bool:
    """Whether an operator that is kept had ended *leaf*, or of a shared part all who would read it."""
    down, last = leaf.down, leaf
    while down is not None:
        old = before.by_path.get(down.path)
        if old is not None and down.op.name in ENDED and not active & old.bit:
            return True
        if old is not None and down.op.name in ENDING and not runs(old, leaf.path, active):
            return True
        down, last = down.down, down
    if not isinstance(last.op, Hub) or leaf.plan is None:
        return leaf.op.name == "shared"
    readers = [each for each in leaf.plan.leaves if isinstance(each.op, HubLeaf) and each.op.token == last.op.token]
    return all(has_ended_it(each, before, active) for each in readers)


def runs(old: PlanNode, path: str, active: int) -> bool:
    """Whether that input of *old* ran under which *path* stands."""
    sides = [port for port in range(1, len(old.inputs)) if path.startswith(f"{old.path}:{port}/")]
    return bool(old.inputs) and bool(active & old.inputs[sides[0] if sides else 0].bit)


# -- what is drawn


def shared(part: Any, draw: Draw) -> Any:
    return (lambda: rx.merge(part, part.skip(1)), lambda: rx.concat(part.take(1), part))[draw(2)]()


def of_groups(draw: Draw) -> Callable[[Any], Any]:
    return (lambda g: g.take(1), lambda g: g.map(number), lambda g: g.scan(add))[draw(3)]


def number(value: Any) -> int:
    return sum(map(number, value)) if isinstance(value, tuple) else int(value)


def add(total: Any, value: Any) -> int:
    return number(total) + number(value)


def small(value: Any) -> bool:
    return number(value) < 9


def fragile(value: Any) -> int:
    return 6 // (number(value) % 3)


UNARY: list[Callable[[Any, Draw], Any]] = [
    lambda s, draw: s.map(number),
    lambda s, draw: s.take(1 + draw(3)),
    lambda s, draw: s.take_while(small),
    lambda s, draw: s.first(),
    lambda s, draw: s.scan(add),
    lambda s, draw: s.start_with(5),
    lambda s, draw: s.debounce(1.5),
    lambda s, draw: s.delay(1.5),
    lambda s, draw: s.flat_map(lambda v: rx.of(v, 1)),
    lambda s, draw: s.flat_map(lambda v: rx.timer(2.5).map(lambda _: v)),
    lambda s, draw: s.group_by(lambda v: number(v) % 2).flat_map(of_groups(draw)),
    lambda s, draw: shared(s.share(), draw),
    lambda s, draw: shared(s.publish_value(4).ref_count(), draw),
    lambda s, draw: shared(s.replay(2).ref_count(), draw),
]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda s, o: s.merge(o),
    lambda s, o: s.concat(o),
    lambda s, o: s.amb(o),
    lambda s, o: s.take_until(o.skip(2)),
    lambda s, o: s.map(fragile).catch(o),
    lambda s, o: s.zip(o).map(number),
    lambda s, o: s.combine_latest(o).map(number),
    lambda s, o: s.with_latest_from(o).map(number),
    lambda s, o: s.skip_until(o),
    lambda s, o: s.sample(o),
]


def drawn(draw: Draw, depth: int) -> Any:
    query: Any = rx.source(SOURCES[draw(3)])
    for _ in range(1 + draw(2) if depth else draw(2)):
        if depth and draw(2):
            query = BINARY[draw(len(BINARY))](query, drawn(draw, depth - 1))
        else:
            query = UNARY[draw(len(UNARY))](query, draw)
    return query


def choices(seed: int, changed: int | None = None) -> Draw:
    """Return what draws as *seed* says; the choice of number *changed* is another one."""
    source, count = random.Random(seed), [0]

    def draw(many: int) -> int:
        count[0] += 1
        found = source.randrange(10**6)
        return (found + (count[0] == changed)) % many

    return draw


def pair(seed: int) -> tuple[Any, Any]:
    """Return a query and what it is edited to: another one, or the same but for a choice."""
    changed = random.Random(seed).randrange(1, 10)
    after = choices(seed, changed) if seed % 3 else choices(-seed - 1)
    return drawn(choices(seed), 2), drawn(after, 2)


TELLING = (3, 9, 18, 20, 27, 39, 82, 84, 93, 280, 500, 1508)
"""Which of the pairs have shown faults that were there once."""


@pytest.mark.parametrize("seed", [*TELLING, *every_of(67, ((n,) for n in range(900) if n not in TELLING))])
def test_what_is_new_begins_and_what_is_kept_is_kept(seed: int) -> None:
    """An edit leaves nothing dead: the three ways agree, what shares nothing does as a new query, and all ends."""
    before, after = pair(seed)
    draw = random.Random(seed)
    events = [draw.choice(SOURCES) for _ in range(EVENTS)]
    runs = [Run(before, after, events, way) for way in WAYS]
    assert [(each.found, each.report) for each in runs] == [(runs[0].found, runs[0].report)] * len(runs)
    run = runs[0]
    if run.old is None or "/inner" in run.report.partition("dropped")[2]:  # what failed at that is another matter
        return
    assert not run.unheard, run.report
    if not run.kept():
        assert run.found == run.fresh, run.report
    if run.fresh[1] != RUNNING and "/sample" not in run.report:  # that completes by which of its inputs has first
        assert run.found[1] != RUNNING, run.report


# -- a few of these


a, b, c = map(rx.source, SOURCES)
ON = ["a", "b", "c"] * 3 + ["a", "b", "b", "c", "a", "c", "b"]
BEGUN: dict[str, tuple[Any, Any, str]] = {
    "a take that had enough is gone": (a.take(1).merge(b), a.merge(b), "kept: /merge; dropped: /take; fresh: /source"),
    "it is another operator": (a.first().merge(b), a.last().merge(b), "kept: /merge; fresh: /last, /source"),
    "it reads another source": (a.merge(b), c.merge(b), "kept: /merge; fresh: /source"),
    "and nothing is left of it": (a.take(2).merge(b), a.map(number), "dropped: /merge, /take; fresh: /source"),
    "the loser of an amb": (b.amb(a), b.merge(a), "dropped: /amb; fresh: /merge, /source"),
    "what was ended by another source": (a.take_until(b).merge(c), a.merge(c), "kept: /merge; fresh: /source"),
    "what had failed": (
        a.map(fragile).catch(b),
        a.map(number).merge(b),
        "dropped: /catch_next; fresh: /map, /merge, /source",
    ),
}
"""What had ended is read again where what had ended it is gone: before, after, and what the report says."""


@pytest.mark.parametrize(("edit", "way"), crossed(list(BEGUN), list(WAYS), nightly=1))
def test_what_had_ended_begins_where_what_had_ended_it_is_gone(edit: str, way: str) -> None:
    """An edit that takes out what had ended a part has that read again, and the report says so."""
    before, after, report = BEGUN[edit]
    run = Run(before, after, ON, way)
    assert run.report == report
    assert run.found[1] == run.fresh[1] == "completed"
    if "last" not in report:
        assert run.found == run.fresh


ENOUGH: dict[str, Any] = {
    "another number": a.take(5).merge(b),
    "a function before it": a.map(number).take(5).merge(b),
    "a function behind it": a.take(1).map(number).merge(b),
}


@pytest.mark.parametrize(("edit", "way"), crossed(list(ENOUGH), list(WAYS), nightly=1))
def test_what_has_had_enough_stays_ended(edit: str, way: str) -> None:
    """A `take` that had ended and is kept has had enough, whatever stands before it, and whatever its number is."""
    run = Run(a.take(1).merge(b), ENOUGH[edit], ON, way)
    only_b = Run(b, b, ON, way)
    assert run.found == only_b.found


@pytest.mark.parametrize("way", WAYS)
def test_what_has_had_enough_stays_ended_over_another_source(way: str) -> None:
    """So it is where a query reads another source, as long as that is no other one of several inputs: this begins."""
    run = Run(a.take(2).delay(9.5), c.take(2).delay(9.5), ON, way)
    assert run.found == ([0, 6], "completed")
    run = Run(a.take(1).merge(b), c.take(1).merge(b), ON, way)
    assert run.report == "kept: /merge; dropped: /take; fresh: /source, /take"
    assert run.found == run.fresh


@pytest.mark.parametrize("way", WAYS)
def test_a_query_that_goes_over_to_what_has_had_enough_completes(way: str) -> None:
    """Where an operator that has had enough is all that is left of a query, that completes with its edit."""
    run = Run(a.take(1).merge(b), a.take(1), ON, way)
    assert run.found == ([], "completed")


@pytest.mark.parametrize("way", WAYS)
def test_a_source_that_has_ended_ends_what_comes_to_read_it(way: str) -> None:
    """A leaf that reads another source than before ends at once if that has ended, as a new one does."""
    run = Run(a.merge(b), rx.from_([1]).merge(b), ON, way)
    assert run.found == run.fresh


@pytest.mark.parametrize("way", WAYS)
def test_a_group_is_read_again_where_what_had_enough_of_it_is_gone(way: str) -> None:
    """A group begins again with its next event if it was read to an end that is not there any more."""
    groups = a.merge(b, c).group_by(lambda value: value % 2)
    run = Run(groups.flat_map(lambda g: g.take(1)), groups.flat_map(lambda g: g.map(number)), ON, way)
    assert run.report == "kept: /flat_map, /group_by, /merge; fresh: /flat_map/inner/inner"
    assert run.found == run.fresh
    run = Run(groups.flat_map(lambda g: g.take(1)), groups.flat_map(lambda g: g.take(9)), ON, way)
    assert run.found == ([], "completed")


SIDES: dict[str, Callable[[Any], Any]] = {
    "start_with": lambda s: s.start_with(4),
    "start_with, shared": lambda s: s.start_with(4).share(),
    "publish_value": lambda s: s.publish_value(4).ref_count(),
    "concat": lambda s: rx.concat(rx.of(4), s),
    "catch": lambda s: s.catch(rx.of(1)),
}
JOINS: dict[str, Callable[[Any, Any], Any]] = {
    "merge": lambda s, o: s.merge(o),
    "with_latest_from": lambda s, o: s.with_latest_from(o),
    "combine_latest": lambda s, o: s.combine_latest(o),
    "zip": lambda s, o: s.zip(o),
    "sample": lambda s, o: s.sample(o),
    "skip_until": lambda s, o: s.skip_until(o),
}


@pytest.mark.parametrize(("join", "side", "way"), crossed(list(JOINS), list(SIDES), list(WAYS)))
def test_a_new_input_that_begins_one_action_later_is_read(join: str, side: str, way: str) -> None:
    """An operator of several inputs that an edit brings reads each of them, however that begins."""
    run = Run(a.skip(1), JOINS[join](a, SIDES[side](b)), ON, way)
    assert run.found == run.fresh


PARTS: dict[str, Callable[[Any], Any]] = {
    "share": lambda s: s.share(),
    "replay": lambda s: s.replay(2).ref_count(),
    "publish_value": lambda s: s.publish_value(5).ref_count(),
    "publish_value of a debounce": lambda s: s.debounce(1.5).publish_value(5).ref_count(),
}


@pytest.mark.parametrize(("part", "way"), crossed(list(PARTS), list(WAYS), nightly=1))
def test_a_shared_part_that_ends_its_first_reader_at_once_is_read_on(part: str, way: str) -> None:
    """What greets its readers may end one of them in the edit that brings it; the store opens again behind that."""
    shared = PARTS[part](a)
    run = Run(a.map(number), rx.concat(shared.take(1), shared).map(number), ON, way)
    assert run.found == run.fresh


@pytest.mark.parametrize("way", WAYS)
def test_a_concat_that_has_gone_on_reads_no_other_first(way: str) -> None:
    """What is kept and is behind an input does not come back to it, whatever that reads by now."""
    run = Run(a.take(1).concat(b), c.concat(b), ON, way)
    assert run.report == "kept: /concat; dropped: /take"
    assert run.found == Run(b, b, ON, way).found
