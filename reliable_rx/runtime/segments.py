"""Segments of a plan: consecutive `Linear` operators as one loop over their list forms.

What is decided once per plan is decided outside the closures, which run for every event.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from reliable_rx.errors import LimitExceeded
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.runtime.gathering import pass_on_above
from reliable_rx.runtime.giving_up import GIVEN_UP, give_up, is_skipping
from reliable_rx.runtime.shared_state import handed_out, is_constant, may_change, one_by_one, stays
from reliable_rx.runtime.stage_context import absorb

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode

Deliver = Callable[["Instance", Sequence[Any]], None]
Finish = Callable[["Instance", Exception | None], None]
Step = Callable[[Any, Any, Any, list[Any]], bool | None]
ListStep = Callable[..., bool | None]
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
    if len(nodes) == 1:
        return segment_of_one(last, *steps_of(last, last))
    first_state = next((node for node in nodes if node.slot >= 0), None)
    bit, steps = last.bit, [(*steps_of(node, last), place_of(node), node.index, node is first_state) for node in nodes]
    onward, handed = last.deliver, handed_out(nodes)
    hands_out, hands_out_within = bool(handed), bool(handed) and last.plan.around is not None

    def run(instance: Instance, values: Sequence[Any], end: Any = None) -> None:
        if not instance.active & bit:
            return
        states, ops = instance.states, instance.ops
        if hands_out and len(values) > 1 and may_change(states, handed):
            one_by_one(run, instance, values, handed, bit)
            return
        for on_list, on_next, slot, index, touches in steps:
            op, out = ops[index], []  # type: ignore[var-annotated]
            if touches:
                touch = instance.world.touch
                touch(instance.unit)
            try:
                state = states[slot]
                one = len(values) == 1
                if on_next(op, state, values[0], out) if one else on_list(instance, op, state, values, out):
                    end = DONE
                elif end is DONE:
                    end = completed(instance, last, op, state, out)
            except BaseException as raised:
                end = went_wrong(instance, last, op, state, out, end, raised)
            if not out and end is None:
                return
            values = out
        if end is not None:
            finish_segment(instance, last, values, end)
            return
        onward(instance, values)
        if hands_out_within and may_change(states, handed):
            pass_on_above(instance)

    return run


def rest_of_segment(head: PlanNode) -> Callable[..., None]:
    """Return the loop from *head* on, which stands within a segment, made when it is called.

    That is where something ends there un-hosted. All of them made at once take room for the square of a pipe's length:
    a gigabyte for two thousand operators.
    """
    made: list[Callable[..., None]] = []

    def run(instance: Instance, values: Sequence[Any], end: Any = None) -> None:
        if not made:
            made.append(segment(head))
        made[0](instance, values, end)

    return run


def place_of(node: PlanNode) -> int:
    """Return where the state of *node* is in a row: a place counted from the front is looked up faster than -1."""
    return node.slot if node.slot >= 0 else len(node.plan.slots)


def segment_of_one(last: PlanNode, on_list: ListStep, on_next: Step) -> Callable[..., None]:
    """Return the same for an operator on its own."""
    kind: Any = type(last.op)
    if last.down is None and last.plan.around is not None and kind.on_completed is Linear.on_completed:
        return segment_alone(last, on_list, on_next)
    bit, onward, handed = last.bit, last.deliver, handed_out([last])
    stateful, slot, index = last.slot >= 0, place_of(last), last.index
    hands_out, hands_out_within = bool(handed), bool(handed) and last.plan.around is not None
    usual: list[type | None] = [None]

    def run(instance: Instance, values: Sequence[Any], end: Any = None) -> None:
        if not instance.active & bit:
            return
        if stateful:
            touch = instance.world.touch
            touch(instance.unit)
        op, state, count = instance.ops[index], instance.states[slot], len(values)
        out: list[Any] = []
        if count > 1 and hands_out and not is_constant(state.value):
            one_by_one(run, instance, values, handed, bit)
            return
        try:
            if on_next(op, state, values[0], out) if count == 1 else on_list(instance, op, state, values, out):
                end = DONE
            elif end is DONE:
                end = completed(instance, last, op, state, out)
        except BaseException as raised:
            end = went_wrong(instance, last, op, state, out, end, raised)
        if end is not None:
            finish_segment(instance, last, out, end)
        elif out:
            onward(instance, out)
        if hands_out_within and type(state.value) is not usual[0] and not stays(state.value, usual):
            pass_on_above(instance)

    return run


def segment_alone(last: PlanNode, on_list: ListStep, on_next: Step) -> Callable[..., None]:
    """Return the same for an operator that is all of an inner sequence, and emits as it goes.

    Most groups are read by one. What is gathered above goes there without a list in between for each of their events.
    """
    bit, handed = last.bit, handed_out([last])
    stateful, slot, index, hands_out = last.slot >= 0, place_of(last), last.index, bool(handed)
    usual: list[type | None] = [None]

    def run(instance: Instance, values: Sequence[Any], end: Any = None) -> None:
        if not instance.active & bit:
            return
        if stateful:
            touch = instance.world.touch
            touch(instance.unit)
        op, state, count = instance.ops[index], instance.states[slot], len(values)
        if count > 1 and hands_out and not is_constant(state.value):
            one_by_one(run, instance, values, handed, bit)
            return
        sink = instance.sink
        parent: Any = instance.parent  # an inner sequence has one
        gathered = parent.gathered
        if gathered is None or sink is None or not sink.passes or not parent.active & sink.bit:
            out, before, gathered = [], 0, None
        else:
            out, before = gathered, len(gathered)
        try:
            if on_next(op, state, values[0], out) if count == 1 else on_list(instance, op, state, values, out):
                end = DONE
            elif end is DONE:
                end = completed(instance, last, op, state, out)
        except BaseException as raised:
            end = went_wrong(instance, last, op, state, out, end, raised)
        if end is not None:
            mine = out[before:]
            del out[before:]
            finish_segment(instance, last, mine, end)
        elif gathered is None and out and sink is not None:
            sink.inner_deliver(instance, out)
        if hands_out and type(state.value) is not usual[0] and not stays(state.value, usual):
            pass_on_above(instance)

    return run


def steps_of(node: PlanNode, last: PlanNode) -> tuple[ListStep, Step]:
    """Return how an operator of the segment up to *last* takes a list (singly where one may be skipped) and a value."""
    on_batch, on_next = bounded(node)

    def on_list(instance: Instance, op: Any, state: Any, values: Sequence[Any], out: list[Any]) -> bool | None:
        if instance.world.leaves_out and is_skipping(instance):
            return each_alone(instance, last, op, state, values, out, on_next)
        return on_batch(op, state, values, out)

    return on_list, on_next


def each_alone(
    instance: Instance, last: PlanNode, op: Any, state: Any, values: Sequence[Any], out: list[Any], on_next: Step
) -> bool:
    """Let *op* take what one event has brought value by value: one that is skipped takes none of the others along."""
    for value in values:
        try:
            if on_next(op, state, value, out):
                return True
        except BaseException as raised:
            if not instance.world.absorb(instance, last, instance.world.blame(raised, instance)):
                raise
    return False


def went_wrong(
    instance: Instance, last: PlanNode, op: Any, state: Any, out: list[Any], end: Any, raised: BaseException
) -> Any:
    """Return how a segment ends in which *op* has raised at a value: with that error, or as before if it is skipped.

    What brought the value may have ended what stands upstream, as the last element of `take` does.
    """
    error = instance.world.blame(raised, instance)
    if not instance.world.absorb(instance, last, error):
        return error
    return completed(instance, last, op, state, out) if end is DONE else end


def completed(instance: Instance, last: PlanNode, op: Any, state: Any, out: list[Any]) -> Any:
    """Let *op* emit what it has left, now that its input is complete; return how the segment ends then."""
    try:
        op.on_completed(state, out)
    except BaseException as raised:
        error = instance.world.blame(raised, instance)
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
