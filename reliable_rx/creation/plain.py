"""Sequences that begin outside of Rx: callbacks, futures, threads, and marbles that a scheduler plays.

Nobody can replay them, so they run un-hosted only, as RxPY's own. A host refuses them and says what to use: an input
is a named source, into which the application pushes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

import reactivex
from reactivex import Observable
from reactivex.abc import DisposableBase, ObserverBase, SchedulerBase
from reactivex.typing import AnyFuture

from reliable_rx.query.query import Node, PlainOperator, Query

A = TypeVar("A")

plain_create = reactivex.create
plain_from_callable = reactivex.from_callable
plain_from_callback = reactivex.from_callback
plain_from_future = reactivex.from_future
plain_start = reactivex.start
plain_start_async = reactivex.start_async
plain_to_async = reactivex.to_async
plain_from_marbles = reactivex.from_marbles
plain_hot = reactivex.hot

PUSH = "name an input with reliable_rx.source(...) and push what happens outside into it"


def unhosted(name: str, observable: Observable[Any], instead: str = PUSH) -> Query[Any]:
    """Return a query that runs *observable*, and tells a host what to use instead of *name*."""
    return Query(Node(PlainOperator(name, lambda: observable, instead)))


def create(subscribe: Callable[[ObserverBase[A], SchedulerBase | None], DisposableBase]) -> Query[A]:
    """Emit what *subscribe* pushes into the observer it is given; un-hosted only.

    >>> from reactivex.disposable import Disposable
    >>> def greet(observer, scheduler):
    ...     observer.on_next("hello")
    ...     observer.on_completed()
    ...     return Disposable()
    >>> create(greet).run()
    'hello'
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: create(greet))
    (hello |)

    *State*: it cannot be saved. Hosted, name an input with `source` and push what happens outside into it.
    """
    return unhosted("create", plain_create(subscribe))


def from_callable(supplier: Callable[[], A], scheduler: SchedulerBase | None = None) -> Query[A]:
    """Emit what *supplier* returns for each subscription; un-hosted only.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: from_callable(lambda: 1 + 1))
    (2 |)

    A replay would call *supplier* again and may get something else, which is why a host refuses it.

    *State*: it cannot be saved. Hosted, give what it returns to `return_value`; if it returns the same whenever it is
    called, `defer` it.
    """
    instead = (
        "call it yourself and give the result to return_value, or wrap it in defer(lambda _: return_value(f())) if it "
        "returns the same whenever a replay calls it again"
    )
    return unhosted("from_callable", plain_from_callable(supplier, scheduler), instead)


def from_callback(
    func: Callable[..., Callable[..., None]], mapper: Callable[[Any], Any] | None = None
) -> Callable[..., Query[Any]]:
    """Turn a function whose last argument is a callback into one that returns a sequence; un-hosted only.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: from_callback(lambda number, callback: callback(number + 1))(1))
    (2 |)

    *State*: it cannot be saved. Hosted, name an input with `source` and push what happens outside into it.
    """
    make = plain_from_callback(func, mapper)
    return lambda *args: unhosted("from_callback", make(*args))


def from_future(future: AnyFuture[A]) -> Query[A]:
    """Emit the result of *future*; un-hosted only.

    >>> from concurrent.futures import Future
    >>> future = Future(); future.set_result(1)
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: from_future(future))
    (1 |)

    *State*: it cannot be saved. Hosted, `map_async` asks the world outside and remembers its answers.
    """
    return unhosted("from_future", plain_from_future(future))


def start(func: Callable[[], A], scheduler: SchedulerBase | None = None) -> Query[A]:
    """Call *func* now, on *scheduler* (by default another thread), and emit its result; un-hosted only.

    >>> start(lambda: 1 + 1).run()
    2

    *State*: it cannot be saved. Hosted, `map_async` asks the world outside and remembers its answers.
    """
    return unhosted("start", plain_start(func, scheduler))


def start_async(function_async: Callable[[], AnyFuture[A]]) -> Query[A]:
    """Call *function_async* now and emit the result of the future it returns; un-hosted only.

    >>> from concurrent.futures import Future
    >>> future = Future(); future.set_result(1)
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: start_async(lambda: future))
    (1 |)

    *State*: it cannot be saved. Hosted, `map_async` asks the world outside and remembers its answers.
    """
    return unhosted("start_async", plain_start_async(function_async))


def to_async(func: Callable[..., A], scheduler: SchedulerBase | None = None) -> Callable[..., Query[A]]:
    """Turn *func* into a function that runs on *scheduler* and returns a sequence of its result; un-hosted only.

    >>> to_async(lambda x, y: x + y)(1, 2).run()
    3

    *State*: it cannot be saved. Hosted, `map_async` asks the world outside and remembers its answers.
    """
    make = plain_to_async(func, scheduler)
    return lambda *args: unhosted("to_async", make(*args))


TESTS = "to test with marbles, give them to reliable_rx.testing, which plays them into a named source"


def from_marbles(
    string: str,
    timespan: timedelta | float = 0.1,
    scheduler: SchedulerBase | None = None,
    lookup: Mapping[str | float, Any] | None = None,
    error: Exception | None = None,
) -> Query[Any]:
    """Play marbles for each subscription, *timespan* seconds a tick; un-hosted only.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda: from_marbles("-a-(b,c)-|", timespan=1.0))
    -a-(b c)-----|

    *State*: it cannot be saved. In a test of a hosted query, `reliable_rx.testing` plays marbles into a named source.
    """
    made = plain_from_marbles(string, timespan, lookup=lookup, error=error, scheduler=scheduler)
    return unhosted("from_marbles", made, TESTS)


cold = from_marbles


def hot(
    string: str,
    timespan: timedelta | float = 0.1,
    duetime: datetime | timedelta | float = 0.0,
    scheduler: SchedulerBase | None = None,
    lookup: Mapping[str | float, Any] | None = None,
    error: Exception | None = None,
) -> Query[Any]:
    """Play marbles from *duetime* on, whether anybody listens or not; un-hosted only.

    >>> from reactivex.scheduler import VirtualTimeScheduler
    >>> clock = VirtualTimeScheduler(0.0)
    >>> _ = hot("--a-b-|", timespan=1.0, scheduler=clock).subscribe(print)
    >>> clock.advance_to(3.5)
    a

    *State*: it cannot be saved. In a test of a hosted query, `reliable_rx.testing` plays marbles into a named source.
    """
    return unhosted("hot", plain_hot(string, timespan, duetime, scheduler, lookup, error), TESTS)
