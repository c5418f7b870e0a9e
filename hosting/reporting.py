"""What goes wrong inside an evaluator, told to its register of incidents between turns.

The engine is pure: it leaves the names of queries that something has happened to, and here they are looked up. What a
replay repeats is not told again; queries that had failed before the start are told once, as such. What lasts (a clock
that waits, a loop that takes no turns) is looked for a few times a second.
"""

from __future__ import annotations

import logging
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from hosting.held_back import HeldBackWatch
from hosting.standing import FAILED, Standing
from hosting.status_file import StatusFile
from reliable_rx.errors import StoreUnavailable, described

if TYPE_CHECKING:
    from hosting.evaluator import QueryEvaluator

LOG = logging.getLogger("reliable_rx")
LOOK_S = 0.25
TRACES_MAX = 20
"""How many failed queries a checkpoint's summary has with their traceback: the others are in their rows."""
SUMMARY_MAX = 1000
INCIDENTS_MAX, TRACE_MAX = 100, 2000
"""What a status file has at most: so many incidents, the newest, and so many characters of each traceback."""
STATUS_S, STATUS_IDLE_S = 1.0, 10.0
STALL_S = 5.0
"""How long no turn is taken before it is told."""


class Reporter:
    """What one evaluator tells of itself; `look` is called between turns."""

    def __init__(self, evaluator: QueryEvaluator) -> None:
        self.evaluator = evaluator
        self.incidents = evaluator.incidents
        self.news: dict[str, None] = {}
        evaluator.engine.news = self.news
        evaluator.journal_worker.told = self.told_journal
        self._held_back = HeldBackWatch(self.incidents)
        self._failed: dict[str, dict[str, Any]] = {}
        self._ended: set[str] = set()
        self._has_last_words = False
        directory = getattr(evaluator.store, "directory", None)
        is_alone = bool(evaluator.threads)  # those of a node have a status of their own
        self._file = StatusFile(directory) if is_alone and isinstance(directory, Path) else None
        self._written: tuple[Any, ...] = ()
        self._write_at = monotonic() + STATUS_S
        self._look_at = 0.0
        self._stalled_since: float | None = None

    def begin(self) -> None:
        """After a start: tell once what was so before it."""
        self.news.clear()
        for each in self.evaluator.engine.standing.values():
            if each.status == FAILED:
                self._told_failed(each, "has failed in an earlier run, at")
        self._tell_sources("had ended in an earlier run")
        for number, warning in enumerate(self.evaluator.warnings, 1):
            self.incidents.report("recovery", f"warning {number}", warning, level=logging.WARNING)

    def look(self) -> None:
        """Tell what has happened since the last time."""
        if self.news:
            self._tell_queries()
        if len(self.evaluator.engine.failures) != len(self._ended):
            self._tell_sources("has ended")
        now = monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._tell_stall(now)
            self.evaluator.time.tell(self.evaluator.engine)
            if self._file is not None and now >= self._write_at:
                self._write(self._file, now)
            self._held_back.look(now, self.evaluator.engine.watermarks.by_name, self.evaluator.intake)

    def close(self) -> None:
        """The evaluator ends."""
        if self._file is not None and not self._has_last_words:
            self._file.remove()

    def last_words(self, error: BaseException) -> None:
        """The process ends because of *error*: log it, and leave it where `status` finds it until the next start."""
        self._has_last_words = True
        LOG.error("the run has ended: %s", described(error))
        if self._file is not None:
            self._file.write({**self._status(), "ended": described(error)})

    @property
    def waits(self) -> dict[str, str]:
        """What the clocks of queries wait for that stand still."""
        return self._held_back.still

    def failed_queries(self) -> list[dict[str, Any]]:
        """Return which queries have failed, as plain data, for those who cannot load what is stored with them."""
        if self.news:
            self._tell_queries()
        failed = list(self._failed.values())[:SUMMARY_MAX]
        return [each if number < TRACES_MAX else {**each, "trace": ""} for number, each in enumerate(failed)]

    def _write(self, file: StatusFile, now: float) -> None:
        """Tell other processes, if there is anything new."""
        evaluator = self.evaluator
        incidents, trouble = self.incidents.open(), evaluator.trouble
        state = (evaluator.engine.number, incidents, trouble, self.waits)
        if state == self._written and now < self._write_at + STATUS_IDLE_S:
            return
        self._written, self._write_at = state, now + STATUS_S
        file.write(self._status())

    def _status(self) -> dict[str, Any]:
        evaluator, incidents = self.evaluator, self.incidents.open()
        checkpoint, trouble = evaluator.checkpointer.figures(), evaluator.trouble or evaluator.holders.trouble
        return {
            "turns": evaluator.engine.number,
            "events_in": evaluator.events_in,
            "events_out": evaluator.streams.events_out,
            "queries": len(evaluator.engine.standing),
            "checkpoint": 0 if checkpoint is None else checkpoint.generation,
            "trouble": str(trouble),
            "waits": dict(islice(self.waits.items(), INCIDENTS_MAX)),
            "failed": [shortened(each) for each in self.failed_queries()],
            "incidents": [shortened(asdict(each)) for each in incidents[-INCIDENTS_MAX:]],
            "incidents_left_out": max(0, len(incidents) - INCIDENTS_MAX) + self.incidents.left_out,
        }

    # -- queries

    def _tell_queries(self) -> None:
        names = list(self.news)
        self.news.clear()
        for name in names:
            standing = self.evaluator.engine.standing.get(name)
            if standing is None or standing.status != FAILED:
                self.incidents.resolve("query", name)
                self._failed.pop(name, None)
            else:
                self._told_failed(standing, "has failed at")
            self._tell_dropped(name, standing)

    def _told_failed(self, standing: Standing, what: str) -> None:
        failure, error = standing.failure, standing.error
        at = "an event that is not known" if failure is None else failure.at
        why = "" if error is None else described(error)
        self._failed[standing.name] = {
            "name": standing.name,
            "error": why,
            "emitted": standing.emitted,
            "failed_at": None if failure is None else failure.at._asdict(),
            "trace": "" if failure is None else failure.trace,
        }
        self.incidents.report(
            "query", standing.name,
            f"{what} {at}: {why}; mend its function (an edited query runs again), or give it a policy",
            trace="" if failure is None else failure.trace,
        )  # fmt: skip

    def _tell_sources(self, what: str) -> None:
        failures = self.evaluator.engine.failures
        for name in self._ended - failures.keys():
            self.incidents.resolve("source", name)
        for name in failures.keys() - self._ended:
            message = f"{what} with {described(failures[name])}; what reads it has been told. Mend it and read it anew"
            self.incidents.report("source", name, message)
        self._ended = set(failures)

    def _tell_dropped(self, name: str, standing: Standing | None) -> None:
        skipped = 0 if standing is None else standing.skipped
        if skipped and standing is not None:
            where = (
                f"they are in the stream {name}.dead_letters" if standing.policy == "dead_letter" else "they are lost"
            )
            message = f"could not digest {skipped:,} events so far; {where}"
            self.incidents.report("skipped", name, message, level=logging.WARNING)
        else:
            self.incidents.resolve("skipped", name)
        clock = None if standing is None else standing.clock
        if clock is not None and clock.late:
            done = {"side": f"they are in the stream {name}.late", "keep": "they are processed behind others"}
            message = (
                f"{clock.late:,} events so far came behind its clock; {done.get(clock.spec.late, 'they are dropped')}"
            )
            self.incidents.report("late", name, f"{message}; raise lateness_s to wait longer", level=logging.WARNING)
        else:
            self.incidents.resolve("late", name)

    # -- the store

    def told_journal(self, trouble: StoreUnavailable | None) -> None:
        """From the journal's thread: it could not be written, or can be again."""
        if trouble is None:
            self.incidents.resolve("journal", "store")
        else:
            self.incidents.report("journal", "store", f"{trouble}; no turn is taken until it can be written")

    def told_checkpoint(self, trouble: StoreUnavailable | None) -> None:
        """A checkpoint could not be taken, or has been."""
        if trouble is None:
            self.incidents.resolve("checkpoint", "store")
        elif self.evaluator.outlets.trouble is None:  # else it is the sink's, which tells of it
            self.incidents.report("checkpoint", "store", f"{trouble}; it is tried again, and no turn is taken before")

    # -- what lasts

    def _tell_stall(self, now: float) -> None:
        evaluator = self.evaluator
        if evaluator.stalled_since is None or not evaluator.started or evaluator.trouble is not None:
            if self._stalled_since is not None:
                self._stalled_since = None
                self.incidents.resolve("stall", "turns")
            return
        self._stalled_since = self._stalled_since or now
        if now - self._stalled_since < STALL_S:
            return
        what = "the journal is not durable yet" if evaluator.committed else "a checkpoint is not committed yet"
        if evaluator.committed or evaluator.events_in >= evaluator.checkpointer.events_to:
            message = f"none has been taken for {now - self._stalled_since:.0f} s: {what}; is the disk slow?"
            self.incidents.report("stall", "turns", message, level=logging.WARNING)


def shortened(told: dict[str, Any]) -> dict[str, Any]:
    return {**told, "trace": told["trace"][-TRACE_MAX:]}
