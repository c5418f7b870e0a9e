"""Which lane runs, and how much of a check each has: the fast one a sample, the slow one the whole.

What `commit` marks is in the slow lane, where properties have their full number of examples. .ci/run plays it at each
commit, two rows of each test and a sixth of the examples, beside all rows of the fast lane; the rest is for a night.
What `night` marks is left to it also where an axis that it is crossed with is marked `commit`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import product
from typing import Any, TypeVar
from zlib import crc32

import pytest
from hypothesis import settings

SHARE, COMMIT_SHARE = 12, 6
FAST_ROWS, COMMIT_ROWS = 1, 2
"""How many rows of a test these lanes play where they are played as a whole."""
NIGHTLY = 36
"""Of so many rows that the fast lane leaves out each commit plays one: all together take longer than it may."""
Test = TypeVar("Test", bound=Callable[..., Any])
COMMIT = (pytest.mark.slow, pytest.mark.commit)
NIGHT = (pytest.mark.slow, pytest.mark.night)
AT_EACH_COMMIT = "commit and not night"
ALWAYS = pytest.mark.commit("always")
"""Of a row that no commit leaves to a night, however many of its kin are."""


class Lane:
    """Where only the fast one runs, tests of the other are not made: making them takes longer than the fast ones run,
    and of the examples of a property a twelfth is drawn.
    """

    fast_alone = False
    commit_alone = False
    """The same of what is left to a night where a commit is played."""


def at_each_commit(*values: Any) -> Any:
    """Return a parameter that the fast lane leaves out."""
    return pytest.param(*values, marks=COMMIT)


def at_night(*values: Any) -> Any:
    """Return a parameter that is played with the whole slow lane only, since its kin are at each commit.

    With whatever else it is crossed, also with what each commit plays, it is left to the night.
    """
    return pytest.param(*values, marks=NIGHT)


def at_every_commit(*values: Any) -> Any:
    """Return a parameter that neither the fast lane has nor `of_lane` leaves to a night."""
    return pytest.param(*values, marks=(pytest.mark.slow, ALWAYS))


def of_lane(params: Iterable[Any], *, nightly: int = NIGHTLY) -> list[Any]:
    """Return *params*, of those that the fast lane leaves out all but one of *nightly* for a night.

    Where a lane runs alone, what is for a later one is left out altogether.
    """
    kind, left, found = type(at_each_commit()), 0, list[Any]()
    for each in params:
        marks = each.marks if isinstance(each, kind) else ()
        left += pytest.mark.commit in marks and pytest.mark.slow in marks
        if pytest.mark.slow not in marks:
            found.append(each)
        elif ALWAYS in marks or (pytest.mark.commit in marks and left % nightly == 1 % nightly):
            found += [] if Lane.fast_alone else [each]
        elif not (Lane.fast_alone or Lane.commit_alone):
            found.append(at_night(*each.values))
    return found


def every(nth: int, values: Iterable[Any], *, nightly: int = NIGHTLY, commits: int = 0) -> list[Any]:
    """Return parameters of which the fast lane has each *nth*, and each commit one of *nightly* of the others.

    With *commits* each commit has every so many-th as well, with 1 all of them.
    """
    return every_of(nth, ((each,) for each in values), nightly=nightly, commits=commits)


def every_of(nth: int, rows: Iterable[Collection[Any]], *, nightly: int = NIGHTLY, commits: int = 0) -> list[Any]:
    """Return rows of several parameters, as `every` does; an *nth* that divides no axis meets all their values."""
    found = list[Any]()
    for number, each in enumerate(rows):
        if number % nth == 0:
            found.append(pytest.param(*each))
        else:
            found.append((at_every_commit if commits and number % commits == 0 else at_each_commit)(*each))
    return of_lane(found, nightly=nightly)


def crossed(*axes: Collection[Any], nth: int = 1, nightly: int = NIGHTLY) -> list[Any]:
    """Return every combination of the values of *axes*; the fast lane has as many as the longest of them is long.

    Each value of each axis is in one of those. With *nth* the fast lane has each so many-th value of the longest ones,
    and each commit what it would have without. Of the others each commit has one of *nightly*.
    """
    kept, whole = _covering(axes, nth), _covering(axes, 1)
    found = list[Any]()
    for cell in product(*(enumerate(axis) for axis in axes)):
        places, values = zip(*cell, strict=True)
        of_it = pytest.param if places in kept else at_every_commit if places in whole else at_each_commit
        found.append(of_it(*values))
    return of_lane(found, nightly=nightly)


def _covering(axes: Iterable[Collection[Any]], nth: int) -> set[tuple[int, ...]]:
    """Return places in *axes* that meet each value of the shorter ones, and each *nth* of the longest."""
    sizes = [len(axis) for axis in axes]
    return {
        tuple(number * (nth if size == max(sizes) else 1) % size for size in sizes)
        for number in range(-(-max(sizes) // nth))
    }


def sample_of(nth: int, values: Iterable[Any]) -> list[Any]:
    """Return what one test goes through: in the fast lane each *nth* of *values*."""
    return list(values)[:: nth if Lane.fast_alone else 1]


def left_to_commits(test: Test) -> Test:
    """Leave a whole test out of the fast lane."""
    for mark in COMMIT:
        test = mark(test)
    return test


def share_of(count: int) -> int:
    """Return how many of *count* examples are drawn: a twelfth in the fast lane, at each commit a sixth."""
    return -(-count // (SHARE if Lane.fast_alone else COMMIT_SHARE if Lane.commit_alone else 1))


def examples(count: int, **options: Any) -> settings:
    """Return settings of a property with *count* examples, of which the fast lane draws a twelfth, a commit a sixth."""
    return settings(max_examples=share_of(count), deadline=None, **options)


def spread_rows(names: Collection[str], count: int) -> set[str]:
    """Return, of the *names* of tests, at most *count* rows of each, the first one and others at equal distances.

    >>> sorted(spread_rows(["a", "b[0]", "b[1]", "b[2]", "b[3]"], 2))
    ['a', 'b[0]', 'b[2]']
    """
    rows: dict[str, list[str]] = {}
    for name in names:
        rows.setdefault(name.partition("[")[0], []).append(name)
    return {some[at * len(some) // count] for some in rows.values() for at in range(count)}


def part_of(text: str) -> tuple[int, int]:
    """Read which part of how many is to be played. *Raises* `ValueError`.

    >>> part_of("9/4")
    (1, 4)
    """
    at, count = map(int, text.split("/"))
    return at % count, count


def is_of_part(name: str, at: int, count: int) -> bool:
    """Whether the row *name* belongs to part *at* of *count*: what each run and each worker says alike."""
    return crc32(name.encode("utf-8", "surrogatepass")) % count == at
