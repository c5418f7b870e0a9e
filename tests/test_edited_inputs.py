"""Branches over one source, of which some are added, taken out, exchanged or changed: each has its own state after it.

A branch that does what one did before goes on as that one would have, wherever it stands by now; one that is new begins
with the edit. None goes on with the state of another.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from edited_world import WAYS, Step, alone, play, replayed
from lanes import every_of

import reliable_rx as rx

a = rx.source("a")
NAMES = ("n", "e", "s", "w")
OPENING = 1000
"""What no branch reads; it opens the group in which they are."""
IN_PYTHON = WAYS[:-1]
Body = Callable[[Any], Any]


def add(total: int, value: int) -> int:
    return total + value


BODIES: dict[str, Body] = {
    "totals": lambda s: s.scan(add, 0),
    "lists": lambda s: s.buffer_with_count(3),
    "pairs": lambda s: s.pairwise(),
    "late": lambda s: s.delay(2.5).scan(add, 0),
    "groups": lambda s: s.group_by(lambda x: x % 2).flat_map(lambda g: g.scan(add, 0)),
    "windows": lambda s: s.window_with_count(3).flat_map(lambda w: w.to_list()),
    "a few": lambda s: s.take(4),
    "several": lambda s: rx.merge(s.scan(add, 0), s.pairwise()),
    "a shared part": lambda s: s.scan(add, 0).share(),
}


def branch(name: str, body: Body, source: Any = a) -> Any:
    return body(source.filter(lambda x: x < OPENING and NAMES[x % 4] == name)).map(lambda value: (name, value))


INSIDE: dict[str, Callable[[Callable[[Any], Any]], Any]] = {
    "of a source": lambda read: read(a),
    "of a shared part": lambda read: read(a.share()),
    "in a group": lambda read: a.group_by(lambda x: x < 0).flat_map(read),
    "in each sequence": lambda read: a.take(1).flat_map(lambda _: read(a)),
    "behind another": lambda read: rx.merge(rx.source("b"), read(a)),
}


def numbers(first: int, last: int) -> list[Step]:
    draw = Random(last)
    return [("a", draw.randrange(40)) for _ in range(first, last)]


def played(before: Any, after: Any, way: str, prefix: list[Step], rest: list[Step]) -> Any:
    return replayed(before, after, prefix, rest) if way == "behind a kill" else play(before, after, way, prefix, rest)


def of(name: str, found: list[Any]) -> list[Any]:
    return [value for each, value in found if each == name]


CASES = [(body, place, number) for body in BODIES for place in INSIDE for number in range(6)]


@pytest.mark.parametrize(("body", "place", "number"), every_of(5, CASES))
def test_a_branch_goes_on_with_its_own_state(body: str, place: str, number: int) -> None:
    """Whichever are there before and behind an edit, in whichever order."""
    draw = Random(f"{body} {place} {number}")
    was, now = (draw.sample(NAMES, draw.randrange(2, 5)) for _ in range(2))

    def query(names: list[str]) -> Any:
        return INSIDE[place](lambda source: rx.merge(*(branch(each, BODIES[body], source) for each in names)))

    prefix, rest = numbers(0, 20), [*numbers(20, 50), ("a", None), ("b", None)]
    if alone(query(was), prefix).status != "running":
        return  # it begins afresh
    moved = len(was) != len(now) or any(each in was and was.index(each) != now.index(each) for each in now)
    for way in IN_PYTHON:
        found = played(query(was), query(now), way, prefix, rest)
        for name in now:
            whole, begun = (
                of(name, alone(query([name]), steps).after) for steps in ([*prefix, *rest], [("a", OPENING), *rest])
            )
            early = len(of(name, found.before))
            if name in was:
                assert of(name, found.after) == whole[early:], (way, was, now, name, str(found.report))
            elif moved:
                assert of(name, found.after) == begun, (way, was, now, name, str(found.report))


JOINS: dict[str, Callable[..., Any]] = {
    "zip": rx.zip, "combine_latest": rx.combine_latest, "fork_join": rx.fork_join,
}  # fmt: skip


@pytest.mark.parametrize("way", IN_PYTHON)
@pytest.mark.parametrize("join", JOINS)
def test_what_is_held_of_each_input_goes_with_it(join: str, way: str) -> None:
    """Exchanged, it gives what it gave in another order; with one more it waits for that."""
    three = [branch(name, lambda s: s.map(lambda x: x)) for name in NAMES[:3]]
    prefix, rest = numbers(0, 20), [*numbers(20, 50), ("a", None)]
    unedited = play(JOINS[join](*three), JOINS[join](*three), WAYS[0], prefix, rest).after
    found = played(JOINS[join](*three), JOINS[join](three[2], *three[:2]), way, prefix, rest)
    assert sorted(map(sorted, found.after)) == sorted(map(sorted, unedited))
    assert all([name for name, _ in each] == ["s", "n", "e"] for each in found.after)


def told(query_before: Any, query: Any) -> tuple[list[Any], str]:
    found = play(query_before, query, WAYS[0], [("a", n) for n in (4, 5, 6, 8)], [("a", n) for n in (0, 1, 2, 3)])
    return found.after, str(found.report)


def other(name: str, sign: int) -> Any:
    return a.filter(lambda x: NAMES[x % 4] == name).scan(add, 0).map(lambda value: (name, sign * value))


def test_a_function_of_one_branch_is_changed() -> None:
    """Where number and order are what they were it is the one that it was."""
    n, e, s = (other(name, 1) for name in "nes")
    assert told(rx.merge(n, e, s), rx.merge(n, other("e", -1), s)) == (
        [("n", 12), ("e", -6), ("s", 8)],
        "kept: /merge, /merge:1/scan, /merge:2/scan, /scan",
    )


def test_a_branch_that_may_be_one_or_another_begins_afresh() -> None:
    """One is changed and one more comes: neither has the state of the other, and the report says why."""
    n, e, w = (other(name, 1) for name in "new")
    after, report = told(rx.merge(n, e), rx.merge(w, n, other("e", -1)))
    assert after == [("n", 12), ("e", -1), ("w", 3)]
    assert "/merge:2/scan (which branch of before it is cannot be told)" in report
    assert report.startswith("kept: /merge; dropped: /merge:1/scan; fresh: ")


def test_a_branch_that_takes_the_place_of_another_is_not_that_one() -> None:
    """One goes, another comes, and a third has changed its place."""
    n, e, w = (other(name, 1) for name in "new")
    assert told(rx.merge(n, e), rx.merge(e, w))[0] == [("e", 6), ("w", 3)]
