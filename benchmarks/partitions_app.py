"""The apps of the node processes that `benchmarks/partitions.py` starts; its settings are in the variable ``BENCH``."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import reliable_rx as rx
from benchmarks.paced import Paced
from hosting import App, CallbackSink, GeneratorSource
from hosting.partitioned.places import Place

SETTINGS: dict[str, Any] = json.loads(os.environ.get("BENCH", "{}"))


def stamped(place: Place) -> CallbackSink:
    """Write the moment of each batch of outputs into a file of this process."""
    path = Path(SETTINGS["out"]) / f"{os.getpid()}.txt"
    file = path.open("a", buffering=1)
    last = [0.0]

    def stamp(n: int, value: object) -> None:
        now = time.time()
        if now - last[0] > 0.001:
            last[0] = now
            file.write(f"{now:.4f} {place.epoch} {n}\n")

    return CallbackSink(stamp)


def keyed() -> App:
    """One partition whose query has *rows* groups: what is to be handed over."""
    rows = SETTINGS["rows"]
    source = GeneratorSource(lambda i, random: i % rows, partitions=1)
    app = App(checkpoint_interval_s=0.5)
    app.source("n", lambda: Paced(source, start=SETTINGS["start"], per_s=500.0, at_once=rows))
    app.query("counts", rx.source("n").group_by(lambda n: n).flat_map(lambda one: one.scan(lambda c, _: c + 1, 0)))
    app.sink("counts", stamped)
    return app


def busy() -> App:
    """Eight partitions that keep a core at work from *start* on."""
    source = GeneratorSource(lambda i, random: i, partitions=8, count=SETTINGS["count"])
    app = App(checkpoint_interval_s=1.0)
    app.source("n", lambda: Paced(source, start=SETTINGS["start"], per_s=1e12))
    chain = rx.source("n").group_by(lambda n: n % 50).flat_map(
        lambda one: one.filter(lambda n: n % 3 > 0).scan(lambda a, b: a + b, 0).map(str)
    )  # fmt: skip
    app.query("sums", chain)
    return app


if SETTINGS:
    app = {"keyed": keyed, "busy": busy}[SETTINGS["app"]]()
