"""The queries of the main job that run on Spark too: what is their key, and their rows beside the main job's.

Of the eight, these five group the flights by a key and look at one key's flights only. The others cannot run per key:
`departures_per_hour` has one window for all airports, `weather_at_departure` reads all flights in each group, and
`delay_by_weather` reads its stream. Spark has no order across keys, so rows are compared key by key, in the order of
their ids.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import reliable_rx as rx
from hosting.demo.data import Flight
from hosting.demo.queries import QUERIES, KnockOn, Punctuality, RouteAlert, Wave
from spark_bridge.demo.frames import FLIGHT
from spark_bridge.on_spark.running import run_on_spark
from spark_bridge.source import MicroBatchSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

OF = "of_"
"""What begins the names of emitted columns: the key's column may be called as one of them is."""
TYPES: dict[Any, str] = {
    float: "double", str: "string", int: "long", int | None: "long", tuple[str, ...]: "array<string>",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Keyed:
    """A query of the main job that runs per *key*, emits *record*, and looks at the clock or not."""

    name: str
    key: str
    record: Any
    timed: bool

    @property
    def emits(self) -> str:
        return ", ".join(f"{OF}{name} {TYPES[kind]}" for name, kind in get_type_hints(self.record).items())

    def frame(self, flights: DataFrame) -> DataFrame:
        """Return what the query emits on Spark for the frame of *flights*."""
        query: Any = QUERIES[self.name]()
        return run_on_spark(
            query.bind(flights=rx.source("rows").map(flight_of)),
            flights, key=self.key, seq="line", emits=self.emits, rows="tuple",
            time="at" if self.timed else None, lateness_s=0.0,
        )  # fmt: skip


KEYED = (
    Keyed("worst_delay", "carrier", Flight, timed=False),
    Keyed("rolling_delay", "carrier", Punctuality, timed=False),
    Keyed("knock_on", "tail", KnockOn, timed=False),
    Keyed("route_alerts", "route", RouteAlert, timed=True),
    Keyed("cancellation_waves", "origin", Wave, timed=True),
)


def flight_of(row: Sequence[Any]) -> Flight:
    return Flight(*row[: len(FLIGHT)])


def main_rows(each: Keyed, records: Iterable[dict[str, Any]]) -> list[str]:
    """Return what the main job's stream has for each key, as lines."""
    by_key: dict[str, list[str]] = defaultdict(list)
    for record in records:
        key = record[each.key]
        by_key[key].append(line(key, len(by_key[key]), list(record.values())))
    return [text for key in sorted(by_key) for text in by_key[key]]


def spark_rows(each: Keyed, log: Path) -> list[str]:
    """Return what the query has emitted on Spark for each key, as lines."""
    rows = all_rows(log, values="dict")
    rows.sort(key=lambda row: (row[each.key], row["id"]))
    return [
        line(row[each.key], row["id"], [row[OF + name] for name in each.record._fields])
        if row["kind"] == "next"
        else line(row[each.key], row["id"], [row["kind"], row["error"]])
        for row in rows
    ]


def line(key: str, number: int, values: list[Any]) -> str:
    return f"{key} {number} {json.dumps(values)}"


def all_rows(log: Path, *, values: Any) -> list[Any]:
    """Return everything in a log that nobody acknowledges."""
    source = MicroBatchSource(log, reader="ledger", values=values)
    if not source.partitions():
        return []
    reader = source.open("0", 0)
    return list(reader.fetch(source.bounds("0")[1]).values)
