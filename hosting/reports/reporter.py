"""What goes wrong inside an evaluator, told to its register of incidents between turns.

The engine is pure: it leaves the names of queries that something has happened to, and here they are looked up. What a
replay repeats is not told again; queries that had failed before the start are told once, as such. What lasts (a clock
that waits, a loop that takes no turns) is looked for a few times a second.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from checkpoint.format.stored_errors import trace_of
from hosting.admission.emitted import STREAMS_MAX, EarlyLooks, look
from hosting.admission.mutations import Mutations
from hosting.engine.hosted_query import FAILED, Standing
from hosting.engine.skipping import place_of
from hosting.evaluator.host_clock import remedy_of_late
from hosting.evaluator.interpreters import with_text
from hosting.reports.causes import name_some, readers_of, sentence, upstream_of
from hosting.reports.failure_summary import (
    INCIDENTS_MAX,
    count_of,
    in_checkpoint,
    of_incidents,
    of_queries,
    own,
    shortened,
)
from hosting.reports.held_back import HeldBackWatch
from hosting.reports.identity_keys import IdentityKeys
from hosting.reports.lasting import LastingTroubles, Observed
from hosting.reports.loop_reports import LoopReports
from hosting.reports.observing import observe
from hosting.reports.status_file import StatusFile
from hosting.reports.store_commands import way_to_restart
from hosting.reports.unknown_sources import UnknownSources
from reliable_rx.class_of import is_a
from reliable_rx.errors import StoreUnavailable, described
from reliable_rx.operators.contract.arguments import plural

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator

LOG = logging.getLogger("reliable_rx")
ENDS = {"ends": True}
"""What marks the record of what ends a process, for who says that anyway."""
LOOK_S = 0.25
DROPPED = frozenset({"skipped", "late"})
LEFT_OUT_NAMED_MAX = 5
STATUS_S, STATUS_IDLE_S = 1.0, 10.0


class Reporter:
    """What one evaluator tells of itself; `look` is called between turns."""

    def __init__(self, evaluator: QueryEvaluator) -> None:
        self.evaluator = evaluator
        self.incidents = evaluator.incidents
        self.news: dict[str, None] = {}
        evaluator.engine.news = self.news
        self._unchanged: set[str] = set()
        self._skips: dict[str, tuple[str, str]] = {}
        """Of each query that has skipped events the last one, in words, and the traceback."""
        evaluator.journal_worker.told = self.told_journal
        self._early, self.mutations = EarlyLooks(self.incidents), Mutations(self.incidents)
        self.identity_keys = IdentityKeys(self.incidents, evaluator.engine)
        self._held_back, self._unknown = HeldBackWatch(self.incidents), UnknownSources(self.incidents)
        self.failed: dict[str, dict[str, Any]] = {}
        self._ended: set[str] = set()
        self._again: set[str] = set()
        """Queries that gave something else in the replay of this start than before."""
        self.has_begun = self._has_last_words = self._hands_on = False
        self._earlier: list[dict[str, Any]] = []
        directory = getattr(evaluator.store, "directory", None)
        is_hosted = evaluator.journal_worker.threaded
        self.file = StatusFile(directory) if is_hosted and isinstance(directory, Path) else None
        self._written: tuple[Any, ...] = ()
        self._write_at = monotonic() + STATUS_S
        self._look_at = 0.0
        observed = Observed(
            turns=lambda: evaluator.engine.number,
            journal=evaluator.store.journal,
            writes=evaluator.journal_worker,
            attempt=lambda: evaluator.checkpointer.attempt,
            calls=evaluator.calls,
            troubles=evaluator.intake.troubles,
        )
        self._lasting = LastingTroubles(observed, self.incidents)
        self.loop = LoopReports(evaluator, self.incidents, write=self._write_now)

    def starting(self) -> None:
        """A start begins, which may take long: `status` is to know of it."""
        if self.file is not None and not self._hands_on:
            self.file.begin()

    def begin(self) -> None:
        """After a start: tell once what was so before it."""
        self.evaluator.engine.effects.clear()
        handed_on = {each["subject"] for each in self._earlier if each["kind"] in DROPPED}
        for each in self.evaluator.engine.standing.values():
            self.look_at_query(each.name)
            if each.status == FAILED:
                self._told_failed(each, when=self._since(each.name))
            if (
                each.skipped > each.faults.mended or (each.clock is not None and each.clock.late)
            ) and each.name not in handed_on:
                self._tell_dropped(each.name, each, once=True)
        self.evaluator.engine.mishaps.clear()
        self.news.clear()
        self._tell_sources("had ended in an earlier run")
        self._tell_left_out()
        self.evaluator.late.tell()
        lasting = self.evaluator.warnings.lasting
        for number, warning in enumerate(lasting, 1):
            self.incidents.report("recovery", f"warning {number}", warning, level=logging.WARNING)
        self.has_begun = True
        if self.file is not None and not self._hands_on:
            self._write(self.file, monotonic())

    def replayed(self) -> None:
        """The journalled turns have been taken again: what ends from now on has not ended before."""
        self.news.clear()
        self._again = set(self.evaluator.engine.suspended.differing)

    def _since(self, name: str) -> str:
        """Say when a query has failed that is found to have at a start."""
        if name in self.news:
            return ""
        return " when its turns were taken again" if name in self._again else " in an earlier run"

    def hand_on(self, earlier: Iterable[dict[str, Any]]) -> None:
        """Keep what an *earlier* run has left open: this one has neither the sinks nor the records that it is about."""
        self._hands_on, self._earlier = True, list(earlier)

    def is_over(self, kind: str, subject: str) -> None:
        """Forget what an earlier run has left open, and a command has ended."""
        self._earlier = [each for each in self._earlier if (each["kind"], each["subject"]) != (kind, subject)]

    def look(self) -> None:
        """Tell what has happened since the last time."""
        if self.loop.stands:
            self.loop.goes_on()
        self._tell_news(monotonic())

    def at_end(self) -> None:
        """A run has ended, or the evaluator does: tell all that a step later or the next checkpoint would tell."""
        if self.has_begun and self.evaluator.lifecycle.broken is None:
            if (attempt := self.evaluator.checkpointer.attempt) is not None:
                for name, segments in islice(attempt.outputs.items(), STREAMS_MAX):
                    look(self.incidents, name, segments)
            self._early.look(self.evaluator.streams)
            self._look_at = self._write_at = 0.0  # no step may follow
            self._tell_news(monotonic())
            self.incidents.tell_owed(at_end=True)

    def _tell_news(self, now: float) -> None:
        if self.news:
            self.tell_queries()
        if self.evaluator.engine.effects:
            self._tell_effects()
        if self.evaluator.intake.late.untold and self.has_begun:
            self.evaluator.late.tell()
        if len(self.evaluator.engine.failures) != len(self._ended):
            self._tell_sources("has ended")
        if (readers := self.evaluator.engine.readers).unknown:
            self._unknown.look(readers, again=now >= self._look_at)
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._lasting.look(now)
            if self.incidents.any_open:
                self._lasting.escalate(now)
            self.evaluator.time.tell(self.evaluator.engine)
            self._held_back.look(now, self.evaluator.engine.watermarks.by_name, self.evaluator.intake)
            if self.file is not None and now >= self._write_at and not (self._hands_on or self._has_last_words):
                self._write(self.file, now)

    def close(self) -> None:
        """The evaluator ends: leave what is open where `status` finds it until the next start."""
        broken = self.evaluator.lifecycle.broken or self.loop.error
        if self.file is None or self._has_last_words:
            return
        if broken is not None:
            if not self._hands_on:
                self.file.write({**self._status(), "ended": described(broken)})
        elif self.has_begun:
            self.tell_queries()
            self.file.write({**self._status(), "stopped": True})

    def halted(self, error: Exception) -> None:
        """A step has raised *error*: nothing happens any more until there is another one."""
        if is_a(error, StoreUnavailable) or not self.has_begun:
            return
        self._written = ()
        self.loop.halted(error)

    def _write_now(self) -> None:
        """Tell other processes at once."""
        if self.file is not None and not self._hands_on:
            self.file.write(self._status())

    def last_words(self, error: BaseException) -> None:
        """The process ends because of *error*: log it, and leave it where `status` finds it until the next start."""
        self._has_last_words = True
        if self.loop.told is not error:
            LOG.error("the run has ended: %s", described(error), extra=ENDS)
        if self.file is not None:
            self.file.write({**self._status(), "ended": described(error)})

    @property
    def waits(self) -> dict[str, str]:
        """What the clocks of queries wait for that stand still."""
        return self._held_back.still

    def summary(self) -> dict[str, Any]:
        """Return what has failed and what is open, as plain data, for those who cannot load what is stored."""
        found = own(self.incidents.open()) if self._hands_on else self.incidents.open()
        return {
            **of_queries(self.failed.values()),
            **of_incidents(found, self.incidents.left_out, self._earlier),
        }

    def for_checkpoint(self) -> dict[str, Any]:
        """Return what a checkpoint remembers of it."""
        self._early.seen.clear()
        self.evaluator.time.tell(self.evaluator.engine)  # a short run ends before it is looked for
        self.tell_queries()
        return in_checkpoint(self.summary())

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
        evaluator, summary = self.evaluator, self.summary()
        checkpoint, trouble = evaluator.checkpointer.figures(), evaluator.trouble or evaluator.holders.trouble
        figures = {
            "turns": evaluator.engine.number,
            "events_in": evaluator.events_in,
            "events_out": evaluator.streams.events_out,
            "queries": count_of(evaluator.engine.standing),
        }
        return {
            **({} if self._hands_on else figures),
            "checkpoint": 0 if checkpoint is None else checkpoint.generation,
            "trouble": str(trouble),
            "waits": dict(islice(self.waits.items(), INCIDENTS_MAX)),
            **summary,
            "failed": [shortened(each) for each in summary["failed"]],
            **({} if self.loop.error is None else {"ended": described(self.loop.error)}),
        }

    # -- looks

    def look_at_query(self, name: str) -> None:
        """Look at the functions of the query *name*, if it is there."""
        observe(self.incidents, "changes in place", self.mutations.look, name, self.evaluator.engine.standing.get(name))

    def look_at_rows(self, units: Collection[Any]) -> None:
        """Look at rows that have been written."""
        observe(self.incidents, "identity", self.identity_keys.look, units)

    def look_at_first(self) -> None:
        """Look at rows that have been read."""
        observe(self.incidents, "identity", self.identity_keys.look_at_first, self.evaluator.engine.standing.values())

    # -- queries

    def tell_queries(self) -> None:
        """Tell of queries that something has happened to; between turns, under the lock of the evaluator."""
        names = list(self.news)
        self.news.clear()
        for name in names:
            standing = self.evaluator.engine.standing.get(name)
            if standing is None or standing.status != FAILED:
                self.incidents.resolve("query", name)
                self.failed.pop(name, None)
            else:
                self._told_failed(standing)
            self._tell_dropped(name, standing)
            self.look_at_query(name)
            self.identity_keys.settle(name, standing)

    def _told_failed(self, standing: Standing, *, when: str = "") -> None:
        engine, error = self.evaluator.engine, standing.error
        failure = with_text(engine, standing)
        upstream = upstream_of(engine, standing)
        trace = "" if failure is None or upstream is not None else failure.trace
        self.failed[standing.name] = {
            "name": standing.name,
            "error": "" if error is None else described(error),
            "emitted": standing.emitted,
            "failed_at": None if failure is None else failure.at._asdict(),
            "upstream": "" if upstream is None else upstream.name,
            "trace": trace,
        }
        unchanged, untold = standing.name in self._unchanged, engine.suspended.untold.get(standing.name, "")
        again = way_to_restart(self.evaluator.store, standing.name)
        message = sentence(engine, standing, again=again, when=when, unchanged=unchanged, untold=untold)
        self.incidents.report("query", standing.name, message, trace=trace)

    def told_unchanged(self, name: str) -> None:
        """A query that has failed was declared as it is: it does not run again by that."""
        self._unchanged.add(name)
        if self.has_begun and name not in self.evaluator.engine.suspended.untold:
            LOG.warning(
                "query %r was created as it is, and has failed: edit it, or restart(%r) runs it again", name, name
            )

    def told_disposed(self, name: str) -> None:
        """A query is about to be disposed of: its stream ends for those that read it."""
        if found := readers_of(self.evaluator.engine, name):
            LOG.warning("query %r is disposed of, and its stream ends for %s", name, name_some(found))

    def _tell_effects(self) -> None:
        effects = self.evaluator.engine.effects
        for path, error in effects.items():
            message = (
                f"what it does last (finally_action, using) has failed with {described(error)}; it has ended anyway"
            )
            self.incidents.report("effect", path, message, error=error, level=logging.WARNING)
        effects.clear()

    def _tell_sources(self, what: str) -> None:
        failures = self.evaluator.engine.failures
        for name in self._ended - failures.keys():
            self.incidents.resolve("source", name)
        for name in failures.keys() - self._ended:
            message = f"{what} with {described(failures[name])}; what reads it has been told. Mend it and read it anew"
            self.incidents.report("source", name, message)
        self._ended = set(failures)

    def _tell_left_out(self) -> None:
        for name, source in self.evaluator.intake.sources.items():
            if left_out := getattr(source, "left_out", ()):
                some = ", ".join(left_out[:LEFT_OUT_NAMED_MAX])
                more = f" and {len(left_out) - LEFT_OUT_NAMED_MAX:,} more" * (len(left_out) > LEFT_OUT_NAMED_MAX)
                message = f"its pattern matches what is not read: {some}{more}; mend that, or narrow the pattern"
                self.incidents.report("left out", name, message, level=logging.WARNING)

    def _tell_dropped(self, name: str, standing: Standing | None, *, once: bool = False) -> None:
        """Tell of events that were skipped since the query was edited, or came too late; *once*: log no repetition."""
        skipped = 0 if standing is None else standing.skipped - standing.faults.mended
        if standing is not None and skipped:
            fate = f"put into the stream {name}.dead_letters" if standing.policy == "dead_letter" else "lost"
            since = "since it was edited" if standing.faults.mended else "so far"
            message = f"it raised at {plural(skipped, 'event')} {since}, which {'is' if skipped == 1 else 'are'} {fate}"
            if (mishap := self.evaluator.engine.mishaps.pop(name, None)) is not None:
                self._skips[name] = f"; the last, {place_of(mishap[0])}: {described(mishap[1])}", trace_of(mishap[1])
            where, trace = self._skips.get(name, ("", ""))
            self.incidents.report("skipped", name, f"{message}{where}", trace=trace, level=logging.WARNING, once=once)
        else:
            self._skips.pop(name, None)
            self.incidents.resolve("skipped", name)
        clock = None if standing is None else standing.clock
        if clock is not None and clock.late:
            fates = {"side": f"put into the stream {name}.late", "keep": "processed behind others"}
            spec = vars(clock).get("spec")  # a query that had ended before this start has none
            fate = "" if spec is None else f": {fates.get(spec.late, 'dropped')}"
            message = f"{plural(clock.late, 'event')} so far came behind its clock{fate}; {remedy_of_late(clock)}"
            self.incidents.report("late", name, message, level=logging.WARNING, once=once)
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
        elif self.evaluator.outlets.trouble is not None:
            self.incidents.report("checkpoint", "store", f"waits for a sink: {trouble}", level=logging.WARNING)
        else:
            self.incidents.report("checkpoint", "store", f"{trouble}; it is tried again, and no turn is taken before")
