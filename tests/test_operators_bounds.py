"""What bounds operators that keep things: their own maxima, the limits of the query, and what a host refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events, Tick
from reliable_rx import operators as ops

ONE = rx.Limits(windows_max=1, groups_max=1, distinct_keys_max=1, queue_items_max=1, list_items_max=1, inner_max=1)
KEYED = ops.flat_map(lambda g: g.pipe(ops.count(), ops.map(lambda n: (g.key, n))))


def failure(query: Any, *turns: Any, limits: rx.Limits = ONE) -> Any:
    """Return how *query* over the sources a and b ends."""
    engine = QueryEngine()
    for name in "ab":
        engine.declare(name, ["0"])
    outputs = engine.take(engine.creation("q", query, time=0.0, limits=limits))
    for turn in turns:
        outputs += engine.take(turn)
    return next((out.error for out in outputs if out.ended), None)


@pytest.mark.parametrize(
    "op",
    [
        ops.buffer_when(lambda: rx.timer(1.0)),
        ops.concat_map(lambda x: rx.timer(1.0)),
        lambda s: s.pipe(ops.map(lambda x: rx.timer(1.0)), ops.exclusive()),
        lambda s: s.pipe(ops.map(lambda x: rx.timer(1.0)), ops.switch_latest()),
        ops.switch_map(lambda x: rx.timer(1.0)),
        ops.switch_map_indexed(lambda x, i: rx.timer(1.0)),
        ops.throttle_with_mapper(lambda x: rx.timer(1.0)),
        ops.timeout_with_mapper(None, lambda x: rx.timer(1.0)),
        ops.window_when(lambda: rx.timer(1.0)),
    ],
)
def test_what_reads_one_sequence_at_a_time_needs_one_row(op: Any) -> None:
    """Operators that let go of an inner sequence before they read another stay within one live subscription."""
    query = A.pipe(op, ops.map(lambda x: 0))
    turns = [events("a", 1, 2, 3), Tick(1.5), events("a", 4, 5, first=3, time=1.75)]
    assert failure(query, *turns, limits=rx.Limits(inner_max=1)) is None


def events(source: str, *values: Any, first: int = 0, time: float = 1.0) -> Events:
    return Events(source, "0", first, values, time)


A, B = rx.source("a"), rx.source("b")


@pytest.mark.parametrize(
    ("query", "limit"),
    [
        (A.pipe(ops.group_by(lambda x: x, groups_max=1), KEYED), "groups_max"),
        (A.pipe(ops.group_by(lambda x: x, ttl_s=9.0), KEYED), "groups_max"),
        (A.pipe(ops.group_by_until(lambda x: x, None, lambda g: rx.never()), KEYED), "groups_max"),
        (A.pipe(ops.distinct(keys_max=1)), "keys_max"),
        (A.pipe(ops.distinct(ttl_s=9.0)), "distinct_keys_max"),
        (A.pipe(ops.sliding_window(4, 1), ops.merge_all()), "windows_max"),
        (A.pipe(ops.window_toggle(A, lambda x: rx.never()), ops.merge_all()), "windows_max"),
        (A.pipe(ops.group_join(B, lambda x: rx.never(), lambda x: rx.never())), "windows_max"),
        (A.pipe(ops.buffer(B)), "list_items_max"),
        (A.pipe(ops.buffer_when(lambda: B)), "list_items_max"),
        (A.pipe(ops.buffer_with_inactivity(5.0)), "list_items_max"),
        (A.pipe(ops.buffer_toggle(A, lambda x: rx.never())), "inner_max"),
        (A.pipe(ops.join(B, lambda x: rx.never(), lambda x: rx.never())), "queue_items_max"),
        (A.pipe(ops.join_within(B, lambda x: x, within_s=9.0)), "queue_items_max"),
    ],
    ids=lambda each: repr(each)[:60],
)
def test_what_grows_is_bounded(query: Any, limit: str) -> None:
    """One element too many fails the query with the operator's path and the limit's name."""
    error = failure(query, events("a", 1, 2))
    assert isinstance(error, rx.LimitExceeded)
    assert error.limit == limit
    assert error.path.startswith("/")


@pytest.mark.parametrize(
    "make",
    [
        lambda: ops.group_by(lambda x: x, evict="oldest"),
        lambda: ops.group_by(lambda x: x, groups_max=1, evict="newest"),  # type: ignore[call-overload]
        lambda: ops.group_by(lambda x: x, groups_max=0),
        lambda: ops.group_by(lambda x: x, ttl_s=0),
        lambda: ops.group_by(lambda x: x, None, list, ttl_s=1),
        lambda: ops.group_by_until(lambda x: x, None, lambda g: g, list, groups_max=1),
        lambda: ops.distinct(evict="oldest"),
        lambda: ops.distinct(None, lambda a, b: a == b, keys_max=1),  # type: ignore[call-overload]
        lambda: ops.window_with_inactivity(0),
        lambda: ops.buffer_with_inactivity(float("nan")),
        lambda: ops.tumbling_window(0),
        lambda: ops.sliding_window(1, -1),
        lambda: ops.join_within(rx.never(), abs, within_s=-1),
    ],
)
def test_bounds_that_bound_nothing_are_refused(make: Callable[[], Any]) -> None:
    """A bound that is not positive, or that belongs to nothing, is refused where it is written."""
    with pytest.raises(ValueError, match=r"must be|leave the comparer|not both|says what happens"):
        make()


def test_subject_mapper_is_refused_when_hosted() -> None:
    """Subjects of the caller cannot be saved, and the refusal says what to do."""
    with pytest.raises(rx.QueryRefused, match="leave it out and put start_with, take_last or replay behind the group"):
        failure(A.pipe(ops.group_by(lambda x: x, None, list), KEYED))


def rows(engine: QueryEngine) -> int:
    """Count what lies inside the standing query q."""
    from reliable_rx.runtime.outliving import units

    return len(list(units(engine.standing["q"])))


def test_idle_groups_leave_nothing() -> None:
    """A group that has lived out its time leaves neither its row nor those of its readers and its clock."""
    engine = QueryEngine()
    engine.declare("a", ["0"])
    engine.take(engine.creation("q", A.pipe(ops.group_by(lambda x: x, ttl_s=10.0), KEYED), time=0.0))
    engine.take(events("a", *range(50)))
    assert rows(engine) == 50
    engine.take(events("a", 7, first=50, time=6.0))
    (out,) = engine.take(Tick(11.0))
    assert (len(out.values), rows(engine)) == (49, 1)
    (out,) = engine.take(Tick(16.0))
    assert (list(out.values), rows(engine)) == ([(7, 2)], 0)


def test_join_within_forgets() -> None:
    """What is too old to be joined is let go of when the next element comes."""
    engine = QueryEngine()
    for name in "ab":
        engine.declare(name, ["0"])
    engine.take(engine.creation("q", A.pipe(ops.join_within(B, lambda x: x % 10, within_s=5.0)), time=0.0))
    engine.take(events("a", *range(100)))
    engine.take(events("b", 3, time=6.5))
    standing = engine.standing["q"]
    left, right = next(state for state in standing.states if state is not None).sides
    assert (left.by_key, len(left.order)) == ({}, 0)
    assert list(right.by_key) == [3]


@pytest.mark.parametrize(("evict", "kept"), [("oldest", [2, 3]), ("least_recent", [1, 3])])
def test_which_group_has_to_go(evict: Any, kept: list[int]) -> None:
    """The one that began first, or the one that has had no element for longest: an element of a group renews it."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    query = rx.source("n").pipe(
        ops.group_by(lambda n: n, groups_max=2, evict=evict), ops.flat_map(lambda g: g.pipe(ops.count()))
    )
    engine.take(engine.creation("q", query, time=0.0))
    (out,) = engine.take(Events("n", "0", 0, [1, 1, 2, 1, 3], 1.0))
    assert list(out.values) == [{1: 3, 2: 1, 3: 1}[key] for key in {1, 2, 3} - set(kept)]


def test_a_group_whose_duration_cannot_be_made_is_none() -> None:
    """It has not begun: the next element of its key is tried as the first was, and not lost in a group nobody reads."""
    wrong = {0}

    def duration(g: Any) -> Any:
        if g.key in wrong:
            raise ValueError("not now")
        return rx.never()

    engine = QueryEngine()
    engine.declare("n", ["0"])
    query = rx.source("n").pipe(
        ops.group_by_until(lambda n: 0, None, duration), ops.flat_map(lambda g: g.pipe(ops.map(str)))
    )
    engine.take(engine.creation("q", query, time=0.0, policy="skip"))
    assert not engine.take(Events("n", "0", 0, [1], 1.0))
    wrong.clear()
    assert [list(out.values) for out in engine.take(Events("n", "0", 1, [2, 3], 1.0))] == [["2", "3"]]
