"""`expand`: a sequence that feeds on itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.operator import Context
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.flatten import Reads, Waiting
from reliable_rx.operators.merge_concat import check_queue
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)
WORK = "work"


@frozen
class Expand(Reads, name="expand"):
    scheduler_default = "immediate"
    lends_scheduler = (0,)
    mapper: Callable[[Any], Any]

    def is_endless(self) -> bool:
        return True

    @dataclass(slots=True)
    class State(Reads.State):
        live: int = 1
        working: bool = True
        waiting: deque[Waiting | None] = field(default_factory=lambda: deque([None]))

    def on_start(self, cx: Context) -> None:
        cx.soon(WORK)

    def on_timer(self, cx: Context, tag: Any) -> None:
        if tag != WORK:
            super().on_timer(cx, tag)
        elif cx.state.waiting:
            state = cx.state
            try:
                self._open_next(cx)
            except BaseException as raised:
                cx.refuse(raised)
                if cx.goes_on(state):
                    self.on_completed(cx, 0)
            cx.soon(WORK)
        else:
            cx.state.working = False

    def _open_next(self, cx: Context) -> None:
        one = cx.state.waiting.popleft()
        if one is None:
            cx.subscribe(0)
        else:
            self.read(cx, one.outer, cx.project(one.outer) if one.inner is None else one.inner)

    def inner(self, outer: Any) -> Any:
        return self.mapper(outer)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state = cx.state
        cx.emit(value)
        if not cx.goes_on(state):
            return
        state.waiting.append(Waiting(value, cx.project(value)))
        check_queue(state.waiting, cx)
        state.live += 1
        if not state.working:
            state.working = True
            cx.soon(WORK)

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any]) -> None:
        state = cx.state
        for value in values:
            try:
                self.on_next(cx, 0, value)
            except BaseException as raised:
                cx.refuse(raised)
            if not cx.goes_on(state):
                return

    def on_completed(self, cx: Context, port: int) -> None:
        state = cx.state
        state.live -= 1
        if not state.live:
            cx.complete()

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        self.on_completed(cx, 0)


def expand(mapper: Callable[[A], Observable[A]]) -> Callable[[Observable[A]], Query[A]]:
    """Emit each element, and all that the sequences which *mapper* makes of each element emit, and so on.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> double = lambda x: rx.timer(1).pipe(rx.operators.map(lambda _: x * 2))
    >>> diagram(expand(lambda x: double(x) if x < 8 else rx.empty()), "-2----|")
    -2----|
    -248--|

    Sequences are subscribed to one after the other, breadth first. *mapper* is called again on recovery and must be
    pure. An expansion without end and without time passing is stopped by `Limits.actions_max` when hosted. Un-hosted
    and without a scheduler, what feeds it runs on the `ImmediateScheduler`, as in RxPY: a timer there needs one named.

    *State*: one row per live sequence, bounded by `Limits.inner_max`; a queue of those to come, which is empty between
    turns, bounded by `Limits.queue_items_max`.
    """
    return Expand(mapper)
