"""Values by which operators tell elements apart, and that a checkpoint does not give back equal.

What is equal to itself only because it is the same object (a tuple with a NaN, an object without ``__eq__``, a
function) is another one behind each load of a checkpoint: it is new to `distinct`, and begins a group of its own.
Pickling cannot keep that. So some of what a row holds for comparison is looked at when the row is written: plain values
pass by their type, another is encoded, decoded and compared as the operator compares, which is the question itself.
Rejected: a look at each event (the hottest path), and rules by class (a NaN lies anywhere, and classes lie).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from operator import eq
from typing import TYPE_CHECKING, Any

from reactivex.internal.utils import NotSet

from checkpoint.codec import decode, encode
from hosting.incidents import Incidents
from hosting.records import query_of
from reliable_rx.class_of import ids_of
from reliable_rx.errors import printable
from reliable_rx.instance import Instance
from reliable_rx.interrupts import let_through
from reliable_rx.plan import Plan
from reliable_rx.shown import bounded_repr, cut_end
from reliable_rx.subject import Subject

if TYPE_CHECKING:
    from hosting.standing import Standing

KIND = "identity"
LOOKED_AT = 256
"""How many values that are not plain are looked at of each operator and checkpoint."""
PLACES_MAX = 200
"""A tuple with more places, those of the tuples within counted, is not looked at: to compare it may take for ever."""
NEWEST = 4096
"""How many values of one state are looked at, plain ones among them."""
SHOWN_MAX = 80
ROWS, EACH = 256, 64
"""How many rows of a query are looked at in a checkpoint, and which of the others: a row costs less than a look."""
ATOMS = ids_of((int, str, bytes, bool, type(None)))
REMEDY = "map it to what compares by value: None for a NaN, an id or a frozen dataclass for an object"
Same = Callable[[Any, Any], Any]


class IdentityKeys:
    """What one evaluator knows of queries that compare by identity."""

    def __init__(self, incidents: Incidents, standing: Mapping[str, Standing]) -> None:
        self._incidents, self._standing = incidents, standing
        self._looked = Counter[tuple[str, str]]()
        self._rows = dict[str, int]()
        self._plans: dict[str, Plan] = {}
        self.told: dict[str, str] = {}
        """Of each such query, what it compares."""

    def begin(self) -> Callable[[str, Any], None]:
        """Return `look` for another checkpoint, which looks at as many values again."""
        self._looked.clear()
        self._rows.clear()
        return self.look

    def look(self, name: str, unit: Any) -> None:
        """Look at what is compared in the row of *unit*, which is part of the query *name*, or pass it by."""
        count = self._rows[name] = self._rows.get(name, -1) + 1
        if (count >= ROWS and count % EACH) or name in self.told:
            return
        for path, same, value in chain(compared(unit), self._routed(name, unit)):
            if is_plain(value) or self._looked[name, path] >= LOOKED_AT:
                continue
            self._looked[name, path] += 1
            if differs(value, same):
                self._tell(name, path, value)
                return

    def look_at_all(self, units: Iterable[Any]) -> None:
        """Look at some *units* that come out of a checkpoint: they may be why a replay gives something else."""
        self.begin()
        for unit in islice(units, NEWEST):
            self.look(query_of(unit.row_key), unit)

    def settle(self, name: str, standing: Standing | None) -> None:
        """Forget the query *name* if it is gone or was edited."""
        if name in self.told and (standing is None or standing.plan is not self._plans[name]):
            del self.told[name], self._plans[name]
            self._incidents.resolve(KIND, name, now="was edited, or is gone")

    def _routed(self, name: str, unit: Any) -> Iterator[tuple[str, Same, Any]]:
        """Yield the key by which events are routed to the query *name*, if *unit* is its own row."""
        standing = self._standing.get(name)
        if standing is not None and unit is standing:
            yield from (("/where_key", by_hash, key) for key in standing.keys)

    def _tell(self, name: str, path: str, value: Any) -> None:
        what = f"{path} compares values that are equal only to themselves ({short(value)})"
        self.told[name], self._plans[name] = what, self._standing[name].plan
        self._incidents.report(
            KIND,
            name,
            f"{what}, and to no copy: behind a restart it takes the same one for a new one, and outputs may come "
            f"again; {REMEDY}",
            level=logging.WARNING,
            once=True,
        )


def compared(unit: Any) -> Iterator[tuple[str, Same, Any]]:
    """Yield what the row of *unit* holds for comparison: path of the operator, how it compares, the value."""
    if isinstance(unit, Subject):
        if unit.node is not None and unit.node.op.begins_again:
            yield unit.node.path, by_hash, unit.key
        readers = dict.fromkeys(each for _, each, _ in unit.subscribers if each is not None and each.unit is unit)
        for each in readers:
            yield from compared(each)
    elif isinstance(unit, Instance) and unit.plan.comparing:
        for node in unit.plan.comparing:
            state = unit.states[node.slot] if node.slot >= 0 else None
            for name, how in node.op.compares.items():
                holder = next((each for each in (state, node.op) if hasattr(each, name)), None)
                if holder is None:  # a state that could not be read, or a parameter that every plan has of its own
                    continue
                same = by_hash if how == "keys" else getattr(node.op, "comparer", None) or eq
                for value in values_of(getattr(holder, name), how):
                    yield node.path, same, value


def values_of(held: Any, how: str) -> Iterable[Any]:
    """Return the newest of what a field *held* holds for comparison."""
    if how == "value":
        return () if held is NotSet else (held,)
    return islice(reversed(held) if type(held) in (dict, list, deque) else held, NEWEST)


def is_plain(value: Any) -> bool:
    """Whether *value* is compared by what it is, as its type and those of the items of a tuple say at once.

    >>> is_plain(("a", 1.5)), is_plain(float("nan")), is_plain(object())
    (True, False, False)
    """
    return all(id(type(each)) in ATOMS or (type(each) is float and each == each) for each in parts(value))


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

    >>> differs(("a", float("nan")), eq), differs(float("nan"), eq), differs(float("nan"), by_hash)
    (True, False, True)
    """
    try:
        return bool(same(value, value)) and not same(value, decode(encode(value)))
    except BaseException as raised:  # what is the user's compares, and is taken apart
        let_through(raised)
        return False


def short(value: Any) -> str:
    """Show *value* in a sentence."""
    try:
        return cut_end(printable(bounded_repr(value, SHOWN_MAX)), SHOWN_MAX)
    except BaseException as raised:
        let_through(raised)
        return f"of {type(value).__name__}"
