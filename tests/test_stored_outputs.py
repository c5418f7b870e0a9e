"""What a stream has stored and cannot be read again is told when it is read first, and its query goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.salvage import unreadable_in
from hosting import ListSource, QueryEvaluator
from reliable_rx.testing.hostile import UNREADABLE, VALUES, Hostile

LOST = [each for each in VALUES if each.kind == UNREADABLE]
N = [0, 1, 2, 3]


class Among:
    """Gives what *make* makes, alone or within a list, at one event; a number at each other one."""

    def __init__(self, make: Callable[[], Any], *, within: bool) -> None:
        self.make, self.within = make, within

    def __call__(self, n: int) -> Any:
        if n != 2:
            return n
        return [n, self.make()] if self.within else self.make()


def stored(function: Callable[[int], Any]) -> Any:
    """Return a store in which a query has emitted what *function* gives and gone on to its end, stopped in order."""
    store = MemoryStore()
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource(N))
        evaluator.create("odd", rx.source("n").map(function))
        evaluator.create("whole", rx.source("n"))
        evaluator.run()
        assert evaluator.query("odd").status == "completed"
        assert not evaluator.incidents.open()
    return store.reopen()


def values(evaluator: QueryEvaluator, name: str) -> list[Any]:
    stream = evaluator.stream(name)
    return [value for segment in stream.read(stream.first, 100) for value in segment.values]


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("hostile", LOST, ids=repr)
def test_a_value_that_cannot_be_read_again_is_told(hostile: Hostile, within: bool) -> None:
    """One warning of its stream that names the id and says why, at each start anew; all else is as it was."""
    store = stored(Among(hostile.make, within=within))
    for _ in range(2):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource(N))
            evaluator.start()
            assert values(evaluator, "whole") == N
            assert not evaluator.incidents.open()
            found = values(evaluator, "odd")
            assert [*found[:2], found[3]] == [0, 1, 3] and next(unreadable_in(found[2])) is not None
            values(evaluator, "odd")
            (told,) = evaluator.incidents.open()
            assert (told.kind, told.subject, told.level, told.count) == ("stream", "odd", "warning", 1)
            assert next(unreadable_in(found[2])).reason in told.message
            assert "1 value" in told.message and "id 2:" in told.message
            assert evaluator.query("odd").status == "completed"
        store = store.reopen()


def test_many_values_are_counted() -> None:
    """They are one incident with a number, and the first of them by its id."""
    with QueryEvaluator(stored(lambda n: LOST[0].make() if n else n), background=False) as evaluator:
        evaluator.source("n", ListSource(N))
        evaluator.start()
        values(evaluator, "odd")
        (told,) = evaluator.incidents.open()
        assert told.message.startswith("3 values") and "the first is id 1:" in told.message


def test_what_can_be_read_is_not_told() -> None:
    with QueryEvaluator(stored(lambda n: {"n": n}), background=False) as evaluator:
        evaluator.source("n", ListSource(N))
        evaluator.start()
        assert values(evaluator, "odd") == [{"n": n} for n in N]
        assert not evaluator.incidents.open()
