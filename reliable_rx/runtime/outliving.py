"""Rows that outlive their sequences: an inner sequence that has ended, or was left, while what it gave out is read.

In Rx whoever reads a window keeps what feeds it subscribed, whatever has become of the sequence that gave it out. So
its row stays, with the rows around it, which answer for its symbols, until nothing in it is read any more. The operator
that opened it hears nothing of it, and may open another one under its key. Rejected: to move such rows to the top of
the query (their selectors ask the rows around them), and keys that are never used again (a key is the operator's).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from reliable_rx.errors import QueryRefused

Instance = Any
"""A row at work; to import its class, and that of the nodes of its plan, would be a circle."""
PlanNode = Any
ASIDE = "outlived"
"""What the key of a row begins with that had to make room for another one."""


def aside(number: int) -> Hashable:
    """Return the key of a row that has made room for another one."""
    return (ASIDE, number)


def is_aside(key: Hashable) -> bool:
    """Whether *key* is such a key."""
    return type(key) is tuple and key[:1] == (ASIDE,)


class Outlived:
    """Stands for the operator that has opened a row which outlives its sequence, and hears nothing of it."""

    __slots__ = ("node",)
    passes, is_over = False, True

    def __init__(self, node: PlanNode) -> None:
        self.node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)

    def inner_deliver(self, child: Instance, values: Sequence[Any]) -> None:
        """Leave out what is emitted."""

    def inner_finish(self, child: Instance, error: Exception | None) -> None:
        """Leave out how it ends."""


def outlives(row: Instance) -> bool:
    """Whether *row* is there only for what reads its groups and windows."""
    return bool(getattr(row.sink, "is_over", False))  # also while nobody hears it, as it is begun afresh


def is_needed(row: Instance) -> bool:
    """Whether *row*, whose sequence is over, or a row within it has something that is read."""
    return bool(row.outliving or (row.active and (row.subjects or row.hubs)))


def is_given_out(instance: Instance, node: PlanNode) -> bool:
    """Whether *node* goes on only for groups or windows that are read, and is to begin again beside them."""
    return bool(instance.detached & node.bit and node.yields_inner and instance.is_read(node))


def begun_twice(node: PlanNode) -> QueryRefused:
    """Say what cannot be in one row."""
    return QueryRefused(
        f"{node.path} is subscribed to again while groups or windows that it gave out before are read: give each "
        "subscription a row of its own, as in rx.of(0).repeat(2).concat_map(lambda _: source.group_by(key).take(1))",
        path=node.path,
    )


def keep(row: Instance, node: PlanNode) -> bool:
    """Keep *row*, which *node* has opened, for those that read what it gave out; return whether somebody does."""
    parent, world = row.parent, row.world
    if parent is None or not is_needed(row):
        return False
    make_room(parent, node, row.key)
    if hasattr(row.unit, "release"):  # the group that it has read
        row.unit.release(row)
    row.unit = row
    for each in (row, *units(row)):  # a snapshot at work may come by the place where they were, or by this one, alone
        world.touch(each)
    put(parent, node, row)
    return True


def forget_hub(readers: Sequence[tuple[int, Instance, PlanNode]]) -> None:
    """Let rows that outlive their sequences read nothing where a hub is gone: another one comes under its name."""
    for _, row, leaf in readers:
        if row is not None and outlives(row):
            row.world.touch(row.unit)
            row.active &= ~leaf.bit


def settle(row: Instance) -> None:
    """Stop what nobody hears in *row*, which an edit has begun afresh or whose readers have not come back."""
    row.deactivate(row.plan.root)
    for node in row.plan.nodes:
        row.reader_left(node)
    let_go(row)


def let_go(row: Instance) -> None:
    """Let go of *row*, which outlives its sequence, if nothing in it is needed any more; so of those around it."""
    while outlives(row) and not is_needed(row) and row.parent is not None:
        parent = row.parent
        take_out(row)
        row = parent


def take_out(row: Instance) -> None:
    """Take *row*, which outlives its sequence, out of the row around it."""
    parent, node = row.parent, row.sink
    rows = parent.outliving[node.index]
    rows.pop(row.key, None)
    if not rows:
        del parent.outliving[node.index]
    row.world.forget(row)
    row.sink, row.unit = None, parent.unit


def drop_within(instance: Instance, node: PlanNode | None = None) -> None:
    """Let go of all rows in *instance* that outlive their sequences, or those of *node*, whoever reads them."""
    dropped = instance.outliving or {}
    instance.outliving = None if node is None else {index: dropped[index] for index in dropped if index != node.index}
    for row in [each for index in dropped if node is None or index == node.index for each in dropped[index].values()]:
        drop_within(row)
        row.dispose()
        row.world.forget(row)
        row.unit = instance.unit


def put(parent: Instance, node: PlanNode, row: Instance) -> None:
    """Put *row* among the rows of *parent* that outlive their sequences."""
    row.sink = Outlived(node)
    if parent.outliving is None:
        parent.outliving = {}
    parent.outliving.setdefault(node.index, {})[row.key] = row


def make_room(parent: Instance, node: PlanNode, key: Hashable) -> None:
    """Give what outlives its sequence under *key* another one, before a row of that key comes.

    Whoever refers to what is inside it does so by address: all rows of the query are written anew.
    """
    row = None if parent.outliving is None else parent.outliving.get(node.index, {}).get(key)
    if row is None:
        return
    world, top = parent.world, parent
    while top.parent is not None:
        top = top.parent
    for each in (top, *units(top)):
        world.touch(each)
    moved = [row, *units(row)]
    for each in moved:
        world.forget(each)
        each.saved = None
    rows = parent.outliving[node.index]
    del rows[key]
    row.key = aside(world.order())
    rows[row.key] = row
    for each in moved:
        world.touch(each)


def place_in(parent: Instance, row: Instance) -> Instance | None:
    """Return what is in *parent* where *row* has been put."""
    rows = parent.outliving if outlives(row) else parent.children
    return (rows or {}).get(row.sink.index, {}).get(row.key)


def rows_within(instance: Instance, node: PlanNode | None = None) -> Iterator[Instance]:
    """Yield the rows that *instance* or *node* has opened, also those that outlive their sequences; they may change."""
    for name in ("children", "outliving"):
        rows = getattr(instance, name) or {}
        for index in list(rows):
            if node is None or index == node.index:
                yield from list(rows.get(index, {}).values())


def units(instance: Instance) -> Iterator[Any]:
    """Yield everything inside *instance* that has a row of its own, outermost first; it may change meanwhile."""
    for subjects in list((instance.subjects or {}).values()):
        yield from list(subjects.values())
    for child in rows_within(instance):
        if child.unit is child:
            yield child
        if child.children or child.subjects or child.outliving:
            yield from units(child)
