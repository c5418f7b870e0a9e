"""Sessions: windows that open with an element and close when none has come for a while."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.arguments import check_number
from reliable_rx.operators.contract.operator import Context
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.window import Windows, feed_windows, open_window
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)


@frozen
class WindowWithInactivity(Windows, name="window_with_inactivity"):
    gap_s: float

    @dataclass(slots=True)
    class State(Windows.State):
        last_s: float = 0.0

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        now, state = cx.now, cx.state
        if cx.groups() and now > state.last_s + self.gap_s:
            cx.end(state.next_key - 1)
        state.last_s = now
        if not cx.groups():
            open_window(cx)
            cx.schedule(now + self.gap_s, "quiet")
        feed_windows(cx, values)

    def adopt(self, state: State, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        if cx.groups():
            cx.schedule(cx.state.last_s + self.gap_s, "quiet")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        due = cx.state.last_s + self.gap_s
        if due <= cx.now:
            cx.end(cx.state.next_key - 1)
        else:
            cx.schedule(due, "quiet")


def window_with_inactivity(gap_s: float) -> Callable[[Observable[A]], Query[Query[A]]]:
    """Split the sequence into sessions: a window opens with an element and closes when none has come for *gap_s*.

    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> sessions = lambda s: s.pipe(window_with_inactivity(2), ops.flat_map(lambda w: w.pipe(ops.to_list())))
    >>> diagram(sessions, "-1-2----3-|")
    -1-2---------3-|
    -----[1, 2]----([3] |)

    Not in RxPY. Time is the query's clock; an element exactly *gap_s* after the last one still belongs to its session.
    For sessions per key, put it behind `group_by`.

    *State*: a counter, a time, one timer and the row of one window.

    *Raises* `ValueError` for a gap that is not positive.
    """
    check_gap(gap_s)
    return WindowWithInactivity(gap_s)


def check_gap(gap_s: float) -> None:
    """*Raises* `ValueError` for a gap that is not positive."""
    check_number("gap_s", gap_s)
