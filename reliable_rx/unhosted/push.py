"""The push form of a plan: one value at a time through closures, for the subscriptions of plain `reactivex`.

An engine hands over lists, and pays for a list once per batch; un-hosted every event comes alone, and a list of one
at every step is most of the cost. So each subscription gets closures of its own, bound to its states. They act on
the same row as the list form and may be mixed with it; ends, errors and timers always take the list form.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from reactivex import abc
from reactivex.observer import AutoDetachObserver

from reliable_rx.operators.contract.operator import Linear, Stage
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import PlanNode
from reliable_rx.runtime.segments import DONE, check_limits, finish_segment, limits_of
from reliable_rx.runtime.stage_context import Cx, fail_node
from reliable_rx.runtime.wiring import passes

Push = Callable[[Any], None]


class Escaped(BaseException):
    """Carries an exception of the final observer past operators, to whoever pushed the event or subscribed."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Entrance:
    """The door of one subscription: one thread at a time, and how deep it is inside."""

    __slots__ = ("depth", "lock")

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.depth = 0


def is_linear(instance: Instance) -> bool:
    """Whether nothing can happen in *instance* but what its one source says."""
    return all(node.leaf or isinstance(node.op, Linear) for node in instance.plan.nodes)


class Wiring:
    """The closures of one subscription: for every node, where it pushes what it emits."""

    def __init__(self, instance: Instance, observer: abc.ObserverBase[Any]) -> None:
        self.instance = instance
        self.linear = is_linear(instance)
        self.locks = any(node.inputs and getattr(node.op, "locks", False) for node in instance.plan.nodes)
        self.pushes: dict[int, Push] = {}
        self.contexts: dict[int, PushCx] = {}
        self.states = States(instance.states)
        if not self.linear:
            instance.states = self.states
        for node in reversed(instance.plan.nodes):  # an operator stands behind its inputs in this list
            self.pushes[node.index] = self._push(node, observer)

    def _push(self, node: PlanNode, observer: abc.ObserverBase[Any]) -> Push:
        down = node.down
        if down is None:
            return observer.on_next if self.linear else guarded(observer)
        onward = self.pushes[down.index]
        if not isinstance(down.op, Linear):
            cx = self.contexts.get(down.index)
            if cx is None:
                cx = self.contexts[down.index] = self._context(down, observer, onward)
            return into_stage(cx, node.port)
        if self.linear and down.down is None and isinstance(observer, AutoDetachObserver) and not down.op.grows:
            return last_link(self.instance, down, observer)
        return link(self.instance, down, onward)

    def _context(self, node: PlanNode, observer: abc.ObserverBase[Any], push: Push) -> PushCx:
        last = node.down is None and isinstance(observer, AutoDetachObserver) and not node.op.yields_inner
        cx = LastCx(self.instance, node, observer) if last else PushCx(self.instance, node, push)
        self.states.contexts[node.slot] = cx
        return cx

    def receiver(self, leaf: PlanNode, held: Any, entrance: Entrance) -> Push:
        """Return `on_next` for a leaf: the path of every event, so no more happens on it than has to."""
        down, push = leaf.down, self.pushes[leaf.index]
        if self.linear and down is not None:
            return push  # the grammar of its one source is all the order that a chain needs
        if down is None or isinstance(down.op, Linear):
            return locked(push, held, entrance) if self.locks else opened(push, entrance)
        cx = self.contexts[down.index]
        if not passes(down.op, leaf.port):
            return (locked_stage if self.locks else open_stage)(cx, leaf.port, held, entrance)
        if isinstance(cx, LastCx):
            return locked_last(cx, held, entrance) if self.locks else open_last(cx, held)
        return locked(push, held, entrance) if self.locks else opened(push, entrance)


class States(list[Any]):
    """The states of a subscription; one that is begun anew is told to the context that lasts."""

    __slots__ = ("contexts",)

    def __init__(self, states: list[Any]) -> None:
        super().__init__(states)
        self.contexts: dict[int, PushCx] = {}

    def __setitem__(self, slot: Any, state: Any) -> None:
        super().__setitem__(slot, state)
        if slot in self.contexts:
            self.contexts[slot].state = state


def link(instance: Instance, node: PlanNode, down: Push) -> Push:
    """Return the step of a linear operator with others behind it."""
    op: Linear = node.op  # type: ignore[assignment]
    if op.maps is not None:
        return mapping_link(instance, node, getattr(op, op.maps), down)
    if op.filters is not None:
        return filtering_link(instance, node, getattr(op, op.filters), down)
    return stepping_link(instance, node, down)


def mapping_link(instance: Instance, node: PlanNode, function: Callable[[Any], Any], down: Push) -> Push:
    bit = node.bit

    def push(value: Any) -> None:
        if instance.active & bit:
            try:
                value = function(value)
            except Exception as error:
                end(instance, node, [], error)
                return
            down(value)

    return push


def filtering_link(instance: Instance, node: PlanNode, function: Callable[[Any], Any], down: Push) -> Push:
    bit = node.bit

    def push(value: Any) -> None:
        if instance.active & bit:
            try:
                passed = function(value)
            except Exception as error:
                end(instance, node, [], error)
                return
            if passed:
                down(value)

    return push


def stepping_link(instance: Instance, node: PlanNode, down: Push) -> Push:
    """Return the step of any other; a collector adds one element a step, so its limit is looked at when reached."""
    step, states, slot, bit = node.op.on_next, instance.states, node.slot, node.bit  # type: ignore[attr-defined]
    limits, room = limits_of(node), 0 if node.op.grows else sys.maxsize

    def push(value: Any) -> None:
        nonlocal room
        if not instance.active & bit:
            return
        out: list[Any] = []
        try:
            done = step(states[slot], value, out)
            room -= 1
            if room < 0:
                room = check_limits(states[slot], limits, node.path)
        except Exception as error:
            end(instance, node, out, error)
            return
        if done:
            end(instance, node, out, DONE)
            return
        for each in out:
            down(each)

    return push


def last_link(instance: Instance, node: PlanNode, observer: Any) -> Push:
    """Return the step of a chain's last operator, which calls the observer itself: a hop is a tenth of an event."""
    step, states, slot, bit = node.op.on_next, instance.states, node.slot, node.bit  # type: ignore[attr-defined]
    on_next = observer._on_next

    def push(value: Any) -> None:
        if not instance.active & bit:
            return
        out: list[Any] = []
        try:
            done = step(states[slot], value, out)
        except Exception as error:
            end(instance, node, out, error)
            return
        if done:
            end(instance, node, out, DONE)
            return
        for each in out:
            if observer.is_stopped:
                return
            on_next(each)

    return push


def end(instance: Instance, node: PlanNode, out: list[Any], how: Any) -> None:
    """End a chain at *node*: what comes out last and the end go to the chain's last operator in one step.

    What is emitted may make somebody subscribe to this chain anew, and the end is not for him.
    """
    if node.down is not None and isinstance(node.down.op, Linear):
        instance.active &= ~node.bit
        node.deliver(instance, out, how)  # type: ignore[call-arg]
    else:
        finish_segment(instance, node, out, how)


def guarded(observer: abc.ObserverBase[Any]) -> Push:
    """Return the end of the pipe behind a stage: the observer's own errors must not be taken for the stage's."""
    on_next = observer.on_next

    def push(value: Any) -> None:
        try:
            on_next(value)
        except Exception as error:
            raise Escaped(error) from error

    return push


class PushCx(Cx):
    """A context that lasts as long as its subscription, knows the state at work, and emits into closures."""

    __slots__ = ("push", "queue_items_max")

    def __init__(self, instance: Instance, node: PlanNode, push: Push) -> None:
        self.instance, self.node, self.state = instance, node, instance.states[node.slot]
        self.push = push
        self.queue_items_max = node.plan.limits.queue_items_max  # type: ignore[misc]

    def emit(self, value: Any) -> None:
        instance, bit = self.instance, self.node.bit
        if instance.active & bit and not instance.detached & bit:
            self.push(value)

    def emit_all(self, values: Sequence[Any]) -> None:
        for value in values:
            self.emit(value)


class LastCx(PushCx):
    """The context of the last operator: it calls the observer itself, which is stopped when the operator is."""

    __slots__ = ("observer",)

    def __init__(self, instance: Instance, node: PlanNode, observer: Any) -> None:
        super().__init__(instance, node, observer._on_next)
        self.observer = observer

    def emit(self, value: Any) -> None:
        if not self.observer.is_stopped:
            try:
                self.push(value)
            except Exception as error:
                raise Escaped(error) from error


def into_stage(cx: PushCx, port: int) -> Push:
    """Return the step into a stage: around it where it passes values on as they are."""
    instance, node, bit = cx.instance, cx.node, cx.node.bit
    op, on_next = node.op, step_of(node.op)

    def push(value: Any) -> None:
        if instance.active & bit:
            try:
                on_next(cx, port, value)
            except Exception as error:
                fail_node(instance, node, error)

    return cx.emit if passes(op, port) else push


def step_of(op: Any) -> Callable[[Cx, int, Any], None]:
    """Return a stage's step for one value; some only have one for lists."""
    if type(op).on_next is not Stage.on_next or not hasattr(op, "on_batch"):
        return op.on_next  # type: ignore[no-any-return]
    whole = op.on_batch
    return lambda cx, port, value: whole(cx, port, (value,))


def locked(push: Push, held: Any, entrance: Entrance) -> Push:
    """Return *push* for one subscription, as the only thread in it."""
    lock = entrance.lock

    def on_next(value: Any) -> None:
        if held.is_disposed:
            return
        with lock:
            try:
                push(value)
            except Escaped as escaped:
                if entrance.depth:
                    raise
                raise escaped.error from None

    return on_next


def opened(push: Push, entrance: Entrance) -> Push:
    """Return the same without a lock; the first link looks whether anybody still listens."""

    def on_next(value: Any) -> None:
        try:
            push(value)
        except Escaped as escaped:
            if entrance.depth:
                raise
            raise escaped.error from None

    return on_next


def locked_last(cx: LastCx, held: Any, entrance: Entrance) -> Push:
    """Return the way around a last stage to the observer."""
    observer, push, lock = cx.observer, cx.push, entrance.lock

    def on_next(value: Any) -> None:
        if not held.is_disposed:
            with lock:
                if not observer.is_stopped:
                    push(value)

    return on_next


def open_last(cx: LastCx, held: Any) -> Push:
    """Return the same without a lock."""
    observer, push = cx.observer, cx.push

    def on_next(value: Any) -> None:
        if not held.is_disposed and not observer.is_stopped:
            push(value)

    return on_next


def locked_stage(cx: PushCx, port: int, held: Any, entrance: Entrance) -> Push:
    """Return the same for a leaf that stands before a stage: a hop less on the path of most events."""
    instance, node, step, lock = cx.instance, cx.node, step_of(cx.node.op), entrance.lock

    def on_next(value: Any) -> None:
        with lock:
            if not held.is_disposed:
                try:
                    step(cx, port, value)
                except Exception as error:
                    fail_node(instance, node, error)
                except Escaped as escaped:
                    if entrance.depth:
                        raise
                    raise escaped.error from None

    return on_next


def open_stage(cx: PushCx, port: int, held: Any, entrance: Entrance) -> Push:
    """Return the same without a lock, which alone would cost a fifth of what an event does."""
    instance, node, step = cx.instance, cx.node, step_of(cx.node.op)

    def on_next(value: Any) -> None:
        if not held.is_disposed:
            try:
                step(cx, port, value)
            except Exception as error:
                fail_node(instance, node, error)
            except Escaped as escaped:
                if entrance.depth:
                    raise
                raise escaped.error from None

    return on_next
