"""The symbol of a shared sub-plan while its rows run: `g.key` inside a lambda must answer for the row at work.

Only sub-plans whose functions close over the symbol pay for this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import CodeType, FunctionType
from typing import Any, NoReturn

from reliable_rx.errors import QueryRefused
from reliable_rx.operator import Operator
from reliable_rx.query import LEAVES, HubLeaf, Inner, Node, Query, SourceLeaf, SymbolLeaf, hubs_of, parameters, walk


class KeyNeeded(Exception):
    """A selector looked at a value that is not known while the query is planned: it will be called per value."""


class Symbol(Query[Any]):
    """Stands for "the inner sequence" while a selector is called once, at planning.

    While rows of the resulting sub-plan run, it answers ``key`` for the row at work.
    """

    def __init__(self) -> None:
        super().__init__(Node(SymbolLeaf(self)))
        self.current: Inner[Any] | None = None
        self.asked = False
        """Whether a selector has asked for what a symbol does not have, even if it has caught the answer."""

    @property
    def key(self) -> Any:
        return self._needed().key

    @property
    def subject(self) -> Any:
        return self._needed().subject

    def _needed(self) -> Inner[Any]:
        if self.current is None:
            self.asked = True
            raise KeyNeeded
        return self.current

    def __iter__(self) -> NoReturn:
        """Not by `__getitem__`, which answers for every number: a selector that unpacks is called per value."""
        self.asked = True
        raise KeyNeeded

    def __reduce__(self) -> tuple[Any, ...]:
        if self.current is None:
            self.asked = True
            raise QueryRefused("a group or window was stored outside its own sub-query; emit its key instead")
        return self.current.__reduce__()


def captures(node: Node, symbol: Symbol) -> bool:
    """Whether any function in the plan closes over *symbol*, or is given it by its operator as the sequence before."""
    for each in walk(node):
        if not isinstance(each.op, SymbolLeaf):
            given = [*parameters(each.op).values(), getattr(each.op, "_source", None)]
            if any(holds(value, symbol, 0) for value in given):
                return True
    return False


def holds(value: Any, symbol: Symbol, depth: int) -> bool:
    """Whether *symbol* can be reached from *value* through closures, partials and containers."""
    if isinstance(value, Symbol):
        return value is symbol
    if depth > 8:
        return False
    if isinstance(value, FunctionType):
        cells = value.__closure__ or ()
        inside = [cell.cell_contents for cell in cells if not empty(cell)]
        inside += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        return any(holds(each, symbol, depth + 1) for each in inside)
    if isinstance(value, partial):
        return any(holds(each, symbol, depth + 1) for each in (value.func, *value.args, *value.keywords.values()))
    if isinstance(value, (tuple, list)):
        return any(holds(each, symbol, depth + 1) for each in each_once(value))
    node = getattr(value, "node", None)
    return isinstance(node, Node) and captures(node, symbol)


def shared_within(op: Operator) -> Iterator[Node]:
    """Yield the shared parts that the functions among the parameters of *op* reach.

    A selector will read them, or an operator further on, if what the function returns are queries: they are elements.
    """
    for value in parameters(op).values():
        yield from reached(value, 0)


def reached(value: Any, depth: int) -> Iterator[Node]:
    """Yield the shared parts that can be reached from *value* through closures, globals, partials and containers."""
    if depth > 8:
        return
    within: list[Any] = []
    if isinstance(value, Query):
        yield from hubs_of(value.node).values()
    elif isinstance(value, FunctionType):
        within = [cell.cell_contents for cell in value.__closure__ or () if not empty(cell)]
        within += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
        within += [each for name in named(value.__code__) if isinstance(each := value.__globals__.get(name), Query)]
    elif isinstance(value, partial):
        within = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, (tuple, list)):
        within = each_once(value)
    for each in within:
        yield from reached(each, depth + 1)


def each_once(values: Sequence[Any]) -> list[Any]:
    """Return *values* without repetitions: a list may hold one list many times, which may do so too."""
    return list({id(each): each for each in values}.values())


def named(code: CodeType) -> Iterator[str]:
    """Yield the names that *code* uses, also in the functions that it makes."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from named(constant)


def empty(cell: Any) -> bool:
    """Whether a closure cell has not been filled."""
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def under(symbol: Symbol, call: Callable[..., None]) -> Callable[..., None]:
    """Let *symbol* stand for the instance's own inner sequence while *call* runs."""

    def called(instance: Any, values: Any, end: Any = None) -> None:
        before, symbol.current = symbol.current, instance.outer
        try:
            call(instance, values) if end is None else call(instance, values, end)
        finally:
            symbol.current = before

    return called


def stage_under(symbol: Symbol, call: Callable[..., None]) -> Callable[..., None]:
    """The same for calls whose second argument may be None."""

    def called(instance: Any, error: Any) -> None:
        before, symbol.current = symbol.current, instance.outer
        try:
            call(instance, error)
        finally:
            symbol.current = before

    return called


def chosen_once(node: Node) -> bool:
    """Whether what *node* selects is selected for inner sequences, so that one symbol may stand for all."""
    if node.op.is_hub:
        return not node.op.counts_readers
    return node.op.reads_own or yields_inner(node.inputs[0])  # type: ignore[attr-defined]


def yields_inner(node: Node) -> bool:
    """Whether the elements of *node* are known to be inner sequences."""
    while node.op.keeps_inner and node.inputs and not node.op.yields_inner:
        node = node.inputs[0]
    return node.op.yields_inner and not node.op.wraps_inner


def is_known(node: Node) -> bool:
    """Whether what *node* selects is selected for inner sequences and for nothing else."""
    if node.op.is_hub or node.op.reads_own:  # type: ignore[attr-defined]
        return True
    node = node.inputs[0]
    while node.op.keeps_inner and node.inputs and not node.op.adds_others:
        node = node.inputs[0]
    return node.op.yields_inner and not node.op.wraps_inner


def only_reads(node: Node, symbol: Symbol) -> bool:
    """Whether *symbol* occurs as an input only, not as a value, and nothing un-hosted occurs at all."""
    return all(isinstance(each.op, SymbolLeaf) or _is_plain(each.op, symbol) for each in walk(node))


def _is_plain(op: Operator, symbol: Symbol) -> bool:
    if isinstance(op, LEAVES) and not isinstance(op, (SourceLeaf, HubLeaf)):
        return False
    return not any(mentions(value, symbol) for value in parameters(op).values())


def mentions(value: Any, symbol: Symbol) -> bool:
    """Whether *symbol* is *value* or stands in it."""
    if isinstance(value, (tuple, list)):
        return any(mentions(each, symbol) for each in value)
    if isinstance(value, Query):
        return not only_reads(value.node, symbol)
    return value is symbol
