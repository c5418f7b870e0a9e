"""Digest of builtin containers that have very many parts because a few are held again and again.

A list of one list twice, which is so too, and so on, is small in memory and has 2 ** n parts. To write out such a value
takes memory and time without end, so it is recognised by its parts level by level, and its digest is made of those of
its containers, each once. Which of equal parts are one object does not matter: the number of parts and the digest are
those of a value that shares nothing. Rejected: to fail the query (nothing else of the library is hurt by such a value:
pickle writes each part once), to digest the type alone (what a replay gives otherwise would not be seen), and to count
parts one by one (ten times slower than `marshal` for every value with containers in containers).
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Sequence
from enum import Enum
from gc import get_referents
from hashlib import blake2b
from itertools import chain
from typing import Any

CONTAINERS = frozenset((tuple, list, dict, set, frozenset))
ATOMS = frozenset((type(None), bool, int, float, complex, str, bytes, type(...)))
_PLAIN = CONTAINERS | ATOMS
PARTS_MAX = 1_000_000
"""So many parts are written out; of more, each container is digested once."""
STREAMED_MIN = 32
"""Of fewer values a pickler costs more to make than it saves."""
_LEVELS_MAX = 2_000
"""`marshal` writes nothing deeper."""
_PLAIN_LEVELS_MAX = 10
_SETS_LEVELS_MAX = 10
"""So deep a set may lie: `marshal` writes all in it twice to have it in order, a set of sets in it four times…"""
_SETS = frozenset((set, frozenset))
_SLICE = 128
"""So many values are taken apart at once: what they hold is met again for each, and may be long."""


_FLAT = ATOMS | {tuple, list, dict}


class NotPlain(TypeError):
    """A value holds something besides builtin containers and scalars, or itself."""


class Shape(Enum):
    """What is known of values before any is written out."""

    PLAIN = "few parts, no sets, not deep, and many values"
    FEW = "few parts"
    MANY = "more parts than can be written out"


PLAIN, FEW, MANY = Shape  # a member costs ten times as much when it is asked of its class, as for each output


def shape_of(values: Sequence[Any]) -> Shape:
    """Look at what builtin containers in *values* hold, level by level, as far as it may be.

    >>> twice = [0]
    >>> for _ in range(40):
    ...     twice = [twice, twice]
    >>> [shape_of(values).name for values in ([twice], [[[0]]] * 100, [{1}] * 100)]
    ['MANY', 'PLAIN', 'FEW']
    """
    level, count, plain = values, 0, len(values) >= STREAMED_MIN
    if not _hold_something(values):  # `marshal` writes numbers faster, a pickler texts
        return PLAIN if plain and values and type(values[-1]) is str else FEW
    if is_flat(values):
        return PLAIN if plain else FEW
    for depth in range(_LEVELS_MAX):
        below: list[Any] = []
        for start in range(0, len(level), _SLICE):
            some = level[start : start + _SLICE]
            held = get_referents(*some)
            if held:
                if depth > _SETS_LEVELS_MAX and not _SETS.isdisjoint(map(type, some)):
                    return MANY
                if not _FLAT.issuperset(map(type, some)):  # an object holds its class, and that holds everything
                    held, plain = get_referents(*[each for each in some if type(each) in CONTAINERS]), False
                below += held
                if count + len(below) > PARTS_MAX:
                    return MANY
        if not below:
            return PLAIN if plain and depth <= _PLAIN_LEVELS_MAX else FEW
        level, count = below, count + len(below)
    return FEW


def is_flat(values: Sequence[Any]) -> bool:
    """Whether *values* are scalars, and tuples, lists and dictionaries of scalars, or of what holds nothing else.

    >>> is_flat([1, "a", (2, 3.0), {"a": None}]), is_flat([{1}]), is_flat([((),)]), is_flat([((1,),)])
    (True, False, True, False)
    """
    count = 0
    for start in range(0, len(values), _SLICE):
        some = values[start : start + _SLICE]
        held = get_referents(*some)
        if held:
            count += len(held)
            if count > PARTS_MAX or not _FLAT.issuperset(map(type, some)) or _hold_something(held):
                return False
    return True


def _hold_something(values: Sequence[Any]) -> bool:
    return any(get_referents(*values[start : start + _SLICE]) for start in range(0, len(values), _SLICE))


def digest_of_parts(values: list[Any]) -> bytes:
    """Return what is equal for equal *values*, in time for what is in memory of them.

    *Raises* `NotPlain` for what is neither a builtin container nor a scalar, and for cycles.
    """
    known: dict[int, tuple[bytes]] = {}
    waiting: list[tuple[Any, Iterator[Any]]] = [(values, _containers(values))]
    within = {id(values)}
    while waiting:
        at, left = waiting[-1]
        for each in left:
            if id(each) in known:
                continue
            if id(each) in within:
                raise NotPlain("a value that holds itself")
            within.add(id(each))
            waiting.append((each, _containers(each)))
            break
        else:
            waiting.pop()
            within.discard(id(at))
            known[id(at)] = (_digest_of(at, known),)
    return known[id(values)][0]


def _containers(value: Any) -> Iterator[Any]:
    return (each for each in _parts(value) if type(each) in CONTAINERS)


def _parts(value: Any) -> Any:
    return chain(value, value.values()) if type(value) is dict else value


def _digest_of(value: Any, known: dict[int, tuple[bytes]]) -> bytes:
    """Return the digest of a container whose containers are *known*: those are tuples, which no scalar is."""
    parts = list(_parts(value))
    kinds = set(map(type, parts))
    if not kinds <= _PLAIN:
        raise NotPlain("a value that marshal does not take, or takes as bytes")
    if not CONTAINERS.isdisjoint(kinds):
        parts = [known[id(each)] if type(each) in CONTAINERS else each for each in parts]
    if type(value) in (set, frozenset):
        parts = sorted(marshal.dumps(each, 2) for each in parts)
    return blake2b(marshal.dumps((type(value).__name__, parts), 2), digest_size=16).digest()
