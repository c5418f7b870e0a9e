"""Which parts of an edited query begin: what is new, what reads another source, what was ended by what is gone.

A part that had ended stays so where an operator of the same path and kind had ended it: a `take(2)` has had enough. If
what had ended it is no more, or is another operator, its leaves are subscribed again, with fresh state up to the first
operator that had gone on. So they are if they read another source.

Which input is which has been decided before (`reliable_rx.runtime.refitting`): paths are those of today, and what stood
before an input that is no more is gone. An operator that has gone on is told of its inputs once, by `Stage.on_adopted`:
it counts as running what is to begin or to be told of as ended, and what it leaves does neither.

Rejected: to ask a state who had ended it (no operator writes that down, and stores of before have not), and a hook of
its own for inputs that begin again (what changes inputs and what reads them again then count the same ones twice).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from reliable_rx.functions.shared_elements import hands_on
from reliable_rx.operators.contract.operator import Linear, Stage
from reliable_rx.query.query import HubLeaf, SourceLeaf
from reliable_rx.runtime.hub import find_hub, subject_of_hub
from reliable_rx.runtime.merging import subscribe_at_once, take_places, unheard_of
from reliable_rx.runtime.reading import opens
from reliable_rx.runtime.settings import Before, settings_of

if TYPE_CHECKING:
    from reliable_rx.runtime.inner_sequences import Address
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import Plan, PlanNode
    from reliable_rx.runtime.refitting import Fitted, Refitting
    from reliable_rx.runtime.signatures import Signature


def may_end(node: PlanNode) -> bool:
    """Whether *node* may complete by itself, whatever comes from its inputs."""
    kind = type(node.op)
    if issubclass(kind, Linear):
        return kind.on_next.__annotations__.get("return", bool) not in ("None", None)
    return node.op.is_bound or (issubclass(kind, Stage) and kind.passes_port is not None)  # as `take_until` does


def hands_on_all(node: PlanNode) -> bool:
    """Whether *node* hands on the inner sequences that it is given, and is not what reads them."""
    return node.linear or hands_on(node.op) or not opens(node)


def carries_nothing(node: PlanNode) -> bool:
    """Whether *node* is as good as new wherever it begins: it reads, or maps, or leaves out."""
    kind = type(node.op)
    if issubclass(kind, Linear):
        return kind.State is None and bool(kind.maps or kind.filters)
    return node.leaf and not isinstance(node.op, HubLeaf)


class Past:
    """What ran of a row of *before*, by the bits in *active*, as *after* sees it."""

    def __init__(self, before: Plan, active: int, after: Plan, paths: Sequence[str] | None = None) -> None:
        self.before, self.active, self.after = before, active, after
        self.path = [node.path for node in before.nodes] if paths is None else paths
        """Where the operators of before are today: see `reliable_rx.runtime.refitting`."""
        self.by_path = dict(zip(self.path, before.nodes, strict=True))
        self.again: set[str] = set()
        """The paths that had ended and begin again."""
        self.leaves: set[str] = set()
        """The leaves among them, and those that read another source."""
        for leaf in after.leaves:
            old = self._old(leaf)
            if old is None or reads_other(old, leaf) or (not self.ran(old) and self._is_free(old)):
                self._begin(leaf, old)

    def ran(self, old: PlanNode) -> bool:
        return bool(self.active & old.bit)

    def _old(self, node: PlanNode) -> PlanNode | None:
        old = self.by_path.get(node.path)
        return old if old is not None and old.op.name == node.op.name else None

    def _is_gone(self, old: PlanNode) -> bool:
        node = self.after.by_path.get(self.path[old.index])
        return node is None or node.op.name != old.op.name

    def _is_free(self, old: PlanNode) -> bool:
        """Whether what had ended *old*, a leaf, is gone; of a shared part, or of a reader of it."""
        if self._ender_is_gone(old):
            return True
        if isinstance(old.op, HubLeaf):
            hub = self.before.hubs.get(old.op.token)
            return hub is not None and any(self._begins(leaf) for leaf in self._leaves_of(hub))
        hub = bottom(old)
        if not hub.op.counts_readers:
            return False
        tokens = (hub.op.token,)  # type: ignore[attr-defined]
        readers = [each for each in self.before.leaves if isinstance(each.op, HubLeaf) and each.op.token in tokens]
        return any(self._ender_is_gone(each) for each in readers)

    def _begins(self, old: PlanNode) -> bool:
        leaf = self.after.by_path.get(self.path[old.index])
        return leaf is not None and (reads_other(old, leaf) or self._ender_is_gone(old))

    def _leaves_of(self, top: PlanNode) -> Iterator[PlanNode]:
        return (each for each in self.before.leaves if top.mask & each.bit)

    def _ender_is_gone(self, old: PlanNode) -> bool:
        down: PlanNode | None = old
        while down is not None and not self.ran(down):
            if self._is_gone(down) and may_end(down):
                return True
            down = down.down
        return down is not None and self._lets_go(down)

    def _lets_go(self, old: PlanNode) -> bool:
        """Whether *old*, which ran, may have left the input that had not ended, or not begun it, and is gone."""
        return isinstance(old.op, Stage) and old.op.leaves_first and self._is_gone(old)

    def _begin(self, leaf: PlanNode, old: PlanNode | None) -> None:
        """Let *leaf* begin again, with all behind it that had ended, unless one of these has had enough."""
        freed = old is not None and self._is_left(old)
        found = [] if old is None else [leaf.path]
        down = leaf.down
        while down is not None:
            before = self._old(down)
            if before is not None:
                if self.ran(before):
                    break
                if may_end(down) and not freed:
                    return
                found.append(down.path)
            down = down.down
        self.again.update(found)
        self.leaves.add(leaf.path)

    def _is_left(self, old: PlanNode) -> bool:
        down: PlanNode | None = old
        while down is not None and not self.ran(down):
            down = down.down
        return down is not None and self._lets_go(down)

    def port_ran(self, node: PlanNode, port: int | None) -> bool | None:
        """Whether the input of *node* ran that was at *port*; None if there was none."""
        old = self._old(node)
        if old is None or port is None or port >= len(old.inputs):
            return None
        return self.ran(old.inputs[port])

    def saved(self, saved: Signature) -> Signature:
        """Return *saved* with what begins again under names of operators that are no more."""
        found = [(path, f"ended {name}" if path in self.again else name, *rest) for path, name, *rest in saved]
        return tuple(found)  # type: ignore[arg-type]


def bottom(node: PlanNode) -> PlanNode:
    """Return what is furthest downstream of *node*: the root, or a shared part."""
    while node.down is not None:
        node = node.down
    return node


def reads_other(old: PlanNode, leaf: PlanNode) -> bool:
    """Whether *leaf* reads another source than *old*, which had its path, did."""
    return isinstance(old.op, SourceLeaf) and isinstance(leaf.op, SourceLeaf) and old.op.source != leaf.op.source


class EndedGroup(NamedTuple):
    """A group that is read by nobody, of what makes it, and what had read it."""

    owner: Address
    path: str
    key: Hashable
    reader: PlanNode

    def begins(self, after: Plan, path: str) -> list[str]:
        """Return what in *after* is to read it again: leaves of the reader, now at *path*, or what is there instead."""
        node = after.by_path.get(path)
        if node is None or node.op.name != self.reader.op.name:
            return [self.path]
        if node.template is None or self.reader.template is None:
            return []
        past = Past(self.reader.template, 0, node.template)
        return [each.path for each in node.template.leaves if each.path in past.leaves & past.again]


def ended_groups(row: Instance) -> Iterator[EndedGroup]:
    """Yield the groups in *row* which would begin again and are read by nobody."""
    for node in row.plan.nodes if row.subjects else ():
        reader = node.down
        while reader is not None and hands_on_all(reader) and (row.active & reader.bit or not may_end(reader)):
            if isinstance(reader.op, Linear) and reader.op.picks:
                break
            reader = reader.down  # what may end, and has not, has handed on all so far
        if reader is not None and node.op.begins_again:
            for key, subject in row.groups(node).items():
                if not subject.is_read:
                    yield EndedGroup(row.address(), node.path, key, reader)


class Beginning:
    """What begins in *instance*, which a fresh start has begun without a word, once all rows are back."""

    def __init__(self, instance: Instance, past: Past, fitted: Fitted, started: int) -> None:
        self.instance, self.past, self.fitted, self.started = instance, past, fitted, started
        names = {each[0]: (each[1], place) for place, each in enumerate(fitted.saved)}
        self.known: dict[str, bool] = {}
        """Whether an operator that is kept ran, by path."""
        for node in instance.plan.nodes:
            name, place = names.get(node.path, ("", 0))
            if name == node.op.name and node.path not in fitted.anew:
                self.known[node.path] = bool(fitted.row[0] >> place & 1)
        self.places: dict[str, int] = {}
        """The places that leaves had which read again, by path."""
        self.tops: list[PlanNode] = []
        self.inputs: list[tuple[PlanNode, int, set[int]]] = []
        """The inputs that begin, by operator and port; and those of its inputs that it has not left."""
        self.ended: list[tuple[PlanNode, int, set[int] | None]] = []

    def look(self, refitting: Refitting) -> None:
        """See what begins and what has ended, and let operators of which inputs begin again count these."""
        root = self.instance.plan.root
        if self._is_new(root):
            self.tops += [root] if self._brings_something(root) else []
            return
        if not self._runs(root):
            self.ended.append((root, 0, None))
        for node in self.instance.plan.nodes:
            if self._runs(node) and node.path in self.known:
                self._look_at(node, refitting)
            elif self._runs(node) and node.path not in self.fitted.anew:
                stopped = [each for each in node.inputs if not self._runs(each) and self.started & each.bit]
                self.ended += [(each, 0, None) for each in stopped]

    def _look_at(self, node: PlanNode, refitting: Refitting) -> None:
        """See which inputs of *node*, which goes on, begin or have ended."""
        before = self.fitted.befores.get(node.path)
        ports = range(len(node.inputs)) if before is None else before.ports
        coming, again = set[int](), set[int]()
        for port, top in enumerate(node.inputs):
            ran, runs = self.past.port_ran(node, ports[port]), self._runs(top)
            if ran is False and (self._reads_again(top) or (runs and top.path in self.known)):
                again.add(port)
                self.instance.detached &= ~top.bit  # its groups went on: what had let go of it is gone
            elif ran is False and runs:  # what had ended it is kept
                self.instance.deactivate(top)
            if self._is_new(top) and self._brings_something(top):
                if ran is not False or port in again:
                    coming.add(port)
                    self.inputs.append((node, port, coming))
            elif ran and not runs:
                coming.add(port)
                self.ended.append((top, port, coming))
        if coming:
            refitting.coming[self.instance, node] = coming
        if again:
            refitting.again[self.instance, node] = again
        if again and before is None:
            settings = dict(settings_of(self.instance.ops[node.index]))
            refitting.adopted.append((self.instance, node, Before(settings, tuple(ports), len(ports))))

    def _reads_again(self, top: PlanNode) -> bool:
        return any(top.mask & leaf.bit and leaf.path in self.past.leaves for leaf in self.instance.plan.leaves)

    def _runs(self, node: PlanNode) -> bool:
        return bool(self.instance.active & node.bit)

    def _is_new(self, top: PlanNode) -> bool:
        """Whether nothing is lost if all that stands before *top* begins afresh."""
        nodes = self.instance.plan.nodes
        return all(self._is_as_new(each) for each in nodes if top.mask & each.bit)

    def _is_as_new(self, node: PlanNode) -> bool:
        if self.known.get(node.path, False):
            return carries_nothing(node)
        if node.path in self.known:
            return False
        if not isinstance(node.op, HubLeaf):
            return True
        owner, hub = find_hub(self.instance, node)
        return owner is self.instance and self._is_new(hub)

    def _brings_something(self, top: PlanNode) -> bool:
        """Whether something new stands before *top* that subscribes, or may do something at once."""
        nodes = [each for each in self.instance.plan.nodes if top.mask & each.bit]
        return any(each.path not in self.known and not each.linear for each in nodes)

    def begin(self) -> None:
        """Subscribe what is new, and tell of what has ended those that do not know."""
        for top in self.tops:
            self._subscribe(top)
        tops = [node.inputs[port] for node, port, coming in self.inputs if port in coming and self._runs(node)]
        for top in tops:
            if not any(top is not each and each.mask & top.bit for each in tops):  # it begins with what it is part of
                self._subscribe(top)
        for node, port, left in self.ended:
            down = node.down
            if not self._runs(node) and (down is None or self._runs(down)) and (left is None or port in left):
                node.finish(self.instance, self.fitted.failed if down is None else None)

    def begun_again(self) -> list[str]:
        """Return what had ended and is read now."""
        found = [self.instance.plan.by_path.get(path) for path in self.past.again]
        return [node.path for node in found if node is not None and self._is_read(node)]

    def _is_read(self, node: PlanNode) -> bool:
        """Whether *node* runs, or what reads it has yet to begin it."""
        down: PlanNode | None = node
        while down is not None and not self._runs(down):
            down = down.down
        if down is None:
            return bottom(node).op.counts_readers
        timers, now = (self.instance.timers or {}).get(down.index, {}), self.instance.world.now(down)
        return down is node or any(timer[0] <= now for timer in timers.values())

    def _subscribe(self, top: PlanNode) -> None:
        """Subscribe *top*; what is read by what goes on is in the places that its leaves had."""
        instance, places = self.instance, dict[str, int]()
        for leaf in instance.plan.leaves if top is not instance.plan.root else ():
            if leaf.path in self.known and instance.orders and leaf.index in instance.orders:
                places[leaf.path] = instance.orders[leaf.index]
        instance.deactivate(top, force=True)
        for hub in instance.plan.hub_nodes:
            if hub.path not in self.known and hub.op.counts_readers:
                self._begin_anew(hub)
        with unheard_of(instance, [node for node in instance.plan.nodes if top.mask & node.bit and self._ran(node)]):
            instance.subscribe(top)
            subscribe_at_once(instance, top, begins=True)
        self.places |= places
        take_places(instance, places)

    def _ran(self, node: PlanNode) -> bool:
        return self.known.get(node.path, False)

    def _begin_anew(self, hub: PlanNode) -> None:
        """Forget what *hub*, which is new, has heard before anybody reads it."""
        if not subject_of_hub(self.instance, hub).subscribers:
            self.instance.deactivate(hub, force=True)
            self.instance.states[hub.slot] = hub.op.initial()
