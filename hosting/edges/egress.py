"""The egress edge: a stream gives ids to what a query emits and keeps it until nobody can ask for it again.

The buffer is a `hosting.edges.replay_buffer.Window`. *Holders* (sinks, named subscribers) have acknowledged up to
somewhere, and nothing behind that is forgotten; if they lag by more than the buffer holds, the evaluator stops taking
turns. Without holders the last few events are retained, so that somebody may still look. In `exactly_once` delivery
what was emitted becomes *visible* only once the journal is durable.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import reactivex
from reactivex.disposable import Disposable

from checkpoint.store import StoreReader
from hosting.admission.no_query import refuse_operators
from hosting.edges.holders import Absence, Patience, StreamHolders
from hosting.edges.replay_buffer import FIRST, Window
from hosting.edges.stored_outputs import LostValues, cut, stored_segments
from hosting.engine.turns import Output
from hosting.reports.store_commands import with_repair
from hosting.subscriptions.consumers import ONCE, Delivering, Record, check_observer
from hosting.subscriptions.subscription import Subscription
from reliable_rx import operators
from reliable_rx.errors import CheckpointRefused, described
from reliable_rx.names import check_name
from reliable_rx.operators.contract.arguments import check_count
from reliable_rx.operators.contract.choices import names_keywords
from reliable_rx.reliable import Batch, ReliableObserver

QUICK = Delivering(batch=1, retry=ONCE)
NAMELESS = itertools.count(1)
"""Tells observers without a name apart, so that one that is well does not hide one that has failed."""
NOBODY: Mapping[str, Absence] = MappingProxyType({})


class Stream(Window):
    """A named, sequenced, replayable output: a window with a store behind it, of which a part is visible."""

    __slots__ = ("__weakref__", "_store", "absent", "registry", "retain_events", "stored", "visible", "wakers")
    kind = "stream"

    def __init__(
        self, name: str, store: StoreReader | None, *, next_id: int, retain_events: int, registry: StreamHolders
    ) -> None:
        super().__init__(name, next_id)
        self.registry = registry
        self.absent = NOBODY
        """Holders for whom nobody reads."""
        self.visible = next_id
        self.stored = next_id
        self.retain_events = retain_events
        self.wakers: tuple[Callable[[], None], ...] = ()
        self._store = store if next_id else None

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}, ids up to {self.next_id:,}, of which {self.visible:,} are visible>"

    def recovered(self, store: StoreReader, next_id: int) -> None:
        """Go on where the store is: somebody has asked for this stream before the evaluator had started."""
        self.next_id = self.visible = self.stored = next_id
        self._store = store if next_id else None

    @property
    def lock(self) -> Any:
        """The evaluator's lock."""
        return self.registry.lock

    @property
    def first(self) -> int:
        """The oldest id that can be read."""
        segments = self.readable()
        return segments[0].first if segments else self.next_id

    @property
    def ended(self) -> bool:
        """Whether the terminal notification is in the buffer."""
        segments = self.readable()
        return bool(segments) and segments[-1].ended

    def readable(self) -> list[Output]:
        """Return what there is to read, also where the buffer is freed meanwhile."""
        while True:
            if self._store is None:
                segments = self.segments
                if self._store is None:  # so it had not been freed when it was looked at
                    return segments
            self._load()

    def _load(self) -> None:
        """Read what an earlier run has stored, the first time somebody looks."""
        if self._store is None:
            return
        with self.lock:  # the loop appends under it
            store = self._store
            bounds = None if store is None else store.bounds(self.name)
            if store is not None and bounds is not None:
                lost = LostValues(self.name)
                try:
                    stored = stored_segments(store, self.name, bounds[0], tell=lost.note)
                    older = [s for s in stored if s.first < self.stored]
                    self._check_newest(older)
                except CheckpointRefused as error:
                    raise with_repair(store, error) from error
                self.segments = [*(cut(s, self.stored) for s in older), *self.segments]
                lost.tell(self.registry.incidents)
            self._store = None

    def _check_newest(self, stored: Sequence[Output]) -> None:
        """*Raises* `CheckpointRefused` if what is stored does not reach up to what the checkpoint has."""
        if stored and stored[-1].next < self.stored:
            what = f"ids {stored[-1].next:,} to {self.stored - 1:,} of stream {self.name!r}"
            raise CheckpointRefused(f"{what} are missing: the store has lost them", what=what, where=self.name)

    # -- the engine's side

    def show(self, upto: int) -> None:
        """Make ids below *upto* visible, and tell those who listen."""
        if upto <= self.visible:
            return
        self.visible = upto
        for wake in self.wakers:
            wake()

    def skip_to(self, passed_over: Output) -> None:
        """Go on behind ids that a sink has already; what was there before stays for those who lack it."""
        with self.lock:
            self._load()
            self.append(passed_over)
        self.show(self.next_id)

    def mend(self, older: Sequence[Output], stored: int) -> None:
        """Have *older* in the place of what is stored, which is written again from id *stored* on."""
        with self.lock:
            self.segments = [*older, *(each for each in self.segments if each.first >= self.stored)]
            self.stored, self._store = stored, None

    def unload(self, store: StoreReader | None) -> None:
        """Free the buffer, all of which is in *store*, to be read again if somebody looks."""
        self._store = store  # first, for those who read without the lock
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
        self.registry.check(f"hold of stream {self.name!r}")
        self.keep_for(holder, position)

    def keep_for(self, holder: str, position: int) -> None:
        """Hold, also from within a turn: the evaluator's own."""
        with self.lock:
            super().hold(check_name("holder", holder), position)
            self.registry.held[self.name] = self
            if holder in self.absent:
                self.absent = {each: absence for each, absence in self.absent.items() if each != holder}
            self.registry.incidents.resolve("holder", f"{self.name}/{holder}")

    def leave(self, holder: str, absence: Absence) -> None:
        """Let go of *holder* until it holds again; what it has not acknowledged stays (`hosting.edges.holders`)."""
        with self.lock:
            if holder in self.holders:
                self.absent = {**self.absent, holder: absence}

    def release(self, holder: str) -> None:
        """Forget a holder: what it has not acknowledged is not kept for it any more."""
        self.registry.check(f"release of stream {self.name!r}")
        with self.lock:
            super().release(holder)
            self.absent = {each: absence for each, absence in self.absent.items() if each != holder} or NOBODY
            if not self.holders:
                self.registry.held.pop(self.name, None)

    def acknowledge(self, holder: str, n: int) -> None:
        """*holder* has id *n* and all before."""
        self.registry.check(f"acknowledge of stream {self.name!r}")
        with self.lock:
            super().acknowledge(holder, n)

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"{self.kind} {self.name!r} cannot be iterated over, as it goes on: read(start, count_max) yields what "
            f"there is, in parts with their values, as in: for part in stream.read(0, 100): print(part.values)"
        )

    @names_keywords
    def read(self, start: int, count_max: int, *, end: int | None = None) -> Iterator[Output]:
        """Yield the visible notifications from id *start* on, at most about *count_max* values.

        It may be called from any thread: ids are consecutive whatever is forgotten meanwhile. *Raises*
        `PositionUnavailable` for what has been forgotten before.
        """
        if type(start) is not int or type(count_max) is not int or count_max < 0:
            check_count("start", start, 0)
            check_count("count_max", count_max, 0)
        return super().read(start, count_max, end=self.visible if end is None else end)

    def subscribe(self, observer: ReliableObserver[Any], *, name: str | None = None) -> Subscription:
        """Subscribe *observer*; with a *name* the stream keeps what it has not acknowledged.

        Nothing comes before `Subscription.start`. It is called by the evaluator's loop, which waits for it, and is left
        out after its first error, which is an incident: for code that may be slow or fail there is
        `hosting.subscriptions.manager.Deliveries`. `Subscription.dispose` lets the name go, `Subscription.detach` keeps
        it. *Raises* `ValueError` while another one of that name is live.
        """
        self.registry.check(f"subscribe of stream {self.name!r}")
        check_observer(observer)
        name = None if name is None else check_name("subscriber", name)
        who = name or f"observer {next(NAMELESS)}"

        def wake() -> None:
            with self.lock:
                while subscription.step() == 0.0:
                    pass
                self._note(subscription, who, name)

        def released() -> None:
            if self.registry.has_name(self.name, name, subscription):
                self.release(who)

        def check_start() -> None:
            self.registry.check_name(self.name, name, subscription)

        subscription = Subscription(
            who, Observing(observer), QUICK, clock=float, draw=float, wake=wake, released=released,
            check=self.registry.check, check_start=check_start,
        )  # fmt: skip
        if name is not None:
            self.registry.subscribed(self.name, name, subscription)
        subscription.attach(StreamSource(self, subscriber=name), "0", None)
        return subscription

    def _note(self, subscription: Subscription, who: str, name: str | None) -> None:
        """Report an observer that has raised."""
        incidents, subject = self.registry.incidents, f"{self.name}/{who}"
        if subscription.status != "stopped" or subscription.error is None:
            incidents.resolve("subscriber", subject)
            return
        position = subscription.position
        if name is not None:
            why = f"its observer raised at id {position:,}"
            self.leave(name, self.registry.absence(why, Patience.NONE))
        what = f"stopped at id {position:,}, and nothing more is delivered: {described(subscription.error)}"
        way = "mend it and call `start`, or `dispose`"
        incidents.report("subscriber", subject, f"{what}; {way}", error=subscription.error)

    def observable(self, start: int | None = None) -> reactivex.Observable[Any]:
        """Return the values from id *start* on (by default: from now on) as a plain observable."""

        def subscribe(observer: Any, scheduler: Any = None) -> Disposable:
            subscription = self.subscribe(Thin(observer))
            subscription.start(self.visible if start is None else start)
            return Disposable(subscription.dispose)

        return reactivex.Observable(subscribe)


refuse_operators(Stream, "the stream", operators.__all__)


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

    *subscriber* names who holds the stream: what it has not acknowledged stays there. Without one nothing is held. When
    the reader is closed the turns wait for its return with *patience*, once the buffer is full.
    """

    patience = Patience.SOME

    def __init__(self, stream: Stream, *, subscriber: str | None, patience: Patience = Patience.SOME) -> None:
        self.stream, self.patience = stream, patience
        self.subscriber = None if subscriber is None else check_name("subscriber", subscriber)

    def numbering(self) -> Mapping[str, Any]:
        """Return whose ids it counts by."""
        return {"stream": self.stream.name}

    def partitions(self) -> Sequence[str]:
        return ["0"]

    def bounds(self, partition: str, /) -> tuple[int, int]:
        with self.stream.lock:
            return self.stream.first, self.stream.visible

    def end_of(self, partition: str) -> int:
        """Return the id behind what is visible."""
        return self.stream.visible

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
        self.source, self.position = source, at
        self.end: int | None = None
        self.wakers: tuple[Callable[[], None], ...] = ()

    def fetch(self, count_max: int, /) -> Batch:
        stream = self.source.stream
        with stream.lock:
            batch = joined(self.position, stream.read(self.position, count_max))
        self.position = batch.next
        self.end = batch.next if batch.ended else None
        if batch.ended:
            self._hear_no_more()
        return batch

    def acknowledge(self, n: int, /) -> None:
        """Let go up to id *n*; at the end of the stream, of all that may follow under its name."""
        subscriber, stream = self.source.subscriber, self.source.stream
        if subscriber is None:
            return
        stream.acknowledge(subscriber, n)
        if self.end is not None and n >= self.end:
            stream.release(subscriber)

    def on_available(self, wake: Callable[[], None], /) -> None:
        self.wakers += (wake,)
        with self.source.stream.lock:
            self.source.stream.wakers += (wake,)

    def close(self) -> None:
        stream, subscriber = self.source.stream, self.source.subscriber
        with stream.lock:
            self._hear_no_more()
            if subscriber is not None:
                stream.leave(subscriber, stream.registry.absence("its reader was closed", self.source.patience))

    def _hear_no_more(self) -> None:
        """Let go of a stream that has ended, or that nobody reads any more: it may be forgotten then."""
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
