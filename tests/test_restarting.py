"""Running a query again that has ended: ids go on, whatever is killed meanwhile; and what that query is afterwards."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from conditions import until

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import CallbackSink, ListSource, QueryEvaluator
from hosting.cli.command import main
from reliable_rx.errors import TooLate
from reliable_rx.testing.faults import ProcessDied, arm, raise_

POINTS = (
    "journal.before_commit", "journal.after_commit", "checkpoint.before_snapshot", "checkpoint.before_commit",
    "checkpoint.mid_commit", "checkpoint.after_commit",
)  # fmt: skip


def picky(value: int) -> int:
    if value == 2:
        raise ValueError("two cannot be had")
    return value


def hosted(store: Any, values: list[int]) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False)
    evaluator.source("n", ListSource(values, follow=True))
    evaluator.create("q", rx.source("n").map(picky))
    evaluator.create("sum", rx.source("n").scan(lambda a, b: a + b, 0))
    return evaluator


def drain(evaluator: QueryEvaluator) -> None:
    while evaluator.step():
        pass


def emitted(evaluator: QueryEvaluator, name: str) -> list[tuple[int, Any]]:
    """Return what a stream has, by id; a terminal notification as its name."""
    found: list[tuple[int, Any]] = []
    for part in evaluator.stream(name).read(0, 100):
        found += enumerate(part.values, part.first)
        if part.ended:
            found.append((part.next - 1, "failed" if part.error else "completed"))
    return found


@pytest.mark.parametrize("closes", ["cleanly", "at once"])
def test_a_restarted_query_goes_on_with_the_next_event(closes: str) -> None:
    """It has no state, its ids follow on its end, nothing is wrong any more, and others do not notice."""
    store, values = MemoryStore(), [1, 2, 3]
    evaluator = hosted(store, values)
    drain(evaluator)
    assert evaluator.query("q").status == "failed" and len(evaluator.statistics().incidents) == 1
    evaluator.restart("q")
    values.append(4)
    drain(evaluator)
    assert emitted(evaluator, "q") == [(0, 1), (1, "failed"), (2, 4)]
    assert evaluator.query("q").status == "running" and evaluator.statistics().incidents == ()
    evaluator.checkpoint() if closes == "cleanly" else None
    evaluator.close()
    evaluator = hosted(store, values)
    drain(evaluator)
    assert emitted(evaluator, "q") == [(0, 1), (1, "failed"), (2, 4)]
    assert [value for _, value in emitted(evaluator, "sum")] == [1, 3, 6, 10]
    with pytest.raises(KeyError, match="did you mean 'sum'"):
        evaluator.restart("sun")
    evaluator.close()


@pytest.mark.parametrize("act", ["restart", "dispose"])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_it_as_it_was_or_as_it_is_to_be(point: str, act: str, tmp_path: Path) -> None:
    """The stream's ids are consecutive whatever point of the change a kill hits, and doing it again does it."""
    values = [1, 2, 3]
    with SqliteStore(tmp_path) as store:
        evaluator = hosted(store, values)
        drain(evaluator)
        evaluator.checkpoint()
        with arm(point, raise_(ProcessDied())), pytest.raises((ProcessDied, TooLate)):
            getattr(evaluator, act)("q")
            evaluator.checkpoint(full=True)
    with SqliteStore(tmp_path) as store:
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.start()
        assert evaluator.engine.standing.get("q") is None or evaluator.query("q").status in ("failed", "running")
        if "q" in evaluator.queries() and evaluator.query("q").status == "failed":
            getattr(evaluator, act)("q")
        values.append(4)
        drain(evaluator)
        assert emitted(evaluator, "q") == [(0, 1), (1, "failed"), *([(2, 4)] if act == "restart" else [])]
        assert [value for _, value in emitted(evaluator, "sum")] == [1, 3, 6, 10]
        evaluator.close()


def test_what_reads_a_restarted_query_is_restarted_behind_it() -> None:
    """A query on a query has ended with it; run again before it, it ends at once and says why; behind it, it runs."""
    values = [1, 2, 3]
    evaluator = hosted(MemoryStore(), values)
    evaluator.create("reads", rx.source("q").map(lambda n: -n))
    drain(evaluator)
    evaluator.restart("reads")
    assert evaluator.query("reads").status == "failed"
    for name in ("q", "reads"):
        evaluator.restart(name)
    values.append(4)
    drain(evaluator)
    assert emitted(evaluator, "reads")[-1][1] == -4
    evaluator.close()


@pytest.mark.parametrize("names", [("q",), ("q", "recovers"), ("q", "deep", "took")])
def test_the_command_says_of_each_reader_what_becomes_of_it(
    names: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who is said to run again had failed with it and runs; who is said to stay as it was had completed, and gets
    nothing; who had failed by a fault of its own, or goes on with another source, is not named."""
    q: Any = rx.source("q")
    readers = {"with": q.map(abs), "deep": rx.source("with").map(abs), "both": q.merge(rx.source("with"))}
    readers |= {"recovers": q.catch(rx.of(0)), "took": q.take(1), "own": q.map(lambda x: 1 // 0), "on": q.catch(n())}
    with SqliteStore(tmp_path / "s") as store, hosted(store, [1, 2]) as evaluator:
        for name, query in readers.items():
            evaluator.create(name, query)
        drain(evaluator)
        before = {name: evaluator.query(name) for name in readers}
    assert main(["restart", str(tmp_path / "s"), *names, "--yes"]) == 0
    said = capsys.readouterr().out
    again, stay = (re.search(f"; those that [^;]*{how}: ([^;\n]*)", said) for how in ("run again too", "stay so"))
    with SqliteStore(tmp_path / "s") as store, hosted(store, [1, 2]) as evaluator:
        evaluator.start()
        after = {name: evaluator.query(name) for name in readers.keys() - {*names}}
    expected = {name: each for name, each in before.items() if name in after and name not in ("own", "on")}
    for told, was, status in ((again, "failed", "running"), (stay, "completed", "completed")):
        named = set() if told is None else {*told[1].split(", ")}
        assert named == {name for name, each in expected.items() if each.status == was}, said
        assert {after[name].status for name in named} <= {status}
        assert status == "running" or all(after[name].emitted == before[name].emitted for name in named)
    assert all(after[name].status == before[name].status for name in ("own", "on"))


def n() -> Any:
    return rx.source("n").map(lambda x: x)


def test_what_had_failed_with_a_disposal_runs_again_with_the_query() -> None:
    """Its readers failed when it was disposed of; they run again once it is created, and so does what reads these."""
    values = [1]
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        made = {"q": rx.source("n"), "reader": rx.source("q").map(abs), "last": rx.source("reader").map(abs)}
        for name, query in made.items():
            evaluator.create(name, query)
        drain(evaluator)
        evaluator.dispose("q")
        told = [each.message for each in evaluator.incidents.open() if each.kind == "query"]
        assert len(told) == 2 and any("'q', which was disposed of: it runs again once" in each for each in told)
        evaluator.create("q", made["q"])
        assert [evaluator.query(name).status for name in made] == ["running"] * 3
        values.append(2)
        drain(evaluator)
        assert [value for part in evaluator.stream("last").read(0, 9) for value in part.values][-1] == 2


def test_who_reads_two_follows_when_the_second_one_is_there() -> None:
    """When the first one begins, the other is not there to be read yet: until it is, it stays as it ended."""
    values = [1]
    made = {"a": rx.source("n"), "b": rx.source("n"), "both": rx.merge(rx.source("a"), rx.source("b"))}
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        for name, query in made.items():
            evaluator.create(name, query)
        drain(evaluator)
        for name in ("a", "b"):
            evaluator.dispose(name)
        for name, status in (("a", "failed"), ("b", "running")):
            evaluator.create(name, made[name])
            assert evaluator.query("both").status == status
        values.append(2)
        drain(evaluator)
        assert [value for _, value in emitted(evaluator, "both")][-2:] == [2, 2]


def test_who_reads_one_that_stays_as_it_ended_stays_too() -> None:
    """Only the app has the clock of "timed": a command leaves it to the app, with all who read it and have one end."""
    store, values = MemoryStore(), [2]
    reads = {"timed": rx.source("q"), "both": rx.merge(rx.source("q"), rx.source("timed")), "last": rx.source("both")}

    def app() -> QueryEvaluator:
        evaluator = hosted(store, values)
        for name, query in reads.items():
            evaluator.create(name, query, clock=rx.event_time(float) if name == "timed" else None)
        return evaluator

    with app() as evaluator:
        drain(evaluator)
    with QueryEvaluator(store := store.reopen(), background=False) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.start()
        evaluator.restart("q")
        assert [evaluator.query(name).status for name in ("q", *reads)] == ["running", *["failed"] * 3]
    store = store.reopen()
    with app() as evaluator:
        values += [3]
        drain(evaluator)
        assert [evaluator.query(name).status for name in ("q", *reads)] == ["running"] * 4
        assert emitted(evaluator, "both") == emitted(evaluator, "last") == [(0, "failed"), (1, 3)]


@pytest.mark.parametrize("act", ["restart", "dispose"])
def test_who_reads_what_a_query_sets_aside_follows_it(act: str) -> None:
    """A stream of dead letters is there again with its query, and loses nothing."""
    values = [1, 2]
    made = {"a": rx.source("n").map(picky), "r": rx.source("a.dead_letters").map(lambda letter: letter.value)}
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create("a", made["a"], policy="dead_letter")
        evaluator.create("r", made["r"])
        drain(evaluator)
        getattr(evaluator, act)("a")
        if act == "dispose":
            evaluator.create("a", made["a"], policy="dead_letter")
        values += [2, 2]
        drain(evaluator)
        assert evaluator.query("r").status == "running"
        assert [value for _, value in emitted(evaluator, "r")] == [2, "failed", 2, 2]


def test_who_failed_by_a_fault_of_its_own_stays() -> None:
    """What it reads failed behind it with the same text, and is mended: it is not, and would fail again at once."""

    def refusing(most: int) -> Any:
        def refuse(value: int) -> int:
            if value >= most:
                raise KeyError("price")
            return value

        return refuse

    store = MemoryStore()
    for values, most in (([1], 3), ([1, 2], 3), ([1, 2, 3], 3), ([1, 2, 3, 4], 9)):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource(values, follow=True))
            evaluator.create("q", rx.source("n").map(refusing(most)))
            evaluator.create("reader", rx.source("q").map(refusing(2)))
            drain(evaluator)
            assert evaluator.query("reader").status == ("running" if len(values) == 1 else "failed")
            assert emitted(evaluator, "reader")[1:] == [(1, "failed")] * (len(values) > 1)
        store = store.reopen()
    assert evaluator.query("q").status == "running"


NOPE = ValueError("a constant of the module")


def test_a_constant_that_two_raise_is_the_error_of_each() -> None:
    """One object may be the error of a query, and of its reader, whose own function raises it later."""

    def refusing(most: int) -> Any:
        def refuse(value: int) -> int:
            if value >= most:
                raise NOPE
            return value

        return refuse

    store = MemoryStore()
    for values, most in (([1, 2, 3, 4], 2), ([1, 2, 3, 4, 5], 2), ([1, 2, 3, 4, 5, 6], 9)):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource(values, follow=True))
            evaluator.create("q", rx.source("n").map(refusing(most)))
            both = rx.merge(rx.source("q").catch(rx.empty()), rx.source("n"))
            evaluator.create("reader", both.map(refusing(5)))
            drain(evaluator)
            statuses = [evaluator.query(name).status for name in ("q", "reader")]
        store = store.reopen()
    assert statuses == ["running", "failed"]


IS_READABLE = [True]


class State:
    """A state that cannot be read where the world says so."""

    def __init__(self, total: int) -> None:
        self.total = total

    def __reduce__(self) -> Any:
        return read_state, (self.total,)


def read_state(total: int) -> State:
    if not IS_READABLE[0]:
        raise RuntimeError("cannot be read today")
    return State(total)


def test_who_was_created_behind_a_failed_query_runs_again_with_it() -> None:
    """In a later run, too: its own functions are well, and it has the error of that one."""
    store = MemoryStore()
    made = {"q": rx.source("n").map(picky), "reader": rx.source("q").map(abs), "last": rx.source("reader").map(abs)}
    for count in (1, 2, 3, 3):
        mended = rx.source("n").map(abs)
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource([1, 2, 3], follow=True))
            for name in list(made)[:count]:
                evaluator.create(name, mended if name == "q" and "last" in store.streams() else made[name])
            drain(evaluator)
            statuses = [evaluator.query(name).status for name in list(made)[:count]]
        store = store.reopen()
    assert statuses == ["running"] * 3


def test_what_runs_again_behind_a_state_that_cannot_be_read_goes_on_behind_a_kill() -> None:
    """It was ended in the start before, and so were its readers; what has been seen of their new lives stays."""
    made = {
        "q": rx.source("n").scan(lambda last, n: State(n + (last.total if last else 0)), None).map(lambda s: s.total),
        "r": rx.source("q").map(abs),
        "l": rx.source("r").map(abs),
    }
    store, values, seen = MemoryStore(), [1], dict[str, list[Any]]()
    try:
        for IS_READABLE[0], kills in ((True, False), (False, True), (False, True), (True, False)):
            evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
            evaluator.source("n", ListSource(values, follow=True))
            for name, query in made.items():
                evaluator.create(name, query if IS_READABLE[0] else query.map(lambda n: n))
            drain(evaluator)
            evaluator.flush()
            for name, before in seen.items():
                assert emitted(evaluator, name)[: len(before)] == before
            seen = {name: emitted(evaluator, name) for name in made}
            assert [evaluator.query(name).status for name in made] == ["running"] * 3
            evaluator.abandon() if kills else evaluator.__exit__(None, None, None)
            store = store.reopen()
            values.append(len(values) + 1)
    finally:
        IS_READABLE[0] = True


@pytest.mark.parametrize("kills", [False, True])
def test_a_start_that_ends_a_query_goes_on_where_a_sink_of_another_is_down(kills: bool) -> None:
    """Its checkpoint waits for the sink, as any does; the start does not."""
    got: list[tuple[int, int]] = []
    is_down = [False]

    def take(n: int, value: int) -> None:
        if is_down[0]:
            raise ConnectionError("the service is down")
        got.append((n, value))

    def opened() -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create("q", rx.source("n").scan(lambda last, n: State(n + (last.total if last else 0)), None))
        evaluator.create("good", rx.source("n").map(lambda n: -n))
        evaluator.sink("good", CallbackSink(take))
        drain(evaluator)
        return evaluator

    store, values = MemoryStore(), [1, 2]
    try:
        evaluator = opened()
        evaluator.checkpoint()
        is_down[0] = True
        values.append(3)
        drain(evaluator)
        evaluator.abandon()
        store, IS_READABLE[0] = store.reopen(), False
        evaluator = opened()
        assert [what for _, what in emitted(evaluator, "q")].count("failed") == 1 and got == [(0, -1), (1, -2)]
        is_down[0] = False
        until(lambda: evaluator.step() is None or len(got) == 3, "the sink")
        evaluator.abandon() if kills else evaluator.__exit__(None, None, None)
        store, IS_READABLE[0] = store.reopen(), True
        values.append(4)
        opened().__exit__(None, None, None)
        assert list(dict.fromkeys(got)) == [(n, -n - 1) for n in range(4)]
    finally:
        IS_READABLE[0] = True
