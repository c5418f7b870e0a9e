"""Troubles that show only by how long they last: a journal that stands, a source that waits, no turn for minutes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from time import monotonic
from typing import NamedTuple

from checkpoint.sealed_log.journal import Journal
from hosting.engine.pending_calls import standing_of
from hosting.evaluator.attempt import Attempt
from hosting.evaluator.call_executor import Calls
from hosting.evaluator.serial_executor import Worker
from hosting.reports.incidents import STOPPING, Incidents
from hosting.reports.loop_reports import LASTING_S

BLOCKED = (
    "its timeout_s is over: does it block its thread (time.sleep, no await)? Then write await asyncio.to_thread(...)"
)
JOURNAL_S, COMMIT_S = 5.0, 60.0
"""How long the journal makes no turn durable, and a checkpoint is being committed, before that is told."""


class Observed(NamedTuple):
    """The parts of a host that are looked at; *turns* counts the turns, *troubles* says what each source waits for."""

    turns: Callable[[], int]
    journal: Journal
    writes: Worker
    attempt: Callable[[], Attempt | None]
    calls: Calls
    troubles: Callable[[], Iterable[tuple[str, str]]]


class LastingTroubles:
    """Looks for troubles in the *observed* parts a few times a second."""

    def __init__(self, observed: Observed, incidents: Incidents) -> None:
        self.observed, self.incidents = observed, incidents
        self._stages: dict[str, tuple[int, float]] = {}
        self._turn_at = -1, monotonic()
        self._caller: str | None = None

    def look(self, now: float) -> None:
        """Tell what does not get on, and what sources wait for."""
        self._stall(now)
        self._waiting()
        if self.observed.calls.made or self._caller is not None:
            self._calls(now)

    def _stall(self, now: float) -> None:
        """Look whether what is written behind the loop gets on."""
        journal, attempt = self.observed.writes, self.observed.attempt()
        is_behind = journal.busy and journal.trouble is None
        self._follow("journal", self.observed.journal.last_turn if is_behind else None, now, JOURNAL_S)
        is_on_its_way = attempt is not None and attempt.submitted and not attempt.settled
        self._follow("checkpoint", attempt.generation if is_on_its_way and attempt is not None else None, now, COMMIT_S)

    def _waiting(self) -> None:
        """Tell of the sources that wait."""
        for name, trouble in self.observed.troubles():
            if trouble:
                self.incidents.report("source waits", name, f"{trouble}; it goes on by itself", level=logging.WARNING)
            else:
                self.incidents.resolve("source waits", name)

    def _calls(self, now: float) -> None:
        """Tell of a call that has no answer, and of the sources that wait for it."""
        calls = self.observed.calls
        late, full = calls.late(now), calls.asked.full
        caller = None if late is None else standing_of(late[0][0]).name
        if late is not None and caller is not None:
            (_, node), made = late
            limit = "have it answer, or give it a timeout_s" if made.timeout_s is None else BLOCKED
            message = f"a call of {node.path} has had no answer for {now - made.since:.0f} s; {limit}"
            self.incidents.report("call waits", caller, message, level=logging.WARNING)
        if self._caller is not None and self._caller != caller:
            self.incidents.resolve("call waits", self._caller)
        self._caller = caller
        if caller is not None and full:
            waits = ", ".join(sorted({repr(standing_of(instance).name) for instance, _ in full}))
            message = f"no event is taken from any source, since {waits} can hold no more elements that wait for calls"
            self.incidents.report(
                "stall", "calls", f"{message}; a call of {caller!r} has no answer", level=logging.WARNING
            )
        else:
            self.incidents.resolve("stall", "calls")

    def escalate(self, now: float) -> None:
        """Make errors of the warnings for which no turn has been taken for long."""
        self.incidents.tell_owed()
        number = self.observed.turns()
        if number != self._turn_at[0] or self.incidents.worst("error", STOPPING):
            self._turn_at = number, now
        elif now - self._turn_at[1] >= LASTING_S and self.incidents.worst("warning", STOPPING):
            self.incidents.escalate(STOPPING, f"no turn has been taken for {now - self._turn_at[1]:.0f} s")

    def _follow(self, what: str, stage: int | None, now: float, most_s: float) -> None:
        """Tell of *what* if it has been at one *stage* for *most_s*; None: it has nothing to do."""
        before = self._stages.get(what)
        if before is not None and before[0] == stage:
            if now - before[1] >= most_s:
                message = (
                    f"it has not got on for {now - before[1]:.0f} s: is the disk slow? Nothing new is visible before"
                )
                self.incidents.report("stall", what, message, level=logging.WARNING)
            return
        self.incidents.resolve("stall", what)
        if stage is None:
            self._stages.pop(what, None)
        else:
            self._stages[what] = stage, now
