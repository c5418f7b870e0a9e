"""Operators that read their sequence again from the beginning: each round finds everything upstream in a fresh state.

`retry`, which does so after an error, is in `recover`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query, apply, as_query

A = TypeVar("A", bound=Any)


@frozen
class Repeat(Stage, name="repeat"):
    passes_on = True
    keeps_inner = True
    resubscribes = True
    scheduler_default = "current_thread"
    free = ("repeat_count",)
    repeat_count: int | None = None

    @dataclass(slots=True)
    class State:
        rounds: int = 0

    def is_endless(self) -> bool:
        return self.repeat_count is None

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        if self.repeat_count is None or cx.state.rounds < self.repeat_count:
            cx.state.rounds += 1
            cx.subscribe(0)
        else:
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.soon("next")


def repeat(repeat_count: int | None = None) -> Callable[[Observable[A]], Query[A]]:
    """Emit the sequence *repeat_count* times in all (by default without end), each time with fresh state upstream.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).repeat(2).to_list().run()
    [1, 2, 1, 2]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(rx.operators.take(2), repeat(2)), "-1-2-3-4-5")
    -1-2-3-4-----5
    -1-2-3-(4 |)

    *State*: the rounds so far. A repetition without end in which no time passes is stopped at `Limits.actions_max`.
    """
    return Repeat(repeat_count)


@frozen
class WhileDo(Stage, name="while_do"):
    passes_on = True
    keeps_inner = True
    resubscribes = True
    scheduler_default = "current_thread"
    condition: Callable[[Observable[Any]], Any]
    _source: Query[Any]

    def is_endless(self) -> bool:
        return True

    def on_start(self, cx: Context) -> None:
        cx.soon("decide")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        if self.condition(self._source):
            cx.subscribe(0)
        else:
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.soon("decide")


def while_do(condition: Callable[[Observable[A]], bool]) -> Callable[[Observable[A]], Query[A]]:
    """Emit the sequence again and again for as long as ``condition(source)`` holds, which is asked before each round.

    >>> import reliable_rx as rx
    >>> rounds = [1, 2]
    >>> rx.of("a", "b").pipe(while_do(lambda source: rounds and rounds.pop())).to_list().run()
    ['a', 'b', 'a', 'b']
    >>> from reliable_rx.testing import diagram
    >>> rounds = [1, 2]
    >>> diagram(lambda xs: xs.pipe(rx.operators.take(1), while_do(lambda source: rounds and rounds.pop())), "-1-2-3-|")
    -1-2-----3-|
    -1-(2 |)

    Every subscription asks anew; in RxPY a second one finds the rounds of the first used up. Hosted, the condition must
    be pure: a recovery asks again what was asked since the last checkpoint.

    *State*: none of its own.
    """

    def applied(source: Observable[Any]) -> Query[Any]:
        query = as_query(source)
        return apply(WhileDo(condition, query), query)

    return applied


@frozen
class DoWhile(WhileDo, name="do_while"):
    """RxPY's is ``concat(source, source.pipe(while_do(condition)))``; the steps are its, the plan has one source."""

    @dataclass(slots=True)
    class State:
        first: bool = True

    def on_start(self, cx: Context) -> None:
        cx.soon("first")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        if tag == "first":
            cx.subscribe(0)
        elif tag == "second":
            cx.soon("decide")
        elif tag == "end":
            cx.complete()
        elif self.condition(self._source):
            cx.subscribe(0)
        else:
            cx.soon("end")

    def on_completed(self, cx: Context, port: int) -> None:
        first, cx.state.first = cx.state.first, False
        cx.soon("second" if first else "decide")


def do_while(condition: Callable[[Observable[A]], bool]) -> Callable[[Observable[A]], Query[A]]:
    """Emit the sequence, and again for as long as ``condition(source)`` holds, which is asked after each round.

    >>> import reliable_rx as rx
    >>> rounds = [1]
    >>> rx.of("a", "b").pipe(do_while(lambda source: rounds and rounds.pop())).to_list().run()
    ['a', 'b', 'a', 'b']
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(rx.operators.take(1), do_while(lambda source: False)), "-1-2-3-|")
    -1-----2-3-|
    -(1 |)

    Every subscription asks anew; in RxPY a second one finds the rounds of the first used up. Hosted, the condition must
    be pure, as in `while_do`.

    *State*: whether the first round is over.
    """

    def applied(source: Observable[Any]) -> Query[Any]:
        query = as_query(source)
        return apply(DoWhile(condition, query), query)

    return applied
