"""What an evaluator is given by its user: whether it is what is wanted, said at once and with what to write instead.

These are protocols, so that nothing is checked by Python, and what does not fit would fail in a thread of ours, later.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from hosting.retention import Retention
from reliable_rx.arguments import check_number, cut
from reliable_rx.errors import TooLate
from reliable_rx.reliable import Sink, Source

DELIVERIES = ("exactly_once", "at_least_once")
POSITIVE = (
    "checkpoint_interval_s",
    "checkpoint_events",
    "full_every",
    "batch_events_max",
    "buffer_events_max",
    "retain_events",
    "idle_s",
)
"""Options of an evaluator that are numbers."""
MAY_BE_ZERO = frozenset(("checkpoint_interval_s", "full_every", "retain_events", "idle_s"))
"""Whose zero means: whenever there is something new, never, none, at once."""


def check_store(store: Any) -> None:
    """*Raises* `TypeError` for what is no store."""
    if isinstance(store, (str, PathLike)):
        raise TypeError(f"a store is wanted, got {cut(store)}: give checkpoint.SqliteStore({cut(str(store))})")
    if isinstance(store, type) or not all(hasattr(store, name) for name in ("commit", "journal", "log")):
        raise TypeError(f"a store is wanted, got {cut(store)}: give SqliteStore(directory) or MemoryStore()")


def check_source(name: str, source: Source | Any) -> None:
    """*Raises* `TypeError` for what is no source."""
    if isinstance(source, type) or not (hasattr(source, "partitions") and hasattr(source, "open")):
        made = "ListSource([...])" if isinstance(source, (list, tuple, set, range)) else "one such as FileSource(...)"
        raise TypeError(f"source {name!r} is {cut(source)}, which has no methods `partitions` and `open`: give {made}")


def check_sink(stream: str, sink: Sink | Any) -> None:
    """*Raises* `TypeError` for what is no sink."""
    if isinstance(sink, type) or not all(hasattr(sink, name) for name in ("open", "write", "flush")):
        made = "CallbackSink(function)" if callable(sink) else "one such as JsonLinesSink(path)"
        raise TypeError(f"the sink of {stream!r} is {cut(sink)}, which has no `open`, `write`, `flush`: give {made}")


def check_options(options: Mapping[str, Any]) -> None:
    """Check those options of an evaluator that are in *options*. *Raises* `TypeError` or `ValueError`."""
    if "store" in options:
        check_store(options["store"])
    delivery = options.get("delivery", DELIVERIES[0])
    if delivery not in DELIVERIES:
        raise ValueError(f"delivery must be one of {', '.join(DELIVERIES)}, got {cut(delivery)}")
    for name in POSITIVE:
        if name in options:
            check_number(name, options[name], least=0 if name in MAY_BE_ZERO else None)
    retention = options.get("retention")
    if not (retention is None or isinstance(retention, Retention)):
        raise TypeError(f"retention must be one such as Retention(streams=100, age_s=3600.0), got {cut(retention)}")
    if not callable(options.get("clock", check_number)):
        raise TypeError(f"clock must be a function that returns seconds, got {cut(options['clock'])}")


def check_before_start(what: str, *, started: bool, closed: bool) -> None:
    """*Raises* `TooLate` for what is declared when nobody will look at it any more."""
    if started or closed:
        state = "is closed" if closed else "has started"
        raise TooLate(
            f"{what} comes too late, since this evaluator {state}: declare it before the start of another one on the "
            f"same store, which goes on where this one was"
        )


def check_open(*, closed: bool) -> None:
    """*Raises* `TooLate` for a closed evaluator."""
    if closed:
        raise TooLate("this evaluator is closed: make another one on the same store, which goes on where it was")
