"""Streams without number: those where nothing happens any more are forgotten, and known again with their next event."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import examples
from test_deliveries import Growing, GrowingReader, Hands, Taker

from hosting import SharedSource
from hosting.subscriptions.manager import Deliveries
from reliable_rx.reliable import Batch

HELD = 16
Made = defaultdict[str, list[Taker]]


def audited(log: Growing, hands: Hands, lag: Literal["slow", "detach"], **settings: Any) -> tuple[Deliveries, Made]:
    """Consumers that a rule makes for every stream of *log*, whose events are the names of their streams."""
    made: Made = defaultdict(list)

    def make(stream: str) -> Taker:
        made[stream].append(Taker())
        return made[stream][-1]

    deliveries = Deliveries(crew=hands, clock=hands.clock, **settings)  # type: ignore[arg-type]
    deliveries.implicit("audit", lambda stream: True, make)
    deliveries.follow(SharedSource(log, events_max=HELD, lag=lag, stream_of=str))
    return deliveries, made


@given(
    st.lists(st.tuples(st.text("abcdefgh", max_size=12), st.integers(0, 12), st.integers(0, 10)), max_size=25),
    st.sampled_from(["slow", "detach"]), st.integers(1, 3), st.sets(st.integers(0, 100), max_size=3),
)  # fmt: skip
@examples(150)
def test_whoever_is_forgotten_every_event_comes_once(
    steps: list[tuple[str, int, int]], lag: Literal["slow", "detach"], most: int, bad: set[int]
) -> None:
    """S4, S7, S11: with room for few streams each event of each is delivered once, in order, whoever is made anew; so
    it is if some are tried again, and to one who has subscribed by name."""
    hands, log = Hands(), Growing()
    deliveries, made = audited(log, hands, lag, streams_max=most)
    named, failed = Taker(), set[int]()
    deliveries.subscribe("a", named, name="me", at=0)

    def fails(n: int) -> bool:
        first = n in bad and n not in failed
        failed.add(n)
        return first

    for streams, turns, pick in steps:
        log.add(*streams)
        for _ in range(turns):
            hands.turn(pick)
            for takers in made.values():
                takers[-1].fails = fails
    hands.run(for_s=60.0)
    for stream, takers in made.items():
        due = [n for n, value in enumerate(log.values) if value == stream]
        assert [n for taker in takers for n in taker.ids] == due, stream
    assert set(made) == set(log.values)
    assert named.ids == [n for n, value in enumerate(log.values) if value == "a"]


def test_as_many_as_there_is_room_for_are_known() -> None:
    """Of hundreds of streams, one after the other, those are known that fit, and those with an event in the cache;
    the source's readers are no more than those, and what nobody reads by a rule is forgotten too."""
    hands, log, most = Hands(), Growing(), 20
    deliveries, made = audited(log, hands, "slow", streams_max=most)
    unread = Deliveries(crew=hands, clock=hands.clock, streams_max=most)  # type: ignore[arg-type]
    unread.follow(SharedSource(log, events_max=HELD, stream_of=str))
    (shared,) = deliveries._followed
    for number in range(300):
        log.add(str(number))
        hands.run()
        assert len(deliveries._offers) <= most + HELD and len(deliveries._entries) <= most + HELD
        assert len(unread._offers) <= (most + HELD) * 5 // 4 + 1
        assert len(shared.partition("0").acknowledged) <= most + HELD + 1
    assert len(made) == 300 and all(len(takers) == 1 and len(takers[0].ids) == 1 for takers in made.values())
    assert len(log.wakers) == 2
    assert log.acknowledged == 299


def test_who_subscribed_by_name_is_not_forgotten() -> None:
    """A stream with a subscriber of its own stays, however quiet it is, and however many others come."""
    hands, log = Hands(), Growing(["a"])
    deliveries, _ = audited(log, hands, "slow", streams_max=1)
    taker = Taker()
    subscription = deliveries.subscribe("a", taker, name="me", at=0)
    for number in range(100):
        log.add(str(number))
        hands.run()
    assert deliveries.subscriptions("a")["me"] is subscription and taker.ids == [0]
    deliveries.unsubscribe("a", "me")
    log.add(*"bcdefgh")
    hands.run()
    assert "a" not in deliveries._entries


class TwoLogs(Growing):
    """Two partitions of the same length; how far each has been acknowledged."""

    def __init__(self) -> None:
        super().__init__()
        self.have = {"0": -1, "1": -1}

    def partitions(self) -> list[str]:
        return [*self.have]

    def open(self, partition: str, at: int, /) -> TwoLogsReader:
        return TwoLogsReader(self, partition, at)


class TwoLogsReader(GrowingReader):
    def __init__(self, source: TwoLogs, partition: str, at: int) -> None:
        super().__init__(source, at)
        self.logs, self.partition = source, partition

    def fetch(self, count_max: int, /) -> Batch:
        batch = super().fetch(count_max)
        return replace(batch, values=[f"{value}{self.partition}" for value in batch.values])

    def acknowledge(self, n: int, /) -> None:
        self.logs.have[self.partition] = n


def test_each_partition_is_acknowledged() -> None:
    """A reader of one stream holds up what may be forgotten in the partition of that stream, and in no other."""
    hands, log = Hands(), TwoLogs()
    _, made = audited(log, hands, "slow")
    log.add("a", "b", "a")
    hands.run()
    assert sorted(made) == ["a0", "a1", "b0", "b1"]
    assert log.have == {"0": 2, "1": 2}


@pytest.mark.parametrize("others", [2_500, 0])
def test_one_who_reads_apart_comes_to_his_stream(others: int) -> None:
    """A subscriber who begins far behind the cache goes through thousands of events of others without being woken."""
    hands, log = Hands(), Growing()
    deliveries, _ = audited(log, hands, "detach")
    log.add("a", *["b"] * others, "a")
    hands.run()
    taker = Taker()
    deliveries.subscribe("a", taker, name="late", at=1)
    hands.run()
    assert taker.ids == [others + 1]
