"""Editing a query in place.

The parts whose path and type did not change keep their state, and a report says what became of the rest.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from checkpoint.format.codec import decode_data, digest, encode
from checkpoint.format.salvage import Unreadable
from hosting.engine.cycles import NAMED_MAX
from hosting.engine.differing import note_of
from hosting.engine.hosted_query import COMPLETED, RUNNING, Standing
from hosting.engine.plan_names import are_comparable, do_the_same
from hosting.engine.reopening import Reopening
from hosting.engine.routes import top_of
from hosting.engine.unloadable import first_misfit, needed
from reliable_rx.errors import QueryRefused, described
from reliable_rx.event_time import clock_id
from reliable_rx.functions.replaced_classes import are_any, going_over
from reliable_rx.interrupts import let_through
from reliable_rx.names import ENDINGS, query_of
from reliable_rx.query.query import Inner
from reliable_rx.runtime.beginning import Beginning, EndedGroup, Past, ended_groups
from reliable_rx.runtime.branch_code import codes_of, shared_in_first
from reliable_rx.runtime.inner_sequences import Address, Subject
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.outliving import rows_within, units
from reliable_rx.runtime.plan import Operators, Plan, PlanNode
from reliable_rx.runtime.reading import between, is_given_others
from reliable_rx.runtime.refitting import Fitted
from reliable_rx.runtime.rows import Report, save_instance, save_unit
from reliable_rx.runtime.settings import Codes
from reliable_rx.runtime.signatures import Signature, signature

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.suspended import Suspended
    from hosting.engine.turns import Create


class Editor(Reopening):
    """Loads the rows of a query into what it was edited to."""

    tells = True

    def __init__(self, signatures: dict[int, Signature]) -> None:
        super().__init__(signatures)
        self.plans: dict[Address, tuple[Plan, Operators]] = {}
        """The plan of each row before the edit, and its operators."""
        self.hashed: dict[tuple[PlanNode, int], tuple[str, ...] | None] = {}
        self.refitting.codes, self.refitting.shared = self.codes, self.shared
        self.memories: dict[tuple[Address, str], str] = {}
        """What the shared parts of each row remembered before the edit."""
        self.groups: list[EndedGroup] = []
        self.read: list[tuple[Address, str, Hashable]] = []
        """The groups and windows that were read before the edit: by owner, path and key."""
        self.pasts: dict[tuple[Plan, int, Plan, tuple[str, ...]], Past] = {}
        self.past: Past | None = None
        """What ran of the row that is loaded."""
        self.begun: list[Beginning] = []

    def remember(self, before: Standing) -> None:
        """Note what no row says of *before*."""
        for each in rows_in(before):
            address = each.address()
            self.plans[address] = each.plan, each.ops
            self.groups += ended_groups(each)
            self.read += read_groups(each)
            for node in each.plan.hub_nodes:
                self.memories[address, node.path] = node.op.memory  # type: ignore[attr-defined]

    def look_back(self, instance: Instance, fitted: Fitted) -> None:
        (before, _), active = self.plans.get(self.refitting.came_from(instance), (None, ())), fitted.row[0]
        self.past = None
        if before is not None and before is not instance.plan:
            known = before, active, instance.plan, tuple(fitted.renaming(node.path) for node in before.nodes)
            past = self.past = self.pasts[known] = self.pasts.get(known) or Past(*known)
            fitted.saved = past.saved(fitted.saved)

    def codes(self, instance: Instance, node: PlanNode, path: str) -> Codes | None:
        """Return what the inputs do of *node*, which had *path*, before the edit and behind it."""
        before, ops = self.plans.get(self.refitting.came_from(instance), (None, ()))
        old = None if before is None else before.by_path.get(path)
        if old is None or old.op.name != node.op.name:
            return None
        known, now = self._hashed(old, ops), self._hashed(node, instance.ops)
        return None if known is None or now is None else (known, now)

    def gives_others(self, owner: Instance, reader: PlanNode, opener: PlanNode, outer: Any) -> bool:
        plan, _ = self.plans.get(self.refitting.came_from(owner), (None, ()))
        renaming = self.refitting.renamed.get(owner.address())
        old = [each.path if renaming is None else renaming.back(each.path) for each in (reader, opener)]
        nodes = [None if plan is None else plan.by_path.get(path) for path in old]
        made = None if nodes[0] is None or nodes[1] is None else between(nodes[0], nodes[1])
        before = None if made is None else [each.op.name for each in made]
        return is_given_others(owner, reader, opener, outer, before)

    def shared(self, instance: Instance, path: str) -> list[str]:
        """Return what went with the first input of what had *path*."""
        before, _ = self.plans.get(self.refitting.came_from(instance), (None, ()))
        is_known = before is not None and path in before.by_path and before.by_path[path].inputs
        return shared_in_first(before, path) if before is not None and is_known else []

    def _hashed(self, node: PlanNode, ops: Operators) -> tuple[str, ...] | None:
        if (node, id(ops)) not in self.hashed:
            self.hashed[node, id(ops)] = codes_of(node, ops)
        return self.hashed[node, id(ops)]

    def has_begun(self, instance: Instance, fitted: Fitted, started: int, opened: Sequence[Subject]) -> None:
        if self.past is not None:
            self.begun.append(Beginning(instance, self.past, fitted, started))
        super().has_begun(instance, fitted, started, opened)

    def finish(self) -> None:
        for (address, path), memory in self.memories.items():
            placed = self.refitting.placed(address)
            instance, known = self.instances.get(placed), self.refitting.path(placed, path)
            node = None if instance is None else instance.plan.by_path.get(known)
            if instance is not None and node is not None and node.op.is_hub:
                self._forget(instance, node, memory)
        super().finish()
        for group in self.groups:
            self._read_again(group)
        had = {each.outer.subject for each in self.instances.values() if isinstance(each.outer, Inner)}
        for owner, path, key in self.read:
            subject = self._subject(owner, path, key)
            if subject is not None and not subject.is_read and subject not in had:  # whose row may read it later
                self.unread.append(subject)

    def adopt(self) -> None:
        """Let operators count what is to begin with what runs; then that begins."""
        for each in self.begun:
            each.look(self.refitting)
        super().adopt()
        for each in self.begun:
            each.begin()
            self.late.append((each.instance, each.places))
            self.report.fresh += each.begun_again()

    def _read_again(self, group: EndedGroup) -> None:
        """Let *group* begin again with its next event, if what reads it has not had enough of it."""
        subject = self._subject(group.owner, group.path, group.key)
        if subject is None or subject.owner is None or subject.node is None or subject.is_read:
            return
        path = self.refitting.path(self.refitting.placed(group.owner), group.reader.path)
        if leaves := group.begins(subject.owner.plan, path):
            self.report.fresh += [each for each in leaves if each != subject.node.path]
            self.unread.append(subject)

    def _subject(self, address: Address, path: str, key: Hashable) -> Subject | None:
        """Return the group that had this owner, path and key, if it is there."""
        placed = self.refitting.placed(address)
        owner = self.instances.get(placed)
        node = None if owner is None else owner.plan.by_path.get(self.refitting.path(placed, path))
        return None if owner is None or node is None else owner.groups(node).get(key)

    def _forget(self, instance: Instance, node: PlanNode, memory: str) -> None:
        """Let a shared part of another kind than before begin with nothing of what that one remembered."""
        op, state = node.op, instance.states[node.slot]
        if state is not None and op.memory != memory:  # type: ignore[attr-defined]
            state.values = op.initial().values
            self.report.fresh.append(node.path)


def read_groups(row: Instance) -> Iterator[tuple[Address, str, Hashable]]:
    """Yield the groups and windows in *row* that somebody reads, by owner, path and key."""
    for node in row.plan.nodes if row.subjects else ():
        for key, subject in row.groups(node).items():
            if subject.is_read:
                yield row.address(), node.path, key


def rows_in(instance: Instance) -> Iterator[Instance]:
    """Yield *instance* and all rows inside it."""
    waiting = [instance]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += rows_within(at)


def edit(engine: QueryEngine, before: Standing, after: Standing) -> Report:
    """Put *after* in the place of *before*, with the state that still fits.

    State that does not survive its way through bytes is given up, and the report says why: no checkpoint could have
    kept it either.
    """
    loader = Editor({})
    loader.report.note = note_of(engine, before, after)
    loader.remember(before)
    with going_over(modules_of(engine, after.plan)):
        state, lost = through_bytes(engine, before, loader)
    moment = engine.edited_at(after.born)
    loader.lenient, loader.refitting.adopting = bool(lost), partial(engine.at, moment)
    if state is None:
        paths = [node.path for node in before.plan.nodes if node.slot >= 0]
        loader.report.dropped += paths
        loader.tell(f"what {', '.join(paths)} had", lost[0])
    engine.moving = True
    engine.skips.goes_over(engine, after.name)
    try:
        _move(engine, before, after, loader, state)
    finally:
        engine.moving = False
    with engine.settled_at(moment):
        loader.settle()
    loader.begin_new(engine)
    if state is None and (after.clock is None or after.clock.begun):
        after.start()
    if after.clock is not None:
        with engine.settled_at(moment):
            after.clock.catch_up()
    else:
        end_leaves(engine, after, sorted(after.plan.sources))
    return loader.report


def end_leaves(engine: QueryEngine, standing: Standing, sources: Iterable[str]) -> None:
    """Tell *standing* which of *sources* have ended: it reads them where others were read, or while it could not."""
    for source in sources:
        end, route = engine.end_of(source), engine.routes.get(source)
        if end is not None and route is not None:
            for instance, leaf in [each for each in route.readers() if top_of(each[0]) is standing]:
                engine.tell_end(instance, leaf, source, end[0])


def through_bytes(engine: QueryEngine, before: Standing, loader: Editor) -> tuple[Any, tuple[Unreadable, ...]]:
    """Return the state of *before* as it comes out of bytes, and what of it does not; None if it goes into none.

    With it comes what waits for its clock, where classes may go over: without these it is what it was.
    """
    waiting = before.clock.waiting.left if before.clock is not None and are_any() else []
    inside = [(unit.address(), save_unit(unit, engine.plans.number)) for unit in units(before)]
    loader.signatures = dict(enumerate(engine.plans.signatures, 1))
    row = save_instance(before)
    try:
        data = encode((row, inside, waiting))
    except BaseException as raised:  # values are the user's, and so is what they raise
        let_through(raised)
        return None, (Unreadable("state", described(raised)),)
    return loader.reading(lambda: decode_data(data))  # type: ignore[no-any-return]


def modules_of(engine: QueryEngine, plan: Plan) -> list[str]:
    """Return the modules of which classes go over where a query goes over to *plan*."""
    content = engine.plans.contents.get(plan)
    return [] if content is None else [name for name, _ in content.modules]


def check_fits(engine: QueryEngine, turn: Create, anew: str) -> None:
    """*Raises* `QueryRefused` if a running query would lose state, as classes have come that it does not fit.

    To begin *anew* is the other remedy.
    """
    there = engine.standing.get(turn.name)
    if there is None or there.status != RUNNING or not are_any() or is_same(engine, there, turn):
        return
    with going_over(modules_of(engine, turn.code)):
        _, lost = through_bytes(engine, there, Editor({}))
    misfit = first_misfit(lost)
    if misfit is not None:
        what = needed(misfit.fields["gone"])
        raise QueryRefused(
            f"the query {turn.name!r} goes on as it was, since its state {what}; or begin it anew first with {anew}, "
            f"or give up what does not fit with strict=False",
            path="/",
        )


def _move(engine: QueryEngine, before: Standing, after: Standing, loader: Editor, state: Any) -> None:
    shape = signature(before.plan)
    before.dispose()
    engine.forget(before)
    engine.standing[after.name] = after
    row, rows, waiting = state or ((), (), ())
    if after.clock is not None and waiting:
        after.clock.waiting.replace(loader.whole(waiting))
    if state is not None and (after.clock is None or after.clock.begun):
        loader.add(after, row, loader.readable(shape, row))
        loader.load_all(rows)
        loader.finish()
    for unit in (after, *units(after)):
        engine.touch(unit)
    for instance in loader.instances.values():
        if instance.unit is not instance:  # it started before it was put into the row of what it reads
            engine.dirty.pop(instance, None)


TAKEN_OVER = "was taken over from another Python"
READ_ANEW = "to have that read anew, declare it as a source of another name and let the query read this"


def has_ended(engine: QueryEngine, standing: Standing) -> bool:
    """Whether all that a query reads is over: sources were read to their end, queries have ended."""
    names = standing.plan.sources
    return bool(names) and all(
        engine.end_of(name) is not None if name in engine.live else bool(ended_queries(engine, [name]))
        for name in names
    )


def ended_queries(engine: QueryEngine, names: Iterable[str]) -> list[str]:
    """Return which of *names* are streams of queries that have ended, by query."""
    read = {query_of(name) for name in names} & engine.standing.keys()
    return sorted(name for name in read if engine.standing[name].status != RUNNING)


def begun_afresh(engine: QueryEngine, before: Standing | Suspended, after: Standing) -> Report:
    """Report that *after* takes the place of a query that has ended: it begins anew, under the ids that follow."""
    how = "completed" if before.error is None else f"failed ({described(before.error)})"
    note = (
        f"it had {how}, and begins afresh with the next events: its ids go on at {before.emitted:,} behind the "
        f"notification of its end, and what came since is not read again"
    )
    if has_ended(engine, after):
        queries = ended_queries(engine, after.plan.sources)
        way = f"run it again in one call with {', '.join(map(repr, queries))}" if queries else READ_ANEW
        note += f"; it completes at once, since what it reads has ended: {way}"
    note += who_stays(engine, before.name)
    if isinstance(before, Standing) and (differs := note_of(engine, before, after)):
        note += f"; {differs}"
    return Report(fresh=[node.path for node in after.plan.slots], note=note)


def begun_behind_its_end(engine: QueryEngine, after: Standing) -> None:
    """Report who stays as it ended though *after* is there again, under a name of which there is no report."""
    if after.name not in engine.reports and (stay := who_stays(engine, after.name)):
        note = f"one of its name was there before: its ids go on at {after.emitted:,}{stay}"
        engine.reports[after.name] = Report(fresh=[node.path for node in after.plan.slots], note=note)


def who_stays(engine: QueryEngine, name: str) -> str:
    """Say who has completed and reads the query *name*, as part of a note."""
    stay = completed_with(engine, name)
    names = ", ".join(map(repr, stay[:NAMED_MAX]))
    return f"; what had completed and reads it stays so: {names} (run it again to have what comes)" if stay else ""


def completed_with(engine: QueryEngine, name: str) -> list[str]:
    """Name the queries that have completed and read the stream of *name*, or one beside it."""
    streams = {name, *(name + ending for ending in ENDINGS)}
    ended = (each for each in engine.standing.values() if each.status == COMPLETED)
    return sorted(each.name for each in ended if not streams.isdisjoint(each.plan.sources))


def is_same(engine: QueryEngine, there: Standing, turn: Create) -> bool:
    """Whether *turn* would create what is already there.

    A running query goes over to the code that is declared for it wherever that differs as it is stored, and to classes
    that have come in the place of those that it knew: its state has values of these then. One that has ended goes on
    only if it was edited, which its content says.
    """
    if not is_alike(engine, there, turn):
        return False
    plan = engine.plans.ids[there.plan]
    if there.status != RUNNING:
        return True
    if plan == turn.plan:
        return there.plan is turn.code or turn.code not in engine.plans.renewed
    return are_comparable(plan, turn.plan) and engine.plans.have_same_code(there.plan, turn.code)


def is_alike(engine: QueryEngine, there: Standing, turn: Create) -> bool:
    """Whether *turn* would create the query that is there as far as hashes tell: no edit, but maybe other code."""
    plan = engine.plans.ids[there.plan]
    clock = None if there.clock is None else there.clock.name.partition(" ")[0]  # what it does, without its sources
    wanted = None if turn.clock is None else clock_id(turn.clock)
    if not are_comparable(plan, turn.plan) and clock is not None and wanted is not None:
        clock = wanted  # byte code is in both
    if (there.policy, clock) != (turn.policy, wanted) or not do_the_same(plan, turn.plan):
        return False
    return there.keys is turn.keys or digest(list(there.keys)) == digest(list(turn.keys))


def reports_told(engine: QueryEngine) -> Iterator[str]:
    """Say which queries a start has edited, or taken over from another Python, and what became of their states."""
    taken_over = set(engine.suspended.taken_over)
    for name, report in engine.reports.items():
        yield f"{name} {TAKEN_OVER if name in taken_over else report.how}: {report}"


def taken_over_told(engine: QueryEngine) -> Iterator[str]:
    """Say the same of those alone that were taken over from another Python: no later start has it to tell."""
    taken_over = set(engine.suspended.taken_over)
    return (f"{name} {TAKEN_OVER}: {report}" for name, report in engine.reports.items() if name in taken_over)
