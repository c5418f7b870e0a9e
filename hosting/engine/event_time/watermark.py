"""Watermarks: up to which time everything has been seen, from the events of all partitions that a query reads.

Queries with the same clock over the same sources share one, so that an event's time is read once however many there
are. It moves by turns only: an event moves its partition's mark, and a partition that is silent is left out when a
timer on the engine's own clock is due. It never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from hosting.engine.blame import blamed
from reliable_rx.event_time import EventTime

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.event_time.runtime import EventClock
    from reliable_rx.runtime.instance import Timer

INFINITE = float("inf")
NAMED_MAX = 5
AHEAD_MAX = 100
AHEAD_S = 7 * 86_400.0
"""How far ahead of the computer's clock an event is worth a word."""
Saved = tuple[bytes, list[str], float, list[Any], Any, dict[str, Any]]
"""A watermark in a store: its clock as code, its sources, how far it is, and its partitions."""


@dataclass(slots=True)
class Mark:
    """How far one partition has come: the largest time in it, and when (on the engine's clock) it last spoke."""

    high: float
    seen: float
    ended: bool = False
    asked: float = INFINITE
    """Which silence, by when it began, a host has asked about: no part of what the engine knows."""


class Ahead(NamedTuple):
    """An event far ahead of the computer's clock, and the queries whose clock it moves there."""

    source: str
    partition: str
    position: int
    time: float
    ahead_s: float
    queries: list[str]


class Watermark:
    """The clock that some queries share."""

    def __init__(self, engine: QueryEngine, name: str, spec: EventTime, sources: frozenset[str]) -> None:
        self.engine = engine
        self.name = name
        self.spec = spec
        self.sources = sources
        self.time = -INFINITE
        self.marks: dict[tuple[str, str], Mark] = {}
        self.members: dict[EventClock, None] = {}
        self.is_sorted = True  # the members are in the order of their queries, as in a process that begins now
        self.keyed: dict[Callable[[Any], Any], dict[Any, dict[EventClock, None]]] = {}
        self.alarm: Timer | None = None
        self.only: Container[str] | None = None
        """The queries alone for which partitions fall silent now; None for all."""
        self.over: dict[str, Exception | None] = {}
        self.ahead: tuple[str, str, int, float] | None = None
        """An event far ahead of the computer's clock: source, partition, position and time."""

    def stamps(self, source: str, values: Sequence[Any]) -> list[float]:
        """Return the times of *values*. *Raises* what the user's function raises, `ValueError` for one far ahead."""
        found, most = self.spec.stamps(source, values), self.spec.ahead_max_s
        if most < INFINITE and not self.engine.timestamps and max(found) > self.engine.clock + most:
            ahead_s = max(found) - self.engine.clock
            raise ValueError(
                f"the time of the event is {ahead_s:,.0f} s ahead of the clock, of which ahead_max_s is {most:,.0f}"
            )
        return found

    def mark(self, source: str, partition: str) -> Mark:
        found = self.marks.get((source, partition))
        if found is None:
            found = self.marks[source, partition] = Mark(-INFINITE, self.engine.clock)
        return found

    # -- what happens to it

    def is_heard(self, source: str) -> bool:
        """Whether a query takes what comes of *source*: none does that has been told of its end."""
        return any(source not in clock.ended for clock in self.members)

    def appear(self, source: str, partitions: Iterable[str]) -> None:
        """*source* has these *partitions*, too: for a query that joins from now on it has not ended."""
        if self.is_heard(source):
            self.over.pop(source, None)
            for partition in sorted(partitions):
                self.mark(source, partition)
            self.set_alarm()

    def listen(self, source: str) -> None:
        """Wait for *source*, which begins anew, from now on."""
        self.over.pop(source, None)
        for partition in sorted(self.engine.partitions_of(source)):
            mark = self.mark(source, partition)
            mark.seen, mark.ended = self.engine.clock, False
        self.set_alarm()

    def arrive(self, source: str, partition: str, first: int, values: Sequence[Any]) -> None:
        """Take events of one partition; what a user function cannot read is told to the queries it concerns."""
        if not self.is_heard(source):
            return
        try:
            stamps = self.stamps(source, values)
            routed = [places_by_key(mapper, table, values) for mapper, table in self.keyed.items()]
        except BaseException as raised:
            error = blamed(raised)  # what is raised behind it is not raised while it is handled
        else:
            self.take(source, partition, first, values, stamps, routed)
            return
        if len(values) > 1:
            for offset, value in enumerate(values):
                self.arrive(source, partition, first + offset, (value,))
        else:
            self.refuse(source, partition, first, values[0], error)

    def refuse(self, source: str, partition: str, position: int, value: Any, error: Exception) -> None:
        """Tell an event without a time to all queries, one without a key to those that look for it by that key."""
        try:
            stamps = self.stamps(source, (value,))
        except BaseException as raised:
            blamed(raised)
            for clock in self.clocks():
                clock.refuse(source, partition, position, value, error)
            return
        routed = []
        for mapper, table in list(self.keyed.items()):
            try:
                routed.append(places_by_key(mapper, table, (value,)))
            except BaseException as raised:
                unread = blamed(raised)
                for clock in sorted((each for clocks in table.values() for each in clocks), key=born):
                    clock.refuse(source, partition, position, value, unread)
        self.take(source, partition, position, (value,), stamps, routed)

    def take(
        self,
        source: str,
        partition: str,
        first: int,
        values: Sequence[Any],
        stamps: list[float],
        routed: list[list[tuple[EventClock, list[int]]]],
    ) -> None:
        """Let events wait in the queries that want them, and go on to where the watermark is now."""
        self.over.pop(source, None)
        mark = self.mark(source, partition)
        mark.seen, mark.ended = self.engine.clock, False
        floors = self.floors(mark, stamps)
        positions = range(first, first + len(values))
        high = max(stamps)
        if high > mark.high:
            mark.high = high
            if high > self.engine.clock + AHEAD_S and self.ahead is None and not self.engine.timestamps:
                self.ahead = (source, partition, positions[stamps.index(high)], high)
                names = sorted(clock.standing.name for clock in self.members)[:NAMED_MAX]
                self.engine.watermarks.ahead.append(Ahead(*self.ahead, high - self.engine.clock, names))
        channel = (source, partition)
        for clock in self.clocks():
            if clock.mapper is None:
                self.give(clock, channel, stamps, positions, values, floors)
        for clock, places in sorted((item for wanted in routed for item in wanted), key=lambda item: born(item[0])):
            self.give(
                clock,
                channel,
                [stamps[place] for place in places],
                [first + place for place in places],
                [values[place] for place in places],
                None if floors is None else [floors[place] for place in places],
            )
        self.move()

    def give(self, clock: EventClock, *events: Any) -> None:
        """Let *clock* take *events*; it has them if it came here because of them, from another watermark."""
        if clock.joined_in != self.engine.watermarks.runs:
            clock.arrive(*events)
            if clock.watermark is not self:  # it has left because of them, and `move` does not reach it
                clock.catch_up()

    def floors(self, mark: Mark, stamps: list[float]) -> list[float] | None:
        """Return where the watermark stands when each event arrives; None if none of them can be behind the others."""
        if stamps[0] >= mark.high and stamps == sorted(stamps):
            return None
        others = self.lowest(mark)
        lateness_s, time = self.spec.lateness_s, self.time
        highs = list(accumulate(stamps, max, initial=mark.high))
        if min(stamps) >= max(time, min(others, highs[-1] - lateness_s)):
            return None
        return [max(time, min(others, high - lateness_s)) for high in highs[:-1]]

    def lowest(self, besides: Mark | None = None) -> float:
        """Return what the partitions that hold the clock back allow; infinite if there are none."""
        now, idle_s, lateness_s = self._now(), self.spec.idle_s, self.spec.lateness_s
        return min(
            (
                mark.high - lateness_s
                for mark in self.marks.values()
                if not mark.ended and now < mark.seen + idle_s and mark is not besides
            ),
            default=INFINITE,
        )

    def move(self) -> None:
        """Move the queries to where the partitions now allow, all the way if none will speak again."""
        time = self._allowed()
        if time < INFINITE:
            self.time = time
        for clock in self.clocks():
            self._move_one(clock, time)
        self.set_alarm()

    def move_some(self, names: Container[str]) -> None:
        """Move the queries *names* there ahead of the others."""
        time = self._allowed()
        for clock in self.clocks():
            if clock.standing.name in names:
                self._move_one(clock, time)
        self.set_alarm()

    def _move_one(self, clock: EventClock, time: float) -> None:
        """Move a query there; to the end of time only once, or behind what waits."""
        if time < INFINITE or not clock.begun or len(clock.waiting):
            clock.move(time)

    def _allowed(self) -> float:
        if self.is_over:
            return INFINITE
        time = self.lowest()
        if time == INFINITE:  # all are silent: then nobody holds anybody back
            time = self.highest - self.spec.lateness_s
        return max(time, self.time)

    @property
    def lags(self) -> bool:
        """Whether the partitions allow more than where it stands: its clock was taken over by an edited one."""
        return not self.is_over and self._allowed() > self.time

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more of what the queries hear."""
        if len(self.over) == len(self.sources):
            return True
        told = next((clock.ended for clock in self.members), set[str]())
        return bool(told) and self.sources <= {*self.over, *told}

    def end_partition(self, source: str, partition: str) -> None:
        self.mark(source, partition).ended = True

    def end_source(self, source: str, error: Exception | None) -> None:
        """All partitions of *source* have ended: so it ends for the queries when they have come so far."""
        self.over[source] = error
        high = -INFINITE
        for (name, _), mark in self.marks.items():
            if name == source:
                mark.ended, high = True, max(high, mark.high)
        for clock in self.clocks():
            clock.end_source(source, high, error)

    @property
    def is_needed(self) -> bool:
        """Whether a query still has it: the last one may have failed at the very events that are given out."""
        return self.engine.watermarks.by_name.get(self.name) is self

    # -- idle partitions

    def set_alarm(self) -> None:
        """Have a timer set for when the next partition that holds the others back counts as idle."""
        if (self.alarm is not None and self.alarm[2] is not None) or not self.is_needed:
            return
        now, idle_s = self._now(), self.spec.idle_s
        waiting = [mark for mark in self.marks.values() if not mark.ended]
        behind = [mark.seen for mark in waiting if mark.high < self.highest and now < mark.seen + idle_s]
        if behind and not self.is_over:
            self.alarm = [min(behind) + idle_s, self.engine.order(), self, None, None]
            self.engine.timers.push(self.alarm)

    def _now(self) -> float:
        """Return to where silence counts."""
        engine = self.engine
        return engine.clock if engine.heard_until is None else engine.heard_until

    @property
    def highest(self) -> float:
        return max((mark.high for mark in self.marks.values()), default=-INFINITE)

    def silence(self) -> None:
        if self.alarm is not None:
            self.engine.timers.cancel(self.alarm)
            self.alarm = None

    def fire(self, node: Any, tag: Any) -> None:
        """The timer is due: a partition may have become idle."""
        self.alarm = None
        self.move() if self.only is None else self.move_some(self.only)

    def wake(self, time: float, partitions: Collection[tuple[str, str]] | None = None) -> None:
        """Count silence from *time* on: the engine has stood still, or has not listened to these *partitions*.

        Nor then to queries, which may read them.
        """
        for key, mark in self.marks.items():
            if partitions is None or key in partitions or key[0] not in self.engine.live:
                mark.seen = max(mark.seen, time)
        self.silence()
        self.set_alarm()

    # -- who shares it

    def is_of(self, names: Container[str]) -> bool:
        """Whether one of the queries *names* goes by it."""
        return any(clock.standing.name in names for clock in self.members)

    def is_shared_by(self, ended: Collection[str], clock: EventClock | None = None) -> bool:
        """Whether *clock*, which has been told the end of *ended*, hears the same of the sources as the others do."""
        others = (each.ended for each in self.members if each is not clock)
        return all(told & self.sources == self.sources.intersection(ended) for told in islice(others, 1))

    def clocks(self) -> list[EventClock]:
        """Return the members, the oldest query first, whichever has joined sooner."""
        if not self.is_sorted:
            self.members, self.is_sorted = dict.fromkeys(sorted(self.members, key=born)), True
        return list(self.members)

    def add(self, clock: EventClock) -> None:
        self.members[clock] = None
        self.is_sorted = False
        if clock.mapper is not None:
            self.keyed.setdefault(clock.mapper, {}).setdefault(clock.standing.route_key, {})[clock] = None

    def follow(self, other: Watermark) -> None:
        """Know what *other* knows of partitions that have not spoken here, but for times that this one refuses."""
        limit = INFINITE if self.engine.timestamps else self.engine.clock + self.spec.ahead_max_s
        for key, mark in other.marks.items():
            mine = self.marks.get(key)
            if mine is not None and mine.high < mark.high <= limit and not self.members:
                mine.high, mine.seen, mine.ended = mark.high, mark.seen, mark.ended

    def remove(self, clock: EventClock) -> None:
        self.members.pop(clock, None)
        table = self.keyed.get(clock.mapper, {}) if clock.mapper is not None else {}
        key = clock.standing.route_key
        if clock in table.get(key, ()):
            del table[key][clock]
            if not table[key]:
                del table[key]
                if not table:
                    del self.keyed[clock.mapper]  # type: ignore[arg-type]


def places_by_key(
    key_mapper: Callable[[Any], Any], table: dict[Any, dict[EventClock, None]], values: Sequence[Any]
) -> list[tuple[EventClock, list[int]]]:
    """Return the queries that want some of *values* by their key, each with the places of those."""
    wanted: dict[Any, list[int]] = {}
    for place, key in enumerate(map(key_mapper, values)):
        if key in table:
            wanted.setdefault(key, []).append(place)
    return [(clock, places) for key, places in wanted.items() for clock in table[key]]


def born(clock: EventClock) -> int:
    return clock.standing.born
