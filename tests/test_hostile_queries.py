"""Whatever one query does, emits, raises or keeps: the others lose nothing, double nothing, and the store opens."""

from __future__ import annotations

from typing import Any

import pytest
from hostile_world import CLOSE, CRASH, FULL, KILL, STATES, HostileWorld, Life

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.testing.hostile import ACCUMULATORS, FUNCTIONS, VALUES, Emits, Hostile

LIVES = (Life(4, KILL), Life(3, CRASH), Life(2, KILL), Life(5, FULL), Life(3, CLOSE))


def played(query: Any, **options: Any) -> None:
    world = HostileWorld(query, **options)
    for life in LIVES:
        world.live(life)
    world.finish()


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=repr)
def test_functions(function: Hostile, policy: str) -> None:
    """A function that emits or raises what is hostile."""
    played(rx.source("n").pipe(ops.map(function.make())), policy=policy)


@pytest.mark.parametrize("accumulator", ACCUMULATORS, ids=repr)
def test_accumulators(accumulator: Hostile) -> None:
    """A state that is hostile, or changed in its place."""
    accumulate, seed = accumulator.make()
    played(rx.source("n").pipe(ops.scan(accumulate, seed)))
    played(rx.source("n").pipe(ops.scan(accumulate, seed), ops.count()))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_states(value: Hostile, state: str) -> None:
    """A hostile value in the state of every kind of operator."""
    played(STATES[state](rx.source("n").pipe(ops.map(Emits(value.name)))))
