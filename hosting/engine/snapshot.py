"""Checkpoints of a running engine: a pause of microseconds, then rows written between turns.

A snapshot is *as of* one turn. It takes over the set of touched rows (or all rows, for a full one) and is written
in slices while the engine goes on; a row that is about to change before its slice has come is written first (copy
on write). So the pause does not grow with the state. If the commit fails, what the snapshot took goes back to the
engine, and the next one has it.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Any

from checkpoint import failures
from checkpoint.format.code import makers
from checkpoint.format.codec import decode, encode
from hosting.engine import failing
from hosting.engine.disposed_ids import RETIRED, RETIRED_IDS, Bucket, Ended
from hosting.engine.engine import QueryEngine
from hosting.engine.event_time import stored as stored_clocks
from hosting.engine.event_time.reorder import WAITING, Chunk
from hosting.engine.event_time.runtime import EventClock
from hosting.engine.failure import stored_mishaps
from hosting.engine.hosted_query import Standing, TopRow
from hosting.engine.records import INSIDE, Record, by_kind, packed, portions, query_of, read_records
from hosting.engine.reopening import Taking
from hosting.engine.suspended import SUSPENDED, Suspended, is_of_others, load_suspended, suspend, take_over
from hosting.engine.time_moves import Stop
from hosting.engine.unloadable import blank, is_misfit, silence, unloadable, unreadable_rows
from reliable_rx.class_of import ids_of
from reliable_rx.errors import CheckpointRefused
from reliable_rx.functions.shared_parts import check_waiting
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.hub import STORED, runs_queries
from reliable_rx.runtime.inner_sequences import SNAPSHOT, Subject
from reliable_rx.runtime.outliving import place_in, units
from reliable_rx.runtime.plan import Plan
from reliable_rx.runtime.rows import Loader, save_instance, save_unit

LOOSE_ROWS_MAX = 256  # more would live long enough to set off full garbage collections
STATES = 9  # where the row of a standing query has those of its operators
ATOMS = ids_of((int, float, str, bytes, bool, type(None)))


class Snapshot:
    """The rows of an engine as of now.

    Which rows are still to be written is known from their *epoch*: rows written in this snapshot, and rows born
    after it was taken, carry its number. So nothing is copied or counted while the engine waits.
    """

    def __init__(self, engine: QueryEngine, *, full: bool) -> None:
        self.engine = engine
        self.taken = engine.dirty
        self.gone = engine.gone
        self.full = full
        self.rows = 0
        self.done = False
        self.blobs: list[bytes] = []
        self.loose: list[Record] = []
        self.spoilt: dict[str, BaseException] = {}
        """The queries of which a row cannot be written, and why."""
        plans = engine.plans
        if full:
            plans.prune(each.plan for each in engine.standing.values())
        self.plans = dict(plans.by_id if full else plans.unsaved)
        self.kept_plans = engine.suspended.plans() if full else {}
        self.signatures = 0 if full else len(plans.signatures) - plans.unsaved_signatures
        plans.unsaved, plans.unsaved_signatures = {}, 0
        self.header = header(engine)
        engine.epoch += 1
        engine.dirty, engine.gone = {}, {}
        engine.touch = self._guard
        self.pending = everything(engine) if full else iter(list(self.taken))
        if not full and self.gone:
            self._encode([(key, None) for key in self.gone])
            self.spoilt.clear()  # under a key that cannot be written no row ever was

    def _guard(self, unit: Any) -> None:
        """Write the row of *unit* if it is still to be written, since it is about to change.

        Rows whose states are plain numbers and texts cannot change once they are read; they are encoded together later.
        """
        engine = self.engine
        if unit.epoch != engine.epoch and (self.full or unit in self.taken):
            unit.epoch = engine.epoch
            one = record(engine, unit)
            self.rows += 1
            if is_fixed(one[1]):
                self.loose.append(one)
                if len(self.loose) >= LOOSE_ROWS_MAX:
                    self._encode_loose()
            else:
                self._encode([one])
        engine.dirty[unit] = None

    def write_some(self, count: int) -> bool:
        """Write *count* more rows; return whether all are written."""
        epoch = self.engine.epoch
        batch = list(islice((unit for unit in self.pending if unit.epoch != epoch), count))
        if batch:
            self._write(batch)
        self._encode_loose()
        if len(batch) < count and not self.done:
            self.done = True
            self.engine.touch = self.engine.dirty.setdefault
        return self.done

    def _write(self, batch: Sequence[Any]) -> None:
        epoch = self.engine.epoch
        records = []
        for unit in batch:
            unit.epoch = epoch
            records.append(record(self.engine, unit))
        self.rows += len(records)
        self._encode(records)

    def _encode_loose(self) -> None:
        if self.loose:
            self._encode(self.loose)
            self.loose = []

    def _encode(self, records: list[Record]) -> None:
        token, parts = SNAPSHOT.set(self.engine.epoch), set[str]()
        noted = STORED.set(parts)
        try:
            blob = encode(records)
            if parts:
                self._check_parts(records, parts)
            if len(blob) > failures.JOINED_BYTES_MAX:
                self._divide(records, blob)
            else:
                self.blobs.append(blob)
        except BaseException as error:  # values are the user's, and so is what they raise
            let_through(error)
            if len(records) == 1:
                self.spoilt.setdefault(query_of(records[0][0]), error)
            else:
                for each in records:
                    self._encode([each])
        finally:
            SNAPSHOT.reset(token)
            STORED.reset(noted)

    def _check_parts(self, records: Sequence[Record], parts: Container[str]) -> None:
        """*Raises* `QueryRefused` if elements of *records* read *parts* that functions of their queries hold."""
        for name in dict.fromkeys(query_of(key) for key, _ in records):
            if name in self.engine.standing:
                check_waiting(self.engine.standing[name].plan, parts)

    def _divide(self, records: list[Record], blob: bytes) -> None:
        """Write in halves what is too long; a row that fits nowhere by itself is its query's fault."""
        if len(records) > 1:
            half = len(records) // 2
            self._encode(records[:half])
            self._encode(records[half:])
        elif failures.fits(blob):
            self.blobs.append(blob)
        else:
            name = query_of(records[0][0])
            self.spoilt.setdefault(name, failures.too_large(f"query {name!r}", f"a state of {len(blob):,} bytes"))

    def chunks(self) -> list[bytes]:
        """Return what is to be stored, once all is written. *Raises* `QueryRefused` for a query that cannot be."""
        for error in self.spoilt.values():
            raise failing.unstorable_state(error) from error
        plans = self.engine.plans
        stored = {name: (plans.code_of(plan), plan.limits) for name, plan in self.plans.items()}
        blobs = portions([(("plan", name), row) for name, row in {**self.kept_plans, **stored}.items()])
        fresh = list(enumerate(self.engine.plans.signatures, 1))[self.signatures :]
        blobs += portions([(("signature", number), shape) for number, shape in fresh])
        return list(packed([*blobs, *self.blobs]))

    def roll_back(self) -> None:
        """Give back what this snapshot took: its commit failed, or it cannot be written."""
        engine = self.engine
        self.done, self.pending = True, iter(())
        engine.touch = engine.dirty.setdefault
        live = dict.fromkeys(unit for unit in self.taken if unit not in engine.dirty and has_row(engine, unit))
        engine.dirty.update(live)
        engine.gone = {**self.gone, **engine.gone}
        engine.plans.unsaved = {**self.plans, **engine.plans.unsaved}
        engine.plans.unsaved_signatures = len(engine.plans.signatures) - self.signatures


def is_fixed(row: Any) -> bool:
    """Whether nothing in *row*, just read from the live state, can change any more."""
    if row[0] in (WAITING, RETIRED):
        return bool(row[0] == RETIRED)
    if row[0] == "subject":
        return all(only_atoms(reader[3][2]) for reader in row[2])
    return row[0] != "inner" and only_atoms(row[STATES][2])


def only_atoms(states: Sequence[Sequence[Any] | None]) -> bool:
    for fields in states:
        for value in fields or ():
            if id(type(value)) not in ATOMS:  # the class may be one that cannot be hashed
                return False
    return True


def is_live(engine: QueryEngine, unit: Any) -> bool:
    """Whether *unit* is still part of a standing query."""
    if isinstance(unit, Ended):
        return engine.retired.by_name.get(unit.name) is unit
    if isinstance(unit, Bucket):
        return True
    if isinstance(unit, Suspended):
        return engine.suspended.get(unit.name) is unit
    while not isinstance(unit, Standing):
        owner, there = place_of(unit)
        if owner is None or there is not unit:
            return False
        unit = owner
    return engine.standing.get(unit.name) is unit


def has_row(engine: QueryEngine, unit: Any) -> bool:
    """Whether *unit* is alive and not written with the group that it reads."""
    return is_live(engine, unit) and getattr(unit, "unit", unit) is unit


def place_of(unit: Any) -> tuple[Any, Any]:
    """Return who owns *unit*, and what has a row there under its key now."""
    if isinstance(unit, Chunk):
        return unit.clock.standing, unit.clock.waiting.chunks.get(unit.number)
    if isinstance(unit, Subject):
        if unit.owner is None or unit.node is None:
            return None, None
        return unit.owner, (unit.owner.subjects or {}).get(unit.node.index, {}).get(unit.key)
    return (None, None) if unit.parent is None or unit.sink is None else (unit.parent, place_in(unit.parent, unit))


def everything(engine: QueryEngine) -> Iterator[Any]:
    """Yield every row of *engine*, which may change meanwhile."""
    return chain([*engine.retired.rows(), *engine.suspended.values()], each_row(list(engine.standing.values())))


def each_row(standing: list[Standing]) -> Iterator[Any]:
    for each in standing:
        yield each
        if each.clock is not None:
            yield from list(each.clock.waiting.chunks.values())
        if each.children or each.subjects or each.outliving:
            yield from units(each)


def header(engine: QueryEngine) -> dict[str, Any]:
    """Return the part of an engine that is in no row."""
    return {
        "clock": engine.clock,
        **({"reached": engine.reached} if engine.reached > engine.clock else {}),
        **({} if engine.stop is None else {"stop": tuple(engine.stop)}),
        "number": engine.number,
        "orders": engine.orders,
        "live": {source: sorted(partitions) for source, partitions in engine.live.items()},
        "failures": dict(engine.failures),
        "drained": engine.drained,
        "watermarks": stored_clocks.save(engine.watermarks),
        **engine.calls.header,
    }


def record(engine: QueryEngine, unit: Any) -> Record:
    """Return what is stored for one row, and note under which key."""
    if type(unit.saved) is tuple:  # the address of a row within a query, which was written or read before
        return unit.saved, save_unit(unit, engine.plans.number)
    if isinstance(unit, Standing):
        unit.saved = True
        return unit.row_key, (
            engine.plans.ids[unit.plan], unit.keys, unit.policy, unit.emitted, unit.status, unit.error, unit.born,
            engine.plans.number(unit.plan), None if unit.clock is None else unit.clock.save(), save_instance(unit),
            *stored_mishaps(unit),
        )  # fmt: skip
    if isinstance(unit, Chunk):
        unit.saved = True
        return unit.row_key, (WAITING, unit.entries)
    if isinstance(unit, (Ended, Bucket, Suspended)):
        unit.saved = True
        return unit.row_key, unit.row
    if unit.saved is None:
        unit.saved = unit.address()
    return unit.saved, save_unit(unit, engine.plans.number)


@runs_queries
def load(
    engine: QueryEngine, chunks: Sequence[bytes], head: dict[str, Any], *, ran_until: float = 0.0, now: float = 0.0
) -> Loader:
    """Put the stored rows into a fresh *engine* whose sources are declared; the process before *ran_until* then."""
    loader = Taking({})
    rows = by_kind(read_records(chunks, loader, bears=BaseException))
    loader.spoilt.update(unreadable_rows(rows) if loader.lenient else {})
    engine.moving = True
    engine.clock, engine.number, engine.orders = head["clock"], head["number"], head["orders"]
    engine.calls.others = set(map(tuple, head.get("other calls", ())))
    engine.reached, engine.stop = head.get("reached", engine.clock), Stop(*head["stop"]) if "stop" in head else None
    loader.edit_at(engine, ran_until, now)
    for source, partitions in head["live"].items():
        engine.live[source] = set(partitions)
    engine.failures, engine.drained = dict(head["failures"]), head["drained"]
    engine.suspended.watermarks = head["watermarks"]
    stored_clocks.load(engine.watermarks, head["watermarks"])
    shapes = sorted((key[1], row) for key, row in rows["signature"].items())
    engine.plans.signatures = [shape for _, shape in shapes]
    loader.signatures.update(shapes)
    plans = engine.plans.stored = {key[1]: row for key, row in rows["plan"].items()}
    load_suspended(engine, rows[SUSPENDED].items())
    for top in sorted((TopRow(key[1], *row) for key, row in rows["top"].items()), key=attrgetter("born")):
        load_top(engine, loader, top, rows)
    load_waiting(engine, loader, rows[WAITING])
    engine.retired.load(rows[RETIRED], rows[RETIRED_IDS])
    with loader.bringing():
        loader.load_all(list(rows[INSIDE].items()))
        loader.finish()
        loader.settle_opening()
    for name in loader.spoilt.keys() & engine.standing.keys():
        silence(engine, name)
    stored_clocks.forget_unused(engine.watermarks)
    engine.suspended.spoilt.update(loader.spoilt)
    engine.reports.update(loader.forgiving)
    known = engine.plans
    known.unsaved_signatures = len(known.signatures) - len(shapes)
    known.unsaved = {name: plan for name, plan in known.by_id.items() if name not in plans}
    engine.dirty, engine.gone, engine.moving = {}, {}, False
    engine.touch = engine.dirty.setdefault
    return loader


def load_top(engine: QueryEngine, loader: Taking, top: TopRow, rows: dict[str, dict[Any, Any]]) -> None:
    """Put one standing query back."""
    try:
        _load_top(engine, loader, top, rows)
    except BaseException as error:  # its functions are called, and what they raise is its own
        let_through(error)
        loader.spoilt.setdefault(top.name, unloadable(error))
    if top.name not in engine.standing and top.name not in engine.suspended:
        blank(engine, top)


def _load_top(engine: QueryEngine, loader: Taking, top: TopRow, rows: dict[str, dict[Any, Any]]) -> None:
    other = is_of_others(engine, top)
    is_here = other is not None and other.makers.fits(makers())
    if other is not None and not (is_here and top.name in loader.spoilt):
        engine.suspended.other_code = other
        lost = loader.spoilt.pop(top.name, None)  # what of it can be read is taken over, or kept
        if lost is not None and is_misfit(lost):
            engine.suspended.misfits[top.name] = lost
        if not take_over(engine, loader, top):
            suspend(engine, loader, top, rows, other.what)
        return
    if top.name in loader.spoilt:
        engine.plans.find(top.plan)
        return
    plan = stored_plan(engine, top.plan, top.name)
    standing = engine.standing[top.name] = Standing(plan, engine, top.name, policy=top.policy, keys=top.keys)
    standing.restore(top)
    standing.saved = True
    if top.clock is not None:
        stored_clocks.fill(engine, standing, top.clock)
    loader.add(standing, top.row, loader.signatures[top.signature])


def load_waiting(engine: QueryEngine, loader: Taking, rows: dict[Any, Any]) -> None:
    """Put back what waited for the clocks of queries."""
    clocks: dict[EventClock, None] = {}
    for (_, name, number), (_, entries) in sorted(rows.items(), key=itemgetter(0)):
        clock = engine.standing[name].clock
        if name in loader.forgiving:
            loader.report = loader.forgiving[name]
            entries = loader.whole(entries)
        if clock is not None:
            clock.waiting.load(number, entries, clock.clock)
            clocks[clock] = None
    for clock in clocks:
        clock.waiting.loaded()


def stored_plan(engine: QueryEngine, identity: str, name: str) -> Plan:
    plan = engine.plans.find(identity)
    if plan is None:
        raise CheckpointRefused(f"the plan of {name!r} is not stored with its state", what="plan", where=name)
    return plan


def copy_of(engine: QueryEngine) -> QueryEngine:
    """Return an engine that came out of *engine*'s bytes, as after a crash; *engine* is left as it was."""
    snapshot = Snapshot(engine, full=True)
    while not snapshot.write_some(1000):
        pass
    chunks, head = snapshot.chunks(), decode(encode(snapshot.header))
    snapshot.roll_back()
    other = QueryEngine()
    other.timestamps = dict(engine.timestamps)
    load(other, chunks, head)
    return other
