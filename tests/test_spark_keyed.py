"""A query run per key, without Spark: the same as un-hosted `reactivex` and as the embedded evaluator, key by key."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import reactivex
from every_case import CASES, Case
from lanes import Lane, every
from reactivex import operators as plain_operators
from reactivex.scheduler import VirtualTimeScheduler

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from reliable_rx import operators as ops
from reliable_rx.errors import CheckpointRefused, QueryRefused
from reliable_rx.query.query import SourceLeaf, walk
from reliable_rx.testing import Timed
from reliable_rx.testing.marbles import COMPLETED, ERROR, NEXT, RAISED
from reliable_rx.testing.openings import MomentScheduler, opening_in_moments
from reliable_rx.testing.virtual_time import hot_sources
from spark_bridge.keyed import Arrivals, Bucket, KeyedQuery

EVENTS_MAX, HORIZON_S, PATIENCE = 3, 12.0, 40
Word = tuple[tuple[int, Any], ...]
Heard = list[tuple[str, str]]


def words(case: Case, length_max: int = EVENTS_MAX) -> Iterator[Word]:
    """Yield what one key may get: events of its sources, in every order."""
    letters = [(source, value) for source in range(case.sources) for value in case.alphabet]
    for length in range(1, length_max + 1):
        yield from itertools.product(letters, repeat=length)


def reference(case: Case, word: Word, *, length: int, ended: bool) -> Heard:
    """Return what plain `reactivex` makes of one key's events, subscribed to right before the first of them."""
    clock, record = MomentScheduler(), []
    streams: list[list[Timed]] = [[] for _ in range(case.sources)]
    for place, (source, value) in enumerate(word[1:], 1):
        streams[source].append(Timed(float(place), NEXT, value))
    for stream in streams if ended else []:
        stream.append(Timed(float(length), COMPLETED, None))

    def subscribe(scheduler: Any, state: Any = None) -> None:
        build = case.reference or case.build
        build(plain_operators, reactivex, *sources).subscribe(
            lambda value: record.append(spoken(NEXT, value)),
            lambda error: record.append(spoken(ERROR, error)),
            lambda: record.append(spoken(COMPLETED, None)),
            scheduler=clock,
        )
        first(PATIENCE)

    def first(waits: int) -> None:
        """Let what the subscription does at once be done before the first event."""
        if waits:
            clock.schedule(lambda scheduler, state: first(waits - 1))
        else:
            clock.moment(lambda: sources[word[0][0]].on_next(word[0][1]), lambda: True)

    clock.schedule_absolute(0.0, subscribe)
    sources = hot_sources(clock, streams)
    try:
        with opening_in_moments(clock):
            clock.advance_to(length + 1 + HORIZON_S)
    except Exception as error:
        record.append((RAISED, repr(error)))
    return record


def spoken(kind: str, value: Any) -> tuple[str, str]:
    return kind, f"{type(value).__name__} {value}" if isinstance(value, Exception) else repr(value)


def run_keyed(query: KeyedQuery, told: dict[Any, Word], *, ended: bool) -> dict[Any, Heard]:
    """Give every key its events, one a batch, in one bucket that goes through bytes after each batch."""
    shuffle = random.Random(1)
    heard: dict[Any, Heard] = {key: [] for key in told}
    ids: dict[Any, int] = defaultdict(int)
    bucket = Bucket(query)
    length = max(map(len, told.values()))
    for place in range(length + 2):
        batch = [(key, place, *word[place]) for key, word in told.items() if place < len(word)]
        shuffle.shuffle(batch)
        time = float(place) if place <= length else place + HORIZON_S
        arrivals = Arrivals(
            [each[0] for each in batch],
            [each[1] for each in batch],
            [each[3] for each in batch],
            [f"s{each[2]}" for each in batch],
        )
        out = bucket.take(arrivals, time=time, ended=ended and place == length)
        for key, number, kind, value in out.rows():
            assert number == ids[key], "ids of a key are consecutive"
            ids[key] += 1
            heard[key].append(spoken(KINDS[kind], value))
        bucket = Bucket(query, bucket.blob())
    return heard


def compare(name: str, told: dict[Any, Word]) -> None:
    """Compare one bucket of keys with plain `reactivex`, key by key, with sources that go on and that end."""
    case = CASES[name]
    names = tuple(f"s{number}" for number in range(case.sources))
    query = KeyedQuery(case.build(ops, rx, *map(rx.source, names)), per_key=True, reads=names)
    for ended in (False, True):
        heard = run_keyed(query, told, ended=ended)
        for key, word in told.items():
            expected = reference(case, word, length=max(map(len, told.values())), ended=ended)
            if not any(kind == RAISED for kind, _ in expected):  # what RxPY raises out of a query is nobody's event
                assert heard[key] == expected, (word, ended)


def hostable() -> Iterator[str]:
    """Yield the cases that a host takes and whose query reads something."""
    for name, case in CASES.items():
        sources = [rx.source(f"s{number}") for number in range(case.sources)]
        if case.hostable and source_leaves(case.build(ops, rx, *sources)):
            yield name


def source_leaves(query: Any) -> list[Any]:
    return [node for node in walk(query.node) if isinstance(node.op, SourceLeaf)]


HOSTABLE = list(hostable())


@pytest.mark.parametrize("name", every(3, HOSTABLE[::12]))
def test_a_key_is_a_query_of_its_own(name: str) -> None:
    """A twelfth of all cases: every key of a bucket gets what plain `reactivex` gives for its events."""
    some = random.Random(name).sample(list(words(CASES[name], 2)), 2)
    compare(name, {f"k{number}": word for number, word in enumerate(some)})


@pytest.mark.slow
@pytest.mark.parametrize("name", [] if Lane.fast_alone else HOSTABLE)
def test_every_operator_runs_per_key(name: str) -> None:
    """All cases, many keys in one bucket that goes through bytes after each batch."""
    every = [word for word in words(CASES[name]) if len(word) != 2]
    some = every if len(every) < 40 else random.Random(1).sample(every, 40)
    compare(name, {f"k{number}": word for number, word in enumerate(some)})


KINDS = {"next": NEXT, "completed": COMPLETED, "error": ERROR}


# -- queries for all events, in groups

Inside = Callable[[Any], Any]
Event = tuple[str, float, int]  # key, time, value


def by_key(build: Inside, *, before: Inside = lambda s: s, behind: Inside = lambda s: s) -> Any:
    grouped = before(rx.source("n")).pipe(ops.group_by(lambda event: event[0]), ops.flat_map(build))
    return behind(grouped)


GROUPED: dict[str, rx.Query[Any]] = {
    "scan": by_key(lambda g: g.pipe(ops.map(lambda e: e[2]), ops.scan(lambda a, b: a * 3 + b, 1))),
    "two states": by_key(lambda g: g.pipe(ops.map(lambda e: e[2]), ops.pairwise(), ops.scan(lambda a, b: (a, b), ()))),
    "the key": by_key(lambda g: g.pipe(ops.count(), ops.map(lambda n: (g.key, n)))),
    "take": by_key(lambda g: g.pipe(ops.map(lambda e: e[2]), ops.take(2))),
    "read twice": by_key(lambda g: g.pipe(ops.map(lambda e: e[2]), ops.zip(g.pipe(ops.skip(1))))),
    "around": by_key(
        lambda g: g.pipe(ops.scan(lambda a, e: a + e[2], 0)),
        before=lambda s: s.pipe(ops.filter(lambda e: e[2] != 3), ops.map(lambda e: (e[0], e[1], e[2] * 2))),
        behind=lambda s: s.pipe(ops.map(str), ops.filter(lambda text: text != "8")),
    ),
    "windows": by_key(lambda g: g.pipe(ops.window_with_count(2), ops.flat_map(lambda w: w.pipe(ops.to_list())))),
    "chosen by key": by_key(lambda g: g.pipe(ops.count()) if g.key in "ace" else g.pipe(ops.map(lambda e: e[2]))),
    "groups within": by_key(lambda g: g.pipe(ops.group_by(lambda e: e[2] % 2), ops.flat_map(lambda h: h.count()))),
    "buffers in time": by_key(lambda g: g.pipe(ops.map(lambda e: e[2]), ops.buffer_with_time(3.7), ops.filter(bool))),
    "settled": by_key(lambda g: g.pipe(ops.map(lambda e: e[2]), ops.debounce(1.5))),
    "merged": rx.source("n").pipe(
        ops.group_by(lambda e: e[0]), ops.map(lambda g: g.pipe(ops.map(lambda e: e[2]), ops.sum())), ops.merge_all()
    ),
}


def events(seed: int, count: int = 60) -> list[Event]:
    """Return events of several keys, their times strictly growing per key and a little out of order among keys."""
    chance = random.Random(seed)
    return [(chance.choice("abcde"), float(n // 2 + 100), chance.randrange(5)) for n in range(count)]


def alone(query: rx.Query[Any], told: Sequence[Event]) -> list[Any]:
    """Return what the query emits un-hosted for the events of one key, by the clock of these events."""
    clock, heard = VirtualTimeScheduler(told[0][1]), []
    stamped = [Timed(event[1], NEXT, event) for event in told]
    (stream,) = hot_sources(clock, [[*stamped, Timed(told[-1][1], COMPLETED, None)]])
    query.bind(n=stream).subscribe(heard.append, scheduler=clock)
    clock.advance_to(told[-1][1] + HORIZON_S)
    return heard


def embedded(query: rx.Query[Any], told: Sequence[Event]) -> list[Any]:
    """Return what an evaluator emits for these events on event time."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource(list(told)))
        evaluator.create("q", query, clock=rx.event_time(lambda event: event[1], lateness_s=3.0))
        evaluator.run()
        return [value for part in evaluator.stream("q").read(0, 100_000) for value in part.values]


def bucketed(query: KeyedQuery, told: Sequence[Event], *, seed: int) -> dict[Any, list[Any]]:
    """Return what a bucket emits per key, given batches in no order, through bytes after each."""
    chance, heard, bucket, high = random.Random(seed), defaultdict(list), Bucket(query), 0.0
    rest = list(enumerate(told))
    while rest:
        size = chance.randrange(1, 9)
        batch, rest = rest[:size], rest[size:]
        chance.shuffle(batch)
        arrivals = Arrivals(
            [event[0] for _, event in batch],
            [seq for seq, _ in batch],
            [event for _, event in batch],
            times=[event[1] for _, event in batch],
        )
        watermark, high = high - 3.0, max(high, *arrivals.times or ())
        for key, _, _, value in bucket.take(arrivals, time=watermark, ended=not rest).rows():
            heard[key].append(value)
        bucket = Bucket(query, bucket.blob())
    assert bucket.late == 0
    return {key: [value for value in values if value is not None] for key, values in heard.items()}


@pytest.mark.parametrize("name", every(3, GROUPED))
def test_three_ways_are_one(name: str) -> None:
    """A bucket gives each key what un-hosted and embedded runs of the same query give for the events of that key."""
    query = GROUPED[name]
    keyed = KeyedQuery(query, event_time=True)
    for seed in range(2):
        told = events(seed)
        heard = bucketed(keyed, told, seed=seed)
        everything = embedded(query, told)
        for key in sorted({event[0] for event in told}):
            mine = [event for event in told if event[0] == key]
            assert heard.get(key, []) == embedded(query, mine) == alone(query, mine), key
        assert sorted(map(repr, everything)) == sorted(repr(each) for values in heard.values() for each in values)


def test_chains_need_no_engine() -> None:
    """Queries whose groups are read by linear operators run as one loop over states; the others in an engine."""
    chains = {name for name, query in GROUPED.items() if KeyedQuery(query).chain is not None}
    assert chains == {"scan", "two states", "the key", "take", "around"}


def test_an_error_ends_its_own_key() -> None:
    """A key whose user function fails gets an error with the next id, and then nothing; the other keys go on."""
    query = KeyedQuery(by_key(lambda g: g.pipe(ops.map(lambda e: 10 // e[2]), ops.scan(lambda a, b: a + b))))
    told = [("a", 0.0, 5), ("b", 0.0, 2), ("a", 0.0, 0), ("a", 0.0, 1), ("b", 0.0, 5)]
    bucket, heard = Bucket(query), []
    for seq, event in enumerate(told):
        arrivals = Arrivals([event[0]], [seq], [event])
        heard += [(*row[:3], str(row[3])) for row in bucket.take(arrivals, time=float(seq)).rows()]
        bucket = Bucket(query, bucket.blob())
    assert heard == [
        ("a", 0, "next", "2"),
        ("b", 0, "next", "5"),
        ("a", 1, "error", "integer division or modulo by zero"),
        ("b", 1, "next", "7"),
    ]


def test_what_stands_before_a_group_that_has_ended_still_fails() -> None:
    """A group completes in silence; an error before the groups afterwards ends the key, as it does un-hosted."""
    query = by_key(lambda g: g.pipe(ops.take(1)), before=lambda s: s.pipe(ops.map(lambda e: (e[0], 0.0, 1 // e[2]))))
    told = [("a", 0.0, 1), ("a", 0.0, 1), ("a", 0.0, 0), ("a", 0.0, 1)]
    bucket = Bucket(KeyedQuery(query))
    assert bucket.query.chain is not None
    rows = [row for n, event in enumerate(told) for row in bucket.take(Arrivals(["a"], [n], [event]), time=0.0).rows()]
    assert [(number, kind) for _, number, kind, _ in rows] == [(0, "next"), (1, "error")]
    record: list[str] = []
    subject: reactivex.Subject[Any] = reactivex.Subject()
    query.bind(n=subject).subscribe(lambda value: record.append("next"), lambda error: record.append("error"))
    for event in told:
        subject.on_next(event)
    assert record == ["next", "error"]


def test_timers_wake_keys_without_events() -> None:
    """A key whose timer is due is run by a tick alone, and the bucket says when the next one is due."""
    bucket = Bucket(KeyedQuery(by_key(lambda g: g.pipe(ops.debounce(5.0)))))
    assert not list(bucket.take(Arrivals(["a", "b"], [0, 1], [("a", 0.0, 1), ("b", 0.0, 2)]), time=10.0).rows())
    assert bucket.next_wake() == 15.0
    bucket = Bucket(bucket.query, bucket.blob())
    assert not list(bucket.take(Arrivals([], [], []), time=14.0).rows())
    assert [row[0] for row in bucket.take(Arrivals([], [], []), time=15.0).rows()] == ["a", "b"]
    assert bucket.next_wake() is None


def test_two_keyed_sources_are_joined_per_key() -> None:
    """A query written for one key joins the events that its key has in two sources."""
    query = KeyedQuery(rx.source("bids").pipe(ops.with_latest_from(rx.source("asks"))), per_key=True)
    bucket = Bucket(query)
    arrivals = Arrivals(
        ["x", "y", "x", "y", "x"], [1, 2, 3, 4, 0], [1, 2, 3, 4, 9], ["bids", "asks", "bids", "bids", "asks"]
    )
    assert list(bucket.take(arrivals, time=0.0).rows()) == [
        ("x", 0, "next", (1, 9)), ("x", 1, "next", (3, 9)), ("y", 0, "next", (4, 2)),
    ]  # fmt: skip


# -- what is refused

S = rx.source("s")


async def answer(value: Any) -> Any:
    return value


REFUSED = {
    "/scan": S.scan(lambda a, b: a + b),
    "/window_with_count": S.window_with_count(3).flat_map(lambda w: w.count()),
    "/map_indexed": S.group_by(lambda e: e).flat_map(lambda g: g).pipe(ops.map_indexed(lambda v, n: n)),
    "/distinct": S.group_by(lambda e: e).flat_map(lambda g: g).distinct(),
    "/concat_map": S.group_by(lambda e: e).concat_map(lambda g: g),
    "/merge_all": S.group_by(lambda e: e).pipe(ops.merge(max_concurrent=2)),
    "/take": S.take(5).group_by(lambda e: e).flat_map(lambda g: g),
    "/group_by": S.group_by(lambda e: e, groups_max=10, evict="oldest").flat_map(lambda g: g),
    "/flat_map/inner/merge:1/source": S.group_by(lambda e: e).flat_map(lambda g: g.pipe(ops.merge(rx.source("t")))),
    "/combine_latest": S.group_by(lambda e: e).flat_map(lambda g: g).combine_latest(rx.source("t")),
    "/flat_map/inner/map_async": S.group_by(lambda e: e).flat_map(lambda g: g.pipe(ops.map_async(answer))),
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_cannot_run_per_key_is_refused_by_path(path: str) -> None:
    """What would see several keys is refused when the query is given, naming the operator."""
    with pytest.raises(QueryRefused) as refused:
        KeyedQuery(REFUSED[path])
    assert refused.value.path == path
    assert str(refused.value).startswith(path)


def test_a_group_is_the_key_of_its_rows() -> None:
    """Events whose group is not the key of their rows stop the run instead of being counted in the wrong place."""
    for inside in (lambda g: g.count(), lambda g: g.pipe(ops.window_with_count(2), ops.merge_all())):
        bucket = Bucket(KeyedQuery(by_key(inside)))
        with pytest.raises(QueryRefused, match="is in group 'a'"):
            bucket.take(Arrivals(["b"], [0], [("a", 0.0, 1)]), time=0.0)


def test_a_bucket_of_another_query_is_refused() -> None:
    """State is only ever read by the query that wrote it, in the format that it was written in, undamaged."""
    bucket = Bucket(KeyedQuery(S.count(), per_key=True))
    bucket.take(Arrivals(["a"], [0], [1]), time=0.0)
    blob = bucket.blob()
    wrong = {
        "query": (KeyedQuery(S.sum(), per_key=True), blob),
        "version": (bucket.query, blob[:5] + b"\x09" + blob[6:]),
        "its seal does not match": (bucket.query, blob[:-1] + bytes([blob[-1] ^ 1])),
        "format": (bucket.query, b"\x80" + blob),
    }
    for what, (query, data) in wrong.items():
        with pytest.raises(CheckpointRefused) as refused:
            Bucket(query, data)
        assert str(refused.value.what).startswith(what)
