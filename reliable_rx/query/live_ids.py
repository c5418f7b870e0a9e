"""Texts that a library writes of its objects, without addresses: `id` names an object in one process only.

A schema refers to a class as ``shop.Order:94657863779504``; a class that is not written in Python shows ``Py(0x7f…)``.
A number counts as an address only if an object that is alive has it. Rejected: to leave out every long number, which
may be what a table holds.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Set as AbstractSet
from itertools import chain, starmap

NUMBER = re.compile(r"[0-9](?:(?<=0)x0*([0-9a-fA-F]{6,16})\b|(?<=[1-9])(?<![\w.].)\d{7,19}(?![\w.]))")
"""It begins with a plain set of characters, which is looked for several times as fast as two alternatives are."""
ADDRESS = "@"
SET = re.compile(r"\{([^{}]*)\}")


class LiveIds:
    """The addresses of the objects that are alive when one is asked for."""

    def __init__(self) -> None:
        self._known: AbstractSet[int] | None = None

    def without(self, text: str) -> str:
        """Return *text* with a sign for each number that is an address.

        >>> LiveIds().without(f"int:{id(int)}, 123456789012, Py(0x{id(int):016x})")
        'int:@, 123456789012, Py(@)'
        """
        return NUMBER.sub(self._sign, text)

    def _sign(self, found: re.Match[str]) -> str:
        return ADDRESS if self.has(int(found[1], 16) if found[1] else int(found[0])) else found[0]

    def has(self, number: int) -> bool:
        """Whether an object that is alive has this address."""
        if self._known is None:
            self._known = _ids()
        return number in self._known


def in_one_order(text: str) -> str:
    """Return what an object shows of itself with its sets in one order: theirs is another one in each process.

    >>> in_one_order("Names({'b', 'a'}, {'b': 1, 'a': 2})")
    "Names({'a', 'b'}, {'b': 1, 'a': 2})"
    """
    return SET.sub(_in_order, text)


def _ids() -> AbstractSet[int]:
    """Return the addresses of all objects that refer to others, and of the classes that Python itself is made of.

    All are asked for and let go of within one call of Python's own, so that no thread runs meanwhile: one that makes a
    tuple out of a generator raises `SystemError` where another has a reference to it.
    """
    found = set(map(id, chain.from_iterable(starmap(gc.get_objects, [()]))))
    classes: list[type] = [object]
    while classes:
        kind = classes.pop()
        found.add(id(kind))
        classes += type.__subclasses__(kind)
    return found


def _in_order(found: re.Match[str]) -> str:
    """Return the items of a set in order, and a dict as it is."""
    items = found[1].split(", ")
    return found[0] if any(": " in each for each in items) else f"{{{', '.join(sorted(items))}}}"
