"""What functions and classes reach by name, written so that it tells an edit, and does not tell what they change."""

from __future__ import annotations

import sys
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from reliable_rx.class_of import bases_of, is_a, path_of, qualname_of, space_of
from reliable_rx.functions.changing import asked_for
from reliable_rx.functions.imports import imported
from reliable_rx.functions.reach import (
    DEPTH_MAX,
    attributes,
    contents,
    found,
    globals_of,
    is_made,
    is_own,
    methods,
    names_of,
    plain_function,
)
from reliable_rx.query.canonical_text import GIVEN, NAMED, Text
from reliable_rx.query.held import derives

GROWING = "_value2member_map_"
"""Where an `enum.Flag` keeps the combinations that were met so far."""


class Reaching(Text):
    """A text of what some code reaches: other code as it is met, data when it is known what all of it changes."""

    def reach(self, root: FunctionType | type) -> None:
        """Write what *root* reaches by name in the user's modules."""
        if isinstance(root, type):
            self._within_class(root)
            return
        names, space = names_of(root), root.__globals__
        self.changes.note(root)
        for each in found(root):
            self._reached(*each)
        for name in globals_of(root.__code__):
            if (value := space.get(name)) is None or is_a(value, ModuleType):
                self.resolved.append((space, name, value))  # of a module only what is wanted of it is found
                self._resolved_of(value, names)
        for module in imported(root):
            if sys.modules.get(module.__name__) is module:  # and not of the day on which a function was stored
                self.resolved.append((sys.modules, module.__name__, module))
                self._resolved_of(module, names)
        for name in asked_for(root):
            self._reached(name, space[name], space, name)
        for value in (each for each in contents(root) if is_a(each, ModuleType) and is_own(each)):
            for each in attributes(value.__name__, value, names, 0):
                self.fixed = False
                self._reached(*each)

    def _resolved_of(self, module: ModuleType | None, names: tuple[str, ...], depth: int = 0) -> None:
        """Note what *names* lead to in *module* that is not found itself: modules, and what is not there yet."""
        space = vars(module) if module is not None and is_own(module) else {}
        for name in names:
            if name in space and ((value := space[name]) is None or (is_a(value, ModuleType) and is_own(value))):
                self.resolved.append((space, name, value))
                if depth < DEPTH_MAX:
                    self._resolved_of(value, names, depth + 1)

    def _reached(self, path: str, raw: Any, space: dict[str, Any], key: str) -> None:
        self.resolved.append((space, key, raw))
        if isinstance(plain_function(raw), (FunctionType, type)):
            self.parts.append(path)
            self.put(raw, NAMED)
        else:
            self._later.append(partial(self._data, path, raw, space, key))

    def _data(self, path: str, value: Any, space: dict[str, Any], key: str) -> None:
        """Write data under a name, unless they may change while they are used."""
        self.parts.append(path)
        if self.changes.rebinds(path, key, value):
            self.parts.append(f"{space.get('__name__')}:")
        elif self.changes.alters(key, value):
            self._put_class(type(value))
        else:
            self.told.append((path, key, value))
            self.put(value, NAMED)

    def _within_class(self, kind: type) -> None:
        self.parts.extend(qualname_of(each) for each in bases_of(kind))
        self._all(each for each in (*kind.__bases__, type(kind)) if is_own(each))
        self.parts_of_classes += [(kind, name, each) for name, each in space_of(kind).items() if name[:2] != "__"]
        for name, each in methods(kind):
            if is_a(each, FunctionType) and not name.startswith("__") and not derives(kind):
                self.changes.methods.setdefault(each, set()).add(name)
            if is_a(each, (FunctionType, type)):
                self.parts.append(f"{name}: {type(vars(kind)[name]).__name__}")
                self.put(each, GIVEN if is_made(kind) else NAMED)
        self._later.append(partial(self._attributes, kind))

    def _attributes(self, value: Any) -> None:
        """Write the data of a class, or of an object that is named, that the code at hand names and does not set."""
        is_class = is_a(value, type)
        for name, each in sorted(methods(value) if is_class else self.facts_of(value).held(value).items(), key=_name):
            if is_class and name == GROWING:
                continue
            if not is_class and not self.changes.wants(name):
                self.skipped.add(name)
            elif not self.changes.changes(None, name, each):
                self.told.append((None, name, each))
                self.parts.append(name)
                self.put(each, NAMED)

    def _put_class(self, kind: type) -> None:
        self.parts.append(path_of(kind))
        if is_own(kind):
            self.put(kind)

    def _put_class_of(self, value: object) -> None:
        facts = self.facts_of(value)
        self.parts.append(facts.path)
        if facts.own:
            self.put(facts.kind)


def _name(item: tuple[str, Any]) -> str:
    return item[0]
