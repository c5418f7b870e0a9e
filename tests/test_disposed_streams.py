"""Disposing a query ends its stream, for whoever reads it and however, exactly once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import Deliveries, FileSource, JsonLinesSink, ListSource, QueryEvaluator, SqliteTableSink, StreamSource
from hosting.sinks import CallbackSink
from reliable_rx import event_time
from reliable_rx import operators as ops
from reliable_rx.errors import QueryDisposed


class Host:
    """An evaluator whose query is created and disposed of, and which may die at any moment."""

    def __init__(self, sinks: Any = ()) -> None:
        self.store = MemoryStore()
        self.numbers: list[int] = []
        self.sinks = sinks
        self.evaluator = self.fresh()

    def fresh(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(self.store, background=False, batch_events_max=2, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(self.numbers, follow=True))
        for make in self.sinks:
            evaluator.sink("q", make())
        evaluator.start()
        return evaluator

    def crash(self) -> None:
        self.evaluator.abandon()
        self.store = self.store.reopen()
        self.evaluator = self.fresh()

    def feed(self, *values: int) -> None:
        self.numbers.extend(values)
        while self.evaluator.step():
            pass

    def read(self, name: str = "q") -> list[Any]:
        found: list[Any] = []
        for part in self.evaluator.stream(name).read(0, 1000):
            found += [*part.values, *([type(part.error).__name__] if part.ended else [])]
        return found


def negative(n: int) -> int:
    return -n


LIFE = [1, 2, "QueryDisposed", 3, "QueryDisposed"]


@pytest.mark.parametrize("crash_at", range(8))
@pytest.mark.parametrize("saves", [False, True])
def test_dispose_ends_the_stream_once_in_every_replay(crash_at: int, saves: bool) -> None:
    """The end has an id; a query created under the name goes on behind it; a crash anywhere changes nothing."""
    host = Host()

    def create() -> None:
        host.evaluator.create("q", rx.source("n"))

    def dispose() -> None:
        host.evaluator.dispose("q")

    steps: list[Callable[[], None]] = [
        create, lambda: host.feed(1, 2), dispose, lambda: host.feed(9), create, lambda: host.feed(3), dispose,
    ]  # fmt: skip
    for number, step in enumerate(steps):
        if number == crash_at:
            host.crash()
        step()
        if saves:
            host.evaluator.checkpoint()
    host.crash()
    assert host.read() == LIFE
    assert host.evaluator.stream("q").next_id == len(LIFE)


def test_a_query_that_had_ended_does_not_end_again() -> None:
    """Completed or failed, its terminal notification is the one it has."""
    host = Host()
    host.evaluator.create("q", rx.source("n").take(1))
    host.feed(1, 2)
    host.evaluator.dispose("q")
    assert host.read() == [1, "NoneType"]


class Heard:
    def __init__(self) -> None:
        self.said: list[Any] = []

    def on_next(self, n: int, value: Any, /) -> None:
        self.said.append((n, value))

    def on_error(self, n: int, error: Exception, /) -> None:
        self.said.append((n, type(error).__name__))

    def on_completed(self, n: int, /) -> None:
        self.said.append((n, "completed"))

    def deliver(self, records: Any, after: int, /) -> None:
        self.said += records

    def end(self, n: int, error: Exception | None, /) -> None:
        self.said.append((n, type(error).__name__))


def test_all_who_read_are_told() -> None:
    """Observers, deliveries, sinks, queries on the query and another evaluator: each gets the end, with its id."""
    sink, observer, consumer, plain = Heard(), Heard(), Heard(), list[Any]()
    host = Host([lambda: CallbackSink(lambda n, value: sink.on_next(n, value), sink.end)])
    host.evaluator.create("q", rx.source("n"))
    host.evaluator.create("over", rx.source("q").pipe(ops.map(negative)))
    host.evaluator.create("patient", rx.source("q").pipe(ops.retry()))
    stream = host.evaluator.stream("q")
    stream.subscribe(observer).start(0)
    stream.observable(0).subscribe(plain.append, lambda error: plain.append(type(error).__name__))
    deliveries = Deliveries()
    subscription = deliveries.subscribe("q", consumer, name="me", at=0)
    deliveries.offer("q", stream)
    lower = QueryEvaluator(MemoryStore(), background=False)
    lower.source("q", StreamSource(stream, subscriber="lower"))
    lower.create("below", rx.source("q"))
    host.feed(1, 2)
    host.evaluator.dispose("q")
    assert deliveries.wait(lambda: subscription.status == "ended", timeout_s=30)
    lower.run()
    expected = [(0, 1), (1, 2), (2, "QueryDisposed")]
    assert observer.said == consumer.said == sink.said == expected
    assert plain == [1, 2, "QueryDisposed"]
    assert isinstance(lower.engine.standing["below"].error, QueryDisposed)
    assert host.read("over") == [-1, -2, "QueryDisposed"]
    host.evaluator.create("q", rx.source("n"))
    host.feed(3)
    assert host.read("patient") == [1, 2, 3]
    deliveries.close()
    lower.close()


def test_streams_beside_the_query_end_with_it() -> None:
    """Dead letters belong to a query: they end, and go on behind the end when it is created again."""
    host = Host()
    for _ in range(2):
        host.evaluator.create("q", rx.source("n").map(lambda n: 1 // n), policy="dead_letter")
        host.feed(0)
        host.evaluator.dispose("q")
    said = [type(each).__name__ if not isinstance(each, str) else each for each in host.read("q.dead_letters")]
    assert said == ["DeadLetter", "QueryDisposed"] * 2
    assert not host.evaluator.engine.standing


def test_what_is_no_query_is_named_as_what_it_is() -> None:
    """Who disposes of a stream beside a query is told of the query; beside none that is there, of those that are."""
    host = Host()
    host.evaluator.create("q", rx.source("n"))
    with pytest.raises(KeyError, match=r"'q\.late' is a stream beside 'q' and no query: name 'q'"):
        host.evaluator.dispose("q.late")
    with pytest.raises(KeyError, match=r"no query is called 'gone\.late'; .*q"):
        host.evaluator.dispose("gone.late")
    assert [*host.evaluator.engine.standing] == ["q"]


@pytest.mark.parametrize("kind", ["lines", "table"])
def test_sinks_go_on_behind_the_end(kind: str, tmp_path: Path) -> None:
    """What is created under the name of a disposed query is written behind its end, once, over crashes and restarts."""
    lines = tmp_path / "q.jsonl"
    sink = (lambda: JsonLinesSink(lines)) if kind == "lines" else (lambda: SqliteTableSink(tmp_path / "q.db", "q"))
    host = Host([sink])
    for number in (1, 2):
        host.evaluator.create("q", rx.source("n"))
        host.feed(number)
        host.evaluator.dispose("q")
        host.evaluator.checkpoint()
        host.crash()
    host.evaluator.close()
    if kind == "lines":
        ids = [line.split(",")[0] for line in lines.read_text().splitlines()]
        assert len(ids) == len(set(ids)) == 4
    else:
        import sqlite3

        with sqlite3.connect(tmp_path / "q.db") as connection:
            assert len(connection.execute("SELECT * FROM q").fetchall()) >= 2
        connection.close()


def inverse(n: int) -> int:
    return 1 // n


ENDS: dict[str, tuple[list[int], list[str]]] = {
    "completed": ([0, 1, 0, 2], ["DeadLetter", "DeadLetter", "NoneType"]),
    "without a letter": ([1, 1, 2], ["NoneType"]),
}


@pytest.mark.parametrize("crash_at", range(5))
@pytest.mark.parametrize("saves", [False, True])
@pytest.mark.parametrize("how", ENDS)
def test_streams_beside_a_query_complete_when_it_ends(how: str, saves: bool, crash_at: int) -> None:
    """Once, behind all letters, also where there were none; queries that read them end, whenever they have come."""
    host = Host()
    numbers, expected = ENDS[how]

    def create() -> None:
        query = rx.source("n").pipe(ops.take_while(lambda n: n < 2), ops.map(inverse))
        host.evaluator.create("q", query, policy="dead_letter")

    def read(name: str) -> Callable[[], None]:
        return lambda: host.evaluator.create(
            name, rx.source("q.dead_letters").pipe(ops.map(lambda letter: letter.value))
        )

    steps: list[Callable[[], None]] = [create, read("early"), lambda: host.feed(*numbers), read("late reader")]
    for number, step in enumerate(steps):
        if number == crash_at:
            host.crash()
        step()
        if saves:
            host.evaluator.checkpoint()
    host.crash()
    assert [each if isinstance(each, str) else type(each).__name__ for each in host.read("q.dead_letters")] == expected
    assert host.read("early") == [*[0] * (len(expected) - 1), "NoneType"]
    assert host.evaluator.query("late reader").status == "completed"


def not_nine(n: int) -> float:
    return 1 / (n % 10 - 9)


@pytest.mark.parametrize("saves", [False, True])
def test_late_events_end_with_a_query_that_fails_and_go_on_behind_it(saves: bool) -> None:
    """What came too late has failed with nothing: its stream completes, and goes on when the query runs again."""
    host = Host()
    clock = event_time(float, lateness_s=0.0, late="side")
    host.evaluator.create("q", rx.source("n").pipe(ops.map(not_nine)), clock=clock)
    for times in (1, 2):
        host.feed(*[10 * times + n for n in (5, 6, 1, 9, 10)])
        assert host.evaluator.query("q").status == "failed"
        if saves:
            host.evaluator.checkpoint()
        host.crash()
        said = [each if isinstance(each, str) else type(each).__name__ for each in host.read("q.late")]
        assert said == ["LateEvent", "NoneType"] * times
        host.evaluator.create("q", rx.source("n").pipe(ops.map(not_nine), ops.map(str)), clock=clock)


@pytest.mark.parametrize("crash_at", range(4))
def test_dead_letters_of_a_source_end_with_it(crash_at: int, tmp_path: Path) -> None:
    """Records that cannot be read lie beside their source, which has no more of them once it has ended."""
    store, path = MemoryStore(), tmp_path / "n.jsonl"
    path.write_text("1\n{\n3\n{\n")

    def fresh() -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, batch_events_max=1, checkpoint_interval_s=1e9)
        evaluator.source("n", FileSource(path, on_bad_record="dead_letter"))
        evaluator.create("q", rx.source("n"))
        evaluator.create("bad", rx.source("n.dead_letters").pipe(ops.map(lambda letter: letter.position)))
        return evaluator

    evaluator = fresh()
    for _ in range(crash_at):
        evaluator.step()
    evaluator.abandon()
    store = store.reopen()
    with fresh() as evaluator:
        evaluator.run()
        parts = list(evaluator.stream("bad").read(0, 10))
        assert [value for part in parts for value in part.values] == [1, 3]
        assert parts[-1].ended and evaluator.stream("n.dead_letters").ended


@pytest.mark.parametrize("background", [False, True])
def test_a_checkpoint_between_a_disposal_and_its_end_shows_it_first(
    background: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread's checkpoint may have the last outputs of a query before they are visible: nothing is lost."""
    with QueryEvaluator(MemoryStore(), background=background, checkpoint_interval_s=1e9) as evaluator:
        pushed = evaluator.push("n")
        evaluator.create("q", rx.source("n").map(lambda n: n))
        evaluator.start()
        pushed.push([1, 2])
        while evaluator.step():
            pass
        evaluator.flush()
        with monkeypatch.context() as between:
            between.setattr(QueryEvaluator, "flush", lambda self: None)
            evaluator.dispose("q")
        evaluator.checkpoint()
        evaluator.flush()
        found = [(list(part.values), type(part.error).__name__) for part in evaluator.stream("q").read(0, 10)]
        assert found == [([1, 2], "QueryDisposed")]
