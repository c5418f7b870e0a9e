"""The ingress edge: partitions opened, read ahead, deduplicated by position, and handed over as turns.

Ids stop here. Each partition has one position, the next id to take; what a source gives twice is dropped by it, a
gap is an error. Under processing time partitions take turns; with event time (a source that has a *timestamp*) the
partition whose next event is the oldest goes first, so that a replayed week looks as it did.

A source may list what must be read before what (`hosting.engine.lineage`). A partition that must wait is *held*: it is
opened when the last one before it has ended. Which partitions there are is asked at the start, before one ends, and
every `LISTING_S`; new ones *appear* as a turn of their own, also the first ones of a source, and before the end of
those that they follow, so that the source has not ended meanwhile. Those that come behind it wait
(`hosting.edges.late_partitions`). Rejected: asking the source what there is while replaying, which it may answer
differently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import monotonic
from typing import Any

from hosting.edges.bad_records import LEFT_OUT_MAX, BadRecords
from hosting.edges.closing import close_all
from hosting.edges.late_partitions import EndOf, LatePartitions
from hosting.edges.new_partitions import Appearing
from hosting.edges.outage import Outage
from hosting.edges.partition import Partition
from hosting.edges.source_calls import called, checked_reader
from hosting.edges.start_positions import Start, Starts
from hosting.engine.lineage import Lineage, check_partitions, in_order, lineage_of
from hosting.engine.turns import Appear, Events, Rejects, Resume
from hosting.reports.incidents import Incidents
from hosting.sources.polling import LOOK_S, Looking, Pace
from hosting.sources.pushed import LogUnavailable
from reliable_rx.errors import SourceFailed
from reliable_rx.reliable import SequencedEnd, Source, Waking

LOOK_AHEAD_MIN = 1024
LOOK_AHEAD_MAX = 4096
RUN_EVENTS_MAX = 128
LISTING_S = 10.0
Intaken = Events | Rejects | Appear | Resume


class Intake(Appearing):
    """All partitions of an evaluator."""

    def __init__(
        self, *, batch_events_max: int, idle_s: float, clock: Callable[[], float], incidents: Incidents | None = None
    ) -> None:
        self.batch_events_max = batch_events_max
        self.look_ahead = batch_events_max * max(1, LOOK_AHEAD_MIN // batch_events_max)
        self.singly = batch_events_max == 1
        self.take_max = RUN_EVENTS_MAX if self.singly else batch_events_max
        self.idle_s = idle_s
        self.clock = clock
        self.left_out = False
        self.incidents = incidents = incidents or Incidents()
        self.outage, self.bad_records = Outage(incidents), BadRecords(incidents)
        self.sources: dict[str, Source] = {}
        self.partitions: dict[tuple[str, str], Partition] = {}
        self.order: list[Partition] = []
        self.event_time = False
        self.turn = 0
        self.lineages: dict[str, Lineage] = {}
        self.starts = Starts()
        self.unknown: dict[tuple[str, str], None] = {}
        self.late = LatePartitions()
        self.held: dict[tuple[str, str], Partition] = {}
        self.look_again = False
        """Whether somebody who is held may be free to go."""
        self.list_at = math.inf
        self.look_at = 0.0
        self.pace = Pace()
        self.wake: Callable[[], None] | None = None
        self.awaited_since: float | None = None
        """Since when sources with event time have held the others back that have no partitions yet."""
        self.absent: dict[tuple[str, str], int] = {}  # not declared this time, and to go on there when they are again
        self.absent_ended: set[tuple[str, str]] = set()
        self.told_gone: set[tuple[str, str]] = set()
        """Those of `absent` of which a start has told."""

    def add(self, name: str, source: Source, *, start: Start | None = None) -> None:
        """Declare a source; its partitions are opened by `open`.

        *Raises* `ValueError` for a *start* that the source cannot find, `SourceFailed` for a list that cannot be read.
        """
        self.starts.declare(name, source, start)
        self.sources[name] = source
        self.bad_records.policies[name] = called(name, None, "on_bad_record", getattr, source, "on_bad_record", "fail")
        timestamp = called(name, None, "timestamp", getattr, source, "timestamp", None)
        self.event_time = self.event_time or timestamp is not None
        lineage = called(name, None, "list of partitions", lineage_of, name, source)
        if lineage is not None:
            self.lineages[name] = lineage
        names = called(
            name, None, "partitions", lambda: list(source.partitions() if lineage is None else lineage.listed)
        )
        check_partitions(name, names)
        for each in names:
            self.partitions[name, each] = self._partition(name, each, timestamp)

    def open(
        self,
        positions: dict[tuple[str, str], int],
        ended: set[tuple[str, str]],
        wake: Any,
        end_of: EndOf | None = None,
    ) -> None:
        """Open every partition that has a position there, but for those that must wait; the others *appear*.

        *end_of* tells how a source has ended for queries.
        """
        self.wake, self.late.end_of = wake, end_of or self.late.end_of
        self.absent = {key: position for key, position in positions.items() if key not in self.partitions}
        self.absent_ended = ended - self.partitions.keys()
        self.starts.beginning -= {source for source, _ in positions}
        for key, partition in self.partitions.items():
            if partition.reader is not None:
                continue
            if key in positions:
                self._begin(key, partition, positions[key], ended=key in ended)
            else:
                self.unknown[key] = None
        self.list_at = self.clock() + LISTING_S if self.lineages else math.inf
        self._open_ready()

    def move(self, positions: Mapping[tuple[str, str], int]) -> None:
        """Read partitions again from these positions on, also what had ended; what follows what, again in its order."""
        for key, position in positions.items():
            before = self.partitions[key]
            if before.reader is not None:
                called(*key, "close", before.reader.close)
            self.unknown.pop(key, None)
            self.late.forget(key)
            fresh = self.partitions[key] = self._partition(*key, before.timestamp)
            self._begin(key, fresh, position, ended=False)
        self._open_ready()

    def _partition(self, source: str, name: str, timestamp: Callable[[Any], float] | None) -> Partition:
        sifts = timestamp is not None and self.bad_records.policies[source] != "fail"
        return Partition(source, name, timestamp, sifts=sifts)

    def _begin(self, key: tuple[str, str], partition: Partition, position: int, *, ended: bool) -> None:
        partition.position = partition.begun = position
        partition.ended = ended  # nothing will be read of it again, and what it has acknowledged may be gone
        if not ended:
            self.held[key] = partition

    def _open_ready(self) -> None:
        """Open what no longer waits for anybody."""
        over: dict[str, set[str]] = {source: set() for source, _ in self.held}
        for source, name in self.ended() if over else ():
            over.setdefault(source, set()).add(name)
        for source, ended in over.items():
            waiting, lineage = self._held_of(source), self.lineages.get(source)
            for name in waiting if lineage is None else lineage.ready(waiting, ended=ended):
                self._open((source, name))
        reading = [each for key, each in self.partitions.items() if key not in self.held and not self._is_untold(key)]
        self.order = in_order(reading, self.sources, self.lineages)

    def _is_untold(self, key: tuple[str, str]) -> bool:
        """Whether the engine has not heard of a partition, which so has no position."""
        return key in self.unknown or key in self.late.kept

    def list_soon(self) -> None:
        """Somebody may have made partitions just now: ask before the next turn. To be called from any thread."""
        self.list_at = 0.0 if self.lineages else math.inf

    def _held_of(self, source: str) -> list[str]:
        return [name for each, name in self.held if each == source]

    def _open(self, key: tuple[str, str]) -> None:
        partition = self.partitions[key]
        reader = checked_reader(*key, called(*key, "open", self.sources[key[0]].open, key[1], partition.position))
        self.held.pop(key, None)
        partition.reader = reader
        if isinstance(reader, Waking) and self.wake is not None:
            called(*key, "on_available", reader.on_available, self.wake)
            partition.look = lambda: None
        if isinstance(reader, Looking):
            partition.look = reader.next_look_s

    # -- who comes after whom

    def _news(self) -> Appear | None:
        """Look now and then whether a source has more partitions than it had, and open whose turn has come."""
        if self.clock() >= self.list_at:
            self.list_at = self.clock() + LISTING_S
            for source in self.lineages:
                self._list(source)
        if self.look_again:
            self._open_ready()
            self.look_again = False
        return next(self.appeared(), None) if self.unknown else None

    def _list(self, source: str) -> None:
        timestamp = getattr(self.sources[source], "timestamp", None)
        listed: Any = self.sources[source]
        fresh = self.lineages[source].update(called(source, None, "listing", listed.listing))
        for name in fresh:
            key = (source, name)
            if key in self.partitions:
                continue
            partition = self.partitions[key] = self._partition(source, name, timestamp)
            if key in self.absent:
                self._begin(key, partition, self.absent.pop(key), ended=key in self.absent_ended)
                self.absent_ended.discard(key)
                self.look_again = True
            else:
                self.unknown[key] = None
        for partition in self.order if fresh else ():
            partition.is_heard = False

    def _before_end(self, partition: Partition, time: float) -> Appear | Resume | None:
        """Return what the engine has to know before *partition* ends: that others come after it."""
        source = partition.source
        self.look_again |= partition.waiting <= self.take_max
        if not partition.is_followed:
            self._list(source)
            partition.is_followed = True
        if self.unknown and (news := next(self.appeared(), None)) is not None:
            return news
        if partition.is_heard:
            return None
        partition.is_heard = True
        return Resume(time) if self.lineages[source].follow(self._held_of(source), partition.name) else None

    def troubles(self) -> Iterator[tuple[str, str]]:
        """Yield what sources wait for: those that know have a method `trouble`."""
        for name, source in self.sources.items():
            ask = getattr(source, "trouble", None)
            trouble = called(name, None, "trouble", ask) if ask is not None else ""
            still = (each.reread.stands_still(each.name, each.position) for each in self.order if each.source == name)
            yield name, trouble or next(filter(None, still), "")

    def next(self, time: float) -> Intaken | None:
        """Return the next turn's events, or what must be known before them; None if nothing is there or can be."""
        if self.outage.pauses:
            return None
        try:
            turn = self._next(time)
        except LogUnavailable as error:
            self.outage.begin(error)
            return None
        except SourceFailed as error:
            self.outage.fail(error)
            raise
        if self.outage.lasts:
            self.outage.over()
        return turn

    def _next(self, time: float) -> Intaken | None:
        if self.lineages or self.look_again:
            news = self._news()
            if news is not None:
                return news
        pick = self._oldest if self.event_time else self._in_turn
        for _ in range(LEFT_OUT_MAX):
            self.left_out = False
            if (turn := pick(time)) is not None or not self.left_out:
                break
        if turn is not None:
            self.look_at = 0.0
        elif (now := monotonic()) >= self.look_at:
            self.look_at = now + (self.pace.nothing() if self.look_at else self.pace.begin())
        return turn

    @property
    def goes_on(self) -> bool:
        """Whether more can be had at once, though no turn came of the last look."""
        return not self.outage.pauses and (self.left_out or any(each.goes_on for each in self.order))

    def _bear(self, partition: Partition, time: float) -> Rejects | None:
        """Take what could not be read, or leave it out and look again."""
        rejects = self.bad_records.take(partition, time)
        self.left_out = rejects is None
        return rejects

    def next_look_s(self) -> float | None:
        """Return how long nothing can come of `next`, unless a reader wakes us; None: for ever.

        Readers that do not say are looked at less and less often while nothing comes.
        """
        waits: list[float | None] = [self.list_at - self.clock()] if self.lineages else []
        for partition in self.order:
            if partition.waiting:  # and still nothing was taken: something else is in the way
                return LOOK_S
            if not partition.ended:
                waits.append(self.look_at - monotonic() if partition.look is None else partition.look())
        return min((max(0.0, each) for each in waits if each is not None), default=None)

    def _in_turn(self, time: float) -> Intaken | None:
        order = self.order
        for offset in range(len(order)):
            partition = order[(self.turn + offset) % len(order)]
            if not partition.ended and (partition.waiting or partition.fill(self.look_ahead)):
                if partition.rejected:
                    return self._bear(partition, time)
                if partition.finished is not None and partition.source in self.lineages:
                    news = self._before_end(partition, time)
                    if news is not None:
                        return news
                self.turn = (self.turn + offset + 1) % len(order)
                return partition.take(self.take_max, time, singly=self.singly)
        return None

    def _oldest(self, time: float) -> Intaken | None:
        live = [partition for partition in self.order if not partition.ended]
        ready = [partition for partition in live if partition.fill(LOOK_AHEAD_MAX)]
        for partition in ready:
            partition.idle_since = None
            if partition.rejected:
                return self._bear(partition, time)
        if (len(ready) < len(live) and not self._only_idle(live, ready)) or (self.lineages and self._awaits_some()):
            return None
        if not ready:
            return None
        ready.sort(key=lambda partition: partition.head_time)
        oldest, second = ready[0], ready[1] if len(ready) > 1 else None
        if oldest.finished is not None and oldest.source in self.lineages:
            news = self._before_end(oldest, time)
            if news is not None:
                return news
        if second is None:
            limit, first = float("inf"), True
        else:  # simultaneous events in the order of the partitions, wherever a batch or a process began
            limit, first = second.head_time, self.order.index(oldest) < self.order.index(second)
        count = oldest.run_until(limit, self.batch_events_max, included=first) if oldest.waiting else 0
        return oldest.take(count, time)

    def _only_idle(self, live: list[Partition], ready: list[Partition]) -> bool:
        """Whether the partitions that hold the others back have been silent for long enough to be left out."""
        now = self.clock()
        for partition in live:
            if (partition.idle_since is None or partition.reread.goes_on) and partition not in ready:
                partition.idle_since = now
        return all(p in ready or now - (p.idle_since or now) >= self.idle_s for p in live)

    def _awaits_some(self) -> bool:
        """Whether a source whose first partition may still appear holds the others back, as a silent partition does."""
        there = {partition.source for partition in self.order}
        if all(each in there or getattr(self.sources[each], "timestamp", None) is None for each in self.lineages):
            self.awaited_since = None
            return False
        now = self.clock()
        self.awaited_since = now if self.awaited_since is None else self.awaited_since
        return now - self.awaited_since < self.idle_s

    def find(self, source: str, partition: str) -> Partition:
        """Return a partition that a journalled turn names. *Raises* `SourceFailed` if it is not declared any more."""
        found = self.partitions.get((source, partition))
        if found is not None and found.reader is None and not found.ended:
            self._open((source, partition))
        if found is None:
            raise SourceFailed(
                f"the journal has turns of source {source!r}, partition {partition!r}, which must be taken again: "
                f"declare it as before, at least until the next checkpoint",
                source=source,
                partition=partition,
                position=self.absent.get((source, partition), 0),
            )
        return found

    def positions(self) -> dict[tuple[str, str], int]:
        partitions = [each for each in list(self.partitions.items()) if not self._is_untold(each[0])]
        return self.absent | {key: each.safe_position for key, each in partitions}

    def ended(self) -> set[tuple[str, str]]:
        return self.absent_ended | {key for key, partition in list(self.partitions.items()) if partition.ended}

    @property
    def all_ended(self) -> bool:
        return not self.held and not self.unknown and all(partition.ended for partition in self.order)

    def acknowledge(self, positions: dict[tuple[str, str], int], ended: set[tuple[str, str]]) -> None:
        """A checkpoint that covers these positions is durable: the sources may forget what lies before.

        A source that cannot forget now is told again after the next checkpoint. None is opened for it.
        """
        for key, position in positions.items():
            partition = self.partitions.get(key)
            if partition is None or partition.reader is None:
                continue
            n = position if key in ended and isinstance(partition.reader, SequencedEnd) else position - 1
            if n > partition.acknowledged:
                partition.acknowledge(n, self.incidents)

    def close(self) -> None:
        readers = {key: each.reader for key, each in self.partitions.items() if each.reader is not None}
        for partition in self.partitions.values():
            partition.reader = None
        close_all(*(partial(called, *key, "close", reader.close) for key, reader in readers.items()))
