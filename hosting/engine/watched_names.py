"""Globals that queries or sources reach, and what stood under them: one quick comparison tells whether all still hold.

They are looked at between rounds of turns, so the loop is in C: namespaces, names and values lie in three lists. Where
they are many, rounds are left out; where it takes long to see what a change means, that is put off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import is_
from time import monotonic
from types import FunctionType
from typing import Any

from reliable_rx.class_of import is_a
from reliable_rx.functions.contents import Bound, Content, Named

Space = dict[str, Any]
CODE = (FunctionType, type)
NAMES_A_ROUND = 200
"""Where more names are watched, rounds are left out, so that a round costs the same."""
PAUSE = 20.0
"""What takes long to compare is compared again after so many times as long."""


class WatchedNames:
    """The names of many plans. A global to which the code of any of them gives other data is watched for none.

    >>> space = {"rate": 2}
    >>> watched = WatchedNames()
    >>> watched.add(Content("", ((space, "rate", 2),), (), (), (), True))
    >>> watched.differ(), space.update(rate=3), watched.differ(), watched.differ()
    (False, None, True, False)
    """

    def __init__(self) -> None:
        self._found: dict[tuple[int, str], Named] = {}
        self._rebound: dict[tuple[int, str], Bound] = {}
        self._are_two = self._is_new = False
        self.is_due = False
        """Whether what reaches these names is to be compared."""
        self._left_out, self._began, self._not_before = 0, 0.0, 0.0
        self._spaces, self._names, self._values = list[Space](), list[str](), list[Any]()

    def __len__(self) -> int:
        return len(self._names)

    def add(self, content: Content) -> None:
        """Watch what a plan reaches."""
        for bound in content.rebound:
            if (key := (id(bound[0]), bound[1])) not in self._rebound:
                self._rebound[key] = bound
                self._is_new = True
        for each in content.names:
            space, name, value = each
            there = self._found.get((id(space), name))
            if there is None or there[2] is not value:
                self._are_two = self._are_two or there is not None
                self._found[id(space), name] = each
                self._is_new = True

    def reset(self, contents: Iterable[Content]) -> None:
        """Watch what these plans reach, and nothing else."""
        self._found.clear()
        self._rebound.clear()
        self._is_new = True
        for each in contents:
            self.add(each)

    def are_due(self) -> bool:
        """Whether what reaches these names is to be compared now."""
        self._left_out -= 1
        if self._left_out < 0:
            self._left_out = len(self) // NAMES_A_ROUND
            self.is_due = self.differ() or self.is_due
        if self.is_due:
            self._began = monotonic()
        return self.is_due and self._began >= self._not_before

    def compared(self) -> None:
        """Note that it was compared, which took since `are_due`."""
        self.is_due, now = False, monotonic()
        self._not_before = now + (now - self._began) * PAUSE

    def differ(self) -> bool:
        """Whether some name means something else than it did, or than when this was asked last."""
        if self._is_new:
            self._take_up()
        if all(map(is_, map(dict.get, self._spaces, self._names), self._values)) and not self._are_two:
            return False
        self._are_two = False
        self._values = [space.get(name) for space, name in zip(self._spaces, self._names, strict=True)]
        for space, name, value in zip(self._spaces, self._names, self._values, strict=True):
            self._found[id(space), name] = (space, name, value)
        return True

    def changed(self, content: Content) -> Iterator[str]:
        """Name what a plan reaches and what means something else than when it was compiled."""
        for space, name, _ in filter(self._is_watched, content.lost()):
            yield f"{space['__name__']}.{name}" if "__name__" in space else name  # of `sys.modules` it is a module

    def _is_watched(self, named: Named) -> bool:
        return (id(named[0]), named[1]) not in self._rebound or is_a(named[2], CODE)

    def _take_up(self) -> None:
        found = list(filter(self._is_watched, self._found.values()))
        self._spaces = [space for space, _, _ in found]
        self._names = [name for _, name, _ in found]
        self._values = [value for _, _, value in found]
        self._is_new = False
