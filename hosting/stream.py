"""The egress edge: a stream gives ids to what a query emits and keeps it until nobody can ask for it again.

The buffer is a `hosting.window.Window`. *Holders* (sinks, named subscribers) have acknowledged up to somewhere,
and nothing behind that is forgotten; if they lag by more than the buffer holds, the evaluator stops taking turns.
Without holders the last few events are retained, so that somebody may still look. In `exactly_once` delivery what
was emitted becomes *visible* only once the journal is durable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import reactivex
from reactivex.disposable import Disposable

from checkpoint.codec import decode_data
from checkpoint.store import StoreReader
from hosting.consumers import ONCE, Delivering, Record
from hosting.subscription import Subscription
from hosting.turn import Output
from hosting.window import FIRST, Window, part
from reliable_rx.names import check_name
from reliable_rx.reliable import Batch, ReliableObserver

QUICK = Delivering(batch=1, retry=ONCE)


class Stream(Window):
    """A named, sequenced, replayable output: a window with a store behind it, of which a part is visible."""

    __slots__ = (
        "_store", "held", "lock", "retain_events", "stored", "visible", "wakers",
    )  # fmt: skip
    kind = "stream"

    def __init__(
        self,
        name: str,
        store: StoreReader | None,
        *,
        next_id: int,
        retain_events: int,
        lock: Any,
        held: dict[str, Stream],
    ) -> None:
        super().__init__(name, next_id)
        self.lock = lock
        self.held = held
        self.visible = next_id
        self.stored = next_id
        self.retain_events = retain_events
        self.wakers: tuple[Callable[[], None], ...] = ()
        self._store = store if next_id else None

    def recovered(self, store: StoreReader, next_id: int) -> None:
        """Go on where the store is: somebody has asked for this stream before the evaluator had started."""
        self.next_id = self.visible = self.stored = next_id
        self._store = store if next_id else None

    @property
    def first(self) -> int:
        """The oldest id that can be read."""
        if self._store is not None:
            self._load()
        return self.segments[0].first if self.segments else self.next_id

    @property
    def ended(self) -> bool:
        """Whether the terminal notification is in the buffer."""
        self._load()
        return bool(self.segments) and self.segments[-1].ended

    def _load(self) -> None:
        """Read what an earlier run has stored, the first time somebody looks."""
        store, self._store = self._store, None
        if store is None:
            return
        bounds = store.bounds(self.name)
        if bounds is None:
            return
        older = [s for s in stored_segments(store, self.name, bounds[0]) if s.first < self.stored]
        older = [cut(s, self.stored) for s in older]
        self.segments[:0] = older

    # -- the engine's side

    def show(self, upto: int) -> None:
        """Make ids below *upto* visible, and tell those who listen."""
        if upto <= self.visible:
            return
        self.visible = upto
        for wake in self.wakers:
            wake()

    def skip_to(self, next_id: int) -> None:
        """Go on at *next_id*: somebody already has what lies between."""
        self._load()
        self.next_id = self.visible = self.stored = next_id
        self.segments = []

    def kept_from(self) -> int:
        """The oldest id that must still be there after a crash."""
        return max(0, min(super().kept_from(), self.next_id - self.retain_events))

    def unstored(self) -> list[Output]:
        """What the store does not have yet."""
        keep = max(self.stored, self.kept_from())
        start = max(0, bisect_right(self.segments, keep, key=FIRST) - 1)
        return [segment for segment in self.segments[start:] if segment.next > keep and segment.first >= self.stored]

    # -- the readers' side

    def hold(self, holder: str, position: int) -> None:
        """Keep everything from id *position* on until *holder* acknowledges it."""
        with self.lock:
            super().hold(check_name("holder", holder), position)
            self.held[self.name] = self

    def release(self, holder: str) -> None:
        """Forget a holder."""
        with self.lock:
            super().release(holder)
            if not self.holders:
                self.held.pop(self.name, None)

    def acknowledge(self, holder: str, n: int) -> None:
        """*holder* has id *n* and all before."""
        with self.lock:
            super().acknowledge(holder, n)

    def read(self, start: int, count_max: int, *, end: int | None = None) -> Iterator[Output]:
        """Yield the visible notifications from id *start* on, at most about *count_max* values.

        *Raises* `PositionUnavailable` for what has been forgotten.
        """
        self._load()
        return super().read(start, count_max, end=self.visible if end is None else end)

    def subscribe(self, observer: ReliableObserver[Any], *, name: str | None = None) -> Subscription:
        """Subscribe *observer*; with a *name* the stream keeps what it has not acknowledged.

        Nothing comes before `Subscription.start`. It is called by the evaluator's loop, which waits for it, and is left
        out after its first error: for code that may be slow or fail there is `hosting.deliveries.Deliveries`.
        """
        name = None if name is None else check_name("subscriber", name)

        def wake() -> None:
            with self.lock:
                while subscription.step() == 0.0:
                    pass

        subscription = Subscription(
            name or f"an observer of {self.name}", Observing(observer), QUICK, clock=float, draw=float, wake=wake
        )
        subscription.attach(StreamSource(self, subscriber=name), "0", None)
        return subscription

    def observable(self, start: int | None = None) -> reactivex.Observable[Any]:
        """Return the values from id *start* on (by default: from now on) as a plain observable."""

        def subscribe(observer: Any, scheduler: Any = None) -> Disposable:
            subscription = self.subscribe(Thin(observer))
            subscription.start(self.visible if start is None else start)
            return Disposable(subscription.dispose)

        return reactivex.Observable(subscribe)


class Observing:
    """An observer as a consumer of one event at a time."""

    def __init__(self, observer: ReliableObserver[Any]) -> None:
        self.observer = observer

    def deliver(self, records: Sequence[Record], after: int, /) -> None:
        for n, value in records:
            self.observer.on_next(n, value)

    def end(self, n: int, error: Exception | None, /) -> None:
        if error is None:
            self.observer.on_completed(n)
        else:
            self.observer.on_error(n, error)


class Thin:
    """Strips the ids for a plain observer."""

    def __init__(self, observer: Any) -> None:
        self.observer = observer

    def on_next(self, n: int, value: Any, /) -> None:
        self.observer.on_next(value)

    def on_error(self, n: int, error: Exception, /) -> None:
        self.observer.on_error(error)

    def on_completed(self, n: int, /) -> None:
        self.observer.on_completed()


class StreamSource:
    """A stream as the source of another evaluator in this process.

    *subscriber* names who holds the stream: what it has not acknowledged stays there. Without one nothing is held.
    """

    def __init__(self, stream: Stream, *, subscriber: str | None) -> None:
        self.stream = stream
        self.subscriber = subscriber

    def partitions(self) -> Sequence[str]:
        return ["0"]

    def bounds(self, partition: str, /) -> tuple[int, int]:
        with self.stream.lock:
            return self.stream.first, self.stream.visible

    def open(self, partition: str, at: int, /) -> StreamReader:
        with self.stream.lock:
            self.stream.check(at)
            if self.subscriber is not None:
                self.stream.hold(self.subscriber, at)
        return StreamReader(self, at)


class StreamReader:
    """Reads a stream for another evaluator."""

    sequenced_end = True

    def __init__(self, source: StreamSource, at: int) -> None:
        self.source = source
        self.position = at
        self.wakers: tuple[Callable[[], None], ...] = ()

    def fetch(self, count_max: int, /) -> Batch:
        stream = self.source.stream
        with stream.lock:
            batch = joined(self.position, stream.read(self.position, count_max))
        self.position = batch.next
        return batch

    def acknowledge(self, n: int, /) -> None:
        if self.source.subscriber is not None:
            self.source.stream.acknowledge(self.source.subscriber, n)

    def on_available(self, wake: Callable[[], None], /) -> None:
        self.wakers += (wake,)
        with self.source.stream.lock:
            self.source.stream.wakers += (wake,)

    def close(self) -> None:
        stream = self.source.stream
        with stream.lock:
            stream.wakers = tuple(each for each in stream.wakers if each not in self.wakers)


def joined(start: int, segments: Iterator[Output]) -> Batch:
    """Return segments as one batch."""
    values: list[Any] = []
    for segment in segments:
        values.extend(segment.values)
        if segment.ended:
            return Batch(start, values, ended=True, error=segment.error)
    return Batch(start, values)


def cut(segment: Output, end: int) -> Output:
    """Return *segment* without what lies at or behind id *end*."""
    return part(segment, segment.first, end) or segment


def stored_segments(store: StoreReader, name: str, start: int) -> Iterator[Output]:
    """Read the segments of a stream from a store; what cannot be read any more are `Unreadable` values."""
    for first, count, payload in store.outputs(name, start):
        (values, ended, error), _ = decode_data(payload)
        segment = Output(name, first, values, ended, error)
        yield segment if segment.next == first + count else cut(segment, first + count)
