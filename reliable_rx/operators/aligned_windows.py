"""Windows of the clock: aligned to whole multiples of their size, and named by when they begin and end.

`window_with_time` counts from the moment of subscription, as RxPY does; these count from 0 on the query's clock, so
that they are the same windows in every run, in every partition and in Spark or Flink. They are computed in whole
microseconds, in which ``0.1 + 0.2`` is ``0.3``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen, relative_seconds
from reliable_rx.operators.window import feed_windows
from reliable_rx.query.query import Inner, Query

A = TypeVar("A", bound=Any)
Span = tuple[float, float]
Relative = float | timedelta


@frozen
class AlignedWindow(Stage, name="aligned_window"):
    yields_inner = True
    inner_limit = "windows_max"
    begins_unread = True
    free = ("size_us", "slide_us", "offset_us")
    size_us: int
    slide_us: int
    offset_us: int

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        now_us = microseconds(cx.now)
        self._close(cx, now_us)
        before = next(iter(cx.groups()), None)
        if before is not None and self.size_us <= self.slide_us:  # it may have been begun under another size
            feed_windows(cx, values)
            return
        for start_us in self._starts(now_us):
            span = (start_us / 1_000_000, (start_us + self.size_us) / 1_000_000)
            if span not in cx.groups():
                cx.moment(cx.emit, cx.begin(span))
                before = before if before is not None and before[1] <= span[1] else None  # shorter since it was edited
        if before is None:
            self._wait(cx)
        feed_windows(cx, values)

    def _starts(self, now_us: int) -> range:
        """When the windows begin that have *now_us* in them, the earliest first."""
        last = now_us - (now_us - self.offset_us) % self.slide_us
        earlier = (last + self.size_us - now_us - 1) // self.slide_us  # how many before it are still open
        return range(last - earlier * self.slide_us, last + 1, self.slide_us)

    @staticmethod
    def _close(cx: Context, now_us: int) -> None:
        for span in tuple(cx.groups()):
            if microseconds(span[1]) <= now_us:
                cx.end(span)

    @staticmethod
    def _wait(cx: Context) -> None:
        if cx.groups():
            cx.schedule(min(end for _, end in cx.groups()), "close")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        self._close(cx, microseconds(cx.now))
        self._wait(cx)


def microseconds(time_s: float) -> int:
    return round(time_s * 1_000_000)


def span_us(duration: Relative) -> int:
    """Read a duration. *Raises* `TypeError` for what is neither seconds nor a `timedelta`."""
    return microseconds(relative_seconds(duration))


def tumbling_window(size_s: Relative, *, offset_s: Relative = 0.0) -> Callable[[Observable[A]], Query[Inner[Span, A]]]:
    """Split the sequence into windows of the clock: *size_s* long, beginning at its multiples (plus *offset_s*).

    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> summed = ops.flat_map(lambda w: w.pipe(ops.sum(), ops.map(lambda n: (w.key, n))))
    >>> diagram(lambda s: s.pipe(tumbling_window(4), summed), "-1-2--3--|")
    -1-2----------------3----------------|
    ----((0.0, 4.0), 3)---((4.0, 8.0), 3)|

    Not in RxPY, whose `window_with_time` counts from the subscription. An element belongs to the window with
    ``start <= its time < end``; a window has ``key == (start_s, end_s)``; windows without elements are not emitted. For
    windows per key, put it behind `group_by`.

    *State*: one timer, and one row for the open window.

    *Raises* `ValueError` for a size that is not positive.
    """
    return sliding_window(size_s, size_s, offset_s=offset_s)


def sliding_window(
    size_s: Relative, slide_s: Relative, *, offset_s: Relative = 0.0
) -> Callable[[Observable[A]], Query[Inner[Span, A]]]:
    """Split the sequence into windows of the clock: *size_s* long, one beginning every *slide_s* (plus *offset_s*).

    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> lists = lambda s: s.pipe(sliding_window(4, 2), ops.flat_map(lambda w: w.pipe(ops.to_list())))
    >>> diagram(lists, "-1-2-3----|")
    -1---2------3-----------|
    --[1]-[1, 2]-[2, 3]-[3]-|

    Everything else is as in `tumbling_window`; with *slide_s* over *size_s*, elements between two windows are left out.

    *State*: one timer, and one row per open window, bounded by `Limits.windows_max`.

    *Raises* `ValueError` for a size or slide that is not positive.
    """
    size_us, slide_us = span_us(size_s), span_us(slide_s)
    if size_us <= 0 or slide_us <= 0:
        raise ValueError(f"size_s and slide_s must be at least a microsecond, got {size_s!r} and {slide_s!r}")
    return AlignedWindow(size_us, slide_us, span_us(offset_s))
