"""How the clock of a query on event time makes up for what could not be done when it came to be here.

Its watermark may be further: it was joined, edited, or taken up again behind a suspension. And while a store is opened
nothing can be emitted: what functions of another interpreter want done at once is put off then, as timers before the
time at which the clock stands, where no other timer is. So it is stored, and done before the query hears anything.

Rejected: timers at that time (an event of the very time would come before them), and a list of its own in the row of
the query (it would have to be there in all stores for what an upgrade needs once).
"""

from __future__ import annotations

from collections import deque
from math import inf, nextafter
from typing import TYPE_CHECKING, Protocol

from reliable_rx.runtime.instance import Timer


class Timers(Protocol):
    """Pending timers."""

    def next_due(self) -> float | None: ...
    def pop(self, time: float, *, inclusive: bool) -> Timer | None: ...
    def push(self, timer: Timer) -> None: ...


class Settling(Protocol):
    """What does all that is to be done at once."""

    def settle_immediate(self) -> None: ...


class Followed(Protocol):
    """The watermark that a clock follows."""

    time: float

    @property
    def lags(self) -> bool: ...
    @property
    def is_over(self) -> bool: ...
    def move(self) -> None: ...


class Running(Protocol):
    """The query of a clock."""

    status: str


class CatchingUp:
    """The part of an event-time clock that makes up for what was put off."""

    clock: float
    immediate: deque[Timer]

    if TYPE_CHECKING:

        @property
        def engine(self) -> Settling: ...
        @property
        def standing(self) -> Running: ...
        @property
        def timers(self) -> Timers: ...
        @property
        def watermark(self) -> Followed: ...
        def move(self, time: float) -> None: ...
        def order(self) -> int: ...

    @property
    def must_catch_up(self) -> bool:
        """Whether something was put off, or the watermark may be further, as of one of another interpreter."""
        return self.has_put_off or self.clock < self.watermark.time or self.watermark.lags

    @property
    def has_put_off(self) -> bool:
        """Whether something is to be done at once: no other timer is due before where the clock stands."""
        due = self.timers.next_due()
        return due is not None and due < self.clock

    def put_off(self, timer: Timer, moment: float) -> None:
        """Have `catch_up` do what was to be done at once: nothing can be emitted while a store is opened."""
        timer[0], timer[1] = nextafter(self.clock, -inf), self.order()
        self.timers.push(timer)

    def make_up(self) -> None:
        """Do what was put off, as an edit does it: what follows at once from it comes before all else."""
        if not self.has_put_off:
            return
        while (timer := self.timers.pop(self.clock, inclusive=False)) is not None:
            timer[0] = self.clock
            self.immediate.append(timer)
        self.engine.settle_immediate()

    def catch_up(self) -> None:
        """Do what was put off, and move to where the watermark is: it was further when it was joined or taken up."""
        mark = self.watermark
        self.make_up()
        if self.standing.status == "running":  # one that stands nowhere was made for this query
            mark.move() if mark.time == -inf or mark.lags else self.move(inf if mark.is_over else mark.time)
