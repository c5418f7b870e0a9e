"""The text of a query's functions, by which an edit is told where byte code cannot be compared: by another Python.

What a query that fails is made of is stored with it as digests of syntax trees, one set for each name: of its own
functions and of what they reach in the user's modules. A text counts as that of a function only if it compiles, here
and now, to its very code; else nothing is said of that name. So two digests that differ are an edit, and two that are
equal are none as far as functions go; comments, layout and annotations do not count. Rejected: a hash of the whole
query without its byte code (what is left of it is not the same in every Python, and a query that only seems edited
would run again).
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from checkpoint.format.code import makers
from reliable_rx.functions.code_digest import code_digest, digest_of, joined
from reliable_rx.functions.reach import is_own_code
from reliable_rx.interrupts import let_through
from reliable_rx.query.identity import Writing
from reliable_rx.query.query import Node

ROOTS_MAX = 200
"""Of how many functions and classes the text is stored; a query of more has none."""
FILE_BYTES_MAX = 1 << 17
"""Of larger files no text is known: they take a third of a second and more to read, and evaluators wait for that."""
LEFT_OUT = frozenset(("ctx", "kind", "annotation", "returns", "type_comment", "type_params", "type_ignores"))
"""What of a syntax tree is not compared: it does nothing, or not every Python has it."""
INLINED = re.compile(r"<(?:list|dict|set)comp>\.(?:<locals>\.)?")
"""Scopes of comprehensions, which Python 3.12 and later do not have."""
Nodes = Mapping[tuple[str, int], Sequence[ast.AST]]
"""By name and first line, the syntax trees of a module's functions."""

KNOWN_MAX = 100
KNOWN: dict[int, tuple[Node, CodeText | None]] = {}
"""What was found of the newest: many queries share one plan, and fail together."""


class CodeText(NamedTuple):
    """What is known of the text of a query's code: who wrote it, its operators, its functions by name."""

    bytecode: int
    library: str
    operators: str
    functions: tuple[tuple[str, str], ...]


def text_of(node: Node) -> CodeText | None:
    """Return the text of a query's code as far as it is known here; None if it is too much, or cannot be walked."""
    known = KNOWN.get(id(node))
    if known is None:
        if len(KNOWN) >= KNOWN_MAX:
            KNOWN.clear()
        known = KNOWN[id(node)] = node, _text_of(node)
    return known[1]


def _text_of(node: Node) -> CodeText | None:
    try:
        functions = dict[str, set[str] | None]()
        for function in _functions(node):
            name = f"{function.__module__}.{INLINED.sub('', function.__qualname__)}"
            found = _tree_of(function.__code__)
            there = functions.setdefault(name, set())
            functions[name] = None if found is None or there is None else {*there, found}
    except BaseException as error:  # a query holds what its author wrote
        let_through(error)
        return None
    known = ((name, joined(sorted(trees))) for name, trees in sorted(functions.items()) if trees)
    operators = joined(each.op.name for each in _nodes(node))
    return CodeText(makers().bytecode, makers().reliable_rx, operators, tuple(known))


def was_mended(stored: Any, node: Node) -> bool:
    """Whether *node* is another query than the one whose text another Python has *stored*."""
    if not stored:
        return False
    there = CodeText(*stored)
    here = None if there.bytecode == makers().bytecode else text_of(node)
    if here is None:
        return False
    if here.library == there.library and here.operators != there.operators:
        return True
    functions = dict(here.functions)
    return any(functions.get(name, trees) != trees for name, trees in there.functions)


def _nodes(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += at.inputs[::-1]


def _functions(node: Node) -> Iterator[FunctionType]:
    """Give the user's functions that a query is made of, and that these reach. *Raises* `LookupError` for too many."""
    writing = Writing(shallow=True)
    writing.plan(node)
    writing.write_all()
    waiting, seen = writing.own, dict[int, Any]()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        if len(seen) >= ROOTS_MAX:
            raise LookupError(ROOTS_MAX)
        seen[id(each)] = each
        if isinstance(each, FunctionType) and is_own_code(each):  # a wrapper goes by the name of what it wraps
            yield each
        within = Writing(inline=True, shallow=True)
        within.reach(each)
        within.write_all()
        waiting += within.own


def _tree_of(code: CodeType) -> str | None:
    """Return a digest of the syntax tree of *code*; None if no text is known that is certainly its own."""
    linecache.checkcache(code.co_filename)
    text = "".join(linecache.getlines(code.co_filename))
    if not text or len(text) > FILE_BYTES_MAX:
        return None
    return _tree_in(text, code.co_filename, code.co_qualname, code_digest(code))


@lru_cache(maxsize=4096)
def _tree_in(text: str, file: str, name: str, digest: str) -> str | None:
    """Return a digest of the syntax tree of one function in a *text*; None where several differ."""
    try:
        nodes, codes = _parsed(text, file)
        found = [_node_of(each, nodes) for each in codes.get(name, ()) if code_digest(each) == digest]
        trees = {None if each is None else joined(_described(each)) for each in found}
    except RecursionError:
        return None
    return trees.pop() if len(trees) == 1 else None


@lru_cache(maxsize=4)  # a syntax tree takes many times the room of its text
def _parsed(text: str, file: str) -> tuple[Nodes, dict[str, list[CodeType]]]:
    """Return the syntax trees of all functions in a *text* by name and line, and by name what they are compiled to."""
    try:
        tree, code = ast.parse(text), compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return {}, {}
    nodes: dict[tuple[str, int], list[ast.AST]] = {}
    for each in ast.walk(tree):
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min(at.lineno for at in (each, *each.decorator_list))
            nodes.setdefault((each.name, first), []).append(each)
        elif isinstance(each, ast.Lambda):
            nodes.setdefault(("<lambda>", each.lineno), []).append(each)
    codes: dict[str, list[CodeType]] = {}
    for inner in _codes(code):
        codes.setdefault(inner.co_qualname, []).append(inner)
    return nodes, codes


def _node_of(code: CodeType, nodes: Nodes) -> ast.AST | None:
    """Return the syntax tree of *code*; None if it cannot be told which it is."""
    there = nodes.get((code.co_name, code.co_firstlineno), [])
    those = there if len(there) == 1 else [each for each in there if _holds(each, code)]
    return those[-1] if those else None


def _codes(code: CodeType) -> Iterator[CodeType]:
    waiting = [code]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += [each for each in at.co_consts if isinstance(each, CodeType)]


def _holds(node: ast.AST, code: CodeType) -> bool:
    """Whether the code stands within *node*; of several lambdas in a line, the last one that does is its own.

    `ast.walk` gives what is inside another node behind that.
    """
    if not isinstance(node, ast.Lambda):
        return True
    body = node.body
    first, last = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    places = [
        ((line, column), (end, end_column))
        for line, end, column, end_column in code.co_positions()
        if line is not None and end is not None and column is not None and end_column is not None
        if (column, end_column) != (0, 0)
    ]
    return bool(places) and all(first <= begin and end <= last for begin, end in places)


def _described(node: Any) -> Iterator[str]:
    """Write a syntax tree in a way that every Python writes the same."""
    if isinstance(node, list):
        yield f"[{len(node)}"
        for each in node:
            yield from _described(each)
    elif isinstance(node, ast.JoinedStr):
        yield "JoinedStr"
        text = ""
        for each in node.values:
            if isinstance(each, ast.Constant):
                text += str(each.value)
            else:
                yield text
                text = ""
                yield from _described(each)
        yield text
    elif isinstance(node, ast.AST):
        yield type(node).__name__
        for name in node._fields:
            value = getattr(node, name, None)
            if name not in LEFT_OUT and value not in (None, []):
                yield name
                yield from _described(value)
        if isinstance(node, ast.Constant):  # None is left out above, and True is written as 1 is
            yield type(node.value).__name__
    elif not isinstance(node, bytes):
        yield f"{type(node).__name__}:{node:x}" if type(node) is int else f"{type(node).__name__}:{node!r}"
    else:
        yield digest_of(node)
