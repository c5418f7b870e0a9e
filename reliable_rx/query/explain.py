"""How a plan shows itself to people: one line for `repr`, a tree for `explain`."""

from __future__ import annotations

from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType
from typing import Any

from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.query.query import ForeignLeaf, HubLeaf, InnerLeaf, Node, Query, SourceLeaf, SymbolLeaf, parameters
from reliable_rx.query.size import check_size
from reliable_rx.runtime.plan import Plan, PlanNode
from reliable_rx.shown import placed_repr


def one_line(node: Node) -> str:
    """Write the plan as the fluent calls that would make it.

    >>> import reliable_rx as rx
    >>> rx.source("a").merge(rx.source("b")).take(1)
    source('a').merge(source('b')).take(1)
    """
    calls: list[str] = []
    while node.inputs:
        first, *others = node.inputs
        arguments = [one_line(each) for each in others] + shown(node)
        calls.append(f".{node.op.name}({', '.join(arguments)})")
        node = first
    return call(node) + "".join(reversed(calls))


def call(node: Node) -> str:
    op = node.op
    if isinstance(op, SourceLeaf):
        return f"source({op.source!r})"
    if isinstance(op, ForeignLeaf):
        return f"<{type(op.observable).__name__}>"
    if isinstance(op, (InnerLeaf, SymbolLeaf)):
        return "inner"
    if isinstance(op, HubLeaf):
        return "shared"
    return f"{op.name}({', '.join(shown(node))})"


def shown(node: Node) -> list[str]:
    """Write the parameters, leaving out how many inputs there are."""
    return [show(value) for name, value in parameters(node.op).items() if name != "inputs"]


def show(value: Any) -> str:
    """Write one parameter for people: functions by name, long values cut."""
    if isinstance(value, (FunctionType, BuiltinFunctionType, type)):
        return value.__qualname__.replace("<locals>.", "").split(".")[-1].replace("<lambda>", "λ")
    if isinstance(value, Query):
        return repr(value)
    return placed_repr(value, 40)


def draw(query: Node) -> str:
    """Draw the plan, sources first, an operator a line: its path, what it does, what it keeps."""
    check_size(query)
    plan = Plan(query, symbolic=True)
    return "\n".join(lines(plan, ""))


def lines(plan: Plan, indent: str) -> Iterator[str]:
    width = max(len(node.path) for node in plan.nodes) + 2
    for node in plan.nodes:
        yield f"{indent}{node.path:<{width}}{call(Node(node.op))}{keeps(node)}"
        if node.template is not None:
            yield from lines(node.template, indent + "    ")


def keeps(node: PlanNode) -> str:
    """Say what an operator saves, and which shared part is read."""
    if isinstance(node.op, HubLeaf):
        return f"   · reads {path_of_hub(node.plan, node.op.token)}"
    if node.op.yields_inner:
        return "   · one row per inner sequence"
    fields = plan_fields(node)
    return f"   · keeps {fields}" if fields else ""


def path_of_hub(plan: Plan | None, token: str) -> str:
    """Return the path of what is read under *token*: a shared part, or the operator that has opened the plan."""
    while plan is not None:
        hub = plan.hubs.get(token)
        if hub is None and plan.around is not None:
            hub = next((node for node in plan.around.nodes if node.template is plan), None)
        if hub is not None and hub.op.is_hub and token == hub.op.token:  # type: ignore[attr-defined]
            return hub.path
        plan = plan.around
    return "what its host shares"


def plan_fields(node: PlanNode) -> str:
    return ", ".join(state_fields(type(node.op)))
