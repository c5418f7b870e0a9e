"""Stored queries whose functions are another interpreter's: taken over by what the app declares, or suspended.

The state of a query is data, and its functions are not. So a query that the app declares goes on with the functions of
today, from the stored state, by path, as an edit does. One that nobody declares cannot run: it is *suspended*. It
sees no events, its stream stays readable, its state stays in the store as it is, until it is created again or disposed
of. Rejected: running it as failed (its state would go with the next edit), refusing to start (one query made at run
time, years ago, would keep a whole app from a new Python).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from checkpoint.format.code import OtherCode, makers
from checkpoint.format.codec import decode, decode_data, encode
from checkpoint.format.salvage import Unreadable, holds_unreadable
from hosting.engine.editing import begun_afresh, end_leaves
from hosting.engine.event_time import stored as stored_clocks
from hosting.engine.event_time.reorder import WAITING
from hosting.engine.failure import stored_mishaps
from hosting.engine.hosted_query import RUNNING, Standing, TopRow
from hosting.engine.plan_names import are_comparable, do_the_same, why_untold
from hosting.engine.reopening import Taking
from hosting.engine.side_outputs import begin_anew
from hosting.engine.turns import Create
from reliable_rx.class_of import is_a
from reliable_rx.errors import CheckpointRefused, QueryDisposed, described
from reliable_rx.event_time import EventTime
from reliable_rx.interrupts import let_through
from reliable_rx.limits import Limits
from reliable_rx.runtime.outliving import units
from reliable_rx.runtime.plan import Plan
from reliable_rx.runtime.rows import Loader, Report

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine

SUSPENDED = "suspended"
UNEDITED = "was suspended"
"""How one came to its report that is there again as it was, or of which nobody can tell that it was edited."""
Rows = list[tuple[Any, Any]]


class Suspended:
    """A query that is kept as it was stored."""

    __slots__ = ("code", "content", "engine", "epoch", "name", "saved", "top", "why")

    def __init__(
        self, engine: QueryEngine, name: str, top: TopRow, content: bytes, why: str, code: tuple[bytes, Limits] | None
    ) -> None:
        self.engine, self.name, self.top, self.content, self.why = engine, name, top, content, why
        self.code = code
        self.epoch = engine.epoch
        self.saved: Any = True

    @property
    def row_key(self) -> tuple[str, str]:
        """The key under which a store has this row."""
        return (SUSPENDED, self.name)

    @property
    def row(self) -> tuple[Any, ...]:
        """What is stored: the top row without its state, everything in bytes of its own, and why it is here."""
        return (tuple(self.top._replace(row=None)), self.content, self.why)

    def read(self, loader: Loader) -> tuple[Any, tuple[Unreadable, ...]]:
        """Return what is stored, as far as it can be read here, and what of it cannot."""
        return loader.reading(lambda: decode_data(self.content))  # type: ignore[no-any-return]

    @property
    def status(self) -> str:
        return self.top.status

    @property
    def clock(self) -> Any:
        """The query's own clock as it was saved, if it was on event time."""
        return self.top.clock

    @property
    def emitted(self) -> int:
        return self.top.emitted

    @emitted.setter
    def emitted(self, next_id: int) -> None:
        self.top = self.top._replace(emitted=next_id)

    @property
    def error(self) -> Exception | None:
        return self.top.error


class SuspendedQueries(dict[str, Suspended]):
    """Those of an engine by name, and what loading a store of another interpreter needs and finds out."""

    def __init__(self, engine: QueryEngine) -> None:
        super().__init__()
        self.engine = engine
        self.declared: dict[str, Create] = {}
        """What the app declares, by which stored queries are taken over."""
        self.taken_over: list[str] = []
        self.untold = dict[str, str]()
        """Of those that had ended: why it cannot be told whether they were edited."""
        self.anew: list[str] = []
        """Those that are suspended since this store was opened."""
        self.may_be_left: Callable[[str], bool] = lambda name: True
        """Whether a query may be suspended: a command leaves those alone that it is not about."""
        self.other_code: OtherCode | None = None
        self.unread: OtherCode | None = None
        self.watermarks: dict[str, Any] = {}
        self.spoilt: dict[str, Exception] = {}
        """The queries that cannot be had again, while a store is opened (`hosting.engine.unloadable`)."""
        self.misfits: dict[str, CheckpointRefused] = {}
        """Those of another interpreter that go on, or are kept, without what does not fit the classes of today."""
        self.ended: dict[str, Exception] = {}
        """Those of both kinds that have ended when the store was opened."""
        self.differing: dict[str, Exception] = {}
        """Those that gave other outputs in the replay."""
        self.unmade: dict[str, tuple[int, int]] = {}
        """By stream, which ids the replay could not fill again: the first, and the one behind."""
        self.lost_turns: list[tuple[int, int]] = []
        """Which turns behind the checkpoint a repair has not found: the first, and the one behind."""
        self.lost_ids = 0
        """How many ids of the newest turns, which are lost, the sink has that is ahead by most."""
        self.passed_over: tuple[int, int] | None = None
        """Which turns a repair has not taken again."""
        self.quiet: list[str] = []
        """The streams of which no record behind the lost turns tells how many ids they have used."""

    def declare(self, name: str, query: Any, policy: str, limits: Limits, clock: EventTime | None) -> None:
        """Check and compile a query that will be created later, by which a stored one may be taken over."""
        self.declared[name] = self.engine.creation(
            name, query, time=0.0, policy=policy, limits=limits, clock=clock, sources_known=False
        )

    def resume(self, standing: Standing, turn: Create) -> bool:
        """Let *standing*, just created, go on where the suspended query of its name was; False if it cannot.

        It has missed what came since it was suspended. One that has ended has ended, unless it is edited.
        """
        kept = self.pop(turn.name)
        self.engine.forget(kept)
        if kept.status == RUNNING and (turn.clock is None) == (kept.clock is None):
            resume(self.engine, kept, standing, turn)
            if not self.is_edited(kept, turn):
                self.engine.reports[turn.name].how = UNEDITED
            return True
        if kept.status != RUNNING and not self.is_edited(kept, turn):
            if self.code_of(kept) is None or not are_comparable(turn.plan, kept.top.plan):
                self.untold[turn.name] = why_untold(turn.plan, kept.top.plan, self.unread)
            resume(self.engine, kept, standing, turn)
            self.engine.reports[turn.name].how = UNEDITED
            return True
        if kept.status != RUNNING:
            self.engine.reports[turn.name] = begun_afresh(self.engine, kept, standing)
            begin_anew(self.engine, turn.name)
        self.engine.retired.put(turn.name, kept.emitted)
        return False

    def is_edited(self, kept: Suspended, turn: Create) -> bool:
        """Whether *turn* creates another query than *kept*: where its code cannot be read nobody can tell."""
        return not do_the_same(turn.plan, kept.top.plan) and self.code_of(kept) is not None

    def code_of(self, kept: Suspended) -> Plan | None:
        """Return the plan of a suspended query; None if its code cannot be loaded here."""
        plans, stored, self.unread = self.engine.plans, self.engine.plans.stored, None
        try:
            plans.stored = stored if kept.code is None else {**stored, kept.top.plan: kept.code}
            return plans.find(kept.top.plan)
        except BaseException as error:  # reading a query calls what its author wrote
            let_through(error)
            if is_a(error, OtherCode):
                kept.why, self.unread = error.what, error
            return None
        finally:
            plans.stored = stored

    def creation_of(self, kept: Suspended, time: float) -> Create | None:
        """Return the turn by which a suspended query goes on with its own code; None if that cannot be loaded here."""
        plan, clock = self.code_of(kept), None
        if plan is None or kept.top.name in self.declared:
            return None
        if kept.clock is not None and kept.status == RUNNING:
            try:
                clock = decode(kept.read(Taking({}))[0][-1][0])
            except BaseException as error:  # as above
                let_through(error)
                return None
        top = kept.top
        return Create(top.name, top.plan, plan, top.keys, top.policy, plan.limits, time, clock)

    def plans(self) -> dict[str, tuple[bytes, Limits]]:
        """Return the code of those that are suspended, as it was stored."""
        return {each.top.plan: each.code for each in self.values() if each.code is not None}

    def drop(self, name: str) -> None:
        """Forget a suspended query, and end its stream if it had not ended; its ids go on."""
        kept = self.pop(name, None)
        if kept is not None:
            self.engine.forget(kept)
            next_id = kept.emitted
            if kept.status == RUNNING:
                next_id = self.engine.end_stream(name, next_id, disposed(name))
            if next_id:
                self.engine.retired.put(name, next_id)


def disposed(name: str) -> QueryDisposed:
    """Return what the stream of a disposed query ends with."""
    return QueryDisposed(f"the query {name!r} was disposed of", query=name)


def is_of_others(engine: QueryEngine, top: TopRow) -> OtherCode | None:
    """Return why *top* cannot run with the functions that were stored with it; None if it can."""
    try:
        engine.plans.find(top.plan)
        if top.clock is not None and top.status == RUNNING and top.clock[0] not in engine.watermarks.by_name:
            decode(engine.suspended.watermarks[top.clock[0]][0])
    except OtherCode as error:
        return error
    except BaseException as error:
        let_through(error)
        if top.name not in engine.suspended.declared:
            raise  # nobody else has its functions
        what = f"code that cannot be loaded ({described(error)})"
        return OtherCode(f"the store holds {what}", what=what, where=top.name, makers=makers())
    return None


def take_over(engine: QueryEngine, loader: Taking, top: TopRow) -> bool:
    """Put *top* back with the functions that the app declares today; return False if it declares none that fit."""
    declared = engine.suspended.declared.get(top.name)
    if declared is None or (top.status == RUNNING and (declared.clock is None) != (top.clock is None)):
        return False
    loader.report = loader.forgiving[top.name] = Report()
    standing = _standing_of(engine, declared, top)
    row, spec = top.clock, declared.clock
    if row is not None and spec is not None and top.status == RUNNING:
        saved = engine.suspended.watermarks[row[0]]
        sources = stored_clocks.sources_with(engine, standing, saved, spec)
        row = (stored_clocks.take_over(engine.watermarks, saved, spec, sources, row[4]), *row[1:])
    elif row is not None:
        row = stored_clocks.named_here(standing, row, spec)
    if row is not None:
        stored_clocks.fill(engine, standing, row)
    with loader.bringing():
        fill(loader, standing, top)
    engine.suspended.taken_over.append(top.name)
    if top.status != RUNNING:
        engine.suspended.untold[top.name] = why_untold(declared.plan, top.plan, engine.suspended.other_code)
    return True


def _standing_of(engine: QueryEngine, turn: Create, top: TopRow) -> Standing:
    standing = Standing(turn.code, engine, turn.name, policy=turn.policy, keys=turn.keys)
    standing.restore(top)
    engine.standing[turn.name] = standing
    return standing


def rename(engine: QueryEngine, there: Standing, turn: Create) -> None:
    """Have *there*, which has ended, stored under what *turn*, declared here, is called, with its end and all else."""
    row = None if there.clock is None else there.clock.save()
    top = TopRow(
        there.name, turn.plan, there.keys, there.policy, there.emitted, there.status, there.error, there.born, 0, row,
        None, *stored_mishaps(there),
    )  # fmt: skip
    engine.forget(there)
    standing = _standing_of(engine, turn, top)
    if row is not None:
        stored_clocks.fill(engine, standing, stored_clocks.named_here(standing, row, turn.clock))
    engine.touch(standing)


def fill(loader: Taking, standing: Standing, top: TopRow) -> None:
    """Give *standing* the state that *top* has."""
    shape, clock = loader.signatures[top.signature], standing.clock
    if top.status == RUNNING and (clock is None or clock.begun):
        loader.tells = True
        loader.add(standing, top.row, loader.readable(shape, top.row))
        loader.tells = False


def suspend(engine: QueryEngine, loader: Taking, top: TopRow, rows: Mapping[str, dict[Any, Any]], why: str) -> None:
    """Keep *top* and all that belongs to it as it is stored."""
    inside = [(key, row) for key, row in rows[""].items() if key[0] == top.name]
    waiting = [(key, row) for key, row in rows[WAITING].items() if key[1] == top.name]
    for table, taken in (("", inside), (WAITING, waiting)):
        for key, _ in taken:
            del rows[table][key]
    watermark = engine.suspended.watermarks.get(top.clock[0]) if top.clock is not None else None
    content = encode((top.row, inside, waiting, dict(loader.signatures), watermark))
    top = top._replace(row=None, clock=stored_clocks.at_rest(top.clock, watermark))
    suspended = Suspended(engine, top.name, top, content, why, engine.plans.stored.get(top.plan))
    engine.suspended[top.name] = suspended
    engine.suspended.anew.append(top.name)
    engine.touch(suspended)


def load_suspended(engine: QueryEngine, rows: Iterable[tuple[Any, Any]]) -> None:
    """Put the suspended queries of a store back."""
    for key, (top, content, why) in rows:
        row = TopRow(*top)
        engine.suspended[key[1]] = Suspended(engine, key[1], row, content, why, engine.plans.stored.get(row.plan))


def resume(engine: QueryEngine, kept: Suspended, standing: Standing, turn: Create) -> None:
    """Give *standing* the state that was kept."""
    loader = Taking({})
    (state, inside, waiting, signatures, watermark), _ = kept.read(loader)
    loader.signatures.update(signatures)
    loader.forgiving[turn.name] = loader.report
    loader.lenient = holds_unreadable((state, inside, waiting))
    top = kept.top._replace(row=state)
    standing.restore(top)
    engine.standing[turn.name] = standing
    moment = engine.edited_at(standing.born)
    loader.refitting.adopting = partial(engine.at, moment)
    engine.moving = True
    engine.skips.goes_over(engine, turn.name)
    try:
        if top.clock is not None and turn.clock is not None and top.status == RUNNING:
            stored_clocks.take_up(engine, standing, top.clock, watermark, turn.clock)
        elif top.clock is not None:
            stored_clocks.fill(engine, standing, top.clock)
        fill(loader, standing, top)
        loader.load_all(inside)
        loader.finish()
    finally:
        engine.moving = False
    with engine.settled_at(moment):
        loader.settle()
    loader.begin_new(engine)
    for unit in (standing, *units(standing)):
        engine.touch(unit)
    engine.reports[turn.name] = loader.report
    if standing.clock is None and standing.status == RUNNING:
        end_leaves(engine, standing, sorted(engine.routes))
    elif standing.clock is not None and standing.status == RUNNING:
        whole = [(key[2], loader.whole(entries)) for key, (_, entries) in waiting]
        with engine.settled_at(moment):
            stored_clocks.go_on(standing.clock, whole)
