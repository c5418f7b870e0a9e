"""Under event time the order of events depends on the events alone, not on where a process began to read."""

from __future__ import annotations

from typing import Any

import pytest

from hosting.intake import Intake
from hosting.sources import ListSource

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
