"""State from an embedded evaluator to a bucket: what an evaluator has of each key, cut out of what it has.

An evaluator has one query with a row per group; on Spark every key has a query with its one group. So a row is cut out
with all that hangs on it. A query that is written for one key is a standing query per key in an evaluator, with
`where_key` behind its sources, and its rows are taken as they are. The other way is `spark_bridge.keyed.joining`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import count
from math import inf
from typing import Any

from checkpoint.format.codec import decode, encode
from checkpoint.store import Store
from hosting.engine.engine import QueryEngine
from hosting.engine.event_time.reorder import END, Entry
from hosting.engine.hosted_query import RUNNING, Standing
from hosting.engine.snapshot import load
from hosting.evaluator import interpreters
from reliable_rx.errors import CheckpointRefused, QueryRefused
from reliable_rx.operators.filtering import WhereKey
from reliable_rx.query.query import InnerLeaf, Node, Query, SourceLeaf, walk
from reliable_rx.runtime.inner_sequences import Subject
from reliable_rx.runtime.outliving import rows_within, units
from reliable_rx.runtime.plan import Plan
from reliable_rx.runtime.rows import save_instance, save_unit
from spark_bridge.keyed.bucket import Bucket
from spark_bridge.keyed.engine_runner import NAME, General
from spark_bridge.keyed.forms import dues_of, flattened, of_group
from spark_bridge.keyed.query import KeyedQuery, find_group
from spark_bridge.keyed.routing import Router
from spark_bridge.keyed.storing import instances_of

KeyMapper = Callable[[Any], Hashable]


def for_key(query: Query[Any], key_mapper: KeyMapper, key: Hashable) -> Query[Any]:
    """Return what an evaluator runs for *key* of a query that is written for the events of one key.

    >>> import reliable_rx as rx
    >>> print(for_key(rx.source("trades").count(), lambda trade: trade["symbol"], "MSFT").explain())
    /source     source('trades')
    /where_key  where_key(λ, 'MSFT')
    /count      count()   · keeps count
    """
    hash(key)

    def narrowed(node: Node) -> Node:
        if isinstance(node.op, SourceLeaf):
            return Node(WhereKey(key_mapper, key), (node,))
        return Node(node.op, tuple(narrowed(each) for each in node.inputs))

    return Query(narrowed(query.node))


def name_for(name: str, key: Hashable) -> str:
    """Return the name that the query of *key* has in an evaluator.

    >>> name_for("totals", "MSFT"), name_for("totals", ("MSFT", 3))
    ('totals/MSFT', 'totals/MSFT/3')
    """
    return "/".join(map(str, (name, *(key if isinstance(key, tuple) else (key,)))))


def cut_out(store: Store, name: str, query: KeyedQuery, *, key_mapper: KeyMapper | None = None) -> Bucket:
    """Return one bucket with what the evaluator of *store* has for every key of its query *name*.

    The store is read as it is: take a checkpoint, then close the evaluator. Its positions say where Spark begins. With
    *key_mapper* the query is written for one key, and there is a standing query `for_key` for each.

    *Raises* `CheckpointRefused` if the journal is ahead of the checkpoint, the query there is not *query*, or its state
    cannot be read.
    """
    engine = recovered(store)
    check_whole(engine, name)
    bucket = Bucket(query)
    if query.per_key:
        cut_queries(bucket, engine, name, key_mapper)
    else:
        cut_groups(bucket, engine, name)
    return bucket


def refuse_hidden(query: KeyedQuery) -> None:
    """*Raises* `QueryRefused` if a selector reads a source: in an evaluator it would see the events of all keys."""
    open_leaves = {node.op.source for node in query.written.nodes if isinstance(node.op, SourceLeaf)}
    for node in query.written.walk():
        if isinstance(node.op, SourceLeaf) and node not in query.written.nodes:
            raise QueryRefused(f"{node.path} reads {node.op.source!r} of all keys in an evaluator", path=node.path)
    hidden = [each for each in query.sources if each not in open_leaves]
    if hidden:
        path = query.written.root.path
        raise QueryRefused(f"a selector reads {hidden[0]!r}, which has all keys in an evaluator", path=path)


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
    if engine.suspended.other_code is not None:
        raise interpreters.needs_its_own(engine.suspended.other_code)
    return engine


def check_whole(engine: QueryEngine, name: str) -> None:
    """*Raises* `CheckpointRefused` if a state of the query *name*, or of one of its keys, could not be read."""
    for each, error in engine.suspended.spoilt.items():
        if each == name or each.startswith(f"{name}/"):
            raise CheckpointRefused(
                f"{each!r} cannot be moved: {error}; start its evaluator once, which ends this query alone, and let it "
                f"take a checkpoint",
                what=each,
                where="store",
            ) from error


def is_run_as(engine: QueryEngine, standing: Standing, plan: Plan, query: KeyedQuery) -> bool:
    ids = engine.plans.ids
    return ids[plan] == ids[standing.plan] and (standing.clock is not None) == query.event_time


def other(name: str) -> CheckpointRefused:
    return CheckpointRefused(f"{name!r} is another query than the one that is given", what="query", where=name)


# -- a query with groups


def cut_groups(bucket: Bucket, engine: QueryEngine, name: str) -> None:
    query = bucket.query
    standing = engine.standing.get(name)
    if standing is None or standing.status != RUNNING:
        raise CheckpointRefused(f"the store has no running query {name!r}", what="query", where=name)
    plan, _ = engine.plans.compile(query.query.node, query.limits)
    if not is_run_as(engine, standing, plan, query):
        raise other(name)
    begin(bucket, engine, standing)
    bucket.content.first_id = standing.emitted
    standing.key = NAME
    for key, subject in (standing.subjects or {}).get(find_group(standing.plan).index, {}).items():
        if bucket.straight is not None:
            bucket.rows[key] = of_group(bucket.straight, standing, subject)
        else:
            put(bucket, engine, standing, key, list(around(standing, subject)))
    router = Router(query.written)
    for entry in waiting(standing, name):
        for key in router.keys_of(entry[1][0], entry[3]):
            bucket.waiting.setdefault(key, []).append((entry[0], entry[2], entry[1][0], entry[3]))


def around(standing: Standing, subject: Subject) -> Iterator[Any]:
    """Yield what has a row because of one group, outermost first."""
    yield subject
    for row in rows_within(standing):
        if reads(row.outer, subject):
            if row.unit is row:
                yield row
            yield from units(row)


def reads(outer: Any, subject: Subject) -> bool:
    """Whether *outer* is the group, or a query made of it."""
    found = walk(outer.node) if isinstance(outer, Query) else ()
    return any(isinstance(node.op, InnerLeaf) and node.op.subject is subject for node in found)


# -- a query for each key


def cut_queries(bucket: Bucket, engine: QueryEngine, name: str, key_mapper: KeyMapper | None) -> None:
    query = bucket.query
    if key_mapper is None:
        raise QueryRefused(
            "a query written for one key is a query for each key in an evaluator: say with key_mapper how they tell "
            "their events",
            path=query.written.root.path,
        )
    refuse_hidden(query)
    there = {each: standing for each, standing in engine.standing.items() if each.startswith(f"{name}/")}
    if not there:
        raise CheckpointRefused(f"the store has no query {name}/...", what="query", where=name)
    for each, standing in sorted(there.items()):
        key = key_of(standing)
        plan, _ = engine.plans.compile(for_key(query.query, key_mapper, key).node, query.limits)
        if (
            engine.plans.ids[plan] != engine.plans.ids[standing.plan]
            or (standing.clock is not None) != query.event_time
        ):
            raise other(each)
        cut_query(bucket, engine, standing, key, key_mapper)


def key_of(standing: Standing) -> Hashable:
    """Return the key of a query that is made `for_key`."""
    if standing.keys:
        return standing.keys[0]  # type: ignore[no-any-return]
    found = [node.op.key for node in standing.plan.walk() if isinstance(node.op, WhereKey)]
    return found[0] if found else None


def cut_query(bucket: Bucket, engine: QueryEngine, standing: Standing, key: Hashable, key_mapper: KeyMapper) -> None:
    if standing.status != RUNNING:
        bucket.rows[key] = -standing.emitted
        return
    begin(bucket, engine, standing)
    name, standing.key = standing.name, NAME
    if bucket.straight is not None:
        bucket.rows[key] = flattened(bucket.straight, standing, key)
    else:
        put(bucket, engine, standing, key, list(units(standing)))
    there = waiting(standing, name)  # events of all keys, if the query reads several sources
    entries = [(time, seq, channel[0], value) for time, channel, seq, value in there if key_mapper(value) == key]
    if entries:
        bucket.waiting[key] = entries


# -- both


def begin(bucket: Bucket, engine: QueryEngine, standing: Standing) -> None:
    clock = engine.clock if standing.clock is None else standing.clock.clock
    bucket.content.clock = max(bucket.clock, clock)


def put(bucket: Bucket, engine: QueryEngine, standing: Standing, key: Hashable, inside: list[Any]) -> None:
    """Write the row of *key*: the query, and *inside* what hangs on it."""
    general: General = bucket.general  # type: ignore[assignment]
    for each in [standing, *(instance for unit in inside for instance in instances_of(unit))]:
        each.plan.number = 0
        general.know(each.plan)
    rows = [(unit.address(), save_unit(unit, lambda plan: plan.number)) for unit in inside]
    clock = engine.clock if standing.clock is None else max(standing.clock.clock, -inf)
    top = save_instance(standing)
    bucket.rows[key] = encode((standing.emitted, clock, engine.orders, standing.plan.number, top, rows))
    bucket.wake(key, min(dues_of(iter([standing, *inside])), default=None))


def waiting(standing: Standing, name: str) -> Iterator[Entry]:
    """Yield what waits for the watermark, numbered so that it comes before whatever comes later."""
    if standing.clock is None:
        return
    entries = standing.clock.waiting.entries[standing.clock.waiting.start :]
    if any(entry[2] == END for entry in entries):
        raise CheckpointRefused(
            f"a source of {name!r} has ended, and Spark's goes on", what="waiting events", where=name
        )
    for number, (time, channel, _, value) in zip(count(-len(entries) - 1), entries, strict=False):
        yield time, channel, number, value
