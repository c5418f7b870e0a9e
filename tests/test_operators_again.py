"""An operator that is subscribed to again in one subscription, as `repeat` does, knows nothing of what was before.

What lasts as long as a subscription (contexts, closures) may refer to the state at work only; this is what finds that
it refers to an earlier one. Streams of a few letters that end by themselves hardly ever do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from every_case import CASES, Case, lanes

from reliable_rx.testing import HOSTED, RUNNERS, Timed
from reliable_rx.testing.marbles import COMPLETED, NEXT
from reliable_rx.testing.oracle import comparable, compare
from reliable_rx.testing.virtual_time import Runner, run_plain

PLAYS = [(1, [0, 1, 2] * 4), (2, [0, 0, 1, 1, 2] * 2)]
"""How many elements are taken each time, and from which source the n-th event comes."""
UNTIL_S = 30.0
USED_UP = ("while_do: counted", "do_while: counted")
"""Their conditions are lists of answers, which one subscription uses up."""


def again(build: Any, taken: int, *, anew: bool = False) -> Any:
    """Return *build* begun three times, for so many elements each; *anew*: from new operators each time."""

    def begun(ops: Any, rx: Any, *sources: Any) -> Any:
        query = rx.defer(lambda _: build(ops, rx, *sources)) if anew else build(ops, rx, *sources)
        return query.pipe(ops.take(taken), ops.repeat(3))

    return begun


def played(case: Case, turns: Sequence[int]) -> list[list[Timed]]:
    streams: list[list[Timed]] = [[] for _ in range(case.sources)]
    for number, turn in enumerate(turns):
        letter = case.alphabet[number // 2 % len(case.alphabet)]
        streams[turn % case.sources].append(Timed(number + 1.0, NEXT, letter))
    streams[0].append(Timed(len(turns) + 1.0, COMPLETED))
    return streams


def check(name: str, runners: Mapping[str, Runner]) -> None:
    """Expect what RxPY does, or else, where its operators share something between subscriptions, what new ones do."""
    case = CASES[name]
    reference = case.reference or case.build
    for taken, turns in PLAYS:
        streams = played(case, turns)
        once = run_plain(again(reference, taken), streams, UNTIL_S)
        for who, runner in runners.items():
            if case.hostable or who not in HOSTED:
                actual = runner(again(case.build, taken), streams, UNTIL_S)
                if [comparable(each) for each in actual] != [comparable(each) for each in once]:
                    compare(who, streams, run_plain(again(reference, taken, anew=True), streams, UNTIL_S), actual)


@pytest.mark.parametrize(
    "name", lanes((name for name in CASES if not name.startswith("while_do: counted")), fast=1, every=4)
)
def test_begun_again_it_is_as_new_un_hosted(name: str) -> None:
    """Where closures and contexts are bound to states, an operator begun again emits what a new one would.

    What a condition of the test's own counts down is used up by the first subscription, and no state of the operator.
    """
    check(name, {"un-hosted": RUNNERS["un-hosted"]})


@pytest.mark.slow
@pytest.mark.parametrize("name", lanes((name for name in CASES if not name.startswith(USED_UP)), fast=0))
def test_begun_again_it_is_as_new_anywhere(name: str) -> None:
    """Rebuilt, hosted and recovered it does so, too."""
    check(name, {who: runner for who, runner in RUNNERS.items() if who != "un-hosted"})
