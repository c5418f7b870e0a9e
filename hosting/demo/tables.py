"""The results as text: for every query what it answers, how much it said, and a few rows that one can enjoy."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from hosting.cli.wording import plural, table
from hosting.demo.airport import stream_file
from hosting.demo.queries import NEW_YORK, QUERIES

ROWS = 4
BUSY_HOUR_DEPARTURES = 15
Record = dict[str, Any]
Rows = tuple[Sequence[str], list[Sequence[Any]]]


class Streams:
    """The values in the files of a run, each file read once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.read: dict[str, list[Record]] = {}

    def __getitem__(self, name: str) -> list[Record]:
        found = self.read.get(name)
        if found is None:
            with open(stream_file(self.folder, name), "rb") as file:
                records = map(json.loads, file)
                found = self.read[name] = [record["value"] for record in records if "value" in record]
        return found


def results(streams: Streams, carriers: dict[str, str]) -> Iterator[str]:
    """Write a small table for every query."""
    for name, query in QUERIES.items():
        sentence = (query.__doc__ or "").splitlines()[0]
        head, rows = ROWS_OF[name](streams[name], carriers)
        yield f"{name}   {sentence} {plural(len(streams[name]), 'record')}."
        yield from table(head, rows) if rows else ("  (nothing in these days)",)
        yield ""


def when(time: float) -> str:
    return datetime.fromtimestamp(time, NEW_YORK).strftime("%d %b %H:%M")


def late_by(minutes: float) -> str:
    """
    >>> late_by(1301), late_by(47)
    ('21 h 41 min', '47 min')
    """
    hours, rest = divmod(round(minutes), 60)
    return f"{hours} h {rest:02} min" if hours else f"{rest} min"


def top(records: Sequence[Record], key: Callable[[Record], Any], count: int = ROWS) -> list[Record]:
    return sorted(records, key=key, reverse=True)[:count]


def last_of(records: Sequence[Record], field: str) -> list[Record]:
    """The last record of every value of *field*."""
    return list({record[field]: record for record in records}.values())


def airline(carriers: dict[str, str], code: str) -> str:
    return carriers.get(code, code).removesuffix(" Inc.").removesuffix(" Co.")


def worst_delay(records: Sequence[Record], carriers: dict[str, str]) -> Rows:
    worst = top(last_of(records, "carrier"), lambda r: r["delay_min"])
    return ("carrier", "flight", "route", "scheduled", "left later by"), [
        (
            airline(carriers, r["carrier"]),
            r["carrier"] + r["number"],
            f"{r['origin']}-{r['dest']}",
            when(r["time"]),
            late_by(r["delay_min"]),
        )
        for r in worst
    ]


def departures_per_hour(records: Sequence[Record], carriers: dict[str, str]) -> Rows:
    busy = [r for r in records if r["departures"] >= BUSY_HOUR_DEPARTURES]
    worst = top(busy, lambda r: r["delay_min"] / r["departures"])
    return ("airport", "hour from", "departures", "cancelled", "over 1 h late", "average delay"), [
        (
            r["origin"],
            when(r["time"]),
            r["departures"],
            r["cancelled"],
            r["late"],
            late_by(r["delay_min"] / r["departures"]),
        )
        for r in worst
    ]


def route_alerts(records: Sequence[Record], carriers: dict[str, str]) -> Rows:
    worst = top(records, lambda r: (r["flights"], r["worst_min"]))
    return ("route", "until", "late within 3 h", "the worst by"), [
        (r["route"], when(r["time"]), r["flights"], late_by(r["worst_min"])) for r in worst
    ]


def rolling_delay(records: Sequence[Record], carriers: dict[str, str]) -> Rows:
    of_carrier: dict[str, list[Record]] = {}
    for record in records:
        of_carrier.setdefault(record["carrier"], []).append(record)
    rows: list[Sequence[Any]] = []
    for code, those in of_carrier.items():
        best, worst = min(those, key=lambda r: r["average_min"]), max(those, key=lambda r: r["average_min"])
        rows.append(
            (
                airline(carriers, code),
                best["average_min"],
                worst["average_min"],
                when(worst["time"]),
                those[-1]["average_min"],
            )
        )
    rows.sort(key=lambda row: -row[2])
    return ("carrier", "best, min", "worst, min", "on", "at the end, min"), rows[:ROWS]


def weather_at_departure(records: Sequence[Record], carriers: dict[str, str]) -> Rows:
    worst: dict[str, Record] = {}
    for record in records:
        if record["sky"] not in worst or record["delay_min"] > worst[record["sky"]]["delay_min"]:
            worst[record["sky"]] = record
    chosen = top(list(worst.values()), lambda r: r["delay_min"])
    return ("airport", "flight", "scheduled", "under", "left later by"), [
        (r["origin"], r["carrier"] + r["number"], when(r["time"]), r["sky"], late_by(r["delay_min"])) for r in chosen
    ]


def delay_by_weather(records: Sequence[Record], carriers: dict[str, str]) -> Rows:
    last = top(last_of(records, "sky"), lambda r: r["delay_min"] / r["departures"], 10)
    return ("sky", "departures", "average delay, min", "over 1 h late, %"), [
        (r["sky"], r["departures"], r["delay_min"] / r["departures"], 100 * r["late"] / r["departures"]) for r in last
    ]


def cancellation_waves(records: Sequence[Record], carriers: dict[str, str]) -> Rows:
    return ("airport", "from", "cancelled within 3 h", "carriers"), [
        (r["origin"], when(r["time"]), r["flights"], " ".join(r["carriers"]))
        for r in top(records, lambda r: r["flights"])
    ]


def knock_on(records: Sequence[Record], carriers: dict[str, str]) -> Rows:
    worst = top(records, lambda r: r["before_min"] + r["again_min"])
    return ("aircraft", "carrier", "first", "late by", "again", "late by", "scheduled"), [
        (
            r["tail"],
            airline(carriers, r["carrier"]),
            r["before"],
            late_by(r["before_min"]),
            r["again"],
            late_by(r["again_min"]),
            when(r["time"]),
        )
        for r in worst
    ]


ROWS_OF: dict[str, Callable[[Sequence[Record], dict[str, str]], Rows]] = {
    "worst_delay": worst_delay,
    "departures_per_hour": departures_per_hour,
    "route_alerts": route_alerts,
    "rolling_delay": rolling_delay,
    "weather_at_departure": weather_at_departure,
    "delay_by_weather": delay_by_weather,
    "cancellation_waves": cancellation_waves,
    "knock_on": knock_on,
}
