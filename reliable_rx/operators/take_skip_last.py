"""Operators that count from the end of a sequence, and slices, which count from both.

Where RxPY composes a slice of up to five operators, here it is one, because its state is one count or one queue. Only a
slice like ``[2:-3]`` is several: what it skips at the front need not wait in the queue at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from reactivex import Observable, compose

from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.take_skip import skip, take
from reliable_rx.query.query import Query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)


@frozen
class SkipLast(Linear, name="skip_last"):
    keeps_pace = True
    keeps_inner = True
    free = ("count",)
    count: int

    @dataclass(slots=True)
    class State:
        items: deque[Any]

    def initial(self) -> State:
        return self.State(deque())

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        items = state.items
        items.append(value)
        while len(items) > max(0, self.count):
            out.append(items.popleft())

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        items = state.items
        items.extend(values)
        out.extend([items.popleft() for _ in range(len(items) - max(0, self.count))])


def skip_last(count: int) -> Callable[[Observable[A]], Query[A]]:
    """Drop the last *count* elements, which delays the others by as many.

    >>> from reliable_rx.testing import diagram
    >>> diagram(skip_last(2), "-1-2-3-4-|")
    -1-2-3-4-|
    -----1-2-|

    *State*: the last *count* elements.
    """
    return SkipLast(count)


class KeepsLast(Linear):
    """What collects the last elements."""

    count: int

    @dataclass(slots=True)
    class State:
        items: deque[Any]

    def initial(self) -> State:
        return self.State(deque(maxlen=max(0, self.count)))

    def adopt(self, state: State, before: Before) -> bool:
        state.items = deque(state.items, max(0, self.count))
        return True

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.items.append(value)

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        state.items.extend(values)


@frozen
class TakeLast(KeepsLast, name="take_last"):
    keeps_inner = True
    count: int

    def on_completed(self, state: KeepsLast.State, out: list[Any]) -> None:
        out.extend(state.items)


def take_last(count: int) -> Callable[[Observable[A]], Query[A]]:
    """Pass the last *count* elements when the sequence completes.

    >>> from reliable_rx.testing import diagram
    >>> diagram(take_last(2), "-1-2-3-|")
    -1-2-3-|
    -------(2 3 |)

    *State*: the last *count* elements.
    """
    return TakeLast(count)


@frozen
class TakeLastBuffer(KeepsLast, name="take_last_buffer"):
    count: int

    def on_completed(self, state: KeepsLast.State, out: list[Any]) -> None:
        out.append(list(state.items))


def take_last_buffer(count: int) -> Callable[[Observable[A]], Query[list[A]]]:
    """Emit the last *count* elements as one list when the sequence completes.

    >>> from reliable_rx.testing import diagram
    >>> diagram(take_last_buffer(2), "-1-2-3-|")
    -1-2-3-|
    -------([2, 3] |)

    *State*: the last *count* elements.
    """
    return TakeLastBuffer(count)


@frozen
class Slice(Linear, name="slice"):
    """From *start* to *stop*, both counted from the front."""

    keeps_inner = True
    free = ("start", "stop", "step")
    start: int
    stop: int | None
    step: int

    @dataclass(slots=True)
    class State:
        index: int = 0

    def on_next(self, state: State, value: Any, out: list[Any]) -> bool:
        if self.stop is not None and state.index >= self.stop:  # it had enough when it was edited
            return True
        place = state.index - self.start
        if place >= 0 and place % self.step == 0:
            out.append(value)
        state.index += 1
        return state.index == self.stop

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> bool:
        place = state.index - self.start
        first = -place if place < 0 else -place % self.step
        taken = len(values) if self.stop is None else max(0, min(len(values), self.stop - state.index))
        out.extend(values[first : taken : self.step])
        state.index += taken
        return self.stop is not None and state.index >= self.stop


@frozen
class SliceFromEnd(Linear, name="slice_from_end"):
    """From *start*, counted from the end, to *stop*, counted from either side."""

    keeps_inner = True
    start: int
    stop: int | None
    step: int

    @dataclass(slots=True)
    class State:
        items: deque[Any]
        count: int = 0

    def initial(self) -> State:
        return self.State(deque(maxlen=-self.start))

    def adopt(self, state: State, before: Before) -> bool:
        state.items = deque(state.items, -self.start)
        return True

    def on_next(self, state: State, value: Any, out: list[Any]) -> None:
        state.items.append(value)
        state.count += 1

    def on_batch(self, state: State, values: Sequence[Any], out: list[Any]) -> None:
        state.items.extend(values)
        state.count += len(values)

    def on_completed(self, state: State, out: list[Any]) -> None:
        stop = self.stop
        if stop is not None and stop > 0:
            stop = max(0, stop - (state.count - len(state.items)))
        out.extend([*state.items][: stop : self.step])


def slice(
    start: int | None = None, stop: int | None = None, step: int | None = None
) -> Callable[[Observable[A]], Query[A]]:
    """Pass the elements that a list has at ``[start:stop:step]``: also ``xs[start:stop:step]``, ``xs[index]``.

    >>> from reliable_rx.testing import diagram
    >>> diagram(slice(1, 5, 2), "-0-1-2-3-4-|")
    -0-1-2-3-4-|
    ---1---3-|
    >>> diagram(slice(1, -2), "-0-1-2-3-4-|")
    -0-1-2-3-4-|
    -------1-2-|
    >>> import reliable_rx as rx
    >>> rx.range(9)[-3:].to_list().run()
    [6, 7, 8]

    As in RxPY a slice that ends at 0 is empty, and so is ``xs[-1]``, which is ``xs[-1:0]``: that is `last()`.

    *State*: how many elements there were; for a negative bound also that many last elements.
    *Raises* `TypeError` for a negative step: nobody can turn a sequence round.
    """
    first, every = start or 0, max(1, step or 1)
    if step is not None and step < 0:
        raise TypeError("Negative step not supported.")
    if stop == 0:
        return take(0)
    if first < 0:
        return SliceFromEnd(first, stop, every)
    if stop is None or stop > 0:
        return Slice(first, stop, every)
    inside = compose(skip(first), skip_last(-stop)) if first else skip_last(-stop)
    return compose(inside, Slice(0, None, every)) if every > 1 else inside
