"""Endless readings from two halls: averages, and an alarm for each hall that gets hot.

reliable-rx run examples/sensors.py:app          kill it as you like, and run it again
reliable-rx tail sensors.store alarms --follow   in another terminal
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from hosting import App, GeneratorSource


class Reading(NamedTuple):
    number: int
    hall: str
    celsius: float


def reading(number: int, random: Random) -> Reading:
    """Make reading *number*: the same one whenever it is asked for, which is what makes it replayable."""
    return Reading(number, random.choice(("north", "south")), round(random.gauss(21, 3), 1))


app = App(checkpoint_interval_s=1.0)
readings = app.source("readings", GeneratorSource(reading, partitions=["a", "b"], seed=7))

averages = app.query(
    "averages",
    readings.group_by(lambda each: each.hall).flat_map(
        lambda hall: hall.window_with_count(1000).flat_map(
            lambda some: some.average(lambda each: each.celsius).map(lambda mean: (hall.key, round(mean, 2)))
        )
    ),
)
app.query("alarms", averages.filter(lambda pair: pair[1] > 21.2))
