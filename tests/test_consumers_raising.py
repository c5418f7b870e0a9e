"""Whatever the code of a reader raises is its own: the evaluator goes on, and it is told until it is well again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from signal import SIGINT, default_int_handler, raise_signal, signal
from typing import Any

import pytest
from conditions import until
from lanes import crossed

import reliable_rx as rx
from checkpoint import MemoryStore
from hosting import App, Deliveries, Delivering, ListSource, QueryEvaluator, Verdict
from hosting.subscriptions.consumers import ONCE, Resume, Retry
from hosting.subscriptions.subscription import Subscription
from reliable_rx.testing.hostile_odd import ClasslessError, NeverAskedError


class Bare(BaseException):
    """No `Exception`, and none that Python knows."""


RAISED = [ValueError, SystemExit, GeneratorExit, KeyboardInterrupt, Bare, ClasslessError, NeverAskedError]
SOON = Retry(first_s=0.001, jitter=0.0, within_s=1e9)


class Reader:
    """Raises in its method *where*, so many *times*: a test may set these meanwhile, as they are not counted down."""

    def __init__(self, where: str, raised: type[BaseException], times: int = 1_000_000) -> None:
        self.where, self.raised, self.times, self.so_far = where, raised, times, 0
        self.seen: list[Any] = []

    def at(self, where: str) -> None:
        if where == self.where and self.so_far < self.times:
            self.so_far += 1
            raise self.raised("made by a test")

    def resume(self) -> Resume | None:
        self.at("resume")
        return None

    def deliver(self, records: Any, after: int, /) -> None:
        self.at("deliver")
        self.seen += records

    def end(self, n: int, error: Exception | None, /) -> None:
        self.at("end")
        self.seen.append("end")

    def failed(self, error: Exception, /) -> None:
        self.at("failed")

    def keep(self, value: Any) -> bool:
        self.at("keep")
        return True

    def park(self, letter: Any) -> None:
        self.at("park")


ALL = [(0, 1), (1, 2), (2, 3), "end"]


@pytest.fixture
def evaluator() -> Iterator[QueryEvaluator]:
    evaluator = QueryEvaluator(MemoryStore(), background=False)
    evaluator.source("n", ListSource([1, 2, 3]))
    evaluator.create("q", rx.source("n"))
    with evaluator:
        yield evaluator


def told(evaluator: QueryEvaluator, kind: str = "subscriber") -> list[str]:
    return [f"{each.level} {each.subject}" for each in evaluator.statistics().incidents if each.kind == kind]


def delivered(evaluator: QueryEvaluator, reader: Reader, delivering: Delivering) -> tuple[Deliveries, Subscription]:
    deliveries = Deliveries()
    subscription = deliveries.subscribe("q", reader, name="me", at=0, delivering=delivering)
    deliveries.offer("q", evaluator.stream("q"))
    evaluator.run()
    return deliveries, subscription


@pytest.mark.parametrize("raised, where", crossed(RAISED, ["resume", "deliver", "end"], nth=2))
def test_a_consumer_that_raises_is_tried_again(evaluator: QueryEvaluator, where: str, raised: Any) -> None:
    """While it is tried again that is a warning, which ends when it is well; it has had all then."""
    reader = Reader(where, raised)
    deliveries, subscription = delivered(evaluator, reader, Delivering(retry=SOON))
    until(lambda: told(evaluator) == ["warning q/me"], "the incident")
    reader.times = 0
    until(lambda: subscription.status == "ended", "the end")
    assert reader.seen == ALL and told(evaluator) == []
    deliveries.close()


@pytest.mark.parametrize("raised, verdict", crossed(RAISED, [Verdict.STOP, Verdict.FAULT], nightly=1))
def test_a_consumer_that_is_stopped(evaluator: QueryEvaluator, verdict: Verdict, raised: Any) -> None:
    """Its verdict is given, and it is an error until it is started again and well, or unsubscribed."""
    reader = Reader("deliver", raised)
    deliveries, subscription = delivered(evaluator, reader, Delivering(retry=ONCE, verdict=verdict, batch=1))
    until(lambda: subscription.status in ("stopped", "faulted"), "the verdict")
    assert told(evaluator) == ["error q/me"] and isinstance(subscription.error, Exception)
    if verdict is Verdict.STOP:
        reader.times = 0
        subscription.start()
        until(lambda: subscription.status == "ended", "the end")
        assert reader.seen == ALL
    else:
        deliveries.unsubscribe("q", "me")
    assert told(evaluator) == []
    deliveries.close()


class Restarted:
    """A report that comes back late: it notes the status at which it was told, and may start what has stopped."""

    def __init__(self, starts: bool) -> None:
        self.starts, self.seen = starts, list[str]()
        self.subscription: Subscription | None = None

    def __call__(self, kind: str, message: str | None, **more: Any) -> None:
        assert self.subscription is not None
        self.seen.append(f"{self.subscription.status}: {str(message).split(' at')[0]}")
        if self.starts and message is not None:
            self.subscription.start()


@pytest.mark.parametrize("starts", [False, True])
@pytest.mark.parametrize("verdict", [Verdict.STOP, Verdict.FAULT])
def test_a_verdict_is_reported_before_it_is_seen(verdict: Verdict, starts: bool) -> None:
    """Who waits for the status finds the report, however long that takes; and who starts it from there has done so."""
    report, reader, woken = Restarted(starts), Reader("deliver", ValueError, times=1), list[bool]()
    report.subscription = subscription = Subscription(
        "me", reader, Delivering(retry=ONCE, verdict=verdict, batch=1), clock=float, draw=float, report=report,
        wake=lambda: woken.append(True),
    )  # fmt: skip
    subscription.attach(ListSource([1, 2, 3]), "0", 0)
    while subscription.step() == 0.0 or (woken and woken.pop()):
        pass
    word = "stopped" if verdict is Verdict.STOP else "faulted"
    assert report.seen[0] == f"live: is {word}"
    assert (subscription.status, reader.seen) == (("ended", ALL) if starts else (word, []))


@pytest.mark.parametrize("raised, verdict", crossed(RAISED, [Verdict.SKIP, Verdict.PARK], nightly=1))
def test_what_is_left_out_is_told(evaluator: QueryEvaluator, verdict: Verdict, raised: Any) -> None:
    """An event that is passed over is an incident of its own, which stays; the consumer is well."""
    reader = Reader("deliver", raised, times=1)
    park = reader.park if verdict is Verdict.PARK else None
    deliveries, subscription = delivered(evaluator, reader, Delivering(retry=ONCE, verdict=verdict, park=park, batch=1))
    until(lambda: subscription.status == "ended", "the end")
    assert reader.seen == ALL[1:] and told(evaluator) == []
    assert told(evaluator, "subscriber skips") == ["warning q/me"]
    deliveries.close()


@pytest.mark.parametrize("raised, where", crossed(RAISED, ["keep", "park", "failed"], nth=2))
def test_what_is_asked_beside(evaluator: QueryEvaluator, where: str, raised: Any) -> None:
    """A filter that raises keeps, letters that are refused are kept, and who fails at its own failure has failed."""
    reader = Reader(where, raised)
    broken = Reader("deliver", ValueError, times=1)
    consumer: Any = reader
    if where != "keep":
        consumer = broken
        broken.failed = reader.failed  # type: ignore[method-assign]
    park = reader.park if where == "park" else None
    verdict = Verdict.PARK if park else Verdict.STOP
    how = Delivering(retry=ONCE, verdict=verdict, park=park, keep=reader.keep, batch=1)
    deliveries, subscription = delivered(evaluator, consumer, how)
    wanted = {"keep": "ended", "park": "live", "failed": "stopped"}[where]
    until(lambda: subscription.status == wanted and (where == "keep" or told(evaluator)), wanted)
    deliveries.close()


@pytest.mark.parametrize("raised, where", crossed(RAISED, ["fits", "make"], nth=2))
def test_a_rule_that_raises(evaluator: QueryEvaluator, where: str, raised: Any) -> None:
    """A rule is a function of the user's: a stream that it raises at has no consumer, and others have theirs."""
    reader = Reader(where, raised)
    other = Reader("", raised)

    def fits(stream: str) -> bool:
        reader.at("fits")
        return True

    def make(stream: str) -> Reader:
        reader.at("make")
        return reader

    deliveries = Deliveries()
    deliveries.implicit("bad", fits, make)
    deliveries.implicit("good", lambda stream: True, lambda stream: other)
    deliveries.offer("q", evaluator.stream("q"))
    evaluator.run()
    until(lambda: other.seen == ALL, "the good one")
    assert told(evaluator) == ["error q/bad"]
    deliveries.close()


Subscribe = Callable[[QueryEvaluator, Reader], Any]


class Observer(Reader):
    """An observer of a stream."""

    def on_next(self, n: int, value: Any) -> None:
        self.at("deliver")
        self.seen.append((n, value))

    def on_completed(self, n: int) -> None:
        self.at("end")
        self.seen.append("end")

    def on_error(self, n: int, error: Exception) -> None:
        self.at("end")


SUBSCRIBE: dict[str, Subscribe] = {
    "named": lambda evaluator, reader: evaluator.stream("q").subscribe(reader, name="o").start(0),  # type: ignore
    "observer": lambda evaluator, reader: evaluator.stream("q").subscribe(reader).start(0),  # type: ignore
    "observable": lambda evaluator, reader: evaluator.stream("q").observable(0).subscribe(
        lambda value: reader.at("deliver"), None, lambda: reader.at("end")
    ),
}  # fmt: skip


@pytest.mark.parametrize("raised, how, where", crossed(RAISED, SUBSCRIBE, ["deliver", "end"], nightly=1))
def test_an_observer_that_raises(evaluator: QueryEvaluator, how: str, where: str, raised: Any) -> None:
    """It gets no more, which is an incident; queries and other observers go on."""
    other = Observer("", ValueError)
    SUBSCRIBE[how](evaluator, Observer(where, raised))
    SUBSCRIBE["observer"](evaluator, other)
    evaluator.run()
    assert len(told(evaluator)) == 1 and other.seen == ALL
    assert evaluator.query("q").status == "completed"


def test_a_real_interrupt_goes_through(evaluator: QueryEvaluator) -> None:
    """Ctrl-C while an observer is at work is no error of the observer's."""
    before = signal(SIGINT, default_int_handler)

    class Interrupted(Observer):
        def on_next(self, n: int, value: Any) -> None:
            raise_signal(SIGINT)

    try:
        evaluator.stream("q").subscribe(Interrupted("", ValueError)).start(0)
        with pytest.raises(KeyboardInterrupt):
            evaluator.run()
        assert told(evaluator) == []
    finally:
        signal(SIGINT, before)


@pytest.mark.parametrize("raised", RAISED)
def test_a_feed_that_raises(raised: Any) -> None:
    """A feed has a thread of its own: nobody else would hear of it."""
    app, failed = App(), list[Exception]()

    @app.feed
    def feed(evaluator: QueryEvaluator) -> None:
        raise raised("made by a test")

    with app.evaluator(MemoryStore()) as evaluator:
        for thread in app.start_feeds(evaluator, failed.append):
            thread.join()
    assert len(failed) == 1 and isinstance(failed[0], Exception)


def test_a_failure_at_the_own_failure_is_told(evaluator: QueryEvaluator, caplog: pytest.LogCaptureFixture) -> None:
    """A consumer that raises while it is told that it has failed: both failures stand in the log."""
    broken, failing = Reader("deliver", ValueError, times=1), Reader("failed", KeyError)
    broken.failed = failing.failed  # type: ignore[method-assign]
    deliveries, subscription = delivered(evaluator, broken, Delivering(retry=ONCE, verdict=Verdict.STOP, batch=1))
    until(lambda: "failed while it was told that it had" in caplog.text, "the log")
    assert subscription.status == "stopped" and "KeyError" in caplog.text
    deliveries.close()
