"""What came due while nothing ran meets the query as it was edited: mended functions, renamed fields, and no others.

A life is one run of an app with a clock of its own. What is due lies behind the stop and before the next start, by
which its functions were mended or the class of its values has changed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from math import nextafter
from pathlib import Path
from time import time
from typing import Any
from unittest import mock

import pytest
from lanes import every

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import ListSource, QueryEvaluator, event_time
from hosting.cli.command import main
from hosting.engine.engine import QueryEngine
from hosting.engine.turns import Dispose, Events, Fail, Rejects, Tick
from reliable_rx import operators as ops
from reliable_rx.errors import StoreUnavailable
from reliable_rx.reliable import Rejected

NAME = "orders_while_stopped"
STOPPED_S, STARTED_S = 1.0, 60.0
n = rx.source("n")
HOLDS: dict[str, Callable[[Any, Callable[[Any], Any]], Any]] = {
    "delay": lambda n, f: n.delay(10.0).map(f),
    "debounce": lambda n, f: n.debounce(10.0).map(f),
    "sample": lambda n, f: n.sample(10.0).map(f),
    "buffer_with_time": lambda n, f: n.buffer_with_time(40.0).map(lambda values: [f(value) for value in values]),
    "window_with_time": lambda n, f: n.window_with_time(40.0).flat_map(lambda w: w.to_list()).map(
        lambda values: [f(value) for value in values]
    ),
    "tumbling_window": lambda n, f: n.tumbling_window(40.0).flat_map(lambda w: w.to_list()).map(
        lambda values: [f(value) for value in values]
    ),
    "within windows": lambda n, f: n.window_with_time(40.0).flat_map(lambda w: w.take_last(9).map(f)),
    "timers": lambda n, f: n.flat_map(lambda value: rx.timer(10.0).map(lambda _: f(value))),
    "timers in a row": lambda n, f: n.concat_map(lambda value: rx.timer(10.0).map(lambda _: f(value))),
    "groups with a time to live": lambda n, f: n.group_by(key_of, ttl_s=10.0).flat_map(
        lambda group: group.take_last(9).map(f)
    ),
    "groups until a timer": lambda n, f: n.pipe(
        ops.group_by_until(key_of, None, lambda group: rx.timer(10.0)), ops.flat_map(lambda g: g.take_last(9).map(f))
    ),
}  # fmt: skip


def key_of(value: Any) -> int:
    return getattr(value, "number", value) % 2


def failing(value: Any) -> Any:
    """The function before it was mended."""
    return {}[value]


def mended(value: Any) -> Any:
    return getattr(value, "number", value) * 10


def life(
    store: Any, queries: dict[str, Any], values: list[Any], *times_s: float, stops: bool, all_run: bool = True
) -> list[list[Any]]:
    """Host *queries* at each of *times_s*, end with a checkpoint or as a kill does, and return what came of each."""
    clock = [times_s[0]]
    with closing(
        QueryEvaluator(store, clock=lambda: clock[0], background=False, checkpoint_interval_s=1e9)
    ) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        for name, query in queries.items():
            evaluator.create(name, query)
        evaluator.start()
        for clock[0] in times_s:
            while evaluator.step():
                pass
        if stops:
            evaluator.checkpoint()
        evaluator.flush()
        assert not all_run or {evaluator.query(each).status for each in queries} == {"running"}
        return [[each for part in evaluator.stream(name).read(0, 999) for each in part.values] for name in queries]


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("holds", every(4, HOLDS, commits=1))
def test_what_came_due_meets_the_mended_function(holds: str, stops: bool) -> None:
    """As if the query had been what it is today when it stopped, with all that it held; nothing beside it changes."""
    build, beside = HOLDS[holds], n.delay(10.0).scan(lambda total, each: total + each, 0)
    store, whole = MemoryStore(), MemoryStore()
    assert life(store, {"q": build(n, failing), "beside": beside}, [1, 2, 3], 0.0, STOPPED_S, stops=stops) == [[], []]
    came = life(store.reopen(), {"q": build(n, mended), "beside": beside}, [1, 2, 3], STARTED_S, stops=True)
    assert came == life(whole, {"q": build(n, mended), "beside": beside}, [1, 2, 3], 0.0, STARTED_S, stops=True)
    assert came[0] and came[1] == [1, 3, 6]


BROUGHT: dict[str, Callable[[Any], Any]] = {
    "timeout": lambda q: q.merge(n.timeout(30.0).ignore_elements()),
    "interval": lambda q: q.merge(rx.interval(30.0)),
    "take_with_time": lambda q: q.merge(rx.of(7).delay(30.0)),
    "beginning": lambda q: q.start_with(8),
}


@pytest.mark.parametrize("brought", BROUGHT)
def test_what_an_edit_brings_begins_now(brought: str) -> None:
    """It has not waited while nothing ran, and does not end, or tick, for that time.

    What it is given of that time it takes at its own time: a `timeout` behind a `delay` counts from there.
    """
    store = MemoryStore()
    query = n.delay(10.0).map(mended)
    life(store, {"q": query}, [1, 2, 3], 0.0, STOPPED_S, stops=True)
    (came,) = life(store.reopen(), {"q": BROUGHT[brought](query)}, [1, 2, 3], STARTED_S, STARTED_S + 1.0, stops=True)
    assert came == [10, 20, 30]
    (more,) = life(
        store.reopen(), {"q": BROUGHT[brought](query)}, [1, 2, 3, 4], STARTED_S + 2.0, STARTED_S + 29.0, stops=True
    )
    assert more == [10, 20, 30, 40]


def test_a_query_that_reads_what_came_due_is_edited_before_it_comes() -> None:
    """Also where the one that held it was not edited, and is declared first."""
    store, total = MemoryStore(), rx.source("q").scan(lambda total, each: total + each, 0)
    life(store, {"q": n.delay(10.0), "r": total.map(failing)}, [1, 2, 3], 0.0, STOPPED_S, stops=True)
    came = life(store.reopen(), {"q": n.delay(10.0), "r": total.map(mended)}, [1, 2, 3], STARTED_S, stops=True)
    assert came == [[1, 2, 3], [10, 30, 60]]


@pytest.mark.parametrize("beside", [n.map(mended), n.map(failing)], ids=["new", "had failed"])
def test_who_begins_with_a_start_begins_behind_what_came_due(beside: Any) -> None:
    """Also where it is declared before the edits, and over what comes due: it has not waited for that."""
    store, over = MemoryStore(), rx.source("q").map(lambda value: value).timeout(30.0)
    before = {"q": n.delay(10.0).map(failing)}
    if beside is not None:
        life(store, before, [1, 2, 3], 0.0, STOPPED_S, stops=True)
    today = {"first": n.timeout(30.0).time_interval(), "q": n.delay(10.0).map(mended), "over": over}
    first, q, seen = life(store.reopen(), today, [1, 2, 3], STARTED_S, STARTED_S + 5.0, stops=True)
    assert (first, q, seen) == ([], [10, 20, 30], [])


BESIDE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "that is new": ({}, {"other": n.map(mended)}),
    "that has completed": ({"other": n.take(1)}, {"other": n.take(1)}),
    "that has failed": ({"other": n.map(failing)}, {"other": n.map(failing)}),
    "that had failed": ({"other": n.map(failing)}, {"other": n.map(mended)}),
}


@pytest.mark.parametrize("other", BESIDE)
def test_an_edit_that_reads_another_query_is_made_before_what_came_due(other: str) -> None:
    """Whatever has become of that one."""
    store, reads = MemoryStore(), rx.source("other").catch(rx.empty()).ignore_elements()
    before, today = BESIDE[other]
    first, last = n.delay(10.0).map(failing), n.delay(10.0).map(mended).merge(reads)
    queries = {**before, "q": first.merge(reads) if before else first}
    life(store, queries, [1, 2, 3], 0.0, STOPPED_S, stops=True, all_run=False)
    came = life(store.reopen(), {**today, "q": last}, [1, 2, 3], STARTED_S, stops=True, all_run=False)
    assert came[-1] == [10, 20, 30]


@pytest.mark.parametrize("call", ["dispose", "restart"])
def test_who_reads_a_query_that_ends_has_what_was_due_before(call: str) -> None:
    """What came of it and waits elsewhere comes at its time, before the end; all else stays where it is."""
    clock = [0.0]
    with QueryEvaluator(MemoryStore(), clock=lambda: clock[0], background=False) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        for name, query in {"q": n.map(mended), "r": rx.source("q").delay(10.0), "s": n.delay(10.0)}.items():
            evaluator.create(name, query)
        evaluator.start()
        while evaluator.step():
            pass
        clock[0] = STARTED_S
        getattr(evaluator, call)("q")
        assert (evaluator.engine.clock, evaluator.query("s").emitted) == (0.0, 0)
        evaluator.flush()
        (came,) = evaluator.stream("r").read(0, 9)
        assert [*came.values] == [10, 20, 30]
        while evaluator.step():
            pass
        assert evaluator.query("s").emitted == 3


@pytest.mark.parametrize("call", ["dispose", "restart"])
def test_what_is_due_beside_a_query_that_ends_comes_in_order(call: str) -> None:
    """Who reads it and another one gets what is due of both; the alarm of a clock of its own stays where it is."""
    clock = [0.0]
    with QueryEvaluator(MemoryStore(), clock=lambda: clock[0], background=False) as evaluator:
        evaluator.source("n", ListSource([1.0, 2.0, 3.0], follow=True))
        evaluator.source("m", ListSource([1.0], follow=True))
        timed = n.merge(rx.source("m")).tumbling_window(5.0).merge_all()
        evaluator.create("timed", timed, clock=event_time(float, idle_s=20.0))
        both = rx.source("p").merge(rx.source("q").ignore_elements().catch(rx.never()))
        for name, query in {"p": n.delay(10.0), "q": n.map(mended), "r": both.timeout(30.0)}.items():
            evaluator.create(name, query)
        evaluator.start()
        while evaluator.step():
            pass
        clock[0] = 39.0
        getattr(evaluator, call)("q")
        while evaluator.step():
            pass
        assert evaluator.query("r").status == "running"
        assert evaluator.query("timed").status == "running"


def test_who_begins_anew_begins_behind_what_came_due_whoever_reads_it() -> None:
    """An un-edited query that reads it has it begin no sooner: it is no edit."""
    store, reader = MemoryStore(), rx.source("q").catch(rx.never()).merge(n.ignore_elements())
    queries = {"p": n.delay(10.0), "q": n.map(failing), "r": reader}
    life(store, queries, [1, 2, 3], 0.0, STOPPED_S, stops=True, all_run=False)
    today = {**queries, "q": rx.source("p").map(mended).timeout(30.0)}
    came = life(store.reopen(), today, [1, 2, 3], STARTED_S, STARTED_S + 5.0, stops=True)
    assert came == [[1, 2, 3], [], []]


def test_what_ends_a_query_that_has_failed_lets_nothing_come() -> None:
    """Its readers have been told: what waits in them waits for their edit."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    reads = rx.source("bad").catch(rx.empty()).ignore_elements()
    engine.take(engine.creation("bad", n.map(failing), time=0.0))
    engine.take(engine.creation("r", n.delay(10.0).map(failing).merge(reads), time=0.0))
    engine.take(Events("n", "0", 0, [1, 2, 3], time=STOPPED_S))
    came = engine.take(Dispose("bad", STARTED_S))
    came += engine.take(engine.creation("bad", n.map(mended), time=STARTED_S))
    came += engine.take(engine.creation("r", n.delay(10.0).map(mended).merge(reads), time=STARTED_S))
    assert "r" not in {out.name for out in came}
    assert [value for out in engine.take(Tick(STARTED_S)) for value in out.values] == [10, 20, 30]


TURNS: dict[str, Callable[[QueryEngine], Any]] = {
    "another is edited": lambda engine: engine.creation("other", n.map(mended), time=STARTED_S),
    "another is disposed of": lambda engine: Dispose("other", STARTED_S),
    "another ends": lambda engine: Fail("other", ValueError("it is not what it was"), STARTED_S),
}


@pytest.mark.parametrize("turn", TURNS)
def test_no_turn_about_another_query_lets_what_is_due_come_before_the_edit(turn: str) -> None:
    """Whatever a start, or a command on a stopped store, has to do with it."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    engine.take(engine.creation("q", n.delay(10.0).map(failing), time=0.0))
    engine.take(engine.creation("other", n.scan(lambda total, each: total + each, 0), time=0.0))
    engine.take(Events("n", "0", 0, [1, 2, 3], time=STOPPED_S))
    came = engine.take(TURNS[turn](engine))
    came += engine.take(engine.creation("q", n.delay(10.0).map(mended), time=STARTED_S))
    assert "q" not in {out.name for out in came} and engine.clock == STOPPED_S
    (out,) = engine.take(Tick(STARTED_S))
    assert (out.name, list(out.values), engine.clock) == ("q", [10, 20, 30], STARTED_S)


@pytest.mark.parametrize("command", ["restart", "dispose"])
def test_a_command_lets_nothing_come_that_is_not_its_own(command: str, tmp_path: Path) -> None:
    """What has waited in another query waits until the app runs again."""
    folder, stopped_s, values = tmp_path / "store", time() - 1000.0, [1, 2, 3]
    with SqliteStore(folder) as store:
        bad = n.take(2).map(failing)
        with pytest.raises(AssertionError, match="failed"):
            life(store, {"q": n.delay(10.0).map(failing), "bad": bad}, values, stopped_s, stops=True)
    assert main([command, str(folder), "bad"]) == 0
    with SqliteStore(folder) as store:
        (came,) = life(store, {"q": n.delay(10.0).map(mended)}, values, time(), stops=True)
    assert came == [10, 20, 30]


@pytest.mark.parametrize("command", ["restart", "dispose"])
def test_a_command_has_no_stored_function_called(command: str, tmp_path: Path) -> None:
    """Nor for what was due of the query that it ends, or of its readers: values of today's classes would go there."""
    folder, values, asked = tmp_path / "store", [1, 2, 3], tmp_path / "asked"
    asked.write_text("")

    def noted(value: Any) -> Any:
        with asked.open("a") as file:
            file.write(f"{value} ")
        return value

    queries = {"q": n.delay(10.0).map(noted), "r": rx.source("q").catch(rx.never()), "s": n.delay(10.0)}
    with SqliteStore(folder) as store:
        life(store, {**queries, "t": rx.source("q").delay(20.0).map(noted)}, values, time() - 1000.0, stops=True)
    assert main([command, str(folder), "q", "--yes"]) == 0
    assert asked.read_text() == ""
    with SqliteStore(folder) as store:
        came = life(store, queries, values, time(), stops=True)
    assert came == [[], [], [1, 2, 3]] and asked.read_text() == ""


@pytest.mark.parametrize("command", ["restart", "dispose"])
def test_a_command_takes_no_stream_beside_a_query_for_one(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says whose it is, before it asks anything."""
    with SqliteStore(tmp_path / "store") as store, QueryEvaluator(store, background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.create("q", n.map(failing), policy="dead_letter")
        evaluator.run()
    assert main([command, str(tmp_path / "store"), "q.dead_letters"]) == 2
    assert "'q.dead_letters' is a stream beside 'q' and no query: name 'q'" in capsys.readouterr().err


FIRST = """
from dataclasses import dataclass
from typing import ClassVar
@dataclass(frozen=True)
class Order:
    number: int
    at: float = 0.5
def look(order):
    return (order.number, order.at)
"""
RENAMED = FIRST.replace(
    "    at: float = 0.5", "    when: float = 0.25\n    __renamed_fields__: ClassVar = {'at': 'when'}"
).replace("order.at", "order.when")


@pytest.mark.parametrize("holds", every(4, HOLDS, commits=1))
def test_what_came_due_has_fields_of_today(holds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rename of a field that the page on edits describes, while values with it wait for a time."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def live(text: str, *times_s: float) -> list[list[Any]]:
        (tmp_path / f"{NAME}.py").write_text(text)
        sys.modules.pop(NAME, None)
        importlib.invalidate_caches()
        orders = importlib.import_module(NAME)
        with SqliteStore(tmp_path / "store") as store:
            query = HOLDS[holds](n.map(orders.Order), orders.look)
            return life(store, {"q": query}, [1, 2, 3], *times_s, stops=True)

    live(FIRST, 0.0, STOPPED_S)
    (came,) = live(RENAMED, STARTED_S)
    found = [each for part in came for each in (part if isinstance(part, list) else [part])]
    assert found and set(found) <= {(number, 0.5) for number in (1, 2, 3)}


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("act", ["an edit", "a restart"])
def test_a_clock_that_was_wrong_at_an_edit_is_known(act: str, stops: bool) -> None:
    """Also where the process has ended before anything that was due came: timers keep their distances behind it."""
    store, hour_s = MemoryStore(), 3600.0
    ticking = n.map(mended).merge(rx.timer(30.0).map(lambda _: "timer"))
    life(store, {"held": n.delay(10.0), "q": n.map(mended)}, [1], 0.0, STOPPED_S, stops=stops)
    clock = [hour_s]
    with closing(QueryEvaluator(store.reopen(), clock=lambda: clock[0], background=False)) as evaluator:
        evaluator.source("n", ListSource([1], follow=True))
        evaluator.create("held", n.delay(10.0))
        evaluator.create("q", ticking)
        evaluator.start()
        if act == "a restart":
            evaluator.restart("q")
        evaluator.checkpoint() if stops else evaluator.flush()
        store = evaluator.store.reopen()  # type: ignore[attr-defined]
    came = life(store, {"held": n.delay(10.0), "q": ticking}, [1], 100.0, 100.0 + 31.0, stops=True)
    assert came == [[1], [10, "timer"]]


def test_what_is_beside_a_query_ends_with_it_among_what_is_due() -> None:
    """In one move of the clock as in many: who reads it is told at the time of the end, before what is due later."""
    ended = rx.source("q.dead_letters").ignore_elements().concat(rx.timer(1.0).map(lambda _: "1 later"))
    query = ended.merge(rx.timer(6.5).map(lambda _: "6.5"), rx.timer(5.5).map(lambda _: "5.5"))
    found = []
    for times_s in ([0.0, 20.0], [0.0, *(each / 10 for each in range(1, 200))]):
        clock = [0.0]
        with QueryEvaluator(MemoryStore(), clock=lambda: clock[0], background=False) as evaluator:
            evaluator.source("n", ListSource([1], follow=True))
            evaluator.create("q", n.take_with_time(5.0), policy="dead_letter")
            evaluator.create("r", query)
            for clock[0] in times_s:
                while evaluator.step():
                    pass
            evaluator.flush()
            found.append([each for part in evaluator.stream("r").read(0, 9) for each in part.values])
    assert found == [["5.5", "1 later", "6.5"]] * 2


def test_readers_of_what_is_beside_a_source_have_what_was_due_before_it_is_disposed_of() -> None:
    """It is a stream of its own, of no query."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    engine.take(
        engine.creation("r", rx.source("n.dead_letters").delay(10.0).map(lambda letter: letter.value), time=0.0)
    )
    engine.take(Rejects("n", "0", 0, 1, [Rejected(0, "bad", "no number")], STOPPED_S))
    came = engine.take(Dispose("n.dead_letters", STARTED_S))
    assert [value for out in came if out.name == "r" for value in out.values] == ["bad"]


@pytest.mark.parametrize("ends", [True, False])
def test_an_error_of_a_timer_is_not_of_the_end_before_it(ends: bool) -> None:
    """Where one move of the clock fires both: a query fails with it as with many moves, and skips no event."""
    found = []
    for times_s in ([0.0, 20.0], [0.0, 5.0, 10.0, 20.0]):
        clock = [0.0]
        with QueryEvaluator(MemoryStore(), clock=lambda: clock[0], background=False) as evaluator:
            evaluator.source("n", ListSource([1], follow=True))
            evaluator.create("q", n.take_with_time(5.0) if ends else n.delay(5.0))
            evaluator.create("e", rx.source("q").map(mended))
            evaluator.create("r", n.delay(10.0).map(failing), policy="dead_letter")
            for clock[0] in times_s:
                while evaluator.step():
                    pass
            found.append((evaluator.query("r").status, evaluator.query("r").emitted))
    assert found == [("failed", 1)] * 2


def test_a_command_runs_none_again_that_were_left_behind(tmp_path: Path) -> None:
    """That is for the app, and with it what is due before them."""
    folder, asked, stopped_s = tmp_path / "store", tmp_path / "asked", time() - 1000.0
    asked.write_text("")

    def noted(value: Any) -> Any:
        asked.write_text("it was")
        return value

    queries = {"bad": n.map(failing), "gone": n.map(mended), "held": n.delay(10.0).map(noted)}
    queries["left"] = rx.source("bad").merge(rx.source("gone"))
    clock = [stopped_s]
    with SqliteStore(folder) as store, QueryEvaluator(store, clock=lambda: clock[0], background=False) as evaluator:
        evaluator.source("n", ListSource([1], follow=True))
        for name, query in queries.items():
            evaluator.create(name, query)
        evaluator.start()
        while evaluator.step():
            pass
        evaluator.dispose("gone")
        evaluator.restart("bad")
        assert evaluator.query("left").status == "failed"
    assert main(["dispose", str(folder), "bad", "--yes"]) == 0
    assert asked.read_text() == ""


again = n.merge(n.delay(6.0))
TIMES: dict[str, Callable[[bool], Any]] = {
    "take_with_time": lambda edited: n.delay(3.0).take_with_time(9.0 if edited else 30.0),
    "skip_with_time": lambda edited: n.delay(3.0).merge(again).skip_with_time(4.5 if edited else 30.0),
    "take_until_with_time": lambda edited: n.delay(3.0).take_until_with_time(9.0 if edited else 30.0),
    "buffer_with_inactivity": lambda edited: again.buffer_with_inactivity(7.0 if edited else 15.0),
    "groups with a time to live": lambda edited: again.group_by(
        lambda x: 0, ttl_s=7.0 if edited else 15.0
    ).flat_map(lambda group: group.scan(lambda total, each: total + each, 0)),
    "distinct": lambda edited: again.distinct(ttl_s=7.0 if edited else 15.0),
    "debounce": lambda edited: again.debounce(2.0 if edited else 9.0),
    "timeout": lambda edited: again.timeout(7.0 if edited else 15.0, rx.of("late")),
    "buffer_with_time": lambda edited: again.buffer_with_time(5.0 if edited else 9.0),
}  # fmt: skip


@pytest.mark.parametrize("stops", [True, False])
@pytest.mark.parametrize("operator", TIMES)
def test_an_edited_time_counts_from_the_stop(operator: str, stops: bool) -> None:
    """As if it had been edited then, however long nothing ran, and whatever came due meanwhile."""
    found, query = [], TIMES[operator]
    for started_s in (STOPPED_S, 4.0, 40.0):
        store = MemoryStore()
        life(store, {"q": query(False)}, [1, 2, 3], STOPPED_S, stops=stops)
        times_s = [started_s, *(each / 2 for each in range(200) if each / 2 > started_s)]
        found.append(life(store.reopen(), {"q": query(True)}, [1, 2, 3], *times_s, stops=True, all_run=False))
    assert found[0] == found[1] == found[2] != [[]]


OVER_Q: dict[str, Callable[[float], Any]] = {
    "buffer_with_time": lambda time_s: rx.source("q").buffer_with_time(time_s),
    "window_with_time": lambda time_s: (
        rx.source("q").window_with_time(time_s).flat_map(lambda window: window.to_list())
    ),
}


@pytest.mark.parametrize("operator", OVER_Q)
def test_an_edit_of_what_a_start_has_brought_counts_from_now(operator: str) -> None:
    """Edited once more before time goes on: no window begins before the query has."""
    store, clock = MemoryStore(), [60.0]
    life(store, {"q": n.delay(10.0)}, [1], STOPPED_S, stops=True)
    with closing(QueryEvaluator(store.reopen(), clock=lambda: clock[0], background=False)) as evaluator:
        evaluator.source("n", ListSource([1], follow=True))
        evaluator.start()
        for time_s in (30.0, 9.0):
            evaluator.create("new", OVER_Q[operator](time_s))
        for clock[0] in (float(second) for second in range(60, 90)):
            while evaluator.step():
                pass
        evaluator.flush()
        assert [each for part in evaluator.stream("new").read(0, 99) for each in part.values] == [[], [1], [], []]


def groups(source: Any, edited: bool) -> Any:
    return source.group_by(lambda x: 0, ttl_s=5.0 if edited else None).flat_map(lambda group: group.count())


SEVERAL: dict[str, Callable[[bool], dict[str, Any]]] = {
    "in one query": lambda edited: {"q": groups(n, edited).merge(n.buffer_with_inactivity(5.0 if edited else 20.0))},
    "in two queries": lambda edited: {
        "read": n.buffer_with_inactivity(5.0 if edited else 20.0),
        "q": groups(n.merge(rx.source("read").ignore_elements()), edited),
    },
}


@pytest.mark.parametrize("where", SEVERAL)
def test_several_edited_times_count_from_one_moment(where: str) -> None:
    """All of a start count from the stop, also those behind a checkpoint, and however late the start is."""
    found = []
    for started_s, until in ((nextafter(20.0, 0.0), None), (100.0, None), (100.0, "a checkpoint")):
        store, values, clock = MemoryStore(), [1], [0.0]
        for edited in (False, True):
            evaluator = QueryEvaluator(store, clock=lambda: clock[0], background=False, checkpoint_interval_s=1e9)
            with closing(evaluator):
                evaluator.source("n", ListSource(values, follow=True))
                queries = SEVERAL[where](edited)
                if until is None or not edited:
                    evaluator.create_many(queries)
                evaluator.start()
                for name, query in queries.items() if until is not None and edited else ():
                    evaluator.create(name, query)
                    evaluator.checkpoint(full=True)
                while evaluator.step():
                    pass
                if edited:
                    for clock[0], come in ((102.0, [2]), (200.0, [])):
                        values += come
                        while evaluator.step():
                            pass
                    evaluator.flush()
                    found.append([each for part in evaluator.stream("q").read(0, 99) for each in part.values])
                evaluator.checkpoint(full=True)
            store, clock[0] = store.reopen(), started_s
    assert found[0] == found[1] == found[2] != []


def timed(query: Any) -> Any:
    """Return *query* with the time of each of its elements."""
    return query.timestamp().map(lambda told: (told.value, told.timestamp.timestamp()))


def test_a_start_that_edits_another_query_and_takes_no_events_is_no_moment() -> None:
    """An edit of the next one counts from where the last process has ended that did something."""
    found = []
    for starts_s in ([100.0], [15.0, 100.0]):
        store, clock = MemoryStore(), [1.0]
        for number, clock[0] in enumerate([1.0, *starts_s]):
            with closing(QueryEvaluator(store, clock=lambda: clock[0], background=False)) as evaluator:
                for name, values in {"n": [1], "m": [5, 9], "k": [1]}.items():
                    evaluator.source(name, ListSource(values, follow=True))
                is_last = clock[0] == 100.0
                quiet = event_time(float, lateness_s=0.0, idle_s=60.0)
                evaluator.create("a", n.delay(10.0).map(abs) if number else n.delay(10.0))
                evaluator.create("q", rx.source("m").merge(rx.source("k")), clock=quiet)
                reads = n.merge(rx.source("q").ignore_elements())
                ttl_s = 30.0 if is_last else None
                groups = reads.group_by(lambda x: 0, ttl_s=ttl_s).flat_map(lambda group: group.count())
                evaluator.create("r", timed(groups))
                evaluator.start()
                for clock[0] in [clock[0]] if number == 0 else [100.0, 129.0, 131.0, 200.0] if is_last else []:
                    while evaluator.step():
                        pass
                evaluator.checkpoint(full=True)
                if is_last:
                    found.append([each for part in evaluator.stream("r").read(0, 99) for each in part.values])
            store = store.reopen()
    assert found[0] == found[1] == [(1, 31.0)]


@pytest.mark.parametrize("commands", [["q"], ["other", "q"], ["q", "other"], ["nothing"]], ids=" ".join)
def test_a_command_on_the_stopped_store_is_no_moment(commands: list[str]) -> None:
    """Whatever it drops, and in whatever order: "r", which reads "q", is edited with the start."""
    store, clock = MemoryStore(), [1.0]

    def opened(ttl_s: float | None, *, bare: bool = False) -> QueryEvaluator:
        evaluator = QueryEvaluator(store, clock=lambda: clock[0], background=False)
        evaluator.source("n", ListSource([1], follow=True))
        reads = n.merge(rx.source("q").ignore_elements().catch(rx.never())).group_by(lambda x: 0, ttl_s=ttl_s)
        queries = {"other": n.delay(10.0), "q": n.delay(15.0), "z": n.delay(12.0)}
        for name, query in {} if bare else {**queries, "r": timed(reads.flat_map(lambda group: group.count()))}.items():
            evaluator.create(name, query)
        evaluator.lifecycle.mends = bare
        evaluator.start()
        return evaluator

    for name in ["", *commands, ""]:
        with closing(opened(30.0 if clock[0] == 60.0 else None, bare=bool(name))) as evaluator:
            if name and name != "nothing":
                evaluator.restart(name)
            for clock[0] in [] if name else [60.0, 89.0, 91.0] if clock[0] == 60.0 else [1.0]:
                while evaluator.step():
                    pass
            evaluator.checkpoint(full=True)
            found = [each for part in evaluator.stream("r").read(0, 99) for each in part.values]
        store, clock[0] = store.reopen(), 50.0 if name != commands[-1] else 60.0
    assert found == [(1, 31.0)]


@pytest.mark.parametrize("brings", [False, True])
@pytest.mark.parametrize("edits", ["it", "the next start"])
def test_a_process_in_which_nothing_happens_has_run(edits: str, brings: bool) -> None:
    """Edited times count from its stop, and in it from now, whatever its start has brought."""
    store, clock, values = MemoryStore(), [100.0], [1]
    life(store, {"q": n.distinct()}, values, 10.0, 12.0, stops=True)
    first = {"q": n.distinct(), **({"z": rx.source("q").map(abs)} if brings else {})}
    again = store.reopen()
    with QueryEvaluator(again, clock=lambda: clock[0], background=False) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create_many(first)
        evaluator.step()
        clock[0] = 5000.0
        evaluator.step()
        if edits == "it":
            evaluator.create("q", n.distinct(ttl_s=30.0))
            clock[0] = 5010.0
            values.append(1)
            evaluator.step()
    last = {**first, "q": n.distinct(ttl_s=30.0)}
    assert life(again.reopen(), last, [1, 1], 5011.0, stops=True)[0] == [1]


@pytest.mark.parametrize("waits", ["for nothing", "for a holder", "for the disk"])
def test_a_process_that_may_take_no_turn_runs(waits: str) -> None:
    """What it edits counts from now, and it has not stopped before that."""
    store, clock, values = MemoryStore(), [100.0], [1, 2, 3, 4, 5]
    queries = {"q": n.distinct(), "big": n.map(abs)}
    life(store, queries, values, 10.0, 12.0, stops=True)
    store = store.reopen()
    with closing(
        QueryEvaluator(store, clock=lambda: clock[0], background=False, buffer_events_max=3, checkpoint_interval_s=1e9)
    ) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create_many({**queries, "new": rx.source("big")})
        if waits == "for a holder":
            evaluator.stream("big").hold("slow", 0)
        evaluator.start()
        evaluator.step()
        if waits == "for the disk":
            patched = mock.patch.object(store.journal, "append", side_effect=StoreUnavailable("the disk is full"))
            patched.start()
            with suppress(StoreUnavailable):
                evaluator.create("other", n.map(str))
            evaluator.step()
        clock[0] = 5000.0
        evaluator.step()
        with suppress(StoreUnavailable):
            evaluator.create("q", n.distinct(ttl_s=30.0))
        if waits == "for the disk":
            patched.stop()
        evaluator.stream("big").release("slow")
        values.append(1)
        for clock[0] in (5001.0, 5002.0):
            while evaluator.step():
                pass
        assert evaluator.query("q").emitted == 5


@pytest.mark.parametrize("moves", [False, True])
def test_what_a_start_has_brought_was_there_at_the_next_stop(moves: bool) -> None:
    """Also where no turn has moved the clock meanwhile."""
    store, z = MemoryStore(), rx.source("q").merge(n.ignore_elements())
    life(store, {"q": n.distinct()}, [1], 10.0, 12.0, stops=True)
    values = [1, 1] if moves else [1]
    life(store.reopen(), {"q": n.distinct(), "z": z.buffer_with_time(1e6)}, values, 100.0, 200.0, stops=True)
    today = {"q": n.distinct(), "z": timed(z.buffer_with_time(300.0))}
    assert life(store.reopen(), today, values, 900.0, 1000.0, stops=True)[1] == [([], 200.0), ([], 500.0), ([], 800.0)]


@pytest.mark.parametrize("call", ["", "dispose", "restart"])
def test_what_a_call_has_let_come_is_edited_now(call: str) -> None:
    """Its readers have gone on to now; that they stopped before counts no more."""
    store, clock, values = MemoryStore(), [100.0], [1]

    def reader(span_s: float) -> Any:
        return timed(rx.source("q").catch(rx.never()).buffer_with_time(span_s))

    life(store, {"q": n.map(abs), "r": reader(40.0)}, values, 0.0, 10.0, stops=True)
    with closing(QueryEvaluator(store.reopen(), clock=lambda: clock[0], background=False)) as evaluator:
        evaluator.source("n", ListSource(values, follow=True))
        evaluator.create_many({"q": n.map(abs), "r": reader(40.0)})
        evaluator.start()
        if call:
            getattr(evaluator, call)("q")
        if call == "dispose":
            evaluator.create("q", n.map(abs))
        if not call:
            evaluator.step()
        evaluator.create("r", reader(20.0))
        clock[0] = 130.0
        while evaluator.step():
            pass
        evaluator.flush()
        came = [each for part in evaluator.stream("r").read(0, 99) for each in part.values]
    assert came == [([1], 40.0), ([], 80.0), ([], 100.0), ([], 120.0)]


TAKEN_OUT: dict[str, tuple[Any, list[str]]] = {
    "with a state": (n.throttle_first(9.0), ["/throttle_first"]),
    "without one": (n.timeout(30.0), ["/timeout"]),
    "over a timer": (n.sample(9.0), ["/sample:1/timer", "/sample"]),
    "of a time": (n.take_until_with_time(40.0), ["/take_until_with_time"]),
}


@pytest.mark.parametrize("taken_out", TAKEN_OUT)
def test_a_report_names_once_each_operator_that_waited_and_is_taken_out(taken_out: str) -> None:
    """Also one that had nothing but its timer."""
    query, dropped = TAKEN_OUT[taken_out]
    with QueryEvaluator(MemoryStore(), clock=lambda: STOPPED_S, background=False) as evaluator:
        evaluator.source("n", ListSource([1], follow=True))
        evaluator.create("q", query)
        while evaluator.step():
            pass
        evaluator.create("q", n.map(abs))
        assert evaluator.engine.reports["q"].dropped == dropped
