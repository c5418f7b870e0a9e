"""A cache and its cursors against a list that never forgets anything."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule
from lanes import examples

from hosting.edges.backpressure import Pressure
from hosting.edges.egress import Stream
from hosting.edges.holders import StreamHolders
from hosting.edges.replay_buffer import UNKNOWN, Cache, Cursor, Window
from hosting.engine.turns import Output
from reliable_rx.errors import InternalError, PositionUnavailable
from reliable_rx.reliable import Batch

STREAMS = ("a", "b", "c")


def stream_of(value: tuple[str, int]) -> str:
    return value[0]


class Reader:
    """A cursor, and what a list would have given it."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.expected = cursor.position
        self.taken: list[int] = []
        self.confirmed = cursor.position - 1

    def wants(self, value: tuple[str, int]) -> bool:
        return self.cursor.stream in (None, value[0])


class CacheMachine(RuleBasedStateMachine):
    """S9: held ≤ limit at all times; nothing is removed that some cursor or pin has not confirmed; what was reserved
    fits. Readers of one stream see all of it, in order, whatever the others do."""

    readers = Bundle("readers")
    pins = Bundle("pins")

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache("0", 0, events_max=20, stream_of=stream_of)
        self.log: dict[int, tuple[str, int]] = {}
        self.end = 0
        self.live: list[Reader] = []
        self.pinned: dict[str, int] = {}
        self.number = 0
        self.stopped = False

    @rule(
        wanted=st.integers(0, 30),
        streams=st.lists(st.sampled_from(STREAMS), min_size=30, max_size=30),
        part=st.floats(0, 1),
        gap=st.sampled_from((0, 0, 0, 1, 40)),
    )
    def fetch(self, wanted: int, streams: list[str], part: float, gap: int) -> None:
        self.look()
        reserved = self.cache.reserve(wanted)
        assert reserved <= 20 - self.held
        self.end += gap
        values = [(streams[offset], self.end + offset) for offset in range(round(reserved * part))]
        before = set(self.cache.index)
        fresh = self.cache.fill(reserved, values, first=self.end)
        assert set(fresh) == {stream for stream, _ in values} - before
        self.log |= {n: (stream, n) for stream, n in values}
        self.end += len(values)

    @property
    def held(self) -> int:
        return sum(n >= self.cache.first for n in self.log)

    @rule(target=readers, stream=st.sampled_from((None, *STREAMS)), back=st.integers(0, 20))
    def open(self, stream: str | None, back: int) -> Any:
        self.number += 1
        at = self.end - back
        try:
            reader = Reader(Cursor(self.cache, f"reader {self.number}", at, stream=stream))
        except PositionUnavailable as miss:
            assert (miss.wanted, miss.first, miss.end) == (at, self.cache.first, self.end)
            assert at < self.cache.first
            return multiple()
        self.live.append(reader)
        return reader

    @rule(reader=readers, count_max=st.integers(0, 25))
    def take(self, reader: Reader, count_max: int) -> None:
        if reader not in self.live:
            return
        got = reader.cursor.take(count_max)
        assert len(got.values) <= count_max
        due = [n for n in range(reader.expected, self.end) if n in self.log and reader.wants(self.log[n])]
        taken = due[: len(got.values)]
        assert got.values == [self.log[n] for n in taken]
        assert taken == list(range(got.first, got.next)), "consecutive ids"
        assert bool(taken) == bool(due and count_max)
        assert (got.skipped == 0 or got.next <= self.end) and reader.cursor.position == got.next
        if got.next > reader.expected:
            reader.expected = got.next
            reader.taken += taken

    @rule(reader=readers, which=st.floats(0, 1))
    def confirm(self, reader: Reader, which: float) -> None:
        if reader.taken and reader in self.live:
            n = reader.taken[int(which * (len(reader.taken) - 1))]
            reader.cursor.confirm(n)
            reader.confirmed = max(reader.confirmed, n)

    @rule(reader=consumes(readers))
    def close(self, reader: Reader) -> None:
        if reader in self.live:
            reader.cursor.close()
            self.live.remove(reader)

    @rule(target=pins, back=st.integers(0, 5))
    def pin(self, back: int) -> Any:
        at = self.end - back
        if at < self.cache.first:
            return multiple()
        self.number += 1
        self.cache.hold(f"pin {self.number}", at)
        self.pinned[f"pin {self.number}"] = at
        return f"pin {self.number}"

    @rule(pin=consumes(pins))
    def unpin(self, pin: str) -> None:
        self.cache.release(pin)
        del self.pinned[pin]

    @rule()
    def look(self) -> None:
        """Room is the limit less what is held; none from 18 of 20 on, until it is down to 14."""
        room = self.cache.room()
        held = self.held
        self.stopped = held > 14 if self.stopped else held >= 18
        assert room == (0 if self.stopped else 20 - held)

    @invariant()
    def bounded_and_nothing_dropped(self) -> None:
        cache = self.cache
        assert sum(len(segment.values) for segment in cache.segments) == self.held <= 20
        for reader in self.live:
            for n in range(reader.confirmed + 1, self.end):
                if n in self.log and reader.wants(self.log[n]):
                    assert cache.first <= n, "an unconfirmed event is gone"
                    assert cache.value(n) == self.log[n]
        assert all(cache.first <= at for at in self.pinned.values())

    def teardown(self) -> None:
        """Once everybody has confirmed everything there is room for all that the limit allows."""
        for reader in self.live:
            while (got := reader.cursor.take(1000)).values:
                pass
            reader.cursor.confirm(got.next - 1)
        for pin in self.pinned:
            self.cache.release(pin)
        assert self.cache.room() == 20


TestCache = CacheMachine.TestCase
TestCache.settings = examples(25, stateful_step_count=40)


@pytest.mark.parametrize("events_max", range(1, 40))
def test_a_cache_of_any_size_moves_on(events_max: int) -> None:
    """S9: with any limit, one reader who confirms what he takes gets every event, and the limit is kept."""
    cache = Cache("0", 0, events_max=events_max)
    cursor = Cursor(cache, "me", 0)
    seen: list[int] = []
    given = 0
    for _ in range(10_000):
        if given == 200 and len(seen) == 200:
            break
        reserved = cache.reserve(min(7, 200 - given))
        cache.fill(reserved, list(range(given, given + reserved)))
        given += reserved
        assert cache.next_id - cache.first <= events_max
        if not reserved:
            taken = cursor.take(3)
            seen += taken.values
            cursor.confirm(taken.next - 1)
    assert seen == list(range(200))


def test_a_quiet_stream_holds_nothing_and_misses_nothing() -> None:
    """Events of other streams pass by a reader of a quiet stream: he neither keeps them nor falls out of the cache."""
    cache = Cache("0", 0, events_max=50, stream_of=stream_of)
    quiet = Cursor(cache, "quiet", 0, stream="quiet")
    busy = Cursor(cache, "busy", 0, stream="busy")
    for n in range(1000):
        cache.fill(cache.reserve(1), [("busy", n)])
        assert busy.take(10).values == [("busy", n)]
        busy.confirm(n)
    assert cache.room() == 50
    cache.fill(cache.reserve(1), [("quiet", 1000)])
    assert quiet.take(10) == Batch(1000, [("quiet", 1000)], skipped=0)


def test_pressure_stops_at_ninety_and_goes_on_at_seventy_percent() -> None:
    """Between the two it stays as it was, from either side."""
    pressure = Pressure(1000)
    assert [pressure.at(held) for held in (0, 899, 900, 899, 701, 700, 899, 900)] == [
        False, False, True, True, True, False, False, True
    ]  # fmt: skip


def test_a_value_that_nobody_can_place_is_in() -> None:
    """A `stream_of` that raises puts the value into the stream of the unknown; what was fetched is never lost."""
    cache = Cache("0", 0, events_max=32, stream_of=lambda value: str(value["key"]))
    everything, unknown = Cursor(cache, "all", 0), Cursor(cache, "unknown", 0, stream=UNKNOWN)
    assert cache.fill(cache.reserve(2), [{"key": "a"}, {}]) == ["a", UNKNOWN]
    assert everything.take(10) == Batch(0, [{"key": "a"}, {}])
    assert unknown.take(10) == Batch(1, [{}], skipped=1)


def test_misuse_is_refused() -> None:
    """What was not reserved, not taken, or is not a cache at all is an error at once."""
    with pytest.raises(ValueError, match="room for at least one"):
        Cache("0", 0, events_max=0)
    cache = Cache("0", 0, events_max=32)
    with pytest.raises(InternalError, match="fit what was reserved"):
        cache.fill(0, ["unasked"])
    cursor = Cursor(cache, "me", 0)
    with pytest.raises(InternalError, match="has taken what lies before 0"):
        cursor.confirm(0)
    with pytest.raises(ValueError, match="close it first"):
        Cursor(cache, "me", 0)
    with pytest.raises(ValueError, match="stream_of"):
        Cursor(cache, "you", 0, stream="a")


def test_a_stream_is_a_window() -> None:
    """The replay buffer of an output is the same component, with a store and visibility around it."""
    stream = Stream("q", None, next_id=0, retain_events=0, registry=StreamHolders(threading.RLock()))
    assert isinstance(stream, Window)


def test_who_reads_while_all_is_forgotten_skips_nothing() -> None:
    """Between two steps of a reader the window forgets what it has read: the ids go on one by one."""
    stream = Stream("q", None, next_id=0, retain_events=0, registry=StreamHolders(threading.RLock()))
    stream.hold("me", 0)
    for n in range(10):
        stream.append(Output("q", n, [n]))
    stream.show(10)
    seen = list[int]()
    for part in stream.read(0, 100):
        seen += part.values
        stream.acknowledge("me", part.first)
        stream.trim()
    assert seen == list(range(10)) and stream.first == 9
