"""An operator is put in behind a total, or taken out from there, as one guards, delays or enriches what runs.

For every operator of the recipes, wherever the total stands: alone, in a branch of what joins two sources, in a group.
The total goes on: nobody who puts a `catch` behind it has edited it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import pytest
from edited_world import WAYS, Step, alone, play, replayed
from lanes import every_of

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.testing.recipes import STEPS, Recipe
from reliable_rx.testing.steps import AGAIN, Tools
from reliable_rx.testing.steps_inner import NESTED

Body = Callable[[Any], Any]
a, b, c = map(rx.source, "abc")
TOOLS = Tools(ops, rx, (c, b))


def total(sequence: Any) -> Any:
    return sequence.scan(lambda total, value: total + value)


def joined(join: Body) -> Callable[[Body], Any]:
    """Return a query in which the total is the first branch of a *join* that says which element is whose."""
    return lambda body: join(body(total(a))).map(lambda value: value[0] if isinstance(value, tuple) else value)


def in_groups(body: Body) -> Any:
    return a.group_by(lambda _: 0).flat_map(body)


def in_groups_of_five(body: Body) -> Any:
    return a.group_by_until(lambda _: 0, None, lambda g: g.skip(4)).flat_map(body)


AROUND: dict[str, Callable[[Body], Any]] = {
    "alone": lambda body: body(total(a)),
    "in a merge": joined(lambda s: s.merge(b.filter(lambda _: False))),
    "in the second branch": joined(lambda s: b.filter(lambda _: False).merge(s)),
    "with a reference": joined(lambda s: s.with_latest_from(b.map(str))),
    "combined": joined(lambda s: s.combine_latest(b.map(str))),
    "of what has a value": lambda body: body(total(a.publish_value(0).ref_count())),
    "of what is replayed": lambda body: body(total(a.replay(2).ref_count())),
    "before what comes first": lambda body: body(total(a)).start_with(0),
    "before what waits": lambda body: body(total(a)).delay_subscription(0.5),
    "in a group, beside another reader": lambda body: in_groups(lambda g: total(g).with_latest_from(body(g))),
    "in a group": lambda body: in_groups(lambda g: body(total(g))),
    "in a group that ends": lambda body: in_groups_of_five(lambda g: body(total(g))),
}
PREFIX: list[Step] = [("b", 5), ("a", 1), ("a", 2), ("a", 3)]
ENDS: list[Step] = [("a", None), ("b", None), ("c", None)]
REST: list[Step] = [("a", 4), ("a", 5), *ENDS]
TOTALS = [10, 15]
PASSED_ON = ("alone", "in a merge", "in the second branch", "before what comes first", "before what waits")
"""Where what comes of the total comes out as it is."""
IS_NO_EDIT = {"as_observable"}
TAKES_FEW = {"flat_map"}
"""Reads the total to an end, and goes on with another source."""
READ_AGAIN = {*AGAIN, "replayed"}
"""Have subscribed the total more than once."""
OTHERWISE = {"timestamp", "skip_until_with_time", "do_while", "while_do"}
"""Go by the clock, or begin with elements of their own."""
MISSES_SOME = {("in a group", "delay_subscription"), ("in a group that ends", "delay_subscription")}
"""Where the total has been read later than the group began, and so has none of what came before."""
ITS_NAMESAKE = {("with a reference", "with_latest_from"), ("combined", "combine_latest")}
"""Where the operator takes the path of one that stands behind it: that begins with another reference."""


def step(name: str) -> Body:
    return lambda query: STEPS[name](TOOLS, query, *([Recipe(0, ())] if name in NESTED else []))


def is_total(path: str) -> bool:
    """Whether *path* is that of the total; the branch beside it may have one of its own."""
    return path.endswith("/scan") and "with_latest_from:1" not in path


ROWS = [*product(AROUND, sorted(STEPS.keys() - IS_NO_EDIT), ("put in", "taken out"))]


@pytest.mark.parametrize(("around", "name", "edit"), every_of(80, ROWS, commits=32))
def test_a_total_goes_on_whatever_comes_or_goes_behind_it(around: str, name: str, edit: str) -> None:
    """Its state is kept in every way of an edit, and is no other: what stands behind it is given the next totals."""
    without, with_it = AROUND[around](lambda query: query), AROUND[around](step(name))
    before, after = (without, with_it) if edit == "put in" else (with_it, without)
    played = [step(name)(total(a)), before]
    if edit == "taken out" and (name in TAKES_FEW or {alone(each, PREFIX).status for each in played} != {"running"}):
        return  # it has read the total to its end
    ways = [way for way in WAYS if way not in ("behind a kill", "by another Python")]
    found = [*(play(before, after, way, PREFIX, REST) for way in ways), replayed(before, after, PREFIX, REST)]
    report = found[0].report
    lost = {path for path in (*report.dropped, *report.fresh) if is_total(path)}
    assert not lost and any(map(is_total, report.kept)), str(report)
    assert "running" not in {each.status for each in found} or alone(after, [*PREFIX, *REST]).status == "running"
    if edit == "put in" and around in PASSED_ON and name not in OTHERWISE:
        begun = alone(step(name)(a), [*(("a", value) for value in TOTALS), *ENDS]).after
        assert found[0].after[-len(begun) :] == begun[-len(found[0].after) :], (begun, found[0].after)
    is_known = edit == "taken out" and name not in READ_AGAIN and (around, name) not in ITS_NAMESAKE | MISSES_SOME
    is_known = is_known and around != "in a group, beside another reader"
    for each in found:
        assert each.after == (TOTALS if is_known else found[0].after), (each.after, str(report))


GUARDS: dict[str, Body] = {
    "start_with": lambda s: s.start_with(0),
    "two start_with": lambda s: s.start_with(0).start_with(0),
    "catch": lambda s: s.catch(rx.of(0)),
    "retry": lambda s: s.retry(2),
    "concat": lambda s: s.concat(rx.of(0)),
    "merge": lambda s: s.merge(rx.of(0)),
    "on_error_resume_next": lambda s: s.on_error_resume_next(rx.of(0)),
    "delay_subscription": lambda s: s.delay_subscription(0.0),
    "default_if_empty": lambda s: s.default_if_empty(0),
    "timeout": lambda s: s.timeout(1e6),
    "map": lambda s: s.map(lambda value: value),
    "distinct": lambda s: s.map(lambda value: (value, object)).distinct_until_changed().map(lambda pair: pair[0]),
}
"""What lets all through, and adds nothing to a total."""
GUARDED: dict[str, Callable[[Body], Any]] = {
    "first of all": lambda body: total(body(a.start_with(100))),
    "first of all, mapped": lambda body: total(body(a.start_with(100).map(lambda value: value))),
    "before first of all": lambda body: total(body(a).start_with(100)),
    "two first of all": lambda body: total(body(a.start_with(70).start_with(30))),
    "one before a source": lambda body: total(body(rx.concat(rx.of(100), a))),
    "first in a group": lambda body: in_groups(lambda g: total(body(g.start_with(100)))),
    "in a group that ends": lambda body: in_groups_of_five(lambda g: total(body(g))),
    "first in a group that ends": lambda body: in_groups_of_five(lambda g: total(body(g.start_with(100)))),
    "read until an element": lambda body: total(body(a).take_until(a.filter(lambda value: value > 5))),
    "in lists": lambda body: total(body(a).buffer_toggle(a, lambda _: a).map(sum)),
    "of what is replayed": lambda body: total(body(a.replay(2).ref_count())),
    "of what has a value": lambda body: total(body(a.publish_value(0).ref_count())),
}
"""Totals of what is guarded, which goes on."""


BEHIND_OTHERS = set(
    product(
        ("in a group that ends", "in lists", "of what is replayed", "of what has a value"),
        ("start_with", "two start_with"),
    )
)
"""Where what is put in reads again in the first turn of another Python: behind others, or greeted once more."""
HAS_A_PLACE_OF_ITS_OWN = {("in lists", "delay_subscription")}
"""What subscribes behind others in a new query, too."""


@pytest.mark.parametrize(
    "around, guard, edit",
    every_of(
        11,
        [row for row in product(GUARDED, GUARDS, ("put in", "taken out")) if row[:2] not in HAS_A_PLACE_OF_ITS_OWN],
        commits=3,
    ),
)
def test_a_guard_before_a_total(around: str, guard: str, edit: str) -> None:
    """What is put before a total that runs, or taken out, neither brings anything again nor comes in another order."""
    wrap = GUARDED[around]
    without, with_it = wrap(lambda s: s), wrap(GUARDS[guard])
    expected = alone(without, [*PREFIX, *REST]).after[-1:]
    before, after = (without, with_it) if edit == "put in" else (with_it, without)
    ways = [way for way in WAYS if way != "behind a kill"]
    if (around, guard) in BEHIND_OTHERS:
        ways.remove("by another Python")
    rest = [each for each in REST if each != ("b", None)]
    for each in [*(play(before, after, way, PREFIX, rest) for way in ways), replayed(before, after, PREFIX, rest)]:
        assert expected and each.after[-1:] == expected, (each.before, each.after, str(each.report))


@dataclass(frozen=True)
class Keyed:
    """A window within an object of the user's."""

    window: Any


@dataclass(frozen=True, slots=True)
class Slotted:
    """The same without a dictionary."""

    window: Any


class Hidden:
    """The same under a name of its own."""

    __slots__ = ("__window",)

    def __init__(self, window: Any) -> None:
        self.__window = window

    def read(self) -> Any:
        return self.__window


OPENERS: dict[str, Body] = {
    "window_with_count": lambda s: s.window_with_count(2),
    "one long": lambda s: s.window_with_count(1000),
    "window_with_time": lambda s: s.window_with_time(2.5),
    "window": lambda s: s.window(b),
    "window_when": lambda s: s.window_when(lambda: rx.timer(2.5)),
    "tumbling_window": lambda s: s.tumbling_window(2.5),
    "group_by": lambda s: s.group_by(lambda _: 0),
    "with a time to live": lambda s: s.group_by(lambda _: 0, ttl_s=1000.0),
    "until a time": lambda s: s.group_by_until(lambda _: 0, None, lambda g: rx.timer(2.5)),
    "until itself": lambda s: s.group_by_until(lambda _: 0, None, lambda g: g.skip(2)),
}
READERS: dict[str, Body] = {
    "flat_map": lambda s: s.flat_map(lambda window: window.map(lambda value: value)),
    "merge_all": lambda s: s.merge_all(),
    "switch_latest": lambda s: s.switch_latest(),
    "concat_all": lambda s: s.concat_all(),
    "flat_map of start_with": lambda s: s.flat_map(lambda window: window.start_with(0)).filter(bool),
    "map and merge_all": lambda s: s.map(lambda window: window.map(lambda value: value)).merge_all(),
    "in a pair": lambda s: s.map(lambda window: (0, window)).concat_map(lambda pair: pair[1].map(lambda value: value)),
    "in an object": lambda s: s.map(Keyed).switch_map(lambda keyed: keyed.window.map(lambda value: value)),
    "publish": lambda s: s.publish(lambda p: p.flat_map(lambda window: window.map(lambda value: value))),
    "share": lambda s: s.share().flat_map(lambda window: window.map(lambda value: value)),
}


@pytest.mark.parametrize(
    "was, now, reader",
    every_of(17, [row for row in product(OPENERS, OPENERS, READERS) if row[0] != row[1]], commits=4),
)
def test_what_opens_is_exchanged(was: str, now: str, reader: str) -> None:
    """All that comes goes through the groups or windows of what takes another's place, from the first element on."""
    before, after = (READERS[reader](OPENERS[name](total(a))) for name in (was, now))
    ways = [way for way in WAYS if way != "behind a kill"]
    found = [play(before, after, way, PREFIX, REST[:2]) for way in ways]
    for each in [*found, replayed(before, after, PREFIX, REST[:2])]:
        assert each.after == TOTALS, (each.before, each.after, str(each.report))


@pytest.mark.parametrize(
    "opener, was, now",
    every_of(17, [row for row in product(OPENERS, READERS, READERS) if row[1] != row[2]], commits=4),
)
def test_what_reads_is_exchanged(opener: str, was: str, now: str) -> None:
    """What reads groups or windows takes another's place: none that is open is left to nobody, nothing comes twice."""
    before, after = (READERS[reader](OPENERS[opener](total(a))) for reader in (was, now))
    ways = [way for way in WAYS if way != "behind a kill"]
    found = [play(before, after, way, PREFIX, REST[:2]) for way in ways]
    for each in [*found, replayed(before, after, PREFIX, REST[:2])]:
        assert each.after == TOTALS, (each.before, each.after, str(each.report))


BEHIND: dict[str, Body] = {
    "what is empty": lambda s: rx.empty().concat(s),
    "an error": lambda s: rx.throw(ValueError()).catch(s),
    "what is over": lambda s: rx.on_error_resume_next(rx.empty(), s),
}
"""What is read first, and is over at once."""
PLACES: dict[str, Callable[[Body], Any]] = {
    "a source": lambda body: total(body(a)),
    "a group": lambda body: in_groups(lambda g: total(body(g))),
    "a mapped group": lambda body: in_groups(lambda g: total(body(g.map(lambda value: value)))),
    "a window": lambda body: a.window_with_count(9).flat_map(lambda w: total(body(w))),
}


@pytest.mark.parametrize(("place", "first", "edit"), [*product(PLACES, BEHIND, ("put in", "taken out"))])
def test_what_is_read_first_and_is_over(place: str, first: str, edit: str) -> None:
    """A total goes on where something is put before what it reads that is over at once, or taken out."""
    without, with_it = PLACES[place](lambda s: s), PLACES[place](BEHIND[first])
    before, after = (without, with_it) if edit == "put in" else (with_it, without)
    ways = [way for way in WAYS if way != "behind a kill"]
    rest = [("a", 4), ("a", 5)]
    for each in [*(play(before, after, way, PREFIX, rest) for way in ways), replayed(before, after, PREFIX, rest)]:
        assert each.after == TOTALS, (each.before, each.after, str(each.report))


FIRST: dict[str, Body] = {
    "start_with": lambda s: s.start_with(100),
    "of and concat": lambda s: rx.of(100).concat(s),
    "merge": lambda s: s.merge(rx.of(100)),
    "merged into": lambda s: rx.of(100).merge(s),
    "start_with, and others": lambda s: s.map(lambda value: value).start_with(50).start_with(50),
}
THEN: dict[str, Body] = {
    "at once": lambda s: s,
    "mapped": lambda s: s.map(lambda value: value),
    "mapped twice": lambda s: s.map(lambda value: value).filter(bool).map(lambda value: value),
    "guarded": lambda s: s.map(lambda value: value).catch(rx.never()),
}


@pytest.mark.parametrize(("place", "first", "then"), [*product(("a source", "a group"), FIRST, THEN)])
def test_what_comes_first_is_counted_once(place: str, first: str, then: str) -> None:
    """A value that is put in before a total that runs, whatever stands between, comes into it once."""
    without = PLACES[place](lambda s: THEN[then](s))
    after = PLACES[place](lambda s: THEN[then](FIRST[first](s)))
    ways = [way for way in WAYS if way != "behind a kill"]
    rest = [("a", 4), ("a", 5)]
    for each in [*(play(without, after, way, PREFIX, rest) for way in ways), replayed(without, after, PREFIX, rest)]:
        assert each.after[-1] == 115, (each.before, each.after, str(each.report))


GIVEN: dict[str, Body] = {
    "itself": lambda s: s.flat_map(total),
    "a pair": lambda s: s.map(lambda g: (0, g)).flat_map(lambda pair: total(pair[1])),
    "an object": lambda s: s.map(Keyed).flat_map(lambda keyed: total(keyed.window)),
    "an enrichment": lambda s: s.with_latest_from(rx.of(0)).flat_map(lambda pair: total(pair[0])),
    "numbered": lambda s: s.map_indexed(lambda g, index: (index, g)).flat_map(lambda pair: total(pair[1])),
    "in two steps": lambda s: s.map(lambda g: (0, g)).map(lambda p: (p[0], p[1])).flat_map(lambda p: total(p[1])),
    "taken apart": lambda s: s.map(lambda g: (0, g)).starmap(lambda k, g: (k, g)).flat_map(lambda p: total(p[1])),
    "enriched and turned": lambda s: (
        s.with_latest_from(rx.of(0)).map(lambda p: (p[1], p[0])).flat_map(lambda pair: total(pair[1]))
    ),
    "counted": lambda s: s.scan(lambda n, g: (n[0] + 1, g), (0, None)).flat_map(lambda pair: total(pair[1])),
    "from lists": lambda s: s.concat_map(lambda g: rx.of((0, g))).flat_map(lambda pair: total(pair[1])),
    "in slots": lambda s: s.map(Slotted).flat_map(lambda slotted: total(slotted.window)),
    "in a hidden slot": lambda s: s.map(Hidden).flat_map(lambda hidden: total(hidden.read())),
    "itself, guarded": lambda s: s.catch(rx.empty()).flat_map(total),
    "itself, tried again": lambda s: s.retry(2).flat_map(total),
    "itself, mapped": lambda s: s.map(lambda g: g).flat_map(total),
    "itself, shared": lambda s: s.share().flat_map(total),
    "itself, a few": lambda s: s.take(9).flat_map(total),
}
"""Totals of groups, by what their reader is given for each."""
OVERS = ("group_by", "with a time to live", "one long", "until itself")
IN_TURN = [pair for now in GIVEN if now != "itself" for pair in (("itself", now), (now, "itself"))]
NO_VALUE_YET = {
    ("one long", *pair)
    for name in ("an enrichment", "enriched and turned")
    for pair in (("itself", name), (name, "itself"))
}
"""The first window comes before what it is to be enriched with, as in a new query."""


@pytest.mark.parametrize(
    ("opener", "was", "now"),
    [(each, *pair) for each in OVERS for pair in IN_TURN if (each, *pair) not in NO_VALUE_YET],
)
def test_a_reader_is_given_others(opener: str, was: str, now: str) -> None:
    """Groups begin again where their reader is given other things for them, and go on where it is not; none is lost."""
    before, after = (GIVEN[name](OPENERS[opener](a)) for name in (was, now))
    found = [play(before, after, way, PREFIX, [("a", 4), ("a", 5)]) for way in WAYS if way != "behind a kill"]
    goes_on = was.startswith("itself") and now.startswith("itself")
    for each in [*found, replayed(before, after, PREFIX, [("a", 4), ("a", 5)])]:
        if opener == "until itself":
            assert len(each.after) == 2 and each.after[-1] in (5, 9), (each.after, str(each.report))
        else:
            assert each.after == ([10, 15] if goes_on else [4, 9]), (each.after, str(each.report))


ANOTHER: dict[str, tuple[Body, Body]] = {
    "another pair": (GIVEN["a pair"], lambda s: s.map(lambda g: (0, 1, g)).flat_map(lambda three: total(three[2]))),
    "the pair turned": (GIVEN["a pair"], lambda s: s.map(lambda g: (g, 0)).flat_map(lambda pair: total(pair[0]))),
    "a pair for an object": (GIVEN["an object"], GIVEN["a pair"]),
    "an object for a pair": (GIVEN["a pair"], GIVEN["an object"]),
    "a pair more": (
        GIVEN["an enrichment"],
        lambda s: s.with_latest_from(rx.of(0), rx.of(0)).flat_map(lambda three: total(three[three[2]])),
    ),
}
"""A reader that is given one thing made of the group, and today another one, which it cannot read the old one as."""
ASKED = [*((each, name) for each in OVERS for name in ANOTHER if (each, name) != ("one long", "a pair more"))]


@pytest.mark.parametrize(("opener", "name"), ASKED)
def test_a_reader_cannot_read_what_it_was_given(opener: str, name: str) -> None:
    """Where the selector of today raises for the thing of before, the group begins again; the query goes on."""
    before, after = (each(OPENERS[opener](a)) for each in ANOTHER[name])
    found = [play(before, after, way, PREFIX, [("a", 4), ("a", 5)]) for way in WAYS if way != "behind a kill"]
    for each in [*found, replayed(before, after, PREFIX, [("a", 4), ("a", 5)])]:
        assert each.after == [4, 9] or (opener == "until itself" and each.after[-1] in (5, 9)), (
            each.after,
            str(each.report),
        )


def first_of_each(source: Any) -> Any:
    return source.group_by(lambda value: value % 2).flat_map(lambda g: g.first())


SWAPS: dict[str, tuple[Any, Any]] = {
    "changed places": (rx.merge(c, first_of_each(a)), rx.merge(first_of_each(a), c)),
    "one put in": (rx.merge(first_of_each(a), c), rx.merge(b, first_of_each(a), c)),
    "one taken out": (rx.merge(b, c, first_of_each(a)), rx.merge(c, first_of_each(a))),
}


@pytest.mark.parametrize("swap", SWAPS)
def test_who_has_had_enough_of_a_group_stays_so(swap: str) -> None:
    """A reader that took the first of each key takes no second one where it has another path by now."""
    before, after = SWAPS[swap]
    steps: list[Step] = [("a", 1), ("a", 2), ("a", 3), ("a", 4)]
    for way in WAYS:
        played = play(before, after, way, steps, [("a", 5), ("a", 6)])
        assert (played.before, played.after) == ([1, 2], []), (way, str(played.report))


async def given_back(value: int) -> int:
    return value


HOLDERS: dict[str, Body] = {
    "delay": lambda s: s.delay(5.0),
    "delay_with_mapper": lambda s: s.delay_with_mapper(lambda _: rx.timer(5.0)),
    "flat_map of timers": lambda s: s.flat_map(lambda value: rx.timer(5.0).map(lambda _: value)),
    "concat_map of timers": lambda s: s.concat_map(lambda value: rx.timer(2.0).map(lambda _: value)),
    "map_async": lambda s: s.map_async(given_back),
}
PASSES: dict[str, Body] = {
    "catch": lambda s: s.catch(rx.empty()),
    "retry": lambda s: s.retry(2),
    "merge": lambda s: s.merge(rx.empty()),
    "concat": lambda s: s.concat(rx.empty()),
    "start_with": lambda s: s.start_with(),
    "default_if_empty": lambda s: s.default_if_empty(0),
    "timeout": lambda s: s.timeout(1e6),
    "take": lambda s: s.take(3),
    "take_while": lambda s: s.take_while(lambda value: value < 9),
    "take_until": lambda s: s.take_until(b),
    "distinct": lambda s: s.distinct(),
    "share": lambda s: s.share(),
}
"""What lets all through that comes."""
OVER: dict[str, Callable[[Body], Any]] = {
    "a window": lambda body: a.window_with_count(3).flat_map(lambda w: body(w).to_list()),
    "a group": lambda body: a.group_by_until(lambda _: 0, None, lambda g: g.skip(2)).flat_map(
        lambda g: body(g).to_list()
    ),
    "a source": lambda body: body(a.take(3)).to_list(),
}
MOVES: dict[str, Callable[[Body, Body], tuple[Body, Body]]] = {
    "from before to behind": lambda guard, hold: (lambda s: hold(guard(s)), lambda s: guard(hold(s))),
    "from behind to before": lambda guard, hold: (lambda s: guard(hold(s)), lambda s: hold(guard(s))),
    "the first of two taken out": lambda guard, hold: (lambda s: guard(hold(guard(s))), lambda s: guard(hold(s))),
    "the second of two taken out": lambda guard, hold: (lambda s: guard(hold(guard(s))), lambda s: hold(guard(s))),
    "put in before": lambda guard, hold: (lambda s: guard(hold(s)), lambda s: guard(hold(guard(s)))),
}


BEGIN_AFRESH = {(hold, "timeout") for hold in HOLDERS if hold != "delay"}
"""Where what holds begins afresh, and the report says so: it reads other branches than before."""
SHARED_TWICE = ("share", "the second of two taken out")
"""What was shared as the second of two has the path of the first, which had ended."""
HELD = [
    row for row in product(OVER, HOLDERS, PASSES, MOVES) if row[1:3] not in BEGIN_AFRESH and row[2:] != SHARED_TWICE
]


@pytest.mark.parametrize("over, hold, guard, move", every_of(23, HELD, commits=5))
def test_what_is_held_comes(over: str, hold: str, guard: str, move: str) -> None:
    """Elements that wait, of what has ended, come once when what lets them through is moved to the other side."""
    before, after = (OVER[over](body) for body in MOVES[move](PASSES[guard], HOLDERS[hold]))
    steps: list[Step] = [("a", 1), ("a", 2), ("a", 3)]
    ways = [way for way in WAYS if way != "behind a kill" and (way, guard) != ("by another Python", "merge")]
    for each in [*(play(before, after, way, steps, [("", 100.0)]) for way in ways), replayed(before, after, steps, [])]:
        assert [*each.before, *each.after] == [[1, 2, 3]], (each.after, str(each.report))


CALLED: dict[str, Callable[[Any], Any]] = {
    "alone": lambda s: s.map_async(given_back),
    "mapped": lambda s: s.map_async(given_back).map(lambda value: value),
    "distinct": lambda s: s.map_async(given_back).distinct().filter(lambda _: True),
    "in a window": lambda s: s.window_with_count(3).flat_map(lambda w: w.map_async(given_back).map(lambda v: v)),
}


ANSWERED = [row for row in product(CALLED, PASSES) if row not in {("alone", "timeout"), ("in a window", "timeout")}]


@pytest.mark.parametrize("called, guard", every_of(7, ANSWERED, commits=2))
def test_answers_come_behind_what_is_put_in(called: str, guard: str) -> None:
    """Calls that are out are answered once, behind whatever is put in, where what they were made for has ended."""
    before = CALLED[called](a)
    after = PASSES[guard](before)
    steps: list[Step] = [("a", 1), ("a", 2), ("a", 3), ("a", None)]
    ways = [way for way in WAYS if way != "behind a kill"]
    for each in [*(play(before, after, way, steps, [("", 9.0)]) for way in ways), replayed(before, after, steps, [])]:
        assert [*each.before, *each.after] == [1, 2, 3], (each.after, str(each.report))


MERGED: dict[str, Callable[[Any], Any]] = {
    "sum": lambda s: s.sum(),
    "sum of some": lambda s: s.filter(bool).sum(),
    "count": lambda s: s.count(),
    "reduce": lambda s: s.reduce(lambda was, value: was + value),
    "last": lambda s: s.last(),
    "to_list": lambda s: s.to_list(),
    "max": lambda s: s.max(),
    "lists": lambda s: s.buffer_with_count(9),
    "windows": lambda s: s.window_with_count(9).flat_map(lambda w: w.sum()),
    "groups": lambda s: s.group_by(bool).flat_map(lambda g: g.sum()),
    "a total of it": lambda s: s.sum().map(lambda value: -value),
}
"""What says something at the end."""
JOINED: dict[str, Callable[[], Any]] = {
    "a.merge(b)": lambda: a.merge(b),
    "b.merge(a)": lambda: b.merge(a),
    "a.concat(b)": lambda: a.concat(b),
    "mapped": lambda: a.map(lambda value: value).merge(b.map(lambda value: value)),
    "of three": lambda: rx.merge(c.take_until(a), a, b),
}


@pytest.mark.parametrize(("joined", "result"), [*product(JOINED, MERGED)])
def test_what_has_not_ended_is_taken_out(joined: str, result: str) -> None:
    """Where all that is left to read has ended, what was kept of it comes, and the query completes."""
    one = a.map(lambda value: value) if joined == "mapped" else a
    before, after = (MERGED[result](each) for each in (JOINED[joined](), one))
    steps: list[Step] = [("a", 1), ("a", 2), ("a", None)]
    expected = alone(after, steps)
    for way in WAYS[:-1]:
        played = play(before, after, way, steps, [("b", 5)])
        assert (played.status, played.after) == ("completed", [*expected.before, *expected.after]), str(played.report)


ENDERS: dict[str, Body] = {
    "take": lambda s: s.take(1),
    "first": lambda s: s.first(),
    "take_while": lambda s: s.take_while(lambda g: g.key == 1),
    "take and a guard": lambda s: s.take(1).catch(rx.empty()),
}
"""What has had enough of groups, the others of which are read by nobody."""


@pytest.mark.parametrize("ender", ENDERS)
def test_what_had_enough_of_groups_is_taken_out(ender: str) -> None:
    """Keys that were left out, and new ones, are read from their next event on; the query completes."""
    groups = a.group_by(lambda value: value % 3)
    before, after = (each.flat_map(total) for each in (ENDERS[ender](groups), groups))
    steps: list[Step] = [("a", 1), ("a", 2), ("a", 4)]
    for way in WAYS[:-1]:
        played = play(before, after, way, steps, [("a", 7), ("a", 5), ("a", 3), ("a", 8), *ENDS])
        assert (played.before, played.status) == ([1, 5], "completed"), str(played.report)
        assert played.after in ([12, 5, 3, 13], [12, 7, 3, 15]), (played.after, str(played.report))


WAITED: dict[str, Body] = {
    "merge": lambda s: s.map(total).merge(max_concurrent=1),
    "concat_map": lambda s: s.concat_map(total),
    "enriched": lambda s: s.map(lambda g: (0, g)).concat_map(lambda pair: total(pair[1])),
    "exclusive": lambda s: s.map(total).exclusive(),
    "in slots": lambda s: s.map(Slotted).concat_map(lambda slotted: total(slotted.window)),
}
"""What reads one group after the other; the others wait, or are let go."""


@pytest.mark.parametrize("waited", WAITED)
def test_groups_that_waited_are_read(waited: str) -> None:
    """Each key is read from its next event on, behind what reads all of them at once."""
    groups = a.group_by(lambda value: value % 3)
    before, after = WAITED[waited](groups), groups.flat_map(total)
    steps: list[Step] = [("a", 1), ("a", 2), ("a", 4)]
    for way in WAYS[: -1 if waited == "exclusive" else None]:  # of which no row tells what it let go
        played = play(before, after, way, steps, [("a", 7), ("a", 5), ("a", 3), ("a", 8), *ENDS])
        assert (played.before, played.status) == ([1, 5], "completed"), str(played.report)
        assert played.after[1:] == [5, 3, 13] and played.after[0] in (7, 12), (played.after, str(played.report))


HANDED_ON: dict[str, Body] = {
    "do_action": lambda s: s.do_action(lambda g: None),
    "finally_action": lambda s: s.finally_action(lambda: None),
    "filter": lambda s: s.filter(lambda g: True),
    "filter_indexed": lambda s: s.filter_indexed(lambda g, index: True),
    "map": lambda s: s.map(lambda g: g),
    "skip": lambda s: s.skip(0),
    "skip_while": lambda s: s.skip_while(lambda g: False),
    "skip_until": lambda s: s.skip_until(rx.of(0)),
    "distinct": lambda s: s.distinct(lambda g: g.key),
    "as_observable": lambda s: s.as_observable(),
    "default_if_empty": lambda s: s.default_if_empty(None),
    "catch": lambda s: s.catch(rx.empty()),
    "retry": lambda s: s.retry(3),
    "share": lambda s: s.share(),
    "merge": lambda s: s.merge(rx.empty()),
    "delay": lambda s: s.delay(0.0),
    "take": lambda s: s.take(1000),
    "take_while": lambda s: s.take_while(lambda g: True),
    "take_until": lambda s: s.take_until(rx.never()),
    "take_with_time": lambda s: s.take_with_time(1e6),
    "timeout": lambda s: s.timeout(1e6),
    "slice": lambda s: s.slice(0, 1000),
    "do_action, take": lambda s: s.do_action(lambda g: None).take(1000),
    "timeout, take_until": lambda s: s.timeout(1e6).take_until(rx.never()),
}
"""What hands on all groups, and has not had enough of any when it is taken out or put in."""
ONE_AT_A_TIME: dict[str, Body] = {
    "switch_map": lambda s: s.switch_map(total),
    "concat_map": lambda s: s.concat_map(total),
    "merge": lambda s: s.map(total).merge(max_concurrent=1),
    "exclusive": lambda s: s.map(total).exclusive(),
    "flat_map, which has enough": lambda s: s.flat_map(lambda g: g.take(1)),
}


@pytest.mark.parametrize("is_put_in", [False, True], ids=["taken out", "put in"])
@pytest.mark.parametrize(("between", "reader"), [*product(HANDED_ON, ONE_AT_A_TIME)])
def test_what_hands_on_groups_leaves_them_to_their_reader(between: str, reader: str, is_put_in: bool) -> None:
    """A reader that has let go of groups, or lets them wait, goes on with the one that it reads."""
    groups = a.group_by(lambda value: value % 3)
    edited = [ONE_AT_A_TIME[reader](each) for each in (HANDED_ON[between](groups), groups)]
    before, after = reversed(edited) if is_put_in else edited
    steps: list[Step] = [("a", 0), ("a", 1)]
    rest: list[Step] = [("a", 3), ("a", 4), ("a", 6), ("a", 2), ("a", 0), *ENDS]
    for way in WAYS:
        unedited, played = play(before, before, way, steps, rest), play(before, after, way, steps, rest)
        assert (played.after, played.status) == (unedited.after, unedited.status), (way, str(played.report))


PICKING: dict[str, Body] = {
    "element_at": lambda s: s.element_at(4),
    "element_at_or_default": lambda s: s.element_at_or_default(4),
    "find": lambda s: s.find(lambda g, index, source: g.key > 5),
    "first": lambda s: s.first(lambda g: g.key > 5),
}


@pytest.mark.parametrize("picking", PICKING)
def test_what_has_picked_none_of_the_groups_is_taken_out(picking: str) -> None:
    """Groups that nobody was given begin with the next event, as new ones do."""
    groups = a.group_by(lambda value: value % 3)
    before, after = PICKING[picking](groups).flat_map(total), groups.flat_map(total)
    for way in WAYS[:-1]:
        played = play(before, after, way, [("a", value) for value in range(5)], [("a", 5), ("a", 6), ("a", 8), *ENDS])
        assert (played.before, played.after) == ([], [5, 6, 13]), (way, str(played.report))


NUMBERED: dict[str, Body] = {
    "zip": lambda s: s.zip(rx.range(1000)),
    "combine_latest": lambda s: s.combine_latest(rx.of(0)),
    "with_latest_from": lambda s: s.with_latest_from(rx.of(0)),
}


@pytest.mark.parametrize(("numbered", "reader"), [*product(NUMBERED, ("flat_map", "switch_map", "concat_map"))])
def test_windows_are_numbered(numbered: str, reader: str) -> None:
    """The window that is open comes to what is put in, and none that a fresh start had opened comes before it."""
    windows = a.window_with_count(3)
    before = getattr(windows, reader)(lambda w: w.sum())
    after = getattr(NUMBERED[numbered](windows), reader)(lambda pair: pair[0].sum())
    for way in WAYS[:-1]:
        played = play(
            before, after, way, [("a", value) for value in range(1, 5)], [("a", 5), ("a", 6), ("a", 7), *ENDS]
        )
        assert (played.before, played.after) == ([6], [11, 7]), (way, str(played.report))


@pytest.mark.parametrize("reader", ["flat_map", "switch_map", "concat_map"])
def test_a_guard_of_windows_that_are_made_anew_is_taken_out(reader: str) -> None:
    """What reads the open window goes on where the same operators make of it what they made."""
    made = a.window_with_count(3).map(lambda w: (0, w)).map(lambda pair: pair[1])
    before, after = (getattr(each, reader)(lambda w: w.sum()) for each in (made.catch(rx.empty()), made))
    for way in WAYS[:-1]:
        played = play(before, after, way, [("a", value) for value in range(1, 6)], [("a", 6), ("a", 7), *ENDS])
        assert (played.before, played.after) == ([6], [15, 7]), (way, str(played.report))


@pytest.mark.parametrize("name", ["two maps", "a reference", "numbered"])
def test_totals_of_groups_that_are_made_anew_come_to_another_python(name: str) -> None:
    """An app that nobody has edited keeps them, whatever makes the group of the group."""
    made: dict[str, Body] = {
        "two maps": lambda s: s.map(lambda g: (0, g)).map(lambda pair: pair[1]),
        "a reference": lambda s: s.with_latest_from(rx.of(0)).map(lambda pair: pair[0]),
        "numbered": lambda s: s.map_indexed(lambda g, index: g),
    }
    query = made[name](OPENERS["group_by"](a)).flat_map(total)
    played = play(query, query, "by another Python", PREFIX, [("a", 4), ("a", 5)])
    assert played.after == TOTALS, str(played.report)
