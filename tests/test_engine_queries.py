"""Queries nobody thought of: made and fed at random, crashed anywhere, through full and differential generations."""

from __future__ import annotations

from typing import Any

import pytest

from reliable_rx.testing import check_query
from reliable_rx.testing.marbles import NEXT, Timed
from reliable_rx.testing.queries import run_stored
from reliable_rx.testing.recipes import Recipe, Step, recipes


def test_made_up_queries_survive_anything() -> None:
    """Compositions of up to six operators over two sources equal plain reactivex, hosted, crashed and recovered."""
    check_query(recipes(sources=2), sources=2, events_max=8, examples=60)


@pytest.mark.slow
@pytest.mark.parametrize("sources", [1, 2, 3])
def test_many_made_up_queries_survive_anything(sources: int) -> None:
    """The same, many times over."""
    check_query(recipes(sources=sources), sources=sources, events_max=16, examples=3000)


def windows(*inner: Step, source: int = 0) -> Recipe:
    return Recipe(source, (Step("switch_windows", (Recipe(0, inner),)),))


GROUPS = Recipe(0, (Step("group_by", (Recipe(0, (Step("scan"), Step("debounce"))),)),))
NESTED = Recipe(0, (Step("group_by", (Recipe(1, (Step("window_with_count", (Recipe(0, (Step("min"),)),)),)),)),))
TIMED = Recipe(0, (Step("window_with_time", (Recipe(0, (Step("to_list"),)),)), Step("sample")))


@pytest.mark.parametrize("recipe", [GROUPS, NESTED, TIMED], ids=["groups", "windows in groups", "timed windows"])
def test_rows_of_inner_sequences_survive(recipe: Recipe) -> None:
    """Groups, windows in groups and timed windows are written when touched and gone when over."""
    check_query(recipe, sources=2, examples=40)


def test_a_query_that_fails_the_check_is_reported_with_its_input() -> None:
    """What is not equal raises, and says what was played, expected and got."""
    with pytest.raises(AssertionError, match=r"disagrees with plain reactivex"):
        check_query(
            lambda ops, rx, s: s.pipe(ops.take(1)),
            reference=lambda ops, rx, s: s.pipe(ops.take(2)),
            examples=50,
        )


def events(*times_s: float) -> list[Timed]:
    return [Timed(time_s, NEXT, number) for number, time_s in enumerate(times_s)]


LATE = [["full"], [], [], [], [], ["commit", "crash"]]


@pytest.mark.parametrize(
    ("build", "script"),
    [
        (lambda ops, rx, s: s.pipe(ops.sample(1.5)), [["full"], ["commit"], ["crash"]]),
        (windows(Step("concat", (Recipe(0, (Step("last"),)),))), LATE),
        (TIMED, [["full"], ["fail"], ["differential"], ["commit"], ["crash"]]),
    ],
    ids=["a timer fired", "a window ended", "a window ended before the commit failed"],
)
def test_a_row_is_written_as_it_was_although_it_has_changed_since(build: Any, script: Any) -> None:
    """A checkpoint written while the run goes on holds the state of its turn, and nothing that came later."""
    streams = [events(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)]
    for shift in range(10):
        shifted = [*([[]] * shift), *script]
        assert run_stored(build, streams, 20.0, shifted) == run_stored(build, streams, 20.0, [])
