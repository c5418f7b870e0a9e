"""The wiring of a plan: closures that hand lists from operator to operator, and ends with them.

Consecutive `Linear` operators are one *segment* (`reliable_rx.runtime.segments`); `Stage`s are called one value at a
time, or with the whole list where they say how. A closure belongs to the plan and takes the instance as an argument;
operators are the instance's, since one plan runs all queries that are `alike`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from reliable_rx.operators.contract.operator import Linear, Operator, Stage
from reliable_rx.query.query import HubLeaf, SourceLeaf
from reliable_rx.runtime.giving_up import is_skipping
from reliable_rx.runtime.segments import Deliver, Finish
from reliable_rx.runtime.stage_context import Cx, context, fail_node

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import Plan, PlanNode

Step = tuple[int, str | None, str | None]
"""An operator's place with its `maps` and `filters`."""


def passes(op: Any, port: int) -> bool:
    """Whether a stage emits the values of this input as they are."""
    return op.passes_on or op.passes_port == port  # type: ignore[no-any-return]


def passing(down: PlanNode) -> Deliver:
    """Return the way past a stage that passes values on as they are; its row stays untouched."""
    bit, onward = down.bit, down.deliver

    def deliver(instance: Instance, values: Sequence[Any]) -> None:
        if instance.active & bit and not instance.detached & bit:
            onward(instance, values)

    return deliver


def to_stage(down: PlanNode, port: int) -> Deliver:
    """Return the loop that gives values to a stage one by one, for as long as it goes on."""
    bit, index, slot = down.bit, down.index, down.slot

    def deliver(instance: Instance, values: Sequence[Any]) -> None:
        if not instance.active & bit:
            return
        if slot >= 0:
            touch = instance.world.touch
            touch(instance.unit)
        cx, on_next = Cx(), instance.ops[index].on_next
        cx.instance, cx.node, cx.state = instance, down, instance.states[slot]  # `context`, without a call
        if len(values) != 1:
            in_turn(cx, port, on_next, values)
            return
        try:
            on_next(cx, port, values[0])
        except BaseException as raised:
            fail_node(instance, down, instance.world.blame(raised, instance))

    return to_whole_stage(down, port) if hasattr(type(down.op), "on_batch") else deliver


def in_turn(cx: Cx, port: int, on_next: Callable[..., None], values: Sequence[Any]) -> None:
    """Give a stage *values* one by one for as long as it goes on; one that is skipped takes no other along."""
    instance, bit, slot, state, rest = cx.instance, cx.node.bit, cx.node.slot, cx.state, iter(values)
    while instance.active & bit and instance.states[slot] is state:
        try:
            for value in rest:
                on_next(cx, port, value)
                if not instance.active & bit or instance.states[slot] is not state:
                    return
            return
        except BaseException as raised:
            fail_node(instance, cx.node, instance.world.blame(raised, instance))
            if not (instance.world.leaves_out and is_skipping(instance)):
                return


def to_whole_stage(down: PlanNode, port: int) -> Deliver:
    """Return the call that gives a stage a whole list, or value by value where one may be skipped.

    What the readers of its groups emit meanwhile is gathered and passed on as one list.
    """
    bit, index, slot, reader = down.bit, down.index, down.slot, down.down

    def deliver(instance: Instance, values: Sequence[Any]) -> None:
        if not values or not instance.active & bit:
            return
        if len(values) > 1 and instance.world.leaves_out and is_skipping(instance):
            singly(deliver, instance, values, slot)
            return
        if slot >= 0:
            touch = instance.world.touch
            touch(instance.unit)
        try:
            instance.ops[index].on_batch(context(instance, down), port, values)
        except BaseException as raised:
            fail_node(instance, down, instance.world.blame(raised, instance))

    if not down.op.yields_inner or reader is None or not reader.passes or reader.op.keeps_inner:
        return deliver
    if reader.template is None or not steady(reader.template):
        return deliver

    def gather(instance: Instance, values: Sequence[Any]) -> None:
        if len(values) <= 1 or instance.gathered is not None or not instance.active & bit:
            deliver(instance, values)
            return
        if instance.world.leaves_out and is_skipping(instance):
            singly(deliver, instance, values, slot)
            return
        if slot >= 0:
            touch = instance.world.touch
            touch(instance.unit)
        instance.gathered = []
        error: Exception | None = None
        try:
            instance.ops[index].on_batch(context(instance, down), port, values)
        except BaseException as raised:
            error = instance.world.blame(raised, instance)
        gathered, instance.gathered = instance.gathered, None
        if gathered and instance.active & reader.bit:
            reader.deliver(instance, gathered)
        if error is not None:
            fail_node(instance, down, error)

    return gather


def singly(deliver: Deliver, instance: Instance, values: Sequence[Any], slot: int) -> None:
    """Deliver *values* one by one; what has begun anew meanwhile is not the one that they are for."""
    begun = instance.states[slot]
    for value in values:
        deliver(instance, (value,))
        if instance.states[slot] is not begun:
            return


def end_stage(down: PlanNode, port: int) -> Finish:
    bit, index = down.bit, down.index

    def finish(instance: Instance, error: Exception | None) -> None:
        if not instance.active & bit:
            return
        instance.world.touch(instance.unit)
        cx, op = context(instance, down), instance.ops[index]
        try:
            if error is None:
                op.on_completed(cx, port)
            else:
                op.on_error(cx, port, error)
        except BaseException as raised:
            blamed = instance.world.blame(raised, instance)
            fail_node(instance, down, blamed, had_value=False, had_error=error is not None)

    return finish


def takes_lists(node: PlanNode) -> bool:
    """Whether feeding *node* a list at once cannot be told from feeding it the events one by one."""
    op = node.op
    return not isinstance(op, Stage) or not (op.resubscribes or getattr(op, "acts_at_once", False) or chooses(node))


def chooses(node: PlanNode) -> bool:
    """Whether *node* may subscribe to what only its values say."""
    kind = type(node.op)
    has_inner = isinstance(node.op, Stage) and kind.inner is not Stage.inner  # type: ignore[attr-defined]
    return has_inner and (node.template is None or not steady(node.template))


def steady(template: Plan) -> bool:
    """Whether a shared sub-plan reads its group from the moment it is opened, and nothing but its group."""
    return all(
        not isinstance(node.op, (SourceLeaf, HubLeaf))
        and (node.template is not None or getattr(node.op, "scheduler_default", "timeout") == "timeout")
        for node in template.walk()
    )


def steps_after_waiting(plan: Plan) -> list[Step] | None:
    """Return what stands behind the timer of a plan that waits once, which is maps and filters; None for another."""
    first, *rest = plan.nodes
    kinds = [type(node.op) for node in rest]
    if not plan.symbolic or plan.under_symbol or first.inputs or type(first.op).once is Operator.once:
        return None
    if not all(issubclass(kind, Linear) and (kind.maps or kind.filters) for kind in kinds):
        return None
    return [(place, kind.maps, kind.filters) for place, kind in enumerate(kinds, 1)]  # type: ignore[attr-defined]
