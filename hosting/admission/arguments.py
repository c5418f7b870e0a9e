"""What an evaluator is given by its user: whether it is what is wanted, said at once and with what to write instead.

These are protocols, so that nothing is checked by Python, and what does not fit would fail in a thread of ours, later.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from io import IOBase
from os import PathLike, fspath
from typing import Any

from reactivex import Observable
from reactivex.abc import ObserverBase

from hosting.edges.retention import Retention
from reliable_rx.errors import TooLate
from reliable_rx.names import check_name
from reliable_rx.operators.contract.arguments import check_function, check_methods, check_number, cut
from reliable_rx.operators.contract.choices import Delivery, check_choice
from reliable_rx.reliable import Sink, Source

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
SINK_METHODS: Mapping[str, tuple[str, ...]] = {
    "open": ("stream",),
    "write": ("first", "values"),
    "end": ("id", "error"),
    "flush": (),
    "close": (),
}
"""What is called of a sink, and with what."""
MAY_BE_ZERO = frozenset(("checkpoint_interval_s", "full_every", "retain_events", "idle_s"))
"""Whose zero means: whenever there is something new, never, none, at once."""


def check_new(kind: str, name: str, *taken: Container[str]) -> str:
    """Return *name*, as text. *Raises* `ValueError` for what is no name, and for one that is *taken*."""
    name = check_name(kind, name)
    if any(name in names for names in taken):
        raise ValueError(
            f"the name {name!r} is taken; sources and queries share one set of names: choose another, or go on with "
            f"what has it (where a cell of a notebook is run again: use what it gave the first time, or begin with a "
            f"new evaluator or app)"
        )
    return name


def check_queries(queries: Any) -> Mapping[str, Any]:
    """Return *queries*. *Raises* `TypeError` if they have no names."""
    if not isinstance(queries, Mapping):
        raise TypeError(
            f"queries are given by name, as in create_many({{'doubled': n.map(double)}}), not {cut(queries)}"
        )
    return queries


def check_store(store: Any) -> None:
    """*Raises* `TypeError` for what is no store."""
    if isinstance(store, (str, PathLike)):
        raise TypeError(f"a store is wanted, got {cut(store)}: give checkpoint.SqliteStore({cut(str(store))})")
    if isinstance(store, type) or not all(hasattr(store, name) for name in ("commit", "journal", "log")):
        raise TypeError(f"a store is wanted, got {cut(store)}: give SqliteStore(directory) or MemoryStore()")


def check_source(name: str, source: Source | Any) -> None:
    """*Raises* `TypeError` for what is no source, and for a `timestamp` that reads no time."""
    if isinstance(source, type) or not (hasattr(source, "partitions") and hasattr(source, "open")):
        what = f"source {name!r} is {cut(source)}, which has no methods `partitions` and `open`"
        raise TypeError(f"{what}: give {source_of(source)}")
    if getattr(source, "timestamp", None) is not None:
        check_function(f"timestamp of source {name!r}", source.timestamp, "value")  # type: ignore[union-attr]


def source_of(what: Any) -> str:
    """Say how *what*, which is no source, becomes one."""
    if isinstance(what, (str, PathLike)):
        return f"FileSource({cut(fspath(what))})"
    if isinstance(what, IOBase):
        return "FileSource(path), which opens the file itself, again after a crash"
    if isinstance(what, Observable):
        return "its name to reliable_rx.source(name), or push into evaluator.push(name) what an observable emits"
    if isinstance(what, type):
        return f"{what.__name__}(...), an instance of it"
    if any(hasattr(what, name) for name in ("to_dict", "to_dicts")) and not hasattr(what, "tolist"):
        rows = "to_dicts()" if hasattr(what, "to_dicts") else "to_dict('records')"
        return f"ListSource(df.{rows})"
    if isinstance(what, Iterator):
        return "ListSource(list(...)) or GeneratorSource(function of an id), as a source is read again after a crash"
    return "ListSource([...])" if isinstance(what, (Iterable, Mapping)) else "one such as FileSource(...)"


def check_sink(stream: str, sink: Sink | Any) -> None:
    """*Raises* `TypeError` for what is no sink, or has methods that cannot be called as a sink's are."""
    if isinstance(sink, type) or not all(hasattr(sink, name) for name in ("open", "write", "flush")):
        if sink is None:
            what = f"the sink of {stream!r} is None: let the function that is to make it return a sink"
            raise TypeError(f"{what}; a function that takes values is wrapped, CallbackSink(function)")
        raise TypeError(
            f"the sink of {stream!r} is {cut(sink)}, which has no `open`, `write`, `flush`: give {sink_of(sink)}"
        )
    check_methods(f"the sink of {stream!r}", sink, SINK_METHODS)


def sink_of(what: Any) -> str:
    """Say how *what*, which is no sink, becomes one."""
    if isinstance(what, (str, PathLike)):
        return f"JsonLinesSink({cut(fspath(what))})"
    if isinstance(what, type) and all(hasattr(what, name) for name in SINK_METHODS):
        return f"{what.__name__}(...), an instance of it"
    if isinstance(what, (ObserverBase, type)) or not callable(what):
        return "one such as CallbackSink(function) or JsonLinesSink(path)"
    return "CallbackSink(function), whose function takes (id, value)"


def check_options(options: Mapping[str, Any]) -> None:
    """Check those options of an evaluator that are in *options*. *Raises* `TypeError` or `ValueError`."""
    if "store" in options:
        check_store(options["store"])
    check_choice("delivery", options.get("delivery", "exactly_once"), Delivery)
    for name in POSITIVE:
        if name in options:
            check_number(name, options[name], least=0 if name in MAY_BE_ZERO else None)
    retention = options.get("retention")
    if not (retention is None or isinstance(retention, Retention)):
        raise TypeError(f"retention must be one such as Retention(streams=100, age_s=3600.0), got {cut(retention)}")
    if "clock" in options:
        check_function("clock (a function that returns seconds)", options["clock"])


def check_before_start(what: str, *, started: bool, closed: bool) -> None:
    """*Raises* `TooLate` for what is declared when nobody will look at it any more."""
    if started or closed:
        state = "is closed" if closed else "has started"
        raise TooLate(
            f"{what} comes too late, since this evaluator {state}: declare it before the start of another one on the "
            f"same store, which goes on where this one was"
        )


def check_outside(lock: AbstractContextManager[None], working: Any) -> None:
    """*Raises* `TooLate` for a loop within a step of itself, which would wait for that step for ever."""
    with lock:  # between two steps, unless this thread is in one
        if working.since is not None:
            raise TooLate(
                "run was called by a sink, an observer or a query of this evaluator, which runs already and waits for "
                "it: let the function return, and what is to follow be done by who has called run"
            )


def check_open(*, closed: bool) -> None:
    """*Raises* `TooLate` for a closed evaluator."""
    if closed:
        raise TooLate("this evaluator is closed: make another one on the same store, which goes on where it was")
