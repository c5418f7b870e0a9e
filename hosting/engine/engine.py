"""`QueryEngine`: (rows, turn) → (rows, outputs), deterministic, single-threaded, free of I/O.

It runs standing queries, keeps their logical clock, and knows which rows a turn has touched. It never sees a source, a
log or a disk; the evaluator around it does. Its clock moves by turns only. A timer due at *t* fires after the
events stamped *t* and before the first thing that happens later, as in Rx under virtual time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from checkpoint.format.stored_errors import lasting
from hosting.engine.admission import admit
from hosting.engine.copies import key_of
from hosting.engine.cycles import Readers
from hosting.engine.dispatch import Cascade, Delivery
from hosting.engine.disposed_ids import Retired
from hosting.engine.editing import begun_afresh, begun_behind_its_end, edit, is_alike
from hosting.engine.errors_at_work import ErrorsAtWork
from hosting.engine.event_time.runtime import EventClock
from hosting.engine.event_time.validation import check_clock, joined_by, leave_unread, sources_of
from hosting.engine.event_time.watermarks import Watermarks
from hosting.engine.expecting import EXPECTS
from hosting.engine.failing import take_fail
from hosting.engine.failure import failure_of
from hosting.engine.hosted_query import COMPLETED, FAILED, RUNNING, Standing
from hosting.engine.pending_calls import Asked
from hosting.engine.plans import Plans, plan_inner
from hosting.engine.routes import Routes
from hosting.engine.side_outputs import begin_anew, complete, has_ended, take_rejects
from hosting.engine.skipping import Skips, absorb
from hosting.engine.suspended import SuspendedQueries, disposed
from hosting.engine.time_moves import MOVING, TimeMoves
from hosting.engine.timers import Ordering
from hosting.engine.turns import (
    Answer,
    Appear,
    Create,
    Dispose,
    Events,
    Fail,
    Output,
    Rejects,
    Resume,
    Tick,
    Turn,
    end_of,
)
from hosting.engine.unheard import effect_failed, unheard
from reliable_rx.event_time import EventTime
from reliable_rx.limits import Limits
from reliable_rx.names import ENDINGS
from reliable_rx.query.query import Query, SourceLeaf
from reliable_rx.runtime.hub import Trampoline, runs_queries
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import NO_LIMITS, Operators, Plan, PlanNode
from reliable_rx.runtime.reading import subject_of, subscribe_inner
from reliable_rx.runtime.rows import Report


class QueryEngine(Delivery, TimeMoves):
    """Standing queries over named sources.

    >>> import reliable_rx as rx
    >>> engine = QueryEngine()
    >>> engine.declare("n", ["0"])
    >>> _ = engine.take(engine.creation("doubled", rx.source("n").map(lambda n: n * 2), time=0.0))
    >>> [list(out.values) for out in engine.take(Events("n", "0", 0, [1, 2], time=1.0))]
    [[2, 4]]
    """

    own_clock: EventClock | None = None
    absorb, key_of, effect_failed, unheard = absorb, key_of, effect_failed, unheard

    def __init__(self) -> None:
        super().__init__(0.0, deque(), Ordering())
        self.number = self.epoch = 0
        self.standing: dict[str, Standing] = {}
        self.plans = Plans()
        self.reports: dict[str, Report] = {}
        self.begun: dict[str, None] = {}
        """Queries that begin anew under a name that has been there: what had failed with their end is to follow."""
        self.has_refused = False
        """Whether one of them could not follow, and may be able to when another one begins."""
        self.suspended = SuspendedQueries(self)
        self.retired = Retired(self)
        self.routes = Routes()
        self.live: dict[str, set[str]] = {}
        self.readers = Readers(self.standing, self.live, self.suspended)
        self.awaited: set[str] = set()  # sources whose first partition may still appear: they have not ended
        self.failures: dict[str, Exception] = {}
        self.errors = ErrorsAtWork()
        self.timestamps: dict[str, Callable[[Any], float]] = {}
        self.watermarks = Watermarks(self)
        self.trampoline = Trampoline()
        self.calls = Asked(self)
        self.replaying = self.moving = self.leaves_out = False
        self.interleaving: set[Instance] = set()
        """Standing queries that may tell in which order events come on several streams."""
        self.dirty: dict[Any, None] = {}
        self.gone: dict[Any, None] = {}
        self.touch: Callable[[Any], Any] = self.dirty.setdefault
        self.outputs: dict[str, Output] = {}
        self.cascade: deque[Cascade] = deque()
        self.over: list[str] = []  # queries and sources that have ended in this turn
        self.event: tuple[str, str, int, Any] | None = None
        self.turn: Turn | None = None
        self.skips = Skips()
        self.unheard_errors: dict[tuple[str, str], Exception] = {}
        """By kind and path, the last error that nobody in a query has heard; kept for a host that asks for news."""
        self.news: dict[str, None] | None = None
        """Queries that have failed, were revived, skipped or dropped an event; kept for a host that asks."""
        self.mishaps: dict[str, tuple[tuple[str, str, int, Any] | None, Exception]] = {}
        """The last event that a query has skipped, and why, until that host has looked; a replay knows it again."""

    @property
    def orders(self) -> int:
        """How many subscriptions and timers there have been."""
        return self.ordering.newest

    @orders.setter
    def orders(self, newest: int) -> None:
        self.ordering.newest = newest

    # -- what the evaluator calls

    def declare(
        self, source: str, partitions: Sequence[str], *, timestamp: Callable[[Any], float] | None = None
    ) -> None:
        """Name a source with its partitions; *timestamp* reads event time from its events."""
        if source not in self.live:
            self.live[source] = set(partitions)
        if timestamp is not None:
            self.timestamps[source] = timestamp

    def creation(
        self,
        name: str,
        query: Any,
        *,
        time: float,
        policy: str = "fail",
        limits: Limits = NO_LIMITS,
        clock: EventTime | None = None,
        sources_known: bool = True,
    ) -> Create:
        """Check a query and return the turn that creates it.

        *Raises* `QueryRefused` for what cannot be hosted, and for sources nobody has declared.
        """
        plan, keys = admit(self.plans, name, query, policy, limits)
        self.plans.check(name, keys, clock)
        check_clock(name, clock, plan, self.standing.get(name) or self.suspended.get(name))
        if sources_known:
            self.readers.check(name, plan.sources)
        else:
            self.readers.declare(name, plan.sources)
        return Create(name, self.plans.ids[plan], plan, keys, policy, limits, time, clock)

    def emitted(self, name: str) -> int:
        """Return the id that the next notification of *name* will have."""
        found = self.standing.get(name) or self.suspended.get(name)
        return self.retired.get(name) if found is None else found.emitted

    def continue_ids(self, name: str, next_id: int) -> None:
        """Let the ids of *name* go on at *next_id*."""
        found = self.standing.get(name) or self.suspended.get(name)
        if found is None:
            self.retired.put(name, next_id)
        else:
            self.touch(found)
            found.emitted = next_id

    @runs_queries
    def take(self, turn: Turn) -> list[Output]:
        """Take one turn and return what the queries emitted, in the order in which they first did."""
        self.outputs, self.turn = {}, turn
        self.stop = None if type(turn) in MOVING else self.stop
        self.number += turn.turns if type(turn) is Events else 1
        TAKE[type(turn)](self, turn)
        if self.immediate or self.cascade:
            self.settle()
        if self.over:
            complete(self)
        if self.routes.left:
            self.routes.sweep()
        self.event = self.turn = None
        self.errors.clear()
        return list(self.outputs.values())

    # -- turns

    def take_events(self, turn: Events) -> None:
        self.drained = False
        timestamp = self.timestamps.get(turn.source)
        if timestamp is None:
            if turn.time > self.clock:
                self.advance(turn.time)
            if turn.values:  # not sooner: what was due may have been the first to subscribe
                self.hand_over(turn)
        else:
            times = [timestamp(value) for value in turn.values] if turn.times is None else turn.times
            source, partition, first = turn.source, turn.partition, turn.first
            for offset, value in enumerate(turn.values):
                self.advance(times[offset])
                self.spread((value,), (source, partition, first + offset))
                if self.immediate or self.cascade or self.over:
                    self._follow_up()
                self.errors.clear()
        if turn.ended:
            self.settle()
            self.end_partition(turn)

    def end_partition(self, turn: Events) -> None:
        live = self.live.get(turn.source, set())
        live.discard(turn.partition)
        for mark in self.watermarks.by_source.get(turn.source, ()):
            mark.end_partition(turn.source, turn.partition)
        error = None if turn.error is None else lasting(turn.error)
        if error is not None:
            self.failures[turn.source] = error
        if error is not None or not live:
            live.clear()
            self.over.append(turn.source)
            self.end_route(turn.source, error)
        else:
            self.move_clocks(turn.source)

    def end_route(self, source: str, error: Exception | None) -> None:
        """End *source* for all that read it, and do what follows."""
        self._end_readers(source, error)
        self.settle()

    def _end_readers(self, source: str, error: Exception | None) -> None:
        route = self.routes.get(source)
        self.event = end_of(source)
        for instance, leaf in [] if route is None else list(route.readers()):
            self.tell_end(instance, leaf, source, error)
        for mark in self.watermarks.by_source.get(source, ()):
            mark.end_source(source, error)
        self.move_clocks(source)

    def move_clocks(self, source: str) -> None:
        for mark in list(self.watermarks.by_source.get(source, ())):
            mark.move()

    def take_tick(self, turn: Tick) -> None:
        self.is_behind = not self.fire_due(turn.time, inclusive=True, stops=not self.timestamps)
        if not self.is_behind:
            self.clock = max(self.clock, turn.time)
            self.drained = True

    def take_answer(self, turn: Answer) -> None:
        self.advance(turn.time)
        self.drained = False
        self.calls.answer(turn.call, turn.payload)

    def take_create(self, turn: Create) -> None:
        with self.ahead(turn.time):
            self.create(turn)

    def create(self, turn: Create) -> None:
        standing = Standing(turn.code, self, turn.name, policy=turn.policy, keys=turn.keys)
        standing.born = self.order()
        if turn.name in self.suspended and self.suspended.resume(standing, turn):
            return
        before = self.standing.pop(turn.name, None)
        is_edit = before is not None and not is_alike(self, before, turn)
        if before is not None:
            self.tell(turn.name)
        if before is not None and before.status != RUNNING:
            self.reports[turn.name] = begun_afresh(self, before, standing)
            self.retired.put(turn.name, before.emitted)
            self.forget(before)
            begin_anew(self, turn.name)
            before = None
        if turn.clock is not None:
            if before is not None:
                self.touch(before)  # its clock goes over to the new one
            clock = EventClock(self) if before is None or before.clock is None else before.clock
            joined = frozenset[str]() if before is None else joined_by(before, turn.clock, is_edit=is_edit)
            clock.adopt(standing)
            clock.join(turn.clock, sources_of(standing.plan) | joined)
        if before is None:
            standing.emitted = self.retired.pop(turn.name)
            if standing.emitted:
                self.begun[turn.name] = None
                begun_behind_its_end(self, standing)
            self.standing[turn.name] = standing
            self.touch(standing)
            standing.clock.start() if standing.clock is not None else standing.start()
        else:
            standing.born, standing.emitted = before.born, before.emitted
            if standing.clock is not None:
                standing.clock.watermark.is_sorted = False
            report = edit(self, before, standing)
            if is_edit and standing.clock is not None and standing.status == RUNNING:
                leave_unread(standing.clock)
            is_other = before.policy != standing.policy  # of which it would be said that they are elsewhere
            standing.take_over(before, counts_afresh=is_edit or is_other)
            if is_edit or report.lost:
                self.reports[turn.name] = report

    def take_dispose(self, turn: Dispose) -> None:
        with self.ahead(turn.time, of=self._ending(turn) if self.has_due(turn.time) else ()):
            self.suspended.drop(turn.name)
            for name in (turn.name, *(turn.name + ending for ending in ENDINGS)):
                standing = self.standing.pop(name, None)
                if standing is not None:
                    self.dispose(standing, anew=turn.anew)

    def _ending(self, turn: Dispose) -> set[str]:
        """Name the queries in which what is due comes before those end that run, as it is told to who reads them."""
        names = (turn.name,) if turn.ending is None else turn.ending
        there = [self.standing.get(name) or self.suspended.get(name) for name in names]
        return self.readers.connected([each.name for each in there if each is not None and each.status == RUNNING])

    def dispose(self, standing: Standing, *, anew: bool = False) -> None:
        """End a query: whoever reads its stream is told, with an id, unless it had ended before or begins *anew*."""
        name = standing.name
        self.tell(name)
        self.reports.pop(name, None)
        standing.dispose()
        if standing.clock is not None:
            standing.clock.close()
        if standing.status == RUNNING and not anew:
            self.touch(standing)
            standing.emitted = self.end_stream(name, standing.emitted, disposed(name))
        self.forget(standing)
        if standing.emitted:
            self.retired.put(name, standing.emitted)

    def take_resume(self, turn: Resume) -> None:
        self.note_stop(turn.ran_until)
        if turn.partitions != ():
            self.watermarks.wake(turn.time, turn.partitions)

    def take_appear(self, turn: Appear) -> None:
        if turn.source in self.failures:
            return  # an error has ended it, whatever else it has
        self.awaited -= {turn.source for _ in turn.positions}
        self.declare(turn.source, ())
        self.live[turn.source].update(turn.positions)
        for mark in self.watermarks.by_source.get(turn.source, ()):
            mark.appear(turn.source, turn.positions)

    # -- events

    def emit(self, standing: Standing, values: Sequence[Any]) -> None:
        """A query emits: its ids go on, and whoever reads its stream is next."""
        name: str = standing.key  # type: ignore[assignment]
        out = self.outputs.get(name)
        if out is None:
            self.touch(standing)  # once a turn: no snapshot is taken within one
            self.outputs[name] = Output(name, standing.emitted, list(values))
        else:
            out.values.extend(values)  # type: ignore[attr-defined]
        if self.is_heard(name):
            self.cascade.append((name, standing.emitted, values, False, None))
        standing.emitted += len(values)

    def finish(self, standing: Standing, error: Exception | None) -> None:
        """A query ends: its terminal notification has an id too."""
        name, raised = standing.name, error
        error = None if raised is None else lasting(raised)  # readers see what they would see behind a restart
        self.touch(standing)
        standing.emitted = self.end_stream(name, standing.emitted, error)
        standing.status = COMPLETED if error is None else FAILED
        self.over.append(name)
        if raised is not None:
            standing.faults = standing.faults._replace(error=error)
            standing.faults = standing.faults._replace(failure=failure_of(self, standing, raised))
            self.tell(name)
        if standing.clock is not None:
            standing.clock.close()

    def end_stream(self, name: str, next_id: int, error: Exception | None) -> int:
        """Put the terminal notification behind what was emitted, under *next_id*; return the id that follows."""
        out = self.outputs.get(name)
        values: list[Any] = [] if out is None else list(out.values)
        first = next_id if out is None else out.first
        self.outputs[name] = Output(name, first, values, ended=True, error=error)
        if self.is_heard(name):
            self.cascade.append((name, 0, (), True, error))
        return next_id + 1

    def settle(self) -> None:
        """Do all that follows from what has happened, without time moving."""
        while self.immediate or self.cascade:
            self.settle_immediate()
            if self.cascade:
                name, first, values, ended, error = self.cascade.popleft()
                if ended:
                    self._end_readers(name, error)
                elif self.is_told_apart(name, values):
                    singles = [(name, first + offset, (value,), False, None) for offset, value in enumerate(values)]
                    self.cascade.extendleft(reversed(singles))
                else:
                    self.spread(values, (name, "0", first))

    def settle_immediate(self) -> None:
        actions, immediate = 0, self.immediate
        while immediate:
            actions += 1
            timer = immediate.popleft()
            instance = timer[2]
            if instance is None:
                continue
            if actions > instance.plan.limits.actions_max:
                self.stop_runaway(instance)
            else:
                timer[2] = None
                instance.fire(timer[3], timer[4])

    def settle_of(self, query: str) -> None:
        """Do what is put off; what errors *query* has by then are not of what comes next."""
        self.settle_immediate()
        self.errors.pop(query, None)

    # -- the world of the instances

    def forget(self, unit: Any) -> None:
        if unit.epoch != self.epoch:  # a snapshot at work may have yet to write the row, and that is what saves its key
            self.touch(unit)
        if unit.saved is not None:
            self.gone[unit.row_key] = None
        self.dirty.pop(unit, None)
        self.interleaving.discard(unit)

    def subscribe(self, instance: Instance, leaf: PlanNode) -> None:
        if leaf.reads_inner:
            subscribe_inner(instance, leaf, self.order())
            return
        op: SourceLeaf = leaf.op  # type: ignore[assignment]
        order = self.order()
        refusal = self.readers.refusal(instance, op.source)
        self.resume(instance, leaf, order)
        end = self.end_of(op.source) if refusal is None else (refusal,)
        if end is not None:
            self.tell_end(instance, leaf, op.source, end[0])

    def end_of(self, source: str) -> tuple[Exception | None] | None:
        """Return the error, if any, with which a source or stream has ended; None if it goes on."""
        if source in self.live:
            return None if self.live[source] or source in self.awaited else (self.failures.get(source),)
        read = self.standing.get(source) or self.suspended.get(source)
        if read is None:
            return (None,) if has_ended(self, source) else None
        if read.status == RUNNING or any(each[0] == source and each[3] for each in self.cascade):
            return None  # or its end is still to be handed over, behind what it has emitted
        return (read.error,)

    def partitions_of(self, source: str) -> set[str]:
        """Return the partitions of a source that go on; a query's stream has one."""
        return set() if source not in self.live and self.end_of(source) else self.live.get(source, {"0"})

    def resume(self, instance: Instance, leaf: PlanNode, order: int) -> None:
        op: SourceLeaf = leaf.op  # type: ignore[assignment]
        route = self.routes.of(op.source)
        if instance.parent is not None or not (instance.plan.single and instance.plan.by_list):
            if instance.orders is None:
                instance.orders = {}
            instance.orders[leaf.index] = order
        self.readers.choose(instance, op.source)
        route.add(instance, leaf, order)

    def unsubscribe(self, instance: Instance, leaf: PlanNode) -> None:
        if instance.orders is not None:
            instance.orders.pop(leaf.index, None)
        if leaf.reads_inner:
            subject_of(instance, leaf).remove(instance, leaf)
            return
        op: SourceLeaf = leaf.op  # type: ignore[assignment]
        self.readers.leave(instance, op.source)
        self.routes.leave(op.source, instance, leaf)

    def plan_inner(self, query: Query[Any], node: PlanNode) -> tuple[Plan, Operators]:
        return plan_inner(query, node)

    def tell(self, name: str) -> None:
        """Have a host look at the query *name* after this turn."""
        if self.news is not None:
            self.news[name] = None


TAKE: dict[type, Callable[[QueryEngine, Any], None]] = {
    Events: QueryEngine.take_events,
    Rejects: take_rejects,
    Tick: QueryEngine.take_tick,
    Answer: QueryEngine.take_answer,
    Create: QueryEngine.take_create,
    Dispose: QueryEngine.take_dispose,
    Fail: take_fail,
    Resume: QueryEngine.take_resume,
    Appear: QueryEngine.take_appear,
    **EXPECTS,
}
