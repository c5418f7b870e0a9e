"""State from buckets to an embedded evaluator: the rows of all keys among each other.

What Spark has by key is put into one engine: the groups of one query, or a query for each key. Then its numbers (of
inner sequences, of the order of subscriptions) are moved out of the way of the others'. That is done on live instances,
whose rows follow from them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import inf
from typing import Any

from checkpoint.format.codec import decode, encode
from checkpoint.store import Checkpoint, Store
from hosting.engine.engine import QueryEngine
from hosting.engine.event_time.runtime import EventClock
from hosting.engine.event_time.validation import sources_of
from hosting.engine.hosted_query import RUNNING, Standing
from hosting.engine.records import packed
from hosting.engine.snapshot import Snapshot
from hosting.reports.log import LOG
from reliable_rx.errors import CheckpointRefused, QueryRefused
from reliable_rx.event_time import EventTime
from reliable_rx.query.query import Query
from reliable_rx.runtime.inner_sequences import Subject
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.outliving import aside, is_aside, rows_within, units
from reliable_rx.runtime.rows import Loader, save_instance, save_unit
from spark_bridge.keyed.blob import Waiting
from spark_bridge.keyed.bucket import Bucket
from spark_bridge.keyed.engine_runner import NAME, General, KeyEngine
from spark_bridge.keyed.forms import revived
from spark_bridge.keyed.moving import KeyMapper, for_key, name_for, refuse_hidden
from spark_bridge.keyed.query import KeyedQuery, first_other
from spark_bridge.keyed.seals import PUBLIC, Seals
from spark_bridge.keyed.storing import instances_of
from spark_bridge.keyed.unloadable import KeySpoilt

Positions = Mapping[str, Mapping[str, int]]


@dataclass
class Joined:
    """What became of the keys: those that had *ended*, and the id that the stream of the query goes on with.

    A query with groups has one stream, which goes on behind the largest id that any key had, so that every key's ids go
    on growing. With a query for each key, each goes on with its own ids, also those in *ended*, and *next_id* is None.
    Those in *unreadable* are among them: their state could not be read, and each has the error that says so.
    """

    next_id: int | None = None
    ended: list[Hashable] = field(default_factory=list)
    unreadable: dict[Hashable, Exception] = field(default_factory=dict)


def put_together(
    blobs: Iterable[bytes], store: Store, name: str, query: KeyedQuery, *, positions: Positions,
    clock: EventTime | None = None, key_mapper: KeyMapper | None = None, placed: Mapping[str, Any] | None = None,
    seals: Seals = PUBLIC,
) -> Joined:  # fmt: skip
    """Begin an empty *store* with the rows of all keys in *blobs*, so that an evaluator goes on with *query* as *name*.

    *positions* says from where its sources are read: the next id for each partition of each source. A query on event
    time gets its *clock*; one written for one key becomes a query `for_key` each, told apart by *key_mapper*. Keys
    whose query had failed are left out of a query with groups, which would have failed with them.

    *Raises* `CheckpointRefused` if the store is not empty, and as `Bucket` does.
    """
    if store.generations():
        raise CheckpointRefused("the store is not empty", what="store", where=name)
    if query.event_time != (clock is not None):
        raise QueryRefused(
            "a query on event time goes on with clock=event_time(...), and another without",
            path=query.written.root.path,
        )
    engine = QueryEngine()
    for source in query.sources:
        engine.declare(source, sorted(positions[source]))
    together = Queries(engine, name, query, clock, key_mapper) if query.per_key else Groups(engine, name, query, clock)
    for blob in blobs:
        together.add(Bucket(query, blob, placed=placed, seals=seals))
    together.write(store, positions)
    return together.joined


class Together:
    """What many keys have, on its way into one engine."""

    def __init__(self, engine: QueryEngine, name: str, query: KeyedQuery, clock: EventTime | None) -> None:
        self.engine, self.name, self.query, self.clock = engine, name, query, clock
        self.general = General(query, {})
        self.joined = Joined()
        self.time = -inf
        self.blobs: list[bytes] = []
        self.rows = 0

    def add(self, bucket: Bucket) -> None:
        self.time = max(self.time, bucket.clock)
        general = self.general if bucket.general is None else bucket.general
        for key, row in bucket.rows.items():
            if type(row) is int and row < 0:
                self.joined.ended.append(key)
                self.end(key, -row)
            else:
                self.query.key.key = key
                chain = bucket.content.shape
                try:
                    lone = general.load(row) if chain is None else revived(general, key, row, chain, bucket.clock)
                except KeySpoilt as error:
                    bucket.untold[key] = error
                    self.joined.ended.append(key)
                    self.end(key, error.fields["emitted"] + 1)
                else:
                    self.join(key, lone)
        for key, lost in bucket.untold.items():
            LOG.warning("%s: it ends here", lost)
            self.joined.unreadable[key] = lost
        for key, entries in bucket.waiting.items():
            self.wait(key, entries)
        self.joined.next_id = max(self.joined.next_id or 0, bucket.content.first_id)

    def end(self, key: Hashable, next_id: int) -> None:
        raise NotImplementedError

    def join(self, key: Hashable, lone: KeyEngine) -> None:
        raise NotImplementedError

    def wait(self, key: Hashable, entries: list[Waiting]) -> None:
        raise NotImplementedError

    def clocks(self) -> Iterable[EventClock]:
        raise NotImplementedError

    def inside(self, standing: Standing) -> list[tuple[Any, Any]]:
        """Return the rows of what hangs on *standing*, numbered behind those that are there."""
        orders = self.engine.orders
        inside = list(units(standing))
        for unit in inside:
            if isinstance(unit, Subject):
                unit.order += orders
            for each in instances_of(unit):
                self.renumber(each, orders)
        return [(unit.address(), save_unit(unit, self.engine.plans.number)) for unit in inside]

    def renumber(self, instance: Instance, orders: int) -> None:
        instance.plan.number = 0
        self.engine.plans.number(instance.plan)
        for timers in (instance.timers or {}).values():
            for timer in timers.values():
                timer[1] += orders
        if instance.orders:
            instance.orders = {index: order + orders for index, order in instance.orders.items()}

    def tell_time(self) -> None:
        """Let the clocks go on where Spark's watermark had come."""
        if self.clock is None:
            self.engine.clock = max(self.engine.clock, self.time)
        for clock in self.clocks():
            clock.watermark.time = max(clock.watermark.time, self.time)
            clock.clock = clock.floor = self.time
            clock.waiting.keep(self.time)

    def write(self, store: Store, positions: Positions) -> None:
        """Commit all as the first checkpoint of *store*."""
        engine = self.engine
        self.tell_time()
        snapshot = Snapshot(engine, full=True)
        while not snapshot.write_some(1000):
            pass
        meta = {
            "engine": snapshot.header, "ended": set(), "holders": {}, "sinks": {}, "delivery": "exactly_once",
            "positions": {(source, part): at for source, each in positions.items() for part, at in each.items()},
        }  # fmt: skip
        chunks = [*snapshot.chunks(), *packed(self.blobs)]
        store.commit(Checkpoint(1, "full", engine.number, encode(meta), chunks, snapshot.rows + self.rows))


class Groups(Together):
    """The groups of one query."""

    def __init__(self, engine: QueryEngine, name: str, query: KeyedQuery, clock: EventTime | None) -> None:
        super().__init__(engine, name, query, clock)
        self.numbers = 0
        engine.take(engine.creation(name, query.query, time=0.0, limits=query.limits, clock=clock))
        self.standing = engine.standing[name]
        self.joint = first_other(self.standing.plan.root)
        self.seen = count(-(1 << 60))

    def end(self, key: Hashable, next_id: int) -> None:
        self.joined.next_id = max(self.joined.next_id or 0, next_id)

    def join(self, key: Hashable, lone: KeyEngine) -> None:
        standing = lone.standing[NAME]
        self.joined.next_id = max(self.joined.next_id or 0, standing.emitted)
        self.begin()
        standing.key = self.name
        newest = self.numbers
        for row in rows_within(standing, self.joint):
            if is_aside(row.key):
                row.key = aside(row.key[1] + self.engine.orders)
            else:
                row.key += self.numbers
                newest = max(newest, row.key)
        rows = self.inside(standing)
        self.blobs.append(encode(rows))
        self.rows += len(rows)
        self.engine.orders += lone.orders
        self.numbers = 1 + newest

    def begin(self) -> None:
        """A query on event time begins with its first event, which has been."""
        clock = self.standing.clock
        if clock is not None and not clock.begun:
            clock.begin(self.time)

    def wait(self, key: Hashable, entries: list[Waiting]) -> None:
        put_waiting(self.standing, entries, self.seen)

    def clocks(self) -> Iterable[EventClock]:
        return () if self.standing.clock is None else (self.standing.clock,)

    def write(self, store: Store, positions: Positions) -> None:
        self.standing.states[self.joint.slot].next_key = self.numbers
        self.engine.continue_ids(self.name, self.joined.next_id or 0)
        super().write(store, positions)


class Queries(Together):
    """A query for each key."""

    def __init__(
        self, engine: QueryEngine, name: str, query: KeyedQuery, clock: EventTime | None, key_mapper: KeyMapper | None
    ) -> None:
        super().__init__(engine, name, query, clock)
        refuse_hidden(query)
        if key_mapper is None:
            raise QueryRefused(
                "a query written for one key becomes a query for each key in an evaluator: say with key_mapper how "
                "they tell their events",
                path=query.written.root.path,
            )
        self.mapper = key_mapper

    def end(self, key: Hashable, next_id: int) -> None:
        self.engine.continue_ids(name_for(self.name, key), next_id)

    def join(self, key: Hashable, lone: KeyEngine) -> None:
        theirs = lone.standing[NAME]
        after = self.made(key)
        after.emitted = theirs.emitted
        theirs.key = after.key
        rows = self.inside(theirs)
        self.renumber(theirs, self.engine.orders)
        written = encode((save_instance(theirs), rows))
        self.engine.orders += lone.orders
        loader = Loader(dict(enumerate(self.engine.plans.signatures, 1)))
        top, inside = loader.reading(lambda: decode(written))
        if after.clock is not None:
            after.clock.begun = True
        self.engine.moving = True
        loader.add(after, top, loader.signatures[theirs.plan.number])
        loader.load_all(inside)
        loader.finish()
        self.engine.moving = False

    def made(self, key: Hashable) -> Standing:
        """Return the query for *key*, not begun."""
        query: Query[Any] = for_key(self.query.query, self.mapper, key)
        name = name_for(self.name, key)
        turn = self.engine.creation(name, query, time=0.0, limits=self.query.limits, clock=self.clock)
        standing = Standing(turn.code, self.engine, name, policy="fail", keys=turn.keys)
        standing.born = self.engine.order()
        if self.clock is not None:
            clock = EventClock(self.engine)
            clock.adopt(standing)
            clock.join(self.clock, sources_of(standing.plan))
            clock.clock = clock.floor = self.time
        self.engine.standing[name] = standing
        return standing

    def wait(self, key: Hashable, entries: list[Waiting]) -> None:
        standing = self.engine.standing.get(name_for(self.name, key)) or self.made(key)
        put_waiting(standing, entries, count(-(1 << 60)))

    def clocks(self) -> Iterable[EventClock]:
        return [each.clock for each in self.engine.standing.values() if each.clock is not None]

    def write(self, store: Store, positions: Positions) -> None:
        self.joined.next_id = None
        super().write(store, positions)


def put_waiting(standing: Standing, entries: list[Waiting], numbers: Iterable[int]) -> None:
    """Let events wait for the watermark of *standing*, before all that come later."""
    clock = standing.clock
    if clock is not None and standing.status == RUNNING:
        partition = min(clock.engine.partitions_of(entries[0][2]), default="")
        told = zip(entries, numbers, strict=False)
        clock.waiting.add([(time, (source, partition), number, value) for (time, _, source, value), number in told])
