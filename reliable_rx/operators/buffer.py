"""Operators that collect elements into lists: by counting, by boundaries and by pauses; others by time are in `time`.

RxPY writes them as windows whose elements `to_list` collects. They are lists in the state here: a buffer costs no inner
subscription, and a whole list of elements is taken at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.arguments import check_boundaries, check_count
from reliable_rx.operators.contract.operator import Context, Linear, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.sessions import check_gap
from reliable_rx.operators.time_windows import check_list
from reliable_rx.operators.window import Closed
from reliable_rx.query.query import Query, apply, as_query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")


@frozen
class BufferWithCount(Linear, name="buffer_with_count"):
    keeps_pace = True
    grows: ClassVar = {"open": "windows_max"}
    count: int
    skip: int

    @dataclass(slots=True)
    class State:
        index: int = 0
        open: list[list[Any]] = field(default_factory=list)

    def adopt(self, state: State, before: Before) -> bool:
        since = state.index % before.settings["skip"]
        state.index = since if since < self.skip else 0
        return True

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        self._close_overlong(state, out)
        if state.index % self.skip == 0:
            state.open.append([])
        for buffer in state.open:
            buffer.append(value)
        state.index += 1
        if state.open and len(state.open[0]) == self.count:
            out.append(state.open.pop(0))

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        self._close_overlong(state, out)
        index, at, end = state.index, 0, len(values)
        while at < end:
            if index % self.skip == 0:
                state.open.append([])
            until = min(end, at + self.skip - index % self.skip)  # where the next buffer begins
            if state.open:
                until = min(until, at + self.count - len(state.open[0]))
            for buffer in state.open:
                buffer.extend(values[at:until])
            index += until - at
            at = until
            if state.open and len(state.open[0]) == self.count:
                out.append(state.open.pop(0))
        state.index = index

    def _close_overlong(self, state: State, out: list[Any]) -> None:
        while state.open and len(state.open[0]) >= self.count:  # it was begun under a larger count
            out.append(state.open.pop(0))

    def on_completed(self, state: State, out: list[Any]) -> None:
        out.extend(state.open)
        state.open = []


def buffer_with_count(count: int, skip: int | None = None) -> Callable[[Observable[A]], Query[list[A]]]:
    """Collect *count* elements into a list, a new list beginning every *skip* elements.

    >>> import reliable_rx as rx
    >>> rx.range(5).buffer_with_count(2).to_list().run()
    [[0, 1], [2, 3], [4]]
    >>> from reliable_rx.testing import diagram
    >>> diagram(buffer_with_count(2, 1), "-1-2-3-|")
    -1-2------3------|
    ---[1, 2]-[2, 3]-([3] |)

    *State*: the open lists, at most ``ceil(count / skip)`` of them, bounded by `Limits.windows_max`.
    """
    check_count("count", count, 1)
    if skip is not None:
        check_count("skip", skip, 1)
    return BufferWithCount(count, count if skip is None else skip)


class Collects(Stage):
    """What fills one list at a time."""

    @dataclass(slots=True)
    class State:
        items: list[Any] = field(default_factory=list)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        cx.state.items.extend(values)
        check_list(cx.state.items, cx)

    def on_completed(self, cx: Context, port: int) -> None:
        self.flush(cx)
        cx.complete()

    def flush(self, cx: Context) -> None:
        """Emit the list and begin the next."""
        items, cx.state.items = cx.state.items, []
        cx.emit(items)


@frozen
class Buffer(Collects, name="buffer"):
    roles = True
    ends_with_first = True

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if port == 0:
            super().on_batch(cx, port, values)
            return
        for _ in values:
            self.flush(cx)


def buffer(boundaries: Observable[Any]) -> Callable[[Observable[A]], Query[list[A]]]:
    """Collect the elements between two elements of *boundaries* into a list.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s, t: s.pipe(buffer(t)), "-1-2-3-|", "----x---|")
    -1-2------3-|
    ----x--------------|
    ----[1, 2]--([3] |)

    *State*: one list, bounded by `Limits.list_items_max`.
    """
    check_boundaries("buffer", boundaries)
    return lambda source: apply(Buffer(), source, boundaries)


@frozen
class BufferWhen(Closed, Collects, name="buffer_when"):
    closing_mapper: Callable[[], Observable[Any]]

    @dataclass(slots=True)
    class State(Collects.State):
        closings: int = 0
        unclosed: int = 0

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(self.closing_mapper())

    def on_start(self, cx: Context) -> None:
        cx.subscribe_all()
        self.begin_first(cx)

    def latest(self, cx: Context) -> tuple[int, Any]:
        return cx.state.closings, None

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        state = cx.state
        if not state.unclosed or self.is_closable(cx):
            state.items.extend(values)  # what `Collects` does, without a call for each element
            check_list(state.items, cx)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        state = cx.state
        if self.is_given_up(cx):
            return
        cx.close(key)
        state.closings += 1
        self.flush(cx)
        if cx.goes_on(state):
            self.begin_closing(cx)


def buffer_when(closing_mapper: Callable[[], Observable[Any]]) -> Callable[[Observable[A]], Query[list[A]]]:
    """Collect elements into lists, each until what *closing_mapper* returns for it emits or completes.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(buffer_when(lambda: rx.timer(3)), "-1-2-3-|")
    -1-2------3---|
    ---[1, 2]--[3]([] |)

    *State*: one list, bounded by `Limits.list_items_max`, a counter and the row of one closing.
    """
    return BufferWhen(closing_mapper)


@frozen
class BufferToggle(Stage, name="buffer_toggle"):
    roles = True
    closing_mapper: Callable[[Any], Observable[Any]]

    @dataclass(slots=True)
    class State:
        next_key: int = 0
        open: dict[int, list[Any]] = field(default_factory=dict)
        stopped: bool = False

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.stopped = not cx.runs(1)

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(self.closing_mapper(outer))

    def on_start(self, cx: Context) -> None:
        cx.subscribe(1)
        cx.subscribe(0)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        state = cx.state
        if port == 0:
            for items in state.open.values():
                items.extend(values)
                check_list(items, cx)
            return
        for opening in values:
            inner, key = cx.project(opening), state.next_key
            state.next_key = key + 1
            state.open[key] = []
            cx.open(key, opening, inner)

    def on_unopened(self, cx: Context, key: Hashable) -> None:
        cx.state.open.pop(key, None)

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 1:
            cx.state.stopped = True
            self._complete_if_closed(cx)

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any]) -> None:
        self.on_inner_completed(cx, key)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        cx.close(key)
        cx.emit(cx.state.open.pop(key))
        self._complete_if_closed(cx)

    def on_inner_refused(self, cx: Context, key: Hashable) -> None:
        self.on_unopened(cx, key)
        self._complete_if_closed(cx)

    @staticmethod
    def _complete_if_closed(cx: Context) -> None:
        if cx.goes_on(cx.state) and cx.state.stopped and not cx.state.open:
            cx.complete()


def buffer_toggle(
    openings: Observable[B], closing_mapper: Callable[[B], Observable[Any]]
) -> Callable[[Observable[A]], Query[list[A]]]:
    """Begin a list for each element of *openings*, until what *closing_mapper* returns for it emits or completes.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s, t: s.pipe(buffer_toggle(t, lambda _: rx.timer(3))), "-1-2-3-4-|", "--x--x---|")
    -1-2-3------4---|
    --x--x----------|
    -----[2, 3]--[4]|

    As in RxPY the result completes with *openings* and the last open list, not with the source.

    *State*: the open lists, each bounded by `Limits.list_items_max`, and one row per closing, bounded by
    `Limits.inner_max`.
    """
    return lambda source: apply(BufferToggle(closing_mapper), source, openings)


@frozen
class BufferWithInactivity(Collects, name="buffer_with_inactivity"):
    gap_s: float

    @dataclass(slots=True)
    class State(Collects.State):
        last_s: float = 0.0

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        now, state = cx.now, cx.state
        if state.items and now > state.last_s + self.gap_s:
            self.flush(cx)
        state.last_s = now
        if not state.items:
            cx.schedule(now + self.gap_s, "quiet")
        super().on_batch(cx, port, values)

    def adopt(self, state: State, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        if cx.state.items:
            cx.schedule(cx.state.last_s + self.gap_s, "quiet")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        due = cx.state.last_s + self.gap_s
        if due <= cx.now:
            self.flush(cx)
        else:
            cx.schedule(due, "quiet")

    def on_completed(self, cx: Context, port: int) -> None:
        if cx.state.items:
            self.flush(cx)
        cx.complete()


def buffer_with_inactivity(gap_s: float) -> Callable[[Observable[A]], Query[list[A]]]:
    """Collect the elements of a session into a list, which is emitted when no element has come for *gap_s* seconds.

    >>> from reliable_rx.testing import diagram
    >>> diagram(buffer_with_inactivity(2), "-1-2----3-|")
    -1-2---------3-|
    -----[1, 2]----([3] |)

    Not in RxPY. Time is the query's clock; an element exactly *gap_s* after the last one still belongs to its session.

    *State*: one list, bounded by `Limits.list_items_max`, a time and one timer.

    *Raises* `ValueError` for a gap that is not positive.
    """
    check_gap(gap_s)
    return BufferWithInactivity(gap_s)
