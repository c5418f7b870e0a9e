"""Running one key of a chain of linear operators: one instance for all keys, whose states are exchanged.

What a key has is a flat tuple: how much it has emitted, then the fields of its operators' states. Nothing is built for
a key but the states themselves, which is what lets a hundred thousand keys cost about what a hand-written loop costs. A
key whose query has ended is a number: how much it has emitted, negative if the last of it was the end itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from hosting.engine.engine import QueryEngine
from reliable_rx.errors import QueryRefused
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import Plan
from reliable_rx.runtime.signatures import Signature
from spark_bridge.keyed.editing import by_path, fitted
from spark_bridge.keyed.emitted import Emitted
from spark_bridge.keyed.query import Chain, RunningKey
from spark_bridge.keyed.storing import failure, unstorable

Step = tuple[float, str, Sequence[Any]]
"""Events of one source that come together: the time, the source, the values."""


class OneRow(Instance):
    """The instance that stands for every key in turn."""

    __slots__ = ()
    policy = "fail"


class Straight:
    """Runs keys of a chain."""

    def __init__(self, chain: Chain, key: RunningKey) -> None:
        self.chain = chain
        self.key = key
        self.world = QueryEngine()
        self.ended = False
        self.error: Exception | None = None
        self.values: list[Any] = []
        self.row = self.instance(chain.all)
        self.first = self.instance(chain.before)
        self.save = saver(chain.all)
        self.load = loader(chain.all)
        self.first_id = 0
        self.shape: Signature = chain.shape

    def instance(self, plan: Plan) -> OneRow:
        return OneRow(plan, self.world, self, None)

    def run(self, key: Hashable, row: Any, steps: Sequence[Step], out: Emitted, *, ended: bool) -> Any:
        """Give *steps* to the query of *key* and return its new row."""
        if type(row) is int:
            return self.run_ended(key, row, steps, out, ended=ended)
        self.key.key = key
        if self.chain.symbol is not None:
            self.chain.symbol.current = self.key  # type: ignore[assignment]
        plan, instance = self.chain.all, self.row
        instance.active = (1 << len(plan.nodes)) - 1
        if row is None:
            emitted = self.first_id
            instance.states = [node.op.initial() for node in plan.slots]
            instance.states.append(None)
        else:
            emitted = row[0]
            instance.states = self.load(row)
        self.feed(instance, steps, ended=ended)
        values = self.values
        if values:
            out.add(key, emitted, values)
            emitted += len(values)
            self.values = []
        return self.finish(key, emitted, out, ended=ended) if self.ended else (emitted, *self.save(instance.states))

    def feed(self, instance: OneRow, steps: Sequence[Step], *, ended: bool) -> None:
        leaf = instance.plan.leaves[0]
        if len(steps) == 1:
            leaf.deliver(instance, steps[0][2])
        elif steps:
            leaf.deliver(instance, [value for _, _, values in steps for value in values])
        if ended and not self.ended:
            instance.end_leaf(leaf, None)

    def finish(self, key: Hashable, emitted: int, out: Emitted, *, ended: bool) -> int:
        """The chain has ended: of a group that completes nobody hears until its source ends."""
        error, self.ended, self.error = self.error, False, None
        if isinstance(error, QueryRefused):
            raise error
        if error is None and self.chain.grouped and not ended:
            return emitted
        out.end(key, emitted, error)
        return -emitted - 1

    def run_ended(self, key: Hashable, row: int, steps: Sequence[Step], out: Emitted, *, ended: bool) -> int:
        """Nothing reads the group of *key* any more, but what stands before the groups still sees its events."""
        if row < 0:
            return row
        self.key.key = key
        self.first.active = (1 << len(self.first.plan.nodes)) - 1
        self.feed(self.first, steps, ended=ended)
        self.values = []
        return self.finish(key, row, out, ended=ended) if self.ended else row

    # -- rows that do not go into bytes

    def unstorable(self, rows: Mapping[Hashable, Any]) -> list[tuple[Hashable, QueryRefused]]:
        """Return the keys whose rows do not go into bytes, each with what is to be said of it."""
        found = ((key, row, failure(row)) for key, row in rows.items() if type(row) is not int)
        plan = self.chain.all
        return [
            (key, unstorable(key, error, [(plan, self.load(row))])) for key, row, error in found if error is not None
        ]

    @staticmethod
    def give_up(key: Hashable, row: Any, error: QueryRefused, out: Emitted) -> int:
        """End the query of *key* and return its new row."""
        emitted: int = row[0]
        out.end(key, emitted, error)
        return -emitted - 1

    # -- rows that come from elsewhere

    def blank(self, emitted: int) -> Any:
        """Return the row of a key to which nothing has happened."""
        return (emitted, *self.save([node.op.initial() for node in self.chain.all.slots]))

    def refit(self, row: Any, shape: Signature) -> Any:
        """Return the row that an edited chain goes on with."""
        if type(row) is int:
            return row
        kept = by_path(shape, row[1:])
        slots = zip(self.shape, self.chain.all.slots, strict=True)
        states = [fitted(shape, kept.get(mine[0], {}), node.op, mine[0]) for mine, node in slots]
        return (row[0], *self.save(states))

    # -- the sink of the instance

    def inner_deliver(self, instance: Instance, values: Sequence[Any]) -> None:
        if self.values:
            self.values.extend(values)
        else:
            self.values = values if type(values) is list else list(values)

    def inner_finish(self, instance: Instance, error: Exception | None) -> None:
        self.ended, self.error = True, error


def saver(plan: Plan) -> Callable[[list[Any]], Sequence[Any]]:
    """Return what makes one flat tuple of the states of *plan*."""
    savers = plan.savers
    if not savers:
        return lambda states: ()
    if len(savers) == 1:
        (save,) = savers
        return lambda states: save(states[0])
    return lambda states: [field for save, state in zip(savers, states, strict=False) for field in save(state)]


def loader(plan: Plan) -> Callable[[Sequence[Any]], list[Any]]:
    """Return what makes states of a row again."""
    kinds: list[Any] = [node.op.State for node in plan.slots]
    if not kinds:
        return lambda row: [None]
    if len(kinds) == 1:
        (kind,) = kinds
        return lambda row: [kind(*row[1:]), None]
    bounds = list(pairwise(accumulate((len(state_fields(type(node.op))) for node in plan.slots), initial=1)))
    return lambda row: [*(kind(*row[a:b]) for kind, (a, b) in zip(kinds, bounds, strict=True)), None]
