"""Putting a row that fits into a blank instance: its states, what reads, what is due, and calls that it waits for."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.merging import kept_in
from reliable_rx.runtime.plan import PlanNode
from reliable_rx.runtime.reading import subject_of

if TYPE_CHECKING:
    from reliable_rx.runtime.refitting import Fitted
    from reliable_rx.runtime.signatures import Signature

Row = tuple[Any, ...]


def restore(instance: Instance, row: Row) -> None:
    """Put a row that fits into a blank instance."""
    active, detached, states, timers, orders = row[:5]
    instance.active, instance.detached = active, detached
    plan, world, held = instance.plan, instance.world, instance.states
    for node, values in zip(plan.slots, states, strict=True):
        if values is not None:
            held[node.slot] = node.op.State(*values)  # type: ignore[misc]
    if plan.hub_nodes:
        know_hubs(instance)
    for index, tag, due, order in timers:
        restore_timer(instance, plan.nodes[index], tag, due, order)
    known = dict(orders) if orders else {}
    for leaf in plan.leaves:
        if not active & leaf.bit:
            continue
        order = known.get(leaf.index, 0)
        if leaf.reads_inner:
            if instance.orders is None:
                instance.orders = {leaf.index: order}  # `remember_order`, without a call
            else:
                instance.orders[leaf.index] = order
            subject_of(instance, leaf).add((order, instance, leaf))
        else:
            world.resume(instance, leaf, order)
    for node in plan.calling:
        resume_calls(instance, node)


def resume_calls(instance: Instance, node: PlanNode) -> None:
    """Take up the calls that an operator waits for."""
    if node.op.calls_out and instance.active & node.bit:
        instance.world.calls.resume(instance, node)


def keeps_some(instance: Instance, node: PlanNode) -> bool:
    """Whether *node* has a state, rows of inner sequences, or a timer."""
    return node.slot >= 0 or node.op.yields_inner or bool((instance.timers or {}).get(node.index))


def know_hubs(instance: Instance) -> None:
    """Let saved references to a hub find it under the tokens that it had when they were saved."""
    hubs = instance.plan.hubs
    for node in instance.plan.hub_nodes:
        state = instance.states[node.slot]
        if state is not None:
            state.tokens = tuple(dict.fromkeys((*state.tokens, node.op.token)))  # type: ignore[attr-defined]
            if node.op.counts_readers:
                hubs.update(dict.fromkeys(state.tokens, node))
    for node in instance.plan.hub_nodes:  # one that is read in another place by now goes before what it was there
        if node.op.counts_readers:
            hubs[node.op.token] = node  # type: ignore[attr-defined]


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


def freed(instance: Instance, fitted: Fitted) -> Signature:
    """Return what was saved; what had ended, and stands behind what holds elements now, is there as what is no more.

    It stood before that, and has heard of an end that a `delay` which holds elements has yet to tell: what goes on as
    the first of all, and is fed by nothing any more.
    """
    saved, active = fitted.saved, fitted.row[0]
    first = (active & -active).bit_length() - 1  # what is read is saved before what reads
    holder = instance.plan.by_path.get(saved[first][0]) if active else None
    if holder is None or holder.leaf or holder.op.name != saved[first][1]:
        return saved
    places = {each[0]: place for place, each in enumerate(saved)}
    found = list(saved)
    for node in kept_in(instance, fitted):
        place = places[node.path]
        if place < first and node.mask & holder.bit:
            path, name, version, fields = saved[place]
            found[place] = (path, f"ended {name}", version, fields)
    return tuple(found)
