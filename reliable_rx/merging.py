"""Bringing a fresh instance of an edited query to where the one before was: what runs, who reads in which order.

A fresh start subscribes, and what it meets may end it at once, or may have begun later in the run before. So after it
what is known runs exactly if it ran, and what is new runs if something before it does. Rejected: not starting at all
(operators that are new would never have begun).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from reliable_rx.hub import connect, subject_of_hub
from reliable_rx.query import HubLeaf
from reliable_rx.reading import reads_inner, remember_order, subject_of

if TYPE_CHECKING:
    from reliable_rx.hub import HubSubject
    from reliable_rx.instance import Instance
    from reliable_rx.plan import PlanNode
    from reliable_rx.rows import Signature


class OnlyEnds:
    """Stands for what an instance emits into: its elements go nowhere."""

    __slots__ = ("sink",)

    def __init__(self, sink: Any) -> None:
        self.sink = sink

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)

    def inner_deliver(self, instance: Instance, values: Sequence[Any]) -> None:
        """Leave out what a fresh start emits: that was emitted before."""


def start_afresh(instance: Instance, active: dict[str, int], saved: Signature) -> None:
    """Start *instance*, and what had begun later when *active* was saved; elements that come at once go nowhere."""
    sink = instance.sink
    muted = instance.sink = None if sink is None else OnlyEnds(sink)
    try:
        instance.start()
        subscribe_at_once(instance)
        idle = [node for node in instance.plan.hub_nodes if not instance.active & node.bit]
        start_later(instance, active, saved)
        connect_shared(instance, active, saved)
        for node in idle:
            if instance.active & node.bit:
                subscribe_at_once(instance, node)
    finally:
        if instance.sink is muted:  # it has not ended
            instance.sink = sink


def subscribe_at_once(instance: Instance, last: PlanNode | None = None) -> None:
    """Let operators up to *last* that subscribe one action later do it now; what was saved takes that place, if any."""
    mask = -1 if last is None else last.mask
    for node in [each for each in reversed(instance.plan.nodes) if mask & each.bit]:
        timers = (instance.timers or {}).get(node.index, {}) if node.inputs else {}
        for tag in [tag for tag, timer in timers.items() if timer[0] <= instance.world.now(node)]:
            instance.cancel_timer(node, tag)
            instance.fire(node, tag)


def connect_shared(instance: Instance, active: dict[str, int], saved: Signature) -> None:
    """Subscribe the shared parts that ran when *active* was saved, as the first of their readers did.

    Their readers may be rows that are still to come; what is new before such a part begins here as it does elsewhere.
    """
    names = {each[0]: each[1] for each in saved}
    for node in instance.plan.hub_nodes:
        ran = names.get(node.path) == node.op.name and active[node.path]
        if node.op.counts_readers and ran and not instance.active & node.bit:
            connect(instance, node)


def start_later(instance: Instance, active: dict[str, int], saved: Signature) -> None:
    """Subscribe further inputs of operators that had come to these when *active* was saved; a fresh start has not."""
    names = {each[0]: each[1] for each in saved}
    for node in reversed(instance.plan.nodes):
        if names.get(node.path) != node.op.name or not active[node.path]:
            continue
        for port, first in enumerate(node.inputs[1:], 1):
            side = f"{node.path}:{port}/"
            if not instance.active & first.mask and any(active[path] for path in active if path.startswith(side)):
                instance.subscribe(first)
                subscribe_at_once(instance, first)


def connect_kept(instance: Instance) -> list[HubSubject]:
    """Subscribe the shared parts that have got readers which were there before; return those that have ended at that.

    Readers that are kept had their greeting. Of elements that come at once they hear no more than other parts that are
    kept do of what a fresh start emits; whether there will be more they have yet to be told.
    """
    ended: list[HubSubject] = []
    for node in instance.plan.hub_nodes:
        if not node.op.counts_readers or instance.active & node.bit or not subject_of_hub(instance, node).subscribers:
            continue
        subject = subject_of_hub(instance, node)
        subject.silenced = tuple(subject.subscribers)
        try:
            connect(instance, node)
            subscribe_at_once(instance, node)
        finally:
            subject.silenced = ()
        if instance.states[node.slot].ended:
            ended.append(subject)
    return ended


def empty(instance: Instance, node: PlanNode) -> None:
    """End what a fresh start has opened inside *node*: what was saved takes its place."""
    for key in list((instance.subjects or {}).get(node.index, ())):
        instance.end_group(node, key, None)
    for child in list((instance.children or {}).get(node.index, {}).values()):
        child.dispose()
        instance.drop_child(node, child)
    if node.op.calls_out and instance.active & node.bit:
        instance.world.calls.drop(instance, node)


def align(instance: Instance, active: dict[str, int], saved: Signature) -> list[str]:
    """Let those run that ran when *active* was saved, which a fresh start may have begun later or ended at once.

    What is new runs if something before it does. Returned are readers of shared parts that begin anew: what they had
    heard of it is not known.
    """
    anew: list[str] = []
    names = {each[0]: each[1] for each in saved}
    runs: dict[int, bool] = {}
    for node in instance.plan.nodes:
        if node.op.counts_readers and names.get(node.path) == node.op.name and active[node.path]:
            runs[node.index] = True  # its readers may be rows that are still to come
        elif isinstance(node.op, HubLeaf) and node.path in names and active[node.path]:
            runs[node.index] = True  # it may read a part that does not run yet: see `connect_kept`
        elif node.op.counts_readers or isinstance(node.op, HubLeaf):
            runs[node.index] = bool(instance.active & node.bit)
            if runs[node.index] != bool(active.get(node.path, runs[node.index])):
                anew.append(node.path)
        elif names.get(node.path) == node.op.name:
            runs[node.index] = bool(active[node.path])
        elif node.inputs:
            runs[node.index] = any(runs[each.index] for each in node.inputs) or has_begun(instance, node, names)
        else:
            runs[node.index] = bool(instance.active & node.bit)
        if runs[node.index] and not instance.active & node.bit:
            resubscribe(instance, node)
        elif instance.active & node.bit and not runs[node.index]:
            instance.stop(node)
    return anew


def has_begun(instance: Instance, node: PlanNode, names: dict[str, str]) -> bool:
    """Whether *node* is new, with all before it, and has something to do yet, though what it reads has ended."""
    waits = instance.active & node.bit and (instance.timers or {}).get(node.index)
    return bool(waits) and not any(node.mask & each.bit and each.path in names for each in instance.plan.nodes)


def stop_unread(instance: Instance) -> None:
    """Stop the shared parts that run and have lost all of their readers."""
    for node in instance.plan.hub_nodes:
        if node.op.counts_readers and instance.active & node.bit:
            instance.detached |= node.bit
            instance.reader_left(node)


def take_places(instance: Instance, orders: dict[str, int]) -> None:
    """Let each leaf that reads have the place among all readers that it had."""
    for leaf in instance.plan.leaves:
        order = orders.get(leaf.path)
        if order is None or not instance.active & leaf.bit:
            continue
        if reads_inner(leaf):
            remember_order(instance, leaf, order)
            subject = subject_of(instance, leaf)
            subject.subscribers = [
                (order, *each[1:]) if each[1] is instance and each[2] is leaf else each for each in subject.subscribers
            ]
        else:
            instance.world.unsubscribe(instance, leaf)
            instance.world.resume(instance, leaf, order)


def resubscribe(instance: Instance, node: PlanNode) -> None:
    """Let *node* run, which a fresh start has not begun or has ended."""
    instance.active |= node.bit
    if node.slot >= 0 and instance.states[node.slot] is None:
        instance.states[node.slot] = instance.ops[node.index].initial()
    if node.leaf:
        order = instance.world.order()
        if reads_inner(node):
            remember_order(instance, node, order)
            subject_of(instance, node).add((order, instance, node))
        else:
            instance.world.resume(instance, node, order)


def replace_timers(instance: Instance, node: PlanNode, timers: list[tuple[Any, ...]]) -> None:
    """Cancel what a fresh start has scheduled for *node* and schedule what was saved."""
    for tag in list((instance.timers or {}).get(node.index, ())):
        instance.cancel_timer(node, tag)
    if instance.active & node.bit:
        for tag, due, order in timers:
            restore_timer(instance, node, tag, due, order)


def restore_timer(instance: Instance, node: PlanNode, tag: Hashable, due: float, order: int) -> None:
    if instance.timers is None:
        instance.timers = {}
    timer = instance.world.resume_timer(instance, node, tag, due, order)
    instance.timers.setdefault(node.index, {})[tag] = timer
