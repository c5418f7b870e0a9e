"""Operators that share one subscription to their source among several readers.

Un-hosted they are RxPY's own subjects and counters: who subscribes, and when, is the application's affair. Hosted, a
shared part is a *hub* (`reliable_rx.runtime.hub`): what it remembers is state, and it runs while somebody reads it. It
belongs to the standing query in whose plan, or in whose selectors' closures, it occurs; one that a selector makes anew
belongs to the inner sequence it was made for. To share between standing queries, create one of them under a name and
let the others read ``source(name)``.

Rejected: `connect()` in a hosted query. Nobody is there to call it, and a crash would have to call it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast, overload

from reactivex import ConnectableObservable, Observable, abc
from reactivex import operators as plain
from reactivex.typing import RelativeTime

from reliable_rx.operators.contract.operator import Operator
from reliable_rx.operators.hubs import (
    CLOCK,
    CUSTOM,
    Connectable,
    Direct,
    Selected,
    Share,
    connectable,
    counted,
    kind_of,
    selecting,
)
from reliable_rx.query.query import Node, PlainOperator, Query, as_query

A = TypeVar("A", bound=Any)
B = TypeVar("B")

_plain_multicast = plain.multicast
_plain_ref_count = plain.ref_count


def share() -> Callable[[Observable[A]], Query[A]]:
    """Share one subscription to the source among all readers, for as long as there are any.

    >>> from reliable_rx.testing import diagram
    >>> def sum_and_last(source):
    ...     shared = source.pipe(share())
    ...     return shared.pipe(plain.map(lambda x: x * 10), plain.merge(shared.pipe(plain.last())))
    >>> diagram(sum_and_last, "-1-2-|")
    -1--2--|
    -10-20-(2 |)

    Hosted, a shared part is one part of the standing query however often it is used there, also in selectors, and its
    state is kept once.

    *State*: whether and how the source has ended.
    """
    return lambda source: counted(Share(), source)


def ref_count() -> Callable[[ConnectableObservable[A]], Query[A]]:
    """Connect a connectable sequence with its first reader, and disconnect it with its last.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(publish_value(0), ref_count()), "--1-2-|")
    --1-2-|
    0-1-2-|

    The same operator may be applied to several sequences, each with a count of its own (in RxPY the second never
    connects).

    *State*: that of what stands before it.
    """

    def apply(source: ConnectableObservable[A]) -> Query[A]:
        live = _plain_ref_count()(source)
        if not isinstance(source, Connectable):
            return as_query(live)
        op: Operator = (
            PlainOperator("multicast", lambda *_: live, CUSTOM) if source.kind is None else source.kind.anew()
        )
        op.__dict__["live"] = live
        return Direct(Node(op, source.node.inputs))

    return apply


@overload
def publish() -> Callable[[Observable[A]], Connectable[A]]: ...
@overload
def publish(mapper: Callable[[Observable[A]], Observable[B]]) -> Callable[[Observable[A]], Query[B]]: ...
def publish(mapper: Callable[[Observable[Any]], Observable[Any]] | None = None) -> Any:
    """Share the source within *mapper*, or make a connectable sequence of it.

    >>> from reliable_rx.testing import diagram
    >>> diagram(publish(lambda xs: plain.zip(xs.pipe(plain.skip(1)))(xs)), "-1-2-3-|")
    -1-2------3------|
    ---(1, 2)-(2, 3)-|

    Without *mapper*, put `ref_count` behind it in a hosted query: there is nobody to call ``connect()``.

    *State*: whether and how the source has ended, and the row of what *mapper* made.
    *Raises* `QueryRefused` when it is hosted without *mapper* and without `ref_count`.
    """
    return connectable(Share()) if mapper is None else selecting(Selected(mapper=mapper))


@overload
def publish_value(initial_value: A) -> Callable[[Observable[A]], Connectable[A]]: ...
@overload
def publish_value(
    initial_value: A, mapper: Callable[[Observable[A]], Observable[B]]
) -> Callable[[Observable[A]], Query[B]]: ...
def publish_value(initial_value: Any, mapper: Callable[[Observable[Any]], Observable[Any]] | None = None) -> Any:
    """Share the source as `publish` does, and greet each reader with the last element, or with *initial_value*.

    >>> from reliable_rx.testing import diagram
    >>> diagram(publish_value(0, lambda xs: xs.pipe(plain.scan(lambda a, x: a + x))), "--1-2-|")
    --1-2-|
    0-1-3-|

    Un-hosted, each sequence it is applied to has a last element of its own (RxPY makes one for the operator).

    *State*: the last element, and whether and how the source has ended.
    *Raises* `QueryRefused` when it is hosted without *mapper* and without `ref_count`.
    """
    if mapper is None:
        return connectable(Share("latest", initial_value))
    return selecting(Selected("latest", initial_value, mapper=mapper))


@overload
def replay(
    buffer_size: int | None = None, window: RelativeTime | None = None, *, scheduler: abc.SchedulerBase | None = None
) -> Callable[[Observable[A]], Connectable[A]]: ...
@overload
def replay(
    buffer_size: int | None = None,
    window: RelativeTime | None = None,
    *,
    mapper: Callable[[Observable[A]], Observable[B]] | None,
    scheduler: abc.SchedulerBase | None = None,
) -> Callable[[Observable[A]], Query[B]]: ...
def replay(
    buffer_size: int | None = None,
    window: RelativeTime | None = None,
    *,
    mapper: Callable[[Observable[Any]], Observable[Any]] | None = None,
    scheduler: abc.SchedulerBase | None = None,
) -> Any:
    """Share the source as `publish` does, and greet each reader with the last *buffer_size* elements.

    >>> from reliable_rx.testing import diagram
    >>> diagram(replay(1, mapper=lambda xs: xs.pipe(plain.take(2), plain.concat(xs))), "-1-2-3-|")
    -1-2-----3-|
    -1-(2 2)-3-|

    With *window*, only with what is not older. Hosted, the age is measured by the engine's clock; un-hosted by
    *scheduler*, or else by the wall clock, as in RxPY. Un-hosted, each sequence it is applied to has a buffer of its
    own (RxPY makes one for the operator).

    *State*: those elements with their times, bounded by *buffer_size* or `Limits.queue_items_max`, and whether and
    how the source has ended.
    *Raises* `QueryRefused` when it is hosted without *mapper* and without `ref_count`, or with *scheduler*.
    """
    if mapper is None:
        return connectable(Share("replay", None, buffer_size, window, scheduler))
    return selecting(Selected("replay", None, buffer_size, window, scheduler, mapper=mapper))


@overload
def multicast() -> Callable[[Observable[A]], Connectable[A]]: ...
@overload
def multicast(subject: abc.SubjectBase[A]) -> Callable[[Observable[A]], Connectable[A]]: ...
@overload
def multicast(
    *,
    subject_factory: Callable[[abc.SchedulerBase | None], abc.SubjectBase[A]],
    mapper: Callable[[Observable[A]], Observable[B]] | None = None,
) -> Callable[[Observable[A]], Query[B]]: ...
def multicast(
    subject: abc.SubjectBase[Any] | None = None,
    *,
    subject_factory: Callable[[abc.SchedulerBase | None], abc.SubjectBase[Any]] | None = None,
    mapper: Callable[[Observable[Any]], Observable[Any]] | None = None,
) -> Any:
    """Share the source through a subject: within *mapper*, or as a connectable sequence.

    >>> from reliable_rx.testing import diagram
    >>> from reactivex.subject import Subject
    >>> both = lambda xs: xs.pipe(plain.merge(xs.pipe(plain.map(lambda x: x * 10))))
    >>> diagram(multicast(subject_factory=lambda scheduler: Subject(), mapper=both), "-1-2-|")
    -1------2------|
    -(1 10)-(2 20)-|

    Hosted, *subject* or what *subject_factory* makes must be a fresh `Subject`, `BehaviorSubject` or `ReplaySubject`
    of RxPY; it only says what readers are greeted with.

    *State*: as that of `publish`, `publish_value` or `replay`.
    *Raises* `QueryRefused` when it is hosted with any other subject, or with one that nobody connects.
    """
    if subject_factory is not None:
        return selected_through(subject_factory, mapper)

    def apply(source: Observable[Any]) -> Any:
        if subject is None:
            raise ValueError("multicast: Subject cannot be None")
        return Connectable(source, subject, cast("Share | None", kind_of(subject, Share)))

    return apply


def selected_through(factory: Callable[..., Any], mapper: Any) -> Callable[[Observable[Any]], Query[Any]]:
    """Share within *mapper* through what *factory* makes."""
    try:
        op: Operator | None = kind_of(factory(CLOCK), Selected, mapper=mapper, _factory=factory)
    except Exception:  # it will be raised to whoever subscribes
        op = None
    op = op or PlainOperator("multicast", _plain_multicast(subject_factory=factory, mapper=mapper), CUSTOM)
    return lambda source: counted(op, source)
