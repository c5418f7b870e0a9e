"""What sharing means for a host: what it refuses, whose a shared part is, and what an edit, a crash and a limit do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from reactivex.subject import AsyncSubject, Subject

import reliable_rx as rx
from hosting.engine.engine import QueryEngine
from hosting.engine.snapshot import Snapshot, copy_of, load
from hosting.engine.turns import Events, Tick
from reliable_rx import operators as ops
from reliable_rx.errors import LimitExceeded, QueryRefused
from reliable_rx.testing import parse_marbles
from reliable_rx.testing.hosted import HostedRun
from reliable_rx.testing.virtual_time import run_plain

Build = Callable[..., Any]


def source(name: str) -> Any:
    return rx.source(name)


def engine_with(query: Any, *, sources: str = "s", **options: Any) -> QueryEngine:
    engine = QueryEngine()
    for name in sources:
        engine.declare(name, ["0"])
    engine.take(engine.creation("q", query, time=0.0, **options))
    return engine


def given(engine: QueryEngine, value: Any, position: int, *, source: str = "s", time: float | None = None) -> list[Any]:
    """Take one event and return what the query emits."""
    at = float(position) if time is None else time
    return [value for out in engine.take(Events(source, "0", position, [value], at)) for value in out.values]


def edited(engine: QueryEngine, query: Any) -> str:
    engine.take(engine.creation("q", query, time=engine.clock))
    return str(engine.reports["q"])


@pytest.mark.parametrize(
    ("name", "query"),
    {
        "publish": lambda s: s.publish(),
        "replay": lambda s: s.replay(3).map(str),
        "publish_value": lambda s: s.publish_value(0),
        "auto_connect": lambda s: s.publish().auto_connect(),
    }.items(),
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_nobody_connects_in_a_hosted_query(name: str, query: Build) -> None:
    """A connectable sequence without `ref_count` is refused, with what to use instead."""
    with pytest.raises(QueryRefused, match=r"nobody calls connect\(\).*ref_count\(\)"):
        engine_with(query(source("s")))


@pytest.mark.parametrize(
    "query",
    [
        lambda s: s.multicast(AsyncSubject()).ref_count(),
        lambda s: s.multicast(subject_factory=lambda scheduler: AsyncSubject(), mapper=lambda p: p),
    ],
)
def test_a_subject_of_ones_own_is_not_hosted(query: Build) -> None:
    """Whatever the host cannot read the meaning of is refused."""
    with pytest.raises(QueryRefused, match="use publish, publish_value or replay"):
        engine_with(query(source("s")))


def test_a_scheduler_is_not_hosted() -> None:
    """The clock of a hosted replay is the engine's."""
    from reactivex.scheduler import TimeoutScheduler

    with pytest.raises(QueryRefused, match="names a scheduler"):
        engine_with(source("s").replay(3, scheduler=TimeoutScheduler()).ref_count())


def test_a_shared_part_runs_once() -> None:
    """Two readers cost one subscription, one state and one call of each function."""
    seen: list[int] = []
    shared = source("s").do_action(seen.append).share()
    engine = engine_with(shared.map(lambda x: x + 1).merge(shared.map(lambda x: x * 10)))
    assert given(engine, 4, 0) == [5, 40]
    assert seen == [4]
    assert sum(1 for _ in engine.routes["s"].readers()) == 1


def test_a_plan_shows_who_reads_what() -> None:
    """The shared part stands where it first occurs; whoever reads it says so."""
    shared = source("s").share()
    assert shared.map(str).merge(shared).explain().splitlines()[:5] == [
        "/source          source('s')",
        "/share           share()   · keeps tokens, ended, error, values",
        "/shared          shared   · reads /share",
        "/map             map(str)",
        "/merge:1/shared  shared   · reads /share",
    ]
    selected = source("s").publish(lambda p: p.map(str))
    assert "    /publish/inner/shared  shared   · reads /publish" in selected.explain().splitlines()


def test_a_window_of_time_is_measured_by_the_engine() -> None:
    """A late reader gets what is not older than the window, also after a crash."""
    shared = source("s").replay(window=2.0).ref_count()
    query = shared.filter(lambda x: False).merge(source("t").flat_map(lambda _: shared))
    engine = engine_with(query, sources="st")
    for position, time in enumerate((1.0, 2.0, 4.0)):
        given(engine, position, position, time=time)
    engine = copy_of(engine)
    assert given(engine, None, 0, source="t", time=4.0) == [1, 2]


def test_what_is_remembered_is_limited() -> None:
    """A replay without a size fails its query when it has grown too far, and says where."""
    shared = source("s").replay().ref_count()
    engine = engine_with(shared.merge(shared), limits=rx.Limits(queue_items_max=2))
    for position in range(3):
        given(engine, position, position)
    error = engine.standing["q"].error
    assert isinstance(error, LimitExceeded)
    assert error.path == "/share"


def test_a_limit_within_a_selector_fails_the_query() -> None:
    """The same for the form with a mapper."""
    engine = engine_with(source("s").replay(mapper=lambda p: p), limits=rx.Limits(queue_items_max=2))
    for position in range(3):
        given(engine, position, position)
    assert isinstance(engine.standing["q"].error, LimitExceeded)


def test_an_edit_keeps_what_is_shared() -> None:
    """A reader that an edit adds is greeted with what was remembered before it; others keep their state."""
    sums = source("s").scan(lambda a, x: a + x)

    def query(last: bool) -> Any:
        shared = sums.replay(2).ref_count()
        first = shared.map(lambda x: ("a", x)).merge(shared.count())
        return first.merge(source("t").flat_map(lambda _: shared)) if last else first.merge(rx.never())

    engine = engine_with(query(False), sources="st")
    for position in range(3):
        given(engine, 1, position)
    report = edited(engine, query(True))
    assert "/share" in report.split("kept: ")[1].split(";")[0]
    assert given(engine, None, 0, source="t", time=4.0) == [2, 3]
    assert given(engine, 1, 3, time=5.0) == [("a", 4), 4]


def test_saved_readers_find_what_they_read_in_a_new_process() -> None:
    """Queries that wait in a state know their shared part by a token, though the query has been written anew."""

    def query() -> Any:
        shared = source("s").publish_value(0).ref_count()
        waiting = source("t").map(lambda t: shared.map(lambda x: (t, x)).take(2))
        return shared.filter(lambda x: False).merge(waiting.merge(max_concurrent=1))

    engine = engine_with(query(), sources="st")
    assert given(engine, 1, 0, source="t", time=1.0) == [(1, 0)]
    assert given(engine, 2, 1, source="t", time=2.0) == []
    snapshot = Snapshot(engine, full=True)
    while not snapshot.write_some(100):
        pass
    later = QueryEngine()
    for name in "st":
        later.declare(name, ["0"])
    later.suspended.declare("q", query(), "fail", rx.Limits(), None)
    load(later, snapshot.chunks(), snapshot.header)
    assert given(later, 5, 0, time=3.0) == [(1, 5), (2, 5)]
    assert given(later, 6, 1, time=4.0) == [(2, 6)]


def test_readers_keep_their_order_over_a_crash() -> None:
    """The first who subscribed hears first, wherever in the query it stands."""
    shared = source("s").share()
    late = source("t").flat_map(lambda t: shared.map(lambda x: (t, x)))
    engine = engine_with(late.merge(shared.delay(0.0)), sources="st")
    given(engine, "first", 0, source="t", time=1.0)
    given(engine, "second", 1, source="t", time=2.0)
    expected = given(copy_of(engine), 7, 0, time=3.0)
    assert given(engine, 7, 0, time=3.0) == expected == [("first", 7), ("second", 7), 7]


def test_groups_share_what_stands_outside_them() -> None:
    """One subscription for all groups; the remembered value is one for all."""
    shared = source("t").publish_value(0).ref_count()
    query = source("s").group_by(lambda x: x % 2).flat_map(lambda g: g.with_latest_from(shared))
    engine = engine_with(query, sources="st")
    given(engine, 1, 0)
    given(engine, "new", 0, source="t", time=1.0)
    assert given(engine, 3, 1, time=2.0) == [(3, "new")]
    assert given(engine, 4, 2, time=3.0) == [(4, "new")]
    assert sum(1 for _ in engine.routes["t"].readers()) == 1


def test_the_last_reader_takes_the_source_with_it() -> None:
    """Nobody reads: nothing runs; whoever comes then is greeted with what was remembered."""
    shared = source("s").publish_value(0).ref_count()
    engine = engine_with(source("t").flat_map(lambda _: shared.take(2)), sources="st")
    given(engine, None, 0, source="t", time=1.0)
    assert given(engine, 8, 0, time=2.0) == [8]
    assert "s" not in engine.routes
    given(engine, 9, 1, time=3.0)
    assert given(copy_of(engine), None, 1, source="t", time=4.0) == [8]


@pytest.mark.parametrize("catches", [False, True])
def test_an_event_that_fails_before_a_shared_part_can_be_skipped(catches: bool) -> None:
    """The policy of the query holds unless a reader catches errors itself."""
    shared = source("s").map(lambda x: 1 // x).share()
    readers = shared.map(lambda x: ("a", x)).merge(shared)
    engine = engine_with(readers.catch(rx.of("caught")) if catches else readers, policy="skip")
    given(engine, 0, 0)
    assert engine.standing["q"].status == ("completed" if catches else "running")
    assert given(engine, 1, 1) == ([] if catches else [("a", 1), 1])


def last_digit(value: int) -> int:
    return value % 10


def test_equal_queries_share_a_plan_and_not_a_hub() -> None:
    """A thousand queries with a shared part by key are one plan; each has its own state."""

    def query(key: int) -> Any:
        shared = source("s").pipe(ops.where_key(last_digit, key), ops.share())
        return shared.pipe(ops.merge(shared.pipe(ops.count())))

    engine = QueryEngine()
    engine.declare("s", ["0"])
    for key in range(10):
        engine.take(engine.creation(f"q{key}", query(key), time=0.0))
    assert len({id(each.plan) for each in engine.standing.values()}) == 1
    outputs = engine.take(Events("s", "0", 0, [3, 4, 13], 1.0))
    assert {out.name: list(out.values) for out in outputs} == {"q3": [3, 13], "q4": [4]}


def test_the_hash_tells_what_is_shared_from_what_is_equal() -> None:
    """One part read twice is not two equal parts, and neither depends on the process."""
    shared = source("s").share()
    once, twice = shared.merge(shared), source("s").share().merge(source("s").share())
    assert once.content_hash != twice.content_hash
    code = (
        "import reliable_rx as rx; shared = rx.source('s').share(); print(shared.merge(shared).content_hash);"
        "print(rx.source('s').share().merge(rx.source('s').share()).content_hash)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.split() == [once.content_hash, twice.content_hash]


def test_bound_queries_share_anew() -> None:
    """Each time sources are bound, the shared part is another: a run does not see what an earlier one has left."""
    shared = source("s").replay(1).ref_count()
    query = shared.merge(shared)
    assert [query.bind(s=rx.of(number)).to_list().run() for number in (1, 2)] == [[1, 1], [2, 2]]


def test_one_operator_serves_several_sequences() -> None:
    """What is applied twice counts and remembers twice."""
    remember, count = ops.replay(1), ops.ref_count()
    one, other = Subject[int](), Subject[int]()
    first, second = one.pipe(remember, count), other.pipe(remember, count)
    got: list[int] = []
    first.subscribe(got.append)
    one.on_next(1)
    second.subscribe(got.append)
    other.on_next(2)
    assert got == [1, 2]


def test_a_selector_within_a_selector_reads_the_outer_sequence() -> None:
    """The group of an outer selector can be read again where an inner one is called per element."""

    def build(ops: Any, rx: Any, s: Any) -> Any:
        return s.pipe(
            ops.group_by(lambda x: x % 2),
            ops.flat_map(lambda g: g.pipe(ops.flat_map(lambda x: g.pipe(ops.take(1), ops.map(lambda y: (x, y)))))),
        )

    streams = [parse_marbles("-1-3-2-5|")]
    for crash in (False, True):
        assert HostedRun(build, streams, 20.0, crash=crash).play() == run_plain(build, streams, 20.0)


def test_a_shared_stream_is_a_query_by_name() -> None:
    """Between standing queries one is created under a name, and the others read it."""
    engine = engine_with(source("s").map(lambda x: x * 10))
    engine.take(engine.creation("other", source("q").share(), time=0.0))
    outputs = engine.take(Events("s", "0", 0, [1], 1.0))
    assert [list(out.values) for out in outputs] == [[10], [10]]
    engine.take(Tick(2.0))
