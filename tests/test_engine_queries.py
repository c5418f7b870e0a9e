"""Queries nobody thought of: made and fed at random, crashed anywhere, through full and differential generations."""

from __future__ import annotations

from typing import Any

import pytest
from lanes import SHARE, at_each_commit, share_of

from reliable_rx import operators as ops
from reliable_rx.testing import check_query, run_unhosted
from reliable_rx.testing.marbles import COMPLETED, NEXT, Timed
from reliable_rx.testing.queries import check_run, phrases, run_stored
from reliable_rx.testing.recipes import NESTED as NESTED_STEPS
from reliable_rx.testing.recipes import STEPS, Recipe, Step, recipes


def test_made_up_queries_survive_anything() -> None:
    """Compositions of up to six operators over two sources equal plain reactivex, hosted, crashed and recovered."""
    check_query(recipes(sources=2), sources=2, events_max=8, examples=share_of(25), fresh=False)


@pytest.mark.slow
@pytest.mark.parametrize("sources", [1, 2, 3])
def test_many_made_up_queries_survive_anything(sources: int) -> None:
    """The same, many times over."""
    check_query(recipes(sources=sources), sources=sources, events_max=16, examples=1000)


def alone(name: str) -> Recipe:
    return Recipe(0, (Step(name, (Recipe(1, ()),) if name in NESTED_STEPS else ()),))


@pytest.mark.parametrize("name", [at_each_commit(name) if n % SHARE else name for n, name in enumerate(STEPS)])
def test_every_step_survives_anything(name: str) -> None:
    """Each step alone agrees on one input, un-hosted, rebuilt, hosted, and crashed around the middle of it."""
    numbers = ([2, 4, 1, 3], [0, 5, 2])
    streams = [[Timed(1.0 + i * 3 + at, NEXT, n) for i, n in enumerate(ns)] for at, ns in enumerate(numbers)]
    streams[0].append(Timed(13.0, COMPLETED))
    check_run(alone(name), streams, phrases(4))


NOT_IN_RECIPES = {
    "map_async": "it asks the world outside; tests/test_map_async_hosted.py has a model of that",
    "observe_on": "refused when hosted",
    "subscribe_on": "refused when hosted",
    "to_future": "refused when hosted",
    "to_marbles": "refused when hosted",
}


class Noting:
    """The operators, and which of them have been asked for."""

    def __init__(self) -> None:
        self.used: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(ops, name)


def test_made_up_queries_use_every_operator() -> None:
    """No operator that a host takes is missing from the steps that queries are made of."""
    noting = Noting()
    streams = [[Timed(1.0 + number, NEXT, number) for number in range(6)]] * 2
    for name in STEPS:
        run_unhosted(lambda _, rx, *sources, recipe=alone(name): recipe(noting, rx, *sources), streams, 30.0)
    assert set(ops.__all__) - noting.used == set(NOT_IN_RECIPES)


def windows(*inner: Step, source: int = 0) -> Recipe:
    return Recipe(source, (Step("switch_windows", (Recipe(0, inner),)),))


GROUPS = Recipe(0, (Step("group_by", (Recipe(0, (Step("scan"), Step("debounce"))),)),))
NESTED = Recipe(0, (Step("group_by", (Recipe(1, (Step("window_with_count", (Recipe(0, (Step("min"),)),)),)),)),))
TIMED = Recipe(0, (Step("window_with_time", (Recipe(0, (Step("to_list"),)),)), Step("sample")))


@pytest.mark.parametrize("recipe", [GROUPS, NESTED, TIMED], ids=["groups", "windows in groups", "timed windows"])
def test_rows_of_inner_sequences_survive(recipe: Recipe) -> None:
    """Groups, windows in groups and timed windows are written when touched and gone when over."""
    check_query(recipe, sources=2, examples=share_of(15), fresh=False)


@pytest.mark.usefixtures("unshrunk")
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


def test_a_selector_may_unpack_what_it_is_given() -> None:
    """A selector that is given a pair (an element and its number) is planned, though the symbol for it has no parts."""
    check_query(
        lambda o, r, s: s.pipe(
            o.group_by(lambda v: v % 2), o.flat_map_indexed(lambda g, i: g.pipe(o.map(lambda v: (i, v))))
        ),
        examples=20,
    )
