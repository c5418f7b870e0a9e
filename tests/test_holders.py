"""Whoever holds a stream and is gone: turns go on by a stated rule, and while they do not it is said who stops them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import reliable_rx as rx
from checkpoint import MemoryStore, SqliteStore
from hosting import CallbackSink, Deliveries, ListSource, QueryEvaluator, StreamSource
from hosting.cli.command import main
from hosting.edges.holders import ABSENT_S
from reliable_rx.errors import StoreUnavailable

BUFFER = 50
MORE = 500


class Host:
    """An evaluator with a small buffer, a stopped clock for its holders, and a source that grows."""

    def __init__(self, store: Any = None) -> None:
        self.now = 0.0
        self.numbers: list[int] = []
        self.store = MemoryStore() if store is None else store
        self.sinks: list[Any] = []
        self.evaluator = self.fresh()

    def fresh(self) -> QueryEvaluator:
        evaluator = QueryEvaluator(
            self.store, background=False, batch_events_max=10, buffer_events_max=BUFFER, retain_events=10,
            checkpoint_interval_s=1e9,
        )  # fmt: skip
        evaluator.holders.clock = lambda: self.now
        evaluator.source("n", ListSource(self.numbers, follow=True))
        evaluator.create("same", rx.source("n"))
        for sink in self.sinks:
            evaluator.sink("same", sink)
        return evaluator

    def restart(self) -> None:
        self.evaluator.checkpoint()
        self.evaluator.close()
        self.store = self.store.reopen()
        self.evaluator = self.fresh()

    def feed(self, count: int) -> None:
        self.numbers.extend(range(len(self.numbers), len(self.numbers) + count))
        self.settle()

    def settle(self) -> None:
        for _ in range(10_000):
            if not self.evaluator.step():
                return
        raise AssertionError("it never rests")

    @property
    def waits(self) -> int:
        return len(self.numbers) - self.evaluator.stream("same").next_id

    def incidents(self) -> dict[tuple[str, str], str]:
        return {(each.kind, each.subject): each.message for each in self.evaluator.statistics().incidents}


class Observer:
    def __init__(self, bad: int = -1) -> None:
        self.bad = bad
        self.seen: list[int] = []

    def on_next(self, n: int, value: Any, /) -> None:
        if n == self.bad:
            raise ValueError("no")
        self.seen.append(n)

    def on_error(self, n: int, error: Exception, /) -> None: ...

    def on_completed(self, n: int, /) -> None: ...


def a_disposed_observer(host: Host) -> None:
    subscription = host.evaluator.stream("same").subscribe(Observer(), name="me")
    subscription.start(0)
    subscription.dispose()


def a_detached_observer(host: Host) -> None:
    subscription = host.evaluator.stream("same").subscribe(Observer(), name="me")
    subscription.start(0)
    subscription.detach()


def an_observer_that_raised(host: Host) -> None:
    host.evaluator.stream("same").subscribe(Observer(bad=3), name="me").start(0)


def an_observer_that_does_not_acknowledge(host: Host) -> None:
    host.evaluator.stream("same").subscribe(Observer(), name="me").start(0)


def an_observer_of_a_former_run(host: Host) -> None:
    an_observer_that_does_not_acknowledge(host)
    host.feed(5)
    host.restart()


def a_sink_that_is_not_declared_any_more(host: Host) -> None:
    host.sinks = [CallbackSink(lambda n, value: None)]
    host.evaluator.close()
    host.evaluator = host.fresh()
    host.feed(5)
    host.sinks = []
    host.restart()


def a_closed_evaluator(host: Host) -> None:
    with QueryEvaluator(MemoryStore(), background=False) as lower:
        lower.source("same", StreamSource(host.evaluator.stream("same"), subscriber="me"))
        lower.create("q", rx.source("same"))
        lower.start()


def a_subscriber_of_closed_deliveries(host: Host) -> None:
    deliveries = Deliveries()
    deliveries.offer("same", host.evaluator.stream("same"))
    deliveries.subscribe("same", Taker(), name="me")
    deliveries.close()


def a_disposed_subscriber_of_deliveries(host: Host) -> None:
    deliveries = Deliveries(store=host.store)
    deliveries.offer("same", host.evaluator.stream("same"))
    deliveries.subscribe("same", Taker(), name="me").dispose()
    assert not host.store.acknowledged("same")
    deliveries.close()


def a_durable_subscriber_that_does_not_come(host: Host) -> None:
    host.store.acknowledge("same", "me", -1)
    host.evaluator.close()
    host.evaluator = host.fresh()


class Taker:
    def deliver(self, records: Any, after: int, /) -> None: ...

    def end(self, n: int, error: Exception | None, /) -> None: ...


AT_ONCE, WHEN_FULL, AFTER_A_WHILE, BY_COMMAND = "at once", "when the buffer is full", "after a while", "by command"
WAYS: dict[Callable[[Host], None], str] = {
    a_disposed_observer: AT_ONCE,
    a_subscriber_of_closed_deliveries: AT_ONCE,
    a_disposed_subscriber_of_deliveries: AT_ONCE,
    an_observer_that_raised: WHEN_FULL,
    a_sink_that_is_not_declared_any_more: WHEN_FULL,
    a_detached_observer: AFTER_A_WHILE,
    a_closed_evaluator: AFTER_A_WHILE,
    an_observer_of_a_former_run: AFTER_A_WHILE,
    an_observer_that_does_not_acknowledge: BY_COMMAND,
    a_durable_subscriber_that_does_not_come: BY_COMMAND,
}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nobody_who_is_gone_stops_the_turns_for_ever(way: Callable[[Host], None]) -> None:
    """Each way of going has its rule; while turns wait, statistics and an incident name the stream and who holds it."""
    host, rule, holder = Host(), WAYS[way], ""
    way(host)
    host.settle()
    if rule is AT_ONCE:
        assert not host.evaluator.stream("same").holders
    host.feed(MORE)
    if rule in (AT_ONCE, WHEN_FULL):
        assert not host.waits and not host.evaluator.statistics().trouble
    else:
        assert host.waits
        ((holder, position),) = host.evaluator.query("same").holders.items()
        trouble = host.evaluator.statistics().trouble
        assert "'same'" in trouble and f"{holder!r} (next id {position:,}" in trouble
        host.now += ABSENT_S
        host.settle()
        assert bool(host.waits) == (rule is BY_COMMAND)
    if rule is BY_COMMAND:
        assert "me" in host.incidents()["stall", "same"]
        assert host.evaluator.holders.release("same", holder)
        assert not host.evaluator.holders.release("same", holder)
        host.settle()
    assert not host.waits and not host.evaluator.statistics().trouble
    assert not [each for each in host.incidents() if each[0] == "stall"]
    if rule in (WHEN_FULL, AFTER_A_WHILE):
        assert any(kind == "holder" and "let go at id" in text for (kind, _), text in host.incidents().items())
    host.restart()
    host.feed(MORE)
    assert not host.waits, "who was let go does not come back with a restart"


def test_who_comes_back_in_time_has_lost_nothing() -> None:
    """A named observer of a former run goes on where it was, and is no incident any more."""
    host = Host()
    an_observer_of_a_former_run(host)
    host.feed(MORE)
    assert host.waits
    observer = Observer()
    subscription = host.evaluator.stream("same").subscribe(observer, name="me")
    subscription.start(0)
    for _ in range(MORE):
        subscription.acknowledge(observer.seen[-1])
        host.settle()
    assert not host.waits
    assert observer.seen == list(range(5 + MORE))
    assert not host.incidents()


def test_a_slow_reader_is_backpressure_and_not_an_incident_at_once() -> None:
    """A reader that is there and catches up within a second is not worth a line; statistics name it all the same."""
    host = Host()
    host.evaluator.stream("same").hold("slow", 0)
    host.feed(MORE)
    assert host.waits and "'slow'" in host.evaluator.statistics().trouble and not host.incidents()
    host.now += 1.0
    host.settle()
    assert "'slow'" in host.incidents()["stall", "same"]


def test_an_end_that_is_acknowledged_lets_go() -> None:
    """Behind the end of its stream nothing is kept for a reader, if a query is created again under the name."""
    host = Host()
    host.evaluator.create("two", rx.source("n").take(2))
    source = StreamSource(host.evaluator.stream("two"), subscriber="me")
    reader = source.open("0", 0)
    host.feed(5)
    assert reader.fetch(10).ended
    reader.acknowledge(1)
    assert host.evaluator.query("two").holders == {"me": 2}
    reader.acknowledge(2)
    assert host.evaluator.query("two").holders == {}


@pytest.mark.parametrize("ends", ["dispose", "detach", "raises", ""])
def test_a_name_is_of_one_subscriber_at_a_time(ends: str) -> None:
    """A second one would have what the first has not acknowledged let go; it may come when that is over."""
    host = Host()
    stream = host.evaluator.stream("same")
    subscription = stream.subscribe(Observer(bad=1 if ends == "raises" else -1), name="me")
    subscription.start(0)
    host.feed(3)
    if ends in ("dispose", "detach"):
        getattr(subscription, ends)()
    if ends:
        again = Observer()
        stream.subscribe(again, name="me").start(0)
        host.feed(1)
        assert again.seen == [0, 1, 2, 3]
        return
    with pytest.raises(ValueError, match="live subscriber called 'me'"):
        stream.subscribe(Observer(), name="me")
    subscription.acknowledge(1)
    assert host.evaluator.query("same").holders == {"me": 2}


@pytest.mark.parametrize("before", ["not started", "raised", "disposed of"])
def test_who_has_lost_his_name_to_another_neither_starts_nor_lets_it_go(before: str) -> None:
    """Whatever an incident has advised about the first one."""
    host = Host()
    stream = host.evaluator.stream("same")
    first = stream.subscribe(Observer(bad=1), name="me")
    if before != "not started":
        first.start(0)
        host.feed(3)
    if before == "disposed of":
        first.dispose()
    second = Observer()
    stream.subscribe(second, name="me").start(0)
    with pytest.raises(ValueError, match="has been given its name 'me'"):
        first.start(0)
    first.dispose()
    host.feed(2)
    assert second.seen == [*range(5 if before != "not started" else 2)]
    assert "me" in host.evaluator.query("same").holders


def test_who_has_ended_and_lost_his_name_acknowledges_for_nobody() -> None:
    """What the other one of that name has not acknowledged is kept."""
    host = Host()
    stream = host.evaluator.stream("same")
    first, second = stream.subscribe(Observer(), name="me"), Observer()
    first.start(0)
    host.feed(3)
    host.evaluator.dispose("same")
    host.feed(1)
    assert first.status == "ended"
    stream.subscribe(second, name="me").start(0)
    first.acknowledge(99)
    assert second.seen[:3] == [0, 1, 2] and stream.holders == {"me": 0}


def test_a_store_that_cannot_forget_a_subscriber_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Letting a durable subscriber go is durable, or an error."""
    host = Host()
    a_durable_subscriber_that_does_not_come(host)
    host.feed(MORE)

    def fails(stream: str, subscriber: str) -> None:
        raise StoreUnavailable("no disk")

    with monkeypatch.context() as patch:
        patch.setattr(host.store, "release", fails)
        with pytest.raises(StoreUnavailable):
            host.evaluator.holders.release("same", "store me")
    assert host.evaluator.query("same").holders == {"store me": 0}


def test_holders_of_a_stopped_store_are_listed_and_let_go(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`reliable-rx holders` and `release`: nothing else in the store changes, and the turns go on at the next start."""
    folder = tmp_path / "q.store"
    with SqliteStore(folder) as store:
        host = Host(store)
        an_observer_that_does_not_acknowledge(host)
        store.acknowledge("same", "far", -1)
        host.feed(20)
        host.evaluator.checkpoint()
        host.feed(3)
        host.evaluator.close()
    assert main(["holders", str(folder)]) == 0
    lines = capsys.readouterr().out
    assert "me" in lines and "store far" in lines and "same" in lines
    assert main(["release", str(folder), "same", "nobody"]) == 2
    assert "'nobody' does not hold stream 'same'; it is held by 'me', 'store far'" in capsys.readouterr().err
    assert main(["release", str(folder), "same"]) == 2
    assert "stream 'same' is held by 'me', 'store far'" in capsys.readouterr().err
    assert main(["release", str(folder), "smae", "me"]) == 2
    assert "nobody holds a stream 'smae'; did you mean 'same'?" in capsys.readouterr().err
    assert main(["release", str(folder), "same", "me"]) == 0
    assert main(["release", str(folder), "same", "store far"]) == 0
    assert main(["holders", str(folder)]) == 0
    assert "nobody" in capsys.readouterr().out
    with SqliteStore(folder) as store:
        numbers = host.numbers
        host = Host(store)
        host.numbers.extend(numbers)
        host.feed(MORE)
        assert not host.waits and host.evaluator.stream("same").next_id == len(host.numbers)
        host.evaluator.close()


def test_a_sink_that_the_app_declares_is_not_let_go(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It would be given all that is kept once more; taken out, it is let go behind the next stop."""
    folder = tmp_path / "q.store"
    for declares in (True, False):
        with SqliteStore(folder) as store:
            host = Host(store)
            if declares:
                host.evaluator.sink("same", CallbackSink(print))
            host.feed(3)
            host.evaluator.checkpoint()
            host.evaluator.close()
        assert main(["release", str(folder), "same", "sink 0"]) == (2 if declares else 0)
        said = capsys.readouterr()
        assert "a sink that the app declared which ran last" in said.err if declares else "not kept" in said.out


def test_who_is_not_there_yet_is_absent_whoever_else_is() -> None:
    """Of those that a checkpoint knows the ones that are declared are here, and each other one is waited for."""
    with QueryEvaluator(MemoryStore(), background=False) as evaluator:
        evaluator.source("n", ListSource([1]))
        evaluator.create("q", rx.source("n").map(str))
        evaluator.start()
        stream, known = evaluator.stream("q"), dict.fromkeys(("sink here", "far", "sink gone"), 0)
        evaluator.holders.restore(stream, known, sinks=frozenset({"sink here"}))
        assert stream.absent.keys() == {"far", "sink gone"} and stream.holders.keys() >= known.keys()
