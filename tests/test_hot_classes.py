"""Classes whose attributes are read for each event are looked up by the interpreter itself.

A `__getattr__` of a class makes each access to its attributes, also to those that it has, several times as long: the
interpreter specialises none of them. It shows in no test of what is done, and in each figure of `benchmarks/`.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import FrameType
from typing import Any

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.stream import Stream
from reliable_rx.query import Inner

EVENTS = 200


def first_of(event: tuple[int, int]) -> int:
    return event[0]


def classes_at_work(evaluator: QueryEvaluator) -> Counter[type]:
    """Count the calls of methods while *evaluator* runs, by the class of the object."""
    found: Counter[type] = Counter()

    def note(frame: FrameType, what: str, of: Any) -> None:
        if what == "call" and frame.f_code.co_varnames[:1] == ("self",):
            found[type(frame.f_locals["self"])] += 1

    sys.setprofile(note)
    try:
        evaluator.run()
    finally:
        sys.setprofile(None)
    return found


def test_no_class_that_is_used_for_each_event_has_a_getattr() -> None:
    """Singly taken events of a plain, a grouped and very many routed queries, and the streams of their outputs."""
    events = [(n, n) for n in range(EVENTS)]
    source = rx.source("n")
    with QueryEvaluator(MemoryStore(), background=False, batch_events_max=1) as evaluator:
        evaluator.source("n", ListSource(events))
        evaluator.create("plain", source.map(lambda n: n[1]).scan(lambda a, b: a + b, 0))
        evaluator.create_many({f"routed {key}": source.where_key(first_of, key) for key in range(EVENTS)})
        evaluator.create("grouped", source.group_by(lambda n: n[0]).flat_map(lambda group: group.scan(max, (0, 0))))
        found = classes_at_work(evaluator)
    hot = {kind for kind, times in found.items() if times >= EVENTS}
    assert Stream in hot
    assert not [kind for kind in hot if hasattr(kind, "__getattr__") and kind is not Inner]  # made once per group
