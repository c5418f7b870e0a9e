"""What operators that pick, decide and compare promise beyond what the table of cases can show."""

from __future__ import annotations

import math
from typing import Any

import pytest
import reactivex
from reactivex.internal import ArgumentOutOfRangeException
from reactivex.subject import Subject
from test_operators_values import Touchy

import reliable_rx as rx
from reliable_rx import operators as ops
from reliable_rx.errors import LimitExceeded
from reliable_rx.limits import Limits
from reliable_rx.operators.distinct import Distinct
from reliable_rx.query.query import ForeignLeaf, Node
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import Plan
from reliable_rx.runtime.plan_keys import recognise
from reliable_rx.runtime.segments import bounded
from reliable_rx.unhosted.subscribing import PlainWorld, rebuild_state


@pytest.mark.parametrize(
    "operator",
    [
        ops.element_at(0), ops.element_at_or_default(1), ops.find(lambda x, i, source: i), ops.first_or_default(),
        ops.last_or_default(), ops.take_last(1), ops.take_last_buffer(1), ops.skip_last(1), ops.slice(0, 2),
        ops.slice(-2, 5, 2), ops.ignore_elements(), ops.is_empty(), ops.some(), ops.filter_indexed(), ops.first(),
        ops.take_while_indexed(lambda x, i: True), ops.skip_while_indexed(lambda x, i: False),
        ops.min_by(lambda x: 1), ops.single_or_default(lambda x: False), ops.distinct(lambda x: 1),
        ops.all(lambda x: True), ops.contains(Touchy(), lambda x, value: False), ops.take(2),
    ],
)  # fmt: skip
def test_carried_values_are_not_looked_at(operator: Any) -> None:
    """Arrays and frames pass, though they have no truth value and no plain equality."""
    errors: list[Exception] = []
    rx.of(Touchy(), Touchy()).pipe(operator).subscribe(on_error=errors.append)
    assert errors == []


@pytest.mark.parametrize("build", [ops.take, ops.skip, ops.element_at, ops.element_at_or_default])
def test_a_place_is_not_negative(build: Any) -> None:
    """A negative count or index is refused where the query is written, with RxPY's exception."""
    with pytest.raises(ArgumentOutOfRangeException):
        build(-1)


def test_a_slice_goes_forwards() -> None:
    """A negative step is refused, as it is by RxPY."""
    with pytest.raises(TypeError, match="Negative step"):
        rx.of(1)[::-1]


def test_slices_are_hostable_and_short() -> None:
    """``xs[...]`` gives a query over named sources again, of one operator where that is enough."""
    source = rx.source("n")
    assert [repr(source[1:4:2]), repr(source[3]), repr(source[-3:5]), repr(source[1:-2])] == [
        "source('n').slice(1, 4, 2)",
        "source('n').slice(3, 4, 1)",
        "source('n').slice_from_end(-3, 5, 1)",
        "source('n').skip(1).skip_last(2)",
    ]
    assert source[1:-2:3].is_hostable


@pytest.mark.parametrize(
    "operator",
    [
        ops.filter_indexed(lambda x, i: i == 0), ops.skip_while_indexed(lambda x, i: i < 1),
        ops.take_while_indexed(lambda x, i: i < 1), ops.find_index(lambda x, i, source: i == 1),
    ],
)  # fmt: skip
def test_every_subscription_counts_for_itself(operator: Any) -> None:
    """A second subscriber of the same pipeline gets what the first one got."""
    query, first, second = rx.of(5, 6).pipe(operator), [], []
    query.subscribe(first.append)
    query.subscribe(second.append)
    assert first == second != []


@pytest.mark.parametrize("pairs", [ops.zip, ops.zip_latest])
def test_what_is_paired_ends_with_the_last_pair(pairs: Any) -> None:
    """Of an input that has ended the element that waited is paired, and with that pair all is over."""
    said: list[Any] = []
    numbers: Subject[int] = Subject()
    rx.of("a").pipe(pairs(numbers)).subscribe(said.append, on_completed=lambda: said.append("completed"))
    for n in range(2):
        numbers.on_next(n)
    assert said == [("a", 0), "completed"]


def test_find_is_given_the_sequence_itself() -> None:
    """The predicate gets the very observable that was piped, a query if it was one, its sources bound if they are."""
    given: list[Any] = []
    search = ops.find(lambda x, i, source: given.append(source))
    plain: Subject[int] = Subject()
    plain.pipe(search).subscribe()
    plain.on_next(1)
    query = rx.of(1)
    query.pipe(search).subscribe()
    rx.source("n").pipe(ops.map(), search).bind(n=reactivex.of(1)).subscribe()
    assert given[:2] == [plain, query]
    assert given[2].run() == 1


@pytest.mark.parametrize("build", [ops.find, ops.find_index])
def test_find_counts_the_elements(build: Any) -> None:
    """The predicate is given the place of each element, from 0 on, as `enumerate` gives it."""
    given: list[Any] = []
    rx.of(*"abcd").pipe(build(lambda x, i, source: given.append((i, x)))).subscribe()
    assert given == list(enumerate("abcd"))


def test_queries_that_find_share_a_plan() -> None:
    """What the predicate is given as the sequence is no parameter: equal queries are recognised as equal."""

    def build() -> Any:
        return rx.source("n").pipe(ops.map(), ops.find(lambda x, i, source: x == 3))

    first, second = build(), build()
    assert recognise(first.node) == recognise(second.node)
    assert first.content_hash == second.content_hash


def test_what_is_not_equal_to_itself_is_always_new() -> None:
    """A set would find the same nan by identity, and another one after a restart: distinct knows none, ever."""
    for rebuilt in (False, True):
        with rebuild_state(rebuilt):
            assert rx.of(math.nan, math.nan).pipe(ops.distinct(), ops.count()).run() == 2
    state = Distinct().initial()
    Distinct().on_batch(state, [math.nan] * 3, [])
    assert (state.seen, state.compared) == ({}, [])


def test_smallest_and_largest_need_an_order_only() -> None:
    """Text and dates are compared with < and >; RxPY subtracts them."""
    assert rx.of("b", "a", "c").pipe(ops.min()).run() == "a"
    assert rx.of("bb", "a", "cc").pipe(ops.max_by(len)).run() == ["bb", "cc"]


@pytest.mark.parametrize(
    ("operator", "limits"),
    [
        (ops.sequence_equal(rx.never()), Limits(queue_items_max=3)),
        (ops.to_list(), Limits(list_items_max=3)),
        (ops.min_by(lambda x: 1), Limits(list_items_max=3)),
        (ops.distinct(), Limits(distinct_keys_max=3)),
        (ops.distinct(lambda x: [x]), Limits(distinct_keys_max=3)),
    ],
)
def test_what_grows_is_bounded(operator: Any, limits: Limits) -> None:
    """The element that passes a limit fails the query, and the error names the operator and the limit."""
    sink = Recorder()
    query = rx.Query(Node(ForeignLeaf(reactivex.never()))).pipe(operator)
    plan = Plan(query.node, limits=limits, symbolic=True)
    instance = Instance(plan, PlainWorld(None), sink, None)
    instance.start()
    for value in range(4):
        assert sink.record == [n for n in range(value) if isinstance(plan.root.op, Distinct)]
        plan.leaves[0].deliver(instance, (value,))
    kind, error = sink.record[-1]
    assert kind == "end"
    assert isinstance(error, LimitExceeded)
    assert (error.path, error.most) == (plan.root.path, 3)


class Recorder:
    """A sink that keeps what comes."""

    def __init__(self) -> None:
        self.record: list[Any] = []

    def inner_deliver(self, instance: Instance, values: Any) -> None:
        self.record += values

    def inner_finish(self, instance: Instance, error: Exception | None) -> None:
        self.record.append(("end", error))


def test_a_watched_list_passes_on_the_errors_of_user_functions() -> None:
    """Near a limit a list is taken one by one: a StopIteration of a user function stays what it is."""

    def key(value: int) -> int:
        raise StopIteration

    plan = Plan(rx.source("n").pipe(ops.distinct(key)).node, limits=Limits(distinct_keys_max=1), symbolic=True)
    on_batch, _ = bounded(plan.root)
    with pytest.raises(StopIteration):
        on_batch(plan.root.op, plan.root.op.initial(), [1, 2, 3], [])
