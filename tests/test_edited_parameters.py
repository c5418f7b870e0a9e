"""An edit of what an operator is given, beside its functions: other numbers and durations, other inputs.

Each pair of `edited_pairs` is edited in both directions, half-way through its input, in every way in which a query can
go over. All ways give the same; a query ends when its inputs have; nothing that is held grows beyond what a query that
was never edited holds; and what the report calls fresh is what a query gives that begins at the edit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from itertools import product
from typing import Any

import pytest
from edited_pairs import ELSEWHERE, INPUTS, NOT_BY_ANOTHER_PYTHON, PARAMETERS, TUPLES
from edited_world import SOURCES, WAYS, Played, Step, alone, play, replayed
from lanes import every_of

import reliable_rx as rx
from reliable_rx.operators.contract.operator import Operator, Stage
from reliable_rx.query.query import walk

FEW, MANY = 14, 42


def steps(*sources: str, since: int, count: int) -> list[Step]:
    """Return *count* elements of *sources*, one after the other, counted from *since*."""
    return [(sources[number % len(sources)], since + number) for number in range(count)]


def ends(*sources: str) -> list[Step]:
    return [(source, None) for source in sources]


def in_all_ways(before: Any, after: Any, prefix: list[Step], rest: list[Step], ways: Sequence[str] = WAYS) -> Played:
    """Return what comes of an edit, which is the same in all ways."""
    found = [play(before, after, way, prefix, rest) for way in ways if way != "behind a kill"]
    found.append(replayed(before, after, prefix, rest))
    first = found[0]
    for each in found[1:]:
        assert (each.before, each.after, each.status) == (first.before, first.after, first.status)
        assert each.report is None or first.report is None or is_same(each.report, first.report), str(each.report)
    return first


def is_same(one: Any, other: Any) -> bool:
    return (set(one.fresh), set(one.dropped), one.why) == (set(other.fresh), set(other.dropped), other.why)


ROWS = [(name, *pair) for name, (_, *pairs) in PARAMETERS.items() for one in pairs for pair in (one, one[::-1])]


@pytest.mark.parametrize(("name", "was", "now", "count"), every_of(7, [(*row, n) for row in ROWS for n in (3, 5)]))
def test_a_parameter_is_edited(name: str, was: Any, now: Any, count: int) -> None:
    """Nothing raises or hangs, no list grows without bound, and what is fresh is like a query that begins there.

    Where each element is in one list (or in none) before and after, so it is behind the edit.
    """
    build = PARAMETERS[name][0]
    source = rx.source("a")
    before, after = build(source, was), build(source, now)
    prefix, rest = steps("a", since=1, count=count), steps("a", since=count + 1, count=FEW)
    if alone(before, prefix).status != "running":
        return
    played = in_all_ways(before, after, prefix, [*rest, *ends("a")])
    begun = alone(after, [*prefix, *rest, *ends("a")])
    assert played.status == begun.status == "completed"
    more = [*steps("a", since=count + 1, count=MANY), *ends("a")]
    largest = sum(alone(each, [*prefix, *more]).largest for each in (before, after))
    assert play(before, after, WAYS[0], prefix, more).largest <= largest + count + 3
    if played.report is not None and played.report.fresh:
        assert played.after == alone(after, [*rest, *ends("a")]).after
    else:
        given = items_of([*played.before, *played.after])
        whole = [items_of(alone(each, [*steps("a", since=1, count=FEW), *ends("a")]).after) for each in (before, after)]
        if all(len(set(each)) == len(each) for each in whole):
            assert len(set(given)) == len(given)
        if all(each == [*range(1, FEW + 1)] for each in whole):
            assert sorted(given) == [*range(1, count + FEW + 1)]


BOUNDS: dict[str, Any] = {
    "groups": lambda s, n: s.group_by(lambda x: x % 3, ttl_s=n).flat_map(lambda g: g.scan(lambda a, b: a + b)),
    "groups in groups": lambda s, n: s.group_by(lambda x: x % 2, ttl_s=n).flat_map(
        lambda g: g.group_by(lambda x: x % 3, ttl_s=n).flat_map(lambda h: h.start_with(0).scan(lambda a, b: a + b))
    ),
    "groups of lists": lambda s, n: s.group_by(lambda x: x % 3, ttl_s=n).flat_map(lambda g: g.buffer_with_count(3)),
    "keys": lambda s, n: s.map(lambda x: x % 7).distinct(ttl_s=n),
    "so many keys": lambda s, n: s.map(lambda x: x % 7).distinct(keys_max=n),
}
"""What may have a bound, and had none before an edit, or the other way round."""


@pytest.mark.parametrize("name, was, now", [(name, *pair) for name in BOUNDS for pair in ((None, 99), (99, None))])
def test_a_bound_that_nothing_reaches_changes_nothing(name: str, was: int | None, now: int | None) -> None:
    """All groups and keys go on behind the edit that bounds them, or does no more, as if there had been none."""
    source, prefix = rx.source("a"), steps("a", since=1, count=8)
    rest = [*steps("a", since=9, count=FEW), *ends("a")]
    played = in_all_ways(BOUNDS[name](source, was), BOUNDS[name](source, now), prefix, rest)
    whole = alone(BOUNDS[name](source, was), [*prefix, *rest])
    assert [*played.before, *played.after] == [*whole.before, *whole.after]
    assert played.report is None or not (played.report.fresh or played.report.dropped), str(played.report)


COUNTS = [(count, skip) for count in (1, 2, 3, 4, 7) for skip in (1, 2, 3, 5)]


@pytest.mark.parametrize("was, now, since", every_of(97, product(COUNTS, COUNTS, (1, 2, 5, 6, 9)), commits=29))
def test_windows_are_edited_as_lists_are(was: tuple[int, int], now: tuple[int, int], since: int) -> None:
    """What is in the windows of so many elements is what is in the lists, whatever the numbers were and are."""
    source, prefix = rx.source("a"), steps("a", since=1, count=since)
    rest = [*steps("a", since=since + 1, count=FEW), *ends("a")]
    lists, windows = (
        play(build(*was), build(*now), WAYS[0], prefix, rest)
        for build in (
            source.buffer_with_count,
            lambda *numbers: source.window_with_count(*numbers).flat_map(lambda window: window.to_list()),
        )
    )
    assert [each for each in windows.before if each] == lists.before
    assert [each for each in windows.after if each] == lists.after


def items_of(values: Sequence[Any]) -> list[Any]:
    """Return the elements of all lists among *values*, also of those that have the key of a window beside them."""
    lists = [value[-1] if isinstance(value, tuple) else value for value in values]
    return [each for value in lists if isinstance(value, list) for each in value]


EDITS = ("one more", "one fewer", "exchanged", "one before", "another", "all others")
ENDED = {"none has": (), "the first has": ("a",), "the second has": ("b",)}


@pytest.mark.parametrize(("name", "edit", "ended"), every_of(11, product(INPUTS, EDITS, ENDED)))
def test_inputs_are_edited(name: str, edit: str, ended: str) -> None:
    """All ways agree, and the query ends with its inputs; one that had ended before the edit is not waited for."""
    build, (a, b, c) = INPUTS[name], map(rx.source, SOURCES)
    was, now = {
        "one more": ((a, b), (a, b, c)),
        "one fewer": ((a, b, c), (a, b)),
        "exchanged": ((a, b), (b, a)),
        "one before": ((a, b), (c, a, b)),
        "another": ((a, b), (a, c)),
        "all others": ((a, b), (c,)),
    }[edit]
    over = ENDED[ended]
    prefix = [*steps(*SOURCES, since=1, count=5), *ends(*over)]
    left = [source for source in SOURCES if source not in over]
    rest = [*steps(*left, since=100, count=9), *ends(*left)]
    if alone(build(*was), prefix).status != "running":
        return  # it had ended, and begins afresh whatever was edited
    is_known_by_code = name == "of a shared part" and edit in ("exchanged", "one before")  # not by another Python
    ways = WAYS[:-1] if is_known_by_code or (name in NOT_BY_ANOTHER_PYTHON and over) else WAYS
    played = in_all_ways(build(*was), build(*now), prefix, rest, ways)
    begun = alone(build(*now), rest, over)
    assert played.status == "completed" or begun.status == "running" == alone(build(*now), [*prefix, *rest]).status
    if played.report is not None and set(played.report.fresh) & set(played.report.why):
        assert played.after == begun.after
    elif name in TUPLES:
        assert {len(each) for each in played.after} <= {len(now)}


NUMBERS = re.compile(r"\b(int|float|bool|Relative|Time|RelativeTime|Evict|CatchUp)\b")


def kinds(kind: type[Operator] = Operator) -> Iterator[type[Operator]]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds(each)


def test_no_operator_is_forgotten() -> None:
    """Whatever keeps something, and has a number or duration, or several inputs that are alike, is edited above."""
    source, other = rx.source("a"), rx.source("b")
    builds = [build(source, value) for build, *pairs in PARAMETERS.values() for pair in pairs for value in pair]
    edited = {type(node.op) for query in builds for node in walk(query.node)}
    several = {type(node.op) for build in INPUTS.values() for node in walk(build(source, other).node)}
    for kind in dict.fromkeys(kinds()):
        if not (kind.name and kind.__module__.startswith("reliable_rx.") and is_dataclass(kind)):
            continue
        given = [each for each in fields(kind) if "Callable" not in str(each.type) and NUMBERS.search(str(each.type))]
        if "inputs" in (each.name for each in given):
            assert kind in several, kind
        elif given and (kind.State is not None or issubclass(kind, Stage)):
            assert kind in edited or kind.__name__ in ELSEWHERE, kind
