"""When two queries are the same: a content hash that survives the process, and a fast key for sharing plans within it.

The hash covers operators, parameters and code (bytecode, constants, names, closures), because a
lambda has no better name; what a function reaches through globals is not followed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator
from functools import partial
from types import CodeType, FunctionType
from typing import Any

from reliable_rx.operators.linear import WhereKey
from reliable_rx.query import Node, Query, SourceLeaf, parameters, walk


def content_hash(node: Node) -> str:
    """Return a hex digest of what the plan does."""
    digest = hashlib.blake2b(digest_size=16)
    for part in described(node):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


def described(node: Node) -> Iterator[str]:
    yield f"{node.op.name}/{node.op.version}("
    for name, value in parameters(node.op).items():
        yield name
        yield from describe(value, 0)
    for each in node.inputs:
        yield from described(each)
    yield ")"


def describe(value: Any, depth: int) -> Iterator[str]:
    """Write a parameter as text that is equal for equal parameters in any process."""
    if depth > 16:
        yield "…"
    elif isinstance(value, FunctionType):
        yield value.__qualname__
        yield from describe_code(value.__code__)
        for each in (*(value.__defaults__ or ()), *contents(value)):
            yield from describe(each, depth + 1)
    elif isinstance(value, partial):
        for each in (value.func, *value.args, *sorted(value.keywords.items())):
            yield from describe(each, depth + 1)
    elif isinstance(value, Query):
        yield from described(value.node)
    elif isinstance(value, (list, tuple)):
        yield f"{type(value).__name__}{len(value)}"
        for each in value:
            yield from describe(each, depth + 1)
    elif isinstance(value, (set, frozenset)):
        yield from sorted("".join(describe(each, depth + 1)) for each in value)
    elif isinstance(value, dict):
        for item in value.items():
            yield from describe(item, depth + 1)
    elif isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
        yield f"{value.__module__}.{value.__qualname__}"
    else:
        yield plain(value)


def plain(value: Any) -> str:
    """Write a value by its repr, unless that tells an address."""
    text = repr(value)
    return f"{type(value).__qualname__}" if " at 0x" in text else f"{type(value).__qualname__}:{text}"


def describe_code(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield " ".join(code.co_names)
    for constant in code.co_consts[:]:
        if isinstance(constant, CodeType):
            yield from describe_code(constant)
        else:
            yield from describe(constant, 1)


def contents(function: FunctionType) -> list[Any]:
    """Return what a function closes over."""
    found = []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            found.append(None)
    return found


def lift_keys(node: Node) -> tuple[Node, tuple[Any, ...]]:
    """Move a `where_key` directly behind the plan's only source into that source, and its key out of the plan.

    What is left is the same for all keys, so that queries that differ in nothing else share one plan.
    """
    leaves = [each for each in walk(node) if isinstance(each.op, SourceLeaf)]
    if len(leaves) != 1:
        return node, ()
    keys: list[Any] = []
    return lifted(node, keys), tuple(keys)


def lifted(node: Node, keys: list[Any]) -> Node:
    if isinstance(node.op, WhereKey) and isinstance(node.inputs[0].op, SourceLeaf):
        source = node.inputs[0].op
        if source.key_mapper is None:
            keys.append(node.op.key)
            return Node(SourceLeaf(source.source, node.op.key_mapper))
    return Node(node.op, tuple(lifted(each, keys) for each in node.inputs)) if node.inputs else node


def lower_keys(node: Node, keys: tuple[Any, ...]) -> Node:
    """Undo `lift_keys`: return the query as it was written."""
    if isinstance(node.op, SourceLeaf) and node.op.key_mapper is not None and keys:
        return Node(WhereKey(node.op.key_mapper, keys[0]), (Node(SourceLeaf(node.op.source)),))
    return Node(node.op, tuple(lower_keys(each, keys) for each in node.inputs)) if node.inputs else node


def structure(node: Node) -> Hashable:
    """Return a key equal for plans that may be shared in this process; it holds what it compares by identity."""
    op = node.op
    values = [(name, parameter(value)) for name, value in vars(op).items()]
    return (type(op), tuple(values), tuple(structure(each) for each in node.inputs))


class Same:
    """Compares by identity, and keeps the object alive so that its id is not used again."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held

    def __hash__(self) -> int:
        return id(self.held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.held is self.held


def parameter(value: Any) -> Hashable:
    """Return a key for one parameter: functions made by the same code over the same values are the same."""
    if type(value) in (int, float, str, bytes, bool, type(None)):
        return (type(value), value)
    if type(value) is FunctionType:
        cells = tuple(parameter(each) for each in contents(value)) if value.__closure__ else ()
        return (Same(value.__code__), Same(value.__globals__), cells, value.__defaults__ and Same(value.__defaults__))
    if type(value) is tuple:
        return tuple(parameter(each) for each in value)
    return Same(value)
