"""A running instance of a plan: its row of states, what is active, its timers, its inner sequences.

Hosts differ in clock, sources and what happens to outputs; they are a `World`. Everything else about running
operators is here, once, for the engine and for plain `reactivex` alike.

Inner sequences come and go with events, so what opens and closes them is written for few steps of the interpreter.
Whoever lets an operator that has a state take a step touches the row before, so what the step does need not.
Rejected: a pool of rows that are gone (a snapshot at work knows rows by identity, and would take one for another), and
contexts that last as long as their row (an idle row would be half as large again).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from reliable_rx.errors import LimitExceeded
from reliable_rx.query.query import Inner, Query, as_query
from reliable_rx.query.symbols import give_back, take_over
from reliable_rx.runtime.host import Timer as Timer
from reliable_rx.runtime.host import World
from reliable_rx.runtime.hub import HubSubject, subject_of_hub
from reliable_rx.runtime.inner_sequences import Subject
from reliable_rx.runtime.opening import is_opening
from reliable_rx.runtime.outliving import Outlived, begun_twice, forget_hub, is_given_out, keep, let_go, make_room
from reliable_rx.runtime.plan import Operators, Plan, PlanNode
from reliable_rx.runtime.stage_context import context, exceeded, fail_node, too_deep

NONE: dict[Any, Any] = {}


class Instance:
    """One row at work."""

    __slots__ = (
        "active", "children", "detached", "epoch", "gathered", "hubs", "key", "ops", "orders", "outer", "outliving",
        "parent", "plan", "saved", "sink", "states", "subjects", "timers", "unit", "world",
    )  # fmt: skip

    def __init__(
        self,
        plan: Plan,
        world: World,
        sink: Any,
        key: Hashable,
        ops: Operators | None = None,
        parent: Instance | None = None,
        outer: Any = None,
    ) -> None:
        self.plan = plan
        self.ops = plan.operators if ops is None else ops
        self.world = world
        self.sink = sink
        self.key = key
        self.states = plan.blank.copy()
        self.active = 0
        self.detached = 0
        self.gathered: list[Any] | None = None
        self.unit: Any = self
        self.saved: Any = None
        self.epoch = world.epoch
        self.parent = parent
        self.outer = outer
        self.orders: dict[int, int] | None = None
        self.timers: dict[int, dict[Hashable, Timer]] | None = None
        self.children: dict[int, dict[Hashable, Instance]] | None = None
        self.outliving: dict[int, dict[Hashable, Instance]] | None = None
        self.subjects: dict[int, dict[Hashable, Subject]] | None = None
        self.hubs: dict[int, HubSubject] | None = None

    def start(self) -> None:
        for node in self.plan.hub_nodes:
            if node.op.counts_readers:  # elements may wait that read it: its state has the token by which they know it
                self.states[node.slot] = node.op.initial()
        symbol = self.plan.starts_under
        if symbol is None:
            self.world.trampoline.subscribe(self, self.plan.root)
            return
        before, symbol.current = symbol.current, self.outer
        try:
            self.world.trampoline.subscribe(self, self.plan.root)
        finally:
            symbol.current = before

    def subscribe(self, node: PlanNode) -> None:
        """Subscribe *node*; the outermost such call goes on until all is done that was queued behind it."""
        self.world.trampoline.subscribe(self, node)

    def dispose(self, *, force: bool = True) -> None:
        """Be silent from now on, and let go of everything; without *force* but for groups and windows that are read."""
        if self.unit is not self or self.epoch != self.world.epoch:
            self.world.touch(self.unit)  # first: a snapshot at work writes the row as it was, sink and all
        self.sink = None
        if self.plan.only_timers and self.children is None and self.subjects is None:
            self.active = self.detached = 0
            for timers in (self.timers or NONE).values():
                for timer in timers.values():
                    self.world.cancel_timer(timer)
            self.timers = None
        else:
            self._let_go(self.plan.root, force=force)
            for hub in self.plan.hub_nodes:  # what stands before one is none of the root's, and may run without it
                if force or not (hub.op.counts_readers and self.is_read(hub)):
                    self._let_go(hub, force=force)

    @property
    def row_key(self) -> Any:
        """The key under which a store has this row."""
        return self.saved

    def address(self) -> tuple[Any, ...]:
        """Name this row from the root of its standing query."""
        parent = self.parent
        if parent is None:
            return (self.key,)
        path = self.plan.prefix.removesuffix("/inner")  # the sink has it too, but is gone once this row is silent
        around = (parent.key,) if parent.parent is None else parent.address()
        return (*around, "inner", path, self.key)

    # -- coming and going of nodes

    def activate(self, node: PlanNode) -> None:
        """Subscribe *node*, with fresh state."""
        self.world.touch(self.unit)
        head, ops = node.head, self.ops
        if self.detached and is_given_out(self, head):
            node.finish(self, begun_twice(head))
            return
        self.active |= node.run | head.bit
        try:
            for each in node.run_states:
                self.states[each.slot] = ops[each.index].initial()
            if head.leaf:
                self.world.subscribe(self, head)
                return
            op = ops[head.index]
            if head.slot >= 0:
                fresh = head.fresh
                self.states[head.slot] = op.initial() if fresh is None else fresh()
            op.on_start(context(self, head))
        except BaseException as raised:
            fail_node(self, head, self.world.blame(raised, self), had_value=False)

    def deactivate(self, node: PlanNode, *, force: bool = False, ending: bool = False) -> None:
        """Unsubscribe *node* and all that stands before it, unless somebody still reads its inner sequences.

        With *ending* the caller has yet to tell downstream, and calls `released` after that.
        """
        if self.active & node.mask:
            self.world.touch(self.unit)
            self._let_go(node, force=force, ending=ending)
            if self.sink.__class__ is Outlived:
                let_go(self)

    def _let_go(self, node: PlanNode, *, force: bool = False, ending: bool = False) -> None:
        if not self.active & node.mask:
            return
        if node.run:
            self.active &= ~node.run
            node, ending = node.head, False
        was_active = self.active & node.bit
        if was_active:
            if node.yields_inner and not force and (self.is_read(node) or is_opening(self, node)):
                self.detached |= node.bit
                return
            self.active ^= was_active
            if self.detached:
                self.detached &= ~node.bit
            self._release(node)
        for source in node.inputs:
            self._let_go(source, force=force)
        if was_active and node.releases and not ending:
            self.released(node)

    def released(self, node: PlanNode) -> None:
        """Let *node* do what it does last."""
        if not self.world.moving:
            before = take_over(self)
            try:
                self.ops[node.index].on_release(context(self, node))
            except BaseException as raised:
                self.world.effect_failed(self, node, self.world.blame(raised, self))
            finally:
                give_back(before)

    def stop(self, node: PlanNode) -> None:
        """Stop *node* alone: what stands before it goes on for those who read its inner sequences."""
        self.active &= ~node.bit
        self._release(node)

    def _release(self, node: PlanNode) -> None:
        if node.leaf:
            self.world.unsubscribe(self, node)
            return
        if node.calls_out:
            self.world.calls.drop(self, node)
        if self.timers:
            for timer in self.timers.pop(node.index, NONE).values():
                self.world.cancel_timer(timer)
        if self.children:
            for child in list(self.children.pop(node.index, NONE).values()):
                child.dispose(force=False)
                self._forget_child(node, child)
        if self.subjects:
            for subject in self.subjects.pop(node.index, NONE).values():
                subject.abandon()
        if self.hubs is not None and (hub := self.hubs.pop(node.index, None)) is not None:
            forget_hub(hub.subscribers)

    def end_leaf(self, leaf: PlanNode, error: Exception | None) -> None:
        """A leaf's sequence has ended."""
        if self.active & leaf.bit:
            self.world.touch(self.unit)
            self.active &= ~leaf.bit
            self.world.unsubscribe(self, leaf)
            leaf.finish(self, error)

    # -- timers

    def set_timer(self, node: PlanNode, tag: Hashable, due: float | None) -> None:
        if node.slot < 0:
            self.world.touch(self.unit)
        known = self.timers
        if known is None:
            known = self.timers = {}
        timers = known.get(node.index)
        if timers is None:
            timers = known[node.index] = {}
        elif tag in timers:
            self.world.cancel_timer(timers.pop(tag))
        elif len(timers) >= (self.plan.limits.queue_items_max if due is not None else self.plan.limits.actions_max):
            limit = "actions_max" if due is None else "queue_items_max"
            raise LimitExceeded(f"{node.path} has too many timers", path=node.path, limit=limit)
        timer = self.world.set_timer(self, node, tag, due)
        if timer[2] is not None:  # it has not run at once, as on a scheduler that does
            timers[tag] = timer

    def cancel_timer(self, node: PlanNode, tag: Hashable) -> None:
        timers = None if self.timers is None else self.timers.get(node.index)
        if timers and tag in timers:
            if node.slot < 0:
                self.world.touch(self.unit)
            self.world.cancel_timer(timers.pop(tag))

    def fire(self, node: PlanNode, tag: Hashable) -> None:
        """A timer is due."""
        self.world.touch(self.unit)  # first: a snapshot at work may have to write the row with its timer
        timers = None if self.timers is None else self.timers.get(node.index)
        if timers is not None:
            timers.pop(tag, None)
        step: Callable[..., None] = self.ops[node.index].on_timer
        if self.plan.under_symbol:
            self._act(node, step, tag, had_value=False)
            return
        try:
            step(context(self, node), tag)
        except BaseException as raised:
            fail_node(self, node, self.world.blame(raised, self), had_value=False)

    def answer(self, node: PlanNode, call: Hashable, value: Any, error: Exception | None) -> None:
        """A call out has been answered."""
        self.world.touch(self.unit)
        self._act(node, self.ops[node.index].on_answer, call, value, error)

    def _act(self, node: PlanNode, step: Callable[..., None], *args: Any, had_value: bool = True) -> None:
        """Let an operator do something that none of its inputs makes it do."""
        before = take_over(self)
        try:
            step(context(self, node), *args)
        except BaseException as raised:
            fail_node(self, node, self.world.blame(raised, self), had_value=had_value)
        finally:
            give_back(before)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Let the symbols of this row and of those around it answer for it, whoever calls its functions."""
        before = take_over(self)
        try:
            yield
        finally:
            give_back(before)

    # -- inner subscriptions

    def opened(self, node: PlanNode) -> dict[Hashable, Instance]:
        """Return the inner subscriptions of *node*, by key."""
        if self.children is None:
            self.children = defaultdict(dict)
        return self.children[node.index]

    def child(self, node: PlanNode, key: Hashable) -> Instance | None:
        return (self.children or NONE).get(node.index, NONE).get(key)

    def open(self, node: PlanNode, key: Hashable, outer: Any, inner: Any = None, *, start: bool = True) -> Instance:
        """Subscribe to the inner sequence for *outer*; *inner* is what the selector has returned, if it has."""
        world, children = self.world, self.children
        if node.slot < 0:
            world.touch(self.unit)
        if children is None:
            children = self.children = defaultdict(dict)
        opened = children[node.index]
        if self.outliving is not None:
            make_room(self, node, key)
        if len(opened) >= node.plan.limits.inner_max:
            raise exceeded(node, "inner_max")
        plan, ops = world.plan_inner(inner, node) if isinstance(inner, Query) else self.plan_child(node, outer, inner)
        if plan.parts:
            self.claim(plan, is_restored=False)
        child = world.wait(self, node, key, outer, plan, ops) if plan.waits is not None and start else None
        if child is not None:
            opened[key] = child
        else:
            opened[key] = child = Instance(plan, world, node, key, ops, self, outer)
            if start:
                child.start()
        return child

    def close(self, node: PlanNode, key: Hashable) -> None:
        """Unsubscribe from the inner sequence under *key*, if it is there."""
        children = self.children.get(node.index) if self.children else None
        child = children.pop(key, None) if children else None
        if child is not None:
            child.dispose(force=False)
            if child.subjects or child.outliving or child.hubs:
                self._forget_child(node, child)
            else:
                self.world.forget(child)  # the same, without a call
                child.unit = self.unit

    def make_child(self, node: PlanNode, key: Hashable, outer: Any) -> Instance:
        """Build the instance for *outer* without starting it."""
        plan, ops = self.plan_child(node, outer)
        if plan.parts:
            self.claim(plan, is_restored=True)
        return Instance(plan, self.world, node, key, ops, self, outer)

    def plan_child(self, node: PlanNode, outer: Any, inner: Any = None) -> tuple[Plan, Operators]:
        """Return what runs the inner sequence for *outer*, or *inner*."""
        if inner is None:
            template = node.template
            if template is not None and (isinstance(outer, Inner) or node.op.is_hub):
                if template.is_too_deep:
                    raise too_deep(template)
                return template, template.operators
            inner = self.ops[node.index].inner(outer)
        return self.world.plan_inner(inner if isinstance(inner, Query) else as_query(inner), node)

    def claim(self, plan: Plan, *, is_restored: bool) -> None:
        """Let a row of *plan* alone read the shared parts that it has to itself. *Raises* `QueryRefused`."""
        if self.parent is not None:
            self.parent.claim(plan, is_restored=is_restored)

    def drop_child(self, node: PlanNode, child: Instance) -> None:
        children = None if self.children is None else self.children.get(node.index)
        if children is not None:
            children.pop(child.key, None)
        child.sink = None
        self._forget_child(node, child)

    def _forget_child(self, node: PlanNode, child: Instance) -> None:
        """Let go of the row of a child that has let go of all else, and so has left the row of a group that it read."""
        if (child.subjects or child.outliving or child.hubs) and keep(child, node):
            return
        self.world.forget(child)
        child.unit = self.unit  # itself would be a cycle, which only Python's collector takes away

    # -- inner sequences of our own

    def groups(self, node: PlanNode) -> dict[Hashable, Subject]:
        if self.subjects is None:
            self.subjects = {}
        return self.subjects.setdefault(node.index, {})

    def begin(self, node: PlanNode, key: Hashable) -> Subject:
        subject = self.groups(node)[key] = Subject(self, node, key)
        self.world.touch(subject)
        return subject

    def end_group(self, node: PlanNode, key: Hashable, error: Exception | None) -> None:
        subject = self.groups(node).get(key)
        if subject is not None:
            del self.groups(node)[key]
            subject.release_all()
            self.world.forget(subject)  # last: to release a reader touches the row
            subject.end(error)
            self.reader_left(node)

    def is_read(self, node: PlanNode) -> bool:
        if node.op.is_hub:
            return bool(subject_of_hub(self, node).subscribers)
        return any(subject.is_read for subject in self.groups(node).values())

    def reader_left(self, node: PlanNode) -> None:
        """Stop a node that nobody hears any more once its last inner sequence has lost its last reader."""
        if self.detached & node.bit and not self.is_read(node):
            self.detached &= ~node.bit
            self.deactivate(node)
