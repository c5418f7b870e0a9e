"""The wiring of a plan: closures that hand lists from operator to operator, and ends with them.

Consecutive `Linear` operators are one *segment*, a loop over their list forms; `Stage`s are called one value at a
time, or with the whole list where they say how. A closure belongs to the plan and takes the instance as an argument;
operators are the instance's, since one plan runs all queries that are `alike`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from reliable_rx.errors import LimitExceeded
from reliable_rx.gathering import pass_on_above
from reliable_rx.giving_up import GIVEN_UP, give_up, is_skipping
from reliable_rx.operator import Linear, Stage
from reliable_rx.query import HubLeaf, SourceLeaf
from reliable_rx.shared_state import CONSTANTS, handed_out, is_constant, may_change, one_by_one
from reliable_rx.stage import Cx, absorb, context, fail_node

if TYPE_CHECKING:
    from reliable_rx.instance import Instance
    from reliable_rx.plan import Plan, PlanNode

Deliver = Callable[["Instance", Sequence[Any]], None]
Finish = Callable[["Instance", Exception | None], None]
Step = Callable[[Any, Any, Any, list[Any]], bool | None]
DONE: Any = object()


def to_sink(instance: Instance, values: Sequence[Any]) -> None:
    sink = instance.sink
    if sink is not None:
        sink.inner_deliver(instance, values)


def end_sink(instance: Instance, error: Exception | None) -> None:
    sink = instance.sink
    if sink is not None:
        sink.inner_finish(instance, error)


def segment(head: PlanNode) -> Callable[..., None]:
    """Return the loop over consecutive linear operators from *head* on."""
    nodes = [head]
    while nodes[-1].down is not None and isinstance(nodes[-1].down.op, Linear):
        nodes.append(nodes[-1].down)
    last = nodes[-1]
    bit, steps = last.bit, [(*bounded(node), node.slot, node.index) for node in nodes]
    if len(nodes) == 1:
        return segment_of_one(last, *steps[0])
    handed = handed_out(nodes)

    def run(instance: Instance, values: Sequence[Any], end: Any = None) -> None:
        if not instance.active & bit:
            return
        states, ops, touched = instance.states, instance.ops, False
        if handed and len(values) > 1 and may_change(states, handed):
            one_by_one(run, instance, values, handed, bit)
            return
        for on_batch, on_next, slot, index in steps:
            op, out = ops[index], []  # type: ignore[var-annotated]
            if slot >= 0 and not touched:
                instance.world.touch(instance.unit)
                touched = True
            try:
                state = states[slot]
                if len(values) == 1:
                    is_over = on_next(op, state, values[0], out)
                elif instance.world.leaves_out and is_skipping(instance):
                    is_over = each_alone(instance, last, op, state, values, out, on_next)
                else:
                    is_over = on_batch(op, state, values, out)
                if is_over:
                    end = DONE
                elif end is DONE:
                    end = completed(instance, last, op, state, out)
            except BaseException as raised:
                end = went_wrong(instance, last, op, state, out, end, raised)
            if end is None and not out:
                return
            values = out
        if end is not None:
            finish_segment(instance, last, values, end)
            return
        last.deliver(instance, values)
        if handed and instance.parent is not None and may_change(states, handed):
            pass_on_above(instance)

    return run


def segment_of_one(last: PlanNode, on_batch: Step, on_next: Step, slot: int, index: int) -> Callable[..., None]:
    """Return the same for an operator on its own, which is what most groups and windows are read by."""
    bit, onward, handed = last.bit, None if last.down is None else last.deliver, handed_out([last])

    def run(instance: Instance, values: Sequence[Any], end: Any = None) -> None:
        if not instance.active & bit:
            return
        if slot >= 0:
            instance.world.touch(instance.unit)
        op, state, out = instance.ops[index], instance.states[slot], []  # type: ignore[var-annotated]
        if handed and len(values) > 1 and not is_constant(state.value):
            one_by_one(run, instance, values, handed, bit)
            return
        try:
            if len(values) == 1:
                is_over = on_next(op, state, values[0], out)
            elif instance.world.leaves_out and is_skipping(instance):
                is_over = each_alone(instance, last, op, state, values, out, on_next)
            else:
                is_over = on_batch(op, state, values, out)
            if is_over:
                end = DONE
            elif end is DONE:
                end = completed(instance, last, op, state, out)
        except BaseException as raised:
            end = went_wrong(instance, last, op, state, out, end, raised)
        if end is not None:
            finish_segment(instance, last, out, end)
        elif out and onward is not None:
            onward(instance, out)
        elif out and (sink := instance.sink) is not None:
            parent = instance.parent
            if parent is not None and parent.gathered is not None and sink.passes and parent.active & sink.bit:
                parent.gathered.extend(out)  # what the sink would do, two calls later for every event of every group
            else:
                sink.inner_deliver(instance, out)
        if handed and type(state.value) not in CONSTANTS and not is_constant(state.value):
            pass_on_above(instance)

    return run


def each_alone(
    instance: Instance, last: PlanNode, op: Any, state: Any, values: Sequence[Any], out: list[Any], on_next: Step
) -> bool:
    """Let *op* take what one event has brought value by value: one that is skipped takes none of the others along."""
    for value in values:
        try:
            if on_next(op, state, value, out):
                return True
        except BaseException as raised:
            if not instance.world.absorb(instance, last, instance.world.blame(raised)):
                raise
    return False


def went_wrong(
    instance: Instance, last: PlanNode, op: Any, state: Any, out: list[Any], end: Any, raised: BaseException
) -> Any:
    """Return how a segment ends in which *op* has raised at a value: with that error, or as before if it is skipped.

    What brought the value may have ended what stands upstream, as the last element of `take` does.
    """
    error = instance.world.blame(raised)
    if not instance.world.absorb(instance, last, error):
        return error
    return completed(instance, last, op, state, out) if end is DONE else end


def completed(instance: Instance, last: PlanNode, op: Any, state: Any, out: list[Any]) -> Any:
    """Let *op* emit what it has left, now that its input is complete; return how the segment ends then."""
    try:
        op.on_completed(state, out)
    except BaseException as raised:
        error = instance.world.blame(raised)
        if not absorb(instance, last, error, had_value=False):
            return error
        return DONE if instance.parent is None else GIVEN_UP
    return DONE


def finish_segment(instance: Instance, last: PlanNode, values: Sequence[Any], end: Any) -> None:
    """Deliver the last values, let go of what stands upstream, and pass the end on."""
    if end is GIVEN_UP:
        if values:
            last.deliver(instance, values)
        give_up(instance)
        return
    instance.world.touch(instance.unit)
    instance.active &= ~last.bit
    try:
        if values:
            last.deliver(instance, values)
    finally:  # a plain observer may raise out of here
        anew = instance.active & last.bit  # what came of the last values has subscribed to us again
        for each in () if anew else last.inputs:
            instance.deactivate(each)
    if not anew:
        last.finish(instance, None if end is DONE else end)


def end_segment(run: Callable[..., None]) -> Finish:
    def finish(instance: Instance, error: Exception | None) -> None:
        run(instance, (), DONE if error is None else error)

    return finish


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
            instance.world.touch(instance.unit)
        cx, on_next = Cx(), instance.ops[index].on_next
        cx.instance, cx.node, cx.state = instance, down, instance.states[slot]  # `context`, without a call
        if len(values) != 1:
            in_turn(cx, port, on_next, values)
            return
        try:
            on_next(cx, port, values[0])
        except BaseException as raised:
            fail_node(instance, down, instance.world.blame(raised))

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
            fail_node(instance, cx.node, instance.world.blame(raised))
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
            instance.world.touch(instance.unit)
        try:
            instance.ops[index].on_batch(context(instance, down), port, values)
        except BaseException as raised:
            fail_node(instance, down, instance.world.blame(raised))

    if not down.op.yields_inner or reader is None or not reader.passes:
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
            instance.world.touch(instance.unit)
        instance.gathered = []
        error: Exception | None = None
        try:
            instance.ops[index].on_batch(context(instance, down), port, values)
        except BaseException as raised:
            error = instance.world.blame(raised)
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
            blamed = instance.world.blame(raised)
            fail_node(instance, down, blamed, had_value=False, had_error=error is not None)

    return finish


def bounded(node: PlanNode) -> tuple[Step, Step]:
    """Return the operator's steps for a list and for one value, watched if its state can grow."""
    kind: type[Linear] = type(node.op)  # type: ignore[assignment]
    if not kind.grows:
        return kind.on_batch, kind.on_next
    limits = limits_of(node)
    step, watched = kind.on_next, [(attrgetter(field), most) for field, _, most in limits]

    def on_next(op: Linear, state: Any, value: Any, out: list[Any]) -> bool | None:
        done = step(op, state, value, out)
        for get, most in watched:
            if len(get(state)) > most:
                check_limits(state, limits, node.path)
        return done

    def on_batch(op: Linear, state: Any, values: Sequence[Any], out: list[Any]) -> bool | None:
        if all(len(get(state)) + len(values) <= most for get, most in watched):
            return kind.on_batch(op, state, values, out)
        for value in values:  # no generator: it would make another error of a StopIteration
            if on_next(op, state, value, out):
                return True
        return None

    return on_batch, on_next


def limits_of(node: PlanNode) -> list[tuple[str, str, int]]:
    """Return for each field that can grow its name, the limit's name and the limit."""
    return [(field, name, getattr(node.plan.limits, name)) for field, name in node.op.grows.items()]


def check_limits(state: Any, limits: list[tuple[str, str, int]], path: str) -> int:
    """Return how many more elements fit. *Raises* `LimitExceeded` when a declared field has grown too long."""
    room = sys.maxsize
    for field, name, most in limits:
        room = min(room, most - len(getattr(state, field)))
        if room < 0:
            raise LimitExceeded(
                f"{path} holds more than {most:,} in {field}: raise Limits({name}=...) or bound the query",
                path=path,
                limit=name,
                most=most,
            )
    return room


def takes_lists(node: PlanNode) -> bool:
    """Whether feeding *node* a list at once cannot be told from feeding it the events one by one."""
    op = node.op
    if not isinstance(op, Stage):
        return True
    chooses = type(op).inner is not Stage.inner and (node.template is None or not steady(node.template))
    return not op.resubscribes and not chooses


def steady(template: Plan) -> bool:
    """Whether a shared sub-plan reads its group from the moment it is opened, and nothing but its group."""
    return all(
        not isinstance(node.op, (SourceLeaf, HubLeaf))
        and (node.template is not None or getattr(node.op, "scheduler_default", "timeout") == "timeout")
        for node in template.walk()
    )
