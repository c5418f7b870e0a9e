"""Queries that branch and join, under ``skip`` and ``dead_letter``: in step for ever, or refused when created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from every_case import CASES
from lanes import crossed, every
from skipping import VALUES, played

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine.skipping import calls_function, may_raise
from reliable_rx import operators as ops
from reliable_rx.errors import QueryRefused
from reliable_rx.limits import Limits
from reliable_rx.operators.contract.operator import Linear, Operator
from reliable_rx.operators.contract.parameters import frozen
from reliable_rx.query.query import apply, parameters
from reliable_rx.runtime.plan import Plan
from reliable_rx.testing import hostile

N: Any = rx.source("n")
M: Any = rx.source("m")
Function = Callable[..., Any]
Build = Callable[[Any, Function], Any]


@dataclass(frozen=True)
class Cents:
    n: int = 0


@dataclass(frozen=True)
class Euros:
    """Its fields are those of `Cents`, and it raises where that does not."""

    n: int = 0

    def __post_init__(self) -> None:
        float(self.n)


def shared(n: Any, build: Callable[[Any], Any]) -> Any:
    return build(n.share())


REFUSED: dict[str, Build] = {
    "zip": lambda n, f: n.zip(n.map(f)),
    "zip, on the left": lambda n, f: n.map(f).zip(n),
    "the third": lambda n, f: rx.zip(M, n, n.map(f)),
    "both": lambda n, f: n.map(f).zip(n.map(lambda x: f(x) + 1)),
    "a filter": lambda n, f: n.filter(f).zip(n),
    "far up": lambda n, f: n.map(f).skip(1).start_with(0).zip(n.skip(1)),
    "skipped before": lambda n, f: n.map(f).zip(n.skip(1).map(f)),
    "within a merge": lambda n, f: n.merge(M.map(f)).zip(M),
    "sequence_equal": lambda n, f: n.sequence_equal(n.map(f)),
    "zip_latest": lambda n, f: n.map(f).zip_latest(n),
    "publish": lambda n, f: n.publish(lambda s: s.zip(s.map(f))),
    "share": lambda n, f: shared(n, lambda s: s.zip(s.map(f))),
    "shared and not": lambda n, f: shared(n.map(f), lambda s: s.zip(n)),
    "a group": lambda n, f: n.group_by(lambda n: n % 2).flat_map(lambda g: g.zip(g.map(f))),
    "a group and its source": lambda n, f: n.group_by(lambda n: n % 2).flat_map(lambda g: g.zip(n.map(f))),
    "in a group's share": lambda n, f: n.window_with_count(3).flat_map(lambda w: shared(w, lambda s: s.zip(s.map(f)))),
    "by a selector": lambda n, f: n.zip(n.flat_map(lambda x: rx.of(f(x)))),
    "behind it": lambda n, f: n.zip(n.map(f)).map(str).take(5),
    "one function, other operators": lambda n, f: n.map(f).zip(n.filter(f)),
    "one function, other arguments": lambda n, f: (lambda g: n.scan(g, 0).zip(n.scan(g, 1)))(
        lambda total, x: total + f(x)
    ),
    "classes that are alike": lambda n, f: n.map(Cents).zip(n.map(Euros)),
    "one function twice": lambda n, f: n.map(f).zip(n.map(f).map(f)),
}


@pytest.mark.parametrize("shape, policy", crossed(REFUSED, ["skip", "dead_letter"], nightly=1))
def test_what_would_pair_wrongly_is_refused(shape: str, policy: Any) -> None:
    """It is named when the query is created, with what to do, and nothing is created; under ``fail`` it runs."""
    query = REFUSED[shape](N, float)
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(VALUES))
        evaluator.source("m", ListSource(VALUES))
        for create in (evaluator.create, lambda name, query, **how: evaluator.create_many({name: query}, **how)):
            with pytest.raises(QueryRefused, match=r"pairs by position.* before the branches part") as refused:
                create("q", query, policy=policy)
            assert refused.value.path.rsplit("/", 1)[-1].startswith(("zip", "sequence_equal"))
        evaluator.create("q", query)
        evaluator.run()
        assert evaluator.query("q").status == "completed"


@frozen
class Halves(Linear, name="halves"):
    """An operator of the user's, which this library knows nothing of."""

    def on_next(self, state: None, value: Any, out: list[Any]) -> None:
        out.append(value / 2)


BY_ITSELF: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "merge_all": (lambda n: n.merge_all(), [[1], 0, [2], [3]]),
    "merge, two at a time": (lambda n: n.merge(max_concurrent=2), [[1], 0, [2], [3]]),
    "concat_all": (lambda n: n.concat_all(), [[1], 0, [2], [3]]),
    "switch_latest": (lambda n: n.switch_latest(), [[1], 0, [2], [3]]),
    "exclusive": (lambda n: n.exclusive(), [[1], 0, [2], [3]]),
    "flat_map": (lambda n: n.flat_map(), [[1], 0, [2], [3]]),
    "dematerialize": (lambda n: n.dematerialize(), [0, 1]),
    "starmap": (lambda n: n.starmap(), [(1,), 0, (2,)]),
    "pluck": (lambda n: n.pluck("a"), [{"a": 1}, {}, {"a": 2}]),
    "pluck_attr": (lambda n: n.pluck_attr("real"), [1, "a", 2]),
    "distinct, with bounds": (lambda n: n.distinct(keys_max=5), [1, [0], 2, 3]),
    "to_set": (lambda n: n.to_set(), [1, [0], 2]),
    "sum": (lambda n: n.sum(), [1, "a", 2]),
    "average": (lambda n: n.average(), [1, "a", 2]),
    "min": (lambda n: n.min(), [1, "a", 2]),
    "max": (lambda n: n.max(), [1, "a", 2]),
    "single": (lambda n: n.single(), [1, 2]),
    "far up": (lambda n: n.merge_all().skip(1).pairwise(), [[1], 0, [2], [3]]),
    "not windows alone": (lambda n: n.window_with_count(2).merge(n).merge_all(), [[1], 0, [2]]),
    "windows behind a list": (lambda n: n.window_with_count(2).start_with([1]).switch_latest(), [1, 0, 2]),
    "of the user's": (lambda n: n.pipe(Halves()), [1, "a", 2]),
}


@pytest.mark.parametrize("shape, policy", crossed(BY_ITSELF, ["skip", "dead_letter"], nightly=1))
def test_what_raises_by_itself_is_refused_too(shape: str, policy: Any) -> None:
    """An operator needs no function to raise at an event: it may be no sequence, no number, or not to be hashed."""
    branch, values = BY_ITSELF[shape]
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(values))
        with pytest.raises(QueryRefused, match=r"pairs by position.* before the branches part") as refused:
            evaluator.create("q", N.zip(branch(N)), policy=policy)
        assert refused.value.path.endswith("zip")
        evaluator.create("alone", branch(N), policy=policy)
        evaluator.run()
        assert evaluator.query("alone").status == "completed"


def without_functions() -> dict[str, tuple[Operator, int]]:
    """Return every operator of the table of cases that is given no function, with how many inputs it has."""
    found: dict[str, tuple[Operator, int]] = {}
    for case in CASES.values():
        if not case.hostable:
            continue
        query = case.build(ops, rx, *[rx.source(f"s{port}") for port in range(case.sources)])
        for node in Plan(query.node, limits=Limits(), symbolic=True).walk():
            if node.inputs and not node.op.is_hub and not calls_function(node.op):
                name = f"{type(node.op).__name__} {parameters(node.op)}"
                found.setdefault(name, (node.op, len(node.inputs)))
    return found


WITHOUT = without_functions()


def hostile_values() -> Iterator[Any]:
    """Yield values that cannot be compared, hashed, added, read as a sequence or a notification, and some that can."""
    yield from ([1], 0, (2,), "text", None, {}, 1, 1.5)
    names = ("agreeable", "never equal", "never hashed", "never ordered", "never judged", "a namespace", "never equal")
    for each in hostile.VALUES:
        if each.name in names:
            yield each.make()
    yield from (0, 1, [1])


@pytest.mark.parametrize("name", every(4, WITHOUT))
def test_what_is_taken_for_sure_raises_at_no_value(name: str) -> None:
    """What operators say of themselves is true: one that may stand in a branch alone leaves out no event."""
    op, inputs = WITHOUT[name]
    query = apply(op, *[N] * inputs)
    plan = Plan(query.node, limits=Limits(), symbolic=True)
    moments = iter(range(10**9))
    with QueryEvaluator(
        MemoryStore(), background=False, batch_events_max=1, clock=lambda: float(next(moments))
    ) as each:
        each.source("n", ListSource(list(hostile_values())))
        each.create("q", query.ignore_elements(), policy="skip")
        for _ in range(500):
            if not each.step():
                break
        assert not each.query("q").skipped or may_raise(plan.by_path[plan.root.path])


IN_STEP: dict[str, Build] = {
    "pairs of neighbours": lambda n, f: n.map(f).share().pipe(lambda s: s.zip(s.skip(1))),
    "written twice": lambda n, f: (lambda mapped: mapped.zip(mapped.skip(1)))(n.map(f)),
    "taken": lambda n, f: n.map(f).publish(lambda s: s.zip(s.take(6))),
    "kept": lambda n, f: n.map(f).publish(lambda s: s.zip(s.skip(1).pairwise().buffer_with_count(2))),
    "later": lambda n, f: n.map(f).publish(lambda s: s.zip(s.delay(0.001))),
    "windows": lambda n, f: n.map(f).publish(lambda s: s.zip(s.window_with_count(2).merge_all())),
    "windows, one by one": lambda n, f: n.map(f).publish(lambda s: s.zip(s.window_with_count(2).skip(1).concat_all())),
    "the latest window": lambda n, f: n.map(f).publish(lambda s: s.zip(s.window_with_count(2).switch_latest())),
    "without a function": lambda n, f: n.zip(n.skip(1)).map(lambda pair: f(pair[0])),
    "before they part": lambda n, f: n.map(lambda x: (x, f(x))).publish(lambda s: s.zip(s.skip(2))),
    "in a group": lambda n, f: n.map(f).group_by(lambda x: x > 0).flat_map(lambda g: g.zip(g.skip(1))),
    "sequence_equal": lambda n, f: n.map(f).publish(lambda s: s.sequence_equal(s)),
    "two sources": lambda n, f: n.map(f).zip(M),
    "one function in each": lambda n, f: n.map(f).zip(n.map(f)),
    "one function in each, and more": lambda n, f: n.map(f).take(6).zip(n.map(f).skip(1)),
    "one selector in each": lambda n, f: (lambda select: n.flat_map(select).zip(n.flat_map(select).skip(1)))(
        lambda x: rx.of(f(x))
    ),
    "one function in each reader": lambda n, f: n.publish(lambda s: s.filter(f).zip(s.filter(f).skip(1))),
}


def inverse(n: int) -> float:
    return 1 / (n - 4)


@pytest.mark.parametrize("shape", every(6, IN_STEP))
def test_what_stays_in_step_is_taken(shape: str) -> None:
    """It emits what it would without the event, with a restart behind every event too."""
    status, values, skipped = played(IN_STEP[shape](N, inverse), restarts=False)
    without = played(IN_STEP[shape](N.filter(lambda n: n != 4), inverse), restarts=False)
    assert (status, values) == without[:2]
    assert skipped > 0
    assert played(IN_STEP[shape](N, inverse), restarts=True) == (status, values, skipped)


def test_a_comparer_leaves_out_a_pair() -> None:
    """Two elements that cannot be compared are left out together: the next ones are compared with each other."""
    query = N.sequence_equal(N, lambda a, b: 1 / (a - 4) == 1 / (b - 4))
    assert played(query, restarts=False) == played(query, restarts=True) == ("completed", ["True"], 1)
    assert played(N.sequence_equal(N.map(abs).catch(rx.empty()), inverse_equal), restarts=False)[1] == ["True"]


def inverse_equal(a: int, b: int) -> bool:
    return inverse(a) == inverse(b)


HALVES: dict[str, tuple[Build, list[Any]]] = {
    "merge": (lambda n, f: n.merge(n.map(f)), [1, -1.0, 0, 2, 1.0]),
    "combine_latest": (lambda n, f: n.combine_latest(n.map(f)), [(1, -1.0), (0, -1.0), (2, -1.0), (2, 1.0)]),
    "with_latest_from": (lambda n, f: n.with_latest_from(n.map(f)), [(1, -1.0), (0, -1.0), (2, 1.0)]),
    "buffer": (lambda n, f: n.buffer(n.map(f)), [[1], [0, 2], []]),
    "fork_join": (lambda n, f: n.fork_join(n.take(2).map(f)), [(2, -1.0)]),
    "take_until": (lambda n, f: n.map(f).take_until(n.skip(1)), [-1.0]),
}


@pytest.mark.parametrize("operator", HALVES)
def test_the_other_branches_have_the_event(operator: str) -> None:
    """Operators that do not pair by position get what the branches make of an event that did not raise in them."""
    build, expected = HALVES[operator]

    def raising(n: int) -> float:
        return {1: -1.0, 2: 1.0}[n]

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 0, 2]))
        evaluator.create("q", build(N, raising), policy="dead_letter")
        evaluator.run()
        assert [value for part in evaluator.stream("q").read(0, 100) for value in part.values] == expected
        letters = [value for part in evaluator.stream("q.dead_letters").read(0, 100) for value in part.values]
        assert [letter.value for letter in letters] == [0][: evaluator.query("q").skipped]


def test_what_is_caught_is_not_skipped() -> None:
    """Where an error is caught no event is skipped, and the operator that pairs ends with it, as by Rx."""
    query = N.zip(N.map(inverse)).catch(rx.of("over"))
    assert played(query, restarts=False) == ("completed", [*[repr((n, inverse(n))) for n in range(4)], "'over'"], 0)


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("pairs", [lambda f: N.zip(N.map(f)), lambda f: N.map(f).zip_latest(N)])
def test_what_a_selector_makes_fails(pairs: Callable[[Function], Any], policy: str) -> None:
    """Made for a value it is not known before: the query fails where it would be out of step, as without a policy."""
    query = N.take(1).flat_map(lambda _: pairs(inverse))
    expected = played(query, restarts=False, policy="fail")
    assert expected[0] == "failed"
    assert played(query, restarts=False, policy=policy) == expected
    assert played(query, restarts=True, policy=policy) == expected


MADE: dict[str, Callable[[Any, Function], Any]] = {
    "defer": lambda n, f: rx.defer(lambda _: n.map(f)),
    "defer, twice": lambda n, f: rx.defer(lambda _: rx.defer(lambda _: n.map(f)).skip(0)),
    "using": lambda n, f: rx.using(lambda: None, lambda _: n.map(f)),
    "for_in": lambda n, f: rx.for_in([1], lambda _: n.map(f)),
    "if_then": lambda n, f: rx.of(1).flat_map(lambda _: rx.if_then(lambda: True, n.map(f))),
    "an observable": lambda n, f: rx.of(1).flat_map(n.map(f)),
    "an observable for each": lambda n, f: n.take(1).flat_map(n.map(f)),
    "a selector": lambda n, f: rx.of(1).flat_map(lambda _: n.map(f)),
    "the latest": lambda n, f: rx.of(1).switch_map(lambda _: n.map(f)),
    "one behind another": lambda n, f: rx.of(1).concat_map(lambda _: n.map(f)),
    "a sequence of them": lambda n, f: rx.of(n.map(f)).merge_all(),
    "a queue of them": lambda n, f: rx.of(n.map(f), rx.of(9)).concat_all(),
    "in a group": lambda n, f: rx.of(1).group_by(lambda n: n).flat_map(lambda g: n.map(f)),
    "shared": lambda n, f: rx.of(1).flat_map(lambda _: n.map(f).share()),
    "resumed": lambda n, f: rx.concat(rx.empty(), rx.defer(lambda _: n.filter(f))),
    "what cannot begin": lambda n, f: rx.of(1).flat_map(
        lambda _: n.flat_map(lambda x: rx.defer(lambda _: rx.of(f(x))))
    ),
}
"""Branches of which nobody can know before they are made that they read the same source."""
PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "zip": lambda n, made: n.zip(made),
    "zip, on the left": lambda n, made: made.zip(n.skip(1)),
    "zip_latest": lambda n, made: n.zip_latest(made),
    "sequence_equal": lambda n, made: n.sequence_equal(made, lambda a, b: True),
    "shared": lambda n, made: n.publish(lambda s: s.zip(made)),
    "made itself": lambda n, made: rx.of(1).flat_map(lambda _: n.zip(made)),
}


@pytest.mark.parametrize("pairs", PAIRS)
@pytest.mark.parametrize("shape", every(9, MADE))
def test_a_branch_that_is_made_at_run_time_fails_or_is_refused(shape: str, pairs: str) -> None:
    """No event is skipped in it that the other branch has: what is emitted is what is without a policy."""
    query = PAIRS[pairs](N, MADE[shape](N, inverse))
    expected = played(query, restarts=False, policy="fail")
    assert expected[0] == "failed"
    try:
        assert played(query, restarts=False) == expected
    except QueryRefused:
        return
    assert played(query, restarts=True) == expected


@pytest.mark.parametrize("pairs", ["zip", "zip, on the left"])
@pytest.mark.parametrize("shape", every(9, MADE))
def test_a_branch_that_reads_another_source_is_none_of_the_same_events(shape: str, pairs: str) -> None:
    """What is skipped of it is no event of the other branch."""
    if shape == "an observable for each":
        return
    k: Any = rx.source("k")
    query = PAIRS[pairs](k, MADE[shape](N, inverse))
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        for name in "knm":
            evaluator.source(name, ListSource(VALUES))
        evaluator.create("q", query, policy="skip")
        evaluator.run()
        assert (evaluator.query("q").status, evaluator.query("q").skipped > 0) == ("completed", True)


BESIDE: dict[str, Callable[[Any, Function, Callable[[Any, Function], Any]], Any]] = {
    "zip": lambda n, f, made: made(n, abs).zip(n.map(f)),
    "zip, on the left": lambda n, f, made: n.filter(f).zip(made(n, abs)),
    "zip_latest": lambda n, f, made: n.map(f).zip_latest(made(n, abs)),
    "both": lambda n, f, made: made(n, abs).zip(made(n, f)),
    "of a share": lambda n, f, made: shared(n, lambda s: made(s, abs).zip(s.map(f))),
    "in a group": lambda n, f, made: n.group_by(lambda _: 1).flat_map(
        lambda g: rx.defer(lambda _: g).zip(g.map(f).merge(made(n, abs).skip(99)))
    ),
    "made itself": lambda n, f, made: rx.of(1).flat_map(lambda _: made(n, abs).zip(n.map(f))),
    "of windows that bring another": lambda n, f, made: n.map(f).zip(
        M.window_with_count(3).flat_map(lambda w: made(n, abs))
    ),
}
"""What raises stands in one branch, and another one is made at run time."""


@pytest.mark.parametrize("pairs", BESIDE)
@pytest.mark.parametrize("shape", every(9, MADE))
def test_beside_a_branch_that_is_made_at_run_time_it_fails_or_is_refused(shape: str, pairs: str) -> None:
    """It may have the event, whatever it is made by, so the event is not skipped."""
    query = BESIDE[pairs](N, inverse, MADE[shape])
    expected = played(query, restarts=False, policy="fail")
    assert expected[0] == "failed"
    try:
        assert played(query, restarts=False) == expected
    except QueryRefused:
        return
    assert played(query, restarts=True) == expected


def read_twice(b: Any, build: Callable[[Any], Any]) -> Any:
    return build(b.share())


def read_replayed(b: Any, build: Callable[[Any], Any]) -> Any:
    return build(b.replay(1).ref_count())


def read_in_one_of(group: Any, key: int, n: Any, b: Any) -> Any:
    """Share *b* in each group once more, and pair that in one of them."""
    own = rx.of(1).flat_map(lambda _: b).share()
    return own.merge(rx.defer(lambda _: n.zip(own) if group.key == key else own.map(str)))


READ_BY_MADE: dict[str, Build] = {
    "a zip": lambda n, f: read_twice(n.map(f), lambda b: rx.defer(lambda _: n.zip(b))),
    "on the left": lambda n, f: read_twice(n.map(f), lambda b: rx.defer(lambda _: b.zip(n))),
    "by a selector": lambda n, f: read_twice(n.map(f), lambda b: rx.of(1).flat_map(lambda _: n.zip(b))),
    "far up": lambda n, f: read_twice(n.map(f).skip(1), lambda b: rx.defer(lambda _: n.zip(b.skip(1)))),
    "both shared": lambda n, f: shared(n, lambda s: read_twice(s.map(f), lambda b: rx.defer(lambda _: s.zip(b)))),
    "shared twice": lambda n, f: read_twice(n.map(f).share(), lambda b: rx.defer(lambda _: n.zip(b))),
    "of what is made": lambda n, f: read_twice(
        rx.of(1).flat_map(lambda _: n.map(f)), lambda b: rx.defer(lambda _: n.zip(b))
    ),
    "within what is made": lambda n, f: read_twice(
        n.map(f), lambda b: rx.defer(lambda _: n.zip(rx.defer(lambda _: b)))
    ),
    "the zip outside": lambda n, f: read_twice(n.map(f), lambda b: n.zip(rx.defer(lambda _: b))),
    "replayed to who comes later": lambda n, f: (
        lambda a, b: rx.merge(a.ignore_elements(), b.ignore_elements(), n.skip(6).take(1).flat_map(lambda _: a.zip(b)))
    )(n.replay().ref_count(), n.map(f).replay().ref_count()),
    "the latest to who comes later": lambda n, f: (
        lambda a, b: rx.merge(a.ignore_elements(), b.ignore_elements(), n.skip(6).take(1).flat_map(lambda _: a.zip(b)))
    )(n.publish_value(-1).ref_count(), n.map(f).publish_value(-1).ref_count()),
    **{
        f"in group {key} of those that share it": lambda n, f, key=key: read_twice(
            n.map(f), lambda b: n.take(3).group_by(lambda x: x).flat_map(lambda g: read_in_one_of(g, key, n, b))
        )
        for key in range(3)
    },
    "published": lambda n, f: n.map(f).publish(lambda b: rx.defer(lambda _: n.zip(b))),
    "in a group": lambda n, f: n.group_by(lambda n: n % 2).flat_map(
        lambda g: read_twice(g.map(f), lambda b: rx.defer(lambda _: g.zip(b)))
    ),
    "groups of it": lambda n, f: (
        n.map(lambda x: (x, f(x))).group_by(lambda _: 1).flat_map(lambda g: rx.defer(lambda _: g.zip(n)))
    ),
    "the key of groups": lambda n, f: n.group_by(lambda x: f(x) and 1).flat_map(lambda g: rx.defer(lambda _: g.zip(n))),
}


@pytest.mark.parametrize("shape, policy", crossed(READ_BY_MADE, ["skip", "dead_letter"], nightly=1))
def test_what_is_paired_where_it_is_read_fails_or_is_refused(shape: str, policy: str) -> None:
    """What raises is shared or grouped; only what is made at run time, and reads it, pairs by position."""
    query = READ_BY_MADE[shape](N, inverse)
    expected = played(query, restarts=False, policy="fail")
    assert expected[0] == "failed"
    try:
        assert played(query, restarts=False, policy=policy) == expected
    except QueryRefused:
        return
    assert played(query, restarts=True, policy=policy) == expected


MADE_IN_STEP: dict[str, Build] = {
    "another source": lambda n, f: rx.defer(lambda _: n.map(f).zip(M)),
    "another source, shared": lambda n, f: read_twice(n.map(f), lambda b: rx.defer(lambda _: M.zip(b))),
    "values": lambda n, f: n.map(f).zip(rx.of(*range(7))),
    "neighbours": lambda n, f: read_twice(n.map(f), lambda b: rx.defer(lambda _: b.zip(b.skip(1)))),
    "neighbours in groups": lambda n, f: (
        n.map(f).group_by(lambda x: x > 0).flat_map(lambda g: rx.defer(lambda _: g.zip(g.skip(1))))
    ),
    "one that is not read there": lambda n, f: read_twice(
        n.map(f), lambda b: b.merge(rx.defer(lambda _: n.zip(n.skip(1))))
    ),
    "replayed, and nothing made reads it": lambda n, f: read_replayed(
        n.map(f), lambda b: b.merge(b.flat_map(lambda x: rx.of(x, -x)))
    ),
    "replayed to one reader": lambda n, f: read_replayed(n.map(f), lambda b: b.flat_map(lambda x: rx.of(x))),
    "replayed beside what another source makes": lambda n, f: (
        n.map(f).replay().ref_count().merge(M.flat_map(lambda x: rx.of(x)))
    ),
    "no function beside what is made": lambda n, f: n.zip(rx.defer(lambda _: n.skip(1))).map(lambda pair: f(pair[0])),
    "a list of each of another": lambda n, f: M.zip(n.flat_map(lambda x: [f(x)])),
}


@pytest.mark.parametrize("shape", MADE_IN_STEP)
def test_what_is_made_and_stays_in_step_goes_on(shape: str) -> None:
    """Where no other branch can have the event it is skipped, with a restart behind every event too."""
    status, values, skipped = played(MADE_IN_STEP[shape](N, inverse), restarts=False)
    assert (status, skipped) == ("completed", 1)
    assert played(MADE_IN_STEP[shape](N, inverse), restarts=True) == (status, values, skipped)


CATCHES_ELSEWHERE: dict[str, Build] = {
    "the other source": lambda n, f: read_twice(n.map(f), lambda b: b.merge(M.catch(rx.of("c")))),
    "retries": lambda n, f: read_twice(n.map(f), lambda b: b.merge(M.retry(2))),
    "before": lambda n, f: read_twice(n.catch(rx.of(5)).map(f), lambda b: b.merge(b.map(str))),
    "groups": lambda n, f: read_twice(
        n.map(f), lambda b: b.merge(M.group_by(lambda x: x % 2).flat_map(lambda g: g.map(str).catch(rx.of("c"))))
    ),
    "published": lambda n, f: n.map(f).publish(lambda b: b.merge(M.catch(rx.of("c")))),
    "shared twice": lambda n, f: read_twice(
        n.map(f).share(), lambda b: b.merge(b.map(str)).merge(read_twice(M, lambda c: c.catch(rx.of("c"))))
    ),
    "made": lambda n, f: read_twice(n.map(f), lambda b: b.merge(rx.defer(lambda _: M.catch(rx.of("c"))))),
}
PAIRS_ELSEWHERE: dict[str, Build] = {
    "shared": lambda n, f: read_twice(n.map(f), lambda b: b.merge(b.map(str))),
    "the key of groups": lambda n, f: n.group_by(lambda x: f(x) > 0).flat_map(lambda g: g),
    "behind groups": lambda n, f: n.group_by(lambda x: x % 2).flat_map(lambda g: g.map(f)),
    "windows": lambda n, f: n.map(f).window_with_count(2).flat_map(lambda w: w.to_list()),
}
"""What raises is shared or grouped, and other groups, and what is shared of another source, are paired beside it."""
CATCHES: dict[str, Build] = {
    "one reader": lambda n, f: read_twice(n.map(f), lambda b: b.merge(b.map(str).catch(rx.of("c")))),
    "behind both": lambda n, f: read_twice(n.map(f), lambda b: b.merge(b.map(str)).catch(rx.of("c"))),
    "published": lambda n, f: n.map(f).publish(lambda b: b.merge(b.map(str).catch(rx.of("c")))),
    "behind what is published": lambda n, f: n.map(f).publish(lambda b: b.merge(b.map(str))).catch(rx.of("c")),
    "shared twice": lambda n, f: read_twice(n.map(f).share(), lambda b: b.merge(read_twice(b, lambda c: c.retry(1)))),
    "in groups": lambda n, f: n.group_by(lambda x: x % 2).flat_map(
        lambda g: read_twice(g.map(f), lambda b: b.merge(b.map(str))).catch(rx.of("c"))
    ),
    "made by defer": lambda n, f: read_twice(n.map(f), lambda b: rx.defer(lambda _: b.catch(rx.of("c")))),
    "made for another": lambda n, f: read_twice(n.map(f), lambda b: M.flat_map(lambda _: b.catch(rx.of("c")))),
    "made, and retried": lambda n, f: read_twice(n.map(f), lambda b: M.flat_map(lambda _: b.retry(2))),
    "made within what is made": lambda n, f: read_twice(
        n.map(f), lambda b: rx.defer(lambda _: rx.of(1).flat_map(lambda _: b.map(str)).catch(rx.of("c")))
    ),
    "read in groups": lambda n, f: read_twice(
        n.map(f), lambda b: b.merge(M.group_by(lambda x: x % 2).flat_map(lambda g: b.catch(rx.of("c"))))
    ),
}


@pytest.mark.parametrize("shape", PAIRS_ELSEWHERE)
def test_what_is_paired_elsewhere_is_no_matter(shape: str) -> None:
    """What an operator pairs that is made of another source stays in step, whatever is open."""
    paired = M.group_by(lambda _: 1).flat_map(lambda g: g.zip(rx.of(1).flat_map(lambda _: [1, 2, 3])))
    shared_and_paired = read_twice(M, lambda c: rx.defer(lambda _: c.zip(c.skip(1))))
    query = rx.merge(paired, shared_and_paired, PAIRS_ELSEWHERE[shape](N, inverse))
    for restarts in (False, True):
        status, _, skipped = played(query, restarts=restarts)
        assert (status, skipped) == ("completed", 1)


@pytest.mark.parametrize("shape", CATCHES_ELSEWHERE)
def test_what_is_caught_elsewhere_is_no_matter(shape: str) -> None:
    """An operator that catches errors, but not those of what is shared, leaves the event to the policy."""
    for restarts in (False, True):
        status, _, skipped = played(CATCHES_ELSEWHERE[shape](N, inverse), restarts=restarts)
        assert (status, skipped) == ("completed", 1)


@pytest.mark.parametrize("shape", CATCHES)
def test_what_a_reader_of_a_shared_part_catches_is_its_own(shape: str) -> None:
    """The query fares as without a policy: the error is an answer, not an event to be left out."""
    expected = played(CATCHES[shape](N, inverse), restarts=False, policy="fail")
    assert played(CATCHES[shape](N, inverse), restarts=False) == expected
    assert played(CATCHES[shape](N, inverse), restarts=True) == expected


def test_a_long_query_is_looked_at() -> None:
    """Also one that is too long to recur into."""
    query = N.zip(N.pipe(*[ops.skip(0)] * 300, ops.map(inverse)))
    with QueryEvaluator(MemoryStore(), background=False) as evaluator, pytest.raises(QueryRefused, match="branches"):
        evaluator.source("n", ListSource(VALUES))
        evaluator.create("q", query, policy="skip")
