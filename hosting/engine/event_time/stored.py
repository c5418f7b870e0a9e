"""Event-time clocks in a store: put back, taken over by the functions of today, and taken up after a suspension.

A watermark is stored once for all queries that share it, and the row of a query knows only from where its own clock
counts. The row of a suspended query has the time of its own clock: what had been handed over to it is told by that,
wherever the others are by now. A clock that is taken up again goes to where its watermark is, through all that waited.

Rejected: one watermark out of two that stand at different times (a clock that was edited meanwhile, from milliseconds
to seconds, would carry the queries of others along).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from checkpoint.format.code import OtherCode
from checkpoint.format.codec import decode
from hosting.engine.event_time.reorder import Entry
from hosting.engine.event_time.runtime import EventClock
from hosting.engine.event_time.validation import selects, sources_of
from hosting.engine.event_time.watermark import Mark, Saved, Watermark
from hosting.engine.event_time.watermarks import Watermarks, encoded
from hosting.engine.hosted_query import RUNNING, Standing
from reliable_rx.event_time import EventTime
from reliable_rx.names import query_of

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine

ClockRow = tuple[Any, ...]
"""A query's own clock in a store: its watermark's name, from where it counts, and what it knows of its sources."""


def save(watermarks: Watermarks) -> dict[str, Saved]:
    """Return all watermarks as plain data."""
    return {
        name: (
            encoded(mark.spec), sorted(mark.sources), mark.time,
            [(*key, each.high, each.seen, each.ended) for key, each in mark.marks.items()],
            None if mark.alarm is None or mark.alarm[2] is None else tuple(mark.alarm[:2]), dict(mark.over),
        )
        for name, mark in watermarks.by_name.items()
    }  # fmt: skip


def load(watermarks: Watermarks, saved: dict[str, Saved]) -> None:
    """Put them back, but for those whose functions another interpreter has stored: `take_over` has them."""
    for name, each in saved.items():
        with suppress(OtherCode):
            restore(watermarks, name, decode(each[0]), each)


def restore(watermarks: Watermarks, name: str, spec: EventTime, saved: Saved) -> Watermark:
    _, sources, time, marks, alarm, over = saved
    found = watermarks.make(name, spec, sources)
    found.time, found.over = time, dict(over)
    for source, partition, high, seen, ended in marks:
        found.marks[source, partition] = Mark(high, seen, ended)
    if alarm is not None:
        found.alarm = [*alarm, found, None, None]
        watermarks.engine.timers.push(found.alarm)
    return found


def take_over(
    watermarks: Watermarks, before: Saved, spec: EventTime, sources: frozenset[str], ended: Sequence[str]
) -> str:
    """Let the watermark of *spec* go on where another was saved; return its name.

    One that is there and stands elsewhere, or is of those that have been told other ends than *ended*, is left alone.
    """
    name = watermarks.named(spec, sources)
    name = watermarks.fitting(name, lambda there: stands_at(there, before) and there.is_shared_by(ended))
    if name not in watermarks.by_name:
        _continue(watermarks, name, before, spec, sources)
    return name


def sources_with(engine: QueryEngine, standing: Standing, saved: Saved, spec: EventTime) -> frozenset[str]:
    """Return the sources of a plan, with those of *saved* that its selectors may have named, if still there."""
    sources = sources_of(standing.plan)
    if not any(map(selects, standing.plan.walk())):
        return sources
    known = (engine.live, engine.standing, engine.suspended, engine.suspended.declared)
    there = {each for each in saved[1] if any(name in names for name in (each, query_of(each)) for names in known)}
    return sources | {each for each in there if spec.of(each) is not None}


def stands_at(mark: Watermark, saved: Saved) -> bool:
    """Whether *mark* is as far as *saved* is, in all partitions that both know."""
    highs = [(mark.marks.get((source, partition)), high) for source, partition, high, *_ in saved[3]]
    return mark.time == saved[2] and all(known is None or known.high == high for known, high in highs)


def _continue(watermarks: Watermarks, name: str, before: Saved, spec: EventTime, sources: frozenset[str]) -> Watermark:
    _, _, time, marks, _, over = before
    found = restore(watermarks, name, spec, (b"", sorted(sources), time, marks, None, over))
    found.marks = {key: mark for key, mark in found.marks.items() if key[0] in sources}
    found.over = {source: error for source, error in found.over.items() if source in sources}
    _know(found, sources - set(before[1]))
    found.set_alarm()  # of its own: others may go on with the clock that was saved
    return found


def _know(mark: Watermark, sources: frozenset[str]) -> None:
    for source in sorted(sources):
        for partition in sorted(mark.engine.partitions_of(source)):
            mark.mark(source, partition)


def fill(engine: QueryEngine, standing: Standing, row: ClockRow, clock: EventClock | None = None) -> EventClock:
    """Give *standing* the clock that was saved."""
    clock = clock or EventClock(engine)
    clock.adopt(standing)
    clock.name, clock.floor, clock.begun, clock.late, ended, over, leads = row
    clock.leads = dict(leads)
    clock.clock, clock.ended, clock.over = clock.floor, set(ended), dict(over)
    if standing.status == RUNNING:
        clock.watermark = engine.watermarks.by_name[clock.name]
        clock.spec = clock.watermark.spec
        engine.readers.note(standing.name, clock.watermark.sources)
        clock.clock = max(clock.floor, clock.watermark.time)
        clock.watermark.add(clock)
    return clock


def named_here(standing: Standing, row: ClockRow, spec: EventTime | None) -> ClockRow:
    """Return the row of a clock that has ended under the name that *spec* has here: another Python gave it another."""
    return row if spec is None else (standing.world.watermarks.named(spec, sources_of(standing.plan)), *row[1:])


def at_rest(row: ClockRow | None, saved: Saved | None) -> ClockRow | None:
    """Return the row of a clock with its own time in it: it stands still while its watermark may go on."""
    if row is None or saved is None:
        return row
    name, floor, *rest = row
    return (name, max(floor, saved[2]), *rest)


def take_up(engine: QueryEngine, standing: Standing, row: ClockRow, saved: Saved, spec: EventTime) -> EventClock:
    """Give *standing* the clock that stood still, where it stood; call `go_on` when its state is there.

    Others may have its watermark by now. If nobody has, it goes on from where it was: the silence of partitions
    counts from now on, and sources have ended meanwhile, or have other partitions.
    """
    marks, sources = engine.watermarks, sources_with(engine, standing, saved, spec)
    clock, over = EventClock(engine), marks.ends_of(sources)
    ended = {*over, *row[4]}
    name = marks.fitting(marks.named(spec, sources), lambda there: there.is_shared_by(ended, clock))
    if name not in marks.by_name:
        found = _continue(marks, name, saved, spec, sources)
        for source, partition in found.marks:
            found.marks[source, partition].ended |= partition not in engine.partitions_of(source)
        _know(found, sources.difference(row[4]))
        found.wake(engine.clock)
    marks.by_name[name].over = over
    fill(engine, standing, (name, *row[1:]), clock)
    clock.clock = clock.floor
    return clock


def go_on(clock: EventClock, waiting: Sequence[tuple[int, list[Entry]]]) -> None:
    """Let a clock that is taken up go through *waiting* to where its watermark is, and to the ends of its sources."""
    for number, entries in sorted(waiting, key=itemgetter(0)):
        clock.waiting.load(number, entries, clock.clock)
    clock.waiting.loaded()
    for chunk in clock.waiting.chunks.values():
        chunk.saved = None  # it has no row but in the query's
        clock.engine.touch(chunk)
    mark = clock.watermark
    for source, error in mark.over.items():
        high = max((each.high for (name, _), each in mark.marks.items() if name == source), default=clock.clock)
        clock.end_source(source, high, error)
    clock.catch_up()


def forget_unused(watermarks: Watermarks) -> None:
    """Drop the watermarks of which no query is left: those that had them are suspended, or have not come up."""
    for mark in list(watermarks.by_name.values()):
        if not mark.members:
            watermarks.drop(mark)
