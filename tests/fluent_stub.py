"""Writes `reliable_rx/fluent_methods.pyi`: what type checkers, and so editors, know of the methods of a query.

The methods are made of the operators when `reliable_rx` is imported; a checker runs nothing, so it is told. An operator
that is ``(parameters) -> Callable[[Observable[A]], Query[B]]`` is a method ``(self: Observable[A], parameters) ->
Query[B]``, overload by overload, so nothing is said twice and element types flow as they do in a pipe. `make stubs`
runs this, and `test_fluent_types.py` fails when the file is old. Rejected: RxPY's mixins as they are, by which a `map`
leaves the queries, and which know none of our parameters; descriptors with a `ParamSpec`, which lose the overloads.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from reliable_rx import operators
from reliable_rx.query import fluent

STUB = Path(__file__).parent.parent / "reliable_rx" / "fluent_methods.pyi"
LINE_LENGTH_MAX = 120
PIPED, OVERLOADED, STAGE = 16, 9, "Stage"
HEAD = '''\
# Written by tests/fluent_stub.py from the operators: change those, then run `make stubs`.
# mypy: disable-error-code="misc, override, overload-cannot-match, overload-overlap"
# pyright: reportIncompatibleMethodOverride=false, reportInconsistentOverload=false, reportOverlappingOverload=false
# pyright: reportGeneralTypeIssues=false, reportRedeclaration=false
"""The methods of a query, as type checkers see them; at run time they are made by `reliable_rx.query.fluent`."""

'''
CLASS = '''

class Fluent(Piped[T_co]):
    """Every operator as a method: what it is given the sequence for is `self`."""
'''


def main() -> None:
    """Write the file."""
    STUB.write_text(stub())


def stub() -> str:
    """Return the text of the file."""
    names = Names()
    names.add("T_co", "from reliable_rx.query.piping import T_co")
    names.add("Piped", "from reliable_rx.query.piping import Piped")
    methods = [line for name in operators.__all__ for line in method(name, names)]
    return "\n".join([HEAD + str(names) + "\n" + stages() + CLASS, *methods, *pipes(), ""])


def stages() -> str:
    """Return what a pipe is after each of its operators: what it was before, where there is no further one."""
    made = [f'{STAGE}{number} = TypingVar("{STAGE}{number}", default={before})' for number, before in numbered()]
    imports = ["from typing import Self", "from typing_extensions import TypeVar as TypingVar"]
    return "\n".join([*imports, "MYPY: bool", *made])


def numbered() -> Iterator[tuple[int, str]]:
    for number in range(1, PIPED + 1):
        yield number, f"{STAGE}{number - 1}" if number > 1 else "Any"


def pipes() -> Iterator[str]:
    """Yield `pipe`, twice, since the checkers differ in where they know the argument of a lambda inside an operator.

    mypy does if the method has one signature, so that the operators it may do without have defaults. pyright does if
    each operator is expected to take the class that it names, be it overloads or not: the elements are passed on first,
    and then whatever the functions return.
    """
    yield "    if MYPY:  # which mypy takes for true, and pyright for nothing: it takes what comes last"
    yield "        def pipe("
    yield "            self,"
    yield f"            op1: Callable[[Self], {STAGE}1] = ...,"
    for number in range(2, PIPED + 1):
        yield f"            op{number}: Callable[[{STAGE}{number - 1}], {STAGE}{number}] = ...,"
    yield "            /,"
    yield f"            *operators: Callable[[{STAGE}{PIPED}], {STAGE}{PIPED}],"
    yield f"        ) -> {STAGE}{PIPED}: ..."
    yield "    else:"
    yield "        @overload"
    yield "        def pipe(self, /) -> Self: ..."
    for first, taken, given in (("Observable[T_co]", "Observable[{}]", "Query[{}]"), ("Self", "{}", "{}")):
        for count in range(1, OVERLOADED + 1):
            letters = [f"{STAGE}{number}" for number in range(1, count + 1)]
            inputs = [first, *map(taken.format, letters)]
            outputs = [*map(given.format, letters[:-1]), letters[-1]]
            yield "        @overload"
            yield "        def pipe("
            yield "            self,"
            for number, (before, after) in enumerate(zip(inputs, outputs, strict=False), 1):
                yield f"            op{number}: Callable[[{before}], {after}],"
            yield "            /,"
            yield f"        ) -> {letters[-1]}: ..."
    yield "        @overload"
    yield "        def pipe(self, /, *operators: Callable[[Any], Any]) -> Any: ..."


class Names:
    """What the annotations name, and the lines that provide it."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}

    def add(self, name: str, line: str) -> None:
        assert self.lines.setdefault(name, line) == line, f"{name} is two things: {line!r}, {self.lines[name]!r}"

    def __str__(self) -> str:
        imports = [line for line in self.lines.values() if line.startswith("from ")]
        variables = [line for line in self.lines.values() if not line.startswith("from ")]
        return "\n".join([*sorted(set(imports)), "", *sorted(variables)])


def method(name: str, names: Names) -> Iterator[str]:
    """Yield the lines of the method that is the operator *name*."""
    own = name in vars(fluent)
    module = fluent if own else inspect.getmodule(getattr(operators, name))
    assert module is not None, name
    *overloads, whole = definitions(module)[name if own else getattr(operators, name).__name__]
    summary = (ast.get_docstring(whole) or "").partition("\n\n")[0]
    for number, each in enumerate(overloads or [whole]):
        signature = each if own else with_self(each)
        for found in used(signature):
            provide(found, module, names)
        if overloads:
            yield "    @overload"
            names.add("overload", "from typing import overload")
        yield from shown(name, signature, "" if number else summary)


@cache
def definitions(module: ModuleType) -> dict[str, list[ast.FunctionDef]]:
    """Return the functions of a module by name: their overloads, and last what is run."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for each in ast.parse(inspect.getsource(module)).body:
        if isinstance(each, ast.FunctionDef):
            found.setdefault(each.name, []).append(each)
    return found


def with_self(operator: ast.FunctionDef) -> ast.FunctionDef:
    """Return an operator as a method, by what it says that it returns."""
    returned = operator.returns
    is_function = isinstance(returned, ast.Subscript) and ast.unparse(returned.value) == "Callable"
    assert is_function, f"{operator.name} does not say what it makes of a sequence"
    taken, given = returned.slice.elts  # type: ignore[union-attr]
    made = ast.parse(ast.unparse(operator)).body[0]
    assert isinstance(made, ast.FunctionDef)
    first = ast.arg("self", annotation=taken.elts[0])
    (made.args.posonlyargs or made.args.args).insert(0, first)
    made.returns = given
    return made


def used(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names in a signature."""
    for part in (function.args, function.returns):
        assert part is not None
        for each in ast.walk(part):
            if isinstance(each, ast.Name):
                yield each.id


def provide(name: str, module: ModuleType, names: Names) -> None:
    """Make *name* known as *module* does."""
    value = getattr(module, name, None)
    if isinstance(value, TypeVar) or type(value).__name__ == "TypeVarTuple":
        kind = type(value).__name__
        names.add(kind, f"from typing import {kind}")
        bound = ", bound=Any" if getattr(value, "__bound__", None) is Any else ""
        names.add(name, f'{name} = {kind}("{name}"{bound})')
    elif name not in names.lines and not hasattr(builtins, name):
        names.add(name, f"from {origin(name, module)} import {name}")
    elif name in names.lines:
        assert known(name, names) == value, f"{name} is another in {module.__name__}"


def origin(name: str, module: ModuleType) -> str:
    """Return from where *module* has *name*."""
    for each in ast.parse(inspect.getsource(module)).body:
        if isinstance(each, ast.ImportFrom) and any((one.asname or one.name) == name for one in each.names):
            assert each.module is not None
            return each.module
    return module.__name__


def known(name: str, names: Names) -> Any:
    """Return what a line of imports provides."""
    space: dict[str, Any] = {}
    exec(names.lines[name], space)
    return space[name]


def shown(name: str, function: ast.FunctionDef, summary: str) -> Iterator[str]:
    """Yield the lines of a method, with a line a parameter where it is long."""
    function.decorator_list, function.body = [], [ast.Expr(ast.Constant(...))]
    returns = ast.unparse(function.returns) if function.returns is not None else ""
    head, result = f"    def {name}(", f") -> {returns}:{'' if summary else ' ...'}"
    arguments = ast.unparse(function.args)
    if len(head + arguments + result) <= LINE_LENGTH_MAX:
        yield head + arguments + result
    else:
        yield head
        yield from (f"        {each}," for each in parted(arguments))
        yield "    " + result
    if summary:
        words = re.sub(r"\s+", " ", summary)
        yield f'        """{words}"""' if len(words) < LINE_LENGTH_MAX - 14 else f'        """{words}"""  # noqa: E501'


def parted(arguments: str) -> Iterator[str]:
    """Yield the parameters of a signature one by one."""
    depth, start = 0, 0
    for at, letter in enumerate(arguments):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            yield arguments[start:at].strip()
            start = at + 1
    yield arguments[start:].strip()


if __name__ == "__main__":
    main()
