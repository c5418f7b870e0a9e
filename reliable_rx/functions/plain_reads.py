"""Which names a function only reads: it looks up in what it finds there, walks over it or compares it.

A function that fills a list of its own says nothing of the table that it reads, so that an edit of the table is an
edit. The proof is read from byte code, of CPython 3.11 to 3.13, and is simple: what is loaded by name is followed in a
straight line to the instruction that takes it off the stack, and that must be one that reads. Whatever else becomes of
it (it is bound to a variable, given to a function, a jump lies between, an instruction is not known here) counts as
not proven. Rejected: following values through variables and branches (a data-flow analysis for each interpreter).
"""

from __future__ import annotations

from dis import Instruction, get_instructions
from functools import lru_cache
from types import CodeType

LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR"))
PUSHES = {
    "LOAD_CONST": 1, "LOAD_FAST": 1, "LOAD_FAST_CHECK": 1, "LOAD_FAST_BORROW": 1, "LOAD_DEREF": 1, "LOAD_GLOBAL": 1,
    "LOAD_NAME": 1, "PUSH_NULL": 1, "LOAD_FAST_LOAD_FAST": 2, "NOP": 0, "CACHE": 0, "PRECALL": 0, "KW_NAMES": 0,
    "EXTENDED_ARG": 0,
}  # fmt: skip
"""How many values an instruction puts on the stack that takes none."""
TAKES = {
    "BINARY_SUBSCR": 2, "BINARY_OP": 2, "COMPARE_OP": 2, "CONTAINS_OP": 2, "IS_OP": 2, "BINARY_SLICE": 3, "GET_ITER": 1,
    "UNARY_NOT": 1, "UNARY_NEGATIVE": 1, "UNARY_INVERT": 1, "TO_BOOL": 1, "POP_JUMP_IF_FALSE": 1,
    "POP_JUMP_IF_TRUE": 1, "POP_JUMP_FORWARD_IF_FALSE": 1, "POP_JUMP_FORWARD_IF_TRUE": 1,
    "POP_JUMP_BACKWARD_IF_FALSE": 1, "POP_JUMP_BACKWARD_IF_TRUE": 1, "LOAD_ATTR": 1, "LOAD_METHOD": 1,
}  # fmt: skip
"""How many values an instruction takes off the stack that puts one there, or ends the line by a jump."""
COUNTED = frozenset(("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_SLICE", "BUILD_STRING"))
READ = frozenset(TAKES) - {"LOAD_ATTR", "LOAD_METHOD", "BINARY_OP", "UNARY_NEGATIVE", "UNARY_INVERT"}
READERS = frozenset((
    "get", "items", "keys", "values", "index", "count", "union", "intersection", "difference", "issubset",
    "issuperset", "isdisjoint",
))  # fmt: skip
"""Methods of containers that change nothing."""
PURE = frozenset(("len", "sum", "min", "max", "sorted", "any", "all", "list", "tuple", "set", "dict", "frozenset"))
"""Built-in functions that keep nothing of their argument but its elements."""


@lru_cache(maxsize=4096)
def plain_reads(code: CodeType) -> frozenset[str]:
    """Return the globals and attributes that *code* names, and reads in each place in a way that changes nothing.

    >>> def total(x, out=[]):
    ...     out.append(RATES[x] * len(NAMES))
    ...     SEEN[x] = x in NAMES
    >>> sorted(plain_reads(total.__code__))
    ['NAMES', 'RATES']
    """
    proven, refuted = set[str](), set[str]()
    instructions = list(get_instructions(code))
    for at, each in enumerate(instructions):
        if not isinstance(each.argval, str) or each.argval not in code.co_names:
            continue
        is_read = each.opname in LOADS and _is_read(instructions, at)
        (proven if is_read else refuted).add(each.argval)
    for inner in (each for each in code.co_consts if isinstance(each, CodeType)):
        proven |= plain_reads(inner)
        refuted |= frozenset(inner.co_names) - plain_reads(inner)
    return frozenset(proven - refuted)


def _is_read(instructions: list[Instruction], at: int) -> bool:
    """Whether what is loaded *at* is taken off the stack by an instruction that only reads it."""
    before, above = instructions[at - 1] if at else None, 0
    for each in instructions[at + 1 :]:
        name, arg = each.opname, each.arg or 0
        if each.is_jump_target:
            return False
        if name in PUSHES:
            above += PUSHES[name] + (name == "LOAD_GLOBAL" and arg & 1)
            continue
        calls = name == "CALL"
        taken = arg + 2 if calls else arg if name in COUNTED else TAKES.get(name)
        if taken is None:
            return False
        if taken > above:
            return _reads(each, above, before)
        above += 1 - taken + _is_method(each)
    return False


def _is_method(each: Instruction) -> bool:
    """Whether an instruction loads a method, and so puts two values on the stack."""
    return each.opname == "LOAD_METHOD" or (each.opname == "LOAD_ATTR" and "NULL" in (each.argrepr or ""))


def _reads(by: Instruction, above: int, before: Instruction | None) -> bool:
    """Whether the instruction *by* only reads what lies under *above* others; *before* is what came before it."""
    if by.opname == "CALL":
        return before is not None and before.opname == "LOAD_GLOBAL" and before.argval in PURE and above == 0
    if by.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        return by.argval in READERS
    if by.opname == "BINARY_OP":
        return "=" not in (by.argrepr or "")
    return by.opname in READ
