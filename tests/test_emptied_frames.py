"""The end of a query holds neither the events at which it came nor the state that it ended, however long it is kept."""

from __future__ import annotations

import gc
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator


class Event:
    """An event that can be referred to weakly."""


def check(_: Any) -> None:
    raise ValueError("bad record")


def led_by(_: Any) -> None:
    try:
        check(_)
    except ValueError as error:
        raise KeyError("led there") from error


def in_a_group(_: Any) -> None:
    try:
        check(_)
    except ValueError as error:
        raise ExceptionGroup("one of several", [error])


@pytest.mark.parametrize("raises", [check, led_by, in_a_group])
def test_an_end_holds_no_events(raises: Any) -> None:
    """Nor does what led to it, or is in it; where it was raised is known."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        events, seen = list[Any](), list[weakref.ref[Event]]()
        evaluator.source("n", ListSource(events, follow=True, timestamp=None))
        evaluator.create("q", rx.source("n").scan(lambda kept, each: [each], []).map(raises))
        evaluator.create("reader", rx.source("q").map(abs))
        evaluator.start()
        for _ in range(20):
            events += [Event(), Event()]
            seen += map(weakref.ref, events[-2:])
            while evaluator.step():
                pass
            assert evaluator.query("q").status == evaluator.query("reader").status == "failed"
            events[-2:] = [None, None]
            evaluator.restart("q")
        gc.collect()
        ends = [part.error for part in evaluator.stream("q").read(0, 100) if part.ended and part.error is not None]
        assert len(ends) == 20 and sum(each() is not None for each in seen) <= 2
        assert all(raises.__name__ in "".join(traceback.format_exception(each)) for each in ends)


HELD = list[Exception]()


def counting() -> Iterator[int]:
    """Catch an error, and go on."""
    try:
        check(None)
    except ValueError as error:
        HELD.append(error)
    yield from range(100)


def test_a_generator_that_has_caught_an_error_goes_on() -> None:
    """Its frame is one that the error has come through, and is not emptied."""
    HELD.clear()
    numbers = counting()
    assert next(numbers) == 0
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.create("q", rx.source("n").flat_map(lambda _: rx.throw(HELD[0])))
        evaluator.run()
        assert evaluator.query("q").status == "failed"
    assert next(numbers) == 1
