"""Small wrong changes to a module, one at a time: what a test suite that means something notices.

A mutant is known by its function, its kind and the text that it changes, not by its line, so that a list of explained
survivors outlives other edits. Only code is changed: docstrings, annotations, messages of errors, `__slots__` and what
is imported for types alone are left as they are, since no behaviour depends on them.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "-", ast.Sub: "+", ast.Mult: "//", ast.FloorDiv: "*", ast.Div: "*", ast.BitOr: "&", ast.BitAnd: "|",
}  # fmt: skip
NOT_CODE = ("TYPE_CHECKING", "__slots__", "__all__")


@dataclass(frozen=True)
class Mutant:
    """One change: what stands between the offsets *start* and *end* of the file becomes *new*."""

    path: str
    function: str
    kind: str
    old: str
    new: str
    start: int
    end: int
    within: str
    line: int
    ordinal: int = 0

    @property
    def key(self) -> str:
        """Its name in the list of explained survivors."""
        within = " ".join(self.within.split())[:80]
        return f"{self.path}::{self.function}::{self.kind}::{within}" + (f"#{self.ordinal}" if self.ordinal else "")

    def apply(self, text: str) -> str:
        """Return the text of the file with the change."""
        return text[: self.start] + self.new + text[self.end :]


def mutants(root: Path, path: Path) -> list[Mutant]:
    """Return all mutants of a module, in the order of the text."""
    text = path.read_text()
    found = Visitor(path.relative_to(root).as_posix(), text)
    found.visit(ast.parse(text))
    seen: Counter[str] = Counter()
    numbered = []
    for each in sorted(found.mutants, key=lambda one: (one.start, one.kind)):
        numbered.append(Mutant(**{**vars(each), "ordinal": seen[each.key]}))
        seen[each.key] += 1
    return [each for each in numbered if is_python(each.apply(text))]


def is_python(text: str) -> bool:
    try:
        compile(text, "mutant", "exec")
    except SyntaxError:
        return False
    return True


class Visitor(ast.NodeVisitor):
    """Collects the mutants of one module."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self.inside: list[str] = []
        self.mutants: list[Mutant] = []
        self.line_starts = [0]
        for line in text.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))

    def offset(self, line: int, column: int) -> int:
        """Return where a position lies in the text; columns count bytes."""
        start = self.line_starts[line - 1]
        encoded = self.text[start : self.line_starts[line]].encode()
        return start + len(encoded[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        return (
            self.offset(node.lineno, node.col_offset),
            self.offset(node.end_lineno or node.lineno, node.end_col_offset or 0),
        )

    def put(self, node: ast.expr | ast.stmt, kind: str, new: str, span: tuple[int, int] | None = None) -> None:
        start, end = span or self.span(node)
        function = ".".join(self.inside) or "<module>"
        old, within = self.text[start:end], self.text[slice(*self.span(node))]
        self.mutants.append(Mutant(self.path, function, kind, old, new, start, end, within, node.lineno))

    # -- where nothing is changed

    def visit_body(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.inside.append(node.name)
        for each in node.body:
            self.visit(each)
        self.inside.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = visit_body

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave the words of errors alone."""

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(each, ast.Name) and each.id in NOT_CODE for each in node.targets):
            self.visit(node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone."""

    # -- what is changed

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if isinstance(node.value, ast.Call):
            self.put(node, "leave out", "pass")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for op, left, right in zip(node.ops, sides, sides[1:], strict=False):
            gap = (self.span(left)[1], self.span(right)[0])
            if type(op) in COMPARISONS and not set("()") & set(self.text[slice(*gap)]):
                self.put(node, "compare", f" {COMPARISONS[type(op)]} ", gap)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        gap = (self.span(node.left)[1], self.span(node.right)[0])
        if type(node.op) in ARITHMETIC and not set("()") & set(self.text[slice(*gap)]):
            self.put(node, "arithmetic", f" {ARITHMETIC[type(node.op)]} ", gap)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = " and " if isinstance(node.op, ast.Or) else " or "
        for left, right in zip(node.values, node.values[1:], strict=False):
            gap = (self.span(left)[1], self.span(right)[0])
            if not set("()") & set(self.text[slice(*gap)]):
                self.put(node, "and or", word, gap)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self.put(node, "not", self.text[slice(*self.span(node.operand))])
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.put(node, "constant", str(not node.value))
        elif isinstance(node.value, int):
            self.put(node, "constant", str(node.value + 1))

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.unparse(node.test):
            return
        for value in ("True", "False"):
            self.put(node, f"if {value.lower()}", value, self.span(node.test))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            self.put(node, "return nothing", "return None")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self.put(node, "loop", "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.put(node, "loop", "break")

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.put(node, "leave out", "pass")
        self.generic_visit(node)


def every_mutant(root: Path, folders: tuple[str, ...], leave_out: tuple[str, ...] = ()) -> Iterator[Mutant]:
    """Yield the mutants of all modules below *folders*, in a fixed order."""
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            if not path.relative_to(root).as_posix().startswith(leave_out):
                yield from mutants(root, path)
