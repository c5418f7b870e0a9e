"""What a value is to a copy of itself: a checkpoint gives back copies, and not all of them are equal.

What is equal to itself only because it is the same object (a tuple with a NaN, an object without ``__eq__``, a
function) is another one behind each load. Plain values are known by their type; of others one is encoded, decoded and
compared, which is the question itself. Rejected: rules by class (a NaN lies anywhere, and classes lie).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from datetime import date, datetime, timedelta
from typing import Any

from checkpoint.format.codec import decode, encode
from reliable_rx.class_of import ids_of
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.inner_sequences import OwnKey

PLACES_MAX = 200
"""A tuple with more places, those of the tuples within counted, is not looked at: to compare it may take for ever."""
ATOMS = ids_of((int, str, bytes, bool, type(None), date, datetime, timedelta))
Same = Callable[[Any, Any], Any]


def key_of(engine: Any, key: Hashable) -> Hashable:
    """Return *key* as that of a new group: one of its own for what no copy of it equals.

    Else a row that is read again would be found by nothing that refers to it, and a group whose key is written alike
    would take its place.
    """
    return OwnKey(key, engine.order()) if odd(key) is not None and differs(key, by_hash) else key


def odd(value: Any) -> Any:
    """Return what of *value* is not compared by what it is, as far as types say: the first such place; None if all is.

    >>> odd(("a", 1.5)), odd(("a", float("nan"))), odd(Exception)
    (None, nan, <class 'Exception'>)
    """
    return None if is_plain(value) else next((each for each in parts(value) if not is_plain(each)), None)


def is_plain(value: Any) -> bool:
    """Whether *value*, which is no tuple, is compared by what it is."""
    return id(type(value)) in ATOMS or (type(value) is float and value == value)


def parts(value: Any) -> Iterator[Any]:
    """Yield *value*, or what lies in a tuple and the tuples within: nothing of one that has very many places."""
    found, waiting = [], [value]
    while waiting:
        each = waiting.pop()
        if type(each) is not tuple:
            found.append(each)
        elif len(found) + len(waiting) + len(each) > PLACES_MAX:
            return
        else:
            waiting += each
    yield from found


def by_hash(one: Any, other: Any) -> bool:
    """Whether a dict or set takes *other* for *one*, which it has."""
    return one is other or (hash(one) == hash(other) and bool(one == other))


def differs(value: Any, same: Same) -> bool:
    """Whether *value* is the *same* as itself, and not as what a checkpoint makes of it; False where that is not known.

    >>> from operator import eq
    >>> differs(("a", float("nan")), eq), differs(float("nan"), eq), differs(float("nan"), by_hash)
    (True, False, True)
    """
    try:
        return bool(same(value, value)) and not same(value, decode(encode(value)))
    except BaseException as raised:  # what is the user's compares, and is taken apart
        let_through(raised)
        return False
