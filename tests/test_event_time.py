"""Event time: what a query on its events' clock is handed, and that no crash, batch or interleaving changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import pytest
from lanes import at_each_commit

import reliable_rx as rx
from checkpoint import MemoryStore
from checkpoint.format.codec import decode, encode
from hosting import App, CallbackSink, LateEvent, ListSource, QueryEngine, QueryEvaluator, event_time
from hosting.engine.event_time import stored as stored_clocks
from hosting.engine.event_time.validation import is_timeless
from hosting.engine.snapshot import Snapshot, copy_of, load
from hosting.engine.turns import Dispose, Events, Output, Resume, Turn
from reliable_rx.errors import LimitExceeded, QueryRefused
from reliable_rx.query.query import as_query
from reliable_rx.runtime.plan import Plan
from reliable_rx.testing.marbles import NEXT
from reliable_rx.testing.virtual_time import run_plain
from tests.event_time_model import IDLE_S, Letter, Model, turns, words

Build = Callable[[Any, Any], Any]
QUERIES: dict[str, Build] = {
    "map": lambda ops, source: source.pipe(ops.map(lambda event: event[1])),
    "buffer_with_time": lambda ops, source: source.pipe(ops.buffer_with_time(2.0)),
    "debounce": lambda ops, source: source.pipe(ops.debounce(1.0)),
    "delay": lambda ops, source: source.pipe(ops.delay(1.5), ops.scan(lambda total, event: total + event[1], 0)),
    "group_by": lambda ops, source: source.pipe(
        ops.group_by(lambda event: event[1] % 2), ops.flat_map(lambda group: group.pipe(ops.buffer_with_time(2.0)))
    ),
}


def stamp(event: Any) -> float:
    return float(event[0])


class Host:
    """An engine with one event-time query, killed and recovered after every turn if it is told so."""

    def __init__(self, build: Build, *, crash: bool, **clock: Any) -> None:
        self.engine = QueryEngine()
        self.engine.declare("s", ["a", "b"])
        self.crash = crash
        self.values: dict[str, list[Any]] = {}
        self.ended: set[str] = set()
        clock = {"idle_s": IDLE_S, "stamp": stamp, **clock}
        self.create("q", build(rx.operators, rx.source("s")), clock=event_time(clock.pop("stamp"), **clock))

    def create(self, name: str, query: Any, **options: Any) -> None:
        self.take(self.engine.creation(name, query, time=self.engine.clock, **options))

    def play(self, word: tuple[Letter, ...]) -> Host:
        for turn in turns(word):
            self.take(turn)
        return self

    def take(self, turn: Turn) -> list[Output]:
        outputs = self.engine.take(turn)
        for out in outputs:
            self.values.setdefault(out.name, []).extend(out.values)
            if out.ended:
                self.ended.add(out.name)
        for standing in self.engine.standing.values():
            clock = standing.clock
            assert (
                clock is None or standing.status != "running" or clock.clock == max(clock.floor, clock.watermark.time)
            )
        if self.crash:
            self.engine = copy_of(self.engine)
        return outputs

    def events(
        self, partition: str, first: int, *stamps: float, time: float = 1.0, ended: bool = False
    ) -> list[Output]:
        values = [(each, first + place) for place, each in enumerate(stamps)]
        return self.take(Events("s", partition, first, values, time, ended=ended))


def agree(word: tuple[Letter, ...], query: str, late: str, *, lateness_s: float, crash: bool) -> None:
    model = Model(lateness_s, late)
    model.play(word)
    expected = run_plain(lambda ops, rx_, s: QUERIES[query](ops, s), [model.stream()], 1000.0)
    host = Host(QUERIES[query], crash=crash, lateness_s=lateness_s, late=late).play(word)
    assert host.values.get("q", []) == [each.value for each in expected if each.kind == NEXT], word
    assert "q" in host.ended, word
    letters = [each.value for each in host.values.get("q.late", [])]
    assert letters == (model.behind if late == "side" else []), word
    clock = host.engine.standing["q"].clock
    assert clock is not None and clock.late == len(model.behind), word


@pytest.mark.parametrize("late", [*map(at_each_commit, ("drop", "keep")), "side"])
@pytest.mark.parametrize("query", ["buffer_with_time", at_each_commit("group_by")])
def test_a_query_is_handed_what_the_model_says(query: str, late: str) -> None:
    """All short words (out of order, silence, an early end): what comes out is plain Rx's on the ordered stream."""
    for word in words(2, (1.0, 3.0, 6.0)):
        agree(word, query, late, lateness_s=1.0, crash=True)


@pytest.mark.slow
@pytest.mark.parametrize("crash", [False, True], ids=["hosted", "recovered"])
@pytest.mark.parametrize("lateness_s", [0.0, 1.0, 4.0])
@pytest.mark.parametrize("late", ["drop", "keep", "side"])
@pytest.mark.parametrize("query", QUERIES)
def test_longer_words(query: str, late: str, lateness_s: float, crash: bool) -> None:
    """The same with every query, more lateness, and words of three letters."""
    for word in words(3, (1.0, 3.0, 6.0)):
        agree(word, query, late, lateness_s=lateness_s, crash=crash)


@pytest.mark.parametrize("late", [*map(at_each_commit, ("drop", "side")), "keep"])
@pytest.mark.parametrize("query", ["map", "buffer_with_time"])
def test_batches_change_nothing(query: str, late: str) -> None:
    """The events of a partition come one by one or all in one turn: the same is handed over, and the same is late."""
    for stamps in permutations([1.0, 2.0, 4.0, 7.0, 7.0]):
        played = []
        for cuts in ([5], [1, 1, 1, 1, 1], [2, 3]):
            host, first = Host(QUERIES[query], crash=False, lateness_s=2.0, late=late), 0
            for cut in cuts:
                host.events("a", first, *stamps[first : first + cut], time=1.0)
                first += cut
            host.events("b", 0, ended=True)
            host.events("a", 5, ended=True)
            played.append(host.values)
        assert played[0] == played[1] == played[2], stamps


def test_the_interleaving_of_partitions_changes_nothing() -> None:
    """As long as nothing is late, what a query emits depends on its events and not on which partition came first."""
    events = [("a", 1.0), ("a", 2.0), ("b", 2.0), ("b", 1.5), ("a", 4.0), ("b", 4.0)]
    seen = set()
    for order in permutations(range(6)):
        if [events[place] for place in order if events[place][0] == "a"] == [e for e in events if e[0] == "a"]:
            word = tuple(events[place] for place in order)
            host = Host(lambda ops, s: s.pipe(ops.map(lambda e: e[0]), ops.buffer_with_time(1.0)), crash=False,
                        lateness_s=10.0, idle_s=1000.0)  # fmt: skip
            host.play((*word, ("a", None), ("b", None)))
            seen.add(repr(host.values["q"]))
    assert len(seen) == 1


def test_windows_close_without_a_later_event_of_the_query() -> None:
    """The clock goes on to the watermark itself, so that what another key's event allows is done at once."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    query = rx.source("s").pipe(rx.operators.where_key(lambda e: e[1], "x"), rx.operators.buffer_with_time(5.0))
    engine.take(engine.creation("x", query, time=0.0, clock=event_time(stamp, lateness_s=0.0)))
    assert engine.take(Events("s", "0", 0, [(1.0, "x"), (2.0, "y")], 1.0)) == []
    out = engine.take(Events("s", "0", 2, [(7.0, "y")], 1.0))
    assert [list(each.values) for each in out] == [[[(1.0, "x")]]]


def keyed(host: QueryEngine, count: int) -> None:
    for number in range(count):
        mine = rx.operators.where_key(lambda e: e[1], number)
        query = rx.source("s").pipe(mine, rx.operators.buffer_with_time(5.0), rx.operators.map(len))
        host.take(host.creation(f"k{number}", query, time=0.0, clock=event_time(stamp, lateness_s=2.0, late="side")))


@pytest.mark.parametrize("crash", [False, True])
def test_routed_queries_share_a_watermark(crash: bool) -> None:
    """Each gets the events of its key, in the order of their time; every event moves the clocks of all."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    keyed(engine, 3)
    got: dict[str, list[Any]] = {}
    for first, event in enumerate([(3.0, 0), (1.5, 1), (4.0, 7), (9.0, 2), (2.0, 1), (20.0, 7)]):
        for out in engine.take(Events("s", "0", first, [event], 1.0, ended=False)):
            got.setdefault(out.name, []).extend(out.values)
        if crash:
            engine = copy_of(engine)
    assert got == {"k0": [1, 0], "k1": [1, 0, 0], "k2": [1], "k1.late": [LateEvent("s", "0", 4, (2.0, 1), 2.0, 7.0)]}
    assert len(engine.watermarks.by_name) == 1


def two_sources() -> Iterator[tuple[str, float, bool]]:
    yield from [("l", 1.0, False), ("r", 5.0, False), ("l", 3.0, False), ("l", 6.0, True), ("r", 7.0, True)]


@pytest.mark.parametrize("crash", [False, True])
def test_several_sources_are_merged_by_time(crash: bool) -> None:
    """A source ends behind its events and not before: `concat` hears the second from then on."""
    engine = QueryEngine()
    for source in "lr":
        engine.declare(source, ["0"])
    clock = event_time({"l": stamp, "r": lambda event: event[0]}, lateness_s=0.0)
    for name, query in {
        "merge": rx.source("l").merge(rx.source("r")),
        "concat": rx.source("l") + rx.source("r"),
    }.items():
        engine.take(engine.creation(name, query.map(lambda e: e[0]), time=0.0, clock=clock))
    got: dict[str, list[Any]] = {}
    positions = {"l": 0, "r": 0}
    for source, time, ended in two_sources():
        for out in engine.take(Events(source, "0", positions[source], [(time, source)], 1.0, ended=ended)):
            got.setdefault(out.name, []).extend([*out.values, *(["|"] if out.ended else [])])
        positions[source] += 1
        if crash:
            engine = copy_of(engine)
    assert got == {"merge": [1.0, 3.0, 5.0, 6.0, 7.0, "|"], "concat": [1.0, 3.0, 6.0, 7.0, "|"]}


@pytest.mark.parametrize("crash", [False, True])
def test_a_query_reads_the_stream_of_another(crash: bool) -> None:
    """The stream is one partition; its events have a time like any other, and the end comes behind them."""
    engine = QueryEngine()
    engine.declare("s", ["a", "b"])
    clock = event_time(stamp, lateness_s=2.0)
    engine.take(engine.creation("first", rx.source("s").filter(lambda e: e[1] != "no"), time=0.0, clock=clock))
    second = rx.source("first").buffer_with_time(2.0).map(lambda part: [e[1] for e in part])
    engine.take(engine.creation("second", second, time=0.0, clock=event_time(stamp, lateness_s=0.0)))
    got: list[Any] = []
    script = [("a", [(1.0, "p"), (4.0, "q"), (3.0, "r")], False), ("b", [(2.0, "t"), (9.0, "no")], False),
              ("a", [(8.0, "u")], True), ("b", [], True)]  # fmt: skip
    positions = {"a": 0, "b": 0}
    for partition, values, ended in script:
        for out in engine.take(Events("s", partition, positions[partition], values, 1.0, ended=ended)):
            got.extend([*out.values, *(["|"] if out.ended else [])] if out.name == "second" else [])
        positions[partition] += len(values)
        if crash:
            engine = copy_of(engine)
    assert got == [["p", "t", "r"], ["q"], [], ["u"], "|"]


def test_an_ordinary_query_reads_an_event_time_stream() -> None:
    """Streams are streams, on whatever clock they were made."""
    host = Host(QUERIES["map"], crash=True, lateness_s=0.0)
    host.create("sum", rx.source("q").sum())
    host.play((("a", 1.0), ("b", 2.0), ("a", None), ("b", None)))
    assert host.values["sum"] == [1] and host.ended == {"q", "sum"}


def test_an_event_that_cannot_be_read_is_the_querys_error() -> None:
    """It fails the query, or is skipped, or becomes a dead letter, like any error of a user function."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    for policy in ("fail", "skip", "dead_letter"):
        query = rx.source("s").map(lambda e: e[1])
        engine.take(engine.creation(policy, query, time=0.0, policy=policy, clock=event_time(stamp, lateness_s=0.0)))
    values = [(1.0, "x"), ("no time", "y"), (float("nan"), "z"), (2.0, "w"), (3.0, "v")]
    out = {each.name: each for each in engine.take(Events("s", "0", 0, values, 1.0))}
    assert isinstance(out["fail"].error, ValueError)
    assert out["skip"].values == out["dead_letter"].values == ["x", "w"]
    assert [(each.position, each.value[1]) for each in out["dead_letter.dead_letters"].values] == [(1, "y"), (2, "z")]


def strict_stamp(event: Any) -> float:
    if event[0] is None:
        raise ValueError("no time")
    return float(event[0])


UNREADABLE: dict[str, Build] = {
    "retry": lambda ops, source: source.pipe(ops.map(lambda event: event[1]), ops.retry()),
    "catch": lambda ops, source: source.pipe(ops.catch(lambda error, again: again.pipe(ops.retry(3)))),
    "flat_map": lambda ops, source: source.pipe(ops.flat_map(lambda event: rx.of(event[1], -event[1])), ops.retry(9)),
    "two readers": lambda ops, source: source.pipe(ops.retry(), ops.merge(source.pipe(ops.retry()))),
}


@pytest.mark.parametrize("crash", [False, True])
@pytest.mark.parametrize("query", UNREADABLE)
def test_unreadable_events_are_the_same_in_every_batch(query: str, crash: bool) -> None:
    """Who subscribes again behind an event without a time misses none that comes next, however the turns are cut."""
    stamps = [1.0, None, 2.0, 3.0, None, 4.0, 9.0]
    events = [(stamp, place) for place, stamp in enumerate(stamps)]
    seen = []
    for cuts in ([7], [1] * 7, [2, 5], [3, 1, 3]):
        host = Host(UNREADABLE[query], crash=crash, lateness_s=0.0, stamp=strict_stamp)
        host.events("b", 0, ended=True)
        first = 0
        for count in cuts:
            host.take(Events("s", "a", first, events[first : first + count], 1.0))
            first += count
        host.take(Events("s", "a", first, [], 1.0, ended=True))
        seen.append((host.values.get("q"), host.engine.standing["q"].status))
    assert seen[0][0] and all(each == seen[0] for each in seen), seen


def test_dead_letters_know_where_their_event_came_from() -> None:
    """An event that waited is buried with its source, partition and position."""
    engine = QueryEngine()
    engine.declare("s", ["a", "b"])
    query = rx.source("s").map(lambda e: 1 / e[1])
    clock = event_time(stamp, lateness_s=5.0)
    engine.take(engine.creation("q", query, time=0.0, policy="dead_letter", clock=clock))
    engine.take(Events("s", "b", 10, [(3.0, 1), (2.0, 0)], 1.0))
    engine = copy_of(engine)
    engine.take(Events("s", "b", 12, [], 1.0, ended=True))
    outputs = {each.name: each.values for each in engine.take(Events("s", "a", 0, [], 1.0, ended=True))}
    assert [(each.partition, each.position, each.value) for each in outputs["q.dead_letters"]] == [("b", 11, (2.0, 0))]
    assert outputs["q"] == [1.0]


def test_too_many_waiting_events_fail_the_query() -> None:
    """The limit is the query's; the error says what to do."""
    engine = QueryEngine()
    engine.declare("s", ["a", "b"])
    limits = rx.Limits(queue_items_max=3)
    engine.take(engine.creation("q", rx.source("s"), time=0.0, limits=limits, clock=event_time(stamp)))
    engine.take(Events("s", "a", 0, [(1.0,), (2.0,), (3.0,)], 1.0))
    (out,) = engine.take(Events("s", "a", 3, [(4.0,)], 1.0))
    assert isinstance(out.error, LimitExceeded) and "lateness_s" in str(out.error)
    assert "it waits for s/b, which has given no event yet" in str(out.error)
    clock = copy_of(engine).standing["q"].clock
    assert not engine.watermarks.by_name and clock is not None and not clock.waiting.chunks


@pytest.mark.parametrize("how", ["a limit", "a function"])
def test_nothing_is_waited_for_once_the_only_query_has_failed(how: str) -> None:
    """A clock that no query has is no timer's: a run whose sources have all ended returns at once."""
    engine = QueryEngine()
    engine.declare("s", ["a", "b"])
    limits = rx.Limits(queue_items_max=3 if how == "a limit" else 1000)
    query = rx.source("s").map(lambda event: 1 / event[1])
    engine.take(engine.creation("q", query, time=0.0, limits=limits, clock=event_time(stamp, lateness_s=1.0)))
    engine.take(Events("s", "b", 0, [(9.0, 1)], 1.0))
    engine.take(Events("s", "a", 0, [(1.0, 0), (2.0, 1), (3.0, 1), (4.0, 1), (5.0, 1)], 1.0))
    assert engine.standing["q"].status == "failed" and engine.timers.next_due() is None


@pytest.mark.parametrize("has_times", [False, True])
def test_partitions_that_lie_apart_in_time_need_times_of_their_source(has_times: bool) -> None:
    """Read evenly, all but the oldest wait in memory, past any limit; the error names the remedy, which is one."""
    days = {f"day-{day}": [(100.0 * day + n, n) for n in range(50)] for day in range(9)}
    total = rx.source("s").tumbling_window(100.0).flat_map(lambda window: window.count())
    with QueryEvaluator(MemoryStore(), batch_events_max=10) as evaluator:
        evaluator.source("s", ListSource(days, timestamp=stamp if has_times else None))
        evaluator.create("q", total, clock=event_time(stamp), limits=rx.Limits(queue_items_max=60))
        evaluator.run()
        found, values = evaluator.query("q"), [n for part in evaluator.stream("q").read(0, 99) for n in part.values]
    if has_times:
        assert (found.status, values) == ("completed", [50] * 9)
    else:
        assert "it waits for s/day-" in str(found.error) and "give the source timestamp=" in str(found.error)


@pytest.mark.parametrize("crash", [False, True])
def test_an_edited_query_keeps_its_clock_and_what_waits(crash: bool) -> None:
    """Also with another lateness and another source; what was handed over does not come again."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    engine.declare("t", ["0"])

    def again() -> None:
        nonlocal engine
        if crash:
            engine = copy_of(engine)

    def total(query: Any) -> Any:
        return query.map(lambda e: e[0]).scan(lambda a, b: a + b)

    engine.take(engine.creation("q", total(rx.source("s")), time=0.0, clock=event_time(stamp, lateness_s=3.0)))
    again()
    (out,) = engine.take(Events("s", "0", 0, [(1.0,), (5.0,), (4.0,)], 1.0))
    assert out.values == [1.0]
    again()
    query = total(rx.source("s").filter(lambda e: e[0] != 7.0))
    engine.take(engine.creation("q", query, time=2.0, clock=event_time(stamp, lateness_s=1.0)))
    again()
    (out,) = engine.take(Events("s", "0", 3, [(7.0,)], 3.0))
    assert out.values == [5.0, 10.0]
    query = total(rx.source("s").merge(rx.source("t")))
    engine.take(engine.creation("q", query, time=4.0, clock=event_time(stamp, lateness_s=1.0)))
    again()
    assert engine.take(Events("s", "0", 4, [(20.0,)], 5.0)) == []
    (out,) = engine.take(Events("t", "0", 0, [(9.0,)], 6.0))
    assert out.values[-1] in (7.0, 17.0)
    again()
    with pytest.raises(QueryRefused, match="dispose"):
        engine.creation("q", rx.source("s"), time=7.0)
    engine.take(Dispose("q", 8.0))
    assert not copy_of(engine).watermarks.by_name
    engine.take(engine.creation("q", rx.source("s"), time=9.0))


def test_a_clock_that_cannot_be_is_refused() -> None:
    """A query without sources, a mapping without one of its sources, and the other clock."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    with pytest.raises(QueryRefused, match="names no source"):
        engine.creation("q", rx.of(1), time=0.0, clock=event_time(stamp))
    with pytest.raises(QueryRefused, match="'s'"):
        engine.creation("q", rx.source("s"), time=0.0, clock=event_time({"t": stamp}))
    with pytest.raises(TypeError, match="event_time"):
        engine.creation("q", rx.source("s"), time=0.0, clock=5)  # type: ignore[arg-type]
    engine.take(engine.creation("q", rx.source("s"), time=0.0))
    with pytest.raises(QueryRefused, match="other clock"):
        engine.creation("q", rx.source("s"), time=0.0, clock=event_time(stamp))
    for wrong in ({"lateness_s": -1}, {"idle_s": 0}, {"late": "never"}):
        with pytest.raises(ValueError):
            event_time(stamp, **wrong)  # type: ignore[arg-type]


def test_sources_that_only_a_selector_names_are_read() -> None:
    """Windows that keep to a date begin with a timer; the source behind it moves the clock all the same."""
    engine = QueryEngine()
    engine.declare("s", ["0"])
    query = rx.timer(10.0).flat_map(lambda _: rx.source("s").map(lambda e: e[0]))
    engine.take(engine.creation("q", query, time=0.0, clock=event_time(stamp, lateness_s=0.0)))
    (out,) = engine.take(Events("s", "0", 0, [(100.0,), (105.0,), (110.0,), (111.0,), (120.0,)], 1.0))
    assert out.values == [111.0]


@pytest.mark.parametrize("crash", [False, True])
def test_a_source_that_a_value_names_moves_the_clock(crash: bool) -> None:
    """A selector that names another source for each element reads it from then on, and its watermark counts."""
    query = rx.source("s").pipe(rx.operators.switch_map(lambda event: rx.source(event[1]).map(lambda each: each[1])))
    host = Host(lambda ops, source: query, crash=crash, lateness_s=0.0)
    host.engine.declare("t", ["0"])
    host.take(Events("s", "a", 0, [(1.0, "t"), (2.0, "t")], 1.0, ended=True))
    host.events("b", 0, ended=True)
    host.take(Events("t", "0", 0, [(3.0, "three"), (4.0, "four")], 1.0))
    assert host.values.get("q") == ["three"]
    assert host.engine.standing["q"].clock.clock == 4.0  # type: ignore[union-attr]
    host.take(Events("t", "0", 2, [(5.0, "five")], 1.0, ended=True))
    assert host.values["q"] == ["three", "four", "five"] and host.ended == {"q"}


NAMED: dict[str, Any] = {
    "merged": rx.source("s").map(lambda v: rx.source("t").map(lambda w: [v, w])).merge_all(),
    "switched": rx.source("s").map(lambda v: rx.source("t").map(lambda w: [v, w])).switch_latest(),
    "one of two": rx.source("s").flat_map(lambda v: rx.source("t" if v % 2 else "u").map(lambda w: [v, w])),
    "by a timer": rx.source("s").flat_map(lambda v: rx.timer(5.0).flat_map(lambda _: rx.source("t"))),
}
"""Queries that come to read a source on the way of their clock, which then follows another watermark."""


@pytest.mark.parametrize("late", ["drop", "keep", "side"])
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("first", [*permutations([("s", 1.0), ("s", 50.0), ("t", 30.0), ("u", 20.0)], 3)], ids=str)
def test_a_clock_that_follows_another_watermark_on_its_way_is_stored_where_it_is(
    first: Any, name: str, late: Any
) -> None:
    """Which events come late, and which have been handed over, is the same behind a crash at any turn."""
    found = []
    for crash in (False, True):
        host = Host(lambda ops, source: NAMED[name], crash=crash, stamp=float, lateness_s=0.0, late=late)
        host.engine.declare("t", ["0"])
        host.engine.declare("u", ["0"])
        host.events("b", 0, ended=True)
        for position, (source, time) in enumerate([*first, ("t", 55.0), ("s", 70.0), ("t", 71.0), ("u", 90.0)]):
            host.take(Events(source, "a" if source == "s" else "0", position, [time], 1.0))
        found.append(host.values)
    assert found[0] == found[1]


def test_a_pause_of_the_host_is_not_silence_of_a_partition() -> None:
    """After an outage a partition has its whole time again; without it, it would be left out at once."""
    for paused in (False, True):
        host = Host(QUERIES["map"], crash=True, lateness_s=0.0, idle_s=60.0)
        host.events("a", 0, 10.0, time=1.0)
        host.events("b", 0, 5.0, time=2.0)
        if paused:
            host.take(Resume(1000.0))
            assert host.engine.timers.next_due() == 1060.0
        else:
            assert host.engine.timers.next_due() == 60.0
        host.events("a", 1, 20.0, time=1001.0)
        host.events("b", 1, 7.0, time=1002.0)
        host.events("b", 2, ended=True, time=1003.0)
        host.events("a", 2, ended=True, time=1003.0)
        assert host.values["q"] == ([0, 1, 0, 1] if paused else [0, 0, 1])


def test_a_checkpoint_writes_what_has_come_since_the_last_one() -> None:
    """However much waits, a differential checkpoint has the newest rows only, and rows that the clock has passed go."""
    engine = QueryEngine()
    engine.declare("s", ["a", "b"])
    engine.take(engine.creation("q", rx.source("s").count(), time=0.0, clock=event_time(stamp, lateness_s=5000.0)))

    first = 0
    sizes = []
    for _ in range(5):
        engine.take(Events("s", "a", first, [(float(first + n), "x" * 20) for n in range(2000)], 1.0))
        first += 2000
        sizes.append(sum(map(len, written(engine, full=False))))
    assert max(sizes) < 2.2 * min(sizes)
    chunks = engine.standing["q"].clock.waiting.chunks  # type: ignore[union-attr]
    assert len(chunks) == 10
    engine.take(Events("s", "b", 0, [(20000.0,)], 1.0))
    assert len(chunks) < 10
    engine.take(Events("s", "b", 1, [], 1.0, ended=True))
    (out,) = engine.take(Events("s", "a", first, [], 1.0, ended=True))
    assert (out.values, len(chunks)) == ([10001], 0)


EVENTS = {"a": [(1.0, 1), (4.0, 2), (2.0, 3), (30.0, 4), (3.0, 5)], "b": [(2.0, 6), (9.0, 7), (40.0, 8)]}


def app() -> App:
    made = App(batch_events_max=2)
    events = made.source("s", lambda: ListSource(EVENTS))
    clock = event_time(stamp, lateness_s=5.0, late="side")
    made.query("sums", events.buffer_with_time(10.0).map(lambda part: sum(e[1] for e in part)), clock=clock)
    return made


def read(evaluator: QueryEvaluator, name: str) -> list[Any]:
    return [value for part in evaluator.stream(name).read(0, 100) for value in part.values]


def test_an_evaluator_goes_on_where_it_was() -> None:
    """Created through an app, closed after every step without a checkpoint or with one: the outputs are the same."""
    with app().evaluator(MemoryStore()) as evaluator:
        evaluator.run()
        expected = read(evaluator, "sums"), read(evaluator, "sums.late")
        assert evaluator.query("sums").late == evaluator.statistics().late == len(expected[1])
    for checkpoints in (False, True):
        store = MemoryStore()
        for _ in range(12):
            evaluator = app().evaluator(store)
            evaluator.start()
            evaluator.step()
            evaluator.flush()
            if checkpoints:
                evaluator.checkpoint()
            evaluator.close()
        with app().evaluator(store) as evaluator:
            evaluator.run()
            assert (read(evaluator, "sums"), read(evaluator, "sums.late")) == expected
            assert evaluator.query("sums").clock is not None


def test_late_events_may_be_sent_to_a_sink() -> None:
    """The stream of late events is a stream like any other."""
    made, late = app(), []
    made.sink("sums.late", CallbackSink(lambda n, event: late.append((n, event.value))))
    with made.evaluator(MemoryStore()) as evaluator:
        evaluator.run()
    assert late == [(0, (3.0, 5))]


def test_idle_partitions_let_an_evaluator_go_on() -> None:
    """Silence is measured on the host's clock, which is journalled; the evaluator wakes up for it."""
    now = [0.0]
    evaluator = QueryEvaluator(MemoryStore(), clock=lambda: now[0], background=False)
    a, b = evaluator.push("a"), evaluator.push("b")
    clock = event_time(stamp, lateness_s=0.0, idle_s=60.0)
    evaluator.create("q", rx.source("a").merge(rx.source("b")).map(lambda e: e[0]), clock=clock)
    evaluator.start()
    a.push([(1.0,), (2.0,), (3.0,)])
    b.push([(1.5,)])

    def settle() -> list[Any]:
        for _ in range(5):
            evaluator.step()
        return read(evaluator, "q")

    assert settle() == [1.0]
    now[0] = 59.0
    assert settle() == [1.0]
    now[0] = 61.0
    assert settle() == [1.0, 1.5, 2.0]
    evaluator.close()


def test_operators_that_look_at_the_clock_are_known() -> None:
    """Lists that span several moments go only to what cannot tell; the code says who can."""
    timeless = {rx.operators.merge(rx.never()), rx.operators.group_by(len), rx.operators.take_until(rx.never())}
    timed = {rx.operators.debounce(1.0), rx.operators.delay(1.0), rx.operators.buffer_with_time(1.0)}
    for operators, expected in ((timeless, True), (timed, False)):
        for operator in operators:
            plan = Plan(as_query(operator(rx.source("s"))).node, symbolic=True)
            assert is_timeless(plan) == expected, plan.root.path


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("cut", range(5))
def test_a_snapshot_is_of_one_turn_though_events_go_on_waiting(cut: int, full: bool) -> None:
    """Rows of waiting events that grow or go while a snapshot is written are in it as they were."""
    runs = [("a", 0, (1.0, 5.0)), ("b", 0, (2.0, 4.0)), ("a", 2, (9.0, 3.0)), ("b", 2, (8.0,)), ("a", 4, (20.0,)),
            ("b", 3, (30.0,)), ("a", 5, (40.0,))]  # fmt: skip

    def go(engine: QueryEngine, part: list[tuple[str, int, tuple[float, ...]]]) -> list[Any]:
        return [
            value
            for partition, first, stamps in part
            for out in engine.take(Events("s", partition, first, [(each, each) for each in stamps], 1.0))
            for value in out.values
        ]

    host = Host(QUERIES["buffer_with_time"], crash=False, lateness_s=1.0, late="keep")
    base = written(host.engine, full=True)
    go(host.engine, runs[:cut])
    snapshot = Snapshot(host.engine, full=full)
    expected = go(host.engine, runs[cut:])
    while not snapshot.write_some(1):
        pass
    chunks, head = snapshot.chunks(), decode(encode(snapshot.header))
    other = QueryEngine()
    load(other, chunks if full else [*base, *chunks], head)
    assert go(other, runs[cut:]) == expected


def written(engine: QueryEngine, *, full: bool) -> list[bytes]:
    snapshot = Snapshot(engine, full=full)
    while not snapshot.write_some(100):
        pass
    return snapshot.chunks()


def test_a_clock_that_is_taken_over_waits_for_sources_that_are_new() -> None:
    """Those it knew stand where they were, those that are gone are forgotten, all partitions of new ones count."""
    engine = QueryEngine()
    engine.declare("a", ["0"])
    engine.declare("b", ["0", "1"])
    marks = (("a", "0", 5.0, 5.0, False), ("gone", "0", 9.0, 9.0, False))
    spec = event_time(float)
    saved = (b"", ["a", "gone"], 5.0, list(marks), None, dict[str, Any]())
    name = stored_clocks.take_over(engine.watermarks, saved, spec, frozenset("ab"), ())
    found = engine.watermarks.by_name[name].marks
    assert found.keys() == {("a", "0"), ("b", "0"), ("b", "1")} and found["a", "0"].high == 5.0


@pytest.mark.parametrize("crash", [False, True])
def test_a_query_that_begins_anew_holds_back_a_clock_that_others_have_kept(crash: bool) -> None:
    """What it gives is in time, as with a clock of its own, though it had ended for those that kept the clock."""
    store, n, m = MemoryStore(), list[float](), list[float]()
    clock = event_time(float, lateness_s=0.0, idle_s=1e6)
    q, stream = rx.source("m").map(lambda v: 1.0 / (v != 13.0) and v), rx.source("n")
    queries = {"kept": stream.merge(rx.source("q").catch(rx.never())), "r": stream.merge(rx.source("q"))}

    def opened() -> QueryEvaluator:
        evaluator = QueryEvaluator(store, background=False)
        evaluator.source("n", ListSource(n, follow=True))
        evaluator.source("m", ListSource(m, follow=True))
        evaluator.create("q", q)
        for name, query in queries.items():
            evaluator.create(name, query, clock=clock)
        evaluator.start()
        return evaluator

    def come(values: list[float], *more: float) -> None:
        values += more
        while evaluator.step():
            pass

    evaluator = opened()
    come(m, 1.0)
    come(n, 1.0)
    come(m, 2.0, 13.0)
    come(n, 3.0)
    evaluator.restart("q")
    if crash:
        evaluator.close()
        evaluator, store = opened(), store
    come(n, 50.0)
    come(m, 20.0, 21.0)
    come(n, 60.0)
    come(m, 70.0)
    evaluator.flush()
    assert [each for part in evaluator.stream("r").read(0, 99) for each in part.values][-3:] == [20.0, 21.0, 50.0]
    evaluator.close()


@pytest.mark.parametrize("batch", [1, 1000])
def test_what_is_beside_a_query_ends_between_events_that_have_times_of_their_own(batch: int) -> None:
    """However many come in a turn: who reads it counts from there."""
    later = rx.source("q.dead_letters").ignore_elements().concat(rx.timer(1.0).map(lambda _: "1 later"))
    with QueryEvaluator(MemoryStore(), background=False, batch_events_max=batch) as evaluator:
        evaluator.source("n", ListSource([1.0, 2.0, 10.0, 20.0], timestamp=float))
        evaluator.create("q", rx.source("n").take(2), policy="dead_letter")
        evaluator.create("r", later.merge(rx.source("n")))
        evaluator.run()
        came = [each for part in evaluator.stream("r").read(0, 9) for each in part.values]
        assert came == [1.0, 2.0, "1 later", 10.0, 20.0]


@pytest.mark.parametrize("act", ["restart", "dispose"])
def test_what_a_clock_waits_for_has_what_was_due_before_an_end(act: str) -> None:
    """Also where only a selector has named it: nobody's plan has it then."""
    clock = [0.0]
    named = rx.source("m").flat_map(lambda v: rx.of(v).merge(rx.source("q").map(lambda x: x + 0.5)))
    with QueryEvaluator(MemoryStore(), clock=lambda: clock[0], background=False) as evaluator:
        evaluator.source("n", ListSource([5.0], follow=True))
        evaluator.source("m", ListSource([1.0, 3.0], follow=True))
        evaluator.create("q", rx.source("n").delay(10.0))
        evaluator.create("r", named, clock=event_time(float, lateness_s=0.0, idle_s=1e6))
        evaluator.start()
        while evaluator.step():
            pass
        clock[0] = 15.0
        getattr(evaluator, act)("r")
        assert evaluator.query("q").emitted == 1


def test_a_clock_over_what_has_no_partition_yet_stays_where_it_is() -> None:
    """Though all else that it is over had ended when it began: nothing says that what comes is late."""
    engine = QueryEngine()
    engine.declare("n", ["0"])
    engine.declare("m", [])
    engine.awaited = {"m"}
    engine.take(engine.creation("q", rx.source("n").map(lambda value: value), time=0.0))
    engine.take(Events("n", "0", 0, [1.0], 0.0, ended=True))
    clock = event_time(float, lateness_s=0.0)
    engine.take(engine.creation("w", rx.source("q").merge(rx.source("m")), time=1.0, clock=clock))
    engine.move_clocks("m")
    standing = engine.standing["w"]
    assert standing.clock is not None and standing.clock.clock == float("-inf")


def test_a_clock_waits_for_no_query_that_had_ended_when_it_began() -> None:
    """It had waited for it as for a partition that is silent; one that begins anew is waited for no sooner."""
    values, windows = (
        [1.0, 2.0],
        rx.source("q").merge(rx.source("m")).tumbling_window(5.0).flat_map(lambda w: w.to_list()),
    )
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1.0, 2.0, 3.0]))
        evaluator.source("m", ListSource(values, follow=True))
        evaluator.create("q", rx.source("n").map(lambda value: value))
        evaluator.start()
        while evaluator.step():
            pass
        assert evaluator.query("q").status == "completed"
        evaluator.create("w", windows, clock=event_time(float, lateness_s=0.0, idle_s=1e6))
        values += [7.0, 8.0, 12.0, 18.0]
        while evaluator.step():
            pass
        evaluator.flush()
        assert [each for part in evaluator.stream("w").read(0, 9) for each in part.values] == [[7.0, 8.0], [12.0]]


@pytest.mark.parametrize("clock", [None, event_time(stamp, lateness_s=0.0)], ids=["the host's clock", "its own clock"])
@pytest.mark.parametrize("crash", [False, True], ids=["hosted", "recovered"])
def test_who_reads_a_source_again_reads_it_after_those_inside(clock: Any, crash: bool) -> None:
    """The place of a reader among those of one source is saved, also where only one of them is seen in the query."""

    def inner(event: Any) -> Any:
        return rx.source("s").map(lambda later: (event[1], later[1])) if event[0] < 10.0 else rx.empty()

    host = Host(lambda ops, source: source, crash=crash)
    query = rx.source("s").pipe(rx.operators.take(1), rx.operators.repeat(), rx.operators.switch_map(inner))
    host.create("again", query, clock=clock)
    host.events("b", 0, ended=True)
    for number in range(5):
        host.events("a", number, float(number))
    assert host.values["again"][:3] == [(0, 1), (1, 2), (2, 3)]


def test_a_source_that_a_selector_names_in_the_last_event_is_waited_for() -> None:
    """Time does not go to its end with the source that was known before: it was taken for the only one."""
    values, clock = [2.0], event_time(float, lateness_s=0.0)
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1.0]))
        evaluator.source("m", ListSource(values, follow=True))
        chosen = rx.source("n").map(lambda value: rx.source("m")).switch_latest()
        evaluator.create("q", chosen.buffer_with_time(4.0), clock=clock)
        while evaluator.step():
            pass
        values += [3.0, 9.0]
        while evaluator.step():
            pass
        evaluator.flush()
        (part,) = evaluator.stream("q").read(0, 9)
        assert (evaluator.query("q").status, list(part.values)) == ("running", [[2.0, 3.0]])
