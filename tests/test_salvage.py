"""Lenient reading of pickles: each part that cannot be had is replaced, everything around it is read."""

from __future__ import annotations

import io
import pickle
import signal
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import cloudpickle
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reliable_rx as rx
from checkpoint.format.codec import decode_data, encode
from checkpoint.format.salvage import Unreadable, holds_unreadable, salvage
from hosting.evaluator import group_commit as journaling
from reliable_rx.testing import hostile


class RaisesInSetState:
    def __init__(self) -> None:
        self.x = 1

    def __setstate__(self, state: Any) -> None:
        raise ValueError("no")


class TwoArguments(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(first)


class Exits:
    def __reduce__(self) -> Any:
        return (SystemExit.__init__, (1, 2))


class Interrupted:
    """Is interrupted by a real Ctrl-C while it is read."""

    def __init__(self) -> None:
        self.x = 1

    def __setstate__(self, state: Any) -> None:
        signal.raise_signal(signal.SIGINT)


class RefusesItems(list[Any]):
    def extend(self, items: Any) -> None:
        raise ValueError("full")

    def append(self, item: Any) -> None:
        raise ValueError("full")


@dataclass(frozen=True)
class Trade:
    price: float


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(plain_values)
def test_what_can_be_read_is_read_as_ever(value: Any) -> None:
    """Of pickles without a fault the lenient reader gives what pickle gives."""
    for data in (encode(value), cloudpickle.dumps(value), pickle.dumps(value, 2), pickle.dumps(value, 0)):
        assert salvage(data, code=False) == (value, ())


ANYTHING = [each.make() for each in hostile.VALUES if each.kind == hostile.UNREADABLE]


@pytest.mark.parametrize(
    "bad", [RaisesInSetState(), TwoArguments(1, 2), Exits(), RefusesItems([1, 2]), Trade(1.0), *ANYTHING]
)
def test_the_rest_survives(bad: Any) -> None:
    """Whatever raises in one part, its neighbours are there, and all references to the part see the same."""
    data = pickle.dumps([bad, [bad], {"k": bad}, 7], 5).replace(b"Trade", b"Trape")
    first, second, third, seven = salvage(data, code=True).value
    assert isinstance(first, Unreadable)
    assert second[0] is third["k"] is first
    assert seven == 7


@pytest.mark.parametrize("read", [lambda data: salvage(data, code=True), decode_data, journaling.leniently])
def test_an_interrupt_is_no_unreadable_part(read: Any) -> None:
    """Ctrl-C while something is read ends the process, and is not taken for what a value raises."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            read(pickle.dumps([Interrupted(), 7], 5))
    finally:
        signal.signal(signal.SIGINT, before)


def test_no_code_is_loaded() -> None:
    """Functions and classes stored by value are named and left out; those stored by name are looked up."""

    class Local:
        pass

    value = {"made": lambda n: n, "named": len, "class": Local, "object": Local(), "data": [1, {2}]}
    read = salvage(cloudpickle.dumps(value), code=False)
    assert read.value["named"] is len
    assert read.value["data"] == [1, {2}]
    assert all(isinstance(read.value[name], Unreadable) for name in ("made", "class", "object"))
    assert "lambda" in read.value["made"].kind
    assert "Local" in read.value["object"].kind


def test_a_plan_is_drawn_without_its_functions() -> None:
    """The structure of a stored query is data, and can be shown by any interpreter."""
    query = rx.source("n").map(lambda n: n * 2).scan(lambda a, n: a + n).take(3)
    read = salvage(encode(query), code=False)
    assert [line.split()[0] for line in read.value.explain().splitlines()] == ["/source", "/map", "/scan", "/take"]
    assert len(read.unreadable) == 2


def test_one_after_the_other_in_a_stream() -> None:
    """A stream of pickles is read one by one."""
    stream = io.BytesIO(encode([1]) + encode(lambda: 1) + encode({"a": 2}))
    read = [salvage(stream, code=False) for _ in range(3)]
    assert [bool(each.unreadable) for each in read] == [False, True, False]
    assert read[2].value == {"a": 2}


@pytest.mark.parametrize("data", [b"", b"\x80", encode([1, 2])[:-1], b"nonsense"])
def test_what_is_no_pickle_raises(data: bytes) -> None:
    """Lenient is not blind: torn bytes are refused as ever."""
    with pytest.raises((EOFError, pickle.UnpicklingError, KeyError, IndexError)):
        salvage(data, code=False)


def test_found_wherever_it_lies() -> None:
    """`holds_unreadable` looks into containers, attributes and slots, and ends on cycles."""
    lost = Unreadable("thing", "gone")
    circle: list[Any] = []
    circle.append(circle)
    assert not holds_unreadable(circle)
    for value in ([lost], {"a": (lost,)}, {lost: 1}, Trade(lost), {lost}):  # type: ignore[arg-type]
        assert holds_unreadable(value)


def closure_over(value: Any) -> Any:
    return lambda: value


def default_of(value: Any) -> Any:
    return lambda it=value: it


def array_of(value: Any) -> Any:
    array = numpy.empty(1, object)
    array[0] = value
    return array


HOLDERS: list[Callable[[Any], Any]] = [
    closure_over, default_of, array_of, Trade, lambda value: iter([value]), lambda value: partial(min, value),
    lambda value: ValueError(value), lambda value: {1: [value]}, lambda value: deque([value]),
]  # fmt: skip


@pytest.mark.parametrize("hold", HOLDERS)
def test_found_among_others_wherever_it_lies(hold: Callable[[Any], Any]) -> None:
    """One of many of its kind is found at every place: what is looked at in between leaves nothing behind."""
    lost = Unreadable("thing", "gone")
    for count in range(1, 12):
        for place in range(count):
            values = [hold(lost if each == place else f"v{each}") for each in range(count)]
            assert holds_unreadable(values), (count, place)


def test_what_stood_for_a_part_is_read_again() -> None:
    """It was stored with what is read leniently now, as a suspended query's state is, and lies beside what is lost."""
    first = salvage(pickle.dumps([Trade(1.0), 7], 5).replace(b"Trade", b"Trape"), code=True).value
    again = salvage(encode([*first, Trade(2.0)]).replace(b"Trade", b"Trape"), code=True)
    old, seven, new = again.value
    assert (old.kind, old.reason, seven) == (first[0].kind, first[0].reason, 7)
    assert [each.reason for each in again.unreadable] == [new.reason]
