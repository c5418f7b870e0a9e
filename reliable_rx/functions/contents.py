"""The content of a plan together with what it was read off, so that it is cheap to ask later whether it still holds.

The hash of a plan covers what its functions reach by name, and names are given other meanings while a process runs: a
cell of a notebook is run again, a module is reloaded, a table is filled. So a content that is remembered says under
which names it was found. Where these mean what they meant, and nothing in it can change by itself, it is what it was.
Rejected: hashing at every creation (a hundred times as slow as what the creation of a known plan takes), versions of
namespaces (Python does not show them).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

from reliable_rx.class_of import is_a
from reliable_rx.errors import QueryRefused
from reliable_rx.functions.replaced_classes import generation_of
from reliable_rx.query.identity import Writing
from reliable_rx.query.query import Node

Named = tuple[dict[str, Any], str, Any]
"""A namespace, a name in it, and what stood there."""
Bound = tuple[dict[str, Any], str]
"""A namespace, and a name in it."""


class Content(NamedTuple):
    """A hash of what a plan does, as it was when it was read."""

    digest: str
    names: tuple[Named, ...]
    """The globals that it reaches."""
    rebound: tuple[Bound, ...]
    """The globals to which its code gives other values."""
    modules: tuple[tuple[str, int], ...]
    """The modules of its functions, and how often classes of these had been replaced."""
    writings: tuple[Any, ...]
    is_fixed: bool
    """Whether it is what it was for as long as all names mean what they meant."""

    @property
    def holds(self) -> bool:
        """Whether it is known without reading it again that this is what the plan does."""
        return self.is_fixed and all(each.holds for each in self.writings)

    @property
    def names_hold(self) -> bool:
        """Whether the globals mean what they meant."""
        return next(self.lost(), None) is None

    def lost(self) -> Iterator[Named]:
        """Yield the globals that mean something else than they did."""
        return (each for each in self.names if each[0].get(each[1]) is not each[2])

    def has_other_classes(self, now: Content) -> bool:
        """Whether other classes are in the place of some that there were: values of the one are none of the other."""
        there = dict(now.modules)
        return any(there.get(name, generation) != generation for name, generation in self.modules)

    @property
    def classes_hold(self) -> bool:
        """Whether the classes of its modules are those that there were."""
        return all(generation_of(name) == generation for name, generation in self.modules)


def content(node: Node) -> Content:
    """Read what the plan does. *Raises* `QueryRefused` for what reaches a million objects, or sets within many sets.

    >>> import reliable_rx as rx
    >>> found = content(rx.source("n").map(lambda n: n + 1).node)
    >>> found.holds, found.digest == content(rx.source("n").map(lambda n: n + 1).node).digest
    (True, True)
    """
    writing = Writing()
    writing.plan(node)
    try:
        digest = writing.digest()
    except RecursionError as error:
        raise QueryRefused(
            "a set that the query holds is nested too deeply to be told from another one: put a tuple, a list or a "
            "dict into its place, or have it made inside the function",
            path="/",
        ) from error
    within = tuple([each.writing for each in writing.reaches])
    rebound = tuple(
        {(id(space), name): (space, name) for one in within for space, name in one.changes.binds()}.values()
    )
    names = tuple([each for one in within for each in one.resolved])
    is_fixed = writing.fixed and all(each.fixed for each in within)
    modules = tuple([(name, generation_of(name)) for name in sorted(_modules((writing, *within)))])
    return Content(digest, names, rebound, modules, within if is_fixed else (), is_fixed)


def _modules(writings: Iterable[Writing]) -> set[str]:
    """Return the modules that functions are of, and the main one, where elements may be of classes that none names."""
    functions = (each for one in writings for each in one.kept if is_a(each, FunctionType))
    return {name for each in functions if type(name := each.__globals__.get("__name__")) is str} | {"__main__"}
