"""Every operator agrees with `reactivex` on all small streams: un-hosted and hosted, recovered at every boundary.

How small is bounded by a night, and by what states can tell apart. All streams of three values, of any of two or three
letters: what an operator holds is empty, new or replaced by the second of them, and the third meets it so. Two values
over two sources are each order in which these meet. Beyond, two values more that come in turn, in every interleaving
of their sources: queues that grow and shrink, and timers that overlap, ask for more events and not for other values.
Each input ends in every way at each place, or does not. Five values of one source and four of two, of any letters, took
hours and were never seen to end; this is half an hour of one core.
"""

from __future__ import annotations

from typing import Any

import pytest
from every_case import CASES, Case, lanes
from lanes import Lane, every
from oracle_tree import RECOVERED, Tree

import reliable_rx as rx
from reliable_rx import creation
from reliable_rx import operators as ops
from reliable_rx.testing import HOSTED, RUNNERS

FIRST = {name.partition(":")[0]: name for name in reversed(CASES)}
"""A case of every operator."""


def check(name: str, length_max: int, *, shorter_max: int, letters: int = 9, in_turn: bool = False) -> int:
    """Play all inputs of at most so many values, the shorter ones to every runner, and return how many they were."""
    case = CASES[name]
    runners = {who: run for who, run in RUNNERS.items() if case.hostable or who not in HOSTED}
    runners.pop(RECOVERED, None)
    if Lane.fast_alone:
        runners.pop("un-hosted")  # the same, but that its state is not put through bytes
    return Tree(case, runners, shorter_max, length_max, case.alphabet[:letters], in_turn).grow()


def shortest(case: Case) -> int:
    """Two events where that is a few streams: not of two sources, nor with several gaps between events."""
    return 2 if case.sources == len(case.gaps_s) == 1 else 1


@pytest.mark.commit
@pytest.mark.parametrize("name", every(2, FIRST.values(), commits=1))
def test_agrees_on_short_streams(name: str) -> None:
    """The operator does what RxPY's does on all streams of one event, and of two; the fast lane has values in turn."""
    check(name, shortest(CASES[name]), shorter_max=1, letters=2, in_turn=Lane.fast_alone)


@pytest.mark.slow
@pytest.mark.parametrize("name", lanes(CASES, fast=0))
def test_agrees_on_all_small_streams(name: str) -> None:
    """The operator does what RxPY's does, on all streams of the full length, and longer ones of values in turn."""
    case = CASES[name]
    check(name, case.length_full, shorter_max=max(2, case.length_full - 1))
    longer = case.length_full + (2 if len(case.gaps_s) == 1 else 1)
    check(name, longer, shorter_max=longer - 1, in_turn=True)


class Noting:
    """A module that notes which of its names are used."""

    def __init__(self, module: Any, used: set[str]) -> None:
        self.module, self.used = module, used

    def __getattr__(self, name: str) -> Any:
        self.used.add(name)
        return getattr(self.module, name)


ANSWERED_FROM_OUTSIDE = {"map_async"}
"""What virtual time cannot play; tests/test_map_async.py has a model of its own for it."""


def test_every_operator_has_a_case() -> None:
    """No operator and no creation function goes without a case."""
    used_operators: set[str] = set()
    used_creations: set[str] = set()
    for case in CASES.values():
        build_and_run(case.build, Noting(ops, used_operators), Noting(rx, used_creations), case.sources)
    assert set(ops.__all__) - used_operators == ANSWERED_FROM_OUTSIDE
    assert set(creation.__all__) - used_creations == set()


def build_and_run(build: Any, operators: Any, rx_: Any, sources: int) -> None:
    """Build, and run long enough for the selectors to be called."""
    from reliable_rx.testing import parse_marbles
    from reliable_rx.testing.virtual_time import _play

    _play(lambda *s: build(operators, rx_, *s), [parse_marbles("-0123|")] * sources, 20.0)
