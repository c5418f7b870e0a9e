"""Lists that one event makes, under ``skip`` and ``dead_letter``: a value that is left out takes no other along."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from lanes import every
from skipping import played

import reliable_rx as rx
from reliable_rx import operators as ops

Way = Callable[[Any], Any]
buffered: Any = ops.buffer_with_count(2)
listed: Any = ops.to_list()


def is_bad(n: int) -> bool:
    return n % 4 == 3


def checked(n: Any) -> Any:
    if is_bad(n):
        raise ValueError(n)
    return n


def three(n: Any) -> Any:
    return [n, n + 1, n + 2]


def items(part: Any) -> Any:
    return part


def add(total: int, n: int) -> Any:
    return total + checked(n)


LISTS: dict[str, Way] = {
    "of": lambda s: s.flat_map(lambda n: rx.of(n, n + 1, n + 2)),
    "a list": lambda s: s.flat_map(three),
    "concat_map": lambda s: s.concat_map(lambda n: rx.of(n, n + 1, n + 2)),
    "switch_map": lambda s: s.switch_map(lambda n: rx.of(n, n + 1, n + 2)),
    "start_with": lambda s: s.flat_map(lambda n: rx.of(n).start_with(n + 1, n + 2)),
    "repeat": lambda s: s.flat_map(lambda n: rx.of(n, n + 1).repeat(2)),
    "expand": lambda s: s.flat_map(lambda n: rx.of(n).expand(lambda m: rx.of(m + 5) if m < 12 else rx.empty())),
    "buffer_with_count": lambda s: s.buffer_with_count(3).flat_map(items),
    "pairwise": lambda s: s.pairwise().flat_map(items),
    "take_last": lambda s: s.take(9).take_last(6),
    "to_list": lambda s: s.take(9).to_list().flat_map(items),
    "groups": lambda s: s.group_by(lambda n: n % 2).flat_map(buffered).flat_map(items),
    "windows": lambda s: s.window_with_count(3).flat_map(listed).flat_map(items),
    "shared": lambda s: s.flat_map(three).share(),
    "publish": lambda s: s.take(9).pipe(ops.publish(lambda shared: shared.take(4).concat(shared))),
    "merge": lambda s: s.flat_map(three).merge(rx.source("m").flat_map(three)),
    "within": lambda s: s.flat_map(lambda n: rx.of(n).flat_map(lambda m: [m, m + 1, m + 2])),
}
RAISING: dict[str, Way] = {
    "map": lambda s: s.map(checked),
    "map, map": lambda s: s.map(lambda n: n).map(checked).map(str),
    "filter": lambda s: s.filter(lambda n: checked(n) >= 0),
    "map_indexed": lambda s: s.pipe(ops.map_indexed(lambda n, at: (checked(n), at))),
    "scan": lambda s: s.scan(add, 0),
    "reduce": lambda s: s.reduce(add, 0),
    "count": lambda s: s.map(checked).count(),
    "pairs": lambda s: s.map(checked).pairwise(),
    "do_action": lambda s: s.do_action(checked),
    "distinct": lambda s: s.distinct(checked),
    "distinct_until_changed": lambda s: s.distinct_until_changed(checked),
    "take_while": lambda s: s.take_while(lambda n: checked(n) < 100),
    "flat_map": lambda s: s.flat_map(lambda n: rx.of(checked(n), 100)),
    "concat_map": lambda s: s.concat_map(lambda n: [checked(n), 100]),
    "group_by": lambda s: s.group_by(checked).flat_map(lambda g: g.map(lambda n: (g.key, n))),
    "in groups": lambda s: s.group_by(lambda n: n % 3).flat_map(lambda g: g.map(checked).scan(add, 0)),
    "in windows": lambda s: s.flat_map(lambda n: rx.of(n, n).map(checked)).window_with_count(2).flat_map(listed),
    "with_latest_from": lambda s: s.with_latest_from(rx.of(1)).pipe(ops.starmap(lambda n, _: checked(n))),
    "to_dict": lambda s: s.to_dict(checked),
    "max_by": lambda s: s.pipe(ops.max_by(checked)),
}


@pytest.mark.parametrize("pair", every(13, product(LISTS, RAISING)), ids=", ".join)
def test_a_value_is_left_out_alone(pair: tuple[str, str]) -> None:
    """It is as if the values at which a function raises had been filtered out before, and each is counted."""
    made, behind, before = LISTS[pair[0]], RAISING[pair[1]], rx.source("n")
    expected = played(behind(made(before).filter(lambda n: not is_bad(n))), restarts=False, policy="fail")
    query = behind(made(before))
    found = played(query, restarts=False, policy="skip")
    assert found[:2] == expected[:2]
    assert found[2] > 0
    assert played(query, restarts=True, policy="dead_letter") == found
