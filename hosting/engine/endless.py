"""Which queries may go on for ever by themselves, and how far time goes once all events have been taken.

Event time does not move any more then, but operators still hold values back. What they hold arrives: time goes on until
no timer is left. What ticks for ever (`interval`, `repeat` without a count, what never completes) would never get
there: a query in which something of the kind is active, or that reads such a query, fires what is scheduled once.

Rejected: firing everything once (the second of two delays lost its last values), bounding time by how far ahead timers
of a path ever were set (a queue of `concat_map` takes many times as long), and asking operators what they hold (a row
that is being read holds nothing, and still brings something).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from hosting.engine.timers import Timers
from reliable_rx.creation.values import Never
from reliable_rx.errors import LimitExceeded
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.query.query import HubLeaf, InnerLeaf, SymbolLeaf
from reliable_rx.runtime.hub import subject_of_hub
from reliable_rx.runtime.instance import Instance, Timer
from reliable_rx.runtime.plan import PlanNode

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine

SHARED = (HubLeaf, SymbolLeaf, InnerLeaf)
MOVES_MAX = 3_000_000
"""So often time moves on at the end; what an operator of the user's own schedules for ever is stopped then."""
LOOK_EACH = 1000
"""After so many moves it is looked again whether something may go on for ever: that takes a look at every row."""


def is_endless(instance: Instance) -> bool:
    """Whether something is active in *instance*, or in one that it reads, that may go on for ever by itself."""
    return any(goes_on_within(instance, each) for each in instance.plan.nodes)


def goes_on_within(instance: Instance, node: PlanNode, upto: PlanNode | None = None) -> bool:
    """Whether *node*, or an inner sequence that it reads, may go on for ever, whatever stands before *upto*.

    What is shared, or made outside, may go on as long as what it is made of, which may be all that *upto* reads.
    """
    if not instance.active & node.bit:
        return False
    op = instance.ops[node.index]
    may_go_on = op.is_endless() or (upto is not None and isinstance(op, SHARED))
    if may_go_on and (isinstance(op, Never) or not is_cut(instance, node, upto)):
        return True
    if stands_still(instance, node):
        return True
    children = (instance.children or {}).get(node.index, {})
    return any(is_endless(child) for child in children.values())


def stands_still(instance: Instance, node: PlanNode) -> bool:
    """Whether *node* has outlived all that it reads and waits for nothing, as `skip_until` may."""
    index, runs = node.index, instance.active & node.mask & ~node.bit
    if node.linear or not node.inputs or runs or node.op.is_hub or node.calls_out or node.yields_inner:
        return False
    return not (instance.timers or {}).get(index) and not (instance.children or {}).get(index)


def is_cut(instance: Instance, node: PlanNode, upto: PlanNode | None = None) -> bool:
    """Whether what stands behind *node* takes only so much of it; what leaves values out may never."""
    while True:
        down = node.down
        if node.op.counts_readers:
            return all_cut(instance, node)
        if down is None:
            parent, sink = instance.parent, instance.sink
            if parent is None or not isinstance(sink, PlanNode) or not sink.passes:
                return False
            instance, node, upto = parent, sink, None
            continue
        if down is upto:
            return False
        if ends_here(instance, node, down):
            return True
        if not goes_through(node, down):
            return False
        node = down


def ends_here(instance: Instance, node: PlanNode, down: PlanNode) -> bool:
    """Whether *down* completes for certain, whatever comes of its input *node*, if only enough does."""
    op = down.op
    if op.is_bound or (op.ends_with_first and node is not down.inputs[0]):
        return True
    others = (each for each in down.inputs if each is not node) if op.ends_with_any else ()
    return any(not goes_on_before(instance, each, down) for each in others)


def goes_on_before(instance: Instance, last: PlanNode, down: PlanNode) -> bool:
    """Whether something may go on for ever in the input of *down* whose last operator is *last*."""
    return any(goes_on_within(instance, each, down) for each in instance.plan.nodes if each.bit & last.mask)


def goes_through(node: PlanNode, down: PlanNode) -> bool:
    """Whether of every so many values of *node* one at least comes out of *down*."""
    op = down.op
    if op.counts_readers:
        return True
    if isinstance(op, Linear):
        return op.keeps_pace or bool(op.maps) or op.hands_out
    return op.keeps_pace or op.passes_on or op.passes_port == node.port  # type: ignore[attr-defined]


def all_cut(instance: Instance, hub: PlanNode) -> bool:
    """Whether all who read *hub* take so much only: it runs while anybody reads it."""
    readers = subject_of_hub(instance, hub).subscribers
    return bool(readers) and all(
        reader is instance and leaf is not None and is_cut(instance, leaf) for _, reader, leaf in readers
    )


def endless(engine: QueryEngine) -> set[str]:
    """Return the queries that may go on for ever, those that read one included."""
    found = {name for name, standing in engine.standing.items() if is_endless(standing)}
    while more := {
        name
        for name, standing in engine.standing.items()
        if name not in found and not found.isdisjoint(standing.plan.sources)
    }:
        found |= more
    return found


def last_due(timers: Iterable[Timer], end: float | None, leads: Mapping[str, float]) -> float | None:
    """Return when the last timer is due; behind an *end* of those that are ahead of it as far as ever on their path."""
    alive = (each for each in timers if each[2] is not None)
    dues = (due for due, _, _, node, _ in alive if end is None or due <= end + leads.get(node.path, 0.0))
    return max(dues, default=None)


def moves(query: Instance, timers: Timers, end: float, leads: Mapping[str, float]) -> Iterator[float]:
    """Yield how far the time of *query* goes on, one move after the other; *Raises* `LimitExceeded` if that never ends.

    Beside what ticks for ever, what is held is due no later after the *end* than timers of its path ever were set ahead
    (*leads*).
    """
    horizon, unending = timers.last_due(), False
    for count in range(MOVES_MAX):
        if horizon is None:
            return
        yield horizon
        if unending or count % LOOK_EACH == 0:
            unending = is_endless(query)
        horizon = last_due(timers.heap, end if unending else None, leads)
    raise goes_on(query.key)


def goes_on(name: object) -> LimitExceeded:
    return LimitExceeded(
        f"{name!r} still has something scheduled after time has moved {MOVES_MAX:,} times behind its last event: an "
        f"operator that goes on for ever has to say so (`Operator.is_endless`)",
        path="/",
        limit="MOVES_MAX",
        most=MOVES_MAX,
    )


class Rest:
    """What is left of all queries on an evaluator's clock when events have ended."""

    def __init__(self, engine: QueryEngine) -> None:
        self.engine = engine
        self.count = 0
        """How often time has moved for it in this run."""
        self._unending: set[str] = set()
        self._looked_at = -LOOK_EACH

    def move(self) -> float | None:
        """Return how far time goes; None if nothing is left that would end."""
        engine, timers = self.engine, self.engine.timers
        if not engine.drained or not timers.heap:
            return timers.last_due()
        if engine.number - self._looked_at >= LOOK_EACH:
            self._look()
        if (due := self._due()) is None:
            self._look()
            due = self._due()
        return due

    def _due(self) -> float | None:
        return last_due((each for each in self.engine.timers.heap if owner(each[2]) not in self._unending), None, {})

    def _look(self) -> None:
        if self._looked_at != self.engine.number:
            self._unending, self._looked_at = endless(self.engine), self.engine.number

    def left(self) -> set[object]:
        """Return the queries for which time would go on."""
        return {owner(each[2]) for each in self.engine.timers.heap if each[2] is not None} - self._unending


def owner(instance: Instance | None) -> object:
    """Return the name of the query that *instance* is a part of."""
    while instance is not None and instance.parent is not None:
        instance = instance.parent
    return None if instance is None else instance.key
