"""Stored queries whose functions are another interpreter's: taken over by what the app declares, or suspended.

The state of a query is data, and its functions are not. So a query that the app declares goes on with the functions of
today, from the stored state, by path, as an edit does. One that nobody declares cannot run: it is *suspended*. It
sees no events, its stream stays readable, its state stays in the store as it is, until it is created again or disposed
of. Rejected: running it as failed (its state would go with the next edit), refusing to start (one query made at run
time, years ago, would keep a whole app from a new Python).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from checkpoint.code import OtherCode, makers
from checkpoint.codec import decode, encode
from checkpoint.salvage import holds_unreadable
from hosting.edit import load_forgiving
from hosting.event_clock import EventClock
from hosting.failure import read_failure
from hosting.own_clocks import sources_of
from hosting.reorder import WAITING
from hosting.spoilt import unloadable
from hosting.standing import RUNNING, Standing, TopRow
from hosting.turn import Create
from reliable_rx.errors import QueryDisposed, described
from reliable_rx.event_time import EventTime
from reliable_rx.interrupts import let_through
from reliable_rx.limits import Limits
from reliable_rx.rows import Loader, Report, Row, Signature, units
from reliable_rx.subject import Address

if TYPE_CHECKING:
    from hosting.engine import QueryEngine

SUSPENDED = "suspended"
Rows = list[tuple[Any, Any]]


class Suspended:
    """A query that is kept as it was stored."""

    __slots__ = ("content", "engine", "epoch", "name", "saved", "top", "why")

    def __init__(self, engine: QueryEngine, name: str, top: TopRow, content: bytes, why: str) -> None:
        self.engine, self.name, self.top, self.content, self.why = engine, name, top, content, why
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


class SuspendedQueries(dict[str, Suspended]):
    """Those of an engine by name, and what loading a store of another interpreter needs and finds out."""

    def __init__(self, engine: QueryEngine) -> None:
        super().__init__()
        self.engine = engine
        self.declared: dict[str, Create] = {}
        """What the app declares, by which stored queries are taken over."""
        self.taken_over: list[str] = []
        self.other_code: OtherCode | None = None
        self.watermarks: dict[str, Any] = {}
        self.spoilt: dict[str, Exception] = {}
        """The queries that cannot be had again, while a store is opened (`hosting.spoilt`)."""
        self.ended: dict[str, Exception] = {}
        """Those of both kinds that have ended when the store was opened."""
        self.differing: dict[str, Exception] = {}
        """Those that gave other outputs in the replay."""
        self.unmade: dict[str, tuple[int, int]] = {}
        """By stream, which ids the replay could not fill again: the first, and the one behind."""

    def declare(self, name: str, query: Any, policy: str, limits: Limits, clock: EventTime | None) -> None:
        """Check and compile a query that will be created later, by which a stored one may be taken over."""
        self.declared[name] = self.engine.creation(
            name, query, time=0.0, policy=policy, limits=limits, clock=clock, sources_known=False
        )

    def resume(self, standing: Standing, turn: Create) -> bool:
        """Let *standing*, just created, go on where the suspended query of its name was; False if it cannot.

        It has missed what came since it was suspended.
        """
        kept = self.pop(turn.name)
        self.engine.forget(kept)
        if kept.status == RUNNING and (turn.clock is None) == (kept.clock is None):
            resume(self.engine, kept, standing, turn)
            return True
        self.engine.retired.put(turn.name, kept.emitted)
        return False

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


class Taking(Loader):
    """Loads what is stored; inside queries in *forgiving* it drops what today's functions cannot open again.

    Those have a report each.
    """

    def __init__(self, signatures: dict[int, Signature]) -> None:
        super().__init__(signatures)
        self.forgiving: dict[str, Report] = {}
        self.spoilt: dict[str, Exception] = {}

    def _load(self, address: Address, row: Row) -> bool:
        name = address[0]
        if name in self.forgiving:
            return self._load_what_fits(address, row)
        self.tells = False
        if name in self.spoilt:
            return True
        try:
            return Loader._load(self, address, row)
        except BaseException as error:  # a selector may raise anything
            let_through(error)
            self.spoilt[name] = unloadable(error)
            return True

    def _load_what_fits(self, address: Address, row: Row) -> bool:
        self.tells = True
        self.report = self.forgiving[address[0]]
        if self.lenient and (holds_unreadable(address[-1]) or (row[0] == "inner" and holds_unreadable(row[1]))):
            self.report.dropped.append(address[-2])
            return True
        return load_forgiving(self, super()._load, address, self._readable_row(row))

    def _readable_row(self, row: Row) -> Row:
        if not self.lenient:
            return row
        if row[0] == "inner":
            return (*row[:2], self.readable_under(row[2], row[3]), row[3])
        attached = [(path, key, self.readable_under(number, inner), inner) for path, key, number, inner in row[2]]
        return (*row[:2], attached)

    def readable_under(self, number: int, row: Row) -> int:
        """Return the number of the signature under which of *row* only those states are taken that are whole."""
        known = self.signatures[number]
        places = [place for place, each in enumerate(known) if each[3]]
        bad = {place for place, values in zip(places, row[2], strict=True) if holds_unreadable(values)}
        if not bad:
            return number
        changed = -1 - len(self.signatures)
        self.signatures[changed] = tuple(
            (path, f"unreadable {name}" if place in bad else name, version, fields)
            for place, (path, name, version, fields) in enumerate(known)
        )
        return changed


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
    fill(engine, loader, standing, top, declared, engine.suspended.watermarks)
    engine.suspended.taken_over.append(top.name)
    return True


def _standing_of(engine: QueryEngine, turn: Create, top: TopRow) -> Standing:
    standing = Standing(turn.code, engine, turn.name, policy=turn.policy, keys=turn.keys)
    standing.emitted, standing.status, standing.error, standing.born = top.emitted, top.status, top.error, top.born
    standing.failure, standing.skipped = read_failure(top.failure), top.skipped
    engine.standing[turn.name] = standing
    return standing


def fill(
    engine: QueryEngine,
    loader: Taking,
    standing: Standing,
    top: TopRow,
    turn: Create,
    watermarks: Mapping[str, Any],
) -> None:
    """Give *standing* the clock and the state that *top* has."""
    shape = loader.signatures[top.signature]
    begun = True
    if top.clock is not None and top.status == RUNNING and turn.clock is not None:
        name = engine.watermarks.take_over(watermarks[top.clock[0]], turn.clock, sources_of(standing.plan))
        clock = EventClock(engine)
        clock.load(standing, (name, *top.clock[1:]))
        begun = clock.begun
    elif top.clock is not None:
        EventClock(engine).load(standing, top.clock)
    if top.status == RUNNING and begun:
        if loader.lenient:
            shape = loader.signatures[loader.readable_under(top.signature, top.row)]
        loader.tells = True
        loader.load_muted(standing, top.row, shape)
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
    suspended = Suspended(engine, top.name, top._replace(row=None), content, why)
    engine.suspended[top.name] = suspended
    engine.touch(suspended)


def load_suspended(engine: QueryEngine, rows: Iterable[tuple[Any, Any]]) -> None:
    """Put the suspended queries of a store back."""
    for key, (top, content, why) in rows:
        engine.suspended[key[1]] = Suspended(engine, key[1], TopRow(*top), content, why)


def resume(engine: QueryEngine, kept: Suspended, standing: Standing, turn: Create) -> None:
    """Give *standing* the state that was kept."""
    loader = Taking({})
    state, inside, waiting, signatures, watermark = loader.reading(lambda: decode(kept.content))
    loader.signatures.update(signatures)
    loader.forgiving[turn.name] = loader.report
    loader.lenient = holds_unreadable((state, inside))
    top = kept.top._replace(row=state)
    standing.born, standing.emitted = top.born, top.emitted
    engine.standing[turn.name] = standing
    engine.moving = True
    try:
        fill(engine, loader, standing, top, turn, {} if watermark is None else {top.clock[0]: watermark})
        loader.load_all(inside)
        loader.finish()
    finally:
        engine.moving = False
    if standing.clock is not None:
        for key, (_, entries) in waiting:
            standing.clock.waiting.load(key[2], entries, standing.clock.clock)
        standing.clock.waiting.loaded()
    for unit in (standing, *units(standing)):
        engine.touch(unit)
    engine.reports[turn.name] = loader.report
