"""The end of a query holds neither the events at which it came nor the state that it ended, however long it is kept."""

from __future__ import annotations

import gc
import sys
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine import failure


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
    """But for the one that was in the hand of a function. Nor does what led to it; where it was raised is known."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        events, seen = list[Any](), list[weakref.ref[Event]]()
        evaluator.source("n", ListSource(events, follow=True, timestamp=None))
        evaluator.create("q", rx.source("n").scan(lambda kept, each: [each], []).map(raises))
        evaluator.create("reader", rx.source("q").map(abs))
        evaluator.start()
        for _ in range(20):
            events += [Event() for _ in range(10)]
            seen += map(weakref.ref, events[-10:])
            while evaluator.step():
                pass
            assert evaluator.query("q").status == evaluator.query("reader").status == "failed"
            events[-10:] = [None] * 10
            evaluator.restart("q")
        gc.collect()
        ends = [part.error for part in evaluator.stream("q").read(0, 100) if part.ended and part.error is not None]
        assert len(ends) == 20 and sum(each() is not None for each in seen) <= 22
        assert all(raises.__name__ in "".join(traceback.format_exception(each)) for each in ends)


class Row:
    """Has names, and is asked for them by `eval`, which asks for nothing else."""

    def __getitem__(self, name: str) -> int:
        return {"price": 1, "quantity": 0}[name]


class Names(dict[str, int]):
    """Takes the place of globals, with a method of its own."""

    def get(self, name: str, kind: str) -> int:  # type: ignore[override]
        raise AssertionError("asked")


class WithNames(Exception):
    """Says which values there were."""


def shows_names(value: int) -> None:
    doubled = value * 2
    raise WithNames(doubled, locals())


HELD = list[Exception]()


def counting() -> Iterator[int]:
    """Catch an error, and go on."""
    try:
        check(None)
    except ValueError as error:
        HELD.append(error)
    yield from range(100)


def test_frames_of_the_program_are_its_own() -> None:
    """A generator goes on, a mapping in the place of names is asked for nothing, and names that are kept are kept."""
    HELD.clear()
    numbers = counting()
    assert next(numbers) == 0
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([3]))
        evaluator.create("caught", rx.source("n").flat_map(lambda _: rx.throw(HELD[0])))
        evaluator.create("ratio", rx.source("n").map(lambda _: eval("price / quantity", {}, Row())))
        evaluator.create("formula", rx.source("n").map(lambda v: eval("1 / (3 - v)", Names(v=v))))
        evaluator.create("names", rx.source("n").map(shows_names))
        evaluator.create("told", rx.source("names").catch(lambda error, _: rx.just(error.args[1])))
        evaluator.run()
        assert {each.status for each in map(evaluator.query, ("caught", "ratio", "formula", "names"))} == {"failed"}
        assert not [each for each in evaluator.statistics().incidents if each.kind != "query"]
        (part,) = evaluator.stream("told").read(0, 1)
        assert part.values == [{"value": 3, "doubled": 6}]
        (ended,) = evaluator.stream("names").read(0, 1)
        assert ended.error is not None and ended.error.args == (6, {"value": 3, "doubled": 6})
    assert next(numbers) == 1


def test_a_deep_error_of_many_readers_is_emptied_once() -> None:
    """Each of its frames is looked at once, however many end with it."""

    def deep(value: int) -> int:
        return deep(value) + 1

    looked = 0
    with QueryEvaluator(MemoryStore(), background=False) as evaluator, pytest.MonkeyPatch.context() as patch:
        ours = failure.is_ours

        def counted(frame: Any) -> bool:
            nonlocal looked
            looked += 1
            return ours(frame)

        patch.setattr(failure, "is_ours", counted)
        evaluator.source("n", ListSource([3]))
        evaluator.create("q", rx.source("n").map(deep))
        for number in range(50):
            evaluator.create(f"reader {number}", rx.source("q").map(abs))
        evaluator.run()
        assert evaluator.query("q").status == evaluator.query("reader 49").status == "failed"
    assert looked < 3 * sys.getrecursionlimit()
