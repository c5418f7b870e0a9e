"""Operators that turn each element into another, one for one.

`Map` has a list form because it was measured to matter; why that is a plain loop is said in `linear`. An index is kept
per subscription: RxPY keeps one per operator, so that a second subscriber goes on counting where the first one was.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex import Observable

from reliable_rx.operator import Linear

A = TypeVar("A")
B = TypeVar("B")


def identity(value: Any) -> Any:
    return value


@dataclass(frozen=True, eq=False)
class Map(Linear, name="map"):
    mapper: Callable[[Any], Any]

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        out.append(self.mapper(value))

    def on_batch(self, state: None, values: Sequence[Any], out: list[Any]) -> None:
        mapper = self.mapper
        for value in values:
            out.append(mapper(value))  # noqa: PERF401


def map(mapper: Callable[[A], B] | None = None) -> Callable[[Observable[A]], Observable[B]]:
    """Project each element.

    >>> import reliable_rx as rx
    >>> rx.of(1, 2).pipe(map(lambda x: x + 1)).run()
    3

    *State*: none.
    """
    return Map(mapper or identity)


@dataclass(frozen=True, eq=False)
class MapIndexed(Linear, name="map_indexed"):
    mapper_indexed: Callable[[Any, int], Any]

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        out.append(self.mapper_indexed(value, state.index))
        state.index += 1


def map_indexed(mapper_indexed: Callable[[A, int], B] | None = None) -> Callable[[Observable[A]], Observable[B]]:
    """Project each element together with its index.

    >>> import reliable_rx as rx
    >>> rx.of("a", "b").map_indexed(lambda x, i: (i, x)).to_list().run()
    [(0, 'a'), (1, 'b')]

    *State*: the index, one per subscription (RxPY shares it between subscriptions).
    """
    return MapIndexed(mapper_indexed or (lambda value, _: value))
