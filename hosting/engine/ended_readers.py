"""Queries that get nothing of what comes behind the end of a source: they have ended, or have been told of its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING

from hosting.engine.cycles import name_of
from hosting.engine.editing import is_same
from hosting.engine.event_time.validation import sources_of
from hosting.engine.hosted_query import RUNNING
from reliable_rx.names import query_of

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine


def begins(engine: QueryEngine, name: str) -> bool:
    """Whether a query that has ended is declared as another one."""
    there, turn = engine.standing[name], engine.suspended.declared.get(name)
    return turn is not None and there.status != RUNNING and not is_same(engine, there, turn)


def missing(engine: QueryEngine, source: str) -> list[str]:
    """Name the queries that read *source* and get nothing more of it: they have ended, or have been told of its end."""
    return [*ended_over(engine, source), *went_on(engine, source)]


def ended_over(engine: QueryEngine, source: str) -> list[str]:
    """Name the queries that have ended and read *source*, or streams of such that do, behind those that they read."""
    reading: dict[str, list[str]] = {}
    for name, each in engine.standing.items():
        for read in sources_of(each.plan):
            reading.setdefault(query_of(read), []).append(name)
    found, waiting = set[str](), [source]
    while waiting:
        new = {*reading.get(waiting.pop(), ())} - found
        found |= new
        waiting += new
    ended = [name for name in found if engine.standing[name].status != RUNNING]
    return [*in_reading_order(engine, ended)]


def went_on(engine: QueryEngine, source: str) -> list[str]:
    """Name the queries that run on without *source*, as they have been told of its end."""
    route, marks = engine.routes.get(source), engine.watermarks.by_source.get(source, ())
    reading = {name_of(instance) for instance, _ in route.readers()} if route is not None else set[str]()
    reading |= {clock.standing.name for mark in marks for clock in mark.clocks() if source not in clock.ended}
    running = [(name, each.plan) for name, each in engine.standing.items() if each.status == RUNNING]
    return sorted(name for name, plan in running if name not in reading and source in sources_of(plan))


def in_reading_order(engine: QueryEngine, names: Iterable[str]) -> Iterator[str]:
    """Yield queries behind those that they read, otherwise the older first: the same in a process that begins now."""
    sorter = TopologicalSorter[str]()
    known = sorted(names, key=lambda name: engine.standing[name].born)
    for name in known:
        sorter.add(name)
    for name in known:
        sorter.add(name, *{query_of(each) for each in engine.standing[name].plan.sources}.intersection(known))
    yield from sorter.static_order()
