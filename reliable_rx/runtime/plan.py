"""From a query's tree to wiring: who delivers to whom, in which slot each state lies, under which path.

A plan is compiled once and shared by every instance of it; `wiring` makes its closures, which take the instance as an
argument, so that an instance is nothing but its row. A selector over inner sequences is called once, here, with a
symbol; if that works, its sub-plan is shared by all groups (or windows).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from reliable_rx.functions.shared_parts import shared_anywhere, shared_within
from reliable_rx.interrupts import let_through
from reliable_rx.limits import Limits
from reliable_rx.operators.contract.operator import Linear, Operator, Stage
from reliable_rx.operators.contract.parameters import state_saver
from reliable_rx.query.branching import out_of_step, read_beside
from reliable_rx.query.mistakes import find_mistake
from reliable_rx.query.query import (
    LEAVES,
    ForeignLeaf,
    HubLeaf,
    InnerLeaf,
    Node,
    Query,
    SourceLeaf,
    SymbolLeaf,
    hubs_of,
)
from reliable_rx.query.size import check_size
from reliable_rx.query.symbols import Symbol, chosen_once, entered, how_held, is_known, only_reads
from reliable_rx.runtime.gathering import pass_on
from reliable_rx.runtime.hub import hubs_made
from reliable_rx.runtime.plan_reuse import Alike
from reliable_rx.runtime.segments import Deliver, Finish, end_segment, end_sink, rest_of_segment, segment, to_sink
from reliable_rx.runtime.stage_context import context, fail_node
from reliable_rx.runtime.wiring import chooses, end_stage, passes, passing, steps_after_waiting, takes_lists, to_stage

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance

Operators = Sequence[Any]
"""The operators of one query, in the order of the plan's nodes."""
NO_LIMITS = Limits()


class PlanNode:
    """One operator in its place."""

    __slots__ = (
        "bit", "calls_out", "deliver", "down", "finish", "fresh", "head", "index", "inputs", "leaf", "linear", "made",
        "mask", "mistake", "op", "passes", "path", "plan", "port", "reads_inner", "releases", "run",
        "run_states", "slot", "template", "yields_inner",
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
        self.fresh = op.State if type(op).initial is Operator.initial else None
        self.down: PlanNode | None = None
        self.port = 0
        self.leaf = isinstance(op, LEAVES)
        self.reads_inner = self.leaf and isinstance(op, (InnerLeaf, SymbolLeaf, HubLeaf))
        self.linear = isinstance(op, Linear)
        self.head: PlanNode = inputs[0].head if self.linear else self
        """What this is fed by through linear operators only, which come and go together: they are the *run*."""
        self.run: int = self.bit | inputs[0].run if self.linear else 0
        self.run_states: list[PlanNode] = inputs[0].run_states + [self] * (op.State is not None) if self.linear else []
        self.calls_out = op.calls_out
        self.yields_inner = op.yields_inner
        self.passes = isinstance(op, Stage) and type(op).on_inner_next is Stage.on_inner_next
        self.releases = isinstance(op, Stage) and type(op).on_release is not Stage.on_release
        self.template: Plan | None = None
        self.mistake: Exception | None = None
        """What the selector would end in whatever group or window it is called for."""
        self.made: list[Plan] = []
        for port, each in enumerate(inputs):
            each.down, each.port = self, port
            self.mask |= each.mask

    def inner_deliver(self, child: Instance, values: Sequence[Any]) -> None:
        """Take what an inner subscription of ours emits."""
        parent = child.parent
        if parent is None or not parent.active & self.bit:
            return
        if self.passes:
            if parent.detached & self.bit:
                return
            if parent.gathered is None:
                deliver = self.deliver
                deliver(parent, values)
            else:
                parent.gathered.extend(values)
            return
        if self.slot >= 0:
            parent.world.touch(parent.unit)
        try:
            parent.ops[self.index].on_inner_next(context(parent, self), child.key, values)
        except BaseException as raised:
            fail_node(parent, self, parent.world.blame(raised, parent))

    def inner_finish(self, child: Instance, error: Exception | None) -> None:
        """Take the end of an inner subscription of ours."""
        parent = child.parent
        if parent is None:
            return
        pass_on(parent, self)
        parent.world.touch(parent.unit)
        parent.drop_child(self, child)
        if not parent.active & self.bit:
            return
        cx, op = context(parent, self), parent.ops[self.index]
        try:
            if error is None:
                op.on_inner_completed(cx, child.key)
            else:
                op.on_inner_error(cx, child.key, error)
        except BaseException as raised:
            fail_node(parent, self, parent.world.blame(raised, parent), had_error=error is not None)

    def inner_refused(self, parent: Instance, key: Hashable) -> None:
        """Go on without an inner subscription of ours that was given up."""
        if not parent.active & self.bit:
            return
        try:
            parent.ops[self.index].on_inner_refused(context(parent, self), key)
        except BaseException as raised:
            fail_node(parent, self, parent.world.blame(raised, parent))


class Plan:
    """A compiled query."""

    alike: Alike | None = None

    def __init__(
        self,
        query: Node,
        *,
        limits: Limits = NO_LIMITS,
        prefix: str = "",
        symbolic: bool,
        symbol: Symbol | None = None,
        around: Plan | None = None,
        fed_within: bool = False,
        asks: bool = False,
        since: int | None = None,
        once: bool = False,
    ) -> None:
        self.query, self.limits, self.prefix = query, limits, prefix
        self.symbolic = symbolic
        self.nodes: list[PlanNode] = []
        self.signature: tuple[tuple[str, str, int, tuple[str, ...]], ...] | None = None
        self.number = 0  # what a host calls this plan's signature
        self.given: tuple[Any, ...] | None = None  # to its operators: see `settings`
        self.asked: tuple[Any, ...] = ()  # which of these each row says
        self.slots: list[PlanNode] = []
        self.reads = symbol
        self.fed_within = fed_within
        """Whether what *symbol* stands for is always of the row around."""
        self.symbol = symbol if asks else None
        self.around = around
        self.depth: int = 0 if around is None else around.depth + 1
        self.is_too_deep = self.depth > limits.depth_max
        self.under_symbol: bool = self.symbol is not None or (around is not None and around.under_symbol)
        self.hubs: dict[str, PlanNode | None] = dict.fromkeys(hubs_of(query)) if symbolic else {}
        self.since = since
        """Which hub was made last before the selector was called that has made this; None if it was no symbol's."""
        self.inside: list[tuple[str, dict[str, int]]] = []
        """Where hubs are placed that the selectors read which are being called."""
        self.root = self._place_all(once=once)
        self.starts_under = None if all(node.leaf or node.linear for node in self.nodes) else self.symbol
        """What functions may ask that are called at a start."""
        self.operators: Operators = [node.op for node in self.nodes]
        self.hub_nodes = [node for node in self.nodes if node.op.is_hub]
        self.only_timers = not any(
            node.leaf or node.calls_out or node.releases or node.op.is_hub for node in self.nodes
        )
        """Whether all that a row has outside itself is timers and inner sequences."""
        self.waits = steps_after_waiting(self)
        """How the value goes on, if all that this does is to wait once: see `reliable_rx.runtime.timer_fast_path`."""
        self.leaves = sorted((node for node in self.nodes if node.leaf), key=lambda node: type(node.op) is HubLeaf)
        for node in reversed(self.nodes):
            self._wire(node)
        self.blank: list[Any] = [None] * (len(self.slots) + 1)  # the last stays None: the state of slot -1

    # what follows is only asked of some plans, and a plan may be made for each element of a flat_map

    @cached_property
    def by_path(self) -> dict[str, PlanNode]:
        return {node.path: node for node in self.nodes}

    @cached_property
    def parts(self) -> list[PlanNode]:
        """The shared parts that a row of this has to itself: they came at an event, and no plan around has them."""
        if self.around is None or self.since is not None:
            return []
        return [node for node in self.hub_nodes if node.op.counts_readers]

    @cached_property
    def savers(self) -> list[Callable[[Any], tuple[Any, ...]]]:
        return [state_saver(node.op) for node in self.slots]

    @cached_property
    def calling(self) -> list[PlanNode]:
        """Nodes that ask the outside, and may wait for its answer."""
        return [node for node in self.slots if node.calls_out]

    @cached_property
    def comparing(self) -> list[PlanNode]:
        """Nodes that hold values which they compare with others."""
        return [node for node in self.nodes if node.op.compares]

    @cached_property
    def source_leaves(self) -> list[str]:
        return [node.op.source for node in self.walk() if isinstance(node.op, SourceLeaf)]

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset(self.source_leaves)

    @property
    def single(self) -> bool:
        return len(self.source_leaves) == 1

    @cached_property
    def by_list(self) -> bool:
        """Whether feeding this plan a list at once cannot be told from feeding it the events one by one."""
        return len(self.sources) == len(self.source_leaves) and all(takes_lists(node) for node in self.walk())

    @cached_property
    def chooses(self) -> bool:
        """Whether a value may say what is read next."""
        return any(chooses(node) for node in self.walk())

    @cached_property
    def out_of_step(self) -> dict[PlanNode, PlanNode]:
        """The nodes that stand in one of several branches alone, with the operator that pairs these by position."""
        return dict(out_of_step(self))

    @cached_property
    def read_beside(self) -> dict[PlanNode, frozenset[Hashable]]:
        """The nodes that stand in one such branch alone, with what the other branches read."""
        return read_beside(self)

    def _place_all(self, *, once: bool) -> PlanNode:
        """Place the query, and if selectors have made shared parts anew, unless *once*: what they keep is there then.

        Each part is older by then than the call of a selector that reads it, and younger than the call that made what
        keeps it, whatever was called before the query was planned.
        """
        self.once, made = True, hubs_made()
        root = self._place(self.query, self.prefix, {})
        if once or hubs_made() == made:
            return root
        self.once = False
        self.nodes, self.slots, self.hubs = [], [], dict.fromkeys(hubs_of(self.query))
        return self._place(self.query, self.prefix, {})

    def _place(self, query: Node, prefix: str, seen: dict[str, int], *, is_hub: bool = False) -> PlanNode:
        """Place a query with all that stands before it, which may be too long a chain to recur into."""
        chain = [query if is_hub else self._as_placed(query, prefix, seen)]
        while chain[-1].inputs:
            chain.append(self._as_placed(chain[-1].inputs[0], prefix, seen))
        node = self._put(chain.pop(), None, prefix, seen)
        while chain:
            node = self._put(chain.pop(), node, prefix, seen)
        return node

    def _as_placed(self, query: Node, prefix: str, seen: dict[str, int]) -> Node:
        if query.op.runs_plain and not self.symbolic:
            query = Node(ForeignLeaf(query.op.observable(query.inputs)))  # type: ignore[attr-defined]
        if query.op.counts_readers and self.symbolic:
            self._share(query, prefix, seen)
            query = Node(HubLeaf(query.op.token))  # type: ignore[attr-defined]
        return query

    def _share(self, query: Node, prefix: str, seen: dict[str, int]) -> None:
        """Place a hub with all that stands before it where it first occurs, unless a plan around this one has it."""
        token: str = query.op.token  # type: ignore[attr-defined]
        if self.hubs.get(token) is not None or (self.around is not None and self.around.has_hub(token)):
            return
        number: int = query.op.number  # type: ignore[attr-defined]
        owner = self
        while owner.around is not None and owner.since is not None and number <= owner.since:
            owner = owner.around
        if owner is not self:
            prefix, seen = owner.inside[-1]
        owner._place(query, prefix, seen, is_hub=True)

    def has_hub(self, token: str) -> bool:
        return token in self.hubs or (self.around is not None and self.around.has_hub(token))

    def _put(self, query: Node, before: PlanNode | None, prefix: str, seen: dict[str, int]) -> PlanNode:
        sides = enumerate(query.inputs[1:], 1)
        others = [self._place(each, self._side(query, prefix, seen, port), {}) for port, each in sides]
        inputs = () if before is None else (before, *others)
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
            node.template = self._template(node, query, (f"{path}:shared", seen))
        for each in shared_anywhere(query.op) if self.symbolic and node.template is None else ():
            self._share(each, f"{path}:shared", seen)
        return node

    @staticmethod
    def _side(query: Node, prefix: str, seen: dict[str, int], port: int) -> str:
        """Name the chain of a further input after the operator that reads it."""
        ordinal = seen.get(query.op.name, 0) + 1
        name = query.op.name if ordinal == 1 else f"{query.op.name}.{ordinal}"
        return f"{prefix}/{name}:{port}"

    def _template(self, node: PlanNode, query: Node, place: tuple[str, dict[str, int]]) -> Plan | None:
        """Call the selector once with a symbol; None if what it returns depends on the value.

        Shared parts that it reads and has not made stand at *place*, or further out.
        """
        self.inside.append(place)
        try:
            return self._called_once(node, query)
        finally:
            self.inside.pop()

    def _called_once(self, node: PlanNode, query: Node) -> Plan | None:
        symbol, op, since = Symbol(), query.op, hubs_made()
        try:
            inner, mistake = find_mistake(op.inner, (symbol, 0) if op.indexes else symbol)  # type: ignore[attr-defined]
        except BaseException as raised:  # what it raises for a symbol counts for nothing: it is called again per value
            let_through(raised)
            return None
        if mistake is not None and is_known(query) and not symbol.asked and not self.was_asked():
            node.mistake = mistake
        for each in hubs_of(inner.node).values() if isinstance(inner, Query) else ():
            if each.op.number <= since:  # type: ignore[attr-defined]
                self._share(each, *self.inside[-1])
        is_one = isinstance(inner, Query) and not op.indexes  # type: ignore[attr-defined]
        if not is_one or not only_reads(inner.node, symbol):
            return None
        is_held, is_kept = how_held(inner.node, symbol, op)
        if is_kept:
            return None
        check_size(inner.node)
        plan = Plan(
            inner.node, limits=self.limits, prefix=f"{node.path}/inner", symbolic=True, symbol=symbol, around=self,
            fed_within=is_known(query), asks=is_held, since=since, once=self.once,
        )  # fmt: skip
        symbol.planned = True
        return plan

    def was_asked(self) -> bool:
        """Whether a symbol that functions of this plan may have in hand was asked for what it does not have."""
        asked = self.reads is not None and self.reads.asked
        return asked or (self.around is not None and self.around.was_asked())

    def _wire(self, node: PlanNode) -> None:
        down = node.down
        if down is None:
            node.deliver, node.finish = to_sink, end_sink
        elif isinstance(down.op, Linear):
            run = rest_of_segment(down) if node.linear else segment(down)
            node.deliver, node.finish = run, end_segment(run)
        else:
            node.deliver, node.finish = (
                passing(down) if passes(down.op, node.port) else to_stage(down, node.port),
                end_stage(down, node.port),
            )
        if node.leaf:
            node.deliver, node.finish = (entered(self, node.op, way) for way in (node.deliver, node.finish))

    def walk(self) -> Iterator[PlanNode]:
        """Yield every node, those of shared sub-plans included."""
        for node in self.nodes:
            yield node
            if node.template is not None:
                yield from node.template.walk()
