"""Operators that bring together elements of two sequences that are near each other in time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from reactivex import Observable

from reliable_rx.operators.contract.arguments import check_number
from reliable_rx.operators.contract.operator import Context, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.merge_concat import check_queue
from reliable_rx.query.query import Query, apply, as_query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")
LEFT, RIGHT = 0, 1


class Lasting(Stage):
    """What keeps elements of two sides for as long as their durations; they are subscribed to under (side, number)."""

    left_duration_mapper: Callable[[Any], Observable[Any]]
    right_duration_mapper: Callable[[Any], Observable[Any]]

    def inner(self, outer: Any) -> Observable[Any]:
        side, value = outer
        return as_query((self.left_duration_mapper if side == LEFT else self.right_duration_mapper)(value))

    def expire(self, cx: Context, side: int, number: int) -> None:
        """The duration of an element is over."""
        raise NotImplementedError

    def on_unopened(self, cx: Context, key: Hashable) -> None:
        self.expire(cx, *key)  # type: ignore[misc]

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any]) -> None:
        cx.close(key)
        self.expire(cx, *key)  # type: ignore[misc]

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        self.expire(cx, *key)  # type: ignore[misc]


@frozen
class Join(Lasting, name="join"):
    left_duration_mapper: Callable[[Any], Observable[Any]]
    right_duration_mapper: Callable[[Any], Observable[Any]]

    @dataclass(slots=True)
    class State:
        numbers: list[int] = field(default_factory=lambda: [0, 0])
        sides: tuple[dict[int, Any], dict[int, Any]] = field(default_factory=lambda: ({}, {}))
        done: list[bool] = field(default_factory=lambda: [False, False])

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        state, number = cx.state, cx.state.numbers[port]
        mine, others = state.sides[port], state.sides[1 - port]
        state.numbers[port] = number + 1
        mine[number] = value
        check_queue(mine, cx)
        if not cx.try_open((port, number), (port, value)):
            return
        cx.emit_all([(value, other) if port == LEFT else (other, value) for other in others.values()])

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.done = [not cx.runs(LEFT), not cx.runs(1 - LEFT)]

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.done[port] = True
        if cx.state.done[1 - port] or not cx.state.sides[port]:
            cx.complete()

    def expire(self, cx: Context, side: int, number: int) -> None:
        cx.state.sides[side].pop(number, None)
        if cx.state.done[side] and not cx.state.sides[side]:
            cx.complete()


def join(
    right: Observable[B],
    left_duration_mapper: Callable[[A], Observable[Any]],
    right_duration_mapper: Callable[[B], Observable[Any]],
) -> Callable[[Observable[A]], Query[tuple[A, B]]]:
    """Emit each pair of a left and a right element whose durations overlap.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> pairs = lambda s, t: s.pipe(join(t, lambda _: rx.timer(2), lambda _: rx.timer(2)))
    >>> diagram(pairs, "-1-----2-|", "--a-----b|")
    -1------------2--------|
    --a------------b-------|
    --(1, 'a')-----(2, 'b')|

    A duration lasts until it emits or completes. For elements that must also have the same key, `join_within` is the
    faster way.

    *State*: the elements of both sides that last, bounded by `Limits.queue_items_max`, and one row per duration,
    bounded by `Limits.inner_max`.
    """
    return lambda source: apply(Join(left_duration_mapper, right_duration_mapper), source, right)


@frozen
class GroupJoin(Lasting, name="group_join"):
    yields_inner = True
    wraps_inner = True
    inner_limit = "windows_max"
    left_duration_mapper: Callable[[Any], Observable[Any]]
    right_duration_mapper: Callable[[Any], Observable[Any]]

    @dataclass(slots=True)
    class State:
        numbers: list[int] = field(default_factory=lambda: [0, 0])
        rights: dict[int, Any] = field(default_factory=dict)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        number = cx.state.numbers[port]
        cx.state.numbers[port] = number + 1
        if port == LEFT:
            self._take_left(cx, number, value)
        else:
            self._take_right(cx, number, value)

    def _take_left(self, cx: Context, number: int, value: Any) -> None:
        rights = list(cx.state.rights.values())
        window = cx.begin(number)
        cx.moment(cx.emit, (value, window))
        window.subject.feed(rights)  # type: ignore[attr-defined]
        try:
            inner = cx.project((LEFT, value))
        except BaseException:
            self.on_unopened(cx, (LEFT, number))
            raise
        cx.open((LEFT, number), (LEFT, value), inner)

    @staticmethod
    def _take_right(cx: Context, number: int, value: Any) -> None:
        rights = cx.state.rights
        rights[number] = value
        check_queue(rights, cx)
        if not cx.try_open((RIGHT, number), (RIGHT, value)):
            return
        for window in tuple(cx.groups().values()):
            window.feed((value,))

    def on_completed(self, cx: Context, port: int) -> None:
        if port == LEFT:
            cx.complete_outer()

    def expire(self, cx: Context, side: int, number: int) -> None:
        if side == LEFT:
            cx.end(number)
        else:
            cx.state.rights.pop(number, None)

    def on_unopened(self, cx: Context, key: Any) -> None:
        if key[0] == LEFT:
            cx.drop(key[1])
        else:
            self.expire(cx, *key)

    on_inner_refused = on_unopened


def group_join(
    right: Observable[B],
    left_duration_mapper: Callable[[A], Observable[Any]],
    right_duration_mapper: Callable[[B], Observable[Any]],
) -> Callable[[Observable[A]], Query[tuple[A, Query[B]]]]:
    """Emit each left element with the sequence of the right elements whose durations overlap its own.

    >>> import reliable_rx as rx
    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> joined = group_join(rx.of("a", "b"), lambda _: rx.timer(2), lambda _: rx.timer(2))
    >>> in_pairs = ops.flat_map(lambda pair: pair[1].pipe(ops.map(lambda right: (pair[0], right))))
    >>> diagram(lambda s: s.pipe(joined, in_pairs), "1---2-|")
    1---------------------2-|
    ((1, 'a') (1, 'b'))-----|

    As in RxPY the result completes with the left sequence; sequences that are read go on.

    *State*: the right elements that last, bounded by `Limits.queue_items_max`, one row per left element that lasts,
    bounded by `Limits.windows_max`, and one per duration, bounded by `Limits.inner_max`.
    """
    return lambda source: apply(GroupJoin(left_duration_mapper, right_duration_mapper), source, right)


@dataclass(slots=True)
class Side:
    """The elements of one sequence that may still be joined: by key, and the keys in their order of time."""

    by_key: dict[Any, deque[tuple[float, Any]]] = field(default_factory=dict)
    order: deque[tuple[float, Any]] = field(default_factory=deque)
    done: bool = False

    def add(self, time_s: float, key: Any, value: Any) -> None:
        self.order.append((time_s, key))
        self.by_key.setdefault(key, deque()).append((time_s, value))

    def forget(self, now: float, within_s: float) -> None:
        """Let go of what is older than *within_s*."""
        order, by_key = self.order, self.by_key
        while order and order[0][0] + within_s < now:
            _, key = order.popleft()
            waiting = by_key[key]
            waiting.popleft()
            if not waiting:
                del by_key[key]


@frozen
class JoinWithin(Stage, name="join_within"):
    compares: ClassVar = {"waiting_keys": "keys"}
    keys: tuple[Callable[[Any], Hashable], Callable[[Any], Hashable]]
    within_s: float

    @dataclass(slots=True)
    class State:
        sides: tuple[Side, Side] = field(default_factory=lambda: (Side(), Side()))

        @property
        def waiting_keys(self) -> Iterator[Any]:
            """The keys of what may still be joined."""
            return chain.from_iterable(reversed(side.by_key) for side in self.sides)

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        now, sides, key_of = cx.now, cx.state.sides, self.keys[port]
        for side in sides:
            side.forget(now, self.within_s)
        mine, others = sides[port], sides[1 - port].by_key
        pairs: list[Any] = []
        try:
            for value in values:
                key = key_of(value)
                waiting = others.get(key, ())
                mine.add(now, key, value)
                pairs += [(value, w) for _, w in waiting] if port == LEFT else [(w, value) for _, w in waiting]
                check_queue(mine.order, cx)
        finally:
            if pairs:
                cx.emit_all(pairs)

    def on_completed(self, cx: Context, port: int) -> None:
        mine = cx.state.sides[port]
        mine.done = True
        over = not mine.order or mine.order[-1][0] + self.within_s < cx.now
        if over or cx.state.sides[1 - port].done:
            cx.complete()
        else:
            cx.schedule(mine.order[-1][0] + self.within_s, "over")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        cx.complete()

    def adopt(self, state: State, before: Before) -> bool:
        left, right = (Side() if side is None else side for side in before.taken(state.sides, None))
        state.sides = (left, right)
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.cancel("over")
        for port, side in enumerate(cx.state.sides):
            side.done = not cx.runs(port)
            if side.done:
                cx.schedule(max(cx.now, side.order[-1][0] + self.within_s if side.order else cx.now), "over")
        if all(side.done for side in cx.state.sides):
            cx.schedule(cx.now, "over")


def join_within(
    other: Observable[B],
    key: Callable[[A], Any],
    *,
    within_s: float,
    other_key: Callable[[B], Any] | None = None,
) -> Callable[[Observable[A]], Query[tuple[A, B]]]:
    """Emit each pair of an element and one of *other* with equal keys that came at most *within_s* seconds apart.

    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda s, t: s.pipe(join_within(t, abs, within_s=2)), "-1-2---1-|", "--1---2-1|")
    -1------2---1------|
    --1--------2-1-----|
    --(1, 1)-----(1, 1)|

    Not in RxPY, where it takes `join` with two timers and a filter over all pairs. Time is the query's clock when an
    element comes. *key* reads the key of both sides, unless *other_key* is given. It completes when both sequences
    have, or when nothing can be joined any more to the one that has.

    *State*: the elements of the last *within_s* seconds, by key, on each side bounded by `Limits.queue_items_max`.

    *Raises* `ValueError` for a negative *within_s*.
    """
    check_number("within_s", within_s, least=0)
    op = JoinWithin((key, other_key or key), within_s)
    return lambda source: apply(op, source, other)
