"""Apps that are drawn at random, ended and started again behind each event: nothing shows that they were."""

from __future__ import annotations

import random
from functools import cache
from itertools import product
from typing import Any

import pytest
from lanes import NIGHT, every_of
from random_runs import HOW, Run

SEEDS = range(40)
KEPT: list[tuple[int, bool, str]] = [
    (33, True, "mixed"),
    (21, True, "killed behind checkpoints"),
    (23, True, "mixed"),
    (8, False, "stopped"),
    (92, True, "stopped"),
]
"""Rows that have found a fault."""
ROWS = [pytest.param(*row) for row in KEPT] + every_of(127, product(SEEDS, [False, True], HOW), nightly=9)


@cache
def outputs(
    seed: int, clocked: bool, how: str, acts: bool = False, odd: bool | None = None, batch: int = 1000
) -> dict[str, Any]:
    run = Run(seed, clocked=clocked, acts=acts, beside=odd is not None, odd=odd is True, batch=batch)
    run.play(how)
    found = run.found()
    run.evaluator.close()
    return found


@pytest.mark.parametrize("seed, clocked, how", ROWS)
def test_no_end_of_a_process_shows_in_any_stream(seed: int, clocked: bool, how: str) -> None:
    """Each stream has the same values under the same ids, and each query the same state, as if it had never ended."""
    assert outputs(seed, clocked, how) == outputs(seed, clocked, "")


@pytest.mark.parametrize("seed, clocked, how", every_of(67, product(SEEDS, [False, True], HOW), nightly=9))
def test_no_end_of_a_process_shows_where_queries_are_edited_and_run_again(seed: int, clocked: bool, how: str) -> None:
    """Nor does it where they are restarted, or disposed of and created, between two events."""
    assert outputs(seed, clocked, how, True) == outputs(seed, clocked, "", True)


@pytest.mark.parametrize("seed, clocked, how", every_of(53, product(SEEDS, [False, True], HOW), nightly=9))
def test_what_others_do_otherwise_in_a_replay_is_not_seen(seed: int, clocked: bool, how: str) -> None:
    """Beside queries that subscribe, wait, call and fail as the process draws it, all is as it was without them."""
    assert outputs(seed, clocked, how, odd=True) == outputs(seed, clocked, "", odd=False)


@pytest.mark.parametrize("seed, clocked, batch", every_of(7, product(range(100), [False, True], [1, 2]), nightly=2))
def test_how_many_events_come_in_a_turn_is_not_seen(seed: int, clocked: bool, batch: int) -> None:
    """Queries on queries that choose what they read, too, have what they would have if each event were a turn."""
    assert outputs(seed, clocked, "", batch=batch) == outputs(seed, clocked, "")


@pytest.mark.parametrize("how", [pytest.param(how, marks=NIGHT) for how in HOW])
@pytest.mark.parametrize("clocked, acts", list(product([False, True], repeat=2)))
def test_each_night_draws_apps_of_its_own(clocked: bool, acts: bool, how: str) -> None:
    """Apps that no row above has: the seed that a failure names repeats it there."""
    for _ in range(20):
        seed = random.randrange(10**6)
        assert (seed, outputs(seed, clocked, how, acts)) == (seed, outputs(seed, clocked, "", acts))
        if not acts:
            assert (seed, outputs(seed, clocked, "", batch=1)) == (seed, outputs(seed, clocked, ""))
            assert (seed, outputs(seed, clocked, how, odd=True)) == (seed, outputs(seed, clocked, "", odd=False))
