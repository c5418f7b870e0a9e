"""Sequences of given values, and the three that have none: empty, never, throw."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex.abc import SchedulerBase

from reliable_rx.operator import Context, Stage
from reliable_rx.query import Query, apply

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class FromIterable(Stage, name="from_iterable"):
    scheduler_default = "current_thread"
    iterable: Iterable[Any]
    scheduler: SchedulerBase | None = None

    def refusal(self) -> str | None:
        if not isinstance(self.iterable, Sequence):
            return "an iterator cannot be repositioned after a crash; give a list, or make it a source"
        return super().refusal()

    def on_start(self, cx: Context) -> None:
        cx.soon("emit")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        if isinstance(self.iterable, (list, tuple, range)):
            cx.emit_all(self.iterable)
        else:
            for value in self.iterable:
                cx.emit(value)
                if not cx.active:
                    return
        cx.complete()


def from_iterable(iterable: Iterable[A], scheduler: SchedulerBase | None = None) -> Query[A]:
    """Emit the elements of *iterable*, all in one go.

    *State*: none. Hosted, it must be a sequence: an iterator cannot be repositioned.
    """
    return apply(FromIterable(iterable, scheduler))


from_ = from_list = from_iterable


def of(*args: A) -> Query[A]:
    """Emit *args*.

    >>> of(1, 2, 3).run()
    3
    """
    return from_iterable(args)


@dataclass(frozen=True, eq=False)
class Empty(Stage, name="empty"):
    scheduler_default = "immediate"
    scheduler: SchedulerBase | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("complete")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.complete()


def empty(scheduler: SchedulerBase | None = None) -> Query[Any]:
    """Complete without an element."""
    return apply(Empty(scheduler))


@dataclass(frozen=True, eq=False)
class Never(Stage, name="never"):
    pass


def never() -> Query[Any]:
    """Say nothing, ever."""
    return apply(Never())


@dataclass(frozen=True, eq=False)
class Throw(Stage, name="throw"):
    exception: Exception

    def on_start(self, cx: Context) -> None:
        cx.fail(self.exception)


def throw(exception: str | Exception, scheduler: SchedulerBase | None = None) -> Query[Any]:
    """Fail at once with *exception*; as in RxPY, *scheduler* changes nothing."""
    return apply(Throw(exception if isinstance(exception, Exception) else Exception(exception)))


@dataclass(frozen=True, eq=False)
class ReturnValue(Stage, name="return_value"):
    scheduler_default = "current_thread"
    value: Any
    scheduler: SchedulerBase | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("emit")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.emit(self.value)
        cx.complete()


def return_value(value: A, scheduler: SchedulerBase | None = None) -> Query[A]:
    """Emit *value* and complete."""
    return apply(ReturnValue(value, scheduler))


just = return_value
