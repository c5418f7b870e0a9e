"""Apps that stand still for a while, and are edited before they go on: as if they had never stopped."""

from __future__ import annotations

import random
from functools import cache
from itertools import product
from typing import Any

import pytest
from lanes import NIGHT, every_of
from outage_kinds import AtStop, Beside, ByAnotherPython, EditedAtStop, Leaps, Pending, Silent, Timed, Twice
from outages import ENDS, Outages, played
from random_apps import app
from random_webs import web

HOW = (*ENDS, "mixed")
OF = (app, web)
SEEDS = range(60)
SILENT = [(1, app), (28, app), (33, app), (64, app), (397, app), (22, web)]
KEPT = [(31, False, app), (477, False, app)]
KEPT_AT_STARTS = [(2, True, "stopped", app), (58, False, "stopped", app), (154, True, "mixed", web)]
KEPT_AT_STARTS += [(5, False, "stopped", web), (7, True, "stopped", web), (536248, True, "stopped", app)]
KEPT_AT_STARTS += [(88, True, "stopped", app)]
KEPT_BESIDE = [(12, False, "", web)]
KEPT_AT_STOP = [(4, False, web), (6, False, app), (20, False, app), (5043, True, app)]
KEPT_TAKEN_OVER = [(1, True, app), (23, True, web), (40, False, web)]
KEPT_TWICE = [(40, True, app), (2, False, app)]
"""Rows that have found a fault."""
AT_STARTS = [pytest.param(*row) for row in KEPT_AT_STARTS]
AT_STARTS += every_of(119, product(SEEDS, [False, True], HOW, OF), nightly=8)
AT_ENDS = [pytest.param(*row) for row in KEPT] + every_of(41, product(SEEDS, [False, True], OF), nightly=2)
TWICE = [pytest.param(*row) for row in KEPT_TWICE] + every_of(97, product(SEEDS, [False, True], OF), nightly=4)
AT_STOP = [pytest.param(*row) for row in KEPT_AT_STOP]
AT_STOP += every_of(97, product(SEEDS, [False, True], OF), nightly=4)
TAKEN_OVER = [pytest.param(*row) for row in KEPT_TAKEN_OVER]
TAKEN_OVER += every_of(97, product(SEEDS, [False, True], OF), nightly=4)
BESIDE = [pytest.param(*row) for row in KEPT_BESIDE]
BESIDE += every_of(211, product(SEEDS, [False, True], ["", "stopped"], OF), nightly=8)


@cache
def whole(seed: int, clocked: bool, of: Any, kind: type[Outages] = Outages) -> tuple[dict[str, Any], bool]:
    """Return what the app has that never stopped, and whether it can be compared."""
    return played(seed, clocked, "", kind, of)


def check_starts(seed: int, clocked: bool, how: str, of: Any) -> None:
    found, is_alike = played(seed, clocked, how, Outages, of)
    if is_alike and found != whole(seed, clocked, of)[0]:  # what an edit ends counts from the stop, what it brings
        expected, is_alike = whole(seed, clocked, of, EditedAtStop)  # from the start
        assert not is_alike or (seed, found) == (seed, expected)


def check_pending(seed: int, clocked: bool, kind: type[Pending], of: Any) -> None:
    found, is_alike = played(seed, clocked, "apart", kind, of)
    if is_alike:
        assert (seed, played(seed, clocked, "", kind, of)[0]) == (seed, found)


def check_beside(seed: int, clocked: bool, how: str, of: Any) -> None:
    assert (seed, played(seed, clocked, how, Timed, of)[0]) == (seed, played(seed, clocked, how, Beside, of)[0])


def check_at_stop(seed: int, clocked: bool, of: Any) -> None:
    expected, is_alike = played(seed, clocked, "", AtStop, of)
    assert not is_alike or (seed, played(seed, clocked, "mixed", AtStop, of)[0]) == (seed, expected)


def check_taken_over(seed: int, clocked: bool, of: Any) -> None:
    found, is_alike = played(seed, clocked, "stopped", ByAnotherPython, of)
    expected, is_alike_too = played(seed, clocked, "", ByAnotherPython, of)
    assert not (is_alike and is_alike_too) or (seed, found) == (seed, expected)


def check_twice(seed: int, clocked: bool, of: Any) -> None:
    assert (seed, played(seed, clocked, "", Twice, of)[0]) == (seed, played(seed, clocked, "ends", Twice, of)[0])


@pytest.mark.parametrize("seed, clocked, how, of", AT_STARTS)
def test_a_start_makes_edits_then_lets_come_what_is_due_then_begins_what_is_new(
    seed: int, clocked: bool, how: str, of: Any
) -> None:
    """Behind each end of a process, with kills in the start, and commands on the stopped store."""
    check_starts(seed, clocked, how, of)


@pytest.mark.parametrize("seed, clocked, of", AT_ENDS)
def test_what_is_due_comes_before_an_end_and_meets_mended_functions(seed: int, clocked: bool, of: Any) -> None:
    """As if it had come before the restart or the disposal, and the functions had been mended before it was due."""
    check_pending(seed, clocked, Pending, of)


@pytest.mark.parametrize("seed, of", SILENT)
def test_silence_comes_before_an_end_and_counts_to_where_the_clock_stands(seed: int, of: Any) -> None:
    """A partition that is idle by then holds nobody back; for what is edited ahead of what is due it is not yet."""
    check_pending(seed, True, Silent, of)


@pytest.mark.parametrize("seed, clocked, how, of", BESIDE)
def test_what_is_due_beside_an_app_changes_nothing(seed: int, clocked: bool, how: str, of: Any) -> None:
    """An edited time counts from the same moment, whatever ticks in queries that have nothing to do with it."""
    check_beside(seed, clocked, how, of)


@pytest.mark.parametrize("seed, clocked, of", AT_STOP)
def test_an_edit_with_a_start_is_one_at_the_stop(seed: int, clocked: bool, of: Any) -> None:
    """Mended functions and times: what came due meanwhile meets them at its own time, however the process has ended."""
    check_at_stop(seed, clocked, of)


@pytest.mark.parametrize("seed, clocked, of", TAKEN_OVER)
def test_a_start_by_another_python_is_an_edit_at_the_stop(seed: int, clocked: bool, of: Any) -> None:
    """Mended functions and times, on event time and on that of the host."""
    check_taken_over(seed, clocked, of)


@pytest.mark.parametrize("seed, clocked, of", TWICE)
def test_edits_of_one_start_may_be_those_of_two(seed: int, clocked: bool, of: Any) -> None:
    """What is due is the same for all of them, whatever ends the process between two."""
    check_twice(seed, clocked, of)


@pytest.mark.parametrize("seed, clocked", every_of(29, product(SEEDS, [False, True]), nightly=3))
def test_a_leap_of_the_clock_is_as_many_small_steps(seed: int, clocked: bool) -> None:
    """All that is due on the way comes at its own time, with what follows from it, before the next."""
    assert played(seed, clocked, "", Leaps) == played(seed, clocked, "in steps", Leaps)


@pytest.mark.parametrize("of", OF)
@pytest.mark.parametrize("clocked", [pytest.param(each, marks=NIGHT) for each in (False, True)])
def test_each_night_draws_outages_of_its_own(clocked: bool, of: Any) -> None:
    """The seed that a failure names repeats it above."""
    for _ in range(20):
        seed = random.randrange(10**6)
        check_pending(seed, clocked, Pending, of)
        check_beside(seed, clocked, "stopped", of)
        check_twice(seed, clocked, of)
        check_at_stop(seed, clocked, of)
        check_taken_over(seed, clocked, of)
        if of is app:  # a web is silent where a host's pause has a say in it
            check_pending(seed, clocked, Silent, of)
        check_starts(seed, clocked, "mixed", of)
