"""Functions that differ in what they hold, take or were given are different queries, here and after a restart."""

from __future__ import annotations

import array
import collections
import functools
import operator
import random
import re
import types
from collections.abc import Callable
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.by_value import encode_query
from checkpoint.format.codec import decode
from hosting import ListSource, QueryEvaluator
from reliable_rx.errors import QueryRefused
from reliable_rx.functions import plain_tables
from reliable_rx.query import canonical_text as text
from reliable_rx.query import held


class Scale:
    """An object with a method that depends on what it holds."""

    def __init__(self, k: Any) -> None:
        self.k = k

    def __repr__(self) -> str:
        return "Scale"

    def times(self, x: Any) -> Any:
        return str((self.k, x))

    @classmethod
    def of_class(cls, x: Any) -> Any:
        return cls.__name__, x

    __call__ = times


class Slotted:
    """The same with slots."""

    __slots__ = ("k",)

    def __init__(self, k: Any) -> None:
        self.k = k

    def times(self, x: Any) -> Any:
        return str((self.k, x))


class Traced:
    """A decorator that is a class, and takes the name of what it stands before."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, x: Any) -> Any:
        return self.function(x)


class Private:
    """Slots of which one is private, and below a class that has some."""

    __slots__ = ("__k", "name")

    def __init__(self, k: Any) -> None:
        self.name, self.__k = "same", k

    def times(self, x: Any) -> Any:
        return str((self.__k, x))


class OneSlot(Slotted):
    """A single slot, told as a text."""

    __slots__ = "other"

    def __init__(self, k: Any) -> None:
        super().__init__("same")
        self.other = k

    def times(self, x: Any) -> Any:
        return str((self.other, x))


class Table(dict[Any, Any]):
    """A dict that holds more than its items."""

    def __init__(self, k: Any) -> None:
        super().__init__(same=1)
        self.k = k

    def times(self, x: Any) -> Any:
        return str((self.k, x))


class Rows(list[Any]):
    """A list that holds more than its items."""

    k: Any

    def times(self, x: Any) -> Any:
        return str((self.k, x))


def rows(k: Any) -> Rows:
    made = Rows()
    made.k = k
    return made


class Amount(int):
    """A number with an attribute."""

    unit: str

    def times(self, x: Any) -> Any:
        return str((int(self), x))


def amount(value: int) -> Amount:
    made = Amount(value)
    made.unit = "same"
    return made


class Odd(Exception):
    """An error with an attribute."""

    k: Any

    def times(self, x: Any) -> Any:
        return str((self.k, x))


def odd(k: Any) -> Odd:
    made = Odd("same")
    made.k = k
    return made


def with_attribute(k: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return str((vars(function)["k"], x))

    vars(function)["k"] = k
    return function


def made(k: Any) -> Callable[[], Any]:
    return lambda: k


def wrapped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(function)
    def around(x: Any) -> Any:
        return function(x)

    return around


def by_default(k: Any) -> Callable[[Any], Any]:
    return lambda x, k=k: str((k, x))


def by_keyword(k: Any) -> Callable[[Any], Any]:
    return lambda x, *, k=k: str((k, x))


def closing(k: Any) -> Callable[[Any], Any]:
    return lambda x: str((k, x))


def holding(thing: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: thing(x)


def nested(times: int, around: Callable[[Any], Any], within: Any) -> Any:
    for _ in range(times):
        within = around(within)
    return within


def applied(function: Callable[[Any], Any], x: Any) -> Any:
    return function(x)


def ring(k: Any) -> list[Any]:
    found: list[Any] = [k]
    found.append(found)
    return found


def recursive(k: Any) -> Callable[[Any], Any]:
    def down(x: int) -> Any:
        return down(x - 1) if x else str(k)

    return down


MAKERS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "a bound method": lambda k: Scale(k).times,
    "a callable object": lambda k: Scale(k),
    "an object with slots": lambda k: Slotted(k).times,
    "a bound builtin": lambda k: {1: k, 2: k, 3: k}.get,
    "a method of a text": lambda k: f"<{k!r}{{}}>".format,
    "a compiled pattern": lambda k: re.compile(f"{k!r}").match if isinstance(k, int) else Scale(k).times,
    "a partial of a method": lambda k: functools.partial(Scale(k).times),
    "a default": by_default,
    "a keyword-only default": by_keyword,
    "a closure": closing,
    "a closure over a method": lambda k: holding(Scale(k).times),
    "a decorator that is a class": lambda k: Traced(closing(k)),
    "a static method": lambda k: staticmethod(closing(k)),
    "private slots": lambda k: Private(k).times,
    "one slot": lambda k: OneSlot(k).times,
    "a dict with attributes": lambda k: Table(k).times,
    "a list with attributes": lambda k: rows(k).times,
    "a number with attributes": lambda k: amount(k).times if type(k) is int else Scale(k).times,
    "an error with attributes": lambda k: odd(k).times,
    "a function with attributes": with_attribute,
    "a default factory": lambda k: closing(collections.defaultdict(made(k))),
    "a view of a dict": lambda k: closing(types.MappingProxyType({"in": closing(k)})),
    "a long pattern": lambda k: closing(re.compile("x" * 250 + f"{k!r}")),
    "a library's object": lambda k: closing(random.Random(repr(k))),
    "a long array": lambda k: closing(array.array("d", [*range(500), float(k), float(repr(k)[0] == "T"), *range(500)])),
    "a wrapper": lambda k: wrapped(Scale(k).times),
    "wrappers of wrappers": lambda k: wrapped(wrapped(wrapped(wrapped(closing(k))))),
    "a namespace": lambda k: closing(types.SimpleNamespace(k=k)),
    "a deque": lambda k: closing(collections.deque([k])),
    "a deque of functions": lambda k: closing(collections.deque([closing(k)])),
    "a deep list": lambda k: closing(nested(40, lambda within: [within], k)),
    "a deep tuple": lambda k: closing(nested(40, lambda within: (within,), k)),
    "a deep dict": lambda k: closing(nested(40, lambda within: {"in": within}, k)),
    "an object in objects": lambda k: nested(20, Scale, k).times,
    "many wrappers": lambda k: nested(40, wrapped, closing(k)),
    "many partials": lambda k: nested(40, lambda within: functools.partial(applied, within), closing(k)),
    "a list that holds itself": lambda k: closing(ring(k)),
    "a function that calls itself": lambda k: recursive(k),
    "an operator": lambda k: operator.itemgetter(k) if isinstance(k, int) else by_default(k),
}
TOLD_BY_ADDRESS = (
    "an operator", "a compiled pattern", "a deque of functions", "a default factory", "a view of a dict",
    "a long pattern", "a library's object",
)  # fmt: skip
"""What these make of an event has an address in its text, or they take other events."""
PAIRS: dict[str, tuple[Any, Any]] = {"ints": (1, 2), "zeros": (0.0, -0.0), "an int and a bool": (1, True)}
SHAPES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "by which names": (lambda a, b=0: a, lambda b, a=0: b),
    "one and all": (lambda a: a, lambda *a: a),
    "keywords": (lambda a, **b: a, lambda a, *b: a),
    "a generator": (lambda a: [a], lambda a: (yield a)),
}


def query(function: Callable[..., Any]) -> Any:
    return rx.source("n").map(function)


@pytest.mark.parametrize("pair, maker", crossed(PAIRS, MAKERS, nth=2))
def test_what_a_function_holds_tells_it_apart(maker: str, pair: str) -> None:
    """Two that differ in it have two hashes; two that do not have one, also out of their bytes."""
    make, (one, other) = MAKERS[maker], PAIRS[pair]
    assert query(make(one)).content_hash != query(make(other)).content_hash
    assert query(make(one)).content_hash == query(make(one)).content_hash
    again = decode(encode_query(query(make(one)).node))
    assert rx.Query(again).content_hash == query(make(one)).content_hash


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_function_takes_tells_it_apart(shape: str) -> None:
    """The code may be the same where the signature is not."""
    one, other = SHAPES[shape]
    assert query(one).content_hash != query(other).content_hash


@pytest.mark.parametrize("pair, maker", crossed(PAIRS, [name for name in MAKERS if name not in TOLD_BY_ADDRESS]))
def test_each_query_runs_its_own_function(maker: str, pair: str) -> None:
    """Beside each other, in one process and after a restart: none runs the code of another."""
    store, make = MemoryStore(), MAKERS[maker]
    expected = {f"q{place}": [make(k)(x) for x in (1, 2, 3)] for place, k in enumerate(PAIRS[pair])}
    for upto in (1, 2, 3):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource([1, 2, 3][:upto], follow=True))
            for place, k in enumerate(PAIRS[pair]):
                evaluator.create(f"q{place}", query(make(k)))
            while evaluator.step():
                pass
            assert not evaluator.statistics().reports
            for name, values in expected.items():
                got = [value for part in evaluator.stream(name).read(0, 9) for value in part.values]
                assert got == values[:upto], name
        store = store.reopen()


def test_a_graph_is_written_once() -> None:
    """What is met by many ways is written once: there are more ways through a graph than can be gone."""
    level: list[Any] = []
    for _ in range(200):
        level = [level, level]
    assert query(closing(level)).content_hash == query(closing(level)).content_hash


def test_what_reaches_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a limit, beyond which a query has no name, rather than that of another one."""
    monkeypatch.setattr(text, "PLACES_MAX", 1000)
    with pytest.raises(QueryRefused, match="reaches over 1,000 objects"):
        _ = query(closing([Scale(n) for n in range(1000)])).content_hash
    named = {"SCALES": [Scale(n) for n in range(2000)], "rx": rx}
    exec("query = rx.source('n').map(lambda x: SCALES[x])", named)  # as the sentence says
    assert named["query"].content_hash


def test_plain_data_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of plain data may have any size, wherever it is held, and each of its values is in the identity."""
    monkeypatch.setattr(text, "PLACES_MAX", 1000)
    tables = [{n: (n, [str(n)], {n + last}) for n in range(2000)} for last in (0, 0, 1)]
    for hold in (closing, Scale):
        same, again, other = (query(hold(each)).content_hash for each in tables)
        assert same == again != other


def test_what_holds_itself_or_one_thing_often_is_no_plain_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Written out it would be without end: it is written as what it refers to."""
    monkeypatch.setattr(plain_tables, "ITEMS_MAX", 10_000)
    ring: list[Any] = [*range(500)]
    ring.append(ring)
    shared: list[Any] = [*range(200)]
    for _ in range(30):
        shared = [shared] * 200
    for each in (ring, shared):
        assert plain_tables.table_of(each) is None
        assert query(closing(each)).content_hash != query(closing(each[:-1])).content_hash


class Named:
    """What pickle knows by a name only."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> str:
        return self.name


def test_what_pickles_by_name_is_told_apart_by_it() -> None:
    """The name is what pickle would keep of it, not its text, which has an address."""
    assert held.pieces(Named("NAMED")) == "NAMED"


SHARING: dict[str, Callable[[int], Any]] = {
    "publish": lambda n: rx.operators.publish(lambda shared: shared.take(n)),
    "publish_value": lambda n: rx.operators.publish_value(n, lambda shared: shared),
    "replay": lambda n: rx.operators.replay(n, mapper=lambda shared: shared),
    "multicast": lambda n: rx.operators.multicast(subject_factory=lambda _: rx.Subject(), mapper=lambda xs: xs.take(n)),
    "publish, counted": lambda n: rx.compose(rx.operators.publish_value(n), rx.operators.ref_count()),
}


@pytest.mark.parametrize("kind", SHARING)
def test_an_operator_that_shares_is_the_same_wherever_it_is_made(kind: str) -> None:
    """Also where a function holds it: its parameters are a part of the query, the token of its process is none."""

    def made(n: int) -> Any:
        operator = SHARING[kind](n)
        return rx.source("n").flat_map(lambda value: rx.of(value).pipe(operator)).content_hash

    assert made(1) == made(1)
    assert made(1) != made(2)
