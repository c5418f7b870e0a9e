"""One partition of a shared source while it is open: the cache, whoever reads it, and who has acknowledged what.

Two locks. `lock` guards the cache and is held for moments. `fetching` is held by the one who fetches from the source
(or acknowledges to it), without `lock`, so that the others go on reading what there is. Whoever finds `fetching` taken
does not wait: he gets nothing now and is woken when it is free.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hosting.edges.replay_buffer import Cache, Cursor, stream_name
from reliable_rx.errors import PositionUnavailable
from reliable_rx.reliable import Batch, Reader, Rejected, SequencedEnd, Waking

if TYPE_CHECKING:
    from hosting.sources.shared import SharedSource

BEFORE_ALL = -1


class SharedPartition:
    """What the readers of one partition have in common."""

    def __init__(self, source: SharedSource, name: str) -> None:
        self.source, self.name = source, name
        self.lock = threading.Lock()
        self.fetching = threading.Lock()
        self.refused = False
        self.cache: Cache | None = None
        self.reader: Reader | None = None
        self.finished: Batch | None = None
        self.rejected: deque[Rejected] = deque()
        """Records that could not be read, between the events of the cache, until all have passed them by."""
        self.readers: dict[str, SharedReader] = {}
        self.acknowledged: dict[str, int] = {}
        self.names: set[str] = set()
        """Readers that count among those who acknowledge also while they are not open."""
        self.told = BEFORE_ALL
        self._numbers = itertools.count()

    # -- coming and going

    def open(self, name: str | None, at: int, stream: str | None) -> SharedReader:
        """Read from id *at* on: in the cache if it has that, else apart. *Raises* `PositionUnavailable`."""
        with self._quiet():
            name = name if name is not None else f"reader {next(self._numbers)}"
            if name in self.readers:
                raise ValueError(f"{name!r} reads partition {self.name!r} already; close that reader first")
            if self.cache is None:
                self._begin(at)
            reader = SharedReader(self, name, at, stream)
            with self.lock:
                joined = reader.join()
            if not joined:
                reader.part()
            with self.lock:
                self.readers[name] = reader
                self.acknowledged[name] = at - 1
        return reader

    def _begin(self, at: int) -> None:
        reader = self.source.source.open(self.name, at)
        if isinstance(reader, Waking):
            reader.on_available(self.wake)
        with self.lock:
            self.reader, self.finished = reader, None
            self.rejected.clear()  # they come again, and would be held twice
            self.cache = self.source.new_cache(self.name, at)

    def close(self, reader: SharedReader) -> None:
        """Let a reader go; with the last one the source is closed and the cache is gone."""
        with self._quiet():
            with self.lock:
                if self.readers.get(reader.name) is not reader:
                    return
                del self.readers[reader.name]
                if reader.name not in self.names:
                    self.acknowledged.pop(reader.name, None)
                reader.leave()
                last = not self.readers
                own, self.reader = (self.reader, None) if last else (None, self.reader)
                self.cache = None if last else self.cache
            if own is not None:
                own.close()
        self.wake()

    def register(self, name: str) -> None:
        """Have *name* count among those who acknowledge, though it has not been here yet."""
        with self.lock:
            self.names.add(name)
            self.acknowledged.setdefault(name, BEFORE_ALL)

    def forget(self, name: str) -> None:
        """Have *name* count no longer, unless it is open."""
        with self.lock:
            self.names.discard(name)
            if name not in self.readers:
                self.acknowledged.pop(name, None)

    def is_quiet(self, stream: str, name: str | None) -> bool:
        """Whether the cache has nothing of *stream*, so that its next event will be told of as one of a new stream.

        The reader *name* reads in the cache, if there is one: of one apart nobody knows what it has not read yet.
        """
        with self.lock:
            reader = None if name is None else self.readers.get(name)
            apart = reader is not None and reader.cursor is None
            return not apart and (self.cache is None or stream not in self.cache.index)

    # -- fetching

    def fetch(self, count_max: int) -> bool:
        """Fetch into the cache; return whether more may be there that could not be fetched now."""
        if not self.fetching.acquire(blocking=False):
            self.refused = True  # seen by whoever fetches, unless he has just finished
            if not self.fetching.acquire(blocking=False):
                return True
        try:
            fresh, moved, held_up = self._fetch(count_max)
        finally:
            self.fetching.release()
            self._wake_refused()
        if moved:
            self.wake()
        if fresh:
            self._announce(fresh)
        return held_up

    def _fetch(self, count_max: int) -> tuple[Sequence[tuple[str, int]], bool, bool]:
        with self.lock:
            cache, reader = self.cache, self.reader
            if cache is None or reader is None or self.finished is not None:
                return (), False, False
            if self._are_too_many_rejected(cache):
                return (), False, count_max > 0
            reserved = self._reserve(cache, count_max)
        if not reserved:
            return (), False, count_max > 0
        try:
            batch = reader.fetch(reserved)
        except BaseException:
            with self.lock:
                cache.fill(reserved, ())
            raise
        with self.lock:
            fresh = self._fill(cache, reserved, batch)
        goes_on = batch.coming and not isinstance(reader, Waking)
        return fresh, bool(batch.values) or goes_on or self.finished is not None, batch.coming

    def _are_too_many_rejected(self, cache: Cache) -> bool:
        """Return whether there are as many as there may be events, once those are forgotten that all have passed by."""
        if len(self.rejected) >= self.source.events_max:
            cache.pass_gap()
        while self.rejected and self.rejected[0].position < cache.first:
            self.rejected.popleft()
        return len(self.rejected) >= self.source.events_max

    def rejected_within(self, first: int, end: int) -> tuple[Rejected, ...]:
        """Under the lock: return the records that could not be read from id *first* on and before *end*."""
        if not self.rejected or first == end:
            return ()
        return tuple(each for each in self.rejected if first <= each.position < end)

    def _reserve(self, cache: Cache, count_max: int) -> int:
        reserved = cache.reserve(count_max)
        while not reserved and count_max > 0 and self.source.lag == "detach" and self._detach(cache):
            reserved = cache.reserve(count_max)
        return reserved

    def _detach(self, cache: Cache) -> bool:
        """Put those who are behind by most on readers of their own; return whether there were any."""
        least = cache.kept_from()
        slowest = [r for r in self.readers.values() if r.cursor is not None and r.cursor.confirmed == least]
        for reader in slowest:
            reader.leave()
        return bool(slowest)

    def _fill(self, cache: Cache, reserved: int, batch: Batch) -> Sequence[tuple[str, int]]:
        first, values = batch.first, batch.values
        if first < cache.next_id:  # given twice
            first, values = cache.next_id, values[cache.next_id - first :]
        if first - batch.skipped > cache.next_id:
            cache.fill(reserved, ())
            raise PositionUnavailable(
                f"partition {self.name}: wanted id {cache.next_id:,}, but the source goes on at {first:,}; events were "
                f"lost there",
                wanted=cache.next_id,
                first=first,
                end=batch.next,
            )
        self.rejected.extend(each for each in batch.rejected if each.position >= cache.next_id)
        fresh = cache.fill(reserved, values, first=first)
        if batch.ended or batch.error is not None:
            self.finished = batch
        if not self.source.watchers:
            return ()
        found = [(stream, cache.index[stream][0]) for stream in fresh]
        for stream, n in found:
            cache.hold(f"new stream {stream}", n)
        return found

    def _announce(self, fresh: Sequence[tuple[str, int]]) -> None:
        try:
            for stream, n in fresh:
                for told in self.source.watchers:
                    told(self.name, stream, n)
        finally:
            with self.lock:
                for stream, _ in fresh:
                    if self.cache is not None:
                        self.cache.release(f"new stream {stream}")
            self.wake()

    # -- acknowledging and waking

    def acknowledge(self, name: str, n: int) -> None:
        """Note what *name* has, and tell the source what all have. *Raises* `StoreUnavailable`."""
        with self.lock:
            self.acknowledged[name] = max(n, self.acknowledged.get(name, BEFORE_ALL))
        with self._quiet():
            with self.lock:
                least, reader = min(self.acknowledged.values()), self.reader
            if reader is not None and least > self.told:
                reader.acknowledge(least)
                self.told = least

    def wake(self) -> None:
        """Tell all readers that there may be something to take, or to fetch."""
        with self.lock:
            wakers = [wake for reader in self.readers.values() for wake in reader.wakers]
        for wake in wakers:
            wake()

    @contextmanager
    def _quiet(self) -> Iterator[None]:
        """While nobody fetches; whoever wanted to meanwhile is woken afterwards."""
        with self.fetching:
            yield
        self._wake_refused()

    def _wake_refused(self) -> None:
        refused, self.refused = self.refused, False
        if refused:
            self.wake()


class SharedReader:
    """One reader of a shared partition: a cursor of its cache, or, where the cache is not, a reader of its own."""

    def __init__(self, partition: SharedPartition, name: str, at: int, stream: str | None) -> None:
        self.partition, self.name, self.stream = partition, name, stream
        self.position = at
        self.cursor: Cursor | None = None
        self.own: Reader | None = None
        self.ahead: deque[Batch] = deque()
        self.wakers: tuple[Callable[[], None], ...] = ()
        if isinstance(partition.reader, SequencedEnd):
            self.sequenced_end = True

    def fetch(self, count_max: int, /) -> Batch:
        if count_max <= 0:
            return Batch(self.position, ())
        self._join_if_caught_up()
        batch = self._taken(count_max)
        if batch is None:
            return self._fetch_own(count_max)
        if batch.values or batch.ended or batch.error is not None:
            return batch
        held_up = self.partition.fetch(count_max)
        more = self._taken(count_max)
        if more is None:  # detached meanwhile
            return replace(batch, coming=True)
        skipped, rejected = batch.skipped + more.skipped, batch.rejected + more.rejected
        return replace(more, skipped=skipped, rejected=rejected, coming=held_up and not more.values)

    def _taken(self, count_max: int) -> Batch | None:
        """Take from the cache; None if this reader is not in it."""
        batch, relieved = self._take(count_max)
        if relieved:
            self.partition.wake()
        return batch

    def _take(self, count_max: int) -> tuple[Batch | None, bool]:
        with self.partition.lock:
            cursor, cache = self.cursor, self.partition.cache
            if cursor is None or cache is None:
                return None, False
            batch = cursor.take(count_max)
            skipped = batch.first - self.position
            rejected = self.partition.rejected_within(self.position, batch.first) if self.stream is None else ()
            self.position = batch.next
            cursor.confirm(batch.next - 1)
            relieved = cache.under_pressure and cache.room() > 0
            end = self.partition.finished
            taken = Batch(batch.first, batch.values, skipped=skipped, rejected=rejected)
            if end is None or batch.next < cache.next_id:
                return taken, relieved
            return replace(taken, ended=end.ended, error=end.error), relieved

    # -- in the cache, or apart

    def join(self) -> bool:
        """Under the lock: become a cursor if the cache has what comes next; return whether it has."""
        cache = self.partition.cache
        if cache is None or not cache.first <= self.position <= cache.next_id:
            return False
        self.cursor = Cursor(cache, self.name, self.position, stream=self.stream)
        return True

    def leave(self) -> None:
        """Under the lock: be a cursor no longer."""
        if self.cursor is not None:
            self.cursor.close()
            self.cursor = None

    def part(self) -> Reader:
        """Open a reader of one's own. *Raises* `PositionUnavailable`."""
        if self.own is None:
            self.own = self.partition.source.apart().open(self.partition.name, self.position)
            if isinstance(self.own, Waking):
                for wake in self.wakers:
                    self.own.on_available(wake)
        return self.own

    def _join_if_caught_up(self) -> None:
        if self.cursor is not None or self.ahead:
            return
        with self.partition.lock:
            joined = self.join()
        if joined and self.own is not None:
            own, self.own = self.own, None
            own.close()

    def _fetch_own(self, count_max: int) -> Batch:
        if not self.ahead:
            batch = self.part().fetch(min(count_max, self._short_of_cache()))
            self.ahead.extend(runs(batch, self.position, self.stream, self.partition.source.stream_of))
        batch = self.ahead.popleft()
        if len(batch.values) > count_max:
            rest = Batch(batch.first + count_max, batch.values[count_max:], batch.ended, batch.error)
            self.ahead.appendleft(rest)
            batch = replace(batch, values=batch.values[:count_max], ended=False, error=None)
        self.position = batch.next
        return batch

    def _short_of_cache(self) -> int:
        """How far to read apart, so as not to pass by the cache."""
        with self.partition.lock:
            cache = self.partition.cache
            end = cache.next_id if cache is not None else self.position
        return end - self.position if end > self.position else 1 << 30

    # -- the rest of a reader

    def acknowledge(self, n: int, /) -> None:
        self.partition.acknowledge(self.name, n)

    def on_available(self, wake: Callable[[], None], /) -> None:
        self.wakers += (wake,)
        if isinstance(self.own, Waking):
            self.own.on_available(wake)

    def close(self) -> None:
        self.partition.close(self)
        if self.own is not None:
            self.own.close()
            self.own = None


def runs(batch: Batch, position: int, stream: str | None, stream_of: Callable[[Any], str] | None) -> Iterator[Batch]:
    """Cut *batch*, wanted from id *position* on, into runs of consecutive events of one stream."""
    if stream is None or stream_of is None:
        yield batch
        return
    first, values = position, list[Any]()
    for n, value in enumerate(batch.values, batch.first):
        if stream_name(stream_of, value, (stream,)) != stream:
            continue
        if values and n != first + len(values):
            yield Batch(first, values, skipped=first - position)
            position, values = first + len(values), []
        first = n if not values else first
        values.append(value)
    if values:
        yield Batch(first, values, skipped=first - position)
        position = first + len(values)
    end = batch.next
    yield Batch(end, (), batch.ended, batch.error, skipped=end - position, coming=batch.coming)
