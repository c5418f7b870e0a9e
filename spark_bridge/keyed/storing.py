"""Errors for the states of a key that do not go into bytes, by operator.

As in an evaluator, what cannot be stored ends the query that holds it, here that of one key. Which operator it is in is
looked for when encoding has failed only. Rejected: encoding every row by itself (it costs more than most queries do).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from checkpoint.format.codec import encode
from reliable_rx.errors import QueryRefused, described
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.arguments import cut
from reliable_rx.runtime.inner_sequences import Subject
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import Plan


def failure(value: Any) -> BaseException | None:
    """Return why *value* does not go into bytes, None if it does."""
    try:
        encode(value)
    except BaseException as error:  # pickling calls what the author of a state wrote
        let_through(error)
        return error
    return None


def unstorable(key: Hashable, error: BaseException, held: Iterable[tuple[Plan, Sequence[Any]]]) -> QueryRefused:
    """Say which state in *held*, plans and the states of their operators, keeps the query of *key* out of bytes."""
    path = "/"
    for plan, states in held:
        for node, save, state in zip(plan.slots, plan.savers, states, strict=False):
            if state is not None and (found := failure(save(state))) is not None:
                path, error = node.path, found
                break
    message = f"key {cut(key)}: the state of {path} cannot be stored ({described(error)})"
    return QueryRefused(f"{message}: keep what pickles in it, or the data to make it from", path=path)


def held_in(units: Iterable[Any]) -> list[tuple[Plan, Sequence[Any]]]:
    """Return the plans and states of all instances in *units*."""
    return [(each.plan, each.states) for unit in units for each in instances_of(unit)]


def instances_of(unit: Any) -> list[Instance]:
    """Return the instances that are written with *unit*."""
    if not isinstance(unit, Subject):
        return [unit]
    return [each for _, each, _ in unit.subscribers if each is not None and each.unit is unit]
