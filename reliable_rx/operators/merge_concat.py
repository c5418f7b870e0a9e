"""Operators that pass on what several sequences emit, at once or one after the other.

Those that make tuples of it are in `tuples`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reactivex import Observable

from reliable_rx.errors import LimitExceeded
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query, apply

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

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
        if tag == "start":
            cx.subscribe_all()
        else:
            cx.complete()

    def adopt(self, state: State, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.live = sum(map(cx.runs, range(self.inputs)))
        if not cx.state.live:
            cx.soon("over")

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
        from reliable_rx.operators.flatten import MergeAll

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

    def adopt(self, state: State, before: Before) -> bool:
        state.index = place_of(state.index, before)
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        read_alone(cx, cx.state.index, self.inputs)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.soon("next")


def place_of(index: int, before: Before) -> int:
    """Return where the input is now that was read at *index*; if it is no more, what it was read behind."""
    passed = [port for port, old in enumerate(before.ports) if old is not None and old <= index]
    return max(passed, default=-1)


def read_alone(cx: Context, index: int, inputs: int) -> None:
    """Leave all inputs but the one at *index*; if that does not run, go on to the next."""
    for port in range(inputs):
        if port != index:
            cx.unsubscribe(port)
    if index < 0 or not cx.runs(index):
        cx.soon("next")


def begins_alone(cx: Context, before: Before, *, ended: bool) -> None:
    """Leave all inputs that are new or begin again, but for the first if that had *ended*: *cx* begins them in time."""
    for port, old in enumerate(before.ports):
        if old is None and not (ended and port == 0):
            cx.unsubscribe(port)


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
    free = ("values",)
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
