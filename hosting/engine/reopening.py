"""Inner sequences that are opened again when a query goes over to other functions: by an edit, or another Python.

The selector is asked again for each, and what it did for the functions before it may not do for these: it raises, it
returns no sequence, or what it returns cannot begin. That is an error of the query, as at an event, and counts when all
rows are back: the query fails with it, or its policy gives up that one inner sequence. What was read by nobody but
that, or by a part that is in another place now, would have its events lost without a word: a group so begins again
with the next event of its key. Where a part of a state cannot be read its operator begins afresh, and the report says
which one, and why.

Rejected: to drop the row and go on (a group that nobody reads takes events for ever), and to deal with each where it
is found (the operators that hear of it may not have their rows yet).

What is stored is loaded likewise (`Taking`), by which queries of another Python go over to the functions of today.
Nothing can be emitted while a store is opened, so what has to be done at once waits for the first turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from checkpoint.format.salvage import Unreadable
from hosting.engine.side_outputs import NEVER
from hosting.engine.unloadable import first_lost, unloadable
from reliable_rx.class_of import is_a
from reliable_rx.errors import CheckpointRefused
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.giving_up import give_up, is_let_go
from reliable_rx.runtime.inner_sequences import Address, Subject
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.merging import read_again, take_places, unheard_of
from reliable_rx.runtime.plan import Plan, PlanNode
from reliable_rx.runtime.refitting import Fitted
from reliable_rx.runtime.rows import Loader, Report
from reliable_rx.runtime.signatures import Row, Signature
from reliable_rx.runtime.stage_context import absorb, finish_node

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine

WAITED = "what waited for its clock"
T = TypeVar("T")


class Refused(NamedTuple):
    """What stands for an inner sequence that cannot be opened again, and why it cannot."""

    child: Instance
    error: Exception


class Reopening(Loader):
    """Loads the rows of queries; of one that goes over to other functions it keeps what these cannot open again."""

    goes_over = True
    """Whether what is loaded now is of such a query."""

    def __init__(self, signatures: dict[int, Signature]) -> None:
        super().__init__(signatures)
        self.refused: list[Refused] = []
        self.late: list[tuple[Instance, dict[str, int]]] = []
        """The places among all readers that what has yet to read again had, by path."""
        self.opened: list[Subject] = []
        """The windows of what is new which are to be read when all rows are back."""

    def has_begun(self, instance: Instance, fitted: Fitted, started: int, opened: Sequence[Subject]) -> None:
        places = {fitted.saved[place][0]: order for place, order in fitted.row[4]}
        if any(leaf.path in places and not instance.active & leaf.bit for leaf in instance.plan.leaves):
            self.late.append((instance, places))
        self.opened += opened

    def adopt(self) -> None:
        """Let operators adopt in the order of the query, as they may emit, whichever row was stored first.

        Not those in what was given up as it began: it stands in no query any more.
        """
        there = [each for each in self.refitting.adopted if not is_let_go(each[0])]
        self.refitting.adopted = sorted(there, key=lambda each: lineage(each[0]))
        super().adopt()

    def begin_new(self, engine: QueryEngine) -> None:
        """Read the windows of what is new, and do all that is to be done at once.

        What has read again one action later has the place among all readers that it had, and hears what shared parts
        share from now on.
        """
        with ExitStack() as unheard:
            for instance, places in self.late:
                leaves = [leaf for leaf in instance.plan.leaves if leaf.path in places]
                unheard.enter_context(unheard_of(instance, leaves))
            engine.settle_immediate()
        read_again(self.opened)
        engine.settle_immediate()
        for instance, places in self.late:
            take_places(instance, places)

    def _load(self, address: Address, row: Row) -> bool:
        if not (self.lenient and self.goes_over):
            return super()._load(address, row)
        outer = row[1] if row[0] == "inner" else None
        if (lost := first_lost((address[-1], outer))) is not None:
            self.tell(f"what {address[-2]} had", lost)
            self._drop(address[-2], outer)
            return True
        if row[0] == "inner":
            return super()._load(address, (*row[:2], self._numbered(row[2], row[3]), *row[3:]))
        attached = [(path, key, self._numbered(number, inner), inner) for path, key, number, inner in row[2]]
        return super()._load(address, (*row[:2], attached))

    def _numbered(self, number: int, row: Row) -> int:
        shape = self.readable(self.signatures[number], row)
        if shape == self.signatures[number]:
            return number
        changed = -1 - len(self.signatures)
        self.signatures[changed] = shape
        return changed

    def readable(self, known: Signature, row: Row) -> Signature:
        """Return the signature under which of *row* only those states are taken that are whole."""
        if not self.lenient:
            return known
        found, states = list(known), iter(row[2])
        for place, (path, name, version, fields) in enumerate(known):
            if fields and (lost := first_lost(next(states))) is not None:
                self.tell(f"what {path} had", lost)
                found[place] = (path, f"unreadable {name}", version, fields)
        return tuple(found)

    def whole(self, entries: list[T]) -> list[T]:
        """Return of *entries*, which waited for the clock of a query, those that can be read; the report tells."""
        found = [(each, first_lost(each)) for each in entries] if self.lenient else []
        lost = [why for _, why in found if why is not None]
        if not lost:
            return entries
        self.report.dropped.append(WAITED)
        self.tell(WAITED, lost[0])
        return [each for each, why in found if why is None]

    def tell(self, what: str, lost: Unreadable) -> None:
        """Have the report say, once, that of *what* something is given up, and why."""
        told = f"{what} is given up: "
        if told not in self.report.note:
            self.report.note += f"{'; ' if self.report.note else ''}{told}{lost.kind}: {lost.reason}"

    def _stand_in(
        self, owner: Instance, node: PlanNode, key: Hashable, outer: Any, raised: BaseException, *, outlives: bool
    ) -> Instance:
        if is_a(raised, CheckpointRefused) or not self.goes_over:
            raise raised
        error = owner.world.blame(raised, owner)
        opened = owner.opened(node) if not outlives else (owner.outliving or {}).get(node.index, {})
        half = opened.pop(key, None)
        if half is not None:
            self.instances.pop(half.address(), None)
            half.dispose()
        plan = Plan(NEVER, limits=node.plan.limits, prefix=f"{node.path}/inner", symbolic=True, around=node.plan)
        child = Instance(plan, owner.world, node, key, parent=owner, outer=outer)
        if not outlives:
            opened[key] = child
        self.refused.append(Refused(child, error))
        self.report.dropped.append(plan.prefix)
        return child

    def settle(self) -> None:
        """Deal with what cannot be opened again, and with groups that are read by nobody since."""
        refused, self.refused = self.refused, []
        for child, error in refused:
            deal_with(child, error)
        for subject in dict.fromkeys(self.unread):
            owner, node = subject.owner, subject.node
            if owner is None or node is None or subject.ended or subject.is_read:
                continue
            if node.op.begins_again or node.op.begins_unread:
                owner.end_group(node, subject.key, None)
                owner.close(node, subject.key)
            elif getattr(node.op, "emits_bare", False):
                self.opened.append(subject)
        self.unread = []
        self.refitting.tell()
        self.settle_ended()
        self.settle_left_out()
        self.settle_shared()


def lineage(instance: Instance) -> tuple[int, ...]:
    """Say of which query *instance* is, by when that began, and where it is in it."""
    places: list[int] = []
    while instance.parent is not None and instance.sink is not None:
        places.append(instance.sink.index)
        instance = instance.parent
    return (instance.born, *reversed(places))  # type: ignore[attr-defined]


def deal_with(child: Instance, error: Exception) -> None:
    """Fail the operator that is to read *child*, or go on without; what was ended meanwhile is read by nobody."""
    owner, node = child.parent, child.sink
    if owner is None or node is None:
        return
    if absorb(child, child.plan.root, error, had_value=False):
        if owner.child(node, child.key) is child:  # and does not outlive its sequence
            give_up(child)
    else:
        finish_node(owner, node, error)


class Taking(Reopening):
    """Loads what is stored; queries in *forgiving*, which have a report each, go over to today's functions."""

    goes_over = False

    def __init__(self, signatures: dict[int, Signature]) -> None:
        super().__init__(signatures)
        self.forgiving: dict[str, Report] = {}
        self.spoilt: dict[str, Exception] = {}
        self.engine: QueryEngine | None = None
        self.moment = self.now = 0.0

    def edit_at(self, engine: QueryEngine, ran_until: float, now: float) -> None:
        """Let what goes over to other operators do so as if it had when the process before stopped, at *ran_until*.

        What these bring begins *now*.
        """
        self.engine, self.now = engine, max(now, engine.clock)
        self.moment = min(self.now, max(ran_until, engine.clock if engine.stop is None else engine.stop.time))
        self.refitting.adopting = partial(engine.at, self.moment)

    def bringing(self) -> AbstractContextManager[None]:
        """Have what is loaded begin now where functions of today have been put in the place of others."""
        return nullcontext() if self.engine is None or not self.forgiving else self.engine.at(self.now)

    def _load(self, address: Address, row: Row) -> bool:
        if self.forgiving or self.spoilt:
            self.tells = self.goes_over = address[0] in self.forgiving
            if self.goes_over:
                self.report = self.forgiving[address[0]]
                return super()._load(address, row)
            if address[0] in self.spoilt:
                return True
        try:
            return Loader._load(self, address, row)  # not by `super()`, which takes two calls more for each row
        except BaseException as error:  # a selector may raise anything
            let_through(error)
            self.spoilt[address[0]] = unloadable(error)
            return True

    def moves(self, instance: Instance) -> bool:
        return bool(self.forgiving) and instance.address()[0] in self.forgiving

    def settle_opening(self) -> None:
        """Settle while a store is opened: nothing can be emitted then, so what has to go on without a part ends."""
        for child, error in self.refused:
            self.spoilt.setdefault(child.address()[0], unloadable(error))
        self.refused.clear()
        self.settle()
        read_again(self.opened)
        for instance in self.instances.values():
            immediate = instance.world.immediate  # type: ignore[attr-defined]
            while immediate:  # what is to be done at once waits for the first turn
                timer = immediate.popleft()
                if timer[2] is not None:
                    timer[2].world.put_off(timer, self.moment)
