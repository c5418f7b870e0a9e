"""Sequences of given values, and the three that have none: empty, never, throw."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex.abc import SchedulerBase

from reliable_rx.creation.pacing import PORTION, goes_on_later
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.repeat import Repeat
from reliable_rx.query.query import Node, Query, apply

A = TypeVar("A")
LISTS = (list, tuple, range)


@frozen
class FromIterable(Stage, name="from_iterable"):
    free = ("iterable",)
    scheduler_default = "current_thread"
    iterable: Iterable[Any]
    scheduler: SchedulerBase | None = None

    def refusal(self) -> str | None:
        if not isinstance(self.iterable, Sequence):
            return "an iterator cannot be repositioned after a crash; give a list, or make it a source"
        return super().refusal()

    def at_once(self) -> Sequence[Any] | None:
        known = type(self.iterable) is tuple or isinstance(self.iterable, LISTS)
        return self.iterable if known and self.scheduler is None else None  # type: ignore[return-value]

    def on_start(self, cx: Context) -> None:
        cx.soon("emit")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        if isinstance(self.iterable, LISTS):
            cx.emit_all(self.iterable)
        else:
            for value in self.iterable:
                cx.emit(value)
                if not cx.active or cx.due(tag) is not None:
                    return
        if cx.due(tag) is None:  # or what this has emitted made it begin anew
            cx.complete()


@frozen
class FromLong(FromIterable, name="from_long"):
    """A long sequence: hosted, it comes in portions."""

    iterable: Sequence[Any]

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        while state.index < len(self.iterable):
            portion = self.iterable[state.index : state.index + PORTION]
            state.index += PORTION
            cx.emit_all(portion)
            if not cx.goes_on(state) or (state.index < len(self.iterable) and goes_on_later(cx, tag)):
                return
        cx.complete()


def from_iterable(iterable: Iterable[A], scheduler: SchedulerBase | None = None) -> Query[A]:
    """Emit the elements of *iterable*, all in one go.

    >>> from_iterable("ab").to_list().run()
    ['a', 'b']
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: from_iterable([1, 2]))
    (1 2 |)

    Hosted, it must be a sequence: an iterator cannot be repositioned. The next turn goes on after every 10,000.

    *State*: none; how many were emitted if it is that long.
    """
    if isinstance(iterable, (list, tuple, range)) and len(iterable) > PORTION:
        return apply(FromLong(iterable, scheduler))
    return apply(FromIterable(iterable, scheduler))


from_ = from_list = from_iterable


def of(*args: A) -> Query[A]:
    """Emit *args*, all in one go.

    >>> of(1, 2, 3).run()
    3
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: of(1, 2))
    (1 2 |)

    *State*: none.
    """
    return apply(FromIterable(args)) if len(args) <= PORTION else from_iterable(args)


@frozen
class ReturnValue(Stage, name="return_value"):
    free = ("value",)
    scheduler_default = "current_thread"
    value: Any
    scheduler: SchedulerBase | None = None

    def at_once(self) -> Sequence[Any] | None:
        return (self.value,) if self.scheduler is None else None

    def on_start(self, cx: Context) -> None:
        cx.soon("emit")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.emit(self.value)
        if cx.due(tag) is None:  # as above
            cx.complete()


def return_value(value: A, scheduler: SchedulerBase | None = None) -> Query[A]:
    """Emit *value* and complete.

    >>> return_value(1).run()
    1
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: return_value(1))
    (1 |)

    *State*: none.
    """
    return apply(ReturnValue(value, scheduler))


just = return_value


def repeat_value(value: A, repeat_count: int | None = None) -> Query[A]:
    """Emit *value* *repeat_count* times, or without end for None and -1.

    >>> repeat_value("a", 3).to_list().run()
    ['a', 'a', 'a']
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: repeat_value(1, 3))
    (1 1 1 |)

    *State*: how many were emitted. Without end, it is stopped at `Limits.actions_max` unless something ends it.
    """
    return apply(Repeat(None if repeat_count == -1 else repeat_count), return_value(value))


@frozen
class Empty(Stage, name="empty"):
    scheduler_default = "immediate"
    scheduler: SchedulerBase | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("complete")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.complete()


def empty(scheduler: SchedulerBase | None = None) -> Query[Any]:
    """Complete without an element.

    >>> empty().is_empty().run()
    True
    >>> from reliable_rx.testing import diagram
    >>> diagram(empty)
    |

    *State*: none.
    """
    return Query(EMPTY if scheduler is None else Node(Empty(scheduler)))


@frozen
class Never(Stage, name="never"):
    def is_endless(self) -> bool:
        return True


EMPTY, NEVER = Node(Empty()), Node(Never())  # one plan each, however often a selector returns them


def never() -> Query[Any]:
    """Say nothing, ever.

    >>> never().take_until(of(1)).is_empty().run()
    True
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: never().merge(xs), "-1-2-|")
    -1-2-|
    -1-2--

    *State*: none.
    """
    return Query(NEVER)


@frozen
class Throw(Stage, name="throw"):
    scheduler_default = "immediate"
    exception: Exception

    def on_start(self, cx: Context) -> None:
        cx.soon("fail")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.fail(self.exception)


def throw(exception: str | Exception, scheduler: SchedulerBase | None = None) -> Query[Any]:
    """Fail at once with *exception*, which may be the text of one; as in RxPY, *scheduler* changes nothing.

    >>> throw("over").catch(of("mended")).run()
    'mended'
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.merge(throw("over")), "-1-2-|")
    -1-2-|
    #

    *State*: none.
    """
    return apply(Throw(exception if isinstance(exception, Exception) else Exception(exception)))
