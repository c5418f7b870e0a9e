"""Digests of long plain data, made by C code: builtin containers of builtin scalars, such as a reference table.

To write each part of a table of a million rows takes a minute and some gigabytes, and says no more. `marshal` of
version 2 writes neither references nor what is interned, sorts sets, and is the same in each Python; what is no plain
data is found first, level by level. Rejected: pickle (its memo tells which texts are one object).
"""

from __future__ import annotations

import hashlib
import marshal
from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any, NamedTuple

from reliable_rx.class_of import ids_of, is_a
from reliable_rx.query.live_ids import ADDRESS, LiveIds

LONG = 100
"""So many items make it worth while to look for plain data."""
ITEMS_MAX, DEPTH_MAX = 20_000_000, 50
"""What has more when it is written out is no table: it may hold one list at many places, or itself."""
ADDRESS_MIN = 1 << 24
_AT_ONCE = 10_000
_FORMAT = 2
_SCALARS = ids_of((int, float, complex, str, bytes, bool, type(None), type(...)))
_FIXED, _CHANGING = ids_of((tuple, frozenset)), ids_of((list, dict, set))


class Table(NamedTuple):
    """What is known of plain data: a digest of all values, and whether it can never change."""

    digest: str
    fixed: bool


def table_of(value: Collection[Any], ids: LiveIds | None = None) -> Table | None:
    """Return the digest of a container if it holds plain data; None if not. With *ids*, of what a library has made.

    >>> table_of([1, "a"]) == table_of([1, "a"]), table_of([1, "a"]) == table_of([1, "b"]), table_of([object()])
    (True, False, None)
    """
    is_set = is_a(value, (set, frozenset))
    parts = _parts(value)
    kinds = _kinds(parts)
    if kinds is None or (ids is not None and not kinds <= _SCALARS):
        return None
    if ids is not None:
        parts = _without_addresses(parts, ids)
    found = hashlib.blake2b(digest_size=16)
    if is_set:
        found.update(marshal.dumps(frozenset(parts), _FORMAT))
    else:
        for start in range(0, len(parts), _AT_ONCE):
            found.update(marshal.dumps(parts[start : start + _AT_ONCE], _FORMAT))
    return Table(f"table:{found.hexdigest()}", is_a(value, (tuple, frozenset)) and kinds.isdisjoint(_CHANGING))


def _parts(value: Any) -> list[Any]:
    return [*value, *value.values()] if is_a(value, dict) else [*value]


def _kinds(parts: list[Any]) -> set[int] | None:
    """Return the ids of the classes of all that *parts* hold; None if they are not plain data."""
    found: set[int] = set()
    count = 0
    for _ in range(DEPTH_MAX):
        count += len(parts)
        kinds = set(map(id, map(type, parts)))
        found |= kinds
        held = kinds - _SCALARS
        if not held:
            return found
        if not held <= _FIXED | _CHANGING:
            return None
        containers = [each for each in parts if id(type(each)) in held]
        if count + sum(map(len, containers)) > ITEMS_MAX:
            return None
        parts = list(chain.from_iterable(map(_items, containers)))
    return None


def _items(container: Any) -> Iterable[Any]:
    return chain(container, container.values()) if type(container) is dict else container


def _without_addresses(parts: list[Any], ids: LiveIds) -> list[Any]:
    """Return scalars with a sign for what may be an address of this process."""
    text = "\0".join(each for each in parts if type(each) is str)
    has_number = any(type(each) is int and each >= ADDRESS_MIN and ids.has(each) for each in parts)
    if not has_number and ids.without(text) == text:
        return parts
    return [_without_address(each, ids) for each in parts]


def _without_address(value: Any, ids: LiveIds) -> Any:
    if type(value) is str:
        return ids.without(value)
    return ADDRESS if type(value) is int and value >= ADDRESS_MIN and ids.has(value) else value
