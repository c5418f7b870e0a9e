"""From a query's tree to wiring: who delivers to whom, in which slot each state lies, under which path.

A plan is compiled once and shared by every instance of it. Consecutive `Linear` operators become one *segment*, a
loop that hands a list from step to step; `Stage`s are called one value at a time. The wiring is closures over the
plan and takes the instance as an argument, so that an instance is nothing but its row. A selector over inner
sequences is called once, here, with a symbol; if that works, its sub-plan is shared by all groups (or windows).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from reactivex import Observable

from reliable_rx.errors import LimitExceeded, QueryRefused
from reliable_rx.limits import Limits
from reliable_rx.operator import Linear, Operator, Stage, StateShape, state_saver, state_shape
from reliable_rx.query import (
    LEAVES,
    ForeignLeaf,
    HubLeaf,
    Node,
    Query,
    SourceLeaf,
    Symbol,
    SymbolLeaf,
    hubs_of,
    parameters,
)
from reliable_rx.stage import Cx, fail_node
from reliable_rx.symbols import captures, shared_within, stage_under, under

if TYPE_CHECKING:
    from reliable_rx.instance import Instance

Deliver = Callable[["Instance", Sequence[Any]], None]
Finish = Callable[["Instance", Exception | None], None]
Step = Callable[[Any, Any, list[Any]], bool | None]
DONE: Any = object()
NO_LIMITS = Limits()


class PlanNode:
    """One operator in its place."""

    __slots__ = (
        "bit", "deliver", "down", "finish", "index", "inputs", "leaf", "made", "mask", "op", "passes", "path", "plan",
        "port", "releases", "slot", "template",
    )  # fmt: skip

    deliver: Deliver
    finish: Finish

    def __init__(self, plan: Plan, op: Operator, path: str, inputs: tuple[PlanNode, ...]) -> None:
        self.plan = plan
        self.op = op
        self.path = path
        self.inputs = inputs
        self.index = len(plan.nodes)
        self.bit = 1 << self.index
        self.mask = self.bit
        self.slot = -1
        self.down: PlanNode | None = None
        self.port = 0
        self.leaf = isinstance(op, LEAVES)
        self.passes = isinstance(op, Stage) and type(op).on_inner_next is Stage.on_inner_next
        self.releases = isinstance(op, Stage) and type(op).on_release is not Stage.on_release
        self.template: Plan | None = None
        self.made: Plan | None = None
        for port, each in enumerate(inputs):
            each.down, each.port = self, port
            self.mask |= each.mask

    def inner_deliver(self, child: Instance, values: Sequence[Any]) -> None:
        """Take what an inner subscription of ours emits."""
        parent = child.parent
        if parent is None or not parent.active & self.bit:
            return
        if self.passes:
            if parent.gathered is None:
                self.deliver(parent, values)
            else:
                parent.gathered.extend(values)
            return
        if self.slot >= 0:
            parent.world.touch(parent.unit)
        try:
            self.op.on_inner_next(Cx(parent, self), child.key, values)  # type: ignore[attr-defined]
        except Exception as error:
            fail_node(parent, self, error)

    def inner_finish(self, child: Instance, error: Exception | None) -> None:
        """Take the end of an inner subscription of ours."""
        parent = child.parent
        if parent is None:
            return
        if parent.gathered:
            gathered, parent.gathered = parent.gathered, []
            self.deliver(parent, gathered)
        parent.world.touch(parent.unit)
        parent.drop_child(self, child)
        if not parent.active & self.bit:
            return
        cx = Cx(parent, self)
        try:
            if error is None:
                self.op.on_inner_completed(cx, child.key)  # type: ignore[attr-defined]
            else:
                self.op.on_inner_error(cx, child.key, error)  # type: ignore[attr-defined]
        except Exception as raised:
            fail_node(parent, self, raised)


class Plan:
    """A compiled query."""

    def __init__(
        self,
        query: Node,
        *,
        limits: Limits = NO_LIMITS,
        prefix: str = "",
        symbolic: bool,
        symbol: Symbol | None = None,
        around: Plan | None = None,
    ) -> None:
        self.query = query
        self.limits = limits
        self.prefix = prefix
        self.symbolic = symbolic
        self.nodes: list[PlanNode] = []
        self.signature: tuple[tuple[str, str, int, tuple[str, ...]], ...] | None = None
        self.number = 0  # what a host calls this plan's signature
        self.slots: list[PlanNode] = []
        self.reads = symbol
        self.symbol = symbol if symbol is not None and captures(query, symbol) else None
        self.around = around
        self.hubs: dict[str, PlanNode | None] = dict.fromkeys(hubs_of(query)) if symbolic else {}
        self.root = self._place(query, prefix, {})
        self.hub_nodes = [node for node in self.nodes if node.op.is_hub]
        self.by_path = {node.path: node for node in self.nodes}
        self.leaves = sorted((node for node in self.nodes if node.leaf), key=lambda node: type(node.op) is HubLeaf)
        for node in reversed(self.nodes):
            self._wire(node)
        self.shape: tuple[StateShape, ...] = tuple(state_shape(node.op) for node in self.slots)
        self.savers = [state_saver(node.op) for node in self.slots]
        sources = [node.op.source for node in self.walk() if isinstance(node.op, SourceLeaf)]
        self.sources = frozenset(sources)
        self.single = len(sources) == 1
        self.by_list = len(self.sources) == len(sources) and all(takes_lists(node) for node in self.walk())
        self.blank: list[Any] = [None] * (len(self.slots) + 1)  # the last stays None: the state of slot -1

    def _place(self, query: Node, prefix: str, seen: dict[str, int]) -> PlanNode:
        if query.op.runs_plain and not self.symbolic:
            query = Node(ForeignLeaf(query.op.observable(query.inputs)))  # type: ignore[attr-defined]
        if query.op.counts_readers and self.symbolic:
            self._share(query, prefix, seen)
            query = Node(HubLeaf(query.op.token))  # type: ignore[attr-defined]
        return self._put(query, prefix, seen)

    def _share(self, query: Node, prefix: str, seen: dict[str, int]) -> None:
        """Place a hub with all that stands before it where it first occurs, unless a plan around this one has it."""
        token: str = query.op.token  # type: ignore[attr-defined]
        if self.hubs.get(token) is None and not (self.around is not None and self.around.has_hub(token)):
            self._put(query, prefix, seen)

    def has_hub(self, token: str) -> bool:
        return token in self.hubs or (self.around is not None and self.around.has_hub(token))

    def _put(self, query: Node, prefix: str, seen: dict[str, int]) -> PlanNode:
        inputs = tuple(
            self._place(each, *((prefix, seen) if port == 0 else (self._side(query, prefix, seen, port), {})))
            for port, each in enumerate(query.inputs)
        )
        name = query.op.name
        seen[name] = ordinal = seen.get(name, 0) + 1
        path = f"{prefix}/{name}" if ordinal == 1 else f"{prefix}/{name}.{ordinal}"
        node = PlanNode(self, query.op, path, inputs)
        self.nodes.append(node)
        if query.op.State is not None:
            node.slot = len(self.slots)
            self.slots.append(node)
        if self.symbolic and query.op.counts_readers:
            self.hubs[query.op.token] = node  # type: ignore[attr-defined]
        for each in shared_within(query.op) if self.symbolic else ():  # what a selector will use belongs to us
            self._share(each, f"{path}:shared", seen)
        if self.symbolic and isinstance(query.op, Stage) and inputs and chosen_once(query):
            node.template = self._template(query.op, path)
        return node

    @staticmethod
    def _side(query: Node, prefix: str, seen: dict[str, int], port: int) -> str:
        """Name the chain of a further input after the operator that reads it."""
        ordinal = seen.get(query.op.name, 0) + 1
        name = query.op.name if ordinal == 1 else f"{query.op.name}.{ordinal}"
        return f"{prefix}/{name}:{port}"

    def _template(self, op: Stage, path: str) -> Plan | None:
        """Call the selector once with a symbol; None if what it returns depends on the value."""
        symbol = Symbol()
        try:
            inner = op.inner(symbol)
        except Exception:  # whatever it raises for a symbol it does not raise here: it is called again per value
            return None
        if not isinstance(inner, Query) or not only_reads(inner.node, symbol):
            return None
        return Plan(inner.node, limits=self.limits, prefix=f"{path}/inner", symbolic=True, symbol=symbol, around=self)

    def _wire(self, node: PlanNode) -> None:
        down = node.down
        if down is None:
            node.deliver, node.finish = to_sink, end_sink
        elif isinstance(down.op, Linear):
            run = segment(down)
            run = run if self.symbol is None else under(self.symbol, run)
            node.deliver, node.finish = run, end_segment(run)
        else:
            node.deliver, node.finish = (
                passing(down) if passes(down.op, node.port) else to_stage(down, node.port),
                end_stage(down, node.port),
            )
            if self.symbol is not None:
                node.deliver, node.finish = under(self.symbol, node.deliver), stage_under(self.symbol, node.finish)

    def walk(self) -> Iterator[PlanNode]:
        """Yield every node, those of shared sub-plans included."""
        for node in self.nodes:
            yield node
            if node.template is not None:
                yield from node.template.walk()


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
    bit, steps = last.bit, [(*bounded(node), node.slot, node.op) for node in nodes]
    if len(nodes) == 1:
        return segment_of_one(last, *steps[0])

    def run(instance: Instance, values: Sequence[Any], end: Any = None) -> None:
        if not instance.active & bit:
            return
        states, touched = instance.states, False
        for on_batch, on_next, slot, op in steps:
            out: list[Any] = []
            if slot >= 0 and not touched:
                instance.world.touch(instance.unit)
                touched = True
            try:
                if on_next(states[slot], values[0], out) if len(values) == 1 else on_batch(states[slot], values, out):
                    end = DONE
                elif end is DONE:
                    op.on_completed(states[slot], out)  # type: ignore[attr-defined]
            except Exception as error:
                if end is not None or not instance.world.absorb(instance, last, error):
                    end = error
            if end is None and not out:
                return
            values = out
        if end is None:
            last.deliver(instance, values)
        else:
            finish_segment(instance, last, values, end)

    return run


def segment_of_one(last: PlanNode, on_batch: Step, on_next: Step, slot: int, op: Any) -> Callable[..., None]:
    """Return the same for an operator on its own, which is what most groups and windows are read by."""
    bit, onward = last.bit, None if last.down is None else last.deliver

    def run(instance: Instance, values: Sequence[Any], end: Any = None) -> None:
        if not instance.active & bit:
            return
        if slot >= 0:
            instance.world.touch(instance.unit)
        state, out = instance.states[slot], []  # type: ignore[var-annotated]
        try:
            if on_next(state, values[0], out) if len(values) == 1 else on_batch(state, values, out):
                end = DONE
            elif end is DONE:
                op.on_completed(state, out)
        except Exception as error:
            if end is not None or not instance.world.absorb(instance, last, error):
                end = error
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

    return run


def finish_segment(instance: Instance, last: PlanNode, values: Sequence[Any], end: Any) -> None:
    """Deliver the last values, let go of what stands upstream, and pass the end on."""
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
    """Return the loop that gives values to a stage one by one, for as long as it is active."""
    op, bit, stateful = down.op, down.bit, down.slot >= 0
    on_next = op.on_next  # type: ignore[attr-defined]

    def deliver(instance: Instance, values: Sequence[Any]) -> None:
        if not instance.active & bit:
            return
        if stateful:
            instance.world.touch(instance.unit)
        cx = Cx(instance, down)
        try:
            for value in values:
                on_next(cx, port, value)
                if not instance.active & bit:
                    return
        except Exception as error:
            fail_node(instance, down, error)

    whole = getattr(op, "on_batch", None)
    return deliver if whole is None else to_whole_stage(down, port, whole)


def to_whole_stage(down: PlanNode, port: int, on_batch: Callable[..., None]) -> Deliver:
    """Return the call that gives a stage a whole list.

    What the readers of its groups emit meanwhile is gathered and passed on as one list.
    """
    bit, stateful, reader = down.bit, down.slot >= 0, down.down

    def deliver(instance: Instance, values: Sequence[Any]) -> None:
        if not values or not instance.active & bit:
            return
        if stateful:
            instance.world.touch(instance.unit)
        try:
            on_batch(Cx(instance, down), port, values)
        except Exception as error:
            fail_node(instance, down, error)

    def gather(instance: Instance, values: Sequence[Any]) -> None:
        if len(values) <= 1 or instance.gathered is not None or not instance.active & bit:
            deliver(instance, values)
            return
        if stateful:
            instance.world.touch(instance.unit)
        instance.gathered = []
        error: Exception | None = None
        try:
            on_batch(Cx(instance, down), port, values)
        except Exception as raised:
            error = raised
        gathered, instance.gathered = instance.gathered, None
        if gathered and reader is not None and instance.active & reader.bit:
            reader.deliver(instance, gathered)
        if error is not None:
            fail_node(instance, down, error)

    shared = reader is not None and reader.template is not None and reader.passes and steady(reader.template)
    return gather if shared and down.op.yields_inner else deliver


def end_stage(down: PlanNode, port: int) -> Finish:
    op, bit = down.op, down.bit

    def finish(instance: Instance, error: Exception | None) -> None:
        if not instance.active & bit:
            return
        instance.world.touch(instance.unit)
        cx = Cx(instance, down)
        try:
            if error is None:
                op.on_completed(cx, port)  # type: ignore[attr-defined]
            else:
                op.on_error(cx, port, error)  # type: ignore[attr-defined]
        except Exception as raised:
            fail_node(instance, down, raised)

    return finish


def bounded(node: PlanNode) -> tuple[Step, Step]:
    """Return the operator's steps for a list and for one value, watched if its state can grow."""
    op: Any = node.op
    if not op.grows:
        return op.on_batch, op.on_next
    limits = limits_of(node)

    step, watched = op.on_next, [(attrgetter(field), most) for field, _, most in limits]

    def on_next(state: Any, value: Any, out: list[Any]) -> bool | None:
        done = step(state, value, out)
        for get, most in watched:
            if len(get(state)) > most:
                check_limits(state, limits, node.path)
        return done  # type: ignore[no-any-return]

    def on_batch(state: Any, values: Sequence[Any], out: list[Any]) -> bool | None:
        if all(len(get(state)) + len(values) <= most for get, most in watched):
            return op.on_batch(state, values, out)  # type: ignore[no-any-return]
        for value in values:  # no generator: it would make another error of a StopIteration
            if on_next(state, value, out):
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


def chosen_once(node: Node) -> bool:
    """Whether what *node* selects is selected for inner sequences, so that one symbol may stand for all."""
    if node.op.is_hub:
        return not node.op.counts_readers
    return node.op.reads_own or yields_inner(node.inputs[0])  # type: ignore[attr-defined]


def yields_inner(node: Node) -> bool:
    """Whether the elements of *node* are known to be inner sequences."""
    op = node.op
    if op.yields_inner:
        return not op.wraps_inner
    return op.keeps_inner and bool(node.inputs) and yields_inner(node.inputs[0])


def only_reads(node: Node, symbol: Symbol) -> bool:
    """Whether *symbol* occurs as an input only, not as a value, and nothing un-hosted occurs at all."""
    if isinstance(node.op, SymbolLeaf):
        return True
    if isinstance(node.op, LEAVES) and not isinstance(node.op, (SourceLeaf, HubLeaf)):
        return False
    if any(mentions(value, symbol) for value in parameters(node.op).values()):
        return False
    return all(only_reads(each, symbol) for each in node.inputs)


def mentions(value: Any, symbol: Symbol) -> bool:
    """Whether *symbol* is *value* or stands in it."""
    if isinstance(value, (tuple, list)):
        return any(mentions(each, symbol) for each in value)
    if isinstance(value, Query):
        return not only_reads(value.node, symbol)
    return value is symbol


def refuse_foreign(plan: Plan) -> None:
    """*Raises* `QueryRefused` for a part that only plain RxPY can run."""
    for node in plan.walk():
        what = getattr(node.op, "observable", None)
        if isinstance(what, Observable):
            raise QueryRefused(foreign_message(what, node.path), path=node.path)
        refusal = node.op.refusal()
        if refusal is not None:
            raise QueryRefused(f"{node.path} cannot be hosted: {refusal}", path=node.path)


def foreign_message(observable: Observable[Any], path: str) -> str:
    """Name the plain operator behind *observable* and what to use here."""
    subscribe: Any = getattr(observable, "_subscribe", None)
    qualified = getattr(subscribe, "__qualname__", "")
    module = getattr(subscribe, "__module__", "") or type(observable).__module__
    name = qualified.split(".")[0].rstrip("_") or type(observable).__name__
    if not module.startswith("reactivex"):
        return (
            f"{path} is a plain observable ({type(observable).__name__}), which nobody can replay: name an input with "
            f"reliable_rx.source(...) and push into a durable stream from the application"
        )
    kind = "creation function" if ".observable." in module else "operator"
    here = "reliable_rx" if kind == "creation function" else "reliable_rx.operators"
    return (
        f"{path} uses the plain reactivex {kind} {name!r}, whose state nobody can save: use {here}.{name} "
        f"(import reliable_rx as rx; from reliable_rx import operators as ops)"
    )
