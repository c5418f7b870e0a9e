"""The modules of the user's, and those of them that a function imports in its body.

What a function's body imports is found in its code, and imported then, as it would be when the function runs: whether
that has happened before must not tell two identities apart. A function that came out of a store has the modules of its
day beside its globals (`checkpoint.format.by_value`), under the names that `stored_as` gives.
"""

from __future__ import annotations

import importlib
import sys
from dis import get_instructions
from functools import lru_cache
from importlib.util import find_spec, resolve_name
from types import CodeType, FunctionType, ModuleType, TracebackType

OURS = frozenset(("reliable_rx", "checkpoint", "hosting", "spark_bridge"))
BESIDE_US = frozenset(("cloudpickle", "reactivex", "typing_extensions"))
"""What we are installed with, be it in a folder of another name (`pip install --target`)."""
INSTALLED = ("site-packages", "dist-packages")


def is_own_module(name: str | None) -> bool:
    """Whether the module that has *name* now is the user's: neither the standard library's, nor installed, nor ours.

    What runs a program may put another ``__main__`` in the place of its own, so the answer goes with the file.

    >>> is_own_module("json"), is_own_module("reliable_rx.query.query")
    (False, False)
    """
    if not name:
        return False
    file = getattr(sys.modules.get(name), "__file__", None)
    return _is_own(name, file if isinstance(file, str) else None)


@lru_cache(maxsize=4096)
def _is_own(name: str, file: str | None) -> bool:
    return may_be_own(name) and (file is None or not any(each in file for each in INSTALLED))


def may_be_own(name: str) -> bool:
    top = name.partition(".")[0]
    return top not in OURS | BESIDE_US and (top not in sys.stdlib_module_names or top == "__main__")


def own_frame(error: BaseException) -> TracebackType | None:
    """Return the last place on the way of *error* that is the user's; None if it has passed none."""
    found, at = None, error.__traceback__
    while at is not None:
        if is_own_module(at.tb_frame.f_globals.get("__name__")):
            found = at
        at = at.tb_next
    return found


def stored_as(name: str) -> str:
    """Return the key under which the globals of a stored function have a module that its body imports."""
    return f"import {name}"


def imported(function: FunctionType) -> list[ModuleType]:
    """Return the modules of the user's that the body of *function* imports; those of its day if it was stored."""
    modules = []
    for name, level, names in imports(function.__code__):
        absolute = absolute_name(function, name, level)
        if absolute is None or not may_be_own(absolute):
            continue
        stored = function.__globals__.get(stored_as(absolute))
        module = stored if isinstance(stored, ModuleType) else own_module(absolute)
        if module is None:
            continue
        for each in names or ():
            if not hasattr(module, each) and stored is None:
                own_module(f"{absolute}.{each}")  # a module of a package
        top = absolute if names is not None else absolute.partition(".")[0]
        modules.append(module if top == absolute else function.__globals__.get(stored_as(top)) or sys.modules[top])
    return modules


def absolute_name(function: FunctionType, name: str, level: int) -> str | None:
    """Return what a relative import leads to; None if it leads nowhere."""
    if level == 0:
        return name
    try:
        return resolve_name("." * level + name, function.__globals__.get("__package__") or "")
    except ImportError:
        return None


def own_module(name: str) -> ModuleType | None:
    """Import a module if it is the user's; None if it is not, or cannot be imported."""
    try:
        if name not in sys.modules:
            spec = find_spec(name)
            if spec is None or any(each in (spec.origin or "") for each in INSTALLED):
                return None
        return importlib.import_module(name) if is_own_module(name) else None
    except Exception:  # of a module that stands in a branch which is never run, or that needs one which is not there
        return None


Import = tuple[str, int, tuple[str, ...] | None]


@lru_cache(maxsize=4096)
def imports(code: CodeType) -> tuple[Import, ...]:
    """Return what *code* imports, also in the functions that it makes: name, level, and the names that it takes."""
    found: list[Import] = []
    constants: list[object] = []
    for each in get_instructions(code):
        if each.opname == "IMPORT_NAME":
            level, names = constants[-2:]
            found.append((each.argval, level, names))  # type: ignore[arg-type]
        elif each.opname.startswith("LOAD_"):
            constants.append(each.argval)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.extend(imports(constant))
    return tuple(found)
