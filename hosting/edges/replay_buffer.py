"""A bounded run of consecutive ids that several read, each at its own pace, and that forgets what nobody needs.

The replay buffer of an output and the cache of an input partition are one thing seen from its two ends. `Window` is
what they have in common: segments in order, and *holders*, each with the least id that he still needs.
`hosting.edges.egress` puts a store and visibility around it. `Cache` bounds it: room is reserved before events are
fetched, so that what has been fetched always fits, and pressure has hysteresis. A `Cursor` is one reader of a cache.

Rejected: a deque of single events (it costs a tuple per event where a segment costs one per fetch); counting readers
per bucket (a limit smaller than the buckets overflows before it shows); dropping the oldest when full (somebody needs
it); forgetting by age (a slow reader loses events because of the clock).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from operator import attrgetter
from typing import Any

from hosting.edges.backpressure import Pressure, Weights
from hosting.engine.turns import Output
from hosting.reports.log import LOG
from hosting.reports.tracebacks import with_trace
from reliable_rx.errors import PositionUnavailable, invariant
from reliable_rx.interrupts import let_through
from reliable_rx.names import check_name
from reliable_rx.reliable import Batch

FIRST = attrgetter("first")
SEGMENTS_MIN = 256
PORTIONS = 16
"""A cache is fetched into in portions of at most this part of it, so that it can be forgotten in such."""

UNKNOWN = "?"
"""The stream of values for which `stream_of` raises, or gives what is no name."""


def stream_name(stream_of: Callable[[Any], str], value: Any, known: Container[str]) -> str:
    """Return the stream of *value*, which has been fetched and is in whatever the user's function says of it."""
    try:
        found = stream_of(value)
        return found if type(found) is str and found in known else check_name("stream", found)
    except BaseException as raised:
        let_through(raised)
        LOG.error("%s", with_trace(f"`stream_of` failed: the value is put into the stream {UNKNOWN!r}", raised))
        return UNKNOWN


class Window:
    """Ids ``first`` to ``next_id`` (that one not included), and who still needs them from where on.

    Nothing is forgotten that some holder has not acknowledged. It is not locked: whoever shares it does that.

    >>> window = Window("numbers", 0)
    >>> window.hold("a", 0)
    >>> window.append(Output("numbers", 0, ["zero", "one", "two"]))
    >>> [part.values for part in window.read(1, 10)]
    [['one', 'two']]
    >>> window.acknowledge("a", 1)
    >>> window.depth
    1
    """

    __slots__ = ("holders", "name", "next_id", "segments", "trim_at")
    kind = "window"

    def __init__(self, name: str, next_id: int) -> None:
        self.name = name
        self.next_id = next_id
        self.holders: dict[str, int] = {}
        self.segments: list[Output] = []
        self.trim_at = SEGMENTS_MIN

    @property
    def first(self) -> int:
        """The oldest id that can be read."""
        segments = self.segments
        return segments[0].first if segments else self.next_id

    @property
    def depth(self) -> int:
        """How many notifications wait for the slowest holder."""
        return self.next_id - min(self.holders.values(), default=self.next_id)

    def append(self, out: Output) -> None:
        """Take the next ids."""
        if out.first != self.next_id:
            invariant(False, f"ids of {self.name} are consecutive: {out.first} follows {self.next_id}")
        self.segments.append(out)
        self.next_id = out.next
        if len(self.segments) >= self.trim_at:
            self.trim()

    def kept_from(self) -> int:
        """The oldest id that somebody needs."""
        return min(self.holders.values(), default=self.next_id)

    def trim(self) -> None:
        """Forget whole segments that nobody needs; the newest stays. Who reads meanwhile keeps the list he reads."""
        last = bisect_right(self.segments, self.kept_from(), key=FIRST) - 1
        if last > 0:
            self.segments = self.segments[last:]
        self.trim_at = max(SEGMENTS_MIN, 2 * len(self.segments))

    def hold(self, holder: str, position: int) -> None:
        """Keep everything from id *position* on until *holder* acknowledges it."""
        self.holders[holder] = min(max(position, self.holders.get(holder, 0)), self.next_id)

    def release(self, holder: str) -> None:
        """Forget a holder."""
        self.holders.pop(holder, None)

    def acknowledge(self, holder: str, n: int) -> None:
        """*holder* has id *n* and all before."""
        if holder in self.holders:
            self.holders[holder] = max(self.holders[holder], n + 1)

    def readable(self) -> list[Output]:
        """Return what there is to read: a list that is appended to, and not otherwise changed."""
        return self.segments

    def read(self, start: int, count_max: int, *, end: int | None = None) -> Iterator[Output]:
        """Yield what lies between ids *start* and *end*, at most about *count_max* values.

        *Raises* `PositionUnavailable` for what has been forgotten.
        """
        segments = self.readable()  # before the check, so it holds all that this allows, whatever is forgotten
        self.check(start)
        if end is None:
            end = self.next_id
        index = max(0, bisect_right(segments, start, key=FIRST) - 1)
        while start < end and count_max > 0 and index < len(segments):
            whole = segments[index]
            index += 1
            if whole.first > start:  # ids that hold nothing
                start = whole.first
            segment = part(whole, start, min(end, start + count_max))
            if segment is not None:
                yield segment
                start = segment.next
                count_max -= len(segment.values)

    def check(self, start: int) -> None:
        """*Raises* `PositionUnavailable` if one cannot begin to read at id *start*."""
        first = self.first
        if not first <= start <= self.next_id:
            raise PositionUnavailable(
                f"{self.kind} {self.name!r} holds ids {first:,} to {self.next_id:,}, not {start:,}: start inside, or "
                f"retain more",
                wanted=start,
                first=first,
                end=self.next_id,
            )


class Cache(Window):
    """A window over one partition of an input that never holds more than *events_max*.

    Whoever fetches reserves first, and `fill` takes what was reserved, whatever else happens meanwhile. *stream_of*
    says to which stream inside the partition a value belongs; then cursors may read one stream. *weights* bound it in
    bytes besides.

    >>> cache = Cache("0", 100, events_max=40)
    >>> cursor = Cursor(cache, "me", 100)
    >>> reserved = cache.reserve(1000)
    >>> reserved
    2
    >>> _ = cache.fill(reserved, ["a", "b"])
    >>> cursor.take(10).values
    ['a', 'b']
    >>> cursor.confirm(101)
    >>> cache.first
    100
    >>> cache.room()
    40
    >>> cache.first
    102
    """

    __slots__ = ("cursors", "events_max", "held", "index", "low", "pressure", "reserved", "stream_of", "weights")
    kind = "cache"

    def __init__(
        self,
        name: str,
        next_id: int,
        *,
        events_max: int,
        stream_of: Callable[[Any], str] | None = None,
        weights: Weights | None = None,
    ) -> None:
        if events_max < 1:
            raise ValueError(f"events_max is {events_max}; a cache needs room for at least one event")
        super().__init__(name, next_id)
        self.events_max = events_max
        self.stream_of = stream_of
        self.pressure, self.weights = Pressure(events_max), weights
        self.held = self.reserved = 0
        self.low = next_id
        self.index: dict[str, list[int]] = {}
        self.cursors: dict[str, Cursor] = {}

    @property
    def first(self) -> int:
        """The oldest id that can be read."""
        return self.low

    def room(self) -> int:
        """Say how many events may be reserved now; forgets what it can. 0 under pressure."""
        self.trim()
        held = self.held + self.reserved
        room = 0 if self.pressure.at(held) else self.events_max - held
        return room if self.weights is None else min(room, self.weights.room(reserved=self.reserved))

    @property
    def under_pressure(self) -> bool:
        """Whether `room` has said that there is none, and not yet that there is some again."""
        return self.pressure.on or (self.weights is not None and self.weights.pressure.on)

    def reserve(self, count_max: int) -> int:
        """Set room aside for at most *count_max* events that are about to be fetched; return for how many."""
        portion = self.events_max // PORTIONS
        if self.weights is not None:
            portion = min(portion, self.weights.portion(PORTIONS))
        count = max(0, min(count_max, self.room(), max(1, portion)))
        self.reserved += count
        return count

    def fill(self, reserved: int, values: Sequence[Any], *, first: int | None = None) -> Sequence[str]:
        """Append what was fetched for a reservation, which ends; return the streams that are new in the cache.

        The ids between what was there and *first* hold nothing.
        """
        invariant(len(values) <= reserved <= self.reserved, f"{self.name}: {len(values)} events fit what was reserved")
        self.reserved -= reserved
        if first is not None:
            invariant(first >= self.next_id, f"{self.name}: id {first} does not come before {self.next_id}")
            self.next_id = first
        if not values:
            return ()
        first = self.next_id
        self.held += len(values)
        if self.weights is not None:
            self.weights.add(values)
        self.append(Output(self.name, first, values))
        return self._note(first, values)

    def _note(self, first: int, values: Sequence[Any]) -> Sequence[str]:
        if self.stream_of is None:
            return ()
        fresh: list[str] = []
        for n, value in enumerate(values, first):
            stream = self._stream(value)
            ids = self.index.get(stream)
            if ids is None:
                self.index[stream] = [n]
                fresh.append(stream)
            else:
                ids.append(n)
        return fresh

    def _stream(self, value: Any) -> str:
        return UNKNOWN if self.stream_of is None else stream_name(self.stream_of, value, self.index)

    def value(self, n: int) -> Any:
        """Return the value with id *n*."""
        segment = self.segments[bisect_right(self.segments, n, key=FIRST) - 1]
        return segment.values[n - segment.first]

    def trim(self) -> None:
        """Forget whole segments that no cursor and no pin needs."""
        for cursor in self.cursors.values():
            cursor.pass_over()
        needed, done = self.kept_from(), 0
        for segment in self.segments:
            if segment.next > needed:
                break
            done += 1
            self.low = segment.next
            self.held -= len(segment.values)
        if done:
            del self.segments[:done]
            if self.weights is not None:
                self.weights.drop(done)
            self._forget_index()
        self.trim_at = max(SEGMENTS_MIN, 2 * len(self.segments))

    def pass_gap(self) -> None:
        """Forget also the ids without an event that lie before what is kept."""
        self.trim()
        self.low = max(self.low, min(self.kept_from(), self.segments[0].first if self.segments else self.next_id))

    def _forget_index(self) -> None:
        for stream, ids in list(self.index.items()):
            del ids[: bisect_left(ids, self.low)]
            if not ids:
                del self.index[stream]


class Cursor:
    """One reader of a cache, at his own pace: ``position`` is his next id, and below ``confirmed`` he needs nothing.

    With a *stream* he sees the values of that stream only, and is never held up nor holds anything up by the others.

    *Raises* `PositionUnavailable` (wanted, first, end) if the cache does not hold id *at*.
    """

    __slots__ = ("cache", "name", "position", "stream")

    def __init__(self, cache: Cache, name: str, at: int, *, stream: str | None = None) -> None:
        cache.check(at)
        if name in cache.holders:
            raise ValueError(f"{cache.kind} {cache.name!r} has a cursor called {name!r} already; close it first")
        if stream is not None and cache.stream_of is None:
            raise ValueError(f"{cache.kind} {cache.name!r} does not know streams: give it `stream_of`")
        self.cache, self.name, self.position, self.stream = cache, name, at, stream
        cache.holders[name] = at
        cache.cursors[name] = self

    @property
    def confirmed(self) -> int:
        """The least id that is kept for this reader."""
        return self.cache.holders[self.name]

    def take(self, count_max: int) -> Batch:
        """Return the next values with consecutive ids, at most *count_max*, and step behind them.

        The ids before them that hold nothing for this reader are `skipped`.
        """
        start = self.position
        first, values = self._next(count_max) if self.stream is None else self._next_of(self.stream, count_max)
        self.position = first + len(values)
        return Batch(first, values, skipped=first - start)

    def _next(self, count_max: int) -> tuple[int, list[Any]]:
        values: list[Any] = []
        first = self.cache.next_id if count_max > 0 else self.position
        for segment in self.cache.read(self.position, count_max):
            if not values:
                first = segment.first
            elif segment.first != first + len(values):
                break
            values += segment.values
        return first, values

    def _next_of(self, stream: str, count_max: int) -> tuple[int, list[Any]]:
        ids = self.cache.index.get(stream, [])
        index = bisect_left(ids, self.position)
        if index == len(ids) or count_max <= 0:
            return self.cache.next_id if count_max > 0 else self.position, []
        first, values = ids[index], list[Any]()
        for n in ids[index : index + count_max]:
            if n != first + len(values):
                break
            values.append(self.cache.value(n))
        return first, values

    def confirm(self, n: int) -> None:
        """Say that id *n* and all before may be forgotten. It must have been taken."""
        invariant(n < self.position, f"{self.name} confirms id {n}, and has taken what lies before {self.position}")
        self.cache.acknowledge(self.name, n)

    def pass_over(self) -> None:
        """Confirm the values of other streams that lie before the next one that this reader still needs."""
        if self.stream is None:
            return
        ids = self.cache.index.get(self.stream, [])
        next_own = bisect_left(ids, self.confirmed)
        needed = ids[next_own] if next_own < len(ids) else self.cache.next_id
        self.cache.holders[self.name] = needed
        self.position = max(self.position, needed)

    def close(self) -> None:
        """Need nothing any more."""
        self.cache.release(self.name)
        self.cache.cursors.pop(self.name, None)


def part(segment: Output, start: int, end: int) -> Output | None:
    """Return what of *segment* lies between ids *start* and *end*."""
    if segment.first >= start and segment.next <= end:
        return segment
    low, high = max(0, start - segment.first), end - segment.first
    values = segment.values[low:high]
    ended = segment.ended and segment.next <= end and start < segment.next
    return (
        Output(segment.name, segment.first + low, values, ended, segment.error if ended else None)
        if values or ended
        else None
    )
