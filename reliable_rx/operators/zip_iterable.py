"""`zip_with_iterable`: elements paired with those of something that is there already.

Behind a sequence (a list, a tuple, a range) the position is all there is to save. An iterator hides its position, so it
runs un-hosted only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import Query

A = TypeVar("A", bound=Any)
B = TypeVar("B")


@frozen
class ZipWithSequence(Linear, name="zip_with_iterable"):
    free = ("second",)
    is_bound = True
    second: Sequence[Any]

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> bool:
        index = state.index
        if index >= len(self.second):
            return True
        out.append((value, self.second[index]))
        state.index = index + 1
        return False


@frozen
class ZipWithIterator(Linear, name="zip_with_iterable"):
    second: Iterable[Any]

    @dataclass(slots=True)
    class State:
        take: Callable[[], Any]

    def initial(self) -> State:
        return self.State(iter(self.second).__next__)

    def refusal(self) -> str:
        return (
            f"a {type(self.second).__name__} cannot be put back to a position after a crash; give a list, a tuple or a "
            f"range, or use map_indexed"
        )

    def on_next(self, state: State, value: Any, out: list[Any]) -> bool:
        try:
            right = state.take()
        except StopIteration:
            return True
        out.append((value, right))
        return False


def zip_with_iterable(second: Iterable[B]) -> Callable[[Observable[A]], Query[tuple[A, B]]]:
    """Pair the n-th element with the n-th of *second*; complete when an element finds none left.

    >>> from reliable_rx.testing import diagram
    >>> diagram(zip_with_iterable("xy"), "-1-2-3-|")
    -1--------2--------3-|
    -(1, 'x')-(2, 'y')-|

    *State*: the position. Hosted, *second* must be a sequence: an iterator cannot be repositioned.
    """
    return ZipWithSequence(second) if isinstance(second, Sequence) else ZipWithIterator(second)


zip_with_list = zip_with_iterable
