"""An edit whose selector cannot make what is open: the query fails, or goes on without it and takes what comes next."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from lanes import crossed, every_of, left_to_commits

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import QueryEvaluator

Select = Callable[[Any], Any]


def refuse(*_: Any) -> Any:
    raise ValueError("refused")


def nothing(_: Any) -> Any:
    return None


def foreign(_: Any) -> Any:
    import reactivex

    return reactivex.of(1)


WAYS: dict[str, Select] = {
    "raises": refuse,
    "nothing": nothing,
    "foreign": foreign,
    "defer": lambda _: rx.defer(refuse),
    "beside": lambda _: rx.never().merge(rx.defer(refuse)),
    "ends": lambda _: rx.empty().first(),
}
"""How a selector fails for the element 1."""
SOONER = {
    "durations": ("raises", "nothing", "foreign", "defer"),
    "group closing": ("raises", "nothing", "foreign", "defer"),
    "group_join": ("raises", "nothing"),
}
"""The ways that fail before anything is made of the element, of operators that make something of it first."""


def n() -> Any:
    return rx.source("n")


def t() -> Any:
    return rx.source("t")


def counted(window: Any) -> Any:
    return window.count()


def total(a: int, b: int) -> int:
    return a + b


def grouped() -> Any:
    return n().group_by(lambda v: v % 3)


OPEN = t().take(1)
"""What is open until the source `t` has something."""
READ: dict[str, tuple[Select, Callable[[Select], Any]]] = {
    "flat_map": (lambda v: OPEN.map(lambda x: (x, v)), lambda f: n().flat_map(f)),
    "flat_map_indexed": (lambda v: OPEN.map(lambda x: (x, v)), lambda f: n().flat_map_indexed(lambda v, _: f(v))),
    "concat_map": (lambda v: OPEN.map(lambda x: (x, v)), lambda f: n().concat_map(f)),
    "merge of two": (lambda v: OPEN.map(lambda x: (x, v)), lambda f: n().map(f).merge(max_concurrent=2)),
    "switch_map": (lambda v: OPEN.map(lambda x: (x, v)), lambda f: n().switch_map(f)),
    "expand": (lambda v: OPEN.map(lambda _: v + 10) if v < 10 else rx.empty(), lambda f: n().expand(f)),
    "delay": (lambda v: OPEN, lambda f: n().delay_with_mapper(f)),
    "throttle": (lambda v: OPEN, lambda f: n().throttle_with_mapper(f)),
    "timeout": (lambda v: t().skip(99), lambda f: n().timeout_with_mapper(rx.never(), f, rx.of("late"))),
    "buffer_toggle": (lambda v: OPEN, lambda f: n().buffer_toggle(n(), f)),
    "window_toggle": (lambda v: OPEN, lambda f: n().window_toggle(n(), f).flat_map(counted)),
    "join": (lambda v: OPEN, lambda f: n().join(t(), f, lambda _: rx.empty())),
    "join, right": (lambda v: OPEN, lambda f: t().join(n(), lambda _: rx.empty(), f)),
    "group_join": (lambda v: OPEN, lambda f: n().group_join(t(), f, lambda _: rx.empty()).map(lambda p: p[0])),
    "groups": (lambda g: g.scan(total), lambda f: grouped().flat_map(f)),
    "beside groups": (lambda g: g.scan(total).merge(t()), lambda f: grouped().flat_map(f)),
    "groups, filtered": (lambda g: g.scan(total), lambda f: grouped().filter(lambda g: g.key < 3).flat_map(f)),
    "groups within": (
        lambda g: g.scan(total),
        lambda f: n().group_by(lambda _: 0).flat_map(lambda all: all.group_by(lambda v: v % 3).flat_map(f)),
    ),
    "group closing": (lambda k: OPEN, lambda f: grouped().flat_map(lambda g: g.buffer_when(lambda: f(g.key)))),
    "durations": (
        lambda g: rx.never(),
        lambda f: n().group_by_until(lambda v: v % 3, None, f).flat_map(lambda g: g.scan(total)),
    ),
}
"""Operators that read a sequence, with one that is open at the edit, and the query of a selector."""
GROUPS = [name for name in READ if name.startswith(("groups", "durations"))]


def failing_at_one(ok: Select, way: Select) -> Select:
    return lambda v: way(v) if getattr(v, "key", v) == 1 else ok(v)


Found = tuple[str, list[Any], int, int]


class Life:
    """One query that is edited while it runs, or by a restart."""

    def __init__(self, policy: Any, *, restarts: bool) -> None:
        self.policy, self.restarts, self.store = policy, restarts, MemoryStore()
        self.evaluator: QueryEvaluator | None = None
        self.seen = self.letters = 0

    def goes_on_as(self, query: Any) -> None:
        if self.evaluator is None or self.restarts:
            if self.evaluator is not None:
                self.evaluator.checkpoint()
                self.close()
                self.store = self.store.reopen()
            self.evaluator = QueryEvaluator(self.store, background=False)
            self.sources = {name: self.evaluator.push(name) for name in "nt"}
        self.evaluator.create("q", query, policy=self.policy)
        self.evaluator.start()

    def takes(self, *values: Any) -> Found:
        """Return the status, what was emitted since, how many elements were skipped in all, and new letters."""
        assert self.evaluator is not None
        for value in values:
            self.sources["t" if value == "t" else "n"].push([value])
            while self.evaluator.step():
                pass
        self.evaluator.flush()
        emitted = [value for part in self.evaluator.stream("q").read(0, 1000) for value in part.values]
        buried = self.evaluator.stream("q.dead_letters").read(0, 1000) if self.policy == "dead_letter" else ()
        letters = [value for part in buried for value in part.values]
        query, before = self.evaluator.query("q"), (self.seen, self.letters)
        self.seen, self.letters = len(emitted), len(letters)
        return query.status, emitted[before[0] :], query.skipped, len(letters) - before[1]

    def close(self) -> None:
        assert self.evaluator is not None
        self.evaluator.close()


def lived(reads: str, way: str, policy: str, *, restarts: bool) -> list[Found]:
    """Return what comes before an edit, between it and the next that mends it, and behind that."""
    ok, query = READ[reads]
    life, found = Life(policy, restarts=restarts), []
    for select in (ok, failing_at_one(ok, WAYS[way]), ok):
        life.goes_on_as(query(select))
        found.append(life.takes(2, 1) if not found else life.takes("t", 1, 2, "t", 1, "t"))
        if found[-1][0] != "running":
            break
    life.close()
    return found


@pytest.mark.parametrize("restarts, reads", crossed([False, True], READ, nth=6))
def test_a_selector_that_fails_for_what_is_open_fails_the_query(reads: str, restarts: bool) -> None:
    """Under the policy ``fail`` no way leaves it running, whatever comes next."""
    for way in WAYS:
        assert [each[0] for each in lived(reads, way, "fail", restarts=restarts)] == ["running", "failed"], way


@pytest.mark.parametrize(
    "reads, policy, restarts", every_of(39, product(READ, ["skip", "dead_letter"], [False, True]), commits=9)
)
def test_what_cannot_be_opened_again_is_given_up_alone(reads: str, policy: str, restarts: bool) -> None:
    """The query goes on, counts it, and fares in every way as if the selector had raised; mended it has all again.

    But what was made of the element before it was found out stays (the windows of `group_join`), in all those ways.
    """
    expected = lived(reads, "raises", policy, restarts=restarts)
    assert [each[0] for each in expected] == ["running"] * 3
    assert expected[1][2] >= 1
    for way in SOONER.get(reads, WAYS):
        assert lived(reads, way, policy, restarts=restarts) == expected, way
    later = [lived(reads, way, policy, restarts=restarts) for way in WAYS if way not in SOONER.get(reads, WAYS)]
    assert all(each == later[0] and each[0] == expected[0] for each in later)


@left_to_commits
def test_what_is_given_up_as_it_begins_is_in_no_checkpoint() -> None:
    """Beside an operator that goes on: its row had no reader any more, and the query did not complete behind it."""
    ok, query = READ["beside groups"]
    edited = query(failing_at_one(ok, lambda g: g.scan(total).merge(rx.defer(refuse))))
    life = Life("skip", restarts=False)
    life.goes_on_as(query(ok))
    life.takes(2, 1)
    assert life.evaluator is not None
    life.evaluator.checkpoint()
    life.goes_on_as(edited)
    report = str(life.evaluator.statistics().reports["q"])
    life.restarts = True
    life.goes_on_as(edited)
    for source in life.sources.values():
        source.on_completed()
    while life.evaluator.step():
        pass
    assert (life.evaluator.query("q").status, life.evaluator.query("q").skipped) == ("completed", 1)
    assert "dropped: /flat_map/inner" in report
    life.close()


@pytest.mark.parametrize(
    "reads, policy, restarts", every_of(3, product(GROUPS, ["skip", "dead_letter"], [False, True]))
)
def test_no_event_of_a_group_without_a_reader_is_lost_in_silence(reads: str, policy: str, restarts: bool) -> None:
    """Each is counted, and a letter, until the selector is mended; then the group begins with the next one."""
    for way in WAYS:
        _, edited, mended = lived(reads, way, policy, restarts=restarts)
        assert edited[2:] == (3, 2 if policy == "dead_letter" else 0), way
        assert mended == ("running", [1, 6, 2], 3, 0), way


MOVED: dict[str, Callable[[Any], Any]] = {
    "another operator": lambda g: g.concat_map(lambda each: each.scan(total)),
    "another place": lambda g: g.map(lambda each: each.scan(total)).merge_all(),
    "behind another": lambda g: g.flat_map(lambda each: [each]).flat_map(lambda each: each.scan(total)),
}


@pytest.mark.parametrize("restarts, policy, moved", every_of(5, product([False, True], ["fail", "skip"], MOVED)))
def test_a_group_whose_reader_an_edit_takes_away_begins_again(moved: str, policy: str, restarts: bool) -> None:
    """The events of its key go to what reads groups now: the group before would have them, and nobody to read it."""
    life = Life(policy, restarts=restarts)
    life.goes_on_as(grouped().flat_map(lambda g: g.scan(total)))
    assert life.takes(1, 2, 1) == ("running", [1, 2, 2], 0, 0)
    life.goes_on_as(MOVED[moved](grouped()))
    assert life.takes(1, 1) == ("running", [1, 2], 0, 0)
    life.close()


def test_what_an_edit_gives_up_is_told() -> None:
    """The incident of what is skipped says that it was the edit, and why; the report has the path."""
    life = Life("skip", restarts=False)
    ok, query = READ["groups"]
    life.goes_on_as(query(ok))
    life.takes(1)
    life.goes_on_as(query(failing_at_one(ok, refuse)))
    assert life.evaluator is not None
    life.evaluator.step()
    found = life.evaluator.statistics()
    told = [each.message for each in found.incidents if each.kind == "skipped"]
    assert told == [
        "it raised at 1 event so far, which is lost; the last, what an edit was to open again: ValueError: refused"
    ]
    assert "/flat_map/inner" in str(found.reports["q"])
    life.close()
