"""Which functions of a plan remember something from one call to the next, outside of any state that a host keeps.

A set at the top of a module, a default that is a dict, an attribute of a callable object: no checkpoint has them, and a
replay finds them empty, or filled already. `element_reader` follows such an object through the byte code as it follows
an element. What is loaded once, by code that asks first whether it is there, is no memory, unless it is made of the
element of that call, as the first of all is. What `functools.lru_cache` keeps, a library, or a method of the object's
own class, is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dis import Instruction, get_instructions
from functools import _lru_cache_wrapper, lru_cache, partial
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from reliable_rx.class_of import attribute_of, defines, is_a
from reliable_rx.functions.code_names import assigned_in, code_within, empty, is_awaited
from reliable_rx.functions.element_changes import function_of, parameters
from reliable_rx.functions.element_items import PARTS, Change, stored_in, stores
from reliable_rx.functions.element_reader import ENDS, read
from reliable_rx.functions.reach import MUTATORS, READERS_MAX, globals_of, is_mutable, is_own, reached
from reliable_rx.functions.shared_elements import functions_of
from reliable_rx.query.query import SourceLeaf
from reliable_rx.runtime.plan import Plan

FOR_EFFECTS = frozenset(("next_action", "coroutine"))
"""Parameters whose functions are there for effects: what they remember decides no output."""
LOADS = frozenset((
    "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST",
))  # fmt: skip
ATTRIBUTES = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
KEPT = {"STORE_GLOBAL": "global", "STORE_DEREF": "nonlocal"}
STILL = frozenset(("EXTENDED_ARG", "PRECALL", "TO_BOOL", "COPY"))
"""Instructions between what is loaded and what is done with it."""
IF_THERE, IF_MISSING = ("IF_NOT_NONE", "IF_TRUE", "IF_TRUE_OR_POP"), ("IF_NONE", "IF_FALSE")
"""How jumps end that are taken where something is there already, or is not."""
PUTS = frozenset(("STORE_ATTR", "STORE_SUBSCR", "STORE_SLICE", *KEPT))
SEVERAL = frozenset(("COPY", "SWAP", "UNPACK_SEQUENCE", "UNPACK_EX"))
"""Instructions behind which more than one store takes something of what was loaded."""
Names = dict[str, Any]


class Memory(NamedTuple):
    """A function that remembers something: where it stands, and the first place that changes it."""

    path: str
    parameter: str
    change: Change


class Move(NamedTuple):
    """A step of byte code: an instruction, what it names, and the line."""

    kind: str
    name: Any
    line: int


def memories(plan: Plan) -> list[Memory]:
    """Return the functions of *plan*, the user's own, that change what they find again at their next call."""
    found = []
    for node in plan.walk():
        for name, function, _, places in () if isinstance(node.op, SourceLeaf) else functions_of(node.op):
            change = None if name in FOR_EFFECTS else next(_given(function, places), None)
            if change is not None:
                found.append(Memory(node.path, name, change))
    return found


def _given(value: Any, places: Sequence[int]) -> Iterator[Change]:
    """Yield where *value*, called with arguments at *places*, changes what outlives the call."""
    first, by_name = _arguments(value)
    method = value
    while is_a(method, partial):
        method = method.func
    if is_a(method, (BuiltinFunctionType, MethodType)) and is_mutable(method.__self__) and method.__name__ in MUTATORS:
        yield Change("", 0, f"{type(method.__self__).__name__}.{method.__name__}", 0)
    function, before = (None, 0) if is_a(value, _lru_cache_wrapper) else function_of(value)
    if function is not None:
        bound = dict(zip(function.__code__.co_varnames[:before], first, strict=False))
        given = dict(parameters(function.__code__, [(place, 0) for place in places], None, before))
        held = {**_defaults(function, before + len(places)), **bound, **by_name}
        yield from _changes(function, held, set(), frozenset(given.keys() - held.keys()))


def _changes(
    function: FunctionType, held: Names, seen: set[int], given: frozenset[str] = frozenset()
) -> Iterator[Change]:
    """Yield where *function*, whose parameters hold *held* at each call, changes what outlives it.

    *given* are the parameters that hold something else at each call.
    """
    if id(function) in seen or len(seen) >= READERS_MAX or not is_own(function) or is_awaited(function.__code__):
        return
    seen.add(id(function))
    code = function.__code__
    module = {name: function.__globals__.get(name) for name in globals_of(code)}
    cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
    closed = {name: cell.cell_contents for name, cell in cells if not empty(cell)}
    bound = _bound_anew(code, frozenset(code.co_freevars))
    changes = [*bound, *_in_code(code, _kept(module), _kept({**held, **closed}))]
    yield from _but_loaded(code, changes, _puts_given(code, given) if changes else frozenset())
    for path, each in reached(function):
        if is_a(each, FunctionType) and not is_a(function.__globals__.get(path), _lru_cache_wrapper):
            yield from _changes(each, {}, seen, _handed(code, given, path, each.__code__))


def _handed(code: CodeType, given: frozenset[str], path: str, called: CodeType) -> frozenset[str]:
    """Return the parameters of *called*, at *path*, under which *code* hands on what was *given*, or a part of it."""
    calls = read(code, tuple((name, 0) for name in sorted(given)))[1] if given else ()
    mine = [each for each in calls if ".".join(each.path) == path]
    return frozenset(name for each in mine for name, _ in parameters(called, each.given, each.spread, 0))


def _arguments(value: Any) -> tuple[tuple[Any, ...], Names]:
    """Return the arguments that a call of *value* begins with, and those that it gives by name."""
    if is_a(value, partial):
        first, by_name = _arguments(value.func)
        return (*first, *value.args), {**by_name, **value.keywords}
    if is_a(value, FunctionType):
        return (), {}
    return (value.__self__ if is_a(value, MethodType) else value,), {}


def _defaults(function: FunctionType, given: int) -> Names:
    """Return the parameters behind those *given*, with their defaults."""
    names, defaults = function.__code__.co_varnames[: function.__code__.co_argcount], function.__defaults__ or ()
    by_place = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    return {name: by_place[name] for name in names[given:] if name in by_place} | (function.__kwdefaults__ or {})


def _kept(names: Names) -> Names:
    """Return those *names* that hold what can be changed: a container, an iterator, an object of a user's class."""
    return {
        name: value for name, value in names.items() if is_mutable(value) or _is_iterator(value) or _is_object(value)
    }


def _is_iterator(value: Any) -> bool:
    return not is_a(value, type) and defines(type(value), "__next__")


def _is_object(value: Any) -> bool:
    kind = type(value)
    if not is_own(kind) or is_a(value, (type, FunctionType, CodeType)):
        return False
    return not any(is_a(attribute_of(kind, name), FunctionType) for name in PARTS)  # they may make what they return


def _steps(code: CodeType) -> list[Instruction]:
    return [each for each in get_instructions(code) if each.opname not in STILL]


def _line(step: Instruction) -> int:
    return (step.positions.lineno if step.positions is not None else None) or 0


def _in_code(code: CodeType, module: Names, own: Names) -> Iterator[Change]:
    """Yield where *code*, or a function in it, changes what the globals *module* hold, or its variables *own*."""
    assigned = stored_in(code).union(*map(assigned_in, code_within(code)))
    own = {name: value for name, value in own.items() if name not in assigned}
    local = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    names = {**{name: value for name, value in module.items() if name not in local}, **own}
    if names:
        yield from _called_on(code, {name for name, value in names.items() if is_mutable(value)})
        yield from _advanced(code, {name for name, value in names.items() if _is_iterator(value)})
        yield from read(code, tuple((name, 0) for name in sorted(names)))[0]
    for each in code_within(code):
        yield from _in_code(each, module, {name: own[name] for name in each.co_freevars if name in own})


@lru_cache(maxsize=4096)
def _bound_anew(code: CodeType, free: frozenset[str]) -> tuple[Change, ...]:
    """Return where *code*, or a function in it, binds a name of its module, or a *free* one of a function around it."""
    found = [
        Change(code.co_filename, _line(step), f"{KEPT[step.opname]} {step.argval}", 0)
        for step in get_instructions(code)
        if step.opname == "STORE_GLOBAL" or (step.opname == "STORE_DEREF" and step.argval in free)
    ]
    for each in code_within(code):
        found += _bound_anew(each, free & frozenset(each.co_freevars))
    return tuple(found)


def _called_on(code: CodeType, containers: set[str]) -> Iterator[Change]:
    """Yield where a method of *containers*, by name, is called that changes them, whatever its result is used for."""
    for step, after in pairwise(_steps(code)):
        if step.opname in LOADS and after.opname in ATTRIBUTES and after.argval in MUTATORS:
            name = step.argval[-1] if is_a(step.argval, tuple) else step.argval
            if name in containers:
                yield Change(code.co_filename, _line(after), f"{name}.{after.argval}(...)", 0)


def _advanced(code: CodeType, iterators: set[str]) -> Iterator[Change]:
    """Yield where the next element of *iterators*, by name, is taken: a counter begins anew with each process."""
    for step, after in pairwise(_steps(code) if iterators else ()):
        taken, asked = (step, after) if after.argval == "__next__" else (after, step)
        if taken.opname in LOADS and asked.argval in ("next", "__next__"):
            name = taken.argval[-1] if is_a(taken.argval, tuple) else taken.argval
            if name in iterators:
                yield Change(code.co_filename, _line(taken), f"next({name})", 0)


def _but_loaded(code: CodeType, changes: list[Change], made_of_given: frozenset[int]) -> list[Change]:
    """Return *changes* but for those where something is loaded once, if *code* finds that it is not there yet.

    What is *made_of_given*, by lines, is not loaded.
    """
    for name, lines in _asked_first(code) if changes else ():
        if any(each.line in lines and name in re.findall(r"\w+", each.how) for each in changes):
            changes = [each for each in changes if each.line not in lines or each.line in made_of_given]
    return changes


@lru_cache(maxsize=4096)
def _puts_given(code: CodeType, given: frozenset[str]) -> frozenset[int]:
    """Return the lines on which *code*, or a function in it, puts what was *given*, or is made of it, somewhere."""
    names, lines = set(given), set[int]()
    for part in _parts(_moves(code)) if given else ():
        if any(each.kind in (*LOADS, "LOAD_CLOSURE") and each.name in names for each in part):
            names |= {each.name for each in part if each.kind in ("STORE_FAST", "STORE_DEREF")}
            if any(each.kind in PUTS or (each.kind in ATTRIBUTES and each.name in MUTATORS) for each in part):
                lines |= {each.line for each in part}
    inner = [_puts_given(each, frozenset(names.intersection(each.co_freevars))) for each in code_within(code)]
    return frozenset(lines.union(*inner))


def _moves(code: CodeType) -> list[Move]:
    """Return the steps of *code*, two in one as two."""
    found = []
    for step in get_instructions(code):
        is_double = "FAST" in step.opname and is_a(step.argval, tuple)
        kinds = [f"{each}_FAST" for each in stores(step)] if is_double else [step.opname]
        names = step.argval if is_double else [step.argval]
        found += [Move(kind, name, _line(step)) for kind, name in zip(kinds, names, strict=True)]
    return found


def _parts(moves: list[Move]) -> Iterator[list[Move]]:
    """Yield *moves* in parts that each put away what they load, or jump."""
    begin = 0
    for at, (kind, _, _) in enumerate(moves):
        is_last = kind.startswith("STORE_") and at > 0 and moves[at - 1].kind not in SEVERAL
        if kind.startswith(("POP_", "JUMP_", "RETURN_")) or (is_last and not moves[at + 1].kind.startswith("STORE_")):
            yield moves[begin : at + 1]
            begin = at + 1


def _asked_first(code: CodeType) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield what *code*, or a function in it, asks for whether it is there, and the lines that run only if not."""
    steps = _steps(code)
    for at, step in enumerate(steps[1:], 1):
        name = _asked(steps[max(0, at - 4) : at])
        if name is not None and step.opname.endswith(IF_THERE):
            yield name, _lines(each for each in steps if step.offset < each.offset < step.argval)
        elif name is not None and step.opname.endswith(IF_MISSING) and _is_way(steps, step.argval):
            yield name, _lines(each for each in steps if each.offset >= step.argval)
    for each in code_within(code):
        yield from _asked_first(each)


def _asked(before: list[Instruction]) -> str | None:
    """Return the name that a jump behind these steps asks for, itself or by ``hasattr``."""
    step = before[-1]
    if step.opname == "CALL" and "hasattr" in (each.argval for each in before[:-2]):
        return str(before[-2].argval)
    return step.argval if step.opname in (LOADS | ATTRIBUTES) and is_a(step.argval, str) else None


def _is_way(steps: list[Instruction], offset: int) -> bool:
    """Whether one jump alone leads to *offset*: what stands before it has returned."""
    before = [each for each in steps if each.offset < offset]
    jumps = [each for each in steps if "JUMP" in each.opname and each.argval == offset]
    return len(jumps) == 1 and before[-1].opname in ENDS


def _lines(steps: Iterable[Instruction]) -> frozenset[int]:
    return frozenset(map(_line, steps))
