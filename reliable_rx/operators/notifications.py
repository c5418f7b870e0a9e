"""Notifications as elements: the end of a sequence, with its place in it, becomes a value like any other.

They are RxPY's own `Notification` objects, which pickle and compare by what they hold, so they may sit in any state and
travel through streams, where each has an id of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from reactivex import Notification, Observable
from reactivex.notification import OnCompleted, OnError, OnNext

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query, as_query

A = TypeVar("A", bound=Any)


@frozen
class Materialize(Stage, name="materialize"):
    keeps_pace = True

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.emit(OnNext(value))

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        cx.emit_all([OnNext(value) for value in values])

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        cx.emit(OnError(error))
        cx.complete()

    def on_completed(self, cx: Context, port: int) -> None:
        cx.emit(OnCompleted())
        cx.complete()


def materialize() -> Callable[[Observable[A]], Query[Notification[A]]]:
    """Emit every notification, the end or the error too, as a `Notification` object; then complete.

    >>> from reliable_rx.testing import diagram
    >>> diagram(materialize(), "-a-#")
    -a---------#
    -OnNext(a)-(OnError(error) |)

    *State*: none.
    """
    return Materialize()


@frozen
class Dematerialize(Stage, name="dematerialize"):
    raises = True

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if value.kind == "N":
            cx.emit(value.value)
        elif value.kind == "E":
            cx.fail(value.exception)
        else:
            cx.complete()

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        passed: list[Any] = []
        try:
            for value in values:
                if value.kind != "N":
                    break
                passed.append(value.value)
        finally:
            cx.emit_all(passed)
        if len(passed) < len(values):
            self.on_next(cx, port, values[len(passed)])


def dematerialize() -> Callable[[Observable[Notification[A]]], Query[A]]:
    """Turn `Notification` objects back into what they stand for: the opposite of `materialize`.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(rx.operators.materialize(), dematerialize()), "-a-#")
    -a-#
    -a-#

    *State*: none. An element that is no notification fails the query (RxPY raises it at whoever pushed the element).
    """
    return Dematerialize()


def as_observable() -> Callable[[Observable[A]], Query[A]]:
    """Return the same sequence as another object, which hides what it was.

    >>> from reliable_rx.testing import diagram
    >>> diagram(as_observable(), "-1-2-|")
    -1-2-|
    -1-2-|

    *State*: none; nothing is added to the query.
    """
    return lambda source: Query(as_query(source).node)
