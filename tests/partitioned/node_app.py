"""The app of the nodes that tests kill and stop: paced partitions, a file and a table for each of them.

Every node makes it anew, from the environment: ``NODE_FOLDER`` is where everything lies, ``NODE_SCRIPT`` says which
partitions there are, ``NODE_RATE`` how many events a second. They come from the moment on that the file ``begun``
names, and only so many seconds long as it may say. Each record says under which epoch it was written, so that a writer
whose epoch is over is seen.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import reliable_rx as rx
from hosting import App, CallbackSink, GeneratorSource, JsonLinesSink, SqliteTableSink
from hosting.partitioned.places import Place
from hosting.sources import Split
from reliable_rx.testing.faults import arm_from_environment

COUNT = 100
SPLIT_AT = 40
KEYS = 3
CHECKPOINT_EVENTS, BATCH = 20, 7
SCRIPTS: dict[str, list[Any]] = {"split": [Split(partition="0", at=SPLIT_AT, into=("0a", "0b"))]}
PARTITIONS = {"many": 20}

numbers: rx.Query[Any] = rx.source("numbers")
QUERIES: dict[str, Any] = {
    "sums": numbers.group_by(lambda n: n % KEYS).flat_map(lambda group: group.scan(lambda total, n: total + n, 0)),
    "fives": numbers.buffer_with_count(5).map(sum),
    "told": numbers.map(lambda n: n + 1),
}


def source(script: str, *, clock: Callable[[], float] = time.time, rate_per_s: float | None = None) -> GeneratorSource:
    """Make the source; what a partition gives depends on its name and nothing else."""
    return GeneratorSource(
        lambda i, random: i * 100 + random.randrange(100),
        partitions=PARTITIONS.get(script, 3), script=SCRIPTS.get(script, ()), count=COUNT, seed=5,
        clock=clock, rate_per_s=rate_per_s,
    )  # fmt: skip


def make(folder: Path, script: str) -> App:
    app = App(checkpoint_interval_s=0.1, checkpoint_events=CHECKPOINT_EVENTS, batch_events_max=BATCH)
    app.source(
        "numbers", lambda: source(script, clock=since(folder / "begun"), rate_per_s=float(os.environ["NODE_RATE"]))
    )
    for name, query in QUERIES.items():
        app.query(name, query)
    app.sink("sums", lambda place: JsonLinesSink(lines_path(folder, place.partition.name), encode=dated(place)))
    app.sink("fives", lambda place: SqliteTableSink(
        table_path(folder, place.partition.name), "fives", columns={"epoch": lambda _: place.epoch, "sum": lambda s: s}
    ))  # fmt: skip
    app.sink("told", lambda place: CallbackSink(Books(folder, place).note))
    return app


def since(path: Path) -> Callable[[], float]:
    """Make a clock of the seconds since the moment that *path* names, which is nothing before there is such a file.

    A second number there is how far it goes.
    """

    def clock() -> float:
        begun, *most = map(float, path.read_text().split()) if path.exists() else [time.time()]
        return max(0.0, min(time.time() - begun, *most, math.inf))

    return clock


class Books:
    """A sink that knows nothing of what it had: ``id value`` for each, in a file that is only appended to."""

    def __init__(self, folder: Path, place: Place) -> None:
        self._path = told_path(folder, place.partition.name)

    def note(self, n: int, value: Any) -> None:
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{n} {value}\n".encode())
        os.close(file)


def dated(place: Place) -> Any:
    return lambda value: [place.epoch, value]


def lines_path(folder: Path, partition: str) -> Path:
    return folder / "out" / f"{partition}.jsonl"


def told_path(folder: Path, partition: str) -> Path:
    return folder / "out" / f"{partition}.txt"


def table_path(folder: Path, partition: str) -> Path:
    return folder / "out" / f"{partition}.db"


if "NODE_FOLDER" in os.environ:
    arm_from_environment()
    if gate := os.environ.get("NODE_GATE"):
        while not Path(gate).exists():
            time.sleep(0.005)
    app = make(Path(os.environ["NODE_FOLDER"]), os.environ.get("NODE_SCRIPT", ""))
