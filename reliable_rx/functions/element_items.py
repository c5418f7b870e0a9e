"""What lies on the stack of `element_reader`, and what it finds: elements, their parts, calls that are handed them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dis import Instruction, get_instructions, opmap
from functools import lru_cache
from itertools import zip_longest
from types import CodeType
from typing import Any, NamedTuple

from reliable_rx.class_of import is_a

CHANGING = frozenset(
    opmap.get(each, -1)
    for each in (
        "STORE_SUBSCR", "DELETE_SUBSCR", "STORE_ATTR", "DELETE_ATTR", "STORE_SLICE", "CALL", "CALL_KW",
        "CALL_FUNCTION_EX",
    )
)  # fmt: skip
"""Instructions without one of which nothing is changed, nor handed on."""
BINARY, IN_PLACE = opmap["BINARY_OP"], 13
"""Of binary operations those from this one on are in place."""
CELL = "*"
"""What stands before the name of what a function closes over."""
SLICE = "slice"
ANSWERING = frozenset(("pop", "popitem", "setdefault"))
"""Methods whose result is used where they change their object."""
PARTS = frozenset(("get", "values"))
"""Methods that return what their object holds."""
LITERALS = frozenset(("BUILD_MAP", "BUILD_LIST", "BUILD_CONST_KEY_MAP", "LIST_EXTEND", "DICT_UPDATE"))
Place = int | str
"""Of an argument: its place, or its name."""
Given = tuple[tuple[str, int], ...]
"""Names of locals that hold elements, with their depths."""


class Change(NamedTuple):
    """One place that changes an element, *depth* items or attributes below it: *how* shows it."""

    file: str
    line: int
    how: str
    depth: int


class Item(NamedTuple):
    """What lies on the stack: an element (or a part of one), or what is called with it."""

    kind: str  # element, method, code, named, const, result, cleared
    shown: Any = None
    depth: int = 0
    of: Any = None


class Handed(NamedTuple):
    """A call of a function that *path* names, with elements among its arguments: place or name, and depth."""

    path: tuple[str, ...]
    given: tuple[tuple[Place, int], ...]
    spread: int | None
    """Of what stands behind a star, if that is an element."""
    change: Change


UNKNOWN = Item("")


def meeting(one: list[Item], other: list[Item]) -> list[Item]:
    """Return what is known on the stack where two ways meet; a handler's way knows only what it has put there."""
    shorter, longer = sorted((one, other), key=len)
    both = zip_longest(reversed(longer), reversed(shorter))
    return [known if same is None or same == known else UNKNOWN for known, same in both][::-1]


def stores(step: Instruction) -> list[str]:
    """Return what an instruction, which may be two in one, does with its locals: LOAD or STORE."""
    return [each for each in step.opname.split("_") if each in ("LOAD", "STORE")]


def key_of(key: Item) -> str:
    """Show the key of an item."""
    return repr(key.shown)[:40] if key.kind == "const" else "..."


@lru_cache(maxsize=4096)
def stored_in(code: CodeType) -> frozenset[str]:
    """Return the locals that *code* assigns itself."""
    steps, found = list(get_instructions(code)), set[str]()
    for at, each in enumerate(steps):
        if each.opname.startswith(("STORE_FAST", "STORE_DEREF")) and not (at and adds_literal(steps, at - 1)):
            names = each.argval if is_a(each.argval, tuple) else (each.argval,)
            found.update(name for kind, name in zip(stores(each), names, strict=True) if kind == "STORE")
    return frozenset(found)


def adds_literal(steps: Sequence[Instruction], at: int) -> bool:
    """Whether a step is ``|=`` or ``+=`` with a list or dict that is written out: what is on its left stays itself."""
    return steps[at].argrepr in ("|=", "+=") and at > 0 and steps[at - 1].opname in LITERALS


def pairs(steps: bytes) -> Iterable[tuple[int, int]]:
    """Return the instructions of raw byte code with their arguments."""
    return zip(steps[::2], steps[1::2], strict=True)


def may_change(code: CodeType) -> bool:
    """Whether there is anything to look for: most functions set nothing, and call nothing."""
    steps = code.co_code
    if not CHANGING.isdisjoint(steps[::2]) or any(op == BINARY and arg >= IN_PLACE for op, arg in pairs(steps)):
        return True
    return any(is_a(each, CodeType) and may_change(each) for each in code.co_consts)
