"""The user's classes of which this process has stored or digested values: in a store they go by name.

So a store may say what their code was (`hosting.evaluator.class_versions`). A class is noted when its values are first
taken apart, where a table by class is filled anyway: nothing is done for each value.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

from reliable_rx.class_of import is_a, module_of, qualname_of, space_of
from reliable_rx.functions.reach import attribute, is_own

CLASSES_MAX = 1000
"""So many are noted in a process; of others nothing is said."""


class MetClasses:
    """The classes that were met, in that order. Those whose names lead to others make room."""

    def __init__(self) -> None:
        self.count = 0
        """How many were noted so far."""
        self.left_out = ""
        """The first that found no room."""
        self._lock = threading.Lock()
        self._kinds: dict[int, tuple[int, Any]] = {}

    def meet(self, kind: Any) -> None:
        """Note *kind* if it is the user's, and a module has it by its name."""
        if not is_own(kind) or named(name_in(kind)) is not kind:
            return
        with self._lock:
            if id(kind) in self._kinds:
                return
            if len(self._kinds) >= CLASSES_MAX:
                self._kinds = {key: each for key, each in self._kinds.items() if named(name_in(each[1])) is each[1]}
            if len(self._kinds) < CLASSES_MAX:
                self.count += 1
                self._kinds[id(kind)] = (self.count, kind)
            else:
                self.left_out = self.left_out or name_in(kind)

    def behind(self, count: int) -> list[Any]:
        """Return those that were noted since there were *count*."""
        with self._lock:
            return [kind for number, kind in self._kinds.values() if number > count]


MET = MetClasses()


def name_in(kind: Any) -> str:
    """Return the name of a class as ``module:name``."""
    return f"{module_of(kind)}:{qualname_of(kind)}"


def named(name: str) -> Any:
    """Return what goes by the name ``module:name`` in this process, and call nothing; None if nothing does.

    >>> named("reliable_rx.errors:Missing"), named(name_in(int))
    (None, <class 'int'>)
    """
    module, _, path = name.partition(":")
    at: Any = sys.modules.get(module)
    for each in path.split("."):
        at = attribute(at, each) if is_a(at, ModuleType) else space_of(at).get(each) if is_a(at, type) else None
    return at


def place_of(kind: Any) -> list[tuple[dict[str, Any], str, Any]]:
    """Return the names by which *kind* is found, with what is there now: that of its module, and the first within."""
    module, _, path = name_in(kind).partition(":")
    found, name = sys.modules.get(module), path.partition(".")[0]
    if not is_a(found, ModuleType):
        return []
    return [(sys.modules, module, found), (vars(found), name, vars(found).get(name))]
