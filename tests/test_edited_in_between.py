"""An operator is put in behind a total, or taken out from there, as one guards, delays or enriches what runs.

For every operator of the recipes, wherever the total stands: alone, in a branch of what joins two sources, in a group.
The total goes on: nobody who puts a `catch` behind it has edited it.
"""

from __future__ import annotations

from collections.abc import Callable
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


AROUND: dict[str, Callable[[Body], Any]] = {
    "alone": lambda body: body(total(a)),
    "in a merge": joined(lambda s: s.merge(b.filter(lambda _: False))),
    "in the second branch": joined(lambda s: b.filter(lambda _: False).merge(s)),
    "with a reference": joined(lambda s: s.with_latest_from(b.map(str))),
    "combined": joined(lambda s: s.combine_latest(b.map(str))),
    "before what comes first": lambda body: body(total(a)).start_with(0),
    "before what waits": lambda body: body(total(a)).delay_subscription(0.5),
    "in a group, beside another reader": lambda body: in_groups(lambda g: total(g).with_latest_from(body(g))),
    "in a group": lambda body: in_groups(lambda g: body(total(g))),
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
    if edit == "taken out" and (name in TAKES_FEW or alone(step(name)(total(a)), PREFIX).status != "running"):
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
    is_known = edit == "taken out" and name not in READ_AGAIN and (around, name) not in ITS_NAMESAKE
    for each in found:
        assert each.after == (TOTALS if is_known else found[0].after), (each.after, str(report))
