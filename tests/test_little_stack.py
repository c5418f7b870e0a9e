"""However little of the stack is left when an evaluator takes a turn, nothing is lost without a word.

The interpreter raises `RecursionError` wherever it happens to be: in a function, in an operator, between two of them.
"""

from __future__ import annotations

import sys
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from lanes import examples

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import TooLate
from reliable_rx.testing.steps import add, third

NUMBERS = [0, 1, 2, 3, 4, 5]
ADD: Any = add


def under_three(n: int) -> bool:
    return n < 3


def first_of(group: Any) -> Any:
    return group.pipe(ops.take(1), ops.to_list())


N: Any = rx.source("n")
DEPTHS = st.integers(6, 40)
STEPS_MAX = 50
QUERIES: dict[str, Any] = {
    "take": N.pipe(ops.take(3), ops.scan(ADD, 0), ops.pairwise(), ops.map(lambda pair: pair)),
    "first": N.pipe(ops.first(), ops.flat_map(lambda n: rx.of(n, 1).pipe(ops.scan(ADD, 0)))),
    "while": N.pipe(ops.take_while(under_three), ops.switch_map(lambda n: rx.of(n)), ops.to_list()),
    "until": N.pipe(ops.take_until(N.pipe(ops.skip(3))), ops.buffer_with_count(2)),
    "last": N.pipe(ops.take(4), ops.last(), ops.start_with(0), ops.concat(rx.of(9))),
    "groups": N.pipe(ops.group_by(third), ops.flat_map(first_of)),
    "sum": N.pipe(ops.sum()),
}
Seen = dict[str, tuple[list[Any], str]]


def evaluator_on(store: MemoryStore) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, batch_events_max=2, strict=False)
    evaluator.source("n", ListSource(NUMBERS))
    for name, query in QUERIES.items():
        evaluator.create(name, query)
    evaluator.start()
    return evaluator


def stepped(evaluator: QueryEvaluator) -> None:
    for _ in range(STEPS_MAX):
        evaluator.step()


def stepped_with(evaluator: QueryEvaluator, headroom: int) -> bool:
    """Take turns with so many frames left; return whether none of them stopped the evaluator."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    try:
        sys.setrecursionlimit(depth + headroom)
        stepped(evaluator)
    except (RecursionError, TooLate):  # the step, or the next one behind it
        return False
    finally:
        sys.setrecursionlimit(before)
    return True


def seen(evaluator: QueryEvaluator) -> Seen:
    streams = {name: evaluator.stream(name) for name in QUERIES}
    return {
        name: (
            [value for part in stream.read(stream.first, 1000) for value in part.values],
            evaluator.query(name).status,
        )
        for name, stream in streams.items()
    }


def played(headroom: int) -> None:
    """Take turns with little stack, go on with enough of it, and once more from what is stored."""
    expected = at_ease()
    store = MemoryStore()
    evaluator = evaluator_on(store)
    if stepped_with(evaluator, headroom):
        stepped(evaluator)
        for name, (values, status) in seen(evaluator).items():
            assert status == "failed" or (values, status) == expected[name], f"{name}: {values}, {status}"
    evaluator.abandon()
    evaluator = evaluator_on(store.reopen())
    stepped(evaluator)
    for name, (values, status) in seen(evaluator).items():
        assert status == "failed" or (values, status) == expected[name], f"{name} again: {values}, {status}"
    evaluator.abandon()


def at_ease() -> Seen:
    evaluator = evaluator_on(MemoryStore())
    stepped(evaluator)
    found = seen(evaluator)
    evaluator.abandon()
    return found


@examples(120)
@given(DEPTHS)
def test_what_does_not_happen_is_said(headroom: int) -> None:
    """Each query has all that it must have or has failed, or the evaluator stops and takes its turns anew."""
    played(headroom)
