"""Long polling: give records when enough are there or one has waited long enough, and look no oftener than needed.

A pull falls behind and catches up, and takes whatever is there; where each pull has a price (a turn, a journal entry, a
request), many small ones cost more than a short wait. A `Want` says what is worth a pull. No thread waits: a reader
that is `Waking` wakes its host, any other is looked at again when `next_look_s` says, which backs off while nothing
comes. Both are questions to the reader, so a host with ten thousand partitions asks them from a few threads.

Sizes are what values take when pickled, as they would on their way to a store, learnt from a sample (every
`SAMPLE_EVERY`th value and the first few), and only where a want speaks of bytes. Rejected: pickling every value (that
costs more than to process it), `sys.getsizeof` (says nothing of what a value refers to), and asking every source for
sizes (most read records, not bytes).
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, takewhile
from typing import Any, Protocol, runtime_checkable

from hosting.reports.log import LOG
from hosting.reports.tracebacks import with_trace
from hosting.sources.definition import hand_on
from reliable_rx.errors import ReliableRxError
from reliable_rx.interrupts import let_through
from reliable_rx.reliable import Batch, Reader, SequencedEnd, Source, Waking

SAMPLE_FIRST, SAMPLE_EVERY = 16, 64
FETCH_MAX = 1024
LOOK_S, LOOK_S_MAX = 0.02, 0.25
PATIENCE_S = 30.0
UNKNOWN_BYTES = 1024
"""The size of a value that cannot be measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Want:
    """What is worth a pull: at least *count_min* records or *bytes_min* bytes, unless *wait_s* have gone by.

    A pull has at most *count_max* records and *bytes_max* bytes (None: no limit), but always one record, however large.
    """

    count_min: int = 1
    count_max: int = 10_000
    bytes_min: int = 0
    bytes_max: int | None = None
    wait_s: float = 0.5

    def __post_init__(self) -> None:
        bytes_max = self.bytes_min if self.bytes_max is None else self.bytes_max
        if not (0 < self.count_min <= self.count_max and 0 <= self.bytes_min <= bytes_max and self.wait_s >= 0):
            raise ValueError(f"{self}: the least is one record and no bytes, and never above the most")

    @property
    def weighs(self) -> bool:
        """Whether it speaks of bytes."""
        return self.bytes_min > 0 or self.bytes_max is not None


@runtime_checkable
class Looking(Protocol):
    """A reader that knows when it is worth looking at it again."""

    def next_look_s(self) -> float | None:
        """Return how long nothing can come of a `fetch`, unless the reader wakes its host; None: for ever."""
        ...


class Pace:
    """How often to look where nobody wakes us: less and less often while nothing comes.

    >>> pace = Pace(first_s=0.02, most_s=0.1)
    >>> pace.begin(), [pace.nothing() for _ in range(3)], pace.begin()
    (0.02, [0.04, 0.08, 0.1], 0.02)
    """

    __slots__ = ("_first_s", "_most_s", "_wait_s")

    def __init__(self, *, first_s: float = LOOK_S, most_s: float = LOOK_S_MAX) -> None:
        self._first_s = self._wait_s = first_s
        self._most_s = most_s

    def begin(self) -> float:
        """Nothing came, for the first time; return how long to wait before the next look."""
        self._wait_s = self._first_s
        return self._wait_s

    def nothing(self) -> float:
        """Nothing came once more; return how long to wait before the next look."""
        self._wait_s = min(2 * self._wait_s, self._most_s)
        return self._wait_s


class Patience:
    """How long a store that cannot be read is borne before that is an error.

    >>> Patience(30.0).bear(OSError("stale file handle"))
    True
    >>> Patience(0.0).bear(OSError("stale file handle"))
    Traceback (most recent call last):
    OSError: stale file handle
    """

    __slots__ = ("_patience_s", "_since")

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: float | None = None

    def bear(self, error: Exception) -> bool:
        """Return whether this is the first time. *Raises* the *error* if it has been so for too long."""
        now, first = time.monotonic(), self._since is None
        if self._since is None:
            self._since = now
        if now - self._since >= self._patience_s:
            raise error
        return first

    def over(self) -> None:
        """It can be read again."""
        self._since = None


class Sizes:
    """About how many bytes a value takes: the mean of a sample of those seen, or exactly where *bytes_of* says it.

    >>> Sizes(None).of([b"x" * 1000, b"y" * 3000]) > 4000
    True
    """

    __slots__ = ("_bytes", "_bytes_of", "_is_told", "_sampled", "_seen")

    def __init__(self, bytes_of: Callable[[Any], int] | None) -> None:
        self._bytes_of = bytes_of
        self._is_told = False
        self._bytes = self._sampled = self._seen = 0

    def learn(self, values: Sequence[Any]) -> None:
        """See *values* that have come."""
        if self._bytes_of is not None:
            return
        for value in self._sample(values):
            self._bytes += pickled_bytes(value)
            self._sampled += 1
        self._seen += len(values)

    def of(self, values: Sequence[Any]) -> int:
        """Return how many bytes *values* take."""
        if self._bytes_of is not None:
            return sum(map(self._size, values))
        if not self._sampled:
            self.learn(values)
        return len(values) * self._bytes // max(1, self._sampled)

    def fitting(self, values: Sequence[Any], bytes_max: int) -> int:
        """Return how many of *values*, from the first on, are within *bytes_max*; at least one."""
        if self._bytes_of is None:
            return max(1, bytes_max * self._sampled // max(1, self._bytes))
        sums = accumulate(map(self._size, values))
        return max(1, sum(1 for _ in takewhile(lambda total: total <= bytes_max, sums)))

    def _size(self, value: Any) -> int:
        """Return what `bytes_of` says; where it fails, what is supposed otherwise: a size must not lose a value."""
        try:
            found = None if self._bytes_of is None else self._bytes_of(value)
            if isinstance(found, int) and (size := int(found)) >= 0:
                return size
            raise TypeError(f"it is a number of bytes, zero or more, got a {type(found).__name__}")
        except BaseException as raised:
            let_through(raised)
            if not self._is_told:
                self._is_told = True
                what = "`bytes_of` failed: the value counts as large as it is when pickled; this is said once"
                LOG.error("%s", with_trace(what, raised))
            return pickled_bytes(value)

    def _sample(self, values: Sequence[Any]) -> Iterator[Any]:
        seen, first = self._seen, max(0, min(len(values), SAMPLE_FIRST - self._seen))
        yield from values[:first]
        yield from values[max(first, -seen % SAMPLE_EVERY) :: SAMPLE_EVERY]


def listed(batch: Batch) -> Batch:
    """Return *batch* with its values in a list, in whatever class it is given."""
    first, values, ended, error = batch.first, list(batch.values), batch.ended, batch.error
    return Batch(first, values, ended, error, batch.skipped, batch.coming, batch.rejected)


def pickled_bytes(value: Any) -> int:
    """Return how many bytes *value* takes when pickled, `UNKNOWN_BYTES` if it does not."""
    try:
        return len(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))
    except BaseException as raised:
        let_through(raised)
        return UNKNOWN_BYTES


class PolledSource:
    """Read *source* in pulls that are worth it, as *want* says.

    *bytes_of* gives the size of a value where it is known, instead of a sample; *clock* steady seconds.

    >>> from hosting import ListSource
    >>> reader = PolledSource(ListSource([*"abcdefg"]), Want(count_max=3)).open("0", 0)
    >>> [reader.fetch(100).values for _ in range(3)]
    [['a', 'b', 'c'], ['d', 'e', 'f'], ['g']]
    """

    def __init__(
        self,
        source: Source,
        want: Want,
        *,
        bytes_of: Callable[[Any], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source, self._want, self._bytes_of, self._clock = source, want, bytes_of, clock
        hand_on(source, self)

    def partitions(self) -> Sequence[str]:
        """Name the partitions of the source within."""
        return self._source.partitions()

    def open(self, partition: str, at: int, /) -> Reader:
        """Read *partition* from id *at* on."""
        reader = self._source.open(partition, at)
        kind = WakingPolledReader if isinstance(reader, Waking) else PolledReader
        return kind(reader, at, self._want, Sizes(self._bytes_of), self._clock)


class PolledReader:
    """Gathers what *reader* gives until it is worth a pull, and holds no more than a pull and a fetch."""

    _wakes = False

    def __init__(self, reader: Reader, at: int, want: Want, sizes: Sizes, clock: Callable[[], float]) -> None:
        self._reader, self._want, self._sizes, self._clock = reader, want, sizes, clock
        self._position = at
        self._values: list[Any] = []
        self._last: Batch | None = None
        """The newest batch, if it cannot be joined to what is held: an end, or ids behind skipped ones."""
        self._coming = False
        self._fails = False
        """Whether the reader has raised behind what is held."""
        self._since = 0.0
        self._pace = Pace()
        self._look_s = 0.0
        self.acknowledge = reader.acknowledge
        self.close = reader.close
        if isinstance(reader, SequencedEnd):
            self.sequenced_end = reader.sequenced_end

    def fetch(self, count_max: int, /) -> Batch:
        most = min(count_max, self._want.count_max)
        self._gather(most)
        if most > 0 and (self._is_enough(most) or self._has_waited()):
            return self._pull(most)
        return Batch(self._position, (), coming=self._coming or bool(self._values))

    def next_look_s(self) -> float | None:
        """Return how long nothing can come of a `fetch`; None: for ever, unless the reader wakes its host."""
        if self._last is not None or self._coming or (self._fails and self._values):
            return 0.0
        waits = [] if self._wakes else [self._look_s]
        if self._values:
            waits.append(max(0.0, self._since + self._want.wait_s - self._clock()))
        return min(waits, default=None)

    def _gather(self, most: int) -> None:
        """Fetch for as long as something comes and it is not enough."""
        while self._last is None and most > 0 and not self._is_enough(most):
            self._fails = False
            try:
                batch = self._reader.fetch(min(FETCH_MAX, most - len(self._values)))
                if not isinstance(batch.values, list):  # an iterator has no length, and is true when it has nothing
                    batch = listed(batch)
            except ReliableRxError:
                if not self._values:
                    raise
                self._fails = True  # what came before is given first, and then it is asked again
                return
            self._coming = batch.coming
            self._look_s = 0.0 if batch.values else self._pace.nothing() if self._look_s else self._pace.begin()
            self._take(batch)
            if not batch.values:
                return

    def _take(self, batch: Batch) -> None:
        if batch.first != self._position + len(self._values):
            self._last = batch
            return
        if batch.values:
            self._since = self._since if self._values else self._clock()
            self._values += batch.values
            if self._want.weighs:
                self._sizes.learn(batch.values)
        if batch.ended or batch.error is not None:
            self._last = Batch(batch.next, (), batch.ended, batch.error)

    def _is_enough(self, most: int) -> bool:
        want, count = self._want, len(self._values)
        if self._last is not None or count >= most or (self._fails and count):
            return True
        if count < want.count_min:
            return False
        return not want.bytes_min or self._sizes.of(self._values) >= want.bytes_min

    def _has_waited(self) -> bool:
        return bool(self._values) and self._clock() - self._since >= self._want.wait_s

    def _pull(self, most: int) -> Batch:
        if not self._values and self._last is not None:
            return self._pull_last(self._last, most)
        count, want = min(most, len(self._values)), self._want
        if want.bytes_max is not None:
            count = min(count, self._sizes.fitting(self._values, want.bytes_max))
        values, self._values = self._values[:count], self._values[count:]
        first = self._position
        self._position = first + count
        self._since = self._clock()
        last = self._last
        if self._values or last is None or last.first != self._position or last.values:
            return Batch(first, values, coming=bool(self._values))
        return Batch(first, values, last.ended, last.error)

    def _pull_last(self, last: Batch, most: int) -> Batch:
        """Go on behind skipped ids, or stay at the end."""
        if (last.ended or last.error is not None) and not last.values:
            self._position = last.first
            return last
        self._last, before = None, self._position
        self._position = last.first
        self._take(last)
        if not self._values:
            skipped = self._position - before
            return Batch(self._position, (), skipped=skipped, coming=last.coming, rejected=last.rejected)
        pulled = self._pull(most)
        return replace(pulled, skipped=pulled.first - before, rejected=last.rejected)


class WakingPolledReader(PolledReader):
    """One whose reader says when something has arrived."""

    _wakes = True

    def on_available(self, wake: Callable[[], None], /) -> None:
        reader = self._reader
        if isinstance(reader, Waking):
            reader.on_available(wake)
