"""One source, fetched once, read by several, against an unbounded list."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, multiple, rule
from lanes import examples

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import GeneratorSource, ListSource, QueryEvaluator, SharedSource
from hosting.sources.shared_partition import SharedReader
from reliable_rx import operators as ops
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.reliable import Batch, Bounded, Reader
from reliable_rx.testing import check_source


class Log:
    """A log that grows, has gaps, keeps what is not acknowledged, and counts who fetches what of it."""

    def __init__(self) -> None:
        self.events: dict[int, str] = {}
        self.end = 0
        self.first = 0
        self.acknowledged: list[int] = []
        self.opened = 0
        self.fetched: list[int] = []

    def add(self, values: str, gap: int = 0) -> None:
        self.end += gap
        for value in values:
            self.events[self.end] = value
            self.end += 1

    def partitions(self) -> list[str]:
        return ["0"]

    def bounds(self, partition: str) -> tuple[int, int]:
        return self.first, self.end

    def open(self, partition: str, at: int, /) -> Reader:
        if not self.first <= at <= self.end:
            raise PositionUnavailable("gone", wanted=at, first=self.first, end=self.end)
        self.opened += 1
        return LogReader(self, at)


class LogReader:
    def __init__(self, log: Log, at: int) -> None:
        self.log, self.position = log, at
        self.closed = False

    def fetch(self, count_max: int, /) -> Batch:
        assert not self.closed
        start, log = self.position, self.log
        assert start >= log.first, "what is wanted has been acknowledged"
        there = [n for n in sorted(log.events) if n >= start]
        run = [n for index, n in enumerate(there) if n == there[0] + index][: max(0, count_max)]
        log.fetched += run
        first = run[0] if run else start if count_max <= 0 else log.end
        self.position = first + len(run)
        return Batch(first, [log.events[n] for n in run], skipped=first - start)

    def acknowledge(self, n: int, /) -> None:
        self.log.acknowledged.append(n)
        self.log.first = max(self.log.first, n + 1)

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class Sharing(RuleBasedStateMachine):
    """S12: whoever reads a shared source (late, in the past, slowly, one stream of it) gets exactly what a list without
    bounds would give: no loss, no duplicate, no jump; and what not all have acknowledged is not acknowledged."""

    readers = Bundle("readers")
    lag = "detach"

    @initialize()
    def begin(self) -> None:
        self.log = Log()
        self.shared = SharedSource(self.log, events_max=12, lag=self.lag, stream_of=str)  # type: ignore[arg-type]
        self.live: dict[SharedReader, str | None] = {}
        self.acknowledged: dict[str, int] = {}
        self.told = [-1]
        self.numbers = 0

    @rule(values=st.text("ab", max_size=8), gap=st.sampled_from((0, 0, 0, 2, 30)))
    def add(self, values: str, gap: int) -> None:
        self.log.add(values, gap)

    @rule(target=readers, back=st.integers(0, 40), stream=st.sampled_from((None, None, "a", "b")), named=st.booleans())
    def open(self, back: int, stream: str | None, named: bool) -> Any:
        at = self.log.end - back
        self.numbers += 1
        name = f"name {self.numbers}" if named else None
        view: Any = self.shared
        if stream is not None:
            view = self.shared.stream(stream, name=name)
        elif name is not None:
            view = self.shared.named(name)
        if name is not None:
            self.acknowledged[name] = -1
        try:
            reader = view.open("0", at)
        except PositionUnavailable as miss:
            assert (miss.wanted, miss.first, miss.end) == (at, self.log.first, self.log.end)
            assert at < self.log.first
            return multiple()
        self.live[reader] = stream
        self.acknowledged[reader.name] = at - 1
        return reader

    @rule(reader=readers, count_max=st.integers(0, 15))
    def fetch(self, reader: SharedReader, count_max: int) -> None:
        if reader not in self.live:
            return
        start = reader.position
        batch = reader.fetch(count_max)
        stream = self.live[reader]
        assert batch.first - batch.skipped == start
        passed = {n: v for n, v in self.log.events.items() if start <= n < batch.first and stream in (None, v)}
        assert not passed, "nothing is skipped that this reader wants"
        assert list(batch.values) == [self.log.events[n] for n in range(batch.first, batch.next)]
        assert all(stream in (None, value) for value in batch.values)
        assert len(batch.values) <= count_max and reader.position == batch.next
        cache = self.shared.partition("0").cache
        assert cache is not None and cache.held <= 12

    @rule(reader=readers, part=st.floats(0, 1))
    def acknowledge(self, reader: SharedReader, part: float) -> None:
        if reader not in self.live or not reader.position:
            return
        n = int(part * (reader.position - 1))
        reader.acknowledge(n)
        self.acknowledged[reader.name] = max(n, self.acknowledged[reader.name])
        least = min(self.acknowledged.values())
        if least > self.told[-1]:
            self.told.append(least)
        assert self.log.acknowledged == self.told[1:], "the source is told the least of all, and never less than before"

    @rule(reader=consumes(readers))
    def close(self, reader: SharedReader) -> None:
        if reader in self.live:
            del self.live[reader]
            reader.close()
            if not reader.name.startswith("name"):
                del self.acknowledged[reader.name]

    @rule()
    def release(self) -> None:
        """Names that are not open count no longer once they are released."""
        for name in set(self.acknowledged) - {reader.name for reader in self.live}:
            self.shared.release(name)
            del self.acknowledged[name]

    def teardown(self) -> None:
        """Everybody gets everything in the end; then the source is closed with the last of them."""
        if not hasattr(self, "live"):
            return
        for _ in range(1000):
            if all(reader.position >= self.log.end for reader in self.live):
                break
            for reader in list(self.live):
                if reader.position < self.log.end:
                    self.fetch(reader, 5)
        assert all(reader.position == self.log.end for reader in self.live)
        for reader in self.live:
            reader.close()
        assert self.shared.partition("0").cache is None


class Waiting(Sharing):
    """The same with a slow reader holding up the others: they wait, and nobody ever reads apart what the cache has."""

    lag = "slow"


SETTINGS = examples(25, stateful_step_count=40)
TestDetach, TestSlow = Sharing.TestCase, Waiting.TestCase
TestDetach.settings = TestSlow.settings = SETTINGS


def drain(reader: Reader, count_max: int = 7) -> list[Any]:
    values: list[Any] = []
    while (batch := reader.fetch(count_max)).values:
        values += batch.values
    return values


def test_a_shared_source_is_a_source() -> None:
    """The suite for sources holds, with either way to treat the slow."""
    check_source(lambda: SharedSource(ListSource(list(range(300))), events_max=64))
    check_source(lambda: SharedSource(GeneratorSource(lambda i, random: i, count=300, partitions=3), lag="detach"))


def test_the_source_is_fetched_once() -> None:
    """Ten readers in step make the source give each event once, over one open reader."""
    log = Log()
    log.add("x" * 500)
    shared = SharedSource(log, events_max=100)
    readers = [shared.open("0", 0) for _ in range(10)]
    seen = [0] * 10
    while any(each < 500 for each in seen):
        for index, reader in enumerate(readers):
            seen[index] += len(reader.fetch(20).values)
    assert log.fetched == list(range(500))
    assert log.opened == 1


def test_slow_holds_up_and_goes_on_at_seventy_percent() -> None:
    """O37: at 90 % of the limit nobody fetches; the others are woken and go on when the slow one is down to 70 %."""
    log = Log()
    log.add("x" * 1000)
    shared = SharedSource(log, events_max=160)
    slow, fast = shared.open("0", 0), shared.open("0", 0)
    woken: list[int] = []
    fast.on_available(lambda: woken.append(1))
    held = len(drain(fast))
    assert 144 <= held <= 160
    assert fast.fetch(10).coming, "more is there, and is on its way when somebody else has moved"
    woken.clear()
    slow.fetch(held - 120)
    assert not woken and not fast.fetch(10).values
    slow.fetch(20)
    assert woken and fast.fetch(10).values


def test_detach_lets_the_others_go_on() -> None:
    """O30: a reader that does nothing is put on a reader of its own, and still gets everything, in order, later."""
    log = Log()
    log.add("abcdefghij" * 100)
    shared = SharedSource(log, events_max=32, lag="detach")
    stuck, fast = shared.open("0", 0), shared.open("0", 0)
    first = list(stuck.fetch(3).values)
    assert drain(fast) == list("abcdefghij" * 100)
    assert first + drain(stuck) == list("abcdefghij" * 100)
    assert log.opened == 2 and stuck.cursor is not None, "it has caught up and joined again"


def test_a_reader_of_its_own_may_need_a_source_of_its_own() -> None:
    """A source that opens a partition once only is given another one for those who read apart."""

    class Once(Log):
        def open(self, partition: str, at: int, /) -> Reader:
            if self.opened:
                raise SourceFailed("open already")
            return super().open(partition, at)

    logs = [Once(), Once()]
    for log in logs:
        log.add("abc" * 100)
    shared = SharedSource(logs[0], events_max=16, lag="detach", apart=lambda: logs[1])
    fast = shared.open("0", 200)
    past = shared.open("0", 100)
    assert drain(fast) == list("abc" * 100)[200:]
    assert drain(past) == list("abc" * 100)[100:]
    assert [log.opened for log in logs] == [1, 1]


def test_names_count_while_they_are_closed() -> None:
    """What a named reader has not acknowledged stays in the source, before its first opening and after its closing."""
    log = Log()
    log.add("x" * 100)
    shared = SharedSource(log)
    audit = shared.named("audit")
    live = shared.open("0", 0)
    drain(live)
    live.acknowledge(80)
    assert log.acknowledged == []
    reader = audit.open("0", 0)
    drain(reader)
    reader.acknowledge(30)
    reader.close()
    live.acknowledge(90)
    assert log.acknowledged == [30]
    shared.release("audit")
    live.acknowledge(91)
    assert log.acknowledged == [30, 91]


def test_an_event_after_open_returned_is_delivered() -> None:
    """S11: whoever opens at the end gets the next event, and none before it."""
    log = Log()
    log.add("before")
    shared = SharedSource(log)
    other = shared.open("0", 0)
    assert isinstance(shared, Bounded)
    reader = shared.open("0", shared.bounds("0")[1])
    log.add("!")
    assert drain(other) == list("before!")
    assert drain(reader) == ["!"]


def test_a_new_stream_is_pinned_while_it_is_told_of() -> None:
    """S11: the event with which a stream begins is there for whoever is told of the stream, even under pressure."""
    log = Log()
    shared = SharedSource(log, events_max=16, stream_of=str)
    opened: dict[str, list[SharedReader]] = {}

    def told(partition: str, stream: str, n: int) -> None:
        opened.setdefault(stream, []).append(shared.stream(stream).open(partition, n))

    shared.watch(told)
    pump = shared.open("0", 0)
    log.add("aabac")
    assert drain(pump, 2) == list("aabac")
    assert {stream: [drain(reader) for reader in readers] for stream, readers in opened.items()} == {
        "a": [["a", "a", "a"]], "b": [["b"]], "c": [["c"]]
    }  # fmt: skip


@pytest.mark.parametrize("lag", ["slow", "detach"])
def test_several_evaluators_at_once(lag: Any) -> None:
    """Three evaluators in threads of their own over one source of two partitions each see all of it, in order."""
    shared = SharedSource(GeneratorSource(lambda i, random: i, count=3000, partitions=2), events_max=256, lag=lag)
    evaluators = [QueryEvaluator(MemoryStore(), checkpoint_events=500) for _ in range(3)]
    for number, evaluator in enumerate(evaluators):
        evaluator.source("n", shared.named(f"evaluator {number}"))
        evaluator.create("sums", rx.source("n").pipe(ops.sum()))
    run_all([evaluator.run for evaluator in evaluators])
    for evaluator in evaluators:
        assert [v for part in evaluator.stream("sums").read(0, 10) for v in part.values] == [2 * sum(range(3000))]
        evaluator.close()
    assert not shared.partition("0").readers


def run_all(actions: list[Callable[[], Any]]) -> None:
    failures: list[BaseException] = []

    def run(action: Callable[[], Any]) -> None:
        try:
            action()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(action,)) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_misuse_is_refused() -> None:
    """Words that mean nothing, a name that is open twice, streams without `stream_of`."""
    with pytest.raises(ValueError, match="lag must be one of slow, detach"):
        SharedSource(ListSource([1]), lag="quick")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="events_max is 0"):
        SharedSource(ListSource([1]), events_max=0)
    shared = SharedSource(ListSource([1]))
    with pytest.raises(ValueError, match="stream_of"):
        shared.stream("a")
    view = shared.named("me")
    view.open("0", 0)
    with pytest.raises(ValueError, match="close that reader first"):
        view.open("0", 0)


def test_one_fetches_at_a_time() -> None:
    """Another is not kept waiting: it is told that there may be more, and woken when the first is done."""
    source = SharedSource(ListSource([1, 2, 3]))
    reader = source.open("0", 0)
    partition, found = source._partitions["0"], []
    partition.fetching.acquire()
    thread = threading.Thread(target=lambda: found.append(partition.fetch(10)))
    thread.start()
    thread.join(60)
    refused = list(found), partition.refused
    partition.fetching.release()
    thread.join()
    reader.close()
    assert refused == ([True], True)
