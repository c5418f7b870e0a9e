"""What an evaluator is given by its user: whether it is what is wanted, said at once and with what to write instead.

These are protocols, so that nothing is checked by Python, and what does not fit would fail in a thread of ours, later.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from reliable_rx.arguments import cut
from reliable_rx.errors import TooLate
from reliable_rx.reliable import Sink, Source

POSITIVE = ("checkpoint_interval_s", "checkpoint_events", "full_every", "batch_events_max", "buffer_events_max")
"""Options of an evaluator that are numbers."""
MAY_BE_ZERO = frozenset(("checkpoint_interval_s", "full_every"))
"""Whose zero means: whenever there is something new, and never."""


def check_store(store: Any) -> None:
    """*Raises* `TypeError` for what is no store."""
    if isinstance(store, (str, PathLike)):
        raise TypeError(f"a store is wanted, got {cut(store)}: give checkpoint.SqliteStore({cut(str(store))})")
    if isinstance(store, type) or not all(hasattr(store, name) for name in ("commit", "journal", "log")):
        raise TypeError(f"a store is wanted, got {cut(store)}: give SqliteStore(directory) or MemoryStore()")


def check_source(name: str, source: Source | Any) -> None:
    """*Raises* `TypeError` for what is no source."""
    if isinstance(source, type) or not (hasattr(source, "partitions") and hasattr(source, "open")):
        made = "ListSource([...])" if isinstance(source, (list, tuple, set, range)) else "one such as CsvSource(...)"
        raise TypeError(f"source {name!r} is {cut(source)}, which has no methods `partitions` and `open`: give {made}")


def check_sink(stream: str, sink: Sink | Any) -> None:
    """*Raises* `TypeError` for what is no sink."""
    if isinstance(sink, type) or not all(hasattr(sink, name) for name in ("open", "write", "flush")):
        made = "CallbackSink(function)" if callable(sink) else "one such as JsonLinesSink(path)"
        raise TypeError(f"the sink of {stream!r} is {cut(sink)}, which has no `open`, `write`, `flush`: give {made}")


def check_options(options: Mapping[str, Any]) -> None:
    """*Raises* `TypeError` for a store that is none and an option that is no number, `ValueError` for one that is too
    small."""
    check_store(options["store"])
    for name in POSITIVE:
        value = options[name]
        if not isinstance(value, (int, float)):
            raise TypeError(f"{name} must be a number, got {cut(value)}")
        if not (value >= 0 if name in MAY_BE_ZERO else value > 0):
            raise ValueError(f"{name} must be positive, got {cut(value)}")


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
