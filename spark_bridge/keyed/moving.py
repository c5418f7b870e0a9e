"""State from an embedded evaluator to Spark and back: the rows are the same, only what is around them differs.

An evaluator has one query with a row per group; on Spark every key has a query with its one group. So a row is cut out
with all that hangs on it, or put among the others; then its numbers (of inner sequences, of the order of subscriptions)
are moved out of the way of theirs. That is done on live instances, whose rows follow from them. Ids do not move: an
evaluator numbers one stream, Spark one per key.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from checkpoint.codec import decode, encode
from checkpoint.store import Checkpoint, Store
from hosting.engine import QueryEngine
from hosting.plans import plan_id
from hosting.snapshot import Snapshot, load, packed
from hosting.standing import RUNNING, Standing
from reliable_rx.errors import CheckpointRefused, QueryRefused
from reliable_rx.instance import Instance
from reliable_rx.query import Inner
from reliable_rx.rows import save_instance, save_unit, units
from reliable_rx.stage import Cx
from reliable_rx.subject import Subject
from spark_bridge.keyed.bucket import Bucket
from spark_bridge.keyed.emitted import Emitted
from spark_bridge.keyed.general import NAME, General, KeyEngine
from spark_bridge.keyed.query import KeyedQuery, find_group, first_other
from spark_bridge.keyed.straight import loader, saver


def cut_out(store: Store, name: str, query: KeyedQuery) -> Bucket:
    """Return one bucket with the row of every group that the evaluator of *store* has in its query *name*.

    The store is read as it is: take a checkpoint, then close the evaluator. Its positions say where Spark begins.

    *Raises* `CheckpointRefused` if the journal is ahead of the checkpoint, or the query there is not *query*.
    """
    refuse_other(query)
    engine = recovered(store)
    standing = engine.standing.get(name)
    if standing is None or standing.status != RUNNING:
        raise CheckpointRefused(f"the store has no running query {name!r}", what="query", where=name)
    identity = plan_id(query.query.node, query.limits)
    if engine.plans.ids[standing.plan] != identity or (standing.clock is not None) != query.event_time:
        raise CheckpointRefused(f"{name!r} is another query than the one that is given", what="query", where=name)
    if standing.clock is not None and standing.clock.waiting.entries:
        raise CheckpointRefused(
            f"{name!r} has events that wait for the watermark: let its source end, or move on before them",
            what="waiting events",
            where=name,
        )
    bucket = Bucket(query)
    bucket.clock = engine.clock if standing.clock is None else standing.clock.clock
    standing.key = NAME
    for key, subject in (standing.subjects or {}).get(find_group(standing.plan).index, {}).items():
        if bucket.straight is not None:
            bucket.rows[key] = straight_row(bucket, subject)
        else:
            bucket.rows[key] = general_row(bucket, engine, standing, subject)
            dues = [timer[0] for each in around(standing, subject) for timer in timers_of(each)]
            if dues:
                bucket.dues[key] = min(dues)
    return bucket


def refuse_other(query: KeyedQuery) -> None:
    if query.per_key:
        raise QueryRefused(
            "a query written for one key is no one query in an evaluator: write it with group_by(key).flat_map(...)",
            path=query.written.root.path,
        )


def recovered(store: Store) -> QueryEngine:
    """Return the engine of the newest checkpoint."""
    found = store.recover(strict=True)
    if found is None or store.journal.last_turn > found.turn:
        raise CheckpointRefused(
            "the store has turns behind its newest checkpoint: let the evaluator take one, and close it",
            what="journal",
            where="store",
        )
    engine = QueryEngine()
    load(engine, found.chunks, decode(found.meta)["engine"])
    return engine


def straight_row(bucket: Bucket, subject: Subject) -> Any:
    """Return what a chain keeps of a group: the states of what reads it; nothing if nothing does any more."""
    readers = [each for _, each, _ in subject.subscribers]
    return (0, *saver(readers[0].plan)(readers[0].states)) if readers else 0


def general_row(bucket: Bucket, engine: QueryEngine, standing: Standing, subject: Subject) -> bytes:
    general: General = bucket.general  # type: ignore[assignment]
    inside = list(around(standing, subject))
    for each in [standing, *(instance for unit in inside for instance in instances_of(unit))]:
        each.plan.number = 0
        general.know(each.plan)
    rows = [(unit.address(), save_unit(unit, lambda plan: plan.number)) for unit in inside]
    clock = engine.clock if standing.clock is None else standing.clock.clock
    return encode((0, clock, engine.orders, standing.plan.number, save_instance(standing), rows))


def around(standing: Standing, subject: Subject) -> Iterator[Any]:
    """Yield what has a row because of one group, outermost first."""
    yield subject
    for children in (standing.children or {}).values():
        for child in children.values():
            outer = child.outer
            if isinstance(outer, Inner) and outer.subject is subject:
                if child.unit is child:
                    yield child
                yield from units(child)


def instances_of(unit: Any) -> list[Instance]:
    if not isinstance(unit, Subject):
        return [unit]
    return [each for _, each, _ in unit.subscribers if each is not None and each.unit is unit]


def timers_of(unit: Any) -> Iterator[list[Any]]:
    for each in instances_of(unit):
        for timers in (each.timers or {}).values():
            yield from timers.values()


# -- the other way


def put_together(
    blobs: Iterable[bytes], store: Store, name: str, query: KeyedQuery, *, positions: Mapping[str, Mapping[str, int]]
) -> list[Hashable]:
    """Begin an empty *store* with the rows of all keys in *blobs*, so that an evaluator goes on with *query* as *name*.

    *positions* says from where its sources are read: the next id for each partition of each source. Returns the keys
    whose query had failed: an evaluator's query would have failed with them, so they are left out and begin anew.

    *Raises* `CheckpointRefused` if the store is not empty, or if events wait for the watermark.
    """
    refuse_other(query)
    if query.event_time:
        raise QueryRefused(
            "a query on event time waits for a watermark that an evaluator cannot take over from Spark",
            path=query.written.root.path,
        )
    if store.generations():
        raise CheckpointRefused("the store is not empty", what="store", where=name)
    engine = QueryEngine()
    for source in query.sources:
        engine.declare(source, sorted(positions[source]))
    together = Together(engine, name, query)
    for blob in blobs:
        together.add(Bucket(query, blob))
    together.write(store, positions)
    return together.failed


class Together:
    """Groups of many keys on their way into one query."""

    def __init__(self, engine: QueryEngine, name: str, query: KeyedQuery) -> None:
        self.engine, self.name, self.query = engine, name, query
        self.general = General(query, {})
        self.failed: list[Hashable] = []
        self.blobs: list[bytes] = []
        self.rows = 0
        self.numbers = 0
        self.clock = 0.0
        engine.take(engine.creation(name, query.query, time=0.0))
        self.joint = first_other(engine.standing[name].plan.root)

    def add(self, bucket: Bucket) -> None:
        self.clock = max(self.clock, bucket.clock)
        if bucket.general is not None:
            self.general = bucket.general
        for key, row in bucket.rows.items():
            if type(row) is int and row < 0:
                self.failed.append(key)
            else:
                self.query.key.key = key
                lone = self.general.load(row) if type(row) is bytes else self.grouped(bucket, key, row)
                self.join(lone)

    def grouped(self, bucket: Bucket, key: Hashable, row: Any) -> KeyEngine:
        """Return an engine with the group that a chain's row stands for."""
        engine = self.general.begin(bucket.clock, key, Emitted())
        standing = engine.standing[NAME]
        group = find_group(standing.plan)
        group.op.begin(Cx(standing, group), key)  # type: ignore[attr-defined]
        ((_, child, _),) = standing.subjects[group.index][key].subscribers  # type: ignore[index]
        if type(row) is tuple:
            child.states = loader(child.plan)(row)
        else:
            sink = child.sink
            child.deactivate(child.plan.root, force=True)
            sink.inner_finish(child, None)
        return engine

    def join(self, lone: KeyEngine) -> None:
        """Take the rows of one key's engine, numbered behind those that are there."""
        standing, orders = lone.standing[NAME], self.engine.orders
        standing.key = self.name
        children = (standing.children or {}).get(self.joint.index, {}).values()
        for child in children:
            child.key += self.numbers  # type: ignore[operator]
        inside = list(units(standing))
        for unit in inside:
            if isinstance(unit, Subject):
                unit.order += orders
            for each in instances_of(unit):
                self.renumber(each, orders)
        self.blobs.append(encode([(unit.address(), save_unit(unit, self.engine.plans.number)) for unit in inside]))
        self.rows += len(inside)
        self.engine.orders += lone.orders
        newest = max((child.key for child in children), default=self.numbers)  # type: ignore[type-var]
        self.numbers = 1 + newest  # type: ignore[operator]

    def renumber(self, instance: Instance, orders: int) -> None:
        instance.plan.number = 0
        self.engine.plans.number(instance.plan)
        for timers in (instance.timers or {}).values():
            for timer in timers.values():
                timer[1] += orders
        if instance.orders:
            instance.orders = {index: order + orders for index, order in instance.orders.items()}

    def write(self, store: Store, positions: Mapping[str, Mapping[str, int]]) -> None:
        """Commit all as the first checkpoint of *store*."""
        engine = self.engine
        standing = engine.standing[self.name]
        standing.states[self.joint.slot].next_key = self.numbers
        engine.clock = max(engine.clock, self.clock)
        snapshot = Snapshot(engine, full=True)
        while not snapshot.write_some(1000):
            pass
        meta = {
            "engine": snapshot.header, "ended": set(), "holders": {}, "delivery": "exactly_once",
            "positions": {(source, part): at for source, each in positions.items() for part, at in each.items()},
        }  # fmt: skip
        chunks = [*snapshot.chunks(), *packed(self.blobs)]
        store.commit(Checkpoint(1, "full", engine.number, encode(meta), chunks, snapshot.rows + self.rows))
