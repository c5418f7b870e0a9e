"""From ``MODULE:APP`` or ``path/to/file.py:APP`` to an `App`.

A file is imported as a module of its own name with its folder on the path, not run as a script: what a store refers to
by module and name must be found there again by the next process. Where the store is that of a script
(`hosting.cli.scripts`), the script is ``__main__``.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from hosting.app import App, made
from hosting.cli.packages import MAIN, name_above, package_of, program_of
from hosting.cli.scripts import is_script, load_script
from hosting.cli.wording import BadUsage, extra_of
from reliable_rx.class_of import is_a
from reliable_rx.errors import ReliableRxError, described
from reliable_rx.functions.imports import own_frame
from reliable_rx.reliable import Source

EXAMPLE = "give MODULE:APP, such as flights:app, or path/to/flights.py:app"


def load_app(where: str) -> App:
    """Import the app named by *where*. *Raises* `BadUsage`."""
    place, _, name = where.rpartition(":") if is_named(where) else (where, "", "app")
    module = load_module(place)
    found = getattr(module, name, None)
    if found is None:
        apps = [key for key, value in vars(module).items() if isinstance(value, App)]
        hint = f"it has {', '.join(f'{place}:{key}' for key in apps)}" if apps else f"define {name} = App() there"
        raise BadUsage(f"{place} has no {name!r}; {hint}")
    app = found_by(where, found) if callable(found) and not isinstance(found, App) else found
    if not isinstance(app, App):
        raise BadUsage(f"{where} is a {type(app).__name__}, not an App (nor a function that returns one); {EXAMPLE}")
    return app


def found_by(where: str, function: Callable[[], object]) -> object:
    """Return what the function that *where* names returns. *Raises* `BadUsage` for what is no error of ours."""
    try:
        return function()
    except ReliableRxError:
        raise
    except (Exception, SystemExit) as error:
        raise BadUsage(f"{where} returns no app: {described(error)} ({own_place(error)}); mend it") from error


def load_for_store(where: str) -> App:
    """Load the app or script to which a store belongs, so that what the store names is found. *Raises* `BadUsage`.

    A file without an ``app``, a package's ``__main__``, and what is named ``file.py:__main__`` or
    ``package.module:__main__`` is a script: it is loaded, and not run.
    """
    reach(os.getcwd())
    place, _, name = where.rpartition(":") if is_named(where) else (where, "", "")
    if not is_file(place):
        named = name == MAIN or (not name and place.rpartition(".")[2] == MAIN)
        program = program_of(place) if named else None
        if program is None or program.origin is None:
            return load_app(where)
        return load_script(Path(program.origin), program.parent or "")
    path = Path(place).resolve()
    if not path.is_file() or not (MAIN in (name, path.stem) or (not name and is_script(path))):
        return load_app(where)
    package = package_of(path)
    if package.name:
        sys.path.append(str(path.parent))  # for what is started as a file: behind, as its names may be those of others
    reach(str(package.above))
    return load_script(path, package.name)


@dataclass(frozen=True, slots=True)
class DeclaredSource:
    """The source *name* of the app that *where* names; made by calling this, in any process. *Raises* `BadUsage`."""

    where: str
    name: str

    def __call__(self) -> Source:
        app = load_app(self.where)
        if self.name not in app.sources:
            hint = "it is pushed into, and lies in the store of its app; " if self.name in app.pushed else ""
            known = ", ".join(app.sources) or "none"
            raise BadUsage(f"{self.where} has no source {self.name!r} to read by itself; {hint}there are: {known}")
        source: Source = made(app.sources[self.name], "partitions")
        return source


def is_named(where: str) -> bool:
    """Whether *where* names an app behind a colon (``C:\\flights.py`` does not)."""
    return ":" in where and where.rpartition(":")[2].isidentifier()


def name_of(where: str) -> str:
    """Return a short name for the app.

    >>> name_of("examples/flights.py:app"), name_of("shop.orders:app"), name_of("shop:night")
    ('flights', 'orders', 'shop')
    """
    place = where.rpartition(":")[0] if is_named(where) else where
    return Path(place).stem if is_file(place) else place.rpartition(".")[2]


def is_file(place: str) -> bool:
    return place.endswith(".py") or os.sep in place


def load_module(place: str) -> ModuleType:
    """Import a module by name or by file."""
    if not place:
        raise BadUsage(f"no module is named; {EXAMPLE}")
    reach(os.getcwd())
    if not is_file(place):
        return import_named(place, place)
    path = Path(place).resolve()
    if path.stem == MAIN:
        raise BadUsage(f"{place} is a program of its own, which python starts; {EXAMPLE}, which declares the app")
    if not path.is_file():
        raise BadUsage(f"there is no file {place} (looked from {os.getcwd()}); {EXAMPLE}")
    if not path.stem.isidentifier():
        raise BadUsage(f"{place} cannot be imported under the name {path.stem!r}; rename the file to an identifier")
    reach(str(path.parent))
    module = import_named(path.stem, place, path)
    if Path(getattr(module, "__file__", None) or "").resolve() != path:
        raise BadUsage(f"another module is already called {path.stem!r}; rename {place}")
    return module


def reach(folder: str) -> None:
    """Let modules in *folder* be imported."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


def import_named(name: str, shown: str, path: Path | None = None) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        within = None if path is None else name_above(path, error)
        if within is not None:
            message = f"{shown} is a module of a package ({described(error)}, {own_place(error)})"
            raise BadUsage(f"{message}; give {within}") from error
        if not isinstance(error, ModuleNotFoundError):
            raise cannot(shown, error) from error
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise BadUsage(f"there is no module {name!r} (looked from {os.getcwd()}); {EXAMPLE}") from error
        extra = extra_of(error)
        how = "install it" if extra is None else f"run: pip install 'reliable-rx[{extra}]'"
        raise BadUsage(f"{shown} imports {error.name!r}, which is not installed; {how}") from error
    except (Exception, SystemExit) as error:
        raise cannot(shown, error) from error


def cannot(shown: str, error: BaseException) -> BadUsage:
    if is_a(error, SystemExit):
        return BadUsage(
            f"{shown} ends the process when it is imported: {described(error)} ({own_place(error)}); do that below "
            f'if __name__ == "__main__" only'
        )
    return BadUsage(f"{shown} cannot be imported: {described(error)} ({own_place(error)}); mend it")


def own_place(error: BaseException) -> str:
    """Return where *error* comes from: the last line on its way that is the user's own."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    at = own_frame(error)
    if at is None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{last.filename}:{last.lineno}"
    return f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}"
