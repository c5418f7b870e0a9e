"""Operators that read inner sequences; those that own them are in `group` and `window`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from reactivex import Observable

from reliable_rx.operator import Context, Stage
from reliable_rx.operators.combine import check_queue
from reliable_rx.query import as_query

A = TypeVar("A")
B = TypeVar("B")


class Reads(Stage):
    """What merges inner sequences: each is subscribed to under a running number."""

    @dataclass(slots=True)
    class State:
        next_key: int = 0
        stopped: bool = False

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        key = cx.state.next_key
        cx.state.next_key = key + 1
        cx.open(key, value)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.stopped = True
        self._complete_if_idle(cx)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        self._complete_if_idle(cx)

    def _complete_if_idle(self, cx: Context) -> None:
        if cx.state.stopped and not cx.opened():
            cx.complete()


@dataclass(frozen=True, eq=False)
class FlatMap(Reads, name="flat_map"):
    mapper: Any

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(self.mapper(outer) if callable(self.mapper) else self.mapper)


@overload
def flat_map(mapper: Callable[[A], Observable[B]]) -> Callable[[Observable[A]], Observable[B]]: ...
@overload
def flat_map(mapper: Callable[[A], Iterable[B]]) -> Callable[[Observable[A]], Observable[B]]: ...
@overload
def flat_map(mapper: Observable[B] | Iterable[B]) -> Callable[[Observable[Any]], Observable[B]]: ...
@overload
def flat_map(mapper: None = None) -> Callable[[Observable[Observable[A]]], Observable[A]]: ...
def flat_map(mapper: Any = None) -> Callable[[Observable[Any]], Observable[Any]]:
    """Project each element to a sequence (or iterable) and merge these.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1, 2).flat_map(lambda x: [x, x * 10]).subscribe(print)
    1
    10
    2
    20

    Behind `group_by` and the windows, *mapper* is called once and its sub-plan shared by all groups; elsewhere it is
    called per element, and again on recovery, so it must be pure. Without *mapper* the elements are themselves the
    sequences (RxPY has that default but fails on it).

    *State*: a counter, and one row per live inner sequence, bounded by `Limits.inner_max`.
    """
    return FlatMap(mapper if mapper is not None else as_query)


@dataclass(frozen=True, eq=False)
class MergeAll(Reads, name="merge_all"):
    max_concurrent: int | None = None

    @dataclass(slots=True)
    class State(Reads.State):
        waiting: deque[Any] = field(default_factory=deque)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if self.max_concurrent is None or cx.opened() < self.max_concurrent:
            super().on_next(cx, port, value)
        else:
            cx.state.waiting.append(value)
            check_queue(cx.state.waiting, cx)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        if cx.state.waiting:
            super().on_next(cx, 0, cx.state.waiting.popleft())
        else:
            self._complete_if_idle(cx)

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(outer)


def merge_all() -> Callable[[Observable[Observable[A]]], Observable[A]]:
    """Merge a sequence of sequences.

    >>> import reliable_rx as rx
    >>> _ = rx.of(rx.of(1), rx.of(2)).merge_all().subscribe(print)
    1
    2

    *State*: a counter, and one row per live inner sequence, bounded by `Limits.inner_max`.
    """
    return MergeAll()


@dataclass(frozen=True, eq=False)
class SwitchLatest(Stage, name="switch_latest"):
    @dataclass(slots=True)
    class State:
        latest: int = 0
        has_latest: bool = False
        stopped: bool = False

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        cx.close(cx.state.latest)
        cx.state.latest += 1
        cx.state.has_latest = True
        cx.open(cx.state.latest, value)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.stopped = True
        if not cx.state.has_latest:
            cx.complete()

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        cx.state.has_latest = False
        if cx.state.stopped:
            cx.complete()

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(outer)


def switch_latest() -> Callable[[Observable[Observable[A]]], Observable[A]]:
    """Emit what the most recent inner sequence emits.

    >>> import reliable_rx as rx
    >>> rx.of(rx.never(), rx.of(2)).switch_latest().to_list().run()
    [2]

    *State*: a counter and the row of one inner sequence.
    """
    return SwitchLatest()
