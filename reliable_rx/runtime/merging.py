"""Bringing a fresh instance of an edited query to where the one before was: what runs, who reads in which order.

A fresh start subscribes, and what it meets may end it at once, or may have begun later in the run before. So after it
what is known runs exactly if it ran, if what reads it does; of what is new the fresh start says. Rejected: not starting
at all (operators that are new would never have begun).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from reliable_rx.query.query import HubLeaf, Inner
from reliable_rx.runtime.branch_code import feeding
from reliable_rx.runtime.giving_up import drop_group, is_let_go
from reliable_rx.runtime.hub import connect, subject_of_hub
from reliable_rx.runtime.outliving import drop_within, rows_within
from reliable_rx.runtime.reading import read_in, remember_order, subject_of
from reliable_rx.runtime.stage_context import context

if TYPE_CHECKING:
    from reliable_rx.runtime.hub import HubSubject
    from reliable_rx.runtime.inner_sequences import Subject
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode
    from reliable_rx.runtime.refitting import Fitted
    from reliable_rx.runtime.signatures import Signature


class Unheard:
    """Stands for what an instance emits into while a fresh start of it is brought to where it was: nobody hears that.

    What emits there has emitted it before, and what ends there may go on, or is told of when all rows are back.
    """

    __slots__ = ("error", "sink")
    passes = False

    def __init__(self, sink: Any) -> None:
        self.sink = sink
        self.error: Exception | None = None
        """What the fresh start has failed with."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sink, name)

    def inner_deliver(self, instance: Instance, values: Sequence[Any]) -> None:
        """Leave out what is emitted."""

    def inner_finish(self, instance: Instance, error: Exception | None) -> None:
        self.error = error


@contextmanager
def unheard(instance: Instance) -> Iterator[Unheard]:
    """Let nothing that *instance* does be heard outside."""
    sink = instance.sink
    muted = instance.sink = Unheard(sink)
    try:
        yield muted
    finally:
        if instance.sink is muted:  # nobody has let go of it
            instance.sink = sink


def kept_in(instance: Instance, fitted: Fitted) -> list[PlanNode]:
    """Return the operators of *instance* that are kept."""
    names = {each[0]: each[1] for each in fitted.saved}
    return [
        node for node in instance.plan.nodes if names.get(node.path) == node.op.name and node.path not in fitted.anew
    ]


def start_afresh(
    instance: Instance, active: dict[str, int], saved: Signature, kept: Sequence[PlanNode], new: Sequence[PlanNode]
) -> None:
    """Start *instance*, and what had begun later when *active* was saved.

    So *new* is started: inputs of operators which that may have ended at once though they go on. What those of the
    *kept* emit and end with that ran is heard by nobody behind them: it was before, and they go on. Nor is what comes
    first of all (`start_with`) where something stands before it that goes on with its state, or came first before.
    """
    ran = [node for node in kept if active[node.path]]
    begun = sum(node.bit for node in ran if node.slot >= 0 or node.op.adds_others)
    first = [node for node in instance.plan.nodes if node.op.adds_others and node.mask & begun]
    idle: list[PlanNode] = []
    steps: list[Callable[[], None]] = [
        partial(_begin, instance, idle),
        partial(start_later, instance, active, saved),
        partial(_begin_inputs, instance, new),
        partial(connect_shared, instance, active, saved),
        partial(_begin_shared, instance, idle),
    ]
    for step in steps:
        with unheard_of(instance, [*ran, *first]):  # anew each time: what ends at once is begun again by a later one
            if not is_let_go(instance):
                step()


@contextmanager
def unheard_of(instance: Instance, nodes: Sequence[PlanNode]) -> Iterator[None]:
    """Let nothing be heard behind *nodes* of what they emit or end with as they begin, which they have before."""
    mute = 0
    for node in nodes:
        yields = node.yields_inner and not getattr(node.op, "emits_bare", False)
        if isinstance(node.op, HubLeaf) or not (node.linear or node.leaf or yields or node.op.counts_readers):
            mute |= node.bit
    instance.detached |= mute
    try:
        yield
    finally:
        instance.detached &= ~mute


def _begin(instance: Instance, idle: list[PlanNode]) -> None:
    instance.start()
    subscribe_at_once(instance)
    idle += [node for node in instance.plan.hub_nodes if not instance.active & node.bit]


def _begin_inputs(instance: Instance, new: Sequence[PlanNode]) -> None:
    for top in new:
        if top.down is not None and not instance.active & (top.mask | top.down.bit):
            instance.subscribe(top)
            subscribe_at_once(instance, top)


def _begin_shared(instance: Instance, idle: Sequence[PlanNode]) -> None:
    for node in [each for each in idle if instance.active & each.bit]:
        subscribe_at_once(instance, node)


def subscribe_at_once(instance: Instance, last: PlanNode | None = None, *, begins: bool = False) -> None:
    """Let operators up to *last* that subscribe one action later do it now; what was saved takes that place, if any."""
    mask = -1 if last is None else last.mask
    for node in [each for each in reversed(instance.plan.nodes) if mask & each.bit]:
        fire_due(instance, node, begins=begins)


def fire_due(instance: Instance, node: PlanNode, *, begins: bool = False) -> None:
    """Let *node*, if it reads anything, do what is due: all until it subscribes if it *begins*, or is unheard."""
    while due := due_of(instance, node):
        for tag in due:
            instance.cancel_timer(node, tag)
            instance.fire(node, tag)
        if instance.active & node.mask & ~node.bit or not (begins or instance.detached & node.bit):
            break


def due_of(instance: Instance, node: PlanNode) -> list[Hashable]:
    timers = (instance.timers or {}).get(node.index, {}) if node.inputs else {}
    return [tag for tag, timer in timers.items() if timer[0] <= instance.world.now(node)]


def connect_shared(instance: Instance, active: dict[str, int], saved: Signature) -> None:
    """Subscribe the shared parts that ran when *active* was saved, as the first of their readers did.

    Their readers may be rows that are still to come; what is new before such a part begins here as it does elsewhere.
    """
    names = {each[0]: each[1] for each in saved}
    for node in instance.plan.hub_nodes:
        ran = names.get(node.path) == node.op.name and active[node.path]
        if node.op.counts_readers and ran and not instance.active & node.bit:
            connect(instance, node)


def start_later(instance: Instance, active: dict[str, int], saved: Signature) -> None:
    """Subscribe further inputs of operators that had come to these when *active* was saved; a fresh start has not."""
    names = {each[0]: each[1] for each in saved}
    for node in reversed(instance.plan.nodes):
        if names.get(node.path) != node.op.name or not active[node.path]:
            continue
        fire_due(instance, node)  # what begins by itself is not subscribed twice
        for port, first in enumerate(node.inputs):
            side = f"{node.path}:{port}/"
            ran = (path for path in active if path.startswith(side)) if port else kept_before(first, names)
            if not instance.active & first.mask and any(active[path] for path in ran):
                instance.subscribe(first)
                subscribe_at_once(instance, first)


def kept_before(last: PlanNode, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the paths of what is kept up to *last*, through shared parts."""
    waiting = [last]
    while waiting:
        at = waiting.pop()
        waiting += feeding(at)
        if names.get(at.path) == at.op.name:
            yield at.path


def connect_kept(instance: Instance) -> list[HubSubject]:
    """Subscribe the shared parts that have got readers which were there before; return those that have ended at that.

    Readers that are kept had their greeting. Of elements that come at once they hear no more than other parts that are
    kept do of what a fresh start emits; whether there will be more they have yet to be told.
    """
    ended: list[HubSubject] = []
    for node in instance.plan.hub_nodes:
        if not node.op.counts_readers or instance.active & node.bit or not subject_of_hub(instance, node).subscribers:
            continue
        subject = subject_of_hub(instance, node)
        subject.silenced = tuple(subject.subscribers)
        try:
            connect(instance, node)
            subscribe_at_once(instance, node)
        finally:
            subject.silenced = ()
        if instance.states[node.slot].ended:
            ended.append(subject)
    return ended


def empty(instance: Instance, kept: Sequence[PlanNode]) -> list[Subject]:
    """Give up what a fresh start has opened inside what is *kept*, without a word: what was saved takes its place.

    An end would be an answer, of what reads a window (a list without elements) or stands behind what reads it. Returned
    are the windows of what is new, which are to be read when all rows are back.
    """
    read: dict[Subject, None] = {}
    for node in kept:
        for row in list(rows_within(instance, node)):
            read |= dict.fromkeys(read_in(row))
            row.dispose()
            instance.drop_child(node, row)
        drop_within(instance, node)
        if node.calls_out and instance.active & node.bit:
            instance.world.calls.drop(instance, node)
    for node in kept:
        for key in list((instance.subjects or {}).get(node.index, ())):
            drop_group(instance, node, key)
    return [subject for subject in read if subject.owner is instance and subject.node not in kept]


def read_again(subjects: Sequence[Subject]) -> None:
    """Emit the windows that have been opened by what is new: what is kept, and reads them, had yet to come back."""
    for subject in subjects:
        owner, node = subject.owner, subject.node
        if owner is not None and node is not None and not subject.ended and not subject.is_read:
            context(owner, node).emit(Inner(subject))


def forget_heard(instance: Instance, kept: Sequence[PlanNode]) -> None:
    """Let what is new and stands behind something that is *kept* begin with what that emits from now on."""
    mask = sum(node.bit for node in kept)
    for node in instance.plan.nodes:
        if node.linear and node.slot >= 0 and not mask & node.bit and mask & node.mask and instance.active & node.bit:
            instance.states[node.slot] = instance.ops[node.index].initial()


def align(instance: Instance, active: dict[str, int], saved: Signature, detached: Collection[str]) -> list[str]:
    """Let those run that ran when *active* was saved, which a fresh start may have begun later or ended at once.

    What was *detached* ran for the readers of its groups alone. What is new runs if the fresh start has begun it, and
    nothing that nothing hears. Returned is what begins anew although it ran, as not all its readers are there yet.
    """
    running = Running(instance, active, saved, detached)
    for node in instance.plan.nodes:
        if running.of[node.index] and not instance.active & node.bit:
            resubscribe(instance, node)
        elif instance.active & node.bit and not running.of[node.index]:
            instance.stop(node)
    return running.anew


class Running:
    """Which operators of *instance*, started afresh, are to run, what reads before what is read."""

    def __init__(self, instance: Instance, active: dict[str, int], saved: Signature, detached: Collection[str]) -> None:
        self.instance, self.active, self.detached = instance, active, detached
        self.names = {each[0]: each[1] for each in saved}
        self.places = {each[0]: place for place, each in enumerate(saved)}
        self.anew: list[str] = []
        self.of: dict[int, bool] = {}
        for node in reversed(instance.plan.nodes):
            self.of[node.index] = self._runs(node)
        for node in instance.plan.nodes:  # what is read before what reads
            if node.path in self.anew and self._shares_what_is_over(node):
                self.of[node.index] = False
                self.anew.remove(node.path)
            if not node.linear or self.of[node.inputs[0].index]:
                continue
            if not self._is_kept(node) or (self._is_kept(node.inputs[0]) and not self._is_to_be_told(node)):
                self.of[node.index] = False  # what is new has yet to tell of its end

    def _is_kept(self, node: PlanNode) -> bool:
        return self.names.get(node.path) == node.op.name

    def _shares_what_is_over(self, node: PlanNode) -> bool:
        """Whether *node* is a shared part, or reads one, that had ended with what it shares, or is read by nobody."""
        plan = self.instance.plan
        hub = plan.hubs.get(node.op.token) if isinstance(node.op, HubLeaf) else node
        if hub is None or not (hub.op.counts_readers and self._is_kept(node) and self._is_kept(hub.inputs[0])):
            return False
        leaves = [(each, each.op) for each in plan.leaves]
        readers = [each for each, op in leaves if isinstance(op, HubLeaf) and plan.hubs.get(op.token) is hub]
        source, is_read = hub.inputs[0], any(self.of[each.index] for each in readers)
        return not is_read or not (self.of[source.index] or self.active[source.path])

    def _is_to_be_told(self, node: PlanNode) -> bool:
        """Whether *node* read something that went on, and nothing that stood before it stands behind it now."""
        down = node.down
        while down is not None and not (self._is_kept(down) and self.places[down.path] < self.places[node.path]):
            down = down.down
        return down is None and bool(self.active[node.path])

    def _started(self, node: PlanNode) -> bool:
        return bool(self.instance.active & node.bit)

    def _runs(self, node: PlanNode) -> bool:
        kept, ran = self._is_kept(node), bool(self.active.get(node.path))
        if node.op.counts_readers:  # its readers may be rows that are still to come
            return (kept and ran) or self._has_begun_anew(node)
        if not self._is_heard(node):
            return False
        if isinstance(node.op, HubLeaf) and not ran:
            return self._has_begun_anew(node)
        if not kept:
            return self._has_begun(node)
        return ran or self._is_fed(node)  # a reader may read a part that does not run: see `connect_kept`

    def _is_fed(self, node: PlanNode) -> bool:
        """Whether what *node* reads ran, and so ran what stood in its place: another one may have had its path."""
        while node.linear:
            node = node.inputs[0]
            if self._is_kept(node) and self.active[node.path]:
                return node.path not in self.detached
        return False

    def _has_begun_anew(self, node: PlanNode) -> bool:
        started = self._started(node)
        if started != bool(self.active.get(node.path, started)):
            self.anew.append(node.path)
        return started

    def _is_heard(self, node: PlanNode) -> bool:
        """Whether what reads *node* runs and has come to it; what has groups may go on for those that read these."""
        down = node.down
        if down is None or (node.yields_inner and self._is_kept(node)):
            return True
        if not self.of[down.index]:
            return False
        waits = (self.instance.timers or {}).get(down.index) and not self.instance.active & node.mask
        if not waits or self._is_kept(down) or not self._is_kept(node) or down.linear:
            return True
        self.anew.append(node.path)
        return False

    def _has_begun(self, node: PlanNode) -> bool:
        """Whether *node*, which is new, runs: the fresh start says, where it has not ended what ran before *node*."""
        return self._started(node) or any(
            self._is_kept(each) and self.active[each.path] and (node.linear or not isinstance(each.op, HubLeaf))
            for each in self.instance.plan.nodes
            if node.mask & each.bit
        )


def take_places(instance: Instance, orders: dict[str, int]) -> None:
    """Let each leaf that reads have the place among all readers that it had."""
    for leaf in instance.plan.leaves:
        order = orders.get(leaf.path)
        if order is None or not instance.active & leaf.bit:
            continue
        if leaf.reads_inner:
            remember_order(instance, leaf, order)
            subject = subject_of(instance, leaf)
            subject.subscribers = sorted(
                (
                    (order, *each[1:]) if each[1] is instance and each[2] is leaf else each
                    for each in subject.subscribers
                ),
                key=itemgetter(0),
            )
        else:
            instance.world.unsubscribe(instance, leaf)
            instance.world.resume(instance, leaf, order)


def resubscribe(instance: Instance, node: PlanNode) -> None:
    """Let *node* run, which a fresh start has not begun or has ended."""
    instance.active |= node.bit
    if node.slot >= 0 and instance.states[node.slot] is None:
        instance.states[node.slot] = instance.ops[node.index].initial()
    if node.leaf:
        order = instance.world.order()
        if node.reads_inner:
            remember_order(instance, node, order)
            subject_of(instance, node).add((order, instance, node))
        else:
            instance.world.resume(instance, node, order)


def begun_again(state: Any, before: dict[str, Any]) -> tuple[Any, ...]:
    """Return the state of a shared part that had ended and runs anew: also under the names that it had."""
    tokens = (*before["tokens"], *state.tokens)
    return tuple(tokens if name == "tokens" else getattr(state, name) for name in before)
