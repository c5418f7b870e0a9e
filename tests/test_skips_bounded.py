"""What a query may skip of one event, or make dead letters, is bounded: behind the limit it fails, and no other."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import pytest
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator, event_time
from reliable_rx.errors import LimitExceeded

MOST = 20
LIMITS = rx.Limits(skips_max=MOST, actions_max=2_000)


def bad(*_: Any) -> Any:
    raise ValueError("bad")


def often(n: int) -> Any:
    """Return elements, of the event 2 far more than may be skipped, also where one raises twice and the event too."""
    return rx.range(0, 1000 if n == 2 else MOST // 2 - 1)


def n() -> Any:
    return rx.source("n")


def begun_again(kind: Callable[[], Any]) -> Any:
    return n().flat_map(lambda v: kind().flat_map(lambda _: rx.defer(bad)).repeat() if v == 2 else rx.of(v))


WAYS: dict[str, Callable[[], Any]] = {
    "a timer begun again": lambda: begun_again(lambda: rx.timer(0)),
    "a value begun again": lambda: begun_again(lambda: rx.of(1)),
    "elements": lambda: n().flat_map(often).map(bad),
    "elements within": lambda: n().flat_map(lambda v: often(v).map(bad)),
    "sequences": lambda: n().flat_map(often).flat_map(bad),
    "sequences that cannot begin": lambda: n().flat_map(often).flat_map(lambda _: rx.defer(bad)),
    "one behind the other": lambda: n().flat_map(often).concat_map(lambda _: rx.defer(bad)),
    "in groups": lambda: n().group_by(lambda v: v % 2).flat_map(lambda g: g.flat_map(often).map(bad)),
    "in windows": lambda: n().window_with_count(1).flat_map(lambda w: w.flat_map(often).map(bad)),
    "shared": lambda: n().flat_map(often).publish(lambda s: s.map(bad).merge(s.filter(bad))),
    "durations of a join": lambda: n().flat_map(often).join(n(), bad, lambda _: rx.never()),
    "readers in one query": lambda: n().flat_map(often).merge(n()).map(bad),
}


def emitted(evaluator: QueryEvaluator, name: str) -> list[Any]:
    """Return what the stream *name* has; one that nobody has named may not be there."""
    try:
        return [value for part in evaluator.stream(name).read(0, 10**6) for value in part.values]
    except KeyError:
        return []


POLICIES = ("skip", "dead_letter")


def played(query: Any, *, policy: Any, events: int = 4, clock: Any = None, restarts: bool = False) -> dict[str, Any]:
    """Return what is there at the end: of the query, its letters, who reads those, and of another query."""
    store, moments = MemoryStore(), count()
    for _ in range(20):
        evaluator = QueryEvaluator(
            store, background=False, batch_events_max=1 if restarts else 3, checkpoint_interval_s=1e9,
            clock=lambda: next(moments) * 1e-3,
        )  # fmt: skip
        evaluator.source("n", ListSource(list(range(events))))
        evaluator.create("q", query, policy=policy, limits=LIMITS, clock=clock)
        evaluator.create("other", n())
        if policy == "dead_letter":
            evaluator.create("letters", rx.source("q.dead_letters").map(lambda letter: letter.position))
        for _ in range(2 if restarts else 40):
            evaluator.step()
        found = evaluator.query("q")
        streams = ("q", "q.dead_letters", "other", "letters")
        said = {
            "status": found.status,
            "skipped": found.skipped,
            "error": evaluator.engine.standing["q"].error,
            "incidents": {each.kind for each in evaluator.incidents.open() if each.subject == "q"},
            **{name: emitted(evaluator, name) for name in streams},
        }
        evaluator.close()
        if not restarts:
            break
        store = store.reopen()
    return said


@pytest.mark.parametrize("restarts, policy, way", crossed([False, True], POLICIES, WAYS, nth=2))
def test_one_event_has_so_many_errors_skipped_and_no_more(way: str, policy: str, restarts: bool) -> None:
    """An event at which a query raises for ever, or too often, fails it with the limit, in each replay."""
    said = played(WAYS[way](), policy=policy, restarts=restarts)
    assert said["status"] == "failed"
    error = said["error"]
    assert isinstance(error, LimitExceeded) and error.limit == "skips_max", error
    assert "skips_max" in str(error) and "ValueError: bad" in str(error)
    assert "query" in said["incidents"]
    assert said["other"] == [0, 1, 2, 3]
    letters = [letter.position for letter in said["q.dead_letters"]]
    assert letters.count(2) == (MOST if policy == "dead_letter" else 0)
    assert policy == "skip" or (said["letters"] == letters and letters == sorted(letters) and max(letters) == 2)
    assert said["skipped"] >= MOST and (policy == "skip" or said["skipped"] == len(letters))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("way", WAYS)
def test_each_event_has_the_limit_for_itself(way: str, policy: str) -> None:
    """Events that raise as often as they may, one after another in one turn, fail nothing."""
    said = played(WAYS[way](), policy=policy, events=2)
    assert said["status"] != "failed", said["error"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("way", WAYS)
def test_on_event_time_too(way: str, policy: str) -> None:
    """A query with a clock of its own is bounded likewise."""
    clock = event_time(lambda v: float(v), lateness_s=0.0)
    said = played(WAYS[way](), policy=policy, clock=clock)
    assert said["status"] == "failed"
    assert [letter.position for letter in said["q.dead_letters"]].count(2) == (MOST if policy == "dead_letter" else 0)
    assert said["other"] == [0, 1, 2, 3]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("batch_events_max", [1, 3, 100])
def test_an_error_of_a_timer_is_no_events(batch_events_max: int, policy: Any) -> None:
    """A timer that fires between two events of a source's own time fails its query, whatever their turns."""
    evaluator = QueryEvaluator(MemoryStore(), background=False, batch_events_max=batch_events_max)
    evaluator.source("n", ListSource([1, 2, 3], timestamp=float))
    evaluator.create("q", n().flat_map(lambda v: rx.timer(0.5).map(bad)), policy=policy)
    evaluator.run()
    found = evaluator.query("q")
    assert (found.status, found.skipped, emitted(evaluator, "q.dead_letters")) == ("failed", 0, [])
    evaluator.close()


def test_an_edit_remembers_what_was_skipped() -> None:
    """The state goes on without these events, so they stay counted; they are told of until somebody has edited."""
    store = MemoryStore()
    for edit, there in ((0, 5), (1, 6), (2, 6)):
        with QueryEvaluator(store, background=False) as evaluator:
            evaluator.source("n", ListSource(list(range(1, there + 1)), follow=True))
            query = rx.source("n").map(lambda n: n // (n not in (4, 5))).map(partial(int.__add__, edit))
            evaluator.create("q", query, policy="skip")
            while evaluator.step():
                pass
            assert evaluator.query("q").skipped == 2
            assert [each.kind for each in evaluator.statistics().incidents] == ["skipped"] * (edit == 0)
        store = store.reopen()


@pytest.mark.parametrize("policy", ["skip", "fail", "dead_letter"])
@pytest.mark.parametrize("restarts", [False, True])
def test_lists_are_closed_again_behind_an_edit(restarts: bool, policy: Any) -> None:
    """What an operator has counted of skipped events means behind an edit what it meant before, under any policy."""
    last: list[int] = []

    def noted(n: int) -> int:
        last.append(n)
        return n

    def closing() -> Any:
        return refuse() if last[-1:] == [3] else rx.source("n").take(1)

    store, rows = MemoryStore(), list[int]()
    evaluator = hosting(store, rows, rx.source("n").map(noted).buffer_when(closing))
    feed(evaluator, rows, 3)
    query = rx.source("n").map(noted).buffer_when(lambda: rx.source("n").take(1))
    if restarts:
        evaluator.checkpoint()
        evaluator.close()
        evaluator = hosting(store.reopen(), rows, query, policy)
    else:
        evaluator.create("q", query, policy=policy)
    feed(evaluator, rows, 10)
    assert emitted(evaluator, "q") == [[1], [2], [3], [4, 5], [6], [7], [8], [9], [10]]
    evaluator.close()


def refuse() -> Any:
    raise ValueError("no closing")


def hosting(store: MemoryStore, rows: list[int], query: Any, policy: Any = "skip") -> QueryEvaluator:
    evaluator = QueryEvaluator(store, background=False)
    evaluator.source("n", ListSource(rows, follow=True))
    evaluator.create("q", query, policy=policy)
    return evaluator


def feed(evaluator: QueryEvaluator, rows: list[int], upto: int) -> None:
    """Have the numbers up to *upto* come one by one."""
    while len(rows) < upto:
        rows.append(len(rows) + 1)
        while evaluator.step():
            pass
