"""The package that a file is a module of: by the folders with an ``__init__.py``, and by its relative imports.

A folder without ``__init__.py`` is a package too if what lies in it says so by a relative import; its name is then that
from the current folder on, as ``python -m`` has it.
"""

from __future__ import annotations

import ast
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

MAIN = "__main__"


class Package(NamedTuple):
    """The dotted *name* of a package, empty if there is none, and the folder *above* it."""

    name: str
    above: Path


def package_of(path: Path) -> Package:
    """Return the package that the file *path* is part of."""
    folders = path.parents
    count, wanted = 0, level_of(path)
    while (folders[count] / "__init__.py").is_file() and count + 1 < len(folders):
        count += 1
    if count < wanted:
        here = Path.cwd()
        count = min(len(path.relative_to(here).parent.parts) if path.is_relative_to(here) else 0, len(folders) - 1)
        count = max(count, min(wanted, len(folders) - 1))
    return Package(".".join(each.name for each in reversed(folders[:count])), folders[count])


def name_above(path: Path, error: ImportError) -> str | None:
    """Say as what to give a file whose import raised *error* since it is a module of a package; None if it is not.

    Its imports are relative, or name a folder that it lies in.
    """
    found = package_of(path)
    if error.name is not None:
        names = [each.name for each in path.parents]
        if error.name not in names:
            return None
        count = names.index(error.name) + 1
        found = Package(".".join(reversed(names[:count])), path.parents[count])
    if not found.name:
        return None
    where = "" if found.above == Path.cwd() else f", in the folder {found.above}"
    return f"{found.name}.{path.stem}{where}"


def level_of(path: Path) -> int:
    """Return how many packages the relative imports of a file need; 0 if it has none, or cannot be read."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return 0
    return max((each.level for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)), default=0)


def dotted(path: Path) -> str:
    """Return the name of the module that the file *path* is."""
    package = package_of(path).name
    return f"{package}.{path.stem}" if package else path.stem


def program_of(place: str) -> ModuleSpec | None:
    """Return what ``python -m`` starts for the module or package *place*; None if there is none that is a file."""
    try:
        spec = find_spec(place)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{place}.{MAIN}")
    except Exception:  # a package above it raises, or there is none: who imports it says so
        return None
    return spec if spec is not None and spec.has_location else None
