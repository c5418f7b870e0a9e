"""Logical time from a host's clock that may be wrong: it never goes back, and always goes on.

An engine's clock only moves forward, so a clock that was ahead once (an hour, or the year 2100) would leave all timers
waiting until it is that late again. Instead logical time goes on by what elapses: while the host's clock is behind, an
offset is added to it, timers keep their distances, and an incident says so. It ends when the host's clock has caught
up. The offset is in checkpoints, so that what elapses while nothing runs counts too; turns carry their times, so a
replay never asks.

A step back within `TOLERANCE_S` is what synchronisation does: time stands still until it is made up for. Rejected: a
monotonic clock for what elapses (it knows nothing of the time between two runs, and tests bring clocks of their own),
and refusing to start (the store would be lost with a clock that was wrong for a minute).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from hosting.reports.incidents import Incidents
from reliable_rx.operators.contract.arguments import cut

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.event_time.runtime import EventClock
    from hosting.engine.event_time.watermark import Ahead

SHOWN_MAX = 5
TOLERANCE_S = 1.0
LEAP_S = 7 * 86_400.0
"""A step forward that is worth a warning."""


def remedy_of_late(clock: EventClock) -> str:
    """Say what to do about events that come behind the *clock* of their query."""
    ahead_s = -math.inf if clock.engine.timestamps else clock.clock - clock.engine.clock
    if ahead_s <= LEAP_S:
        return "raise lateness_s to wait"
    ahead = f"it is {span(ahead_s)} ahead of the computer's clock"
    return f"{ahead}: refuse such events with an ahead_max_s in its event_time, and restart the query behind that"


class HostClock:
    """The time that an evaluator gives its turns. *clock* gives seconds since 1970.

    >>> readings = iter([100.0, 3700.0, 110.0, 115.0])
    >>> clock = HostClock(lambda: next(readings), Incidents())
    >>> [clock.read() for _ in range(4)]
    [100.0, 3700.0, 3700.0, 3705.0]
    """

    def __init__(self, clock: Callable[[], float], incidents: Incidents) -> None:
        self._clock, self._incidents = clock, incidents
        self.ahead_s = 0.0
        """How far logical time is ahead of the host's clock."""
        self.reached = -math.inf
        self._is_new, self._is_odd = True, False
        self._said: set[str] = set()

    def go_on(self, reached: float, *, ahead_s: float) -> None:
        """Go on behind a former run, which had *reached* a time and was *ahead_s* ahead of the host's clock then."""
        self.reached, self.ahead_s = reached, ahead_s

    def for_checkpoint(self, time: float) -> dict[str, float]:
        """Return what the next process is to know; *time* is until when the app has run."""
        return {"ahead_s": self.ahead_s, "time": time}

    def read(self, floor: float = -math.inf) -> float:
        """Return the time now, which is not before *floor* nor before what was returned last."""
        host, reached = self._clock(), self.reached
        if floor > reached:
            reached = floor
        try:
            is_odd = self.ahead_s or not reached <= host < reached + LEAP_S or self._is_odd
        except TypeError:
            raise TypeError(
                f"clock= has given {cut(host)}: it is a function that returns seconds since 1970, as time.time does"
            ) from None
        if is_odd:
            self.reached = time = self._corrected(host, reached)
            return time
        self.reached = host
        return host

    def tell(self, engine: QueryEngine) -> None:
        """Report what moves of the engine's clock have skipped, and what makes it go where the host's is not."""
        if engine.leap is not None:
            (start, end), engine.leap = engine.leap, None
            message = (
                f"it went {span(end - start)} forward at once, over more than could be made up for: what ticks has "
                f"left out the ticks in between"
            )
            self._incidents.report("clock", "leap", message, level=logging.WARNING)
        if engine.is_behind:
            behind_s = self.reached - engine.clock
            self._say(
                "late", f"timers are {span(behind_s)} late, and are fired one after the other before anything else"
            )
        else:
            self._resolve("late")
        if engine.timestamps and (ahead_s := engine.clock - self._clock()) > LEAP_S:
            sources = ", ".join(sorted(engine.timestamps)[:SHOWN_MAX])
            what = f"those of {sources} have moved time {span(ahead_s)} ahead of the computer's clock"
            remedy = "mend `timestamp` (is it in seconds?), or leave it out and give queries a clock with ahead_max_s"
            self._say("events", f"{what}; timers wait for later ones; {remedy}")
        while engine.watermarks.ahead:
            self._tell_ahead(engine.watermarks.ahead.popleft())

    def _tell_ahead(self, found: Ahead) -> None:
        self._say(
            f"events of {found.source}/{found.partition}",
            f"the event at position {found.position:,} has the time {found.time:,.0f}, {span(found.ahead_s)} ahead of "
            f"the computer's clock; it moves the clock of {', '.join(found.queries)} there, and what comes before is "
            f"late; mend `timestamp` (is it in seconds?), or refuse such events with ahead_max_s; restart them behind "
            f"that, or they stay there",
        )

    def _corrected(self, host: float, reached: float) -> float:
        """Return the time where the host's clock and ours are apart."""
        self._is_odd = True
        if not math.isfinite(host):
            self._say("unreadable", f"it reads {host!r}, which is no time; time stands still until it is mended")
            return reached if reached > -math.inf else 0.0
        self._resolve("unreadable")
        is_new, self._is_new = self._is_new, False
        if host >= reached - TOLERANCE_S:
            self.ahead_s, self._is_odd = 0.0, False
            self._resolve("behind")
            if not is_new and host - reached >= LEAP_S:
                self._leapt(host - reached)
            return max(host, reached)
        if host + self.ahead_s < reached - TOLERANCE_S:
            self.ahead_s = reached - host
        self._say(
            "behind",
            f"the computer's clock is {span(self.ahead_s)} behind the time that was reached: it was ahead once, or has "
            f"been set back; until it has caught up, timers go on by what elapses",
        )
        return max(host + self.ahead_s, reached)

    def _say(self, subject: str, message: str) -> None:
        if subject not in self._said:
            self._said.add(subject)
            self._incidents.report("clock", subject, message, level=logging.WARNING)

    def _resolve(self, subject: str) -> None:
        if subject in self._said:
            self._said.remove(subject)
            self._incidents.resolve("clock", subject)

    def _leapt(self, jump_s: float) -> None:
        message = f"the computer's clock went forward by {span(jump_s)} at once; what was due in between is done now"
        self._incidents.report("clock", "ahead", message, level=logging.WARNING)


def span(seconds: float) -> str:
    """Write a length of time.

    >>> span(5400), span(1e15)
    ('1:30:00', '31,688,088 years')
    """
    years = seconds / (365.25 * 86_400)
    return f"{years:,.0f} years" if years >= 2 else str(timedelta(seconds=round(seconds)))
