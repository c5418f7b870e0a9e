"""Who consumes which stream, and the threads that deliver.

Consumers subscribe to a stream by its name; whoever has the stream *offers* it. Either may come first, and either may
go and come again: whoever is second finds the other in the table, under one lock, and that is the whole guarantee. An
explicit subscription is stored before anything else, so it is there after a restart, at the position it had; an
implicit one is a rule on the names of streams, is nowhere stored and cannot be faulted.

A stream may be one of millions, and silent from now on. So beyond a limit those are forgotten that nobody subscribed to
by name and of which nothing is left to deliver; their next event makes them known again, like their first.

Each subscription has a cursor of its own and one batch outstanding at most, on a crew of threads where a stuck consumer
costs a thread and nobody's events. Rejected: asking a table for every event (the subscription is made when the stream
is first seen), one list of consumers per event (the slowest of them would set the pace).
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from checkpoint.store import Store
from hosting.edges.egress import Stream, StreamSource
from hosting.partitioned.crew import DONE, Crew
from hosting.reports.subscription_reports import SubscriptionReports
from hosting.sources.shared import NewStream, SharedSource
from hosting.subscriptions.consumers import Consumer, Delivering, Verdict, check_consumer
from hosting.subscriptions.registry import Entry, Offer, Rule, held_by
from hosting.subscriptions.subscription import POLL_S, Subscription
from reliable_rx.errors import SourceFailed
from reliable_rx.names import check_name
from reliable_rx.reliable import Bounded, Reader, Source, Waking

AS_EVER = Delivering()
PUMP_EVENTS = 1000
STUCK_S = 1.0
STREAMS_MAX = 100_000


class Deliveries:
    """Deliver streams to consumers in this process, on *threads*; more of them while consumers are stuck.

    With a *store*, explicit subscriptions are kept there: after a restart each goes on behind what it had taken.
    Beyond *streams_max* streams, those of a source that is followed (`follow`) are forgotten when nothing of them is
    left to deliver, together with the consumers that rules have made for them.

    >>> class Printer:
    ...     def deliver(self, records, after):
    ...         print(after, records)
    ...     def end(self, n, error):
    ...         print(n, "end")
    >>> from hosting import ListSource
    >>> deliveries = Deliveries()
    >>> subscription = deliveries.subscribe("letters", Printer(), name="me", at=1)
    >>> deliveries.offer("letters", ListSource(["a", "b", "c"]))
    >>> deliveries.wait(lambda: subscription.status == "ended", timeout_s=5.0)
    0 [(1, 'b'), (2, 'c')]
    3 end
    True
    >>> deliveries.close()
    """

    def __init__(
        self,
        *,
        store: Store | None = None,
        threads: int = 2,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        crew: Crew | None = None,
        streams_max: int = STREAMS_MAX,
    ) -> None:
        self.store, self.streams_max = store, streams_max
        self._sweep_at = streams_max
        self.crew = crew if crew is not None else Crew(threads=threads, clock=clock)
        self._own_crew = crew is None
        self._clock, self._draw = clock, draw
        self._lock = threading.RLock()
        self._offers: dict[str, Offer] = {}
        self._reports = SubscriptionReports(self._offers)
        self.incidents = self._reports.own
        """What fails or waits here; for a stream of an evaluator it is among the incidents of that."""
        self._entries: dict[str, dict[str, Entry]] = {}
        self._rules: dict[str, Rule] = {}
        self._followed: dict[SharedSource, NewStream] = {}
        self._moved = threading.Condition()
        self._closed = threading.Event()
        if self._own_crew:
            threading.Thread(target=self._relieve, name="deliveries", daemon=True).start()

    # -- consumers

    def subscribe(
        self, stream: str, consumer: Consumer, *, name: str, at: int | None = None, delivering: Delivering = AS_EVER
    ) -> Subscription:
        """Deliver *stream* to *consumer*, whether the stream is there already or not.

        Every event that is appended after this has returned is delivered; one before only if *at* asks for it, or the
        consumer does (`Resuming`). A stored subscription of this *name* goes on where it was. *Raises*
        `StoreUnavailable`, and then it is not subscribed.
        """
        stream, name = check_name("stream", stream), check_name("subscriber", name)
        check_consumer(consumer)
        with self._lock:
            if name in self._entries.get(stream, {}):
                raise ValueError(
                    f"stream {stream!r} has a subscriber called {name!r} already; unsubscribe that one first"
                )
            if self.store is not None:
                at = self._stored(self.store, stream, name, at)
            return self._add(stream, consumer, name, at, delivering, stored=self.store is not None).subscription

    def _stored(self, store: Store, stream: str, name: str, at: int | None) -> int | None:
        """Store the subscription first; return where it begins."""
        had = store.acknowledged(stream).get(name)
        if had is not None and had >= 0:
            return had + 1
        offer = self._offers.get(stream)
        if at is None and offer is not None:
            at = offer.begin() if had is not None else offer.end()
        store.acknowledge(stream, name, -1 if at is None else at - 1)
        return at

    def unsubscribe(self, stream: str, name: str) -> None:
        """End a subscription and forget what it had; nothing is kept for it any more.

        *Raises* `ValueError` if there is none of that name.
        """
        with self._lock:
            entry = self._entries.get(stream, {}).pop(name, None)
            if entry is None:
                raise ValueError(f"stream {stream!r} has no subscriber called {name!r}; see subscriptions({stream!r})")
            entry.subscription.halt()
            self._reports.forget(stream, name)
            if stream in self._offers:
                self._offers[stream].release(entry.holder)
            if self.store is not None:
                self.store.release(stream, name)
            self._tidy(stream)

    def _disposed(self, stream: str, entry: Entry) -> None:
        """A subscription was disposed of by its user."""
        with self._lock:
            if self._entries.get(stream, {}).get(entry.subscription.name) is entry:
                self.unsubscribe(stream, entry.subscription.name)

    def implicit(
        self,
        name: str,
        fits: Callable[[str], bool],
        make: Callable[[str], Consumer],
        *,
        delivering: Delivering = AS_EVER,
    ) -> None:
        """Deliver every stream whose name *fits* to the consumer that *make* makes for it, from its first event on."""
        name = check_name("rule", name)
        if delivering.verdict is Verdict.FAULT:
            raise ValueError(
                f"the rule {name!r} would make its consumer again: it cannot be faulted; STOP, SKIP or PARK"
            )
        with self._lock:
            if name in self._rules:
                raise ValueError(f"there is a rule called {name!r} already; choose another name")
            self._rules[name] = Rule(name, fits, make, delivering)
            for stream in self._offers:
                self._apply(self._rules[name], stream)

    def subscriptions(self, stream: str) -> dict[str, Subscription]:
        """Return who consumes *stream*, by name."""
        with self._lock:
            return {name: entry.subscription for name, entry in self._entries.get(stream, {}).items()}

    # -- streams

    def offer(self, name: str, stream: Stream | Source, *, partition: str = "0", first: int | None = None) -> None:
        """Say where the stream *name* is to be had: an evaluator's stream, or a partition of a source.

        Those who subscribed before get it from id *first* on; by default from its oldest.
        """
        source: Source = StreamSource(stream, subscriber=None) if isinstance(stream, Stream) else stream
        bounds = source.bounds if isinstance(source, Bounded) else None
        if isinstance(stream, Stream):
            offer = Offer(
                partial(held_by, stream),
                stream.release,
                bounds,
                "0",
                first,
                stream,
                stream.registry.incidents,
            )
        elif isinstance(stream, SharedSource):
            offer = Offer(stream.named, stream.release, bounds, partition, first, stream)
        else:
            offer = Offer(lambda holder: stream, lambda holder: None, bounds, partition, first, stream)
        self._offer(name, offer)

    def _offer(self, name: str, offer: Offer) -> None:
        with self._lock:
            there = self._offers.get(name)
            if there is not None and there.partition == offer.partition:
                return
            if there is not None:
                two = f"stream {name!r} comes from partitions {there.partition!r} and {offer.partition!r}"
                error = SourceFailed(f"{two}, but its ids count in one; let `stream_of` name them apart", source=name)
                for entry in self._entries.get(name, {}).values():
                    entry.subscription.refuse(error)
                return
            self._offers[name] = offer
            for entry in list(self._entries.get(name, {}).values()):
                self._attach(name, entry, offer)
            for rule in list(self._rules.values()):
                self._reports.guarded(name, rule.name, partial(self._apply, rule, name))
            if len(self._offers) > self._sweep_at:
                self._forget_unread()

    def withdraw(self, name: str) -> None:
        """The stream *name* is not to be had here any more: its subscribers wait until it is offered again."""
        with self._lock:
            if self._offers.pop(name, None) is not None:
                for entry in self._entries.get(name, {}).values():
                    entry.subscription.detach()

    def follow(self, shared: SharedSource, *, at: Callable[[str], int] | None = None) -> None:
        """Read all partitions of *shared* and offer each stream in them (`stream_of`) when its first event comes.

        A partition is read from *at* of its name on, by default from its oldest event.
        """
        bounds = shared.bounds if isinstance(shared, Bounded) else None

        def told(partition: str, stream: str, n: int) -> None:
            def source(holder: str) -> Source:
                return shared.stream(stream, name=f"{holder} of {stream}", partition=partition)

            def release(holder: str) -> None:
                shared.release(f"{holder} of {stream}")

            def is_quiet(holder: str | None) -> bool:
                reader = None if holder is None else f"{holder} of {stream}"
                return shared.partition(partition).is_quiet(stream, reader)

            self._offer(stream, Offer(source, release, bounds, partition, n, shared, is_quiet=is_quiet))

        with self._lock:
            self._followed[shared] = told
        shared.watch(told)
        for partition in shared.partitions():
            start = at(partition) if at is not None else bounds(partition)[0] if bounds is not None else 0
            self._pump(shared, partition, shared.open(partition, start))

    def unfollow(self, shared: SharedSource) -> None:
        """Read *shared* no longer, and withdraw its streams. *Raises* `ValueError` if it is not followed."""
        with self._lock:
            told = self._followed.pop(shared, None)
            if told is None:
                raise ValueError("this source is not followed here; unfollow takes what follow was given")
            shared.unwatch(told)
            for name in [name for name, offer in self._offers.items() if offer.owner is shared]:
                self.withdraw(name)

    def _pump(self, shared: SharedSource, partition: str, reader: Reader) -> None:
        """Fetch whatever comes, so that it reaches those who subscribed."""

        def step() -> float | None:
            if self._closed.is_set() or shared not in self._followed:
                reader.close()
                return DONE
            try:
                batch = reader.fetch(PUMP_EVENTS)
            except BaseException as raised:
                self._reports.unread(partition, raised)
                return DONE
            if batch.values or batch.skipped:
                reader.acknowledge(batch.next - 1)
                return 0.0
            if batch.ended or batch.error is not None:
                return None
            return None if isinstance(reader, Waking) else POLL_S

        task = self.crew.task(step)
        if isinstance(reader, Waking):
            reader.on_available(task.wake)
        task.wake()

    # -- bringing them together

    def _add(
        self, stream: str, consumer: Consumer, name: str, at: int | None, delivering: Delivering, *, stored: bool
    ) -> Entry:
        store = self.store if stored else None
        offer = self._offers.get(stream)
        subscription = Subscription(
            name, consumer, delivering,
            clock=self._clock, draw=self._draw, wake=lambda: entry.task.wake(),
            confirmed=(lambda n: store.acknowledge(stream, name, n)) if store is not None else lambda n: None,
            released=lambda: self._disposed(stream, entry), report=self._reports.of(stream, name),
        )  # fmt: skip
        entry = Entry(subscription, f"store {name}" if stored else name, at, early=offer is None, stored=stored)
        entry.task = self.crew.task(lambda: self._step(stream, entry))
        self._entries.setdefault(stream, {})[name] = entry
        if offer is not None:
            self._attach(stream, entry, offer)
        return entry

    def _apply(self, rule: Rule, stream: str) -> None:
        if rule.fits(stream) and rule.name not in self._entries.get(stream, {}):
            first = self._offers[stream].begin()
            self._add(stream, rule.make(stream), rule.name, first, rule.delivering, stored=False).rule = True

    def _attach(self, stream: str, entry: Entry, offer: Offer) -> None:
        if entry.begun:
            entry.at = entry.subscription.next
        elif entry.at is None:
            entry.at = offer.begin() if entry.early else offer.end()
        if not entry.begun and entry.stored and self.store is not None:
            self.store.acknowledge(stream, entry.subscription.name, entry.at - 1)
        entry.begun = True
        entry.subscription.attach(offer.source(entry.holder), offer.partition, entry.at)

    def _step(self, stream: str, entry: Entry) -> float | None:
        pause_s = entry.subscription.step()
        if entry.subscription.status == "faulted":
            with self._lock:
                if stream in self._offers:
                    self._offers[stream].release(entry.holder)
        with self._moved:
            self._moved.notify_all()
        if entry.rule and len(self._offers) > self.streams_max and self._forgotten(stream, entry):
            return DONE
        return pause_s

    # -- forgetting

    def _forgotten(self, stream: str, entry: Entry) -> bool:
        """Forget *stream* and its only subscriber if nothing is left to deliver; called by the one who steps him.

        His reader is closed under the lock: what comes from now on is told of, and finds nobody of his name.
        """
        with self._lock:
            offer, subscription = self._offers.get(stream), entry.subscription
            alone = list(self._entries.get(stream, {})) == [subscription.name]
            if offer is None or not alone or not subscription.is_idle or not offer.is_quiet(entry.holder):
                return False
            subscription.halt()
            subscription.step()
            offer.release(entry.holder)
            del self._offers[stream], self._entries[stream]
            return True

    def _forget_unread(self) -> None:
        """Forget streams that nobody reads; look again when there are a quarter more than are left."""
        for name in [
            each for each, offer in self._offers.items() if each not in self._entries and offer.is_quiet(None)
        ]:
            del self._offers[name]
        self._sweep_at = max(self.streams_max, len(self._offers) * 5 // 4)

    def _tidy(self, stream: str) -> None:
        if not self._entries.get(stream, True):
            del self._entries[stream]

    # -- the threads

    def wait(self, until: Callable[[], Any], *, timeout_s: float) -> bool:
        """Wait until *until* holds, looked at after every delivery; return whether it does."""
        with self._moved:
            return bool(self._moved.wait_for(until, timeout_s))

    def _relieve(self) -> None:
        while not self._closed.wait(STUCK_S):
            self.crew.relieve(STUCK_S)

    def close(self) -> None:
        """Deliver nothing more. What was subscribed stays stored; nothing is kept for what was not."""
        self._closed.set()
        with self._lock:
            entries = [entry for each in self._entries.values() for entry in each.values()]
            passing = [
                (offer, entry)
                for stream, offer in self._offers.items()
                for entry in self._entries.get(stream, {}).values()
                if not entry.stored
            ]
        for entry in entries:
            entry.subscription.halt()
        if self._own_crew:
            self.crew.close()
            for entry in entries:
                entry.subscription.step()  # which closes its reader
        for offer, entry in passing:
            offer.release(entry.holder)
