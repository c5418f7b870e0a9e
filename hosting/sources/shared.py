"""One source, fetched once, for several evaluators (or consumers) in this process, each at its own pace.

A partition that is open has one reader of the source and a `Cache` behind it; whoever has taken all there is fetches
on, for everybody. A reader who opens below the cache reads the source by itself until it has caught up and joins. One
that falls behind holds up the fetching (``lag="slow"``) or, when room is needed, goes on by itself (``"detach"``).

What a reader has taken is with its evaluator, and the source keeps it until it is acknowledged; so a cursor in the
cache confirms as it takes, and a checkpoint a million events later does not need a cache of a million. Rejected: a
thread that fetches (somebody who wants events is there anyway), a queue per reader (the slowest decides the memory).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

from hosting.admission.constructor_types import checks_kinds
from hosting.edges.backpressure import Weights
from hosting.edges.replay_buffer import Cache
from hosting.sources.definition import definition_of, hand_on
from hosting.sources.polling import Sizes
from hosting.sources.shared_partition import SharedPartition, SharedReader
from reliable_rx.names import check_name
from reliable_rx.reliable import Source

LAGS = ("slow", "detach")
NewStream = Callable[[str, str, int], None]


class SharedSource:
    """Read *source* once for all who open its partitions here; any number of readers, from any threads.

    At most *events_max* events of a partition are held, and about *bytes_max* bytes of them if that is given: by a
    sample of what was fetched, or exactly where *bytes_of* gives the size of an event. When a reader lags by that much,
    *lag* says whether the others wait for it (``"slow"``) or it goes on by itself (``"detach"``): then it reads what
    *apart* makes, by default the same source, which must bear that one partition is open twice.

    The source may forget what all have acknowledged: all who are open, and those who have a name (`named`) also while
    they are not. *stream_of* says to which stream inside its partition an event belongs, for readers of one `stream`.

    >>> from hosting import ListSource
    >>> shared = SharedSource(ListSource(["a", "b", "c"]))
    >>> first, second = shared.open("0", 0), shared.open("0", 1)
    >>> first.fetch(2).values, second.fetch(10).values, first.fetch(10).values
    (['a', 'b'], ['b'], ['c'])
    """

    @checks_kinds()
    def __init__(
        self,
        source: Source,
        *,
        events_max: int = 65_536,
        bytes_max: int | None = None,
        bytes_of: Callable[[Any], int] | None = None,
        lag: Literal["slow", "detach"] = "slow",
        stream_of: Callable[[Any], str] | None = None,
        apart: Callable[[], Source] | None = None,
    ) -> None:
        if lag not in LAGS:
            raise ValueError(f"lag must be one of {', '.join(LAGS)}, got {lag!r}")
        self.source = source
        self.events_max, self.bytes_max, self.bytes_of = events_max, bytes_max, bytes_of
        self.stream_of = stream_of
        self.new_cache("", 0)  # which says what is wrong with them
        self.lag = lag
        self.apart = apart or (lambda: source)
        self.names: set[str] = set()
        self.watchers: tuple[NewStream, ...] = ()
        self._lock = threading.Lock()
        self._partitions: dict[str, SharedPartition] = {}
        hand_on(source, self)

    def partitions(self) -> Sequence[str]:
        return self.source.partitions()

    def open(self, partition: str, at: int, /) -> SharedReader:
        return self.partition(partition).open(None, at, None)

    def named(self, name: str) -> SharedView:
        """Return this source for the reader *name*: from now on nothing is acknowledged that it has not, open or not.

        Over a restart of the process it counts once it is named again: name all before the first one runs.
        """
        name = check_name("reader", name)
        with self._lock:
            self.names.add(name)
            for partition in self._partitions.values():
                partition.register(name)
        return SharedView(self, name, None)

    def release(self, name: str) -> None:
        """Wait for the reader *name* no longer."""
        with self._lock:
            self.names.discard(name)
            for partition in self._partitions.values():
                partition.forget(name)

    def stream(self, stream: str, *, name: str | None = None, partition: str | None = None) -> SharedView:
        """Return one stream inside the partitions as a source; the ids of other streams' events are `skipped`.

        A reader with a *name* (`named`) counts in *partition* alone if that is where the stream is known to live.
        """
        if self.stream_of is None:
            raise ValueError("streams inside partitions are known by `stream_of`; give one")
        check_name("stream", stream)
        if name is not None and partition is not None:
            name = check_name("reader", name)
            self.partition(partition).register(name)
        elif name is not None:
            self.named(name)
        return SharedView(self, name, stream)

    def watch(self, told: NewStream) -> None:
        """Have *told* called with (partition, stream, id) when an event comes of a stream that the cache has none of.

        That event stays in the cache until *told* has returned, so that who opens the stream there has it.
        """
        self.watchers += (told,)

    def unwatch(self, told: NewStream) -> None:
        """Call *told* no longer."""
        self.watchers = tuple(each for each in self.watchers if each is not told)

    def new_cache(self, name: str, at: int) -> Cache:
        """Return an empty cache for partition *name* from id *at* on."""
        sizes = Sizes(self.bytes_of)

        def weigh(values: Sequence[Any]) -> int:
            sizes.learn(values)
            return sizes.of(values)

        weights = None if self.bytes_max is None else Weights(self.bytes_max, weigh)
        return Cache(name, at, events_max=self.events_max, stream_of=self.stream_of, weights=weights)

    def partition(self, name: str) -> SharedPartition:
        """Return what its readers share of a partition."""
        with self._lock:
            found = self._partitions.get(name)
            if found is None:
                found = self._partitions[name] = SharedPartition(self, name)
                for each in self.names:
                    found.register(each)
            return found


class SharedView:
    """A shared source as one reader, or the readers of one stream, see it."""

    def __init__(self, shared: SharedSource, name: str | None, stream: str | None) -> None:
        self._shared, self._name, self._stream = shared, name, stream
        hand_on(shared.source, self)
        if stream is not None:
            self.definition = lambda: {**definition_of(shared.source), "stream_of": shared.stream_of}

    def partitions(self) -> Sequence[str]:
        return self._shared.partitions()

    def open(self, partition: str, at: int, /) -> SharedReader:
        return self._shared.partition(partition).open(self._name, at, self._stream)
