"""Under event time the order of events depends on the events alone, not on where a process began to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from hosting.edges.ingress import Intake
from hosting.sources import ListSource
from reliable_rx.reliable import Listing

PARTITIONS = {"a": [1, 5, 5, 5, 5, 7], "b": [2, 5, 5, 6, 7], "c": [0, 5, 5, 5, 8]}


def taken(cuts: int, *, batch_events_max: int) -> list[tuple[str, int]]:
    """Take everything, as (partition, time), with a new process after every *cuts* turns."""
    order: list[tuple[str, int]] = []
    positions: dict[tuple[str, str], int] = {}
    ended: set[tuple[str, str]] = set()
    while True:
        intake = Intake(batch_events_max=batch_events_max, idle_s=1.0, clock=lambda: 0.0)
        source = ListSource({name: list(times) for name, times in PARTITIONS.items()}, timestamp=float)
        intake.add("s", source)
        intake.open(positions, ended, None)
        list(intake.appeared())
        for _ in range(cuts):
            turn: Any = intake.next(0.0)
            if turn is None:
                return order
            order += [(turn.partition, time) for time in turn.values]
        positions, ended = intake.positions(), intake.ended()


@pytest.mark.parametrize("batch_events_max", [1, 2, 3, 1000])
@pytest.mark.parametrize("cuts", [1, 2, 3, 1000])
def test_simultaneous_events_come_in_the_order_of_their_partitions(cuts: int, batch_events_max: int) -> None:
    """Whatever the batches, and wherever a process was started again, the merge is by time, partition, position."""
    expected = sorted(
        ((name, time) for name, times in PARTITIONS.items() for time in times), key=lambda e: (e[1], e[0])
    )
    assert taken(cuts, batch_events_max=batch_events_max) == expected


class Coming(ListSource):
    """A source that lists what is in *shown*."""

    shown: Sequence[str]

    def listing(self) -> Sequence[Listing]:
        return [Listing(name) for name in self.shown]


@pytest.mark.parametrize("there", [(), ("b",), ("b", "a", "c")])
def test_simultaneous_events_do_not_mind_when_a_partition_appeared(there: Sequence[str]) -> None:
    """In the order of the sources as declared, then of the list: also of those that appeared when others were read."""
    intake = Intake(batch_events_max=1, idle_s=1e9, clock=lambda: 0.0)
    first = Coming({"a": [5, 7], "b": [5, 7], "c": [5, 7]}, timestamp=float)
    first.shown = there
    intake.add("first", first)
    intake.add("second", ListSource({"0": [5, 6, 7]}, timestamp=float))
    intake.open({}, set(), None)
    appeared = [turn.source for turn in intake.appeared() if turn.positions]
    assert appeared == (["first", "second"] if there else ["second"])
    assert there or intake.next(0.0) is None, "the first source holds the second back"
    first.shown = ("b", "a", "c")
    intake.list_soon()
    order: list[tuple[str, int]] = []
    while (turn := intake.next(0.0)) is not None:
        order += [(turn.partition, time) for time in getattr(turn, "values", ())]
    assert order == [(name, time) for time in (5, 6, 7) for name in "bac0" if (name == "0" or time != 6)]


@pytest.mark.parametrize("gap_s", [0.1, 0.4, 0.9])
def test_who_speaks_now_and_then_is_not_silent(gap_s: float) -> None:
    """Silence counts from the last event of a partition, not from the first time that it had nothing."""
    now = 0.0
    slow, backlog = [1.0], [each + 0.5 for each in range(1, 200)]
    intake = Intake(batch_events_max=1000, idle_s=1.0, clock=lambda: now)
    intake.add("s", ListSource({"slow": slow, "backlog": backlog}, follow=True, timestamp=float))
    intake.open({}, set(), None)
    list(intake.appeared())
    found: list[float] = []
    for count in range(2, 40):
        for _ in range(3):
            while (turn := intake.next(now)) is not None:
                found += getattr(turn, "values", ())
            now += gap_s / 3
        slow.append(float(count))
    assert found == sorted(found) and len(found) >= 70
    for _ in range(30):  # and who says nothing more is left out
        now += 0.1
        while (turn := intake.next(now)) is not None:
            found += getattr(turn, "values", ())
    assert len(found) == len(slow) + len(backlog)
