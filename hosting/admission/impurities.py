"""Functions of a plan that ask what is another thing in a replay: the computer's clock, chance, a service.

A replay gives them another answer, and a query whose outputs depend on it ends with `NondeterminismDetected`, in the
first night in which something crashes. So it is told when the query is created, by the byte code of the user's own
functions and of those that they call by name. Told and not refused: what is only logged decides no output.
Rejected: to tell of files (a table is loaded once) and of `time.monotonic` and its kin (what is measured is logged).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from datetime import date, datetime
from dis import get_instructions
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

from reliable_rx.class_of import attribute_of, bases_of, is_a
from reliable_rx.functions.code_names import code_within, empty, is_awaited
from reliable_rx.functions.element_changes import function_of
from reliable_rx.functions.reach import READERS_MAX, attribute, globals_of, is_own, reached
from reliable_rx.operators.contract.operator import Stage
from reliable_rx.runtime.plan import Plan

FOR_EFFECTS = frozenset(("do_action", "finally_action", "map_async"))
"""Operators whose functions are there for effects, or whose answers are recorded."""
REQUESTS = ("get", "post", "put", "patch", "delete", "head", "request")
ASKED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "a clock": {"time": ("time", "time_ns")},
    "chance": {
        "uuid": ("uuid1", "uuid4"), "os": ("urandom",),
        "secrets": ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits", "choice"),
    },
    "a service": {"requests": REQUESTS, "httpx": REQUESTS, "urllib.request": ("urlopen",)},
}  # fmt: skip
INSTEAD = {
    "a clock": "take the time from the event, or from the operator timestamp(), which a replay repeats",
    "chance": "make it of the event (uuid5, a Random seeded by it), or ask in map_async, whose answers are recorded",
    "a service": "ask in map_async, whose answers are recorded",
}
OF_DATES = ("now", "today", "utcnow")
OF_VALUES = frozenset(("key_mapper", "element_mapper", "comparer", "predicate", "condition", "iterate", "time_mapper"))
"""Parameters of stages whose functions return values; those of others return sequences, whose functions have nodes."""
LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_FAST", "LOAD_FAST_CHECK"))
ATTRIBUTES = frozenset(("LOAD_ATTR", "LOAD_METHOD"))
STILL = frozenset(("PRECALL", "EXTENDED_ARG", "CACHE", "PUSH_NULL"))
"""Instructions between what is loaded and an attribute of it."""
NOTHING: Any = object()


class Impurity(NamedTuple):
    """What a function asks, and where: *how* shows it."""

    path: str
    parameter: str
    asks: str
    how: str
    file: str
    line: int

    def __str__(self) -> str:
        place = f" in {self.file}, line {self.line}" if self.file else ""
        return (
            f"the {self.parameter} of {self.path} asks {self.asks} ({self.how}{place}), "
            f"which answers otherwise in a replay: if an output depends on it, the query ends with "
            f"NondeterminismDetected behind a crash; {INSTEAD[self.asks]}"
        )


class Load(NamedTuple):
    """A step of code that leads to something: by a *name* of its own, or as an attribute of what was loaded before."""

    name: str
    is_attribute: bool
    line: int


Asked = Iterator[tuple[str, str, str, int]]
"""What is asked, by which call, and the file and line of it."""


def impurities(plan: Plan) -> list[Impurity]:
    """Return what the functions of *plan*, the user's own, ask: the first thing of each."""
    found, reader = list[Impurity](), Reader()
    for node in plan.walk():
        for parameter, given in () if node.op.name in FOR_EFFECTS else _given(node.op):
            is_selector = isinstance(node.op, Stage) and parameter not in OF_VALUES
            asked = next(reader.given(given, is_selector=is_selector), None)
            if asked is not None:
                found.append(Impurity(node.path, parameter, *asked))
    return found


def _given(op: Any) -> Iterator[tuple[str, Any]]:
    """Yield what *op* is given that can be called, by its parameters."""
    for name in getattr(op, "__dataclass_fields__", ()):
        value = getattr(op, name, None)
        yield from ((name, part) for part in (value if type(value) is tuple else (value,)) if callable(part))


class Reader:
    """Reads code for what it asks, of the modules that are imported by now."""

    def __init__(self) -> None:
        self.asks: dict[int, str] = {}
        for asks, modules in ASKED.items():
            for module, names in modules.items():
                there = _space(module)
                self.asks |= {id(there[name]): asks for name in names if name in there}
        self.chance = _space("random").get("_inst", NOTHING)

    def given(self, value: Any, *, is_selector: bool) -> Asked:
        """Yield what a call of *value* asks; of what is a selector the functions are not its own that it hands on."""
        if (asks := self.what_asks(value)) is not None:
            yield asks, getattr(value, "__name__", "a function"), "", 0
        function = function_of(value)[0]
        if function is not None and is_selector and is_own(function):
            yield from self.in_code(function.__code__, function.__globals__, _closed(function), within=False)
        elif function is not None:
            yield from self.asked(function, set())

    def asked(self, function: FunctionType, seen: set[int]) -> Asked:
        """Yield what *function* asks, and what functions of the user's ask that it calls by name."""
        if id(function) in seen or len(seen) >= READERS_MAX or not is_own(function) or is_awaited(function.__code__):
            return
        seen.add(id(function))
        code, space = function.__code__, function.__globals__
        closed = _closed(function)
        named = [space.get(name, NOTHING) for name in globals_of(code)]
        if _has_imports(code) or any(map(self.is_near, [*named, *closed.values()])):
            yield from self.in_code(code, space, closed)
        for _, each in reached(function):
            if is_a(each, FunctionType):
                yield from self.asked(each, seen)

    def in_code(
        self, code: CodeType, space: Mapping[str, Any], closed: Mapping[str, Any], *, within: bool = True
    ) -> Asked:
        """Yield what *code* asks and, *within* it, functions that stand there."""
        known = {**closed, **{name: _found(*where) for name, where in _imports(code)}}
        value, path = NOTHING, ""
        for each in _loads(code):
            if each.is_attribute:
                if each.name in OF_DATES and is_of_dates(value, each.name):
                    yield "a clock", f"{path}.{each.name}", code.co_filename, each.line
                value, path = _part(value, each.name), f"{path}.{each.name}"
            else:
                is_local = each.name in code.co_varnames or each.name in code.co_cellvars
                value = known.get(each.name, NOTHING if is_local else space.get(each.name, NOTHING))
                path = each.name
            asks = self.what_asks(value)
            if asks is not None:
                yield asks, path, code.co_filename, each.line
        for part in code_within(code) if within else ():
            yield from self.in_code(part, space, known)

    def is_near(self, value: Any) -> bool:
        """Whether something that asks may be found at *value*."""
        return self.what_asks(value) is not None or is_date(value) or is_a(value, ModuleType)

    def what_asks(self, value: Any) -> str | None:
        """Return what a call of *value* asks; None if nothing that a replay does not repeat is known of it.

        >>> import random, time
        >>> [Reader().what_asks(each) for each in (time.time, random.choice, random.Random(7).choice, len)]
        ['a clock', 'chance', None, None]
        """
        if id(value) in self.asks:
            return self.asks[id(value)]
        is_method = is_a(value, (BuiltinFunctionType, MethodType))
        return "chance" if is_method and value.__self__ is self.chance else None


def is_date(value: Any) -> bool:
    """Whether *value* is `date`, `datetime` or a class made of them."""
    return is_a(value, type) and any(base is date for base in bases_of(value))


def is_of_dates(value: Any, name: str) -> bool:
    """Whether *name* of the class *value* is what `date` or `datetime` has under it."""
    return is_date(value) and any(attribute_of(value, name) is attribute_of(each, name) for each in (date, datetime))


def _part(value: Any, name: str) -> Any:
    """Return what *name* is of a module; other objects are not asked, since they may answer by code of their own."""
    found = attribute(value, name) if is_a(value, ModuleType) else None
    return NOTHING if found is None else found


def _found(module: str, name: str | None) -> Any:
    there = sys.modules.get(module, NOTHING)
    return there if name is None else _part(there, name)


def _space(module: str) -> Mapping[str, Any]:
    """Return what the *module* has, if it is imported; in its place may stand whatever keeps it from that."""
    there = sys.modules.get(module)
    return vars(there) if is_a(there, ModuleType) else {}


def _closed(function: FunctionType) -> Mapping[str, Any]:
    """Return what *function* closes over, as far as it is there by now."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if not empty(cell)}


def _has_imports(code: CodeType) -> bool:
    return bool(_imports(code)) or any(map(_has_imports, code_within(code)))


@lru_cache(maxsize=4096)
def _loads(code: CodeType) -> tuple[Load, ...]:
    """Return the steps of *code* that load something; what stands between two leads nowhere."""
    found, line = list[Load](), 0
    for step in get_instructions(code):
        line = (step.positions.lineno if step.positions is not None else None) or line
        if step.opname not in STILL:
            leads = step.opname in (LOADS | ATTRIBUTES) and is_a(step.argval, str)
            found.append(Load(step.argval if leads else "", step.opname in ATTRIBUTES, line))
    return tuple(found)


@lru_cache(maxsize=4096)
def _imports(code: CodeType) -> tuple[tuple[str, tuple[str, str | None]], ...]:
    """Return what *code* imports: name there, module, and what of the module."""
    found, module, name = list[tuple[str, tuple[str, str | None]]](), "", None
    for step in get_instructions(code):
        if step.opname == "IMPORT_NAME":
            module, name = step.argval, None
        elif step.opname == "IMPORT_FROM":
            name = step.argval
        elif step.opname.startswith("STORE_") and is_a(step.argval, str) and module:
            found.append((step.argval, (module if name else module.partition(".")[0], name)))
            module = module if name else ""
    return tuple(found)
