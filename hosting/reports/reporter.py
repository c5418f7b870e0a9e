"""What goes wrong inside an evaluator, told to its register of incidents between turns.

The engine is pure: it leaves the names of queries that something has happened to, and here they are looked up. What a
replay repeats is not told again; queries that had failed before the start are told once, as such. What lasts (a clock
that waits, a loop that takes no turns) is looked for a few times a second.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from time import monotonic
from types import FrameType
from typing import Any, Protocol

from checkpoint.format.stored_errors import trace_of
from checkpoint.store import Store
from hosting.admission.emitted import STREAMS_MAX, EarlyLooks, look
from hosting.admission.mutations import Mutations
from hosting.edges.ingress import Intake
from hosting.edges.streams import Streams
from hosting.engine.engine import QueryEngine
from hosting.engine.failing import with_text
from hosting.engine.failure import clear_frames
from hosting.engine.hosted_query import FAILED, Standing
from hosting.engine.skipping import place_of
from hosting.engine.unheard import WHAT
from hosting.evaluator.call_executor import Calls
from hosting.evaluator.host_clock import HostClock, remedy_of_late
from hosting.evaluator.lifecycle import Lifecycle
from hosting.evaluator.serial_executor import Worker
from hosting.reports.causes import name_some, readers_of, sentence, upstream_of
from hosting.reports.failure_summary import (
    in_checkpoint,
    of_incidents,
    of_queries,
    own,
)
from hosting.reports.held_back import HeldBackWatch
from hosting.reports.identity_keys import IdentityKeys
from hosting.reports.incidents import Incidents
from hosting.reports.lasting import LastingTroubles, Observed
from hosting.reports.live_status import Checkpoints, Counted, LiveStatus
from hosting.reports.log import LOG
from hosting.reports.loop_reports import LoopReports
from hosting.reports.observing import observe
from hosting.reports.start_warnings import StartWarnings
from hosting.reports.store_commands import way_to_restart
from hosting.reports.unknown_sources import UnknownSources
from reliable_rx.class_of import is_a
from reliable_rx.errors import StoreUnavailable, described
from reliable_rx.operators.contract.arguments import plural

ENDS = {"ends": True}
"""What marks the record of what ends a process, for who says that anyway."""
LOOK_S = 0.25
DROPPED = frozenset({"skipped", "late"})
LEFT_OUT_NAMED_MAX = 5


class Stalled(Protocol):
    """What turns may wait for."""

    @property
    def trouble(self) -> StoreUnavailable | None: ...


class Reporter:
    """What one evaluator tells of itself; `look` is called between turns.

    *trouble* returns why no turns are taken, *sinks* have it if it is theirs; *checkpoints* returns what takes these,
    and *late* tells of partitions that have come behind the end of their source.
    """

    def __init__(
        self,
        engine: QueryEngine,
        store: Store,
        *,
        incidents: Incidents,
        intake: Intake,
        streams: Streams,
        time: HostClock,
        calls: Calls,
        worker: Worker,
        lifecycle: Lifecycle,
        warnings: StartWarnings,
        turns: Counted,
        sinks: Stalled,
        trouble: Callable[[], StoreUnavailable | str | None],
        checkpoints: Callable[[], Checkpoints],
        late: Callable[[], None],
    ) -> None:
        self._engine, self._store, self.incidents, self._intake = engine, store, incidents, intake
        self._streams, self._time, self._lifecycle, self._warnings = streams, time, lifecycle, warnings
        self._sinks, self._checkpoints, self._tell_late = sinks, checkpoints, late
        self.news: dict[str, None] = {}
        engine.news = self.news
        self._unchanged: set[str] = set()
        self._skips: dict[str, tuple[str, str]] = {}
        """Of each query that has skipped events the last one, in words, and the traceback."""
        worker.told = self.told_journal
        self._early, self.mutations = EarlyLooks(self.incidents), Mutations(self.incidents)
        self.identity_keys = IdentityKeys(self.incidents, engine)
        self._held_back, self._unknown = HeldBackWatch(self.incidents), UnknownSources(self.incidents)
        self.failed: dict[str, dict[str, Any]] = {}
        self._ended: set[str] = set()
        self._again: set[str] = set()
        """Queries that gave something else in the replay of this start than before."""
        self.has_begun = self.hands_on = False
        self._earlier: list[dict[str, Any]] = []
        self._look_at = 0.0
        observed = Observed(
            turns=lambda: engine.number, journal=store.journal, writes=worker, calls=calls, troubles=intake.troubles,
            attempt=lambda: checkpoints().attempt)  # fmt: skip
        self._lasting = LastingTroubles(observed, self.incidents)
        self.status = LiveStatus(
            engine, store, hosted=worker.threaded, incidents=incidents, turns=turns, streams=streams, told=self,
            checkpoints=checkpoints, trouble=trouble)  # fmt: skip
        self.loop = LoopReports(
            engine, lifecycle, incidents, inputs=intake, write=self.status.write_now, has_begun=lambda: self.has_begun
        )

    @property
    def error(self) -> BaseException | None:
        """What a step has raised, if none has followed it."""
        return self.loop.error

    def begin(self) -> None:
        """After a start: tell once what was so before it."""
        self._engine.unheard_errors.clear()
        handed_on = {each["subject"] for each in self._earlier if each["kind"] in DROPPED}
        for each in self._engine.standing.values():
            self.look_at_query(each.name)
            if each.status == FAILED:
                self._told_failed(each, when=self._since(each.name))
            if (
                each.skipped > each.faults.mended or (each.clock is not None and each.clock.late)
            ) and each.name not in handed_on:
                self._tell_dropped(each.name, each, once=True)
        self._engine.mishaps.clear()
        self.news.clear()
        self._tell_sources("had ended in an earlier run")
        self._tell_left_out()
        self._tell_late()
        lasting = self._warnings.lasting
        for number, warning in enumerate(lasting, 1):
            self.incidents.report("recovery", f"warning {number}", warning, level=logging.WARNING)
        self.has_begun = True
        self.status.forget()
        self.status.look(monotonic())

    def replayed(self) -> None:
        """The journalled turns have been taken again: what ends from now on has not ended before."""
        self.news.clear()
        self._again = set(self._engine.suspended.differing)

    def _since(self, name: str) -> str:
        """Say when a query has failed that is found to have at a start."""
        if name in self.news:
            return ""
        return " when its turns were taken again" if name in self._again else " in an earlier run"

    def hand_on(self, earlier: Iterable[dict[str, Any]]) -> None:
        """Keep what an *earlier* run has left open: this one has neither the sinks nor the records that it is about."""
        self.hands_on, self._earlier = True, list(earlier)

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
        if self.has_begun and self._lifecycle.broken is None:
            if (attempt := self._checkpoints().attempt) is not None:
                for name, segments in islice(attempt.outputs.items(), STREAMS_MAX):
                    look(self.incidents, name, segments)
            self._early.look(self._streams)
            self._look_at = 0.0  # no step may follow
            self.status.forget()
            self._tell_news(monotonic())
            self.incidents.tell_owed(at_end=True)

    def _tell_news(self, now: float) -> None:
        if self.news:
            self.tell_queries()
        if self._engine.unheard_errors:
            self._tell_unheard()
        if self._intake.late.untold and self.has_begun:
            self._tell_late()
        if len(self._engine.failures) != len(self._ended):
            self._tell_sources("has ended")
        if (readers := self._engine.readers).unknown:
            self._unknown.look(readers, again=now >= self._look_at)
        if now >= self._look_at:
            self._look_at = now + LOOK_S
            self._lasting.look(now)
            if self.incidents.any_open:
                self._lasting.escalate(now)
            self._time.tell(self._engine)
            self._held_back.look(now, self._engine.watermarks.by_name, self._intake)
            self.status.look(now)

    def close(self) -> None:
        """The evaluator ends: leave what is open where `status` finds it until the next start."""
        broken = self._lifecycle.broken or self.loop.error
        if broken is not None:
            self.status.broken(broken)
        elif self.has_begun and self.status.is_kept:
            self.tell_queries()
            self.status.stopped()

    def halted(self, error: Exception) -> None:
        """A step has raised *error*: nothing happens any more until there is another one."""
        if is_a(error, StoreUnavailable) or not self.has_begun:
            return
        self.status.forget()
        self.loop.halted(error)

    def last_words(self, error: BaseException) -> None:
        """The process ends because of *error*: log it, and leave it where `status` finds it until the next start."""
        if self.loop.told is not error:
            LOG.error("the run has ended: %s", described(error), extra=ENDS)
        self.status.last_words(error)

    @property
    def waits(self) -> dict[str, str]:
        """What the clocks of queries wait for that stand still."""
        return self._held_back.still

    def summary(self) -> dict[str, Any]:
        """Return what has failed and what is open, as plain data, for those who cannot load what is stored."""
        found = own(self.incidents.open()) if self.hands_on else self.incidents.open()
        return {
            **of_queries(self.failed.values()),
            **of_incidents(found, self.incidents.left_out, self._earlier),
        }

    def for_checkpoint(self) -> dict[str, Any]:
        """Return what a checkpoint remembers of it."""
        self._early.seen.clear()
        self._time.tell(self._engine)  # a short run ends before it is looked for
        self.tell_queries()
        return in_checkpoint(self.summary())

    # -- looks

    def look_at_query(self, name: str) -> None:
        """Look at the functions of the query *name*, if it is there."""
        observe(self.incidents, "changes in place", self.mutations.look, name, self._engine.standing.get(name))

    def look_at_rows(self, units: Collection[Any]) -> None:
        """Look at rows that have been written."""
        observe(self.incidents, "identity", self.identity_keys.look, units)

    def look_at_first(self) -> None:
        """Look at rows that have been read."""
        observe(self.incidents, "identity", self.identity_keys.look_at_first, self._engine.standing.values())

    # -- queries

    def tell_queries(self) -> None:
        """Tell of queries that something has happened to; between turns, under the lock of the evaluator."""
        names, seen = list(self.news), set[FrameType]()
        self.news.clear()
        for name in names:
            standing = self._engine.standing.get(name)
            if standing is None or standing.status != FAILED:
                self.incidents.resolve("query", name)
                self.failed.pop(name, None)
            else:
                self._told_failed(standing)
                if standing.error is not None:
                    observe(self.incidents, "frames", clear_frames, standing.error, seen)  # its stream keeps it
            self._tell_dropped(name, standing)
            self.look_at_query(name)
            self.identity_keys.settle(name, standing)

    def _told_failed(self, standing: Standing, *, when: str = "") -> None:
        engine, error = self._engine, standing.error
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
        again = way_to_restart(self._store, standing.name)
        message = sentence(engine, standing, again=again, when=when, unchanged=unchanged, untold=untold)
        self.incidents.report("query", standing.name, message, trace=trace)

    def told_unchanged(self, name: str) -> None:
        """A query that has failed was declared as it is: it does not run again by that."""
        self._unchanged.add(name)
        if self.has_begun and name not in self._engine.suspended.untold:
            LOG.warning(
                "query %r was created as it is, and has failed: edit it, or restart(%r) runs it again", name, name
            )

    def told_disposed(self, name: str) -> None:
        """A query is about to be disposed of: its stream ends for those that read it."""
        if found := readers_of(self._engine, name):
            LOG.warning("query %r is disposed of, and its stream ends for %s", name, name_some(found))

    def _tell_unheard(self) -> None:
        for (kind, path), error in self._engine.unheard_errors.items():
            self.incidents.report(
                kind, path, f"{WHAT[kind]} has failed with {described(error)}; it has ended anyway",
                error=error, level=logging.WARNING,
            )  # fmt: skip
        self._engine.unheard_errors.clear()

    def _tell_sources(self, what: str) -> None:
        failures = self._engine.failures
        for name in self._ended - failures.keys():
            self.incidents.resolve("source", name)
        for name in failures.keys() - self._ended:
            message = f"{what} with {described(failures[name])}; what reads it has been told. Mend it and read it anew"
            self.incidents.report("source", name, message)
        self._ended = set(failures)

    def _tell_left_out(self) -> None:
        for name, source in self._intake.sources.items():
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
            if (mishap := self._engine.mishaps.pop(name, None)) is not None:
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

    def told_pushed(self, name: str, trouble: StoreUnavailable | None) -> None:
        """From any thread: a value could not be pushed into *name*, or one can be again."""
        if trouble is None:
            self.incidents.resolve("pushed", name)
        elif not self._lifecycle.closed:  # the store may be closed behind it, and has not failed
            self.incidents.report("pushed", name, f"{trouble}; who pushes is told, and nothing goes in until it can")

    def told_checkpoint(self, trouble: StoreUnavailable | None) -> None:
        """A checkpoint could not be taken, or has been."""
        if trouble is None:
            self.incidents.resolve("checkpoint", "store")
        elif self._sinks.trouble is not None:
            self.incidents.report("checkpoint", "store", f"waits for a sink: {trouble}", level=logging.WARNING)
        else:
            self.incidents.report("checkpoint", "store", f"{trouble}; it is tried again, and no turn is taken before")
