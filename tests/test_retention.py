"""Queries that come and go by the thousand leave nothing behind that grows: in memory, in the store, in checkpoints."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lanes import every, examples, left_to_commits

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import ListSource, QueryEvaluator
from hosting.edges.egress import Stream
from hosting.edges.retention import Retention
from hosting.engine import disposed_ids as retired
from hosting.engine.snapshot import Snapshot
from hosting.reports import flapping
from reliable_rx.errors import PositionUnavailable, StoreUnavailable
from reliable_rx.reliable import DeadLetter

KEEP = Retention(streams=5)


def session(n: int) -> int:
    """Fail now and then, so that there are dead letters."""
    return 6 // (n % 7)


class Host:
    """An evaluator whose queries are sessions."""

    def __init__(self, store: Any = None, retention: Retention = KEEP) -> None:
        self.store = MemoryStore() if store is None else store
        self.numbers: list[int] = []
        self.now = 1e9
        self.retention = retention
        self.evaluator = self.fresh()

    def fresh(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store, background=False, checkpoint_interval_s=1e9, retention=self.retention, clock=lambda: self.now
        )
        evaluator.source("n", ListSource(self.numbers, follow=True))
        evaluator.start()
        return evaluator

    def crash(self) -> None:
        self.evaluator.abandon()
        self.store = self.store.reopen()
        self.evaluator = self.fresh()

    def settle(self) -> None:
        self.now += 1.0
        while self.evaluator.step():
            pass

    def play(self, names: list[str], *, read: Callable[[Stream], object] = repr) -> None:
        """Let queries live and end, with a checkpoint behind them."""
        self.evaluator.create_many({name: rx.source("n").map(session) for name in names}, policy="dead_letter")
        for name in names:
            read(self.evaluator.stream(name))
        self.numbers.extend((1, 7))
        self.settle()
        for name in names:
            self.evaluator.dispose(name)
            if read is looked_at:
                read(self.evaluator.stream(name))
        self.evaluator.checkpoint()

    def held(self) -> Counter[str]:
        """Count what the store, a full checkpoint and Python's memory hold."""
        snapshot = Snapshot(self.evaluator.engine, full=True)
        while not snapshot.write_some(1000):
            pass
        snapshot.roll_back()
        gc.collect()
        return Counter(
            rows=snapshot.rows, streams=len(self.store.streams()), buffers=len(self.evaluator.streams),
            bytes=sum(self.store.size(name) for name in self.store.streams()), objects=len(gc.get_objects()),
            header=len(repr(snapshot.header)),
        )  # fmt: skip


class Observer:
    def __init__(self, stream: Stream, name: str | None) -> None:
        self.subscription = stream.subscribe(self, name=name)
        self.subscription.start(0)

    def on_next(self, n: int, value: Any, /) -> None: ...

    def on_error(self, n: int, error: Exception, /) -> None:
        self.subscription.acknowledge(n)

    def on_completed(self, n: int, /) -> None: ...


def looked_at(stream: Stream) -> None:
    list(stream.read(0, 10))


READ: dict[str, Callable[[Stream], object]] = {
    "by nobody": repr,
    "once": looked_at,
    "by an observer": lambda stream: Observer(stream, None),
    "by a named observer": lambda stream: Observer(stream, "me"),
    "by a plain observer": lambda stream: stream.observable(0).subscribe(lambda value: None, lambda error: None),
}


@left_to_commits
@pytest.mark.parametrize("read", every(len(READ), READ, commits=1))
def test_what_is_gone_leaves_nothing_that_grows(read: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a thousand sessions as much is held as after five hundred: rows, streams, bytes, buffers, objects."""
    monkeypatch.setattr(retired, "NAMED_MAX", 40)
    monkeypatch.setattr(retired, "BUCKETS", 4)
    monkeypatch.setattr(flapping, "KEPT_MAX", 40)
    monkeypatch.setattr(logging.getLogger("reliable_rx"), "disabled", True)  # pytest keeps all records of a test
    host = Host()

    def sessions(first: int, count: int) -> None:
        for number in range(first, first + count, 10):
            host.play([f"session {n}" for n in range(number, number + 10)], read=READ[read])

    sessions(0, 300)
    before = host.held()
    sessions(300, 300)
    after = host.held()
    for what in before:
        assert after[what] <= before[what] * 1.1 + 30, (what, before, after)
    assert host.evaluator.engine.emitted("session 3") == 2 and host.evaluator.engine.emitted("session 3.late") == 0
    host.evaluator.checkpoint()  # what ends with one checkpoint is deleted with the next
    host.crash()
    assert host.evaluator.engine.emitted("session 3") == 2
    assert len(host.evaluator.streams.retired.kept) == KEEP.streams


NAMES = st.lists(st.integers(0, 60), max_size=120)


@given(names=NAMES, crash_after=st.integers(0, 120))
@examples(60)
def test_no_id_is_used_twice_whatever_was_packed(names: list[int], crash_after: int) -> None:
    """Names that come, go and come again, packed or not, over a crash: the ids of each go on where they were."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retired, "NAMED_MAX", 8)
        patch.setattr(retired, "BUCKETS", 3)
        host, expected = Host(), Counter[str]()
        for step, number in enumerate(names):
            name = f"q{number}"
            host.evaluator.create(name, rx.source("n").map(lambda n: n))
            assert host.evaluator.engine.emitted(name) == expected[name]
            host.evaluator.dispose(name)
            expected[name] += 1
            if step == crash_after:
                host.evaluator.checkpoint()
            if step == crash_after + 5:
                host.crash()
        assert {name: host.evaluator.engine.emitted(name) for name in expected} == dict(expected)


def test_a_million_names_are_sixteen_bytes_each() -> None:
    """What is kept of a name that is long gone: a hash and an id, in arrays."""
    bucket = retired.Bucket(0, 0)
    for number in range(10_000):
        bucket.put(retired.hash_of(f"session {number}"), 3)
    assert len(bucket.row[1]) + len(bucket.row[2]) == 16 * 10_000
    assert bucket.get(retired.hash_of("session 77")) == 3 and bucket.get(retired.hash_of("session x")) == 0


def kept(host: Host) -> list[str]:
    return [name for name in host.store.streams() if not name.endswith(".dead_letters")]


def test_the_newest_streams_stay_readable() -> None:
    """With their end, from memory or from the store, over a restart; who has an older one is told where it ends."""
    host = Host(retention=Retention(streams=2 * 3))
    old = None
    for number in range(6):
        host.play([f"q{number}"])
        old = old or host.evaluator.stream("q0")
    host.evaluator.checkpoint()
    for again in (False, True):
        if again:
            host.crash()
        assert kept(host) == ["q3", "q4", "q5"]
        for name in ("q3", "q4", "q5"):
            (part,) = host.evaluator.stream(name).read(0, 10)
            assert (list(part.values), part.ended) == ([6], True)
        (letter,) = next(host.evaluator.stream("q5.dead_letters").read(0, 10)).values
        assert isinstance(letter, DeadLetter)
        with pytest.raises(KeyError, match="q0"):
            host.evaluator.stream("q0")
    assert old is not None
    with pytest.raises(PositionUnavailable):
        list(old.read(0, 10))


def test_age_and_bytes_bound_them_too() -> None:
    """By age on the evaluator's clock, by bytes in the store."""
    host = Host(retention=Retention(age_s=100.0))
    host.play(["young"])
    host.now += 50
    host.play(["younger"])
    host.now += 60
    host.play(["youngest"])
    assert kept(host) == ["younger", "youngest"]
    host = Host(retention=Retention(bytes=1))
    host.play(["q"])
    host.evaluator.checkpoint()
    assert not host.store.streams()


def test_a_stream_that_is_read_stays() -> None:
    """A reader that is there keeps it, one that has gone does not; who has it and creates it anew reads on."""
    host = Host(retention=Retention(streams=0))
    host.evaluator.create("q", rx.source("n"))
    stream = host.evaluator.stream("q")
    stream.hold("me", 0)
    host.numbers.append(1)
    host.settle()
    host.evaluator.dispose("q")
    for _ in range(3):
        host.evaluator.checkpoint()
    assert kept(host) == ["q"]
    with pytest.raises(ValueError, match="'me'"):
        host.evaluator.forget("q")
    stream.acknowledge("me", 1)
    stream.release("me")
    host.evaluator.checkpoint()
    assert kept(host) == []
    host.evaluator.create("q", rx.source("n"))
    host.numbers.append(2)
    host.settle()
    assert host.evaluator.stream("q") is stream
    assert [list(part.values) for part in stream.read(2, 10)] == [[2]]


def test_a_stream_is_forgotten_when_asked() -> None:
    """At once and durably; not that of a query that is there, and not one that nobody knows."""
    host = Host()
    host.play(["q"])
    host.evaluator.create("there", rx.source("n"))
    with pytest.raises(ValueError, match="dispose"):
        host.evaluator.forget("there")
    with pytest.raises(KeyError, match="nobody"):
        host.evaluator.forget("nobody")
    host.evaluator.forget("q")
    assert kept(host) == []
    host.crash()
    assert kept(host) == [] and host.evaluator.engine.emitted("q") == 2


def test_a_checkpoint_that_fails_forgets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failed checkpoint would have deleted or freed is deleted or freed by the next one."""
    host = Host(retention=Retention(streams=0))
    commit = MemoryStore.commit

    def fails(self: MemoryStore, *args: Any, **options: Any) -> Any:
        raise StoreUnavailable("no disk")

    host.evaluator.create("q", rx.source("n"))
    host.numbers.append(1)
    host.settle()
    host.evaluator.dispose("q")
    for _ in range(2):
        monkeypatch.setattr(MemoryStore, "commit", fails)
        with pytest.raises(StoreUnavailable):
            host.evaluator.checkpoint()
        assert [value for part in host.evaluator.stream("q").read(0, 10) for value in part.values] == [1]
        monkeypatch.setattr(MemoryStore, "commit", commit)
        host.evaluator.checkpoint()
    assert kept(host) == []
