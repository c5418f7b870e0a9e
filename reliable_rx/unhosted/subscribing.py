"""Running a query on plain `reactivex`: the same instances, Rx's schedulers as the clock, observables as sources.

This is what happens when somebody just calls `subscribe`. With `rebuild_state(True)` every state is turned into bytes,
thrown away and rebuilt after each notification, which is how RxPY's own tests can judge our checkpoints.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Hashable, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import Any, TypeVar

from reactivex import abc
from reactivex.disposable import Disposable, SingleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler, ImmediateScheduler, TimeoutScheduler, VirtualTimeScheduler

from reliable_rx.class_of import derives_from, is_a, qualname_of
from reliable_rx.errors import InternalError, QueryRefused
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.query.query import ForeignLeaf, Node, Query, SourceLeaf
from reliable_rx.runtime.calling import PlainCalls
from reliable_rx.runtime.hub import PlainTrampoline
from reliable_rx.runtime.inner_sequences import tell_end
from reliable_rx.runtime.instance import Instance, Timer
from reliable_rx.runtime.opening import close, is_kept
from reliable_rx.runtime.outliving import rows_within
from reliable_rx.runtime.plan import Operators, Plan, PlanNode
from reliable_rx.runtime.reading import subject_of, subscribe_inner
from reliable_rx.runtime.stage_context import Cx, too_deep
from reliable_rx.unhosted.push import Entrance, Escaped, Push, Wiring, locked

T = TypeVar("T")
DEFAULTS: dict[str, Callable[[], Any]] = {
    "timeout": TimeoutScheduler.singleton,
    "current_thread": CurrentThreadScheduler.singleton,
    "immediate": ImmediateScheduler.singleton,
}
REBUILD = [False]


class Restoring:
    """What `rebuild_state` returns: leaving it as a context restores what was before."""

    def __init__(self, before: bool) -> None:
        self.before = before

    def __enter__(self) -> None: ...

    def __exit__(self, *raised: object) -> None:
        REBUILD[0] = self.before


def rebuild_state(on: bool) -> Restoring:
    """Serialise, discard and rebuild the states of un-hosted queries that are subscribed to from now on.

    It happens after each notification. Returns a context that restores what was before.

    >>> with rebuild_state(True):  # or for good, without `with`
    ...     import reliable_rx as rx
    ...     rx.of(1, 2).pipe(rx.operators.sum()).run()
    3
    """
    before, REBUILD[0] = REBUILD[0], on
    return Restoring(before)


def run(query: Node, observer: abc.ObserverBase[Any], scheduler: abc.SchedulerBase | None) -> abc.DisposableBase:
    """Subscribe *observer* to *query*."""
    world = PlainWorld(scheduler)
    instance = Instance(Plan(query, symbolic=False), world, ObserverSink(observer), None)
    world.root = instance
    world.wiring = Wiring(instance, observer)
    world.enter(instance.start)
    return Disposable(lambda: world.enter(release, instance))


def release(instance: Instance) -> None:
    """Unsubscribe; groups and windows that somebody still reads keep what feeds them."""
    instance.sink = None
    instance.deactivate(instance.plan.root)


class ObserverSink:
    """The end of the pipe: a plain observer."""

    def __init__(self, observer: abc.ObserverBase[Any]) -> None:
        self.observer = observer

    def inner_deliver(self, instance: Instance, values: Sequence[Any]) -> None:
        on_next = self.observer.on_next
        try:
            for value in values:
                on_next(value)
                if instance.sink is None:
                    return
        except Exception as error:
            raise Escaped(error) from error

    def inner_finish(self, instance: Instance, error: Exception | None) -> None:
        try:
            tell_end(self.observer, error)
        except Exception as raised:
            raise Escaped(raised) from raised


class PlainWorld:
    """Rx's schedulers and observables as the world of one subscription."""

    epoch = 0
    trampoline = PlainTrampoline()
    replaying = moving = leaves_out = False

    def blame(self, raised: BaseException, by: Instance) -> Exception:
        """As with RxPY, what is no `Exception` leaves the pipe."""
        if isinstance(raised, Exception):
            return raised
        raise raised

    def __init__(self, scheduler: abc.SchedulerBase | None) -> None:
        self.scheduler = scheduler
        self.root: Instance | None = None
        self.rebuilds = REBUILD[0]
        self.entrance = Entrance()
        self.orders = 0
        self.openers: list[Cx] = []
        self.early: list[Callable[[], Any]] = []
        """What may begin again what has ended but for its moment waits for the end of that."""
        self.subscriptions: dict[tuple[int, int], SingleAssignmentDisposable] = {}
        self.timings: dict[PlanNode, tuple[Any, Callable[[], float]]] = {}
        self.wiring: Wiring | None = None

    def enter(self, call: Callable[..., None], *args: Any) -> None:
        """Run *call* as the only thread in this subscription."""
        entrance = self.entrance
        with entrance.lock:
            entrance.depth += 1
            try:
                call(*args)
            except Escaped as escaped:
                if entrance.depth > 1:  # whoever entered first must hear of it, and no operator or scheduler between
                    raise
                raise escaped.error from None
            finally:
                entrance.depth -= 1
                if self.rebuilds and not entrance.depth and self.root is not None:
                    rebuild(self.root)

    @cached_property
    def calls(self) -> PlainCalls:
        return PlainCalls(self)

    def given(self, node: PlanNode) -> Any:
        """Return the scheduler with which RxPY subscribes to *node*: the subscriber's, or one lent further down."""
        down = node.down
        while down is not None:
            if node.port in down.op.lends_scheduler:
                return (self.timings.get(down) or self.timing_of(down))[0]
            node, down = down, down.down
        return self.scheduler

    def timing_of(self, node: PlanNode) -> tuple[Any, Callable[[], float]]:
        """Return the scheduler of an operator, and what reads its clock."""
        chosen = getattr(node.op, "scheduler", None) or self.given(node)
        scheduler = chosen or DEFAULTS[node.op.scheduler_default]()  # type: ignore[attr-defined]
        timing = self.timings[node] = scheduler, clock_of(scheduler)
        return timing

    def now(self, node: PlanNode) -> float:
        return (self.timings.get(node) or self.timing_of(node))[1]()

    horizon = now

    def touch(self, unit: Any) -> None:
        """Nothing is saved here."""

    forget = touch

    def order(self) -> int:
        self.orders += 1
        return self.orders

    def key_of(self, key: Hashable) -> Hashable:
        """Nothing is read again here: a key is found by what it is."""
        return key

    def plan_inner(self, query: Query[Any], node: PlanNode) -> tuple[Plan, Operators]:
        if not node.made or node.made[0].query is not query.node:  # many selectors return one and the same
            prefix, around = f"{node.path}/inner", node.plan
            plan = Plan(query.node, limits=around.limits, prefix=prefix, symbolic=False, around=around)
            if plan.is_too_deep:
                raise too_deep(plan)
            node.made = [plan]
        return node.made[0], node.made[0].operators

    def wait(self, *_: Any) -> None:
        """Nothing is opened by a shorter way here: a scheduler may run what it is given at once."""

    def set_timer(self, instance: Instance, node: PlanNode, tag: Hashable, due: float | None) -> Timer:
        timer: Timer = [due, self.order(), instance, node, None]

        def action(scheduler: Any, state: Any = None) -> None:
            if timer[2] is None:
                return
            if is_kept(instance, node):
                self.early.append(lambda: scheduler.schedule(action))
                return
            timer[2] = None
            self.enter(instance.fire, node, tag)

        scheduler, _ = self.timings.get(node) or self.timing_of(node)
        timer[4] = scheduler.schedule(action) if due is None else scheduler.schedule_absolute(due, action)
        if timer[2] is None:  # it ran at once, or was cancelled by what did
            timer[4].dispose()
        return timer

    def moment(self, opener: Cx, call: Callable[..., T], *args: Any) -> T:
        """Call *call*; a scheduler that has no moments does at once what is due at once, or RxPY asks no more of it."""
        if not hasattr(self.scheduler, "moment"):
            return call(*args)
        self.openers.append(opener)
        try:
            return self.follow_up(opener, call, *args)
        finally:
            close(opener)
            early, self.early = self.early, []
            for schedule in early:
                schedule()

    def follow_up(self, opener: Cx, call: Callable[..., T], *args: Any) -> T:
        moment: Callable[..., T] | None = getattr(self.scheduler, "moment", None)
        return call(*args) if moment is None else moment(partial(call, *args), lambda: opener.active)

    def cancel_timer(self, timer: Timer) -> None:
        timer[2] = None
        if timer[4] is not None:
            timer[4].dispose()

    def subscribe(self, instance: Instance, leaf: PlanNode) -> None:
        if leaf.reads_inner:
            subscribe_inner(instance, leaf, self.order())
            return
        if isinstance(leaf.op, SourceLeaf):
            raise QueryRefused(
                f"{leaf.path} reads the named source {leaf.op.source!r}, which only a host provides: "
                f"host the query, or replace the name with query.bind({leaf.op.source}=observable)",
                path=leaf.path,
            )
        held = self.subscriptions[id(instance), leaf.index] = SingleAssignmentDisposable()
        op: ForeignLeaf = leaf.op  # type: ignore[assignment]
        held.disposable = op.observable.subscribe(*self._callbacks(instance, leaf, held), scheduler=self.given(leaf))

    def _callbacks(self, instance: Instance, leaf: PlanNode, held: Any) -> tuple[Callable[..., None], ...]:
        def on_error(error: Exception) -> None:
            if not held.is_disposed:
                self.enter(instance.end_leaf, leaf, error)

        def on_completed() -> None:
            if not held.is_disposed:
                self.enter(instance.end_leaf, leaf, None)

        return self._receiver(instance, leaf, held), on_error, on_completed

    def _receiver(self, instance: Instance, leaf: PlanNode, held: Any) -> Push:
        def rebuilding(value: Any) -> None:
            if not held.is_disposed:
                self.enter(leaf.deliver, instance, (value,))

        if self.rebuilds:
            return rebuilding
        if instance is self.root and self.wiring is not None:
            return self.wiring.receiver(leaf, held, self.entrance)
        return locked(lambda value: leaf.deliver(instance, (value,)), held, self.entrance)

    def absorb(self, instance: Instance, node: PlanNode, error: Exception) -> bool:
        """Rx knows no such policy."""
        return False

    def unheard(self, instance: Instance, node: PlanNode, error: Exception) -> None:
        """As with RxPY, nobody is told."""

    def effect_failed(self, instance: Instance, node: PlanNode, error: Exception) -> None:
        raise Escaped(error) from error

    def struck(self, instance: Instance, error: Exception) -> None:
        """As with RxPY, it goes to who called."""
        raise error

    def resume(self, instance: Instance, leaf: PlanNode, order: int) -> None:
        raise InternalError("an un-hosted subscription has no checkpoint")

    def resume_timer(self, instance: Instance, node: PlanNode, tag: Hashable, due: float, order: int) -> Timer:
        raise InternalError("an un-hosted subscription has no checkpoint")

    def unsubscribe(self, instance: Instance, leaf: PlanNode) -> None:
        if leaf.reads_inner:
            subject_of(instance, leaf).remove(instance, leaf)
            return
        held = self.subscriptions.pop((id(instance), leaf.index), None)
        if held is not None:
            held.dispose()


def clock_of(scheduler: Any) -> Callable[[], float]:
    """Return what reads a scheduler's clock in seconds; virtual time without the detour over dates."""
    if type(scheduler).now is VirtualTimeScheduler.now and not isinstance(scheduler.clock, datetime):
        return partial(getattr, scheduler, "clock")
    return lambda: scheduler.to_seconds(scheduler.now)


def rebuild(instance: Instance) -> None:
    """Put every state of *instance* and of those inside it through bytes."""
    for node in instance.plan.slots:
        state = instance.states[node.slot]
        if state is not None:
            live: list[Any] = []
            fields = dict(zip(state_fields(type(node.op)), instance.plan.savers[node.slot](state), strict=True))
            instance.states[node.slot] = node.op.State(**through_bytes(fields, live))  # type: ignore[misc]
    for row in rows_within(instance):
        rebuild(row)


class LivePickler(pickle.Pickler):
    """Pickles state, and refers to what cannot leave the process (observables, code, local classes) by number."""

    def __init__(self, file: io.BytesIO, live: list[Any]) -> None:
        super().__init__(file, protocol=5)
        self.live = live

    def persistent_id(self, value: Any) -> int | None:
        stays = "<locals>" in qualname_of(value) if is_a(value, type) else callable(value)
        if stays or derives_from(value, abc.ObservableBase, abc.DisposableBase, BaseException):
            self.live.append(value)
            return len(self.live) - 1
        return None


class LiveUnpickler(pickle.Unpickler):
    """The other half of `LivePickler`."""

    def __init__(self, file: io.BytesIO, live: list[Any]) -> None:
        super().__init__(file)
        self.live = live

    def persistent_load(self, pid: int) -> Any:
        return self.live[pid]


def through_bytes(fields: dict[str, Any], live: list[Any]) -> dict[str, Any]:
    """Return a copy of *fields* that came out of bytes."""
    buffer = io.BytesIO()
    LivePickler(buffer, live).dump(fields)
    buffer.seek(0)
    return LiveUnpickler(buffer, live).load()  # type: ignore[no-any-return]
