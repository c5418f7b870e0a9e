"""Classes whose attributes are read for each event are looked up by the interpreter itself.

A `__getattr__` of a class makes each access to its attributes, also to those that it has, several times as long: the
interpreter specialises none of them. It shows in no test of what is done, and in each figure of `benchmarks/`.
So does a `__dict__` that somebody asked for, before Python 3.13: the values of the object lie in a hash table from then
on, where they lay in a row.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections import Counter
from types import FrameType
from typing import Any

import pytest
from every_case import CASES, lanes

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.edges.egress import Stream
from reliable_rx import operators as ops
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.operators.hubs import Hub
from reliable_rx.operators.mapping import Map
from reliable_rx.query.query import Inner, Query, walk

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


def in_tables(query: Query[Any]) -> list[Operator]:
    """Return the operators of *query* whose parameters lie in a hash table; a hub has more than its parameters."""
    kept = [node.op for node in walk(query.node) if not isinstance(node.op, Hub)]
    return [op for op in kept if any(isinstance(each, dict) and each for each in gc.get_referents(op))]


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there the values stay in a row")
@pytest.mark.parametrize("name", lanes([name for name, case in CASES.items() if case.hostable], fast=1, every=2))
def test_storing_a_query_asks_no_operator_for_its_dict(name: str) -> None:
    """Neither the query that is created nor the one that is read back from the store has a slow operator."""
    case, store = CASES[name], MemoryStore()
    query = case.build(ops, rx, *[rx.source(f"s{n}") for n in range(case.sources)])
    for _ in range(2):
        with QueryEvaluator(store, background=False) as evaluator:
            for n in range(case.sources):
                evaluator.source(f"s{n}", ListSource([], follow=True))
            if "q" not in evaluator.queries():
                evaluator.create("q", query)
            evaluator.start()
            evaluator.checkpoint()
            assert not in_tables(evaluator.engine.standing["q"].query)
    assert not in_tables(query)


class Marked(Map):
    """A subclass that is not `frozen` and has more than its parameters."""

    def __init__(self, mark: str) -> None:
        super().__init__(str)
        self.mark = mark


def test_a_subclass_that_is_not_frozen_is_stored_with_all_it_has() -> None:
    """What stores parameters leaves out nothing that somebody set on an operator of another kind."""
    back = pickle.loads(pickle.dumps(Marked("here")))
    assert (back.mark, back.mapper) == ("here", str)
