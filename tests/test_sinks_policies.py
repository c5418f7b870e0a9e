"""What a sink cannot write is its own problem: by its policy it fails, skips or sets aside, and all else goes on."""

from __future__ import annotations

import itertools
import json
import logging
import math
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import pytest
from lanes import at_each_commit, every
from sinks_world import SinkWorld

import hosting
import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import App, CallbackSink, JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink
from reliable_rx.errors import CheckpointRefused, LeaseLost, PositionUnavailable, StoreUnavailable, ValueRefused
from reliable_rx.operators.contract.choices import OnError
from reliable_rx.reliable import DeadLetter

SEEDS = 16

UNWRITABLE = (b"\xff", frozenset([object]), "\ud83d\ude00"[:1] + "\ud83d" + "\ude00", {(1, 2): 3})


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(path: Path, query: str) -> list[tuple[Any, ...]]:
    database = sqlite3.connect(path)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def same(value: Any) -> Any:
    return value


def one(value: Any) -> Any:
    return 0 if value != value else value


class World:
    """An app of two queries over the same values, and its store over restarts."""

    def __init__(self, values: Sequence[Any], **options: Any) -> None:
        self.values, self.options = list(values), options
        self.store = MemoryStore()
        self.other: dict[int, Any] = {}
        self.evaluator: QueryEvaluator

    def run(self, sink: Any, on_error: str = "fail", *, mended: bool = False) -> QueryEvaluator:
        """Run to the end of the values, with *sink* on one of the queries."""
        self.store = self.store.reopen()
        with QueryEvaluator(self.store, background=False, **self.options) as evaluator:
            evaluator.source("n", ListSource(self.values))
            evaluator.create("same", rx.source("n").map(one if mended else same))
            evaluator.create("other", rx.source("n").map(lambda n: n))
            evaluator.sink("same", sink, on_error=on_error)
            evaluator.sink("other", CallbackSink(self.other.__setitem__))
            evaluator.run()
        assert self.other == dict(enumerate(self.values))
        return evaluator


def incidents_of(evaluator: QueryEvaluator) -> list[tuple[str, str, str]]:
    return [(each.kind, each.subject, each.level) for each in evaluator.statistics().incidents]


@pytest.mark.parametrize("bad", UNWRITABLE, ids=ascii)
@pytest.mark.parametrize("batch", [1, 1000])
def test_a_sink_that_fails_is_mended_and_loses_nothing(
    tmp_path: Path, bad: Any, batch: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It has what came before the value; all else goes on, all is said; mended, it goes on behind what it has."""
    world = World([1, 2, bad, 4, bad, 6], batch_events_max=batch)
    path = tmp_path / "out.jsonl"
    for _ in range(2):  # a second start with the same sink does no harm
        caplog.clear()
        evaluator = world.run(JsonLinesSink(path))
        assert lines_of(path) == [{"id": 0, "value": 1}, {"id": 1, "value": 2}]
        assert incidents_of(evaluator) == [("sink", "same, sink 0", "error")]
        assert [each.status for each in evaluator.statistics().sinks] == ["failed", "closed"]
        (said,) = [record.message for record in caplog.records if record.levelno == logging.ERROR]
        assert "value 2 cannot be written" in said and "lacks what comes from id 2 on" in said
    world.run(JsonLinesSink(path, encode=lambda value: value if value in (1, 2, 4, 6) else "mended"))
    values = [line["value"] for line in lines_of(path) if "value" in line]
    assert values == [1, 2, "mended", 4, "mended", 6]
    assert lines_of(path)[-1] == {"id": 6, "completed": True}


class Mended(NamedTuple):
    """A sink that cannot write a value, what it says, the same sink with that, and what it then has of the values."""

    failing: Callable[[Path], Any]
    said: str
    mended: Callable[[Path], Any]
    found: Callable[[Path], list[Any]]


MENDED = {
    "lines": Mended(
        JsonLinesSink,
        "give the sink encode=",
        lambda path: JsonLinesSink(path, encode=lambda value: 0 if value != value else value),
        lambda path: [line["value"] for line in lines_of(path) if "value" in line],
    ),
    "a table": Mended(
        lambda path: SqliteTableSink(path, "t", columns={"value": lambda value: 1 // int(value == value) and value}),
        "give the sink columns= with functions",
        lambda path: SqliteTableSink(path, "t", columns={"value": lambda value: 0 if value != value else value}),
        lambda path: [value for (value,) in rows_of(path, "SELECT value FROM t ORDER BY id")],
    ),
    "a callback": Mended(
        lambda path: CallbackSink(lambda n, value: 1 // int(value == value)),
        "mend it",
        lambda path: CallbackSink(lambda n, value: append(path, 0 if value != value else value)),
        lambda path: [1, 2, *(json.loads(line) for line in path.read_text().splitlines())],
    ),
}


def append(path: Path, value: Any) -> None:
    with path.open("a") as file:
        file.write(f"{json.dumps(value)}\n")


@pytest.mark.parametrize("kind", MENDED)
def test_what_is_said_of_a_value_helps_with_it(kind: str, tmp_path: Path) -> None:
    """A value that was emitted stays: the sink is to be mended, and not only the query."""
    world, path, sink = World([1, 2, math.nan, 4]), tmp_path / "out", MENDED[kind]
    for mended in (False, True, True):
        evaluator = world.run(sink.failing(path), mended=mended)
        (said,) = [each.message for each in evaluator.statistics().incidents]
        assert sink.said in said and "gives other values from then on, and leaves this one" in said
    assert not world.run(sink.mended(path), mended=True).statistics().incidents
    assert sink.found(path) == [1, 2, 0, 4]


@pytest.mark.parametrize("batch", [1, 2, 1000])
def test_ids_that_are_left_out_of_a_file(tmp_path: Path, batch: int) -> None:
    """The file says which, and why, and where to go on; what is skipped is counted and reported."""
    path = tmp_path / "out.jsonl"
    world = World([b"a", 1, b"b", b"c", 2], batch_events_max=batch)
    for _ in range(2):
        evaluator = world.run(JsonLinesSink(path), "skip")
        found = lines_of(path)
        assert [line["id"] for line in found] == list(range(6))
        assert [line.get("value") for line in found] == [None, 1, None, None, 2, None]
        assert "a builtins.bytes has no JSON form" in found[0]["skipped"]
    assert [each.skipped for each in evaluator.statistics().sinks] == [0, 0]
    first = World([b"a", 1]).run(JsonLinesSink(tmp_path / "again.jsonl"), "skip")
    assert incidents_of(first) == [("sink skips", "same, sink 0", "warning")]
    assert first.statistics().sinks[0].skipped == 1


def test_dead_letters_of_a_file(tmp_path: Path) -> None:
    """They are lines of the same file, with the value as text."""
    path = tmp_path / "out.jsonl"
    World([1, b"a" * 5000, 2]).run(JsonLinesSink(path), "dead_letter")
    letter = lines_of(path)[1]
    assert letter["id"] == 1 and set(letter["dead_letter"]) == {"error", "type", "value"}
    assert letter["dead_letter"]["type"] == "bytes" and letter["dead_letter"]["value"].startswith("b'aaa")
    assert len(letter["dead_letter"]["value"]) == 1000


def test_dead_letters_of_a_table(tmp_path: Path) -> None:
    """They are rows of a table beside, in the transaction of the position; the ids of the rows have gaps."""
    path = tmp_path / "out.db"
    values = [{"a": 1}, {"a": "\ud800"}, {"b": 1}, {"a": 2}]
    World(values).run(SqliteTableSink(path, "t"), "dead_letter")
    assert rows_of(path, "SELECT * FROM t") == [(0, 1), (3, 2)]
    letters = rows_of(path, "SELECT id, error, type, value FROM reliable_rx_dead_letters ORDER BY id")
    assert [(n, kind, value) for n, _, kind, value in letters] == [
        (1, "dict", "{'a': '\\ud800'}"), (2, "dict", "{'b': 1}"),
    ]  # fmt: skip
    assert "surrogates" in letters[0][1] and "no 'a', the value has b" in letters[1][1]
    assert rows_of(path, "SELECT next_id, ended_id FROM reliable_rx_sinks") == [(5, 4)]


def test_dead_letters_of_a_callback() -> None:
    """The function that fails is called for each value once; the letter has the value itself."""
    calls: list[Any] = []
    letters: list[DeadLetter] = []

    def call(n: int, value: Any) -> None:
        calls.append(n)
        if value == "bad":
            raise KeyError("no such customer")

    World([1, "bad", 2, "bad"]).run(CallbackSink(call, on_dead_letter=letters.append), "dead_letter")
    assert [(each.source, each.position, each.value) for each in letters] == [("same", 1, "bad"), ("same", 3, "bad")]
    assert "no such customer" in letters[0].error and "Traceback" in letters[0].traceback
    assert [n for n in calls if n not in (1, 3)] == [0, 2]


def refuses(n: int, value: Any) -> None:
    if isinstance(value, bytes):
        raise TypeError("no bytes")


KEPT: list[Any] = []
PLACES: dict[str, tuple[Callable[[Path], Any], bool]] = {
    "JsonLinesSink": (lambda folder: JsonLinesSink(folder / "out.jsonl"), True),
    "SqliteTableSink": (lambda folder: SqliteTableSink(folder / "out.db", "t", columns={"a": str.upper}), True),
    "CallbackSink": (lambda folder: CallbackSink(refuses), False),
    "CallbackSink(on_dead_letter)": (
        lambda folder: CallbackSink(refuses, on_dead_letter=lambda letter: KEPT.append(letter.value)),
        True,
    ),
}
"""Every sink, and whether it has a place for dead letters."""


@pytest.mark.parametrize("name", PLACES)
def test_a_dead_letter_is_kept_or_refused(name: str, tmp_path: Path) -> None:
    """What is set aside is found in the sink; one that has no place for it is refused where it is declared."""
    make, keeps = PLACES[name]
    KEPT.clear()
    if keeps:
        World(["a", b"set aside", "c"]).run(make(tmp_path), "dead_letter")
        assert b"set aside" in KEPT or any(b"set aside" in each.read_bytes() for each in tmp_path.iterdir())
    else:
        with pytest.raises(ValueError, match=r"^a CallbackSink has no place for dead letters.*on_dead_letter="):
            World(["a"]).run(make(tmp_path), "dead_letter")
        World(["a", b"left out", "c"]).run(make(tmp_path), "skip")


def test_each_sink_is_known_by_its_place() -> None:
    """The table above has them all."""
    assert {each.partition("(")[0] for each in PLACES} == {each for each in hosting.__all__ if each.endswith("Sink")}


def test_a_dead_letter_has_a_bound() -> None:
    """However long an error and its traceback are, and whatever it does when it is shown, its letter is short."""
    letters: list[DeadLetter] = []

    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not a word")

    def deep(depth: int) -> None:
        if depth == 0:
            raise ValueError("y" * 10**6)
        deep(depth - 1)

    def call(n: int, value: Any) -> None:
        if value == "long":
            raise ValueError("x" * 10**6)
        if value == "deep":
            deep(400)
        if value == "several":
            raise ExceptionGroup("several", [ValueError("z" * 10**5) for _ in range(1000)])
        raise Mute

    World(["long", "deep", "several", "mute"]).run(CallbackSink(call, on_dead_letter=letters.append), "dead_letter")
    assert [each.value for each in letters] == ["long", "deep", "several", "mute"]
    assert all(len(each.error) <= 10_000 and len(each.traceback) <= 20_001 for each in letters)
    assert all("Traceback" in each.traceback for each in letters)


class Refusing(JsonLinesSink):
    """Raises what it is told to, where it is told to, as often as it is told to."""

    def __init__(self, path: Path, where: str, error: Exception, times: int = 1_000_000) -> None:
        super().__init__(path)
        self.where, self.error, self.times = where, error, times

    def _raise_at(self, where: str) -> None:
        if where == self.where and self.times:
            self.times -= 1
            raise self.error

    @property
    def label(self) -> str:
        self._raise_at("label")
        return super().target

    @property
    def target(self) -> str:
        self._raise_at("target")
        return super().target

    def open(self, stream: str, /) -> int | None:
        self._raise_at("open")
        return super().open(stream)

    def write(self, first: int, values: Sequence[Any], /) -> None:
        self._raise_at("write")
        super().write(first, values)

    def end(self, n: int, error: Exception | None, /) -> None:
        self._raise_at("end")
        super().end(n, error)

    def flush(self) -> None:
        self._raise_at("flush")
        super().flush()

    def close(self) -> None:
        super().close()
        self._raise_at("close")


RAW = (KeyError("k"), TypeError("t"), RecursionError("deep"), sqlite3.DataError("big"), MemoryError(), AssertionError())


@pytest.mark.parametrize("error", every(3, RAW), ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("where", ["label", "target", "open", "write", "end", "flush", "close"])
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_whatever_a_sink_raises_is_its_own(tmp_path: Path, where: str, error: Exception, on_error: str) -> None:
    """No error of a sink, at any of its methods, reaches the evaluator; the next start finds all it lacks."""
    path = tmp_path / "out.jsonl"
    world = World([1, 2, 3])
    evaluator = world.run(Refusing(path, where, error), on_error)
    left_out = on_error == "skip" and where in ("write", "end")
    if where != "close":
        assert incidents_of(evaluator) == [
            ("sink skips" if left_out else "sink", "same, sink 0", "warning" if left_out else "error")
        ]
        assert type(error).__name__ in evaluator.statistics().incidents[0].message
    world.run(JsonLinesSink(path))
    assert [line["id"] for line in lines_of(path)] == [0, 1, 2, 3]
    if not left_out:
        assert [line.get("value") for line in lines_of(path)] == [1, 2, 3, None]


@pytest.mark.parametrize("where", ["open", "write", "end", "flush"])
@pytest.mark.parametrize("error", [ConnectionError("away"), StoreUnavailable("full")], ids=["raw", "ours"])
def test_a_sink_that_is_not_available_is_tried_again(tmp_path: Path, where: str, error: Exception) -> None:
    """It is reported at once, no turns are taken meanwhile, and it is reported as well when it is."""
    path = tmp_path / "out.jsonl"
    sink = Refusing(path, where, error, times=3)
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("n", ListSource([1, 2, 3]))
    evaluator.create("same", rx.source("n").map(lambda n: n))
    evaluator.sink("same", sink)
    seen: set[tuple[str, str, str]] = set()

    def looked() -> bool:
        seen.update(incidents_of(evaluator))
        return False

    evaluator.run(until=looked)
    while sink.times:  # a flush is called by checkpoints only
        try:
            evaluator.checkpoint()
        except StoreUnavailable:
            seen.update(incidents_of(evaluator))
    evaluator.checkpoint()
    assert ("sink", "same, sink 0", "warning") in seen
    assert incidents_of(evaluator) == []
    evaluator.close()
    assert [line.get("value") for line in lines_of(path)] == [1, 2, 3, None]


def test_a_function_that_is_not_available_is_called_again_from_there() -> None:
    """Values that were taken before it failed are not given to it twice."""
    calls: list[int] = []
    failures = itertools.count()

    def call(n: int, value: Any) -> None:
        if n == 2 and next(failures) < 3:
            raise TimeoutError("slow")
        calls.append(n)

    World(range(5)).run(CallbackSink(call))
    assert calls == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("where", ["open", "write", "end", "flush"])
def test_a_sink_that_is_not_available_is_tried_more_and_more_rarely(tmp_path: Path, where: str) -> None:
    """However often the loop looks, pauses grow up to a second; a checkpoint has it tried at once."""
    sink, now, tries = Refusing(tmp_path / "out", where, ConnectionError("away"), times=100), [0.0], list[float]()
    left = sink.times
    with QueryEvaluator(MemoryStore()) as evaluator:
        evaluator.outlets.clock = lambda: now[0]
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("same", rx.source("n").map(lambda n: n))
        evaluator.sink("same", sink)

        def look(ticks: int) -> None:
            nonlocal left
            for _ in range(ticks):
                with suppress(StoreUnavailable):
                    evaluator.outlets.flush()
                if sink.times < left:
                    tries.append(round(now[0], 3))
                    left = sink.times
                now[0] += 0.005

        evaluator.run(until=lambda: where == "open" or evaluator.stream("same").visible == 4)
        look(700)
        pauses = [after - before for before, after in itertools.pairwise(tries)]
        assert pauses == pytest.approx([0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0], abs=0.006)
        before = sink.times
        with pytest.raises(StoreUnavailable):
            evaluator.checkpoint()
        assert sink.times == before - 1, "asked for, it is tried at once"
        left, sink.times = 0, 0
        look(300)
        assert evaluator.statistics().sinks[0].status == "open"
        assert not [each for each in evaluator.incidents.open() if each.kind == "sink"]


def test_a_function_that_fails_at_each_value_is_not_held_up() -> None:
    """Who comes further with each try is tried again soon, however often it was not available."""
    calls, now, evaluator = list[int](), [0.0], QueryEvaluator(MemoryStore())
    evaluator.outlets.clock = lambda: now[0]
    failed = set[int]()

    def call(n: int, value: Any) -> None:
        if n not in failed:
            failed.add(n)
            raise TimeoutError("slow")
        calls.append(n)

    with evaluator:
        evaluator.source("n", ListSource([*range(100)]))
        evaluator.create("same", rx.source("n"))
        evaluator.sink("same", CallbackSink(call))

        def looked() -> bool:
            now[0] += 0.01
            return False

        evaluator.run(until=looked)
        assert calls == [*range(100)] and now[0] < 5.0


def name_of_file(n: int, value: Any) -> None:
    if value == "B/2":
        raise FileNotFoundError(f"labels/{value}.txt")


class Refuser(CallbackSink):
    """Writes all values of a call or none, and does not say which one it could not write."""

    def __init__(self) -> None:
        super().__init__(name_of_file)

    def write(self, first: int, values: Sequence[Any], /) -> None:
        for n, value in enumerate(values, first):
            name_of_file(n, value)


TRIED: dict[str, tuple[Callable[[], Any], list[str], str]] = {
    "callback": (lambda: CallbackSink(name_of_file), ["B1", "B/2", "B3"], "with id 1: if its value is the cause,"),
    "several": (Refuser, ["B1", "B/2", "B3"], "with ids 0 to 2: if one of these values is the cause,"),
    "one": (Refuser, ["B/2"], "with id 0: if its value is the cause,"),
}


@pytest.mark.parametrize("kind", TRIED)
@pytest.mark.parametrize("on_error", ["fail", "skip"])
def test_what_is_written_is_named_while_a_sink_is_tried_again(
    kind: str, on_error: OnError, caplog: pytest.LogCaptureFixture
) -> None:
    """One value may be why a sink is not available: log, status and incident say which ids, and the way out."""
    make, values, said = TRIED[kind]
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("n", ListSource(values))
    evaluator.create("labels", rx.source("n"))
    evaluator.sink("labels", make(), on_error=on_error)
    with pytest.raises(StoreUnavailable), evaluator:
        for _ in range(20):
            evaluator.step()
        (incident,) = [each for each in evaluator.incidents.open() if each.kind == "sink"]
        told = (incident.message, evaluator.statistics().trouble, *(each.getMessage() for each in caplog.records[:1]))
        ways = f"it is tried again {said} let the sink raise a ValueError for it"
        assert len(told) == 3 and all("FileNotFoundError" in each and ways in each for each in told), told
        evaluator.checkpoint()


@pytest.mark.parametrize("where", ["open", "flush"])
def test_where_nothing_is_written_no_id_is_named(tmp_path: Path, where: str, caplog: pytest.LogCaptureFixture) -> None:
    """No value is the cause where a sink is opened or flushed."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.create("same", rx.source("n"))
        evaluator.sink("same", Refusing(tmp_path / "out", where, ConnectionError("away"), times=1))
        evaluator.start()
        with suppress(StoreUnavailable):
            evaluator.outlets.flush()
            evaluator.run()
            evaluator.outlets.flush()
    told = [each.getMessage().splitlines()[0] for each in caplog.records if "is not available" in each.getMessage()]
    assert told and all(each.endswith("ConnectionError: away; it is tried again") for each in told)


def test_a_lease_that_is_lost_stops_the_evaluator(tmp_path: Path) -> None:
    """Whatever the policy."""
    with pytest.raises(LeaseLost):
        World([1]).run(Refusing(tmp_path / "out", "write", LeaseLost("taken over")), "skip")


def check_told_of_gap(evaluator: QueryEvaluator) -> None:
    """Hold that a sink says which ids its stream lacks, and no remedy but those that help against that."""
    told = evaluator.statistics().incidents[0].message
    assert "are no longer kept" in told and "the stream keeps what it has of that" in told
    assert told.endswith("; do that, and start again") and "mend it" not in told and "behind what it has" not in told


def test_a_sink_that_has_failed_is_let_go_before_it_stops_others(tmp_path: Path) -> None:
    """It keeps what the buffer holds; then it says what is lost to it. With skip it goes on behind the gap."""
    path = tmp_path / "out.jsonl"
    world = World([1, b"bad", *range(5000)], buffer_events_max=1000, retain_events=10, batch_events_max=50)
    evaluator = world.run(JsonLinesSink(path))
    assert incidents_of(evaluator) == [("sink", "same, sink 0", "error"), ("holder", "same/sink 0", "error")]
    assert "let go at id 1" in evaluator.statistics().incidents[1].message
    assert "sink 0" not in evaluator.stream("same").holders
    evaluator = world.run(JsonLinesSink(path))
    check_told_of_gap(evaluator)
    evaluator = world.run(JsonLinesSink(path), "skip")
    gap = lines_of(path)[1]
    assert gap["id"] == 1 and gap["until"] > 3000 and "no longer kept" in gap["skipped"]
    assert [line["id"] for line in lines_of(path)[2:]] == list(range(gap["until"], 5003))
    assert evaluator.statistics().sinks[0].durable == 5003
    assert incidents_of(world.run(JsonLinesSink(path))) == []


def test_a_sink_that_is_kept_for_does_not_stop_others(tmp_path: Path) -> None:
    """What the buffer holds is kept, and the mended sink gets it."""
    path = tmp_path / "out.jsonl"
    world = World([1, b"bad", *range(900)], buffer_events_max=1000, retain_events=10, batch_events_max=50)
    world.run(JsonLinesSink(path))
    world.run(JsonLinesSink(path, encode=str))
    assert [line["id"] for line in lines_of(path)] == list(range(903))


def test_a_sink_of_another_store_is_refused_at_the_start(tmp_path: Path) -> None:
    """What the store has never given cannot be written behind what the file has; nothing is run."""
    path = tmp_path / "out.jsonl"
    World([1, 2, 3]).run(JsonLinesSink(path))
    with pytest.raises(PositionUnavailable, match="belongs to another store"):
        World([1]).run(JsonLinesSink(path))
    assert len(lines_of(path)) == 4


def test_a_sink_without_a_query_waits_for_it(tmp_path: Path) -> None:
    """Its incident names the queries there are; once there is one of that name, it is written."""
    path = tmp_path / "out.jsonl"
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("same", rx.source("n").map(lambda n: n))
        evaluator.sink("sane", JsonLinesSink(path))
        evaluator.start()
        (incident,) = evaluator.statistics().incidents
        assert (incident.level, incident.subject) == ("error", "sane, sink 0")
        assert "did you mean 'same'?" in incident.message
        evaluator.create("sane", rx.source("n").map(lambda n: -n))
        evaluator.run()
        assert incidents_of(evaluator) == []
    assert [line.get("value") for line in lines_of(path)] == [-1, -2, None]


def test_a_sink_whose_query_was_disposed(tmp_path: Path) -> None:
    """It opens as before, at the next start too, and gets nothing more."""
    store = MemoryStore()
    for start in range(3):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource([1, 2]))
            if start == 0:
                evaluator.create("same", rx.source("n").map(lambda n: n))
            evaluator.sink("same", JsonLinesSink(tmp_path / "out.jsonl"))
            evaluator.run()
            if start == 0:
                evaluator.checkpoint()
                evaluator.dispose("same")
        assert incidents_of(evaluator) == []
        store = store.reopen()
    assert [line["id"] for line in lines_of(tmp_path / "out.jsonl")] == [0, 1, 2]


def test_a_sink_that_comes_late(tmp_path: Path) -> None:
    """Declared while the evaluator runs, it has all that the stream still has; one that is too late says so."""
    path = tmp_path / "out.jsonl"
    with QueryEvaluator(MemoryStore(), background=False, retain_events=1000) as evaluator:
        evaluator.source("n", ListSource(list(range(5000))))
        for name in ("few", "same"):
            evaluator.create(name, rx.source("n").filter(lambda n: n < 3) if name == "few" else rx.source("n").map(abs))
        evaluator.run()
        evaluator.checkpoint()
        for name in ("few", "same"):
            evaluator.sink(name, JsonLinesSink(path.with_stem(name)))
        evaluator.step()
        assert incidents_of(evaluator) == [("sink", "same, sink 0", "error")]
        check_told_of_gap(evaluator)
    assert [line.get("value") for line in lines_of(path.with_stem("few"))] == [0, 1, 2, None]


def test_a_sink_of_a_query_that_only_the_journal_has(tmp_path: Path) -> None:
    """A query created while running, a crash, and a sink that is declared before the replay has made it again."""
    path = tmp_path / "out.jsonl"
    store = MemoryStore()
    for start in range(2):
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9, retain_events=1)
        evaluator.source("n", ListSource([1, 2, 3]))
        if start:
            evaluator.sink("late", JsonLinesSink(path))
        evaluator.start()
        if not start:
            evaluator.create("late", rx.source("n").map(lambda n: -n))
        evaluator.run()
        evaluator.close()
        store.crash()
        store = store.reopen()
    assert [line.get("value") for line in lines_of(path)] == [-1, -2, -3, None]


class Plain:
    """A sink that cannot leave ids out."""

    def open(self, stream: str, /) -> int | None: ...
    def write(self, first: int, values: Sequence[Any], /) -> None: ...
    def end(self, n: int, error: Exception | None, /) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def test_declarations_that_cannot_be_kept(tmp_path: Path) -> None:
    """They are refused where they stand."""
    evaluator = QueryEvaluator(MemoryStore())
    with pytest.raises(ValueError, match="one of fail, skip, dead_letter"):
        evaluator.sink("same", JsonLinesSink(tmp_path / "x"), on_error="ignore")
    with pytest.raises(ValueError, match="a Plain cannot leave ids out"):
        evaluator.sink("same", Plain(), on_error="skip")
    sink = JsonLinesSink(tmp_path / "x")
    evaluator.sink("same", sink)
    with pytest.raises(ValueError, match="is that of stream 'same' already"):
        evaluator.sink("other", sink)
    evaluator.close()
    app = App()
    app.query("same", app.source("n", ListSource([b"a", 1])))
    with pytest.raises(ValueError, match="one of fail, skip, dead_letter"):
        app.sink("same", Plain, on_error="ignore")
    with pytest.raises(ValueError, match="a Plain cannot leave ids out"):
        app.sink("same", Plain(), on_error="skip")
    with pytest.raises(ValueError, match="has no place for dead letters"):
        app.sink("same", CallbackSink(refuses), on_error="dead_letter")
    app.sink("same", lambda: JsonLinesSink(tmp_path / "y"), on_error="skip")
    with app.evaluator(MemoryStore()) as hosted:
        hosted.run()
    assert [line.get("value") for line in lines_of(tmp_path / "y")] == [None, 1, None]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


@pytest.mark.parametrize("count", [50, at_each_commit(100_000)])
def test_a_flipped_bit_in_a_flushed_line(tmp_path: Path, count: int) -> None:
    """Nothing is cut; the line is named; the evaluator and its other sinks go on, and put back the file does, too."""
    path = tmp_path / "out.jsonl"
    world = World(range(count))
    world.run(JsonLinesSink(path))
    whole = path.read_bytes()
    damaged = flipped(whole, whole.index(b'{"id":40,') + 2)
    path.write_bytes(damaged)
    evaluator = world.run(JsonLinesSink(path))
    assert path.read_bytes() == damaged
    (incident,) = evaluator.statistics().incidents
    assert "line 41 of" in incident.message and "nothing was changed" in incident.message
    path.write_bytes(whole)
    assert incidents_of(world.run(JsonLinesSink(path))) == []
    assert path.read_bytes() == whole


def test_every_flipped_bit_of_a_flushed_file(tmp_path: Path) -> None:
    """Found or not, it changes nothing in the file, and no bit leads to another position."""
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink(path)
    sink.open("s")
    sink.write(0, ["a", 1.5, None, ["b", {"c": True}]])
    sink.flush()
    sink.close()
    whole = path.read_bytes()
    refused = 0
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert sink.open("s") == 4
        except CheckpointRefused:
            refused += 1
        sink.close()
        assert path.read_bytes() == damaged, f"bit {bit}"
    assert refused > 4 * len(whole)
    assert {each.name for each in tmp_path.iterdir()} == {"out.jsonl", "out.jsonl.flushed"}


@pytest.mark.parametrize("change", ["an odd line", "a foreign end", "no newline"])
def test_a_file_that_somebody_has_changed(tmp_path: Path, change: str) -> None:
    """What was written behind our lines is cut and kept if it may be torn; within them it is refused."""
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink(path)
    sink.open("s")
    sink.write(0, ["a", "b"])
    sink.flush()
    sink.close()
    ours = path.read_bytes()
    if change == "an odd line":
        path.write_bytes(b'{"id":0,"name":"x"}\n' + ours)
        with pytest.raises(ValueError, match="was not written by this sink"):
            sink.open("s")
        return
    path.write_bytes(ours + b"my notes\n" if change == "a foreign end" else ours[:-1])
    assert sink.open("s") == 2
    sink.close()
    assert path.read_bytes() == ours
    kept = path.with_name("out.jsonl.cut-1")
    assert kept.exists() == (change == "a foreign end")
    if kept.exists():
        assert kept.read_bytes() == b"my notes\n"


def test_what_was_cut_is_reported(tmp_path: Path) -> None:
    """An incident says how much, why, and where it is."""
    path = tmp_path / "out.jsonl"
    world = World([1, 2])
    world.run(JsonLinesSink(path))
    with open(path, "ab") as file:
        file.write(b'{"id":3,"val')
    evaluator = world.run(JsonLinesSink(path))
    assert incidents_of(evaluator) == [("sink opened", "same, sink 0", "warning")]
    assert "out.jsonl.cut-1" in evaluator.statistics().incidents[0].message
    assert path.with_name("out.jsonl.cut-1").read_bytes() == b'{"id":3,"val'


def test_no_mark_nothing_cut(tmp_path: Path) -> None:
    """Without the file that says how far was flushed, torn is only a last line that is begun as it should be."""
    path = tmp_path / "out.jsonl"
    good = b'{"id":0,"value":1}\n{"id":1,"value":2}\n'
    for tail, refused in ((b'{"id":2,"va', False), (b"\0\0\0", False), (b"my notes", True), (b'{"id":5}\n', True)):
        path.with_name("out.jsonl.flushed").unlink(missing_ok=True)
        path.write_bytes(good + tail)
        if refused:
            with pytest.raises(ValueError, match="line 3 of"):
                JsonLinesSink(path).open("s")
            assert path.read_bytes() == good + tail
        else:
            sink = JsonLinesSink(path)
            assert sink.open("s") == 2
            sink.close()
            assert path.read_bytes() == good


@pytest.mark.parametrize("make", [lambda path: JsonLinesSink(path), lambda path: SqliteTableSink(path, "t")])
def test_a_value_that_json_can_say_is_written(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    """Integers of any length and halves of pairs come back as they were."""
    sink = make(tmp_path / "out")
    sink.open("s")
    sink.write(0, [["\ud800 é", 10**5000, -(10**4300), {"\udfff": 10**4301}]])
    sink.flush()
    with pytest.raises(ValueRefused) as caught:
        sink.write(1, ["fine", "\ud83d" + "\ude00"])
    assert caught.value.n == 2
    sink.close()
    if isinstance(sink, JsonLinesSink):
        (line,) = (tmp_path / "out").read_text().splitlines()
        text = line.removeprefix('{"id":0,"value":').removesuffix("}")
    else:
        ((text,),) = rows_of(tmp_path / "out", "SELECT value FROM t")
    found = json.loads(text, parse_int=str)
    assert found == ["\ud800 é", "1" + "0" * 5000, "-1" + "0" * 4300, {"\udfff": "1" + "0" * 4301}]
    again = make(tmp_path / "out")
    assert again.open("s") == 1
    again.close()


@pytest.mark.parametrize("seed", every(24, range(12 * SEEDS), commits=12))
def test_whatever_happens_each_sink_has_each_id_once(tmp_path: Path, seed: int) -> None:
    """Hostile values, places that fail, crashes, torn tails: by its policy each sink has all, the others all of it."""
    SinkWorld(seed, tmp_path).check()


@pytest.mark.parametrize("policy", ["fail", "skip", "dead_letter"])
def test_what_cannot_be_read_any_more_is_no_value(policy: OnError, tmp_path: Path) -> None:
    """A sink that comes behind a restart does with it what its policy says, with its own reason: it writes none."""
    store = MemoryStore()

    def ran(*sinks: JsonLinesSink) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("q", rx.source("n").map(lambda n: [n, threading.Lock()] if n == 2 else n))
        for each in sinks:
            evaluator.sink("q", each, on_error=policy)
        with evaluator:
            evaluator.run()
            evaluator.checkpoint()
        return evaluator

    ran()
    incidents = [str(each) for each in ran(JsonLinesSink(tmp_path / "out")).incidents.open()]
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [each["value"] for each in lines if "value" in each] == ([1] if policy == "fail" else [1, 3])
    assert any("id 1 cannot be read any more" in each and "lock" in each for each in incidents), incidents


def test_a_sink_that_answers_false(tmp_path: Path) -> None:
    """It has not said that it has the values: it fails in a sentence, instead of losing them in silence."""

    class Denying(JsonLinesSink):
        def write(self, first: int, values: Any, /) -> Any:
            return False

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3]))
        evaluator.create("q", rx.source("n"))
        evaluator.sink("q", Denying(tmp_path / "out.jsonl"))
        evaluator.run()
        (told,) = [each.message for each in evaluator.statistics().incidents if each.kind == "sink"]
        assert "write of the sink returned False" in told and "raise ValueRefused" in told


def test_a_double_of_a_callback_sink_is_waited_for() -> None:
    """It says that it is one, and has nothing that one has: who asks for more ends the run."""
    double = MagicMock(spec=CallbackSink)
    double.open.return_value, double.label, double.target = 0, "double", None
    double.write.side_effect = itertools.chain([ConnectionError("away")], itertools.repeat(None))
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("q", rx.source("n"))
        evaluator.sink("q", double)
        evaluator.run(until=lambda: double.write.call_count > 2)
        assert evaluator.query("q").status == "completed"


def test_a_callback_sink_may_be_made_as_it_is_opened() -> None:
    """While it is away it has nothing yet of what such a sink has."""
    got, tries = list[int](), list[int]()

    class Late(CallbackSink):
        label = "late"

        def __init__(self) -> None: ...

        def open(self, stream: str, /) -> int | None:
            tries.append(1)
            if len(tries) < 3:
                raise ConnectionError("away")
            super().__init__(lambda n, value: got.append(value))
            return super().open(stream)

    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("q", rx.source("n"))
        evaluator.sink("q", Late())
        evaluator.run(until=lambda: len(got) > 1)
    assert got == [1, 2]


class Proxy:
    """A sink that hands on whatever it is asked for, and where it has no connection has nothing to hand on to."""

    def __init__(self, sink: Any) -> None:
        self._sink = sink
        self.tries = 0

    @property
    def guarded(self) -> Any:
        raise ConnectionError("away")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._sink, name)

    def write(self, first: int, values: Any, /) -> None:
        self.tries += 1
        if self.tries < 3:
            raise ConnectionError("away")
        self._sink.write(first, values)


def test_a_property_of_a_name_of_ours_is_not_asked(tmp_path: Path) -> None:
    """A sink may have its own `guarded`, which raises while the sink is away."""
    proxy = Proxy(JsonLinesSink(tmp_path / "out.jsonl"))
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2]))
        evaluator.create("q", rx.source("n"))
        evaluator.sink("q", proxy)
        evaluator.run(until=lambda: proxy.tries > 2)
        assert evaluator.query("q").status == "completed"
    assert (tmp_path / "out.jsonl").read_text().count("value") == 2
