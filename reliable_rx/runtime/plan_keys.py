"""The key by which plans are shared within one process: quick, and equal for queries that differ in nothing.

What it compares by id is kept alive by the plan that is stored under it. Across processes a plan is known by its
content hash (`reliable_rx.query.identity`), which takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import fields, is_dataclass
from math import copysign
from operator import attrgetter
from types import FunctionType
from typing import Any, cast

from reliable_rx.class_of import ids_of
from reliable_rx.functions.shared_parts import shared_anywhere
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.operators.filtering import WhereKey
from reliable_rx.query.identity import contents
from reliable_rx.query.query import Node, SourceLeaf, walk
from reliable_rx.query.rebuilt import rebuilt


def recognise(node: Node) -> tuple[Hashable, tuple[Any, ...]]:
    """Return a key equal for plans that may be shared in this process, and the routing keys that are not part of it.

    A `where_key` directly behind the plan's only source is no operator but an address: queries that differ in nothing
    else share one plan, and a host finds them by their keys.
    """
    keys: list[Any] = []
    sources: list[str] = []
    hubs: dict[str, int] = {}
    found = structure(node, keys, sources, hubs)
    if hubs and reaches_hubs(node):
        return (structure(node, None, [], {}), *hubs), ()
    if len(sources) == 1 or not keys:
        return found, tuple(keys)
    return structure(node, None, [], {}), ()


def reaches_hubs(node: Node) -> bool:
    """Whether a function in the plan reaches a shared part, so that it matters which one it is."""
    return any(shared_anywhere(each.op) for each in walk(node))


def structure(node: Node, keys: list[Any] | None, sources: list[str], hubs: dict[str, int]) -> Hashable:
    """Return the key of a plan; what it compares by id is kept alive by the plan that is stored under it.

    It is flat: the kinds say how many parameters follow, and a count, below zero so that it is no hub's number, how
    many inputs if that is not one. To compare a deep tuple recurs.
    """
    found: list[Hashable] = []
    waiting = [node]
    while waiting:
        op, inputs = waiting.pop()
        kind: Any = type(op)
        if op.counts_readers:
            known = len(hubs)
            number = hubs.setdefault(op.token, known)  # type: ignore[attr-defined]
            if number < known:
                found.append(number)
                continue
        if kind is SourceLeaf:
            sources.append(op.source)  # type: ignore[attr-defined]
        elif kind is WhereKey and keys is not None and is_address(op, inputs[0]):
            keys.append(op.key)  # type: ignore[attr-defined]
            sources.append(inputs[0].op.source)  # type: ignore[attr-defined]
            found += ("keyed", sources[-1], parameter(op.key_mapper))  # type: ignore[attr-defined]
            continue
        found.append(kind)
        found += [parameter(value) for value in (READERS.get(kind) or reader_of(op))(op)]
        if len(inputs) == 1:
            waiting.append(inputs[0])
        else:
            found.append(~len(inputs))
            waiting += inputs[::-1]
    return tuple(found)


READERS: dict[type[Operator], Callable[[Any], tuple[Any, ...]]] = {}
"""What reads the parameters of a kind of operator, in order, without what its inputs say too."""


def reader_of(op: Operator) -> Callable[[Any], tuple[Any, ...]]:
    """Make what reads the parameters of operators like *op*."""
    told: list[str] = [f.name for f in fields(op)] if is_dataclass(op) else []
    names = [name for name in told if name not in ("_token", "_source")]
    get = attrgetter(*names) if names else None
    reader = READERS[type(op)] = (lambda op: ()) if get is None else get if len(names) > 1 else (lambda op: (get(op),))
    return reader


def is_address(op: Operator, read: Node) -> bool:
    """Whether *op* is a `where_key` that stands directly behind a source; one that cannot work stays where it is."""
    is_plain = type(read.op) is SourceLeaf and read.op.key_mapper is None
    return is_plain and isinstance(op, WhereKey) and callable(op.key_mapper)


def lifted(node: Node) -> Node:
    """Return the plan as it is shared: with `where_key` behind the source moved into the source."""

    def lift(at: Node) -> Node | None:
        if not at.inputs or not is_address(at.op, at.inputs[0]):
            return None
        op, source = cast(WhereKey, at.op), cast(SourceLeaf, at.inputs[0].op)
        return Node(SourceLeaf(source.source, op.key_mapper))

    return rebuilt(node, lift)


def lower_keys(node: Node, keys: tuple[Any, ...]) -> Node:
    """Undo `lifted`: return the query as it was written."""

    def lower(at: Node) -> Node | None:
        if not isinstance(at.op, SourceLeaf) or at.op.key_mapper is None or not keys:
            return None
        return Node(WhereKey(at.op.key_mapper, keys[0]), (Node(SourceLeaf(at.op.source)),))

    return rebuilt(node, lower)


def parameter(value: Any, inside: tuple[int, ...] = (), left: list[int] | None = None) -> Hashable:
    """Return a key for one parameter: functions made by the same code over the same values are the same.

    What has more than `PARTS_MAX` parts, or parts within `DEPTH_MAX` others, has some that are compared by identity.
    """
    kind = type(value)
    if id(kind) in PLAIN:
        return (kind, value)
    if kind is float:
        return (kind, value, copysign(1.0, value))  # the two zeros are equal and not the same
    if kind is not FunctionType and kind is not tuple:
        return (Same, id(value))
    if kind is FunctionType and (value.__dict__ or id(value) in inside):
        return (Same, id(value))  # its attributes are its own, or it calls for itself by a variable of the one around
    parts: Any = value if kind is tuple else contents(value) if value.__closure__ else ()
    if parts:
        left, inside = left or [PARTS_MAX], (*inside, id(value))
        left[0] -= len(parts)
        if left[0] < 0 or len(inside) > DEPTH_MAX:
            return (Same, id(value))
        parts = tuple([parameter(each, inside, left) for each in parts])
    if kind is tuple:
        return parts  # type: ignore[no-any-return]
    return (id(value.__code__), id(value.__globals__), parts, id(value.__defaults__), id(value.__kwdefaults__))


class Same:
    """Marks a parameter that is compared by identity."""


PARTS_MAX, DEPTH_MAX = 10_000, 50
PLAIN = ids_of((int, str, bytes, bool, type(None)))
