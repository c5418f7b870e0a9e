"""Operators that leave the query for threads, futures or text: RxPY's own, un-hosted only.

A hosted query is one logical thread in a host's time, and has no end at which somebody waits for a result. What these
are wanted for there is done around the query, and the refusal says how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from reactivex import Observable
from reactivex import operators as plain
from reactivex.abc import SchedulerBase
from reactivex.typing import AnyFuture, RelativeTime

from reliable_rx.errors import QueryRefused
from reliable_rx.query.query import PlainOperator, Query, SourceLeaf, walk

A = TypeVar("A", bound=Any)

_plain_observe_on = plain.observe_on
_plain_subscribe_on = plain.subscribe_on
_plain_to_future = plain.to_future
_plain_to_marbles = plain.to_marbles


def observe_on(scheduler: SchedulerBase) -> Callable[[Observable[A]], Query[A]]:
    """Tell observers on *scheduler*; un-hosted only.

    >>> import reliable_rx as rx
    >>> from reactivex.scheduler import ImmediateScheduler
    >>> rx.of(1, 2).pipe(observe_on(ImmediateScheduler())).run()
    2
    >>> from reliable_rx.testing import diagram
    >>> diagram(observe_on(ImmediateScheduler()), "-1-2-|")
    -1-2-|
    -1-2-|

    *State*: it cannot be saved. Hosted, a query runs on one logical thread; hand its results over in a sink.
    """
    return PlainOperator(
        "observe_on",
        _plain_observe_on(scheduler),
        "the engine runs each query on one logical thread; hand results to other threads from a sink",
    )


def subscribe_on(scheduler: SchedulerBase) -> Callable[[Observable[A]], Query[A]]:
    """Subscribe on *scheduler*; un-hosted only.

    >>> import reliable_rx as rx
    >>> from reactivex.scheduler import ImmediateScheduler
    >>> rx.of(1, 2).pipe(subscribe_on(ImmediateScheduler())).run()
    2
    >>> from reliable_rx.testing import diagram
    >>> diagram(subscribe_on(ImmediateScheduler()), "-1-2-|")
    -1-2-|
    -1-2-|

    *State*: it cannot be saved. Hosted, the evaluator subscribes, on the thread that calls its `run`.
    """
    return PlainOperator(
        "subscribe_on",
        _plain_subscribe_on(scheduler),
        "the evaluator subscribes to sources; call its run() on the thread that shall do it",
    )


def to_marbles(
    timespan: RelativeTime = 0.1, scheduler: SchedulerBase | None = None
) -> Callable[[Observable[Any]], Query[str]]:
    """Draw the sequence in real time and emit the drawing at its end; un-hosted only.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).pipe(to_marbles(60.0)).run()
    '12|'
    >>> from reliable_rx.testing import diagram
    >>> diagram(to_marbles(1.0), "-1-2-|")
    -1-2-|
    -----(-1--2--| |)

    *State*: it cannot be saved. Hosted, record the query's stream; to test a query, `reliable_rx.testing` draws it.
    """
    return PlainOperator(
        "to_marbles",
        _plain_to_marbles(timespan, scheduler),
        "read the query's stream, or draw it in a test with reliable_rx.testing.diagram",
    )


def to_future(future_ctor: Callable[[], AnyFuture[A]] | None = None) -> Callable[[Observable[A]], AnyFuture[A]]:
    """Return a future of the last element; un-hosted only.

    >>> import asyncio
    >>> import reliable_rx as rx
    >>> async def wait():
    ...     return await rx.of(1, 2).pipe(to_future())
    >>> asyncio.run(wait())
    2

    *State*: it cannot be saved. Hosted, a query has a stream, which is read from any place.
    *Raises* `QueryRefused` for a query over named sources.
    """

    def made(source: Observable[A]) -> AnyFuture[A]:
        refuse_sources(source, "to_future")
        return _plain_to_future(future_ctor)(source)  # type: ignore[arg-type]

    return made


def refuse_sources(source: Observable[Any], what: str) -> None:
    """*Raises* `QueryRefused` if *source* reads named sources, which would never give a result here."""
    named = (
        [n.op.source for n in walk(source.node) if isinstance(n.op, SourceLeaf)] if isinstance(source, Query) else []
    )
    if named:
        raise QueryRefused(
            f"{what} waits for the last element, but {named[0]!r} is a source that only a host provides: host the "
            f"query and read its stream (evaluator.stream(name)) or give it a sink, or bind({named[0]}=observable)",
            path=what,
        )
