"""The app of the demo: two sources, eight queries, and a file of JSON lines for every stream."""

from __future__ import annotations

from pathlib import Path

from hosting.app import App
from hosting.demo.data import flights_source, weather_source
from hosting.demo.queries import QUERIES
from hosting.sinks import JsonLinesSink


def airport(data: Path, streams: Path) -> App:
    """Declare the demo over the files in *data*; every stream goes to a file in *streams*."""
    app = App(checkpoint_interval_s=1.0)
    app.source("flights", flights_source(data))
    app.source("weather", weather_source(data))
    for name, query in QUERIES.items():
        app.query(name, query())
        app.sink(name, JsonLinesSink(stream_file(streams, name)))
    return app


def stream_file(streams: Path, name: str) -> Path:
    """Return the file that holds the stream *name*."""
    return streams / f"{name}.jsonl"
