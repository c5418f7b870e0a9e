"""Outputs on their way into a store: whatever a value does while it is written, it costs its own stream at most."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, lists
from lanes import examples

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import decode
from checkpoint.format.salvage import Unreadable
from hosting import ListSource, QueryEvaluator
from hosting.edges.segments import stored
from hosting.engine.turns import Output
from reliable_rx.errors import QueryRefused


class NowAndThen:
    """A value that is stored where its turn in *answers* says so, and raises else; behind them it raises for ever."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers = iter(answers)

    def __reduce__(self) -> Any:
        if not next(self.answers, False):
            raise ValueError("not now")
        return NowAndThen, ([],)


@examples(300)
@given(lists(lists(booleans(), max_size=6), max_size=8), integers(0, 5), booleans())
def test_values_that_are_stored_now_and_then(answers: list[list[bool]], good: int, ended: bool) -> None:
    """Each id is there once, what can be stored as it is, and the query is blamed if one cannot."""
    values: list[Any] = [*range(good), *map(NowAndThen, answers), "last"]
    spoilt: dict[str, QueryRefused] = {}
    found: list[Any] = []
    for first, count, payload in stored(Output("q", 7, values, ended), spoilt):
        part, ends, error = decode(payload)
        assert first == 7 + len(found) and count == len(part) + ends and error is None
        found += part
    assert [*found[:good], found[-1]] == [*range(good), "last"]
    lost = sum(type(each) is Unreadable for each in found)
    assert len(found) == len(values) and bool(lost) == bool(spoilt)
    assert lost >= sum(not any(each) for each in answers)


@pytest.mark.parametrize("background", [False, True])
def test_a_value_that_is_stored_now_and_then_ends_its_query_at_most(background: bool) -> None:
    """The query beside it has all, whenever the value raises."""
    with QueryEvaluator(MemoryStore(), background=background, checkpoint_interval_s=1e9) as evaluator:
        evaluator.source("n", ListSource(list(range(30))))
        evaluator.create("odd", rx.source("n").map(lambda n: NowAndThen([True, True, False] * n)))
        evaluator.create("good", rx.source("n").scan(lambda a, b: a + b))
        evaluator.run()
        evaluator.checkpoint()
        assert evaluator.stream("good").next_id == 31 and evaluator.query("good").status == "completed"


def test_a_dict_that_is_changed_while_it_is_stored() -> None:
    """As it is by a query that goes on with it in another thread: nothing is raised, and each id is there once."""
    growing: dict[Any, Any] = {}

    class Key:
        """Is written by a call back into Python, where threads change places."""

        def __reduce__(self) -> Any:
            growing[len(growing)] = None
            return Key, ()

    growing[Key()] = None
    spoilt: dict[str, QueryRefused] = {}
    parts = list(stored(Output("q", 0, [growing] * 20), spoilt))
    assert sum(count for _, count, _ in parts) == 20 and list(spoilt) == ["q"]
