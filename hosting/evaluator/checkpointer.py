"""When checkpoints are taken and how they reach the store: swap, write in slices, commit behind, acknowledge after.

The order is the promise: sinks are flushed, the snapshot is taken between two turns, the journal is durable up to
that turn, the commit is one transaction, and only then may sources forget, the journal be cut and streams drop what
the store now has.
"""

from __future__ import annotations

import sys
import time as wall
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from checkpoint.format.code import makers
from checkpoint.format.codec import encode
from checkpoint.store import Checkpoint, GenerationInfo, Kind
from hosting.admission import emitted
from hosting.edges.segments import joined, stored
from hosting.engine.failing import unstorable_state
from hosting.engine.snapshot import Snapshot
from hosting.evaluator.attempt import Attempt
from hosting.evaluator.gc_pause import hold
from hosting.evaluator.serial_executor import Lend, Worker, too_late
from hosting.evaluator.store_watch import StoreWatch
from hosting.reports.observing import observe
from hosting.reports.statistics import CheckpointFigures
from hosting.reports.store_commands import with_repair
from reliable_rx.errors import CheckpointRefused, StoreUnavailable, invariant
from reliable_rx.failpoints import probe

if TYPE_CHECKING:
    from hosting.evaluator.evaluator import QueryEvaluator

SLICE_ROWS = 128
RETRY_S = 0.2
GIVEN_UP_MAX = 100
"""Checkpoints that may be given up one after the other; each ends a query at least."""
SIDE_OUTPUTS = (".dead_letters", ".late")


class Checkpointer:
    """The checkpoints of one evaluator."""

    def __init__(
        self, evaluator: QueryEvaluator, *, interval_s: float, events: int, full_every: int, lend: Lend | None
    ) -> None:
        self.evaluator = evaluator
        self.interval_s = interval_s
        self.events_max = events
        self.full_every = full_every
        self.worker = Worker(wake=evaluator.wake, lend=lend)
        self.watch = StoreWatch(evaluator.store.check_owned, self.worker, interval_s=interval_s)
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
            or self.evaluator.turns.events_in - self.events_before >= self.events_max
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
        self.wanted_at = self.evaluator.engine.number

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
        self.evaluator.redefinitions.classes.recovered(meta.get("classes", {}))

    def replayed(self, events: int) -> None:
        """Count the *events* that a recovery took again: no checkpoint has them yet."""
        self.events_before = self.events_kept = self.evaluator.turns.events_in - events

    @property
    def has_all(self) -> bool:
        """Whether every turn is in a checkpoint, and what sinks were given of them is flushed.

        The outputs of the last turns may have become visible when the checkpoint that has these turns was under way.
        """
        return self.evaluator.engine.number == self.turn and not self.evaluator.outlets.has_unflushed

    def _wants_full(self) -> bool:
        if self.since_full is None or self.since_full >= self.full_every:
            return True
        return self.differential_bytes > self.full_bytes > 0

    def now(self, *, full: bool) -> None:
        """Take a checkpoint and wait for it. *Raises* `StoreUnavailable`, `TooLate` while the interpreter ends."""
        if sys.is_finalizing():  # modules are gone that the code of queries is written with
            raise too_late("to take a checkpoint")
        self._finish()
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
        evaluator = self.evaluator
        evaluator.turns.close_group()
        try:
            evaluator._show_committed()
            evaluator.outlets.flush()
        except StoreUnavailable as error:
            self._fail(error)
            return False
        probe("checkpoint.before_snapshot")
        began, changed = wall.perf_counter(), evaluator.streams.take_changed()
        streams = {name: evaluator.streams[name] for name in changed}
        for stream in streams.values():
            stream.trim()
        retired, expired = evaluator.streams.retired.begin(evaluator.engine)
        evaluator.reporter.tell_queries()  # what is known of their failures is stored with them
        with evaluator.inside:
            snapshot = Snapshot(evaluator.engine, full=full)
        if full:
            evaluator.turns.durable_plans &= set(snapshot.plans)  # no store has the others from now on
        meta = meta_of(evaluator, snapshot)
        unstored = {name: stream.unstored() for name, stream in streams.items()}
        self.attempt = Attempt(
            snapshot,
            self.generation + 1,
            evaluator.engine.number,
            meta,
            unstored,
            {name: stream.next_id for name, stream in streams.items()},
            {name: stream.kept_from() for name, stream in streams.items()} | expired,
            began,
            evaluator.turns.events_in,
            changed=changed,
            retired=retired,
            expired=expired,
        )
        if full:
            # reading very many cold rows would set off collections of all there is, each a pause of its own
            self.attempt.release = hold()
        self.events_before = evaluator.turns.events_in
        self.attempt.pause_s = wall.perf_counter() - began
        return True

    def _move(self, attempt: Attempt) -> bool:
        if not attempt.submitted:
            with self.evaluator.inside:
                is_written = attempt.snapshot.write_some(SLICE_ROWS)
            if is_written:
                if attempt.release is not None:
                    attempt.release()
                if attempt.snapshot.spoilt:
                    self._drop(attempt)
                    return True
                with self.evaluator.inside:
                    self.evaluator.reporter.look_at_rows(attempt.snapshot.taken)
                attempt.meta |= self.evaluator.reporter.for_checkpoint()  # here, as turns do not wait for it
                met = self.evaluator.redefinitions.classes.for_checkpoint()  # also while these rows were written
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
            self.evaluator.turns.fail(name, unstorable_state(error))

    def _commit(self, attempt: Attempt) -> None:
        """In the worker: make the attempt durable."""
        try:
            self._write(attempt)
        except StoreUnavailable as error:
            attempt.error = error
        except CheckpointRefused as error:
            raise with_repair(self.evaluator.store, error) from error
        finally:
            attempt.settled = True
            self.evaluator.wake()

    def _write(self, attempt: Attempt) -> None:
        evaluator = self.evaluator
        if not evaluator.journal_worker.drain(timeout_s=10.0):
            evaluator.lifecycle.check()
            raise evaluator.journal_worker.trouble or StoreUnavailable("the journal is not durable yet")
        snapshot = attempt.snapshot
        kind: Kind = "full" if snapshot.full else "differential"
        checkpoint = Checkpoint(
            attempt.generation, kind, attempt.turn, encode(attempt.meta), snapshot.chunks(), snapshot.rows
        )
        for name, segments in attempt.outputs.items():
            observe(evaluator.incidents, "odd values", emitted.look, evaluator.incidents, name, segments)
        outputs = {
            name: [each for segment in joined(segments) for each in stored(segment, attempt.spoilt)]
            for name, segments in attempt.outputs.items()
        }
        attempt.info = evaluator.store.commit(checkpoint, outputs=outputs, kept_from=attempt.kept_from)
        attempt.sizes = evaluator.streams.retired.measured(attempt.retired)
        probe("checkpoint.before_truncate")
        try:
            evaluator.store.journal.truncate(evaluator.store.generations()[0].turn)
        except StoreUnavailable as error:
            attempt.error = error  # the commit stands; the journal is cut after the next one
        attempt.seconds = wall.perf_counter() - attempt.began

    def _succeed(self, attempt: Attempt, info: GenerationInfo) -> None:
        evaluator = self.evaluator
        if self.trouble is not None:
            self.trouble = None
            evaluator.reporter.told_checkpoint(None)
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
            stream = evaluator.streams.get(name)
            if stream is not None:
                stream.stored = max(stream.stored, next_id)
        evaluator.turns.durable_plans.update(attempt.snapshot.plans)
        probe("checkpoint.before_acknowledge")
        self.covered = attempt.meta["positions"], attempt.meta["ended"]
        self.acknowledge()
        evaluator.turns.show_durable()  # before buffers are freed: who took these turns may not have come to that yet
        evaluator.streams.retired.stored(attempt.sizes, evaluator.engine)
        evaluator.streams.retired.forgotten(attempt.expired)
        evaluator.growth.look()
        turn = evaluator.engine.number
        for name, error in attempt.spoilt.items():
            if name.endswith(SIDE_OUTPUTS):  # what it tells is of use without the event
                evaluator.incidents.report("stream", name, str(error), error=error)
            else:
                evaluator.turns.fail(name, error)
        self.has_ended_some = evaluator.engine.number > turn

    def begin(self) -> None:
        """At the end of a start, do what the last run may not have come to, and keep what is in no turn.

        What cannot be read would end those that run again in its place; what a replay has given otherwise than the
        first run it may give otherwise again, behind what sinks have by then.
        """
        self.acknowledge()
        suspended = self.evaluator.engine.suspended
        if suspended.ended or suspended.differing:
            with suppress(StoreUnavailable):  # it is tried again
                self.now(full=True)

    def acknowledge(self) -> None:
        """Tell the sources what is durable."""
        if self.acknowledges:
            self.evaluator.intake.acknowledge(*self.covered)

    def _give_back(self, attempt: Attempt) -> None:
        attempt.snapshot.roll_back()
        self.evaluator.streams.give_back(attempt.changed)
        self.evaluator.engine.retired.fresh.update(attempt.retired)

    def _undo(self, attempt: Attempt) -> None:
        self._give_back(attempt)
        self._fail(attempt.error or StoreUnavailable("the checkpoint was not committed"))

    def _fail(self, error: StoreUnavailable) -> None:
        self.trouble = error
        self.evaluator.reporter.told_checkpoint(error)
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


def meta_of(evaluator: QueryEvaluator, snapshot: Snapshot) -> dict[str, Any]:
    """Return what a checkpoint remembers besides rows and outputs; in a partition also which queries there are.

    A node asks for these at its start, of all partitions (`hosting.partitioned.past`).
    """
    ended = evaluator.intake.ended()
    return {
        "engine": snapshot.header,
        "positions": evaluator.intake.positions(),
        "ended": ended,
        "told_gone": set(evaluator.intake.told_gone),
        "bad_records": dict(evaluator.intake.bad_records.counts),
        "definitions": evaluator.definitions.for_checkpoint(),
        "classes": evaluator.redefinitions.classes.for_checkpoint(),
        "extents": evaluator.growth.note(ended),
        "holders": evaluator.holders.positions(),
        "sinks": evaluator.outlets.labels(),
        "delivery": evaluator.delivery,
        "ahead_s": evaluator.time.ahead_s,
        "makers": tuple(makers()),
        **({"queries": [*evaluator.engine.standing, *evaluator.engine.suspended]} if evaluator.incidents.place else {}),
    }
