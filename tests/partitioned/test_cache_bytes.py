"""Caches that are bounded in bytes: within the limit but for what was misjudged, and never at a standstill."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hosting import ListSource, SharedSource
from hosting.edges.backpressure import Weights
from hosting.edges.replay_buffer import Cache, Cursor

SIZES = st.sampled_from((1, 10, 100, 700, 5_000))


def bytes_of(values: object) -> int:
    return sum(map(len, values))  # type: ignore[call-overload, no-any-return]


@given(st.lists(st.tuples(SIZES, st.integers(1, 40), st.booleans()), max_size=60), st.sampled_from((1, 64, 1_000)))
@settings(deadline=None)
def test_a_cache_keeps_within_its_bytes(steps: list[tuple[int, int, bool]], bytes_max: int) -> None:
    """S9: what is reserved fits if events are like the last ones; the bytes held are those of the segments held; an
    empty cache has room for one event, and one that was emptied too."""
    cache = Cache("0", 0, events_max=50, weights=(weights := Weights(bytes_max, bytes_of)))
    cursor, each = Cursor(cache, "me", 0), 1
    for size, wanted, confirms in steps:
        before = weights.held
        reserved = cache.reserve(wanted)
        assert reserved == 0 or before == 0 or before + reserved * each <= bytes_max
        assert reserved > 0 or cache.under_pressure
        values = [b"x" * size] * reserved
        cache.fill(reserved, values)
        each = size if reserved else each
        if confirms and cursor.take(1 << 30).values:
            cursor.confirm(cursor.position - 1)
            assert cache.room() > 0 and not cache.under_pressure
        assert weights.held == sum(bytes_of(segment.values) for segment in cache.segments)


@pytest.mark.parametrize("lag", ["slow", "detach"])
@pytest.mark.parametrize("exact", [True, False])
def test_readers_at_their_own_pace(lag: Literal["slow", "detach"], exact: bool) -> None:
    """Three readers of events of very different sizes get all of them; the cache has never more bytes than the limit
    and one portion that was misjudged."""
    events = [b"%05d" % n + b"x" * (n * 7919 % 3_000) for n in range(400)]
    bytes_max, largest = 20_000, 3_005
    shared = SharedSource(
        ListSource(events), lag=lag, bytes_max=bytes_max, bytes_of=len if exact else None, events_max=200
    )
    readers, got = [shared.open("0", 0) for _ in range(3)], [list[bytes]() for _ in range(3)]
    for turn in range(4_000):
        for pace, (reader, found) in enumerate(zip(readers, got, strict=True), 1):
            if turn % pace == 0:
                found += reader.fetch(5).values
        cache = shared.partition("0").cache
        assert cache is not None and cache.weights is not None
        held = sum(len(value) for segment in cache.segments for value in segment.values)
        assert held <= bytes_max + 5 * largest
        assert not exact or cache.weights.held == held
    assert got == [events] * 3


def test_a_limit_that_is_none() -> None:
    """Bytes are bounded by one or more."""
    with pytest.raises(ValueError, match="room for at least one byte"):
        SharedSource(ListSource([]), bytes_max=0)
