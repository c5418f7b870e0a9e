"""Queries cut at their dots into evaluators with durable streams between, each killed at any step, are still whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from lanes import at_each_commit, of_lane, share_of

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.store import Store
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.testing.dot_pipe import ACTIONS, check_dot_pipe, cuts, is_promised, run_piped, run_uncut
from reliable_rx.testing.marbles import COMPLETED, NEXT, Timed
from reliable_rx.testing.oracle import compare
from reliable_rx.testing.recipes import Recipe, Step, recipes

CUT = recipes(sources=2).filter(lambda recipe: len(recipe.steps) > 1).map(lambda recipe: list(cuts(recipe)))
ANY_CUT = CUT.flatmap(st.sampled_from)


def test_a_cut_query_equals_the_whole() -> None:
    """Made-up queries, cut at any dot or at all, give what the whole gives on plain reactivex, whoever dies when."""
    check_dot_pipe(ANY_CUT, sources=2, examples=share_of(25), fresh=False)


@pytest.mark.slow
def test_many_cut_queries_equal_the_whole() -> None:
    """The same, many times over."""
    check_dot_pipe(ANY_CUT, sources=2, events_max=16, examples=500)


@pytest.mark.slow
def test_cut_queries_equal_the_whole_over_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same, with SQLite between and behind the parts."""

    def open_stores() -> Callable[[int], Store]:
        folder: Path = tmp_path_factory.mktemp("stores")
        return lambda number: SqliteStore(folder / str(number))

    check_dot_pipe(ANY_CUT, sources=2, examples=100, open_stores=open_stores)


QUERIES = {
    "values": [Step("scan"), Step("pairwise"), Step("distinct_until_changed")],
    "time": [Step("debounce"), Step("delay"), Step("buffer_with_time_or_count")],
    "groups": [Step("start_with"), Step("group_by", (Recipe(0, (Step("scan"), Step("debounce"))),)), Step("to_list")],
    "windows": [Step("window_with_time", (Recipe(0, (Step("sum"),)),)), Step("switch_map"), Step("take_last")],
    "shared": [Step("share"), Step("retry"), Step("zip", (Recipe(1, (Step("map"),)),))],
}
STREAMS = [
    [*[Timed(1.0 + 2 * n, NEXT, n % 5) for n in range(6)], Timed(14.0, COMPLETED)],
    [*[Timed(1.5 + 3 * n, NEXT, n) for n in range(4)], Timed(15.0, COMPLETED)],
]


DEATHS = list(itertools.product(range(len(QUERIES)), range(len(ACTIONS))))


@pytest.mark.parametrize(
    ("name", "action"),
    of_lane((pytest.param if n == m == 0 else at_each_commit)(list(QUERIES)[n], ACTIONS[m]) for n, m in DEATHS),
)
def test_a_death_at_every_step_of_every_part(name: str, action: str) -> None:
    """Whatever happens at whichever step, behind a checkpoint or not: the same comes out."""
    for parts in cuts(Recipe(0, tuple(QUERIES[name]))):
        assert is_promised(parts, STREAMS, 40.0)
        expected = run_uncut(parts, STREAMS, 40.0)
        for step in range(0, 24, 5):
            deaths = [*["quiet"] * step, "checkpoint", action, action]
            compare(f"{parts}, {deaths}", STREAMS, expected, run_piped(parts, STREAMS, 40.0, deaths))


def test_an_end_that_came_while_the_evaluator_was_down_is_taken() -> None:
    """A replay reads the journalled events, and with the last of them the end, which is no part of their turn."""
    numbers = [1, 2]
    store = MemoryStore()
    for ended in (False, True):
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource(numbers, follow=not ended))
        evaluator.create("sum", rx.source("n").pipe(ops.sum()))
        while evaluator.step():
            pass
        if not ended:
            store = store.reopen()
    assert [value for segment in evaluator.stream("sum").read(0, 10) for value in segment.values] == [3]
    assert evaluator.stream("sum").ended


@pytest.mark.usefixtures("unshrunk")
def test_a_part_that_is_not_the_same_query_is_found_out() -> None:
    """A cut that changes the query is reported with what was played, expected and got."""

    def first(ops: Any, rx: Any, s: Any) -> Any:
        return s.pipe(ops.scan(lambda total, x: total + x))

    def second(ops: Any, rx: Any, before: Any, s: Any) -> Any:
        return before.pipe(ops.map(lambda x: x if rx.__name__ == "reactivex" else x + 1))

    with pytest.raises(AssertionError, match="disagrees with plain reactivex"):
        check_dot_pipe([first, second], examples=20, fresh=False)
