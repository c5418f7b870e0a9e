"""What the policies ``skip`` and ``dead_letter`` leave out, and what they must not.

An error that something in the query catches is no event's. An event that puts an operator out of step for good is
skipped nowhere: such a query is refused when it is created, and where a selector makes it for a value it fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reactivex import Observable

from reliable_rx.branching import opener_of
from reliable_rx.errors import QueryRefused
from reliable_rx.operator import Operator, Stage
from reliable_rx.plan import Plan, PlanNode
from reliable_rx.query import parameters
from reliable_rx.symbols import is_known

OURS = "reliable_rx."
"""Where the operators of this library are."""


def may_skip(node: PlanNode) -> bool:
    """Whether a query may go on without the event at which *node* raised, as far as its plan can say."""
    made = node.plan.around is not None and node.plan.reads is None  # by a selector, for a value
    return not caught(node) and not (made and node in node.plan.out_of_step)


def caught(node: PlanNode) -> bool:
    """Whether something downstream of *node* in its plan goes on after an error."""
    while node.down is not None:
        node = node.down
        if node.op.is_hub:  # behind it is whoever reads it
            hub = node
            behind = (each for each in hub.plan.walk() if each.plan is not hub.plan or not each.bit & hub.mask)
            return any(catches(each) for each in behind if not each.op.is_hub)
        if catches(node):
            return True
    return False


def catches(node: PlanNode) -> bool:
    return isinstance(node.op, Stage) and node.op.catches and type(node.op).on_error is not Stage.on_error


def refuse_out_of_step(plan: Plan, policy: str) -> None:
    """*Raises* `QueryRefused` for a plan in which a skipped event would make an operator pair wrongly ever after."""
    for each in within(plan):
        for node, pairing in each.out_of_step.items():
            if may_raise(node) and not caught_above(node):
                raise QueryRefused(out_of_step_message(pairing.path, node.path, policy), path=pairing.path)


def out_of_step_message(pairing: str, raising: str, policy: str) -> str:
    return (
        f"{pairing} pairs by position what several branches make of the same events, and under policy={policy!r} it "
        f"would pair wrongly after the first event that {raising} raises at, since only that branch leaves it out: do "
        f"what can raise before the branches part (as in source.map(lambda x: (x, f(x)))), or take "
        f'policy="fail"'
    )


def within(plan: Plan) -> Iterator[Plan]:
    """Yield *plan* and the shared sub-plans in it."""
    yield plan
    for node in plan.walk():
        if node.template is not None:
            yield node.template


def caught_above(node: PlanNode | None) -> bool:
    """Whether something downstream of *node*, in its plan or those around it, goes on after an error."""
    while node is not None:
        if caught(node):
            return True
        node = opener_of(node.plan)
    return False


def may_raise(node: PlanNode) -> bool:
    """Whether the operator of *node* may raise at an event: a function that it was given, or it by itself."""
    return calls_function(node.op) or raises_itself(node)


def calls_function(op: Operator) -> bool:
    return any(is_function(each) for value in parameters(op).values() for each in parts_of(value))


def raises_itself(node: PlanNode) -> bool:
    """Whether it may at a value that it cannot take; what reads groups or windows alone gets nothing but sequences."""
    raises = node.op.raises
    if raises is None:
        return not type(node.op).__module__.startswith(OURS)
    return raises and (node.template is None or not is_known(node))


def parts_of(value: Any) -> Any:
    return value if isinstance(value, (tuple, list)) else (value,)


def is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, Observable)
