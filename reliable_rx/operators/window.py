"""Operators that split a sequence into windows, inner sequences that they own; those that go by time are in `time`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex import Observable
from reactivex.internal import ArgumentOutOfRangeException

from reliable_rx.operator import Context, Stage

A = TypeVar("A")


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
