"""Why a query has failed is told where it can be mended: at its event, at what it reads, in its declaration."""

from __future__ import annotations

import logging
import shlex
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer

import reliable_rx as rx
from checkpoint import MemoryStore, PostgresStore, SqliteStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.cli import main
from hosting.reports.causes import readers_of
from hosting.reports.incidents import Incident
from hosting.sources.faults import Error, FaultySource
from reliable_rx.errors import SourceFailed


def evaluator_of(store: Any, **queries: Any) -> QueryEvaluator:
    evaluator = QueryEvaluator(store)
    evaluator.source("n", ListSource([2, 1, 0, 3]))
    evaluator.source("s", FaultySource(ListSource([1, 2]), [Error(at=1)]))
    for name, query in queries.items():
        evaluator.create(name, query)
    return evaluator


def told(evaluator: QueryEvaluator, kind: str = "query") -> dict[str, Incident]:
    return {each.subject: each for each in evaluator.statistics().incidents if each.kind == kind}


def test_a_query_that_fails_with_what_it_reads_names_that() -> None:
    """Its own message has neither an event nor the other's traceback, also a stage further, and after a restart."""
    store = MemoryStore()
    queries = {
        "bad": rx.source("n").map(lambda n: 1 // n),
        "reader": rx.source("bad").map(str),
        "next": rx.source("reader"),
        "of source": rx.source("s"),
    }
    for run in ("has failed", "has failed in an earlier run"):
        with evaluator_of(store, **queries) as evaluator:
            evaluator.run()
            found, figures = told(evaluator), evaluator.query("reader")
        assert "n/0 event 2" in found["bad"].message and "1 // n" in found["bad"].trace
        for name, upstream in (("reader", "'bad'"), ("next", "'reader'"), ("of source", "the source 's'")):
            assert found[name].message.startswith(f"{run} with {upstream} ("), found[name].message
            assert found[name].trace == "" and "no event" not in found[name].message
        assert figures.upstream == "bad"


def test_a_query_that_fails_by_itself_at_no_event_says_so() -> None:
    """A timer of its own is no failure of what it reads, though the other has failed too."""
    with evaluator_of(MemoryStore(), bad=rx.source("n").map(lambda n: 1 // n)) as evaluator:
        evaluator.create("own", rx.timer(0.0).map(lambda n: 1 // n))
        evaluator.run()
        assert evaluator.query("own").upstream == "" and "at its creation" in told(evaluator)["own"].message


def test_who_reads_a_disposed_stream_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """`dispose` names the readers, on event time too, and each of them says what it has failed with."""
    slow = rx.source("n").concat(rx.never())
    with evaluator_of(MemoryStore()) as evaluator:
        evaluator.create("up", slow, policy="dead_letter")
        evaluator.create_many({"reader": rx.source("up"), "other": rx.source("n")})
        evaluator.create("timed", rx.source("up"), clock=rx.event_time(float))
        evaluator.create("letters", rx.source("up.dead_letters"))
        evaluator.run(until=lambda: evaluator.query("up").emitted == 4)
        assert readers_of(evaluator.engine, "up") == ["letters", "reader", "timed"]
        with caplog.at_level(logging.WARNING, "reliable_rx"):
            evaluator.dispose("up")
            evaluator.step()
        assert "query 'up' is disposed of, and its stream ends for letters, reader, timed" in caplog.text
        message = told(evaluator)["reader"].message
        remedy = "it runs again once a query or a source of that name is there"
        assert message == f"has failed with 'up', which was disposed of: {remedy}"
        assert evaluator.query("reader").upstream == "up"


def test_an_unchanged_declaration_of_a_failed_query_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """A start says in the one line of the failure whether it is declared as it was; `create` says so each time."""
    store, lines = MemoryStore(), list[str]()
    for queries in ({"bad": BAD}, {"bad": BAD}, {}):
        caplog.clear()
        with evaluator_of(store, **queries) as evaluator:
            evaluator.run()
            (line,) = [each.getMessage() for each in caplog.records if "'bad'" in each.getMessage()]
            lines.append(line)
            if queries:
                evaluator.create("bad", BAD)
                assert "query 'bad' was created as it is, and has failed" in caplog.text
    assert ["its declaration is unchanged" in each for each in lines] == [False, True, False]


BAD = rx.source("n").map(lambda n: 2 // n)


class Unreadable(ListSource):
    """Knows itself by another name than it is declared under."""

    def open(self, partition: str, at: int) -> Any:
        reader = super().open(partition, at)
        reader.fetch = self.fail  # type: ignore[method-assign]
        return reader

    def fail(self, count: int) -> Any:
        raise SourceFailed("the shelf is empty", source="/mnt/shelf", partition="0", position=0)


def test_a_source_that_cannot_be_read_is_told_under_its_declared_name() -> None:
    """What the source calls itself is in the message; who has declared two on one folder has to know which."""
    evaluator = QueryEvaluator(MemoryStore())
    evaluator.source("orders", Unreadable([1]))
    evaluator.create("q", rx.source("orders"))
    with pytest.raises(SourceFailed):
        evaluator.run()
    assert list(told(evaluator, "source")) == ["orders"]
    evaluator.close()


def test_skipped_events_keep_the_last_of_them() -> None:
    """The incident has event, error and traceback of the last, also where a replay repeats it; the count is stored."""
    store, seen, counts = MemoryStore(), list[Any](), list[int]()
    for _ in range(2):
        evaluator = QueryEvaluator(store, batch_events_max=2)
        evaluator.source("n", ListSource([0, 2, 0, 1]))
        evaluator.create("q", rx.source("n").map(lambda n: 2 // n), policy="skip")
        evaluator.sink("q", CallbackSink(lambda n, value: seen.append((n, value))))
        evaluator.run()
        counts.append(evaluator.query("q").skipped)
        found = told(evaluator, "skipped")
        assert (
            "it raised at 2 events so far, which are lost; the last, n/0 event 2: ZeroDivisionError"
            in found["q"].message
        )
        assert "2 // n" in found["q"].trace
        assert found["q"].count == 1, "what a replay repeats is told once"
        evaluator.close()
    assert seen[:2] == [(0, 1), (1, 2)] and counts == [2, 2], "a replay knows the count"


@pytest.mark.parametrize("name", ["q", "it's; rm -rf *", "two words", "$HOME", 'a "b"'])
def test_a_command_that_is_named_can_be_pasted(name: str, tmp_path: Path) -> None:
    """Whatever a query and the folder of its store are called, a shell reads the command as it is meant."""
    folder = tmp_path / "my store's"
    with SqliteStore(folder) as store, evaluator_of(store, **{name: rx.source("n").map(lambda n: 1 // n)}) as evaluator:
        evaluator.run()
        command = told(evaluator)[name].message.split("`")[1]
        assert shlex.split(command) == ["reliable-rx", "restart", str(folder), name]


def test_a_command_for_a_database_is_named(postgres: PostgresServer) -> None:
    """It has the address, without the password, and the name of the store, and does what it says."""
    dsn = postgres.new_database()
    query = rx.source("n").map(lambda n: 1 // n)
    with PostgresStore(dsn.replace("rrx@", "rrx:a?b@"), "my shop") as store, evaluator_of(store, q=query) as evaluator:
        evaluator.run()
        command = told(evaluator)["q"].message.split("`")[1]
    words = shlex.split(command)
    assert words == ["reliable-rx", "restart", "--name", "my shop", dsn, "q"]
    assert main(words[1:]) == 0


AGAIN = ValueError("a constant")


def raising(n: int) -> int:
    if n == 1:
        raise AGAIN
    return n


def test_one_error_of_two_queries_is_the_own_error_of_each() -> None:
    """Queries beside one another that raise one object: none reads the other, and what reads one of them says so."""
    n = rx.source("n")
    queries: dict[str, Any] = {"a": n.map(raising), "b": n.map(raising), "reader": rx.source("a")}
    with evaluator_of(MemoryStore(), **queries) as evaluator:
        evaluator.create("timed", n.map(raising), clock=rx.event_time(lambda _: 0.0))
        evaluator.run()
        found = {name: evaluator.query(name).upstream for name in ("a", "b", "timed", "reader")}
        assert found == {"a": "", "b": "", "timed": "", "reader": "a"}
        assert "n/0 event 1" in told(evaluator)["b"].message


def test_queries_that_differ_in_a_replay_are_blamed_each_for_itself_and_once() -> None:
    """Both read the source, which gave other events: none has failed with the other, and each is told of once."""
    store, numbers = MemoryStore(), list(range(20))
    options: dict[str, Any] = {"background": False, "checkpoint_interval_s": 1e9, "batch_events_max": 2}
    for run in range(2):
        evaluator = QueryEvaluator(store, **options)
        evaluator.source("n", ListSource(numbers, follow=True))
        evaluator.create_many({"sum": rx.source("n").scan(lambda a, n: a + n, 0), "max": rx.source("n").scan(max)})
        if run == 0:
            evaluator.run(until=lambda: evaluator.statistics().events_in == 20)
            evaluator.flush()
            evaluator.abandon()
            numbers[:] = [10 * n for n in numbers]
    evaluator.start()
    assert [evaluator.query(name).upstream for name in ("sum", "max")] == ["", ""]
    assert not any("it reads that one's stream" in each.message for each in told(evaluator).values())
    assert (
        sum("'sum'" in each for each in evaluator.warnings) == 1 == sum("'max'" in each for each in evaluator.warnings)
    )
    evaluator.close()
