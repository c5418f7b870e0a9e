"""The edit report is true for every operator: what it calls kept goes on as if nothing had been edited.

The most common edit is that of a function before an operator with a state. So every case of the table is edited so, by
a function that does the same as the one before, after every turn: what comes out must be what comes out without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from threading import Lock
from typing import Any

import pytest
from edited_world import WAYS, alone, play
from every_case import CASES, lanes
from lanes import crossed

import reliable_rx as rx
from hosting import QueryEngine
from hosting.engine.hosted_query import RUNNING
from hosting.engine.turns import Events
from reliable_rx import operators as ops
from reliable_rx.runtime.rows import Report
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.marbles import COMPLETED
from reliable_rx.testing.oracle import comparable

STREAMS = ("-0-1-2-0-1-(22)-0-1|", "--1-0-2--(01)---2-1-0---|")
HOSTABLE = [name for name, case in CASES.items() if case.hostable]
SAME = (lambda x: x, lambda x: x or x)


NOT_TOLD = {"shared, publish_value: in elements": "two readers of a shared part change places"}
EDITS: dict[str, Any] = {
    "a function": lambda source, odd: source.map(SAME[odd]),
    "an operator": lambda source, odd: source.filter(lambda x: True) if odd else source,
}


class EditedRun(HostedRun):
    """A run whose query is edited after every turn that leaves it running."""

    def __init__(self, build: Any, sources: int, *, edit: Any) -> None:
        streams = [parse_marbles(STREAMS[n % 2]) for n in range(sources)]
        super().__init__(lambda ops, rx, *s: self.made(), streams, 40.0, crash=False)
        self.case, self.edit = build, edit or EDITS["a function"]
        self.edits = edit is not None
        self.reports: list[Report] = []
        self.number = 0
        self.told = False

    def made(self) -> Any:
        sources = [self.edit(rx.source(f"s{n}"), self.number % 2) for n in range(len(self.streams))]
        return self.case(ops, rx, *sources)

    def take(self, turn: Any) -> None:
        super().take(turn)
        if self.edits and self.engine.standing["query"].status == RUNNING:
            self.number += 1
            before = stateful(self.engine.standing["query"])
            super().take(self.engine.creation("query", self.made(), time=self.engine.clock))
            report = self.engine.reports["query"]
            self.reports.append(report)
            self.told = self.told or bool(report.dropped or report.fresh)
            assert set(report.kept) >= before, f"{before - set(report.kept)} were kept, and the report does not say so"
            if self.engine.standing["query"].status == RUNNING:
                assert set(report.kept) <= before | stateful(self.engine.standing["query"]), str(report)


def stateful(instance: Any) -> set[str]:
    """Return the paths of all operators in *instance*, and inside it, that have a state, groups or a timer now."""
    found = {node.path for node in instance.plan.slots if instance.states[node.slot] is not None}
    found |= {instance.plan.nodes[index].path for index, tags in (instance.timers or {}).items() if tags}
    found |= {instance.plan.nodes[index].path for index, groups in (instance.subjects or {}).items() if groups}
    return found.union(*(stateful(child) for child in inside(instance)))


def inside(instance: Any) -> Iterator[Any]:
    for children in (instance.children or {}).values():
        yield from children.values()


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", lanes(HOSTABLE, fast=1, every=8))
def test_an_edit_before_it_is_neither_felt_nor_misreported(name: str, edit: str) -> None:
    """What stands before an operator is edited: the operator goes on with its state, and the report says kept."""
    check_edits(name, edit)


def check_edits(name: str, edit: str) -> None:
    """*Raises* `AssertionError` for an edit that is felt, or a report that is not true."""
    case = CASES[name]
    plain = EditedRun(case.build, case.sources, edit=None).play()
    edited = EditedRun(case.build, case.sources, edit=EDITS[edit])
    same = [comparable(each) for each in edited.play()] == [comparable(each) for each in plain]
    assert same or edited.told or name in NOT_TOLD
    if edit == "a function" or "shared" not in name:
        assert same and not edited.told, [str(report) for report in edited.reports]


ENOUGH: dict[str, Callable[[Any], Any]] = {
    "windows by a timer": lambda source: source.window_when(lambda: rx.timer(1.5)).take(3),
    "windows by time": lambda source: source.window_with_time(1.5).take(3),
    "windows by count": lambda source: source.window_with_count(3).take(2),
    "groups": lambda source: source.group_by(lambda x: x).take(1),
    "groups, behind a map": lambda source: source.group_by(lambda x: x).map(lambda group: group).take(1),
    "groups, up to a condition": lambda source: source.group_by(lambda x: x).take_while(lambda group: group.key == 0),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", ENOUGH)
def test_what_has_had_enough_of_groups_goes_on_without_more(name: str, edit: str) -> None:
    """An edit before it lets it not begin again while groups are read, so that the query completes."""

    def build(ops: Any, rx: Any, source: Any) -> Any:
        return ENOUGH[name](source).flat_map(lambda group: group.to_list())

    plain = EditedRun(build, 1, edit=None).play()
    assert plain[-1].kind == COMPLETED
    edited = EditedRun(build, 1, edit=EDITS[edit])
    assert [comparable(each) for each in edited.play()] == [comparable(each) for each in plain]
    assert not edited.told


BEHIND_ENOUGH: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda given: given,
    "do_action": lambda given: given.do_action(lambda group: None),
    "finally_action": lambda given: given.finally_action(lambda: None),
    "start_with": lambda given: given.start_with(),
    "delay": lambda given: given.delay(0.25),
    "catch": lambda given: given.catch(rx.never()),
    "retry": lambda given: given.retry(2),
    "concat": lambda given: given.concat(rx.empty()),
    "merge": lambda given: given.merge(rx.empty()),
    "timeout": lambda given: given.timeout(99.0),
    "take_until": lambda given: given.take_until(rx.never()),
    "map_indexed": lambda given: given.map_indexed(lambda group, index: group),
    "share": lambda given: given.share(),
}


@pytest.mark.parametrize(("name", "after", "before"), crossed(ENOUGH, BEHIND_ENOUGH, BEHIND_ENOUGH))
def test_what_is_put_in_behind_it_leaves_the_groups_be(name: str, after: str, before: str) -> None:
    """An edit behind what has had enough of groups lets those go on that are read, and the query completes."""

    def query(put: str) -> Any:
        return BEHIND_ENOUGH[put](ENOUGH[name](rx.source("a"))).flat_map(lambda group: group.to_list())

    prefix, rest = [("a", number) for number in range(4)], [*(("a", number) for number in (0, 5, 6, 7)), ("a", None)]
    if alone(query(before), prefix).status != "running":
        return  # it begins afresh
    unedited = play(query(before), query(before), WAYS[0], prefix, rest)
    for way, edited in product(WAYS[:2], (query(after), query(after).map(lambda found: found))):
        found = play(query(before), edited, way, prefix, rest)
        is_given_others = found.report is not None and "/flat_map" in found.report.dropped
        given = [] if is_given_others else unedited.after
        heard = (found.before, found.after, found.status)
        assert (way, *heard) == (way, unedited.before, given, unedited.status), str(found.report)


class TakenOutRun(EditedRun):
    """A run whose query is edited into its bare first source behind one of its turns."""

    def __init__(self, build: Any, sources: int, *, behind: int) -> None:
        super().__init__(build, sources, edit=None)
        self.behind = behind

    def take(self, turn: Any) -> None:
        super().take(turn)
        self.behind -= 1
        query = self.engine.standing["query"]
        if self.behind == 0 and query.status == RUNNING:
            before = stateful(query)
            super().take(self.engine.creation("query", rx.source("s0"), time=self.engine.clock))
            report = self.engine.reports["query"]
            told = (*report.dropped, *report.fresh)
            untold = {path for path in before if not f"{path}/".startswith(tuple(f"{each}/" for each in told))}
            assert not untold, f"{untold} were given up, and the report does not say so: {report}"


@pytest.mark.parametrize("name", lanes(HOSTABLE, fast=1, every=8))
def test_what_an_edit_gives_up_is_named(name: str) -> None:
    """What had a state or waited for a timer, or what that was inside of, is told when an edit takes it out."""
    case = CASES[name]
    for behind in (2, 4, 7):
        TakenOutRun(case.build, case.sources, behind=behind).play()


def engine_of(query: Any, *sources: str) -> QueryEngine:
    engine = QueryEngine()
    for source in sources:
        engine.declare(source, ["0"])
    engine.take(engine.creation("q", query, time=0.0))
    return engine


def test_what_was_inside_a_dropped_operator_is_named_by_its_path() -> None:
    """All paths in a report are those of operators, also of rows whose owner was left out."""
    n = rx.source("n")
    engine = engine_of(
        n.flat_map(lambda x: n.flat_map(lambda y: n.map(lambda z: (x, y, z)) if y else n) if x else n), "n"
    )
    engine.take(Events("n", "0", 0, [1, 2, 3], 1.0))
    engine.take(engine.creation("q", n.scan(lambda a, x: a + x, 0), time=2.0))
    assert set(engine.reports["q"].dropped) == {"/flat_map", "/flat_map/inner/flat_map"}


def test_state_that_does_not_survive_is_named() -> None:
    """An edit takes state over as a store would have it: what does not pickle is dropped by name, and begins afresh."""
    n = rx.source("n")
    engine = engine_of(n.count().merge(n.map(lambda x: Lock()).buffer_with_count(2).map(len)), "n")
    engine.take(Events("n", "0", 0, [1], 1.0))
    edited = n.count().merge(n.map(lambda x: x).buffer_with_count(2).map(len))
    engine.take(engine.creation("q", edited, time=2.0))
    assert {"/merge:1/buffer_with_count", "/count"} <= set(engine.reports["q"].dropped)
    outputs = engine.take(Events("n", "0", 1, [2, 3], 3.0, ended=True))
    assert [value for each in outputs for value in each.values] == [2, 2]


def test_what_is_new_behind_a_later_source_begins_with_a_state() -> None:
    """An operator that is put behind what a fresh start would read later runs, since that runs already."""
    a, b = rx.source("a"), rx.source("b")
    engine = engine_of(rx.concat(a.take(1), b), "a", "b")
    engine.take(Events("a", "0", 0, [1], 1.0))
    engine.take(engine.creation("q", rx.concat(a.take(1), b.scan(lambda total, x: total + x, 0)), time=2.0))
    outputs = engine.take(Events("b", "0", 0, [10, 20], 3.0))
    assert [value for each in outputs for value in each.values] == [10, 30]


class Enricher:
    """An object that knows when it was made."""

    def __init__(self, started: float) -> None:
        self.started, self.rate = started, 2

    def __call__(self, x: int) -> int:
        return x * self.rate


@pytest.mark.parametrize("ended", [False, True], ids=["running", "ended"])
@pytest.mark.parametrize(
    "given", [lambda e: e, lambda e: e.__call__, partial], ids=["an object", "a method", "a partial"]
)
def test_what_differs_in_an_object_that_a_query_is_given_is_named(
    given: Callable[[Any], Callable[[Any], Any]], ended: bool
) -> None:
    """A start that is an edit only since an object holds something else says in what; another edit does not."""
    n = rx.source("n")
    engine = engine_of(n.map(given(Enricher(1.0))).count(), "n")
    if ended:
        engine.take(Events("n", "0", 0, [1], 1.0, ended=True))
    engine.take(engine.creation("q", n.map(given(Enricher(2.0))).count(), time=2.0))
    told = str(engine.reports["q"])
    assert "what its objects hold differs: Enricher.started" in told and "rate" not in told
    engine.take(engine.creation("q", n.map(given(Enricher(2.0))).map(str).count(), time=3.0))
    assert "differs" not in str(engine.reports["q"])


def test_a_source_that_has_ended_is_read_to_its_end() -> None:
    """A query that reads it from an edit on, in the place of another, does not wait for ever."""
    a, b = rx.source("a"), rx.source("b")
    engine = engine_of(a.count(), "a", "b")
    engine.take(Events("a", "0", 0, [1, 2], 1.0))
    engine.take(Events("b", "0", 0, [10], 1.0, ended=True))
    outputs = engine.take(engine.creation("q", b.count(), time=2.0))
    assert [(list(each.values), each.ended) for each in outputs] == [([2], True)]


def not_zero(value: int) -> int:
    return value if value else 1 // value


LEFT: dict[str, tuple[Any, Any]] = {
    "alone": (lambda n, m: n.catch(m), lambda n, m: n),
    "in a merge": (lambda n, m: n.catch(m), lambda n, m: n.merge(m)),
    "in a concat": (lambda n, m: n.catch(m), lambda n, m: n.concat(m)),
}


@pytest.mark.parametrize("where", LEFT)
def test_what_has_not_had_enough_is_read_again_where_what_had_left_it_is_gone(where: str) -> None:
    """With what stood between the two, which had ended of the same error, and begins afresh."""
    (before, after), m = LEFT[where], rx.source("m")
    few = rx.source("n").map(not_zero).take(5)
    engine = engine_of(before(few, m), "n", "m")
    engine.take(Events("n", "0", 0, [1, 2, 0], 1.0))
    engine.take(engine.creation("q", after(few, m), time=2.0))
    assert {"/map", "/source", "/take"} <= {*engine.reports["q"].fresh}
    outputs = engine.take(Events("n", "0", 3, [3, 4, 5, 6, 7, 8], 3.0))
    assert [list(each.values) for each in outputs] == [[3, 4, 5, 6, 7]]


PUT_IN: dict[str, Any] = {
    "group_by": ops.group_by(lambda value: value % 2),
    "tumbling_window": ops.tumbling_window(7.0),
    "timeout": ops.timeout(30.0),
    "take_with_time": ops.take_with_time(30.0),
    "scan": ops.scan(lambda total, value: total + value, 0),
    "map": ops.map(abs),
}


@pytest.mark.parametrize("name", PUT_IN)
def test_what_an_edit_puts_in_is_fresh_if_it_is_to_keep_anything(name: str) -> None:
    """A state, groups, windows or a timer."""
    source, engine = rx.source("n").filter(lambda value: True), QueryEngine()
    engine.declare("n", ["0"])
    engine.take(engine.creation("q", source.map(str), time=0.0))
    engine.take(Events("n", "0", 0, [1, 2], time=1.0))
    engine.take(engine.creation("q", source.pipe(PUT_IN[name], ops.map(str)), time=2.0))
    assert len(engine.reports["q"].fresh) == (name != "map")
