"""Inner sequences that have ended, or were left, while the groups and windows that they gave out are read.

What feeds these goes on, as in Rx, un-hosted and hosted, killed and recovered behind every turn; and when nobody reads
them any more, nothing is left of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from edited_world import World
from lanes import crossed

import reliable_rx as rx
from checkpoint.format.codec import decode, encode
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import Snapshot, load
from reliable_rx.errors import QueryRefused
from reliable_rx.runtime.outliving import rows_within, units
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.hosted import run_hosted, run_recovered
from reliable_rx.testing.virtual_time import run_plain, run_rebuilt, run_unhosted

Step = Callable[[Any, Any, Any], Any]
"""What is made of a sequence, by some library's operators and creation functions."""
STREAM, LAST_S = "-0-1-2-3-4-5-6-7-8-9|", 40.0

OPENERS: dict[str, Step] = {
    "windows": lambda o, r, s: s.pipe(o.window_with_count(3)),
    "windows that overlap": lambda o, r, s: s.pipe(o.window_with_count(3, 1)),
    "windows by time": lambda o, r, s: s.pipe(o.window_with_time(4.5)),
    "windows that a timer closes": lambda o, r, s: s.pipe(o.window_when(lambda: r.timer(5.5))),
    "groups": lambda o, r, s: s.pipe(o.group_by(lambda x: x % 3)),
    "groups for a time": lambda o, r, s: s.pipe(
        o.group_by_until(lambda x: x % 3, None, lambda g: g.pipe(o.skip(1))),
    ),
}
STOPPERS: dict[str, Step] = {
    "take": lambda o, r, s: s.pipe(o.take(1)),
    "first": lambda o, r, s: s.pipe(o.first()),
    "two": lambda o, r, s: s.pipe(o.take(2)),
    "take_while": lambda o, r, s: s.pipe(o.take_while_indexed(lambda w, i: i < 1, inclusive=True)),
    "take_until": lambda o, r, s: s.pipe(o.take_until(r.timer(2.5))),
    "no one": lambda o, r, s: s,
}
PLACES: dict[str, Callable[[Any, Any, Any, Callable[[Any], Any]], Any]] = {
    "of groups": lambda o, r, s, part: s.pipe(o.group_by(lambda x: x % 2), o.flat_map(part)),
    "of windows": lambda o, r, s, part: s.pipe(o.window_with_count(5), o.flat_map(part)),
    "of windows in turn": lambda o, r, s, part: s.pipe(o.window_with_count(5), o.concat_map(part)),
    "of the newest window": lambda o, r, s, part: s.pipe(o.window_with_count(5, 2), o.flat_map_latest(part)),
    "of the source": lambda o, r, s, part: s.pipe(o.take(2), o.flat_map(lambda _: part(s))),
    "of the source, left": lambda o, r, s, part: s.pipe(
        o.filter(lambda x: x % 5 == 0), o.flat_map_latest(lambda _: part(s))
    ),
    "of elements of groups": lambda o, r, s, part: s.pipe(
        o.group_by(lambda x: x % 2), o.flat_map(lambda g: g.pipe(o.take(1), o.flat_map(lambda x: part(g))))
    ),
    "of groups in windows": lambda o, r, s, part: s.pipe(
        o.window_with_count(6),
        o.flat_map(lambda w: w.pipe(o.group_by(lambda x: x % 2), o.flat_map(part), o.take(2))),
    ),
    "of what is published": lambda o, r, s, part: s.pipe(
        o.window_with_count(6), o.flat_map(lambda w: w.pipe(o.publish(part)))
    ),
    "of the newest window, which is shared": lambda o, r, s, part: s.pipe(
        o.window_with_count(5, 2), o.flat_map_latest(lambda w: part(w.pipe(o.share())))
    ),
    "of the newest window, shared": lambda o, r, s, part: s.pipe(
        o.window_with_count(5, 2), o.flat_map_latest(lambda w: part(w).pipe(o.share()))
    ),
    "published": lambda o, r, s, part: s.pipe(o.publish(part)),
    "of what is caught": lambda o, r, s, part: s.pipe(
        o.map(lambda x: x if x != 2 else 1 // 0), o.ignore_elements(), o.catch(lambda e, _: part(s))
    ),
}
READS: dict[str, Step] = {
    "lists": lambda o, r, s: s.pipe(o.flat_map(lambda w: o.to_list()(w))),
    "sums": lambda o, r, s: s.pipe(o.flat_map(lambda w: o.scan(lambda t, x: t + x, 0)(w))),
    "lists of windows": lambda o, r, s: s.pipe(
        o.flat_map(lambda w: w.pipe(o.window_with_count(2), o.take(1))), o.flat_map(lambda w: o.to_list()(w))
    ),
}


def found(events: list[Any]) -> list[Any]:
    return [(each.time_s, each.kind, type(each.value) if each.kind == "E" else each.value) for each in events]


def part_of(o: Any, r: Any, stopper: str, opener: str) -> Callable[[Any], Any]:
    return lambda each: STOPPERS[stopper](o, r, OPENERS[opener](o, r, each))


@pytest.mark.parametrize(("place", "opener", "stopper", "read"), crossed(PLACES, OPENERS, STOPPERS, READS))
def test_what_is_read_goes_on(place: str, opener: str, stopper: str, read: str) -> None:
    """Groups and windows are fed for as long as they are read, whatever became of the sequence that gave them out."""

    def build(o: Any, r: Any, source: Any) -> Any:
        return READS[read](o, r, PLACES[place](o, r, source, part_of(o, r, stopper, opener)))

    streams = [parse_marbles(STREAM)]
    wanted = found(run_plain(build, streams, LAST_S))
    for run in (run_unhosted, run_rebuilt, run_hosted, run_recovered):
        assert (run.__name__, found(run(build, streams, LAST_S))) == (run.__name__, wanted)


AGAIN: dict[str, Step] = {
    "repeat": lambda o, r, s: s.pipe(o.take(2), o.repeat(3)),
    "retry": lambda o, r, s: s.pipe(o.take(2), o.concat(r.throw(ValueError("again"))), o.retry(3)),
}


ROWS_OF_THEIR_OWN = ("of the source", "of the source, left", "of what is caught", "of what is published", "published")


@pytest.mark.parametrize(("again", "place", "opener"), crossed(AGAIN, PLACES, OPENERS))
def test_what_gave_something_out_is_subscribed_to_again(again: str, place: str, opener: str) -> None:
    """Its sequences open anew beside those that are read; what opens groups itself has one row, and says so."""

    def build(o: Any, r: Any, source: Any) -> Any:
        given = AGAIN[again](o, r, PLACES[place](o, r, source, part_of(o, r, "take", opener)))
        return READS["lists"](o, r, given)

    streams = [parse_marbles(STREAM)]
    wanted = found(run_plain(build, streams, LAST_S))
    for run in (run_unhosted, run_hosted, run_recovered):
        events = run(build, streams, LAST_S)
        if place in ROWS_OF_THEIR_OWN:
            assert (run.__name__, found(events)) == (run.__name__, wanted)
        else:
            assert (events[-1].kind, type(events[-1].value)) == ("E", QueryRefused)
            assert "subscribed to again while groups or windows" in str(events[-1].value)


def rows_left(world: World) -> list[Any]:
    standing = world.engine.standing["q"]
    return [each.address() for each in (*rows_within(standing), *units(standing))]


@pytest.mark.parametrize(("place", "opener", "stopper"), crossed(PLACES, OPENERS, STOPPERS))
@pytest.mark.parametrize("is_killed", [False, True])
def test_nothing_is_left_of_what_is_read_no_more(place: str, opener: str, stopper: str, is_killed: bool) -> None:
    """With the last reader goes the row of the sequence that gave it something to read, and with that those around."""
    o, world = rx.operators, World()
    given = PLACES[place](o, rx, rx.source("a"), part_of(o, rx, stopper, opener))
    world.create(given.pipe(o.flat_map(lambda each: each.pipe(o.take(1))), o.take_until(rx.source("b"))))
    for number in range(10):
        world.take(("a", number))
        if is_killed:
            world.restart()
    world.take(("b", 0))
    assert world.engine.standing["q"].status == "completed"
    assert (rows_left(world), world.engine.standing["q"].active) == ([], 0)


def written_in_slices(world: World, size: int, turn: Any) -> tuple[list[Any], QueryEngine]:
    """Return what *turn* emits, taken when *size* rows of a snapshot are written, and what comes of that snapshot."""
    snapshot = Snapshot(world.engine, full=True)
    snapshot.write_some(size)
    found = world.take(turn)
    while not snapshot.write_some(1):
        pass
    engine = QueryEngine()
    load(engine, snapshot.chunks(), decode(encode(snapshot.header)))
    return found, engine


@pytest.mark.parametrize(("opener", "read"), crossed(OPENERS, READS))
@pytest.mark.parametrize("at", [1, 4])
def test_a_snapshot_that_is_at_work_has_what_is_left_meanwhile(at: int, opener: str, read: str) -> None:
    """Wherever its slices are cut, a kill behind it changes nothing of what comes."""
    part = part_of(rx.operators, rx, "no one", opener)
    other = rx.source("c").flat_map(lambda x: rx.timer(99.0).map(lambda _: part(rx.of(x)))).merge_all()
    query = READS[read](rx.operators, rx, other.merge(rx.source("b").switch_map(lambda _: part(rx.source("a")))))
    size, left = 1, 2
    while size <= left:
        world = World()
        world.create(query)
        for step in [("c", 1), ("c", 2), ("b", 0), *(("a", number) for number in range(at))]:
            world.take(step)
        left, counts = len(rows_left(world)) + 1, world.counts.copy()
        found, engine = written_in_slices(world, size, ("b", 1))
        steps = [("a", number) for number in range(at, 10)]
        found += [value for step in steps for value in world.take(step)]
        world.engine, world.counts = engine, counts
        assert (size, [value for step in (("b", 1), *steps) for value in world.take(step)]) == (size, found)
        size += 1


def raises(_: Any = None) -> Any:
    raise ValueError("it fails")


@pytest.mark.parametrize("is_killed", [False, True])
def test_one_that_is_given_up_leaves_the_next_one_of_its_operator_be(is_killed: bool) -> None:
    """A policy that goes on without the event gives the row up in silence, and who reads its windows with it."""
    world = World()

    def part(group: Any) -> Any:
        if group.key:
            return group.window_with_count(3)
        return rx.concat(group.take(2), rx.defer(raises)).window_with_count(3).take(1)

    query = rx.source("a").group_by(lambda x: x % 3).concat_map(part).flat_map(lambda window: window.to_list())
    world.engine.take(world.engine.creation("q", query, time=0.0, policy="skip"))
    found = list[Any]()
    for value in (0, 1, 2, 3, 4, 5, None):  # the group of 1 is read, that of 2 waits for its end
        found += world.take(("a", value))
        if is_killed:
            world.restart()
    standing = world.engine.standing["q"]
    assert (found, standing.status, standing.skipped, rows_left(world)) == ([[1, 4], []], "completed", 1, [])
