"""A script as what it is to its store: ``__main__``, without what it does when it is started.

What a script keeps refers to its classes as ``__main__.Name``, and what is written for it must do so too. So it is
loaded under that name, without the part behind ``if __name__ == "__main__"``. Where there is no such part the script
does its work among its definitions: then these alone are loaded, with what they need. Rejected: another name with an
alias, as multiprocessing does (what is written then has the other name).
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import ModuleType

from hosting.app import App
from hosting.cli.packages import MAIN
from hosting.cli.wording import BadUsage
from reliable_rx.errors import described

DEFINES = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MAKES = frozenset(("namedtuple", "NamedTuple", "Enum", "IntEnum", "StrEnum", "make_dataclass", "NewType", "TypeVar"))


def is_script(path: Path) -> bool:
    """Whether a file declares no ``app``, so that it is no module that hosts one. *Raises* `BadUsage`."""
    for each in parsed(path).body:
        names = [at.id for target in targets(each) for at in ast.walk(target) if isinstance(at, ast.Name)]
        if "app" in names or getattr(each, "name", "") == "app":
            return False
        if isinstance(each, ast.ImportFrom) and any((at.asname or at.name) == "app" for at in each.names):
            return False
    return True


def load_script(path: Path, package: str = "") -> App:
    """Load a script of *package* as ``__main__``; return the `App` that it has, if any. *Raises* `BadUsage`."""
    tree = parsed(path)
    guarded = [each for each in tree.body if is_guard(each)]
    if guarded:
        tree.body = [part for each in tree.body for part in kept(each)]
    else:
        tree.body = [each for each in tree.body if only_defines(each)]
    module = ModuleType(MAIN)
    module.__dict__.update(__file__=str(path), __loaded__=True, __package__=package)
    sys.modules[MAIN] = module
    try:
        exec(compile(tree, str(path), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        hint = "mend it" if guarded else 'put what it does behind if __name__ == "__main__"'
        raise BadUsage(f"{path} cannot be loaded: {described(error)}; {hint}") from error
    apps = [value for value in vars(module).values() if isinstance(value, App)]
    named = vars(module).get("app")
    return named if isinstance(named, App) else apps[0] if len(apps) == 1 else App()


def is_loaded() -> bool:
    """Whether ``__main__`` is a script that was loaded here."""
    return "__loaded__" in vars(sys.modules[MAIN])


def parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError) as error:
        raise BadUsage(f"{path} cannot be read: {error}; mend it") from error


def is_guard(part: ast.stmt) -> bool:
    """Whether *part* is ``if __name__ == "__main__"``."""
    if not isinstance(part, ast.If) or not isinstance(part.test, ast.Compare):
        return False
    sides = [part.test.left, *part.test.comparators]
    names = {each.id for each in sides if isinstance(each, ast.Name)}
    texts = {each.value for each in sides if isinstance(each, ast.Constant)}
    return names == {"__name__"} and texts == {MAIN} and isinstance(part.test.ops[0], ast.Eq)


def kept(part: ast.stmt) -> list[ast.stmt]:
    """Return what is left of *part* without what a script does when it is started."""
    return part.orelse if isinstance(part, ast.If) and is_guard(part) else [part]


def only_defines(part: ast.stmt) -> bool:
    """Whether *part* does nothing but give names: to modules, functions, classes, and to data that calls nothing."""
    if isinstance(part, DEFINES):
        return True
    if isinstance(part, (ast.If, ast.Try)):  # such as imports for one version or another
        return all(only_defines(each) for each in ast.iter_child_nodes(part) if isinstance(each, ast.stmt))
    calls = [each.func for each in ast.walk(part) if isinstance(each, ast.Call)]
    return bool(targets(part)) and all(getattr(each, "id", getattr(each, "attr", "")) in MAKES for each in calls)


def targets(part: ast.stmt) -> list[ast.expr]:
    """Return what an assignment gives a value to."""
    if isinstance(part, ast.Assign):
        return part.targets
    return [part.target] if isinstance(part, ast.AnnAssign) and part.value is not None else []
