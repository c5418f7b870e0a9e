"""The ledger counts what is lost, duplicated, reordered and corrupted, each under its own name."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reliable_rx.testing import Ledger, check_ledger


@given(st.lists(st.integers(0, 5)))
def test_what_is_equal_is_clean(records: list[int]) -> None:
    """The same records in the same order are clean, however often a value repeats."""
    assert check_ledger(records, list(records)) == Ledger(len(records), len(records), 0, 0, 0, 0, -1)


@given(st.lists(st.integers(0, 5)), st.lists(st.integers(0, 5)))
def test_what_differs_is_never_clean(one: list[int], other: list[int]) -> None:
    """Two different sequences have at least one count above zero, and the place where they part."""
    ledger = check_ledger(one, other)
    counts = ledger.lost + ledger.duplicated + ledger.reordered + ledger.corrupted
    assert (counts > 0) == (one != other) == (not ledger.clean)


@pytest.mark.parametrize("lost", [0, 1, 7])
@pytest.mark.parametrize("twice", [0, 1, 5])
def test_counts(lost: int, twice: int) -> None:
    """Known damage to numbered records is counted exactly."""
    draw = random.Random(lost * 10 + twice)
    numbered = list(range(100))
    damaged = [n for n in numbered if n >= lost for _ in range(2 if n >= 100 - twice else 1)]
    ledger = check_ledger(numbered, damaged)
    assert (ledger.lost, ledger.duplicated, ledger.reordered, ledger.corrupted) == (lost, twice, 0, 0)
    draw.shuffle(damaged)
    assert check_ledger(numbered, damaged).reordered > 0


def test_types_and_errors_count() -> None:
    """True is not 1, and an error equals another of the same type and text."""
    assert check_ledger([1], [True]).corrupted == 1
    assert check_ledger([1.0], [1]).corrupted == 1
    assert check_ledger([(0, ValueError("x"))], [(0, ValueError("x"))]).clean


def test_check_raises_with_the_counts() -> None:
    """`check` says which records and what is wrong with them."""
    with pytest.raises(AssertionError, match=r"stream 'q': lost 1 · duplicated 0"):
        check_ledger([1, 2], [1]).check("stream 'q'")
