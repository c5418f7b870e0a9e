"""Readers, pushers, lookers, creators and disposers at one evaluator, under a scheduler that switches often.

Each reader keeps a ledger: ids are consecutive, and nothing is lost, doubled or put out of order. The number of
operations is bounded, nothing is timed, and whatever any thread raises is a failure.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import pytest
from conditions import until
from lanes import at_each_commit

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import Deliveries, QueryEvaluator, StreamSource
from hosting.edges.egress import Stream
from hosting.sources.pushed import PushedStream
from reliable_rx.errors import PositionUnavailable, ReliableRxError, TooLate

WAIT_S = 60.0


@contextmanager
def switching() -> Iterator[None]:
    """Have threads take turns after a few instructions each."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Crowd:
    """Threads that are all waited for, and what they raised."""

    def __init__(self) -> None:
        self.threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(self, act: Callable[[], Any]) -> None:
        def run() -> None:
            try:
                act()
            except BaseException as error:
                self.errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self.threads.append(thread)
        thread.start()

    def wait(self) -> None:
        until(lambda: self.errors or not any(thread.is_alive() for thread in self.threads), "the crowd")
        if self.errors:
            raise self.errors[0]


def start_pushers(crowd: Crowd, pushed: PushedStream, *, pushers: int, count: int) -> None:
    """Push from several threads at once; the last one to be done ends the input."""
    left = threading.Semaphore(0)

    def push(pusher: int) -> None:
        for number in range(count):
            pushed.on_next((pusher, number))
        left.release()

    def finish() -> None:
        for _ in range(pushers):
            left.acquire()
        pushed.on_completed()

    for pusher in range(pushers):
        crowd.start(partial(push, pusher))
    crowd.start(finish)


class Ledger:
    """What one reader has seen of a stream: ids one after the other, and what each thread pushed in its order."""

    def __init__(self, pushers: int, count: int) -> None:
        self.next: list[int] = [0] * pushers
        self.position, self.count = 0, count
        self.ended = False

    def take(self, first: int, values: Any) -> None:
        assert first == self.position, f"id {first} follows {self.position}"
        for pusher, number in values:
            assert number == self.next[pusher], f"{pusher} pushed {number} behind {self.next[pusher] - 1}"
            self.next[pusher] += 1
        self.position += len(values)

    def deliver(self, records: Any, after: int, /) -> None:
        for n, value in records:
            self.take(n, [value])

    def end(self, n: int, error: Exception | None, /) -> None:
        assert n == self.position and error is None
        self.ended = True

    def check(self) -> None:
        assert self.ended and self.next == [self.count] * len(self.next)


def read_all(stream: Stream, ledger: Ledger, holder: str | None) -> None:
    """Read *stream* to its end; as a *holder* nothing is missing, else what is gone is said to be."""
    news = threading.Event()
    with stream.lock:  # else what was visible may have been forgotten when it is opened
        bell = StreamSource(stream, subscriber=None).open("0", stream.visible)
    bell.on_available(news.set)
    while not ledger.ended:
        news.clear()
        before = ledger.position
        try:
            for part in stream.read(ledger.position, 100):
                ledger.take(part.first, part.values)
                os.sched_yield()  # so that others forget, between two parts, what lies behind
                if holder is not None:
                    stream.acknowledge(holder, ledger.position - 1)
                if part.ended:
                    ledger.end(part.next - 1, part.error)
        except PositionUnavailable as gone:
            assert holder is None, "what was held is gone"
            assert gone.first > ledger.position
            return
        if ledger.position == before and not ledger.ended:
            assert news.wait(WAIT_S)
    bell.close()


def come_and_go(evaluator: QueryEvaluator, name: str, count: int) -> None:
    """Create a query and dispose of it, again and again; each life ends its stream with an id."""
    for life in range(count):
        evaluator.create(name, rx.source("pushed").map(second))
        evaluator.query(name)
        evaluator.dispose(name)
        stream = evaluator.stream(name)
        (*_, last) = stream.read(max(stream.first, stream.next_id - 1), 10)
        assert last.ended and stream.next_id > life


def second(pair: tuple[int, int]) -> int:
    return pair[1]


def look(evaluator: QueryEvaluator, count: int) -> None:
    turns = -1
    for _ in range(count):
        figures = evaluator.statistics()
        assert figures.turns >= turns and figures.events_out >= 0
        turns = figures.turns
        assert set(evaluator.queries()) >= {"all"}
        assert evaluator.query("all").emitted >= 0


SIZES = [(2, 150, 8), at_each_commit((3, 2000, 80))]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_crowd_at_one_evaluator(size: tuple[int, int, int]) -> None:
    """Whoever pushes, reads, looks, creates and disposes when: every ledger is 0/0/0, and nobody raises."""
    pushers, count, lives = size
    crowd = Crowd()
    with switching(), QueryEvaluator(
        MemoryStore(), batch_events_max=2, retain_events=3, checkpoint_interval_s=1e-6, buffer_events_max=50
    ) as evaluator:  # fmt: skip
        pushed = evaluator.push("pushed")
        evaluator.create("all", rx.source("pushed"))
        stream = evaluator.stream("all")
        ledgers = [Ledger(pushers, count) for _ in range(5)]
        holders = ["first", "second"]
        for holder in holders:
            stream.hold(holder, 0)
        deliveries = Deliveries()
        subscription = deliveries.subscribe("all", ledgers[2], name="third", at=0)
        deliveries.offer("all", stream)
        evaluator.start()
        crowd.start(evaluator.run)
        start_pushers(crowd, pushed, pushers=pushers, count=count)
        for ledger, holder in zip(ledgers, holders, strict=False):
            crowd.start(partial(read_all, stream, ledger, holder))
        for ledger in ledgers[3:]:
            crowd.start(partial(read_all, stream, ledger, None))
        crowd.start(lambda: look(evaluator, lives * 5))
        for name in ("x", "y"):
            crowd.start(partial(come_and_go, evaluator, name, lives))
        until(lambda: subscription.status == "ended" or crowd.errors, "the end of the stream")
        crowd.wait()
        deliveries.close()
        for ledger in ledgers[:3]:
            ledger.check()


class Idle:
    """An observer that takes everything and notes nothing."""

    def on_next(self, n: int, value: Any, /) -> None: ...

    def on_error(self, n: int, error: Exception, /) -> None: ...

    def on_completed(self, n: int, /) -> None: ...


def forget_and_restart(evaluator: QueryEvaluator, count: int) -> None:
    """Have queries fail and run again, and streams of queries that are gone forgotten."""
    for life in range(count):
        evaluator.create(f"gone {life}", rx.source("pushed").map(second))
        evaluator.dispose(f"gone {life}")
        with suppress(ReliableRxError, ValueError):  # it may be too early for that
            evaluator.forget(f"gone {life}")
        with suppress(ReliableRxError, ValueError):  # it may not have failed yet
            evaluator.restart("fails")
        evaluator.checkpoint(full=life % 2 == 0)


def hold_and_let_go(stream: Stream, count: int) -> None:
    """Hold a stream, subscribe to it, detach, come again, and let go."""
    for life in range(count):
        name = f"passing {life % 3}"
        stream.hold(name, stream.next_id)
        stream.release(name)
        subscription = stream.subscribe(Idle(), name="detaches")
        subscription.start(stream.visible)
        subscription.detach()
    stream.release("detaches")


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_evaluators_that_read_each_other_and_are_closed_from_elsewhere(size: tuple[int, int, int]) -> None:
    """While queries fail, restart, are forgotten and checkpointed, two evaluators in a row lose and double nothing."""
    pushers, count, lives = size
    crowd = Crowd()
    first = QueryEvaluator(MemoryStore(), batch_events_max=2, checkpoint_interval_s=1e-6, buffer_events_max=200)
    next_ = QueryEvaluator(MemoryStore(), batch_events_max=3, checkpoint_interval_s=1e-6, buffer_events_max=200)
    with switching():
        pushed = first.push("pushed")
        first.create("all", rx.source("pushed"))
        first.create("fails", rx.source("pushed").map(fails_sometimes))
        stream = first.stream("all")
        ledgers = [Ledger(pushers, count) for _ in range(2)]
        stream.hold("reader", 0)
        first.start()
        next_.source("all", StreamSource(stream, subscriber="the next one"))
        next_.create("again", rx.source("all"))
        again = next_.stream("again")
        again.hold("reader", 0)
        next_.start()
        crowd.start(first.run)
        crowd.start(next_.run)
        start_pushers(crowd, pushed, pushers=pushers, count=count)
        crowd.start(partial(read_all, stream, ledgers[0], "reader"))
        crowd.start(partial(read_all, again, ledgers[1], "reader"))
        crowd.start(lambda: forget_and_restart(first, lives))
        crowd.start(lambda: hold_and_let_go(stream, lives * 3))
        crowd.start(lambda: look(first, lives * 3))
        crowd.wait()
        closers = Crowd()
        for each in (first, next_, first, next_):  # by several at once, none of whom made them
            closers.start(each.close)
        closers.wait()
    for ledger in ledgers:
        ledger.check()


def fails_sometimes(pair: tuple[int, int]) -> int:
    if pair[1] % 7 == 3:
        raise ValueError("made by a test")
    return pair[1]


def test_nobody_takes_a_turn_between_the_last_checkpoint_and_the_end() -> None:
    """To leave ``with`` is a clean stop, whatever other threads create and dispose of: no turn is left to replay."""
    for _ in range(40):
        store, crowd, begun = MemoryStore(), Crowd(), threading.Event()

        def change(evaluator: QueryEvaluator, begun: threading.Event) -> None:
            with suppress(TooLate):
                while True:
                    evaluator.create("q", rx.source("n"))
                    begun.set()
                    evaluator.dispose("q")

        with switching():
            with QueryEvaluator(store) as evaluator:
                evaluator.push("n")
                evaluator.start()
                crowd.start(partial(change, evaluator, begun))
                until(begun.is_set, "a query")
            crowd.wait()
        found = store.reopen().recover()
        assert found is not None and found.turn == store.journal.last_turn


def test_who_leaves_while_another_thread_closes_has_nothing_left_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one may be done between his look and the lock; his end is no error of the block that he leaves."""
    store = MemoryStore()
    with QueryEvaluator(store) as evaluator:
        evaluator.push("n")
        evaluator.start()
        real = evaluator.lock

        class ClosedMeanwhile:
            """The lock, which he gets when the other one has been there."""

            def __enter__(self) -> None:
                monkeypatch.setattr(evaluator, "lock", real)
                evaluator.close()
                real.__enter__()

            def __exit__(self, *given: Any) -> None:
                real.__exit__(*given)

        monkeypatch.setattr(evaluator, "lock", ClosedMeanwhile())
    assert evaluator.closed and store.reopen().recover() is None


def test_a_query_is_created_while_another_thread_changes_what_its_function_holds() -> None:
    """A cache of rates that is refreshed all the while: each creation and each start looks into it, and none raises."""
    rates, crowd, ends = {n: n for n in range(30)}, Crowd(), threading.Event()

    def refresh() -> None:
        nonlocal rates
        while not ends.is_set():
            for n in range(60):
                rates |= {n: n}
            rates.clear()

    with switching():
        crowd.start(refresh)
        try:
            for _ in range(60):
                with QueryEvaluator(MemoryStore(), background=False) as evaluator:
                    evaluator.push("n")
                    evaluator.create("q", rx.source("n").map(lambda n: rates.get(n, 0)))
                    evaluator.start()
        finally:
            ends.set()
    crowd.wait()
    assert not crowd.errors
