"""Running one key of any other query: an engine for the key, made from its row and turned into a row again.

The row is bytes: references between the parts of a query (a group in the state of an operator) are addresses that only
mean something within one key, so each key is read by itself, and those nothing happens to are never read. The engine is
that of the evaluator, so that timers, windows, joins and errors are what they are there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any

from checkpoint.format.codec import decode_data, encode
from hosting.engine.editing import Editor
from hosting.engine.endless import moves
from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import RUNNING, Standing
from hosting.engine.snapshot import each_row
from hosting.engine.turns import Create, Events, Output, Tick
from hosting.engine.unloadable import unloadable
from reliable_rx.errors import QueryRefused
from reliable_rx.interrupts import let_through
from reliable_rx.query.query import Query
from reliable_rx.runtime.instance import Instance, Timer
from reliable_rx.runtime.plan import Operators, Plan, PlanNode
from reliable_rx.runtime.rows import Loader, save_instance, save_unit
from reliable_rx.runtime.signatures import Signature, signature
from spark_bridge.keyed.emitted import Emitted
from spark_bridge.keyed.linear_runner import Step
from spark_bridge.keyed.query import KeyedQuery
from spark_bridge.keyed.storing import held_in, unstorable
from spark_bridge.keyed.unloadable import KeySpoilt, spoilt

NAME = "query"


def when(step: tuple[float, str, Sequence[Any] | None]) -> tuple[float, bool]:
    """Return where a step belongs: a source ends behind all events of the time."""
    return step[0], step[2] is None


class KeyEngine(QueryEngine):
    """An engine for one key."""

    def __init__(self, host: General) -> None:
        super().__init__()
        self.host = host
        self.leads: dict[str, float] = {}
        """By path, how long before they were due timers have been set."""

    def set_timer(self, instance: Instance, node: PlanNode, tag: Hashable, due: float | None) -> Timer:
        timer = super().set_timer(instance, node, tag, due)
        self.leads[node.path] = max(self.leads.get(node.path, 0.0), timer[0] - self.clock)
        return timer

    def plan_inner(self, query: Query[Any], node: PlanNode) -> tuple[Plan, Operators]:
        plan, ops = super().plan_inner(query, node)
        self.host.know(plan)
        if plan.sources and not self.host.query.per_key:
            raise QueryRefused(
                f"{node.path} reads {', '.join(sorted(plan.sources))} in each group: merge it in before group_by",
                path=node.path,
            )
        return plan, ops


class General:
    """Runs keys of any query that can run per key."""

    def __init__(self, query: KeyedQuery, signatures: dict[int, Signature]) -> None:
        self.query = query
        self.plan = query.plan
        self.signatures = signatures
        self.before: dict[int, Signature] = {}
        """The signatures of rows that a query before this one has written."""
        self.first_id = 0
        self.know(self.plan)

    def run(
        self, key: Hashable, row: bytes | int | None, steps: Sequence[Step], out: Emitted, *, until: float, ended: bool
    ) -> tuple[bytes | int, float | None]:
        """Give *steps* to the query of *key*, move its clock to *until*; return its row and when something is due."""
        if type(row) is int:
            return row, None
        self.query.key.key = key
        first = steps[0][0] if steps else until
        try:
            engine = self.begin(first, key, out) if row is None else self.load(row)  # type: ignore[arg-type]
        except KeySpoilt as error:
            out.end(key, error.fields["emitted"], error)
            return -error.fields["emitted"] - 1, None
        ends = self.ends(steps, max(until, engine.clock)) if ended else ()
        for time, source, values in sorted((*steps, *ends), key=when) if ends else steps:
            turn = Events(source, "0", 0, values or (), max(time, engine.clock), ended=values is None)
            self.put(key, engine.take(turn), out)
        if ended:
            self.drain(key, engine, out)
        else:
            self.move(key, engine, until, out)
        try:
            row = self.saved(engine)
        except QueryRefused as error:
            emitted = engine.standing[NAME].emitted
            out.end(key, emitted, error)
            return -emitted - 1, None
        return row, None if type(row) is int else engine.timers.next_due()

    def begin(self, time: float, key: Hashable, out: Emitted) -> KeyEngine:
        """Begin the query of a key with the first that happens to it."""
        engine = self.engine()
        if self.first_id:
            engine.continue_ids(NAME, self.first_id)
        create = Create(NAME, self.query.identity, self.plan, (), "fail", self.query.limits, time)
        self.put(key, engine.take(create), out)
        return engine

    def engine(self) -> KeyEngine:
        engine = KeyEngine(self)
        for source in self.query.sources:
            engine.declare(source, ["0"])
        return engine

    def ends(self, steps: Sequence[Step], until: float) -> list[tuple[float, str, None]]:
        """Return when each source ends: on event time behind its last event, as in an evaluator; else when all do."""
        if not self.query.event_time:
            return [(until, source, None) for source in self.query.sources]
        begin = steps[0][0] if steps else until
        last = {source: time for time, source, _ in steps}
        return [(last.get(source, begin), source, None) for source in self.query.sources]

    def move(self, key: Hashable, engine: KeyEngine, until: float, out: Emitted) -> None:
        """Let time pass: on event time what is due at *until* itself waits for more events of that time."""
        if until > engine.clock or not self.query.event_time:
            turn = Events(self.query.sources[0], "0", 0, (), until) if self.query.event_time else Tick(until)
            self.put(key, engine.take(turn), out)

    def drain(self, key: Hashable, engine: KeyEngine, out: Emitted) -> None:
        """Nothing will come any more: let all that is on its way arrive, and what ticks for ever happen once.

        As in an evaluator: see `hosting.engine.endless`.
        """
        for horizon in moves(engine.standing[NAME], engine.timers, engine.clock, engine.leads):
            self.put(key, engine.take(Tick(max(horizon, engine.clock))), out)

    @staticmethod
    def put(key: Hashable, outputs: Sequence[Output], out: Emitted) -> None:
        for each in outputs:
            if each.values:
                out.add(key, each.first, each.values)
            if each.ended:
                if isinstance(each.error, QueryRefused):
                    raise each.error
                out.end(key, each.next - 1, each.error)

    # -- rows

    def know(self, plan: Plan) -> None:
        """Number a plan, and those shared within it, by its signature: the same in every process."""
        if not plan.number:
            digest = blake2b(repr(signature(plan)).encode(), digest_size=7).digest()
            plan.number = int.from_bytes(digest, "big") + 1
        self.signatures.setdefault(plan.number, signature(plan))
        for node in plan.nodes:
            if node.template is not None:
                self.know(node.template)

    def saved(self, engine: QueryEngine) -> bytes | int:
        """Return what an engine with one query holds, as the row of a key. *Raises* `QueryRefused` if it cannot."""
        standing = engine.standing[NAME]
        if standing.status != RUNNING:
            return -standing.emitted
        number = attrgetter("number")
        try:
            inside = [
                (unit.address(), save_unit(unit, number)) for unit in each_row([standing]) if unit is not standing
            ]
            return encode(
                (standing.emitted, engine.clock, engine.orders, self.plan.number, save_instance(standing), inside)
            )
        except BaseException as error:  # pickling calls what the author of a state wrote
            let_through(error)
            raise unstorable(self.query.key.key, error, held_in(each_row([standing]))) from error

    def load(self, row: bytes) -> KeyEngine:
        """Return the engine that a row was made from. *Raises* `KeySpoilt` if it cannot be had again."""
        loader = Editor({**self.before, **self.signatures}) if self.before else Loader(self.signatures)
        stored, lost = loader.reading(lambda: decode_data(row))
        if lost:
            raise spoilt(self.query.key.key, stored[0], lost[0])
        if self.before:  # a query that cannot go on with what was kept is refused
            return self.loaded(loader, stored)
        try:
            return self.loaded(loader, stored)
        except BaseException as error:  # its functions are called, and what they raise is its own
            let_through(error)
            raise spoilt(self.query.key.key, stored[0], error) from error

    def loaded(self, loader: Loader, stored: tuple[Any, ...]) -> KeyEngine:
        engine = self.engine()
        emitted, engine.clock, engine.orders, shape, top, inside = stored
        engine.moving = True
        standing = engine.standing[NAME] = Standing(self.plan, engine, NAME, policy="fail", keys=())
        standing.emitted = emitted
        loader.add(standing, top, loader.signatures[shape])
        loader.load_all(inside)
        loader.finish()
        engine.moving = False
        if isinstance(loader, Editor):
            for _, error in loader.refused:  # as an edit that does not fit
                raise unloadable(error)
            loader.settle()
        return engine
