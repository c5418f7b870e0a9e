"""What a state depends on: the settings of its operator, and what its inputs read.

*Settings* are the parameters that are numbers, durations, times, texts or containers; functions are none, since a
function that changes leaves a state what it is. Both are stored with a row where its plan is no part of a larger one,
so that whoever takes it over, be it another Python, sees what it was kept under.

Rejected: settings in the signature (of a hundred thousand queries that differ in a number each would have one of its
own), and to ask the stored query for them (another Python cannot load it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zlib import crc32

from reliable_rx.operators.contract.operator import Operator, Stage
from reliable_rx.operators.contract.parameters import names_of
from reliable_rx.query.query import HubLeaf, InnerLeaf, SourceLeaf, SymbolLeaf

if TYPE_CHECKING:
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import Operators, Plan, PlanNode

Settings = tuple[tuple[str, Any], ...]
Reads = tuple[tuple[str, ...], int, bool]
"""The sources that an input reads, the digest of the names of its operators, and whether it reads a shared part."""
Inputs = tuple[()] | tuple[int, tuple[Reads, ...]]
"""How many operators the first input has at the level of the one that reads it, and what each input reads."""
Given = tuple[tuple[str, Settings, Inputs], ...]
"""What operators were given that have settings, or several inputs, by path."""


@dataclass(frozen=True, slots=True)
class Before:
    """What an operator was given before an edit."""

    settings: Mapping[str, Any]
    ports: tuple[int | None, ...]
    """For each input of today which one of before it is; None if it is new."""
    inputs: int
    """How many there were."""

    @property
    def reads_the_same(self) -> bool:
        """Whether the inputs are those of before, in the same order."""
        return self.ports == tuple(range(self.inputs))

    def taken(self, values: Sequence[Any], new: Any) -> list[Any]:
        """Return what was kept for each input in the order of today; *new* for one that was not there."""
        return [new if port is None else values[port] for port in self.ports]


def settings_of(op: Operator) -> Settings:
    """Return the parameters of *op* by which its state is to be read."""
    return tuple(op.settings().items())


def keeps_anything(op: Operator) -> bool:
    """Whether something of *op* is stored: a state, timers, inner sequences."""
    return op.State is not None or isinstance(op, Stage)


# -- of a plan


def given_to(instance: Instance) -> Given:
    """Return what the operators of *instance* were given; for a shared sub-plan the row around it has that."""
    plan = instance.plan
    if plan.given is None:
        plan.given = tuple(each for part in parts_of(plan) for each in given_in(part, part.operators))
        plan.asked = asked_of(plan) if plan.alike is not None else ()
    if not plan.asked:
        return plan.given
    ops = instance.ops
    return tuple(
        (path, settings_of(ops[index]) if differs else (), inputs) for index, path, differs, inputs in plan.asked
    )


def asked_of(plan: Plan) -> tuple[tuple[int, str, bool, Inputs], ...]:
    """Return the operators that each row of *plan*, which runs queries that are alike, was given others of."""
    found = [(node.index, node.path, differs(node), inputs_in(node, node.op)) for node in plan.nodes]
    return tuple([each for each in found if each[2] or each[3]]) if any(each[2] for each in found) else ()


def differs(node: PlanNode) -> bool:
    kind = type(node.op)
    return keeps_anything(node.op) and bool(names_of(kind) or kind.settings is not Operator.settings)


def parts_of(plan: Plan) -> Iterator[Plan]:
    """Yield *plan* and the plans that are shared within it."""
    waiting = [plan]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += [node.template for node in at.nodes if node.template is not None]


def given_in(plan: Plan, ops: Operators) -> Iterator[tuple[str, Settings, Inputs]]:
    for node, op in zip(plan.nodes, ops, strict=True):
        settings = settings_of(op) if keeps_anything(op) else ()
        inputs = inputs_in(node, op)
        if settings or inputs:
            yield node.path, settings, inputs


def inputs_in(node: PlanNode, op: Operator) -> Inputs:
    return inputs_of(node) if len(node.inputs) > 1 or (node.inputs and takes_any(op)) else ()


def takes_any(op: Operator) -> bool:
    """Whether what a single input of *op* reads counts: it may have more another time, or is shared."""
    return op.is_hub or hasattr(op, "inputs") or hasattr(op, "steps")


def inputs_of(node: PlanNode) -> Inputs:
    """Describe the inputs of *node*."""
    depth, first = 1, node.inputs[0]
    while first.inputs:
        depth, first = depth + 1, first.inputs[0]
    return depth, tuple(map(reads_of, node.inputs))


def reads_of(node: PlanNode) -> Reads:
    """Describe what the chain up to *node* reads."""
    sources, names, waiting = list[str](), list[str](), [node]
    while waiting:
        at = waiting.pop()
        op, hub = at.op, None
        if isinstance(op, HubLeaf):
            hub = hub_of(at.plan, op.token)
        elif isinstance(op, SourceLeaf):
            sources.append(op.source)
        elif not at.inputs:
            sources.append("" if isinstance(op, (InnerLeaf, SymbolLeaf)) else f"({op.name})")
        names.append(op.name)
        waiting += reversed(at.inputs if hub is None else hub.inputs)
    return tuple(sources), crc32(" ".join(names).encode()), HubLeaf.name in names


def hub_of(plan: Plan | None, token: str) -> PlanNode | None:
    while plan is not None:
        if (node := plan.hubs.get(token)) is not None:
            return node
        plan = plan.around
    return None


# -- which input is which


Codes = tuple[Sequence[str], Sequence[str]]
"""The digests of what the inputs of before and those of today do."""


def may_be_mistaken(before: Sequence[Reads], today: Sequence[Reads]) -> bool:
    """Whether what inputs read, and the names of their operators, do not tell which of them is which."""
    return any(len({each[:2] for each in reads}) < len(reads) for reads in (before, today))


def is_mixed(inputs: Inputs) -> bool:
    """Whether what *inputs* read, and the names of their operators, do not tell them apart."""
    return len(inputs) == 2 and may_be_mistaken(inputs[1], ())


def matched(before: Sequence[Reads], today: Sequence[Reads], codes: Codes | None = None) -> tuple[int | None, ...]:
    """Return for each input of *today* which one of *before* it is.

    It is the one that does the same, by *codes* if they are known, else the only one that reads the same through the
    same operators. Where none has come, gone or changed its place, it is then the one in the same place, if that reads
    the same; elsewhere the only one that does. A reader of a shared part is the same where it reads another one.

    >>> a, b, c = (("a",), 1, False), (("b",), 1, False), (("c",), 1, False)
    >>> matched([a, c], [a, b, c]), matched([a, b], [b, a])
    ((0, None, 1), (1, 0))
    >>> matched([a, a], [a, a]), matched([a, a], [a, a], (["x", "y"], ["y", "x"]))
    ((0, 1), (1, 0))
    >>> matched([a, a], [a, a, a]), matched([a, a], [a, a, a], (["x", "y"], ["z", "x", "y"]))
    ((None, None, None), (None, 0, 1))
    >>> matched([a, c], [(("a", "b"), 4, False), c]), matched([a, c], [(("b", "a"), 4, False), c])
    ((0, 1), (None, 1))
    """
    found: dict[int, int] = {}
    if codes is not None:
        pair(found, *codes)
    pair_unique(found, [each[:2] for each in before], [each[:2] for each in today])
    for what in (sources, begins_with):
        was, is_now = [*map(what, before)], [*map(what, today)]
        if len(before) == len(today) and all(port == old for port, old in found.items()):
            pair_in_place(found, was, is_now)
        pair_unique(found, was, is_now)
    for port, (known, now) in enumerate(zip(before, today, strict=False)):
        if port not in found and port not in found.values() and known[2] and now[2] and known[:1] != now[:1]:
            found[port] = port
    return tuple(found.get(port) for port in range(len(today)))


def sources(reads: Reads) -> frozenset[str]:
    return frozenset(reads[0])


def begins_with(reads: Reads) -> Any:
    """Return the source that the chain of an input begins with; what is made there is like no other."""
    first = reads[0][0] if reads[0] else "("
    return object() if first.startswith("(") else first


def pair_in_place(found: dict[int, int], before: Sequence[Any], today: Sequence[Any]) -> None:
    """Pair the inputs that are left with what was in the same place, where that is the same."""
    for port, (known, now) in enumerate(zip(before, today, strict=True)):
        if known == now and port not in found.values():
            found.setdefault(port, port)


def pair(found: dict[int, int], before: Sequence[str], today: Sequence[str]) -> None:
    """Pair the inputs that do the same, first those in the same place; of several that do they go in order."""
    for in_place in (True, False):
        for port, code in enumerate(today):
            left = [old for old in range(len(before)) if before[old] == code and old not in found.values()]
            if port not in found and left and (not in_place or port in left):
                found[port] = port if in_place else left[0]


def pair_unique(found: dict[int, int], before: Sequence[Any], today: Sequence[Any]) -> None:
    """Pair the inputs that are left and have what no other had or has."""
    for port, what in enumerate(today):
        if port not in found and today.count(what) == before.count(what) == 1:
            old = before.index(what)
            if old not in found.values():
                found[port] = old


def unsure(before: Sequence[Reads], today: Sequence[Reads], ports: Sequence[int | None]) -> list[int]:
    """Return the inputs of *today* that may be one of *before* which none is."""
    left = [sources(each) for old, each in enumerate(before) if old not in ports]
    return [port for port, old in enumerate(ports) if old is None and sources(today[port]) in left]
