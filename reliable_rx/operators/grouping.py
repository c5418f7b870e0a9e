"""Operators that split a sequence by key into inner sequences that they own, and let go of them again.

A group is a row. RxPY never gives one up before its source ends; here it may also end by a duration, after a time
without elements (`ttl_s`), or to make room for another (`groups_max` with `evict`). A time to live is a duration like
any other, so that its clock lies in the group's own row: one ordered table of times would be faster by a third, but
would be one value as large as all keys, written whole at every checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from reactivex import Observable
from reactivex import operators as plain
from reactivex.observable.groupedobservable import GroupedObservable

from reliable_rx.operators.contract.arguments import check_key
from reliable_rx.operators.contract.operator import Context, Operator, Stage
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.operators.evict import Evict, check_eviction, too_many
from reliable_rx.query.query import Inner, PlainOperator, Query, as_query

if TYPE_CHECKING:
    from reliable_rx.runtime.settings import Before

A = TypeVar("A", bound=Any)
B = TypeVar("B")
K = TypeVar("K")

_plain_group_by = plain.group_by
_plain_group_by_until = plain.group_by_until


@frozen
class GroupBy(Stage, name="group_by"):
    yields_inner = begins_again = True
    inner_limit = "groups_max"
    free = ("groups_max", "evict")
    key_mapper: Callable[[Any], Hashable]
    element_mapper: Callable[[Any], Any] | None = None
    groups_max: int | None = None
    evict: Evict = "fail"

    def adopt(self, state: None, before: Before) -> bool:
        return before.reads_the_same  # with a time to live or without

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        groups, key_mapper, element_mapper = cx.groups(), self.key_mapper, self.element_mapper
        renews = self.evict == "least_recent"
        for value in values:
            key = key_mapper(value)
            try:
                group = groups.get(key)
            except TypeError:
                check_key(f"the key of {self.name}", key)
                raise
            if group is None:
                self._open(cx, key, value)
                if not cx.active:  # what came downstream has ended us
                    return
                continue
            if renews:
                cx.renew(key)
            group.feed((value if element_mapper is None else element_mapper(value),))

    def _open(self, cx: Context, key: Hashable, value: Any) -> None:
        """Start the group of *key* and give it the element with which it begins."""
        if self.groups_max is not None:
            self._make_room(cx, self.groups_max)
        group, element_mapper = self.begin(cx, key), self.element_mapper
        if not cx.active:
            return
        try:
            group.feed((value if element_mapper is None else element_mapper(value),))
        finally:
            self.begun(cx, group)

    def begin(self, cx: Context, key: Hashable) -> Any:
        """Start the group of *key*, emit it, and return what feeds it."""
        group = cx.begin(key)
        cx.moment(self.emit_group, cx, group)
        return group.subject  # type: ignore[attr-defined]

    def begun(self, cx: Context, group: Any) -> None:
        """A group has had the element with which it began."""

    def emit_group(self, cx: Context, group: Any) -> bool:
        """Emit a group; give it up and return False if its event was skipped and nothing reads it.

        The next event of its key begins it again.
        """
        if not cx.may_skip:
            cx.emit(group)
            return True
        skipped = cx.skipped
        cx.emit(group)
        if cx.skipped == skipped or group.subject.subscribers:
            return True
        cx.end(group.subject.key)
        return False

    def _make_room(self, cx: Context, most: int) -> None:
        while len(cx.groups()) >= most:
            if self.evict == "fail":
                raise too_many(cx, "groups", most, "groups_max")
            key = next(iter(cx.groups()))
            cx.end(key)
            cx.close(key)


@frozen
class GroupByUntil(GroupBy, name="group_by_until"):
    reads_own = True
    duration_mapper: Callable[[Any], Any] | None = None

    def inner(self, outer: Any) -> Observable[Any]:
        return as_query(self.duration_mapper(outer))  # type: ignore[misc]

    def begin(self, cx: Context, key: Hashable) -> Any:
        group: Any = cx.begin(key)
        subject = group.subject
        cx.prepare(subject.key, group)
        if cx.moment(self.emit_group, cx, group):
            cx.moment(self.start, cx, subject)
        else:
            cx.close(subject.key)
        return subject

    def start(self, cx: Context, group: Any) -> None:
        """Start the duration of a group, which what it sets going without delay may end: behind the first element."""
        cx.start(group.key)
        group.is_over = False

    def begun(self, cx: Context, group: Any) -> None:
        is_over, group.is_over = group.is_over, None
        if is_over:
            cx.end(group.key)

    def on_unopened(self, cx: Context, key: Hashable) -> None:
        cx.end(key)

    def on_inner_next(self, cx: Context, key: Hashable, values: Sequence[Any]) -> None:
        self.on_inner_completed(cx, key)

    def on_inner_completed(self, cx: Context, key: Hashable) -> None:
        cx.close(key)
        group = cx.groups().get(key)
        if group is not None and group.is_over is False:
            group.is_over = True
        else:
            cx.end(key)

    def on_inner_refused(self, cx: Context, key: Hashable) -> None:
        """A group that has no duration is given up with it, and begins again with the next event of its key."""
        cx.drop(key)


@frozen
class GroupByTtl(GroupByUntil, name="group_by"):
    """`group_by` with a time to live, which an edit may give to groups that live, or take from them."""

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "ttl": True}

    def on_adopted(self, cx: Context, before: Before) -> None:
        for key, group in () if before.settings.get("ttl") else tuple(cx.groups().items()):
            cx.open(key, Inner(group))


@frozen
class Idle(Stage, name="idle"):
    """Complete when nothing has come for *ttl_s*; one timer that is only moved when it fires."""

    ttl_s: float

    @dataclass(slots=True)
    class State:
        last_s: float = 0.0

    def on_start(self, cx: Context) -> None:
        cx.state.last_s = cx.now
        cx.schedule(cx.now + self.ttl_s, "idle")
        cx.subscribe_all()

    def on_batch(self, cx: Context, port: int, values: Sequence[Any]) -> None:
        cx.state.last_s = cx.now

    def adopt(self, state: State, before: Before) -> bool:
        return True

    def on_adopted(self, cx: Context, before: Before) -> None:
        cx.schedule(max(cx.now, cx.state.last_s + self.ttl_s), "idle")

    def on_timer(self, cx: Context, tag: Hashable) -> None:
        due = cx.state.last_s + self.ttl_s
        if due <= cx.now:
            cx.complete()
        else:
            cx.schedule(due, "idle")


@overload
def group_by(
    key_mapper: Callable[[A], K],
    element_mapper: None = None,
    subject_mapper: None = None,
    *,
    ttl_s: float | None = None,
    groups_max: int | None = None,
    evict: Evict = "fail",
) -> Callable[[Observable[A]], Query[Inner[K, A]]]: ...
@overload
def group_by(
    key_mapper: Callable[[A], K],
    element_mapper: Callable[[A], B],
    subject_mapper: None = None,
    *,
    ttl_s: float | None = None,
    groups_max: int | None = None,
    evict: Evict = "fail",
) -> Callable[[Observable[A]], Query[Inner[K, B]]]: ...
@overload
def group_by(
    key_mapper: Callable[[A], K],
    element_mapper: Callable[[A], Any] | None = None,
    *,
    subject_mapper: Callable[[], Any],
) -> Callable[[Observable[A]], Query[GroupedObservable[K, Any]]]: ...
@overload
def group_by(
    key_mapper: Callable[[A], K],
    element_mapper: Callable[[A], Any] | None,
    subject_mapper: Callable[[], Any],
) -> Callable[[Observable[A]], Query[GroupedObservable[K, Any]]]: ...
def group_by(
    key_mapper: Callable[[Any], Any],
    element_mapper: Callable[[Any], Any] | None = None,
    subject_mapper: Callable[[], Any] | None = None,
    *,
    ttl_s: float | None = None,
    groups_max: int | None = None,
    evict: Evict = "fail",
) -> Callable[[Observable[Any]], Query[Any]]:
    """Split the sequence into one inner sequence per key.

    >>> import reliable_rx as rx
    >>> rx.range(5).group_by(lambda x: x % 2).flat_map(lambda g: g.sum().map(lambda n: (g.key, n))).to_list().run()
    [(0, 6), (1, 4)]
    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> odd_or_even = lambda s: s.pipe(group_by(lambda x: x % 2), ops.flat_map(lambda g: g.pipe(ops.count())))
    >>> diagram(odd_or_even, "-1-2-3-|")
    -1-2-3-|
    -------(2 1 |)

    Beyond RxPY, groups can be given up: with *ttl_s*, a group that had no element for so many seconds of the query's
    clock completes; with *groups_max*, *evict* says what happens when one more is needed: ``fail``, or complete the
    ``oldest`` group, or the ``least_recent`` one, which has waited longest for an element. A key that comes again
    begins a new group.

    A *subject_mapper* works un-hosted only: nobody can save the subject that it returns.

    *State*: one row per key, which also holds the state of what reads the group; bounded by `Limits.groups_max`, which
    fails the query, and before that by *groups_max*. A group whose readers have left is a row without content.

    *Raises* `ValueError` for an *evict* without maximum and for bounds that are not positive.
    """
    check_eviction("groups_max", groups_max, evict, ttl_s)
    if subject_mapper is not None:
        return with_subjects("group_by", _plain_group_by(key_mapper, element_mapper, subject_mapper), ttl_s, groups_max)
    if ttl_s is not None:
        return GroupByTtl(key_mapper, element_mapper, groups_max, evict, Idle(ttl_s))
    return GroupBy(key_mapper, element_mapper, groups_max, evict)


def with_subjects(name: str, make: Callable[..., Observable[Any]], *bounds: Any) -> Operator:
    """Return RxPY's own operator for groups made of the caller's subjects."""
    if bounds != (None,) * len(bounds):
        raise ValueError(f"{name} takes a subject_mapper, which only RxPY's own can run, or bounds, but not both")
    instead = "leave it out and put start_with, take_last or replay behind the group"
    return PlainOperator(f"{name}(subject_mapper=...)", make, instead)


@overload
def group_by_until(
    key_mapper: Callable[[A], K],
    element_mapper: None,
    duration_mapper: Callable[[Inner[K, A]], Observable[Any]],
    subject_mapper: Callable[[], Any] | None = None,
    *,
    groups_max: int | None = None,
    evict: Evict = "fail",
) -> Callable[[Observable[A]], Query[Inner[K, A]]]: ...
@overload
def group_by_until(
    key_mapper: Callable[[A], K],
    element_mapper: Callable[[A], B],
    duration_mapper: Callable[[Inner[K, B]], Observable[Any]],
    subject_mapper: Callable[[], Any] | None = None,
    *,
    groups_max: int | None = None,
    evict: Evict = "fail",
) -> Callable[[Observable[A]], Query[Inner[K, B]]]: ...
def group_by_until(
    key_mapper: Callable[[Any], Any],
    element_mapper: Callable[[Any], Any] | None,
    duration_mapper: Callable[[Any], Observable[Any]],
    subject_mapper: Callable[[], Any] | None = None,
    *,
    groups_max: int | None = None,
    evict: Evict = "fail",
) -> Callable[[Observable[Any]], Query[Any]]:
    """Split the sequence into one inner sequence per key, each until its duration emits or completes.

    >>> import reliable_rx as rx
    >>> from reliable_rx import operators as ops
    >>> from reliable_rx.testing import diagram
    >>> in_pairs = group_by_until(lambda x: x, None, lambda group: group.pipe(ops.skip(1)))
    >>> diagram(lambda s: s.pipe(in_pairs, ops.flat_map(lambda g: g.pipe(ops.to_list()))), "-1-2-1-1-|")
    -1-2-1------1-|
    -----[1, 1]---([2] [1] |)

    A key that comes again begins a new group. *duration_mapper* gets the group; hosted it is called once where that is
    possible, and its sub-plan shared by all groups. *groups_max* and *evict* are those of `group_by`.

    *State*: one row per live group, with the state of what reads it and of its duration; bounded by
    `Limits.groups_max` and `Limits.inner_max`. *subject_mapper* works un-hosted only, as in `group_by`.
    """
    check_eviction("groups_max", groups_max, evict, None)
    if subject_mapper is not None:
        plain_until = _plain_group_by_until(key_mapper, element_mapper, duration_mapper, subject_mapper)
        return with_subjects("group_by_until", plain_until, groups_max)
    return GroupByUntil(key_mapper, element_mapper, groups_max, evict, duration_mapper)
