"""Whatever one query does, emits, raises or keeps: the others lose nothing, double nothing, and the store opens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import product
from typing import Any

import pytest
from hostile_world import CLOSE, CRASH, FULL, KILL, STATES, HostileWorld, Life
from lanes import NIGHTLY, at_each_commit, at_every_commit, crossed, every, of_lane

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from reliable_rx.testing.hostile import ACCUMULATORS, FICKLE, FUNCTIONS, VALUES, Emits, Hostile, Raises
from reliable_rx.testing.steps import add, third

LIVES = (Life(4, KILL), Life(3, CRASH), Life(2, KILL), Life(5, FULL), Life(3, CLOSE))

FAST = (
    "an odd proxy",
    "NaN",
    "never stored",
    "Refused",
    "SystemExit",
    "FixedError",
)
COMMITS = (
    *FAST,
    "a surrogate",
    "never read",
    "a lock",
    "lazily a dict",
    "ClasslessError",
    "grows",
    "leaves when read",
    "of a class without hash",
    "NeverAskedError",
    "led by odd ones",
)
"""What each commit has."""


def sampled(draws: Sequence[Hostile]) -> list[Any]:
    """Leave most of them to the lane of commits."""
    return of_lane(
        each if each.name.endswith(FAST) else (at_every_commit if each.name.endswith(COMMITS) else at_each_commit)(each)
        for each in draws
    )


def sampled_with(draws: Sequence[Hostile], *axes: Sequence[Any]) -> list[Any]:
    """Return *draws* with the values of *axes*, of which the fast lane crosses its sample."""
    fast, commits = (_covering(draws, names, axes) for names in (FAST, COMMITS))
    rows = (
        row if row in fast else (at_every_commit if row in commits else at_each_commit)(*row)
        for row in product(draws, *axes)
    )
    return of_lane(rows, nightly=2 * NIGHTLY)


def _covering(draws: Sequence[Hostile], names: tuple[str, ...], axes: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    own = [[each for each in draws if each.name.endswith(names)], *axes]
    return [tuple(axis[number % len(axis)] for axis in own) for number in range(max(map(len, own)))]


def played(query: Any, **options: Any) -> None:
    """Host *query* among the others through some lives; one that is refused when it is created harms nobody."""
    world = HostileWorld(query, **options)
    try:
        world.live(LIVES[0])
    except QueryRefused:
        return
    for life in LIVES[1:]:
        world.live(life)
    world.finish()


@pytest.mark.parametrize("function, policy", sampled_with(FUNCTIONS, ["fail", "skip", "dead_letter"]), ids=str)
def test_functions(function: Hostile, policy: str) -> None:
    """A function that emits or raises what is hostile."""
    played(rx.source("n").pipe(ops.map(function.make())), policy=policy)


@pytest.mark.parametrize("accumulator", sampled(ACCUMULATORS), ids=repr)
def test_accumulators(accumulator: Hostile) -> None:
    """A state that is hostile, or changed in its place."""
    accumulate, seed = accumulator.make()
    played(rx.source("n").pipe(ops.scan(accumulate, seed)))
    played(rx.source("n").pipe(ops.scan(accumulate, seed), ops.count()))


@pytest.mark.parametrize("value, state", sampled_with(VALUES, list(STATES)), ids=str)
def test_states(value: Hostile, state: str) -> None:
    """A hostile value in the state of every kind of operator."""
    played(STATES[state](rx.source("n").pipe(ops.map(Emits(value.name)))))


def raising(function: Any) -> Any:
    return lambda *values: (function(values[-1]), True)[1]


PLACES: dict[str, Callable[[Any, Any], Any]] = {
    "a predicate": lambda q, f: q.filter(raising(f)),
    "take_while": lambda q, f: q.pipe(ops.take_while(raising(f))),
    "a key mapper of groups": lambda q, f: q.pipe(ops.group_by(f), ops.flat_map(lambda g: g.pipe(ops.count()))),
    "a routing key": lambda q, f: q.where_key(f, 3),
    "a key of distinct": lambda q, f: q.pipe(ops.distinct(f)),
    "a comparer": lambda q, f: q.pipe(ops.distinct_until_changed(comparer=lambda a, b: bool(f(b)) and False)),
    "a comparer of min": lambda q, f: q.pipe(ops.min(lambda a, b: f(b) - f(a))),
    "an accumulator": lambda q, f: q.pipe(ops.reduce(lambda total, n: total + f(n), 0)),
    "a selector": lambda q, f: q.pipe(ops.flat_map(lambda n: rx.of(f(n)))),
    "a selector of timers": lambda q, f: q.pipe(ops.flat_map(lambda n: rx.timer(1.0).pipe(ops.map(lambda _: f(n))))),
    "a handler": lambda q, f: q.pipe(ops.map(raise_at_three), ops.catch(lambda e, source: rx.of(f(4)))),
    "a factory": lambda q, f: q.pipe(ops.flat_map(lambda n: rx.defer(lambda _: rx.of(f(n))))),
    "an effect": lambda q, f: q.pipe(ops.do_action(f)),
    "an effect at the end": lambda q, f: q.pipe(ops.take(3), ops.finally_action(lambda: f(4))),
    "a duration": lambda q, f: q.pipe(
        ops.group_by_until(third, None, lambda g: rx.timer(f(4))), ops.flat_map(ops.count())
    ),
    "a delay": lambda q, f: q.pipe(ops.delay_with_mapper(lambda n: rx.timer(float(f(n))))),
    "boundaries": lambda q, f: q.pipe(ops.buffer_when(lambda: rx.timer(float(f(4))))),
    "a key of a dict": lambda q, f: q.pipe(ops.to_dict(f)),
    "pairs": lambda q, f: q.pipe(ops.zip(q), ops.starmap(lambda a, b: f(a))),
    "expansion": lambda q, f: q.pipe(ops.expand(lambda n: rx.empty() if f(n) > 3 else rx.of(n + 1)), ops.take(50)),
    "behind retries": lambda q, f: q.pipe(ops.map(f), ops.retry(2)),
    "behind materialize": lambda q, f: q.pipe(ops.map(f), ops.materialize(), ops.to_list()),
    "behind share": lambda q, f: q.pipe(ops.map(f), ops.share(), ops.count()),
    "a switch": lambda q, f: q.pipe(ops.map(lambda n: rx.of(n).pipe(ops.map(f))), ops.switch_latest()),
}
KINDS = ("Refused", "SystemExit", "KeyboardInterrupt", "Wordless", "RecursionError", "StopIteration")


def raise_at_three(n: int) -> int:
    if n == 3:
        raise ValueError(n)
    return n


@pytest.mark.parametrize("place, kind, policy", crossed(PLACES, KINDS, ["fail", "dead_letter"], nth=3))
def test_places(place: str, kind: str, policy: str) -> None:
    """A function that raises anything, wherever a query may have one."""
    played(PLACES[place](rx.source("n"), Raises(kind)), policy=policy)


@pytest.mark.parametrize(
    "value", every(2, ["never hashed", "never equal", "never stored", "never read", "a set", "a cycle"])
)
def test_keys(value: str) -> None:
    """Keys that cannot be hashed, compared or stored, of routes and of groups."""
    for query in (
        rx.source("n").where_key(Emits(value), 3),
        rx.source("n").pipe(ops.group_by(Emits(value)), ops.flat_map(lambda group: group.pipe(ops.scan(add, 0)))),
        rx.source("n").pipe(ops.group_by(Emits(value)), ops.map(lambda group: group.key)),
    ):
        played(query)


@pytest.mark.parametrize("value", sampled(VALUES), ids=repr)
def test_routing_keys(value: Hostile) -> None:
    """A routing key that cannot be used is refused when the query is created."""
    world = HostileWorld(rx.source("n"))
    try:
        world.hostile = rx.source("n").where_key(third, value.make())
        world.live(Life(3, KILL))
    except (QueryRefused, TypeError, ArithmeticError, KeyboardInterrupt):  # the latter three when it is written
        world.hostile = rx.source("n")
    world.live(Life(3, CRASH))
    world.finish()


@pytest.mark.parametrize("kind", [*map(at_each_commit, KINDS)])
def test_clocks(kind: str) -> None:
    """A time that cannot be read, by a query on event time."""
    for late in ("drop", "keep", "side"):
        for policy in ("fail", "skip", "dead_letter"):
            played(rx.source("n").pipe(ops.scan(add, 0)), policy=policy, clock=rx.event_time(Raises(kind), late=late))


@pytest.mark.parametrize(
    "function, dealt", sampled_with(FUNCTIONS, [("drop", "fail"), ("keep", "skip"), ("side", "dead_letter")]), ids=str
)
def test_times(function: Hostile, dealt: Any) -> None:
    """A function that says or raises what is no time, or far away, as the clock of a query."""
    late, policy = dealt
    clock: Any = None
    with suppress(TypeError):  # a function that can be none, where it is written
        clock = rx.event_time(function.make(), late=late, lateness_s=0.0)
    played(rx.source("n").pipe(ops.timestamp(), ops.buffer_with_time(2.0)), policy=policy, clock=clock)


@pytest.mark.parametrize("function", every(4, FICKLE), ids=repr)
def test_times_that_change(function: Hostile) -> None:
    """A function that is another one whenever it is called again: what it spoils is its own query."""
    clock = rx.event_time(function.make(), late="side", lateness_s=0.0)
    played(rx.source("n").pipe(ops.scan(add, 0)), policy="dead_letter", clock=clock, is_pure=False, strict=False)


@pytest.mark.parametrize("value", sampled(VALUES), ids=repr)
def test_values_that_wait(value: Hostile) -> None:
    """Hostile values that wait for a clock, and late ones."""
    clock = rx.event_time(time_of, lateness_s=5.0, late="side")
    played(rx.source("made").pipe(ops.pairwise()), clock=clock, made=value.make)


def time_of(n: Any) -> float:
    return float(n) if type(n) is int else 3.0
