"""Values by which operators tell elements apart, and that a checkpoint does not give back equal.

What is equal to itself only because it is the same object (a tuple with a NaN, an object without ``__eq__``, a
function) is another one behind each load of a checkpoint: it is new to `distinct`, and begins a group of its own.
Pickling cannot keep that. So each checkpoint looks at some of what the rows that changed hold for comparison: plain
values pass by their type, of each other class a few are encoded, decoded and compared as the operator compares, which
is the question itself. Rejected: a look at each event (the hottest path) or row (a third of a checkpoint), rules by
class (a NaN lies anywhere, and classes lie), and as many values again at each checkpoint (to compare may be slow).
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from operator import eq
from typing import Any

from reactivex.internal.utils import NotSet

from hosting.engine.copies import by_hash, differs, odd
from hosting.engine.engine import QueryEngine
from hosting.engine.hosted_query import Standing
from hosting.engine.records import query_of
from hosting.engine.snapshot import each_row, is_live
from hosting.evaluator.group_commit import BY_VALUE
from hosting.reports.incidents import Incidents
from reliable_rx.errors import printable
from reliable_rx.interrupts import let_through
from reliable_rx.runtime.inner_sequences import Subject
from reliable_rx.runtime.instance import Instance
from reliable_rx.runtime.plan import Plan
from reliable_rx.shown import bounded_repr, cut_end

KIND = "identity"
LOOKED_AT = 8
"""How many values of a class that is not plain are looked at of each operator; behind them, one in a checkpoint."""
NEWEST = 4096
"""How many values of one state are looked at, plain ones among them."""
SHOWN_MAX = 80
ROWS, ROWS_IN_ALL = 256, 4096
"""How many rows are looked at of a query, and of all together."""
Same = Callable[[Any, Any], Any]


class IdentityKeys:
    """What one evaluator knows of queries that compare by identity."""

    def __init__(self, incidents: Incidents, engine: QueryEngine) -> None:
        self._incidents, self._engine = incidents, engine
        self._looked = defaultdict[str, Counter[tuple[str, str, int]]](Counter)
        self._plans: dict[str, Plan] = {}
        self.told: dict[str, str] = {}
        """Of each such query, what it compares."""

    def look(self, units: Collection[Any]) -> None:
        """Look at some of *units*, whose rows have been written or read: of each query, and all over them."""
        rows, now = dict[str, int](), set[tuple[str, str, int]]()
        for unit in islice(units, 0, None, 1 + len(units) // ROWS_IN_ALL):
            if unit.row_key is None:  # it lay in the row of a group, and was gone before it had its own
                continue
            name = query_of(unit.row_key)
            count = rows[name] = rows.get(name, 0) + 1
            if count <= ROWS and name not in self.told:
                self._look_at(name, unit, now)

    def look_at_first(self, queries: Iterable[Standing]) -> None:
        """Look at the first rows of *queries* that come out of a checkpoint: they may be why a replay differs."""
        self.look([unit for each in queries for unit in islice(each_row([each]), ROWS)])

    def _look_at(self, name: str, unit: Any, now: set[tuple[str, str, int]]) -> None:
        """Look at *unit*; *now* is what has been looked at since this look began."""
        for path, same, value in compared(unit):
            if (what := odd(value)) is None:
                continue
            kind = name, path, id(type(what))
            if kind in now and self._looked[name][kind] >= LOOKED_AT:
                continue
            now.add(kind)
            self._looked[name][kind] += 1
            if differs(value, same) and is_live(self._engine, unit):
                self._tell(name, path, value)
                return

    def settle(self, name: str, standing: Standing | None) -> None:
        """Forget the query *name* if it is gone or was edited."""
        if standing is None:
            self._looked.pop(name, None)
        if name in self.told and (standing is None or standing.plan is not self._plans[name]):
            del self.told[name], self._plans[name]
            self._incidents.resolve(KIND, name, now="was edited, or is gone")

    def _tell(self, name: str, path: str, value: Any) -> None:
        what = f"{path} compares values that are equal only to themselves ({short(value)})"
        self.told[name], self._plans[name] = what, self._engine.standing[name].plan
        self._incidents.report(
            KIND,
            name,
            f"{what}, and to no copy: each counts as a new one, behind a restart at the latest, and outputs may come "
            f"again; {BY_VALUE}",
            level=logging.WARNING,
            once=True,
        )


def compared(unit: Any) -> Iterator[tuple[str, Same, Any]]:
    """Yield what the row of *unit* holds for comparison: path of the operator, how it compares, the value."""
    if isinstance(unit, Subject):
        if unit.node is not None and unit.node.op.begins_again:
            yield unit.node.path, by_hash, unit.given_key
        readers = dict.fromkeys(each for _, each, _ in unit.subscribers if each is not None and each.unit is unit)
        for each in readers:
            yield from compared(each)
    elif isinstance(unit, Instance):
        if isinstance(unit, Standing):
            yield from (("/where_key", by_hash, key) for key in unit.keys)
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


def short(value: Any) -> str:
    """Show *value* in a sentence."""
    try:
        return cut_end(printable(bounded_repr(value, SHOWN_MAX)), SHOWN_MAX)
    except BaseException as raised:
        let_through(raised)
        return f"of {type(value).__name__}"
