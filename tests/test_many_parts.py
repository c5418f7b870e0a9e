"""Values that are small in memory and have 2 ** 40 parts harm no query and no store, wherever they are."""

from __future__ import annotations

import copy
import marshal
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import crossed, every, examples

import checkpoint.format.plain
import checkpoint.format.shared_parts
import reliable_rx as rx
from checkpoint import SqliteStore
from checkpoint.format.codec import digest
from hosting import ListSource, QueryEvaluator


@dataclass
class Held:
    """An object with something in it."""

    part: Any


TWICE: dict[str, Callable[[Any], Any]] = {
    "lists": lambda part: [part, part],
    "tuples": lambda part: (part, part),
    "dictionaries": lambda part: {"a": part, "b": part},
    "mixed": lambda part: [(part,), {"a": part}],
    "in an object": lambda part: [part, part],
    "objects": lambda part: Held([part, part]),
    "errors": lambda part: ValueError(part, part) if isinstance(part, list) else [part, part],
}


def vast(kind: str, last: Any = 0) -> Any:
    """Return a small value with very many parts, of which one thing only is *last*."""
    part: Any = [last]
    for _ in range(40):
        part = TWICE[kind](part)
    return Held(part) if kind == "in an object" else part


@pytest.mark.parametrize("kind", every(4, TWICE, commits=2))
def test_each_has_a_digest_that_tells_it_from_others(kind: str) -> None:
    """Its digest takes no longer than what is in memory, is that of its like, and another if a part is another."""
    assert digest([vast(kind)]) == digest([vast(kind)])
    assert kind == "errors" or digest([vast(kind)]) != digest([vast(kind, 1)])
    assert digest([1, vast(kind)]) != digest([vast(kind), 1])


def test_a_long_list_many_times_has_a_digest() -> None:
    """Not the depth makes a value vast, but how often its parts are held."""
    long = list(range(20_000))
    assert digest([[long] * 100_000]) == digest([[long[:]] * 100_000])
    assert digest([long] * 100_000) != digest([[*long[:-1], 0]] * 100_000)


@pytest.mark.parametrize("others, kind", crossed([[], [{"a"}], [Decimal(1)], [[[{}]]]], TWICE, nth=2))
def test_beside_whatever(kind: str, others: list[Any]) -> None:
    """Other values of the same turns make no difference to that."""
    mine, like, another = ([*others, vast(kind, last), *others] for last in (0, 0, 1))
    assert digest(mine) == digest(like)
    assert kind == "errors" or digest(mine) != digest(another)


ATOMS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary())
VALUES = st.recursive(
    ATOMS,
    lambda part: st.one_of(
        st.lists(part, max_size=4),
        st.lists(part, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=2), part, max_size=4),
        st.frozensets(ATOMS, max_size=4),
        part.map(lambda each: [each, each]),
        part.map(lambda each: (each, {"again": each})),
    ),
    max_leaves=12,
)


@examples(240)
@given(st.lists(VALUES, max_size=3), st.lists(VALUES, max_size=3), st.sampled_from([0, 4, 10**6]))
def test_what_is_shared_makes_no_difference(some: list[Any], others: list[Any], parts_max: int) -> None:
    """However many parts count as very many, digests are equal when values are, and not by what is one object."""
    before = checkpoint.format.shared_parts.PARTS_MAX, checkpoint.format.shared_parts.STREAMED_MIN
    checkpoint.format.shared_parts.PARTS_MAX, checkpoint.format.shared_parts.STREAMED_MIN = parts_max, 0
    try:
        apart = marshal.loads(marshal.dumps(some, 2))
        assert digest(some) == digest(apart)
        assert digest([*some, *some]) == digest([*apart, *copy.deepcopy(apart)])
        equal = marshal.dumps(some, 2) == marshal.dumps(marshal.loads(marshal.dumps(others, 2)), 2)
        if not any(isinstance(each, frozenset) for each in some) and repr(some) != repr(others):
            assert not equal and digest(some) != digest(others)
    finally:
        checkpoint.format.shared_parts.PARTS_MAX, checkpoint.format.shared_parts.STREAMED_MIN = before


def n() -> Any:
    return rx.source("n")


def raising(kind: str) -> Callable[[Any], Any]:
    def function(*_: Any) -> Any:
        raise ValueError(vast(kind))

    return function


PLACES: dict[str, Callable[[str], Any]] = {
    "emitted": lambda kind: n().map(lambda _: vast(kind)),
    "in a state": lambda kind: n().scan(lambda *_: vast(kind), None).map(lambda _: 1),
    "kept": lambda kind: n().map(lambda _: vast(kind)).last(),
    "collected": lambda kind: n().map(lambda _: vast(kind)).to_list(),
    "delayed": lambda kind: n().map(lambda _: vast(kind)).delay(0),
    "an element of a sequence": lambda kind: n().flat_map(lambda _: rx.of(vast(kind))),
    "pushed": lambda kind: rx.source("pushed").merge(n()),
    "pushed, and raised at": lambda kind: rx.source("pushed").map(raising("lists")).merge(n()),
    "raised": lambda kind: n().map(raising(kind)),
    "raised at": lambda kind: n().map(lambda _: vast(kind)).map(raising("lists")),
}


@pytest.mark.parametrize(
    "policy, kind, place", crossed(["fail", "dead_letter"], ["lists", "mixed", "in an object", "errors"], PLACES, nth=2)
)
def test_whoever_has_such_a_value_goes_on(place: str, kind: str, policy: Any, tmp_path: Any) -> None:
    """It is emitted, kept, pushed, raised, replayed and read again, and no other query notices."""
    found = []
    for turn in ("first", "replayed", "from its checkpoint"):
        with (
            SqliteStore(tmp_path / "store") as store,
            QueryEvaluator(store, checkpoint_interval_s=1e9, background=False) as evaluator,
        ):
            evaluator.source("n", ListSource(list(range(3))))
            pushed = evaluator.push("pushed")
            evaluator.create("q", PLACES[place](kind), policy=policy)
            evaluator.create("reader", rx.source("q").map(lambda _: 1), policy=policy)
            evaluator.create("other", n())
            evaluator.start()
            if turn == "first":
                pushed.on_next(vast(kind))
                pushed.on_completed()
            while evaluator.step():
                pass
            figures = evaluator.query("q")
            read = sum(len(part.values) for part in evaluator.stream("q").read(0, 100))
            found.append((figures.status, figures.emitted, figures.skipped, read, evaluator.query("reader").status))
            assert evaluator.query("other").status == "completed"
            if turn == "first":
                evaluator.abandon()
    assert found == found[:1] * 3
    assert found[0][0] == ("failed" if policy == "fail" and "raised" in place else "completed")
