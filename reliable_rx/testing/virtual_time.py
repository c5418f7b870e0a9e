"""Running a query in virtual time: hot sources play what they are told, and what comes out is recorded with its time.

A *build* is a function ``build(ops, rx, *sources)`` that returns a query; it is given plain `reactivex` or
`reliable_rx`, so that one text runs on both. A *runner* plays timed streams into a build and returns what came out. The
runners here are un-hosted; whoever hosts queries adds his own to `RUNNERS` and is held to the same.

Time is moved with ``advance_to`` only: ``VirtualTimeScheduler.start`` of RxPY 6.1 adds a second to the clock after a
hundred simultaneous actions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import reactivex
from reactivex import operators as plain_operators
from reactivex.scheduler import VirtualTimeScheduler
from reactivex.subject import Subject

import reliable_rx
from reliable_rx import operators
from reliable_rx.testing.marbles import COMPLETED, ERROR, NEXT, RAISED, Drawing, Timed, draw_columns, parse_marbles
from reliable_rx.testing.openings import MomentScheduler, opening_in_moments
from reliable_rx.unhosted.subscribing import rebuild_state

Build = Callable[..., reactivex.Observable[Any]]
Streams = Sequence[Sequence[Timed]]
Runner = Callable[[Build, Streams, float], list[Timed]]


def run_plain(build: Build, streams: Streams, until_s: float, *, patience: int = 0) -> list[Timed]:
    """Play *streams* into *build* on plain `reactivex` and record what comes out: the reference.

    Groups and windows open as those of a host do (`reliable_rx.testing.openings`).
    Notifications of one time come together, or with *patience* each when those before it have had their effects, if
    these are not more than so many actions deep.

    >>> from reliable_rx.testing import draw_marbles, parse_marbles
    >>> doubled = run_plain(lambda ops, rx, s: s.pipe(ops.map(lambda n: n * 2)), [parse_marbles("-1-2|")], 9)
    >>> draw_marbles(doubled)
    '-2-4|'
    """
    clock = MomentScheduler()
    with opening_in_moments(clock):
        return _play(lambda *sources: build(plain_operators, reactivex, *sources), streams, until_s, patience, clock)


def run_unhosted(build: Build, streams: Streams, until_s: float) -> list[Timed]:
    """The same on `reliable_rx`, un-hosted."""
    return _play(lambda *sources: build(operators, reliable_rx, *sources), streams, until_s)


def run_rebuilt(build: Build, streams: Streams, until_s: float) -> list[Timed]:
    """The same, with every state put through bytes after every notification."""
    with rebuild_state(True):
        return run_unhosted(build, streams, until_s)


RUNNERS: dict[str, Runner] = {"un-hosted": run_unhosted, "rebuilt from bytes": run_rebuilt}
"""Who is held to the reference by `check_operator`."""


def _play(
    build: Callable[..., reactivex.Observable[Any]],
    streams: Streams,
    until_s: float,
    patience: int = 0,
    clock: VirtualTimeScheduler | None = None,
) -> list[Timed]:
    clock = MomentScheduler() if clock is None else clock
    record: list[Timed] = []

    def note(kind: str) -> Callable[..., None]:
        return lambda value=None: record.append(Timed(clock.to_seconds(clock.now), kind, value))

    try:
        build(*hot_sources(clock, streams, patience)).subscribe(
            note(NEXT), note(ERROR), note(COMPLETED), scheduler=clock
        )
        clock.advance_to(until_s)
    except Exception as error:
        note(RAISED)(error)
    return record


def diagram(build: Callable[..., Any], *streams: str, until_s: float = 30.0, values: Any = None) -> Drawing:
    """Draw the marble diagram of an operator: its inputs as they are written, and below them what came out.

    *build* is an operator, or a function of as many observables as there are streams.

    >>> import reliable_rx as rx
    >>> diagram(rx.operators.buffer_with_count(2), "-1-2-3-|")
    -1-2------3-|
    ---[1, 2]---([3] |)
    """
    inputs = [parse_marbles(text, values=values) for text in streams]
    output = _play(build, inputs, until_s)
    return Drawing("\n".join(draw_columns([*inputs, output])))


def hot_sources(clock: VirtualTimeScheduler, streams: Streams, patience: int = 0) -> list[Subject[Any]]:
    """Return subjects that *clock* will make play *streams*: at one time, before any timer, the first stream first."""
    subjects: list[Subject[Any]] = [Subject() for _ in streams]
    together = Counter[float]()
    for subject, stream in zip(subjects, streams, strict=True):
        for each in stream:
            together[each.time_s] += patience
            clock.schedule_absolute(each.time_s, _push(subject, each, together[each.time_s]))
    return subjects


def _push(subject: Subject[Any], each: Timed, waits: int) -> Callable[..., None]:
    def action(scheduler: Any, state: Any = None) -> None:
        if waits:
            scheduler.schedule(_push(subject, each, waits - 1))
        elif isinstance(scheduler, MomentScheduler):
            scheduler.moment(push, lambda: True)
        else:
            push()

    def push() -> None:
        if each.kind == NEXT:
            subject.on_next(each.value)
        elif each.kind == ERROR:
            subject.on_error(each.value)
        else:
            subject.on_completed()

    return action
