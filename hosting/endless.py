"""Which queries may go on for ever by themselves, and how far time goes once all events have been taken.

Event time does not move any more then, but operators still hold values back. What they hold arrives: time goes on until
no timer is left. What ticks for ever (`interval`, `repeat` without a count, what never completes) would never get
there: a query in which something of the kind is active, or that reads such a query, fires what is scheduled once.

Rejected: firing everything once (the second of two delays lost its last values), bounding time by how far ahead timers
of a path ever were set (a queue of `concat_map` takes many times as long), and asking operators what they hold (a row
that is being read holds nothing, and still brings something).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from reliable_rx.instance import Instance, Timer
from reliable_rx.plan import PlanNode

if TYPE_CHECKING:
    from hosting.engine import QueryEngine

TICKS_MAX = 100_000
"""So many turns are taken for it; what an operator of the user's own schedules for ever is left then."""


def is_endless(instance: Instance) -> bool:
    """Whether something is active in *instance*, or in one that it reads, that may go on for ever by itself."""
    active, ops = instance.active, instance.ops
    if any(active & each.bit and ops[each.index].is_endless and not is_cut(each) for each in instance.plan.nodes):
        return True
    return any(is_endless(child) for some in (instance.children or {}).values() for child in some.values())


def is_cut(node: PlanNode) -> bool:
    """Whether what stands behind *node* in its sequence takes only so much of it."""
    down = node.down
    if down is None:
        return False
    return down.op.is_bound or (down.op.ends_with_first and node is not down.inputs[0]) or is_cut(down)


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


def rest(engine: QueryEngine) -> float | None:
    """Return how far time goes now that events have ended; None if nothing is left that would end."""
    timers = engine.timers
    if not engine.drained or not timers.heap:
        return timers.last_due()
    if engine.ticks_at_rest > TICKS_MAX:
        return None
    unending = endless(engine)
    return last_due((each for each in timers.heap if owner(each[2]) not in unending), None, {})


def owner(instance: Instance | None) -> object:
    """Return the name of the query that *instance* is a part of."""
    while instance is not None and instance.parent is not None:
        instance = instance.parent
    return None if instance is None else instance.key
