"""How long a test may take, by the lane that plays it."""

from __future__ import annotations

from itertools import chain

import pytest
from lanes import at_each_commit, at_night, is_of_part, part_of


@pytest.mark.parametrize("limit_s", [None, at_each_commit(None), at_night(1800)])
def test_a_night_has_time(limit_s: int | None, request: pytest.FixtureRequest) -> None:
    """What only a night plays may take half an hour, all else what pyproject.toml says."""
    mark = request.node.get_closest_marker("timeout")
    assert (mark and mark.args[0]) == limit_s


@pytest.mark.slow
@pytest.mark.timeout(7)
def test_what_a_test_says_itself_counts(request: pytest.FixtureRequest) -> None:
    """A limit of its own is kept."""
    assert [mark.args for mark in request.node.iter_markers("timeout")] == [(7,)]


def test_each_row_is_in_one_part() -> None:
    """Parts that are counted on without end play all there is in turn."""
    names = [f"test_{n}[\ud800]" for n in range(300)]
    parts = [[name for name in names if is_of_part(name, *part_of(f"{at}/7"))] for at in range(70, 77)]
    assert sorted(chain(*parts)) == sorted(names) and all(parts)
    with pytest.raises(ValueError):
        part_of("7")
