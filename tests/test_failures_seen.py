"""A query that fails is seen: in the log at once, in its figures, in the incidents, and after a restart again."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.engine import timers
from reliable_rx import operators as ops
from reliable_rx.errors import StoreUnavailable

SEVEN = 7


def fails_on_seven(value: Any) -> Any:
    if value == SEVEN:
        raise ValueError("seven cannot be had")
    return value


class Pair:
    """A value of its own identity each time."""

    def __init__(self, number: int) -> None:
        self.number = number


QUERIES: dict[str, Callable[[rx.Query[Any]], Any]] = {
    "map": lambda n: n.map(fails_on_seven),
    "behind a filter": lambda n: n.filter(lambda x: x % 2).map(fails_on_seven),
    "in a fold": lambda n: n.scan(lambda total, x: total + fails_on_seven(x), 0),
    "in a stage": lambda n: n.pipe(ops.flat_map(lambda x: rx.of(fails_on_seven(x)))),
    "beside others": lambda n: n.pipe(ops.merge(n), ops.map(fails_on_seven)),
}


def hosted(store: Any, values: Any, query: Any, **options: Any) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, **options)
    evaluator.source("n", ListSource(values))
    evaluator.create("q", query)
    return evaluator


@pytest.mark.parametrize("batch", [1, 1000])
@pytest.mark.parametrize("name", QUERIES)
def test_the_event_at_which_a_query_failed_is_named(name: str, batch: int, caplog: pytest.LogCaptureFixture) -> None:
    """Whether events come singly or in lists, its position is exact; log, figures and incident have the traceback."""
    with hosted(MemoryStore(), list(range(20)), QUERIES[name](rx.source("n")), batch_events_max=batch) as evaluator:
        evaluator.run()
        figures, (incident,) = evaluator.query("q"), evaluator.statistics().incidents
    assert figures.failed_at is not None and figures.failed_at[:4] == ("n", "0", 7, 7)
    assert figures.error == "ValueError: seven cannot be had" and "fails_on_seven" in figures.trace
    assert (incident.kind, incident.subject, incident.level) == ("query", "q", "error")
    (line,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert line.getMessage().startswith("query 'q': has failed at n/0 event 7: ValueError: seven cannot be had;")
    assert "fails_on_seven" in line.getMessage()


KINDS: dict[str, dict[str, Any]] = {
    "on the source's time": {"timestamp": float},
    "on its own time": {"clock": rx.event_time(float)},
    "on its own time, with an operator of time": {"clock": rx.event_time(float), "timed": True},
    "by a key": {"keyed": True},
    "behind another query": {"between": True},
}


@pytest.mark.parametrize("batch", [1, 6, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_however_events_come_the_right_one_is_named(kind: str, batch: int) -> None:
    """On any clock, by a key and behind another query: the event of the source, from the partition that it is in."""
    options = KINDS[kind]
    evaluator = QueryEvaluator(MemoryStore(), background=False, batch_events_max=batch)
    evaluator.source("n", ListSource(list(range(20)), timestamp=options.get("timestamp")))
    query = rx.source("n")
    if options.get("keyed"):
        query = query.pipe(ops.where_key(odd, 1))
    if options.get("between"):
        evaluator.create("between", query)
        query = rx.source("between")
    query = query.map(fails_on_seven)
    query = query.buffer_with_time(3.0) if options.get("timed") else query
    evaluator.create("q", query, clock=options.get("clock"))
    evaluator.run()
    at = evaluator.query("q").failed_at
    assert at is not None and at.position == at.last == SEVEN, at
    assert at[:2] in [("n", "0"), ("between", "0")]
    evaluator.close()


def odd(value: int) -> int:
    return value % 2


@pytest.mark.parametrize("batch", [1, 1000])
def test_an_event_of_another_query_is_not_blamed(batch: int) -> None:
    """Queries that are fed one by one, before and behind it, leave nothing by which a query of lists is misled."""
    evaluator = QueryEvaluator(MemoryStore(), background=False, batch_events_max=batch)
    evaluator.source("n", ListSource(list(range(20))))
    for name in ("a", "z"):
        evaluator.create(name, rx.source("n").map(lambda x: x), policy="skip")
        evaluator.create(f"{name} fails", rx.source("n").map(fails_on_seven))
        evaluator.create(f"{name} ends", rx.source("n").filter(lambda x: x > 99).first())
    evaluator.run()
    for name in ("a", "z"):
        at = evaluator.query(f"{name} fails").failed_at
        assert at is not None and at[:4] == ("n", "0", 7, 7)
        at = evaluator.query(f"{name} ends").failed_at
        assert at is not None and at.source == ""
    evaluator.close()


@pytest.mark.parametrize("batch", [1, 1000])
def test_in_a_group_an_event_is_known_by_itself(batch: int) -> None:
    """Behind `group_by` values come one by one; an event that is an object of its own is known all the same."""
    query = rx.source("n").group_by(lambda x: x[0] % 3).flat_map(lambda g: g.map(lambda x: fails_on_seven(x[0])))
    with hosted(MemoryStore(), [(number,) for number in range(20)], query, batch_events_max=batch) as evaluator:
        evaluator.run()
        at = evaluator.query("q").failed_at
    assert at is not None and at[:4] == ("n", "0", 7, 7)


@pytest.mark.parametrize("batch", [1, 1000])
def test_a_value_that_looks_like_another_event_misleads_nobody(batch: int) -> None:
    """What an operator made of one event may be equal to another event, and is not taken for it."""
    query = rx.source("n").map(lambda x: 14 - x).map(fails_on_seven)
    with hosted(MemoryStore(), [14, 13, 0, 7, 12], query, batch_events_max=batch) as evaluator:
        evaluator.run()
        at = evaluator.query("q").failed_at
    assert at is not None and at.position <= 3 <= at.last
    query = rx.source("n").map(lambda x: 14 - x).map(lambda x: fails_on_seven(7 if x == 14 else x))
    with hosted(MemoryStore(), [13, 14, 0, 5], query, batch_events_max=batch) as evaluator:
        evaluator.run()
        at = evaluator.query("q").failed_at
    assert at is not None and at.position <= 2 <= at.last


def test_what_was_made_of_an_event_names_the_list_it_was_in() -> None:
    """Behind an operator that makes new values the position is known up to the list, and said to be no better."""
    query = rx.source("n").map(lambda x: x + 0.0).map(lambda x: fails_on_seven(int(x)))
    with hosted(MemoryStore(), list(range(20)), query, batch_events_max=10) as evaluator:
        evaluator.run()
        at = evaluator.query("q").failed_at
    assert at is not None and at.position <= SEVEN <= at.last and at.last < 10


def test_a_failure_is_told_again_after_a_restart(caplog: pytest.LogCaptureFixture) -> None:
    """Where, why and the traceback come out of the store; a replay tells nothing twice; a repaired query is well."""
    store = MemoryStore()
    for closes in (False, True, True):
        caplog.clear()
        evaluator = hosted(store, list(range(20)), rx.source("n").map(fails_on_seven))
        evaluator.run()
        figures = evaluator.query("q")
        assert figures.failed_at is not None and figures.failed_at[:3] == ("n", "0", 7)
        assert "fails_on_seven" in figures.trace
        assert [each.kind for each in evaluator.statistics().incidents] == ["query"]
        (line,) = [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]
        assert ("in an earlier run" in line) is (closes is not False)
        if closes:
            evaluator.checkpoint()
        evaluator.close()
    evaluator = hosted(store, list(range(20)), rx.source("n").map(lambda x: x))
    evaluator.run()
    assert evaluator.statistics().incidents == () and evaluator.query("q").failed_at is None
    evaluator.close()


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_skipped_events_are_counted_and_told_once(policy: str, caplog: pytest.LogCaptureFixture) -> None:
    """A policy that goes on leaves one warning per query and a count, not a line per event; the count is stored, and
    told again by the next start."""
    store = MemoryStore()
    for _ in range(2):
        caplog.clear()
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([SEVEN] * 30))
        evaluator.create("q", rx.source("n").map(fails_on_seven), policy=policy)
        with evaluator:
            evaluator.run()
            assert evaluator.query("q").skipped == 30
            assert [(each.kind, each.level) for each in evaluator.incidents.open()] == [("skipped", "warning")]
        assert [each.levelname for each in caplog.records] == ["WARNING"]
        assert "skipped 'q': it raised at " in caplog.text


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_was_skipped_before_an_edit_is_told_no_more(policy: Any, restarts: bool) -> None:
    """The count goes on in the figures; what is skipped behind the edit is told by itself, in every later run."""

    def said(evaluator: QueryEvaluator) -> list[str]:
        return [each.message for each in evaluator.incidents.open() if each.kind == "skipped"]

    store = MemoryStore()
    evaluator = QueryEvaluator(store, background=False)
    numbers = evaluator.push("n")
    n = rx.source("n")
    for query, skipped, told in (
        (n.map(fails_on_seven), 1, "at 1 event so far"),
        (n.map(abs), 1, ""),
        (n.map(lambda x: 1 // (x - SEVEN)), 2, "at 1 event since it was edited"),
        (n.map(lambda x: 1 // (x - SEVEN)), 3, "at 2 events since it was edited"),
    ):
        if restarts and evaluator.started:
            evaluator.checkpoint()
            evaluator.close()
            evaluator = QueryEvaluator(store.reopen(), background=False)
            numbers = evaluator.push("n")
        evaluator.create("q", query, policy=policy)
        evaluator.start()
        assert skipped == 3 or said(evaluator) == []
        numbers.push([SEVEN])
        while evaluator.step():
            pass
        evaluator.flush()
        assert [told in each for each in said(evaluator)] == [True] * bool(told)
        assert evaluator.query("q").skipped == skipped
    evaluator.close()


def test_late_events_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Events that come behind a query's clock are counted in its figures, and leave one warning in each run."""
    store = MemoryStore()
    for _ in range(2):
        caplog.clear()
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource([100, 1, 2, 200, 3]))
        evaluator.create("q", rx.source("n"), clock=rx.event_time(float))
        evaluator.run()
        assert evaluator.query("q").late == 3
        assert [(each.kind, each.subject) for each in evaluator.statistics().incidents] == [("late", "q")]
        assert [each.levelname for each in caplog.records] == ["WARNING"]
        evaluator.close()


async def answers_zero(n: int) -> int:
    return 0


NO_EVENTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a timer": (lambda s: s.delay(0.001).map(lambda n: 1 // 0), "a timer"),
    "an answer": (lambda s: s.map_async(answers_zero).map(lambda n: 1 // n), "the answer of a call"),
    "its end": (lambda s: s.filter(lambda n: n > 9).first(), "the end of what it reads"),
    "its creation": (lambda s: rx.of(0).map(lambda n: 1 // n).concat(s), "its creation or an edit of it"),
    "its state": (
        lambda s: s.map(lambda n: threading.Lock()).buffer_with_count(9).concat(rx.never()),
        "what is stored of it",
    ),
}


@pytest.mark.parametrize("name", NO_EVENTS)
def test_what_it_was_that_was_no_event_is_said(name: str) -> None:
    """A timer, an answer, an end, a creation or what was to be stored: the one that it was, also behind a restart."""
    build, expected = NO_EVENTS[name]
    store = MemoryStore()
    evaluator = QueryEvaluator(store, background=False)
    evaluator.source("n", ListSource([1, 2], follow=name == "its state"))
    evaluator.create("q", build(rx.source("n")))
    evaluator.run(until=lambda: evaluator.events_in == 2 or evaluator.query("q").failed_at is not None)
    if name != "its state":
        evaluator.run()
    evaluator.checkpoint()
    evaluator.step()
    assert str(evaluator.query("q").failed_at) == expected
    evaluator.checkpoint()
    evaluator.close()
    with QueryEvaluator(store.reopen(), background=False) as again:
        again.source("n", ListSource([1, 2], follow=True))
        again.create("q", build(rx.source("n")))
        again.start()
        assert str(again.query("q").failed_at) == expected


class Brokers(ListSource):
    """A source that says what it waits for."""

    waits_for = ""

    def trouble(self) -> str:
        return self.waits_for


def test_a_source_that_waits_is_told_of() -> None:
    """What a source over a network waits for is an incident while it does, and what does not forget is one as well."""
    source = Brokers([1, 2])
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("n", source)
    evaluator.create("q", rx.source("n"))
    for source.waits_for, kinds in (("no broker answers", ["source waits"]), ("", [])):
        evaluator.reporter._look_at = 0.0
        evaluator.step()
        assert [each.kind for each in evaluator.statistics().incidents] == kinds
    reader = evaluator.intake.partitions["n", "0"].reader
    assert reader is not None
    forget, failing = reader.acknowledge, [True]

    def acknowledge(n: int) -> None:
        if failing:
            raise StoreUnavailable("the disk is full")
        forget(n)

    reader.acknowledge = acknowledge  # type: ignore[method-assign]
    for kinds in (["source keeps"], []):
        evaluator.run()
        evaluator.checkpoint(full=True)
        assert [each.kind for each in evaluator.statistics().incidents] == kinds
        failing.clear()
    evaluator.close()


def test_an_effect_that_fails_at_the_end_is_told() -> None:
    """What a part of a query does last cannot fail it any more, and is an incident."""
    query = rx.source("n").pipe(ops.finally_action(lambda: [][0]), ops.take(1))
    with hosted(MemoryStore(), [1, 2], query) as evaluator:
        evaluator.run()
        assert evaluator.query("q").status == "completed"
        (incident,) = evaluator.statistics().incidents
    assert (incident.kind, incident.subject, incident.level) == ("effect", "q/finally_action", "warning")
    assert "IndexError" in incident.message


def is_wrong() -> bool:
    """Whether this is the second run. What a class or a constant has would be an edit, which the environment is not."""
    return "IT_IS_WRONG" in os.environ


def differs(value: int) -> int:
    return value + 1 if is_wrong() else value


def raises_now(value: int) -> int:
    if is_wrong():
        raise ValueError("the world has changed")
    return value


class Unloadable:
    """A state that does not come back in the second run."""

    def __reduce__(self) -> Any:
        return (came_back, ())


def came_back() -> Unloadable:
    if is_wrong():
        raise ValueError("the state does not come back")
    return Unloadable()


SINCE: dict[str, tuple[Any, bool, bool]] = {
    "it had failed": (rx.source("n").map(fails_on_seven), False, True),
    "it had failed, which a checkpoint has": (rx.source("n").map(fails_on_seven), True, True),
    "it differs": (rx.source("n").map(differs), False, False),
    "it raises when taken again": (rx.source("n").map(raises_now), False, False),
    "its state does not come back": (
        rx.source("n").scan(lambda acc, _: Unloadable(), 0).map(lambda acc: 1),
        True,
        False,
    ),
}


def read(store: Any, query: Any, **options: Any) -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False, **options)
    evaluator.source("n", ListSource(range(20), follow=True))
    evaluator.create_many({"q": query, "reader": rx.source("q")})
    return evaluator


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("query, stored, earlier", SINCE.values(), ids=SINCE)
def test_only_what_ended_in_an_earlier_run_is_said_to(
    query: Any, stored: bool, earlier: bool, strict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends in this start, in its replay or behind it, is not told as of a run before, nor is what reads it."""
    store = MemoryStore()
    first = read(store, query)
    first.run(until=lambda: first.events_in >= 20)
    if stored:
        first.checkpoint()
    first.close()
    monkeypatch.setenv("IT_IS_WRONG", "1")
    again = read(store, query, strict=strict)
    again.start()
    told = {each.subject: each.message for each in again.statistics().incidents if each.kind == "query"}
    assert len(told) == 2 or not strict
    assert all(("in an earlier run" in message) is earlier for message in told.values()), told
    again.close()


def emits_a_lock(value: int) -> Any:
    return threading.Lock()


def keeps_a_lock(held: Any, value: int) -> Any:
    return threading.Lock()


def divides(value: int) -> Any:
    return value // 0


LATE: dict[str, Callable[[], Any]] = {
    "a value that does not pickle": lambda: rx.source("n").map(emits_a_lock),
    "a state that does not pickle": lambda: rx.source("n").scan(keeps_a_lock, None).map(bool),
    "an error at once": lambda: rx.throw(ValueError("no")),
    "an error in a turn": lambda: rx.source("n").map(divides),
}


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("name", LATE)
def test_whatever_has_failed_is_told_when_a_call_returns(name: str, background: bool) -> None:
    """Behind `create`, `step` and `checkpoint`, a query that has failed has an incident, as its status says."""
    with QueryEvaluator(MemoryStore(), background=background) as evaluator:
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        evaluator.start()
        evaluator.create("q", LATE[name]())
        for act in (lambda: None, evaluator.step, evaluator.checkpoint, evaluator.step, evaluator.checkpoint):
            act()
            told = [each.subject for each in evaluator.statistics().incidents if each.kind == "query"]
            assert told == (["q"] if evaluator.query("q").status == "failed" else [])
        assert evaluator.query("q").status == "failed"


def test_a_coroutine_that_is_taken_for_a_value_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """What an async function returns fails where it is used: what awaits it is named."""

    async def asked(value: int) -> int:
        return value

    made = []

    def ask(value: int) -> Any:
        made.append(asked(value))
        return made[-1]

    with hosted(MemoryStore(), [1], rx.source("n").map(ask).map(lambda x: x + 1)) as evaluator:
        evaluator.run()
        (incident,) = (each for each in evaluator.statistics().incidents if each.kind == "query")
    for each in made:
        each.close()
    assert "'coroutine' and 'int'" in incident.message and "awaited by map_async" in incident.message


def test_an_error_within_a_moment_whose_opener_has_ended_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted error of ours: the window that was let go of has nobody to tell in its query, and the host is told."""

    def planted(*_: Any) -> bool:
        raise AttributeError("planted")

    monkeypatch.setattr(timers, "may_begin_again", planted)
    pairs = rx.interval(1.0).pipe(ops.window_with_count(2), ops.merge_all(), ops.share())
    time_s = [0.0]
    with QueryEvaluator(MemoryStore(), clock=lambda: time_s[0]) as evaluator:
        evaluator.create("q", pairs.pipe(ops.take(1), ops.concat(pairs)))
        evaluator.start()
        time_s[0] = 5.0
        while evaluator.step():
            pass
        (incident,) = [each for each in evaluator.statistics().incidents if each.kind == "unheard"]
    assert (incident.subject, incident.level) == ("q/window_with_count", "warning")
    assert "planted" in incident.message
