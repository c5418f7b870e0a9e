"""A clock, and pending timers in the order in which they are due; those due at one time in that in which they were set.

What an event sets going without delay is done before anything else, as on a live subject: also before what is due at
this very moment and has waited for longer, which may be another query's. What a timer sets going waits behind that.

A cancelled timer stays in the heap, emptied, until it is due or until the emptied ones are the majority: cancelling
is the common case (every debounced event does it), and taking one out of the middle of a heap is not cheap.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from reliable_rx.runtime.instance import Instance, Timer
from reliable_rx.runtime.opening import close, may_begin_again
from reliable_rx.runtime.plan import PlanNode
from reliable_rx.runtime.timer_fast_path import wait

if TYPE_CHECKING:
    from reliable_rx.runtime.hub import Trampoline
    from reliable_rx.runtime.stage_context import Cx

T = TypeVar("T")
SWEEP_MIN = 64
MOMENTS_MAX = 16
"""So many openings within one another have a moment each: what repeats in the midst of one does not nest for ever."""


class Resumed(list[Any]):
    """A timer that is set again as it was: one of its number may be there, and nothing else of the two is compared."""

    __slots__ = ()

    def __lt__(self, other: Timer) -> bool:
        return (self[0], self[1]) < (other[0], other[1])

    def __gt__(self, other: Timer) -> bool:
        return (self[0], self[1]) > (other[0], other[1])


class Timers:
    """A heap of timers."""

    def __init__(self) -> None:
        self.heap: list[Timer] = []
        self.cancelled = 0

    def push(self, timer: Timer) -> None:
        heapq.heappush(self.heap, timer)

    def cancel(self, timer: Timer) -> None:
        """Empty *timer*, so that it never fires."""
        if timer[2] is None:
            return
        timer[2] = None
        self.cancelled += 1
        if self.cancelled > SWEEP_MIN and self.cancelled > len(self.heap) // 2:
            self.sweep()

    def restore(self, heap: list[Timer]) -> None:
        """Have *heap* in the place of what is there."""
        self.heap[:] = heap
        self.sweep()

    def sweep(self) -> None:
        """Take the emptied timers out; a timer that is set again as it was must not meet itself in the heap."""
        self.heap[:] = [each for each in self.heap if each[2] is not None]
        heapq.heapify(self.heap)
        self.cancelled = 0

    def pop(self, time: float, *, inclusive: bool) -> Timer | None:
        """Take out the next timer that is due before *time* (or, *inclusive*, at it)."""
        heap = self.heap
        while heap:
            due, _, waits, _, _ = heap[0]
            if waits is None:
                self.drop_first()
            elif due < time or (inclusive and due == time):
                return heapq.heappop(heap)
            else:
                return None
        return None

    def drop_first(self) -> None:
        """Take out an emptied timer, or all of them."""
        if self.cancelled > len(self.heap) // 2:
            self.sweep()
        else:
            heapq.heappop(self.heap)
            self.cancelled -= 1

    def next_due(self) -> float | None:
        """Return when the next timer is due."""
        while self.heap and self.heap[0][2] is None:
            self.drop_first()
        return self.heap[0][0] if self.heap else None

    def last_due(self) -> float | None:
        """Return when the last timer of all is due."""
        return max((timer[0] for timer in self.heap if timer[2] is not None), default=None)


class Ordering:
    """A count that only grows: it orders subscriptions, and timers due at one time. An engine has one."""

    __slots__ = ("newest",)

    def __init__(self) -> None:
        self.newest = 0


class Clock:
    """The part of a world that is about time: it moves by turns only."""

    wait = wait

    if TYPE_CHECKING:
        trampoline: Trampoline

        def fire_bounded(self, timer: Timer, actions: int) -> None: ...

    def __init__(self, clock: float, immediate: deque[Timer], ordering: Ordering) -> None:
        self.clock = clock
        self.ordering = ordering
        self.timers = Timers()
        self.cancel_timer = self.timers.cancel
        self.immediate = immediate
        self.in_timers, self.reach = False, clock
        self.openers: list[Cx] = []
        """What opens something now: what that sets going without delay comes before all else that is due."""

    def order(self) -> int:
        self.ordering.newest += 1
        return self.ordering.newest

    def now(self, node: PlanNode) -> float:
        return self.clock

    def horizon(self, node: PlanNode) -> float:
        return self.reach if self.in_timers else self.clock

    def set_timer(self, instance: Instance, node: PlanNode, tag: Hashable, due: float | None) -> Timer:
        clock, ordering = self.clock, self.ordering
        order = ordering.newest = ordering.newest + 1
        timer: Timer = [clock if due is None else due, order, instance, node, tag]
        if timer[0] > clock or (self.in_timers and not self.openers):
            heapq.heappush(self.timers.heap, timer)
        else:
            self.immediate.append(timer)
        return timer

    def moment(self, opener: Cx, call: Callable[..., T], *args: Any) -> T:
        """Call *call*, and have all happen before this returns that it sets going without delay."""
        if self.trampoline.busy or len(self.openers) >= MOMENTS_MAX:
            return call(*args)
        immediate, others, early = self.immediate, tuple(self.immediate), list[Timer]()
        immediate.clear()
        self.openers.append(opener)
        try:
            done = call(*args)
            if immediate:
                self.settle_moment(opener, early)
            return done
        finally:
            close(opener)
            if others or early or immediate:
                self.put_behind(others, early)

    def follow_up(self, opener: Cx, call: Callable[..., None], *args: Any) -> None:
        """Do the same with what opens nothing: it costs next to nothing where that sets nothing going."""
        if self.immediate or self.in_timers or self.trampoline.busy:
            self.moment(opener, call, *args)
            return
        call(*args)
        if self.immediate:
            actions = tuple(self.immediate)
            self.immediate.clear()
            self.moment(opener, self.immediate.extend, actions)

    def settle_moment(self, opener: Cx, early: list[Timer]) -> None:
        """Do what has been set going; what may begin its opener again comes too *early*."""
        actions = 0
        while self.immediate and opener.active:
            timer = self.immediate.popleft()
            if timer[2] is not None and may_begin_again(opener, timer[2], timer[3]):
                early.append(timer)
            else:
                actions += 1
                self.fire_bounded(timer, actions)

    def put_behind(self, others: Sequence[Timer], early: Sequence[Timer]) -> None:
        """Let what the moment has left, as it was too *early* or its opener has ended, wait behind *others*."""
        left = (*early, *self.immediate)
        self.immediate.clear()
        self.immediate.extend(others)
        if self.in_timers and not self.openers:
            for timer in left:
                self.timers.push(timer)
        else:
            self.immediate.extend(left)

    def resume_timer(self, instance: Instance, node: PlanNode, tag: Hashable, due: float, order: int) -> Timer:
        timer = Resumed((due, order, instance, node, tag))
        self.timers.push(timer)
        return timer
