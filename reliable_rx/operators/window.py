"""Operators that split a sequence into windows, inner sequences that they own; those that go by time are elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.arguments import check_boundaries, check_count
from reliable_rx.operators.contract.operator import Context, Fields, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Inner, Query, apply, as_query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")


class Windows(Stage):
    """What owns windows, numbered as they open."""

    yields_inner = True
    emits_bare = True
    """Emits nothing with a window, so that it may emit one again that an edit has left to nobody."""
    inner_limit = "windows_max"

    @dataclass(slots=True)
    class State:
        next_key: int = 0


def open_window(cx: Context) -> Any:
    """Begin the next window, emit it, and return it."""
    key = cx.state.next_key
    cx.state.next_key = key + 1
    window = cx.begin(key)
    cx.moment(cx.emit, window)
    return window


def feed_windows(cx: Context, values: Sequence[Any]) -> None:
    """Give *values* to every open window: one after the other, as their readers may emit each."""
    open_now = tuple(cx.groups().values())
    if len(open_now) == 1:
        open_now[0].feed(values)
        return
    for value in values:
        for window in open_now:
            window.feed((value,))


def feed_in_moments(cx: Context, values: Sequence[Any]) -> None:
    """Do the same where the event that brings *values* may end a window: what they set going in it comes before."""
    open_now = tuple(cx.groups())
    if len(open_now) == 1:
        cx.feed(open_now[0], values)
        return
    for value in values:
        for key in open_now:
            cx.feed(key, (value,))


@frozen
class Window(Windows, name="window"):
    roles = True
    ends_with_first = True

    def on_start(self, cx: Context) -> None:
        open_window(cx)
        cx.subscribe_all()

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if port == 0:
            feed_in_moments(cx, values)
            return
        for _ in values:
            cx.end(cx.state.next_key - 1)
            open_window(cx)


def window(boundaries: Observable[Any]) -> Callable[[Observable[A]], Query[Query[A]]]:
    """Split the sequence into windows: whenever *boundaries* emits, one closes and the next opens.

    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s, t: s.pipe(window(t), ops.flat_map(lambda w: w.pipe(ops.to_list()))), "-1-2-3-|", "----x---|")
    -1-2------3-|
    ----x--------------|
    ----[1, 2]--([3] |)

    *State*: a counter and the row of one window.
    """
    check_boundaries("window", boundaries)
    return lambda source: apply(Window(), source, boundaries)


class Closed(Stage):
    """What ends a list or a window by a sequence made for it, and then begins the next.

    A closing that cannot begin, at an event that is skipped, is tried again with the next element, and an element that
    finds none is left out. Without that a list would never close, and a closing that ends as it fails to begin would be
    followed by the next without end. The field `unclosed` of the state says where no closing has begun: it is one more
    than the number of events that were skipped before it was tried.
    """

    def latest(self, cx: Context) -> tuple[int, Any]:
        """Return the key of the list or window that is open, and what its closing is made for."""
        raise NotImplementedError

    def begin_closing(self, cx: Context) -> None:
        state = cx.state
        if not cx.goes_on(state):  # what was emitted has made somebody stop us
            return
        if not cx.may_skip:
            state.unclosed = 0
            cx.open(*self.latest(cx))
            return
        state.unclosed = cx.skipped + 1
        try:
            cx.open(*self.latest(cx))
        except BaseException as raised:
            cx.refuse(raised)
            return
        if cx.goes_on(state) and cx.opened():
            state.unclosed = 0

    def begin_first(self, cx: Context) -> None:
        """Have the first closing begin, or give up the inner sequence that cannot begin without."""
        self.begin_closing(cx)
        if cx.is_inner and self.is_given_up(cx):
            cx.give_up()

    def is_given_up(self, cx: Context) -> bool:
        """Whether an event was skipped since the closing was to begin, which so has not."""
        return 0 < cx.state.unclosed <= cx.skipped  # type: ignore[no-any-return]

    def is_closable(self, cx: Context) -> bool:
        """Try again to have a closing if there is none; return whether there is one."""
        if self.is_given_up(cx):
            self.begin_closing(cx)
        return not self.is_given_up(cx)

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any]) -> None:
        self.on_inner_completed(cx, key)

    def on_inner_refused(self, cx: Context, key: Hashable) -> None:
        cx.state.unclosed = cx.skipped


@frozen
class WindowWhen(Closed, Windows, name="window_when"):
    reads_own = True
    closing_mapper: Callable[[], Observable[Any]]

    @dataclass(slots=True)
    class State(Windows.State):
        unclosed: int = 0

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(self.closing_mapper())

    def on_start(self, cx: Context) -> None:
        open_window(cx)
        cx.subscribe_all()
        self.begin_first(cx)

    def latest(self, cx: Context) -> tuple[int, Any]:
        key = cx.state.next_key - 1
        return key, Inner(cx.groups()[key])

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if not cx.state.unclosed or self.is_closable(cx):
            feed_in_moments(cx, values)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        if self.is_given_up(cx):
            return
        cx.close(key)
        cx.end(key)
        open_window(cx)
        self.begin_closing(cx)


def window_when(closing_mapper: Callable[[], Observable[Any]]) -> Callable[[Observable[A]], Query[Query[A]]]:
    """Split the sequence into windows, each until what *closing_mapper* returns for it emits or completes.

    >>> import reliable_rx as rx
    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> every_three = window_when(lambda: rx.timer(3))
    >>> diagram(lambda s: s.pipe(every_three, ops.flat_map(lambda w: w.pipe(ops.to_list()))), "-1-2-3-|")
    -1-2------3---|
    ---[1, 2]--[3]([] |)

    Hosted, *closing_mapper* is called once, and its sub-plan used for every window.

    *State*: a counter, the row of one window and that of its closing.
    """
    return WindowWhen(closing_mapper)


@frozen
class WindowToggle(Windows, name="window_toggle"):
    roles = True
    closing_mapper: Callable[[Any], Observable[Any]]

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(self.closing_mapper(outer))

    def on_start(self, cx: Context) -> None:
        cx.subscribe(1)
        cx.subscribe(0)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        if port == 0:
            feed_windows(cx, values)
            return
        for opening in values:
            inner = cx.project(opening)
            window = open_window(cx)
            cx.open(window.key, opening, inner)

    def on_unopened(self, cx: Context, key: Hashable) -> None:
        cx.drop(key)

    def on_completed(self, cx: Context, port: int) -> None:
        if port == 1:
            cx.complete_outer()

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any]) -> None:
        self.on_inner_completed(cx, key)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        cx.close(key)
        cx.end(key)

    on_inner_refused = on_unopened


def window_toggle(
    openings: Observable[B], closing_mapper: Callable[[B], Observable[Any]]
) -> Callable[[Observable[A]], Query[Query[A]]]:
    """Open a window for each element of *openings*, until what *closing_mapper* returns for it emits or completes.

    >>> import reliable_rx as rx
    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> lists = ops.flat_map(lambda w: w.pipe(ops.to_list()))
    >>> diagram(lambda s, t: s.pipe(window_toggle(t, lambda _: rx.timer(3)), lists), "-1-2-3-4-|", "--x--x---|")
    -1-2-3------4---|
    --x--x----------|
    -----[2, 3]--[4]|

    As in RxPY the result completes with *openings* (windows that are read go on), not with the source.

    *State*: a counter, and one row per open window and one per closing, bounded by `Limits.windows_max`.
    """
    return lambda source: apply(WindowToggle(closing_mapper), source, openings)


@frozen
class WindowWithCount(Windows, name="window_with_count", version=2):
    keeps_pace = True
    count: int
    skip: int

    @dataclass(slots=True)
    class State(Windows.State):
        index: int = 0
        """How many elements there were."""
        begun: list[int] = field(default_factory=list)
        """At which of them each open window began, the oldest first: maybe under other numbers, before an edit."""
        newest: int = 0
        """At which of them the newest window began, open or not; -1 behind a store of version 1, which does not say."""

    @classmethod
    def migrate(cls, version: int, old: Fields) -> Fields:
        index: int = old["index"]
        return {**old, "index": index if index >= 0 else -1 - index, "begun": [], "newest": -1}

    def adopt(self, state: State, before: Before) -> bool:
        return before.reads_the_same

    def on_start(self, cx: Context) -> None:
        self._open(cx)
        cx.subscribe_all()

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        state, at, end = cx.state, 0, len(values)
        self._move(cx)
        while at < end and cx.goes_on(state):
            until = min(end, at + self._quiet(state))
            feed_in_moments(cx, values[at:until] if until - at < end else values)
            if not cx.goes_on(state):
                return
            state.index += until - at
            at = until
            self._move(cx)

    def _move(self, cx: Context) -> None:
        """Close the windows that have their elements, and open the next if there were enough since the newest began."""
        state = cx.state
        if state.newest < 0:
            state.newest = state.index - state.index % self.skip
            first = -(-max(0, state.index - self.count + 1) // self.skip) * self.skip
            begun = range(first, state.index + 1, self.skip)
            state.begun = list(begun[-len(cx.groups()) :]) if cx.groups() else []
        while state.begun and state.index - state.begun[0] >= self.count:
            key = state.next_key - len(state.begun)
            del state.begun[0]
            cx.end(key)
            if not cx.goes_on(state):
                return
        if state.index - state.newest >= self.skip:
            self._open(cx)

    @staticmethod
    def _open(cx: Context) -> None:
        state = cx.state
        state.newest = state.index
        state.begun.append(state.index)
        open_window(cx)

    def _quiet(self, state: State) -> int:
        """How many elements may come before a window closes or opens."""
        opens = state.newest + self.skip - state.index
        return min(opens, state.begun[0] + self.count - state.index) if state.begun else opens


def window_with_count(count: int, skip: int | None = None) -> Callable[[Observable[A]], Query[Query[A]]]:
    """Split the sequence into windows of *count* elements, a new one beginning every *skip* elements.

    >>> import reliable_rx as rx
    >>> rx.range(5).window_with_count(2).flat_map(lambda w: w.sum()).to_list().run()
    [1, 5, 4]
    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s: s.pipe(window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.to_list()))), "-1-2-3-|")
    -1-2------3-|
    ---[1, 2]---([3] |)

    *State*: two counters, and one row per open window, bounded by `Limits.windows_max`.
    """
    check_count("count", count, 1)
    if skip is not None:
        check_count("skip", skip, 1)
    return WindowWithCount(count, count if skip is None else skip)
