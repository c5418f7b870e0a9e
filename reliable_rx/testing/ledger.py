"""The ledger: what should have come against what came, counted.

One checker for whoever crashes something: the simulator, a killed process, a cluster. It counts four different things,
because they have different causes: *lost* (a position was acknowledged too early), *duplicated* (an id was given
twice), *reordered* (a replay took another order) and *corrupted* (state was not what it had been).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Ledger:
    """The outcome of `check_ledger`; *first_difference* is an index into both, -1 if there is none."""

    expected: int
    got: int
    lost: int
    duplicated: int
    reordered: int
    corrupted: int
    first_difference: int

    @property
    def clean(self) -> bool:
        """Whether exactly what was expected came, in its order."""
        return self.first_difference < 0

    def __str__(self) -> str:
        counts = f"lost {self.lost} · duplicated {self.duplicated} · reordered {self.reordered}"
        bad = f" · corrupted {self.corrupted}" if self.corrupted else ""
        where = "" if self.clean else f", first at index {self.first_difference:,}"
        return f"{counts}{bad} ({self.got:,} of {self.expected:,}{where})"

    def check(self, what: str = "the records") -> None:
        """*Raises* `AssertionError` unless all is zero."""
        if not self.clean:
            raise AssertionError(f"{what}: {self}")


def check_ledger(expected: Sequence[Any], got: Sequence[Any]) -> Ledger:
    """Compare records in order, and count what is wrong.

    A record that was never expected is *corrupted* if another is missing for it, and *duplicated* otherwise.

    >>> str(check_ledger("abcd", "abcd"))
    'lost 0 · duplicated 0 · reordered 0 (4 of 4)'
    >>> str(check_ledger("abcd", "abbd"))
    'lost 1 · duplicated 1 · reordered 0 (4 of 4, first at index 2)'
    >>> str(check_ledger("abcd", "acbd"))
    'lost 0 · duplicated 0 · reordered 1 (4 of 4, first at index 1)'
    >>> check_ledger("abcd", "abxd").corrupted
    1
    """
    wanted, came = [_key(each) for each in expected], [_key(each) for each in got]
    difference = _first_difference(wanted, came)
    if difference < 0:
        return Ledger(len(wanted), len(came), 0, 0, 0, 0, -1)
    missing, extra = Counter(wanted) - Counter(came), Counter(came) - Counter(wanted)
    known = set(wanted)
    strange = sum(count for key, count in extra.items() if key not in known)
    corrupted = min(strange, missing.total())
    return Ledger(
        expected=len(wanted),
        got=len(came),
        lost=missing.total() - corrupted,
        duplicated=extra.total() - corrupted,
        reordered=_reordered(wanted, came),
        corrupted=corrupted,
        first_difference=difference,
    )


def _key(record: Any) -> Hashable:
    """What must be equal: the type as well (1 is not True), errors by type and text."""
    if isinstance(record, BaseException):
        return (type(record), str(record))
    if isinstance(record, tuple):
        return (type(record), *map(_key, record))
    try:
        hash(record)
    except TypeError:
        return (type(record), repr(record))
    return (type(record), record)


def _first_difference(wanted: Sequence[Hashable], came: Sequence[Hashable]) -> int:
    for index, (one, other) in enumerate(zip(wanted, came, strict=False)):
        if one != other:
            return index
    return -1 if len(wanted) == len(came) else min(len(wanted), len(came))


def _reordered(wanted: Sequence[Hashable], came: Sequence[Hashable]) -> int:
    """How many of the records that both have would have to move: all less the longest increasing run of places."""
    places: dict[Hashable, list[int]] = {}
    for index in range(len(wanted) - 1, -1, -1):
        places.setdefault(wanted[index], []).append(index)
    order = [left.pop() for key in came if (left := places.get(key))]
    tops: list[int] = []
    for place in order:
        at = bisect_left(tops, place)
        tops[at : at + 1] = [place]
    return len(order) - len(tops)
