"""A selector that raises for a group leaves out each event of that group, not the first one alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.query.query import Query

EVENTS = [(key, n) for n, key in enumerate("abacbbacab")]
Chooses = Callable[[Any], Any]


def raises(group: Any) -> Any:
    raise ValueError("no such group")


def nothing(group: Any) -> Any:
    return None


def unknown(group: Any) -> Any:
    return getattr(group, "mapp")(lambda x: x)


def silent(group: Any) -> Any:
    return group.filter(lambda _: False)


def counted(group: Any) -> Any:
    return group.pipe(ops.scan(lambda count, _: count + 1, 0), ops.map(lambda count: (group.key, count)))


def choosing(mistake: Chooses) -> Chooses:
    return lambda group: mistake(group) if group.key == "b" else counted(group)


def key_of(event: tuple[str, int]) -> str:
    return event[0]


N: Any = rx.source("n")
SHAPES: dict[str, Callable[[Chooses], Query[Any]]] = {
    "group_by": lambda choose: N.group_by(key_of).flat_map(choose),
    "for a time": lambda choose: N.group_by(key_of, ttl_s=1e6).flat_map(choose),
    "until": lambda choose: N.group_by_until(key_of, None, lambda group: group.skip(100)).flat_map(choose),
    "with room": lambda choose: N.group_by(key_of, groups_max=3, evict="least_recent").flat_map(choose),
    "mapped": lambda choose: N.group_by(key_of).map(choose).merge_all(),
    "within": lambda choose: N.group_by(lambda _: 0).flat_map(lambda all: all.group_by(key_of).flat_map(choose)),
}


def run(store: MemoryStore, query: Query[Any], upto: int, policy: Any) -> tuple[list[Any], list[int | None], int]:
    """Return what the query has emitted so far, which events are dead letters, and how many were skipped."""
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource(EVENTS[:upto], follow=True))
        evaluator.create("q", query, policy=policy)
        evaluator.run(until=lambda: evaluator.statistics().positions[("n", "0")] == upto)
        evaluator.checkpoint()
        found = [value for part in evaluator.stream("q").read(0, 100) for value in part.values]
        buried = evaluator.stream("q.dead_letters").read(0, 100) if policy == "dead_letter" else ()
        return found, [value.position for part in buried for value in part.values], evaluator.query("q").skipped


@pytest.mark.parametrize("policy, mistake, shape", crossed(["skip", "dead_letter"], [raises, nothing, unknown], SHAPES))
def test_each_event_of_a_refused_group_is_left_out(shape: str, mistake: Chooses, policy: str) -> None:
    """The others come out as if these events had not been there, with a restart behind every event too."""
    bad = [n for key, n in EVENTS if key == "b"]
    without = run(MemoryStore(), SHAPES[shape](choosing(silent)), len(EVENTS), policy)[0]
    expected = without, bad if policy == "dead_letter" else [], len(bad)
    assert run(MemoryStore(), SHAPES[shape](choosing(mistake)), len(EVENTS), policy) == expected
    store = MemoryStore()
    for upto in range(len(EVENTS) + 1):
        found = run(store, SHAPES[shape](choosing(mistake)), upto, policy)
    assert found == expected


def test_a_mended_selector_begins_the_group() -> None:
    """What was refused is no state: the group begins with the first event behind the edit."""
    store = MemoryStore()
    run(store, SHAPES["group_by"](choosing(raises)), 5, "skip")
    found, _, _ = run(store, SHAPES["group_by"](counted), len(EVENTS), "skip")
    assert [each for each in found if each[0] == "b"] == [("b", 1), ("b", 2)]
