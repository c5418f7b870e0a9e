"""The context a `Stage` acts through, for every host: what an operator does here lands in the instance's row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from reliable_rx.errors import LimitExceeded
from reliable_rx.query.query import ITERABLES, Inner, Query, as_query
from reliable_rx.runtime.giving_up import GIVEN_UP, drop_group, give_up, is_caught
from reliable_rx.runtime.hub import serve, share_end, share_value
from reliable_rx.runtime.inner_sequences import Subject

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import Plan, PlanNode


T = TypeVar("T")
READ_AS_THEY_ARE = (Query, *ITERABLES)
KNOWN = frozenset(READ_AS_THEY_ARE)
"""The same to be found by their kind: `Query` is an abstract class, and slow to ask."""


class Cx:
    """A `Context`: one operator of one instance, for the length of a call; made by `context`."""

    __slots__ = ("instance", "node", "state")
    instance: Instance
    node: PlanNode
    state: Any

    @property
    def queue_items_max(self) -> int:
        return self.node.plan.limits.queue_items_max

    @property
    def now(self) -> float:
        return self.instance.world.now(self.node)

    @property
    def horizon(self) -> float:
        return self.instance.world.horizon(self.node)

    @property
    def active(self) -> bool:
        """Whether anybody still wants what this operator emits."""
        return bool(self.instance.active & self.node.bit)

    @property
    def may_skip(self) -> bool:
        return self.instance.world.leaves_out

    @property
    def skipped(self) -> int:
        """How many events the standing query has skipped since an error struck."""
        top = self.instance
        while top.parent is not None:
            top = top.parent
        return getattr(top, "skipped", 0)

    def refuse(self, raised: BaseException, *, had_error: bool = False) -> None:
        """Deal with what a function has raised as if the call into the operator had, which goes on from here."""
        fail_node(self.instance, self.node, self.instance.world.blame(raised, self.instance), had_error=had_error)

    def goes_on(self, state: Any) -> bool:
        instance, node = self.instance, self.node
        return instance.states[node.slot] is state and bool(instance.active & node.bit)

    @property
    def replaying(self) -> bool:
        """Whether the host repeats what has happened before."""
        world = self.instance.world
        return world.replaying or world.moving

    def emit(self, value: Any) -> None:
        instance, node = self.instance, self.node
        if instance.active & node.bit and not instance.detached & node.bit:
            deliver = node.deliver
            deliver(instance, (value,))

    def emit_all(self, values: Sequence[Any]) -> None:
        instance, bit = self.instance, self.node.bit
        if values and instance.active & bit and not instance.detached & bit:
            deliver = self.node.deliver
            deliver(instance, values)

    def complete(self) -> None:
        if self.instance.states[self.node.slot] is self.state:  # or what it has emitted made it begin anew
            finish_node(self.instance, self.node, None)

    def complete_outer(self) -> None:
        end_outer(self.instance, self.node, None)

    def fail(self, error: Exception) -> None:
        finish_node(self.instance, self.node, error)

    def schedule(self, due: float, tag: Hashable) -> None:
        instance, node = self.instance, self.node
        if instance.active & node.bit:  # what an operator emits may end it before it goes on to here
            if due != due:
                raise ValueError(f"a timer of {node.path} is to be due at {due!r}, which is no time")
            instance.set_timer(node, tag, due)

    def soon(self, tag: Hashable) -> None:
        instance, node = self.instance, self.node
        if instance.active & node.bit:
            instance.set_timer(node, tag, None)

    def moment(self, call: Callable[..., T], *args: Any) -> T:
        return self.instance.world.moment(self, call, *args)

    def cancel(self, tag: Hashable) -> None:
        self.instance.cancel_timer(self.node, tag)

    def subscribe(self, port: int) -> None:
        if not self.active:
            return
        source = self.node.inputs[port]
        self.instance.deactivate(source)
        self.instance.subscribe(source)

    def subscribe_all(self) -> None:
        for source in self.node.inputs:
            if self.instance.active & self.node.bit:
                self.instance.subscribe(source)

    def unsubscribe(self, port: int) -> None:
        self.instance.deactivate(self.node.inputs[port])

    def runs(self, port: int) -> bool:
        return bool(self.instance.active & self.node.inputs[port].bit)

    def due(self, tag: Hashable) -> float | None:
        timer = (self.instance.timers or {}).get(self.node.index, {}).get(tag)
        return None if timer is None else timer[0]

    def project(self, outer: Any) -> Any:
        node = self.node
        if node.template is not None and isinstance(outer, Inner):
            return None
        inner = self.instance.ops[node.index].inner(outer)
        return inner if type(inner) in KNOWN or isinstance(inner, READ_AS_THEY_ARE) else as_query(inner)

    def open(self, key: Hashable, outer: Any, inner: Any = None) -> None:
        instance, node = self.instance, self.node
        if instance.active & node.bit:
            try:
                instance.open(node, key, outer, inner)
            except BaseException:
                instance.ops[node.index].on_unopened(self, key)
                raise

    def try_open(self, key: Hashable, outer: Any, inner: Any = None) -> bool:
        instance, node = self.instance, self.node
        if not instance.active & node.bit:
            return False
        try:
            return instance.open(node, key, outer, inner).key is not GIVEN_UP
        except BaseException:
            instance.ops[node.index].on_unopened(self, key)
            raise

    def prepare(self, key: Hashable, outer: Any) -> None:
        if self.active:
            try:
                self.instance.open(self.node, key, outer, start=False)
            except BaseException:
                self.instance.ops[self.node.index].on_unopened(self, key)
                raise

    def start(self, key: Hashable) -> bool:
        child = self.instance.child(self.node, key)
        if child is None:
            return True
        child.start()
        return child.key is not GIVEN_UP

    def close(self, key: Hashable) -> None:
        self.instance.close(self.node, key)

    def opened(self) -> int:
        children = self.instance.children
        return 0 if children is None else len(children.get(self.node.index, ()))

    def begin(self, key: Hashable) -> Inner[Any, Any]:
        if not self.active:
            return Inner(Subject(None, None, key))
        groups = self.groups()
        limit = self.node.op.inner_limit  # type: ignore[attr-defined]
        if len(groups) >= getattr(self.node.plan.limits, limit):
            raise exceeded(self.node, limit)
        return Inner(self.instance.begin(self.node, self.instance.world.key_of(key)))

    def groups(self) -> dict[Any, Any]:
        return self.instance.groups(self.node)

    def feed(self, key: Hashable, values: Sequence[Any]) -> None:
        subject = self.groups().get(key)
        if subject is not None:
            self.instance.world.follow_up(self, subject.feed, values)

    def renew(self, key: Hashable) -> None:
        groups, world = self.groups(), self.instance.world
        if (subject := groups.pop(key, None)) is not None:
            world.touch(subject)
            subject.order = world.order()
            groups[key] = subject

    def end(self, key: Hashable, error: Exception | None = None) -> None:
        self.instance.world.follow_up(self, self.instance.end_group, self.node, key, error)

    def drop(self, key: Hashable) -> None:
        drop_group(self.instance, self.node, key)

    @property
    def is_inner(self) -> bool:
        return self.instance.parent is not None

    def give_up(self) -> None:
        instance, node = self.instance, self.node
        if instance.active & node.bit:
            leave_out(instance, node)

    def share(self, value: Any) -> None:
        share_value(self.instance, self.node, value)

    def serve(self, reader: int) -> None:
        serve(self.instance, self.node, reader)

    def share_end(self, error: Exception | None) -> None:
        share_end(self.instance, self.node, error)

    def call(self, value: Any) -> Hashable:
        return self.instance.world.calls.ask(self.instance, self.node, value)

    def origin(self, value: Any) -> Any:
        return self.instance.world.calls.origin(self.instance, self.node, value)

    def answered(self, origin: Any, value: Any, error: Exception | None) -> None:
        self.instance.world.calls.at_work(origin)
        if error is None:
            self.emit(value)
        else:
            fail_node(self.instance, self.node, self.instance.world.blame(error, self.instance))

    def hold(self, full: bool) -> None:
        self.instance.world.calls.hold(self.instance, self.node, full=full)


def context(instance: Instance, node: PlanNode) -> Cx:
    """Return what *node* acts through; with an ``__init__`` it would take twice as long to make, and many are made."""
    cx = Cx()
    cx.instance, cx.node, cx.state = instance, node, instance.states[node.slot]
    return cx


ANYWHERE = (RecursionError, MemoryError)
"""What the interpreter raises wherever it happens to be, and no function by itself."""


def exceeded(node: PlanNode, limit: str) -> LimitExceeded:
    """Say which operator grew past which limit."""
    most = getattr(node.plan.limits, limit)
    return LimitExceeded(
        f"{node.path} holds more than {most:,} inner sequences: raise Limits({limit}=...) or bound the query",
        path=node.path,
        limit=limit,
        most=most,
    )


def too_deep(plan: Plan) -> LimitExceeded:
    """Say that inner sequences are nested too deeply, as by a selector that calls for itself."""
    most = plan.limits.depth_max
    return LimitExceeded(
        f"{plan.prefix} is nested more than {most} deep: raise Limits(depth_max=...) or end the recursion",
        path=plan.prefix,
        limit="depth_max",
        most=most,
    )


def finish_node(instance: Instance, node: PlanNode, error: Exception | None) -> None:
    """End *node*: first its own inner sequences, then what stands upstream, then tell downstream."""
    if not instance.active & node.bit:
        return
    if node.op.counts_readers:
        end_hub(instance, node, error)
        return
    for key in list(instance.groups(node)) if node.op.yields_inner else ():
        context(instance, node).end(key, error)
    end_outer(instance, node, error)


def end_hub(instance: Instance, node: PlanNode, error: Exception | None) -> None:
    """End a hub that has failed: downstream of it are only its readers."""
    for source in node.inputs:
        instance.deactivate(source)
    instance.ops[node.index].finish(context(instance, node), error)


def end_outer(instance: Instance, node: PlanNode, error: Exception | None) -> None:
    """End *node* alone: what stands upstream goes, unless its inner sequences are read, and downstream is told."""
    if not instance.active & node.bit:
        return
    unheard = instance.detached & node.bit
    instance.deactivate(node, ending=True)
    if not unheard:
        node.finish(instance, error)
    if node.releases:
        instance.released(node)


def fail_node(
    instance: Instance, node: PlanNode, error: Exception, *, had_value: bool = True, had_error: bool = False
) -> None:
    """End *node* with an error that its step raised, unless the host goes on without the event.

    An error that struck with no value at hand, at a subscription, a completion or a timer, has left nothing to go on
    with: see `leave_out`. One that struck while another was dealt with is never skipped: *node* would go on, or
    complete, as if nothing had failed.

    A node that has ended is not told of errors, as in Rx: the host is. But what strikes anywhere may have struck
    between two nodes, or while an error was dealt with: then the row is half done, and what is downstream would wait
    for ever.
    """
    if isinstance(error, ANYWHERE) and (not instance.active & node.bit or isinstance(error.__context__, ANYWHERE)):
        instance.world.struck(instance, error)
    elif had_error or not absorb(instance, node, error, had_value=had_value):
        if not is_heard(instance, node):
            instance.world.unheard(instance, node, error)
        finish_node(instance, node, error)
    elif not had_value:
        leave_out(instance, node)


def is_heard(instance: Instance, node: PlanNode) -> bool:
    """Whether anybody is told how *node* ends: what is downstream, or who reads an inner sequence of its."""
    return bool(instance.active & node.bit and (not instance.detached & node.bit or instance.is_read(node)))


def absorb(instance: Instance, node: PlanNode, error: Exception, *, had_value: bool) -> bool:
    """Whether the host goes on without the event; what a handler gives has to begin and to end."""
    return (had_value or not is_caught(instance)) and instance.world.absorb(instance, node, error)


def leave_out(instance: Instance, node: PlanNode) -> None:
    """Go on without what *node* emits, at an event that is skipped.

    An inner sequence is given up as a whole: its end would be an answer, to what stands behind *node* in it and to the
    operator that reads it. The standing query itself can only end.
    """
    if instance.parent is None:
        finish_node(instance, node, None)
    else:
        give_up(instance)
