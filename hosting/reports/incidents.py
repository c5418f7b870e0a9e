"""Register of failures and stalls: one log line when something begins, and a record of what still holds.

A failure that is only survived wakes nobody. So every part that fails, retries, waits, skips or drops reports here,
and here alone: the log line goes out at once, the record stays until the part says that it is well again, and
statistics, `status`, the display of `run` and the exit code are read off the records.

A report that repeats is counted, and logged again once a minute at most: a retry loop must not fill a disk with its
complaint, nor must an incident that comes and goes (`hosting/reports/flapping.py`).

Rejected: raising (who would catch it is the loop that must go on), Python's `warnings` (shown once per place
in the code, not per subject), and a log line alone (`status` would have to read the log).
"""

from __future__ import annotations

import logging
import threading
import time as wall
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from checkpoint.format.stored_errors import CHAIN_MAX, TRACE_CHARACTERS_MAX, before, trace_of
from hosting.reports.flapping import ERRORS_TOLD, REPEAT_S, WARNINGS_TOLD, Flapping
from hosting.reports.log import LOG
from reliable_rx.class_of import is_a, is_odd
from reliable_rx.errors import ReliableRxError, StoredError, one_line, printable
from reliable_rx.functions.imports import own_frame
from reliable_rx.handled import apart

OPEN_MAX = 1000
SUBJECT_MAX = 500
STOPPING = frozenset({"sink", "checkpoint", "source waits", "reading", "journal", "stall"})
"""Kinds that can keep all turns from being taken."""
WAITING = STOPPING | {"watermark"}
"""Kinds whose warnings say that something waits, and goes on by itself."""
TOLD = {logging.WARNING: WARNINGS_TOLD, logging.ERROR: ERRORS_TOLD}
LEVELS = {logging.WARNING: "warning", logging.ERROR: "error"}


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that fails or waits: *kind* and *subject* name it, *since* is in seconds since 1970.

    *count* tells how often it was reported since then, *trace* is the traceback of the last report, if it had an error.
    """

    kind: str
    subject: str
    message: str
    level: str
    since: float
    count: int = 1
    trace: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.subject!r}: {self.message}"

    @property
    def waits(self) -> bool:
        """Whether it is no more than a wait."""
        return self.level == "warning" and self.kind in WAITING


class Incidents:
    """What fails or waits in one host, by kind and subject. Safe to use from any thread.

    >>> incidents = Incidents()
    >>> incidents.report("sink", "orders", "the disk is full; it is tried again", level=logging.WARNING)
    >>> [str(each) for each in incidents.open()]
    ["sink 'orders': the disk is full; it is tried again"]
    >>> incidents.resolve("sink", "orders")
    >>> incidents.open()
    ()
    """

    def __init__(self, *, clock: Callable[[], float] = wall.time) -> None:
        self._clock = clock
        self.place = ""
        """Where the host is, for the log, if there are several in a process: the partition, say."""
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], Incident] = {}
        self._logged: dict[tuple[str, str], float] = {}
        self._flapping = Flapping()
        self._lasting: set[tuple[str, str]] = set()
        self._left_out = 0

    def placed(self, message: str) -> str:
        """Return *message* with the partition of a node that it is about."""
        return f"{self.place}: {message}" if self.place else message

    def report(
        self,
        kind: str,
        subject: str,
        message: str,
        *,
        error: BaseException | None = None,
        level: int = logging.ERROR,
        trace: str = "",
        once: bool = False,
    ) -> None:
        """Open an incident, or count it if it is open, and log it unless that was done a moment ago; or ever, *once*.

        *message* says what is wrong and what to do about it; *error* adds its traceback, or *trace* is one as text. One
        of ours that has passed no line of the user's says all in its message: its traceback is for who debugs.
        """
        subject, message = subject_of(subject), one_line(printable(message))
        key = (kind, subject)
        trace = printable(trace if error is None else told_trace(error), TRACE_CHARACTERS_MAX)
        now = self._clock()
        with self._lock:
            level = logging.ERROR if key in self._lasting else level
            before = self._open.get(key)
            if before is not None:
                count = before.count + 1
                self._open[key] = replace(before, message=message, level=LEVELS[level], count=count, trace=trace)
            elif len(self._open) < OPEN_MAX or self._makes_room_for(kind):
                self._open[key] = Incident(kind, subject, message, LEVELS[level], now, 1, trace)
            else:
                self._left_out += 1
            has_begun = before is None and key in self._open
            if has_begun and not self._flapping.begins(key, now, most=TOLD[level]):
                self._logged[key] = self._flapping.since(key, now)
            is_news = self._is_news(key, now, once=once)
            untold = self._flapping.tell(key, now) if is_news else 0
        if is_news:
            self._tell(level, key, message, trace, untold)

    def _tell(self, level: int, key: tuple[str, str], message: str, trace: str, untold: int) -> None:
        where = self.placed("")
        often = f"; it has begun {untold:,} more times since this was last told" if untold > 1 else ""
        shown = "".join(f"\n  {each}" for each in trace.splitlines())
        LOG.log(level, "%s%s %r: %s%s%s", where, *key, message, often, shown)

    def tell_owed(self, *, at_end: bool = False) -> None:
        """Log what comes and goes and is open, if the log has not had it for a minute, or not at all *at_end*."""
        if not self._flapping.owed:
            return
        now = self._clock()
        with self._lock:
            owed = [(self._open[key], self._flapping.tell(key, now)) for key in self._flapping.due(now, at_end=at_end)]
            self._logged.update(((each.kind, each.subject), now) for each, _ in owed)
        for each, untold in owed:
            level = logging.ERROR if each.level == "error" else logging.WARNING
            self._tell(level, (each.kind, each.subject), each.message, each.trace, untold)

    def _makes_room_for(self, kind: str) -> bool:
        """Leave out a failed query, of which there may be very many and a list of their own, for another *kind*."""
        found = None if kind == "query" else next((each for each in reversed(self._open) if each[0] == "query"), None)
        if found is None:
            return False
        del self._open[found]
        self._flapping.ends(found)
        self._left_out += 1
        return True

    def _is_news(self, key: tuple[str, str], now: float, *, once: bool) -> bool:
        if key not in self._open:  # too many are open: one line a minute for all that are left out
            key = ("", "")
        logged = self._logged.get(key)
        if logged is not None and (once or 0 <= now - logged < REPEAT_S):
            return False
        self._logged[key] = now
        return True

    def worst(self, level: str, kinds: Collection[str]) -> bool:
        """Whether something of *kinds* is open at *level*."""
        return any(each.level == level and each.kind in kinds for each in self.open())

    def escalate(self, kinds: Collection[str], why: str) -> None:
        """Make errors of the open warnings of *kinds*, until they are resolved."""
        with self._lock:
            found = [(key, each) for key, each in self._open.items() if each.kind in kinds and each.level == "warning"]
            for key, each in found:
                self._lasting.add(key)
                self._flapping.tell(key, self._clock())
                self._open[key] = replace(each, level="error")
        for _, each in found:
            LOG.error("%s; %s", each, why)

    def share_log(self, logged: dict[tuple[str, str], float]) -> None:
        """Remember in *logged* what was logged when: a host that is made anew after each failure repeats nothing."""
        self._logged = logged

    def resolve(self, kind: str, subject: str, *, now: str = "is well again") -> None:
        """Close an incident, if it is open: what it was about is well again, or whatever it is *now*."""
        if not self._open:  # the usual case costs no lock, and next to nothing
            return
        key = (kind, subject_of(subject))
        if key not in self._open:
            return
        with self._lock:
            closed = self._open.pop(key, None)
            self._lasting.discard(key)
            self._logged.pop(key, None)
            was_told = self._flapping.ends(key)
        if closed is not None and was_told:
            LOG.info("%s %r %s", kind, subject, now)

    def open(self) -> tuple[Incident, ...]:
        """Return what still fails or waits, oldest first."""
        with self._lock:
            return tuple(self._open.values())

    @property
    def any_open(self) -> bool:
        """Whether anything fails or waits."""
        return bool(self._open)

    @property
    def left_out(self) -> int:
        """How many were not recorded, because too many are open."""
        return self._left_out

    @property
    def has_errors(self) -> bool:
        """Whether something that is open is an error, not a warning."""
        return any(each.level == "error" for each in self.open())


def told_trace(error: BaseException) -> str:
    """Return the traceback of *error* if it tells the user more than its sentence."""
    trace = trace_of(error)
    with apart(error):
        says_all = is_a(error, ReliableRxError) and not is_a(error, StoredError) and _is_inside(error)
    if says_all:
        LOG.debug("%s", trace)
        return ""
    return trace


def _is_inside(error: BaseException | None) -> bool:
    """Whether neither *error* nor what led to it has passed a line of the user's."""
    for _ in range(CHAIN_MAX):
        if error is None:
            return True
        if is_odd(error) or own_frame(error) is not None:
            return False
        error = before(error)
    return True


def subject_of(text: str) -> str:
    """Return *text* as a register has it: one line, of a bounded length."""
    return one_line(printable(text, SUBJECT_MAX))
