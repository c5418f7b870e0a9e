"""Plans with other parts: every function here goes through a plan and returns another one, however long it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import reactivex

from reliable_rx.operators.contract.arguments import nearest
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.query.query import Node, Query, SourceLeaf, as_query, walk


def rebuilt(
    node: Node,
    change: Callable[[Node], Node | None],
    renew: Callable[[Operator, tuple[Node, ...]], Operator] = lambda op, inputs: op,
) -> Node:
    """Return the plan with other parts: what *change* gives for a node stands for all up to there, *renew* makes a new
    operator over new inputs."""
    chain: list[Node] = []
    at = node
    while (found := change(at)) is None and at.inputs:
        chain.append(at)
        at = at.inputs[0]
    made = at if found is None else found
    for each in reversed(chain):
        inputs = (made, *[rebuilt(other, change, renew) for other in each.inputs[1:]])
        made = Node(renew(each.op, inputs), inputs)
    return made


def check_bound(node: Node, names: Iterable[str]) -> None:
    """*Raises* `TypeError` for a name that no source has while a source of the plan goes without: it was mistyped."""
    given = set(names)
    read = {each.op.source for each in walk(node) if isinstance(each.op, SourceLeaf)}
    unknown, left = sorted(given - read), sorted(read - given)
    if unknown and left:
        raise TypeError(
            f"bind names {unknown[0]!r}, which is no source of this query{nearest(unknown[0], left)}; without one is "
            f"{', '.join(map(repr, left))}"
        )


def bound(node: Node, sources: Mapping[str, reactivex.Observable[Any]]) -> Node:
    """Return the plan with the named *sources* replaced; what was shared stays shared, but by its own readers only."""
    hubs: dict[Operator, Operator] = {}

    def given(at: Node) -> Node | None:
        wanted = isinstance(at.op, SourceLeaf) and at.op.source in sources
        return as_query(sources[at.op.source]).node if wanted else None  # type: ignore[attr-defined]

    def over(op: Operator, inputs: tuple[Node, ...]) -> Operator:
        if op.counts_readers:
            op = hubs.setdefault(op, op.anew())  # type: ignore[attr-defined]
        if hasattr(op, "_source"):  # what its user function is given as the sequence before it
            op = replace(op, _source=Query(inputs[0]))  # type: ignore[type-var]
        return op

    return rebuilt(node, given, over)
