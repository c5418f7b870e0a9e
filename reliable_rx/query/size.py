"""How large a query may be: more would end in a `RecursionError` somewhere, later and nowhere in particular.

Each stage calls the next one, so Python's stack bounds how many may stand in a row; linear operators are one loop and
bounded only by what is reasonable. Rejected: raising Python's recursion limit (it is the whole process's, and a user's
runaway recursion would end in a crash), and queues between stages (their order would not be Rx's).
"""

from __future__ import annotations

from reliable_rx.errors import QueryRefused
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.query.query import Node

OPERATORS_MAX = 2_000
STAGES_MAX = 100
"""At seven frames each, which few kinds pass, they leave a quarter of Python's usual thousand to who calls."""
SMALL = 32
"""So few operators need no looking at."""


def check_size(node: Node) -> None:
    """*Raises* `QueryRefused` for a query of too many operators, or of too many stages in a row.

    A sequence that is used twice counts twice, as it will be subscribed to twice.
    """
    if is_small(node):
        return
    operators, stages = measure(node)
    if operators > OPERATORS_MAX:
        raise QueryRefused(
            f"it has {operators:,} operators, and {OPERATORS_MAX:,} are the most; make several queries of it that read "
            f"each other's streams, or share what it uses twice",
            path="/",
        )
    if stages > STAGES_MAX:
        raise QueryRefused(
            f"it has {stages:,} operators with several inputs, timers or inner sequences one behind the other, and "
            f"{STAGES_MAX} are the most; make several queries of it that read each other's streams",
            path="/",
        )


def is_small(node: Node) -> bool:
    inputs = node.inputs
    for _ in range(SMALL):
        if len(inputs) == 1:
            inputs = inputs[0].inputs
        elif inputs:
            inputs = inputs[0].inputs + inputs[1:]
        else:
            return True
    return False


def measure(node: Node) -> tuple[int, int]:
    """Return how many operators there are, and how many steps of Python's stack an event takes at most.

    >>> import reliable_rx as rx
    >>> n = rx.source("n")
    >>> measure(n.map(str).map(len).merge(n).scan(max).node)
    (6, 3)
    """
    known: dict[int, tuple[int, int]] = {}
    waiting = [node]
    while waiting:
        at = waiting[-1]
        fresh = [each for each in at.inputs if id(each) not in known]
        if fresh:
            waiting += fresh
            continue
        waiting.pop()
        found = [known[id(each)] for each in at.inputs]
        goes_on = not found or (isinstance(at.op, Linear) and isinstance(at.inputs[0].op, Linear))
        known[id(at)] = sum(each[0] for each in found) + 1, max((each[1] for each in found), default=0) + (not goes_on)
    return known[id(node)]
