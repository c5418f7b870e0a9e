"""Apps that stand still for a while, and are edited before they go on: as if they had never stopped."""

from __future__ import annotations

import random
from functools import cache
from itertools import product
from typing import Any

import pytest
from lanes import NIGHT, every_of
from outages import ENDS, Leaps, Outages, Pending, Silent, played

HOW = (*ENDS, "mixed")
SEEDS = range(60)
SILENT = [1, 28, 33, 64, 397]
KEPT = [(31, False), (477, False)]
KEPT_AT_STARTS = [(2, True, "stopped"), (58, False, "stopped")]
"""Rows that have found a fault."""
AT_STARTS = [pytest.param(*row) for row in KEPT_AT_STARTS] + every_of(59, product(SEEDS, [False, True], HOW), nightly=4)
AT_ENDS = [pytest.param(*row) for row in KEPT] + every_of(13, product(SEEDS, [False, True]), nightly=1)


@cache
def whole(seed: int, clocked: bool) -> dict[str, Any]:
    """Return what the app has that never stopped."""
    return played(seed, clocked, "")[0]


def check_pending(seed: int, clocked: bool, kind: type[Pending] = Pending) -> None:
    found, is_alike = played(seed, clocked, "apart", kind)
    if is_alike:
        assert (seed, played(seed, clocked, "", kind)[0]) == (seed, found)


@pytest.mark.parametrize("seed, clocked, how", AT_STARTS)
def test_a_start_makes_edits_then_lets_come_what_is_due_then_begins_what_is_new(
    seed: int, clocked: bool, how: str
) -> None:
    """Behind each end of a process, with kills in the start, and commands on the stopped store."""
    assert played(seed, clocked, how)[0] == whole(seed, clocked)


@pytest.mark.parametrize("seed, clocked", AT_ENDS)
def test_what_is_due_comes_before_an_end_and_meets_mended_functions(seed: int, clocked: bool) -> None:
    """As if it had come before the restart or the disposal, and the functions had been mended before it was due."""
    check_pending(seed, clocked)


@pytest.mark.parametrize("seed", SILENT)
def test_silence_comes_before_an_end_and_counts_to_where_the_clock_stands(seed: int) -> None:
    """A partition that is idle by then holds nobody back; for what is edited ahead of what is due it is not yet."""
    check_pending(seed, True, Silent)


@pytest.mark.parametrize("seed, clocked", every_of(29, product(SEEDS, [False, True]), nightly=3))
def test_a_leap_of_the_clock_is_as_many_small_steps(seed: int, clocked: bool) -> None:
    """All that is due on the way comes at its own time, with what follows from it, before the next."""
    assert played(seed, clocked, "", Leaps) == played(seed, clocked, "in steps", Leaps)


@pytest.mark.parametrize("clocked", [pytest.param(each, marks=NIGHT) for each in (False, True)])
def test_each_night_draws_outages_of_its_own(clocked: bool) -> None:
    """The seed that a failure names repeats it above."""
    for _ in range(40):
        seed = random.randrange(10**6)
        check_pending(seed, clocked)
        check_pending(seed, clocked, Silent)
        assert (seed, played(seed, clocked, "mixed", Outages)[0]) == (seed, whole(seed, clocked))
