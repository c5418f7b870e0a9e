"""Operators that pass on what several sequences emit, at once or one after the other.

Those that make tuples of it are in `tuples`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from reactivex import Observable

from reliable_rx.errors import LimitExceeded
from reliable_rx.operator import Context, Stage
from reliable_rx.parameters import frozen
from reliable_rx.query import Query, apply

A = TypeVar("A", bound=Any)


@frozen
class Merge(Stage, name="merge"):
    passes_on = True
    scheduler_default = "current_thread"
    keeps_inner = True
    adds_others = True
    inputs: int

    @dataclass(slots=True)
    class State:
        live: int

    def initial(self) -> State:
        return self.State(self.inputs)

    def on_start(self, cx: Context) -> None:
        cx.soon("start")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.subscribe_all()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.live -= 1
        if cx.state.live == 0:
            cx.complete()


@overload
def merge(*sources: Observable[A], max_concurrent: None = None) -> Callable[[Observable[A]], Query[A]]: ...
@overload
def merge(*, max_concurrent: int) -> Callable[[Observable[Observable[A]]], Query[A]]: ...
def merge(*sources: Observable[Any], max_concurrent: int | None = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Emit what any of the sequences emits.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1, 2).merge(rx.of(3)).subscribe(print)
    1
    2
    3
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(merge(ys)), "-1---2|", "--a-b---c|")
    -1---2|
    --a-b---c|
    -1a-b2--c|

    With *max_concurrent* it is another operator, as in RxPY: it merges a sequence of sequences, that many at a time.

    *State*: how many sequences are live. The others wait in a queue bounded by `Limits.queue_items_max`.
    """
    if max_concurrent is not None:
        from reliable_rx.operators.inner import MergeAll

        return MergeAll(max_concurrent)
    return lambda source: apply(Merge(1 + len(sources)), source, *sources)


@frozen
class Concat(Stage, name="concat"):
    passes_on = True
    scheduler_default = "current_thread"
    keeps_inner = True
    adds_others = True
    inputs: int

    @dataclass(slots=True)
    class State:
        index: int = -1

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.state.index += 1
        if cx.state.index == self.inputs:
            cx.complete()
        else:
            cx.subscribe(cx.state.index)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.soon("next")


def concat(*sources: Observable[A]) -> Callable[[Observable[A]], Query[A]]:
    """Emit the sequences one after the other.

    >>> import reliable_rx as rx
    >>> rx.of(1).concat(rx.of(2)).to_list().run()
    [1, 2]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: xs.pipe(concat(ys)), "-1-2|", "-a-b-c-d|")
    -1-2|
    -a-b-c-d|
    -1-2-c-d|

    *State*: which one is being read.
    """
    return lambda source: apply(Concat(1 + len(sources)), source, *sources)


@frozen
class StartWith(Stage, name="start_with"):
    passes_on = True
    scheduler_default = "current_thread"
    keeps_inner = True
    adds_others = True
    values: tuple[Any, ...]

    def on_start(self, cx: Context) -> None:
        cx.soon("start")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        # four steps: RxPY's start_with is concat(from_iterable(values), source), and others may act between them
        if tag == "start":
            cx.soon("values")
        elif tag == "values":
            cx.emit_all(self.values)
            cx.soon("source")
        elif tag == "source":
            cx.subscribe(0)
        else:
            cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.soon("end")


def start_with(*args: A) -> Callable[[Observable[A]], Query[A]]:
    """Emit *args*, then the sequence.

    >>> import reliable_rx as rx
    >>> rx.of(2).start_with(0, 1).to_list().run()
    [0, 1, 2]
    >>> from reliable_rx.testing import diagram
    >>> diagram(start_with(7), "-1-2-|")
    -1-2-|
    71-2-|

    *State*: none.
    """
    return StartWith(args)


def check_queue(queue: Any, cx: Any) -> None:
    """*Raises* `LimitExceeded` when more elements wait than the query allows."""
    if len(queue) > (most := cx.queue_items_max):
        raise LimitExceeded(
            f"{cx.node.path} holds more than {most:,} waiting elements: raise Limits(queue_items_max=...) or bound it",
            path=cx.node.path,
            limit="queue_items_max",
            most=most,
        )
