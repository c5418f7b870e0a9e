"""Every operator is taken over from a store of another interpreter: its state goes on with the functions of today.

Another interpreter is played by other `Makers`: what was stored under them is not loaded. After every turn the engine
is turned into bytes and loaded by the next such interpreter, whose app declares the same query.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from every_case import CASES, lanes
from other_pythons import REAL, REAL_MINOR, Pythons
from test_edit_reports import EDITS, HOSTABLE, STREAMS

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from checkpoint.format.codec import decode, encode
from hosting import CallbackSink, ListSource, QueryEvaluator, event_time
from hosting.cli.command import main
from hosting.cli.loading import load_app
from hosting.engine.editing import reports_told
from hosting.engine.snapshot import Snapshot, load
from hosting.evaluator import interpreters as taking_over
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused
from reliable_rx.event_time import EventTime
from reliable_rx.limits import Limits
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.oracle import comparable
from spark_bridge.keyed.moving import recovered

HOLDS_CODE = (
    "switch_latest:", "switch_map", "merge_all:", "concat_all:", "exclusive:", "merge: max_concurrent",
    "flat_map: list of sequences", "window_with_count: numbered", "shared with two sources",
)  # fmt: skip
"""Cases whose state holds functions, or queries with functions in them, as elements: they stay behind."""


@pytest.mark.parametrize("runs_between", [0, 1])
def test_whether_an_ended_query_was_edited_is_not_claimed(
    runs_between: int, interpreters: Pythons, caplog: pytest.LogCaptureFixture
) -> None:
    """A failed query of another interpreter stays failed, edited or not; its report says that this cannot be told, and
    the way. So does that of one that had been suspended."""
    store = MemoryStore()
    for divide, declares in ((strictly, True), *[(strictly, False)] * runs_between, (mildly, True)):
        caplog.clear()
        with QueryEvaluator(store) as evaluator:
            evaluator.source("n", ListSource([0, 1]))
            if declares:
                evaluator.create("q", rx.source("n").map(divide))
            evaluator.run()
            told = [each.getMessage() for each in caplog.records if each.getMessage().startswith("query 'q'")]
        if declares and divide is mildly:
            (line,) = told
            assert "cannot be told, since another Python" in line and "restart('q')" in line, line
            assert "unchanged" not in line
        interpreters.change()
    with QueryEvaluator(store) as evaluator:
        evaluator.source("n", ListSource([0, 1]))
        evaluator.create("q", rx.source("n").map(mildly))
        evaluator.start()
        evaluator.restart("q")
        assert not evaluator.query("q").error


def test_who_is_disposed_of_is_suspended_no_more(interpreters: Pythons) -> None:
    """What was told of a query that another interpreter has suspended is over with its disposal."""
    store = MemoryStore()
    with evaluator_on(store, rx.source("n").map(mildly)) as evaluator:
        evaluator.run(until=lambda: evaluator.events_in == 3)
    interpreters.change()
    with QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        evaluator.start()
        assert [(each.kind, each.subject) for each in evaluator.incidents.open()] == [("suspended", "q")]
        evaluator.dispose("q")
        assert evaluator.incidents.open() == ()


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("declared", ["as it was", "edited", ""])
def test_only_a_query_that_was_edited_is_said_to_be(
    declared: str, ends: bool, killed: bool, interpreters: Pythons
) -> None:
    """One that was suspended and is there again under the Python that made it is not said to be edited."""
    query, edited = summed(lambda a, b: a + b, ends=ends), summed(lambda a, b: a * b, ends=ends)
    today, store = {"as it was": query, "edited": edited}.get(declared), MemoryStore()
    for number, each in ((0, query), (1, None)):
        interpreters.number = number
        lived(store, each)
        store = store.reopen()
    interpreters.number = 0
    told = lived(store, today, killed=killed)
    told += lived(store.reopen(), today) if killed else []
    how = "q was edited" if declared == "edited" else "q was suspended"
    assert [line.partition(":")[0] for line in told] == [how] * (2 if killed else 1)


def lived(store: MemoryStore, query: Any, *, killed: bool = False) -> list[str]:
    """Run a life of an app that declares *query*, or none; return what its start says of its queries."""
    evaluator = QueryEvaluator(store, background=False, checkpoint_interval_s=1e9)
    evaluator.source("n", ListSource([1, 2, 3], follow=True))
    if query is not None:
        evaluator.create("q", query)
    evaluator.start()
    told = [*reports_told(evaluator.engine)]
    evaluator.run(until=lambda: evaluator.intake.partitions["n", "0"].position == 3)
    evaluator.flush()
    if not killed:
        evaluator.checkpoint()
    evaluator.abandon()
    return told


def summed(add: Any, *, ends: bool) -> Any:
    totals = rx.source("n").scan(add)
    return totals.take(2) if ends else totals


def strictly(n: int) -> float:
    return 10 / n


def mildly(n: int) -> float:
    return 10 / (n or 1)


class TakenOverRun(HostedRun):
    """A run that goes on in another interpreter after every turn."""

    def __init__(self, case: Any, sources: int, interpreters: Pythons | None) -> None:
        streams = [parse_marbles(STREAMS[n % 2]) for n in range(sources)]
        super().__init__(lambda ops, rx, *s: self.made(), streams, 40.0, crash=False)
        self.case, self.interpreters = case, interpreters
        self.number = 0
        self.told = False

    def made(self) -> Any:
        """Return the query, with another function before it in every interpreter, as its code is another one there."""
        sources = [EDITS["a function"](rx.source(f"s{n}"), self.number % 2) for n in range(len(self.streams))]
        return self.case(ops, rx, *sources)

    def take(self, turn: Any) -> None:
        super().take(turn)
        if self.interpreters is not None:
            snapshot = Snapshot(self.engine, full=True)
            while not snapshot.write_some(1000):
                pass
            chunks, head = snapshot.chunks(), encode(snapshot.header)
            self.interpreters.change()
            self.number += 1
            self.engine = self.new_engine()
            self.engine.suspended.declare("query", self.made(), "fail", Limits(), None)
            load(self.engine, chunks, decode(head))
            self.told = self.told or any(each.dropped or each.fresh for each in self.engine.reports.values())
            assert not self.engine.suspended


@pytest.mark.parametrize("name", lanes(HOSTABLE, fast=1, every=15))
def test_every_operator_is_taken_over(name: str, interpreters: Pythons) -> None:
    """All that an operator keeps and that is data is there for the functions of today; of the rest the report tells."""
    case = CASES[name]
    plain = TakenOverRun(case.build, case.sources, None).play()
    run = TakenOverRun(case.build, case.sources, interpreters)
    record = run.play()
    assert run.told or [comparable(each) for each in record] == [comparable(each) for each in plain]
    assert not run.told or any(part in name for part in HOLDS_CODE), name


def evaluator_on(store: MemoryStore, query: Any) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False)
    evaluator.source("n", ListSource([1, 2, 3], follow=True))
    evaluator.create("q", query)
    return evaluator


@pytest.mark.parametrize("policy", ["fail", "skip"])
@pytest.mark.parametrize("suspended", [False, True])
def test_a_selector_that_raises_now_leaves_no_group_unread(suspended: bool, policy: Any, interpreters: Pythons) -> None:
    """The query ends, and says so; only one that was suspended in between goes on, if its policy says so."""

    def raising(group: Any) -> Any:
        return group.scan(lambda a, b: a + b) if group.key else 1 // 0

    store = MemoryStore()
    for life in ("before", "between", "after"):
        if life == "between" and not suspended:
            continue
        if life != "before":
            interpreters.change()
        with QueryEvaluator(store, background=False) as evaluator:
            source = evaluator.push("n")
            if life != "between":
                select = raising if life == "after" else (lambda group: group.scan(lambda a, b: a + b))
                evaluator.create("q", rx.source("n").group_by(lambda n: n % 2).flat_map(select), policy=policy)
            evaluator.start()
            source.push([1, 2])
            while evaluator.step():
                pass
            evaluator.checkpoint()
            found = None if life == "between" else evaluator.query("q")
    assert found is not None
    if suspended and policy == "skip":
        assert (found.status, found.skipped) == ("running", 2)
    else:
        assert (found.status, "ZeroDivisionError" in str(found.error)) == ("failed", True)


def test_a_checkpoint_comes_before_all_else(interpreters: Pythons) -> None:
    """Killed at once after it was taken over, a store needs the new interpreter, and nothing of the old one."""
    store = MemoryStore()
    with evaluator_on(store, rx.source("n").map(lambda n: n * 2).scan(lambda a, n: a + n)) as evaluator:
        evaluator.run(until=lambda: evaluator.events_in == 3)
    interpreters.change()
    evaluator = evaluator_on(store, rx.source("n").map(lambda n: n * 3).scan(lambda a, n: a + n))
    evaluator.start()
    assert evaluator.store.generations()[-1].generation == 2
    evaluator.close()
    again = evaluator_on(store, rx.source("n").map(lambda n: n * 3).scan(lambda a, n: a + n))
    again.start()
    assert again.warnings == []
    again.close()


def test_spark_is_told_too(interpreters: Pythons) -> None:
    """State that is to move to Spark is not taken out of a store whose code is another interpreter's."""
    store = MemoryStore()
    with evaluator_on(store, rx.source("n").map(lambda n: n * 2)) as evaluator:
        evaluator.run(until=lambda: evaluator.events_in == 3)
    interpreters.change()
    with pytest.raises(CheckpointRefused, match=rf"code of Python {REAL.minor} \(this is 3\.{REAL_MINOR + 1}\)"):
        recovered(store)


def test_no_sink_is_said_to_lack_a_query_that_is_yet_to_be_created(
    interpreters: Pythons, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoint that takes over a store of another Python comes before new queries, and no sink lacks its own."""
    store, got = MemoryStore(), list[tuple[str, int]]()
    for names in (["q"], ["q", "new"]):
        with QueryEvaluator(store, background=False) as evaluator:
            pushed = evaluator.push("n")
            for name in names:
                evaluator.create(name, rx.source("n").map(lambda n: n + 1))
                evaluator.sink(name, CallbackSink(lambda i, _, name=name: got.append((name, i))))
            evaluator.start()
            pushed.on_next(1)
            while evaluator.step():
                pass
        interpreters.change()
    assert not [each for each in caplog.records if each.levelname == "ERROR"]
    assert got == [("q", 0), ("q", 1), ("new", 0)]


n = rx.source("n")
at_s = [ops.timestamp(), ops.map(lambda told: (told.value, told.timestamp.timestamp()))]
CLOCK = event_time(lambda value: float(value), lateness_s=1.0)
CLOCKS = (CLOCK, CLOCK)


EDITED: dict[str, tuple[Any, Any, tuple[EventTime | None, ...]]] = {
    "a time": (n.pipe(ops.buffer_with_time(5000.0), *at_s), n.pipe(ops.buffer_with_time(400.0), *at_s), (None, None)),
    "event time": (n.take_with_time(30.0), n.take_with_time(9.0), CLOCKS),
    "hands over": (n.take_with_time(30.0).concat(n.map(str)), n.take_with_time(9.0).concat(n.map(str)), CLOCKS),
    "begins again": (n.take_with_time(30.0).map(str).repeat(), n.take_with_time(9.0).map(str).repeat(), CLOCKS),
    "brings": (n.map(abs).pipe(*at_s), n.map(abs).merge(rx.interval(7.0)).pipe(*at_s), (None, None)),
}


@pytest.mark.parametrize("started_s", [1100.0, 900.0])
@pytest.mark.parametrize("edited", EDITED)
def test_an_edit_by_another_interpreter_is_one_at_the_stop(
    edited: str, started_s: float, interpreters: Pythons
) -> None:
    """As by the same one: an edited time counts from there, and what an edit brings begins now; however late it is."""
    found, (before, after, clocks) = [], EDITED[edited]
    for changes in (False, True):
        store, values, now = MemoryStore(), list[int](), [1000.0]
        for query, clock, events in (
            (before, clocks[0], {1001.0: 1, 1002.0: 2, 1010.0: 21, 1011.0: 20, 1020.0: 0}),
            (after, clocks[1], {1106.0: 0, 1107.0: 30, 1500.0: 140}),
        ):
            with QueryEvaluator(store, clock=lambda: now[0], background=False) as evaluator:
                evaluator.source("n", ListSource(values, follow=True))
                evaluator.create("q", query, clock=clock)
                for now[0], value in ((started_s if values else 1000.0, 0), *events.items()):
                    values += [value] if value else []
                    while evaluator.step():
                        pass
                evaluator.flush()
                came = [each for part in evaluator.stream("q").read(0, 999) for each in part.values]
            store = store.reopen()
            if changes:
                interpreters.change()
        found.append(came)
    assert found[0] == found[1] != []


def test_a_clock_that_waits_less_is_there_with_the_start(interpreters: Pythons) -> None:
    """As behind an edit: no event has to come for what its lateness has let go."""
    store, found = MemoryStore(), list[Any]()
    for lateness_s in (20.0, 1.0):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource([1, 2, 9], follow=True))
            clock = event_time(lambda value: float(value), lateness_s=lateness_s)
            evaluator.create("q", n.map(lambda value: value), clock=clock)
            evaluator.start()
            while evaluator.step():
                pass
            found.append([each for part in evaluator.stream("q").read(0, 99) for each in part.values])
        store = store.reopen()
        interpreters.change()
    assert found == [[], [1, 2]]


@pytest.mark.parametrize("suspended", [False, True])
def test_two_that_shared_a_clock_may_have_one_each(suspended: bool, interpreters: Pythons) -> None:
    """While one of its partitions is silent; what waited for the clock of the other one is there."""
    store, values = MemoryStore(), {"0": [1.0, 2.0, 3.0], "1": list[float]()}
    shared, other = (event_time(lambda value: value, lateness_s=each, idle_s=30.0) for each in (3.0, 1.0))
    for life in ("shared", "suspended", "apart") if suspended else ("shared", "apart"):
        with QueryEvaluator(store, clock=lambda: 1000.0, background=False) as evaluator:
            evaluator.source("n", ListSource(values, follow=True))
            if life != "suspended":
                evaluator.create("a", n.map(lambda value: value), clock=other if life == "apart" else shared)
            evaluator.create("b", n.map(lambda value: value), clock=shared)
            evaluator.start()
            if life == "apart":
                for each in values.values():
                    each.append(100.0)
            while evaluator.step():
                pass
            if life == "apart":
                parts = [evaluator.stream(name).read(0, 99) for name in "ab"]
        store = store.reopen()
        interpreters.change()
    assert [[each for part in found for each in part.values] for found in parts] == [[1.0, 2.0, 3.0]] * 2


def test_who_reads_what_is_taken_over_is_edited_before_it_hears_of_it(interpreters: Pythons) -> None:
    """What the end of one lets come does not pass a reader on event time that has ended by then itself."""
    store = MemoryStore()
    for edited in (False, True):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource([1, 3, 7, 6, 12], follow=True))
            for name, of, time_s in (("q", "n", 9.0), ("r", "q", 4.0)):
                evaluator.create(name, rx.source(of).take_with_time(time_s if edited else 30.0), clock=CLOCK)
            evaluator.start()
            while evaluator.step():
                pass
            found = [each for part in evaluator.stream("r").read(0, 99) for each in part.values]
            assert (evaluator.query("r").status == "completed") == edited
        store = store.reopen()
        interpreters.change()
    assert found == [1, 3]


@pytest.mark.parametrize("killed", [False, True])
def test_what_an_edit_ends_on_event_time_ends_with_the_start(killed: bool, interpreters: Pythons) -> None:
    """Not with the next event, which it would let pass; also when the process that went over is killed at once."""
    store = MemoryStore()
    lives = ["before", "killed", "after"] if killed else ["before", "after"]
    for life in lives:
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([1, 2, 10, 20], follow=True))
        evaluator.create("q", n.take_with_time(30.0 if life == "before" else 9.0), clock=CLOCK)
        dies = patch.object(taking_over.Interpreters, "_catch_up", side_effect=KeyboardInterrupt)
        with dies if life == "killed" else nullcontext(), suppress(KeyboardInterrupt):
            evaluator.start()
        while life != "killed" and evaluator.step():
            pass
        assert evaluator.stream("q").ended == (life == "after")
        evaluator.abandon() if life == "killed" else evaluator.__exit__(None, None, None)
        store = store.reopen()
        if life == "before":
            interpreters.change()


@pytest.mark.parametrize("edited", ["puts in", "drops", "begins afresh"])
def test_only_what_had_a_state_is_said_to_lose_it(edited: str, interpreters: Pythons) -> None:
    """An upgrade that puts an operator in gives nothing up; its report calls that operator fresh."""
    total = n.map(abs).scan(lambda total, value: total + value, 0)
    after = {"puts in": total.distinct(), "drops": n.map(abs).distinct(), "begins afresh": n.map(abs).scan(max)}
    store = MemoryStore()
    for query in (total, after[edited]):
        with evaluator_on(store, query) as evaluator:
            evaluator.start()
            while evaluator.step():
                pass
            told = evaluator.warnings, evaluator.statistics().reports.get("q", "")
        store = store.reopen()
        interpreters.change()
    assert any("was given up" in each for each in told[0]) == ("dropped" in told[1]) == (edited == "drops"), told


APP = """
import reliable_rx as rx
from hosting import App, ListSource
app = App()
app.source("n", lambda: ListSource([1, 2, 0], follow=True))
app.query("total", rx.source("n").{})
app.query("bad", rx.source("n").map(lambda n: 1 // n))
"""


def test_a_command_tells_what_becomes_of_what_it_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreters: Pythons, capsys: pytest.CaptureFixture[str]
) -> None:
    """The start behind it has nothing more to tell."""
    monkeypatch.chdir(tmp_path)
    text = tmp_path / "upgraded.py"
    text.write_text(APP.format("scan(lambda a, b: a + b)"))
    app: Any = load_app("upgraded:app")
    with SqliteStore("store") as store, QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 0], follow=True))
        for name, each in app.queries.items():
            evaluator.create(name, each.query)
        evaluator.start()
        while evaluator.step():
            pass
    interpreters.change()
    text.write_text(APP.format("reduce(lambda a, b: a + b).pairwise()"))
    del sys.modules["upgraded"]
    capsys.readouterr()
    assert main(["restart", "store", "bad", "--app", "upgraded:app"]) == 0
    told = capsys.readouterr().out
    assert "total was taken over from another Python: dropped: /scan" in told, told


def test_turns_behind_a_checkpoint_need_the_python_that_took_them(interpreters: Pythons) -> None:
    """A store that was killed is refused by another one, which names both versions, and what to do."""
    store, numbers = MemoryStore(), rx.source("n").map(lambda n: n * 2)
    evaluator = evaluator_on(store, numbers)
    evaluator.run(until=lambda: evaluator.events_in == 3)
    evaluator.abandon()
    interpreters.change()
    was, now = rf"Python {REAL.minor}", rf"3\.{REAL_MINOR + 1}"
    way = rf"cannot do without code of {was} \(this is {now}\): start it once with {was} .*stop it cleanly"
    with pytest.raises(CheckpointRefused, match=way):
        evaluator_on(store.reopen(), numbers).start()
