"""Say of each function of `changed_elements`, behind each operator that takes one, what a host would warn of.

Run by `test_element_changes` under each Python that is here; it needs nothing that is not in the packages.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from changed_elements import CHANGE, KEEP

import reliable_rx as rx
from reliable_rx.functions.shared_elements import changed_elements
from reliable_rx.runtime.plan import Plan

Place = Callable[[Any, Any], Any]
n, m = rx.source("n"), rx.source("m")
OPERATORS: dict[str, Place] = {
    "map": lambda s, f: s.map(f),
    "map_indexed": lambda s, f: s.map_indexed(lambda row, i: f(row)),
    "filter": lambda s, f: s.filter(f),
    "filter_indexed": lambda s, f: s.filter_indexed(lambda row, i: f(row)),
    "do_action": lambda s, f: s.do_action(f),
    "group_by": lambda s, f: s.group_by(f).flat_map(lambda g: g.count()),
    "group_by element": lambda s, f: s.group_by(len, f).flat_map(lambda g: g.count()),
    "group_by_until": lambda s, f: s.group_by_until(f, None, lambda g: rx.timer(3)).flat_map(lambda g: g.count()),
    "distinct": lambda s, f: s.distinct(f),
    "distinct_until_changed": lambda s, f: s.distinct_until_changed(f),
    "take_while": lambda s, f: s.take_while(f),
    "skip_while": lambda s, f: s.skip_while(f),
    "first": lambda s, f: s.first(f),
    "last_or_default": lambda s, f: s.last_or_default(None, f),
    "find": lambda s, f: s.find(lambda row, i, whole: f(row)),
    "all": lambda s, f: s.all(f),
    "some": lambda s, f: s.some(f),
    "count": lambda s, f: s.count(f),
    "sum": lambda s, f: s.sum(f),
    "average": lambda s, f: s.average(f),
    "min_by": lambda s, f: s.min_by(f),
    "max": lambda s, f: s.max(lambda a, b: f(b) - f(a)),
    "to_dict": lambda s, f: s.to_dict(f),
    "to_dict element": lambda s, f: s.to_dict(len, f),
    "scan": lambda s, f: s.scan(lambda total, row: total + f(row), 0),
    "scan without a seed": lambda s, f: s.scan(lambda total, row: f(total)),
    "reduce": lambda s, f: s.reduce(lambda total, row: total + f(row), 0),
    "flat_map": lambda s, f: s.flat_map(f),
    "flat_map_indexed": lambda s, f: s.flat_map_indexed(lambda row, i: f(row)),
    "flat_map within": lambda s, f: s.flat_map(lambda row: rx.of(1).map(lambda one: f(row))),
    "concat_map": lambda s, f: s.concat_map(f),
    "switch_map": lambda s, f: s.switch_map(f),
    "expand": lambda s, f: s.expand(f),
    "join": lambda s, f: s.join(m, f, lambda other: rx.timer(1)),
    "join right": lambda s, f: m.map(dict).join(s, lambda other: rx.timer(1), f),
    "join_within": lambda s, f: s.join_within(m, f, within_s=5),
    "delay_with_mapper": lambda s, f: s.delay_with_mapper(f),
    "throttle_with_mapper": lambda s, f: s.throttle_with_mapper(f),
    "where_key": lambda s, f: s.pipe(rx.operators.where_key(f, 3)),
    "partition": lambda s, f: s.pipe(rx.operators.partition(f))[0],
    "starmap": lambda s, f: s.pairwise().starmap(lambda before, row: f(row)),
}
BEFORE: dict[str, Callable[[Any], Any]] = {
    "filter": lambda s: s.filter(len).take(5),
    "merge": lambda s: m.map(dict).merge(s),
    "share": lambda s: s.share(),
    "publish": lambda s: s.publish(lambda each: each.skip(1)),
    "delay": lambda s: s.delay(1).start_with({}),
    "groups": lambda s: s.group_by(len).flat_map(lambda g: g),
    "windows": lambda s: s.window_with_count(2).merge_all(),
    "catch": lambda s: s.pipe(rx.operators.catch(lambda error, source: m)),
    "query behind a function": lambda s: s.do_action(print),
}
WITHIN: dict[str, Place] = {
    "group": lambda s, f: s.group_by(len).flat_map(lambda g: g.map(f)),
    "group of a group": lambda s, f: s.group_by(len).flat_map(
        lambda g: g.group_by(len).flat_map(lambda each: each.filter(f))
    ),
    "window": lambda s, f: s.window_with_count(2).flat_map(lambda w: w.map(f)),
    "published": lambda s, f: s.publish(lambda each: each.map(f)),
    "part of a list": lambda s, f: s.buffer_with_count(2).map(lambda rows: [f(row) for row in rows]),
    "part of a pair": lambda s, f: s.zip(m).map(lambda pair: f(pair[0])),
    "part of an unpacked pair": lambda s, f: s.with_latest_from(m).map(lambda pair: [f(a) for a in pair]),
}
NEW: dict[str, Callable[[Any], Any]] = {
    "map": lambda s: s.map(dict),
    "starmap": lambda s: s.zip(m).starmap(lambda a, b: {**a, **b}),
    "scan": lambda s: s.scan(lambda total, row: {**total, **row}, {}),
    "group element": lambda s: s.group_by(len, dict).flat_map(lambda g: g),
    "list": lambda s: s.buffer_with_count(2),
    "pair": lambda s: s.pairwise(),
    "flat_map": lambda s: s.flat_map(lambda row: [dict(row)]),
    "of": lambda s: rx.of({}, {}),
}


def warns(query: Any) -> bool:
    return bool(changed_elements(Plan(query.node, symbolic=True)))


def told() -> dict[str, list[str]]:
    """Return, by what is claimed, the cases in which it does not hold."""
    gross = CHANGE["item in place"]
    every = {**OPERATORS, **WITHIN}
    unseen = [f"{name}, {op}" for op, place in every.items() for name, f in CHANGE.items() if not warns(place(n, f))]
    kept = [(name, op, place(n, f)) for op, place in every.items() for name, f in KEEP.items()]
    return {
        "changes": unseen,
        "keeps": [
            f"{name}, {op}" for name, op, query in kept if warns(query) and (name, op) != ("returned", "do_action")
        ],
        "behind": [name for name, before in BEFORE.items() if not warns(before(n).map(gross))],
        "behind what is new": [name for name, before in NEW.items() if warns(before(n).map(gross))],
    }


if __name__ == "__main__":
    json.dump(told(), sys.stdout)
