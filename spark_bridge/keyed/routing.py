"""To which key an event of a source belongs, read off the query: through what stands before `group_by`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from hosting.engine.engine import QueryEngine
from reliable_rx.operators.grouping import GroupBy
from reliable_rx.query.query import SourceLeaf
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import Plan, PlanNode
from spark_bridge.keyed.query import compiled, find_group


class Router:
    """Runs events through the operators before the groups, which keep nothing, and reads the key of what comes out."""

    def __init__(self, plan: Plan) -> None:
        group = find_group(plan)
        self.mapper = group.op.key_mapper  # type: ignore[attr-defined]
        self.world = QueryEngine()
        self.values: list[Any] = []
        self.error: Exception | None = None
        self.ways: dict[str, list[Plan]] = {}
        for node in plan.nodes:
            if isinstance(node.op, SourceLeaf) and (way := self.way(node)) is not None:
                self.ways.setdefault(node.op.source, []).append(compiled(way, plan.limits))

    @staticmethod
    def way(node: PlanNode) -> list[Any] | None:
        """Return the operators from a source to the groups, but for those that only pass on."""
        found = [node.op]
        while (down := node.down) is not None:
            if isinstance(down.op, GroupBy):
                return found
            if len(down.inputs) == 1:
                found.append(down.op)
            node = down
        return None

    def keys_of(self, source: str, value: Any) -> list[Hashable]:
        """Return the keys of what *value* becomes: none if it is left out. *Raises* what a user function raises."""
        self.values = []
        for plan in self.ways.get(source, ()):
            instance = OneWay(plan, self.world, self, None)
            instance.active = (1 << len(plan.nodes)) - 1
            plan.leaves[0].deliver(instance, [value])
        if self.error is not None:
            raise self.error
        return list(dict.fromkeys(map(self.mapper, self.values)))

    def inner_deliver(self, instance: Instance, values: Sequence[Any]) -> None:
        self.values += values

    def inner_finish(self, instance: Instance, error: Exception | None) -> None:
        self.error = error


class OneWay(Instance):
    """The operators before the groups at work."""

    __slots__ = ()
    policy = "fail"
