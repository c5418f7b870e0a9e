"""Edits of what readers share: who was there before the edit hears all that follows, whatever it reads by then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed
from reactivex.subject import Subject

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import copy_of
from hosting.engine.turns import Events
from reliable_rx import operators as ops

EVENTS, EDITED_AT = 7, 4
SOURCES = ("m", "n")
Part = Callable[[Any], Any]
"""What makes a shared part over a sequence."""
KINDS: dict[str, Part] = {
    "share": lambda s: s.share(),
    "publish": lambda s: s.publish().ref_count(),
    "multicast": lambda s: s.pipe(ops.multicast(Subject()), ops.ref_count()),
    "replay": lambda s: s.replay(2).ref_count(),
    "publish_value": lambda s: s.publish_value(-1.0).ref_count(),
}


def same(kind: Part, s: Any, m: Any) -> tuple[Any, Any]:
    part = kind(s)
    return part, part


def two(kind: Part, s: Any, m: Any) -> tuple[Any, Any]:
    return kind(s), kind(s)


def turned(kind: Part, s: Any, m: Any) -> tuple[Any, Any]:
    first, second = kind(s), kind(s.map(lambda x: x))
    return second, first


def added_first(kind: Part, s: Any, m: Any) -> tuple[Any, Any]:
    part = kind(s)
    return kind(s), part


EDITS: dict[str, tuple[Callable[..., tuple[Any, Any]], Callable[..., tuple[Any, Any]]]] = {
    "another part behind": (same, two),
    "another part before": (same, added_first),
    "one part for two": (two, same),
    "parts change places": (two, turned),
    "another function before": (
        lambda k, s, m: same(k, s.map(lambda x: x), m),
        lambda k, s, m: same(k, s.map(lambda x: x + 0), m),
    ),
    "a function more": (same, lambda k, s, m: same(k, s.map(lambda x: x), m)),
    "a function less": (lambda k, s, m: same(k, s.map(lambda x: x), m), same),
    "a part more in front": (same, lambda k, s, m: same(k, k(s).filter(lambda x: x >= 0).distinct(), m)),
    "a part less in front": (lambda k, s, m: same(k, k(s).filter(lambda x: x >= 0).distinct(), m), same),
    "a part more in front, without a function": (same, lambda k, s, m: same(k, s.share(), m)),
    "a sequence for each": (same, lambda k, s, m: same(k, s.flat_map(lambda x: rx.of(x)), m)),
    "a source more": (same, lambda k, s, m: same(k, s.merge(m), m)),
    "a source more, from a part": (same, lambda k, s, m: same(k, s.merge(m.share()), m)),
    "what comes at once": (same, lambda k, s, m: same(k, s.start_with(-2.0), m)),
}


def heard(part: Any, who: str, since: float) -> Any:
    """Read *part*, with the number of elements of `n` that this reader has heard."""
    return part.scan(lambda total, value: (who, since, total[2] + is_of_n(value), value), (who, since, 0, None))


def is_of_n(value: float) -> bool:
    return value > -2.0 and not value % 1


def both(a: Any, b: Any, since: float) -> Any:
    return rx.merge(heard(a, "a", since), heard(b, "b", since))


READERS: dict[str, Callable[[Any, Callable[[], Any]], Any]] = {
    "in the query": lambda n, parts: (lambda a, b: both(a, b, -1.0))(*parts()),
    "in inner sequences": lambda n, parts: (lambda a, b: n.flat_map(lambda x: both(a, b, x)))(*parts()),
    "in inner sequences that choose": lambda n, parts: (
        lambda a, b: n.flat_map(lambda x: heard(a, "a", x) if x % 2 else heard(b, "b", x))
    )(*parts()),
    "parts of an inner sequence": lambda n, parts: n.flat_map(lambda x: (lambda a, b: both(a, b, x))(*parts())),
    "in groups": lambda n, parts: (
        lambda a, b: n.group_by(lambda x: x % 3).flat_map(lambda g: g.flat_map(lambda x: both(a, b, x)))
    )(*parts()),
    "later": lambda n, parts: (
        lambda a, b: rx.concat(n.take(2).ignore_elements(), heard(a, "a", -1.0)).merge(
            rx.concat(n.take(1).ignore_elements(), heard(b, "b", -1.0))
        )
    )(*parts()),
    "within publish": lambda n, parts: (
        lambda a, b: n.publish(lambda p: p.flat_map(lambda x: both(a, b, x).merge(heard(p, "p", x))))
    )(*parts()),
    "within replay": lambda n, parts: (
        lambda a, b: n.replay(2, mapper=lambda p: n.flat_map(lambda x: both(a, b, x).merge(heard(p, "p", x))))
    )(*parts()),
    "within publish_value": lambda n, parts: (
        lambda a, b: n.publish_value(-1.0, lambda p: n.flat_map(lambda x: both(a, b, x).merge(heard(p, "p", x))))
    )(*parts()),
    "in sequences of sequences": lambda n, parts: (
        lambda a, b: n.flat_map(lambda x: a.take(2).flat_map(lambda y: both(a, b, x * 100 + y)))
    )(*parts()),
}
CLOCKS: dict[str, Any] = {"processing time": None, "event time": rx.event_time(float, lateness_s=0.0)}
WAYS = ("live", "behind a stop", "behind a kill")


class Run:
    """A run of two sources, in the midst of which a query may be edited."""

    def __init__(self, before: Any, after: Any, clock: Any, way: str) -> None:
        self.engine, self.clock, self.way = QueryEngine(), clock, way
        for source in SOURCES:
            self.engine.declare(source, ["0"])
        self.early: list[Any] = []
        self.late: list[Any] = []
        self.report = ""
        self.create(before)
        for number in range(EVENTS):
            if number == EDITED_AT and after is not None:
                self.edit(after)
            for source in SOURCES:
                value = number + (0.5 if source == "m" else 0.0)
                turn = Events(source, "0", number, [value], float(number))
                into = self.late if number >= EDITED_AT else self.early
                into += [each for out in self.engine.take(turn) for each in out.values]

    def edit(self, query: Any) -> None:
        if self.way == "behind a stop":
            self.engine = copy_of(self.engine)
        self.create(query)
        self.report = str(self.engine.reports["q"])
        if self.way == "behind a kill":
            self.engine = copy_of(self.engine)

    def create(self, query: Any) -> None:
        turn = self.engine.creation("q", query, time=self.engine.clock, clock=self.clock)
        outputs = self.engine.take(turn)
        self.late += [each for out in outputs for each in out.values]


def of_readers_there(values: list[Any], there: float) -> Counter[Any]:
    """Return what those got of `n` who had subscribed before *there*, with how much each had heard."""
    return Counter(each for each in values if each[1] < there and is_of_n(each[3]))


def live_of_all(values: list[Any]) -> Counter[Any]:
    """Return what anybody got of `n` that came after it had subscribed, in whatever part it was greeted."""
    return Counter((who, since, value) for who, since, _, value in values if value > since and not value % 1)


@pytest.mark.parametrize(
    ("clock", "kind", "readers", "edit"), crossed(list(CLOCKS), list(KINDS), list(READERS), list(EDITS))
)
def test_readers_that_are_kept_hear_all_that_follows(clock: str, kind: str, readers: str, edit: str) -> None:
    """An edit of what stands before readers is not felt by those that were there, and all hear what comes from then on.

    So it is live, behind a stop and behind a kill, which agree in outputs and in the report.
    """
    n, m = rx.source("n"), rx.source("m")

    def built(parts: Callable[..., tuple[Any, Any]]) -> Any:
        return READERS[readers](n, lambda: parts(KINDS[kind], n, m))

    before, after = EDITS[edit]
    plain = Run(built(before), None, CLOCKS[clock], "live")
    runs = [Run(built(before), built(after), CLOCKS[clock], way) for way in WAYS]
    edited = runs[0]
    assert [(each.late, each.report) for each in runs] == [(edited.late, edited.report)] * len(runs)
    assert edited.engine.standing["q"].status == "running"
    assert edited.early == plain.early
    there = EDITED_AT - (clock == "event time")
    if "scan" in edited.report.partition("; ")[2]:  # such a reader has another path, and counts anew
        assert live_of_all(edited.late) == live_of_all(plain.late), edited.report
        return
    if readers == "in sequences of sequences":  # how many there are depends on what each new reader is greeted with
        there *= 100 * (edit not in ("a source more", "a source more, from a part", "what comes at once"))
        assert of_readers_there(edited.late, there) >= of_readers_there(plain.late, there)
        return
    assert of_readers_there(edited.late, there) == of_readers_there(plain.late, there), edited.report
    assert live_of_all(edited.late) == live_of_all(plain.late), edited.report
    if "source more" in edit:
        others = Counter(value for *_, value in edited.late if value % 1)
        assert set(others) >= {EDITED_AT + 0.5, EVENTS - 1.5}, edited.report


@pytest.mark.parametrize(
    ("clock", "kind", "other", "readers"), crossed(list(CLOCKS), list(KINDS), list(KINDS), list(READERS))
)
def test_a_part_becomes_another_kind_of_part(clock: str, kind: str, other: str, readers: str) -> None:
    """What a part of another kind remembered is no state of the new one: it begins afresh, and the report says so."""
    n, m = rx.source("n"), rx.source("m")

    def built(name: str) -> Any:
        return READERS[readers](n, lambda: two(KINDS[name], n, m))

    plain = Run(built(kind), None, CLOCKS[clock], "live")
    runs = [Run(built(kind), built(other), CLOCKS[clock], way) for way in WAYS if remembers(kind) != remembers(other)]
    for edited in runs:
        there = EDITED_AT - (clock == "event time")
        assert edited.late == runs[0].late and edited.report == runs[0].report
        assert edited.engine.standing["q"].status == "running"
        assert all(type(each[3]) is float for each in edited.late)
        assert "share" in edited.report.partition("fresh: ")[2]
        assert readers == "in sequences of sequences" or of_readers_there(edited.late, there) == of_readers_there(
            plain.late, there
        )


def remembers(kind: str) -> str:
    return kind if kind in ("replay", "publish_value") else "nothing"


@pytest.mark.parametrize("way", WAYS)
def test_readers_of_a_part_that_has_ended_by_then_are_told(way: str) -> None:
    """An edit by which a reader reads a part of a source that is over ends that reader, and lets the others go on."""
    n, m = rx.source("n"), rx.source("m")
    shared, over = n.share(), m.share()

    def built(which: Any) -> Any:  # found behind `shared`, by its name
        return n.take(1).flat_map(lambda x: rx.merge(shared, which.materialize().map(lambda each: each.kind)))

    engine = QueryEngine()
    for source in SOURCES:
        engine.declare(source, ["0"])
    engine.take(engine.creation("q", built(shared), time=0.0))
    engine.take(Events("n", "0", 0, [1], 0.0))
    engine.take(Events("m", "0", 0, [1], 0.0, ended=True))
    if way == "behind a stop":
        engine = copy_of(engine)
    outputs = engine.take(engine.creation("q", built(over), time=1.0))
    if way == "behind a kill":
        engine = copy_of(engine)
    assert [value for each in outputs for value in each.values] == ["C"]
    outputs = engine.take(Events("n", "0", 1, [2], 2.0, ended=True))
    assert [value for each in outputs for value in each.values] == [2]
    assert engine.standing["q"].status == "completed"


def fed(engine: QueryEngine, value: int) -> list[Any]:
    return [each for out in engine.take(Events("n", "0", value, [value], float(value))) for each in out.values]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("turned", [False, True])
def test_inner_sequences_read_the_part_that_they_name(turned: bool, way: str) -> None:
    """Also where a part has the state, and the place, that the other one had before the edit."""
    n = rx.source("n")
    parts = [n.replay(1).ref_count(), n.map(lambda x: -x).replay(1).ref_count()]
    first, second = reversed(parts) if turned else parts
    groups = n.group_by(lambda x: x % 3).flat_map(lambda g: g.with_latest_from(second))
    engine = QueryEngine()
    engine.declare("n", ["0"])
    engine.take(engine.creation("q", rx.merge(first.map(str), groups), time=0.0))
    fed(engine, 1)
    engine = copy_of(engine) if way == "behind a stop" else engine
    twice = rx.merge(*(n.flat_map(lambda _, part=part: part.take(2)) for part in (second, first)))
    engine.take(engine.creation("q", twice, time=1.0))
    engine = copy_of(engine) if way == "behind a kill" else engine
    fed(engine, 5)
    sign = 1 if turned else -1
    assert fed(engine, 7) == [7 * sign, 7 * sign, -7 * sign, -7 * sign]
