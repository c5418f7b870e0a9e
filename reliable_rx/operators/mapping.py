"""Operators that turn each element into another, one for one.

`Map` has a list form because it was measured to matter; why that is a plain loop is said in `linear`. An index is kept
per subscription: RxPY keeps one per operator, so that a second subscriber goes on counting where the first one was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar, TypeVarTuple, Unpack, overload

from reactivex import Observable

from reliable_rx.operators.contract.arguments import check_callable
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)
B = TypeVar("B")
K = TypeVar("K")
Ts = TypeVarTuple("Ts")
new = object.__new__


def identity(value: Any) -> Any:
    return value


@frozen
class Map(Linear, name="map"):
    maps = "mapper"
    mapper: Callable[[Any], Any]

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        mapper = self.mapper
        out.append(mapper(value))

    def on_batch(self, state: None, values: Sequence[Any], out: list[Any]) -> None:
        mapper = self.mapper
        for value in values:
            out.append(mapper(value))  # noqa: PERF401


def map(mapper: Callable[[A], B] | None = None) -> Callable[[Observable[A]], Query[B]]:
    """Project each element.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).pipe(map(lambda x: x + 1)).run()
    3
    >>> from reliable_rx.testing import diagram
    >>> diagram(map(lambda x: x + 1), "-1-2-|")
    -1-2-|
    -2-3-|

    *State*: none.
    """
    op: Map = new(Map)  # past `__init__`, as selectors make maps all the time
    op.mapper = mapper or identity  # type: ignore[misc]
    return op


@frozen
class MapIndexed(Linear, name="map_indexed"):
    keeps_pace = True
    mapper_indexed: Callable[[Any, int], Any]

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        mapper = self.mapper_indexed
        out.append(mapper(value, state.index))
        state.index += 1


def map_indexed(mapper_indexed: Callable[[A, int], B] | None = None) -> Callable[[Observable[A]], Query[B]]:
    """Project each element together with its index.

    >>> import reliable_rx as rx
    >>> rx.of("a", "b").map_indexed(lambda x, i: (i, x)).to_list().run()
    [(0, 'a'), (1, 'b')]
    >>> from reliable_rx.testing import diagram
    >>> diagram(map_indexed(lambda x, i: x * 10 + i), "-1-2-|")
    -1--2--|
    -10-21-|

    *State*: the index, one per subscription (RxPY shares it between subscriptions).
    """
    return MapIndexed(mapper_indexed or (lambda value, _: value))


def pluck(key: K) -> Callable[[Observable[dict[K, B]]], Query[B]]:
    """Take ``element[key]`` of each element.

    >>> from reliable_rx.testing import diagram
    >>> diagram(pluck("x"), "-a-b-|", values={"a": {"x": 1}, "b": {"x": 2}})
    -{'x': 1}-{'x': 2}-|
    -1--------2--------|

    *State*: none.
    """
    return Map(itemgetter(key))


def pluck_attr(prop: str) -> Callable[[Observable[Any]], Query[Any]]:
    """Take the attribute *prop* of each element.

    >>> from reliable_rx.testing import diagram
    >>> diagram(pluck_attr("imag"), "-1-2-|")
    -1-2-|
    -0-0-|

    *State*: none.
    """
    return Map(lambda element: getattr(element, prop))


@overload
def starmap() -> Callable[[Observable[A]], Query[A]]: ...
@overload
def starmap(mapper: Callable[[Unpack[Ts]], B]) -> Callable[[Observable[tuple[*Ts]]], Query[B]]: ...
@overload
def starmap(mapper: Callable[..., B]) -> Callable[[Observable[Any]], Query[B]]: ...
def starmap(mapper: Callable[..., Any] | None = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Project each tuple, its elements being the arguments of *mapper*.

    >>> from reliable_rx.testing import diagram
    >>> diagram(starmap(lambda x, y: x + y), "-a-b-|", values={"a": (1, 2), "b": (3, 4)})
    -(1, 2)-(3, 4)-|
    -3------7------|

    *State*: none.
    """
    return Map(identity) if mapper is None else Map(spread(mapper))


@overload
def starmap_indexed(mapper: Callable[[Unpack[Ts], int], B]) -> Callable[[Observable[tuple[*Ts, int]]], Query[B]]: ...
@overload
def starmap_indexed(mapper: Callable[..., B]) -> Callable[[Observable[Any]], Query[B]]: ...
def starmap_indexed(mapper: Callable[..., Any]) -> Callable[[Observable[Any]], Query[Any]]:
    """Project each tuple whose last element is its index; as in RxPY it is `starmap` by another name.

    >>> from reliable_rx.testing import diagram
    >>> diagram(starmap_indexed(lambda x, i: x * 10 + i), "-a-b-|", values={"a": (1, 0), "b": (2, 1)})
    -(1, 0)-(2, 1)-|
    -10-----21-----|

    *State*: none.
    """
    return Map(spread(mapper))


def spread(mapper: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return *mapper* as a function of one tuple. *Raises* `TypeError` for what is no function, or asynchronous."""
    check_callable("mapper", mapper)
    return lambda values: mapper(*values)
