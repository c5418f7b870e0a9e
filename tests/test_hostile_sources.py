"""Whatever a function of a source does strikes that source's queries, record or partition: the others lose nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from inspect import isgeneratorfunction
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hostile_world import CLOSE, CRASH, FULL, KILL, NUMBERS, OTHERS, STEPS_MAX, Life, expected_outputs, records
from lanes import every_of
from test_hostile_queries import LIVES, sampled, sampled_with

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import FileSource, GeneratorSource, ListSource, QueryEvaluator, SharedSource
from hosting.sources.polling import PolledSource, Want
from reliable_rx import operators as ops
from reliable_rx.errors import ReliableRxError, SourceFailed
from reliable_rx.names import check_name
from reliable_rx.testing import check_ledger
from reliable_rx.testing.hostile import FICKLE, FUNCTIONS, Hostile

COUNT = 20
LIMIT_S = 1e12
HEALTHY: Callable[[Any], Any] = int


class Place(NamedTuple):
    """Where a source takes a function: how it is made, and whether what it gives is a record's own problem."""

    make: Callable[[Path, Any, Any], Any]
    has_policy: bool = True


def of_file(path: Path, policy: Any, **options: Any) -> FileSource:
    return FileSource(path, on_bad_record=policy, **options)


def two(values: range) -> dict[str, list[int]]:
    return {"a": list(values[::2]), "b": list(values[1::2])}


PLACES: dict[str, Place] = {
    "the time of a record": Place(lambda path, f, policy: of_file(path, policy, timestamp=f)),
    "the time in a list": Place(lambda path, f, _: ListSource(list(range(COUNT)), timestamp=f), False),
    "the time in two partitions": Place(lambda path, f, _: ListSource(two(range(COUNT)), timestamp=f), False),
    "the time of what is made": Place(
        lambda path, f, _: GeneratorSource(lambda i, _: i, count=COUNT, timestamp=f), False
    ),
    "the time in a shared source": Place(lambda path, f, policy: SharedSource(of_file(path, policy, timestamp=f))),
    "what parses": Place(lambda path, f, policy: of_file(path, policy, parse=lambda n: (f(n), n)[1])),
    "the key of a record": Place(lambda path, f, policy: of_file(path, policy, partition_by=f, partitions=keys())),
    "the order": Place(lambda path, f, policy: of_file(path, policy, sort_by=f)),
    "what makes records": Place(lambda path, f, _: GeneratorSource(lambda i, _: (f(i), i)[1], count=COUNT), False),
    "the size of an event": Place(
        lambda path, f, policy: SharedSource(of_file(path, policy), bytes_max=1000, bytes_of=f), False
    ),
    "the size of an event in a pull": Place(
        lambda path, f, policy: PolledSource(of_file(path, policy), Want(bytes_min=10), bytes_of=f), False
    ),
    "the stream of an event": Place(lambda path, f, policy: SharedSource(of_file(path, policy), stream_of=f), False),
}

COUNTING = ("the key of a record", "the order")
"""Places of functions on which it depends which number a record has."""


def keys() -> list[str]:
    return [str(n) for n in range(COUNT)]


class SourceWorld:
    """One store, one evaluator after the other on it, a hostile source among healthy ones, and what came of each."""

    def __init__(self, path: Path, place: str, make: Callable[[], Any], policy: str) -> None:
        self.path, self.place, self.make, self.policy = path, PLACES[place], make, policy
        self.counts, self.strict = place in COUNTING, True
        path.write_text("".join(f"{n}\n" for n in range(COUNT)))
        self.store: Any = MemoryStore()
        self.seen: dict[str, list[tuple[int, Any]]] = {name: [] for name in (*OTHERS, "odd", "h.dead_letters")}
        self.told: list[str] = []
        self.warned: list[str] = []

    def begin(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store, background=False, batch_events_max=3, checkpoint_interval_s=1e9, strict=self.strict
        )
        evaluator.source("n", ListSource(NUMBERS))
        evaluator.source("h", self.place.make(self.path, self.make(), self.policy))
        for name, query in OTHERS.items():
            evaluator.create(name, query)
        evaluator.create("odd", rx.source("h").pipe(ops.scan(later_of, (0, None)), ops.map(itemgetter(1))))
        evaluator.create("later", rx.source("n").pipe(ops.delay(3.0), ops.buffer_with_time(2.0)))
        return evaluator

    def live(self, life: Life) -> None:
        """Live until the end, or until the source ends the run; what that says is kept."""
        evaluator = self.begin()
        try:
            for _ in range(life.steps):
                if not evaluator.step():
                    break
        except ReliableRxError as error:
            self.told.append(str(error))
            assert "; " in str(error) and len(str(error)) < 5000
        if life.end in (CRASH, FULL) and evaluator.lifecycle.broken is None:
            evaluator.checkpoint(full=life.end == FULL)
        self.look(evaluator)
        self.warned = list(evaluator.warnings)
        assert not [each for each in evaluator.warnings if "gave other outputs" in each], evaluator.warnings
        assert abs(evaluator.engine.clock) < LIMIT_S or evaluator.engine.clock == float("-inf")
        if life.end in (KILL, CRASH):
            evaluator.abandon()
        else:
            evaluator.close()
        self.store = self.store.reopen()

    def look(self, evaluator: QueryEvaluator) -> None:
        for name, seen in self.seen.items():
            stream = evaluator.stream(name)
            again = records(stream, stream.first)
            known = [each for each in seen if each[0] >= stream.first]
            assert repr(again[: len(known)]) == repr(known), f"{name} was {known}, and is {again} now"
            seen += again[len(known) :]

    def play(self) -> None:
        """Let all come through, under the hostile function and then under a healthy one; hold the ledgers."""
        for life in LIVES:
            self.live(life)
        self.live(Life(STEPS_MAX, CRASH))
        before, self.told = self.told[-1:], []
        self.live(Life(STEPS_MAX, CLOSE))
        assert self.told == before, "what cannot be read is the same in each run"
        self.make, self.told = lambda: HEALTHY, []
        self.live(Life(STEPS_MAX, FULL))
        if self.counts and self.told:  # another key, or order, is refused until one says to go on with it
            assert all("does not count as it did" in each and "strict=False" in each for each in self.told)
            self.told, self.strict = [], False
            self.live(Life(STEPS_MAX, FULL))
            assert any("was read on from the numbers that there are" in each for each in self.warned), self.warned
            self.strict = True  # once is enough: a checkpoint has the new meaning
            self.live(Life(STEPS_MAX, FULL))
            assert not any("numbers that there are" in each for each in self.warned), self.warned
        assert not self.told
        expected = expected_outputs()
        for name in OTHERS:
            check_ledger(expected[name], self.seen[name]).check(f"query {name!r}")

    def check_whole(self) -> None:
        """Each record was taken once, or is one dead letter, or (``skip``) was left out."""
        taken = Counter(value for _, value in self.seen["odd"] if type(value) is int)
        letters = Counter(letter.value for _, letter in self.seen["h.dead_letters"] if hasattr(letter, "value"))
        assert {*taken.values(), *letters.values()} <= {1}
        missing = set(range(COUNT)) - taken.keys()
        assert missing == letters.keys() if self.policy == "dead_letter" else not missing or self.policy == "skip"
        assert missing <= {4, 9, 14, 19} or not taken


def later_of(before: tuple[int, Any], value: Any) -> tuple[int, Any]:
    return before[0] + 1, value


def played(path: Path, place: str, make: Callable[[], Any], policy: str) -> None:
    world = SourceWorld(path, place, make, policy)
    try:
        world.begin().close()
    except TypeError as refused:  # a function that can be no such one, where it is written
        timed = "timestamp of source 'h' is called with (value)" in str(refused)
        assert timed or (isgeneratorfunction(make()) and " is called with (" in str(refused))
        return
    world.play()
    world.check_whole()


@pytest.mark.parametrize("function, place", sampled_with(FUNCTIONS, list(PLACES)), ids=str)
def test_functions(tmp_path: Path, function: Hostile, place: str) -> None:
    """A function that emits or raises what is hostile, wherever a source may have one, under each policy."""
    for policy in ("fail", "skip", "dead_letter") if PLACES[place].has_policy else ("fail",):
        played(tmp_path / f"{policy}.jsonl", place, function.make, policy)


@pytest.mark.parametrize(
    "function, place",
    every_of(34, product(FICKLE, [each for each in PLACES if "time" in each or "size" in each]), commits=17),
    ids=str,
)
def test_functions_that_change(tmp_path: Path, function: Hostile, place: str) -> None:
    """A function that is another one whenever it is called again: what it says is asked for once, or borne."""
    played(tmp_path / "rows.jsonl", place, function.make, "fail")


@pytest.mark.parametrize("function", sampled(FUNCTIONS), ids=repr)
def test_a_time_is_looked_up(tmp_path: Path, function: Hostile) -> None:
    """A start at a time passes over what has none, or fails in our words, by the policy."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{n}\n" for n in range(COUNT)))
    source = FileSource(path, timestamp=function.make(), on_bad_record="skip")
    assert source.find(path.name, 3.0) == (COUNT if function.name in ("falls", "generates") else 3)
    assert source.find(path.name, 1e6) == COUNT
    try:
        assert FileSource(path, timestamp=function.make()).find(path.name, 1e6) == COUNT
    except SourceFailed as error:
        assert error.position == (0 if function.name in ("falls", "generates") else 4)
        assert "; mend `timestamp`" in str(error)


@pytest.mark.parametrize("function", sampled(FUNCTIONS), ids=repr)
def test_keys_are_found(tmp_path: Path, function: Hostile) -> None:
    """The partitions that are found by a key can be stored, and are the same in the next process."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{n}\n" for n in range(COUNT)))
    for policy in ("fail", "skip"):
        found = []
        for _ in range(2):
            try:
                found.append(of_file(path, policy, partition_by=function.make()).partitions())
            except SourceFailed as error:
                assert "; " in str(error)
                found.append(str(error))
            except TypeError as refused:  # where it is written
                assert function.name == "generates" and "partition_by is called with (one)" in str(refused)
                return
        assert found[0] == found[1]
        for name in found[0] if isinstance(found[0], tuple) else ():
            check_name("partition", name)
