"""Operators that go on after an error."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex import Observable

from reliable_rx.operator import Context, Stage
from reliable_rx.query import Query, apply, as_query

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class CatchHandler(Stage, name="catch"):
    passes_on = True
    resubscribes = True
    handler: Callable[[Exception, Observable[Any]], Any]
    _source: Query[Any]

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        cx.open("handler", error)

    def inner(self, outer: Exception) -> Observable[Any]:
        return as_query(self.handler(outer, self._source))

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        cx.complete()


@dataclass(frozen=True, eq=False)
class CatchNext(Stage, name="catch_next"):
    """The sequences one after the other until one completes."""

    passes_on = True
    scheduler_default = "current_thread"
    inputs: int

    @dataclass(slots=True)
    class State:
        index: int = -1
        error: Exception | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.state.index += 1
        if cx.state.index < self.inputs:
            cx.subscribe(cx.state.index)
        elif cx.state.error is None:
            cx.complete()
        else:
            cx.fail(cx.state.error)

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        cx.state.error = error
        cx.soon("next")


def catch(
    handler: Observable[A] | Callable[[Exception, Observable[A]], Observable[A]],
) -> Callable[[Observable[A]], Observable[A]]:
    """Continue with another sequence after an error: *handler*, or what ``handler(error, source)`` returns.

    >>> import reliable_rx as rx
    >>> rx.throw("over").catch(rx.of(1)).run()
    1

    *State*: the error while the handler's sequence runs, which is called again on recovery and must be pure.
    """
    if isinstance(handler, Observable):
        return lambda source: apply(CatchNext(2), source, handler)

    def applied(source: Observable[Any]) -> Query[Any]:
        query = as_query(source)
        return apply(CatchHandler(handler, query), query)

    return applied


@dataclass(frozen=True, eq=False)
class Retry(Stage, name="retry"):
    passes_on = True
    scheduler_default = "current_thread"
    resubscribes = True
    retry_count: int | None

    @dataclass(slots=True)
    class State:
        attempts: int = 0
        error: Exception | None = None

    def on_start(self, cx: Context) -> None:
        cx.soon("next")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        state = cx.state
        if self.retry_count is None or state.attempts < self.retry_count:
            state.attempts += 1
            cx.subscribe(0)
        elif state.error is None:
            cx.complete()
        else:
            cx.fail(state.error)

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        cx.state.error = error
        cx.soon("next")


def retry(retry_count: int | None = None) -> Callable[[Observable[A]], Observable[A]]:
    """Subscribe again after an error, with fresh state upstream, *retry_count* times in all (by default without end).

    >>> import reliable_rx as rx
    >>> rx.throw("over").retry(2).catch(lambda error, source: rx.of(str(error))).run()
    'over'

    *State*: the attempts so far and the last error.
    """
    return Retry(retry_count)
