"""Operators that read inner sequences and merge them, all at once or some at a time.

Most selectors return a list, or `of` some values. RxPY subscribes to it, which schedules one action that emits the
values and ends. `Reads` schedules that action itself: the same events in the same order, without a plan, a row and a
subscription for each. Those that own inner sequences are in `group` and `window`, those that switch in `switch`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reactivex import Observable
from reactivex.internal.utils import NotSet

from reliable_rx.operators.contract.operator import Context, Linear, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.mapping import identity
from reliable_rx.operators.merge_concat import check_queue
from reliable_rx.query.query import ITERABLES, Node, Query
from reliable_rx.runtime.shared_state import is_constant

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")
MORE = "more"


def at_once(inner: Any) -> Sequence[Any] | None:
    """Return all that *inner* emits, if it does so in one action right after the subscription.

    >>> at_once([1, 2]), at_once("ab"), at_once(iter([1]))
    ([1, 2], ('a', 'b'), None)
    """
    if type(inner) is list or type(inner) is tuple:
        return inner
    if isinstance(inner, Query):
        values = inner.origin.at_once()
        return values if values is None or inner.op is inner.origin else all_of(inner)
    return tuple(inner) if isinstance(inner, ITERABLES) else None


def all_of(node: Query[Any] | Node) -> Sequence[Any] | None:
    """Return what a chain of linear operators makes of a sequence that comes at once; None where it does not.

    An operator with a limit, one that emits a state that may be changed, and a function that raises, go the long way,
    which knows where they stand.
    """
    op, chain = node.op, []
    while isinstance(op, Linear):
        if op.grows:
            return None
        chain.append(op)
        node = node.inputs[0]
        op = node.op
    values = op.at_once()
    if values is None:
        return None
    for each in reversed(chain):
        state, out = each.initial(), []  # type: ignore[var-annotated]
        if each.hands_out and values and not is_constant(values[0] if state.value is NotSet else state.value):
            return None
        try:
            if not (values and each.on_batch(state, values, out)):
                each.on_completed(state, out)
        except Exception:
            return None
        if each.hands_out and values and not is_constant(state.value):
            return None
        values = out
    return values


class Reads(Stage):
    """What merges inner sequences: each is read under a running number."""

    scheduler_default = "current_thread"

    @dataclass(slots=True)
    class State:
        next_key: int = 0
        stopped: bool = False
        ready: dict[int, Sequence[Any]] | None = None

    def inner(self, outer: Any) -> Any:
        return outer

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        self.read(cx, value, cx.project(value))

    def read(self, cx: Context, outer: Any, inner: Any) -> None:
        """Subscribe to *inner*, or have its values emitted where RxPY would."""
        state = cx.state
        key = state.next_key
        state.next_key = key + 1
        values = at_once(inner)
        if values is None:
            cx.open(key, outer, inner)
            return
        if state.ready is None:
            state.ready = {}
        state.ready[key] = values
        cx.soon(key)

    def on_timer(self, cx: Context, tag: Any) -> None:
        state = cx.state
        values = state.ready[tag]
        if values:
            self.on_inner_next(cx, tag, values)
        if cx.goes_on(state):
            del state.ready[tag]
            self.on_inner_completed(cx, tag)

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.state.stopped = not cx.runs(0)

    def on_completed(self, cx: Context, port: int) -> None:
        cx.state.stopped = True
        self.complete_if_idle(cx)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        if cx.state.stopped:
            self.complete_if_idle(cx)

    def live(self, cx: Context) -> int:
        """Return how many inner sequences have not ended."""
        ready = cx.state.ready
        return cx.opened() + len(ready) if ready else cx.opened()

    def complete_if_idle(self, cx: Context) -> None:
        if cx.state.stopped and not self.live(cx):
            cx.complete()


@frozen
class FlatMap(Reads, name="flat_map"):
    free = ("mapper",)
    mapper: Callable[[Any], Any] | Observable[Any] | Iterable[Any] | Awaitable[Any]

    def inner(self, outer: Any) -> Any:
        mapper = self.mapper
        return mapper(outer) if callable(mapper) else mapper


@frozen
class FlatMapIndexed(Reads, name="flat_map_indexed"):
    indexes = True
    mapper_indexed: Callable[[Any, int], Any]

    def inner(self, outer: Any) -> Any:
        return self.mapper_indexed(*outer)

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        super().on_next(cx, port, (value, cx.state.next_key))


@overload
def flat_map(mapper: Callable[[A], Observable[B]]) -> Callable[[Observable[A]], Query[B]]: ...
@overload
def flat_map(mapper: Callable[[A], Iterable[B]]) -> Callable[[Observable[A]], Query[B]]: ...
@overload
def flat_map(mapper: Observable[B] | Iterable[B]) -> Callable[[Observable[Any]], Query[B]]: ...
@overload
def flat_map(mapper: None = None) -> Callable[[Observable[Observable[A]]], Query[A]]: ...
def flat_map(mapper: Any = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Project each element to a sequence (or iterable) and merge these.

    >>> import reliable_rx as rx
    >>> _ = rx.of(1, 2).flat_map(lambda x: [x, x * 10]).subscribe(print)
    1
    10
    2
    20
    >>> from reliable_rx.testing import diagram
    >>> diagram(flat_map(lambda x: rx.timer(x).pipe(rx.operators.map(lambda _: x))), "-3-1--|")
    -3-1------|
    ----(3 1)-|

    Behind `group_by` and the windows, *mapper* is called once and its sub-plan shared by all groups; elsewhere it is
    called per element, and again on recovery, so it must be pure. Without *mapper* the elements are themselves the
    sequences (RxPY has that default but fails on it).

    *State*: a counter, and one row per live inner sequence, bounded by `Limits.inner_max`. Lists and `of` need no row.
    """
    return FlatMap(identity if mapper is None else mapper)


@overload
def flat_map_indexed(
    mapper_indexed: Callable[[A, int], Observable[B]],
) -> Callable[[Observable[A]], Query[B]]: ...
@overload
def flat_map_indexed(
    mapper_indexed: Callable[[A, int], Iterable[B]],
) -> Callable[[Observable[A]], Query[B]]: ...
@overload
def flat_map_indexed(
    mapper_indexed: Observable[B] | Iterable[B],
) -> Callable[[Observable[Any]], Query[B]]: ...
@overload
def flat_map_indexed(mapper_indexed: None = None) -> Callable[[Observable[Observable[A]]], Query[A]]: ...
def flat_map_indexed(mapper_indexed: Any = None) -> Callable[[Observable[Any]], Query[Any]]:
    """Project each element, together with its index, to a sequence (or iterable) and merge these.

    >>> from reliable_rx.testing import diagram
    >>> diagram(flat_map_indexed(lambda x, i: [x, i]), "-a-b-|")
    -a-----b-----|
    -(a 0)-(b 1)-|

    *mapper_indexed* is called per element, and again on recovery, so it must be pure. Without it, or with a constant,
    it is `flat_map`.

    *State*: the index, one per subscription (RxPY shares it between subscriptions), and one row per live inner
    sequence, bounded by `Limits.inner_max`.
    """
    return FlatMapIndexed(mapper_indexed) if callable(mapper_indexed) else flat_map(mapper_indexed)


@dataclass(slots=True)
class Waiting:
    """An inner sequence whose turn has not come. Saved by what it was made for, as its selector is called again."""

    outer: Any
    inner: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return (Waiting, (self.outer,))


class Queued(Reads):
    """Reads a few inner sequences at a time; the others wait."""

    max_concurrent: int | None

    @dataclass(slots=True)
    class State(Reads.State):
        waiting: deque[Waiting] = field(default_factory=deque)
        ended: int = 0
        """How many have ended in whose place none of those that wait has begun; 0 but while they do."""

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        inner = cx.project(value)
        if self._has_room(cx):
            self.read(cx, value, inner)
        else:
            cx.state.waiting.append(Waiting(value, inner))
            check_queue(cx.state.waiting, cx)

    def adopt(self, state: State, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        super().on_adopted(cx, before)
        if cx.state.waiting:
            cx.soon(MORE)

    def on_timer(self, cx: Context, tag: Any) -> None:
        if tag != MORE:
            super().on_timer(cx, tag)
            return
        state = cx.state
        while state.waiting and cx.goes_on(state) and self._has_room(cx):  # for more at a time, since it was edited
            self._begin_next(cx)

    def _has_room(self, cx: Context) -> bool:
        return self.max_concurrent is None or self.live(cx) < self.max_concurrent

    def _begin_next(self, cx: Context) -> bool:
        next_one = cx.state.waiting.popleft()
        inner = next_one.inner
        try:
            self.read(cx, next_one.outer, cx.project(next_one.outer) if inner is None else inner)
        except BaseException as raised:  # skipped, it makes way for the one behind it
            cx.refuse(raised)
            return False
        return True

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        """Begin the next of those that wait, and if that ends as it begins the one behind it, without recursion."""
        state = cx.state
        state.ended += 1
        if state.ended > 1:
            return
        while state.waiting and self._has_room(cx):
            if self._begin_next(cx):
                state.ended -= 1
            if not state.ended or not cx.goes_on(state):
                return
        state.ended = 0
        self.complete_if_idle(cx)


@frozen
class MergeAll(Queued, name="merge_all"):
    raises = True
    max_concurrent: int | None = None


@frozen
class ConcatMap(Queued, name="concat_map"):
    max_concurrent = 1
    project: Callable[[Any], Any]

    def inner(self, outer: Any) -> Any:
        return self.project(outer)


def merge_all() -> Callable[[Observable[Observable[A]]], Query[A]]:
    """Merge a sequence of sequences.

    >>> import reliable_rx as rx
    >>> _ = rx.of(rx.of(1), rx.of(2)).merge_all().to_list().subscribe(print)
    [1, 2]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(rx.operators.map(lambda x: rx.timer(x).pipe(rx.operators.map(lambda _: x))),
    ...     merge_all()), "-2-1-|")
    -2-1-|
    ---21|

    *State*: a counter, and one row per live inner sequence, bounded by `Limits.inner_max`.
    """
    return MergeAll()


def concat_all() -> Callable[[Observable[Observable[A]]], Query[A]]:
    """Emit a sequence of sequences one after the other; those that come meanwhile wait, unsubscribed.

    >>> import reliable_rx as rx
    >>> rx.of(rx.of(1, 2), rx.of(3)).concat_all().to_list().run()
    [1, 2, 3]
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(rx.operators.map(lambda x: rx.timer(2).pipe(rx.operators.map(lambda _: x))),
    ...     concat_all()), "-1-2-3-|")
    -1-2-3-|
    ---1-2-(3 |)

    *State*: one row for the sequence at work, and a queue of those that wait, bounded by `Limits.queue_items_max`.
    """
    return MergeAll(1)


def concat_map(project: Callable[[A], Observable[B]]) -> Callable[[Observable[A]], Query[B]]:
    """Project each element to a sequence and emit these one after the other; those that come meanwhile wait.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(concat_map(lambda x: rx.timer(2).pipe(rx.operators.map(lambda _: x))), "-ab----|")
    -ab----|
    ---a-b-|

    *project* is called when the element comes, and again on recovery, so it must be pure.

    *State*: one row for the sequence at work, and a queue of the elements that wait, bounded by
    `Limits.queue_items_max`.
    """
    return ConcatMap(project)


@frozen
class Exclusive(Reads, name="exclusive"):
    raises = True

    def on_next(self, cx: Context, port: int, value: Any) -> None:
        if not self.live(cx):
            super().on_next(cx, port, value)


def exclusive() -> Callable[[Observable[Observable[A]]], Query[A]]:
    """Emit an inner sequence to its end, and drop those that come meanwhile.

    >>> import reliable_rx as rx
    >>> from reliable_rx.testing import diagram
    >>> diagram(lambda xs: xs.pipe(rx.operators.map(lambda x: rx.timer(2).pipe(rx.operators.map(lambda _: x))),
    ...     exclusive()), "-ab---c---|")
    -ab---c---|
    ---a----c-|

    Of the elements that one event brings, the first one's is emitted: inner sequences begin behind the last of them.

    *State*: the row of one inner sequence.
    """
    return Exclusive()
