"""A process that hosts healthy queries beside hostile ones, until its sources end or it is killed.

It is given its folder and a seed, by which the hostile ones are drawn: what they emit, raise and keep, by which keys
and times they go, what the lines of a file hold and by which times and keys they are read, and what a sink raises. Each
query may be refused when it is created; then it is left out. At the end it says for each hostile query how it fared.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from hostile_world import STATES

import reliable_rx as rx
from checkpoint import SqliteStore
from hosting import CallbackSink, FileSource, GeneratorSource, JsonLinesSink, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import ValueRefused
from reliable_rx.testing.faults import arm_from_environment
from reliable_rx.testing.hostile import ACCUMULATORS, ERRORS, RECORDS, STORABLE, VALUES, Becomes, Emits, Raises
from reliable_rx.testing.steps import add, third

EVENTS = 2_000
EVERY = 40
HOSTILE = 8
LINES = 400
LARGE = ("long", "deep", "a range")
VALUE_NAMES = [each.name for each in VALUES if each.name not in LARGE]
ERROR_NAMES = [each.name for each in ERRORS if each.name != "long"]
STABLE = {each.name for each in (*VALUES, *ERRORS, *ACCUMULATORS) if each.kind == STORABLE}
"""Those of which nothing depends on when a checkpoint or a start happens."""
POLICIES = ("fail", "skip", "dead_letter")
N: Any = rx.source("n")
HEALTHY: dict[str, Any] = {
    "sum": N.pipe(ops.scan(add, 0)),
    "groups": N.pipe(ops.group_by(third), ops.flat_map(lambda group: group.pipe(ops.scan(add, 0)))),
    "windows": N.pipe(ops.window_with_count(7), ops.flat_map(lambda window: window.pipe(ops.sum()))),
    "over": rx.source("sum").pipe(ops.pairwise(), ops.map(lambda pair: pair[1] - pair[0])),
}


def time_of(function: Any, value: Any) -> float:
    """Return a time that a hostile function may spoil."""
    return function(value) * 1.0  # type: ignore[no-any-return]


def inner_of(function: Any, value: Any) -> Any:
    return rx.of(function(value), value)


def raising(function: Any, value: Any) -> bool:
    function(value)
    return True


PLACES: dict[str, Callable[[Any], Any]] = {
    "a key of groups": lambda f: N.pipe(ops.group_by(f), ops.flat_map(lambda group: group.pipe(ops.count()))),
    "a routing key": lambda f: N.where_key(f, 3).pipe(ops.scan(add, 0)),
    "a key of distinct": lambda f: N.pipe(ops.distinct(f), ops.count()),
    "a selector": lambda f: N.pipe(ops.flat_map(partial(inner_of, f)), ops.count()),
    "a predicate": lambda f: N.pipe(ops.filter(partial(raising, f)), ops.pairwise()),
    "an effect": lambda f: N.pipe(ops.do_action(f), ops.count()),
}


def drawn_function(draw: random.Random) -> tuple[Any, str]:
    """Return a hostile function, and the name of what it emits or raises."""
    name = draw.choice(VALUE_NAMES if draw.random() < 0.6 else ERROR_NAMES)
    return Emits(name, EVERY, 4) if name in VALUE_NAMES else Raises(name, EVERY, 4), name


def drawn(draw: random.Random) -> tuple[Any, dict[str, Any], bool]:
    """Return a hostile query, its options, and whether it fares the same however often it is interrupted."""
    function, name = drawn_function(draw)
    options: dict[str, Any] = {"policy": draw.choice(POLICIES)}
    kind = draw.random()
    if kind < 0.3:
        query = PLACES[draw.choice(sorted(PLACES))](function)
    elif kind < 0.45:
        query = N.pipe(ops.scan(add, 0))
        options["clock"] = rx.event_time(partial(time_of, function), lateness_s=5.0, late=draw.choice(["drop", "side"]))
    elif kind < 0.6 and name in VALUE_NAMES:
        query = STATES[draw.choice(sorted(STATES))](N.pipe(ops.scan(Becomes(name, EVERY, 4), 0)))
    else:
        query = STATES[draw.choice(sorted(STATES))](N.pipe(ops.map(function)))
    return query, options, name in STABLE


def refuses(error: str, n: int, value: Any) -> None:
    """A sink's function that raises for some values."""
    if n % 50 == 7:
        raise ValueRefused("a hostile sink") if error == "refused" else RuntimeError("a hostile sink")


def line_time(function: Any, value: Any) -> Any:
    """Return the time of a line that a hostile function may spoil."""
    return function(value) if type(value) is int else 0.0


def line_key(function: Any, value: Any) -> str:
    """Return a partition's name that a hostile function may spoil."""
    return str(function(value) % 3 if type(value) is int else function)


def lines(folder: Path, seed: int) -> Path:
    """Write the file once: good numbers with hostile records between them."""
    draw = random.Random(seed)
    path = folder / "lines.jsonl"
    if not path.exists():
        records = [each for each in RECORDS if len(each) < 30_000 and b"\n" not in each]
        rows = [draw.choice(records) if n and draw.random() < 0.2 else b"%d" % n for n in range(LINES)]
        beside = path.with_suffix(".tmp")
        beside.write_bytes(b"".join(row + b"\n" for row in rows))
        beside.rename(path)
    return path


def evaluator_in(folder: Path, store: SqliteStore, seed: int) -> tuple[QueryEvaluator, list[str]]:
    draw = random.Random(seed)
    evaluator = QueryEvaluator(
        store, checkpoint_interval_s=0.02, checkpoint_events=200, batch_events_max=20, full_every=4, retain_events=10
    )
    evaluator.source("n", GeneratorSource(lambda i, _: i, count=EVENTS, timestamp=float))
    timed, keyed = (drawn_function(draw)[0] for _ in range(2))
    path, bad = lines(folder, seed), "dead_letter"
    evaluator.source("lines", FileSource(path, timestamp=partial(line_time, timed), on_bad_record=bad))
    by_key = partial(line_key, keyed)
    evaluator.source("keyed", FileSource(path, partition_by=by_key, partitions=["0", "1", "2"], on_bad_record=bad))
    for name, query in HEALTHY.items():
        evaluator.create(name, query)
        evaluator.sink(name, JsonLinesSink(folder / f"{name}.jsonl"))
    evaluator.create("good lines", rx.source("lines").filter(lambda value: type(value) is int))
    evaluator.sink("good lines", JsonLinesSink(folder / "lines.out.jsonl"))
    evaluator.create("good keys", rx.source("keyed"))
    evaluator.sink("good keys", JsonLinesSink(folder / "keyed.out.jsonl"))
    evaluator.sink("sum", CallbackSink(partial(refuses, draw.choice(["refused", "else"]))), on_error="skip")
    stable: list[str] = []
    for number in range(HOSTILE):
        query, options, is_stable = drawn(draw)
        name = f"hostile {number}"
        try:
            evaluator.create(name, query, **options)
        except (rx.QueryRefused, TypeError):
            continue
        stable += [name] if is_stable else []
    return evaluator, stable


def fared(evaluator: QueryEvaluator, name: str) -> list[Any]:
    found = evaluator.query(name)
    return [found.status, found.emitted, found.skipped]


def main(folder: Path, seed: int) -> None:
    arm_from_environment()
    with SqliteStore(folder / "store") as store:
        evaluator, stable = evaluator_in(folder, store, seed)
        with evaluator:
            evaluator.run()
            said = json.dumps({name: fared(evaluator, name) for name in stable}, default=str)
            os.write(1, f"fared {said}\n".encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
