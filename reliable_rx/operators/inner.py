"""Operators over inner sequences: those that own them (groups, windows) and those that read them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from reactivex import Observable
from reactivex.internal import ArgumentOutOfRangeException
from reactivex.observable.groupedobservable import GroupedObservable

from reliable_rx.operator import Context, Stage
from reliable_rx.operators.combine import check_queue
from reliable_rx.query import as_query

A = TypeVar("A")
B = TypeVar("B")
K = TypeVar("K")


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


@dataclass(frozen=True, eq=False)
class GroupBy(Stage, name="group_by"):
    yields_inner = True
    inner_limit = "groups_max"
    key_mapper: Callable[[Any], Hashable]
    element_mapper: Callable[[Any], Any] | None = None

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        groups, key_mapper, element_mapper = cx.groups(), self.key_mapper, self.element_mapper
        for value in values:
            key = key_mapper(value)
            group = groups.get(key)
            if group is None:
                cx.emit(cx.begin(key))
                group = groups.get(key)
                if group is None:  # what came downstream has ended us
                    return
            group.feed((value if element_mapper is None else element_mapper(value),))


def group_by(
    key_mapper: Callable[[A], K],
    element_mapper: Callable[[A], B] | None = None,
    subject_mapper: Callable[[], Any] | None = None,
) -> Callable[[Observable[A]], Observable[GroupedObservable[K, Any]]]:
    """Split the sequence into one inner sequence per key.

    >>> import reliable_rx as rx
    >>> rx.range(5).group_by(lambda x: x % 2).flat_map(lambda g: g.sum().map(lambda n: (g.key, n))).to_list().run()
    [(0, 6), (1, 4)]

    *State*: one row per key, which also holds the state of what reads the group; bounded by `Limits.groups_max`.
    *Raises* `TypeError` for a *subject_mapper*: a group is fed by the host, use operators behind it instead.
    """
    if subject_mapper is not None:
        raise TypeError("group_by takes no subject_mapper here: put start_with, take or replay behind the group")
    return GroupBy(key_mapper, element_mapper)


@dataclass(frozen=True, eq=False)
class WindowWithCount(Stage, name="window_with_count"):
    yields_inner = True
    inner_limit = "windows_max"
    count: int
    skip: int

    @dataclass(slots=True)
    class State:
        index: int = 0
        next_key: int = 0

    def on_start(self, cx: Context) -> None:
        open_window(cx)
        cx.subscribe_all()

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        for group in tuple(cx.groups().values()):
            group.feed((value,))
        filled = state.index - self.count + 1
        if filled >= 0 and filled % self.skip == 0:
            cx.end(next(iter(cx.groups())))
        state.index += 1
        if state.index % self.skip == 0:
            open_window(cx)


def open_window(cx: Context) -> None:
    """Begin the next window and emit it."""
    key = cx.state.next_key
    cx.state.next_key = key + 1
    cx.emit(cx.begin(key))


def window_with_count(count: int, skip: int | None = None) -> Callable[[Observable[A]], Observable[Observable[A]]]:
    """Split the sequence into windows of *count* elements, a new one beginning every *skip* elements.

    >>> import reliable_rx as rx
    >>> rx.range(5).window_with_count(2).flat_map(lambda w: w.sum()).to_list().run()
    [1, 5, 4]

    *State*: two counters, and one row per open window, bounded by `Limits.windows_max`.
    """
    if count <= 0 or (skip is not None and skip <= 0):
        raise ArgumentOutOfRangeException()
    return WindowWithCount(count, count if skip is None else skip)
