"""Sequences that are chosen or made when somebody subscribes.

A choice between given sequences is one of the operator's inputs, and which one is read is in the row like any other
subscription: it is not chosen anew on recovery. What a factory makes is an inner sequence, and the factory is called
again on recovery.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from reactivex import Observable
from reactivex.abc import DisposableBase, SchedulerBase
from reactivex.scheduler import ImmediateScheduler
from reactivex.typing import AnyFuture

from reliable_rx.creation.values import empty
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query, apply, as_query

A = TypeVar("A")
K = TypeVar("K")
R = TypeVar("R", bound=DisposableBase | None)


@frozen
class Case(Stage, name="case"):
    """The inputs are the sources in the order of *keys*, and last the default."""

    free = ("keys",)
    passes_on = True
    mapper: Callable[[], Any]
    keys: tuple[Any, ...]

    def on_start(self, cx: Context) -> None:
        try:
            port = {key: port for port, key in enumerate(self.keys)}[self.mapper()]
        except KeyError:
            port = len(self.keys)
        cx.subscribe(port)


def case(
    mapper: Callable[[], K],
    sources: Mapping[K, Observable[A]],
    default_source: Observable[A] | AnyFuture[A] | None = None,
) -> Query[A]:
    """Emit that one of *sources* whose key *mapper* returns at the subscription, or else *default_source*.

    >>> import reliable_rx as rx
    >>> case(lambda: "b", {"a": rx.of(1), "b": rx.of(2)}).run()
    2
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: case(lambda: 1, {0: xs, 1: ys}), "-1-2-|", "--a-b-|")
    -1-2-|
    --a-b-|
    --a-b-|

    *sources* is read now, not when somebody subscribes.

    *State*: which one was chosen; *mapper* is not called again on recovery.
    """
    default = empty() if default_source is None else default_source
    return apply(Case(mapper, tuple(sources)), *sources.values(), default)


@frozen
class IfThen(Stage, name="if_then"):
    passes_on = True
    condition: Callable[[], Any]

    def on_start(self, cx: Context) -> None:
        cx.subscribe(0 if self.condition() else 1)


def if_then(
    condition: Callable[[], bool],
    then_source: Observable[A] | AnyFuture[A],
    else_source: Observable[A] | AnyFuture[A] | None = None,
) -> Query[A]:
    """Emit *then_source* if *condition* holds at the subscription, else *else_source* (by default nothing).

    >>> import reliable_rx as rx
    >>> if_then(lambda: False, rx.of(1), rx.of(2)).run()
    2
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs, ys: if_then(lambda: True, xs, ys), "-1-2-|", "--a-b-|")
    -1-2-|
    --a-b-|
    -1-2-|

    *State*: which one was chosen; *condition* is not called again on recovery.
    """
    return apply(IfThen(condition), then_source, empty() if else_source is None else else_source)


@frozen
class Defer(Stage, name="defer"):
    passes_on = falls_with_inner = True
    factory: Callable[[Any], Any]

    def on_start(self, cx: Context) -> None:
        cx.open("made", scheduler_of(cx))

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(self.factory(outer))

    def on_inner_completed(self, cx: Context, key: Any) -> None:
        cx.complete()


def scheduler_of(cx: Any) -> SchedulerBase | None:
    """Return the scheduler that RxPY gives a factory; None in a host, where nothing may name one."""
    world = cx.instance.world
    if not hasattr(world, "scheduler"):
        return None
    return world.scheduler or ImmediateScheduler.singleton()


def defer(factory: Callable[[SchedulerBase], Observable[A] | AnyFuture[A]]) -> Query[A]:
    """Emit the sequence that *factory* makes for each subscription.

    >>> import reliable_rx as rx
    >>> defer(lambda scheduler: rx.of(1)).run()
    1
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: defer(lambda scheduler: xs), "-1-2-|")
    -1-2-|
    -1-2-|

    Hosted, *factory* is given None for a scheduler.

    *State*: that of the sequence that was made. *factory* is called again on recovery and must be pure.
    """
    return apply(Defer(factory))


@frozen
class Using(Stage, name="using"):
    passes_on = falls_with_inner = True
    resource_factory: Callable[[], Any]
    observable_factory: Callable[[Any], Any]

    def on_start(self, cx: Context) -> None:
        cx.open("made", None)

    def inner(self, outer: None) -> Observable[Any]:
        resource = None
        try:
            resource = self.resource_factory()
            source = self.observable_factory(resource)
        except BaseException as raised:
            let_through(raised)
            source = apply(Refused(raised))
        return apply(Holding(resource), source)

    def on_inner_completed(self, cx: Context, key: Any) -> None:
        cx.complete()


@frozen
class Refused(Stage, name="refused"):
    """What a factory has raised, raised where its sequence would begin, so that a host knows it from an error of Rx."""

    raised: BaseException

    def on_start(self, cx: Context) -> None:
        led = self.raised.__context__
        try:
            raise self.raised
        finally:  # else what the program around handles would take its place
            self.raised.__context__ = led


@frozen
class Holding(Stage, name="holding"):
    passes_on = True
    resource: DisposableBase | None

    def on_release(self, cx: Context) -> None:
        if self.resource is not None:
            self.resource.dispose()


def using(resource_factory: Callable[[], R], observable_factory: Callable[[R], Observable[A]]) -> Query[A]:
    """Acquire a resource for each subscription, emit what *observable_factory* makes of it, and dispose of it then.

    >>> import reliable_rx as rx
    >>> from reactivex.disposable import Disposable
    >>> said = []
    >>> def acquire():
    ...     said.append("acquired")
    ...     return Disposable(lambda: said.append("disposed"))
    >>> using(acquire, lambda resource: rx.of(1)).run()
    1
    >>> said
    ['acquired', 'disposed']
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: using(lambda: None, lambda resource: xs), "-1-2-|")
    -1-2-|
    -1-2-|

    Hosted, the resource belongs to the process: recovery acquires another one and calls *observable_factory* again. It
    is disposed of when the sequence ends or is unsubscribed from, not when an evaluator closes or edits the query.

    *State*: that of the sequence that was made.
    """
    return apply(Using(resource_factory, observable_factory))
