"""Nested queries drawn at random under ``skip``: what comes is what `reactivex` makes of what was not left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given
from lanes import at_each_commit, at_night, examples
from skip_draws import Part, check_skips, parts, spines, streams

from reliable_rx.testing.marbles import COMPLETED, NEXT, Timed
from reliable_rx.testing.queries import Script, scripts

DRAWN = {"anything": parts(), "what is paired deep within": spines()}


ROWS = [row for each in DRAWN for row in ((each, 60), at_each_commit(each, 180), at_night(each, 4000))]


@pytest.mark.parametrize(("drawn", "count"), ROWS)
def test_a_drawn_query_goes_on_without_what_raises(drawn: str, count: int) -> None:
    """Several functions raise at random events, in groups, shared parts and branches, with a crash at every boundary.

    Nothing is paired out of step, no error is skipped that something catches, and no query ends that could go on.
    """

    @examples(count, database=None, suppress_health_check=list(HealthCheck))
    @given(DRAWN[drawn], streams(), scripts())
    def check(part: Part, given: Sequence[Sequence[Timed]], script: Script) -> None:
        check_skips(part, given, script)

    check()


@pytest.mark.parametrize("key", [1, 3, 5])
@pytest.mark.parametrize("raising", [24, 32])
def test_what_is_paired_in_one_of_several_groups_is_not_passed_by(raising: int, key: int) -> None:
    """Each group shares a part once more, and one of them pairs it: a draw that was found by hand first."""
    times = [Timed(2.0 + n, NEXT, (n, n)) for n in range(9)]
    streams = [[*times, Timed(20.0, COMPLETED, None)], [Timed(21.0, COMPLETED, None)]]
    paired = Part("key", key, (Part("pair", 0, (read(4), read(0))), read(0)))
    own = Part("share", 0, (Part("each", 0, (Part("once"), read(1))), Part("merge", 0, (read(0), paired))))
    grouped = Part("group", 1, (Part("take", 0, (read(2),)), own))
    assert check_skips(Part("share", 0, (Part("raise", raising, (read(1),)), grouped)), streams, []) == "failed"


def read(number: int) -> Part:
    return Part("read", number)
