"""The watermarks of an engine, one for each clock over a set of sources, and what is given to them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from checkpoint.format.by_value import encode_query
from checkpoint.format.same_code import is_same_code
from hosting.engine.dispatch import Origin
from hosting.engine.event_time.watermark import AHEAD_MAX, INFINITE, Ahead, Watermark
from reliable_rx.event_time import EventTime, clock_id

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.event_time.runtime import EventClock


class Watermarks:
    """The watermarks of an engine."""

    def __init__(self, engine: QueryEngine) -> None:
        self.engine = engine
        self.by_name: dict[str, Watermark] = {}
        self.by_source: dict[str, list[Watermark]] = {}
        self.runs = 0  # of events that have been given to the watermarks
        self.ahead: deque[Ahead] = deque(maxlen=AHEAD_MAX)
        """What a host has still to tell, also of queries that have ended since."""

    def __bool__(self) -> bool:
        return bool(self.by_name)

    @property
    def idle_s(self) -> float:
        """The shortest silence that counts; infinite if nobody is on event time."""
        return min((each.spec.idle_s for each in self.by_name.values()), default=INFINITE)

    def of(self, spec: EventTime, sources: frozenset[str], clock: EventClock) -> Watermark:
        """Return the watermark of *clock* over *sources*, making it at its first use."""
        over = self.ends_of(sources)
        ended = {*over, *clock.ended}
        name = self.fitting(self.named(spec, sources), lambda there: there.is_shared_by(ended, clock))
        found = self.by_name.get(name)
        if found is None:
            found = self.make(name, spec, sources)
            for source in sorted(sources - ended):
                for partition in sorted(self.engine.partitions_of(source)):
                    found.mark(source, partition)
        found.over = over
        return found

    def fitting(self, name: str, fits: Callable[[Watermark], bool]) -> str:
        """Return *name*, or the first one behind it that is free or of a watermark that *fits*.

        Those share one who have been told the same ends: others would wait for what they do not hear, or find that the
        time has gone on without what they do.
        """
        found, number = name, 1
        while (there := self.by_name.get(found)) is not None and not fits(there):
            number += 1
            found = f"{name}\n{number}"
        return found

    def spread(self, marks: Iterable[Watermark], origin: Origin, values: Sequence[Any]) -> None:
        """Give *values* to the watermarks of their source; a query that goes from one to another has them once."""
        self.runs += 1
        for mark in list(marks):
            mark.arrive(*origin, values)

    def wake(self, time: float, partitions: Collection[tuple[str, str]] | None) -> None:
        """Count silence from *time* on for all."""
        for mark in self.by_name.values():
            mark.wake(time, partitions)

    def ends_of(self, sources: frozenset[str]) -> dict[str, Exception | None]:
        """Return which of *sources* have ended, and with what error."""
        ends = {source: self.engine.end_of(source) for source in sorted(sources)}
        return {source: end[0] for source, end in ends.items() if end is not None}

    def named(self, spec: EventTime, sources: frozenset[str]) -> str:
        """Return the name of the watermark of *spec*; one that only a hash takes for another has a name of its own."""
        name = name_of(spec, sources)
        found = self.by_name.get(name)
        if found is None or found.spec is spec or is_same_code(encoded(found.spec), encoded(spec)):
            return name
        return f"{name} {blake2b(encoded(spec), digest_size=12).hexdigest()}"

    def make(self, name: str, spec: EventTime, sources: Iterable[str]) -> Watermark:
        found = self.by_name[name] = Watermark(self.engine, name, spec, frozenset(sources))
        for source in sorted(found.sources):
            self.by_source.setdefault(source, []).append(found)
        return found

    def leave(self, clock: EventClock, mark: Watermark) -> None:
        """A query needs its watermark no more; the last one takes it along."""
        mark.remove(clock)
        if not mark.members and self.by_name.get(mark.name) is mark:
            self.drop(mark)

    def drop(self, mark: Watermark) -> None:
        mark.silence()
        del self.by_name[mark.name]
        for source in mark.sources:
            self.by_source[source].remove(mark)
            if not self.by_source[source]:
                del self.by_source[source]


@lru_cache(maxsize=64)
def encoded(spec: EventTime) -> bytes:
    """Return the functions of a clock as a store has them."""
    return encode_query(spec)


def name_of(spec: EventTime, sources: frozenset[str]) -> str:
    return f"{clock_id(spec)} {' '.join(sorted(sources))}"
