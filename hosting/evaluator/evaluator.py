"""`QueryEvaluator`: an engine with edges, journal and store around it; the unit of failure.

Its loop takes one turn after the other: fetch, take, give ids, journal. Behind it two workers write the journal (group
commit) and the checkpoints. All that is visible outside is durable first, or with `at_least_once` at once. After a
crash it loads the newest checkpoint, takes the journalled turns again and goes on; outputs come under the same ids.
"""

from __future__ import annotations

import time as wall
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from checkpoint.format.code import makers
from checkpoint.store import Store
from hosting.admission import arguments
from hosting.edges.closing import close_all, let_go
from hosting.edges.holders import StreamHolders
from hosting.edges.ingress import Intake
from hosting.edges.retention import Retention
from hosting.edges.sink_writers import Outlets
from hosting.edges.start_positions import Start
from hosting.edges.streams import Streams
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import Snapshot
from hosting.engine.turns import Tick, Turn
from hosting.evaluator import group_commit
from hosting.evaluator.call_executor import Calls
from hosting.evaluator.checkpointer import Cadence, Checkpointer
from hosting.evaluator.creating import Creation, How
from hosting.evaluator.disposing import dispose, forget
from hosting.evaluator.fair_lock import Turnstile
from hosting.evaluator.following import Declared, Following
from hosting.evaluator.function_texts import FunctionTexts
from hosting.evaluator.gc_pause import no_collections
from hosting.evaluator.host_clock import HostClock
from hosting.evaluator.interpreters import Interpreters
from hosting.evaluator.late_readers import LateReaders
from hosting.evaluator.lifecycle import Lifecycle
from hosting.evaluator.looking import Looking, Working
from hosting.evaluator.loop import Guard, run
from hosting.evaluator.ownership import disown, own
from hosting.evaluator.recovery import recover
from hosting.evaluator.redefinitions import Redefinitions
from hosting.evaluator.reentrancy import Inside
from hosting.evaluator.restarting import Restarts
from hosting.evaluator.serial_executor import Lend, Worker, lenders
from hosting.evaluator.sidecars import Companions
from hosting.evaluator.source_definitions import SourceDefinitions
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.evaluator.unloaded import Unloaded
from hosting.evaluator.wakeups import Wakeups
from hosting.reports.growth import Growth
from hosting.reports.incidents import Incidents
from hosting.reports.reporter import Reporter
from hosting.reports.start_warnings import StartWarnings
from hosting.reports.statistics import RecoveryFigures
from hosting.reports.store_commands import or_repair_it
from hosting.reports.unheard import Standstill
from hosting.sources.pushed import PushedStream
from reliable_rx.event_time import EventTime
from reliable_rx.limits import Limits
from reliable_rx.names import check_name
from reliable_rx.operators.contract.choices import Delivery, OnBadRecord, OnError, Policy, names_keywords
from reliable_rx.reliable import Sink, Source
from reliable_rx.runtime.plan import NO_LIMITS

ROUND_TURNS_MAX = 256


class QueryEvaluator(Looking):
    """Host standing queries so that nothing is lost.

    >>> import reliable_rx as rx
    >>> from checkpoint import MemoryStore
    >>> from hosting import ListSource
    >>> with QueryEvaluator(MemoryStore()) as evaluator:
    ...     evaluator.source("n", ListSource([1, 2, 3]))
    ...     evaluator.create("doubled", rx.source("n").map(lambda n: n * 2))
    ...     evaluator.run()
    ...     [value for part in evaluator.stream("doubled").read(0, 10) for value in part.values]
    [2, 4, 6]

    *delivery* says when outputs are visible: after the journal is durable, or at once. A checkpoint is taken every
    *checkpoint_interval_s* seconds and every *checkpoint_events* events. Streams without a holder retain
    *retain_events*, those of queries that are gone as long as *retention* says; one whose holder lags by
    *buffer_events_max* stops the turns. With *strict* a replay that differs and a damaged newest checkpoint are errors,
    not reports. *clock* gives processing time in seconds. Two threads write behind the loop, or those that *lend* lends
    (many evaluators may share a pool); *background* False writes in the loop, for deterministic tests.
    """

    recovery: RecoveryFigures | None = None

    @names_keywords
    def __init__(
        self,
        store: Store,
        *,
        delivery: Delivery = "exactly_once",
        checkpoint_interval_s: float = 1.0,
        checkpoint_events: int = 1_000_000,
        full_every: int = 20,
        batch_events_max: int = 1000,
        retain_events: int = 10_000,
        retention: Retention | None = None,
        buffer_events_max: int = 200_000,
        idle_s: float = 1.0,
        strict: bool = True,
        clock: Callable[[], float] = wall.time,
        background: bool = True,
        lend: Lend | None = None,
    ) -> None:
        arguments.check_options(locals())
        self.store, self.batch_events_max, self.strict = store, batch_events_max, strict
        self.delivery: Delivery = delivery
        self.lock, self.working, self.lifecycle = Turnstile(), Working(), Lifecycle()
        wake, engine, companions = self.lifecycle.wake, QueryEngine(), Companions()
        self.wake, self.engine, self.companions = wake, engine, companions
        inside = self.inside = Inside(self.lock, engine, self.lifecycle)
        incidents = self.incidents = Incidents(clock=clock)
        time = self.time = HostClock(clock, incidents)
        self.calls = Calls(engine.calls, incidents, wake=wake, durable_first=delivery == "exactly_once")
        self.intake = Intake(batch_events_max=batch_events_max, idle_s=idle_s, clock=time.read, incidents=incidents)
        self.standstill = Standstill(engine, self.intake, self._now)
        self.growth, self.warnings = Growth(self.intake.sources, incidents), StartWarnings(incidents)
        self.holders = StreamHolders(
            self.lock, store=store, incidents=incidents, events_max=buffer_events_max, check=inside.check
        )
        self.streams = Streams(store, self.holders, retain_events=retain_events, retention=retention)
        self.threads, (journal, checkpoint) = lenders("journal", "checkpoint", lend=lend, background=background)
        self.journal_worker = Worker(wake=wake, lend=journal)
        self._assemble_turns(buffer_events_max)
        self._assemble_reports()
        self._assemble_rest(Cadence(checkpoint_interval_s, checkpoint_events, full_every), checkpoint)
        self.lifecycle.workers += [self.journal_worker, self.checkpointer.worker]
        most = ROUND_TURNS_MAX if self.journal_worker.threaded else 1
        self.round_turns, self.round_events = most, max(256, 4 * batch_events_max)
        self.passes_over: group_commit.PassesOver = ""  # which turns behind the checkpoint, for a repair

    def _assemble_turns(self, buffer_events_max: int) -> None:
        engine, store, incidents = self.engine, self.store, self.incidents
        self.turns = TurnExecutor(
            engine, now=self._now, lifecycle=self.lifecycle, inside=self.inside, standstill=self.standstill,
            calls=self.calls, streams=self.streams, journal=store.journal, worker=self.journal_worker,
            delivery=self.delivery, told=self._to_tell)  # fmt: skip
        self.definitions = SourceDefinitions(
            self.intake, self.warnings, incidents, strict=self.strict, repair=or_repair_it(store), inside=self.inside,
            close_group=self.turns.close_group, checkpoint=lambda: self.checkpointer.now(full=False))  # fmt: skip
        self.declared: Declared = {}
        self.outlets = Outlets(
            engine, store, sources=self.intake.sources, declared=self.declared, streams=self.streams,
            holders=self.holders, incidents=incidents, delivery=self.delivery,
            buffer_events_max=buffer_events_max, change=self.inside.change, wake=self.wake,
            checkpoint=lambda: self.checkpointer.now(full=False), pauses=self.journal_worker.threaded)  # fmt: skip

    def _assemble_reports(self) -> None:
        engine, store, incidents = self.engine, self.store, self.incidents
        self.reporter = Reporter(
            engine, store, incidents=incidents, intake=self.intake, streams=self.streams, time=self.time,
            calls=self.calls, worker=self.journal_worker, lifecycle=self.lifecycle, warnings=self.warnings,
            turns=self.turns, sinks=self.outlets, trouble=lambda: self.trouble or self.holders.trouble,
            checkpoints=lambda: self.checkpointer, late=lambda: self.late.tell())  # fmt: skip
        self.guard = Guard(self)
        self.redefinitions = Redefinitions(
            engine, self.definitions, inside=self.inside, incidents=incidents, checkpoints=lambda: self.checkpointer
        )
        self.late = LateReaders(
            engine, self.intake, self.turns, store=store, incidents=incidents, reports=self.reporter
        )

    def _assemble_rest(self, cadence: Cadence, lend: Lend | None) -> None:
        engine, store, incidents = self.engine, self.store, self.incidents
        self.checkpointer = Checkpointer(
            engine, store, cadence, turns=self.turns,
            streams=self.streams, sinks=self.outlets, reports=self.reporter, classes=self.redefinitions.classes,
            meta=self._meta, acknowledge=self.intake.acknowledge, growth=self.growth, incidents=incidents,
            inside=self.inside, wake=self.wake, lend=lend)  # fmt: skip
        self.wakeups = Wakeups(
            engine, self.intake, time=self.time, turns=self.turns, calls=self.calls, sinks=self.outlets,
            buffers=self.holders, checkpointer=self.checkpointer, incidents=incidents, lifecycle=self.lifecycle,
            trouble=lambda: self.trouble)  # fmt: skip
        self.unloaded = Unloaded(engine, store, self.turns, incidents=incidents, strict=self.strict)
        self.interpreters = Interpreters(
            engine, store, self.turns, late=self.late, unloaded=self.unloaded,
            texts=FunctionTexts(engine.standing, engine.suspended), incidents=incidents, warnings=self.warnings,
            reports=self.reporter, store_now=self._store_now)  # fmt: skip
        self.following = Following(
            engine, self.turns, late=self.late, declared=self.declared, let_come=self._let_come)  # fmt: skip
        self.creation = Creation(
            engine, self.intake, store, self.declared, strict=self.strict, now=self._now,
            let_come=self._let_come, following=self.following, interpreters=self.interpreters,
            soon=self.checkpointer.soon, settle=self.redefinitions.settle,
            look_at=self.reporter.look_at_query)  # fmt: skip
        self.restarts = Restarts(
            engine, self.turns, lifecycle=self.lifecycle, inside=self.inside, late=self.late, creation=self.creation,
            following=self.following)  # fmt: skip

    # -- declaring

    @names_keywords
    def source(self, name: str, source: Source, *, start: Start | None = None) -> None:
        """Declare an input under *name*; before the evaluator starts. *start* says where to begin it the first time."""
        arguments.check_before_start(f"source {name!r}", started=self.started, closed=self.closed)
        name = arguments.check_new("source", name, self.intake.sources, self.declared)
        arguments.check_source(name, source)
        self.outlets.check_source(name, source)
        self.intake.add(name, source, start=start)
        self.engine.declare(name, (), timestamp=getattr(source, "timestamp", None))

    @names_keywords
    def push(self, name: str, *, on_bad_record: OnBadRecord = "fail") -> PushedStream:
        """Declare a durable pushed input; *on_bad_record*: what becomes of a stored value that cannot be loaded."""
        arguments.check_before_start(f"pushed input {name!r}", started=self.started, closed=self.closed)
        name = arguments.check_new("pushed input", name, self.intake.sources, self.declared)
        pushed = PushedStream(
            self.store.log(name), wake=self.wake, name=name, on_bad_record=on_bad_record,
            check=partial(self._check_taken, name), told=partial(self.reporter.told_pushed, name))  # fmt: skip
        self.source(name, pushed)
        return pushed

    def _check_taken(self, name: str) -> None:
        if self.inside.is_mine():
            self.inside.check(f"a push into {name!r}")
        self.lifecycle.check_read(name)

    @names_keywords
    def sink(self, stream: str, sink: Sink, *, on_error: OnError = "fail") -> None:
        """Send *stream* to *sink*, from the first id that it wants on. Several sinks may share a stream.

        *on_error* says what is done with what it cannot write: ``"fail"`` stops this sink, ``"skip"`` leaves it out,
        ``"dead_letter"`` sets it aside in the sink. *Raises* `ValueError` for a sink that cannot do that.
        """
        self.inside.check("sink")
        arguments.check_open(closed=self.closed)
        stream = check_name("stream", stream)
        arguments.check_sink(stream, sink)
        self.outlets.add(stream, sink, on_error=on_error)

    def reopen(self, stream: str) -> None:
        """Open the failed sinks of *stream* again, mended meanwhile: they go on behind what they have."""
        self.outlets.reopen(stream)

    @names_keywords
    def create(
        self,
        name: str,
        query: Any,
        *,
        policy: Policy = "fail",
        limits: Limits = NO_LIMITS,
        clock: EventTime | None = None,
    ) -> None:
        """Host *query* under *name*, writing to the stream of that name; edit it if the name is taken.

        Its clock is the computer's, or follows its events with *clock* `event_time(...)`. Editing keeps the state of
        the parts whose path and type did not change; `statistics().reports` says what became of the rest. Before the
        start the last query of a name counts, and `start` creates it: durable with the first turns that are, or when
        `flush` returns. While running `create` returns when it is durable. A stored query that is declared no more goes
        on: `dispose` of it.
        *Raises* `QueryRefused`, `ValueError` for the name of a source.
        """
        self.inside.check("create")
        self.create_many({check_name("query", name): query}, policy=policy, limits=limits, clock=clock)

    @names_keywords
    def create_many(
        self,
        queries: Mapping[str, Any],
        *,
        policy: Policy = "fail",
        limits: Limits = NO_LIMITS,
        clock: EventTime | None = None,
    ) -> None:
        """Host many queries, or none if one is refused; durable as with `create`. Far cheaper than one by one."""
        with self.inside.change("create_many"), self.working, self.inside, no_collections():
            how = How(policy=policy, limits=limits, clock=clock)
            (self.creation.create_now if self.started else self.creation.declare)(arguments.check_queries(queries), how)
            self.following.follow()
        if self.started:
            with self.lock, self.guard, self.working:
                self.redefinitions.classes.look()
            self.flush()

    def dispose(self, name: str) -> None:
        """End the query *name* and forget its state; its stream ends with `QueryDisposed` and stays readable.

        Queries that read it fail with that, and are named in the log.
        """
        dispose(self, name)

    def forget(self, stream: str) -> None:
        """Delete the *stream* of a disposed query; durable when this returns. Its ids are not used again."""
        forget(self, stream)

    def restart(self, query: str, *more: str) -> None:
        """Run queries again, all or none, also failed ones: without state, under the ids that follow, durably."""
        self.restarts.restart([query, *more])
        self.flush()

    # -- running

    def start(self) -> None:
        """Recover what the store has, then create what was declared and is not there yet; durable with `flush`."""
        with self.lock, self.working:
            arguments.check_open(closed=self.closed)
            if self.started:
                self.lifecycle.check()
                return
            own(self)
            self.lifecycle.started = True
            try:
                self.recovery = recover(self)
                self.restarts.begin_declared()
                self.outlets.open()
                self.reporter.begin()
                self.checkpointer.begin()
            except BaseException as error:
                self.lifecycle.broken = error
                # whoever starts another one may use the same places
                let_go("an evaluator that could not start", partial(close_all, self.outlets.close, self.intake.close))
                raise

    def step(self) -> bool:
        """Do some work: move what is durable on, then take a few turns; return whether anything moved."""
        self.inside.check("step")
        with self.lock, self.guard, self.working:
            self.lifecycle.check() if self.started and not self.closed else self.start()
            moved = self._show_committed()
            moved = self.checkpointer.advance() or moved
            moved = self.calls.make_due() or moved
            if self._may_take():
                if self.standstill.since is not None:
                    self.turns.resume()
                with self.inside:
                    moved = self._take_some() or self.following.follow_late() or moved
            else:
                self.standstill.begin()
            self.turns.publish()
            self.turns.offer_group()
            if self.delivery == "at_least_once" or not self.journal_worker.threaded:
                moved = self._show_committed() or moved
            self.reporter.look()
            return moved

    def _may_take(self) -> bool:
        """Whether turns may be taken: the store is well (an outage taking turns finds out), and is not far behind."""
        late = self.turns.is_late or self.turns.events_in >= self.checkpointer.events_to
        well = not late and self.trouble in (None, self.intake.outage.error) and not self.holders.full()
        return well and self.redefinitions.look()

    def _take_some(self) -> bool:
        """Take turns until nothing comes, or for about as long as a group commit may wait."""
        events = min(self.turns.events_in + self.round_events, self.checkpointer.events_to)
        for taken in range(self.round_turns):
            turn = self._next_turn()
            if turn is None:
                return taken > 0 or self.intake.goes_on
            self.turns.take(turn)
            if self.turns.events_in >= events or self.engine.is_behind:
                break
        return True

    def run(self, *, until: Callable[[], bool] | None = None) -> None:
        """Run until the sources (if any) have ended and all is durable, until *until* says so, or until `stop`."""
        run(self, until)

    @property
    def finished(self) -> bool:
        """Whether nothing can happen any more: the sources have ended, and all is durable and visible."""
        with self.lock:
            return self.wakeups.is_finished()

    def stop(self) -> None:
        """Ask `run` to return; safe from any thread and from signal handlers."""
        self.lifecycle.stop()

    def _wait(self) -> None:
        self.lifecycle.wait(self.wakeups.pause_s)

    def flush(self) -> None:
        """Return when every turn taken so far is durable and visible. *Raises* `StoreUnavailable`."""
        self.inside.check("flush")
        with self.lock:
            self.turns.close_group()
        self.turns.wait_durable(timeout_s=30.0)
        with self.lock:
            self._show_committed()
            self.reporter.tell_queries()

    def checkpoint(self, *, full: bool = False) -> None:
        """Take a checkpoint now and return when it is committed. *Raises* `StoreUnavailable`."""
        self.inside.check("checkpoint")
        with self.lock, self.guard, self.working:
            self.start()
            self.checkpointer.now(full=full)
            self.reporter.tell_queries()

    def abandon(self) -> None:
        """Stop and write nothing more, not even what is under way: somebody else goes on with this store's content."""
        self.inside.check("abandon")
        self.turns.forget()
        self.checkpointer.worker.forget()
        self.close()

    def close(self) -> None:
        """Stop without a checkpoint, and have `run` return: what is durable is all that is needed to go on."""
        if self.closed or not self.lock.process.is_this:
            return
        self.inside.check("close")
        self.lifecycle.closed = True
        self._end()

    def _end(self) -> None:
        threads = (each.close for each in self.threads)
        workers = (self.reporter.close, self.calls.close, self.journal_worker.close, self.checkpointer.close, *threads)
        try:
            with self.lock:
                self.turns.close()
                self.reporter.at_end()
        finally:
            close_all(*workers, self.outlets.close, self.intake.close, lambda: disown(self))

    def __enter__(self) -> QueryEvaluator:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        ends = False
        try:
            is_well = self.trouble is None and self.lifecycle.broken is None
            if kind is None and self.started and not self.closed and is_well:
                with self.lock:  # no other thread takes a turn behind the checkpoint
                    if not self.closed:
                        self.checkpoint()
                    ends, self.lifecycle.closed = not self.closed, True
        finally:
            end = self._end if ends else self.close
            end() if kind is None else let_go("this evaluator", end)

    # -- turns

    def _now(self) -> float:
        return self.engine.clock if self.intake.event_time else self.time.read(self.engine.clock)

    def _next_turn(self) -> Turn | None:
        now, calls = self._now(), self.engine.calls
        answer = self.calls.next(now) if self.calls.answers else None
        if answer is not None or self.calls.finishing:
            return answer
        if not self.intake.event_time:
            due = self.engine.timers.next_due()
            if due is not None and due <= now:
                return Tick(now)
        turn = None if calls.full else self.intake.next(now)
        if turn is None and self.intake.event_time and self.wakeups.have_ended():
            return None if calls.askers else self.wakeups.last_tick()
        return turn

    def _meta(self, snapshot: Snapshot) -> dict[str, Any]:
        """Return what a checkpoint remembers besides rows and outputs; in a partition also which queries there are.

        A node asks for these at its start, of all partitions (`hosting.partitioned.past`).
        """
        intake, engine = self.intake, self.engine
        ended = intake.ended()
        return {
            "engine": snapshot.header,
            "positions": intake.positions(),
            "ended": ended,
            "told_gone": set(intake.told_gone),
            "bad_records": dict(intake.bad_records.counts),
            "definitions": self.definitions.for_checkpoint(),
            "classes": self.redefinitions.classes.for_checkpoint(),
            "texts": self.interpreters.texts.for_checkpoint(),
            "extents": self.growth.note(ended),
            "holders": self.holders.positions(),
            "sinks": self.outlets.labels(),
            "delivery": self.delivery,
            **self.time.for_checkpoint(self.standstill.runs_until()),
            "makers": tuple(makers()),
            **({"queries": [*engine.standing, *engine.suspended]} if self.incidents.place else {}),
        }

    def _let_come(self) -> None:
        """Take the turns that fire what is due by now."""
        engine, now = self.engine, self._now()
        while not self.intake.event_time and (due := engine.timers.next_due()) is not None and due <= now:
            self.turns.take(Tick(now))

    def _store_now(self) -> None:
        """Have all that a start has found stored before the first turn."""
        self.outlets.open()
        self.checkpointer.now(full=True)

    def _to_tell(self) -> group_commit.Told:
        return group_commit.Told(self.definitions.to_tell(), self.redefinitions.classes.to_tell())

    def _show_committed(self) -> bool:
        """Make visible what the journal has made durable, and write it to the sinks."""
        return any([self.turns.show_durable(), self.outlets.pump()])
