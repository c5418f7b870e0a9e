"""When checkpoints are taken and how they reach the store: swap, write in slices, commit behind, acknowledge after.

The order is the promise: sinks are flushed, the snapshot is taken between two turns, the journal is durable up to
that turn, the commit is one transaction, and only then may sources forget, the journal be cut and streams drop what
the store now has.
"""

from __future__ import annotations

import sys
import time as wall
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from checkpoint.format.codec import encode
from checkpoint.store import Checkpoint, GenerationInfo, Kind, Store
from hosting.admission import emitted
from hosting.edges.segments import joined, stored
from hosting.edges.streams import Streams
from hosting.engine.engine import QueryEngine
from hosting.engine.failing import unstorable_state
from hosting.engine.snapshot import Snapshot
from hosting.evaluator.attempt import Attempt
from hosting.evaluator.gc_pause import hold
from hosting.evaluator.reentrancy import Inside
from hosting.evaluator.serial_executor import Lend, Worker, too_late
from hosting.evaluator.store_watch import StoreWatch
from hosting.evaluator.turn_executor import TurnExecutor
from hosting.reports.growth import Growth
from hosting.reports.incidents import Incidents
from hosting.reports.observing import observe
from hosting.reports.statistics import CheckpointFigures
from hosting.reports.store_commands import with_repair
from reliable_rx.errors import CheckpointRefused, StoreUnavailable, invariant
from reliable_rx.failpoints import probe

SLICE_ROWS = 128
RETRY_S, DURABLE_S = 0.2, 10.0
GIVEN_UP_MAX = 100
"""Checkpoints that may be given up one after the other; each ends a query at least."""
SIDE_OUTPUTS = (".dead_letters", ".late")


class Cadence(NamedTuple):
    """When checkpoints are taken: every so many seconds and events, and every so many of them a full one."""

    interval_s: float
    events: int
    full_every: int


class Flushed(Protocol):
    """The sinks: a checkpoint has nothing that they have not made durable."""

    @property
    def has_unflushed(self) -> bool: ...
    def flush(self) -> None: ...
    def retry(self) -> None: ...


class Reported(Protocol):
    """What is told of checkpoints, and stored with them."""

    def tell_queries(self) -> None: ...
    def look_at_rows(self, rows: Any, /) -> None: ...
    def for_checkpoint(self) -> dict[str, Any]: ...
    def told_checkpoint(self, trouble: StoreUnavailable | None, /) -> None: ...


class Classes(Protocol):
    """The classes of which a checkpoint has values."""

    def for_checkpoint(self) -> dict[str, str]: ...


Acknowledge = Callable[[dict[tuple[str, str], int], set[tuple[str, str]]], object]


class Checkpointer:
    """The checkpoints of one evaluator: *meta* returns what each remembers besides rows and outputs."""

    def __init__(
        self,
        engine: QueryEngine,
        store: Store,
        cadence: Cadence,
        *,
        turns: TurnExecutor,
        streams: Streams,
        sinks: Flushed,
        reports: Reported,
        classes: Classes,
        meta: Callable[[Snapshot], dict[str, Any]],
        acknowledge: Acknowledge,
        growth: Growth,
        incidents: Incidents,
        inside: Inside,
        wake: Callable[[], None],
        lend: Lend | None,
    ) -> None:
        self._engine, self._store, self._turns, self._streams, self._sinks = engine, store, turns, streams, sinks
        self._reports, self._classes, self._meta, self._growth = reports, classes, meta, growth
        self._acknowledge, self._incidents, self._inside, self._wake = acknowledge, incidents, inside, wake
        self.interval_s, self.events_max, self.full_every = cadence
        self.worker = Worker(wake=wake, lend=lend)
        self.watch = StoreWatch(store.check_owned, self.worker, interval_s=self.interval_s)
        self.attempt: Attempt | None = None
        self.trouble: StoreUnavailable | None = None
        self.retry_at = 0.0
        self.generation = 0
        self.since_full: int | None = None
        self.full_bytes = self.differential_bytes = 0
        self.events_before = self.events_kept = 0
        self.turn = 0
        self.last_at = wall.monotonic()
        self.is_overdue, self.given_up = False, 0
        self.has_ended_some = False
        """Whether the last checkpoint has ended queries, whose ends no checkpoint has: one more is to be taken."""
        self.wanted_at = 0
        self.acknowledges = True
        """Whether sources are told what is durable: not by what runs on a copy."""
        self.covered: tuple[dict[tuple[str, str], int], set[tuple[str, str]]] = ({}, set())
        """The positions in the last durable checkpoint, and which partitions have ended in it."""
        self.last: tuple[GenerationInfo, float, float] | None = None

    def advance(self) -> bool:
        """Move the checkpoint at work on, or begin one if it is time; return whether anything moved."""
        if self.attempt is not None:
            return self._move(self.attempt)
        if not self._is_time():
            return self.trouble is None and self.has_all and self._look()
        return self._begin(full=self._wants_full())

    def _is_time(self) -> bool:
        if self.trouble is not None:
            return not self.worker.threaded or wall.monotonic() >= self.retry_at
        if self.has_all:
            return False
        return (
            self.is_overdue
            or self.is_wanted
            or self._turns.events_in - self.events_before >= self.events_max
            or wall.monotonic() - self.last_at >= self.interval_s
        )

    def _look(self) -> bool:
        """While there is nothing to write, see whether it could be written."""
        gone = self.watch.look(seen_at=self.last_at)
        if gone is not None:
            self._fail(gone)
        return gone is not None

    def soon(self) -> None:
        """Take a checkpoint as soon as may be: a class has changed, of which no replay has the old and the new one."""
        self.wanted_at = self._engine.number

    @property
    def is_wanted(self) -> bool:
        """Whether there is none yet of those that are to be taken as soon as may be."""
        return self.turn < self.wanted_at

    @property
    def events_to(self) -> int:
        """Up to which count of events turns are taken: a replay without the next checkpoint stays bounded."""
        return self.events_kept + 2 * self.events_max

    def recovered(self, generation: int, turn: int, meta: dict[str, Any]) -> None:
        """Go on behind a checkpoint that was read."""
        self.generation, self.turn, self.covered = generation, turn, (meta["positions"], meta["ended"])

    def replayed(self, events: int) -> None:
        """Count the *events* that a recovery took again: no checkpoint has them yet."""
        self.events_before = self.events_kept = self._turns.events_in - events

    @property
    def has_all(self) -> bool:
        """Whether every turn is in a checkpoint, and what sinks were given of them is flushed.

        The outputs of the last turns may have become visible when the checkpoint that has these turns was under way.
        """
        return self._engine.number == self.turn and not self._sinks.has_unflushed

    def _wants_full(self) -> bool:
        if self.since_full is None or self.since_full >= self.full_every:
            return True
        return self.differential_bytes > self.full_bytes > 0

    def now(self, *, full: bool) -> None:
        """Take a checkpoint and wait for it. *Raises* `StoreUnavailable`, `TooLate` while the interpreter ends."""
        if sys.is_finalizing():  # modules are gone that the code of queries is written with
            raise too_late("to take a checkpoint")
        self._finish()
        self._sinks.retry()
        before = self.generation
        if full:
            self.since_full = None  # also where it has to be tried again
        while self.generation == before or self.has_ended_some:  # an attempt may find queries that must end
            if not self._begin(full=self._wants_full()):
                raise self.trouble or StoreUnavailable("the sinks could not be flushed")
            self._finish()
            if self.trouble is not None:
                raise self.trouble

    def _finish(self) -> None:
        while self.attempt is not None:
            self._move(self.attempt)
            if self.attempt is not None and self.attempt.submitted:
                self.worker.drain()
                if self.worker.failure is not None:
                    raise self.worker.failure

    def _begin(self, *, full: bool) -> bool:
        self._turns.close_group()
        try:
            self._turns.show_durable()
            self._sinks.flush()
        except StoreUnavailable as error:
            self._fail(error)
            return False
        probe("checkpoint.before_snapshot")
        began, changed = wall.perf_counter(), self._streams.take_changed()
        streams = {name: self._streams[name] for name in changed}
        for stream in streams.values():
            stream.trim()
        retired, expired = self._streams.retired.begin(self._engine)
        self._reports.tell_queries()  # what is known of their failures is stored with them
        with self._inside:
            snapshot = Snapshot(self._engine, full=full)
        if full:
            self._turns.durable_plans &= set(snapshot.plans)  # no store has the others from now on
        meta = self._meta(snapshot)
        unstored = {name: stream.unstored() for name, stream in streams.items()}
        self.attempt = Attempt(
            snapshot,
            self.generation + 1,
            self._engine.number,
            meta,
            unstored,
            {name: stream.next_id for name, stream in streams.items()},
            {name: stream.kept_from() for name, stream in streams.items()} | expired,
            began,
            self._turns.events_in,
            changed=changed,
            retired=retired,
            expired=expired,
        )
        if full:
            # reading very many cold rows would set off collections of all there is, each a pause of its own
            self.attempt.release = hold()
        self.events_before = self._turns.events_in
        self.attempt.pause_s = wall.perf_counter() - began
        return True

    def _move(self, attempt: Attempt) -> bool:
        if not attempt.submitted:
            with self._inside:
                is_written = attempt.snapshot.write_some(SLICE_ROWS)
            if is_written:
                if attempt.release is not None:
                    attempt.release()
                if attempt.snapshot.spoilt:
                    self._drop(attempt)
                    return True
                with self._inside:
                    self._reports.look_at_rows(attempt.snapshot.taken)
                attempt.meta |= self._reports.for_checkpoint()  # here, as turns do not wait for it
                met = self._classes.for_checkpoint()  # also while these rows were written
                attempt.meta["classes"] = {**met, **attempt.meta["classes"]}
                attempt.submitted = True
                self.worker.submit(lambda: self._commit(attempt))
            return True
        if not attempt.settled:
            return False
        self.attempt = None
        if attempt.info is None:
            self._undo(attempt)
        else:
            self._succeed(attempt, attempt.info)
        return True

    def _drop(self, attempt: Attempt) -> None:
        """Give up a checkpoint that cannot be written: the queries to blame end, and the next one has the rest."""
        self.attempt, self.is_overdue, self.given_up = None, True, self.given_up + 1
        self._give_back(attempt)
        names = ", ".join(map(repr, attempt.snapshot.spoilt))
        invariant(self.given_up <= GIVEN_UP_MAX, f"a query that has ended can be stored, but {names} cannot")
        for name, error in attempt.snapshot.spoilt.items():
            self._turns.fail(name, unstorable_state(error))

    def _commit(self, attempt: Attempt) -> None:
        """In the worker: make the attempt durable."""
        try:
            self._write(attempt)
        except StoreUnavailable as error:
            attempt.error = error
        except CheckpointRefused as error:
            raise with_repair(self._store, error) from error
        finally:
            attempt.settled = True
            self._wake()

    def _write(self, attempt: Attempt) -> None:
        self._turns.wait_durable(timeout_s=DURABLE_S)
        snapshot = attempt.snapshot
        kind: Kind = "full" if snapshot.full else "differential"
        checkpoint = Checkpoint(
            attempt.generation, kind, attempt.turn, encode(attempt.meta), snapshot.chunks(), snapshot.rows
        )
        for name, segments in attempt.outputs.items():
            observe(self._incidents, "odd values", emitted.look, self._incidents, name, segments)
        outputs = {
            name: [each for segment in joined(segments) for each in stored(segment, attempt.spoilt)]
            for name, segments in attempt.outputs.items()
        }
        attempt.info = self._store.commit(checkpoint, outputs=outputs, kept_from=attempt.kept_from)
        attempt.sizes = self._streams.retired.measured(attempt.retired)
        probe("checkpoint.before_truncate")
        try:
            self._store.journal.truncate(self._store.generations()[0].turn)
        except StoreUnavailable as error:
            attempt.error = error  # the commit stands; the journal is cut after the next one
        attempt.seconds = wall.perf_counter() - attempt.began

    def _succeed(self, attempt: Attempt, info: GenerationInfo) -> None:
        if self.trouble is not None:
            self.trouble = None
            self._reports.told_checkpoint(None)
        self.is_overdue, self.given_up = False, 0
        self.generation, self.turn, self.last_at = attempt.generation, attempt.turn, wall.monotonic()
        self.events_kept = attempt.events
        self.last = (info, attempt.pause_s, attempt.seconds)
        if info.kind == "full":
            self.since_full, self.full_bytes, self.differential_bytes = 0, info.bytes, 0
        else:
            self.since_full = (self.since_full or 0) + 1
            self.differential_bytes += info.bytes
        for name, next_id in attempt.next_ids.items():
            stream = self._streams.get(name)
            if stream is not None:
                stream.stored = max(stream.stored, next_id)
        self._turns.durable_plans.update(attempt.snapshot.plans)
        probe("checkpoint.before_acknowledge")
        self.covered = attempt.meta["positions"], attempt.meta["ended"]
        self.acknowledge()
        self._turns.show_durable()  # before buffers are freed: who took these turns may not have come to that yet
        self._streams.retired.stored(attempt.sizes, self._engine)
        self._streams.retired.forgotten(attempt.expired)
        self._growth.look()
        turn = self._engine.number
        for name, error in attempt.spoilt.items():
            if name.endswith(SIDE_OUTPUTS):  # what it tells is of use without the event
                self._incidents.report("stream", name, str(error), error=error)
            else:
                self._turns.fail(name, error)
        self.has_ended_some = self._engine.number > turn

    def begin(self) -> None:
        """At the end of a start, do what the last run may not have come to, and keep what is in no turn.

        What cannot be read would end those that run again in its place; what a replay has given otherwise than the
        first run it may give otherwise again, behind what sinks have by then.
        """
        self.acknowledge()
        suspended = self._engine.suspended
        if suspended.ended or suspended.differing:
            with suppress(StoreUnavailable):  # it is tried again
                self.now(full=True)

    def acknowledge(self) -> None:
        """Tell the sources what is durable."""
        if self.acknowledges:
            self._acknowledge(*self.covered)

    def _give_back(self, attempt: Attempt) -> None:
        attempt.snapshot.roll_back()
        self._streams.give_back(attempt.changed)
        self._engine.retired.fresh.update(attempt.retired)

    def _undo(self, attempt: Attempt) -> None:
        self._give_back(attempt)
        self._fail(attempt.error or StoreUnavailable("the checkpoint was not committed"))

    def _fail(self, error: StoreUnavailable) -> None:
        self.trouble = error
        self._reports.told_checkpoint(error)
        self.retry_at = wall.monotonic() + RETRY_S

    def figures(self) -> CheckpointFigures | None:
        """Describe the last committed checkpoint."""
        if self.last is None:
            return None
        info, pause_s, commit_s = self.last
        age_s = max(0.0, wall.monotonic() - self.last_at)
        return CheckpointFigures(info.generation, info.kind, age_s, info.rows, info.bytes, pause_s, commit_s)

    def close(self) -> None:
        if self.attempt is not None and self.attempt.release is not None:
            self.attempt.release()
        self.worker.close()
