"""Keys of the groups around a selector: read while it builds or while it runs, at any depth, behind any recovery.

The shapes are drawn as a product, since each of them alone is what somebody writes: which sequence is inside which,
whose key is read, when, and by what kind of function.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
from operator_cases import lanes

from reliable_rx.testing import check_operator

Within = Callable[[Any, Any, Any, Callable[[Any], Any]], Any]
"""Opens inner sequences of a sequence: modules of operators and creation, the sequence, what is done with each."""


def label(key: Any, value: Any) -> Any:
    return (key, value)


OPENED: dict[str, Within] = {
    "group_by": lambda o, r, s, f: s.pipe(o.group_by(lambda x: x % 2), o.flat_map(lambda g: f(g))),
    "window": lambda o, r, s, f: s.pipe(o.window_with_count(2), o.flat_map(lambda w: f(w))),
    "values": lambda o, r, s, f: s.pipe(o.flat_map(lambda x: f(r.timer(1.0).pipe(o.map(lambda _: x))))),
    "switch": lambda o, r, s, f: s.pipe(o.group_by(lambda x: x % 2), o.switch_latest(), o.pairwise(), o.map(sum))
    .pipe(o.group_by(lambda x: x % 2), o.flat_map(lambda g: f(g))),
}  # fmt: skip
READ: dict[str, Callable[[Any, Any, Any, Callable[[], Any]], Any]] = {
    "while it runs": lambda o, r, s, key: s.pipe(o.map(lambda v: (key(), v))),
    "by a partial": lambda o, r, s, key: s.pipe(o.map(partial(label, key()))),
    "by an argument": lambda o, r, s, key: s.pipe(o.start_with(key())),
    "to choose": lambda o, r, s, key: s.pipe(o.count()) if key() else s.pipe(o.scan(lambda a, x: x)),
    "behind a timer": lambda o, r, s, key: s.pipe(o.delay(0.5), o.map(lambda v: (key(), v))),
    "by a timer of its own": lambda o, r, s, key: s.pipe(
        o.flat_map(lambda v: r.timer(0.7).pipe(o.map(partial(label, key()))))
    ),
    "when it ends": lambda o, r, s, key: s.pipe(o.to_list(), o.map(partial(label, key()))),
    "from another": lambda o, r, s, key: s.pipe(o.merge(r.timer(0.3).pipe(o.map(lambda _: key())))),
}
SHAPES = {
    f"{outer} around {inner}, {read}": (outer, inner, read)
    for outer, inner, read in product(("group_by", "switch"), OPENED, READ)
}


@pytest.mark.parametrize("name", lanes(SHAPES, fast=1, every=200))
def test_the_key_of_what_is_around(name: str) -> None:
    """Un-hosted, hosted, recovered after every turn: all read the key that RxPY's groups have."""
    outer, inner, read = SHAPES[name]

    def build(o: Any, r: Any, s: Any) -> Any:
        return OPENED[outer](
            o, r, s, lambda g: OPENED[inner](o, r, g, lambda each: READ[read](o, r, each, lambda: g.key))
        )

    check_operator(build, alphabet=(1, 2), length_max=3)
