"""The two forms of a key's row, made from each other: that of a chain, and that of an engine.

Which form a query has follows from its operators, so an edit may change it; and what an evaluator keeps is an engine's.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

from hosting.engine.hosted_query import RUNNING, Standing
from reliable_rx.runtime.inner_sequences import Subject
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.signatures import Signature
from reliable_rx.runtime.stage_context import context
from spark_bridge.keyed.editing import by_path, fitted
from spark_bridge.keyed.emitted import Emitted
from spark_bridge.keyed.engine_runner import NAME, General, KeyEngine
from spark_bridge.keyed.linear_runner import Straight
from spark_bridge.keyed.query import find_group
from spark_bridge.keyed.storing import instances_of


def revived(general: General, key: Hashable, row: Any, shape: Signature, clock: float) -> KeyEngine:
    """Return an engine with what a chain's row stands for: its states, or a group that nothing reads any more."""
    engine = general.begin(clock, key, Emitted())  # what it emits at its beginning was emitted long ago
    standing = engine.standing[NAME]
    if standing.status != RUNNING:
        return engine
    ended = type(row) is int
    standing.emitted = row if ended else row[0]
    kept = {} if ended else by_path(shape, row[1:])
    for instance in [standing] if general.query.per_key else begin_group(standing, key):
        if ended:
            sink = instance.sink
            instance.deactivate(instance.plan.root, force=True)
            sink.inner_finish(instance, None)
        else:
            for node in instance.plan.slots:
                instance.states[node.slot] = fitted(shape, kept.get(node.path, {}), node.op, node.path)
    return engine


def begin_group(standing: Standing, key: Hashable) -> list[Instance]:
    """Begin the group of *key* and return what reads it."""
    group = find_group(standing.plan)
    group.op.begin(context(standing, group), key)  # type: ignore[attr-defined]
    return readers((standing.subjects or {})[group.index][key])


def readers(subject: Subject) -> list[Any]:
    return list(dict.fromkeys(each for _, each, _ in subject.subscribers))


def flattened(straight: Straight, standing: Standing, key: Hashable) -> Any:
    """Return what a chain keeps of a key: the states of what reads its group; a number if nothing does any more."""
    if standing.status != RUNNING:
        return -standing.emitted
    if not straight.chain.grouped:
        return (standing.emitted, *straight.save(standing.states))
    subject = (standing.subjects or {}).get(find_group(standing.plan).index, {}).get(key)
    return straight.blank(standing.emitted) if subject is None else of_group(straight, standing, subject)


def of_group(straight: Straight, standing: Standing, subject: Subject) -> Any:
    found = readers(subject)
    return (standing.emitted, *straight.save(found[0].states)) if found else standing.emitted


def dues_of(units: Iterator[Any]) -> list[float]:
    """Return when the timers of *units* are due."""
    return [
        timer[0]
        for unit in units
        for each in instances_of(unit)
        for timers in (each.timers or {}).values()
        for timer in timers.values()
    ]
