"""What the policies ``skip`` and ``dead_letter`` leave out, and what they must not.

An error that something in the query catches is no event's. An event that puts an operator out of step for good is
skipped nowhere: such a query is refused when it is created. Where a selector makes it for a value, or makes one of its
branches (`defer`, a sequence of sequences), it fails. So it does where that selector's query reads what raises as a
shared part or a group: who reads it now is looked at then, row by row. Rejected: to remember which plans were made, of
which a restart knows those only that are at work.

One event may be at work in many errors: in each element of a list that it has become, in each round of a `repeat`. A
query may skip `Limits.skips_max` of them and fails behind that, so that no event floods the dead letters. Rejected: to
count no error of an event but the first (which elements of a list are bad is what the letters are for), and to fail
the query in the midst of the operator that raised, which goes on with its row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from reactivex import Observable

from hosting.engine.failing import strike
from hosting.engine.side_outputs import bury
from hosting.engine.turns import is_end
from reliable_rx.errors import InternalError, LimitExceeded, QueryRefused, described
from reliable_rx.functions.shared_parts import shared_anywhere
from reliable_rx.operators.contract.arguments import cut
from reliable_rx.operators.contract.operator import Operator, Stage
from reliable_rx.query.branching import OURS, feeding, makes_inner, may_read, opener_of
from reliable_rx.query.query import HubLeaf, parameters
from reliable_rx.query.symbols import is_known
from reliable_rx.runtime.plan import Plan, PlanNode

if TYPE_CHECKING:
    from hosting.engine.engine import QueryEngine
    from hosting.engine.hosted_query import Standing
    from reliable_rx.runtime.inner_sequences import Subject
    from reliable_rx.runtime.instance import Instance


class Skips:
    """How many errors each query has skipped of the event at work."""

    def __init__(self) -> None:
        self.event: object = None
        self.counts: dict[str, int] = {}
        self._moved: tuple[int, set[str]] = -1, set()

    def goes_over(self, engine: QueryEngine, query: str) -> None:
        """From now on to the end of the turn *query* goes over to other functions: no event is at work."""
        if self._moved[0] != engine.number:
            self._moved = engine.number, set()
        self._moved[1].add(query)

    def is_going_over(self, engine: QueryEngine, query: str) -> bool:
        number, queries = self._moved
        return number == engine.number and query in queries

    def count(self, event: object, query: str) -> int:
        """Count one more error of *event* in *query*; return how many there have been."""
        if event is not self.event:
            self.event, self.counts = event, {}
        found = self.counts[query] = self.counts.get(query, 0) + 1
        return found


def absorb(engine: QueryEngine, instance: Instance, node: PlanNode, error: Exception) -> bool:
    """Go on without the event at work, if the query's policy says so and nothing in the query catches errors."""
    if isinstance(error, (LimitExceeded, InternalError)):
        return False
    if not may_skip(instance, node, engine.event):
        return False
    top = instance
    while top.parent is not None:
        if top.sink is None or not may_skip_within(top.sink, engine.event):  # a row that is gone has no reader
            return False
        top = top.parent
    standing: Standing = top  # type: ignore[assignment]
    if standing.policy == "fail" or caught_by_reader(instance, node):
        return False
    if not readers_keep_step(standing, instance, node, engine.event):
        return False
    if engine.event is None:
        return give_up_edited(engine, standing, instance, error)
    count, most = engine.skips.count(engine.event, standing.name), standing.plan.limits.skips_max
    if count <= most:
        skip(engine, standing, error)
    elif count == most + 1:
        strike(engine, standing, too_many(standing, most, error))
    return True


def give_up_edited(engine: QueryEngine, standing: Standing, instance: Instance, error: Exception) -> bool:
    """Go on without an inner sequence that cannot go over to the functions of an edit, which is no event's."""
    if instance is standing or not engine.skips.is_going_over(engine, standing.name):
        return False
    engine.touch(standing)
    standing.skip()
    if engine.news is not None:
        engine.tell(standing.name)
        engine.mishaps[standing.name] = None, error
    return True


def skip(engine: QueryEngine, standing: Standing, error: Exception) -> None:
    """Count the event at work as one that a query leaves out, and keep it if that is wanted."""
    engine.touch(standing)
    standing.skip()
    if engine.news is not None and engine.event is not None:
        engine.tell(standing.name)
        engine.mishaps[standing.name] = engine.event, error
    if standing.policy == "dead_letter":
        bury(engine, standing, error)


def too_many(standing: Standing, most: int, error: Exception) -> LimitExceeded:
    """Return what fails a query that raises more often at one event than it may skip."""
    return LimitExceeded(
        f"{cut(standing.name)} has raised more than {most:,} times at one event, the last time {described(error)}: "
        f"mend what raises, or what repeats it without end; where an event is much in one, raise Limits(skips_max=...)",
        path=standing.plan.root.path,
        limit="skips_max",
        most=most,
    )


def may_skip(instance: Instance, node: PlanNode, event: object) -> bool:
    """Whether a query may go on without the *event* at which *node* raised, as far as its plan can say."""
    made = node.plan.around is not None and node.plan.reads is None  # by a selector, for a value
    if caught(node) or (made and node in node.plan.out_of_step):
        return False
    return all(keeps_step(each, event) for each in raising(instance, node))


def raising(instance: Instance, node: PlanNode) -> list[PlanNode]:
    """Return what may have raised where *node* is blamed for it: it stands for its run of linear operators."""
    run = [each for each in node.plan.nodes if each.bit & (node.run | node.bit)]
    return [each for each in run if calls_function(instance.ops[each.index]) or raises_itself(each)] or [node]


def may_skip_within(node: PlanNode, event: object) -> bool:
    """Whether it may go on without the *event* at which something raised in an inner sequence that *node* reads."""
    return not caught(node) and keeps_step(node, event)


def keeps_step(node: PlanNode, event: object) -> bool:
    """Whether no operator pairs what *node* makes by position with a branch that may have the *event*."""
    beside = node.plan.read_beside.get(node)
    return beside is None or not isinstance(event, tuple) or not may_read(beside, event[0])


def readers_keep_step(top: Instance, instance: Instance, node: PlanNode, event: object) -> bool:
    """The same for all that reads what *node* shares or groups, where some of it is made at run time."""
    if not any(makes_inner(each) for each in top.plan.walk()):
        return True
    further = list(onward(instance, node))
    remembering = [each for each in further if getattr(each.node.op, "memory", "nothing") != "nothing"]
    if remembering and may_be_read_later(top.plan, [each.node for each in further]):
        return False  # and would get what others have by then
    return all(keeps_step(each.node, event) for each in further if each.enters)


def may_be_read_later(plan: Plan, further: list[PlanNode]) -> bool:
    """Whether a function that makes an inner sequence at run time reaches one of the hubs among *further*."""
    hubs = [each.op for each in further if each.op.is_hub]
    if not all(each.counts_readers for each in hubs):  # a selector's own, which it may hand to another one
        return True
    tokens = {each.token for each in hubs}  # type: ignore[attr-defined]
    makers = (each for each in plan.walk() if makes_inner(each))
    return any(node.op.token in tokens for maker in makers for node in shared_anywhere(maker.op))  # type: ignore


class Fed(NamedTuple):
    """An operator of a row that is fed by another one now; *enters*: from a row or a plan part of its own."""

    row: Instance
    node: PlanNode
    enters: bool


def onward(instance: Instance, node: PlanNode, *, groups: bool = True) -> Iterator[Fed]:
    """Yield all that *node* feeds now, row by row: operators, readers of hubs, and of *groups* and windows."""
    waiting, seen = [Fed(instance, node, False)], set[tuple[object, ...]]()
    while waiting:
        fed = waiting.pop()
        row, at, enters = fed
        alike = row if row.hubs is not None or row.subjects is not None else (row.plan, row.parent, row.sink)
        place = (alike, at, enters)
        if place in seen:
            continue
        seen.add(place)
        yield fed
        if at.down is not None:
            waiting.append(Fed(row, at.down, False))
        elif row.parent is not None and row.sink is not None:
            waiting.append(Fed(row.parent, row.sink, True))
        subjects: list[Subject] = [] if row.hubs is None or at.index not in row.hubs else [row.hubs[at.index]]
        if groups and row.subjects is not None:
            subjects += row.subjects.get(at.index, {}).values()
        waiting += [
            Fed(reader, leaf, True) for each in subjects for _, reader, leaf in each.subscribers if reader is not None
        ]


def caught_by_reader(instance: Instance, node: PlanNode) -> bool:
    """Whether what reads a part that *node* shares goes on after an error, wherever that reader was made."""
    further = (each.node for each in onward(instance, node, groups=False))
    return any(catches(each) for each in further if each is not node and not each.op.is_hub)


def caught(node: PlanNode) -> bool:
    """Whether something downstream of *node* in its plan, or of a reader of what it shares, goes on after an error."""
    return any(catches(each) for each in downstream(node) if not each.op.is_hub)


def downstream(node: PlanNode) -> Iterator[PlanNode]:
    """Yield what *node* hands on to: in its plan and, where a hub stands in between, as far as any reader hands on."""
    waiting, seen = [node], {node}
    while waiting:
        at = waiting.pop()
        further = [] if at.down is None else [at.down]
        if at.op.is_hub:
            further += readers_of(at)
        elif at.down is None and at.plan is not node.plan:
            further += filter(None, [opener_of(at.plan)])
        fresh = [each for each in further if each not in seen]
        seen.update(fresh)
        waiting += fresh
        yield from fresh


def readers_of(hub: PlanNode) -> list[PlanNode]:
    """Return the leaves that read *hub*, of its plan and of the shared sub-plans in it."""
    fed = (hub,) if hub.op.counts_readers else hub.inputs  # a selector's own, which nobody outside of it reads
    leaves = (each for plan in within(hub.plan) for each in plan.leaves if isinstance(each.op, HubLeaf))
    return [each for each in leaves if tuple(feeding(each)) == tuple(fed)]


def catches(node: PlanNode) -> bool:
    return isinstance(node.op, Stage) and node.op.catches and type(node.op).on_error is not Stage.on_error


def refuse_out_of_step(plan: Plan, policy: str) -> None:
    """*Raises* `QueryRefused` for a plan in which a skipped event would make an operator pair wrongly ever after."""
    for each in within(plan):
        for node, pairing in each.out_of_step.items():
            if may_raise(node) and not caught_above(node):
                raise QueryRefused(out_of_step_message(pairing.path, node.path, policy), path=pairing.path)


def out_of_step_message(pairing: str, raising: str, policy: str) -> str:
    return (
        f"{pairing} pairs by position what several branches make of the same events, and under policy={policy!r} it "
        f"would pair wrongly after the first event that {raising} raises at, since only that branch leaves it out: do "
        f"what can raise before the branches part (as in source.map(lambda x: (x, f(x)))), or take "
        f'policy="fail"'
    )


def within(plan: Plan) -> Iterator[Plan]:
    """Yield *plan* and the shared sub-plans in it."""
    yield plan
    for node in plan.walk():
        if node.template is not None:
            yield node.template


def caught_above(node: PlanNode | None) -> bool:
    """Whether something downstream of *node*, in its plan or those around it, goes on after an error."""
    while node is not None:
        if caught(node):
            return True
        node = opener_of(node.plan)
    return False


def may_raise(node: PlanNode) -> bool:
    """Whether the operator of *node* may raise at an event: a function that it was given, or it by itself."""
    return calls_function(node.op) or raises_itself(node)


def calls_function(op: Operator) -> bool:
    return any(is_function(each) for value in parameters(op).values() for each in parts_of(value))


def raises_itself(node: PlanNode) -> bool:
    """Whether it may at a value that it cannot take; what reads groups or windows alone gets nothing but sequences."""
    raises = node.op.raises
    if raises is None:
        return not type(node.op).__module__.startswith(OURS)
    return raises and (node.template is None or not is_known(node))


def parts_of(value: Any) -> Any:
    return value if isinstance(value, (tuple, list)) else (value,)


def is_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, Observable)


def place_of(event: tuple[str, str, int, Any] | None) -> str:
    """Return how an *event* is named at which a query raised; None: at what its edit was to open again."""
    if event is None:
        return "what an edit was to open again"
    source, partition, position, _ = event
    return f"the end of {source}" if is_end(event) else f"{source}/{partition} event {position:,}"
