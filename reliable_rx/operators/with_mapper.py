"""Time operators whose durations are sequences: what a selector returns for an element says when its time is up."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.merge_concat import begins_alone
from reliable_rx.query.query import Query, apply, as_query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)


@frozen
class DelayWithMapper(Stage, name="delay_with_mapper"):
    free = ("waits",)
    roles = True
    late = (0, 1)
    """Port 1, if it is there, says when to begin."""

    mapper: Callable[[Any], Any]
    leaves_first = True
    waits: bool

    @dataclass(slots=True)
    class State:
        next_key: int = 0
        at_end: bool = False
        delayed: dict[int, Any] = field(default_factory=dict)

    def on_adopted(self, cx: Context, before: Before) -> None:
        begins_alone(cx, before, ended=cx.state.at_end)
        cx.state.at_end = cx.state.at_end and not cx.runs(0)

    def on_start(self, cx: Context) -> None:
        cx.subscribe(1 if self.waits else 0)

    def inner(self, outer: Any) -> Any:
        return self.mapper(outer)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if port == 1:
            self._begin(cx)
            return
        inner = cx.project(value)
        state = cx.state
        key = state.next_key
        state.next_key = key + 1
        state.delayed[key] = value
        cx.open(key, value, inner)

    def on_unopened(self, cx: Context, key: Hashable) -> None:
        cx.state.delayed.pop(key, None)

    @staticmethod
    def _begin(cx: Context) -> None:
        if not cx.runs(0):  # it does where an edit has put us behind what runs
            cx.subscribe(0)
        cx.unsubscribe(1)

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 1:
            self._begin(cx)
        else:
            cx.state.at_end = True
            self._complete_if_idle(cx)

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any]) -> None:
        cx.close(key)
        self.on_inner_completed(cx, key)

    def on_inner_completed(self, cx: Context, key: Any) -> None:
        state = cx.state
        if key in state.delayed:
            cx.emit(state.delayed[key])
            state.delayed.pop(key, None)
            self._complete_if_idle(cx)

    def on_inner_refused(self, cx: Context, key: Hashable) -> None:
        self.on_unopened(cx, key)
        self._complete_if_idle(cx)

    @staticmethod
    def _complete_if_idle(cx: Context) -> None:
        if cx.state.at_end and not cx.state.delayed:
            cx.complete()


def delay_with_mapper(
    subscription_delay: Observable[Any] | Callable[[Any], Observable[Any]] | None = None,
    delay_duration_mapper: Callable[[A], Observable[Any]] | None = None,
) -> Callable[[Observable[A]], Query[A]]:
    """Emit each element when the sequence that *delay_duration_mapper* makes of it emits or completes.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(delay_with_mapper(lambda x: rx.timer(x)), "-4-1---|")
    -4-1---|
    ----14-|

    With an observable *subscription_delay* the sequence is subscribed to when that emits or completes; a function in
    its place is the mapper. The mapper is called again on recovery and must be pure.

    *State*: the elements on their way, and one row for each, bounded by `Limits.inner_max`.
    """
    if isinstance(subscription_delay, Iterable) and not callable(subscription_delay):
        subscription_delay = as_query(subscription_delay)
    if isinstance(subscription_delay, Observable):
        op = DelayWithMapper(delay_duration_mapper, True)  # type: ignore[arg-type]
        return lambda source: apply(op, source, subscription_delay)
    return DelayWithMapper(subscription_delay, False)  # type: ignore[arg-type]


@frozen
class ThrottleWithMapper(Stage, name="throttle_with_mapper"):
    throttle_duration_mapper: Callable[[Any], Any]

    @dataclass(slots=True)
    class State:
        latest: int = 0
        value: Any = NotSet

    def inner(self, outer: Any) -> Any:
        return self.throttle_duration_mapper(outer)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        inner = cx.project(value)
        state = cx.state
        cx.close(state.latest)
        state.latest += 1
        state.value = value
        cx.open(state.latest, value, inner)

    def on_unopened(self, cx: Context, key: Hashable) -> None:
        cx.state.value = NotSet

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any]) -> None:
        self._flush(cx)
        cx.close(key)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        self._flush(cx)

    def on_inner_refused(self, cx: Context, key: Hashable) -> None:
        if key == cx.state.latest:
            cx.state.value = NotSet

    def on_completed(self, cx: Context, port: int) -> None:
        cx.close(cx.state.latest)
        self._flush(cx)
        cx.complete()

    @staticmethod
    def _flush(cx: Context) -> None:
        value, cx.state.value = cx.state.value, NotSet
        if value is not NotSet:
            cx.emit(value)


def throttle_with_mapper(
    throttle_duration_mapper: Callable[[Any], Observable[Any]],
) -> Callable[[Observable[A]], Query[A]]:
    """Emit an element once the sequence that the mapper makes of it emits or completes, unless another comes first.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(throttle_with_mapper(lambda x: rx.timer(2)), "-1-23---4|")
    -1-23---4|
    ------3--(4 |)

    It is `debounce` with a duration for each element. The mapper is called again on recovery and must be pure.

    *State*: the element that waits, and the row of one inner sequence.
    """
    return ThrottleWithMapper(throttle_duration_mapper)


@frozen
class TimeoutWithMapper(Stage, name="timeout_with_mapper"):
    roles = True
    late = (1, 2)
    """Port 1 is the first timeout and port 2 what follows when time is up; later timeouts are inner sequences."""

    catches = False
    leaves_first = True
    timeout_duration_mapper: Callable[[Any], Any] | None

    @dataclass(slots=True)
    class State:
        count: int = 0
        switched: bool = False

    def on_adopted(self, cx: Context, before: Before) -> None:
        begins_alone(cx, before, ended=False)

    def on_start(self, cx: Context) -> None:
        cx.subscribe(1)
        if not cx.state.switched:
            cx.subscribe(0)

    def inner(self, outer: Any) -> Any:
        return self.timeout_duration_mapper(outer)  # type: ignore[misc]

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if port == 0:
            if not cx.state.switched:  # time may be up in the middle of a list
                self._pass(cx, value)
        elif port == 1:
            self._time_is_up(cx, 0)
        else:
            cx.emit(value)

    def _pass(self, cx: Context, value: Any) -> None:
        state = cx.state
        state.count += 1
        count = state.count
        cx.emit(value)
        if not cx.goes_on(state):
            return
        inner = None if self.timeout_duration_mapper is None else cx.project(value)
        cx.unsubscribe(1)
        cx.close(count - 1)
        if self.timeout_duration_mapper is not None:
            cx.open(count, value, inner)

    def _time_is_up(self, cx: Context, count: int) -> None:
        state = cx.state
        if state.switched or state.count != count:
            return
        state.switched = True
        cx.subscribe(2)
        cx.unsubscribe(0)
        cx.unsubscribe(1)
        cx.close(count)

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 1:
            self._time_is_up(cx, 0)
        else:
            cx.complete()

    def on_error(self, cx: Context, port: int, error: Exception) -> None:
        if port != 1 or not (cx.state.switched or cx.state.count):
            cx.fail(error)

    def on_inner_next(self, cx: Context, key: Any, values: Sequence[Any]) -> None:
        self._time_is_up(cx, key)

    def on_inner_completed(self, cx: Context, key: Any) -> None:
        self._time_is_up(cx, key)

    def on_inner_refused(self, cx: Context, key: Hashable) -> None:
        """Its element has no limit."""

    def on_inner_error(self, cx: Context, key: Hashable, error: Exception) -> None:
        if not cx.state.switched and cx.state.count == key:
            cx.fail(error)


def timeout_with_mapper(
    first_timeout: Observable[Any] | None = None,
    timeout_duration_mapper: Callable[[A], Observable[Any]] | None = None,
    other: Observable[A] | None = None,
) -> Callable[[Observable[A]], Query[A]]:
    """Switch to *other* (by default: fail) when the sequence made for the latest element emits or completes.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(timeout_with_mapper(rx.timer(3), lambda x: rx.timer(x), rx.of("late")), "-1--3-|")
    -1---------3-|
    -1(late |)

    Until the first element *first_timeout* counts; without it, as without a mapper, time is never up. The mapper is
    called again on recovery and must be pure.

    *State*: a counter and the row of one inner sequence.
    """
    from reliable_rx.creation import never, throw

    first = never() if first_timeout is None else first_timeout
    fallback = throw(Exception("Timeout")) if other is None else other
    return lambda source: apply(TimeoutWithMapper(timeout_duration_mapper), source, first, fallback)
