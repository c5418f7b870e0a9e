"""The symbol of a shared sub-plan while its rows run: `g.key` inside a lambda must answer for the row at work.

Only sub-plans whose functions close over the symbol pay for this, once for each time that a row is entered. Rejected:
to say it at each operator of the row, which costs more and left out what is no delivery (a start, a release).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from contextvars import ContextVar
from functools import partial
from gc import get_referents
from types import BuiltinFunctionType, CellType, FunctionType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from reliable_rx.errors import QueryRefused
from reliable_rx.functions.code_names import asks_key_only, assigned_in, empty
from reliable_rx.operators.contract.operator import Operator
from reliable_rx.query.query import LEAVES, HubLeaf, Inner, Node, Query, SourceLeaf, SymbolLeaf, parameters, walk
from reliable_rx.runtime.shared_state import is_constant

if TYPE_CHECKING:
    from reliable_rx.runtime.plan import PlanNode

BOUND = frozenset(map(id, (MethodType, BuiltinFunctionType)))
LASTING = frozenset(map(id, (FunctionType, ModuleType, partial)))
"""Kinds of what is looked at on its own, or is no selector's."""
ATOMS = frozenset(map(id, (int, float, complex, str, bytes, bool, type(None), range)))
"""By their numbers, as all kinds here: a class may have a metaclass that cannot be hashed."""
derives = type.__subclasscheck__  # `issubclass` asks abstract classes, which hash what they are asked of
SIZED = frozenset(map(id, (tuple, list, dict, set, frozenset, deque)))
PLAIN = SIZED | {id(FunctionType), id(MethodType), id(partial)}
"""Kinds of what holds others and has, in a pure function, no state."""
HELD_MAX, LOOKED_MAX, TOO_MUCH = 1000, 10_000, object()
"""How many objects that a function reaches are looked at for a symbol, and in containers of how many."""
OUTSIDE = (
    "a group or window was asked for its key outside its own sub-query; emit its key with the value instead: "
    ".map(lambda value: (group.key, value))"
)


class KeyNeeded(Exception):
    """A selector looked at a value that is not known while the query is planned: it will be called per value."""


class Symbol(Query[Any]):
    """Stands for "the inner sequence" while a selector is called once, at planning.

    While rows of the resulting sub-plan run, it answers ``key`` for the row at work.
    """

    def __init__(self) -> None:
        super().__init__(Node(SymbolLeaf(self)))
        self.current: Inner[Any, Any] | None = None
        self.asked = False
        """Whether a selector has asked for what a symbol does not have, even if it has caught the answer."""
        self.planned = False
        """Whether what is asked for now is asked for by a value, not by a selector at planning."""
        self.called = False
        """Whether coroutines may ask, which run beside the rows."""

    @property
    def key(self) -> Any:
        return self._needed().key

    @property
    def subject(self) -> Any:
        return self._needed().subject

    def _needed(self) -> Inner[Any, Any]:
        row = self._row_of_call() if self.called else self.current
        if row is None:
            self.asked = True
            raise QueryRefused(OUTSIDE) if self.planned else KeyNeeded
        return row

    def _row_of_call(self) -> Inner[Any, Any] | None:
        return next((row for symbol, row in ROWS_OF_CALL.get() if symbol is self), self.current)

    def __iter__(self) -> NoReturn:
        """Not by `__getitem__`, which answers for every number: a selector that unpacks is called per value."""
        self.asked = True
        raise KeyNeeded

    def __reduce__(self) -> tuple[Any, ...]:
        if self.current is None:
            self.asked = True
            raise QueryRefused("a group or window was stored outside its own sub-query; emit its key instead")
        return self.current.__reduce__()


def how_held(node: Node, symbol: Symbol, selector: Operator) -> tuple[bool, bool]:
    """Return whether a function in the plan holds *symbol*, and whether what it does may remember a group by it.

    Each group is to have its functions to itself where one hands the group on instead of reading its key, where an
    object with a state holds it, or where what was made beside the function may be changed: what `functools.cache`
    makes would answer one group with another's key. A function is taken to hold it if there is too much to look at,
    which costs time and is never wrong.
    """
    is_held = is_kept = has_memory = False
    outside = {id(each) for held, _ in held_by(parameters(selector)) for each in (held, *cells_of(held))}
    for each, kept in held_by(node):
        is_held = is_held or each is symbol or each is TOO_MUCH
        is_kept = is_kept or (kept and derives(Symbol, type(each)))
        has_memory = has_memory or (id(each) not in outside and may_remember(each, outside))
    return is_held, is_kept or (is_held and has_memory)


def held_by(value: Any) -> Iterator[tuple[Any, bool]]:
    """Yield what *value* holds, and whether by way of an object that is neither a function nor a container."""
    seen: dict[tuple[int, bool], Any] = {}
    waiting: list[tuple[Any, bool]] = [(value, False)]
    looked = 0
    while waiting:
        each, kept = waiting.pop()
        if (id(each), kept) in seen:
            continue
        yield each, kept
        kind = type(each)
        if derives(Symbol, kind) or derives(ModuleType, kind):
            continue
        looked += len(each) if id(kind) in SIZED else 0
        if len(seen) >= HELD_MAX or looked > LOOKED_MAX:
            yield TOO_MUCH, False
            return
        seen[id(each), kept] = each  # kept alive, so that no other object can have its number
        kept = kept or not (id(kind) in PLAIN or any(derives(each, kind) for each in (Query, Node, type)))
        waiting += [
            (part, kept or derives(Symbol, type(part))) for part in parts_of(each) if id(type(part)) not in ATOMS
        ]
        for name, cell in zip(each.__code__.co_freevars, cells_of(each), strict=True) if kind is FunctionType else ():
            if not empty(cell):
                waiting.append((cell.cell_contents, kept or not asks_key_only(each.__code__, name)))


def parts_of(value: Any) -> list[Any]:
    """Return what *value* holds itself; the user's code is not asked."""
    kind = type(value)
    if derives(Query, kind):
        return [value.node]
    if derives(Node, kind):
        ops = [each.op for each in walk(value) if not isinstance(each.op, SymbolLeaf)]
        return [given for op in ops for given in (*parameters(op).values(), getattr(op, "_source", None))]
    if kind is FunctionType:
        return [value.__defaults__, value.__kwdefaults__, vars(value)]
    if derives(type, kind) and is_global(value):
        return []
    return get_referents(value)


def cells_of(value: Any) -> Sequence[CellType]:
    return (value.__closure__ or ()) if type(value) is FunctionType else ()


def may_remember(value: Any, outside: Container[int]) -> bool:
    """Whether a function holds, beside what there was *outside* of its selector, what may be changed."""
    kind = type(value)
    if kind is FunctionType:
        code = value.__code__
        fresh = [
            (n, cell) for n, cell in zip(code.co_freevars, cells_of(value), strict=True) if id(cell) not in outside
        ]
        held = [cell.cell_contents for _, cell in fresh if not empty(cell)]
        held += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *vars(value).values()]
        return not assigned_in(code).isdisjoint(["", *[n for n, _ in fresh]]) or any(
            may_change(each, outside) for each in held
        )
    if kind is partial:
        return any(may_change(each, outside) for each in (*value.args, *value.keywords.values()))
    return id(kind) in BOUND and may_change(value.__self__, outside)


def may_change(value: Any, outside: Container[int]) -> bool:
    """Whether *value* was made by a selector, and could be changed; what is not known could be."""
    waiting, seen = [value], set[int]()
    while waiting:
        at = waiting.pop()
        kind = type(at)
        if id(at) in outside or id(at) in seen or id(kind) in ATOMS or id(kind) in LASTING:
            continue
        seen.add(id(at))
        if kind is tuple or kind is frozenset:
            waiting += at
        elif id(kind) in BOUND:
            waiting.append(at.__self__)
        elif not (is_global(at) if derives(type, kind) else is_constant(at) or derives(Query, kind)):
            return True
    return False


def is_global(kind: type) -> bool:
    """Whether a class stands in its module under its name."""
    found: Any = sys.modules.get(str(type.__dict__["__module__"].__get__(kind)))
    for name in type.__dict__["__qualname__"].__get__(kind).split("."):
        found = getattr(found, name, None)
    return found is kind


Before = list[tuple[Symbol, "Inner[Any, Any] | None"]]
ROWS_OF_CALL: ContextVar[Sequence[tuple[Symbol, Any]]] = ContextVar(
    "rows that symbols of a call answer for", default=()
)


def take_over(instance: Any) -> Before:
    """Let the symbols of a row and of those around it answer for it; return what they answered for, for `give_back`."""
    before: Before = []
    while instance is not None and instance.plan.under_symbol:
        symbol = instance.plan.symbol
        if symbol is not None and symbol.current is not instance.outer:
            before.append((symbol, symbol.current))
            symbol.current = instance.outer
        instance = instance.parent
    return before


def give_back(before: Before) -> None:
    """Let symbols answer for whom they answered before."""
    for symbol, current in before:
        symbol.current = current


def beside(instance: Any, call: Callable[[], Any]) -> Callable[[], Any]:
    """Let symbols answer for a row in all that *call* begins, whichever row is at work: for a task, which it is run in.

    A coroutine goes on between other rows' steps, in another thread.
    """
    rows: Before = []
    while instance is not None and instance.plan.under_symbol:
        symbol = instance.plan.symbol
        if symbol is not None:
            symbol.called = True
            rows.append((symbol, instance.outer))
        instance = instance.parent

    def called() -> Any:
        ROWS_OF_CALL.set(rows)
        return call()

    return called if rows else call


def entered(plan: Any, leaf: Operator, call: Callable[..., None]) -> Callable[..., None]:
    """Return the way by which *call* enters a row of *plan* from outside: its symbols answer for the row meanwhile.

    A row is entered by what its leaves read, at its start, by its timers, by answers and at its release, and left by
    none but those who come back; so whatever runs in it, and in the rows around it, runs within one of these.
    """
    if not plan.under_symbol:
        return call
    from_within = plan.fed_within and isinstance(leaf, SymbolLeaf) and leaf.symbol is plan.reads
    if from_within or not plan.around.under_symbol:
        return call if plan.symbol is None else _entered_alone(plan.symbol, call)

    def called(instance: Any, given: Any) -> None:
        before = take_over(instance)
        try:
            call(instance, given)
        finally:
            give_back(before)

    return called


def _entered_alone(symbol: Symbol, call: Callable[..., None]) -> Callable[..., None]:
    """The same where there is no other symbol around, or what feeds the leaf is at work in the row around."""

    def called(instance: Any, given: Any) -> None:
        before, symbol.current = symbol.current, instance.outer
        try:
            call(instance, given)
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


def is_known(node: Node | PlanNode) -> bool:
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
