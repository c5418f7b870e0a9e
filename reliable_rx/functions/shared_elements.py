"""Which functions of a plan are handed elements that others may hold too, and change them in place.

An element that comes out of a source, or of another query's stream, is the same object for all that read it, in lists
of events and in states. It stays so through operators that hand elements on, into groups and windows, and in the lists
and pairs that operators make of elements, whose parts are shared though they are new. Behind a function that makes what
goes on (map, scan) nothing is known to be shared. What a selector makes for each element anew is not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from reactivex.internal.utils import NotSet

from reliable_rx.functions.element_changes import changes_of
from reliable_rx.functions.element_items import Change
from reliable_rx.operators.contract.operator import Operator, Stage
from reliable_rx.query.query import HubLeaf, SourceLeaf, SymbolLeaf
from reliable_rx.runtime.plan import Plan, PlanNode

GIVEN: Mapping[str, tuple[int, ...]] = {
    "mapper": (0,), "mapper_indexed": (0,), "predicate": (0,), "predicate_indexed": (0,), "key_mapper": (0,),
    "element_mapper": (0,), "next_action": (0,), "project": (0,), "coroutine": (0,), "comparer": (0, 1),
    "accumulator": (1,), "left_duration_mapper": (0,), "right_duration_mapper": (0,), "closing_mapper": (0,),
    "throttle_duration_mapper": (0,), "timeout_duration_mapper": (0,), "keys": (0,),
}  # fmt: skip
"""Parameters that are functions of elements, and which of their arguments are elements."""
OF_ANOTHER_INPUT = {"right_duration_mapper": 1, "closing_mapper": 1}
COMPARES_KEYS = frozenset(("distinct", "distinct_until_changed", "min_by", "max_by"))
NO_ELEMENTS = frozenset(("publish", "case", "for_in"))
"""Operators whose mapper is given something else."""
HANDS_ON = frozenset((
    "debounce", "default_if_empty", "delay", "delay_subscription", "delay_with_mapper", "expand", "max", "min",
    "sample", "skip_last_with_time", "take_last_with_time", "throttle_with_mapper", "timeout",
    "timeout_with_mapper",
))  # fmt: skip
"""Operators that emit elements as they are, beside those that say so themselves."""
HOLDS = frozenset((
    "buffer", "buffer_toggle", "buffer_when", "buffer_with_count", "buffer_with_inactivity", "buffer_with_time",
    "buffer_with_time_or_count", "combine_latest", "fork_join", "join", "join_within", "materialize", "max_by",
    "min_by", "pairwise", "take_last_buffer", "time_interval", "timestamp", "to_list", "with_latest_from", "zip",
    "zip_latest", "zip_with_iterable",
))  # fmt: skip
"""Operators that emit new lists, pairs and the like of elements."""


class Shared(NamedTuple):
    """How deep in what a node emits the shared objects are, and how deep in that of its groups; None: nowhere known."""

    at: int | None = None
    within: int | None = None


class ChangedElement(NamedTuple):
    """A function that changes elements which others may hold: where it stands, and the first place that does it."""

    path: str
    parameter: str
    change: Change


NOTHING = Shared()


def changed_elements(plan: Plan) -> list[ChangedElement]:
    """Return the functions of *plan* that change, in place, elements that others may hold.

    >>> import reliable_rx as rx
    >>> def gross(row): row["price"] *= 1.2; return row
    >>> found = changed_elements(Plan(rx.source("n").filter(len).map(gross).node, symbolic=True))
    >>> [(each.path, each.parameter, each.change.how) for each in found]
    [('/map', 'mapper', "row['price'] = ...")]
    """
    shared: dict[PlanNode, Shared] = {}
    return list(_look(plan, shared, {}))


def _look(plan: Plan, shared: dict[PlanNode, Shared], owners: dict[Any, PlanNode]) -> Iterator[ChangedElement]:
    """Yield what is found in *plan*, and note what is shared; what a node reads stands before it."""
    for node in plan.nodes:
        if node.op.is_hub:
            owners[node.op.token] = node  # type: ignore[attr-defined]
        if node.template is not None:
            owners[id(node.template.reads)] = node
            yield from _look(node.template, shared, owners)
        shared[node] = emitted(node, shared, owners)
        yield from changed_by(node, shared)


def emitted(node: PlanNode, shared: dict[PlanNode, Shared], owners: dict[Any, PlanNode]) -> Shared:
    """Return what is shared of what *node* emits, given that of its inputs."""
    op, inputs = node.op, [shared[each] for each in node.inputs]
    if isinstance(op, SourceLeaf):
        return Shared(0)
    if isinstance(op, HubLeaf):
        hub = owners.get(op.token)
        return NOTHING if hub is None else shared[hub.inputs[0]]
    if isinstance(op, SymbolLeaf):
        owner = owners.get(id(op.symbol))
        return NOTHING if owner is None else within(owner, shared)
    if op.yields_inner:
        return Shared(None, inputs[0].at if inputs and getattr(op, "element_mapper", None) is None else None)
    if op.name in HOLDS:
        least = nearest(*[each.at for each in inputs])
        return Shared(None if least is None else least + 1)
    template = NOTHING if node.template is None or not node.passes else shared[node.template.root]
    if hands_on(op):
        port = op.passes_port if isinstance(op, Stage) else None
        inputs = inputs if port is None else inputs[port : port + 1]
        inputs = [*inputs, template]
    else:
        inputs = [template]
    return Shared(nearest(*[each.at for each in inputs]), nearest(*[each.within for each in inputs]))


def hands_on(op: Operator) -> bool:
    """Whether *op* emits elements that it is given as they are."""
    if isinstance(op, Stage) and (op.passes_on or op.passes_port is not None):
        return True
    return op.keeps_inner or op.name in HANDS_ON or (op.is_hub and op.name == "share")


def within(owner: PlanNode, shared: dict[PlanNode, Shared]) -> Shared:
    """Return what is shared of the sequence that stands for the symbol of *owner*'s sub-plan."""
    before = shared[owner.inputs[0]]
    if owner.op.yields_inner:  # it selects for its own groups
        return Shared(before.at if getattr(owner.op, "element_mapper", None) is None else None)
    return Shared(before.within)


def nearest(*depths: int | None) -> int | None:
    return min((each for each in depths if each is not None), default=None)


def changed_by(node: PlanNode, shared: dict[PlanNode, Shared]) -> Iterator[ChangedElement]:
    """Yield those functions of *node* that change what is shared."""
    for name, function, port, places in functions_of(node.op):
        at = 0 if isinstance(node.op, SourceLeaf) else shared[node.inputs[port]].at if node.inputs[port:] else None
        if at is None:
            continue
        found = changes_of(function, places, is_unused=name == "next_action")
        change = next((each for each in found if each.depth >= at), None)
        if change is not None:
            yield ChangedElement(node.path, name, change)


def functions_of(op: Operator) -> Iterator[tuple[str, Any, int, tuple[int, ...]]]:
    """Yield the functions that *op* calls with elements: parameter, function, input, and which arguments they are."""
    for name, places in GIVEN.items():
        value = getattr(op, name, None)
        if value is None or (name == "mapper" and op.name in NO_ELEMENTS):
            continue
        if name == "comparer" and op.name in COMPARES_KEYS and getattr(op, "key_mapper", None) is not None:
            continue
        if name == "accumulator" and getattr(op, "seed", None) is NotSet:
            places = (0, 1)  # the first element is the first state
        functions = enumerate(value) if isinstance(value, tuple) else [(OF_ANOTHER_INPUT.get(name, 0), value)]
        for port, function in functions:
            if callable(function):
                yield name, function, port, places
