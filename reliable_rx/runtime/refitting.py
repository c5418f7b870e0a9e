"""Fitting a row to operators that were given something else since it was saved: other settings, other inputs.

What is kept of an input goes by what that reads. So where inputs have changed places, the paths of what stands before
them are those of the new places first, and then each operator that was given something else is asked whether it can
adopt its state. One that cannot begins afresh, as all do that say nothing.

Rejected: to let operators find out at their next step (a list may be shorter than the number of inputs by then), and to
have hosts know which operators can go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from reliable_rx.errors import described
from reliable_rx.interrupts import let_through
from reliable_rx.operators.contract.parameters import state_fields
from reliable_rx.query.query import SourceLeaf
from reliable_rx.runtime.settings import (
    Before,
    Codes,
    Given,
    Inputs,
    Reads,
    Settings,
    given_in,
    given_to,
    inputs_of,
    is_mixed,
    matched,
    may_be_mistaken,
    unsure,
)
from reliable_rx.runtime.stage_context import Cx, finish_node

if TYPE_CHECKING:
    from reliable_rx.runtime.inner_sequences import Address
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode
    from reliable_rx.runtime.signatures import Row, Signature

GONE = "~"
"""Before the path of what stood before an input that is no more."""
Known = tuple[Settings, Inputs]
NOTHING: Known = ((), ())
UNSURE = "which branch of before it is cannot be told"
ByPath = Mapping[str, Known]


class Renaming:
    """From the paths of before to those that the same operators have today."""

    def __init__(self, outer: Renaming | None = None) -> None:
        self.steps: list[list[tuple[str, str]]] = [] if outer is None else [*outer.steps]

    def __call__(self, path: str) -> str:
        for step in self.steps:
            for old, new in step:
                if path == old or path.startswith((f"{old}/", f"{old}:")):
                    path = new + path[len(old) :]
                    break
        return path

    def back(self, path: str) -> str:
        """Return which path had been that of what has *path* today."""
        for step in reversed(self.steps):
            for old, new in step:
                if path == new or path.startswith((f"{new}/", f"{new}:")):
                    path = old + path[len(new) :]
                    break
        return path


@dataclass(slots=True)
class Fitted:
    """A row that fits, and what is to be known besides."""

    row: Row
    saved: Signature
    same_inputs: bool = True
    anew: dict[str, str] = field(default_factory=dict)
    """Why operators begin afresh, by path."""
    adopted: list[tuple[PlanNode, Before]] = field(default_factory=list)
    renaming: Renaming = field(default_factory=Renaming)
    """From the paths of before to those of today."""
    befores: dict[str, Before] = field(default_factory=dict)
    """What operators were given, by path, where that is something else now."""
    others: list[PlanNode] = field(default_factory=list)
    """The sources that are read where others were."""
    unsure: list[PlanNode] = field(default_factory=list)
    """The inputs of which nobody knows what they were before."""
    failed: Exception | None = None
    """What the fresh start has failed with that precedes what is kept."""

    def why(self) -> dict[str, str]:
        """Return for what reasons something begins afresh, by path."""
        unsure = {node.path: UNSURE for top in self.unsure for node in top.plan.nodes if top.mask & node.bit}
        return {**unsure, **self.anew}

    def new_inputs(self) -> list[PlanNode]:
        """Return the inputs which operators that go on did not have before."""
        return [
            node.inputs[port] for node, before in self.adopted for port, old in enumerate(before.ports) if old is None
        ]


class Adopting(Cx):
    """What an operator goes by an edit with: inputs that are still to begin, or to be told of as ended, run."""

    __slots__ = ("coming",)
    coming: set[int]

    def runs(self, port: int) -> bool:
        return port in self.coming or super().runs(port)

    def unsubscribe(self, port: int) -> None:
        self.coming.discard(port)
        super().unsubscribe(port)


class Refitting:
    """What is known of the rows of queries that go over, outermost first."""

    def __init__(self) -> None:
        self.givens: dict[Address, ByPath] = {}
        """What the operators of a row, and of sub-plans shared within, were given, where that is not what it is now."""
        self.renamed: dict[Address, Renaming] = {}
        self.anew: set[tuple[Address, str]] = set()
        self.adopted: list[tuple[Instance, PlanNode, Before]] = []
        self.coming: dict[tuple[Instance, PlanNode], set[int]] = {}
        """The inputs that count as running while their operator goes by what has changed."""
        self.again: dict[tuple[Instance, PlanNode], set[int]] = {}
        """The inputs that had ended and begin again."""
        self.others: list[tuple[list[str], Instance, PlanNode]] = []
        """The sources that are read where others were, and who is to be told."""
        self.untold: list[tuple[Instance, PlanNode]] = []
        """The inputs that had ended before an operator began afresh, which has to be told."""
        self.failed: list[tuple[Instance, PlanNode, Exception]] = []
        self.codes: Callable[[Instance, PlanNode, str], Codes | None] = lambda instance, node, path: None
        """What the inputs do of an operator that had some path, and what they did."""
        self.shared: Callable[[Instance, str], list[str]] = lambda instance, path: []
        """The paths of the shared parts that went with the first input of it."""
        self.adopting: Callable[[], AbstractContextManager[None]] = nullcontext
        """Gives the time by which operators go that have adopted a state."""

    def placed(self, address: Address) -> Address:
        """Return where a row is today that was saved under *address*."""
        if not self.renamed:
            return address
        found = address[:1]
        for at in range(1, len(address), 3):
            kind, path, key = address[at : at + 3]
            found = (*found, kind, self.path(found, path), key)
        return found

    def path(self, owner: Address, path: str) -> str:
        """Return the path that what stood under *path* in a row has today."""
        renaming = self.renamed.get(owner)
        return path if renaming is None else renaming(path)

    def came_from(self, instance: Instance) -> Address:
        """Return the address under which the row of *instance* was saved."""
        if instance.parent is None or not self.renamed:
            return instance.address()
        kind, path, key = instance.address()[-3:]
        renaming = self.renamed.get(instance.parent.address())
        return (*self.came_from(instance.parent), kind, path if renaming is None else renaming.back(path), key)

    def before(self, instance: Instance, row: Row) -> ByPath | None:
        """Return what the operators of *instance* were given when *row* was saved; None if that is what it is now."""
        if len(row) > 5:  # a row of an earlier release does not say
            given: Given = row[5]
            if given == given_to(instance):
                return None
            found = self.givens[instance.address()] = {path: each for path, *each in given}  # type: ignore[misc]
            return found
        if not self.givens:
            return None
        owner = instance.parent
        while owner is not None and owner.plan.reads is not None:
            owner = owner.parent
        return None if owner is None else self.givens.get(owner.address())

    def fit(self, instance: Instance, row: Row, saved: Signature, given: ByPath | None) -> Fitted:
        """Return *row*, saved under *saved* when its operators were *given* that, as it fits those of *instance*."""
        outer = None if instance.parent is None else self.renamed.get(instance.parent.address())
        renaming = Renaming(outer)
        if outer is not None:
            self.renamed[instance.address()] = renaming
            saved = renamed_in(saved, renaming)
        fitted = Fitted(row, saved, renaming=renaming)
        if given is None and not any(is_mixed(inputs_of(node)) for node in instance.plan.nodes if len(node.inputs) > 1):
            return fitted
        today = {path: (settings, inputs) for path, settings, inputs in given_in(instance.plan, instance.ops)}
        given = {renaming.back(path): each for path, each in today.items()} if given is None else given
        before = {renaming(path): each for path, each in given.items()}
        befores, names = fitted.befores, {each[:2] for each in saved}
        for node in reversed(instance.plan.nodes):  # what reads before what is read
            known, now = before.get(node.path, NOTHING), today.get(node.path, NOTHING)
            is_same = known == now and not (is_mixed(now[1]) and not node.op.roles)
            if is_same or (node.path, node.op.name) not in (each[:2] for each in fitted.saved):
                continue
            found = self._compared(instance, node, known, now, fitted)
            if known == now and found.reads_the_same:
                continue
            parts = [] if found.reads_the_same else self.shared(instance, renaming.back(node.path))
            if moves := moved(node, found, known[1], fitted, [renaming(part) for part in parts]):
                renaming.steps.append(moves)
                self.renamed[instance.address()] = renaming
                last = Renaming()
                last.steps.append(moves)
                fitted.saved = renamed_in(fitted.saved, last)
                before = {last(path): each for path, each in before.items()}
            read = others(node, found, known[1], now[1])
            fitted.others += [each for each in read if (each.path, each.op.name) in names]
            fitted.same_inputs = fitted.same_inputs and found.reads_the_same
            if found.settings != dict(now[0]) or not found.reads_the_same:
                befores[node.path] = found
        self._adopt(instance, fitted)
        return fitted

    def _compared(self, instance: Instance, node: PlanNode, known: Known, now: Known, fitted: Fitted) -> Before:
        """Return what *node* was given before, and note of which of its inputs nobody knows what they were."""
        before, today = (each[1] if each else () for each in (known[1], now[1]))
        by_code = not node.op.roles and before and today and may_be_mistaken(before, today)
        codes = self.codes(instance, node, fitted.renaming.back(node.path)) if by_code else None
        found = compared(node, known, now, fitted, codes)
        if by_code:
            fitted.unsure += [node.inputs[port] for port in unsure(before, today, found.ports)]
        return found

    def _adopt(self, instance: Instance, fitted: Fitted) -> None:
        row, saved = fitted.row, fitted.saved
        slots = [place for place in range(len(saved)) if saved[place][3]]
        places = {saved[place][0]: place for place in range(len(saved))}
        states = list(row[2])
        for path, before in fitted.befores.items():
            if path not in places:  # it was that of another operator, which has gone to another place
                continue
            node, place = instance.plan.by_path[path], places[path]
            op, at = instance.ops[node.index], slots.index(place) if place in slots else None
            values = None if at is None else states[at]
            if not row[0] >> place & 1 or (at is not None and values is None):
                continue  # it did not run
            fits = at is None or saved[place][2:4] == (op.version, state_fields(type(op)))
            state = None if values is None or not fits else op.State(*values)
            why_not = refused(op, state, before) if fits else ""
            if why_not is not None:
                fitted.anew[path] = why_not or reason(node, before)
                continue
            fitted.adopted.append((node, before))
            if at is not None:
                states[at] = tuple(getattr(state, name) for name in saved[place][3])
        fitted.row = (*row[:2], states, *row[3:])

    def note(self, instance: Instance, fitted: Fitted, fresh: list[str]) -> None:
        """Remember what is to be done for *instance* when everything is back; *fresh* is to have what begins."""
        address = instance.address()
        self.anew.update((address, path) for path in fitted.anew)
        self.adopted += [(instance, node, before) for node, before in fitted.adopted]
        self.others += [(fresh, instance, leaf) for leaf in fitted.others]
        fresh += [each.path for each in fitted.unsure]

    def finish(self) -> None:
        """Let operators that have adopted a state, or have inputs that begin again, go by what has changed."""
        adopted, self.adopted = self.adopted, []
        for instance, node, before in adopted:
            op = instance.ops[node.index]
            if not node.linear and instance.active & node.bit:
                cx = Adopting()
                cx.instance, cx.node, cx.state = instance, node, instance.states[node.slot]
                cx.coming = self.coming.get((instance, node), set())
                if again := self.again.get((instance, node)):
                    ports = tuple(None if port in again else old for port, old in enumerate(before.ports))
                    before = replace(before, ports=ports)
                try:
                    with instance.at_work(), self.adopting():
                        op.on_adopted(cx, before)
                except BaseException as raised:
                    cx.coming.clear()
                    self.failed.append((instance, node, instance.world.blame(raised, instance)))
        others, self.others = self.others, []
        for fresh, instance, leaf in others:
            if instance.active & leaf.bit and leaf.path not in fresh:
                fresh.append(leaf.path)

    def tell(self) -> None:
        """Tell operators that have begun afresh of the inputs that had ended before; fail those that cannot go on."""
        failed, self.failed = self.failed, []
        for instance, node, error in failed:
            finish_node(instance, node, error)
        untold, self.untold = self.untold, []
        for instance, node in untold:
            down = node.down
            if down is not None and instance.active & down.bit and not instance.active & node.bit:
                node.finish(instance, None)


def refused(op: Any, state: Any, before: Before) -> str | None:
    """Ask *op* to adopt *state*; None if it has, else why it has not: what it raises, if it does."""
    try:
        return None if op.adopt(state, before) else ""
    except BaseException as raised:
        let_through(raised)
        return f"adopt: {described(raised)}"


def reason(node: PlanNode, before: Before) -> str:
    if before.reads_the_same:
        return "other parameters"
    return "another number of inputs" if len(node.inputs) != before.inputs else "other inputs"


def renamed_in(saved: Signature, renaming: Renaming) -> Signature:
    return tuple((renaming(path), *rest) for path, *rest in saved)  # type: ignore[misc]


def compared(node: PlanNode, known: Known, now: Known, fitted: Fitted, codes: Codes | None) -> Before:
    """Return what *node* was given before, with its inputs as they are found again today."""
    before, today = (each[1] if each else () for each in (known[1], now[1]))
    if not before and not today:  # it had, and has, no more than one
        ports: tuple[int | None, ...] = tuple(range(len(node.inputs)))
        return Before(dict(known[0]), ports, len(ports))
    if not before or not today:
        ports = tuple(None if port else 0 for port in range(len(node.inputs)))
        return Before(dict(known[0]), ports, len(before) or 1)
    if not node.op.roles:
        ports = matched(before, today, codes)
    else:
        ports = tuple(port if goes_on(node, port, known[1], today, fitted) else None for port in range(len(today)))
    return Before(dict(known[0]), ports, len(before))


def others(node: PlanNode, found: Before, before: Inputs, today: Inputs) -> Iterator[PlanNode]:
    """Yield the sources before the inputs of *node* that are read where others were."""
    if not before or not today or node.plan is None:
        return
    for port, top in enumerate(node.inputs):
        old = found.ports[port]
        known = before[1][port][0] if old == port else ()
        for leaf in node.plan.leaves if old in (None, port) else ():
            if top.mask & leaf.bit and isinstance(leaf.op, SourceLeaf) and leaf.op.source not in known:
                yield leaf


def goes_on(node: PlanNode, port: int, before: Inputs, today: Sequence[Reads], fitted: Fitted) -> bool:
    """Whether an input with a part of its own is that of before; one that had ended and reads another source is not."""
    if not before or port >= len(before[1]):
        return False
    same = before[1][port][0] == today[port][0] or port in node.op.late  # type: ignore[attr-defined]
    return same or runs_under(tuple(heads(node.path, port, before[0], fitted.saved)), fitted)


def moved(node: PlanNode, found: Before, inputs: Inputs, fitted: Fitted, parts: Sequence[str]) -> list[tuple[str, str]]:
    """Return from which paths to which what stands before the inputs of *node* has gone; *parts* with the first."""
    if not inputs:
        return []
    depth, before = inputs
    places = {old: port for port, old in enumerate(found.ports) if old is not None}
    moves: list[tuple[str, str]] = []
    for old in range(len(before)):
        new, tops = places.get(old), tuple(heads(node.path, old, depth, fitted.saved))
        if new != old:
            tops = tops if old else (*tops, *parts)
            moves += ((top, target(node.path, new, top)) for top in tops)
    return moves


def runs_under(tops: tuple[str, ...], fitted: Fitted) -> bool:
    """Whether anything ran under the paths *tops* when the row was saved."""
    under = tuple(f"{top}{sign}" for top in tops for sign in "/:")
    active = fitted.row[0]
    return any(
        active >> place & 1 and (each[0] in tops or each[0].startswith(under))
        for place, each in enumerate(fitted.saved)
    )


def heads(path: str, port: int, depth: int, saved: Signature) -> Iterator[str]:
    """Yield the paths under which an input of the operator at *path* stands: its own, or those of the first's chain."""
    if port:
        yield f"{path}:{port}"
        return
    level = path.rpartition("/")[0]
    place = next(place for place, each in enumerate(saved) if each[0] == path)
    chain = [each[0] for each in saved[:place] if each[0].rpartition("/")[0] == level]
    yield from chain[-depth:]


def target(path: str, port: int | None, top: str) -> str:
    """Return where *top*, of an input of the operator at *path*, is where that is read at *port* now."""
    level = path.rpartition("/")[0]
    if port is None:
        return f"{GONE}{top}"
    inside = "" if top.startswith(f"{path}:") else f"/{top[len(level) + 1 :]}"
    return f"{path}:{port}{inside}" if port else f"{level}{inside}"
