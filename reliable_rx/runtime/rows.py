"""Rows: the generic way from a running instance to plain tuples and back.

The fields of each declared state are the format. A row is written under a *signature* (path, name, version and
field names of every operator), so that reading it into an edited query or by a newer library is a comparison and
never a guess: what has the same path and name is kept, a newer version migrates, the rest starts fresh, and a
report says which.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from reliable_rx.errors import CheckpointRefused
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.query.query import Inner
from reliable_rx.runtime.giving_up import is_let_go
from reliable_rx.runtime.hub import HubSubject, stop_unread, tell_end_of
from reliable_rx.runtime.inner_sequences import RESOLVE, Address, Subject
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.merging import (
    align,
    begun_again,
    connect_kept,
    empty,
    forget_heard,
    kept_in,
    start_afresh,
    take_places,
    unheard,
)
from reliable_rx.runtime.outliving import outlives, put, settle
from reliable_rx.runtime.plan import Plan, PlanNode
from reliable_rx.runtime.reading import cannot_read, inner_in, is_given_others, opens, stands_behind
from reliable_rx.runtime.refitting import GONE, Fitted, Refitting
from reliable_rx.runtime.report import Report as Report
from reliable_rx.runtime.restoring import freed, keeps_some, know_hubs, replace_timers, restore, resume_calls
from reliable_rx.runtime.settings import given_to
from reliable_rx.runtime.signatures import Row, Signature, signature

# -- writing


def save_instance(instance: Instance) -> Row:
    """Return the row of *instance* as plain data; it refers to the live state, so encode it at once."""
    saved = [
        None if state is None else save(state)
        for save, state in zip(instance.plan.savers, instance.states, strict=False)  # the last state is nobody's
    ]
    orders = instance.orders
    row = (
        instance.active,
        instance.detached,
        saved,
        save_timers(instance) if instance.timers else (),
        list(orders.items()) if orders else (),
    )
    return row if instance.plan.reads is not None else (*row, given_to(instance))


def save_timers(instance: Instance) -> list[tuple[Any, ...]]:
    return [
        (index, tag, timer[0], timer[1])
        for index, timers in (instance.timers or {}).items()
        for tag, timer in timers.items()
    ]


def save_unit(unit: Any, signature_id: Callable[[Plan], int]) -> Row:
    """Return what is stored for a subject (with the instances that live with it) or an inner instance of its own."""
    if not isinstance(unit, Subject):
        row = ("inner", unit.outer, signature_id(unit.plan), save_instance(unit))
        return (*row, True) if outlives(unit) else row
    readers = [each for _, each, _ in unit.subscribers if each is not None and each.unit is unit]
    if len(readers) > 1:
        readers = list(dict.fromkeys(readers))
    attached = [
        (each.sink.path, each.key, each.plan.number or signature_id(each.plan), save_instance(each)) for each in readers
    ]
    return ("subject", unit.order, attached)


# -- reading


class Loader:
    """Puts rows back into the instances of standing queries, in any order that resolves."""

    tells = False
    """Whether the report names also what is kept under the very signature under which it was saved."""

    def __init__(self, signatures: dict[int, Signature]) -> None:
        self.signatures = signatures
        self.instances: dict[Address, Instance] = {}
        self.shells: dict[Address, Subject] = {}
        self.unread: list[Subject] = []
        """The inner sequences of which a reader could not be put back."""
        self.merged: dict[Instance, Fitted] = {}
        self.outliving: list[Instance] = []
        self.left_out: list[tuple[Instance, PlanNode, Hashable]] = []
        """The inner sequences that are given up, by the operators that wait for their ends."""
        self.ended: list[HubSubject] = []
        """The shared parts that have ended when they were subscribed; their readers do not know yet."""
        self.report = Report()
        self.refitting = Refitting()
        self.lenient = False
        """Whether some rows were read leniently, so that there may be unreadable parts in them."""

    def resolve(self, address: Address) -> Subject:
        """Return the subject at *address*, or an empty shell that its row will fill."""
        shell = self.shells.get(address)
        if shell is None:
            shell = self.shells[address] = Subject(None, None, address[-1])
            shell.ended, shell.saved = True, address
        return shell

    def reading(self, read: Callable[[], Any]) -> Any:
        """Run *read* (which unpickles) with references resolved here."""
        token = RESOLVE.set(self.resolve)
        try:
            return read()
        finally:
            RESOLVE.reset(token)

    def load_all(self, rows: Sequence[tuple[Address, Row]]) -> None:
        """Load the rows of everything inside the instances added so far."""
        waiting = list(rows)
        while waiting:
            later = [(address, row) for address, row in waiting if not self._load(address, row)]
            if len(later) == len(waiting):
                for address, row in later:
                    self._drop_row(address, row)
                return
            waiting = later

    def _load(self, address: Address, row: Row) -> bool:
        owner, node = self._place(address)
        if owner is None:
            return False
        if node is None or not (node.op.yields_inner if row[0] == "subject" else opens(node)):
            self._drop_row(address, row)
        else:
            load = self._load_subject if row[0] == "subject" else self._load_inner
            if owner.plan.under_symbol:
                with owner.at_work():  # a selector may ask for the key of a group around its own while it builds
                    load(owner, node, address, row)
            else:
                load(owner, node, address, row)
        return True

    def _place(self, address: Address) -> tuple[Instance | None, PlanNode | None]:
        """Return the instance and the operator of what is at *address*, if they are there and do not begin anew."""
        refitting = self.refitting
        placed = refitting.placed(address) if refitting.renamed else address
        around, path = placed[:-3], placed[-2]
        owner = self.instances.get(around)
        if owner is not None and owner.sink is None and is_let_go(owner):
            return None, None
        is_gone = owner is None or (refitting.anew and (around, path) in refitting.anew)
        return owner, None if is_gone else owner.plan.by_path.get(path)  # type: ignore[union-attr]

    def _is_gone(self, subject: Subject) -> bool:
        """Whether what made *subject*, which has not been loaded, makes nothing any more."""
        owner, node = (None, None) if subject.owner is not None else self._place(subject.saved)
        return owner is not None and (node is None or not node.op.yields_inner)

    def _load_subject(self, owner: Instance, node: PlanNode, address: Address, row: Row) -> None:
        _, order, attached = row
        subject = self.resolve(address)
        subject.owner, subject.node, subject.order = owner, node, order
        subject.ended, subject.saved = False, self.refitting.placed(address) if self.refitting.renamed else address
        subject.epoch = owner.world.epoch  # as of what is born now: a snapshot at work has another row under its key
        owner.groups(node)[address[-1]] = subject
        if self.tells:
            self.report.kept.append(node.path)
        for known, key, signature_id, inner in attached:
            path = self.refitting.path(subject.saved[:-3], known) if self.refitting.renamed else known
            outer: Inner[Any, Any] = Inner(subject)
            reader = owner.plan.by_path.get(path)
            if reader is None or (
                (self.tells or not reader.mask & node.bit) and self._reads_no_more(owner, reader, node, outer)
            ):
                self._drop(path, outer)
                self.left_out += [(owner, reader, key)] if reader is not None else []
            elif opens(reader):  # not what the owner itself has read, and reads no more: a time to live
                child = self._load_child(owner, reader, key, outer, signature_id, inner)
                child.unit = subject

    def _reads_no_more(self, owner: Instance, reader: PlanNode, opener: PlanNode, outer: Any) -> bool:
        """Whether an edit has put *reader* elsewhere, or gives it other things than *outer*."""
        is_behind = reader.mask & opener.bit or stands_behind(reader, opener)
        return not is_behind or (self.moves(owner) and self.gives_others(owner, reader, opener, outer))

    def gives_others(self, owner: Instance, reader: PlanNode, opener: PlanNode, outer: Any) -> bool:
        return owner in self.merged and is_given_others(owner, reader, opener, outer)  # or its shape is what it was

    def _load_inner(self, owner: Instance, node: PlanNode, address: Address, row: Row) -> None:
        _, outer, signature_id, inner, *is_over = row
        made = outer.subject.node if isinstance(outer, Inner) and outer.subject.owner is owner else None
        known = [each for each in inner_in(outer) if each.saved is not None] if self.moves(owner) else ()
        is_lost = (made is not None and not stands_behind(node, made)) or (known and all(map(self._is_gone, known)))
        there = (each.node for each in known if each.owner is owner and each.node is not None)
        is_lost = is_lost or any(self.gives_others(owner, node, each, outer) for each in there)
        if is_lost or (known and cannot_read(owner, node, outer)):
            self._drop(node.path, outer)
            self.left_out.append((owner, node, address[-1]))
            return
        child = self._load_child(owner, node, address[-1], outer, signature_id, inner, outlives=bool(is_over))
        child.saved = self.refitting.placed(address)

    def _drop_row(self, address: Address, row: Row) -> None:
        self._drop(self.refitting.placed(address)[-2].lstrip(GONE), row[1] if row[0] == "inner" else None)

    def _drop(self, path: str, outer: Any) -> None:
        self.report.dropped.append(path)
        self.unread += inner_in(outer)

    def _load_child(
        self, owner: Instance, node: PlanNode, key: Hashable, outer: Any, signature_id: int, row: Row, *,
        outlives: bool = False,
    ) -> Instance:  # fmt: skip
        try:
            child = owner.make_child(node, key, outer)
            if outlives:
                put(owner, node, child)
                self.outliving.append(child)
            else:
                owner.opened(node)[key] = child
            saved, shape = self.signatures[signature_id], child.plan.signature
            if saved is not shape and saved == shape:
                self.signatures[signature_id] = saved = shape  # so that the next one is known at a glance
            if child.plan.symbol is None:
                self.add(child, row, saved)
            else:
                with child.at_work():
                    self.add(child, row, saved)
        except BaseException as raised:
            return self._stand_in(owner, node, key, outer, raised, outlives=outlives)
        return child

    def _stand_in(
        self, owner: Instance, node: PlanNode, key: Hashable, outer: Any, raised: BaseException, *, outlives: bool
    ) -> Instance:
        """Return what stands for an inner sequence that cannot be opened again. *Raises* what was raised."""
        raise raised

    def add(self, instance: Instance, row: Row, saved: Signature) -> None:
        """Put *row* into *instance* and remember it as an owner of others."""
        self.instances[instance.address()] = instance
        asks = len(row) > 5 or self.refitting.givens
        given = self.refitting.before(instance, row) if asks else None
        shape = instance.plan.signature or signature(instance.plan)
        fitted = None
        if given is not None or saved != shape or self.tells:
            fitted = self.refitting.fit(instance, row, saved, given)
            self.look_back(instance, fitted)
            fitted.saved = freed(instance, fitted)
            row, saved = fitted.row, fitted.saved
            self.refitting.note(instance, fitted, self.report.fresh)
            self.report.why.update(fitted.why())
        if fitted is not None and (saved != shape or fitted.anew or not fitted.same_inputs):
            with unheard(instance) as muted:
                self._merge(instance, fitted, kept_in(instance, fitted))
            fitted.failed = muted.error
            return
        restore(instance, row)
        if self.tells:
            slots = zip(instance.plan.slots, row[2], strict=True)
            self.report.kept += [node.path for node, values in slots if values is not None]
            self.report.kept += {instance.plan.nodes[timer[0]].path for timer in row[3]}

    def _merge(self, instance: Instance, fitted: Fitted, kept: Sequence[PlanNode]) -> None:
        """Start *instance* afresh, then put back what its paths still know, unless a policy has given it up at that."""
        saved, anew = fitted.saved, fitted.anew
        active, detached, states, timers, orders = fitted.row[:5]
        slots = [place for place in range(len(saved)) if saved[place][3]]
        known = {saved[place][0]: place for place in range(len(saved))}
        ran = {path: active >> place & 1 for path, place in known.items()}
        start_afresh(instance, ran, saved, kept, fitted.new_inputs())
        if is_let_go(instance):
            instance.dispose()  # of what it has begun since
            self.report.dropped.append(instance.plan.prefix)
            return
        self.merged[instance] = fitted
        opened = empty(instance, kept)
        started = instance.active
        begun = align(instance, ran, saved, {path for path, place in known.items() if detached >> place & 1})
        forget_heard(instance, kept)
        self.report.fresh += begun
        self.has_begun(instance, fitted, started, opened)
        take_places(instance, {saved[place][0]: order for place, order in orders})
        for node in instance.plan.nodes:
            place = known.get(node.path)
            if place is None or saved[place][1] != node.op.name or node.path in anew:
                if keeps_some(instance, node) or node.path in anew:
                    self.report.fresh.append(node.path)
                if node.path in anew:
                    self._begin_anew(instance, node, started)
                continue
            values = states[slots.index(place)] if place in slots else None
            if values is not None and node.path in begun and node.op.counts_readers and not active >> place & 1:
                values = begun_again(instance.states[node.slot], dict(zip(saved[place][3], values, strict=True)))
            self._keep(instance, node, active >> place & 1, saved[place], values)
            if detached >> place & 1 and instance.active & node.bit:
                instance.detached |= node.bit
            due = [t[1:] for t in timers if t[0] == place]
            self.report.kept += [node.path] if due and instance.active & node.bit else []
            replace_timers(instance, node, due)
        paths = {node.path for node in instance.plan.nodes if node.slot >= 0}
        for place, values in zip(slots, states, strict=False):
            if saved[place][0] not in paths:
                self._drop(saved[place][0].lstrip(GONE), values)
        waited = {saved[timer[0]][0] for timer in timers if timer[0] not in slots}
        for path in sorted(waited.difference(node.path for node in instance.plan.nodes)):
            self._drop(path.lstrip(GONE), None)

    def _begin_anew(self, instance: Instance, node: PlanNode, started: int) -> None:
        """Let *node* begin as over inputs that begin now; those that had ended have *started* and do not run."""
        if node.linear:
            instance.states[node.slot] = instance.ops[node.index].initial()
        untold = [each for each in node.inputs if started & each.bit or not started & node.bit]
        self.refitting.untold += [(instance, each) for each in untold if not instance.active & each.bit]

    def look_back(self, instance: Instance, fitted: Fitted) -> None:
        """Take out of *fitted* what is not to be kept, for what ran before in *instance*."""

    def has_begun(self, instance: Instance, fitted: Fitted, started: int, opened: Sequence[Subject]) -> None:
        """Hear what a fresh start of *instance* has begun, and which windows of what is new it has *opened*."""

    def _keep(
        self, instance: Instance, node: PlanNode, active: int, saved: tuple[str, str, int, tuple[str, ...]], values: Any
    ) -> None:
        if node.slot < 0 or values is None:
            return
        fields, kind = dict(zip(saved[3], values, strict=True)), type(node.op)
        if saved[2] != node.op.version:
            fields = kind.migrate(saved[2], fields)
            self.report.migrated.append(node.path)
        elif saved[3] != state_fields(kind):
            raise CheckpointRefused(
                f"the state of {node.path} was saved with fields {sorted(saved[3])}, but version {node.op.version} of "
                f"{node.op.name} has {sorted(state_fields(kind))}: give it a new version and a migrate()",
                what="operator state",
                where=node.path,
            )
        else:
            self.report.kept.append(node.path)
        instance.states[node.slot] = kind.State(**fields)  # type: ignore[misc]
        know_hubs(instance)
        resume_calls(instance, node)

    def finish(self) -> None:
        """Bring subscribers and groups into their order again."""
        for subject in self.shells.values():
            subject.subscribers.sort(key=lambda subscriber: subscriber[0])
        for instance in self.instances.values():
            for hub in (instance.hubs or {}).values():
                hub.subscribers.sort(key=lambda subscriber: subscriber[0])
            for index, subjects in (instance.subjects or {}).items():
                ordered = sorted(subjects.items(), key=lambda item: item[1].order)
                instance.subjects[index] = dict(ordered)  # type: ignore[index]
        sharing = [each for each in self.instances.values() if each.plan.hub_nodes]
        moved = dict.fromkeys((*self.merged, *(each for each in sharing if self.moves(each))))
        self.ended += [each for instance in moved for each in connect_kept(instance)]
        for instance in moved:
            stop_unread(instance)
        self.adopt()

    def adopt(self) -> None:
        """Let operators go by what has changed for them."""
        self.refitting.finish()

    def moves(self, instance: Instance) -> bool:
        """Whether *instance* goes over to other code, where its readers may read what did not run before."""
        return self.tells

    def settle_ended(self) -> None:
        """Tell of inner sequences that have ended by what was edited, or failed in what is new in them."""
        for instance, fitted in self.merged.items():
            root, is_new = instance.plan.root, all(each[0] != instance.plan.root.path for each in fitted.saved)
            if instance.parent is not None and (not instance.active & root.bit or (fitted.failed and is_new)):
                root.finish(instance, fitted.failed)
        for row in self.outliving:
            settle(row)

    def settle_left_out(self) -> None:
        """Tell operators that have read what is given up to wait for it no more; windows are told of by their ends."""
        left_out, self.left_out = self.left_out, []
        for owner, node, key in left_out:
            if not node.yields_inner and owner.child(node, key) is None:
                node.inner_refused(owner, key)

    def settle_shared(self) -> None:
        """Tell the readers of shared parts that have ended meanwhile."""
        ended, self.ended = self.ended, []
        for subject in ended:
            tell_end_of(subject)
