"""Deliveries: consumers at their own pace, and what becomes of those that are slow, stuck, wrong or not there yet."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from lanes import at_each_commit, examples

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import ListSource, QueryEvaluator, SharedSource
from hosting.subscriptions.consumers import Delivering, Record, Resume, Retry, Verdict
from hosting.subscriptions.manager import Deliveries
from hosting.subscriptions.subscription import Subscription
from reliable_rx.errors import PositionUnavailable, SourceFailed
from reliable_rx.reliable import Batch, DeadLetter, Reader


class Hands:
    """A crew without threads, on a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: dict[Job, float] = {}

    def clock(self) -> float:
        return self.now

    def task(self, step: Callable[[], float | None]) -> Job:
        return Job(self, step)

    def turn(self, pick: int = 0) -> bool:
        """Run one task that is due; return whether there was one."""
        ready = [job for job, due in self.due.items() if due <= self.now]
        if not ready:
            return False
        job = ready[pick % len(ready)]
        del self.due[job]
        pause_s = job.step()
        if pause_s is not None and pause_s >= 0 and job not in self.due:
            self.due[job] = self.now + pause_s
        return True

    def run(self, for_s: float = 0.0) -> None:
        """Run what is due until nothing moves any more, for so long on the clock."""
        end = self.now + for_s
        for _ in range(100_000):
            while self.turn():
                pass
            if not self.due or min(self.due.values()) > end:
                break
            self.now = min(self.due.values())
        self.now = max(self.now, end)


class Job:
    def __init__(self, hands: Hands, step: Callable[[], float | None]) -> None:
        self.hands, self.step = hands, step

    def wake(self) -> None:
        self.hands.due[self] = 0.0


class Growing:
    """A list of events that grows, and wakes its readers."""

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self.values = list(values)
        self.wakers: list[Callable[[], None]] = []
        self.acknowledged = -1

    def add(self, *values: Any) -> None:
        self.values += values
        for wake in list(self.wakers):
            wake()

    def partitions(self) -> list[str]:
        return ["0"]

    def bounds(self, partition: str, /) -> tuple[int, int]:
        return 0, len(self.values)

    def open(self, partition: str, at: int, /) -> Reader:
        if not 0 <= at <= len(self.values):
            raise PositionUnavailable("not there", wanted=at, first=0, end=len(self.values))
        return GrowingReader(self, at)


class GrowingReader:
    def __init__(self, source: Growing, at: int) -> None:
        self.source, self.position = source, at
        self.wake: Callable[[], None] | None = None

    def fetch(self, count_max: int, /) -> Batch:
        first = self.position
        values = self.source.values[first : first + max(0, count_max)]
        self.position += len(values)
        return Batch(first, values)

    def acknowledge(self, n: int, /) -> None:
        self.source.acknowledged = max(n, self.source.acknowledged)

    def on_available(self, wake: Callable[[], None], /) -> None:
        self.source.wakers.append(wake)
        self.wake = wake

    def close(self) -> None:
        if self.wake is not None:
            self.source.wakers.remove(self.wake)


class Taker:
    """A consumer that remembers what it had, and is made to fail by a function."""

    def __init__(self, fails: Callable[[int], bool] = lambda n: False) -> None:
        self.records: list[Record] = []
        self.afters: list[int] = []
        self.sizes: list[int] = []
        self.ends: list[tuple[int, Exception | None]] = []
        self.told: list[Exception] = []
        self.fails = fails

    def deliver(self, records: Sequence[Record], after: int, /) -> Resume | None:
        self.afters.append(after)
        self.sizes.append(len(records))
        for n, _ in records:
            if self.fails(n):
                raise ValueError(f"cannot take {n}")
        self.records += records
        return None

    def end(self, n: int, error: Exception | None, /) -> None:
        self.ends.append((n, error))

    def failed(self, error: Exception, /) -> None:
        self.told.append(error)

    @property
    def ids(self) -> list[int]:
        return [n for n, _ in self.records]


class Keeper(Taker):
    """A consumer that knows where it is, and does nothing with what does not follow."""

    def __init__(self, last: int, *, inclusive: bool, ask: bool = True) -> None:
        super().__init__()
        self.last, self.inclusive, self.ask = last, inclusive, ask
        self.refused = 0

    def where(self) -> Resume:
        return Resume(self.last + 1, True) if self.inclusive else Resume(self.last, False)

    def resume(self) -> Resume | None:
        return self.where() if self.ask else None

    def deliver(self, records: Sequence[Record], after: int, /) -> Resume | None:
        if after != self.last:
            self.refused += 1
            return self.where()
        self.last = records[-1][0]
        return super().deliver(records, after)


def delivering_to(
    consumer: Any, source: Any, at: int = 0, hands: Hands | None = None, **options: Any
) -> tuple[Subscription, Hands]:
    hands = hands or Hands()
    deliveries = Deliveries(crew=hands, clock=hands.clock, draw=lambda: 0.5)  # type: ignore[arg-type]
    subscription = deliveries.subscribe("s", consumer, name="me", at=at, delivering=Delivering(**options))
    deliveries.offer("s", source)
    return subscription, hands


# -- the handshake


@pytest.mark.parametrize("inclusive", [True, False])
@pytest.mark.parametrize("ask", [True, False])
@pytest.mark.parametrize("last", [-1, 0, 4, 9])
def test_a_consumer_says_where_it_is(last: int, ask: bool, inclusive: bool) -> None:
    """S7: after a resume, asked for or in answer to a delivery, it gets exactly what follows, with either flag."""
    keeper = Keeper(last, inclusive=inclusive, ask=ask)
    _, hands = delivering_to(keeper, Growing("abcdefghij"), at=5, batch=3)
    hands.run()
    assert keeper.ids == list(range(last + 1, 10))
    assert keeper.refused == (0 if ask or last == 4 else 1)


@given(
    jumps=st.lists(st.tuples(st.integers(0, 19), st.integers(-1, 19), st.booleans()), max_size=4),
    batch=st.integers(1, 7),
)
@examples(40)
def test_order_with_jumps(jumps: list[tuple[int, int, bool]], batch: int) -> None:
    """S7: ids only grow, except right behind a resume, and then begin exactly where it says, with either flag."""
    keeper = Keeper(-1, inclusive=False)
    source = Growing(range(20))
    _, hands = delivering_to(keeper, source, batch=batch)
    for when, last, inclusive in jumps:
        while keeper.last < when and hands.turn():
            pass
        seen = len(keeper.records)
        keeper.last, keeper.inclusive = last, inclusive
        hands.run()
        source.add("more")
        hands.run()
        assert keeper.ids[seen:] == list(range(last + 1, len(source.values)))


def test_a_consumer_that_never_agrees_is_stopped() -> None:
    """One that answers the same again, though it was given just that, is retried and then stopped: no endless loop."""

    class Stubborn(Taker):
        def deliver(self, records: Sequence[Record], after: int, /) -> Resume | None:
            super().deliver(records, after)
            return Resume(2, True)

    consumer = Stubborn()
    subscription, hands = delivering_to(consumer, Growing("abc"))
    hands.run(for_s=100.0)
    assert subscription.status == "stopped" and "says so again" in str(subscription.error)
    assert len(consumer.sizes) < 30


# -- failing


def test_retries_and_their_pauses() -> None:
    """20 ms, five times as long each time, at most 5 s, within a minute; then the verdict, which is to stop."""
    times: list[float] = []
    hands = Hands()

    def fails(n: int) -> bool:
        times.append(hands.now)
        return True

    consumer = Taker(fails)
    subscription, _ = delivering_to(consumer, Growing("a"), hands=hands)
    hands.run(for_s=200.0)
    pauses = [round(b - a, 3) for a, b in itertools.pairwise(times)]
    assert pauses[:5] == [0.02, 0.1, 0.5, 2.5, 5.0] and set(pauses[5:]) == {5.0}
    assert 55.0 <= times[-1] <= 60.0
    assert subscription.status == "stopped" and len(consumer.told) == 1


@given(st.floats(0, 1), st.integers(1, 50))
@examples(50)
def test_jitter(drawn: float, attempt: int) -> None:
    """Each pause is within a quarter of its middle."""
    retry, middle = Retry(), Retry(jitter=0.0)
    assert abs(retry.pause_s(attempt, drawn) / middle.pause_s(attempt, 0.0) - 1) <= 0.25 + 1e-9


def test_a_failure_that_passes_loses_and_doubles_nothing() -> None:
    """A consumer that recovers gets the batch it could not take, and everything behind it."""
    tries: dict[int, int] = {}

    def fails(n: int) -> bool:
        tries[n] = tries.get(n, 0) + 1
        return n == 7 and tries[n] < 4

    consumer = Taker(fails)
    _, hands = delivering_to(consumer, Growing(range(20)), batch=5)
    hands.run(for_s=60.0)
    assert consumer.ids == list(range(20))


@pytest.mark.parametrize("verdict", list(Verdict))
def test_verdicts(verdict: Verdict) -> None:
    """Exactly the event that cannot be taken is skipped, parked, or stops the subscription; its neighbours arrive."""
    letters: list[DeadLetter] = []
    consumer = Taker(lambda n: n == 7)
    source = Growing(range(20))
    park = letters.append if verdict is Verdict.PARK else None
    subscription, hands = delivering_to(consumer, source, batch=10, verdict=verdict, park=park)
    hands.run(for_s=100.0)
    goes_on = verdict in (Verdict.SKIP, Verdict.PARK)
    assert consumer.ids == [n for n in range(20) if n != 7 and (goes_on or n < 7)]
    assert subscription.status == {Verdict.STOP: "stopped", Verdict.FAULT: "faulted"}.get(verdict, "live")
    assert [(letter.position, letter.value) for letter in letters] == ([(7, 7)] if verdict is Verdict.PARK else [])
    assert source.acknowledged == (19 if goes_on else 6)
    if not goes_on:
        consumer.fails = lambda n: False
        subscription.start()
        hands.run()
        assert consumer.ids == list(range(20)), "once it is started again it has all"


def test_what_cannot_be_parked_is_kept() -> None:
    """Nothing is passed over while dead letters cannot be put aside; it goes on when they can."""
    broken = [True]
    letters: list[DeadLetter] = []

    def park(letter: DeadLetter) -> None:
        if broken[0]:
            raise OSError("the disk is full")
        letters.append(letter)

    consumer = Taker(lambda n: n == 1)
    _, hands = delivering_to(consumer, Growing("abc"), verdict=Verdict.PARK, park=park)
    hands.run(for_s=200.0)
    assert consumer.ids == [0] and not letters
    broken[0] = False
    hands.run(for_s=20.0)
    assert consumer.ids == [0, 2] and len(letters) == 1


def test_a_filter_that_raises_delivers() -> None:
    """What the filter drops is done with; where it raises, the consumer decides."""
    consumer, source = Taker(), Growing([1, 0, 2, "x", 3])
    _, hands = delivering_to(consumer, source, keep=lambda value: value % 2 == 1)
    hands.run()
    assert [value for _, value in consumer.records] == [1, "x", 3]
    assert source.acknowledged == 4


def test_the_end_is_delivered_behind_everything() -> None:
    """A stream that ends says so once, with the id behind its last event."""
    consumer = Taker()
    subscription, hands = delivering_to(consumer, ListSource([*"abc"]), batch=2)
    hands.run()
    assert (consumer.ids, consumer.ends, consumer.sizes) == ([0, 1, 2], [(3, None)], [2, 1])
    assert subscription.status == "ended"


def test_a_source_that_has_forgotten_stops_loudly() -> None:
    """S12: nobody jumps over what is gone; the error has all positions."""
    subscription, hands = delivering_to(Taker(), Growing("abc"), at=7)
    hands.run()
    assert subscription.status == "stopped" and isinstance(subscription.error, PositionUnavailable)
    assert (subscription.error.wanted, subscription.error.first, subscription.error.end) == (7, 0, 3)


# -- many


@given(
    picks=st.lists(st.integers(0, 5), min_size=20, max_size=300),
    bad=st.sets(st.integers(0, 79), max_size=5),
    lag=st.sampled_from(("slow", "detach")),
)
@examples(40)
def test_three_consumers_do_not_change_each_other(picks: list[int], bad: set[int], lag: Any) -> None:
    """S10: beside a slow one and one that raises, a good one receives what it would alone, in the same order."""
    hands = Hands()
    shared = SharedSource(Growing(range(80)), events_max=16, lag=lag)
    deliveries = Deliveries(crew=hands, clock=hands.clock, draw=lambda: 0.5)  # type: ignore[arg-type]
    good, slow, raising = Taker(), Taker(), Taker(lambda n: n in bad)
    for name, consumer, batch in (("good", good, 7), ("slow", slow, 1), ("raising", raising, 5)):
        options = Delivering(batch=batch, verdict=Verdict.SKIP)
        deliveries.subscribe("s", consumer, name=name, at=0, delivering=options)
    deliveries.offer("s", shared)
    for pick in picks:
        hands.turn(pick)
    hands.run(for_s=1000.0)
    assert good.ids == slow.ids == list(range(80))
    assert raising.ids == [n for n in range(80) if n not in bad]


@pytest.mark.parametrize("lag", [at_each_commit("slow"), "detach"])
def test_a_stuck_consumer_costs_the_others_nothing(lag: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """S10: two of four consumers never return, on a crew of one thread; the others get everything all the same."""
    monkeypatch.setattr("hosting.subscriptions.manager.STUCK_S", 0.1)
    release = threading.Event()

    class Stuck(Taker):
        def deliver(self, records: Sequence[Record], after: int, /) -> Resume | None:
            release.wait(60)
            return super().deliver(records, after)

    events_max = 100_000 if lag == "slow" else 64
    shared = SharedSource(ListSource(range(2000), follow=True), events_max=events_max, lag=lag)
    deliveries = Deliveries(threads=1)
    stuck, good = [Stuck(), Stuck()], [Taker(), Taker()]
    for number, consumer in enumerate([*stuck, *good]):
        deliveries.subscribe("s", consumer, name=str(number), at=0)
    deliveries.offer("s", shared)
    assert deliveries.wait(lambda: all(len(each.records) == 2000 for each in good), timeout_s=30)
    assert all(each.ids == list(range(2000)) for each in good) and not any(each.records for each in stuck)
    release.set()
    assert deliveries.wait(lambda: all(len(each.records) == 2000 for each in stuck), timeout_s=30)
    assert all(each.ids == list(range(2000)) for each in stuck)
    deliveries.close()


def test_a_consumer_has_one_batch_at_a_time() -> None:
    """O34: while it has a batch it is given no other, however many threads there are and however often they are woken;
    and no batch is larger than was said."""
    source, overlaps = Growing("a"), list[int]()

    class Alone(Taker):
        at_work = threading.Lock()

        def deliver(self, records: Sequence[Record], after: int, /) -> Resume | None:
            if not self.at_work.acquire(blocking=False):
                overlaps.append(after)
            for number in range(40 if len(source.values) < 1000 else 0):
                source.add(str(number))
                subscription.wake()
            super().deliver(records, after)
            self.at_work.release()
            return None

    deliveries, consumer = Deliveries(threads=4), Alone()
    subscription = deliveries.subscribe("s", consumer, name="me", at=0, delivering=Delivering(batch=7))
    deliveries.offer("s", source)
    assert deliveries.wait(lambda: len(consumer.records) == len(source.values) > 1000, timeout_s=30)
    deliveries.close()
    assert not overlaps and max(consumer.sizes) == 7 and consumer.ids == list(range(len(source.values)))


# -- who consumes what


class Rendezvous(RuleBasedStateMachine):
    """S11: an event that is appended after `subscribe` has returned is delivered, one before only if asked for;
    whatever the order of subscribing, first events, agents that start, stop and move. Before a stream is known, what
    its agent has not read yet counts as appended after."""

    @initialize()
    def begin(self) -> None:
        self.hands = Hands()
        self.log = Growing()
        self.store = MemoryStore()
        self.deliveries = self.made()
        self.shared: SharedSource | None = None
        self.takers: dict[tuple[str, str], tuple[Taker, int]] = {}
        self.late: set[Taker] = set()
        self.number = 0

    def made(self) -> Deliveries:
        return Deliveries(
            store=self.store,
            crew=self.hands,  # type: ignore[arg-type]
            clock=self.hands.clock,
            draw=lambda: 0.5,
        )

    @rule(streams=st.text("abc", max_size=4))
    def add(self, streams: str) -> None:
        self.log.add(*streams)

    @rule()
    def start_agent(self) -> None:
        if self.shared is None:
            self.shared = SharedSource(self.log, events_max=16, lag="detach", stream_of=str)
            self.deliveries.follow(self.shared, at=lambda partition: self.agent_at)

    @property
    def agent_at(self) -> int:
        """An agent starts where its predecessor was: here, at what has been acknowledged."""
        return self.log.acknowledged + 1

    @rule()
    def stop_agent(self) -> None:
        if self.shared is not None:
            self.deliveries.unfollow(self.shared)
            self.hands.run()
            self.shared = None

    @rule(stream=st.sampled_from("abc"))
    def subscribe(self, stream: str) -> None:
        self.number += 1
        taker, seen = Taker(), stream in self.deliveries._offers
        self.deliveries.subscribe(stream, taker, name=str(self.number))
        self.takers[stream, str(self.number)] = (taker, len(self.log.values))
        if seen:
            self.late.add(taker)

    @rule(stream=st.sampled_from("abc"), back=st.integers(0, 5))
    def subscribe_in_the_past(self, stream: str, back: int) -> None:
        at = max(self.agent_at, len(self.log.values) - back)
        self.number += 1
        taker = Taker()
        self.deliveries.subscribe(stream, taker, name=str(self.number), at=at)
        self.takers[stream, str(self.number)] = (taker, at)
        self.late.add(taker)

    @rule(turns=st.integers(1, 10), pick=st.integers(0, 10))
    def work(self, turns: int, pick: int) -> None:
        for _ in range(turns):
            self.hands.turn(pick)

    @invariant()
    def in_order_and_once(self) -> None:
        for taker, _ in getattr(self, "takers", {}).values():
            assert taker.ids == sorted(set(taker.ids))

    def teardown(self) -> None:
        if not hasattr(self, "takers"):
            return
        self.start_agent()
        self.hands.run()
        for (stream, _), (taker, since) in self.takers.items():
            due = [n for n, value in enumerate(self.log.values) if value == stream and n >= since]
            assert [n for n in taker.ids if n >= since] == due, "appended after it had subscribed"
            assert taker not in self.late or taker.ids == due, "what was before only if asked for"


TestRendezvous = Rendezvous.TestCase
TestRendezvous.settings = examples(40, stateful_step_count=30)


def test_a_stored_subscription_goes_on_where_it_was(tmp_path: Path) -> None:
    """An explicit subscription is durable before `subscribe` returns, and so is what it has taken; `at` counts once."""
    source = Growing(range(10))
    for run, expected in enumerate([[2, 3, 4, 5, 6, 7, 8, 9], list(range(10, 15))]):
        with SqliteStore(tmp_path / "store") as store:
            hands = Hands()
            deliveries = Deliveries(store=store, crew=hands, clock=hands.clock)  # type: ignore[arg-type]
            deliveries.offer("s", source)
            taker = Taker()
            deliveries.subscribe("s", taker, name="me", at=2)
            if run == 0:
                assert store.acknowledged("s") == {"me": 1}
            hands.run()
            assert taker.ids == expected
            assert store.acknowledged("s") == {"me": expected[-1]}
            deliveries.close()
        source.add(*range(10, 15))
    with SqliteStore(tmp_path / "store") as store:
        deliveries = Deliveries(store=store, crew=hands, clock=hands.clock)  # type: ignore[arg-type]
        deliveries.subscribe("s", Taker(), name="me")
        deliveries.unsubscribe("s", "me")
        assert store.subscribed() == []


def test_implicit_subscriptions() -> None:
    """A rule makes a consumer for each stream that it fits, those there and those to come; nothing of it is stored."""
    hands, store = Hands(), MemoryStore()
    deliveries = Deliveries(store=store, crew=hands, clock=hands.clock)  # type: ignore[arg-type]
    made: dict[str, Taker] = {}
    deliveries.offer("order/1", Growing("ab"))
    deliveries.implicit("audit", lambda name: name.startswith("order/"), lambda name: made.setdefault(name, Taker()))
    deliveries.offer("order/2", Growing("c"))
    deliveries.offer("other", Growing("d"))
    hands.run()
    assert {name: taker.ids for name, taker in made.items()} == {"order/1": [0, 1], "order/2": [0]}
    assert store.subscribed() == []
    with pytest.raises(ValueError, match="cannot be faulted"):
        deliveries.implicit("x", bool, lambda name: Taker(), delivering=Delivering(verdict=Verdict.FAULT))


def test_a_stream_lives_in_one_partition() -> None:
    """Ids count in one partition, so the same key in another one stops the stream's subscribers instead of mixing."""
    hands = Hands()
    deliveries = Deliveries(crew=hands, clock=hands.clock)  # type: ignore[arg-type]
    taker = Taker()
    subscription = deliveries.subscribe("a", taker, name="me")
    shared = SharedSource(ListSource({"0": "ab", "1": "ca"}), stream_of=str)
    deliveries.follow(shared)
    hands.run(for_s=1.0)
    assert subscription.status == "stopped" and isinstance(subscription.error, SourceFailed)
    assert [(each.level, each.subject) for each in deliveries.incidents.open()] == [("error", "a/me")]
    assert deliveries.subscriptions("b") == {}


def test_faulted_ones_are_not_kept_for() -> None:
    """A faulted subscription holds nothing: an evaluator whose buffer it filled goes on; a stopped one is kept for."""
    for verdict, waiting in ((Verdict.FAULT, 0), (Verdict.STOP, 3)):
        evaluator = QueryEvaluator(MemoryStore(), background=False)
        evaluator.source("n", ListSource([1, 2, 3], follow=True))
        evaluator.create("same", rx.source("n").map(lambda n: n))
        hands = Hands()
        deliveries = Deliveries(crew=hands, clock=hands.clock)  # type: ignore[arg-type]
        options = Delivering(verdict=verdict, retry=Retry(within_s=0.0))
        deliveries.subscribe("same", Taker(lambda n: True), name="me", delivering=options)
        deliveries.offer("same", evaluator.stream("same"))
        hands.run()
        evaluator.run(until=lambda: evaluator.events_in == 3)
        hands.run(for_s=10.0)
        assert evaluator.query("same").waiting == waiting
        evaluator.close()


def test_an_evaluator_and_its_consumers() -> None:
    """Consumers on threads of their own take an evaluator's stream while it runs, one of them stuck, to its end."""
    release = threading.Event()

    class Stuck(Taker):
        def deliver(self, records: Sequence[Record], after: int, /) -> Resume | None:
            release.wait(60)
            return super().deliver(records, after)

    store = MemoryStore()
    with QueryEvaluator(store) as evaluator:
        evaluator.source("n", ListSource(range(5000)))
        evaluator.create("doubled", rx.source("n").map(lambda n: n * 2))
        deliveries = Deliveries(store=store)
        stuck, good = Stuck(), Taker()
        deliveries.subscribe("doubled", stuck, name="stuck")
        deliveries.subscribe("doubled", good, name="good")
        deliveries.offer("doubled", evaluator.stream("doubled"))
        evaluator.run()
        assert deliveries.wait(lambda: good.ends, timeout_s=30)
        assert good.records == [(n, 2 * n) for n in range(5000)] and good.ends == [(5000, None)]
        assert not stuck.records
        release.set()
        assert deliveries.wait(lambda: stuck.ends, timeout_s=30)
        assert stuck.records == good.records
        deliveries.close()
        assert store.acknowledged("doubled") == {"good": 5000, "stuck": 5000}


def test_a_full_buffer_rests_until_seventy_percent() -> None:
    """O37: turns stop when a holder lags by more than the buffer, and go on once it has come down to 70 % of it."""
    evaluator = QueryEvaluator(MemoryStore(), background=False, batch_events_max=10, buffer_events_max=100)
    evaluator.source("n", ListSource(range(1000), follow=True))
    evaluator.create("same", rx.source("n").map(lambda n: n))
    stream = evaluator.stream("same")
    stream.hold("me", 0)

    def settle() -> int:
        while evaluator.step():
            pass
        return evaluator.events_in

    assert settle() == 110
    stream.acknowledge("me", 38)
    assert settle() == 110
    stream.acknowledge("me", 39)
    assert settle() == 150
    evaluator.close()


def test_a_quick_observer_that_fails_is_left_out() -> None:
    """In the evaluator's own loop the first error ends an observer, and no other one notices."""

    class Observer:
        def __init__(self, bad: int) -> None:
            self.bad = bad
            self.seen: list[int] = []

        def on_next(self, n: int, value: Any, /) -> None:
            if n == self.bad:
                raise ValueError("no")
            self.seen.append(n)

        def on_error(self, n: int, error: Exception, /) -> None: ...

        def on_completed(self, n: int, /) -> None:
            self.seen.append(n)

    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("n", ListSource([1, 2, 3]))
    evaluator.create("same", rx.source("n").map(lambda n: n))
    bad, good = Observer(1), Observer(-1)
    subscriptions = [evaluator.stream("same").subscribe(each) for each in (bad, good)]
    for each in subscriptions:
        each.start(0)
    evaluator.run()
    assert (bad.seen, good.seen) == ([0], [0, 1, 2, 3])
    assert isinstance(subscriptions[0].error, ValueError)
    with pytest.raises(PositionUnavailable):
        subscriptions[1].start(99)
    evaluator.close()


def test_misuse_is_refused() -> None:
    """Options that contradict each other, and two of one name."""
    with pytest.raises(ValueError, match="batch is 0"):
        Delivering(batch=0)
    with pytest.raises(ValueError, match="PARK needs"):
        Delivering(verdict=Verdict.PARK)
    hands = Hands()
    deliveries = Deliveries(crew=hands, clock=hands.clock)  # type: ignore[arg-type]
    deliveries.subscribe("s", Taker(), name="me")
    with pytest.raises(ValueError, match="unsubscribe that one first"):
        deliveries.subscribe("s", Taker(), name="me")


def test_a_start_is_not_overruled_by_a_consumer_that_knows_better() -> None:
    """A consumer is asked where it is once for each reading; from then on who says `start(n)` gets what is at *n*."""

    class Knows(Taker):
        def resume(self) -> Resume:
            return Resume(2, inclusive=True)

    knows = Knows()
    subscription, hands = delivering_to(knows, Growing("abcdefghij"), at=5)
    hands.run()
    assert knows.ids == list(range(2, 10))
    subscription.start(7)
    hands.run()
    assert knows.ids == [*range(2, 10), *range(7, 10)]
