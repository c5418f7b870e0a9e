"""The app that the nodes of `benchmarks/cluster_demo.py` share: a year of flights in twelve logs, three queries.

Every node makes it anew from the folder in the environment variable ``CLUSTER_DEMO``. The logs are paced: an event
may be read once its moment has come, so that there is time for nodes to die and to be replaced.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import reliable_rx as rx
from benchmarks.paced import Paced
from hosting import App, FileSource, JsonLinesSink
from hosting.partitioned.places import Place

FOLDER = Path(os.environ.get("CLUSTER_DEMO", "runs/cluster"))


class Departure(NamedTuple):
    """A flight; *delay_min* is None if it was cancelled."""

    carrier: str
    dest: str
    delay_min: int | None


class Total(NamedTuple):
    """How many of a carrier's flights have left so far, and their delays together."""

    carrier: str
    flights: int
    delay_min: int


flights: rx.Query[Departure] = rx.source("flights")


def counted(total: Total | None, flight: Departure) -> Total:
    before = total or Total(flight.carrier, 0, 0)
    return Total(flight.carrier, before.flights + 1, before.delay_min + (flight.delay_min or 0))


def totals() -> rx.Observable[Total]:
    """After every flight, its carrier's total."""
    return flights.group_by(lambda flight: flight.carrier).flat_map(lambda carrier: carrier.scan(counted, None))


def worst() -> rx.Observable[Departure]:
    """Every flight that leaves later than any of its carrier before."""
    return flights.filter(lambda flight: flight.delay_min is not None).group_by(lambda flight: flight.carrier).flat_map(
        lambda carrier: carrier.scan(lambda one, two: two if (two.delay_min or 0) > (one.delay_min or 0) else one)
        .distinct_until_changed()
    )  # fmt: skip


def hundreds() -> rx.Observable[tuple[int, int]]:
    """Of every hundred flights, how many destinations and how many minutes of delay."""
    return flights.buffer_with_count(100).map(
        lambda some: (len({each.dest for each in some}), sum(each.delay_min or 0 for each in some))
    )


QUERIES = {"totals": totals, "worst": worst, "hundreds": hundreds}


def departure(record: dict[str, str]) -> Departure:
    delay = record["delay_min"]
    return Departure(record["carrier"], record["dest"], int(delay) if delay else None)


def logs(folder: Path) -> FileSource:
    return FileSource(folder / "logs" / "*.csv", parse=departure)


def make(folder: Path) -> App:
    """Declare the app for the logs in *folder*; what comes out lies in *folder*/out, one file per stream and log."""
    pace: dict[str, Any] = json.loads((folder / "pace.json").read_text())
    app = App(checkpoint_interval_s=0.5)
    app.source("flights", lambda: Paced(logs(folder), start=pace["start"], per_s=pace["per_s"]))
    for name, query in QUERIES.items():
        app.query(name, query())
        app.sink(name, lambda place, name=name: JsonLinesSink(out_path(folder, name, place)))
    return app


def out_path(folder: Path, stream: str, place: Place) -> Path:
    return folder / "out" / f"{stream}-{place.partition.name}.jsonl"


if (FOLDER / "pace.json").exists():
    app = make(FOLDER)
