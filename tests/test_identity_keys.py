"""What is equal by identity only is told where operators compare it, since no checkpoint gives it back equal."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from operator import eq
from pathlib import Path
from typing import Any

import pytest
from lanes import crossed, every

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, ListSource, QueryEvaluator
from hosting.admission.mutations import Mutations
from hosting.engine.copies import differs, odd
from hosting.evaluator import checkpointer
from hosting.reports import observing
from hosting.reports.identity_keys import LOOKED_AT, IdentityKeys
from reliable_rx import operators as ops
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.queries import check_run, phrases

n = rx.source("n")


class Color(enum.Enum):
    """Goes by its name."""

    RED = 1


class Card:
    """Compares by identity."""


@dataclass(frozen=True)
class Point:
    """Compares by value."""

    x: float
    kind: Any = None


def function(value: Any) -> Any:
    return value


BY_VALUE: dict[str, Any] = {
    "text": "a", "number": 1.5, "pair": ("a", 1), "pair of pairs": (("a", 1.5), None), "date": date(2024, 1, 1),
    "decimal": Decimal("1.5"), "frozen dataclass": Point(1.5), "enum": Color.RED, "pair with an enum": (Color.RED, 1),
    "class": Card, "class of the language": int, "function of the language": len, "frozenset": frozenset("ab"),
    "none": None, "bytes": b"a", "long number": 10**30,
    "function": function,
}  # fmt: skip
BY_IDENTITY: dict[str, Any] = {
    "nan": math.nan, "pair with nan": ("a", math.nan), "deep nan": ("a", (1, (2, math.nan))), "object": Card(),
    "pair with an object": ("a", Card()), "error": ValueError("x"), "frozen dataclass with nan": Point(math.nan, "a"),
    "frozen dataclass with an object": Point(1.0, Card()), "frozenset with nan": frozenset((math.nan,)),
    "lambda": lambda: 1, "decimal nan": ("a", Decimal("nan")),
}  # fmt: skip


def key(value: Any) -> Any:
    return value[0]


def count(query: Any) -> Any:
    return query.scan(lambda total, _: total + 1, 0)


QUERIES: dict[str, Callable[[Any], Any]] = {
    "distinct": lambda value: count(n.distinct(key)),
    "distinct by a comparer": lambda value: count(n.distinct(key, lambda a, b: a == b)),
    "distinct that forgets": lambda value: count(n.distinct(key, keys_max=10)),
    "distinct_until_changed": lambda value: count(n.distinct_until_changed(key)),
    "group_by": lambda value: count(n.group_by(key)),
    "group_by_until": lambda value: count(n.group_by_until(key, None, lambda group: rx.never())),
    "inner distinct": lambda value: count(n.group_by(lambda row: 1).flat_map(lambda group: group.distinct(key))),
    "to_set": lambda value: n.map(key).to_set().map(len),
    "to_dict": lambda value: n.to_dict(key).map(len),
    "join_within": lambda value: count(n.join_within(n, key, within_s=1e9)),
    "sequence_equal": lambda value: n.map(key).sequence_equal(n.skip(2).map(key)),
    "contains": lambda value: n.skip(3).map(key).contains(value),
    "where_key": lambda value: count(n.pipe(ops.where_key(key, value))),
}
ROWS = 4


def declare(evaluator: QueryEvaluator, value: Any, rows: int, *, follow: bool) -> None:
    evaluator.source("n", ListSource([[value] for _ in range(rows)], follow=follow))
    for name, query in QUERIES.items():
        evaluator.create(name, query(value))


def outcome(evaluator: QueryEvaluator) -> tuple[dict[str, list[Any]], set[str]]:
    out = {name: [each for part in evaluator.stream(name).read(0, 99) for each in part.values] for name in QUERIES}
    return out, {each.subject for each in evaluator.statistics().incidents if each.kind == "identity"}


def stopped(value: Any, at: int) -> tuple[dict[str, list[Any]], set[str]]:
    """Return what comes out, and who was told of, with a clean stop behind so many events; none at all in peace."""
    store, told = MemoryStore(), set[str]()
    if at:
        with QueryEvaluator(store) as evaluator:
            declare(evaluator, value, at, follow=True)
            evaluator.run(until=lambda: evaluator.events_in == at)
            evaluator.checkpoint()
            told = outcome(evaluator)[1]
        store = store.reopen()
    with QueryEvaluator(store) as evaluator:
        declare(evaluator, value, ROWS, follow=False)
        evaluator.run()
        evaluator.checkpoint()
        out, more = outcome(evaluator)
    return out, told | more


@pytest.mark.parametrize("name", every(3, BY_VALUE, commits=1))
def test_what_compares_by_value_means_the_same_behind_each_stop_and_is_not_told(name: str) -> None:
    """Every operator that compares, stopped at every boundary: the same outputs as in peace, and no incident."""
    peace, told = stopped(BY_VALUE[name], 0)
    assert told == set()
    for at in range(1, ROWS):
        assert stopped(BY_VALUE[name], at) == (peace, set())


@pytest.mark.parametrize("name", every(3, BY_IDENTITY, commits=1))
def test_what_compares_by_identity_means_the_same_behind_each_stop_or_is_told(name: str) -> None:
    """Every operator that compares, stopped at every boundary: it gives what it gives in peace, or was named."""
    value = BY_IDENTITY[name]
    peace, _ = stopped(value, 0)
    ever = set[str]()
    for at in range(1, ROWS):
        out, told = stopped(value, at)
        assert {each for each in QUERIES if out[each] != peace[each]} <= told
        ever |= told
    assert "group_by" in ever
    assert "distinct_until_changed" in ever or value != value  # what is equal to nothing is so for ever


MAKERS: dict[str, Any] = {
    "count": lambda n: n.window_with_count(2),
    "skip": lambda n: n.window_with_count(2, 1),
    "groups": lambda n: n.group_by_until(lambda x: x % 5, None, lambda g: rx.timer(1.0)),
}
READERS: dict[str, Any] = {
    "later": lambda m: lambda w: m.take(1).concat(w),
    "delayed": lambda m: lambda w: w.delay_subscription(1.0),
    "beside": lambda m: lambda w: w.merge(m.take(3)),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("maker", MAKERS)
def test_rows_that_move_while_a_snapshot_is_written_are_looked_at_without_harm(
    monkeypatch: pytest.MonkeyPatch, maker: str, reader: str
) -> None:
    """What reads a group of its own may move into the row of that, and out of it, between any two slices."""
    monkeypatch.setattr(checkpointer, "SLICE_ROWS", 1)
    time = [0.0]
    n, m = rx.source("n"), rx.source("m")
    clock = {"background": False, "checkpoint_interval_s": 0.0, "batch_events_max": 1, "clock": lambda: time[0]}
    with QueryEvaluator(MemoryStore(), **clock) as evaluator:
        pushed = [evaluator.push(name) for name in "nm"]
        evaluator.create("q", MAKERS[maker](n).flat_map(READERS[reader](m)))
        evaluator.start()
        for number in range(80):
            pushed[number % 3 % 2].push([number])
            time[0] += number % 2
            for _ in range(number % 3):
                evaluator.step()
        while evaluator.step():
            pass
        assert evaluator.query("q").status == "running"


def test_a_look_that_fails_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of tests it is told, once, and all goes on."""

    def fails(*_: Any) -> None:
        raise TypeError("nobody thought of that")

    monkeypatch.setattr(observing, "RAISES", False)
    for each in (IdentityKeys, Mutations):
        monkeypatch.setattr(each, "look", fails)
    store = MemoryStore()
    for upto in (2, 4):
        with QueryEvaluator(store) as evaluator:
            evaluator.source("n", ListSource(list(range(upto)), follow=True))
            evaluator.create("q", rx.source("n").distinct())
            evaluator.run(until=lambda: sum(evaluator.statistics().positions.values()) >= upto)
            evaluator.checkpoint()
            found = [each for each in evaluator.incidents.open() if each.kind == "look"]
            assert {each.subject for each in found} == {"identity", "changes in place"}
            assert all("nobody thought of that" in each.message for each in found)
        store = store.reopen()
    assert evaluator.query("q").emitted == 4


def kinds(kind: type[Operator] = Operator) -> Iterator[Any]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds(each)


def test_every_operator_that_declares_what_it_compares_is_in_the_table() -> None:
    """And what it declares is a field of its state or a parameter."""
    declared = {each.name for each in kinds() if each.compares and each.__module__.startswith("reliable_rx.")}
    assert declared <= set(QUERIES), declared - set(QUERIES)
    for each in kinds():
        for name, how in each.compares.items():
            assert name in dir(each.State) or name in each.__dataclass_fields__
            assert how in ("keys", "items", "value")


def test_the_incident_names_query_operator_value_and_remedy_and_ends_with_an_edit() -> None:
    """One warning, told once; an edit resolves it."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([("a", math.nan)] * 2, follow=True))
        evaluator.create("q", n.distinct_until_changed())
        evaluator.run(until=lambda: evaluator.events_in == 2)
        evaluator.checkpoint()
        (found,) = [each for each in evaluator.statistics().incidents if each.kind == "identity"]
        assert (found.subject, found.level, found.count) == ("q", "warning", 1)
        assert all(each in found.message for each in ("/distinct_until_changed", "('a', nan)", "None for a NaN"))
        evaluator.create("q", n.map(str))
        evaluator.checkpoint()
        assert not [each for each in evaluator.statistics().incidents if each.kind == "identity"]


def test_a_query_that_does_not_repeat_itself_is_told_that_this_is_why() -> None:
    """Behind a kill the error of the query names what it compares, not clocks."""
    store, rows = MemoryStore(), [(0, 1.0), *((at, math.nan) for at in range(1, 3))]
    evaluator = QueryEvaluator(store)
    evaluator.source("n", ListSource(rows, follow=True))
    evaluator.create("q", n.distinct_until_changed(lambda row: ("gap", row[1])))
    evaluator.run(until=lambda: evaluator.events_in == 3)
    evaluator.checkpoint()
    rows.append((3, math.nan))
    evaluator.run(until=lambda: evaluator.events_in == 4)
    evaluator.flush()
    evaluator.close()
    with QueryEvaluator(store.reopen()) as again:
        again.source("n", ListSource([*rows, (4, 2.0)]))
        again.run()
        error = str(again.query("q").error)
        assert "/distinct_until_changed compares" in error and "('gap', nan)" in error and "clock" not in error


@pytest.mark.parametrize("at", range(1, 6))
def test_a_nan_of_a_line_of_json_means_the_same_behind_a_stop(tmp_path: Path, at: int) -> None:
    """Each is an object of its own in peace too: pairs with one are equal to no other, as a NaN is."""
    path = tmp_path / "n.jsonl"

    def run(store: Any, count: int | None) -> list[Any]:
        with QueryEvaluator(store) as evaluator:
            evaluator.source("n", FileSource(path, follow=count is not None))
            evaluator.create("q", n.map(lambda row: ("a", row)).distinct_until_changed().map(lambda pair: str(pair[1])))
            evaluator.run(until=None if count is None else lambda: evaluator.events_in >= count)
            evaluator.checkpoint()
            return [each for part in evaluator.stream("q").read(0, 99) for each in part.values]

    lines = [f"{json.dumps(each)}\n" for each in [1.0, math.nan, math.nan, 2.0, 2.0, math.inf, -math.inf]]
    path.write_text("".join(lines[:at]))
    store = MemoryStore()
    run(store, at)
    path.write_text("".join(lines))
    assert run(store.reopen(), None) == run(MemoryStore(), None) == ["1.0", "nan", "nan", "2.0", "inf", "-inf"]


def nested(depth: int, width: int) -> Any:
    made: Any = (1,)
    for _ in range(depth):
        made = (made,) * width
    return made


@pytest.mark.parametrize("value", [nested(600, 1), nested(40, 2), (1,) * 100_000], ids=["deep", "shared", "wide"])
def test_a_value_that_is_too_large_to_compare_is_passed_by(value: Any) -> None:
    """No checkpoint ends or waits for it, which stores it; and a start behind a kill goes on."""
    made = [value]
    store = MemoryStore()
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("q", n.map(lambda x: made[0] if x == 2 else x).distinct_until_changed().map(lambda x: 1))
        evaluator.run()
        assert evaluator.query("q").status == "completed" and not evaluator.statistics().incidents


def test_whatever_a_state_is_made_of_is_looked_at_without_harm() -> None:
    """A walk over the places of tuples ends at a bound, and is not one of calls."""
    assert odd(nested(100_000, 1)) is odd(nested(64, 2)) is None and odd(((1, math.nan), "a")) is math.nan


class Slow:
    """Compares by value, and counts how often; a user's may take long."""

    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: Any) -> bool:
        Slow.compared += 1
        return isinstance(other, Slow) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


def slowly(evaluator: QueryEvaluator, events: list[Any], count: int) -> int:
    """Take *count* more events and a checkpoint; return how often that compared."""
    events += map(Slow, range(len(events), len(events) + count))
    evaluator.run(until=lambda: evaluator.events_in == len(events))
    Slow.compared = 0
    evaluator.checkpoint()
    return Slow.compared


@pytest.mark.parametrize("query", [n.distinct(), n.group_by(lambda x: x).flat_map(lambda g: g.count())])
def test_to_compare_may_be_slow_and_is_done_for_a_few_values_of_a_class(query: Any) -> None:
    """A few of each class and operator, be they in one row or many, and one at each later checkpoint."""
    events: list[Any] = []
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource(events, follow=True))
        evaluator.create("q", query)
        first, *later = (slowly(evaluator, events, 300) for _ in range(3))
    per_value = 2  # with itself and with its copy
    assert 0 < first <= LOOKED_AT * per_value
    assert all(0 < each <= per_value for each in later)


def test_a_query_is_looked_at_beside_one_with_many_rows() -> None:
    """And of the many rows some are, whichever of them is compared by identity."""
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.source("n", ListSource([*range(1000), ("a", math.nan)], follow=True))
        evaluator.create("many", n.group_by(lambda x: x).flat_map(lambda group: group.count()))
        evaluator.create("last", n.distinct_until_changed())
        evaluator.create("class", n.filter(lambda x: x == 7).map(lambda x: Card()).distinct())
        evaluator.run(until=lambda: evaluator.events_in == 1001)
        evaluator.checkpoint()
        told = {each.subject for each in evaluator.statistics().incidents if each.kind == "identity"}
        assert {"last", "class"} <= told


ODD_KEYS: dict[str, Callable[[int], Any]] = {
    "nan": lambda v: float("nan") if v % 2 else v,
    "pair with nan": lambda v: ("a", float("nan") if v % 3 else v),
    "object": lambda v: Card() if v % 2 else v,
    "decimal nan": lambda v: Decimal("nan") if v % 2 else v,
}
OVER_GROUPS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "merged": lambda o, r, s, key: s.pipe(o.group_by(key), o.merge_all()),
    "counted": lambda o, r, s, key: s.pipe(o.group_by(key), o.flat_map(lambda g: g.pipe(o.count()))),
    "numbered": lambda o, r, s, key: s.pipe(
        o.group_by(key), o.flat_map_indexed(lambda g, i: g.pipe(o.map(lambda v: (i, v))))
    ),
    "asked for the key": lambda o, r, s, key: s.pipe(
        o.group_by(key), o.flat_map(lambda g: g.pipe(o.map(lambda v: (repr(g.key)[:9], v))))
    ),
    "late": lambda o, r, s, key: s.pipe(o.group_by(key), o.delay(1.5), o.flat_map(lambda g: g.pipe(o.count()))),
    "the latest": lambda o, r, s, key: s.pipe(
        o.group_by(key), o.map(lambda g: g.pipe(o.start_with(-1), o.count())), o.switch_latest()
    ),
    "for a time": lambda o, r, s, key: s.pipe(
        o.group_by_until(key, None, lambda g: r.timer(2.5)), o.flat_map(lambda g: g.pipe(o.to_list()))
    ),
    "until it says so": lambda o, r, s, key: s.pipe(
        o.group_by_until(key, None, lambda g: g.pipe(o.skip(1))), o.flat_map(lambda g: g.pipe(o.to_list()))
    ),
    "within groups": lambda o, r, s, key: s.pipe(
        o.group_by(lambda v: v % 2),
        o.flat_map(lambda g: g.pipe(o.group_by(key), o.flat_map_indexed(lambda h, i: h.pipe(o.count())))),
    ),
}


@pytest.mark.parametrize("odd_key, reader", crossed(ODD_KEYS, OVER_GROUPS))
def test_a_group_is_found_behind_a_stop_by_a_key_that_no_copy_equals(odd_key: str, reader: str) -> None:
    """Each key is another one, as by plain `reactivex`, and what reads the group reads it behind every checkpoint."""
    numbers = parse_marbles("-1-2-3-1-1-2-5-|")
    for turn in range(8):
        check_run(lambda o, r, s: OVER_GROUPS[reader](o, r, s, ODD_KEYS[odd_key]), [numbers], ([], *phrases(turn)))


def test_one_and_the_same_nan_begins_a_group_with_every_element_in_peace_as_behind_a_stop() -> None:
    """Plain `reactivex` finds it by identity, which ends with a stop: hosted no group is found by it at all."""
    for at in range(ROWS):
        out, told = stopped(("a", math.nan), at)
        assert out["group_by"] == [1, 2, 3, 4]
        assert "group_by" in told or not at  # in peace all groups are over with the run


class Incomparable:
    def __eq__(self, other: object) -> bool:
        raise ArithmeticError("which of them?")

    __hash__ = object.__hash__


def test_what_cannot_be_compared_is_not_known_to_differ() -> None:
    """It raises where it is used, which is told there."""
    assert differs(Incomparable(), eq) is False
