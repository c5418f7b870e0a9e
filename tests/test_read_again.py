"""What is let go of and read again at one event, beside another reader of the same sequence, has the event no more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed

from reliable_rx.testing import check_operator

SHARED: dict[str, Callable[[Any, Any], Any]] = {
    "share": lambda ops, n: n.pipe(ops.share()),
    "replay": lambda ops, n: n.pipe(ops.replay(1), ops.ref_count()),
    "publish_value": lambda ops, n: n.pipe(ops.publish_value(7), ops.ref_count()),
    "shared behind an operator": lambda ops, n: n.pipe(ops.scan(lambda a, x: a + x), ops.share()),
    "shared twice": lambda ops, n: n.pipe(ops.share(), ops.map(lambda x: x + 1), ops.share()),
    "not shared": lambda ops, n: n,
}
READ: dict[str, Callable[[Any, Any, Any], Any]] = {
    "switch_map": lambda ops, n, s: n.pipe(ops.switch_map(lambda x: s)),
    "a part of them": lambda ops, n, s: n.pipe(ops.filter(lambda x: x < 2), ops.flat_map_latest(lambda x: s)),
}
WITHIN: dict[str, Callable[[Any, Any, Callable[[Any], Any]], Any]] = {
    "a source": lambda ops, n, read: read(n),
    "a shared part": lambda ops, n, read: read(n.pipe(ops.share())),
    "a published part": lambda ops, n, read: n.pipe(ops.publish(read)),
    "groups": lambda ops, n, read: n.pipe(ops.group_by(lambda x: x > 1), ops.flat_map(read)),
    "windows": lambda ops, n, read: n.pipe(ops.window_with_count(3), ops.flat_map(read)),
    "lists": lambda ops, n, read: n.pipe(
        ops.window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.flat_map(lambda x: [x, 2 - x]), ops.publish(read)))
    ),
    "groups of lists": lambda ops, n, read: n.pipe(
        ops.flat_map(lambda x: [x, 2 - x]), ops.group_by(lambda x: x % 2), ops.flat_map(read)
    ),
}


@pytest.mark.parametrize(("read", "shared", "within"), crossed(READ, SHARED, WITHIN, nth=7))
def test_what_is_read_again_gets_the_next_event(read: str, shared: str, within: str) -> None:
    """As in RxPY, whether it subscribes to the source anew or is one of the readers of a group or shared part."""
    check_operator(
        lambda ops, rx, n: WITHIN[within](ops, n, lambda each: READ[read](ops, each, SHARED[shared](ops, each))),
        alphabet=(0, 1),
        gaps_s=(1.0,),
    )
