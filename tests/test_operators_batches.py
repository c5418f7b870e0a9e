"""One event at a time and whole lists are the same thing, also when a user function fails in the middle."""

from __future__ import annotations

import copy
import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
import reactivex
from every_case import CASES, Case, lanes
from reactivex.scheduler import VirtualTimeScheduler

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Events
from reliable_rx import operators as ops
from reliable_rx.operators.contract.operator import Linear
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.operators.filtering import WhereKey
from reliable_rx.operators.zip_iterable import ZipWithIterator
from reliable_rx.query.query import ForeignLeaf, Node, SourceLeaf, walk
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import Plan
from reliable_rx.unhosted.subscribing import PlainWorld

Outcome = tuple[list[str], Any, Any, dict[str, Any]]  # what came out, how it ended, the error, the state


def linear_operators() -> Iterator[tuple[str, tuple[Linear, Case]]]:
    """Yield every linear operator of the table, with its parameters and the values to feed it."""
    numbers = itertools.count()
    for name, case in CASES.items():
        if case.reference is None and case.sources == 1:
            query = case.build(ops, rx, rx.source("s"))
            for node in walk(query.node):
                if isinstance(node.op, Linear) and not isinstance(node.op, ZipWithIterator):  # its state is an iterator
                    yield f"{name} {node.op.name} {next(numbers)}", (node.op, case)


LINEAR = dict(linear_operators())


def fields_of(op: Linear, state: Any) -> dict[str, Any]:
    return {name: copy.deepcopy(getattr(state, name)) for name in state_fields(type(op))}


def take(op: Linear, state: Any, chunks: list[tuple[Any, ...]], *, whole: bool) -> Outcome:
    out: list[Any] = []
    done, error = None, None
    try:
        for chunk in chunks:
            step = op.on_batch if whole else op.on_next
            done = step(state, chunk if whole else chunk[0], out)
            if done:
                break
        else:
            op.on_completed(state, out)
    except Exception as raised:
        error = (type(raised), str(raised))
    return [repr(value) for value in out], bool(done), error, fields_of(op, state)


@pytest.mark.parametrize("name", lanes(LINEAR, fast=1, every=3))
def test_lists_are_single_events(name: str) -> None:
    """A list gives the outputs, end, error and state that its elements one by one give, wherever it is cut."""
    op, case = LINEAR[name]
    for values in words(case, 4):
        one_by_one = take(op, op.initial(), [(value,) for value in values], whole=False)
        for cut in range(len(values) + 1):
            in_lists = take(op, op.initial(), [values[:cut], values[cut:]], whole=True)
            assert in_lists == one_by_one, (values, cut)


@pytest.mark.parametrize("name", lanes(LINEAR, fast=1, every=3))
def test_an_error_leaves_the_state_alone(name: str) -> None:
    """When a user function fails, the state is what it was before the element, so that a host may skip it."""
    op, case = LINEAR[name]
    for values in words(case, 4):
        state = op.initial()
        for value in values:
            before = fields_of(op, state)
            out: list[Any] = []
            try:
                if op.on_next(state, value, out):
                    break
            except Exception:
                assert fields_of(op, state) == before, (values, value)
                assert out == []


def words(case: Case, length_max: int) -> Iterator[tuple[Any, ...]]:
    for length in range(length_max + 1):
        yield from itertools.product(case.alphabet, repeat=length)


def test_no_linear_operator_is_missing() -> None:
    """Every linear operator stands in the table."""
    modules = [importlib.import_module(each.name) for each in pkgutil.iter_modules(ops.__path__, f"{ops.__name__}.")]
    known = {kind for module in modules for kind in vars(module).values() if inspect.isclass(kind)}
    wanted = {kind for kind in known if issubclass(kind, Linear) and kind.name}
    covered = {type(op) for op, _ in LINEAR.values()} | {WhereKey, ZipWithIterator}
    assert wanted - covered == set()


# -- whole plans


class Recorder:
    """A sink that keeps what comes."""

    def __init__(self) -> None:
        self.record: list[Any] = []

    def inner_deliver(self, instance: Instance, values: Any) -> None:
        self.record += [repr(value) for value in values]

    def inner_finish(self, instance: Instance, error: Exception | None) -> None:
        self.record.append(("end", repr(error)))


def sourced_once(case: Case) -> bool:
    """Whether the query reads one source in one place, which is when a host may feed it lists."""
    if case.sources != 1 or case.reference is not None:
        return False
    nodes = list(walk(case.build(ops, rx, rx.source("s")).node))
    return sum(isinstance(node.op, SourceLeaf) for node in nodes) == 1 and not any(
        getattr(node.op, "resubscribes", False) for node in nodes
    )


def play(case: Case, chunks: list[tuple[Any, ...]]) -> list[Any]:
    """Feed lists into a plan, all at one time, then let time pass."""
    clock = VirtualTimeScheduler(0.0)
    world, sink = PlainWorld(clock), Recorder()
    source = rx.Query(Node(ForeignLeaf(reactivex.never())))
    plan = Plan(case.build(ops, rx, source).node, symbolic=True)
    instance = Instance(plan, world, sink, None)
    (leaf,) = (leaf for leaf in plan.leaves if isinstance(leaf.op, ForeignLeaf))
    instance.start()
    clock.advance_to(1.0)
    for chunk in chunks:
        if instance.active & leaf.bit:
            leaf.deliver(instance, chunk)
    clock.advance_to(1.5)
    instance.end_leaf(leaf, None)
    clock.advance_to(20.0)
    return sink.record


@pytest.mark.parametrize(
    "name", lanes((name for name, case in CASES.items() if case.hostable and sourced_once(case)), fast=1, every=4)
)
def test_a_plan_takes_lists(name: str) -> None:
    """A query that reads its source in one place gives for a list what it gives for its elements one by one."""
    case = CASES[name]
    for values in words(case, 3):
        assert play(case, [values]) == play(case, [(value,) for value in values]), values


def bucket(value: Any) -> int:
    return len(repr(value)) % 2


AROUND: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "in groups": lambda built: lambda s: s.pipe(ops.group_by(bucket), ops.flat_map(built)),
    "in groups of groups": lambda built: (
        lambda s: s.pipe(ops.group_by(bucket), ops.flat_map(lambda g: g.pipe(ops.group_by(repr), ops.flat_map(built))))
    ),
    "with groups behind": lambda built: (
        lambda s: built(s).pipe(ops.group_by(bucket), ops.flat_map(lambda g: g.pipe(ops.take(2), ops.map(repr))))
    ),
    "between groups": lambda built: (
        lambda s: s.pipe(
            ops.group_by(bucket), ops.flat_map(built), ops.group_by(repr), ops.flat_map(lambda g: g.pipe(ops.map(repr)))
        )
    ),
}
"""What stands around an operator that a list may be handed on through: readers of groups gather what they emit."""


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize(
    "name", lanes((name for name, case in CASES.items() if case.hostable and sourced_once(case)), fast=1, every=32)
)
def test_groups_take_lists(name: str, around: str) -> None:
    """The same holds of every operator in groups, in groups of groups, before groups and between them."""
    case = CASES[name]
    framed = replace(case, build=lambda o, r, s: AROUND[around](lambda each: case.build(o, r, each))(s))
    for values in words(case, 3):
        assert play(framed, [values]) == play(framed, [(value,) for value in values]), values


def test_a_list_is_counted_by_what_the_predicate_says() -> None:
    """As many as satisfy it, however many come together."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    engine.take(engine.creation("q", rx.source("n").pipe(ops.count(lambda n: n > 2)), time=0.0))
    (out,) = engine.take(Events("n", "0", 0, [1, 2, 3, 4], 1.0, ended=True))
    assert list(out.values) == [2]
