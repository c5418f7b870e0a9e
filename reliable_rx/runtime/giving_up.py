"""Inner sequences that are given up, as a whole and in silence, at an event that a policy leaves out.

An inner sequence that cannot begin, go on or complete is no empty one: its end would be an answer, of what stands in it
(`count`, `repeat`) and of the operator that reads it (a time that is up). So nothing in it hears of an end, who reads
windows of its own is given up with it, and the operator that opened it is told so (`Stage.on_inner_refused`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from reliable_rx.query.query import Inner, InnerLeaf, SymbolLeaf
from reliable_rx.runtime.gathering import pass_on
from reliable_rx.runtime.outliving import drop_within, let_go, outlives, rows_within, take_out

if TYPE_CHECKING:
    from reliable_rx.runtime.inner_sequences import Subject
    from reliable_rx.runtime.instance import Instance
    from reliable_rx.runtime.plan import PlanNode

GIVEN_UP = object()
"""The key of a row that was given up, and the end of a segment that is going to be."""


def give_up(child: Instance) -> None:
    """Let go of an inner sequence, and have the operator that opened it go on without."""
    parent, node = child.parent, child.sink
    if parent is None or node is None:  # it is over already
        return
    pass_on(parent, node)
    if child.sink is None:  # what came of that has closed it
        return
    key, group, subjects = child.key, group_of(child), list(subjects_of(child))
    parent.world.touch(parent.unit)
    for subject in subjects:
        subject.release_all()
    if outlives(child):  # nobody waits for its end
        take_out(child)
        child.dispose()
        drop_within(child)
        silence(subjects)
        let_go(parent)
        return
    child.dispose()
    drop_within(child)
    parent.drop_child(node, child)
    child.key = GIVEN_UP
    silence(subjects)
    if group is not None and not group.ended and not group.is_read:
        group.owner.end_group(group.node, group.key, None)  # type: ignore[union-attr, arg-type]
        group.owner.close(group.node, group.key)  # type: ignore[union-attr, arg-type]
    node.inner_refused(parent, key)


def is_let_go(instance: Instance) -> bool:
    """Whether *instance*, an inner sequence, is silent for good: it was given up or closed, or what is around it."""
    return instance.sink is None and instance.parent is not None


def group_of(child: Instance) -> Subject | None:
    """Return the group that *child* was opened for, to begin again with the next event of its key, which would be lost.

    What has read enough of it (`take`) is over.
    """
    group = child.outer.subject if isinstance(child.outer, Inner) else None
    if group is None or group.node is None or not group.node.op.begins_again:
        return None
    reading = any(is_within(reader, child) for _, reader, _ in group.subscribers)
    had_read = any(isinstance(leaf.op, (InnerLeaf, SymbolLeaf)) for leaf in child.plan.leaves)
    return group if reading or not had_read or any(resubscribes(node.op) for node in child.plan.nodes) else None


def is_within(reader: Instance | None, child: Instance) -> bool:
    while reader is not None and reader is not child:
        reader = reader.parent
    return reader is not None


def resubscribes(op: Any) -> bool:
    return not op.is_hub and getattr(op, "resubscribes", False)


def drop_group(instance: Instance, node: PlanNode, key: Hashable) -> None:
    """End an inner sequence of *node*'s own, and give up all who read it."""
    subject = instance.groups(node).get(key)
    if subject is not None:
        silence((subject,))
        instance.end_group(node, key, None)


def silence(subjects: Iterable[Subject]) -> None:
    """Give up who still reads *subjects*."""
    for subject in subjects:
        subject.ended = True
        for _, reader, _ in tuple(subject.subscribers):
            give_up(reader)


def subjects_of(instance: Instance) -> Iterator[Subject]:
    """Yield the inner sequences that *instance* owns, and those that the inner sequences in it own."""
    for subjects in (instance.subjects or {}).values():
        yield from subjects.values()
    for row in rows_within(instance):
        yield from subjects_of(row)


def is_skipping(instance: Instance) -> bool:
    """Whether the standing query that *instance* is a part of may go on without an event."""
    while instance.parent is not None:
        instance = instance.parent
    return getattr(instance, "policy", "fail") != "fail"


def is_caught(instance: Instance) -> bool:
    """Whether *instance* stands for what deals with an error, so that it may not be given up."""
    while instance.parent is not None and instance.sink is not None:
        op = instance.sink.op
        if not op.falls_with_inner:
            return bool(op.catches_inner)
        instance = instance.parent
    return False
