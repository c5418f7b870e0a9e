"""Operators that collect elements into lists by counting; those that go by time are in `time`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from reactivex import Observable
from reactivex.internal import ArgumentOutOfRangeException

from reliable_rx.operator import Linear

A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class BufferWithCount(Linear, name="buffer_with_count"):
    grows: ClassVar = {"open": "windows_max"}
    count: int
    skip: int

    @dataclass(slots=True)
    class State:
        index: int = 0
        open: list[list[Any]] = field(default_factory=list)

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        if state.index % self.skip == 0:
            state.open.append([])
        for buffer in state.open:
            buffer.append(value)
        state.index += 1
        if state.open and len(state.open[0]) == self.count:
            out.append(state.open.pop(0))

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.extend(state.open)
        state.open = []


def buffer_with_count(count: int, skip: int | None = None) -> Callable[[Observable[A]], Observable[list[A]]]:
    """Collect *count* elements into a list, a new list beginning every *skip* elements.

    >>> import reliable_rx as rx
    >>> rx.range(5).buffer_with_count(2).to_list().run()
    [[0, 1], [2, 3], [4]]

    *State*: the open lists, at most ``ceil(count / skip)`` of them, bounded by `Limits.windows_max`.
    """
    if count <= 0 or (skip is not None and skip <= 0):
        raise ArgumentOutOfRangeException()
    return BufferWithCount(count, count if skip is None else skip)
